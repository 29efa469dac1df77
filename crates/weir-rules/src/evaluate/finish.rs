//! The end of an evaluation: what the last matching rule does with the packet (the second half of
//! `pf_test_rule` of pf.c, and `pf_create_state`).

use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP};

use super::packet::{ACK, RST, SYN, is_martian};
use super::trace::{Subject, Tracer};
use super::verdict::{Decision, NewState, Reason, Response, RouteChoice, Verdict};
use super::view::RuleId;
use super::walk::Walk;
use crate::dialect::Dialect;
use crate::ir::{Action, Rule};
use crate::value::{Af, BlockReturn, Direction, KeepState, RouteKind, SourceTrack, StateOptions};

/// Code of ICMP type 3 that `return` sends: port unreachable.
const PORT_UNREACHABLE: u8 = 3;
/// Code of ICMPv6 type 1 that `return` sends: no port.
const PORT_UNREACHABLE6: u8 = 4;

impl<'w, T: Tracer> Walk<'w, '_, '_, T> {
    pub(super) fn finish(mut self, by_translation: bool) -> Verdict<'w> {
        if let Some(kind) = self.limited {
            return self.decided(Decision::Block, Reason::Limiter(kind));
        }
        let reason = match (by_translation, self.winner) {
            (true, _) => Reason::TranslationPass,
            (false, Some(_)) => Reason::Rule,
            (false, None) => Reason::Default,
        };
        let rule: Option<&'w Rule> = self.winner.map(|at| self.evaluator.rules[at as usize].rule);
        if let (Some(at), Some(rule)) = (self.winner, rule) {
            self.act(rule);
            if rule.af_to.is_some() && !self.can_change_family() {
                return self.decided(Decision::Block, Reason::Family);
            }
            if self.translate_by(at, rule).is_err() {
                return self.decided(Decision::Block, Reason::Translation);
            }
            let Subject { source, destination, .. } = self.subject;
            if rule.af_to.is_some() && is_martian(source.into(), destination.into()) {
                return self.decided(Decision::Block, Reason::Family);
            }
            if rule.log.is_some() {
                self.log(at);
            }
        } else {
            self.actions.allow_opts &= self.is_freebsd();
        }
        if let Some(Action::Block(policy)) = rule.map(|rule| rule.action) {
            let response = self.response(policy);
            let verdict = self.decided(Decision::Block, reason);
            return Verdict { response, ..verdict };
        }
        if self.has_options() && !self.actions.allow_opts {
            return self.decided(Decision::Block, Reason::Options);
        }
        let route = match self.route(rule) {
            Ok(route) => route,
            Err(()) => return self.decided(Decision::Block, Reason::Route),
        };
        // No answer where a list alone has passed it (`pf_test_rule` of pf.c).
        let policy = self.evaluator.ruleset.settings.fail_policy;
        let failure = rule.map_or(Response::None, |_| self.response(policy));
        let state = match self.new_state(rule) {
            Ok(state) => state,
            Err(reason) => {
                let verdict = self.decided(Decision::Block, reason);
                return Verdict { response: failure, ..verdict };
            }
        };
        let is_syn = self.packet.protocol == TCP && self.tcp_flags & (SYN | ACK) == SYN;
        let is_proxied = is_syn && state.is_some_and(|state| state.kind == KeepState::Synproxy);
        let by_list = self.is_freebsd() && self.translator.is_some_and(|at| self.is_old(at));
        let mut verdict = self.decided(Decision::Pass, reason);
        if let Some(translation) = &mut verdict.translation {
            translation.takes_effect = by_list || state.is_some();
        }
        let divert = rule.and_then(|rule| rule.options.divert);
        Verdict { failure, state, is_proxied, route, divert, ..verdict }
    }

    fn is_freebsd(&self) -> bool {
        self.evaluator.ruleset.dialect == Dialect::FreeBsd
    }

    /// Whether a rule translates by being in a list of its own.
    fn is_old(&self, at: u32) -> bool {
        matches!(self.evaluator.rules[at as usize].rule.action, Action::Translate { .. })
    }

    /// The answer to a blocked packet (`pf_return` of pf.c). Fragments get none, a RST is not
    /// answered by a RST, and an ICMP error never by ICMP; FreeBSD answers no ICMP at all.
    fn response(&self, policy: BlockReturn) -> Response {
        let packet = self.packet;
        if packet.fragment {
            return Response::None;
        }
        let (ttl, codes) = match policy {
            BlockReturn::Drop => return Response::None,
            BlockReturn::Return => (Some(0), Some((PORT_UNREACHABLE, PORT_UNREACHABLE6))),
            BlockReturn::Rst { ttl } => (Some(ttl), None),
            BlockReturn::Icmp { code, code6 } => (None, Some((code, code6))),
        };
        let is_reset = self.tcp_flags & RST != 0;
        if let (TCP, false, Some(ttl)) = (packet.protocol, is_reset, ttl) {
            return Response::Rst { ttl };
        }
        if self.is_freebsd() && packet.protocol == SCTP && policy == BlockReturn::Return {
            return Response::SctpAbort;
        }
        let Some((code, code6)) = codes else {
            return Response::None;
        };
        let kind = packet.icmp.kind;
        // ICMP_INFOTYPE of ip_icmp.h; of ICMPv6 all from echo request on but redirects.
        let is_info = matches!(kind, 0 | 8 | 9 | 10 | 13..=18);
        let is_info6 = kind >= 128 && kind != 137;
        match (self.af, packet.protocol) {
            (Af::Inet, ICMP) if self.is_freebsd() || !is_info => Response::None,
            (Af::Inet6, ICMP6) if self.is_freebsd() || !is_info6 => Response::None,
            (Af::Inet, _) => Response::Icmp { kind: 3, code },
            (Af::Inet6, _) => Response::Icmp { kind: 1, code: code6 },
        }
    }

    /// The state that the packet makes. Fragments and ICMP errors make none. FreeBSD also makes
    /// one for every packet that is translated, and for TCP under `scrub reassemble tcp`.
    fn new_state(&mut self, rule: Option<&'w Rule>) -> Result<Option<NewState<'w>>, Reason> {
        if self.packet.fragment || self.is_icmp_error() {
            return Ok(None);
        }
        let scrubs = self.scrub.tcp.and_then(|tcp| tcp.rule.options.scrub);
        let scrubs_tcp = scrubs.is_some_and(|scrub| scrub.reassemble_tcp);
        let kept = rule.is_some_and(Rule::keeps_state);
        if !kept && !(self.is_freebsd() && (self.translator.is_some() || scrubs_tcp)) {
            return Ok(None);
        }
        let options = rule.and_then(|rule| rule.options.state.as_deref()).filter(|_| kept);
        if let (Some(at), Some(options)) = (self.winner, options) {
            self.check_limits(at, options)?;
        }
        let kind = match rule.and_then(|rule| rule.options.keep_state) {
            // What goes out is not proxied (`pf_test_rule` of pf.c).
            Some(KeepState::Synproxy) if self.packet.direction == Direction::Out => KeepState::Keep,
            Some(kind @ (KeepState::Modulate | KeepState::Synproxy))
                if self.packet.protocol == TCP =>
            {
                kind
            }
            _ => KeepState::Keep,
        };
        let if_bound = options.and_then(|options| options.if_bound);
        Ok(Some(NewState {
            kind,
            rule: self.winner.map(|at| self.rule_ref(at)),
            if_bound: if_bound.unwrap_or(self.evaluator.ruleset.settings.if_bound),
            sloppy: options.is_some_and(|options| options.sloppy),
            no_sync: options.is_some_and(|options| options.no_sync),
            reserve: options.is_some_and(|options| options.reserve),
            reassemble_tcp: scrubs_tcp || self.actions.reassemble_tcp,
        }))
    }

    /// `max`, `max-src-nodes` and `max-src-states` (`pf_insert_src_node` of pf.c). Those of
    /// established connections are for whoever follows states.
    fn check_limits(&mut self, at: u32, options: &StateOptions) -> Result<(), Reason> {
        let id = RuleId(at);
        let states = &mut *self.moment.states;
        if options.max_states.is_some_and(|max| states.rule_state_count(id) >= max) {
            return Err(Reason::StateLimit);
        }
        let tracks = options.source_track.is_some()
            || options.max_src_nodes.is_some()
            || options.max_src_states.is_some()
            || options.max_src_conn.is_some()
            || options.max_src_conn_rate.is_some();
        if !tracks {
            return Ok(());
        }
        let source = match self.evaluator.ruleset.dialect {
            Dialect::FreeBsd => self.subject.source.into(),
            Dialect::OpenBsd => self.packet.source,
        };
        let is_global = options.source_track == Some(SourceTrack::Global);
        match states.source((!is_global).then_some(id), source) {
            None => {
                let full = |max: u32| max != 0 && states.source_count(id) >= max;
                if options.max_src_nodes.is_some_and(full) {
                    return Err(Reason::SourceLimit);
                }
            }
            Some(count) => {
                let full = |max: u32| max != 0 && count.state_count >= max;
                if options.max_src_states.is_some_and(full) {
                    return Err(Reason::SourceLimit);
                }
            }
        }
        Ok(())
    }

    fn route(&mut self, rule: Option<&'w Rule>) -> Result<Option<RouteChoice>, ()> {
        let (Some(at), Some(rule)) = (self.winner, rule) else {
            return Ok(None);
        };
        let Some(route) = &rule.route else {
            return Ok(None);
        };
        let (interface, gateway) = match self.typed_next_hop(at, &route.pool) {
            // What has no entry goes by the kernel's routes.
            Some(None) => return Ok(None),
            Some(Some(found)) => (found.interface, Some(found.address)),
            None => self.next_hop(at, &route.pool)?,
        };
        let same_direction = match rule.direction {
            Some(direction) => direction == self.packet.direction,
            // Without a direction `r->direction` is neither, and differs from both.
            None => false,
        };
        let applies_now = match route.kind {
            RouteKind::DupTo => true,
            RouteKind::RouteTo => same_direction,
            RouteKind::ReplyTo => !same_direction,
        };
        Ok(Some(RouteChoice { kind: route.kind, interface, gateway, applies_now }))
    }
}
