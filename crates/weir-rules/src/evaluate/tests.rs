//! Rulesets, packets and verdicts: each criterion in both dialects.

mod anchors;
mod criteria;
mod naive;
mod os;
mod other;
mod properties;
mod translation;

use super::*;
use crate::Dialect;
use crate::facts::Facts;
use crate::ir::Ruleset;
use crate::limits::Limits;
use crate::parse::ParseInput;
use crate::resolve::Resolver;
use crate::source::MemorySources;
use crate::value::Direction;

pub(crate) const FACTS: &str = "\
interface lo0 loopback 127.0.0.1/8 ::1/128
interface em0 192.0.2.1/24 broadcast 192.0.2.255 198.51.100.1/25 2001:db8::1/64 fe80::1/64 \
    group egress
interface em1 10.0.0.1/8 group lan
interface vlan20 10.20.0.1/16 group lan
interface tun0 10.8.0.1/32 peer 10.8.0.2
user www 80
usergroup www 80
";

pub(crate) fn facts() -> Facts {
    Facts::parse(FACTS).unwrap()
}

pub(crate) fn ruleset(text: &str, dialect: Dialect, resolver: &dyn Resolver) -> Ruleset {
    let provider = MemorySources::default();
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(dialect),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    let compiled = crate::compile(input, resolver);
    assert_eq!(compiled.error_count, 0, "{text}\n{:#?}", compiled.diagnostics);
    compiled.ruleset
}

/// What a verdict comes to, in few words: decision, reason or rule, and what is there besides.
pub(super) fn summary(verdict: &Verdict<'_>) -> String {
    let mut words = vec![verdict.decision.as_str().to_owned()];
    match (verdict.reason, &verdict.rule) {
        (Reason::Rule, Some(rule)) if rule.anchor.is_empty() => {
            words.push(format!("@{}", rule.number));
        }
        (Reason::Rule, Some(rule)) => words.push(format!("{}@{}", rule.anchor, rule.number)),
        (reason, _) => words.push(reason.as_str().to_owned()),
    }
    if verdict.quick {
        words.push("quick".into());
    }
    match verdict.response {
        Response::None => {}
        Response::Rst { ttl: 0 } => words.push("rst".into()),
        Response::Rst { ttl } => words.push(format!("rst({ttl})")),
        Response::Icmp { kind, code } => words.push(format!("icmp({kind},{code})")),
        Response::SctpAbort => words.push("abort".into()),
    }
    if let Some(state) = &verdict.state {
        words.push(match state.kind {
            crate::value::KeepState::Modulate => "modulate".into(),
            crate::value::KeepState::Synproxy => "synproxy".into(),
            _ => "state".to_owned(),
        });
    }
    if let Some(translation) = &verdict.translation {
        let (from, to) = (translation.source, translation.destination);
        let (from_port, to_port) = (translation.source_port, translation.destination_port);
        words.push(format!("{from},{from_port}>{to},{to_port}"));
        if !translation.takes_effect {
            words.push("unchanged".into());
        }
    }
    words.extend(verdict.actions.tag.as_ref().map(|tag| format!("tag={tag}")));
    words.join(" ")
}

/// Evaluates with random numbers that count up from 0 in steps, an empty state table, and routes
/// to em0 for all but 10/8 and 127/8.
pub(super) fn run(
    evaluator: &Evaluator<'_>,
    packet: &Packet,
    states: &mut dyn StateView,
) -> String {
    let any4 = ("0.0.0.0".parse().unwrap(), 0, "em0".into());
    let lan = ("10.0.0.0".parse().unwrap(), 8, "em1".into());
    let loopback = ("127.0.0.0".parse().unwrap(), 8, "lo0".into());
    let any6 = ("::".parse().unwrap(), 0, "em0".into());
    let routes = Routes { entries: vec![any4, lan, loopback, any6] };
    let mut drawn = 0_u32;
    let mut random = || {
        drawn = drawn.wrapping_add(100);
        drawn
    };
    let mut moment = Moment { now_ns: 0, random: &mut random, states, routes: &routes };
    summary(&evaluator.evaluate(packet, &mut moment))
}

/// Runs packets through rules; each line is `packet => summary`, or two, broken after the arrow.
pub(super) fn table(dialects: &[Dialect], rules: &str, lines: &str) {
    let facts = facts();
    for dialect in dialects {
        let ruleset = ruleset(rules, *dialect, &facts);
        let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
        let joined = lines.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        let joined = joined.replace("=>\n", "=> ");
        for line in joined.lines().filter(|line| !line.is_empty()) {
            let (text, expected) = line.split_once(" => ").unwrap();
            let packet = Packet::parse(text, &facts).unwrap();
            let is = run(&evaluator, &packet, &mut NoStates);
            assert_eq!(is, expected, "{dialect}: {text}\n{rules}");
        }
    }
}

pub(super) const BOTH: &[Dialect] = &[Dialect::FreeBsd, Dialect::OpenBsd];
pub(super) const FREE: &[Dialect] = &[Dialect::FreeBsd];
pub(super) const OPEN: &[Dialect] = &[Dialect::OpenBsd];
