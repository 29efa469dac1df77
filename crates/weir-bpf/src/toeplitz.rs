//! The Toeplitz hash of many flows at once, by carry-less multiplication where the CPU has it.
//!
//! A bit of the input that is set contributes 32 bits of the key, from the bit's own place on. For
//! the 32 bits of a word, that is a product without carry of the word with the 64 bits of the key
//! from its place on, of which 32 bits in the middle count: with the key's bits in reverse, because
//! the word's first bit is its highest, and the hash's bits then come in reverse, too. Without such
//! an instruction the hash is looked up byte by byte ([`weir_wire::rss::Toeplitz`]): the same,
//! slower for IPv6.

use core::net::{Ipv4Addr, Ipv6Addr};

use weir_wire::flow::Flow;
use weir_wire::rss::{Fields, Key, Symmetry, Toeplitz};

use crate::sys;

/// Words of an IPv4 packet's addresses and ports, and of an IPv6 packet's.
const WORDS_V4: usize = 3;
const WORDS_V6: usize = 9;

/// Flows that are hashed at a time, so that their words stay in the CPU's nearest cache.
const BATCH: usize = 128;

/// The hash with one key, of addresses and ports as they are.
#[derive(Debug, Clone)]
pub struct BatchToeplitz {
    /// The 64 bits from each word's place on, in reverse.
    keys: [u64; WORDS_V6],
    table: Toeplitz,
}

/// How hashes are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By carry-less multiplication.
    Multiplication,
    /// Byte by byte, from tables.
    Tables,
}

impl BatchToeplitz {
    /// With this key.
    #[must_use]
    pub fn new(key: &Key) -> Self {
        // Bytes beyond the key are zeros.
        let byte = |at: usize| u64::from(key.bytes().get(at).copied().unwrap_or(0));
        let window = |word: usize| {
            let bits: u64 = (0..8).fold(0, |bits, next| bits << 8 | byte(4 * word + next));
            bits.reverse_bits()
        };
        Self { keys: core::array::from_fn(window), table: Toeplitz::new(key) }
    }

    /// The hashes of flows over IPv4, one for each; says how.
    ///
    /// # Panics
    /// If there is not as much room as there are flows.
    pub fn hash_v4(&self, flows: &[Flow<Ipv4Addr>], hashes: &mut [u32]) -> Method {
        let mut keys = [0; WORDS_V4];
        keys.copy_from_slice(&self.keys[..WORDS_V4]);
        let words = |flow: &Flow<Ipv4Addr>| {
            [flow.src.to_bits(), flow.dst.to_bits(), ports(flow.src_port, flow.dst_port)]
        };
        let table = |flow| self.table.hash(flow, Fields::FourTuple, Symmetry::None);
        batches(flows, hashes, &keys, words, table)
    }

    /// The hashes of flows over IPv6, one for each; says how.
    ///
    /// # Panics
    /// As [`BatchToeplitz::hash_v4`].
    pub fn hash_v6(&self, flows: &[Flow<Ipv6Addr>], hashes: &mut [u32]) -> Method {
        // Word by word: byte by byte takes several times as long as the products.
        let word = |bytes: &[u8; 16], at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let words = |flow: &Flow<Ipv6Addr>| {
            let (src, dst) = (flow.src.octets(), flow.dst.octets());
            let [s0, s1, s2, s3] = [0, 4, 8, 12].map(|at| word(&src, at));
            let [d0, d1, d2, d3] = [0, 4, 8, 12].map(|at| word(&dst, at));
            [s0, s1, s2, s3, d0, d1, d2, d3, ports(flow.src_port, flow.dst_port)]
        };
        let table = |flow| self.table.hash(flow, Fields::FourTuple, Symmetry::None);
        batches(flows, hashes, &self.keys, words, table)
    }
}

const fn ports(src: u16, dst: u16) -> u32 {
    (src as u32) << 16 | dst as u32
}

fn batches<A: Copy, const N: usize>(
    flows: &[Flow<A>],
    hashes: &mut [u32],
    keys: &[u64; N],
    words: impl Fn(&Flow<A>) -> [u32; N],
    table: impl Fn(Flow<A>) -> u32,
) -> Method {
    assert_eq!(flows.len(), hashes.len(), "a hash for each flow");
    let mut inputs = [[0; N]; BATCH];
    for (flows, hashes) in flows.chunks(BATCH).zip(hashes.chunks_mut(BATCH)) {
        for (input, flow) in inputs.iter_mut().zip(flows) {
            *input = words(flow);
        }
        let is_done = sys::carryless_sums(&inputs[..flows.len()], keys, hashes).is_some();
        for (hash, flow) in hashes.iter_mut().zip(flows) {
            *hash = if is_done { hash.reverse_bits() } else { table(*flow) };
        }
    }
    method()
}

/// How this CPU computes hashes.
#[must_use]
pub fn method() -> Method {
    let mut none = [];
    match sys::carryless_sums::<1>(&[], &[0], &mut none) {
        Some(()) => Method::Multiplication,
        None => Method::Tables,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flows<A: From<[u8; N]> + std::fmt::Debug, const N: usize>()
    -> impl Strategy<Value = Vec<Flow<A>>> {
        let bytes = || proptest::collection::vec(any::<u8>(), N);
        let address = |bytes: Vec<u8>| {
            let mut address = [0; N];
            address.copy_from_slice(&bytes);
            A::from(address)
        };
        let flow = (bytes(), bytes(), any::<u16>(), any::<u16>()).prop_map(
            move |(src, dst, src_port, dst_port)| {
                let (src, dst) = (address(src), address(dst));
                Flow { src, dst, src_port, dst_port }
            },
        );
        proptest::collection::vec(flow, 0..300)
    }

    proptest! {
        #[test]
        fn a_batch_has_the_hashes_of_the_tables(
            v4 in flows::<Ipv4Addr, 4>(),
            v6 in flows::<Ipv6Addr, 16>(),
            bytes in proptest::collection::vec(any::<u8>(), 40..=52),
        ) {
            let key = Key::new(&bytes).expect("a length that keys have");
            let (batch, table) = (BatchToeplitz::new(&key), Toeplitz::new(&key));
            let mut hashes = vec![0; v4.len()];
            prop_assert_eq!(batch.hash_v4(&v4, &mut hashes), method());
            for (flow, hash) in v4.iter().zip(hashes) {
                prop_assert_eq!(hash, table.hash(*flow, Fields::FourTuple, Symmetry::None));
            }
            let mut hashes = vec![0; v6.len()];
            batch.hash_v6(&v6, &mut hashes);
            for (flow, hash) in v6.iter().zip(hashes) {
                prop_assert_eq!(hash, table.hash(*flow, Fields::FourTuple, Symmetry::None));
            }
        }
    }
}
