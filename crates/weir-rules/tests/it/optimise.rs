//! The optimiser: the project's own cases (`optimised`), exactly; random rulesets must give the
//! same verdicts before and after. The checker is held to the same: what it calls pointless can
//! be taken out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use weir_rules::check::check;
use weir_rules::diagnostic::{Code, Severity};
use weir_rules::evaluate::packet::{ACK, SYN};
use weir_rules::evaluate::{AllRouted, Evaluator, Icmp, Moment, NoStates, Packet, Verdict};
use weir_rules::facts::Facts;
use weir_rules::ir::Ruleset;
use weir_rules::limits::Limits;
use weir_rules::optimise::{Level, Profile, Summary, optimise};
use weir_rules::parse::ParseInput;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::skip::skip_steps;
use weir_rules::source::MemorySources;
use weir_rules::value::Direction;
use weir_rules::{Compiled, Dialect, compile};
use weir_wire::protocol::{ICMP, ICMP6, TCP, UDP};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn facts() -> Facts {
    Facts::parse(&std::fs::read_to_string(directory().join("facts.txt")).unwrap()).unwrap()
}

fn run(text: &str, dialect: Dialect, facts: &Facts) -> Compiled {
    let provider = MemorySources::default();
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(dialect),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    compile(input, facts)
}

fn shown(ruleset: &Ruleset, facts: &Facts) -> String {
    let options = PrintOptions { numbered: true, ..PrintOptions::default() };
    let printer = Printer { dialect: ruleset.dialect, resolver: facts, options };
    let mut text = printer.ruleset(ruleset);
    for step in skip_steps(&ruleset.main.filter) {
        let _ = writeln!(text, "# @{}{}", step.number, step.line(ruleset.dialect));
    }
    text
}

#[test]
fn optimised_files_are_as_expected() {
    let facts = facts();
    let entries = std::fs::read_dir(directory().join("optimised")).unwrap();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap_or("");
        let dialect = first.strip_prefix("# dialect: ").and_then(Dialect::parse).unwrap();
        let compiled = run(&text, dialect, &facts);
        assert_eq!(compiled.error_count, 0, "{}: {:?}", path.display(), compiled.diagnostics);
        let counters = std::fs::read_to_string(path.with_extension("counters")).ok();
        let profile = counters.map(|text| Profile::parse(&text).unwrap());
        let level = profile.as_ref().map_or(Level::Basic, Level::Profile);
        let mut ruleset = compiled.ruleset.clone();
        let summary = optimise(&mut ruleset, level, &facts);
        let found = format!("{}# {summary:?}\n", shown(&ruleset, &facts));
        let expected_path = path.with_extension("out");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&expected_path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
        assert_eq!(expected, found, "{}", path.display());
        let mut untouched = compiled.ruleset.clone();
        assert_eq!(optimise(&mut untouched, Level::None, &facts), Summary::default());
        assert_eq!(shown(&untouched, &facts), shown(&compiled.ruleset, &facts));
    }
}

const PREAMBLE: &str = "table <few> const { 10.0.0.1 10.0.0.2 2001:db8::1 }\n\
     table <but> { 10.0.0.0/8 !10.0.0.3 }\n";

/// One of `words` by a byte; the first is taken more often than the others.
fn pick<'a>(byte: u8, words: &[&'a str]) -> &'a str {
    let at = usize::from(byte) % (words.len() + 2);
    words[at.saturating_sub(2)]
}

const ADDRESSES: &[&str] = &[
    "any",
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.5",
    "10.0.0.6",
    "10.0.0.0/30",
    "10.0.0.0/8",
    "! 10.0.0.1",
    "! 10.0.0.0/30",
    "10.0.0.1 - 10.0.0.3",
    "<few>",
    "! <few>",
    "<but>",
    "2001:db8::1",
    "2001:db8::/64",
    "(em1)",
    "{ 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 }",
    "{ 10.0.0.0/30 10.0.0.4/30 10.0.0.1 192.168.1.0/24 192.168.2.0/24 192.168.3.0/24 }",
    "{ 2001:db8::1 2001:db8::2 2001:db8::3 2001:db8::4 2001:db8::5 2001:db8::6 }",
    "{ 10.0.0.1 2001:db8::1 }",
];

const PORTS: &[&str] = &[
    "",
    " port 80",
    " port 22",
    " port 80:90",
    " port 1:65535",
    " port != 22",
    " port 22 >< 443",
    " port 80 <> 90",
    " port > 79",
    " port { 22 80 443 }",
];

