//! A whole router in plain Rust, with the reference evaluator in its middle: the oracle for the
//! data path.
//!
//! A frame that comes in is taken apart, asked for its state, filtered `in`, routed, filtered `out`
//! and sent; each step is pf's, with one state record where pf has two (the
//! module `states` says how).
//! What it does where pf.conf(5) leaves it open:
//!
//! - Discovery of neighbours by IPv6, frames that are not IP, multicast and broadcast (after the
//!   rules), IPv4 options that a rule allows, TTL 1, no route, and packets over the MTU
//!   (before the rules of the interface that they would leave by) are left to the box's stack; so
//!   are packets from and to addresses that no router forwards (RFC 1812, section 5.3.7).
//! - A VLAN's tag is stepped over: to the rules the packet is one of the interface itself. What
//!   they pass is left to the box's stack, which knows its VLANs. A tagged frame that the box sends
//!   is not judged: that was done at its VLAN interface.
//! - Nobody is answered at such an address, and by ICMP only where a route leads.
//! - A first fragment is filtered as if it were the whole packet. If it passes, later ones follow
//!   it until they are complete or `set timeout frag` is over; a later one whose first has not
//!   been seen is a fragment to the rules, as pf has it under `set reassemble no`.
//!   Without rules and states nothing is remembered of fragments.
//!   The state counts later ones that are sent on, but for those of TCP and those for the box.
//! - The header checksum of IPv4 must be right, as the kernel has it before pf.
//! - An expired state is gone at once, not when the next sweep comes.
//! - Interface and rule of a half are those of the packet that made it last: a bound half moves if
//!   a packet of its flow passes the rules of another interface.
//! - Adaptive timeouts scale in milliseconds, and twice for flows that are half open: those that
//!   nobody has answered, or that are not yet complete, go before connections do.
//! - A connection has the timeout of its present phase, also where a packet that fits loosely has
//!   changed that: pf then leaves the earlier timeout.
//! - SCTP is followed like other protocols, by its ports.
//! - What comes in has its destination translated, and what goes out its source; the box routes,
//!   and limits sources by, what is in between. A record that is found by a key of another one, in
//!   either direction, is not made (`state-insert`), and no port is free that gives such a key.
//! - Later fragments of a packet that was translated are dropped once its state has ended.
//! - What `scrub` rules change in a packet is changed behind the rules of the interface, before
//!   what these and the state change; a smaller segment size and a larger TTL hold. TCP flags that
//!   do not go together are dropped whether a `scrub` rule takes the packet or not. An IP
//!   identification that becomes random is what the other device has chosen.
//! - What `modulate state` adds to sequence numbers depends on the flow alone, as RFC 6528 has it;
//!   the first interface that the flow's state covers does it. Of what an ICMP error quotes, the
//!   sequence number alone is what it was, as in pf.
//! - A packet that changes its family (`af-to`) does so before it is routed. Both halves of its
//!   record are made where it came in, and no rule is asked where it leaves; nor of a packet of the
//!   box's that has the ends of what has changed. What is too long, or at the end of its TTL, is
//!   answered where it came from.
//! - An ICMP error gets the addresses that the packet it quotes has on the other side, also if a
//!   router in between sent it.
//! - What is sent elsewhere as well (`dup-to`) is left to the box's stack, which knows how; so is,
//!   under such rules, what may be copied by the rules of the interface that it leaves by. A state
//!   has its packets copied as long as the rule that made its half is there.
//! - What comes by a state that `divert-to` or `divert-reply` made is the box's, whoever it is for.
//! - After a change of rules states keep the options of the rules that made them. They count for
//!   `max` of a rule that is the same as before: its text, its anchor, and its place among those of
//!   the same text; and no longer for others.

mod dissect;
mod family;
mod fragments;
mod key;
mod limiters;
mod rewrite;
mod states;
mod tcp;
pub mod timeout;
mod trip;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::device::{Device, DeviceError, Network, RuleText};
use crate::outcome::{Answer, Counters, DropReason, Outcome, Sent, StateInfo};
pub(crate) use dissect::ends;
use dissect::{Frame, dissect};
use fragments::Fragments;
pub(crate) use key::Key;
use limiters::Limiters;
use states::{LoadedRule, States};
use trip::Trip;
use weir_rules::evaluate::{Evaluator, Routes, RuleId, RuleRef};
use weir_rules::ir::{Action, Rule, Rules, Ruleset};
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::value::{Direction, Divert, KeepState, RouteKind, Setting, Text};

/// Largest packet of an interface that says nothing else.
const MTU_BYTES: u32 = 1500;

