//! Sets of prefixes for the data path: `struct weir_fw_prefix_set` of
//! `bpf/include/weir/fw/prefix.h`, which says how they are looked up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_bpf::firewall::layout::{self, prefix_set, prefix6};
use weir_rules::ir::TableEntry;

use crate::heap::Memory;
use change::Place;

mod change;
pub(crate) mod typed;

pub(crate) use change::change;

const HEADER_BYTES: usize = prefix_set::SIZE_BYTES as usize;
const SLOT6_BYTES: usize = prefix6::SIZE_BYTES as usize;
const PROBE_COUNT_MAX: usize = layout::PREFIX_PROBE_MAX as usize;
const USED: u32 = layout::PREFIX_USED;
const NOT: u32 = layout::PREFIX_NOT;
/// What a slot is found by in its last word.
const KEY_MASK: u32 = layout::PREFIX_KEY_MASK;
const MULTIPLIER: u64 = layout::PREFIX_MULTIPLIER;
const MULTIPLIER_2: u64 = layout::PREFIX_MULTIPLIER_2;

/// Why a set cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a table of {entry_count} entries takes {byte_count} bytes, more than an arena has")]
pub struct TooLarge {
    /// Entries.
    pub entry_count: usize,
    /// Bytes that they would take.
    pub byte_count: usize,
}

fn first_slot(key: u64, slot_count: usize) -> usize {
    let mut key = key.wrapping_mul(MULTIPLIER);
    key ^= key >> 32;
    key = key.wrapping_mul(MULTIPLIER_2);
    // The product of two 32-bit numbers, shifted by 32, is below the second.
    usize::try_from(((key >> 32) * slot_count as u64) >> 32).unwrap_or(0)
}

/// The same of IPv6.
fn first_slot6(network: u128, bits: u8, seed: u64, slot_count: usize) -> usize {
    let upper = u64::try_from(network >> 64).unwrap_or(0);
    let lower = u64::try_from(network & u128::from(u64::MAX)).unwrap_or(0);
    let key = (upper ^ u64::from(bits)).wrapping_mul(MULTIPLIER_2) ^ lower ^ seed;
    first_slot(key, slot_count)
}

fn mask4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0)
}

fn mask6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0)
}

/// Puts one entry in, with `more` beside its length; of two for one network the first holds.
/// `None` if it would lie too far from its place.
fn insert4(slots: &mut [u64], seed: u64, (network, bits, more): (u32, u8, u32)) -> Option<bool> {
    let key = u64::from(USED | u32::from(bits)) << 32 | u64::from(network);
    let mut slot = first_slot(key ^ seed, slots.len());
    for _ in 0..PROBE_COUNT_MAX {
        let found = slots[slot];
        if found == 0 {
            slots[slot] = key | u64::from(more) << 32;
            return Some(true);
        }
        if found & (u64::from(KEY_MASK) << 32 | u64::from(u32::MAX)) == key {
            return Some(false);
        }
        slot = if slot + 1 == slots.len() { 0 } else { slot + 1 };
    }
    None
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Slot6 {
    network: u128,
    bits: u32,
}

fn insert6(slots: &mut [Slot6], seed: u64, (network, bits, more): (u128, u8, u32)) -> Option<bool> {
    let mut slot = first_slot6(network, bits, seed, slots.len());
    let used_bits = USED | u32::from(bits);
    for _ in 0..PROBE_COUNT_MAX {
        let found = slots[slot];
        if found.bits == 0 {
            slots[slot] = Slot6 { network, bits: used_bits | more };
            return Some(true);
        }
        if found.network == network && found.bits & KEY_MASK == used_bits {
            return Some(false);
        }
        slot = if slot + 1 == slots.len() { 0 } else { slot + 1 };
    }
    None
}

/// What both families need: the slots with all entries in them, and how many different ones.
fn fill<S: Clone + Default, E>(
    entries: &[E],
    insert: impl Fn(&mut [S], &E) -> Option<bool>,
) -> (Vec<S>, usize) {
    // Five of eight slots are full: two probes, mostly in one line.
    let mut slot_count = if entries.is_empty() { 0 } else { entries.len() * 8 / 5 + 8 };
    loop {
        let mut slots = vec![S::default(); slot_count];
        let placed: Option<Vec<bool>> =
            entries.iter().map(|entry| insert(&mut slots, entry)).collect();
        if let Some(placed) = placed {
            return (slots, placed.iter().filter(|is_new| **is_new).count());
        }
        slot_count += slot_count / 4;
    }
}

fn lengths(bits: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut present = [false; 129];
    for length in bits {
        present[usize::from(length.min(128))] = true;
    }
    (0..=128_u8).rev().filter(|length| present[usize::from(*length)]).collect()
}

/// Whether a slot with this in its last word has an entry.
const fn is_entry(meta: u32) -> bool {
    meta & USED != 0 && meta & 0xff != layout::PREFIX_GONE
}

/// What a set is made of: networks with their lengths, and what stands beside these.
#[derive(Default)]
struct Parts {
    v4: Vec<(u32, u8, u32)>,
    v6: Vec<(u128, u8, u32)>,
    /// Of a typed table.
    is_typed: bool,
    /// `WEIR_FW_FLOW_*`
    flow: u8,
}

impl Parts {
    fn push(&mut self, place: Place, more: u32) {
        if place.is_v6 {
            return self.v6.push((place.number, place.bits, more));
        }
        self.v4.push((u32::try_from(place.number).unwrap_or(0), place.bits, more));
    }
}

/// Makes the bytes of a set. `seed` is any number; it keeps strangers from choosing addresses that
/// collide.
///
/// # Errors
/// [`TooLarge`] above 4 GiB.
pub(crate) fn build<'a>(
    entries: impl Iterator<Item = &'a TableEntry>,
    seed: u64,
) -> Result<Vec<u8>, TooLarge> {
    let mut parts = Parts::default();
    for entry in entries {
        let more = if entry.not { NOT } else { 0 };
        parts.push(Place::of(entry.address, entry.bits), more);
    }
    assemble(&parts, seed)
}

