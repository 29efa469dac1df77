//! A quick look that most rules fail: what it refuses, the criteria refuse too. A trace does
//! without it, and must come to the same verdict.

use weir_wire::protocol::SCTP;

use super::Ip;
use super::packet::Packet;
use super::ready::{End, Place, Ready, has_bit};
use super::trace::Subject;
use crate::dialect::Dialect;
use crate::value::{Af, Comparison, Direction, Operator};

/// What of a rule can be compared in a few instructions. Where a rule has something else (a
/// table, a negation), the field lets everything through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// Direction, family and protocol, where the mask has bits.
    key: u32,
    mask: u32,
    /// Index of the interface's name, twice, plus 1 if it is negated; [`ANY`] for none.
    interface: u32,
    from: (u32, u32),
    to: (u32, u32),
    /// First and last destination port.
    ports: (u16, u16),
}

const ANY: u32 = u32::MAX;

/// The packet in the form of [`Head`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    key: u32,
    from: u32,
    to: u32,
    port: u16,
    looks_at_ports: bool,
}

fn direction_key(direction: Direction) -> u32 {
    match direction {
        Direction::In => 1 << 16,
        Direction::Out => 2 << 16,
    }
}

fn family_key(af: Af) -> u32 {
    match af {
        Af::Inet => 1 << 8,
        Af::Inet6 => 2 << 8,
    }
}

impl Head {
    pub(super) fn new(rule: &Ready<'_>) -> Self {
        let (mut key, mut mask) = (u32::from(rule.protocol), 0);
        if rule.protocol != 0 {
            mask |= 0xff;
        }
        if let Some(direction) = rule.direction {
            key |= direction_key(direction);
            mask |= 0xff << 16;
        }
        let (from, to) = (network(&rule.from), network(&rule.to));
        let is_v4 = from.1 != 0 || to.1 != 0;
        if let Some(af) = rule.rule.af.or(is_v4.then_some(Af::Inet)) {
            key |= family_key(af);
            mask |= 0xff << 8;
        }
        let interface = rule.interface.map_or(ANY, |(name, not)| name << 1 | u32::from(not));
        Self { key, mask, interface, from, to, ports: ports(rule.to.port) }
    }
}

/// A network of IPv4 that is not negated, and its mask.
fn network(end: &End) -> (u32, u32) {
    match end.place {
        Place::Net4(network, mask) if !end.not => (network, mask),
        _ => (0, 0),
    }
}

/// The ports that a comparison takes, where they are one range.
fn ports(comparison: Option<Comparison<u16>>) -> (u16, u16) {
    let Some(comparison) = comparison else {
        return (0, u16::MAX);
    };
    match comparison.operator {
        Operator::Equal => (comparison.first, comparison.first),
        Operator::Range => (comparison.first, comparison.second),
        Operator::LessEqual => (0, comparison.first),
        Operator::GreaterEqual => (comparison.first, u16::MAX),
        Operator::NotEqual
        | Operator::Less
        | Operator::Greater
        | Operator::Inside
        | Operator::Outside => (0, u16::MAX),
    }
}

impl Probe {
    pub(super) fn new(packet: &Packet, af: Af, dialect: Dialect, subject: &Subject) -> Self {
        let v4 = |address| match address {
            Ip::V4(address) => address,
            Ip::V6(_) => 0,
        };
        let has_ports = packet.has_ports();
        let is_sctp = packet.protocol == SCTP;
        let is_freebsd = dialect == Dialect::FreeBsd;
        let key = direction_key(packet.direction) | family_key(af) | u32::from(packet.protocol);
        Self {
            key,
            from: v4(subject.source),
            to: v4(subject.destination),
            port: subject.destination_port,
            looks_at_ports: has_ports && (!is_sctp || is_freebsd),
        }
    }

    /// Whether the rule cannot match.
    #[inline]
    pub(super) fn is_refused(&self, head: &Head, bits: &[u64]) -> bool {
        if (self.key ^ head.key) & head.mask != 0
            || self.from & head.from.1 != head.from.0
            || self.to & head.to.1 != head.to.0
        {
            return true;
        }
        if self.looks_at_ports && !(head.ports.0..=head.ports.1).contains(&self.port) {
            return true;
        }
        head.interface != ANY && has_bit(bits, head.interface >> 1) == (head.interface & 1 == 1)
    }
}
