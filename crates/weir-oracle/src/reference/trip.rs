//! One packet's way through the box.

mod copies;
mod families;
mod pieces;
mod refusals;

use std::net::IpAddr;

use weir_wire::protocol::{TCP, UDP};
use weir_wire::random;

use super::dissect::{Dissected, Inner};
use super::fragments::Followed;
use super::key::Key;
use super::limiters;
use super::rewrite::{Leaving, rewrite};
use super::states::{self, Given, Half, Record, SourceLimits, Tracking, half_index};
use super::timeout;
use super::view::{self, Progress, View};
use super::{Reference, World, tcp};
use crate::outcome::{Answer, DropReason, Outcome};
use weir_rules::evaluate::packet::{ACK, SYN, is_martian};
use weir_rules::evaluate::{
    Actions, Decision, Evaluator, Moment, NewState, NoStates, Packet, Reason, RouteChoice, Routes,
    RuleRef, Translated, Verdict,
};
use weir_rules::ir::{Action, Rule};
use weir_rules::value::{Direction, KeepState, RouteKind, Scrub, SourceTrack, Text};

/// Seed of the numbers that `probability` draws.
pub(super) const CHANCE_SEED: u64 = 0x7765_6972;

/// A packet on its way.
pub(super) struct Trip<'a> {
    device: &'a Reference,
    evaluator: &'a Evaluator<'a>,
    /// Of the `scrub` rules, if they change anything.
    scrub: Option<&'a Evaluator<'a>>,
    world: &'a mut World,
    dissected: &'a Dissected,
    frame: &'a [u8],
    routes: &'a Routes,
    now_ns: u64,
    /// The packet with the ends that it has by now.
    packet: Packet,
    /// Its addresses as the box routes it.
    inside: (IpAddr, IpAddr),
    /// What an ICMP error quotes, with the ends that it has by now.
    inner: Option<Result<Inner, DropReason>>,
    /// There is something to judge by: without rules and states nothing is remembered of fragments.
    is_filtered: bool,
    progress: Progress,
    received_on: Option<Text>,
    tag: Option<Text>,
    ttl: u8,
    tos: u8,
    clears_df: bool,
    /// IPv4's identification, once it has become another one.
    id: Option<[u8; 2]>,
    max_mss: Option<u16>,
    /// What the state of a later fragment is found by.
    followed: Option<Key>,
    /// The state that the packet belongs to, for the fragments behind it.
    state: Option<(Key, bool)>,
    /// Where a rule sends it that has made no state.
    routed: Option<RouteChoice>,
    /// Its ends in the family that it changes to, and whether it goes to who began its flow.
    family: Option<(Key, bool)>,
    /// The frame in that.
    changed: Option<Vec<u8>>,
    pub(super) is_logged: bool,
    /// It is sent elsewhere as well, where it was judged last; `None`: a fragment that was not.
    pub(super) is_copied: Option<bool>,
    /// Where it was judged last, a state covers it by now.
    is_met: bool,
}

type Stage = Result<(), Outcome>;

fn blocked<T>(reason: DropReason) -> Result<T, Outcome> {
    Err(Outcome::Blocked(reason, Answer::None))
}

impl<'a> Trip<'a> {
    pub(super) fn new(
        device: &'a Reference,
        (evaluator, scrub): (&'a Evaluator<'a>, Option<&'a Evaluator<'a>>),
        world: &'a mut World,
        (dissected, frame): (&'a Dissected, &'a [u8]),
        routes: &'a Routes,
        now_ns: u64,
    ) -> Self {
        let has_rules = device.ruleset.main.lists().iter().any(|list| !list.is_empty());
        let changes = scrub.is_some() || device.ruleset.settings.reassemble_no_df;
        let is_filtered = has_rules || changes || world.states.count() > 0;
        Self {
            device,
            evaluator,
            scrub,
            world,
            dissected,
            frame,
            routes,
            now_ns,
            packet: dissected.packet.clone(),
            inside: (dissected.packet.source, dissected.packet.destination),
            inner: dissected.inner,
            is_filtered,
            progress: Progress::default(),
            received_on: None,
            tag: None,
            ttl: dissected.ttl,
            tos: dissected.packet.tos,
            clears_df: false,
            id: None,
            max_mss: None,
            followed: None,
            state: None,
            routed: None,
            family: None,
            changed: None,
            is_logged: false,
            is_copied: Some(false),
            is_met: false,
        }
    }

