//! The Toeplitz hash, with a table for each byte of the input.
//!
//! A bit of the input that is set contributes 32 bits of the key, from the bit's own place on. What
//! the eight bits of a byte contribute together depends on the byte and its place alone, so it is
//! looked up: 36 tables of 1 KiB, made once for a key.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::fields::{Fields, INPUT_BYTES_MAX, Input, Symmetry};
use super::key::Key;
use crate::flow::Flow;

/// The hash with one key.
#[derive(Clone)]
pub struct Toeplitz {
    /// By place and value of a byte.
    tables: Vec<[u32; 256]>,
}

impl Toeplitz {
    /// With this key.
    #[must_use]
    pub fn new(key: &Key) -> Self {
        let table = |place: usize| {
            let mut table = [0; 256];
            for value in 1..256_usize {
                // The lowest bit that is set, and a smaller value whose entry is known.
                let bit = value.trailing_zeros() as usize;
                table[value] = table[value & (value - 1)] ^ key.window(place * 8 + 7 - bit);
            }
            table
        };
        Self { tables: (0..INPUT_BYTES_MAX).map(table).collect() }
    }

    /// What each byte of the input contributes, by its place and its value: 36 places.
    #[must_use]
    pub fn tables(&self) -> &[[u32; 256]] {
        &self.tables
    }

    /// The hash of a flow.
    #[must_use]
    pub fn hash<A: Into<IpAddr>>(&self, flow: Flow<A>, fields: Fields, symmetry: Symmetry) -> u32 {
        self.hash_at(0, Input::of(flow, fields, symmetry).bytes())
    }

    /// What these bytes, from `place` of the input on, contribute. Bytes beyond the longest input
    /// contribute nothing.
    fn hash_at(&self, place: usize, bytes: &[u8]) -> u32 {
        let tables = self.tables.iter().skip(place);
        tables.zip(bytes).fold(0, |hash, (table, byte)| hash ^ table[usize::from(*byte)])
    }

    /// The sum of the contributions of ports, without those of the addresses: the hash is linear,
    /// so flows that differ in their ports alone need nothing else anew. Only where fields are
    /// hashed as they are.
    #[must_use]
    pub(super) fn ports(&self, is_ipv6: bool, ports: [u16; 2]) -> u32 {
        let place = if is_ipv6 { 32 } else { 8 };
        let [src, dst] = ports.map(u16::to_be_bytes);
        self.hash_at(place, &[src[0], src[1], dst[0], dst[1]])
    }
}

impl core::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, SocketAddr};

    use proptest::prelude::*;

    use super::*;

    /// The values in Microsoft's documentation: destination, source, hash of addresses, hash of
    /// addresses and ports.
    const VECTORS: [(&str, &str, u32, u32); 8] = [
        ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
        ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
        ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
        ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
        ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
        ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
        (
            "[fe80::200:f8ff:fe21:67cf]:38024",
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    fn flow(src: SocketAddr, dst: SocketAddr) -> Flow<IpAddr> {
        Flow { src: src.ip(), dst: dst.ip(), src_port: src.port(), dst_port: dst.port() }
    }

    #[test]
    fn microsofts_sixteen_values() {
        let toeplitz = Toeplitz::new(&Key::microsoft());
        for (dst, src, addresses, all) in VECTORS {
            let flow = flow(src.parse().unwrap(), dst.parse().unwrap());
            let hash = |fields| toeplitz.hash(flow, fields, Symmetry::None);
            assert_eq!(hash(Fields::TwoTuple), addresses, "{flow}");
            assert_eq!(hash(Fields::FourTuple), all, "{flow}");
        }
    }

    /// The definition, bit by bit.
    fn by_definition(key: &Key, bytes: &[u8]) -> u32 {
        let bit = |index: usize| bytes[index / 8] >> (7 - index % 8) & 1 == 1;
        (0..bytes.len() * 8).filter(|index| bit(*index)).fold(0, |h, index| h ^ key.window(index))
    }

    fn flows() -> impl Strategy<Value = Flow<IpAddr>> {
        let v4 = any::<([u8; 4], [u8; 4])>().prop_map(|(s, d)| (IpAddr::from(s), IpAddr::from(d)));
        let v6 = any::<([u8; 16], [u8; 16])>();
        let v6 = v6.prop_map(|(s, d)| (IpAddr::from(s), IpAddr::from(d)));
        (prop_oneof![v4, v6], any::<(u16, u16)>())
            .prop_map(|((src, dst), (src_port, dst_port))| Flow { src, dst, src_port, dst_port })
    }

    fn symmetries() -> impl Strategy<Value = Symmetry> {
        prop_oneof![Just(Symmetry::None), Just(Symmetry::Xor), Just(Symmetry::OrXor)]
    }

    proptest! {
        #[test]
        fn tables_are_the_definition(
            flow in flows(),
            bytes in proptest::collection::vec(any::<u8>(), 40..=52),
            symmetry in symmetries(),
            fields in prop_oneof![Just(Fields::TwoTuple), Just(Fields::FourTuple)],
        ) {
            let key = Key::new(&bytes).unwrap();
            let input = Input::of(flow, fields, symmetry);
            let hash = Toeplitz::new(&key).hash(flow, fields, symmetry);
            prop_assert_eq!(hash, by_definition(&key, input.bytes()));
        }

        #[test]
        fn symmetric_inputs_hash_both_directions_alike(flow in flows(), seed in any::<u64>()) {
            let key = Key::random(seed, 40, 128).unwrap().0;
            let toeplitz = Toeplitz::new(&key);
            let back = Flow {
                src: flow.dst, dst: flow.src, src_port: flow.dst_port, dst_port: flow.src_port,
            };
            for symmetry in [Symmetry::Xor, Symmetry::OrXor] {
                for fields in [Fields::TwoTuple, Fields::FourTuple] {
                    let there = toeplitz.hash(flow, fields, symmetry);
                    prop_assert_eq!(there, toeplitz.hash(back, fields, symmetry));
                }
            }
        }

        #[test]
        fn ports_are_the_difference(flow in flows()) {
            let toeplitz = Toeplitz::new(&Key::microsoft());
            let all = toeplitz.hash(flow, Fields::FourTuple, Symmetry::None);
            let addresses = toeplitz.hash(flow, Fields::TwoTuple, Symmetry::None);
            let ports = toeplitz.ports(flow.src.is_ipv6(), [flow.src_port, flow.dst_port]);
            prop_assert_eq!(all, addresses ^ ports);
        }
    }
}
