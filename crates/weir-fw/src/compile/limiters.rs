//! `state limiter` and `source limiter`: what the ruleset allows them (`struct weir_fw_limiter`),
//! and which of them a rule has (`enum weir_fw_limited`), for its states also when it is gone. What
//! limiters have counted stands elsewhere, and is never touched here.

use std::collections::BTreeMap;

use weir_bpf::firewall::layout::{
    LIMITED_INET_SHIFT, LIMITED_INET6_SHIFT, LIMITED_SOURCE_NO_MATCH_SHIFT, LIMITED_SOURCE_SHIFT,
    LIMITED_STATE_NO_MATCH_SHIFT, LIMITED_STATE_SHIFT, LIMITER_COUNT, LIMITER_SOURCES, limiter,
};
use weir_rules::ast::Limiter;
use weir_rules::ir::{Rule, Ruleset};
use weir_rules::value::LimiterKind;

use super::known::Known;
use crate::image::Bytes;

/// Bits of an address that a source limiter counts, where it does not say: all of them.
const INET_BITS: u8 = 32;
const INET6_BITS: u8 = 128;

/// The place of a limiter among all.
pub(crate) fn number(kind: LimiterKind, id: u32) -> u32 {
    match kind {
        LimiterKind::State => id,
        LimiterKind::Source => LIMITER_SOURCES + id,
    }
}

/// The masks of a source limiter, IPv4's and IPv6's.
pub(crate) fn masks(limiter: &Limiter) -> [u8; 2] {
    [limiter.inet_bits.unwrap_or(INET_BITS), limiter.inet6_bits.unwrap_or(INET6_BITS)]
}

/// Which limiters a rule has; 0: none.
pub(super) fn word(ruleset: &Ruleset, rule: &Rule) -> u32 {
    let mut word = 0;
    for named in &rule.options.limiters {
        let id = named.id().unwrap_or(0);
        let no_match = u32::from(!named.blocks(ruleset.dialect));
        match named.kind {
            LimiterKind::State => {
                word |= id << LIMITED_STATE_SHIFT | no_match << LIMITED_STATE_NO_MATCH_SHIFT;
            }
            LimiterKind::Source => {
                let [inet, inet6] =
                    ruleset.limiter(named).map_or([INET_BITS, INET6_BITS], masks).map(u32::from);
                word |= id << LIMITED_SOURCE_SHIFT
                    | inet << LIMITED_INET_SHIFT
                    | inet6 << LIMITED_INET6_SHIFT
                    | no_match << LIMITED_SOURCE_NO_MATCH_SHIFT;
            }
        }
    }
    word
}

/// What tells a rule from one with the same text whose limiter keeps other bits of addresses: their
/// states are not counted by the same sources.
pub(super) fn suffix(ruleset: &Ruleset, rule: &Rule) -> String {
    let of_sources = rule.options.limiters.iter().find(|one| one.kind == LimiterKind::Source);
    let found = of_sources.and_then(|named| ruleset.limiter(named)).map(masks);
    found.map_or_else(String::new, |[inet, inet6]| format!(" # masks {inet}, {inet6}"))
}

/// The ruleset's limiters by number, as `struct weir_fw_limiter`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Limiters(BTreeMap<u32, Bytes<{ limiter::SIZE_BYTES as usize }>>);

impl Limiters {
    pub(super) fn of(ruleset: &Ruleset) -> Self {
        Self(ruleset.limiters().map(|one| (number(one.kind, one.id), bytes(one))).collect())
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.0.keys().copied().collect()
    }

    /// Appends all of them, and by rule id what `known` rules have, if some have any; gives where
    /// they stand.
    pub(super) fn link(&self, out: &mut Vec<u8>, known: &Known) -> [u32; 2] {
        if !known.has_limiters() {
            return [0; 2];
        }
        let none = Bytes::new();
        let limiters_at = super::padded(out);
        for number in 0..LIMITER_COUNT {
            out.extend(self.0.get(&number).unwrap_or(&none).0);
        }
        let limited_at = super::padded(out);
        let word = |id| known.of_states.get(&id).map_or(0, |found| found.limited);
        out.extend((0..known.id_count).flat_map(|id| word(id).to_ne_bytes()));
        [limiters_at, limited_at]
    }
}

fn bytes(one: &Limiter) -> Bytes<{ limiter::SIZE_BYTES as usize }> {
    let mut bytes = Bytes::new();
    let rate = one.rate.map_or((0, 0), |rate| (rate.limit, rate.seconds));
    let table = one.table.as_ref();
    for (at, word) in [
        (limiter::LIMIT, one.limit.unwrap_or(0)),
        (limiter::ENTRIES, one.entries.unwrap_or(0)),
        (limiter::RATE_COUNT, rate.0),
        (limiter::RATE_SECONDS, rate.1),
        (limiter::HAS_TABLE, u32::from(table.is_some())),
        (limiter::ABOVE, table.map_or(0, |table| table.above)),
        (limiter::BELOW, table.and_then(|table| table.below).unwrap_or(0)),
    ] {
        bytes.put(at, &word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use weir_rules::Dialect;
    use weir_rules::facts::Facts;

    use super::*;
    use crate::testing::ruleset;

    #[test]
    fn a_rules_limiters_are_one_word() {
        let text = "state limiter a id 3 limit 9\n\
                    source limiter b id 255 entries 4 limit 9 rate 2/5 inet mask 24\n\
                    pass state limiter a source limiter b (block)\npass\n";
        for (dialect, no_match) in [(Dialect::OpenBsd, 0), (Dialect::FreeBsd, 1 << 30)] {
            let ruleset = ruleset(text, dialect, &Facts::default());
            let [limited, plain] = &ruleset.main.filter[..] else { panic!("two rules") };
            let expected = 3 | 255 << 8 | 24 << 16 | 128 << 22 | no_match;
            assert_eq!((word(&ruleset, limited), word(&ruleset, plain)), (expected, 0));
            assert_eq!(suffix(&ruleset, limited), " # masks 24, 128");
            assert_eq!(suffix(&ruleset, plain), "");
            assert_eq!(Limiters::of(&ruleset).numbers(), [3, LIMITER_SOURCES + 255]);
        }
    }
}