    /// What becomes of the packet.
    pub(super) fn run(&mut self, direction: Direction, interface: &str) -> Outcome {
        let piece = self.dissected.piece.filter(|_| self.is_filtered);
        if let Some(piece) = piece.filter(|_| !self.evaluator.skips(interface))
            && let Some(outcome) = self.gather(piece)
        {
            return self.follow(outcome, direction, interface, direction == Direction::In);
        }
        let walked = match direction {
            Direction::In => self.through(interface),
            Direction::Out => self.leave(interface),
        };
        let outcome = walked.unwrap_or_else(|blocked| blocked);
        // What the box sends by an interface with `set skip` is not looked at.
        let is_unseen = direction == Direction::Out && self.evaluator.skips(interface);
        let is_first = piece.filter(|piece| piece.offset_bytes == 0 && !is_unseen);
        if let (Some(piece), false) = (is_first, matches!(outcome, Outcome::Blocked(..))) {
            let seconds = u64::from(self.world.states.setting(timeout::FRAGMENT));
            let expires_ns = self.now_ns + seconds * 1_000_000_000;
            let state = match self.state {
                Some((key, true)) => key,
                Some((key, false)) => key.reversed(),
                None => Key::of(&self.dissected.packet),
            };
            let (outcome, ends, inside) = (outcome.clone(), self.ends(), self.inside);
            let had_state = self.state.is_some();
            let fate = Followed { outcome, state, had_state, ends, inside };
            self.world.fragments.open(self.dissected, piece, fate, expires_ns);
        }
        outcome
    }

