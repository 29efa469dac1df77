//! Entries come and go in a set that packets are looked up in: one slot is written for each, so
//! that one address more in a table of a million costs no copy of it. What a set has no room for,
//! or no length, needs a new set: this never makes one.

use std::net::IpAddr;

use weir_bpf::firewall::layout::{self, prefix_set, prefix6};
use weir_rules::ir::TableEntry;

use super::{
    HEADER_BYTES, KEY_MASK, NOT, PROBE_COUNT_MAX, USED, first_slot, first_slot6, is_set, mask4,
    mask6,
};
use crate::heap::Memory;

/// Of this many slots ...
const SLOTS: u64 = 4;
/// ... so many may be full, or have been: a lookup ends at an empty one, and should do so soon.
const FULL_MAX: u64 = 3;

/// The part of a set that is of one family.
struct Half<'m, M: ?Sized> {
    memory: &'m M,
    set_at: u32,
    /// 0 of IPv4, 4 of IPv6: where its word is in fields of both.
    word: u32,
    seed: u64,
    slots_at: u32,
    slot_count: u32,
    lengths: Vec<u8>,
}

/// A network without the bits of hosts. Of IPv4 its 32 bits are the lowest.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Network {
    bits: u8,
    number: u128,
}

/// Where an entry is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Among the slots of IPv6.
    pub(crate) is_v6: bool,
    /// Its length.
    pub(crate) bits: u8,
    /// Its address without bits of hosts; of IPv4 in the lowest 32 bits.
    pub(crate) number: u128,
}

impl Place {
    pub(crate) fn of(address: IpAddr, bits: u8) -> Self {
        let (is_v6, bits, number) = match address {
            IpAddr::V4(address) => {
                let bits = bits.min(32);
                (false, bits, u128::from(u32::from(address) & mask4(bits)))
            }
            IpAddr::V6(address) => {
                let bits = bits.min(128);
                (true, bits, u128::from(address) & mask6(bits))
            }
        };
        Self { is_v6, bits, number }
    }

    const fn network(self) -> Network {
        Network { bits: self.bits, number: self.number }
    }
}

impl<'m, M: Memory + ?Sized> Half<'m, M> {
    fn new(memory: &'m M, set_at: u32, is_v6: bool) -> Self {
        let word = if is_v6 { 4 } else { 0 };
        let field = |at: u32| memory.load32(set_at + at + word);
        let header = memory.read(set_at, u32::try_from(HEADER_BYTES).unwrap_or(0));
        let (count_at, lengths_at) = if is_v6 {
            (prefix_set::LENGTH_COUNT + 1, prefix_set::LENGTHS6)
        } else {
            (prefix_set::LENGTH_COUNT, prefix_set::LENGTHS4)
        };
        let length_count = usize::from(header[count_at as usize]);
        Self {
            memory,
            set_at,
            word,
            seed: memory.load64(set_at + prefix_set::SEED),
            slots_at: set_at + field(prefix_set::SLOTS_AT),
            slot_count: field(prefix_set::SLOT_COUNT),
            lengths: header[lengths_at as usize..][..length_count].to_vec(),
        }
    }

    const fn is_v6(&self) -> bool {
        self.word != 0
    }

    /// What is in a slot's last word, and the network in it.
    fn slot(&self, slot: u32) -> (u32, u128) {
        if self.is_v6() {
            let at = self.slots_at + slot * prefix6::SIZE_BYTES;
            let upper = u128::from(self.memory.load64(at)) << 64;
            let number = upper | u128::from(self.memory.load64(at + 8));
            return (self.memory.load32(at + prefix6::BITS), number);
        }
        let word = self.memory.load64(self.slots_at + slot * 8);
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        (half(word >> 32), half(word).into())
    }

