//! What the evaluator asks of the reference's states: the lookup of a packet, and the following
//! of its connection, before any rule.

use std::net::IpAddr;

use super::dissect::Dissected;
use super::key::Key;
use super::states::{LoadedRule, Record, SourceLimits, Tracking, half_index};
use super::tcp::{self, Phase, Tracked};
use super::timeout;
use super::{Reference, World};
use crate::outcome::{Answer, DropReason};
use weir_rules::evaluate::packet::{ACK, SYN};
use weir_rules::evaluate::{Packet, RuleId, SourceCount, StateHit, StateView};
use weir_rules::value::Flush;
use weir_wire::protocol::TCP;

/// What one packet has met so far: the record is followed once, also if both halves are met.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) followed: Option<Key>,
    /// The packet opened this record.
    pub(super) is_counted: bool,
}

/// States as one packet at one interface sees them.
pub(super) struct View<'a> {
    pub(super) device: &'a Reference,
    pub(super) world: &'a mut World,
    pub(super) dissected: &'a Dissected,
    pub(super) progress: &'a mut Progress,
    /// The packet's record, also if the half that it needs is missing.
    pub(super) record: Option<(Key, bool)>,
    /// The half that it met.
    pub(super) half: Option<usize>,
    /// Why the state refuses it.
    pub(super) refusal: Option<(DropReason, Answer)>,
}

impl View<'_> {
    fn rule(&self, rule: RuleId) -> LoadedRule {
        self.device.loaded(rule)
    }

    fn refuse(&mut self, reason: DropReason, answer: Answer) -> Option<StateHit> {
        self.refusal = Some((reason, answer));
        Some(StateHit::Mismatch)
    }

    /// The half of a record that a packet meets, if it is there and holds on its interface.
    fn half_of(&self, packet: &Packet, at: (Key, bool)) -> Option<usize> {
        let index = half_index(packet.direction, at.1);
        let half = self.world.states.get(at.0)?.halves[index].as_ref()?;
        let holds = half.interface.as_ref().is_none_or(|interface| *interface == packet.interface);
        holds.then_some(index)
    }

    fn hit(&mut self, at: (Key, bool), index: usize) -> Option<StateHit> {
        let half = self.world.states.get(at.0)?.halves[index].as_ref()?;
        let allow_opts = half.actions.allow_opts;
        let rule = half.rule.and_then(|rule| self.device.rule_of(rule));
        self.half = Some(index);
        if !std::mem::replace(&mut self.progress.is_counted, true) {
            self.count(at);
        }
        Some(StateHit::Pass { rule, allow_opts })
    }

    fn count(&mut self, at: (Key, bool)) {
        if let Some(record) = self.world.states.get_mut(at.0) {
            record.packets[usize::from(!at.1)] += 1;
        }
    }

    /// An ICMP error belongs to the state of the packet that it quotes.
    fn error(&mut self, packet: &Packet) -> Option<StateHit> {
        let inner = match self.dissected.inner? {
            Ok(inner) => inner,
            Err(reason) => return self.refuse(reason, Answer::None),
        };
        if inner.source != packet.destination {
            return self.refuse(DropReason::StateMismatch, Answer::None);
        }
        let at = self.world.states.find(Key::against(&inner))?;
        let index = self.half_of(packet, at)?;
        let record = self.world.states.get(at.0)?;
        if let (Tracking::Tcp(source, destination), false) = (&record.tracking, record.is_sloppy) {
            // The quoted packet went the other way.
            let (sender, receiver) =
                if at.1 { (destination, source) } else { (source, destination) };
            if !tcp::is_in_window(sender, receiver, inner.sequence) {
                return self.refuse(DropReason::StateMismatch, Answer::None);
            }
        }
        self.hit(at, index)
    }

    /// Whether a SYN reopens a connection that both ends have closed.
    pub(super) fn reopens(&self, at: Key) -> bool {
        let flags = self.dissected.packet.tcp_flags;
        let record = self.world.states.get(at);
        let is_closed = record.is_some_and(|record| match &record.tracking {
            Tracking::Tcp(source, destination) => {
                source.phase >= Phase::FinWait2 && destination.phase >= Phase::FinWait2
            }
            _ => false,
        });
        is_closed && flags & (SYN | ACK) == SYN
    }

    /// Follows the packet's connection, unless that has been done.
    pub(super) fn follow(&mut self, at: (Key, bool), now_ns: u64) -> Result<(), DropReason> {
        if self.progress.followed == Some(at.0) {
            return Ok(());
        }
        self.progress.followed = Some(at.0);
        let Some(record) = self.world.states.get_mut(at.0) else {
            return Ok(());
        };
        match follow(record, self.dissected, at, now_ns) {
            Followed::Fits => Ok(()),
            Followed::Refused(answer) => {
                self.refusal = Some((DropReason::StateMismatch, answer));
                Err(DropReason::StateMismatch)
            }
            Followed::Established => self.established(at.0, now_ns),
        }
    }

    fn established(&mut self, key: Key, now_ns: u64) -> Result<(), DropReason> {
        let over = self.world.states.established(key, now_ns);
        if over.is_empty() {
            return Ok(());
        }
        self.world.states.remove(key);
        for (source, limits, rule) in over {
            self.overload(source, &limits, rule);
        }
        self.refusal = Some((DropReason::SrcLimit, Answer::None));
        Err(DropReason::SrcLimit)
    }

    fn overload(&mut self, source: IpAddr, limits: &SourceLimits, rule: Option<LoadedRule>) {
        let Some((table, flush)) = &limits.overload else {
            return;
        };
        let entry = (limits.anchor.clone(), table.clone(), source);
        if !self.world.overloaded.contains(&entry) {
            self.world.overloaded.push(entry);
        }
        match flush {
            Flush::No => {}
            Flush::Rule => {
                if let Some(rule) = rule {
                    self.world.states.flush(source, Some(rule));
                }
            }
            Flush::Global => self.world.states.flush(source, None),
        }
    }
}

