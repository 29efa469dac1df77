//! The text of explanations, whole.

use super::*;
use crate::Dialect;
use crate::evaluate::{AllRouted, NoStates};
use crate::facts::Facts;
use crate::limits::Limits;
use crate::parse::ParseInput;
use crate::print::PrintOptions;
use crate::source::MemorySources;

const FACTS: &str = "\
interface em0 192.0.2.1/24 group egress
interface em1 10.0.0.1/8
";

fn explained(text: &str, dialect: Dialect, packets: &[&str]) -> String {
    let facts = Facts::parse(FACTS).unwrap();
    let provider = MemorySources::default();
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(dialect),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    let compiled = crate::compile(input, &facts);
    assert_eq!(compiled.error_count, 0, "{:#?}", compiled.diagnostics);
    let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts).unwrap();
    let printer = Printer { dialect, resolver: &facts, options: PrintOptions::default() };
    let mut out = String::new();
    for packet in packets {
        let packet = Packet::parse(packet, &facts).unwrap();
        let (mut random, mut states) = (|| u32::MAX / 2, NoStates);
        let mut moment =
            Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
        let sources = Some(&compiled.sources);
        let explanation = explain(&evaluator, &printer, sources, &packet, &mut moment);
        assert_eq!(explanation.winner.is_some(), explanation.verdict.rule.is_some());
        out += &explanation.text();
    }
    out
}

/// Each reason once, with the packet's value and the rule's.
#[test]
fn reasons_have_both_values() {
    let packet = "in on em0 tcp 10.0.0.5:80 > 192.0.2.1:443 S";
    for (rule, why) in [
        ("block on em1", "the packet is on em0, the rule is for em1"),
        ("block on ! egress", "the packet is on em0, the rule is for all but egress"),
        ("block out", "the packet goes in, the rule is for out"),
        ("block inet6", "the packet is inet, the rule is for inet6"),
        ("block proto udp", "protocol is tcp, not udp"),
        ("block proto ospf", "protocol is tcp, not ospf"),
        ("block from 10.1.0.0/16", "source 10.0.0.5 is not in 10.1.0.0/16"),
        ("block from ! 10.0.0.0/16", "source 10.0.0.5 is in 10.0.0.0/16, which the rule excludes"),
        ("block to (em1)", "destination 192.0.2.1 is not in (em1), which is 10.0.0.1"),
        (
            "block to ! (em0:network)",
            "destination 192.0.2.1 is in (em0:network), which is 192.0.2.0/24",
        ),
        ("block from <t>", "source 10.0.0.5 is not in <t>: its entry is !10.0.0.0/24"),
        ("block from ! <u>", "source 10.0.0.5 is in <u>: its entry is 10.0.0.0/8"),
        ("block to <t>", "destination 192.0.2.1 is not in <t>: no entry covers it"),
        ("block from no-route", "source 10.0.0.5 has a route"),
        ("block from urpf-failed", "the route to 10.0.0.5 leads out of em0"),
        ("block proto tcp from port 1024:65535", "source port 80 is not in 1024:65535"),
        ("block proto tcp to port > 500", "destination port 443 is not > 500"),
        ("block proto tcp to port != 443", "destination port 443 is 443, which the rule excludes"),
        ("block proto tcp flags A/SA", "TCP flags S are not A/SA"),
        ("block proto tcp flags /S", "TCP flags S are not /S"),
        ("block proto tcp user 80", "user is unknown (no socket of this host), and that is not 80"),
        ("block tos 0x10", "tos is 0x00 without ECN, not 0x10"),
        ("block tagged LAN", "the packet has no tag, the rule is for LAN"),
        ("block received-on em1", "the packet came in on none, the rule is for em1"),
        ("block prio 3", "priority is none, not 3"),
        ("block fragment", "the packet is not a fragment, and the rule is for fragments"),
        ("block proto tcp from any os Linux", "operating system is unknown, not Linux"),
        ("block probability 25%", "chance: 50.0 % was drawn, not under 25.0 %"),
    ] {
        let tables = "table <t> { 10.0.0.0/8 !10.0.0.0/24 }\ntable <u> { 10.0.0.0/8 }\n";
        let text = explained(&format!("{tables}{rule}\n"), Dialect::FreeBsd, &[packet]);
        let said = text.lines().find_map(|line| line.trim().strip_prefix("no: "));
        assert_eq!(said, Some(why), "{rule}\n{text}");
    }
    let icmp = "in on em0 icmp 10.0.0.5 > 192.0.2.1 unreach/port-unr";
    for (rule, why) in [
        ("block inet proto icmp icmp-type echoreq", "ICMP type is unreach (3), not echoreq (8)"),
        (
            "block inet proto icmp icmp-type unreach code needfrag",
            "ICMP code is port-unr (3), not needfrag (4)",
        ),
    ] {
        let text = explained(&format!("{rule}\n"), Dialect::FreeBsd, &[icmp]);
        assert!(text.contains(&format!("no: {why}\n")), "{text}");
    }
}

