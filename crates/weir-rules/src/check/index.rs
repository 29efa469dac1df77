//! Finds the rules that cover a given one without comparing all pairs: rules are kept by the
//! fields in which a wider rule must be equal or wild.
//!
//! In the worst case, where most rules are wild in those fields, the work still grows with the
//! square of the rules; a budget bounds it.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::cover::{Leniency, covers};
use crate::ir::{Address, Peer, Rule};
use crate::value::{Comparison, Operator, Text, masked};

/// Comparisons of two rules that one search may make: half a second or so. Six thousand rules that
/// are all wild need this many; a file with more of them is searched as far as this reaches.
pub(crate) const COMPARISON_COUNT_MAX: u64 = 20_000_000;

/// What is left of the budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    left_count: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left_count: COMPARISON_COUNT_MAX }
    }
}

impl Budget {
    /// Whether one more comparison may be made.
    fn take(&mut self) -> bool {
        let has_some = self.left_count > 0;
        self.left_count = self.left_count.saturating_sub(1);
        has_some
    }

    /// Whether nothing is left, so that the search may have missed something.
    pub(crate) fn is_spent(self) -> bool {
        self.left_count == 0
    }
}

/// A network with the length of its prefix.
type Prefix = (IpAddr, u8);

/// The fields by which rules are kept; `None` is everything that has no exact value there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    interface: Option<Text>,
    port: Option<u16>,
    from: Option<Prefix>,
    to: Option<Prefix>,
}

/// Rules by [`Key`], in their order.
#[derive(Default)]
pub(crate) struct Index {
    rules_by_key: HashMap<Key, Vec<usize>>,
    /// Lengths of prefixes that occur, by family (IPv4 first).
    from_bits: [BTreeSet<u8>; 2],
    to_bits: [BTreeSet<u8>; 2],
}

impl Index {
    /// Of those `rules` that `takes` accepts.
    pub(crate) fn new(rules: &[Rule], takes: impl Fn(usize) -> bool) -> Self {
        let mut index = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            if !takes(at) {
                continue;
            }
            let key = key(rule);
            for (prefix, lengths) in
                [(key.from, &mut index.from_bits), (key.to, &mut index.to_bits)]
            {
                if let Some((address, bits)) = prefix {
                    lengths[usize::from(address.is_ipv6())].insert(bits);
                }
            }
            index.rules_by_key.entry(key).or_default().push(at);
        }
        index
    }

    /// The first rule in `range` that covers the rule at `narrow`, itself excepted, and that
    /// `accepts` takes.
    pub(crate) fn first_cover(
        &self,
        rules: &[Rule],
        narrow: usize,
        range: std::ops::Range<usize>,
        leniency: Leniency,
        budget: &mut Budget,
        accepts: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let sought = key(&rules[narrow]);
        let mut best: Option<usize> = None;
        for from in wider(sought.from, &self.from_bits) {
            for to in wider(sought.to, &self.to_bits) {
                for port in both(sought.port) {
                    for interface in both(sought.interface.clone()) {
                        let key = Key { interface, port, from, to };
                        let Some(candidates) = self.rules_by_key.get(&key) else { continue };
                        let start = candidates.partition_point(|at| *at < range.start);
                        let end = best.unwrap_or(range.end);
                        for at in candidates[start..].iter().copied().take_while(|at| *at < end) {
                            if at == narrow || !accepts(at) {
                                continue;
                            }
                            if !budget.take() {
                                return best;
                            }
                            if covers(&rules[at], &rules[narrow], leniency) {
                                best = Some(at);
                                break;
                            }
                        }
                    }
                }
            }
        }
        best
    }
}

fn key(rule: &Rule) -> Key {
    let interface = rule.interface.as_ref().filter(|interface| !interface.not);
    Key {
        interface: interface.map(|interface| interface.name.clone()),
        port: rule.to.port.and_then(exact),
        from: prefix(&rule.from),
        to: prefix(&rule.to),
    }
}

fn exact(port: Comparison<u16>) -> Option<u16> {
    (port.operator == Operator::Equal).then_some(port.first)
}

fn prefix(peer: &Peer) -> Option<Prefix> {
    match &peer.address {
        Address::Network(address, bits) if !peer.not => Some((masked(*address, *bits), *bits)),
        // The network around a wider range holds that around a narrower one.
        Address::Range(first, last) if !peer.not => around(*first, *last),
        _ => None,
    }
}

/// The smallest network that holds both addresses, if they are of one family.
fn around(first: IpAddr, last: IpAddr) -> Option<Prefix> {
    let bits = match (first, last) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return None,
    };
    let bits = u8::try_from(bits).ok()?;
    Some((masked(first, bits), bits))
}

/// The value itself, and wild.
fn both<T>(value: Option<T>) -> impl Iterator<Item = Option<T>> {
    value.map(Some).into_iter().chain([None])
}

/// All prefixes that hold this one and that occur, and wild.
fn wider(prefix: Option<Prefix>, bits: &[BTreeSet<u8>; 2]) -> Vec<Option<Prefix>> {
    let mut found = vec![None];
    if let Some((address, prefix_bits)) = prefix {
        let lengths = bits[usize::from(address.is_ipv6())].range(..=prefix_bits);
        found.extend(lengths.map(|bits| Some((masked(address, *bits), *bits))));
    }
    found
}
