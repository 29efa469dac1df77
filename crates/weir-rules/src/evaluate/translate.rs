//! Translation: which address and port a pool gives, and what a rule makes of the packet's own
//! (`pf_get_translation`, `pf_get_transaddr`, `pf_get_sport` and `pf_map_addr` of pf_lb.c).
//!
//! Some choices are not pf's, because pf's depend on keys made at load time: `source-hash` uses a
//! hash of its own (one source keeps one address, but not the address that pf would give), which
//! also says what a `sticky-address` pool gives to a source that has nothing yet; and
//! `least-states` takes turns, as the state view counts them, unless somebody who counts states
//! has chosen.

use std::net::IpAddr;

use weir_wire::protocol::{ICMP, ICMP6, TCP, UDP};

use super::Ip;
use super::packet::{Extensions, is_martian};
use super::ready::{List, Place, Ready};
use super::trace::{Subject, Tracer};
use super::verdict::Translated;
use super::view::{Mapping, PoolEnd, RuleId};
use super::walk::{Found, Walk};
use crate::ir::{Address, Pool, PoolPorts, Rule};
use crate::value::{Af, Direction, MapEPortSet, PoolKind, Text, mask4, mask6};

/// Addresses of a pool that takes turns, or draws them, of which a free port is looked for, at
/// most: `WEIR_POOL_ADDRESSES_MAX` of bpf/include/weir/fw/pool.h. pf looks at all of them.
const POOL_ADDRESSES_MAX: usize = 8;

/// An address, or a network of them, that a pool may give.
pub(super) struct Target {
    pub(super) base: Ip,
    pub(super) bits: u8,
    weight: u16,
    host: usize,
}

impl Target {
    /// How many addresses it has.
    fn size(&self) -> u128 {
        let width = self.base.af().bits();
        1_u128.checked_shl(u32::from(width - self.bits.min(width))).unwrap_or(u128::MAX)
    }
}

impl<'w, T: Tracer> Walk<'w, '_, '_, T> {
    /// FreeBSD's lists: out, `binat` and then `nat`; in, `rdr` and then `binat`. The first rule of
    /// a list that matches wins, and a `no` rule ends its list.
    pub(super) fn old_translation(&mut self) -> Result<(), ()> {
        let lists = match self.packet.direction {
            Direction::Out => [List::Binat, List::Nat],
            Direction::In => [List::Rdr, List::Binat],
        };
        for list in lists {
            let Found::Rule(at) = self.first_translation(list, 0, 0) else {
                continue;
            };
            // A fragment without ports leaves as its first one, or not at all.
            if self.packet.fragment {
                return Err(());
            }
            let rule = self.evaluator.rules[at as usize].rule;
            let before = self.subject;
            match list {
                List::Binat => self.binat(at, rule)?,
                List::Rdr => self.redirect(at, rule)?,
                _ => self.source_nat(at, rule)?,
            }
            let after = self.subject;
            let ends = |subject: Subject| {
                (subject.source, subject.destination, subject.source_port, subject.destination_port)
            };
            // A translation that changes nothing is none.
            if ends(before) != ends(after) {
                self.translator = Some(at);
                if let Some(log) = rule.log {
                    self.actions.log_all |= log.all;
                    self.log(at);
                }
            }
            return Ok(());
        }
        Ok(())
    }

    /// `nat-to`, `rdr-to` and `af-to` of a matching rule.
    pub(super) fn translate_by(&mut self, at: u32, rule: &'w Rule) -> Result<(), ()> {
        if let Some(af) = rule.af_to {
            self.translator = Some(at);
            return self.change_family(at, rule, af);
        }
        if self.packet.fragment && (rule.nat.is_some() || rule.rdr.is_some()) {
            return Err(());
        }
        if rule.nat.is_some() {
            self.source_nat(at, rule)?;
            self.translator = Some(at);
        }
        if rule.rdr.is_some() {
            self.redirect(at, rule)?;
            self.translator = Some(at);
        }
        Ok(())
    }