/// A rule made of bytes. Not every one is valid.
fn line(bytes: &[u8], dialect: Dialect) -> String {
    let byte = |at: usize| bytes[at];
    let action = pick(byte(0), &["pass", "block", "block return", "match", "block return-icmp"]);
    let direction = pick(byte(1), &["", " in", " out"]);
    let log = pick(byte(2), &["", "", "", "", " log", " log (matches)"]);
    let quick = if action == "match" { "" } else { pick(byte(3), &["", " quick"]) };
    let on = pick(byte(4), &["", " on em0", " on em1", " on ! em0", " on egress"]);
    let af = pick(byte(5), &["", "", " inet", " inet6"]);
    let protocol =
        pick(byte(6), &["", " proto tcp", " proto udp", " proto { tcp udp }", " proto icmp"]);
    let has_ports = protocol.contains("tcp") || protocol.contains("udp");
    let port = |byte: u8| if has_ports { pick(byte, PORTS) } else { "" };
    let mut text = format!(
        "{action}{direction}{log}{quick}{on}{af}{protocol} from {}{} to {}{}",
        pick(byte(7), ADDRESSES),
        port(byte(8)),
        pick(byte(9), ADDRESSES),
        port(byte(10)),
    );
    if protocol == " proto tcp" {
        text.push_str(pick(byte(11), &["", "", " flags S/SA", " flags any", " flags S/S"]));
    }
    text.push_str(pick(byte(12), &["", "", "", "", "", " tos 0x10", " label \"x\"", " fragment"]));
    if action == "pass" {
        text.push_str(pick(byte(13), &["", "", " no state", " keep state (max 3)"]));
        text.push_str(pick(byte(14), &["", "", "", "", " allow-opts"]));
    }
    text.push_str(pick(byte(15), &["", "", "", "", " tag A", " tagged A", " ! tagged A"]));
    if dialect == Dialect::OpenBsd && action != "block" && !direction.is_empty() {
        let translations = &["", "", "", "", "", " nat-to 10.0.0.2", " rdr-to 10.0.0.1 port 80"];
        text.push_str(pick(byte(16), translations));
    }
    text
}

const RULE_BYTES: usize = 17;

/// Rules of which many are like the one before but for one field.
fn lines(seeds: &[Vec<u8>], dialect: Dialect, facts: &Facts) -> Vec<String> {
    let mut last: Option<Vec<u8>> = None;
    let mut found = Vec::new();
    for seed in seeds {
        let (head, fresh) = seed.split_at(2);
        let bytes = match &last {
            Some(last) if head[0] < 170 => {
                let mut bytes = last.clone();
                let at = usize::from(head[1]) % RULE_BYTES;
                bytes[at] = fresh[at];
                bytes
            }
            _ => fresh.to_vec(),
        };
        let text = line(&bytes, dialect);
        if run(&format!("{PREAMBLE}{text}\n"), dialect, facts).error_count == 0 {
            found.push(text);
            last = Some(bytes);
        }
    }
    found
}

fn packet(bytes: &[u8]) -> Packet {
    let is_v6 = bytes[0].is_multiple_of(4);
    let address = |byte: u8| match (is_v6, byte % 12) {
        (false, 11) => "192.168.1.1".parse().unwrap(),
        (false, 10) => "198.51.100.7".parse().unwrap(),
        (false, last) => std::net::Ipv4Addr::new(10, 0, 0, last).into(),
        (true, last) => format!("2001:db8::{last:x}").parse().unwrap(),
    };
    let direction = if bytes[1].is_multiple_of(2) { Direction::In } else { Direction::Out };
    let icmp = if is_v6 { ICMP6 } else { ICMP };
    let protocol = [TCP, TCP, UDP, icmp][usize::from(bytes[2]) % 4];
    let ends = (address(bytes[3]), address(bytes[4]));
    let interface = ["em0", "em1", "tun0"][usize::from(bytes[5]) % 3];
    let mut packet = Packet::new(direction, interface, ends, protocol);
    let ports = [22, 80, 81, 90, 443, 50_000];
    packet.fragment = bytes[9].is_multiple_of(8);
    packet.tos = if bytes[9].is_multiple_of(3) { 0x10 } else { 0 };
    if packet.has_ports() {
        packet.source_port = ports[usize::from(bytes[6]) % ports.len()];
        packet.destination_port = ports[usize::from(bytes[7]) % ports.len()];
    }
    if protocol == TCP && !packet.fragment {
        packet.tcp_flags = [SYN, SYN, ACK, SYN | ACK][usize::from(bytes[8]) % 4];
    }
    if packet.is_icmp() {
        let kind = if is_v6 { [128, 129] } else { [8, 0] }[usize::from(bytes[8]) % 2];
        packet.icmp = Icmp { kind, code: 0, id: 7 };
    }
    packet.extensions.ipv4_options = !is_v6 && bytes[9] % 16 == 1;
    packet
}

/// What becomes of the packet. Which of several rules with the same effects did it, and which port
/// `nat` draws, is left out.
fn fate(verdict: &Verdict<'_>) -> String {
    let rule = verdict.rule.map(|rule| {
        let options = &rule.rule.options;
        (rule.rule.action, options.labels.clone(), options.state.clone())
    });
    let translation = verdict.translation.as_ref().map(|translation| {
        (
            translation.source,
            translation.destination,
            translation.destination_port,
            translation.af_to,
            translation.takes_effect,
        )
    });
    let state = verdict.state.as_ref().map(|state| (state.kind, state.if_bound, state.sloppy));
    // `log (matches)` shows the rules on the way, of which there may be fewer.
    let mut logs: Vec<_> = verdict.logs.iter().filter_map(|log| log.rule.log).collect();
    if logs.iter().any(|log| log.matches) {
        logs.clear();
    }
    let (decision, reason, quick) = (verdict.decision, verdict.reason, verdict.quick);
    let (actions, response) = (&verdict.actions, verdict.response);
    format!(
        "{decision:?} {reason:?} {quick} {rule:?} {translation:?} {state:?} {logs:?} {actions:?} \
         {response:?} {:?} {:?}",
        verdict.route, verdict.divert
    )
}

