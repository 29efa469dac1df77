//! What is fuzzed, as plain functions: cargo-fuzz calls them with what it makes up, `make test`
//! with the corpus and with seeded changes of it.

#![allow(dead_code, reason = "each target uses one of the functions")]

use weir_rules::ast::StatementKind;
use weir_rules::evaluate::{AllRouted, Evaluator, Moment, NoStates, Packet};
use weir_rules::facts::Facts;
use weir_rules::fingerprint::Syn;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::source::MemorySources;
use weir_rules::value::Direction;
use weir_rules::{Compiled, Dialect, compile};

/// The machine that names are looked up on.
const FACTS: &str = include_str!("../crates/weir-rules/tests/fixtures/facts.txt");

/// What rulesets find in the place of a system's fingerprints.
const FINGERPRINTS: &str = include_str!("../crates/weir-rules/tests/fixtures/pf.os");

/// Packets that accepted rulesets are asked about.
const PACKETS: [&str; 4] = [
    "in on em0 tcp 10.0.0.5:51234 > 198.51.100.2:443 S",
    "out on em1 udp [2001:db8::5]:5353 > [2001:db8:2::1]:53",
    "in on em0 icmp 10.0.0.5 > 1.2.3.4 echoreq",
    "in on em1 fragment udp 10.0.0.5 > 1.2.3.4",
];

/// Rules that packets are put to.
const RULES: &str = "\
table <t> { 10.0.0.0/8 ! 10.0.0.7 2001:db8::/32 }
match in all scrub (no-df max-mss 1400)
block log all
pass in on em0 proto tcp from any to any port { 22 443 >< 500 } flags S/SA
pass in from <t> to any tagged X
pass out on ! em0 inet proto icmp all icmp-type echoreq
pass out inet6 proto udp to port domain nat-to ::1
anchor on em1 { pass in proto udp rdr-to 10.0.0.9 port 53 }
";

/// Limits that one input comes to in little time and memory.
fn limits() -> Limits {
    Limits {
        rule_count_max: 2000,
        file_count_max: 32,
        source_size_bytes_max: 1 << 20,
        macro_size_bytes_max: 1 << 20,
        table_entry_count_max: 10_000,
        diagnostic_count_max: 100,
        ..Limits::default()
    }
}

/// A pf.conf in both dialects: it is read or refused, and every message can be shown. What is
/// accepted is printed, the print is accepted, and prints as itself (see [`sets_late`]). The
/// evaluator takes it, or says why not.
///
/// # Panics
///
/// If one of that does not hold.
pub(crate) fn ruleset(data: &[u8]) {
    let facts = Facts::parse(FACTS).expect("the facts are right");
    for dialect in [Dialect::FreeBsd, Dialect::OpenBsd] {
        let compiled = compiled(data, dialect, &facts);
        for diagnostic in &compiled.diagnostics {
            let line = diagnostic.line(&compiled.sources);
            assert!(line.ends_with(&diagnostic.message), "{line}");
            let text = &compiled.sources.file(diagnostic.span.file).expect("a file").text;
            assert!(diagnostic.span.start <= diagnostic.span.end, "{diagnostic:?}");
            assert!(diagnostic.span.end as usize <= text.len(), "{diagnostic:?}");
        }
        if compiled.error_count > 0 {
            continue;
        }
        let first = printed(&compiled, &facts);
        let again = self::compiled(first.as_bytes(), dialect, &facts);
        let problem =
            again.diagnostics.iter().map(|diagnostic| diagnostic.line(&again.sources)).next();
        assert_eq!(again.error_count, 0, "{dialect}: {problem:?}\n{first}");
        let second = printed(&again, &facts);
        if sets_late(&compiled) {
            let last = self::compiled(second.as_bytes(), dialect, &facts);
            assert_eq!(printed(&last, &facts), second, "{dialect}");
        } else {
            assert_eq!(second, first, "{dialect}");
        }
        evaluate(&compiled, &facts);
    }
}

