//! What the evaluator asks of the reference's states: the lookup of a packet, and the following
//! of its connection, before any rule.

use std::net::IpAddr;

use super::dissect::{Dissected, Inner};
use super::key::Key;
use super::states::{LoadedRule, Record, SourceLimits, Tracking, half_index};
use super::tcp::{self, Phase, Tracked};
use super::timeout;
use super::{Reference, World};
use crate::outcome::{Answer, DropReason};
use weir_rules::evaluate::packet::{ACK, SYN};
use weir_rules::evaluate::{
    Evaluator, Mapping, Packet, PoolEnd, RuleId, SourceCount, StateHit, StateView,
};
use weir_rules::value::{Direction, Flush, LimiterUse, Rate};
use weir_wire::protocol::{ICMP, ICMP6, TCP};

/// Type of an echo request; ICMP has its type where others have the destination port.
const ECHO_REQUEST: u16 = 8;
/// The same of ICMPv6.
const ECHO_REQUEST6: u16 = 128;

/// What one packet has met so far: the record is followed once, also if both halves are met.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) followed: Option<Key>,
    /// The packet opened this record.
    pub(super) is_counted: bool,
    pub(super) modulation: Option<Change>,
}

/// How a packet's numbers change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// Added to a segment's sequence number, or to that which an error quotes.
    pub(super) sequence: u32,
    /// Taken from what a segment acknowledges.
    pub(super) acknowledged: u32,
}