enum Followed {
    Fits,
    Established,
    Refused(Answer),
}

fn follow(record: &mut Record, dissected: &Dissected, at: (Key, bool), now_ns: u64) -> Followed {
    let (Tracking::Tcp(source, destination), Some(segment)) =
        (&mut record.tracking, dissected.segment)
    else {
        record.follow_pair(at.0.protocol, at.1);
        record.touched_ns = now_ns;
        return Followed::Fits;
    };
    let (from, to) = if at.1 { (source, destination) } else { (destination, source) };
    let tracked = if tcp::is_challenged(from, to, segment.flags) {
        Tracked::Challenged
    } else if record.is_sloppy {
        Tracked::Fits { is_established: tcp::track_sloppy(from, to, segment.flags) }
    } else {
        tcp::track(from, to, &segment)
    };
    match tracked {
        Tracked::Loose => {
            if record.phase != timeout::TCP_FIRST {
                record.phase = Record::tcp_phase(from, to);
            }
            Followed::Fits
        }
        Tracked::Challenged => Followed::Refused(Answer::Challenge),
        Tracked::Refused { resets } => {
            Followed::Refused(if resets { Answer::Rst } else { Answer::None })
        }
        Tracked::Fits { is_established } => {
            record.phase = Record::tcp_phase(from, to);
            record.touched_ns = now_ns;
            if is_established { Followed::Established } else { Followed::Fits }
        }
    }
}

impl StateView for View<'_> {
    fn find(&mut self, packet: &Packet, now_ns: u64) -> Option<StateHit> {
        if self.dissected.inner.is_some() {
            return self.error(packet);
        }
        let at = self.world.states.find(Key::of(packet))?;
        self.record = Some(at);
        let index = self.half_of(packet, at)?;
        if packet.protocol == TCP && self.reopens(at.0) {
            self.world.states.remove(at.0);
            self.record = None;
            self.progress.followed = None;
            return None;
        }
        if self.follow(at, now_ns).is_err() {
            return Some(StateHit::Mismatch);
        }
        self.hit(at, index)
    }

    fn rule_state_count(&mut self, rule: RuleId) -> u32 {
        let but = self.record.map(|record| record.0);
        self.world.states.count_of(self.rule(rule), but)
    }

    fn source(&mut self, rule: Option<RuleId>, address: IpAddr) -> Option<SourceCount> {
        let key = (rule.map(|rule| self.rule(rule)), address);
        let state = self.record.and_then(|state| self.world.states.get(state.0));
        let counts_itself = state.is_some_and(|record| {
            let nodes = record.halves.iter().flatten().filter_map(|half| half.node.as_ref());
            nodes.into_iter().any(|node| node.0 == key)
        });
        let node = self.world.states.nodes.get(&key)?;
        Some(SourceCount { state_count: node.state_count - u32::from(counts_itself) })
    }

    fn source_count(&mut self, rule: RuleId) -> u32 {
        let owner = self.rule(rule);
        let nodes = self.world.states.nodes.values().filter(|node| node.owner == owner);
        u32::try_from(nodes.count()).unwrap_or(u32::MAX)
    }
}