    /// Writes a slot. Of IPv6 the last word comes last: until then nobody finds the network.
    fn put(&self, slot: u32, meta: u32, number: u128) {
        let low = |number: u128| u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0);
        if self.is_v6() {
            let at = self.slots_at + slot * prefix6::SIZE_BYTES;
            self.memory.store64(at, low(number >> 64));
            self.memory.store64(at + 8, low(number));
            self.memory.store32(at + prefix6::BITS, meta);
        } else {
            self.memory.store64(self.slots_at + slot * 8, u64::from(meta) << 32 | low(number));
        }
    }

    /// The slot of a network, and the first one that it could have.
    fn find(&self, network: Network) -> (Option<u32>, Option<u32>) {
        let Network { bits, number } = network;
        let slot_count = self.slot_count as usize;
        let first = if self.is_v6() {
            first_slot6(number, bits, self.seed, slot_count)
        } else {
            let low = u64::try_from(number).unwrap_or(0);
            first_slot(u64::from(USED | u32::from(bits)) << 32 ^ low ^ self.seed, slot_count)
        };
        let (mut slot, mut free) = (u32::try_from(first).unwrap_or(0), None);
        for _ in 0..PROBE_COUNT_MAX.min(slot_count) {
            let (meta, found) = self.slot(slot);
            if meta & USED == 0 {
                return (None, free.or(Some(slot)));
            }
            if meta & 0xff == layout::PREFIX_GONE {
                free = free.or(Some(slot));
            } else if meta & KEY_MASK == USED | u32::from(bits) && found == number {
                return (Some(slot), free);
            }
            slot = if slot + 1 == self.slot_count { 0 } else { slot + 1 };
        }
        (None, free)
    }

    fn add(&self, network: Network, more: u32) -> bool {
        if !self.lengths.contains(&network.bits) {
            return false;
        }
        let meta = USED | u32::from(network.bits) | more;
        let slot = match self.find(network) {
            (Some(slot), _) => {
                self.put(slot, meta, network.number);
                return true;
            }
            (None, Some(slot)) => slot,
            (None, None) => return false,
        };
        let is_used_before = self.slot(slot).0 & USED != 0;
        let full = self.count(prefix_set::COUNT) + self.count(prefix_set::GONE);
        let is_roomy = (u64::from(full) + 1) * SLOTS <= u64::from(self.slot_count) * FULL_MAX;
        if !is_used_before && !is_roomy {
            return false;
        }
        self.put(slot, meta, network.number);
        self.add_to(prefix_set::COUNT, 1);
        self.add_to(prefix_set::GONE, if is_used_before { -1 } else { 0 });
        true
    }

    fn remove(&self, network: Network) {
        if let (Some(slot), _) = self.find(network) {
            self.put(slot, USED | layout::PREFIX_GONE, network.number);
            self.add_to(prefix_set::COUNT, -1);
            self.add_to(prefix_set::GONE, 1);
        }
    }

    fn count(&self, field: u32) -> u32 {
        self.memory.load32(self.set_at + field + self.word)
    }

    fn add_to(&self, field: u32, number: i32) {
        let count = self.count(field).saturating_add_signed(number);
        self.memory.store32(self.set_at + field + self.word, count);
    }
}

/// Takes entries out of the set at an offset, and puts others into it, one after the other. `false`
/// if one of these has no place there: some of the others may have got theirs.
#[must_use]
pub(crate) fn change<M: Memory + ?Sized>(
    memory: &M,
    set_at: u32,
    removed: &[(IpAddr, u8)],
    added: &[TableEntry],
) -> bool {
    if !is_set(memory, set_at) {
        return removed.is_empty() && added.is_empty();
    }
    let removed: Vec<Place> =
        removed.iter().map(|(address, bits)| Place::of(*address, *bits)).collect();
    let more = |entry: &TableEntry| if entry.not { NOT } else { 0 };
    let place = |entry: &TableEntry| (Place::of(entry.address, entry.bits), more(entry));
    put(memory, set_at, &removed, &added.iter().map(place).collect::<Vec<_>>())
}

