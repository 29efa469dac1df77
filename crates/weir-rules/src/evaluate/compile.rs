//! A ruleset made ready: names looked up, anchors joined, each rule with its place.

use std::collections::HashMap;
use std::net::IpAddr;

use super::Ip;
use super::probe::Head;
use super::ready::{Block, End, LISTS, List, NameBits, Place, Ready, has_bit};
use super::table::Tables;
use crate::dialect::Dialect;
use crate::ir::{Address, AnchorCall, Dynamic, Interface, Peer, Rule, Rules, Ruleset};
use crate::resolve::{InterfaceFacts, Resolver, interfaces_named, is_instance};
use crate::typed::Key;
use crate::value::{Text, mask4, mask6, masked};

/// Depth of anchors in anchors, as pf's own stack has (`PF_ANCHOR_STACK_MAX`).
pub(crate) const ANCHOR_DEPTH_MAX: usize = 64;
/// Rules that one packet may meet, anchors that are entered twice counted twice.
pub(crate) const EVALUATION_COUNT_MAX: u64 = 16_000_000;

/// Why a ruleset cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// An anchor enters itself.
    #[error("anchor `{0}` contains itself")]
    AnchorLoop(Text),
    /// Anchors in anchors beyond [`ANCHOR_DEPTH_MAX`].
    #[error("anchor `{0}` is nested deeper than {ANCHOR_DEPTH_MAX} anchors")]
    AnchorDepth(Text),
    /// A path with more `../` than there are anchors around its rule.
    #[error("anchor `{0}` leads above the main ruleset")]
    AnchorAbove(Text),
    /// More rules than [`EVALUATION_COUNT_MAX`] for one packet.
    #[error("a packet could meet {0} rules, over the limit of {EVALUATION_COUNT_MAX}")]
    TooManyRules(u64),
}

/// An anchor's rules from a file of their own (`load anchor`).
#[derive(Debug, Clone)]
pub struct LoadedAnchor {
    pub path: Text,
    /// Its rules and tables. Settings do not count.
    pub ruleset: Ruleset,
}

/// A ruleset ready for evaluation.
pub struct Evaluator<'a> {
    pub(super) ruleset: &'a Ruleset,
    pub(super) resolver: &'a dyn Resolver,
    pub(super) blocks: Vec<Block>,
    pub(super) rules: Vec<Ready<'a>>,
    /// A quick look at each rule.
    pub(super) heads: Vec<Head>,
    /// The tables: they may be changed between packets.
    pub tables: Tables,
    names: Vec<Text>,
    known: HashMap<Text, NameBits>,
    pub(super) skip: Vec<u32>,
}

impl<'a> Evaluator<'a> {
    /// Makes a ruleset ready. Addresses of interfaces are looked up now: after a change of them
    /// the evaluator is made anew.
    ///
    /// `anchors` are rules loaded under a path, as `load anchor` does; they take the place of what
    /// the ruleset has in braces there.
    ///
    /// # Errors
    ///
    /// [`EvaluateError`] if anchors form a loop, lie too deep, or multiply beyond the limit.
    pub fn new(
        ruleset: &'a Ruleset,
        anchors: &'a [LoadedAnchor],
        resolver: &'a dyn Resolver,
    ) -> Result<Self, EvaluateError> {
        let mut evaluator = Self {
            ruleset,
            resolver,
            blocks: Vec::new(),
            rules: Vec::new(),
            heads: Vec::new(),
            tables: Tables::new(ruleset),
            names: Vec::new(),
            known: HashMap::new(),
            skip: Vec::new(),
        };
        for name in &ruleset.settings.skip {
            let at = evaluator.name(name);
            evaluator.skip.push(at);
        }
        let mut builder = Builder { evaluator, paths: HashMap::new(), work: Vec::new() };
        builder.path("".into(), &ruleset.main, false)?;
        for anchor in anchors {
            let path = anchor.path.trim_matches('/');
            builder.evaluator.tables.add(path, &anchor.ruleset);
            builder.path(path.into(), &anchor.ruleset.main, true)?;
        }
        let calls = builder.build()?;
        let mut evaluator = builder.join(calls);
        evaluator.check_loops()?;
        evaluator.know_interfaces();
        Ok(evaluator)
    }

    /// Whether `set skip` is on an interface: its packets are not filtered.
    #[must_use]
    pub fn skips(&self, interface: &str) -> bool {
        let mut room = NameBits::default();
        let bits = self.name_bits(interface, &mut room);
        self.skip.iter().any(|name| has_bit(bits, *name))
    }

