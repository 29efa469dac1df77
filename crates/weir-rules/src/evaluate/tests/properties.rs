//! Whatever the rules and the packet: no panic, and the trace's winner is the verdict's.

use proptest::prelude::*;

use super::*;
use crate::explain::{StepOutcome, explain};
use crate::print::{PrintOptions, Printer};
use crate::value::{Direction, Text};

/// Parts of rules that go together in any order of choice; what a dialect refuses is left out by
/// compiling rule by rule.
const HEADS: &[&str] = &[
    "pass",
    "block",
    "match",
    "pass in quick",
    "block out quick",
    "match in",
    "pass out",
    "block return",
    "block return-icmp",
    "pass log (all)",
    "match log (matches)",
    "anchor \"named\"",
    "anchor quick",
];
const MIDDLES: &[&str] = &[
    "",
    "on em0",
    "on ! lan",
    "inet",
    "inet6",
    "inet proto tcp",
    "proto { tcp udp }",
    "inet proto icmp",
    "inet6 proto icmp6",
    "on em1 inet proto udp",
];
const ENDS: &[&str] = &[
    "",
    "from 10.0.0.0/8 to any",
    "from ! <t> to any",
    "from (em0) to any",
    "from any to (em0:network)",
    "from urpf-failed",
    "from no-route to any",
    "from 10.0.0.1 - 10.0.0.9 to any",
    "from any to <t>",
];
const TAILS: &[&str] = &[
    "",
    "tag A",
    "tagged A",
    "! tagged A",
    "no state",
    "keep state (max 3)",
    "allow-opts",
    "probability 50%",
    "fragment",
    "tos 0x10",
    "nat-to 192.0.2.1",
    "rdr-to 10.0.0.7",
    "received-on em1",
    "once",
    "synproxy state",
    "max-pkt-rate 5/10",
    "route-to 192.0.2.9",
    "scrub (no-df max-mss 1300)",
    "prio 3",
    "modulate state (source-track rule, max-src-nodes 1)",
    "queue q",
    "rtable 0",
    "user root",
];

fn line() -> impl Strategy<Value = String> {
    let part = |list: &'static [&'static str]| proptest::sample::select(list);
    (part(HEADS), part(MIDDLES), part(ENDS), part(TAILS), part(TAILS)).prop_map(
        |(head, middle, end, tail, more)| {
            if head.starts_with("anchor") {
                format!(
                    "{head} {middle} {end} {{\n  pass {middle} {tail}\n  block {end} quick\n}}\n"
                )
            } else {
                format!("{head} {middle} {end} {tail} {more}\n")
            }
        },
    )
}

const OLD: &[&str] = &[
    "nat on em0 inet from 10.0.0.0/8 to any -> 192.0.2.1\n",
    "no nat on em0 from any to <t>\n",
    "rdr pass on em0 inet proto tcp from any to any port 80 -> 10.0.0.9 port 8080\n",
    "binat on em0 inet from 10.0.0.0/24 to any -> 192.0.2.0/24\n",
    "scrub in all\n",
    "no scrub out\n",
    "nat pass on em1 inet from any to any -> (em1) tag B\n",
    "rdr-anchor \"named\"\n",
    "nat on em0 inet proto udp from any to any -> { 192.0.2.1 192.0.2.2 } round-robin\n",
];

fn packet() -> impl Strategy<Value = Packet> {
    let address = any::<u8>().prop_flat_map(|kind| {
        (Just(kind), any::<u32>(), 0_u32..16).prop_map(|(kind, any, near)| match kind % 3 {
            0 => any,
            1 => 0x0a00_0000 | near,
            _ => 0xc000_0200 | near,
        })
    });
    let pair = (address.clone(), address, any::<bool>());
    let names = proptest::sample::select(vec!["em0", "em1", "lo0", "tun0", "other7", ""]);
    let protocol = prop_oneof![Just(6), Just(17), Just(1), Just(58), Just(132), any::<u8>()];
    let ports = (0_u16..100, prop_oneof![Just(80_u16), any::<u16>()]);
    let more = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>(), proptest::option::of(0_u8..8));
    (pair, names, protocol, ports, more, any::<bool>()).prop_map(
        |((from, to, is_v6), name, protocol, ports, (flags, kind, tos, bits, prio), inbound)| {
            let ip = |address: u32| match is_v6 {
                false => IpAddr::V4(address.into()),
                true => IpAddr::V6((u128::from(address) | 0x2001_0db8_u128 << 96).into()),
            };
            let direction = if inbound { Direction::In } else { Direction::Out };
            let mut packet = Packet::new(direction, name, (ip(from), ip(to)), protocol);
            (packet.source_port, packet.destination_port) = ports;
            packet.tcp_flags = flags;
            packet.icmp = Icmp { kind, code: kind / 50, id: u16::from(flags) };
            (packet.tos, packet.prio) = (tos, prio);
            packet.fragment = bits & 7 == 1;
            packet.extensions.ipv4_options = bits & 0x30 == 0x30;
            packet.tag = (bits & 8 != 0).then(|| Text::from("A"));
            packet.user = (bits & 0x40 != 0).then_some(0);
            packet.received_on = (!inbound).then(|| Text::from("em1"));
            packet
        },
    )
}