/// A file of fingerprints: it is read, or each error is within it; names that it has are found in
/// it, and SYNs are looked for.
///
/// # Panics
///
/// If one of that does not hold.
pub(crate) fn fingerprints(data: &[u8]) {
    let facts = Facts::parse(FACTS).expect("the facts are right");
    let provider = MemorySources::default().with("prints", data);
    let rules = "set fingerprints \"prints\"\nblock from any os unknown\n";
    let compiled = compiled_with(rules.as_bytes(), Dialect::OpenBsd, &facts, &provider);
    for diagnostic in &compiled.diagnostics {
        let text = &compiled.sources.file(diagnostic.span.file).expect("a file").text;
        assert!(diagnostic.span.start <= diagnostic.span.end, "{diagnostic:?}");
        assert!(diagnostic.span.end as usize <= text.len(), "{diagnostic:?}");
    }
    let Some(found) = &compiled.ruleset.fingerprints else {
        assert!(compiled.error_count > 0, "nothing is ignored");
        return;
    };
    for line in found.listing().lines().skip(2) {
        // Names with blanks in them, which no file has, may stand for others.
        if !line.contains([' ', '\t']) {
            let name = line.trim_end_matches('\t').replace('\t', " ");
            assert!(found.asked(&name).is_some(), "{name:?}");
        }
    }
    for window in [0, 1, 5840, 65_535] {
        let syn = Syn { window, ttl: 64, df: true, size_bytes: 60, ..Syn::default() };
        if let Some(syn) = syn.with_options(data) {
            let place = found.find(&syn);
            assert!(!found.name_of(place).is_empty());
        }
    }
}

/// The description of a packet, or a frame: it is read or refused, an error is within it, and the
/// evaluator takes the packet.
///
/// # Panics
///
/// If one of that does not hold.
pub(crate) fn packet(data: &[u8]) {
    let facts = Facts::parse(FACTS).expect("the facts are right");
    let mut packets = Vec::new();
    let text = String::from_utf8_lossy(data);
    match Packet::parse(&text, &facts) {
        Ok(packet) => {
            let words = packet.to_string();
            assert_eq!(Packet::parse(&words, &facts).as_ref(), Ok(&packet), "{words}");
            packets.push(packet);
        }
        Err(error) => {
            assert!(text.get(error.at.clone()).is_some(), "{error:?} is not within {text:?}");
            assert!(!error.message.is_empty());
        }
    }
    packets.extend(Packet::from_frame(data, Direction::In, "em0"));
    if packets.is_empty() {
        return;
    }
    let compiled = compiled(RULES.as_bytes(), Dialect::OpenBsd, &facts);
    assert_eq!(compiled.error_count, 0, "{:?}", compiled.diagnostics);
    let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts).expect("it is small");
    for packet in &packets {
        verdict(&evaluator, packet);
    }
}

/// Whether a `set` stands behind a rule. Some hold from there on alone (`state-policy`), and the
/// print, as pfctl's, has all of them in front: its own print is then the first that stays.
fn sets_late(compiled: &Compiled) -> bool {
    let statements = compiled.ast.statements.iter().map(|statement| &statement.kind);
    let mut behind = statements
        .skip_while(|kind| !matches!(kind, StatementKind::Rule(_) | StatementKind::Anchor(_)));
    behind.any(|kind| matches!(kind, StatementKind::Set(_)))
}

fn compiled(bytes: &[u8], dialect: Dialect, facts: &Facts) -> Compiled {
    let provider = MemorySources::default()
        .with("loop", "include \"loop\"\npass in\n")
        .with("part", "inner = \"em0\"\npass in on $inner\n")
        .with("twice", "include \"part\"\ninclude \"part\"\n")
        .with("/etc/pf.os", FINGERPRINTS)
        .with("table", "10.0.0.1\n! 10.0.0.2/31\n2001:db8::/32 # net\nwww.example.org\nx\n");
    compiled_with(bytes, dialect, facts, &provider)
}

fn compiled_with(
    bytes: &[u8],
    dialect: Dialect,
    facts: &Facts,
    provider: &MemorySources,
) -> Compiled {
    let macros = [("fixed".to_owned(), "em0".to_owned())];
    let input = ParseInput {
        name: "pf.conf",
        bytes,
        dialect: Some(dialect),
        macros: &macros,
        provider,
        limits: limits(),
    };
    compile(input, facts)
}

fn printed(compiled: &Compiled, facts: &Facts) -> String {
    let (dialect, options) = (compiled.ruleset.dialect, PrintOptions::default());
    Printer { dialect, resolver: facts, options }.ruleset(&compiled.ruleset)
}

fn evaluate(compiled: &Compiled, facts: &Facts) {
    // Anchors that enter each other are refused here, and nowhere before.
    let Ok(evaluator) = Evaluator::new(&compiled.ruleset, &[], facts) else { return };
    for words in PACKETS {
        let packet = Packet::parse(words, facts).expect("the description is right");
        verdict(&evaluator, &packet);
    }
}

fn verdict(evaluator: &Evaluator<'_>, packet: &Packet) {
    let mut random = || 0x5eed_5eed;
    let mut states = NoStates;
    let mut moment =
        Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
    let verdict = evaluator.evaluate(packet, &mut moment);
    if let Some(rule) = verdict.rule {
        assert!(evaluator.rule(rule.id).is_some());
    }
}