    /// The ruleset that it evaluates.
    #[must_use]
    pub fn ruleset(&self) -> &'a Ruleset {
        self.ruleset
    }

    /// All rules, anchors' ones too, in the order of their [`super::RuleId`].
    pub fn rules(&self) -> impl Iterator<Item = &'a Rule> + '_ {
        self.rules.iter().map(|rule| rule.rule)
    }

    fn name(&mut self, name: &Text) -> u32 {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.clone());
            self.names.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    fn interface(&mut self, interface: Option<&Interface>) -> Option<(u32, bool)> {
        interface.map(|interface| (self.name(&interface.name), interface.not))
    }

    fn know_interfaces(&mut self) {
        for facts in self.resolver.interfaces() {
            let bits = self.bits_of(&facts.name, Some(facts));
            self.known.insert(facts.name.as_str().into(), bits);
        }
    }

    /// Which of the rules' interface names stand for this interface.
    fn bits_of(&self, interface: &str, facts: Option<&InterfaceFacts>) -> NameBits {
        let mut bits = vec![0_u64; self.names.len().div_ceil(64)].into_boxed_slice();
        for (at, name) in self.names.iter().enumerate() {
            if names_interface(name, interface, facts, self.ruleset.dialect) {
                bits[at / 64] |= 1 << (at % 64);
            }
        }
        bits
    }

    /// The bits of a known interface, or of one that is computed into `room`.
    pub(super) fn name_bits<'e>(&'e self, name: &str, room: &'e mut NameBits) -> &'e [u64] {
        if let Some(bits) = self.known.get(name) {
            return bits;
        }
        *room = self.bits_of(name, None);
        room
    }

    fn place(&mut self, peer: &Peer, anchor: &str) -> End {
        let place = match &peer.address {
            Address::Any => Place::Any,
            Address::Network(address, bits) => match Ip::from(*address) {
                Ip::V4(address) => {
                    let mask = mask4(*bits);
                    Place::Net4(address & mask, mask)
                }
                Ip::V6(address) => {
                    let mask = mask6(*bits);
                    Place::Net6(address & mask, mask)
                }
            },
            Address::Range(first, last) => Place::Range((*first).into(), (*last).into()),
            Address::Table(name) if self.tables.typed(anchor, name).is_some() => {
                Place::Typed(name.clone())
            }
            Address::Table(name) => Place::Table(self.tables.find_or_make(anchor, name)),
            Address::Dynamic(dynamic) => {
                let found = dynamic_prefixes(self.resolver, dynamic);
                Place::Prefixes(found.into_iter().map(|(ip, bits)| (ip.into(), bits)).collect())
            }
            Address::NoRoute => Place::NoRoute,
            Address::UrpfFailed => Place::UrpfFailed,
            Address::RouteLabel(label) => Place::RouteLabel(label.clone()),
            Address::Unresolved(_) => Place::Nothing,
        };
        End { not: peer.not, place, port: peer.port }
    }

    /// Finds loops, and how many rules a packet may meet.
    fn check_loops(&self) -> Result<(), EvaluateError> {
        let mut costs: Vec<Option<u64>> = vec![None; self.blocks.len()];
        let mut open = Vec::new();
        let cost = self.cost(0, &mut costs, &mut open)?;
        if cost > EVALUATION_COUNT_MAX {
            return Err(EvaluateError::TooManyRules(cost));
        }
        Ok(())
    }

    fn cost(
        &self,
        block: u32,
        costs: &mut [Option<u64>],
        open: &mut Vec<u32>,
    ) -> Result<u64, EvaluateError> {
        let entered = &self.blocks[block as usize];
        if open.contains(&block) {
            return Err(EvaluateError::AnchorLoop(entered.path.clone()));
        }
        if open.len() > ANCHOR_DEPTH_MAX {
            return Err(EvaluateError::AnchorDepth(entered.path.clone()));
        }
        if let Some(cost) = costs[block as usize] {
            return Ok(cost);
        }
        open.push(block);
        let mut cost = 0_u64;
        for (first, end) in entered.lists {
            for rule in &self.rules[first as usize..end as usize] {
                cost = cost.saturating_add(1);
                for callee in rule.call.iter().flatten() {
                    cost = cost.saturating_add(self.cost(*callee, costs, open)?);
                }
            }
        }
        open.pop();
        costs[block as usize] = Some(cost);
        Ok(cost)
    }
}

