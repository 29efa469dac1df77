//! Whom a rule is about, as `struct weir_fw_criteria`.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use weir_rules::Dialect;
use weir_rules::evaluate::Evaluator;
use weir_rules::fingerprint::Fingerprints;
use weir_rules::ir::{Address, Dynamic, Interface, Peer, Rule};
use weir_rules::resolve::{InterfaceFacts, Resolver};
use weir_rules::value::{Af, Comparison, Direction, Modifiers, Operator, Text};
use weir_wire::protocol::TCP;

use super::Slot;
use super::systems::Systems;
use crate::image::{Criteria, Ids, Owner, PlaceKind, asks, hooks, ids};

/// A table that rules ask: one of the ruleset's, or what an interface has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TableName {
    /// By anchor (empty for the main ruleset) and name.
    Named(Text, Text),
    /// `(interface)`, `self`, a group: made anew when addresses change.
    Dynamic(Dynamic),
    /// A typed table of the main ruleset, by name; its contents are no image's.
    Typed(Text),
    /// What the kernel takes itself of the networks of the interface in a slot, for `urpf-failed`.
    Held(u8, Vec<IpAddr>),
}

/// What the rules of one image share.
pub(super) struct Names<'a> {
    pub(super) evaluator: &'a Evaluator<'a>,
    pub(super) resolver: &'a dyn Resolver,
    pub(super) slots: &'a [Slot],
    pub(super) tables: Vec<TableName>,
    table_indices: HashMap<TableName, u32>,
    tags: HashMap<Text, u16>,
    sets: HashMap<Interface, u64>,
    /// Operands of IPv6, behind each other.
    pub(super) operands: Vec<u8>,
    operand_indices: HashMap<[u8; 32], u32>,
    /// The first of the tables of slots, if rules ask for them.
    held_at: Option<u32>,
    /// What rules ask of sockets and systems.
    pub(super) owners: Vec<Owner>,
    pub(super) systems: Systems,
    owner_indices: HashMap<Owner, u32>,
}

impl<'a> Names<'a> {
    pub(super) fn new(
        evaluator: &'a Evaluator<'a>,
        resolver: &'a dyn Resolver,
        slots: &'a [Slot],
        tags: HashMap<Text, u16>,
    ) -> Self {
        Self {
            evaluator,
            resolver,
            slots,
            tables: Vec::new(),
            table_indices: HashMap::new(),
            tags,
            sets: HashMap::new(),
            operands: Vec::new(),
            operand_indices: HashMap::new(),
            held_at: None,
            owners: Vec::new(),
            systems: Systems::default(),
            owner_indices: HashMap::new(),
        }
    }

    /// The index of a table in the directory.
    pub(super) fn table(&mut self, name: TableName) -> u32 {
        interned(&mut self.tables, &mut self.table_indices, name)
    }

    /// The first of the tables of what interfaces hold, which follow each other by their slots.
    fn held_tables(&mut self) -> u32 {
        if let Some(at) = self.held_at {
            return at;
        }
        let slot_max = self.slots.iter().map(|slot| slot.number).max().unwrap_or(0);
        let (slots, resolver) = (self.slots, self.resolver);
        let at = u32::try_from(self.tables.len()).unwrap_or(u32::MAX);
        for number in 0..=slot_max {
            let slot = slots.iter().find(|slot| slot.number == number);
            let held = slot.map(|slot| held_by(resolver, &slot.interface)).unwrap_or_default();
            self.table(TableName::Held(number, held));
        }
        self.held_at = Some(at);
        at
    }

    pub(super) fn named_table(&mut self, anchor: &str, name: &Text) -> u32 {
        if self.evaluator.tables.typed(anchor, name).is_some() {
            return self.table(TableName::Typed(name.clone()));
        }
        let anchor = self.evaluator.table_anchor(anchor, name);
        self.table(TableName::Named(anchor, name.clone()))
    }

    /// The number of a tag; one that no rule gives is no packet's.
    pub(super) fn tag(&self, name: &Text) -> u16 {
        self.tags.get(name).copied().unwrap_or(u16::MAX)
    }

    /// The number of a tag that rules may give; 0 of another one.
    pub(super) fn given_tag(&self, name: &Text) -> u16 {
        self.tags.get(name).copied().unwrap_or(0)
    }

    pub(super) fn has_tags(&self) -> bool {
        !self.tags.is_empty()
    }