/// What becomes of each packet.
fn fates(ruleset: &Ruleset, packets: &[Packet], facts: &Facts) -> Vec<String> {
    let evaluator = Evaluator::new(ruleset, &[], facts).unwrap();
    let mut found = Vec::new();
    for packet in packets {
        let mut random = || 1;
        let mut states = NoStates;
        let mut moment =
            Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
        found.push(fate(&evaluator.evaluate(packet, &mut moment)));
    }
    found
}

fn runner(case_count: u32) -> TestRunner {
    let config =
        ProptestConfig { cases: case_count, failure_persistence: None, ..Default::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Runs `judge` over random rulesets of both dialects and packets.
fn over_random_rulesets(
    case_count: u32,
    judge: impl Fn(&[String], Dialect, &[Packet], &Facts) -> Result<(), TestCaseError>,
) {
    let facts = facts();
    let rules = vec(vec(any::<u8>(), RULE_BYTES + 2), 2..14);
    let packets = vec(vec(any::<u8>(), 10), 40);
    let result =
        runner(case_count).run(&(rules, packets, any::<bool>()), |(rules, bytes, open)| {
            let dialect = if open { Dialect::OpenBsd } else { Dialect::FreeBsd };
            let packets: Vec<Packet> = bytes.iter().map(|byte| packet(byte)).collect();
            judge(&lines(&rules, dialect, &facts), dialect, &packets, &facts)
        });
    // The message has the ruleset; the bytes that it was made of help nobody.
    match result {
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        other => other.unwrap(),
    }
}

#[test]
fn verdicts_stay_the_same() {
    let total = RefCell::new(Summary::default());
    over_random_rulesets(1500, |lines, dialect, packets, facts| {
        let text = format!("{PREAMBLE}{}\n", lines.join("\n"));
        let compiled = run(&text, dialect, facts);
        let before = fates(&compiled.ruleset, packets, facts);
        let mut profile = Profile::default();
        let options = PrintOptions::default();
        let printer = Printer { dialect, resolver: facts, options };
        for (at, rule) in compiled.ruleset.main.filter.iter().enumerate() {
            profile.add(&printer.rule(rule), at as u64 * 7 % 5);
        }
        for level in [Level::Basic, Level::Profile(&profile)] {
            let mut ruleset = compiled.ruleset.clone();
            let summary = optimise(&mut ruleset, level, facts);
            let after = fates(&ruleset, packets, facts);
            for (at, (one, other)) in before.iter().zip(&after).enumerate() {
                if one != other {
                    let message = format!(
                        "{text}\nbecame\n{}\n{:?}\n{one}\n{other}",
                        shown(&ruleset, facts),
                        packets[at]
                    );
                    return Err(TestCaseError::fail(message));
                }
            }
            let mut total = total.borrow_mut();
            total.removed_count += summary.removed_count;
            total.combined_count += summary.combined_count;
            total.table_count += summary.table_count;
            total.moved_count += summary.moved_count;
        }
        Ok(())
    });
    let total = total.into_inner();
    assert!(total.removed_count > 100 && total.table_count > 20, "{total:?}");
    assert!(total.moved_count > 100 && total.combined_count > 100, "{total:?}");
}

#[test]
fn what_is_called_pointless_can_go() {
    let counts: RefCell<BTreeMap<&str, usize>> = RefCell::default();
    let pointless = [Code::Unreachable, Code::Shadowed, Code::NeverMatches];
    over_random_rulesets(1500, |lines, dialect, packets, facts| {
        let text = format!("{PREAMBLE}{}\n", lines.join("\n"));
        let compiled = run(&text, dialect, facts);
        let findings = check(&compiled, facts);
        assert!(findings.iter().all(|finding| finding.severity < Severity::Error));
        let before = fates(&compiled.ruleset, packets, facts);
        for finding in findings.iter().filter(|finding| pointless.contains(&finding.code)) {
            *counts.borrow_mut().entry(finding.code.as_str()).or_default() += 1;
            let mut ruleset = compiled.ruleset.clone();
            ruleset.main.filter.retain(|rule| rule.span != finding.span);
            let after = fates(&ruleset, packets, facts);
            for (at, (one, other)) in before.iter().zip(&after).enumerate() {
                if one != other {
                    let line = finding.line(&compiled.sources);
                    let packet = &packets[at];
                    let message = format!("{text}\n{line}\n{packet:?}\n{one}\n{other}");
                    return Err(TestCaseError::fail(message));
                }
            }
        }
        Ok(())
    });
    let counts = counts.into_inner();
    for code in pointless {
        assert!(counts.get(code.as_str()).is_some_and(|count| *count > 20), "{counts:?}");
    }
}
