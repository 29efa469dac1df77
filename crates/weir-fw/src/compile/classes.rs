//! The sets of rules by which the data path finds candidates: `struct weir_fw_classes` of
//! `bpf/include/weir/fw/classify.h`, which says what they are.

use std::collections::HashMap;

use weir_bpf::firewall::layout::{self, addition, classes, dimension, dimensions};
use weir_wire::protocol::TCP;

use super::criteria::{mask4, mask6};
use crate::image::{Bytes, Criteria, PlaceKind, RuleKind, asks, hooks};

const CHUNK_WORDS: usize = layout::CHUNK_WORDS as usize;
const CLASSES_BYTES: usize = classes::SIZE_BYTES as usize;
const ADDITION_BYTES: usize = addition::SIZE_BYTES as usize;
const SLOT_COUNT: usize = layout::INTERFACE_COUNT_MAX as usize;

/// First and last.
type Range = (u128, u128);

/// What a rule rules out by its criteria alone: ranges that are not empty, or nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Filter {
    interfaces: u64,
    hooks: u8,
    /// `Some(None)`: two protocols at once.
    protocol: Option<Option<u8>>,
    /// By dimension.
    ranges: [Option<Range>; dimensions::COUNT],
    icmp: Option<Option<u8>>,
    /// Sets and masks of TCP flags of the rule and the anchors around it: up to this many are
    /// looked at.
    tcp: [(u8, u8); 3],
    takes_fragments: bool,
}

const FULL: [Range; dimensions::COUNT] = {
    let mut full = [(0, 0); dimensions::COUNT];
    (full[dimensions::FROM4], full[dimensions::TO4]) = (FULL4, FULL4);
    (full[dimensions::FROM6], full[dimensions::TO6]) = (FULL6, FULL6);
    (full[dimensions::FROM_PORT], full[dimensions::TO_PORT]) = (FULL_PORT, FULL_PORT);
    full
};
const FULL4: Range = (0, u32::MAX as u128);
const FULL6: Range = (0, u128::MAX);
const FULL_PORT: Range = (0, u16::MAX as u128);

impl Default for Filter {
    fn default() -> Self {
        Self {
            interfaces: u64::MAX,
            hooks: hooks::ALL,
            protocol: None,
            ranges: FULL.map(Some),
            icmp: None,
            tcp: [(0, 0); 3],
            takes_fragments: true,
        }
    }
}

fn operand(operands: &[u8], at: u32) -> [u8; 32] {
    let at = at as usize;
    operands.get(at..at + 32).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 32])
}

/// The addresses of an end: of IPv4 and of IPv6.
fn place(kind: PlaceKind, words: [u32; 2], operands: &[u8]) -> [Option<Range>; 2] {
    match kind {
        PlaceKind::Net4 => {
            let (network, mask) = (u32::from_be(words[0]), u32::from_be(words[1]));
            debug_assert_eq!(mask, mask4(u8::try_from(mask.count_ones()).unwrap_or(0)));
            [Some((network.into(), (network | !mask).into())), None]
        }
        PlaceKind::Range4 => {
            [Some((words[0].into(), words[1].into())).filter(|range| range.0 <= range.1), None]
        }
        PlaceKind::Net6 => {
            let bytes = operand(operands, words[0]);
            let half =
                |at: usize| u128::from_be_bytes(bytes[at..at + 16].try_into().unwrap_or_default());
            let (network, mask) = (half(0), half(16));
            debug_assert_eq!(mask, mask6(u8::try_from(mask.count_ones()).unwrap_or(0)));
            [None, Some((network, network | !mask))]
        }
        PlaceKind::Range6 => {
            let bytes = operand(operands, words[0]);
            let word = |at: usize| {
                let word = u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
                u128::from(word)
            };
            let range = (word(0) << 64 | word(8), word(16) << 64 | word(24));
            [None, Some(range).filter(|range| range.0 <= range.1)]
        }
        PlaceKind::Nothing => [None, None],
        PlaceKind::Any | PlaceKind::Table | PlaceKind::NoRoute | PlaceKind::UrpfFailed => {
            [Some(FULL4), Some(FULL6)]
        }
    }
}

