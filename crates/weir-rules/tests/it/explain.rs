//! FreeBSD's own cases for pfctl, read in place: every ruleset that is accepted can be evaluated,
//! and its explanation has the verdict's winner, for a set of packets made from its own addresses.
//!
//! The cases are in `../shared/data/pf`, or where `WEIR_TEST_DATA` says.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use weir_rules::evaluate::{AllRouted, Evaluator, Moment, NoStates, Packet, Reason, packet};
use weir_rules::explain::explain;
use weir_rules::facts::Facts;
use weir_rules::ir::{Address, Rule, Rules, Ruleset};
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::value::Direction;
use weir_rules::{Dialect, compile};
use weir_wire::protocol::{TCP, UDP};

use crate::support::Directory;

const FACTS: &str = "\
interface lo0 loopback ::1/128 fe80::1/64 127.0.0.1/8 group lo
interface vlan1058 203.0.113.5/24
interface vlan1062 203.0.113.5/24 2001:db8::cb00:7105/64
host localhost ::1 127.0.0.1
";

fn directory() -> Option<PathBuf> {
    let data = std::env::var_os("WEIR_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let cases = data.join("pf/freebsd");
    cases.is_dir().then_some(cases)
}

/// All rules, those in braces too.
fn every_rule<'a>(rules: &'a Rules, found: &mut Vec<&'a Rule>) {
    for rule in rules.lists().into_iter().flatten() {
        found.push(rule);
        if let Some(body) = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_deref()) {
            every_rule(body, found);
        }
    }
}

/// Packets with what the rules name, and with what none names.
fn packets(ruleset: &Ruleset) -> Vec<Packet> {
    let mut rules = Vec::new();
    every_rule(&ruleset.main, &mut rules);
    let mut packets = Vec::new();
    for rule in rules.into_iter().take(200) {
        let address = |address: &Address, other: &str| match address {
            Address::Network(address, _) | Address::Range(address, _) => *address,
            _ => other.parse().expect("an address"),
        };
        let mut from = address(&rule.from.address, "198.51.100.7");
        let to =
            address(&rule.to.address, if from.is_ipv4() { "203.0.113.9" } else { "2001:db8::9" });
        if from.is_ipv4() != to.is_ipv4() {
            from = if to.is_ipv4() { IpAddr::from([198, 51, 100, 7]) } else { to };
        }
        let interface = rule.interface.as_ref().map_or("em0", |interface| &interface.name);
        for direction in [Direction::In, Direction::Out] {
            for protocol in [rule.protocol.unwrap_or(TCP), UDP] {
                let mut packet = Packet::new(direction, interface, (from, to), protocol);
                packet.source_port = rule.from.port.map_or(4000, |port| port.first);
                packet.destination_port = rule.to.port.map_or(80, |port| port.first);
                packet.tcp_flags = packet::SYN;
                packet.icmp.kind = rule.icmp.map_or(8, |icmp| icmp.kind);
                packets.push(packet);
            }
        }
    }
    packets
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn every_case_is_explained() {
    let Some(directory) = directory() else {
        eprintln!("skipped: no FreeBSD cases (WEIR_TEST_DATA names another place for them)");
        return;
    };
    let facts = Facts::parse(FACTS).unwrap();
    let provider = Directory(directory.clone());
    let (mut ruleset_count, mut packet_count, mut matched_count) = (0, 0, 0);
    for entry in std::fs::read_dir(&directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".in") {
            continue;
        }
        let bytes = std::fs::read(directory.join(&name)).unwrap();
        let dialect = Dialect::FreeBsd;
        let input = ParseInput {
            name: &name,
            bytes: &bytes,
            dialect: Some(dialect),
            macros: &[],
            provider: &provider,
            limits: Limits::default(),
        };
        let compiled = compile(input, &facts);
        if compiled.error_count > 0 {
            continue;
        }
        let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts).unwrap();
        let printer = Printer { dialect, resolver: &facts, options: PrintOptions::default() };
        ruleset_count += 1;
        for packet in packets(&compiled.ruleset) {
            let (mut random, mut states) = (|| 12_345, NoStates);
            let mut moment =
                Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
            let verdict = evaluator.evaluate(&packet, &mut moment);
            let explained =
                explain(&evaluator, &printer, Some(&compiled.sources), &packet, &mut moment);
            let winner = explained.winner.map(|at| explained.steps[at].id);
            let decides = match verdict.reason {
                Reason::TranslationPass => {
                    verdict.translation.map(|translation| translation.rule.id)
                }
                _ => verdict.rule.map(|rule| rule.id),
            };
            assert_eq!(winner, decides, "{name}: {}", explained.text());
            assert_eq!(
                explained.verdict.decision,
                verdict.decision,
                "{name}: {}",
                explained.text()
            );
            packet_count += 1;
            matched_count += usize::from(winner.is_some());
        }
    }
    assert!(ruleset_count > 50 && packet_count > 500, "{ruleset_count} {packet_count}");
    assert!(matched_count * 3 > packet_count, "{matched_count} of {packet_count} found a rule");
}
