//! Counter snapshots and the rules that turn their differences into a ledger.
//!
//! A snapshot is a two-level map: source (`dut-in`, `ip`, `nft`, …) → counter → value. Testbeds
//! and DUTs take snapshots and name, in [`PointRule`]s and [`DropRule`]s, which counters are the
//! counting points of a packet's way and which are losses. This module never reads a counter
//! itself and never decides whose fault a loss is.

use std::collections::BTreeMap;

use increase::Width;
use serde::{Deserialize, Serialize};

mod increase;

/// Counters by source and name.
pub type Counters = BTreeMap<String, BTreeMap<String, u64>>;

/// Source of the connection tracker's counters: the only ones of 32 bits.
const CONNTRACK_SOURCE: &str = "conntrack";

/// `after − before`, counter by counter. A counter that is new in `after` started at 0.
///
/// # Errors
/// Names the counters that went backwards or are gone: the device, the ruleset or the program
/// behind them was reset or replaced while the trial ran, so no figure can be derived from them.
pub fn difference(before: &Counters, after: &Counters) -> Result<Counters, Vec<String>> {
    let none = BTreeMap::new();
    let mut result = Counters::new();
    let mut unusable = Vec::new();
    for source in before.keys().chain(after.keys().filter(|s| !before.contains_key(*s))) {
        let width = match source.as_str() {
            CONNTRACK_SOURCE => Width::SumsOf32Bits,
            _ => Width::Bits64,
        };
        let earlier = before.get(source).unwrap_or(&none);
        let later = after.get(source).unwrap_or(&none);
        let changed = increase::difference(earlier, later, width);
        unusable.extend(changed.resets.into_iter().map(|reset| match reset.after {
            Some(after) => {
                format!("{source}: {} went from {} to {after}", reset.name, reset.before)
            }
            None => format!("{source}: {} was {} and is gone", reset.name, reset.before),
        }));
        result.insert(source.clone(), changed.increases);
    }
    if unusable.is_empty() { Ok(result) } else { Err(unusable) }
}

/// Whose loss a drop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The generator or its device.
    Generator,
    /// The device under test, its receive rings included.
    Dut,
    /// The sink, its receive rings included.
    Sink,
}

/// Which counters of a source to add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Source of the counters.
    pub source: String,
    /// Names; a `*` stands for any run of digits, as in `tx_queue_*_xdp_xmit`.
    pub names: Vec<String>,
}

impl Selection {
    /// A selection of `names` from `source`.
    #[must_use]
    pub fn new(source: &str, names: &[&str]) -> Self {
        Self { source: source.to_owned(), names: names.iter().map(|n| (*n).to_owned()).collect() }
    }

    /// Sum over all counters that match; `None` when not a single one does.
    #[must_use]
    pub fn sum(&self, counters: &Counters) -> Option<u64> {
        let values = counters.get(&self.source)?;
        let mut found = None;
        for (name, value) in values {
            if self.names.iter().any(|pattern| matches(pattern, name)) {
                found = Some(found.unwrap_or(0) + value);
            }
        }
        found
    }

    /// As a report names it: `source: a + b`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}: {}", self.source, self.names.join(" + "))
    }
}

/// Whether `name` is `pattern`, whose `*` stands for one or more digits.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == name;
    };
    name.strip_prefix(head)
        .and_then(|rest| rest.strip_suffix(tail))
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// A counting point and where its number comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointRule {
    /// Name of the point: `offered`, `accepted`, `dut_received`, `dut_forwarded`, `delivered`.
    pub name: &'static str,
    pub counters: Selection,
}

/// A named loss and where its number comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropRule {
    /// Name in the ledger.
    pub name: String,
    /// The counting point after which these packets are lost.
    pub after: &'static str,
    /// Whose loss it is.
    pub place: Place,
    pub counters: Selection,
}

impl DropRule {
    /// A rule for one loss.
    #[must_use]
    pub fn new(name: &str, after: &'static str, place: Place, counters: Selection) -> Self {
        Self { name: name.to_owned(), after, place, counters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(source: &str, pairs: &[(&str, u64)]) -> Counters {
        let values = pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        Counters::from([(source.to_owned(), values)])
    }

    #[test]
    fn a_star_stands_for_digits_only() {
        assert!(matches("tx_queue_*_xdp_xmit", "tx_queue_12_xdp_xmit"));
        assert!(!matches("tx_queue_*_xdp_xmit", "tx_queue_12_xdp_xmit_errors"));
        assert!(!matches("tx_queue_*_xdp_xmit", "tx_queue__xdp_xmit"));
        assert!(matches("rx_packets", "rx_packets"));
    }

    #[test]
    fn sums_over_queues_and_tells_absence_from_zero() {
        let c = one("dev", &[("q_0_x", 3), ("q_1_x", 4), ("other", 100)]);
        assert_eq!(Selection::new("dev", &["q_*_x"]).sum(&c), Some(7));
        assert_eq!(Selection::new("dev", &["q_*_y"]).sum(&c), None);
        assert_eq!(Selection::new("gone", &["q_*_x"]).sum(&c), None);
    }

    #[test]
    fn a_counter_that_went_backwards_is_named() {
        let error = difference(&one("dev", &[("a", 5)]), &one("dev", &[("a", 4)])).unwrap_err();
        assert_eq!(error, ["dev: a went from 5 to 4"]);
        let ok = difference(&one("dev", &[("a", 5)]), &one("dev", &[("a", 9), ("b", 2)])).unwrap();
        assert_eq!(ok, one("dev", &[("a", 4), ("b", 2)]));
    }

    #[test]
    fn counters_and_sources_that_are_gone_are_named() {
        let before = one("nft", &[("a", 5), ("b", 0)]);
        let error = difference(&before, &one("nft", &[("a", 6)])).unwrap_err();
        assert_eq!(error, ["nft: b was 0 and is gone"]);
        let error = difference(&before, &one("ip", &[("c", 1)])).unwrap_err();
        assert_eq!(error, ["nft: a was 5 and is gone", "nft: b was 0 and is gone"]);
        let new = difference(&Counters::new(), &before).unwrap();
        assert_eq!(new, before, "what is new started at 0");
    }

    #[test]
    fn the_connection_trackers_counters_may_pass_their_end_of_32_bits() {
        let last = u64::from(u32::MAX);
        let (before, after) = ([("found", last - 1)], [("found", 3)]);
        let ok = difference(&one("conntrack", &before), &one("conntrack", &after)).unwrap();
        assert_eq!(ok, one("conntrack", &[("found", 5)]));
        let error = difference(&one("ip", &before), &one("ip", &after)).unwrap_err();
        assert_eq!(error, ["ip: found went from 4294967294 to 3"]);
        let small = difference(&one("conntrack", &[("found", 9)]), &one("conntrack", &after));
        assert_eq!(small.unwrap_err(), ["conntrack: found went from 9 to 3"]);
    }
}