impl Filter {
    fn of(criteria: &Criteria, operands: &[u8]) -> Self {
        let end = |kind, words, not: u32| {
            if criteria.flags & not != 0 {
                [Some(FULL4), Some(FULL6)]
            } else {
                place(kind, words, operands)
            }
        };
        let ports = |asked: u32, not: u32, [first, last]: [u16; 2]| {
            if criteria.flags & asked == 0 || criteria.flags & not != 0 {
                return Some(FULL_PORT);
            }
            (first <= last).then_some((first.into(), last.into()))
        };
        let from = end(criteria.from_kind, criteria.from, asks::FROM_NOT);
        let to = end(criteria.to_kind, criteria.to, asks::TO_NOT);
        let mut ranges = [None; dimensions::COUNT];
        [ranges[dimensions::FROM4], ranges[dimensions::FROM6]] = from;
        [ranges[dimensions::TO4], ranges[dimensions::TO6]] = to;
        ranges[dimensions::FROM_PORT] =
            ports(asks::FROM_PORT, asks::FROM_PORT_NOT, criteria.from_port);
        ranges[dimensions::TO_PORT] = ports(asks::TO_PORT, asks::TO_PORT_NOT, criteria.to_port);
        Self {
            interfaces: criteria.interfaces,
            hooks: criteria.hooks,
            protocol: (criteria.protocol != 0).then_some(Some(criteria.protocol)),
            ranges,
            icmp: (criteria.flags & asks::ICMP_TYPE != 0).then_some(Some(criteria.icmp_type)),
            tcp: [(criteria.tcp_set, criteria.tcp_mask), (0, 0), (0, 0)],
            takes_fragments: criteria.flags & asks::HEADER == 0
                && !(criteria.protocol == TCP && criteria.tcp_set != 0),
        }
    }

    /// What passes both this and the anchor around it.
    fn within(&self, anchor: &Self) -> Self {
        let both = |one: Option<Option<u8>>, other: Option<Option<u8>>| match (one, other) {
            (None, kept) | (kept, None) => kept,
            (Some(one), Some(other)) => Some(one.filter(|_| one == other)),
        };
        let mut ranges = [None; dimensions::COUNT];
        for (at, range) in ranges.iter_mut().enumerate() {
            let overlap = self.ranges[at].zip(anchor.ranges[at]);
            let overlap = overlap.map(|(one, other)| (one.0.max(other.0), one.1.min(other.1)));
            *range = overlap.filter(|(first, last)| first <= last);
        }
        Self {
            interfaces: self.interfaces & anchor.interfaces,
            hooks: self.hooks & anchor.hooks,
            protocol: both(self.protocol, anchor.protocol),
            ranges,
            icmp: both(self.icmp, anchor.icmp),
            tcp: [self.tcp[0], anchor.tcp[0], anchor.tcp[1]],
            takes_fragments: self.takes_fragments && anchor.takes_fragments,
        }
    }
}

/// The filters of all rules, anchors' around them included.
fn filters(criteria: &[Criteria], kinds: &[RuleKind], operands: &[u8]) -> Vec<Filter> {
    let mut open: Vec<(usize, Filter)> = Vec::new();
    let mut filters = Vec::with_capacity(criteria.len());
    for (number, (criterion, kind)) in criteria.iter().zip(kinds).enumerate() {
        while open.last().is_some_and(|(end, _)| *end <= number) {
            open.pop();
        }
        let mut filter = Filter::of(criterion, operands);
        if let Some((_, anchor)) = open.last() {
            filter = filter.within(anchor);
        }
        if *kind == RuleKind::Anchor {
            open.push((criterion.end as usize, filter));
        }
        filters.push(filter);
    }
    filters
}

/// A set of rules, a bit each.
type Words = Vec<u64>;

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    word_count: usize,
    chunk_count: usize,
    sets: HashMap<Words, u32>,
    additions: HashMap<Words, u32>,
}

fn place_of(out: &[u8]) -> u32 {
    u32::try_from(out.len()).unwrap_or(u32::MAX)
}

