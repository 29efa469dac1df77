//! Typed tables as sets for the data path: what each key is there, and back.
//!
//! Beside the length of its slot an entry has the number of its values; what that stands for the
//! table's owner knows (`engine/typed.rs`).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_bpf::firewall::layout::{self, prefix_set};
use weir_rules::typed::{Components, Flow, Key, KeyType};

use super::change::{Place, find, put};
use super::{Parts, TooLarge, address_of, assemble, is_set, length_of, slots};
use crate::heap::Memory;

/// Different values of one table.
pub(crate) const VALUE_COUNT_MAX: usize = layout::PREFIX_VALUE_MASK as usize + 1;
/// Flows of IPv6 in one table: their addresses have numbers, from 1, in the place of values.
pub(crate) const FLOW6_COUNT_MAX: usize = VALUE_COUNT_MAX / 2 - 1;

/// The "lengths" of a flow of IPv6, and of an address of one.
const FLOW6: u8 = layout::PREFIX_FLOW6.to_le_bytes()[0];
const FLOW6_ADDRESS: u8 = layout::PREFIX_FLOW6_ADDRESS.to_le_bytes()[0];

const fn beside(value: u32) -> u32 {
    value << layout::PREFIX_VALUE_SHIFT
}

const fn value_of(meta: u32) -> u32 {
    meta >> layout::PREFIX_VALUE_SHIFT & layout::PREFIX_VALUE_MASK
}

/// Ends in front, then ports and protocol.
fn flow_number(flow: &Flow, ends: [u32; 2]) -> u128 {
    u128::from(ends[0]) << 96
        | u128::from(ends[1]) << 64
        | u128::from(flow.source_port) << 48
        | u128::from(flow.destination_port) << 32
        | u128::from(flow.protocol) << 24
}

fn v4(address: Option<IpAddr>) -> u32 {
    match address {
        Some(IpAddr::V4(address)) => address.into(),
        _ => 0,
    }
}

/// An interface's name as a number: its bytes, the first in front.
fn name_number(name: &str) -> u128 {
    let mut bytes = [0; 16];
    let size = name.len().min(bytes.len());
    bytes[..size].copy_from_slice(&name.as_bytes()[..size]);
    u128::from_be_bytes(bytes)
}

/// Where a key is; `None` of flows of IPv6, which need the numbers of their addresses.
fn place(key: &Key) -> Option<Place> {
    Some(match key {
        Key::Net(address, bits) => Place::of(*address, *bits),
        Key::Number(number) => Place { is_v6: false, bits: 32, number: (*number).into() },
        Key::Iface(name) => Place { is_v6: true, bits: 128, number: name_number(name) },
        Key::Flow(_) if key.is_ipv6() == Some(true) => return None,
        Key::Flow(flow) => {
            let number = flow_number(flow, [v4(flow.source), v4(flow.destination)]);
            Place { is_v6: true, bits: 128, number }
        }
    })
}

/// Makes the bytes of a set of entries, each key of which is there once, with the numbers of their
/// values.
///
/// # Errors
/// [`TooLarge`] above 4 GiB.
pub(crate) fn build(of: KeyType, entries: &[(Key, u32)], seed: u64) -> Result<Vec<u8>, TooLarge> {
    let flow = if let KeyType::Flow(components) = of { components.bits() } else { 0 };
    let mut parts = Parts { is_typed: true, flow, ..Parts::default() };
    let mut numbers: HashMap<IpAddr, u32> = HashMap::new();
    for (key, value) in entries {
        let more = beside(*value);
        match (place(key), key) {
            (Some(place), _) => parts.push(place, more),
            (None, Key::Flow(flow)) => {
                let ends = [flow.source, flow.destination].map(|end| {
                    let Some(end) = end else { return 0 };
                    let next = u32::try_from(numbers.len() + 1).unwrap_or(u32::MAX);
                    *numbers.entry(end).or_insert(next)
                });
                parts.v6.push((flow_number(flow, ends), FLOW6, more));
            }
            (None, _) => {}
        }
    }
    for (address, number) in numbers {
        if let IpAddr::V6(address) = address {
            parts.v6.push((address.into(), FLOW6_ADDRESS, beside(number)));
        }
    }
    assemble(&parts, seed)
}

