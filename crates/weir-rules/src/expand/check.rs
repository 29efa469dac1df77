//! Rules that contradict themselves. The conditions are those of pfctl; each message is about one.

use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP, UDP};

use super::{Expanded, Expander, Reported};
use crate::ast::{Filter, IcmpType, Translation};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Action, Address, Peer, PoolPorts, Rule};
use crate::source::Span;
use crate::value::{Af, BlockReturn, Direction, Divert, KeepState, LimiterKind, Operator};

/// Protocols with ports.
const WITH_PORTS: &[u8] = &[TCP, UDP, SCTP];

type Problem = (Option<&'static str>, &'static str);

impl Expander<'_> {
    pub(super) fn check(
        &mut self,
        rule: &Rule,
        filter: &Filter,
        icmp: Option<&IcmpType>,
    ) -> Expanded<()> {
        let problem = ports_and_protocols(rule, icmp)
            .or_else(|| state(rule))
            .or_else(|| translation(rule))
            .or_else(|| other(rule));
        let Some((option, message)) = problem else {
            self.warn_of_synproxy(rule, filter);
            return Ok(());
        };
        let icmp_span = icmp.map(|icmp| icmp.span);
        let port_span = filter.to.ports.first().or(filter.from.ports.first()).map(|port| port.span);
        let span: Span = match option {
            Some("port") => port_span.unwrap_or(rule.span),
            Some("proto") => filter.protocols.first().map_or(rule.span, |protocol| protocol.span),
            Some("os") => filter.os.first().map_or(rule.span, |os| os.span),
            Some("icmp") => icmp_span.unwrap_or(rule.span),
            Some(name) => filter.option_span(name).unwrap_or(rule.span),
            None => rule.span,
        };
        let mut problem = Diagnostic::error(Code::Inconsistent, span, message);
        problem.help = advice(message).map(ToOwned::to_owned);
        self.diagnostics.push(problem);
        Err(Reported)
    }
}

impl Expander<'_> {
    /// `synproxy state` where connections go out: OpenBSD's pfctl warns, FreeBSD's says nothing,
    /// and both take it (`rule_consistent` and `filter_consistent` of their parse.y). A rule
    /// without a direction has it for what comes in.
    fn warn_of_synproxy(&mut self, rule: &Rule, filter: &Filter) {
        let is_proxied = rule.options.keep_state == Some(KeepState::Synproxy);
        if !is_proxied || rule.direction != Some(Direction::Out) || rule.anchor.is_some() {
            return;
        }
        let span = filter.option_span("state").unwrap_or(rule.span);
        // A rule is expanded to several.
        if self.unknown.insert(format!("synproxy {}:{}", span.file.0, span.start).into()) {
            let message = "synproxy state is for inbound rules: here it keeps state, and no more";
            self.diagnostics.push(Diagnostic::warning(Code::Inconsistent, span, message));
        }
    }
}

/// What to write, by the message.
fn advice(message: &str) -> Option<&'static str> {
    let part = |text: &str| message.contains(text);
    if part("port only applies") {
        Some("write `proto tcp`, or `proto { tcp, udp }`, in front of `from` and `to`")
    } else if part("must indicate address family") {
        Some("write `inet` or `inet6` in front of `proto`")
    } else if part("require a direction") {
        Some("write `in` or `out` after the action")
    } else if part("icmp-type only applies to proto icmp and icmp6") {
        Some("write `inet proto icmp`, or `inet6 proto icmp6`, in front of it")
    } else if part("return-rst can only") {
        Some("write `proto tcp`; `block return` answers each protocol in its own way")
    } else if part("doesn't match address family") {
        Some("IPv4's is `inet proto icmp`, IPv6's `inet6 proto icmp6`")
    } else {
        None
    }
}