    pub(super) fn translated(&self) -> Option<Translated<'w>> {
        let at = self.translator?;
        Some(Translated {
            rule: self.rule_ref(at),
            source: self.subject.source.into(),
            source_port: self.subject.source_port,
            destination: self.subject.destination.into(),
            destination_port: self.subject.destination_port,
            af_to: self.af_to,
            takes_effect: false,
        })
    }

    /// What a pool may give in the family of the packet, or of `af-to`.
    pub(super) fn targets(&self, rule: &Ready<'_>, pool: &Pool) -> Vec<Target> {
        self.targets_of(rule, pool, self.af_to.unwrap_or(self.af))
    }

    fn targets_of(&self, rule: &Ready<'_>, pool: &Pool, af: Af) -> Vec<Target> {
        let mut targets = Vec::new();
        for (host, entry) in pool.hosts.iter().enumerate() {
            let weight = entry.weight.unwrap_or(1).max(1);
            let found: Vec<(Ip, u8)> = match &entry.address {
                Some(Address::Network(address, bits)) => vec![((*address).into(), *bits)],
                Some(Address::Dynamic(dynamic)) => {
                    let found = self.evaluator.pool_networks_of(dynamic).into_iter();
                    found.map(|(ip, bits)| (ip.into(), bits)).collect()
                }
                Some(Address::Table(name)) => {
                    let anchor = &self.evaluator.blocks[rule.block as usize].path;
                    let table = self.evaluator.tables.find(anchor, name);
                    table.map_or_else(Vec::new, |at| self.evaluator.tables.at(at).networks(af))
                }
                _ => Vec::new(),
            };
            let fitting = found.into_iter().filter(|(base, _)| base.af() == af);
            targets.extend(fitting.map(|(base, bits)| Target { base, bits, weight, host }));
        }
        targets
    }

    /// An address of a pool for a source, at an end of the packet; `None` is a next hop. Where the
    /// pool takes turns, or draws, it is that of `turn`, or the first one; `turn` is that of the
    /// next address then.
    fn pick(
        &mut self,
        (at, end): (u32, Option<PoolEnd>),
        pool: &Pool,
        af: Af,
        source: Ip,
        turn: &mut Option<u128>,
    ) -> Result<(Ip, usize), ()> {
        let evaluator = self.evaluator;
        let targets = self.targets_of(&evaluator.rules[at as usize], pool, af);
        let first = targets.first().ok_or(())?;
        let id = RuleId(at);
        let states = &mut self.moment.states;
        let before = pool.sticky.then(|| states.sticky(id, source.into())).flatten();
        let holds = |address: Ip| {
            let mut all = targets.iter();
            let found = all.find(|target| target.base.prefix_holds(target.bits, address));
            found.map(|target| (address, target.host))
        };
        if let Some(found) = before.and_then(|address| holds(address.into())) {
            return Ok(found);
        }
        let (index, is_free) = match &pool.kind {
            None => return Ok((first.base, first.host)),
            Some(PoolKind::Bitmask) => {
                return Ok((first.base.with_host_bits(first.bits, source), first.host));
            }
            Some(PoolKind::SourceHash(key)) => (source_hash(source, key.as_ref()).into(), false),
            Some(_) if pool.sticky => (source_hash(source, None).into(), false),
            // Whose turn it is everybody knows.
            Some(kind) => {
                let turn = turn.unwrap_or_else(|| self.first_turn(id, kind));
                (turn, matches!(kind, PoolKind::Random | PoolKind::LeastStates))
            }
        };
        let given = end.filter(|_| is_free).and_then(|end| self.moment.states.given(end));
        if let Some(found) = given.and_then(|address| holds(address.into())) {
            return Ok(found);
        }
        let weight = |target: &Target| target.size().saturating_mul(target.weight.into());
        let total = targets.iter().fold(0_u128, |sum, target| sum.saturating_add(weight(target)));
        let at = index % total;
        let mut left = at;
        for target in &targets {
            let here = weight(target);
            if left < here {
                *turn = Some(if target.size() == 1 { at - left + here } else { at + 1 });
                return Ok((target.base.plus(target.bits, left % target.size()), target.host));
            }
            left -= here;
        }
        Ok((first.base, first.host))
    }

    fn first_turn(&mut self, rule: RuleId, kind: &PoolKind) -> u128 {
        if *kind != PoolKind::Random {
            return self.moment.states.turn(rule).into();
        }
        let draws = (0..4).map(|_| u128::from((self.moment.random)()));
        draws.fold(0, |sum, draw| sum << 32 | draw)
    }

    /// The interface and the next hop of a route.
    pub(super) fn next_hop(
        &mut self,
        at: u32,
        pool: &Pool,
    ) -> Result<(Option<Text>, Option<IpAddr>), ()> {
        if pool.hosts.iter().all(|host| host.address.is_none()) {
            let interface = pool.hosts.first().and_then(|host| host.interface.clone());
            return Ok((interface, None));
        }
        // As it is behind `nat`, as in pf.
        let source = self.subject.source;
        let (address, host) = self.pick((at, None), pool, self.af, source, &mut None)?;
        Ok((pool.hosts[host].interface.clone(), Some(address.into())))
    }

    fn source_nat(&mut self, at: u32, rule: &'w Rule) -> Result<(), ()> {
        let Some(pool) = &rule.nat else {
            return Ok(());
        };
        let is_mapped = pool.endpoint_independent && self.packet.protocol == UDP;
        let inside = (self.packet.source, self.packet.source_port);
        if is_mapped && let Some(mapped) = self.moment.states.mapped(inside) {
            let (source, port) = (mapped.0.into(), mapped.1);
            (self.subject.source, self.subject.source_port) = (source, port);
            return if self.mapping_is_free(source, port) { Ok(()) } else { Err(()) };
        }
        self.is_for_all = is_mapped;
        let free = self.free_source(at, pool, self.af);
        self.is_for_all = false;
        (self.subject.source, self.subject.source_port) = free?;
        Ok(())
    }

    /// A source address of a pool with a port that is free (`pf_get_sport`). Where none is, a pool
    /// that takes turns, or draws, goes on to its next address.
    fn free_source(&mut self, at: u32, pool: &Pool, af: Af) -> Result<(Ip, u16), ()> {
        let goes_on = matches!(pool.kind, Some(PoolKind::RoundRobin | PoolKind::Random));
        // A source that keeps its address has no other one.
        let count = if goes_on && !pool.sticky { POOL_ADDRESSES_MAX } else { 1 };
        let (mut turn, mut tried) = (None, Vec::new());
        for _ in 0..count {
            let from = (at, Some(PoolEnd::Source));
            let (source, _) = self.pick(from, pool, af, self.subject.source, &mut turn)?;
            if tried.contains(&source) {
                break;
            }
            tried.push(source);
            if let Ok(port) = self.source_port(pool, source) {
                return Ok((source, port));
            }
        }
        Err(())
    }

    /// A free source port (`pf_get_sport`): from a random place on to the end, then down.
    fn source_port(&mut self, pool: &Pool, source: Ip) -> Result<u16, ()> {
        let packet = self.packet;
        let source_port = self.subject.source_port;
        let is_echo = match packet.protocol {
            ICMP => packet.icmp.kind == 8,
            ICMP6 => packet.icmp.kind == 128,
            _ => false,
        };
        if packet.is_icmp() {
            if !is_echo {
                return Ok(source_port);
            }
            return self.free_port(source, 1, 65_535).ok_or(());
        }
        if !matches!(packet.protocol, TCP | UDP) || pool.ports == PoolPorts::Static {
            let free = self.mapping_is_free(source, source_port);
            return if free { Ok(source_port) } else { Err(()) };
        }
        if let Some(set) = pool.map_e {
            return self.map_e_port(source, set).ok_or(());
        }
        let (low, high) = match pool.ports {
            PoolPorts::Range(low, high) => (low.min(high), low.max(high)),
            PoolPorts::Default | PoolPorts::Static => PoolPorts::NAT,
        };
        self.free_port(source, low, high).ok_or(())
    }

    fn free_port(&mut self, source: Ip, low: u16, high: u16) -> Option<u16> {
        if low == high {
            return self.mapping_is_free(source, low).then_some(low);
        }
        let given = self.moment.states.given_port().filter(|port| (low..=high).contains(port));
        if let Some(port) = given.filter(|port| self.mapping_is_free(source, *port)) {
            return Some(port);
        }
        let count = u32::from(high - low) + 1;
        let drawn = u16::try_from((self.moment.random)() % count).unwrap_or(0);
        let cut = low + drawn;
        let up = (cut..=high).find(|port| self.mapping_is_free(source, *port));
        up.or_else(|| (low..cut).rev().find(|port| self.mapping_is_free(source, *port)))
    }

    /// A port of the sets that RFC 7597 gives to a customer edge.
    fn map_e_port(&mut self, source: Ip, set: MapEPortSet) -> Option<u16> {
        let shift = 16_u32.checked_sub(set.offset.into())?;
        let below = shift.checked_sub(set.length.into())?;
        let id = u32::from(set.id) & ((1 << set.length.min(16)) - 1);
        let last = (1_u32 << set.offset.min(16)) - 1;
        let is_in_set = |port: &u16| {
            let port = u32::from(*port);
            port >> shift != 0 && port >> below & ((1 << set.length.min(16)) - 1) == id
        };
        let given = self.moment.states.given_port().filter(is_in_set);
        if let Some(port) = given.filter(|port| self.mapping_is_free(source, *port)) {
            return Some(port);
        }
        let cut = ((self.moment.random)() & last).max(1);
        for block in (cut..=last).chain((1..cut).rev()) {
            let low = block << shift | id << below;
            let high = low | ((1 << below) - 1);
            let ports = (u16::try_from(low).ok()?, u16::try_from(high).ok()?);
            if let found @ Some(_) = self.free_port(source, ports.0, ports.1) {
                return found;
            }
        }
        None
    }

    /// Whether a packet has a form in the other family, and leaves the box as one: TCP, UDP and an
    /// echo request, whole and without other headers, that nothing has translated yet.
    pub(super) fn can_change_family(&self) -> bool {
        let packet = self.packet;
        let is_message = match packet.protocol {
            ICMP => packet.icmp.kind == 8,
            ICMP6 => packet.icmp.kind == 128,
            protocol => matches!(protocol, TCP | UDP),
        };
        let is_plain = !packet.fragment && packet.extensions == Extensions::default();
        let is_forwarded = !is_martian(packet.source, packet.destination);
        let (subject, has_ports) = (self.subject, packet.has_ports());
        let is_itself = IpAddr::from(subject.destination) == packet.destination
            && (!has_ports || subject.destination_port == packet.destination_port);
        is_message && is_plain && is_forwarded && is_itself
    }

    fn mapping_is_free(&mut self, source: Ip, source_port: u16) -> bool {
        let protocol = match (self.packet.protocol, source) {
            (ICMP6, Ip::V4(_)) => ICMP,
            (ICMP, Ip::V6(_)) => ICMP6,
            (protocol, _) => protocol,
        };
        let mapping = Mapping {
            protocol,
            source: source.into(),
            source_port,
            destination: self.subject.destination.into(),
            destination_port: self.subject.destination_port,
        };
        let end = (mapping.source, source_port);
        if self.is_for_all && self.moment.states.is_mapped(end) {
            return false;
        }
        self.moment.states.mapping_is_free(&mapping)
    }

    fn redirect(&mut self, at: u32, rule: &'w Rule) -> Result<(), ()> {
        let Some(pool) = &rule.rdr else {
            return Ok(());
        };
        let destination = self.subject.destination;
        let to = (at, Some(PoolEnd::Destination));
        let (mut address, host) = self.pick(to, pool, self.af, self.subject.source, &mut None)?;
        if pool.kind == Some(PoolKind::Bitmask)
            && let Some(Address::Network(_, bits)) = pool.hosts[host].address
        {
            address = address.with_host_bits(bits, destination);
        }
        self.subject.destination = address;
        self.redirect_port(rule, pool);
        Ok(())
    }

    /// `port a:b` of `rdr`: the distance from the first port that is redirected stays.
    fn redirect_port(&mut self, rule: &Rule, pool: &Pool) {
        let PoolPorts::Range(low, high) = pool.ports else {
            return;
        };
        if !self.packet.has_ports() {
            return;
        }
        let first = rule.to.port.map_or(0, |port| i32::from(port.first));
        let count = i32::from(high) - i32::from(low) + 1;
        let distance = i32::from(self.subject.destination_port) - first;
        let port = distance.checked_rem(count).unwrap_or(0) + i32::from(low);
        self.subject.destination_port = u16::try_from(port).unwrap_or(low);
    }

    /// One address for another, ports untouched: out, the source; in, the destination.
    fn binat(&mut self, at: u32, rule: &'w Rule) -> Result<(), ()> {
        let evaluator = self.evaluator;
        let ready = &evaluator.rules[at as usize];
        if self.packet.direction == Direction::Out {
            let pool = rule.nat.as_ref().ok_or(())?;
            let targets = self.targets(ready, pool);
            let target = targets.first().ok_or(())?;
            let source = self.subject.source;
            self.subject.source = target.base.with_host_bits(target.bits, source);
            return Ok(());
        }
        let destination = self.subject.destination;
        let inside = match (&ready.from.place, self.af) {
            (Place::Net4(network, mask), _) => {
                let bits = u8::try_from(mask.count_ones()).unwrap_or(32);
                Some((Ip::V4(*network), bits))
            }
            (Place::Net6(network, mask), _) => {
                let bits = u8::try_from(mask.count_ones()).unwrap_or(128);
                Some((Ip::V6(*network), bits))
            }
            (Place::Prefixes(prefixes), af) => {
                prefixes.iter().find(|(base, _)| base.af() == af).copied()
            }
            _ => None,
        };
        let (base, bits) = inside.ok_or(())?;
        self.subject.destination = base.with_host_bits(bits, destination);
        Ok(())
    }

    /// `af-to` (`pf_get_transaddr_af`): the source comes from the first pool. The destination is
    /// that of the second one if there is one: towards IPv6 the old one is embedded in it as RFC
    /// 6052 says, and towards IPv4 the bits behind its prefix are the last ones of the old one.
    /// Without one, it is taken out of the old one at the length of the rule's `to` prefix, or of
    /// 96 bits.
    fn change_family(&mut self, at: u32, rule: &'w Rule, af: Af) -> Result<(), ()> {
        if self.af == af {
            return Ok(());
        }
        let pool = rule.nat.as_ref().ok_or(())?;
        let destination = match (af, self.subject.destination, &rule.rdr) {
            (Af::Inet6, Ip::V4(old), Some(pool)) => {
                let to = (at, Some(PoolEnd::Destination));
                let (prefix, host) = self.pick(to, pool, af, self.subject.source, &mut None)?;
                let bits = match pool.hosts[host].address {
                    Some(Address::Network(_, bits)) => bits,
                    _ => 128,
                };
                match prefix {
                    Ip::V6(prefix) => Ip::V6(embed(prefix, bits, old)),
                    other @ Ip::V4(_) => other,
                }
            }
            (Af::Inet, Ip::V6(old), Some(pool)) => {
                let to = (at, Some(PoolEnd::Destination));
                let (network, host) = self.pick(to, pool, af, self.subject.source, &mut None)?;
                let bits = match pool.hosts[host].address {
                    Some(Address::Network(_, bits)) => bits,
                    _ => 32,
                };
                network.with_host_bits(bits, Ip::V4(extract(old, 96)))
            }
            (Af::Inet, Ip::V6(old), None) => {
                let bits = match rule.to.address {
                    Address::Network(_, bits) => bits,
                    _ => 96,
                };
                Ip::V4(extract(old, bits))
            }
            _ => return Err(()),
        };
        self.subject.destination = destination;
        (self.subject.source, self.subject.source_port) = self.free_source(at, pool, af)?;
        self.af_to = Some(af);
        Ok(())
    }
}

