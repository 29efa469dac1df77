//! Counter snapshots and the rules that turn their differences into a ledger.
//!
//! A snapshot is a two-level map: source (`dut-in`, `ip`, `nft`, …) → counter → value. Testbeds
//! and DUTs take snapshots and name, in [`PointRule`]s and [`DropRule`]s, which counters are the
//! counting points of a packet's way and which are losses. This module never reads a counter
//! itself and never decides whose fault a loss is.

use std::collections::BTreeMap;

use crate::record::Place;

/// Counters by source and name.
pub type Counters = BTreeMap<String, BTreeMap<String, u64>>;

/// `after − before`, counter by counter. A counter that is new in `after` started at 0.
///
/// # Errors
/// Names the counters that went backwards: the device or the program behind them was reset while
/// the trial ran, so no figure can be derived from them.
pub fn difference(before: &Counters, after: &Counters) -> Result<Counters, Vec<String>> {
    let mut result = Counters::new();
    let mut backwards = Vec::new();
    for (source, values) in after {
        let earlier = before.get(source);
        let entry = result.entry(source.clone()).or_default();
        for (name, &value) in values {
            let start = earlier.and_then(|e| e.get(name)).copied().unwrap_or(0);
            match value.checked_sub(start) {
                Some(d) => {
                    entry.insert(name.clone(), d);
                }
                None => backwards.push(format!("{source}: {name} went from {start} to {value}")),
            }
        }
    }
    if backwards.is_empty() { Ok(result) } else { Err(backwards) }
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
    /// Its counters.
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
    /// Its counters.
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
}
