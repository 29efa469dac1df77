//! The states that packets of one run make, for `weir fw explain --states`: which packets belong to
//! them, and no more. They do not expire, and TCP's windows and flags are not checked.
//!
//! As in pf, a state is known by two keys, the one that a packet has on the wire and the one behind
//! translation; packets that come in are looked up by the first, packets that go out by the second
//! (`pf_find_state` of pf.c).

use std::collections::HashMap;
use std::net::IpAddr;

use anyhow::bail;
use weir_rules::evaluate::{
    IcmpRole, Mapping, Packet, RuleId, StateHit, StateView, Translated, Verdict, end_text,
};
use weir_rules::value::{Direction, Text};
use weir_wire::protocol::{ICMP, ICMP6, other_family};

/// States of one run, at most: some 300 MB.
const STATE_COUNT_MAX: usize = 1_000_000;

/// An address with a port, or an ICMP identifier.
type End = (IpAddr, u16);

/// Which end is outside the interface (the source of what comes in), and which inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    protocol: u8,
    outer: End,
    inner: End,
}

impl Key {
    fn new(direction: Direction, protocol: u8, source: End, destination: End) -> Self {
        match direction {
            Direction::In => Self { protocol, outer: source, inner: destination },
            Direction::Out => Self { protocol, outer: destination, inner: source },
        }
    }
}

#[derive(Debug, Clone)]
struct State {
    rule: Option<RuleId>,
    allow_opts: bool,
    /// The interface that it is bound to.
    interface: Option<Text>,
    /// Which way its first packet went, and both ends of that: on the wire, and behind it.
    direction: Direction,
    wire: (End, End),
    stack: (End, End),
}

/// The states so far.
#[derive(Debug, Default)]
pub(super) struct States {
    is_on: bool,
    states: Vec<State>,
    wire: HashMap<Key, usize>,
    stack: HashMap<Key, usize>,
}

impl States {
    /// An empty table, which stays empty unless states `are_kept`.
    pub(super) fn new(are_kept: bool) -> Self {
        Self { is_on: are_kept, ..Self::default() }
    }

    /// Keeps the state that a packet made.
    pub(super) fn keep(&mut self, packet: &Packet, verdict: &Verdict<'_>) -> anyhow::Result<()> {
        let Some(new) = verdict.state.as_ref().filter(|_| self.is_on) else { return Ok(()) };
        if self.states.len() >= STATE_COUNT_MAX {
            bail!("more than {STATE_COUNT_MAX} states: give fewer packets, or leave out --states");
        }
        let at = self.states.len();
        let before = ends(packet);
        let after = verdict
            .translation
            .as_ref()
            .map_or(before, |translation| translated(packet, translation));
        let key = |(source, destination)| {
            Key::new(packet.direction, packet.protocol, source, destination)
        };
        let (wire, stack) = match packet.direction {
            Direction::In => (before, after),
            Direction::Out => (after, before),
        };
        self.wire.insert(key(wire), at);
        if is_other_family(wire.0, stack.0) {
            // Its answers come in by the other family, and nothing of it is judged going out.
            let protocol = other_family(packet.protocol);
            self.wire.insert(Key::new(Direction::In, protocol, stack.1, stack.0), at);
        } else {
            self.stack.insert(key(stack), at);
        }
        self.states.push(State {
            rule: new.rule.map(|rule| rule.id),
            allow_opts: verdict.actions.allow_opts,
            interface: new.if_bound.then(|| packet.interface.clone()),
            direction: packet.direction,
            wire,
            stack,
        });
        Ok(())
    }

    /// What becomes of the ends of a packet that belongs to a state, in words; nothing where it
    /// stays as it is.
    pub(super) fn translation(&self, packet: &Packet) -> Vec<String> {
        let is_error = packet.is_icmp() && packet.icmp_role() == IcmpRole::Error;
        let state = self.key(packet).and_then(|key| self.look(packet, &key));
        let Some(state) = state.filter(|_| !is_error) else { return Vec::new() };
        let (from, to) = match packet.direction {
            Direction::In => (state.wire, state.stack),
            Direction::Out => (state.stack, state.wire),
        };
        let is_answer = is_other_family(state.wire.0, (packet.source, 0));
        let (from, to) = match (is_answer, packet.direction == state.direction) {
            (true, _) => ((state.stack.1, state.stack.0), (state.wire.1, state.wire.0)),
            (false, true) => (from, to),
            (false, false) => ((from.1, from.0), (to.1, to.0)),
        };
        let text =
            |(address, port)| end_text(packet.has_ports() || packet.is_icmp(), address, port);
        let ends = [("source", from.0, to.0), ("destination", from.1, to.1)];
        let changed = ends.into_iter().filter(|(_, old, new)| old != new);
        let line =
            |(end, old, new)| format!("{end} {} becomes {} by the state", text(old), text(new));
        changed.map(line).collect()
    }

    /// By what the state of a packet is found: an ICMP error by what it quotes.
    fn key(&self, packet: &Packet) -> Option<Key> {
        let is_error = packet.is_icmp() && packet.icmp_role() == IcmpRole::Error;
        Some(match (&packet.quoted, is_error) {
            // What an error quotes has crossed the interface the other way.
            (Some(quoted), true) => {
                let source = (quoted.source, quoted.source_port);
                let destination = (quoted.destination, quoted.destination_port);
                let direction = match packet.direction {
                    Direction::In => Direction::Out,
                    Direction::Out => Direction::In,
                };
                Key::new(direction, quoted.protocol, source, destination)
            }
            (None, true) => return None,
            _ => {
                let (source, destination) = ends(packet);
                Key::new(packet.direction, packet.protocol, source, destination)
            }
        })
    }

    fn look(&self, packet: &Packet, key: &Key) -> Option<&State> {
        let keys = match packet.direction {
            Direction::In => &self.wire,
            Direction::Out => &self.stack,
        };
        let state = &self.states[*keys.get(key)?];
        let is_here =
            state.interface.as_ref().is_none_or(|interface| *interface == packet.interface);
        is_here.then_some(state)
    }
}

impl StateView for States {
    fn find(&mut self, packet: &Packet, _now_ns: u64) -> Option<StateHit> {
        let state = self.look(packet, &self.key(packet)?)?;
        Some(StateHit::Pass { rule: state.rule, allow_opts: state.allow_opts })
    }

    /// A port is free for a destination if no answer would come to it.
    fn mapping_is_free(&mut self, mapping: &Mapping) -> bool {
        let port = match mapping.protocol {
            ICMP | ICMP6 => mapping.source_port,
            _ => mapping.destination_port,
        };
        let source = (mapping.source, mapping.source_port);
        let destination = (mapping.destination, port);
        !self.wire.contains_key(&Key::new(Direction::Out, mapping.protocol, source, destination))
    }
}

/// Whether two ends are of different families.
fn is_other_family(one: End, other: End) -> bool {
    one.0.is_ipv4() != other.0.is_ipv4()
}

/// Both ends of a packet; the two of an ICMP query and its answer have the identifier.
fn ends(packet: &Packet) -> (End, End) {
    let ports = match packet.protocol {
        ICMP | ICMP6 => (packet.icmp.id, packet.icmp.id),
        _ => (packet.source_port, packet.destination_port),
    };
    ((packet.source, ports.0), (packet.destination, ports.1))
}

fn translated(packet: &Packet, translation: &Translated<'_>) -> (End, End) {
    let ports = match packet.protocol {
        ICMP | ICMP6 => (translation.source_port, translation.source_port),
        _ => (translation.source_port, translation.destination_port),
    };
    ((translation.source, ports.0), (translation.destination, ports.1))
}
