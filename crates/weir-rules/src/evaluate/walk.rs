//! A packet's way through the rules, in pf's order: skipped interfaces, old `scrub` rules, the
//! state table, old translation rules, filter rules.

use weir_wire::protocol::{ICMP, ICMP6, TCP, UDP};

use super::IcmpRole;
use super::compile::Evaluator;
use super::packet::{ACK, FIN, PSH, Packet, RST, SYN, URG};
use super::probe::Probe;
use super::ready::{List, NameBits, has_bit};
use super::trace::{Outcome, Seen, Silent, Subject, Tracer};
use super::verdict::{Actions, Decision, Normalisation, Reason, Response, RuleRef, Verdict};
use super::view::{Moment, RuleId, StateHit};
use crate::dialect::Dialect;
use crate::fingerprint::Fingerprints;
use crate::ir::{Action, Rule};
use crate::value::{Af, LimiterKind, Text};

/// How a list of rules was left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Stop,
    /// A pool had nothing to give.
    Failed,
}

/// What a list of translation rules came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// `no nat` and its like.
    No,
    Rule(u32),
}

/// The evaluation of one packet.
pub(crate) struct Walk<'w, 'p, 'm, T> {
    pub(super) evaluator: &'w Evaluator<'w>,
    pub(super) packet: &'p Packet,
    pub(super) moment: &'p mut Moment<'m>,
    pub(super) tracer: &'p mut T,
    pub(super) bits: &'p [u64],
    pub(super) received: Option<&'p [u64]>,
    pub(super) af: Af,
    pub(super) subject: Subject,
    pub(super) tcp_flags: u8,
    /// The tag given by a rule.
    pub(super) tag: Option<Text>,
    pub(super) actions: Actions,
    pub(super) winner: Option<u32>,
    /// How often a rule has become the winner.
    win_count: u32,
    pub(super) quick: bool,
    pub(super) matches: Vec<RuleRef<'w>>,
    pub(super) logs: Vec<RuleRef<'w>>,
    logs_matches: bool,
    pub(super) spent_once: Vec<RuleId>,
    pub(super) scrub: Normalisation<'w>,
    /// The last rule that translated.
    pub(super) translator: Option<u32>,
    pub(super) af_to: Option<Af>,
    /// A limiter that blocks has no room: nothing more is asked.
    pub(super) limited: Option<LimiterKind>,
    /// The outer end that is being chosen is one for all destinations.
    pub(super) is_for_all: bool,
}

impl Evaluator<'_> {
    /// What becomes of a packet.
    #[must_use]
    pub fn evaluate(&self, packet: &Packet, moment: &mut Moment<'_>) -> Verdict<'_> {
        self.run(packet, moment, &mut Silent)
    }

    pub(crate) fn run<T: Tracer>(
        &self,
        packet: &Packet,
        moment: &mut Moment<'_>,
        tracer: &mut T,
    ) -> Verdict<'_> {
        let (mut room, mut received_room) = (NameBits::default(), NameBits::default());
        let bits = self.name_bits(&packet.interface, &mut room);
        let received = packet.received_on.as_ref();
        let received = received.map(|name| self.name_bits(name, &mut received_room));
        let subject = Subject {
            source: packet.source.into(),
            destination: packet.destination.into(),
            source_port: if packet.is_icmp() { packet.icmp.id } else { packet.source_port },
            destination_port: packet.destination_port,
        };
        let walk = Walk {
            evaluator: self,
            packet,
            moment,
            tracer,
            bits,
            received,
            af: packet.af(),
            subject,
            tcp_flags: packet.tcp_flags,
            tag: None,
            actions: Actions::default(),
            winner: None,
            win_count: 0,
            quick: false,
            matches: Vec::new(),
            logs: Vec::new(),
            logs_matches: false,
            spent_once: Vec::new(),
            scrub: Normalisation::default(),
            translator: None,
            af_to: None,
            limited: None,
            is_for_all: false,
        };
        walk.verdict()
    }

    /// The fingerprint that a packet has, of those of the ruleset.
    pub(crate) fn fingerprint(&self, packet: &Packet) -> Option<usize> {
        self.ruleset.fingerprints.as_ref()?.find(packet.syn.as_ref()?)
    }

    /// The operating system that sent a packet, in words, as far as rules can see.
    #[must_use]
    pub fn os_of(&self, packet: &Packet) -> String {
        match (&packet.os, &self.ruleset.fingerprints) {
            (Some(os), _) => os.to_string(),
            (None, Some(fingerprints)) => fingerprints.name_of(self.fingerprint(packet)),
            (None, None) => Fingerprints::UNKNOWN.to_owned(),
        }
    }

    /// A rule with its place.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<RuleRef<'_>> {
        ((id.0 as usize) < self.rules.len()).then(|| self.rule_ref(id.0))
    }

    /// All rules as [`Self::rule`] gives them, in the order of their [`RuleId`].
    pub fn rule_refs(&self) -> impl Iterator<Item = RuleRef<'_>> {
        let count = u32::try_from(self.rules.len()).unwrap_or(u32::MAX);
        (0..count).map(|at| self.rule_ref(at))
    }

    fn rule_ref(&self, at: u32) -> RuleRef<'_> {
        let rule = &self.rules[at as usize];
        let block = &self.blocks[rule.block as usize];
        RuleRef {
            id: RuleId(at),
            rule: rule.rule,
            number: rule.number,
            list: rule.list,
            anchor: &block.path,
            is_loaded: block.is_loaded,
        }
    }
}