/// The octets of an IPv6 address that hold the IPv4 address, for a prefix length of RFC 6052
/// §2.2; other lengths count as 96.
fn embedded_octets(bits: u8) -> [usize; 4] {
    match bits {
        32 => [4, 5, 6, 7],
        40 => [5, 6, 7, 9],
        48 => [6, 7, 9, 10],
        56 => [7, 9, 10, 11],
        64 => [9, 10, 11, 12],
        _ => [12, 13, 14, 15],
    }
}

fn embed(prefix: u128, bits: u8, address: u32) -> u128 {
    // No RFC says that of longer ones, but pf: the last bits alone are the address's.
    if bits > 96 {
        return prefix & mask6(bits) | u128::from(address) & !mask6(bits);
    }
    let mut octets = (prefix & mask6(bits.min(96))).to_be_bytes();
    for (at, octet) in embedded_octets(bits).into_iter().zip(address.to_be_bytes()) {
        octets[at] = octet;
    }
    u128::from_be_bytes(octets)
}

fn extract(address: u128, bits: u8) -> u32 {
    let octets = address.to_be_bytes();
    u32::from_be_bytes(embedded_octets(bits).map(|at| octets[at]))
}

/// FNV-1a over some octets, from a value on.
fn fnv(start: u64, octets: &[u8]) -> u64 {
    octets
        .iter()
        .fold(start, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3))
}