    /// The slots that `on` or `received-on` means; bit 0 is an interface without a slot.
    pub(super) fn interfaces(&mut self, criterion: Option<&Interface>) -> u64 {
        let Some(criterion) = criterion else {
            return u64::MAX;
        };
        if let Some(set) = self.sets.get(criterion) {
            return *set;
        }
        let facts: &[InterfaceFacts] = self.resolver.interfaces();
        let mut set = u64::from(self.evaluator.names_unknown_interface(&criterion.name, ""));
        for slot in self.slots {
            let is_named = match facts.iter().find(|interface| interface.name == slot.interface) {
                Some(facts) => self.evaluator.names_interface(&criterion.name, facts),
                None => self.evaluator.names_unknown_interface(&criterion.name, &slot.interface),
            };
            set |= u64::from(is_named) << (slot.number & 63);
        }
        let set = if criterion.not { !set } else { set };
        self.sets.insert(criterion.clone(), set);
        set
    }

    /// `received-on`: a packet of the box itself was received on none, whatever its name.
    fn received(&mut self, criterion: Option<&Interface>) -> u64 {
        match criterion {
            None => u64::MAX,
            Some(criterion) => self.interfaces(Some(criterion)) & !1 | u64::from(criterion.not),
        }
    }

    /// `user`, `group` and `os` as flags of criteria: the number of what they ask, from 1.
    fn owner(&mut self, rule: &Rule) -> u32 {
        if rule.user.is_none() && rule.group.is_none() && rule.os.is_none() {
            return 0;
        }
        let fingerprints = self.evaluator.ruleset().fingerprints.as_deref();
        // Without any, as after `-F osfp`, all systems are unknown.
        let none = Fingerprints::default();
        let fingerprints = fingerprints.unwrap_or(&none);
        let systems = rule.os.as_ref().map_or(0, |os| self.systems.set(fingerprints, os));
        let owner = Owner { user: ids_of(rule.user), group: ids_of(rule.group), systems };
        let at = interned(&mut self.owners, &mut self.owner_indices, owner);
        at.saturating_add(1) << asks::OWNER_SHIFT
    }

    fn operand(&mut self, bytes: [u8; 32]) -> u32 {
        let at = u32::try_from(self.operands.len()).unwrap_or(u32::MAX);
        let found = *self.operand_indices.entry(bytes).or_insert(at);
        if found == at {
            self.operands.extend(bytes);
        }
        found
    }

    /// An end's kind and its two words. Offsets of operands count from the first operand.
    fn place(&mut self, peer: &Peer, anchor: &str) -> (PlaceKind, [u32; 2]) {
        match &peer.address {
            Address::Any => (PlaceKind::Any, [0; 2]),
            Address::Network(IpAddr::V4(address), bits) => {
                let mask = mask4(*bits);
                let network = (u32::from(*address) & mask).to_be();
                (PlaceKind::Net4, [network, mask.to_be()])
            }
            Address::Network(IpAddr::V6(address), bits) => {
                let mask = mask6(*bits);
                let mut operand = [0; 32];
                operand[..16].copy_from_slice(&(u128::from(*address) & mask).to_be_bytes());
                operand[16..].copy_from_slice(&mask.to_be_bytes());
                (PlaceKind::Net6, [self.operand(operand), 0])
            }
            Address::Range(IpAddr::V4(first), IpAddr::V4(last)) => {
                (PlaceKind::Range4, [u32::from(*first), u32::from(*last)])
            }
            Address::Range(IpAddr::V6(first), IpAddr::V6(last)) => {
                let mut operand = [0; 32];
                for (half, address) in [first, last].into_iter().enumerate() {
                    let bits = u128::from(*address);
                    let words = [bits >> 64, bits & u128::from(u64::MAX)];
                    for (word, value) in words.into_iter().enumerate() {
                        let value = u64::try_from(value).unwrap_or(0).to_ne_bytes();
                        let at = half * 16 + word * 8;
                        operand[at..at + 8].copy_from_slice(&value);
                    }
                }
                (PlaceKind::Range6, [self.operand(operand), 0])
            }
            Address::Table(name) => (PlaceKind::Table, [self.named_table(anchor, name), 0]),
            Address::Dynamic(dynamic) => {
                (PlaceKind::Table, [self.table(TableName::Dynamic(dynamic.clone())), 0])
            }
            Address::NoRoute => (PlaceKind::NoRoute, [self.table(connected_networks()), 0]),
            Address::UrpfFailed => (PlaceKind::UrpfFailed, [self.held_tables(), 0]),
            // Refused before, or a range of two families, which nothing is in.
            Address::Range(..) | Address::RouteLabel(_) | Address::Unresolved(_) => {
                (PlaceKind::Nothing, [0; 2])
            }
        }
    }

