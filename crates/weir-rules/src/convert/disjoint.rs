//! Whether two rules can match the same packet.
//!
//! "No" is certain; what cannot be told counts as "yes".

use std::net::IpAddr;

use crate::ir::{Address, Interface, Peer, Rule};
use crate::resolve::Resolver;
use crate::value::{Comparison, Operator};

/// Whether no packet matches both.
pub(super) fn rules(a: &Rule, b: &Rule, resolver: &dyn Resolver) -> bool {
    differ(a.direction.as_ref(), b.direction.as_ref())
        || differ(a.af.as_ref(), b.af.as_ref())
        || differ(a.protocol.as_ref(), b.protocol.as_ref())
        || interfaces(a.interface.as_ref(), b.interface.as_ref(), resolver)
        || peers(&a.from, &b.from)
        || peers(&a.to, &b.to)
}

fn differ<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a != b)
}

fn interfaces(a: Option<&Interface>, b: Option<&Interface>, resolver: &dyn Resolver) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    if a.name == b.name {
        return a.not != b.not;
    }
    // A group, or a family such as `em`, may hold the other.
    let is_one = |name: &str| {
        let ends_in_digit = name.ends_with(|c: char| c.is_ascii_digit());
        let is_known = resolver.interfaces().iter().any(|interface| interface.name == name);
        (is_known || ends_in_digit) && !resolver.is_group(name)
    };
    !a.not && !b.not && is_one(&a.name) && is_one(&b.name)
}

fn peers(a: &Peer, b: &Peer) -> bool {
    let ports = match (&a.port, &b.port) {
        (Some(a), Some(b)) => ports(a, b),
        _ => false,
    };
    ports || addresses(a, b)
}

fn addresses(a: &Peer, b: &Peer) -> bool {
    if a.not != b.not {
        return a.address == b.address;
    }
    if a.not {
        return false;
    }
    match (range(&a.address), range(&b.address)) {
        (Some(a), Some(b)) => a.0.is_ipv4() != b.0.is_ipv4() || a.1 < b.0 || b.1 < a.0,
        _ => false,
    }
}

/// First and last address.
fn range(address: &Address) -> Option<(IpAddr, IpAddr)> {
    match address {
        Address::Network(IpAddr::V4(v4), bits) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
            let first = v4.to_bits() & mask;
            Some((IpAddr::V4(first.into()), IpAddr::V4((first | !mask).into())))
        }
        Address::Network(IpAddr::V6(v6), bits) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
            let first = v6.to_bits() & mask;
            Some((IpAddr::V6(first.into()), IpAddr::V6((first | !mask).into())))
        }
        Address::Range(first, last) => Some((*first, *last)),
        _ => None,
    }
}

/// Whether no port satisfies both: a port that does is an end of one of the intervals.
fn ports(a: &Comparison<u16>, b: &Comparison<u16>) -> bool {
    !intervals(a).into_iter().flatten().any(|(first, last)| {
        let interval = intervals(b).into_iter().flatten();
        interval
            .into_iter()
            .any(|(other_first, other_last)| first <= other_last && other_first <= last)
    })
}

fn intervals(comparison: &Comparison<u16>) -> [Option<(u16, u16)>; 2] {
    let (first, second) = (comparison.first, comparison.second);
    let below = |port: u16| port.checked_sub(1).map(|last| (0, last));
    let above = |port: u16| port.checked_add(1).map(|start| (start, u16::MAX));
    match comparison.operator {
        Operator::Equal => [Some((first, first)), None],
        Operator::NotEqual => [below(first), above(first)],
        Operator::Less => [below(first), None],
        Operator::LessEqual => [Some((0, first)), None],
        Operator::Greater => [above(first), None],
        Operator::GreaterEqual => [Some((first, u16::MAX)), None],
        Operator::Inside => {
            let inner = first.checked_add(1).zip(second.checked_sub(1));
            [inner.filter(|(low, high)| low <= high), None]
        }
        Operator::Outside => [below(first), above(second)],
        Operator::Range => [Some((first, second)), None],
    }
}