impl Writer<'_> {
    fn words_of(&self, filters: &[Filter], takes: impl Fn(&Filter) -> bool) -> Words {
        let mut words = vec![0; self.word_count];
        for (rule, filter) in filters.iter().enumerate() {
            words[rule / 64] |= u64::from(takes(filter)) << (rule % 64);
        }
        words
    }

    fn summaries(&self, words: &[u64]) -> Vec<u64> {
        let bits = |chunk: &[u64]| {
            let bit = |(at, word): (usize, &u64)| u64::from(*word != 0) << at;
            chunk.iter().enumerate().map(bit).sum()
        };
        words.chunks(CHUNK_WORDS).map(bits).collect()
    }

    /// Writes a set, or finds the same one.
    fn set(&mut self, words: Words) -> u32 {
        if let Some(at) = self.sets.get(&words) {
            return *at;
        }
        let at = place_of(self.out);
        for word in self.summaries(&words).iter().chain(&words) {
            self.out.extend(word.to_ne_bytes());
        }
        self.sets.insert(words, at);
        at
    }

    /// Writes what comes to a base, or finds the same.
    fn addition(&mut self, words: &[u64]) -> u32 {
        if let Some(at) = self.additions.get(words) {
            return *at;
        }
        let at = place_of(self.out);
        let size = self.chunk_count * ADDITION_BYTES;
        let mut words_at = at + u32::try_from(size).unwrap_or(u32::MAX);
        for summary in self.summaries(words) {
            let mut entry = Bytes::<ADDITION_BYTES>::new();
            entry.put(addition::SUMMARY, &summary.to_ne_bytes());
            entry.put(addition::WORDS_AT, &words_at.to_ne_bytes());
            self.out.extend(entry.0);
            words_at += summary.count_ones() * 8;
        }
        for word in words.iter().filter(|word| **word != 0) {
            self.out.extend(word.to_ne_bytes());
        }
        self.additions.insert(words.to_vec(), at);
        at
    }

    /// One dimension of ranges: the words of `struct weir_fw_dimension`, with their offsets.
    fn dimension(&mut self, filters: &[Filter], index: usize) -> [(u32, u32); 4] {
        let full = FULL[index];
        let is_base = |filter: &Filter| filter.ranges[index] == Some(full);
        let base = self.words_of(filters, is_base);
        let base = self.set(base);
        let mut changes: Vec<(u128, usize)> = Vec::new();
        for (rule, filter) in filters.iter().enumerate() {
            let Some((first, last)) = filter.ranges[index].filter(|range| *range != full) else {
                continue;
            };
            changes.push((first, rule));
            if last < full.1 {
                changes.push((last + 1, rule));
            }
        }
        changes.sort_unstable();
        let mut active = vec![0_u64; self.word_count];
        let (mut bounds, mut sets) = (Vec::new(), vec![self.addition(&active)]);
        for same in changes.chunk_by(|one, other| one.0 == other.0) {
            // A rule comes at its first address and goes behind its last one.
            for (_, rule) in same {
                active[rule / 64] ^= 1 << (rule % 64);
            }
            bounds.push(same[0].0);
            let set = self.addition(&active);
            sets.push(set);
        }
        let bounds_at = place_of(self.out);
        for bound in &bounds {
            if full.1 == u128::MAX {
                for half in [bound >> 64, bound & u128::from(u64::MAX)] {
                    self.out.extend(u64::try_from(half).unwrap_or(0).to_ne_bytes());
                }
            } else {
                self.out.extend(u32::try_from(*bound).unwrap_or(u32::MAX).to_ne_bytes());
            }
        }
        let sets_at = place_of(self.out);
        self.out.extend(sets.iter().flat_map(|set| set.to_ne_bytes()));
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        [
            (dimension::BASE, base),
            (dimension::BOUND_COUNT, u32::try_from(bounds.len()).unwrap_or(u32::MAX)),
            (dimension::BOUNDS_AT, bounds_at),
            (dimension::SETS_AT, sets_at),
        ]
    }

    /// Sets by direct index, and where their places stand.
    fn direct(&mut self, sets: Vec<Words>) -> u32 {
        let places: Vec<u32> = sets.into_iter().map(|words| self.set(words)).collect();
        let at = place_of(self.out);
        self.out.extend(places.iter().flat_map(|place| place.to_ne_bytes()));
        at
    }

    fn hooks(&mut self, filters: &[Filter]) -> u32 {
        let mut sets = Vec::with_capacity(2 * SLOT_COUNT);
        for direction in [hooks::IN, hooks::OUT] {
            for slot in 0..SLOT_COUNT {
                let takes = |filter: &Filter| {
                    filter.hooks & direction != 0 && filter.interfaces >> slot & 1 == 1
                };
                sets.push(self.words_of(filters, takes));
            }
        }
        self.direct(sets)
    }

    fn kinds(&mut self, filters: &[Filter]) -> u32 {
        let mut named: Vec<u8> = filters.iter().filter_map(|filter| filter.protocol?).collect();
        named.sort_unstable();
        named.dedup();
        let mut sets = Vec::with_capacity(512);
        for family in [hooks::INET, hooks::INET6] {
            let has = |filter: &Filter| filter.hooks & family != 0;
            let others = self.words_of(filters, |filter| has(filter) && filter.protocol.is_none());
            for protocol in 0..=255_u8 {
                if named.binary_search(&protocol).is_err() {
                    sets.push(others.clone());
                    continue;
                }
                let fits = |filter: &Filter| filter.protocol.is_none_or(|p| p == Some(protocol));
                sets.push(self.words_of(filters, |filter| has(filter) && fits(filter)));
            }
        }
        self.direct(sets)
    }

    fn tcp(&mut self, filters: &[Filter]) -> u32 {
        let fits = |flags: u8| {
            move |filter: &Filter| filter.tcp.iter().all(|(set, mask)| flags & mask == *set)
        };
        let sets = (0..=255_u8).map(|flags| self.words_of(filters, fits(flags))).collect();
        self.direct(sets)
    }

    fn icmp(&mut self, filters: &[Filter]) -> u32 {
        let fits = |kind: u8| {
            move |filter: &Filter| filter.icmp.is_none_or(|icmp_kind| icmp_kind == Some(kind))
        };
        let sets = (0..=255_u8).map(|kind| self.words_of(filters, fits(kind))).collect();
        self.direct(sets)
    }
}