/// Whether the text compiles, alone with the table it may name.
fn accepted(text: &str, dialect: Dialect, facts: &Facts) -> bool {
    let provider = MemorySources::default();
    let bytes = format!("table <t> {{ 10.0.0.0/24 !10.0.0.7 }}\n{text}");
    let input = ParseInput {
        name: "pf.conf",
        bytes: bytes.as_bytes(),
        dialect: Some(dialect),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    crate::compile(input, facts).error_count == 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_trace_says_what_the_verdict_says(
        lines in proptest::collection::vec(line(), 1..12),
        old in proptest::collection::vec(proptest::sample::select(OLD), 0..4),
        packets in proptest::collection::vec(packet(), 1..24),
        is_openbsd in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let facts = facts();
        let dialect = if is_openbsd { Dialect::OpenBsd } else { Dialect::FreeBsd };
        let mut text = String::from("table <t> { 10.0.0.0/24 !10.0.0.7 }\n");
        let old = old.iter().filter(|_| !is_openbsd).map(|line| (*line).to_owned());
        let all = lines.into_iter().chain(old);
        text.extend(all.filter(|line| accepted(line, dialect, &facts)));
        let ruleset = ruleset(&text, dialect, &facts);
        let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
        let printer = Printer { dialect, resolver: &facts, options: PrintOptions::default() };
        for packet in &packets {
            let draw = |state: &mut u32| {
                *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *state
            };
            let (mut first, mut second) = (seed, seed);
            let (mut random, mut states) = (|| draw(&mut first), NoStates);
            let mut moment =
                Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
            let verdict = evaluator.evaluate(packet, &mut moment);
            let (mut random, mut states) = (|| draw(&mut second), NoStates);
            let mut moment =
                Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
            let explained = explain(&evaluator, &printer, None, packet, &mut moment);
            prop_assert_eq!(summary(&explained.verdict), summary(&verdict));
            let winner = explained.winner.map(|at| &explained.steps[at]);
            let expected = match verdict.reason {
                Reason::TranslationPass => verdict.translation.map(|found| found.rule.id),
                _ => verdict.rule.map(|rule| rule.id),
            };
            prop_assert_eq!(winner.map(|step| step.id), expected, "{}\n{}", text, explained.text());
            let says = |step: &&crate::explain::Step| matches!(
                &step.outcome,
                StepOutcome::Failed { why, .. } if why.ends_with("does not hold")
            );
            prop_assert!(explained.steps.iter().find(says).is_none(), "{}", explained.text());
        }
    }
}

const WORDS: &[&str] = &[
    "in",
    "out",
    "on",
    "em0",
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "1.1.1.1:1",
    "1.1.1.1",
    "[::1]:2",
    "::1",
    ">",
    "S",
    "tag",
    "\"a b",
    "tos",
    "0x10",
    "about",
    "unreach/1",
    "fragment",
    "é",
    "[",
    "",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_bytes_are_read_or_refused(
        tail in proptest::collection::vec(any::<u8>(), 0..96),
        kind in proptest::sample::select(vec![0x0800_u16, 0x86dd, 0x8100]),
        first in proptest::sample::select(vec![0x45_u8, 0x60, 0x46]),
    ) {
        let mut frame = vec![0; 12];
        frame.extend(kind.to_be_bytes());
        frame.push(first);
        frame.extend(tail);
        if let Ok(packet) = Packet::from_frame(&frame, Direction::In, "em0") {
            prop_assert_eq!(packet.source.is_ipv4(), packet.destination.is_ipv4());
        }
    }

    #[test]
    fn any_words_are_read_or_refused(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..14),
        begins in any::<bool>(),
    ) {
        let facts = facts();
        let start = if begins { "in on em0 " } else { "" };
        let text = format!("{start}{}", words.join(" "));
        match Packet::parse(&text, &facts) {
            Ok(packet) => {
                let written = packet.to_string();
                prop_assert_eq!(Packet::parse(&written, &facts), Ok(packet), "{}", written);
            }
            Err(error) => {
                prop_assert!(text.get(error.at.clone()).is_some(), "{} {:?}", text, error);
            }
        }
    }
}