#[test]
fn a_whole_trace_in_freebsds_order() {
    let text = "\
table <bad> { 203.0.113.0/24 }
nat on em0 inet from 10.0.0.0/8 to any -> 192.0.2.1 static-port
block log all
anchor \"guests\" in on em1 {
  pass proto udp to port 53
}
block quick from <bad>
pass out quick on em0 proto tcp to port 443
pass out
";
    let report =
        explained(text, Dialect::FreeBsd, &["out on em0 tcp 10.0.0.5:4000 > 1.2.3.4:443 S"]);
    let expected = "\
packet: out on em0 tcp 10.0.0.5:4000 > 1.2.3.4:443 S

nat rules:
  @0 pf.conf:2 nat on em0 inet from 10.0.0.0/8 to any -> 192.0.2.1 static-port
      matches

filter rules:
  @0 pf.conf:3 block drop log all
      matches
  @1 pf.conf:4 anchor \"guests\" in on em1 all
      no: the packet is on em0, the rule is for em1
  @2 pf.conf:7 block drop quick from <bad> to any
      no: source 192.0.2.1 is not in <bad>: no entry covers it
* @3 pf.conf:8 pass out quick on em0 proto tcp from any to any port = https flags S/SA keep state
      matches, and is quick
  (1 more rule not evaluated)

verdict: pass by @3 (pf.conf:8): \
pass out quick on em0 proto tcp from any to any port = https flags S/SA keep state
  source 10.0.0.5:4000 becomes 192.0.2.1:4000 by nat @0 (pf.conf:2)
  a state is made
";
    assert_eq!(report, expected);
}

#[test]
fn a_whole_trace_in_openbsds_order() {
    let text = "\
block return
match out log on em0 inet from 10.0.0.0/8 nat-to 192.0.2.1 static-port tag OUT
anchor out quick {
  block proto tcp to port 80
  block proto udp
}
pass out
";
    let packet = "out on em0 tcp 10.0.0.5:4000 > 1.2.3.4:80 S";
    let report = explained(text, Dialect::OpenBsd, &[packet]);
    let expected = "\
packet: out on em0 tcp 10.0.0.5:4000 > 1.2.3.4:80 S

filter rules:
  @0 pf.conf:1 block return all
      matches
  @1 pf.conf:2 match out log on em0 inet from 10.0.0.0/8 to any tag OUT nat-to 192.0.2.1 static-port
      matches
  @2 pf.conf:3 anchor out quick all
      matches: its rules are evaluated
*   @0 pf.conf:4 block drop proto tcp from any to any port = http
        matches, and is the last one that does
    @1 pf.conf:5 block drop proto udp all
        no: protocol is tcp, not udp
  @2 pf.conf:3 end of the anchor: a rule in it matched
  (1 more rule not evaluated)

verdict: block by @0 of anchor `_` (pf.conf:4): block drop proto tcp from any to any port = http
  `match` adds @1 (pf.conf:2)
  rules after @1 (pf.conf:2) see the source 10.0.0.5:4000 as 192.0.2.1:4000
  no answer is sent
  logged by @1 (pf.conf:2)
";
    assert_eq!(report, expected);
}

#[test]
fn layer_2_rules_are_said_to_be_left_out() {
    let packet = "in on em0 tcp 10.0.0.5:80 > 192.0.2.1:443 S";
    let text = explained("ether block in on em0\npass\n", Dialect::FreeBsd, &[packet]);
    assert!(text.contains("1 `ether` rule is not evaluated"), "{text}");
    assert!(!explained("pass\n", Dialect::FreeBsd, &[packet]).contains("ether"));
}