/// Whether no packet of TCP has these flags; FIN with SYN is cleared, not refused
/// (`pf_normalize_tcp` of pf_norm.c).
fn normal_flags(flags: u8) -> Option<u8> {
    let mut flags = flags;
    if flags & SYN != 0 {
        if flags & RST != 0 {
            return None;
        }
        flags &= !FIN;
    } else if flags & (ACK | RST) == 0 {
        return None;
    }
    (flags & ACK != 0 || flags & (FIN | PSH | URG) == 0).then_some(flags)
}

impl<'w, T: Tracer> Walk<'w, '_, '_, T> {
    pub(super) fn rule_ref(&self, at: u32) -> RuleRef<'w> {
        self.evaluator.rule_ref(at)
    }

    /// The routing table that lookups use.
    pub(super) fn routing_table(&self) -> u32 {
        self.actions.rtable.unwrap_or(self.packet.rdomain)
    }

    pub(super) fn trace(&mut self, at: u32, depth: usize, outcome: Outcome) {
        let tag = self.tag.as_ref().or(self.packet.tag.as_ref());
        let seen = Seen { subject: &self.subject, tag, tcp_flags: self.tcp_flags };
        self.tracer.rule(at, depth, outcome, &seen);
    }

    fn verdict(mut self) -> Verdict<'w> {
        if self.evaluator.skip.iter().any(|name| has_bit(self.bits, *name)) {
            return self.decided(Decision::Pass, Reason::Skip);
        }
        let is_freebsd = self.evaluator.ruleset.dialect == Dialect::FreeBsd;
        self.scrub.ip = self.scrub_rule(false);
        if self.is_malformed() {
            return self.decided(Decision::Block, Reason::Malformed);
        }
        if !self.packet.fragment {
            match self.moment.states.find(self.packet, self.moment.now_ns) {
                Some(StateHit::Pass { rule, allow_opts }) => {
                    return self.by_state(rule, allow_opts);
                }
                Some(StateHit::Mismatch) => {
                    return self.decided(Decision::Block, Reason::StateMismatch);
                }
                None => {}
            }
        }
        if is_freebsd && self.old_translation().is_err() {
            return self.decided(Decision::Block, Reason::Translation);
        }
        let by_translation = self.translator.is_some_and(|at| {
            let action = self.evaluator.rules[at as usize].rule.action;
            matches!(action, Action::Translate { pass: true, .. })
        });
        if !by_translation && self.filter(0, 0) == Flow::Failed {
            return self.decided(Decision::Block, Reason::Translation);
        }
        self.finish(by_translation)
    }

    fn by_state(mut self, rule: Option<RuleId>, allow_opts: bool) -> Verdict<'w> {
        self.winner = rule.map(|id| id.0).filter(|at| (*at as usize) < self.evaluator.rules.len());
        if self.has_options() && !allow_opts {
            return self.decided(Decision::Block, Reason::Options);
        }
        self.decided(Decision::Pass, Reason::State)
    }

    /// Whether pf drops the packet before it asks states or rules.
    fn is_malformed(&mut self) -> bool {
        let packet = self.packet;
        let other_icmp = match self.af {
            Af::Inet => ICMP6,
            Af::Inet6 => ICMP,
        };
        if packet.fragment {
            return false;
        }
        match packet.protocol {
            TCP => {
                // Where FreeBSD has `scrub` rules, what none of them takes is left as it is.
                let (first, end) = self.evaluator.blocks[0].lists[List::Scrub as usize];
                if first != end {
                    self.scrub.tcp = self.scrub_rule(true);
                    if self.scrub.tcp.is_none_or(|tcp| tcp.rule.action == Action::NoScrub) {
                        return false;
                    }
                }
                let flags = normal_flags(self.tcp_flags);
                self.tcp_flags = flags.unwrap_or(self.tcp_flags);
                flags.is_none()
            }
            UDP => packet.destination_port == 0,
            protocol => protocol == other_icmp,
        }
    }

    /// The first `scrub` rule that matches.
    fn scrub_rule(&mut self, looks_at_tcp: bool) -> Option<RuleRef<'w>> {
        let (first, end) = self.evaluator.blocks[0].lists[List::Scrub as usize];
        for at in first..end {
            if let Some(criterion) = self.scrub_mismatch(at, looks_at_tcp) {
                self.trace(at, 0, Outcome::Failed(criterion));
                continue;
            }
            self.trace(at, 0, Outcome::Matched);
            return Some(self.rule_ref(at));
        }
        None
    }

    /// The first matching rule of a list of translation rules.
    pub(super) fn first_translation(&mut self, list: List, block: u32, depth: usize) -> Found {
        let (first, end) = self.evaluator.blocks[block as usize].lists[list as usize];
        for at in first..end {
            if let Some(criterion) = self.translation_mismatch(at) {
                self.trace(at, depth, Outcome::Failed(criterion));
                continue;
            }
            let evaluator = self.evaluator;
            let rule = &evaluator.rules[at as usize];
            if let Some(tag) = &rule.rule.options.tag {
                self.tag = Some(tag.clone());
            }
            let Some(call) = &rule.call else {
                self.trace(at, depth, Outcome::Matched);
                let is_no = matches!(rule.rule.action, Action::Translate { no: true, .. });
                return if is_no { Found::No } else { Found::Rule(at) };
            };
            self.trace(at, depth, Outcome::Entered);
            for callee in call {
                let found = self.first_translation(list, *callee, depth + 1);
                if found != Found::Nothing {
                    return found;
                }
            }
            self.trace(at, depth, Outcome::Left(false));
        }
        Found::Nothing
    }

    /// Filter rules: the last one that matches wins, unless `quick` ends the evaluation. An
    /// anchor with `quick` ends it if a `pass` or `block` in it matched (pf.conf(5), ANCHORS).
    fn filter(&mut self, block: u32, depth: usize) -> Flow {
        let evaluator = self.evaluator;
        let (first, end) = evaluator.blocks[block as usize].lists[List::Filter as usize];
        let mut probe = self.probe();
        for (at, head) in (first..end).zip(&evaluator.heads[first as usize..end as usize]) {
            if !T::IS_ON && probe.is_refused(head, self.bits) {
                continue;
            }
            if let Some(criterion) = self.filter_mismatch(at) {
                self.trace(at, depth, Outcome::Failed(criterion));
                if self.limited.is_some() {
                    return Flow::Stop;
                }
                continue;
            }
            let rule = &evaluator.rules[at as usize];
            self.give_tag(rule);
            if let Some(call) = &rule.call {
                let before = self.win_count;
                self.trace(at, depth, Outcome::Entered);
                for callee in call {
                    let flow = self.filter(*callee, depth + 1);
                    if flow != Flow::Next {
                        return flow;
                    }
                }
                let decided = self.win_count != before;
                self.trace(at, depth, Outcome::Left(decided));
                if rule.rule.quick && decided {
                    self.quick = true;
                    return Flow::Stop;
                }
                probe = self.probe();
                continue;
            }
            self.trace(at, depth, Outcome::Matched);
            if self.matched(at, rule.rule).is_err() {
                return Flow::Failed;
            }
            if rule.rule.quick {
                self.quick = true;
                return Flow::Stop;
            }
            probe = self.probe();
        }
        Flow::Next
    }

    fn probe(&self) -> Probe {
        Probe::new(self.packet, self.af, self.evaluator.ruleset.dialect, &self.subject)
    }

    fn matched(&mut self, at: u32, rule: &'w Rule) -> Result<(), ()> {
        if rule.options.once {
            self.spent_once.push(RuleId(at));
        }
        if rule.action == Action::Match {
            let place = self.rule_ref(at);
            self.matches.push(place);
            self.act(rule);
            self.translate_by(at, rule)?;
            if let Some(log) = rule.log {
                self.log(at);
                self.logs_matches |= log.matches;
            }
        } else {
            self.winner = Some(at);
            self.win_count += 1;
        }
        if self.logs_matches {
            self.log(at);
        }
        Ok(())
    }

    pub(super) fn log(&mut self, at: u32) {
        let rule = self.rule_ref(at);
        if !self.logs.contains(&rule) {
            self.logs.push(rule);
        }
    }

    /// `pf_rule_to_actions` of pf.c.
    pub(super) fn act(&mut self, rule: &Rule) {
        let (actions, options) = (&mut self.actions, &rule.options);
        let is_freebsd = self.evaluator.ruleset.dialect == Dialect::FreeBsd;
        if options.queue.is_some() {
            actions.queue.clone_from(&options.queue);
        }
        if let Some(new) = options.dummynet {
            actions.dummynet = Some(new.over(actions.dummynet));
        }
        actions.rtable = options.rtable.or(actions.rtable);
        actions.log_all |= rule.log.is_some_and(|log| log.all);
        actions.set_tos = options.set.tos.or(actions.set_tos);
        actions.set_prio = options.set.prio.or(actions.set_prio);
        actions.delay_ms = options.set.delay_ms.or(actions.delay_ms);
        if let Some(scrub) = options.scrub {
            actions.min_ttl = Some(scrub.min_ttl).filter(|ttl| *ttl != 0).or(actions.min_ttl);
            actions.max_mss = Some(scrub.max_mss).filter(|mss| *mss != 0).or(actions.max_mss);
            actions.no_df |= scrub.no_df;
            actions.random_id |= scrub.random_id;
            actions.reassemble_tcp |= scrub.reassemble_tcp;
        }
        // OpenBSD asks the last matching rule alone.
        actions.allow_opts = options.allow_opts || (is_freebsd && actions.allow_opts);
    }

    /// What needs `allow-opts`: pf.conf(5) of FreeBSD names IPv4 options and IPv6 routing
    /// headers, OpenBSD's IPv4 options and IPv6 hop-by-hop and destination options.
    pub(super) fn has_options(&self) -> bool {
        let extension = self.packet.extensions;
        match self.evaluator.ruleset.dialect {
            Dialect::FreeBsd => extension.ipv4_options || extension.routing_header,
            Dialect::OpenBsd => extension.ipv4_options || extension.ipv6_options,
        }
    }

    pub(super) fn is_icmp_error(&self) -> bool {
        self.packet.is_icmp() && self.packet.icmp_role() == IcmpRole::Error
    }

    /// A verdict without answer, state or route.
    pub(super) fn decided(mut self, decision: Decision, reason: Reason) -> Verdict<'w> {
        self.actions.tag = self.tag.take();
        Verdict {
            decision,
            reason,
            rule: self.winner.map(|at| self.rule_ref(at)),
            quick: self.quick,
            translation: self.translated(),
            matches: self.matches,
            logs: self.logs,
            spent_once: self.spent_once,
            scrub: self.scrub,
            actions: self.actions,
            response: Response::None,
            failure: Response::None,
            state: None,
            is_proxied: false,
            route: None,
            divert: None,
        }
    }
}