/// The reference device.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    network: Network,
    /// The ruleset without its `scrub` rules.
    ruleset: Ruleset,
    /// Those alone, if they change anything.
    scrub: Option<Ruleset>,
    /// The rules of the ruleset, by their numbers, as states know them.
    identities: Vec<LoadedRule>,
    /// By what a rule is known again: anchor, text, and how many of these stand before it.
    known: BTreeMap<(Text, String, u32), LoadedRule>,
    /// Some rule has `dup-to`.
    has_copies: bool,
    modulator: Modulator,
    world: World,
}

/// What `modulate state` adds to the numbers of the ends of a flow, from `source` to `destination`.
pub type Modulate = fn(source: (IpAddr, u16), destination: (IpAddr, u16)) -> [u32; 2];

#[derive(Debug, Clone, Copy)]
struct Modulator(Modulate);

impl Default for Modulator {
    fn default() -> Self {
        Self(|_, _| [0x1234_5678, 0xfedc_ba98])
    }
}

/// What changes from packet to packet.
#[derive(Debug, Clone, Default)]
struct World {
    states: States,
    fragments: Fragments,
    drops: BTreeMap<DropReason, u64>,
    /// Which load of the ruleset it is.
    load: u32,
    /// Addresses that `overload` put into tables: anchor, table, address.
    overloaded: Vec<(Text, Text, IpAddr)>,
    limits: Vec<u32>,
    state_reserve: u32,
    /// How often pools that take turns have given an address.
    turns: BTreeMap<RuleId, u64>,
    /// Rules with `once` that have had their match.
    spent: BTreeSet<RuleId>,
    /// Of rules with `max-pkt-rate`: when the last packet came, and thousandths of packets.
    rates: BTreeMap<LoadedRule, (u64, u64)>,
    limiters: Limiters,
    /// States of a device that this one is compared with: what it has chosen freely.
    choices: Vec<StateInfo>,
    /// What its packet left as.
    chosen: Option<Key>,
    /// The IP identification that it left with.
    chosen_id: Option<[u8; 2]>,
    /// For `probability`: every draw is the next of a sequence that all devices can follow.
    draw_count: u64,
}

impl Reference {
    /// A device without interfaces and rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same device, with the sequence numbers of another one.
    #[must_use]
    pub fn modulated_by(modulate: Modulate) -> Self {
        Self { modulator: Modulator(modulate), ..Self::default() }
    }

    /// Interfaces' networks, and the routes. An address of the box belongs to the interface that
    /// has it, and so does a broadcast address (`nh_aifp` of FreeBSD, `rt_ifidx` of OpenBSD).
    pub(crate) fn routes(network: &Network) -> Routes {
        let mut entries = Vec::new();
        for interface in &network.interfaces {
            for entry in &interface.addresses {
                entries.push((entry.address, entry.bits, interface.name.as_str().into()));
            }
        }
        for (address, bits, interface) in &network.routes {
            entries.push((*address, *bits, interface.as_str().into()));
        }
        Routes { entries }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        let mut all = self.network.interfaces.iter().flat_map(|interface| &interface.addresses);
        all.any(|entry| entry.address == address)
    }

    /// Whether the box's stack takes packets to an address: its own, and those to many.
    fn is_for_box(&self, address: IpAddr) -> bool {
        let is_broadcast = |interface: &weir_rules::resolve::InterfaceFacts| {
            interface.addresses.iter().any(|entry| entry.broadcast == Some(address))
        };
        self.has_address(address) || self.network.interfaces.iter().any(is_broadcast)
    }

    /// As what states know a rule of the present ruleset.
    fn loaded(&self, rule: RuleId) -> LoadedRule {
        self.identities.get(rule.0 as usize).copied().unwrap_or((self.world.load, rule))
    }

    /// The rule of the present ruleset that made a half, if it is still there.
    fn rule_of(&self, loaded: LoadedRule) -> Option<RuleId> {
        let at = self.identities.iter().position(|identity| *identity == loaded)?;
        u32::try_from(at).ok().map(RuleId)
    }

    fn mtu_bytes(&self, interface: &str) -> u32 {
        let found = self.network.interfaces.iter().find(|known| known.name == interface);
        found.and_then(|found| found.mtu_bytes).unwrap_or(MTU_BYTES)
    }
}

impl Device for Reference {
    fn configure(&mut self, network: &Network) -> Result<(), DeviceError> {
        let (network, modulator) = (network.clone(), self.modulator);
        *self = Self { network, modulator, ..Self::default() };
        self.world.states.timeouts.clone_from(&self.ruleset.settings.timeouts);
        self.world.limits.clone_from(&self.ruleset.settings.limits);
        Ok(())
    }