/// The same, of a set that is there; what comes has something beside its length.
pub(super) fn put<M: Memory + ?Sized>(
    memory: &M,
    set_at: u32,
    removed: &[Place],
    added: &[(Place, u32)],
) -> bool {
    let halves = [Half::new(memory, set_at, false), Half::new(memory, set_at, true)];
    let of = |place: &Place| &halves[usize::from(place.is_v6)];
    removed.iter().for_each(|place| of(place).remove(place.network()));
    added.iter().all(|(place, more)| of(place).add(place.network(), *more))
}

/// What stands in the last words of slots: of each of these places, or `None`.
pub(super) fn find<'a, M: Memory + ?Sized>(
    memory: &'a M,
    set_at: u32,
) -> impl Fn(&Place) -> Option<u32> + 'a {
    let halves = [Half::new(memory, set_at, false), Half::new(memory, set_at, true)];
    move |place| {
        let half = &halves[usize::from(place.is_v6)];
        if half.slot_count == 0 {
            return None;
        }
        half.find(place.network()).0.map(|slot| half.slot(slot).0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{build, entries, entry_count};
    use super::*;
    use crate::heap::tests::Bytes;

    fn nth(number: u32, is_v6: bool, not: bool) -> TableEntry {
        let spread = number.wrapping_mul(2_654_435_761);
        let address = match is_v6 {
            false => IpAddr::V4(spread.into()),
            true => IpAddr::V6((u128::from(spread) << 90 | u128::from(number)).into()),
        };
        TableEntry { address, bits: if is_v6 { 128 } else { 32 }, not }
    }

    fn set(list: &[TableEntry]) -> Bytes {
        let bytes = build(list.iter(), 99).unwrap();
        let memory = Bytes::new(64 + bytes.len().max(1 << 16));
        memory.write(64, &bytes);
        memory
    }

    /// Random changes end in what a map has by the same, and the counts with them.
    #[test]
    fn entries_come_and_go_in_their_set() {
        for is_v6 in [false, true] {
            let list: Vec<_> = (0..500).map(|number| nth(number, is_v6, false)).collect();
            let memory = set(&list);
            let mut expected: BTreeMap<_, _> =
                list.iter().map(|entry| (entry.address, *entry)).collect();
            let (mut state, mut refused_count) = (1_u32, 0);
            for _ in 0..20_000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let entry = nth(state >> 8 & 1023, is_v6, state >> 30 & 1 == 1);
                let is_added = state >> 20 & 1 == 1 && expected.len() < 600;
                if !is_added {
                    assert!(change(&memory, 64, &[(entry.address, entry.bits)], &[]));
                    expected.remove(&entry.address);
                } else if change(&memory, 64, &[], &[entry]) {
                    expected.insert(entry.address, entry);
                } else {
                    // As the daemon does: a new set.
                    refused_count += 1;
                    expected.insert(entry.address, entry);
                    let list: Vec<_> = expected.values().copied().collect();
                    let bytes = build(list.iter(), 99).unwrap();
                    memory.write(64, &bytes);
                }
            }
            let mut list: Vec<_> = expected.into_values().collect();
            list.sort_unstable();
            assert_eq!(entries(&memory, 64), list);
            assert_eq!(entry_count(&memory, 64), list.len() as u64);
            assert!(refused_count > 0, "slots that were used are used up at last");
        }
    }

    #[test]
    fn what_has_no_length_or_no_place_is_refused() {
        let memory = set(&[nth(1, false, false)]);
        let network = TableEntry { bits: 24, ..nth(2, false, false) };
        assert!(!change(&memory, 64, &[], &[network]), "no lookup would ask for its length");
        assert!(!change(&memory, 64, &[], &[nth(1, true, false)]), "the family has no slots");
        let more: Vec<_> = (2..20).map(|number| nth(number, false, false)).collect();
        let fits = more.iter().take_while(|entry| change(&memory, 64, &[], &[**entry])).count();
        assert_eq!(fits, 5, "six of nine slots are full");
        assert!(!change(&memory, 0, &[], &[nth(1, false, false)]), "an empty table has no set");
        let stranger = nth(77, false, false);
        let gone = [(stranger.address, stranger.bits)];
        assert!(change(&memory, 64, &gone, &[]), "it was not there");
    }
}