/// States as one packet at one interface sees them.
pub(super) struct View<'a> {
    pub(super) device: &'a Reference,
    pub(super) evaluator: &'a Evaluator<'a>,
    pub(super) world: &'a mut World,
    pub(super) dissected: &'a Dissected,
    pub(super) progress: &'a mut Progress,
    /// The packet's source before the rules of this interface: limits of sources are for this one.
    pub(super) source: IpAddr,
    /// What an ICMP error quotes, as it is at this interface.
    pub(super) inner: Option<Result<Inner, DropReason>>,
    /// The packet's record, also if the half that it needs is missing.
    pub(super) record: Option<(Key, bool)>,
    /// The record of the half that it met, and the half.
    pub(super) met: Option<((Key, bool), usize)>,
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

    /// The source and the destination that another device has given to the packet.
    fn choice(&self) -> Option<[(IpAddr, u16); 2]> {
        let origin = Key::of(&self.dissected.packet);
        let by_state = self.world.choices.iter().find_map(|state| {
            let inside =
                [(state.source, state.source_port), (state.destination, state.destination_port)];
            let [near, far] = state.outside.map(|ends| ends.unwrap_or(inside));
            let is_from = |[source, destination]: [(IpAddr, u16); 2]| {
                Key { protocol: state.protocol, source, destination } == origin
            };
            // What the box itself sends, and what came in without a state, has the inner ends.
            let is_answer = |ends: [(IpAddr, u16); 2]| is_from([ends[1], ends[0]]);
            if is_from(near) || is_from(inside) {
                Some([far[0], inside[1]])
            } else {
                (is_answer(far) || is_answer(inside)).then_some([near[1], inside[0]])
            }
        });
        // What has no state, or no longer, shows the choice as it left.
        by_state.or(self.world.chosen.map(|flow| [flow.source, flow.destination]))
    }

    /// The half of a record that a packet meets, if it is there and holds on its interface.
    fn half_of(&self, packet: &Packet, at: (Key, bool)) -> Option<usize> {
        let index = half_index(packet.direction, at.1);
        let record = self.world.states.get(at.0)?;
        // What changes its family is let out as what it becomes.
        let is_out = packet.direction == Direction::Out;
        if is_out && at.1 && record.other_family(at.0).is_some() {
            return None;
        }
        let half = record.halves[index].as_ref()?;
        let holds = half.interface.as_ref().is_none_or(|interface| *interface == packet.interface);
        holds.then_some(index)
    }

    /// Counts a packet of a state for the rule of its half.
    fn is_state_over_rate(&mut self, at: Key, index: usize, now_ns: u64) -> bool {
        let half = self.world.states.get(at).and_then(|record| record.halves[index].as_ref());
        let rule = half.and_then(|half| half.rule).and_then(|rule| self.device.rule_of(rule));
        let rate = rule.and_then(|rule| self.evaluator.rule(rule)?.rule.options.max_pkt_rate);
        match (rule, rate) {
            (Some(rule), Some(rate)) => self.packet_rate_exceeded(rule, rate, now_ns),
            _ => false,
        }
    }

    fn hit(&mut self, at: (Key, bool), index: usize) -> Option<StateHit> {
        let half = self.world.states.get(at.0)?.halves[index].as_ref()?;
        let allow_opts = half.actions.allow_opts;
        let rule = half.rule.and_then(|rule| self.device.rule_of(rule));
        self.met = Some((at, index));
        self.count_once(at);
        Some(StateHit::Pass { rule, allow_opts })
    }

    fn count_once(&mut self, at: (Key, bool)) {
        let is_counted = std::mem::replace(&mut self.progress.is_counted, true);
        if !is_counted && let Some(record) = self.world.states.get_mut(at.0) {
            record.packets[usize::from(!at.1)] += 1;
        }
    }

    /// An ICMP error belongs to the state of the packet that it quotes.
    fn error(&mut self, packet: &Packet) -> Option<StateHit> {
        let inner = match self.inner? {
            Ok(inner) => inner,
            Err(reason) => return self.refuse(reason, Answer::None),
        };
        if inner.source != packet.destination {
            return self.refuse(DropReason::StateMismatch, Answer::None);
        }
        let at = self.world.states.meet(inner.against(), packet.direction)?;
        let index = self.half_of(packet, at)?;
        let record = self.world.states.get(at.0)?;
        let back = record.modulation.map(|of| change(of, !at.1).sequence.wrapping_neg());
        self.progress.modulation = back.map(|sequence| Change { sequence, acknowledged: 0 });
        let sequence = inner.sequence.wrapping_add(back.unwrap_or_default());
        if let (Tracking::Tcp(source, destination), false) = (&record.tracking, record.is_sloppy) {
            // The quoted packet went the other way.
            let (sender, receiver) =
                if at.1 { (destination, source) } else { (source, destination) };
            if !tcp::is_in_window(sender, receiver, sequence) {
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
        // Only records of TCP have one.
        let modulation = record.modulation.map(|of| change(of, at.1));
        self.progress.modulation = modulation;
        match follow(record, self.dissected, at, modulation, now_ns) {
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

/// What becomes of the numbers of a segment in a direction.
pub(super) fn change(modulation: [u32; 2], is_forward: bool) -> Change {
    let [source, destination] = modulation;
    let (sequence, acknowledged) =
        if is_forward { (source, destination) } else { (destination, source) };
    Change { sequence, acknowledged }
}

fn follow(
    record: &mut Record,
    dissected: &Dissected,
    at: (Key, bool),
    modulation: Option<Change>,
    now_ns: u64,
) -> Followed {
    let (Tracking::Tcp(source, destination), Some(mut segment)) =
        (&mut record.tracking, dissected.segment)
    else {
        record.follow_pair(at.0.protocol, at.1);
        record.touched_ns = now_ns;
        return Followed::Fits;
    };
    if let Some(change) = modulation.filter(|_| segment.acknowledges()) {
        segment.acknowledgement = segment.acknowledgement.wrapping_sub(change.acknowledged);
    }
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
        if self.inner.is_some() {
            return self.error(packet);
        }
        let at = self.world.states.meet(Key::of(packet), packet.direction)?;
        let index = self.half_of(packet, at);
        if packet.protocol == TCP && self.reopens(at.0) {
            // What it has not met ends when another record is made, and counts until then.
            if index.is_some() {
                self.world.states.remove(at.0);
                self.progress.followed = None;
            }
            return None;
        }
        self.record = Some(at);
        let index = index?;
        if self.follow(at, now_ns).is_err() {
            return Some(StateHit::Mismatch);
        }
        if at.1 && self.is_state_over_rate(at.0, index, now_ns) {
            self.count_once(at);
            return self.refuse(DropReason::PktRate, Answer::None);
        }
        self.hit(at, index)
    }

    fn rule_state_count(&mut self, rule: RuleId) -> u32 {
        let but = self.record.map(|record| record.0);
        self.world.states.count_of(self.rule(rule), but)
    }

    fn source(&mut self, rule: Option<RuleId>, _translated: IpAddr) -> Option<SourceCount> {
        let key = (rule.map(|rule| self.rule(rule)), self.source);
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

    fn packet_rate_exceeded(&mut self, rule: RuleId, rate: Rate, now_ns: u64) -> bool {
        let owner = self.rule(rule);
        let (last_ns, count) = self.world.rates.entry(owner).or_default();
        let passed_ns = now_ns - std::mem::replace(last_ns, now_ns);
        let window_ns = u64::from(rate.seconds) * 1_000_000_000;
        *count -= if passed_ns < window_ns { *count * passed_ns / window_ns } else { *count };
        *count += 1_000;
        *count > u64::from(rate.limit) * 1_000
    }

    fn limiter_exceeded(&mut self, limiter: &LimiterUse, _: IpAddr, now_ns: u64) -> bool {
        let record = self.record.map(|record| record.0);
        let World { states, limiters, .. } = &mut *self.world;
        self.evaluator.ruleset().limiter(limiter).is_none_or(|limiter| {
            limiters.is_exceeded(states, limiter, self.source, record, now_ns)
        })
    }

    fn once_is_spent(&mut self, rule: RuleId) -> bool {
        self.world.spent.contains(&rule)
    }

    fn mapping_is_free(&mut self, mapping: &Mapping) -> bool {
        let port = match mapping.protocol {
            ICMP => ECHO_REQUEST,
            ICMP6 => ECHO_REQUEST6,
            _ => mapping.destination_port,
        };
        let key = Key {
            protocol: mapping.protocol,
            source: (mapping.source, mapping.source_port),
            destination: (mapping.destination, port),
        };
        !self.world.states.is_taken(key, None)
    }

    fn mapped(&mut self, inside: (IpAddr, u16)) -> Option<(IpAddr, u16)> {
        let mut mapped = self.world.states.mapped();
        mapped.find(|ends| ends[0] == inside).map(|ends| ends[1])
    }

    fn is_mapped(&mut self, outside: (IpAddr, u16)) -> bool {
        self.world.states.mapped().any(|ends| ends[1] == outside)
    }

    fn turn(&mut self, rule: RuleId) -> u64 {
        let turn = self.world.turns.entry(rule).or_default();
        *turn += 1;
        *turn - 1
    }

    fn sticky(&mut self, rule: RuleId, source: IpAddr) -> Option<IpAddr> {
        self.world.states.sticky(self.rule(rule), source)
    }

    fn given_port(&mut self) -> Option<u16> {
        self.choice().map(|[source, _]| source.1)
    }

    fn given(&mut self, end: PoolEnd) -> Option<IpAddr> {
        let [source, destination] = self.choice()?;
        Some(if end == PoolEnd::Source { source.0 } else { destination.0 })
    }
}