    /// The criteria of a rule of an anchor; `end` of an anchor's own rule is for the caller.
    pub(super) fn criteria(&mut self, rule: &Rule, anchor: &str) -> Criteria {
        let options = &rule.options;
        let is_openbsd = self.evaluator.ruleset().dialect == Dialect::OpenBsd;
        let owner = self.owner(rule);
        // FreeBSD's rules with `os` are about nothing else; OpenBSD's ask what is of TCP alone.
        let is_of_tcp = rule.os.is_some() && !is_openbsd;
        let mut criteria = Criteria {
            interfaces: self.interfaces(rule.interface.as_ref()),
            received: self.received(rule.received_on.as_ref()),
            protocol: rule.protocol.unwrap_or(if is_of_tcp { TCP } else { 0 }),
            hooks: hooks_of(rule),
            flags: owner,
            ..Criteria::default()
        };
        (criteria.from_kind, criteria.from) = self.place(&rule.from, anchor);
        (criteria.to_kind, criteria.to) = self.place(&rule.to, anchor);
        let mut ask = |bit: u32, asked: bool| criteria.flags |= if asked { bit } else { 0 };
        ask(asks::FROM_NOT, rule.from.not);
        ask(asks::TO_NOT, rule.to.not);
        ask(asks::FROM_PORT, rule.from.port.is_some());
        ask(asks::TO_PORT, rule.to.port.is_some());
        ask(asks::ICMP_TYPE, rule.icmp.is_some());
        ask(asks::ICMP_CODE, rule.icmp.is_some_and(|icmp| icmp.code.is_some()));
        let looks_at_ports = rule.from.port.is_some() || rule.to.port.is_some();
        let asks_owner = rule.user.is_some() || rule.group.is_some();
        let asks_header = looks_at_ports || rule.icmp.is_some() || asks_owner || is_of_tcp;
        ask(asks::HEADER, asks_header);
        ask(asks::SCTP_PORTS, looks_at_ports && !is_openbsd);
        ask(asks::FRAGMENT, options.fragment);
        // A rule's TOS of 0 is no criterion in the kernel.
        ask(asks::TOS, options.tos.is_some_and(|tos| tos != 0));
        ask(asks::PRIO, options.prio.is_some());
        ask(asks::TAG, options.tagged.is_some());
        ask(asks::TAG_NOT, options.tagged.as_ref().is_some_and(|(not, _)| *not));
        ask(asks::CHANCE, options.probability.is_some());
        let is_sloppy = options.state.as_ref().is_some_and(|state| state.sloppy);
        ask(asks::NO_REPLY, is_openbsd && rule.keeps_state() && !is_sloppy);

        let (from, from_not) = ports(rule.from.port);
        let (to, to_not) = ports(rule.to.port);
        (criteria.from_port, criteria.to_port) = (from, to);
        criteria.flags |= if from_not { asks::FROM_PORT_NOT } else { 0 };
        criteria.flags |= if to_not { asks::TO_PORT_NOT } else { 0 };
        if let Some(flags) = options.flags {
            (criteria.tcp_set, criteria.tcp_mask) = (flags.set, flags.mask);
        }
        if let Some(icmp) = rule.icmp {
            (criteria.icmp_type, criteria.icmp_code) = (icmp.kind, icmp.code.unwrap_or(0));
        }
        criteria.tos = options.tos.unwrap_or(0);
        criteria.prio = options.prio.unwrap_or(0);
        criteria.tagged = options.tagged.as_ref().map_or(0, |(_, tag)| self.tag(tag));
        criteria.probability = options.probability.map_or(0, |chance| chance.max(1));
        criteria
    }
}

/// The index of a value in a list, to which it is added if it is not there.
fn interned<T: Clone + Eq + Hash>(
    list: &mut Vec<T>,
    indices: &mut HashMap<T, u32>,
    value: T,
) -> u32 {
    let count = u32::try_from(list.len()).unwrap_or(u32::MAX);
    let at = *indices.entry(value.clone()).or_insert(count);
    if at == count {
        list.push(value);
    }
    at
}

/// The networks that the box is in: the kernel forwards nothing to its own address there, or to
/// their broadcast addresses, but they are routed.
fn connected_networks() -> TableName {
    let modifiers = Modifiers { network: true, ..Modifiers::default() };
    TableName::Dynamic(Dynamic { name: "self".into(), modifiers, bits: 128 })
}

