//! `os`, by fingerprints of SYNs that were read from frames.

use super::*;
use crate::explain::explain;
use crate::print::{PrintOptions, Printer};

const FINGERPRINTS: &str = include_str!("../../../tests/fixtures/pf.os");

fn compiled(text: &str, dialect: Dialect) -> crate::Compiled {
    let provider = MemorySources::default().with("/etc/pf.os", FINGERPRINTS);
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(dialect),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    crate::compile(input, &facts())
}

/// A frame around a TCP header with these flags, window and options, of a protocol number.
fn frame(protocol: u8, (flags, window): (u8, u16), options: &[u8], more: bool) -> Vec<u8> {
    let mut tcp = vec![0, 9, 0, 22, 0, 0, 0, 1, 0, 0, 0, 0];
    tcp.extend([u8::try_from(5 + options.len() / 4).unwrap() << 4, flags]);
    tcp.extend(window.to_be_bytes());
    tcp.extend([0; 4]);
    tcp.extend(options);
    let total_bytes = u16::try_from(20 + tcp.len()).unwrap().to_be_bytes();
    let fragment = if more { 0x20 } else { 0x40 };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, total_bytes[0], total_bytes[1], 0, 1, fragment, 0, 60, protocol, 0, 0]);
    frame.extend([10, 0, 0, 5, 192, 0, 2, 1]);
    frame.extend(tcp);
    frame
}

const LINUX: [u8; 20] = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
const SYN: u8 = 2;
const RULES: &str = "block\npass in from any os Quick no state\n";

#[test]
fn the_system_of_a_frame_is_seen() {
    let quick = (SYN, 5840);
    for (dialect, frame, verdict) in [
        (Dialect::FreeBsd, frame(6, quick, &LINUX, false), "pass @1"),
        (Dialect::FreeBsd, frame(6, (SYN, 5841), &LINUX, false), "block @0"),
        (Dialect::FreeBsd, frame(6, (0x12, 5840), &LINUX, false), "block @0"),
        (Dialect::FreeBsd, frame(6, quick, &LINUX, true), "block @0"),
        // What is not of TCP.
        (Dialect::FreeBsd, frame(50, quick, &LINUX, false), "block @0"),
        (Dialect::OpenBsd, frame(6, quick, &LINUX, false), "pass @1"),
        (Dialect::OpenBsd, frame(6, (SYN, 5841), &LINUX, false), "block @0"),
        (Dialect::OpenBsd, frame(50, quick, &LINUX, false), "pass @1"),
        (Dialect::OpenBsd, frame(6, quick, &LINUX, true), "pass @1"),
    ] {
        let compiled = compiled(RULES, dialect);
        assert_eq!(compiled.diagnostics, [], "{dialect}");
        let facts = facts();
        let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts).unwrap();
        let packet = Packet::from_frame(&frame, Direction::In, "em0").unwrap();
        assert_eq!(run(&evaluator, &packet, &mut NoStates), verdict, "{dialect} {packet}");
    }
}

#[test]
fn a_system_in_words_is_looked_up_by_its_name() {
    let facts = facts();
    let compiled =
        compiled("block\npass in from any os \"quick 4.2.1\" no state\n", Dialect::FreeBsd);
    let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts).unwrap();
    for (words, verdict) in [
        ("os \"Quick 4.2 1\"", "pass @1"),
        ("os \"Quick 4.2 2\"", "block @0"),
        ("os Quick", "block @0"),
        ("os Nobody", "block @0"),
        ("", "block @0"),
    ] {
        let text = format!("in on em0 tcp 10.0.0.5:9 > 192.0.2.1:22 S {words}");
        let packet = Packet::parse(text.trim(), &facts).unwrap();
        assert_eq!(run(&evaluator, &packet, &mut NoStates), verdict, "{text}");
    }
}

#[test]
fn an_explanation_says_which_system_was_seen() {
    let facts = facts();
    let compiled = compiled("block\npass in from any os Plain\n", Dialect::FreeBsd);
    let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts).unwrap();
    let options = PrintOptions::default();
    let printer = Printer { dialect: Dialect::FreeBsd, resolver: &facts, options };
    for (window, name) in [(5840, "Quick 5 late"), (1, "unknown")] {
        let frame = frame(6, (SYN, window), &LINUX, false);
        let packet = Packet::from_frame(&frame, Direction::In, "em0").unwrap();
        let (mut random, mut states) = (|| 0, NoStates);
        let mut moment =
            Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
        let text = explain(&evaluator, &printer, None, &packet, &mut moment).text();
        assert!(text.contains(&format!("operating system is {name}, not Plain")), "{text}");
        assert!(text.contains(&format!("by its fingerprint the SYN is of {name}")), "{text}");
    }
}

#[test]
fn names_that_no_fingerprint_has_are_errors_at_their_places() {
    let text = "pass\npass in proto tcp from any os { Plain, Quik, \"Quick 9\" } to any\n";
    let found = compiled(text, Dialect::OpenBsd);
    let said: Vec<String> =
        found.diagnostics.iter().map(|found_one| found_one.line(&found.sources)).collect();
    assert_eq!(
        said,
        [
            "pf.conf:2:40: error: unknown os fingerprint `Quik`",
            "pf.conf:2:46: error: unknown os fingerprint `Quick 9`",
        ]
    );
    let nearest = found.diagnostics[0].suggestion.as_ref().map(|one| one.replacement.as_str());
    assert_eq!(nearest, Some("Quick"));
    assert_eq!(found.ruleset.main.filter.len(), 1, "what is wrong is left out");
}