/// What is still to be read, and where each path is.
struct Builder<'a> {
    evaluator: Evaluator<'a>,
    paths: HashMap<Text, u32>,
    work: Vec<(u32, &'a Rules, usize)>,
}

impl<'a> Builder<'a> {
    /// The block of a path, with these rules unless it has some already.
    fn path(
        &mut self,
        path: Text,
        rules: &'a Rules,
        is_loaded: bool,
    ) -> Result<u32, EvaluateError> {
        if let Some(at) = self.paths.get(&path) {
            return Ok(*at);
        }
        let depth = if path.is_empty() { 0 } else { path.split('/').count() };
        let at = self.block(path.clone(), rules, depth, is_loaded)?;
        self.paths.insert(path, at);
        Ok(at)
    }

    fn block(
        &mut self,
        path: Text,
        rules: &'a Rules,
        depth: usize,
        is_loaded: bool,
    ) -> Result<u32, EvaluateError> {
        if depth > ANCHOR_DEPTH_MAX {
            return Err(EvaluateError::AnchorDepth(path));
        }
        let at = u32::try_from(self.evaluator.blocks.len()).unwrap_or(u32::MAX);
        self.evaluator.blocks.push(Block { path, is_loaded, lists: [(0, 0); 5] });
        self.work.push((at, rules, depth));
        Ok(at)
    }

    /// Reads all rules. What an anchor's rule enters is a block for one with a body, or a name
    /// to be joined when all paths are known.
    fn build(&mut self) -> Result<Vec<(usize, Call)>, EvaluateError> {
        let mut calls = Vec::new();
        let mut next = 0;
        while let Some(&(at, rules, depth)) = self.work.get(next) {
            next += 1;
            let block = &self.evaluator.blocks[at as usize];
            let (path, is_loaded) = (block.path.clone(), block.is_loaded);
            for (list, rules) in LISTS.into_iter().zip(rules.lists()) {
                let first = self.evaluator.count();
                for (number, rule) in rules.iter().enumerate() {
                    if let Some(call) = &rule.anchor {
                        let call = self.call(call, &path, depth, is_loaded)?;
                        calls.push((self.evaluator.rules.len(), call));
                    }
                    self.evaluator.ready(rule, number, at, list, &path);
                }
                let end = self.evaluator.count();
                self.evaluator.blocks[at as usize].lists[list as usize] = (first, end);
            }
        }
        Ok(calls)
    }

    fn call(
        &mut self,
        call: &'a AnchorCall,
        path: &str,
        depth: usize,
        is_loaded: bool,
    ) -> Result<Call, EvaluateError> {
        let name = call.name.as_deref();
        let full = |name: &str| {
            anchor_path(path, name).ok_or_else(|| EvaluateError::AnchorAbove(name.into()))
        };
        match (&call.body, name) {
            (Some(body), Some(name)) => {
                Ok(Call::Block(self.path(full(name)?.into(), body, is_loaded)?))
            }
            (Some(body), None) => {
                Ok(Call::Block(self.block(full("_")?.into(), body, depth + 1, is_loaded)?))
            }
            (None, Some(name)) => Ok(Call::Name(full(name)?)),
            (None, None) => Ok(Call::Name(full("_")?)),
        }
    }

    fn join(mut self, calls: Vec<(usize, Call)>) -> Evaluator<'a> {
        for (rule, call) in calls {
            let blocks: Vec<u32> = match call {
                Call::Block(at) => vec![at],
                Call::Name(name) => match name.strip_suffix('*') {
                    Some(parent) => self.children(parent.trim_end_matches('/')),
                    None => self.paths.get(name.as_str()).copied().into_iter().collect(),
                },
            };
            self.evaluator.rules[rule].call = Some(blocks.into());
        }
        self.evaluator
    }

    /// The anchors right below a path, in the order of their names.
    fn children(&self, parent: &str) -> Vec<u32> {
        let is_child = |path: &str| {
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            above == parent && !name.is_empty()
        };
        let mut found: Vec<_> = self.paths.iter().filter(|(path, _)| is_child(path)).collect();
        found.sort();
        found.into_iter().map(|(_, at)| *at).collect()
    }
}