/// What `source-hash` begins with: its key, hashed by FNV-1a.
#[must_use]
pub fn source_hash_seed(key: Option<&Text>) -> u64 {
    fnv(0xcbf2_9ce4_8422_2325, key.map_or(&[][..], |key| key.as_bytes()))
}

/// FNV-1a over the key and the address, mixed (the finaliser of splitmix64).
fn source_hash(source: Ip, key: Option<&Text>) -> u64 {
    let octets = match source {
        Ip::V4(address) => u128::from(address).to_be_bytes(),
        Ip::V6(address) => address.to_be_bytes(),
    };
    let hash = fnv(source_hash_seed(key), &octets);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

impl Ip {
    /// The address number `index` of its network.
    fn plus(self, bits: u8, index: u128) -> Self {
        match self {
            Self::V4(v4) => {
                let host = u32::try_from(index & u128::from(u32::MAX)).unwrap_or(0) & !mask4(bits);
                Self::V4(if bits >= 32 { v4 } else { v4 & mask4(bits) | host })
            }
            Self::V6(v6) if bits >= 128 => Self::V6(v6),
            Self::V6(v6) => Self::V6(v6 & mask6(bits) | index & !mask6(bits)),
        }
    }

    /// This network's part with the rest of another address (`PF_POOLMASK`).
    fn with_host_bits(self, bits: u8, other: Self) -> Self {
        match (self, other) {
            (Self::V4(v4), Self::V4(other)) => Self::V4(v4 & mask4(bits) | other & !mask4(bits)),
            (Self::V6(v6), Self::V6(other)) => Self::V6(v6 & mask6(bits) | other & !mask6(bits)),
            (address, _) => address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 6052 §2.4.
    #[test]
    fn addresses_are_embedded_as_rfc_6052_has_them() {
        for (prefix, bits, embedded) in [
            ("2001:db8::", 32, "2001:db8:c000:221::"),
            ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
            ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33"),
        ] {
            let address = |text: &str| u128::from(text.parse::<std::net::Ipv6Addr>().unwrap());
            let inside = u32::from(std::net::Ipv4Addr::new(192, 0, 2, 33));
            assert_eq!(embed(address(prefix), bits, inside), address(embedded), "{prefix}/{bits}");
            assert_eq!(extract(address(embedded), bits), inside, "{prefix}/{bits}");
        }
        let address = |text: &str| u128::from(text.parse::<std::net::Ipv6Addr>().unwrap());
        assert_eq!(embed(address("fd09::aa00"), 120, 0x0a09_0021), address("fd09::aa21"));
    }
}