/// The addresses of an interface's networks that the kernel does not route, because they are the
/// box itself: its own, broadcast ones, and those of the networks (RFC 4291, section 2.6.1).
fn held_by(resolver: &dyn Resolver, name: &str) -> Vec<IpAddr> {
    let named = resolver.interfaces().iter().filter(|interface| interface.name == name);
    let mut held = Vec::new();
    for entry in named.flat_map(|interface| &interface.addresses) {
        let network = match entry.address {
            IpAddr::V4(address) => IpAddr::V4((u32::from(address) & mask4(entry.bits)).into()),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) & mask6(entry.bits)).into()),
        };
        held.extend([entry.address, network].into_iter().chain(entry.broadcast));
    }
    held.sort_unstable();
    held.dedup();
    held
}

fn hooks_of(rule: &Rule) -> u8 {
    let directions = match rule.direction {
        Some(Direction::In) => hooks::IN,
        Some(Direction::Out) => hooks::OUT,
        None => hooks::IN | hooks::OUT,
    };
    let families = match rule.af {
        Some(Af::Inet) => hooks::INET,
        Some(Af::Inet6) => hooks::INET6,
        None => hooks::INET | hooks::INET6,
    };
    directions | families
}

/// First and last port, and whether those between them are the ones that fail.
pub(super) fn ports(comparison: Option<Comparison<u16>>) -> ([u16; 2], bool) {
    let Some(Comparison { operator, first, second }) = comparison else {
        return ([0, u16::MAX], false);
    };
    let (first, second) = (u32::from(first), u32::from(second));
    let (ends, not) = range(Comparison { operator, first, second }, u16::MAX.into());
    (ends.map(|end| u16::try_from(end).unwrap_or(u16::MAX)), not)
}

/// Users or groups; an unknown one is compared with `=` and `!=` alone (`pf_match_uid` of pf.c).
fn ids_of(comparison: Option<Comparison<u32>>) -> Ids {
    let Some(comparison) = comparison else {
        return Ids::default();
    };
    let (range, not) = range(comparison, u32::MAX);
    let by_equality = matches!(comparison.operator, Operator::Equal | Operator::NotEqual);
    let flag = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    Ids { range, how: ids::ASKED | flag(not, ids::NOT) | flag(by_equality, ids::EQUALITY) }
}

/// First and last of the numbers up to `max` that a comparison means, and whether those between
/// them are the ones that fail. A first above the last is no number at all.
fn range(comparison: Comparison<u32>, max: u32) -> ([u32; 2], bool) {
    const NONE: [u32; 2] = [1, 0];
    let (first, second) = (comparison.first, comparison.second);
    let above = |number: u32| number.checked_add(1).filter(|next| *next <= max);
    match comparison.operator {
        Operator::Equal => ([first, first], false),
        Operator::NotEqual => ([first, first], true),
        Operator::Less => (first.checked_sub(1).map_or(NONE, |last| [0, last]), false),
        Operator::LessEqual => ([0, first], false),
        Operator::Greater => (above(first).map_or(NONE, |from| [from, max]), false),
        Operator::GreaterEqual => ([first, max], false),
        Operator::Inside => {
            let ends = above(first).zip(second.checked_sub(1));
            (ends.map_or(NONE, |(from, last)| [from, last]), false)
        }
        Operator::Outside => ([first, second], true),
        Operator::Range => ([first, second], false),
    }
}

pub(super) fn mask4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0)
}

pub(super) fn mask6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_ranges() {
        use Operator::*;
        for operator in
            [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, Inside, Outside, Range]
        {
            for (first, second) in [(0, 0), (0, 7), (5, 9), (9, 5), (65535, 65535), (80, 65535)] {
                let comparison = Comparison { operator, first, second };
                let ([from, last], not) = ports(Some(comparison));
                for port in [0, 1, 4, 5, 6, 7, 8, 9, 10, 79, 80, 81, 65534, 65535] {
                    let holds = (from <= port && port <= last) != not;
                    assert_eq!(holds, comparison.holds(port), "{comparison:?} {port}");
                }
            }
            for (first, second) in [(0, 0), (5, 9), (9, 5), (1000, u32::MAX), (u32::MAX, 0)] {
                let comparison = Comparison { operator, first, second };
                let ids = ids_of(Some(comparison));
                let [from, last] = ids.range;
                for id in [0, 4, 5, 6, 9, 10, 999, 1000, 1001, u32::MAX - 1, u32::MAX] {
                    let holds = (from <= id && id <= last) != (ids.how & ids::NOT != 0);
                    assert_eq!(holds, comparison.holds(id), "{comparison:?} {id}");
                }
            }
        }
    }
}