fn assemble(parts: &Parts, seed: u64) -> Result<Vec<u8>, TooLarge> {
    let Parts { v4, v6, .. } = parts;
    let (slots4, count4) = fill(v4, |slots: &mut [u64], entry| insert4(slots, seed, *entry));
    let (slots6, count6) = fill(v6, |slots: &mut [Slot6], entry| insert6(slots, seed, *entry));
    let slots6_at = HEADER_BYTES + slots4.len() * 8;
    let byte_count = slots6_at + slots6.len() * SLOT6_BYTES;
    let too_large = |_| TooLarge { entry_count: v4.len() + v6.len(), byte_count };
    u32::try_from(byte_count).map_err(too_large)?;

    let lengths4 = lengths(v4.iter().map(|entry| entry.1));
    let lengths6 = lengths(v6.iter().map(|entry| entry.1));
    let mut bytes = vec![0; HEADER_BYTES];
    let mut put = |at: u32, value: &[u8]| {
        bytes[at as usize..at as usize + value.len()].copy_from_slice(value);
    };
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes();
    let pair = |v4: usize, v6: usize| [word(v4), word(v6)];
    let size = |lengths: &[u8]| u8::try_from(lengths.len()).unwrap_or(u8::MAX);
    put(prefix_set::MAGIC, &layout::PREFIX_MAGIC.to_ne_bytes());
    put(prefix_set::BYTES, &word(byte_count));
    put(prefix_set::COUNT, pair(count4, count6).as_flattened());
    put(prefix_set::SLOTS_AT, pair(HEADER_BYTES, slots6_at).as_flattened());
    put(prefix_set::SLOT_COUNT, pair(slots4.len(), slots6.len()).as_flattened());
    put(prefix_set::SEED, &seed.to_ne_bytes());
    put(prefix_set::LENGTH_COUNT, &[size(&lengths4), size(&lengths6)]);
    put(prefix_set::LENGTHS4, &lengths4);
    put(prefix_set::LENGTHS6, &lengths6);
    put(prefix_set::IS_TYPED, &[u8::from(parts.is_typed)]);
    put(prefix_set::FLOW, &[parts.flow]);
    bytes.extend(slots4.iter().flat_map(|slot| slot.to_ne_bytes()));
    for slot in &slots6 {
        let upper = u64::try_from(slot.network >> 64).unwrap_or(0);
        let lower = u64::try_from(slot.network & u128::from(u64::MAX)).unwrap_or(0);
        bytes.extend(upper.to_ne_bytes());
        bytes.extend(lower.to_ne_bytes());
        bytes.extend(u64::from(slot.bits).to_le_bytes());
    }
    Ok(bytes)
}

/// Whether a set stands at an offset in memory.
fn is_set<M: Memory + ?Sized>(memory: &M, at: u32) -> bool {
    at != 0 && memory.load32(at + prefix_set::MAGIC) == layout::PREFIX_MAGIC
}