    /// What `scrub` rules and `set reassemble` change in a packet.
    fn listed(&self, packet: &Packet) -> Actions {
        let clears_df =
            self.device.ruleset.settings.reassemble_no_df && self.dissected.piece.is_some();
        let Some(evaluator) = self.scrub else {
            return Actions { no_df: clears_df, ..Actions::default() };
        };
        let (now_ns, routes) = (self.now_ns, self.routes);
        let mut states = NoStates;
        let mut moment = Moment { now_ns, random: &mut || 0, states: &mut states, routes };
        let found = evaluator.evaluate(packet, &mut moment).scrub;
        let options = |found: Option<RuleRef<'a>>| {
            let rule = found.map(|found| found.rule)?;
            (rule.action == Action::Scrub).then_some(&rule.options)
        };
        let (ip, tcp) = (options(found.ip), options(found.tcp));
        let of_ip = ip.and_then(|options| options.scrub).unwrap_or_default();
        let of_tcp = tcp.and_then(|options| options.scrub).unwrap_or_default();
        Actions {
            set_tos: ip.and_then(|options| options.set.tos),
            min_ttl: Some(of_ip.min_ttl),
            max_mss: Some(of_tcp.max_mss).filter(|mss| *mss != 0),
            no_df: of_ip.no_df || clears_df,
            random_id: of_ip.random_id,
            ..Actions::default()
        }
    }

    /// Its addresses by now.
    fn ends(&self) -> (IpAddr, IpAddr) {
        (self.packet.source, self.packet.destination)
    }

    fn is_last_hop(&self, direction: Direction) -> bool {
        direction == Direction::In && self.ttl <= 1
    }

    /// From the box itself.
    fn leave(&mut self, interface: &str) -> Result<Outcome, Outcome> {
        if self.has_changed() && !self.evaluator.skips(interface) {
            return Ok(Outcome::Out(interface.into()));
        }
        // What has a gateway leaves there, and is judged there unless its state is bound to this
        // interface.
        let kept = self.kept_gateway(interface);
        let by = kept.as_ref().and_then(|gateway| self.exit(gateway));
        let out = by.unwrap_or_else(|| interface.into());
        self.stage(Direction::Out, &out)?;
        let other = self.gateway().and_then(|gateway| self.exit(&gateway));
        Ok(Outcome::Out(other.unwrap_or(out)))
    }

    /// The gateway of the packet's state, before anything is asked of that; not of one that is
    /// found by what it quotes, or by its first fragment.
    fn kept_gateway(&self, interface: &str) -> Option<RouteChoice> {
        let is_later = self.dissected.piece.is_some_and(|piece| piece.offset_bytes != 0);
        if !self.is_filtered || self.inner.is_some() || is_later {
            return None;
        }
        let at = self.world.states.find(Key::of(&self.packet))?;
        let half = &self.world.states.get(at.0)?.halves[half_index(Direction::Out, at.1)];
        let is_covered =
            half.as_ref().is_some_and(|half| half.interface.as_deref() == Some(interface));
        self.gateway_of(at).filter(|_| !is_covered)
    }

    /// Where the packet goes by now instead of by the routes: as a rule says that has made no
    /// state, or else its state.
    fn gateway(&self) -> Option<RouteChoice> {
        self.routed.clone().or_else(|| self.gateway_of(self.state?))
    }

    /// As a state says. Where the packet leaves has the last word.
    fn gateway_of(&self, (key, forward): (Key, bool)) -> Option<RouteChoice> {
        let halves = &self.world.states.get(key)?.halves;
        [Direction::Out, Direction::In].into_iter().find_map(|direction| {
            let half = halves[half_index(direction, forward)].as_ref()?;
            let is_same = half.direction == direction;
            let route = half.route.as_ref()?;
            let applies = match route.kind {
                RouteKind::RouteTo => is_same,
                RouteKind::ReplyTo => !is_same,
                RouteKind::DupTo => false,
            };
            applies.then(|| route.clone())
        })
    }

    /// The interface that a gateway is reached by.
    fn exit(&self, gateway: &RouteChoice) -> Option<Text> {
        let by_route = || self.routes.interface(gateway.gateway?).cloned();
        gateway.interface.clone().or_else(by_route)
    }

    fn through(&mut self, interface: &str) -> Result<Outcome, Outcome> {
        self.stage(Direction::In, interface)?;
        if let Some((flow, is_answer)) = self.family {
            return self.change_family(flow, is_answer);
        }
        self.inside = self.ends();
        let packet = &self.packet;
        let (device, has_options) = (self.device, packet.extensions.ipv4_options);
        // Frames with a tag, and none else, have a priority.
        let is_tagged = packet.prio.is_some();
        if device.is_for_box(packet.destination)
            || is_martian(packet.source, packet.destination)
            || has_options
            || is_tagged
            || self.is_diverted()
            || self.is_for_copying()
            || self.is_last_hop(Direction::In)
        {
            return Ok(Outcome::Box);
        }
        // Where the kernel has no route, there is nothing to choose.
        let Some(found) = self.routes.interface(self.packet.destination).cloned() else {
            return Ok(Outcome::Box);
        };
        let out = self.gateway().and_then(|gateway| self.exit(&gateway)).unwrap_or(found);
        let size_bytes = u32::try_from(self.dissected.ip_bytes).unwrap_or(u32::MAX);
        if size_bytes > device.mtu_bytes(&out) {
            return Ok(Outcome::Box);
        }
        self.received_on = Some(interface.into());
        // Where it came in nothing is filtered: its packet is looked for where it is judged first.
        let is_unjudged =
            self.is_filtered && self.evaluator.skips(interface) && !self.evaluator.skips(&out);
        if let Some(piece) = self.dissected.piece.filter(|_| is_unjudged)
            && let Some(outcome) = self.gather(piece)
        {
            return Ok(self.follow(outcome, Direction::Out, &out, true));
        }
        self.ttl -= 1;
        self.stage(Direction::Out, &out)?;
        let other = self.gateway().and_then(|gateway| self.exit(&gateway));
        Ok(Outcome::Out(other.unwrap_or(out)))
    }

    /// Whether the state by which the packet came in hands it to a socket.
    fn is_diverted(&self) -> bool {
        let state = self.state.filter(|(key, _)| matches!(key.protocol, TCP | UDP));
        let half = state.and_then(|(key, forward)| {
            self.world.states.get(key)?.halves[half_index(Direction::In, forward)].as_ref()
        });
        half.is_some_and(Half::diverts)
    }

    /// One interface, one direction.
    fn stage(&mut self, direction: Direction, interface: &str) -> Stage {
        self.is_copied = Some(false);
        self.is_met = false;
        let mut packet = self.packet.clone();
        packet.direction = direction;
        packet.interface = interface.into();
        packet.received_on.clone_from(&self.received_on);
        // What the box sends in a test run has a socket of the kernel's, which is root's.
        let is_sent = direction == Direction::Out && self.received_on.is_none();
        packet.user = is_sent.then_some(0);
        packet.tos = self.tos;
        packet.tag.clone_from(&self.tag);
        let mut draw_count = self.world.draw_count;
        let mut view = View {
            device: self.device,
            evaluator: self.evaluator,
            world: self.world,
            dissected: self.dissected,
            progress: &mut self.progress,
            source: self.packet.source,
            inner: self.inner,
            record: None,
            met: None,
            refusal: None,
        };
        let mut random = || {
            draw_count += 1;
            random::halves(random::splitmix64(CHANCE_SEED, draw_count)).0
        };
        let (evaluator, now_ns, routes) = (self.evaluator, self.now_ns, self.routes);
        let mut moment = Moment { now_ns, random: &mut random, states: &mut view, routes };
        let verdict = evaluator.evaluate(&packet, &mut moment);
        let (record, met, refusal) = (view.record, view.met, view.refusal);
        self.world.draw_count = draw_count;
        self.world.spent.extend(&verdict.spent_once);
        self.is_logged |= !verdict.logs.is_empty();
        if verdict.decision == Decision::Block {
            return Err(self.refused(&verdict, refusal));
        }
        if verdict.reason != Reason::Skip {
            let listed = self.listed(&packet);
            self.act(&listed);
        }
        match verdict.reason {
            Reason::Skip => Ok(()),
            Reason::State => {
                self.by_state(direction, met);
                Ok(())
            }
            _ => self.by_rules(&verdict, direction, interface, record),
        }
    }

    fn by_state(&mut self, direction: Direction, met: Option<((Key, bool), usize)>) {
        let Some((at, index)) = met else { return };
        self.state = Some(at);
        let half = self.world.states.get(at.0).and_then(|record| record.halves[index].clone());
        let Some(half) = half else { return };
        self.is_logged |= half.actions.log_all;
        self.is_copied = Some(self.copies(&half));
        self.is_met = true;
        self.act(&half.actions);
        let other = self.world.states.get(at.0).and_then(|record| record.other_family(at.0));
        if let Some(other) = other.filter(|_| direction == Direction::In) {
            self.family = Some(if at.1 { (other, false) } else { (at.0.reversed(), true) });
            return;
        }
        let to = if direction == Direction::In { at.0 } else { half.wire };
        self.become_flow(if at.1 { to } else { to.reversed() });
    }

    /// Gives the packet the ends of a flow. An ICMP error goes against the packet that it quotes;
    /// that its sender is another router than the one that the packet went to is hidden with it,
    /// as in pf.
    fn become_flow(&mut self, flow: Key) {
        let Some(Ok(inner)) = &mut self.inner else {
            flow.put(&mut self.packet);
            return;
        };
        let reached = inner.destination;
        (inner.source, inner.source_port) = flow.destination;
        (inner.destination, inner.destination_port) = flow.source;
        self.packet.destination = inner.source;
        if reached != inner.destination {
            self.packet.source = inner.destination;
        }
    }

    fn act(&mut self, actions: &Actions) {
        if let Some(tos) = actions.set_tos {
            self.tos = tos | self.tos & 3;
        }
        if let Some(ttl) = actions.min_ttl {
            self.ttl = self.ttl.max(ttl);
        }
        self.clears_df |= actions.no_df;
        if actions.random_id {
            self.id = self.world.chosen_id;
        }
        self.max_mss = self.max_mss.into_iter().chain(actions.max_mss).min();
        if actions.tag.is_some() {
            self.tag.clone_from(&actions.tag);
        }
    }

    fn by_rules(
        &mut self,
        verdict: &Verdict<'_>,
        direction: Direction,
        interface: &str,
        record: Option<(Key, bool)>,
    ) -> Stage {
        let becomes = verdict.translation.as_ref().filter(|new| new.takes_effect);
        if let (Some(new), Some(state)) =
            (becomes.filter(|new| new.af_to.is_some()), &verdict.state)
        {
            let kept = self.keep_family(verdict, state, interface, (record, new));
            kept.map_err(|outcome| self.failed(outcome, verdict))?;
            self.act(&verdict.actions);
            return Ok(());
        }
        let mut packet = self.packet.clone();
        if let Some(new) = becomes {
            translate(&mut packet, new);
        }
        if let Some(state) = &verdict.state {
            let crossing = Crossing { direction, interface, record, becomes: Key::of(&packet) };
            let kept = self.keep(verdict, state, &crossing);
            kept.map_err(|outcome| self.failed(outcome, verdict))?;
        }
        self.packet = packet;
        self.act(&verdict.actions);
        let is_stateless = verdict.state.is_none();
        let route = verdict.route.clone();
        self.is_copied = Some(route.as_ref().is_some_and(|route| route.kind == RouteKind::DupTo));
        let goes = |route: &RouteChoice| route.applies_now && route.kind != RouteKind::DupTo;
        if let Some(route) = route.filter(|route| is_stateless && goes(route)) {
            self.routed = Some(route);
        }
        Ok(())
    }

    /// Makes a state, or the half of it that is missing.
    fn keep(
        &mut self,
        verdict: &Verdict<'_>,
        state: &NewState<'_>,
        crossing: &Crossing<'_>,
    ) -> Result<(), Outcome> {
        let comes = Key::of(&self.packet);
        let (flow, wire) = match crossing.direction {
            Direction::In => (crossing.becomes, comes),
            Direction::Out => (comes, crossing.becomes),
        };
        let half = self.half(verdict, state, crossing);
        self.check_nodes(&half)?;
        let is_its = |at: &(Key, bool)| at.0 == flow || at.0 == flow.reversed();
        let found = crossing.record.filter(is_its).or_else(|| self.world.states.find(flow));
        let at = match found {
            Some(at) if !self.is_reopened(at.0) => {
                self.check_half(state, at, crossing.direction, wire)?;
                self.follow_anyway(at)?;
                at
            }
            _ => (self.open(state, (flow, wire), found.map(|at| at.0))?, true),
        };
        let wire = if at.1 { wire } else { wire.reversed() };
        let index = half_index(crossing.direction, at.1);
        if !std::mem::replace(&mut self.progress.is_counted, true)
            && let Some(record) = self.world.states.get_mut(at.0)
        {
            record.packets[usize::from(!at.1)] += 1;
        }
        self.state = Some(at);
        self.is_met = true;
        self.modulate(state, at);
        self.limit(at.0, &half);
        self.world.states.attach(at.0, index, Half { wire, ..half });
        Ok(())
    }

    /// Takes what a half holds of limiters and its record has not held so far.
    fn limit(&mut self, at: Key, half: &Half) {
        let taken = limiters::missing(&self.world.states, at, half);
        self.world.limiters.take(&self.device.ruleset, &taken, self.now_ns);
    }

    /// From its first SYN on the sequence numbers of a record are changed, if a rule asks for that.
    fn modulate(&mut self, state: &NewState<'_>, at: (Key, bool)) {
        let is_first = self.packet.tcp_flags & (SYN | ACK) == SYN;
        let Some(record) = self.world.states.get_mut(at.0) else { return };
        if state.kind != KeepState::Modulate || !is_first || record.modulation.is_some() {
            return;
        }
        let modulation = (self.device.modulator.0)(at.0.source, at.0.destination);
        record.modulation = Some(modulation);
        self.progress.modulation = Some(view::change(modulation, at.1));
    }

    /// What the states say of the packet where it is.
    fn view(&mut self) -> View<'_> {
        let (device, dissected, inner) = (self.device, self.dissected, self.inner);
        let evaluator = self.evaluator;
        let (world, progress) = (&mut *self.world, &mut self.progress);
        let (source, record, met, refusal) = (self.packet.source, None, None, None);
        View { device, evaluator, world, dissected, progress, source, inner, record, met, refusal }
    }

    /// Whether the packet begins a closed connection anew, whose state ends if another is made.
    fn is_reopened(&mut self, at: Key) -> bool {
        let view = self.view();
        view.dissected.segment.is_some() && view.reopens(at)
    }

    /// What the packet does to the state of its flow, whose half it has not met: the rules have
    /// passed it, so that the state has no say; but it looks.
    fn follow_anyway(&mut self, at: (Key, bool)) -> Result<(), Outcome> {
        let now_ns = self.now_ns;
        let mut view = self.view();
        let seen = view.follow(at, now_ns);
        // What does not fit is not counted.
        view.progress.is_counted |= seen.is_err();
        let is_gone = view.world.states.get(at.0).is_none();
        if seen == Err(DropReason::SrcLimit) || is_gone {
            return blocked(DropReason::SrcLimit);
        }
        Ok(())
    }

    /// A half of a record may be made anew, but not one that is translated, or is to be, nor where
    /// another record is found by its packets.
    fn check_half(
        &self,
        state: &NewState<'_>,
        at: (Key, bool),
        direction: Direction,
        wire: Key,
    ) -> Result<(), Outcome> {
        let states = &self.world.states;
        let outside = if at.1 { wire } else { wire.reversed() };
        let index = half_index(direction, at.1);
        let half = states.get(at.0).and_then(|record| record.halves[index].as_ref());
        let is_other = half.is_some_and(|half| half.wire != outside || half.wire != at.0);
        if is_other || states.is_taken(wire, Some(at.0)) {
            self.check_limit(state)?;
            return blocked(DropReason::StateInsert);
        }
        Ok(())
    }

    /// pf takes memory for a state, up to the limit, before it looks for its place.
    fn check_limit(&self, state: &NewState<'_>) -> Result<(), Outcome> {
        let limit = self.world.limits.first().copied().unwrap_or(u32::MAX);
        let reserved = if state.reserve { 0 } else { self.world.state_reserve };
        if self.world.states.count() >= limit.saturating_sub(reserved) as usize {
            return blocked(DropReason::StateLimit);
        }
        Ok(())
    }

    /// A record for the packet's flow alone, in the place of that which is `reopened`.
    fn open(
        &mut self,
        state: &NewState<'_>,
        (key, wire): (Key, Key),
        reopened: Option<Key>,
    ) -> Result<Key, Outcome> {
        self.check_limit(state)?;
        let states = &self.world.states;
        if states.is_taken(key, reopened) || states.is_taken(wire, reopened) {
            return blocked(DropReason::StateInsert);
        }
        if let Some(ended) = reopened {
            self.world.states.remove(ended);
        }
        let peers = self.dissected.segment.as_ref().map(tcp::begin);
        let (tracking, phase) = states::begin(key.protocol, peers);
        let options = state.rule.and_then(|rule| rule.rule.options.state.as_deref());
        let is_tcp = matches!(tracking, Tracking::Tcp(..));
        self.world.states.insert(
            key,
            Record {
                halves: [None, None],
                tracking,
                is_sloppy: state.sloppy && is_tcp,
                modulation: None,
                timeouts: options.map(|options| options.timeouts.clone()).unwrap_or_default(),
                rule: state.rule.map(|rule| self.device.loaded(rule.id)),
                phase,
                touched_ns: self.now_ns,
                packets: [0, 0],
            },
        );
        self.progress.followed = Some(key);
        Ok(key)
    }

    fn half(&self, verdict: &Verdict<'_>, state: &NewState<'_>, crossing: &Crossing<'_>) -> Half {
        let rule = state.rule.map(|rule| self.device.loaded(rule.id));
        let options = state.rule.and_then(|rule| rule.rule.options.state.as_deref());
        let tracks = |options: &&weir_rules::value::StateOptions| {
            options.source_track.is_some()
                || options.max_src_nodes.is_some()
                || options.max_src_states.is_some()
                || options.max_src_conn.is_some()
                || options.max_src_conn_rate.is_some()
        };
        let node = options.filter(tracks).map(|options| {
            let is_global = options.source_track == Some(SourceTrack::Global);
            let limits = SourceLimits {
                conn_max: options.max_src_conn,
                conn_rate: options.max_src_conn_rate,
                overload: options.overload.clone(),
                anchor: state.rule.map_or("", |rule| rule.anchor).into(),
            };
            ((rule.filter(|_| !is_global), self.packet.source), limits)
        });
        let named = state.rule.map_or(&[][..], |rule| &rule.rule.options.limiters);
        let Crossing { direction, interface, .. } = *crossing;
        // A half is bound to the interface by which its packets leave.
        let sends =
            |route: &&RouteChoice| direction == Direction::Out && route.kind == RouteKind::RouteTo;
        let bound = match verdict.route.as_ref().filter(sends) {
            Some(route) => route.interface.clone(),
            None => Some(interface.into()),
        };
        let interface = bound.filter(|_| state.if_bound);
        Half {
            wire: Key::of(&self.packet),
            rule,
            interface,
            direction,
            actions: verdict.actions.clone(),
            route: verdict.route.clone(),
            divert: verdict.divert,
            node,
            limited: limiters::held(named, self.packet.source),
            given: self.given(verdict),
            is_mapped: self.packet.protocol == UDP
                && verdict.translation.as_ref().is_some_and(|new| {
                    let pool = new.rule.rule.nat.as_deref();
                    pool.is_some_and(|pool| pool.endpoint_independent)
                }),
            is_counted: false,
        }
    }

    /// What a pool with `sticky-address` gave to the packet's source.
    fn given(&self, verdict: &Verdict<'_>) -> Option<Given> {
        let new = verdict.translation.as_ref()?;
        let rule = new.rule.rule;
        let is_sticky = |pool: &weir_rules::ir::Pool| pool.sticky;
        let address = match (&rule.nat, &rule.rdr) {
            (Some(pool), _) if is_sticky(pool) => new.source,
            (_, Some(pool)) if is_sticky(pool) => new.destination,
            _ => return None,
        };
        let (rule, source) = (self.device.loaded(new.rule.id), self.packet.source);
        Some(Given { rule, source, address })
    }

    /// `set limit src-nodes`.
    fn check_nodes(&self, half: &Half) -> Result<(), Outcome> {
        let Some((key, _)) = &half.node else {
            return Ok(());
        };
        let nodes = &self.world.states.nodes;
        let limit = self.world.limits.get(1).copied().unwrap_or(u32::MAX);
        if !nodes.contains_key(key) && nodes.len() >= limit as usize {
            return blocked(DropReason::SrcLimit);
        }
        Ok(())
    }

    /// The frame as it is by now; `is_received`: it came in.
    pub(super) fn rewritten(&self, is_received: bool) -> Vec<u8> {
        if let Some(changed) = &self.changed {
            return changed.clone();
        }
        let is_skipped = self.evaluator.skips(&self.dissected.packet.interface);
        rewrite(
            self.frame,
            &Leaving {
                dissected: self.dissected,
                packet: &self.packet,
                inner: self.inner.and_then(Result::ok),
                ttl: self.ttl,
                tos: self.tos,
                clears_df: self.clears_df,
                id: self.id,
                max_mss: self.max_mss,
                clears_fin: is_received && !is_skipped,
                modulation: self.progress.modulation,
            },
        )
    }

    /// The frame as the box's own stack gets it, if it is not as it came.
    pub(super) fn handed_up(&self) -> Option<Vec<u8>> {
        let is_other = self.packet != self.dissected.packet
            || self.inner != self.dissected.inner
            || (self.ttl, self.tos) != (self.dissected.ttl, self.dissected.packet.tos)
            || self.clears_df
            || self.id.is_some()
            || self.progress.modulation.is_some()
            || self.max_mss.is_some()
            || self.changed.is_some();
        is_other.then(|| self.rewritten(true))
    }
}

/// Whether a `scrub` rule changes anything.
pub(super) fn changes(rule: &Rule) -> bool {
    let nothing = Scrub::default();
    let scrub = rule.options.scrub.unwrap_or_default();
    // Fragments follow their first one either way.
    let scrub = Scrub { no_reassemble: false, ..scrub };
    rule.action == Action::Scrub && (scrub != nothing || rule.options.set.tos.is_some())
}

/// One interface that a packet crosses.
struct Crossing<'a> {
    direction: Direction,
    interface: &'a str,
    /// The record of its flow, of which it has met no half.
    record: Option<(Key, bool)>,
    /// The packet's flow behind the rules.
    becomes: Key,
}

/// Gives a packet the ends that rules have given it.
fn translate(packet: &mut Packet, new: &Translated<'_>) {
    (packet.source, packet.destination) = (new.source, new.destination);
    if packet.is_icmp() {
        packet.icmp.id = new.source_port;
    } else if packet.has_ports() {
        (packet.source_port, packet.destination_port) = (new.source_port, new.destination_port);
    }
}