/// Appends the sets to an image, whose length is a multiple of 8, and gives the place of their
/// description.
pub(super) fn write(
    criteria: &[Criteria],
    kinds: &[RuleKind],
    operands: &[u8],
    out: &mut Vec<u8>,
) -> u32 {
    let filters = filters(criteria, kinds, operands);
    let start = out.len();
    out.resize(start + CLASSES_BYTES, 0);
    let word_count = filters.len().div_ceil(64);
    let chunk_count = word_count.div_ceil(CHUNK_WORDS);
    let mut writer =
        Writer { out, word_count, chunk_count, sets: HashMap::new(), additions: HashMap::new() };
    let size = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let hooks_at = writer.hooks(&filters);
    let kinds_at = writer.kinds(&filters);
    let tcp_at = writer.tcp(&filters);
    let icmp_at = writer.icmp(&filters);
    let fragment = writer.words_of(&filters, |filter| filter.takes_fragments);
    let fragment = writer.set(fragment);
    let all = writer.words_of(&filters, |_| true);
    let all = writer.set(all);
    let nothing = writer.addition(&vec![0; word_count]);
    let mut words = vec![
        (classes::WORD_COUNT, size(word_count)),
        (classes::CHUNK_COUNT, size(chunk_count)),
        (classes::HOOKS_AT, hooks_at),
        (classes::KINDS_AT, kinds_at),
        (classes::TCP_AT, tcp_at),
        (classes::ICMP_AT, icmp_at),
        (classes::FRAGMENT, fragment),
        (classes::ALL, all),
        (classes::NOTHING, nothing),
    ];
    let mut at = classes::DIMENSION;
    for index in 0..dimensions::COUNT {
        let fields = writer.dimension(&filters, index);
        words.extend(fields.map(|(field, word)| (at + field, word)));
        at += dimension::SIZE_BYTES;
    }
    for (at, word) in words {
        let at = start + at as usize;
        out[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    size(start)
}

#[cfg(test)]
mod tests {
    use weir_wire::protocol::UDP;

    use super::*;

    #[test]
    fn a_rule_in_an_anchor_takes_no_more_than_the_anchor() {
        let anchor = Criteria {
            interfaces: 0b110,
            from_kind: PlaceKind::Range4,
            from: [100, 200],
            protocol: TCP,
            end: 3,
            ..Criteria::default()
        };
        let inner = Criteria {
            interfaces: 0b011,
            from_kind: PlaceKind::Range4,
            from: [150, 300],
            ..Criteria::default()
        };
        let kinds = [RuleKind::Anchor, RuleKind::Pass, RuleKind::Pass, RuleKind::Pass];
        let udp = Criteria { protocol: UDP, ..inner };
        let found = filters(&[anchor, inner, udp, inner], &kinds, &[]);
        assert_eq!((found[1].interfaces, found[1].protocol), (0b010, Some(Some(TCP))));
        assert_eq!(found[1].ranges[0], Some((150, 200)));
        assert_eq!(found[2].protocol, Some(None));
        assert_eq!(found[3], Filter::of(&inner, &[]));
    }
}