fn ports_and_protocols(rule: &Rule, icmp: Option<&IcmpType>) -> Option<Problem> {
    let protocol = rule.protocol;
    let has_ports = rule.from.port.is_some() || rule.to.port.is_some();
    let needs_tcp = |problem| (protocol != Some(TCP)).then_some(problem);
    // pfctl does not look at the ports of `nat`: rules for any protocol match TCP's and UDP's.
    let is_old_nat = matches!(
        rule.action,
        Action::Translate { kind: Translation::Nat | Translation::Binat, .. }
    );
    if has_ports && !is_old_nat && !protocol.is_some_and(|protocol| WITH_PORTS.contains(&protocol))
    {
        return Some((Some("port"), "port only applies to proto tcp, udp and sctp"));
    }
    if let Some(icmp) = icmp {
        if !matches!(protocol, Some(ICMP | ICMP6)) {
            return Some((Some("icmp"), "icmp-type only applies to proto icmp and icmp6"));
        }
        // What is not known has no family, and has been reported.
        let is_unknown = |peer: &Peer| matches!(peer.address, Address::Unresolved(_));
        if rule.af.is_none() && ![&rule.from, &rule.to].into_iter().any(is_unknown) {
            return Some((Some("icmp"), "must indicate address family with icmp-type"));
        }
        if icmp.is_icmp6 != (protocol == Some(ICMP6)) {
            let message = if icmp.is_icmp6 {
                "icmp6-type only applies to proto icmp6"
            } else {
                "icmp-type only applies to proto icmp: write icmp6-type"
            };
            return Some((Some("icmp"), message));
        }
    }
    match (protocol, rule.af) {
        (Some(ICMP), Some(Af::Inet6)) => {
            return Some((Some("proto"), "proto icmp doesn't match address family inet6"));
        }
        (Some(ICMP6), Some(Af::Inet)) => {
            return Some((Some("proto"), "proto ipv6-icmp doesn't match address family inet"));
        }
        _ => {}
    }
    if let Action::Translate { kind: Translation::Rdr, .. } = rule.action {
        let is_wrong = |operator| !matches!(operator, Operator::Equal | Operator::Range);
        if rule.to.port.is_some_and(|port| is_wrong(port.operator)) {
            return Some((Some("port"), "a destination port of `rdr` is a port or a range `a:b`"));
        }
        let has_port = rule.rdr.as_ref().is_some_and(|pool| pool.ports != PoolPorts::Default);
        if has_port && !protocol.is_some_and(|protocol| WITH_PORTS.contains(&protocol)) {
            return Some((None, "the port after `->` only applies to proto tcp, udp and sctp"));
        }
    }
    if let Action::Block(BlockReturn::Rst { .. }) = rule.action {
        return needs_tcp((None, "return-rst can only be applied to TCP rules"))
            .filter(|_| rule.anchor.is_none());
    }
    if rule.os.is_some() && protocol.is_some_and(|protocol| protocol != TCP) {
        return Some((Some("os"), "OS fingerprinting only applies to tcp"));
    }
    let fragment_of =
        rule.options.fragment && (has_ports || rule.options.flags.is_some() || rule.icmp.is_some());
    if fragment_of {
        return Some((Some("fragment"), "fragments can be filtered only on IP header fields"));
    }
    None
}

fn state(rule: &Rule) -> Option<Problem> {
    if rule.anchor.is_some() {
        return None;
    }
    let keeps = rule.keeps_state();
    if keeps && rule.action != Action::Pass {
        return Some((Some("state"), "keep state is great, but only for pass rules"));
    }
    let options = &rule.options;
    if options.allow_opts && !matches!(rule.action, Action::Pass | Action::Match) {
        return Some((Some("allow-opts"), "allow-opts can only be specified for pass rules"));
    }
    let pools = [&rule.nat, &rule.rdr];
    let sticky = pools.iter().any(|pool| pool.as_ref().is_some_and(|pool| pool.sticky))
        || rule.route.as_ref().is_some_and(|route| route.pool.sticky);
    if sticky && rule.action == Action::Pass && !keeps {
        return Some((None, "sticky-address requires keep state"));
    }
    let of_kind = |kind| options.limiters.iter().filter(|one| one.kind == kind).count();
    if of_kind(LimiterKind::State) > 1 || of_kind(LimiterKind::Source) > 1 {
        let problem = "a rule has at most one state limiter and one source limiter";
        return Some((Some("limiter"), problem));
    }
    if !options.limiters.is_empty() && (rule.action != Action::Pass || !keeps) {
        return Some((Some("limiter"), "limiters are for pass rules that keep state"));
    }
    None
}

fn translation(rule: &Rule) -> Option<Problem> {
    if matches!(rule.action, Action::Translate { .. }) || rule.anchor.is_some() {
        return None;
    }
    let translates = rule.nat.is_some() || rule.rdr.is_some();
    if translates {
        match rule.action {
            Action::Pass if !rule.keeps_state() => {
                return Some((Some("translation"), "nat-to and rdr-to require keep state"));
            }
            Action::Pass | Action::Match => {}
            _ => return Some((Some("translation"), "translation is for pass and match rules")),
        }
        if rule.direction.is_none() {
            return Some((Some("translation"), "nat-to and rdr-to require a direction"));
        }
    }
    if let Some(af_to) = rule.af_to {
        if rule.action == Action::Match {
            return Some((Some("translation"), "af-to is not supported on match rules"));
        }
        if rule.direction != Some(Direction::In) {
            return Some((Some("translation"), "af-to can only be used on inbound rules"));
        }
        match rule.af {
            None => {
                return Some((Some("translation"), "must indicate address family with af-to"));
            }
            Some(af) if af == af_to => {
                return Some((Some("translation"), "af-to leads to the address family it is in"));
            }
            Some(_) => {}
        }
    }
    None
}

fn other(rule: &Rule) -> Option<Problem> {
    let options = &rule.options;
    if rule.action == Action::Match {
        if options.divert.is_some() {
            return Some((Some("divert"), "divert is not supported on match rules"));
        }
        if rule.route.is_some() {
            let message = "route-to, reply-to and dup-to are not supported on match rules";
            return Some((Some("route"), message));
        }
    }
    if rule.route.is_some() && rule.direction.is_none() {
        return Some((Some("route"), "route-to, reply-to and dup-to require a direction"));
    }
    if let Some(Divert::To(Some(address), _)) = options.divert {
        let af = if address.is_ipv4() { Af::Inet } else { Af::Inet6 };
        match rule.af {
            None => return Some((Some("divert"), "must indicate address family with divert-to")),
            Some(family) if family != af => {
                return Some((Some("divert"), "divert-to address family mismatch"));
            }
            Some(_) => {}
        }
    }
    None
}