/// The flow that a slot stands for.
fn flow(components: Components, number: u128, ends: [Option<IpAddr>; 2]) -> Key {
    let part = |shift: u32| u16::try_from(number >> shift & 0xffff).unwrap_or(0);
    Key::Flow(Flow {
        source: ends[0],
        destination: ends[1],
        source_port: part(48),
        destination_port: part(32),
        protocol: u8::try_from(number >> 24 & 0xff).unwrap_or(0),
        ..Flow::blank(components)
    })
}

/// The two numbers in front of a flow.
fn ends_of(number: u128) -> [u32; 2] {
    [96, 64].map(|shift| u32::try_from(number >> shift & u128::from(u32::MAX)).unwrap_or(0))
}

fn name_of(number: u128) -> String {
    let bytes = number.to_be_bytes();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The entries of a set that stands in memory, by their keys; none if there is no set at 0.
#[must_use]
pub(crate) fn entries<M: Memory + ?Sized>(memory: &M, at: u32, of: KeyType) -> Vec<(Key, u32)> {
    let slots = slots(memory, at);
    let is_address = |meta: u32| meta & 0xff == u32::from(FLOW6_ADDRESS);
    let addresses = slots.iter().filter(|(is_v6, _, meta)| *is_v6 && is_address(*meta));
    let by_number: HashMap<u32, IpAddr> = addresses
        .map(|(_, number, meta)| (value_of(*meta), Ipv6Addr::from(*number).into()))
        .collect();
    let mut found = Vec::with_capacity(slots.len());
    for (is_v6, number, meta) in slots.into_iter().filter(|(_, _, meta)| !is_address(*meta)) {
        let bits = length_of(meta);
        let low = u32::try_from(number & u128::from(u32::MAX)).unwrap_or(0);
        let key = match of {
            KeyType::Addr => Key::Net(address_of(is_v6, number), bits),
            KeyType::Number => Key::Number(low),
            KeyType::Iface => Key::Iface(name_of(number).into()),
            KeyType::Flow(components) if bits == FLOW6 => {
                flow(components, number, ends_of(number).map(|end| by_number.get(&end).copied()))
            }
            KeyType::Flow(components) => {
                let has = [Components::SRC_IP, Components::DST_IP].map(|end| components.has(end));
                let ends = ends_of(number).map(|end| Some(IpAddr::from(Ipv4Addr::from(end))));
                flow(components, number, [ends[0].filter(|_| has[0]), ends[1].filter(|_| has[1])])
            }
        };
        found.push((key, value_of(meta)));
    }
    found.sort_unstable();
    found
}

/// Whether a set that stands in memory is a typed table's.
#[must_use]
pub(crate) fn is_typed<M: Memory + ?Sized>(memory: &M, at: u32) -> bool {
    memory.read(at + prefix_set::IS_TYPED, 1) != [0]
}

/// What a set in memory takes; 0 if there is none.
#[must_use]
pub(crate) fn byte_count<M: Memory + ?Sized>(memory: &M, at: u32) -> u64 {
    if at == 0 { 0 } else { memory.load32(at + prefix_set::BYTES).into() }
}

/// Looks keys up in a set that stands in memory: the entry that covers each, and the number of its
/// values.
pub(crate) fn finder<M: Memory + ?Sized>(
    memory: &M,
    at: u32,
) -> impl Fn(&Key) -> Option<(Key, u32)> {
    let find = is_set(memory, at).then(|| find(memory, at));
    move |key| {
        let find = find.as_ref()?;
        match (key, place(key)) {
            (Key::Net(address, bits), _) => (0..=*bits).rev().find_map(|bits| {
                let key = Key::net(*address, bits);
                Some((key, value_of(find(&Place::of(*address, bits))?)))
            }),
            (_, Some(place)) => Some((key.clone(), value_of(find(&place)?))),
            (Key::Flow(flow), None) => {
                let number = |end: Option<IpAddr>| match end {
                    Some(IpAddr::V6(address)) => {
                        let number = address.into();
                        find(&Place { is_v6: true, bits: FLOW6_ADDRESS, number }).map(value_of)
                    }
                    _ => Some(0),
                };
                let number = flow_number(flow, [number(flow.source)?, number(flow.destination)?]);
                let meta = find(&Place { is_v6: true, bits: FLOW6, number })?;
                Some((key.clone(), value_of(meta)))
            }
            (_, None) => None,
        }
    }
}

/// Puts one entry into a set that stands in memory, or takes it out (`None`). `false` if it has no
/// place there: nothing has changed then.
#[must_use]
pub(crate) fn change<M: Memory + ?Sized>(
    memory: &M,
    at: u32,
    key: &Key,
    value: Option<u32>,
) -> bool {
    let Some(place) = place(key).filter(|_| is_set(memory, at)) else { return false };
    match value {
        Some(value) => put(memory, at, &[], &[(place, beside(value))]),
        None => put(memory, at, &[place], &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::tests::Bytes;

    fn round(of: KeyType, entries: &[(Key, u32)]) -> usize {
        let bytes = build(of, entries, 99).unwrap();
        let memory = Bytes::new(64 + bytes.len());
        memory.write(64, &bytes);
        let mut expected = entries.to_vec();
        expected.sort_unstable();
        assert_eq!(super::entries(&memory, 64, of), expected);
        let find = finder(&memory, 64);
        for (key, value) in entries {
            assert_eq!(find(key), Some((key.clone(), *value)));
        }
        bytes.len()
    }

    #[test]
    fn every_type_gives_back_its_keys() {
        for (of, keys) in [
            ("addr", vec!["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "::/0", "2001:db8::1/128"]),
            ("number", vec!["0", "80", "4294967295"]),
            ("iface", vec!["em0", "fifteen-letters"]),
            (
                "flow",
                vec![
                    "10.0.0.1,tcp,1,10.0.0.2,80",
                    "::1,udp,53,2001:db8::1,53",
                    "::1,udp,53,2001:db8::2,53",
                ],
            ),
            ("flow:proto,dst-port", vec!["tcp,80", "17,53"]),
            ("flow:src-ip", vec!["0.0.0.0", "10.0.0.1", "::", "2001:db8::1"]),
        ] {
            let of = KeyType::parse(of).unwrap();
            let keys = keys.iter().map(|text| Key::parse(of, text).unwrap());
            let entries: Vec<_> = keys.zip([7, 0, layout::PREFIX_VALUE_MASK, 1, 2]).collect();
            round(of, &entries);
        }
    }

    /// One list of parts for the data path, and for what people write.
    #[test]
    fn parts_of_flows_have_the_same_bits() {
        use layout::flow;
        for (components, bits) in [
            (Components::SRC_IP, flow::SRC_IP),
            (Components::PROTO, flow::PROTO),
            (Components::SRC_PORT, flow::SRC_PORT),
            (Components::DST_IP, flow::DST_IP),
            (Components::DST_PORT, flow::DST_PORT),
        ] {
            assert_eq!(components.bits(), bits, "{components}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let of = KeyType::parse("flow:src-ip,dst-ip").unwrap();
        let key = |text: &str| Key::parse(of, text).unwrap();
        let bytes = build(of, &[(key("::1,::2"), 1), (key("1.1.1.1,2.2.2.2"), 2)], 99).unwrap();
        let memory = Bytes::new(64 + bytes.len());
        memory.write(64, &bytes);
        let find = finder(&memory, 64);
        for text in ["::2,::1", "::1,::3", "2.2.2.2,1.1.1.1"] {
            assert_eq!(find(&key(text)), None, "{text}");
        }
        assert!(!change(&memory, 64, &key("::1,::2"), Some(3)), "its addresses have numbers");
        assert!(change(&memory, 64, &key("1.1.1.1,2.2.2.2"), Some(3)));
        assert_eq!(find(&key("1.1.1.1,2.2.2.2")).unwrap().1, 3);
        assert!(change(&memory, 64, &key("1.1.1.1,2.2.2.2"), None));
        assert_eq!(find(&key("1.1.1.1,2.2.2.2")), None);
    }

    /// What a million entries take: the contract's figures.
    #[test]
    fn a_million_entries_take_few_bytes_each() {
        const COUNT: u32 = 1_000_000;
        let all = |key: &dyn Fn(u32) -> Key| -> usize {
            let entries: Vec<_> = (0..COUNT).map(|number| (key(number), number & 1023)).collect();
            build(KeyType::Addr, &entries, 99).unwrap().len()
        };
        let spread = |number: u32| number.wrapping_mul(2_654_435_761);
        let v4 = all(&|number| Key::net(Ipv4Addr::from(spread(number)).into(), 32));
        let v6 = all(&|number| {
            let number = u128::from(spread(number)) << 90 | u128::from(number);
            Key::net(Ipv6Addr::from(number).into(), 128)
        });
        let (each4, each6) = (v4 / COUNT as usize, v6 / COUNT as usize);
        assert!(each4 <= 16 && each6 <= 48, "{each4} and {each6} bytes");
    }
}