    fn load(&mut self, rules: &RuleText<'_>) -> Result<(), DeviceError> {
        let mut ruleset = rules.compiled.ruleset.clone();
        if let Some((rule, what)) = refusal(&ruleset.main) {
            let line = rules.first_line + rules.compiled.sources.start(rule.span).line - 1;
            return Err(DeviceError(format!("{}:{line}: {what} is not followed", rules.name)));
        }
        if let Some(rule) = ruleset.main.ether.first() {
            let line = rules.first_line + rules.compiled.sources.start(rule.span).line - 1;
            let name = rules.name;
            return Err(DeviceError(format!("{name}:{line}: `ether` rules are not followed")));
        }
        if ruleset.limiters().any(|limiter| limiter.table.is_some()) {
            let name = rules.name;
            return Err(DeviceError(format!("{name}: a limiter's table is not followed")));
        }
        if let Some(load) = ruleset.loads.first() {
            return Err(DeviceError(format!("{}: anchor `{}` is a file", rules.name, load.name)));
        }
        let listed = std::mem::take(&mut ruleset.main.scrub);
        self.scrub = listed.iter().any(trip::changes).then(|| Ruleset {
            main: Rules { scrub: listed, ..Rules::default() },
            ..ruleset.clone()
        });
        let ruleset = &ruleset;
        let evaluator = Evaluator::new(ruleset, &[], &self.network.facts)
            .map_err(|error| DeviceError(format!("{}: {error}", rules.name)))?;
        self.world.load += 1;
        let known = identities(&evaluator, &self.network.facts, self.world.load, &self.known);
        self.identities = known.iter().map(|known| known.1).collect();
        self.known = known.into_iter().collect();
        self.has_copies = evaluator.rules().any(is_copied);
        self.ruleset = ruleset.clone();
        let world = &mut self.world;
        world.turns.clear();
        world.spent.clear();
        // A table that the new rules fill is as they say; others keep what came in.
        world.overloaded.retain(|(anchor, name, _)| {
            let is_it =
                |table: &&weir_rules::ir::Table| table.anchor == *anchor && table.name == *name;
            ruleset.tables.iter().find(is_it).is_none_or(|table| table.sources.is_empty())
        });
        world.states.timeouts = timeouts(ruleset);
        world.limits.clone_from(&ruleset.settings.limits);
        world.state_reserve = ruleset.settings.state_reserve;
        Ok(())
    }

    fn send(
        &mut self,
        frame: &[u8],
        direction: Direction,
        interface: &str,
        now_ns: u64,
    ) -> Result<Sent, DeviceError> {
        let mut world = std::mem::take(&mut self.world);
        world.states.expire(now_ns);
        world.fragments.expire(now_ns);
        world.limiters.settle(&world.states, now_ns);
        let sent = self.pass(&mut world, frame, direction, interface, now_ns);
        if let Outcome::Blocked(reason, _) = &sent.outcome {
            *world.drops.entry(*reason).or_insert(0) += 1;
        }
        self.world = world;
        Ok(sent)
    }

    fn choose_as(&mut self, sent: &Sent, states: Vec<StateInfo>) {
        self.world.choices = states;
        self.world.chosen = sent.frame.as_deref().and_then(dissect::flow);
        self.world.chosen_id = sent.frame.as_deref().and_then(dissect::ipv4_id);
    }

    fn counters(&mut self, now_ns: u64) -> Result<Counters, DeviceError> {
        self.world.states.expire(now_ns);
        let states = &self.world.states;
        let (inserts, removals) = (states.insert_count, states.removal_count);
        Ok(Counters { drops: self.world.drops.clone(), inserts, removals })
    }

    fn states(&mut self, now_ns: u64) -> Result<Vec<StateInfo>, DeviceError> {
        self.world.states.expire(now_ns);
        Ok(self.world.states.list(now_ns))
    }
}

impl Reference {
    fn evaluator<'r>(&'r self, ruleset: &'r Ruleset, world: &World) -> Option<Evaluator<'r>> {
        let mut evaluator = Evaluator::new(ruleset, &[], &self.network.facts).ok()?;
        for (anchor, name, address) in &world.overloaded {
            evaluator.tables.add_address(anchor, name, *address);
        }
        Some(evaluator)
    }

