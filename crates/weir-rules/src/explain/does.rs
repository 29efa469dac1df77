//! The verdict in words: what decides, and what becomes of the packet.

use crate::evaluate::{
    Decision, NewState, Packet, Reason, Response, RuleRef, Translated, Verdict, end_text,
};
use crate::print::{Printer, ip};
use crate::value::{Divert, KeepState, LimiterKind, RouteKind};

/// Names a rule with its place.
type Place<'a> = &'a dyn Fn(&RuleRef<'_>) -> String;

/// The verdict in a sentence.
pub(super) fn conclusion(verdict: &Verdict<'_>, printer: &Printer<'_>, place: Place<'_>) -> String {
    let decision = verdict.decision.as_str();
    let by = match &verdict.rule {
        Some(rule) => format!("{}: {}", place(rule), printer.rule(rule.rule)),
        None => "the default".to_owned(),
    };
    match verdict.reason {
        Reason::Rule => format!("{decision} by {by}"),
        Reason::Default => format!("{decision}: no rule matches, and that is the default"),
        Reason::Skip => format!("{decision}: `set skip` leaves the interface out"),
        Reason::State => match &verdict.rule {
            Some(_) => format!("{decision}: the packet belongs to a state, made by {by}"),
            None => format!("{decision}: the packet belongs to a state; no rule is evaluated"),
        },
        Reason::StateMismatch => {
            format!("{decision}: the packet has a state's addresses, but does not fit it")
        }
        Reason::TranslationPass => {
            let by = verdict.translation.as_ref().map_or(by, |translation| {
                format!("{}: {}", place(&translation.rule), printer.rule(translation.rule.rule))
            });
            format!("{decision} by {by} (`pass` in it: no filter rule is evaluated)")
        }
        Reason::Malformed => format!("{decision}: no protocol sends such a packet"),
        Reason::Options => {
            format!("{decision}: the packet has IP options, and `allow-opts` is not in {by}")
        }
        Reason::StateLimit => format!("{decision}: too many states for `max` of {by}"),
        Reason::SourceLimit => format!("{decision}: the source is over a limit of {by}"),
        Reason::Limiter(LimiterKind::State) => format!("{decision}: a state limiter has no room"),
        Reason::Limiter(LimiterKind::Source) => {
            format!("{decision}: a source limiter has no room for the source")
        }
        Reason::Translation => format!("{decision}: a pool has no address or port to give"),
        Reason::Family => format!("{decision}: the packet cannot change its family by {by}"),
        Reason::Route => format!("{decision}: the route of {by} has no address to give"),
    }
}

/// What becomes of the packet besides.
pub(super) fn effects(verdict: &Verdict<'_>, packet: &Packet, place: Place<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let scrubs = [("IP", verdict.scrub.ip), ("TCP", verdict.scrub.tcp)];
    for (what, scrub) in scrubs {
        lines.extend(scrub.map(|rule| format!("{what} is normalised by {}", place(&rule))));
    }
    for rule in &verdict.matches {
        lines.push(format!("`match` adds {}", place(rule)));
    }
    if let Some(translation) = &verdict.translation {
        let passes = verdict.decision == Decision::Pass;
        translated(&mut lines, translation, packet, place, passes);
    }
    if verdict.decision == Decision::Pass {
        passed(&mut lines, verdict);
    } else {
        lines.push(match verdict.response {
            Response::None => "no answer is sent".into(),
            Response::Rst { ttl: 0 } => "a TCP RST answers".into(),
            Response::Rst { ttl } => format!("a TCP RST with TTL {ttl} answers"),
            Response::Icmp { kind, code } => {
                let name = if packet.source.is_ipv4() { "ICMP" } else { "ICMPv6" };
                format!("{name} type {kind} code {code} (unreachable) answers")
            }
            Response::SctpAbort => "an SCTP ABORT answers".into(),
        });
    }
    for log in &verdict.logs {
        lines.push(format!("logged by {}", place(log)));
    }
    lines
}

fn translated(
    lines: &mut Vec<String>,
    translated: &Translated<'_>,
    packet: &Packet,
    place: Place<'_>,
    passes: bool,
) {
    let end = |address, port| end_text(packet.has_ports(), address, port);
    let by = place(&translated.rule);
    let old = end(packet.source, packet.source_port);
    let new = end(translated.source, translated.source_port);
    let mut change = |end: &str, old: &str, new: &str| {
        if old != new && passes {
            lines.push(format!("{end} {old} becomes {new} by {by}"));
        } else if old != new {
            lines.push(format!("rules after {by} see the {end} {old} as {new}"));
        }
    };
    change("source", &old, &new);
    let id = Some(packet.icmp.id).filter(|_| packet.is_icmp() && translated.source_port != 0);
    if let Some(id) = id.filter(|id| *id != translated.source_port) {
        change("ICMP id", &id.to_string(), &translated.source_port.to_string());
    }
    let old = end(packet.destination, packet.destination_port);
    let new = end(translated.destination, translated.destination_port);
    change("destination", &old, &new);
    if let Some(af) = translated.af_to {
        lines.push(format!("the packet becomes {}", af.as_str()));
    }
    if passes && !translated.takes_effect {
        lines.push("but the packet leaves as it came: no state is made to translate it".into());
    }
}

fn passed(lines: &mut Vec<String>, verdict: &Verdict<'_>) {
    match &verdict.state {
        Some(state) => lines.push(new_state(state)),
        None if matches!(verdict.reason, Reason::State | Reason::Skip) => {}
        None => lines.push("no state is made".into()),
    }
    if verdict.is_proxied {
        lines.push("the SYN is answered here, and forwarded when the handshake is done".into());
    }
    if let Some(route) = &verdict.route {
        let what = match route.kind {
            RouteKind::RouteTo => "the packet goes",
            RouteKind::ReplyTo => "answers go",
            RouteKind::DupTo => "a copy goes",
        };
        let gateway = route.gateway.map_or(String::new(), |gateway| format!(" to {}", ip(gateway)));
        let interface = route
            .interface
            .as_ref()
            .map_or(String::new(), |interface| format!(" out of {interface}"));
        lines.push(format!("{what}{interface}{gateway}"));
    }
    match verdict.divert {
        Some(Divert::To(Some(address), port)) => {
            lines.push(format!("handed to the socket at {} port {port}", ip(address)));
        }
        Some(Divert::To(None, port)) => lines.push(format!("handed to the socket at port {port}")),
        Some(Divert::Packet(port)) => lines.push(format!("handed to the divert socket {port}")),
        Some(Divert::Reply) => lines.push("answers go to the socket that sent it".into()),
        None => {}
    }
    actions(lines, verdict);
}

fn new_state(state: &NewState<'_>) -> String {
    let mut words = vec![match state.kind {
        KeepState::Modulate => "a state is made, with sequence numbers modulated",
        KeepState::Synproxy => "a state is made, with the handshake proxied",
        KeepState::Keep | KeepState::No => "a state is made",
    }];
    let more = [
        (state.if_bound, "bound to the interface"),
        (state.sloppy, "sloppy"),
        (state.no_sync, "not sent to peers"),
        (state.reserve, "also where only reserved ones are left"),
        (state.reassemble_tcp, "TCP normalised"),
    ];
    words.extend(more.iter().filter(|(is, _)| *is).map(|(_, word)| *word));
    words.join(", ")
}

fn actions(lines: &mut Vec<String>, verdict: &Verdict<'_>) {
    let action = &verdict.actions;
    lines.extend(action.tag.as_ref().map(|tag| format!("tagged {tag}")));
    lines.extend(action.queue.as_ref().map(|queue| match &queue.priority {
        Some(priority) => format!("queue {}, {priority} for low delay", queue.name),
        None => format!("queue {}", queue.name),
    }));
    lines.extend(action.dummynet.map(|dummynet| {
        let what = if dummynet.is_pipe { "pipe" } else { "queue" };
        match dummynet.reverse {
            0 => format!("dummynet {what} {}", dummynet.forward),
            reverse => format!("dummynet {what} {}, {reverse} back", dummynet.forward),
        }
    }));
    lines.extend(action.rtable.map(|table| format!("routing table {table}")));
    lines.extend(action.set_tos.map(|tos| format!("tos becomes {tos:#04x}")));
    lines.extend(action.set_prio.map(|(prio, low)| {
        if prio == low {
            format!("priority becomes {prio}")
        } else {
            format!("priority becomes {prio}, {low} without payload or for low delay")
        }
    }));
    lines.extend(action.delay_ms.map(|delay| format!("delayed by {delay} ms")));
    lines.extend(action.min_ttl.map(|ttl| format!("TTL becomes at least {ttl}")));
    lines.extend(action.max_mss.map(|mss| format!("MSS becomes at most {mss}")));
    if action.no_df {
        lines.push("the don't-fragment bit is cleared".into());
    }
    if action.random_id {
        lines.push("the IP identification becomes random".into());
    }
    if action.log_all {
        lines.push("every packet of the state is logged".into());
    }
}