/// The slots of a set in memory that have something: whether of IPv6, the number, the last word;
/// none if there is no set at the offset.
fn slots<M: Memory + ?Sized>(memory: &M, at: u32) -> Vec<(bool, u128, u32)> {
    let word = |field: u32| memory.load32(at + field);
    let mut found = Vec::new();
    if !is_set(memory, at) {
        return found;
    }
    let (count4, count6) = (word(prefix_set::SLOT_COUNT), word(prefix_set::SLOT_COUNT + 4));
    let bytes = memory.read(at + word(prefix_set::SLOTS_AT), count4 * 8);
    for slot in bytes.as_chunks::<8>().0 {
        let slot = u64::from_ne_bytes(*slot);
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        if is_entry(half(slot >> 32)) {
            found.push((false, half(slot).into(), half(slot >> 32)));
        }
    }
    let bytes = memory.read(at + word(prefix_set::SLOTS_AT + 4), count6 * prefix6::SIZE_BYTES);
    for slot in bytes.as_chunks::<SLOT6_BYTES>().0 {
        let number = |at: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&slot[at..at + 8]);
            u64::from_ne_bytes(half)
        };
        let bits_at = prefix6::BITS as usize;
        let meta = u32::try_from(number(bits_at) & u64::from(u32::MAX)).unwrap_or(0);
        if is_entry(meta) {
            found.push((true, u128::from(number(0)) << 64 | u128::from(number(8)), meta));
        }
    }
    found
}

/// The length in the last word of a slot.
fn length_of(meta: u32) -> u8 {
    u8::try_from(meta & 0xff).unwrap_or(u8::MAX)
}

/// The address of the network in a slot.
fn address_of(is_v6: bool, number: u128) -> IpAddr {
    if is_v6 {
        return Ipv6Addr::from(number).into();
    }
    Ipv4Addr::from(u32::try_from(number).unwrap_or(0)).into()
}

/// The entries of a set that stands in memory, sorted; none if there is no set at the offset. This
/// is how a restarted daemon knows what tables hold.
#[must_use]
pub(crate) fn entries<M: Memory + ?Sized>(memory: &M, at: u32) -> Vec<TableEntry> {
    let entry = |(is_v6, number, meta): (bool, u128, u32)| TableEntry {
        address: address_of(is_v6, number),
        bits: length_of(meta),
        not: meta & NOT != 0,
    };
    let mut found: Vec<TableEntry> = slots(memory, at).into_iter().map(entry).collect();
    found.sort_unstable();
    found
}

/// How many entries a set in memory has; 0 if there is none.
#[must_use]
pub(crate) fn entry_count<M: Memory + ?Sized>(memory: &M, at: u32) -> u64 {
    if !is_set(memory, at) {
        return 0;
    }
    let count = |field: u32| u64::from(memory.load32(at + field));
    count(prefix_set::COUNT) + count(prefix_set::COUNT + 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::tests::Bytes;

    fn entry(text: &str) -> TableEntry {
        let (not, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let (address, bits) = text.split_once('/').unwrap();
        TableEntry { address: address.parse().unwrap(), bits: bits.parse().unwrap(), not }
    }

    #[test]
    fn a_set_gives_back_its_entries() {
        let list = ["10.0.0.0/8", "!10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "!2001:db8::/32"];
        let mut expected: Vec<_> = list.iter().map(|text| entry(text)).collect();
        expected.push(entry("::1/128"));
        let twice = [expected.clone(), vec![entry("!10.0.0.0/8")]].concat();
        let bytes = build(twice.iter(), 7).unwrap();
        let memory = Bytes::new(64 + bytes.len());
        memory.write(64, &bytes);
        expected.sort_unstable();
        assert_eq!(entries(&memory, 64), expected);
        assert_eq!(entry_count(&memory, 64), 6);
        assert_eq!(entry_count(&memory, 0), 0);
    }

    #[test]
    fn many_entries_all_have_a_place() {
        let nth = |n: u32| TableEntry {
            address: IpAddr::V4(n.wrapping_mul(2_654_435_761).into()),
            bits: 32,
            not: false,
        };
        let list: Vec<_> = (0..100_000).map(nth).collect();
        let bytes = build(list.iter(), 99).unwrap();
        assert!(bytes.len() < 100_000 * 14, "{}", bytes.len());
        let memory = Bytes::new(bytes.len() + 8);
        memory.write(0, &[0; 8]);
        memory.write(8, &bytes);
        assert_eq!(entries(&memory, 8).len(), 100_000);
    }
}