/// The path that a rule of the anchor `from` calls by this name: from there, with a `../` in front
/// for each step upwards, or behind a `/` from the main ruleset. `None` if it leads above that.
#[must_use]
pub fn anchor_path(from: &str, name: &str) -> Option<String> {
    if let Some(absolute) = name.strip_prefix('/') {
        return Some(absolute.to_owned());
    }
    let (mut from, mut name) = (from, name);
    while let Some(rest) = name.strip_prefix("../") {
        if from.is_empty() {
            return None;
        }
        from = from.rsplit_once('/').map_or("", |(above, _)| above);
        name = rest;
    }
    Some(if from.is_empty() { name.to_owned() } else { format!("{from}/{name}") })
}

enum Call {
    Block(u32),
    Name(String),
}

impl<'a> Evaluator<'a> {
    fn count(&self) -> u32 {
        u32::try_from(self.rules.len()).unwrap_or(u32::MAX)
    }

    fn ready(&mut self, rule: &'a Rule, number: usize, block: u32, list: List, path: &str) {
        let interface = self.interface(rule.interface.as_ref());
        let received_on = self.interface(rule.received_on.as_ref());
        let options = &rule.options;
        let is_rare = rule.rdomain.is_some()
            || rule.user.is_some()
            || rule.group.is_some()
            || rule.os.is_some()
            || received_on.is_some()
            || options.fragment
            || options.tos.is_some()
            || options.prio.is_some()
            || options.tagged.is_some()
            || options.probability.is_some()
            || options.max_pkt_rate.is_some()
            || options.once
            || !options.limiters.is_empty();
        let ready = Ready {
            rule,
            number: u32::try_from(number).unwrap_or(u32::MAX),
            block,
            list,
            interface,
            received_on,
            direction: rule.direction,
            protocol: rule.protocol.unwrap_or(0),
            from: self.place(&rule.from, path),
            to: self.place(&rule.to, path),
            is_rare,
            call: None,
        };
        self.heads.push(Head::new(&ready));
        self.rules.push(ready);
    }
}

/// Whether a rule's `on name` means the interface (`pfi_kif_match` of pf_if.c): its own name, one
/// of its groups (every interface is in `all`), its family (`em` for `em0`), and with OpenBSD
/// `any`, which leaves out loopback interfaces.
pub(super) fn names_interface(
    name: &str,
    interface: &str,
    facts: Option<&InterfaceFacts>,
    dialect: Dialect,
) -> bool {
    let in_group = facts.is_some_and(|facts| facts.groups.iter().any(|group| group == name));
    let is_loopback = match facts {
        Some(facts) => facts.is_loopback,
        None => is_instance(interface, "lo"),
    };
    let any = dialect == Dialect::OpenBsd && name == "any" && !is_loopback;
    in_group || name == "all" || any || is_instance(interface, name)
}

/// The prefixes that `(interface)` stands for (`pfi_instance_add` of pf_if.c).
pub(super) fn dynamic_prefixes(resolver: &dyn Resolver, dynamic: &Dynamic) -> Vec<(IpAddr, u8)> {
    let modifiers = dynamic.modifiers;
    let mut found = Vec::new();
    for interface in interfaces_named(resolver, &dynamic.name) {
        let (mut got4, mut got6) = (false, false);
        for entry in &interface.addresses {
            let got = if entry.address.is_ipv4() { &mut got4 } else { &mut got6 };
            if modifiers.no_alias && (*got || entry.is_link_local()) {
                continue;
            }
            *got = true;
            let width = entry.af().bits();
            let bits = dynamic.bits.min(width);
            if modifiers.network {
                let bits = entry.bits.min(bits);
                found.push((masked(entry.address, bits), bits));
            } else if modifiers.broadcast {
                found.extend(entry.broadcast.map(|address| (address, width)));
            } else if modifiers.peer {
                found.extend(entry.peer.map(|address| (address, width)));
            } else {
                found.push((entry.address, bits));
            }
        }
    }
    found
}

/// For explanations.
impl Evaluator<'_> {
    pub(crate) fn protocol_name(&self, number: u8) -> Option<Text> {
        self.resolver.protocol_name(number)
    }

    /// The entry of a table that covers the address: network, bits, and whether it is negated.
    pub(crate) fn table_entry(
        &self,
        anchor: &str,
        name: &str,
        address: IpAddr,
    ) -> Option<(IpAddr, u8, bool)> {
        if let Some(typed) = self.tables.typed(anchor, name) {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let (key, _) = typed.contents.find(&Key::net(address, bits))?;
            let Key::Net(network, bits) = key else { return None };
            return Some((network, bits, false));
        }
        let table = self.tables.at(self.tables.find(anchor, name)?);
        let (bits, not) = table.longest(address.into())?;
        Some((masked(address, bits), bits, not))
    }
}