    fn pass(
        &self,
        world: &mut World,
        frame: &[u8],
        direction: Direction,
        interface: &str,
        now_ns: u64,
    ) -> Sent {
        let (logged, copied) = (Some(false), Some(false));
        let left = |outcome: Outcome| Sent { outcome, frame: None, logged, copied };
        let untouched = |frame: &[u8]| match direction {
            Direction::In => left(Outcome::Box),
            Direction::Out => Sent {
                outcome: Outcome::Out(interface.into()),
                frame: Some(frame.to_vec()),
                logged,
                copied,
            },
        };
        if direction == Direction::Out && is_tagged(frame) {
            return untouched(frame);
        }
        let scrub = self.scrub.as_ref().and_then(|ruleset| self.evaluator(ruleset, world));
        // `load` has tried the same.
        let Some(evaluator) = self.evaluator(&self.ruleset, world) else {
            return left(Outcome::Blocked(DropReason::Memory, Answer::None));
        };
        let dissected = match dissect(frame, direction, interface) {
            Frame::NotIp => return untouched(frame),
            Frame::Bad(_) if evaluator.skips(interface) => return untouched(frame),
            Frame::Bad(reason) => return left(Outcome::Blocked(reason, Answer::None)),
            Frame::Packet(packet) => *packet,
        };
        if dissected.is_discovery {
            return untouched(frame);
        }
        let routes = Self::routes(&self.network);
        let evaluators = (&evaluator, scrub.as_ref());
        let mut trip = Trip::new(self, evaluators, world, (&dissected, frame), &routes, now_ns);
        let outcome = trip.run(direction, interface);
        let out = match outcome {
            Outcome::Out(_) => Some(trip.rewritten(direction == Direction::In)),
            Outcome::Box => trip.handed_up(),
            Outcome::Blocked(..) => None,
        };
        let is_sent = !matches!(outcome, Outcome::Blocked(..));
        let copied = trip.is_copied.filter(|_| is_sent);
        Sent { outcome, frame: out, logged: Some(trip.is_logged), copied }
    }
}

/// Whether what a rule passes is sent elsewhere as well.
fn is_copied(rule: &Rule) -> bool {
    let is_it = rule.route.as_ref().is_some_and(|route| route.kind == RouteKind::DupTo);
    is_it && rule.action == Action::Pass
}

/// Whether a frame has a tag of 802.1Q or 802.1ad.
fn is_tagged(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]))
}

/// What each rule is known by, and as what: as before, if there was one like it.
fn identities(
    evaluator: &Evaluator<'_>,
    facts: &weir_rules::facts::Facts,
    load: u32,
    before: &BTreeMap<(Text, String, u32), LoadedRule>,
) -> Vec<((Text, String, u32), LoadedRule)> {
    let dialect = evaluator.ruleset().dialect;
    let printer = Printer { dialect, resolver: facts, options: PrintOptions::default() };
    let mut counts = BTreeMap::new();
    let identity = |rule: RuleRef<'_>| {
        let (anchor, text) = (Text::from(rule.anchor), printer.rule(rule.rule));
        let count: &mut u32 = counts.entry((anchor.clone(), text.clone())).or_default();
        let key = (anchor, text, *count);
        *count += 1;
        let known = before.get(&key).copied().unwrap_or((load, rule.id));
        (key, known)
    };
    evaluator.rule_refs().map(identity).collect()
}

/// Timeouts with adaptive ones that follow `set limit states` unless they are set (pfctl.c).
fn timeouts(ruleset: &Ruleset) -> Vec<u32> {
    use timeout::{ADAPTIVE_END, ADAPTIVE_START};
    let mut timeouts = ruleset.settings.timeouts.clone();
    let mut is_set = false;
    let mut limit = None;
    for prelude in &ruleset.prelude {
        match prelude {
            weir_rules::ir::Prelude::Set(Setting::Timeout(index, _), _) => {
                is_set |= matches!(*index, ADAPTIVE_START | ADAPTIVE_END);
            }
            weir_rules::ir::Prelude::Set(Setting::Limit(0, count), _) => limit = Some(*count),
            _ => {}
        }
    }
    if let (Some(limit), false) = (limit, is_set) {
        timeouts[usize::from(ADAPTIVE_START)] = limit / 10 * 6;
        timeouts[usize::from(ADAPTIVE_END)] = limit / 10 * 12;
    }
    timeouts
}

/// The first rule with something that the reference does not follow.
fn refusal(rules: &Rules) -> Option<(&Rule, &'static str)> {
    for list in rules.lists() {
        for rule in list {
            if let Some(what) = not_followed(rule) {
                return Some((rule, what));
            }
            let body = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_deref());
            if let Some(found) = body.and_then(refusal) {
                return Some(found);
            }
        }
    }
    None
}

fn not_followed(rule: &Rule) -> Option<&'static str> {
    let options = &rule.options;
    let scrub = options.scrub.unwrap_or_default();
    let kept = options.keep_state;
    [
        (scrub.reassemble_tcp, "`reassemble tcp`"),
        (matches!(kept, Some(KeepState::Synproxy)), "`synproxy state`"),
        (
            matches!(options.divert, Some(Divert::Packet(_) | Divert::To(None, _))),
            "`divert-packet`",
        ),
        (options.queue.is_some() || options.dummynet.is_some(), "a queue"),
        (options.set.prio.is_some(), "`set prio`"),
        (options.set.delay_ms.is_some(), "`set delay`"),
        (options.rtable.is_some(), "`rtable`"),
    ]
    .into_iter()
    .find_map(|(is_there, what)| is_there.then_some(what))
}
