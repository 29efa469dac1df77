//! What is converted decides as before: packets of many kinds meet the same verdict, and leave
//! with the same addresses, under a file and under what it is converted to.

use std::path::{Path, PathBuf};

use weir_rules::convert::convert;
use weir_rules::evaluate::{AllRouted, Decision, Evaluator, Moment, NoStates, Packet};
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::{Compiled, Dialect, compile};

use crate::support::Directory;

/// Files of the survey that are converted with all interfaces known (`survey_other.rs` has all).
const CONVERTED: &[&str] = &[
    "01-home-router.freebsd.conf",
    "02-home-router.openbsd.conf",
    "03-mail-spamd.openbsd.conf",
    "11-ipv6-only.freebsd.conf",
    "12-pppoe.openbsd.conf",
    "15-carp-cluster.openbsd.conf",
    "16-web-server.freebsd.conf",
    "17-wireguard.openbsd.conf",
    "20-vpn-gateway.openbsd.conf",
];

/// Rules for what those files do not have.
const OTHERS: &[(Dialect, &str)] = &[
    (
        Dialect::FreeBsd,
        "scrub in on em0 all max-mss 1400\n\
         nat on em0 inet proto udp from 192.168.1.0/24 to any port 53 -> 198.51.100.7 static-port\n\
         nat on em2 inet from 192.168.1.0/24 to any -> (em2)\n\
         binat on wg0 inet from 10.99.0.2 to any -> 192.0.2.99\n\
         rdr pass on em0 inet proto tcp from any to em0 port 80 -> 192.168.1.10 port 8080\n\
         rdr on em0 inet proto { tcp, udp } from any to em0 port { 443, 53 } -> 192.168.1.10\n\
         block all\npass out on em0 from 198.51.100.7\npass out on em2 from em2\n\
         pass in on em0 proto tcp to 192.168.1.10 port 443\npass on wg0 inet to 192.0.2.99\n",
    ),
    (
        Dialect::OpenBsd,
        "block all\n\
         match in on em0 inet proto tcp to 198.51.100.2 port 80 rdr-to 192.168.1.10 tag WEB\n\
         match out on em2 inet from 192.168.1.0/24 nat-to (em2:0)\n\
         match on wg0 inet from 10.99.0.2 to any binat-to 192.0.2.99\n\
         pass in on em0 tagged WEB\npass out on em2\npass out on wg0 from 192.0.2.99\n\
         pass in on em0 inet proto udp to em0 port 53 rdr-to 192.168.1.1\n",
    ),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/survey")
}

fn compiled(text: &str, dialect: Dialect, facts: &Facts) -> Compiled {
    let provider = Directory(directory());
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

/// What becomes of a packet, as far as both dialects can say it.
fn fate(evaluator: &Evaluator<'_>, packet: &Packet) -> String {
    let (mut states, mut random) = (NoStates, || 0);
    let mut moment =
        Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
    let verdict = evaluator.evaluate(packet, &mut moment);
    let new = verdict.translation.filter(|_| verdict.decision == Decision::Pass);
    let ends = new.map_or_else(String::new, |translated| {
        let (source, destination) = (translated.source, translated.destination);
        let ports = (translated.source_port, translated.destination_port);
        format!(" {source}:{} > {destination}:{}", ports.0, ports.1)
    });
    format!("{}{ends}", verdict.decision.as_str())
}

fn packets(facts: &Facts) -> Vec<(String, Packet)> {
    let mut packets = Vec::new();
    for interface in ["em0", "em1", "em2", "vtnet0", "pppoe0", "wg0", "lo0"] {
        for direction in ["in", "out"] {
            for source in ["192.168.1.5", "10.99.0.2", "1.2.3.4", "198.51.100.2", "192.0.2.99"] {
                for to in ["1.2.3.4", "198.51.100.2", "203.0.113.2", "192.0.2.99", "192.0.2.80"] {
                    for (protocol, port) in
                        [("tcp", 22), ("tcp", 80), ("tcp", 443), ("udp", 53), ("udp", 51820)]
                    {
                        let head = format!("{direction} on {interface} {protocol}");
                        let words = format!("{head} {source}:40000 > {to}:{port}");
                        let packet = Packet::parse(&words, facts).unwrap();
                        packets.push((words, packet));
                    }
                }
            }
        }
    }
    for direction in ["in", "out"] {
        for source in ["2001:db8:9::1", "2001:db8:6::53"] {
            for to in ["2001:db8:9::1", "2001:db8:6::80"] {
                for (protocol, port) in [("tcp", 22), ("tcp", 8080), ("udp", 53), ("udp", 33440)] {
                    let head = format!("{direction} on gif0 {protocol}");
                    let words = format!("{head} [{source}]:40000 > [{to}]:{port}");
                    let packet = Packet::parse(&words, facts).unwrap();
                    packets.push((words, packet));
                }
            }
        }
    }
    packets
}

fn same_fates(name: &str, text: &str, from: Dialect, facts: &Facts) {
    let to = match from {
        Dialect::FreeBsd => Dialect::OpenBsd,
        Dialect::OpenBsd => Dialect::FreeBsd,
    };
    let old = compiled(text, from, facts);
    assert_eq!(old.error_count, 0, "{name}: {:#?}", old.diagnostics);
    let conversion = convert(&old, to, facts, &|text| compiled(text, to, facts))
        .unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
    assert!(!conversion.changes.is_empty(), "{name}");
    let new = compiled(&conversion.text, to, facts);
    let before = Evaluator::new(&old.ruleset, &[], facts).unwrap();
    let after = Evaluator::new(&new.ruleset, &[], facts).unwrap();
    let (mut passed, mut blocked) = (0, 0);
    for (words, packet) in packets(facts) {
        let expected = fate(&before, &packet);
        assert_eq!(fate(&after, &packet), expected, "{name}: {words}\n{}", conversion.text);
        if expected.starts_with("pass") { passed += 1 } else { blocked += 1 }
    }
    assert!(passed > 0 && blocked > 0, "{name}: {passed} passed, {blocked} blocked");
}

#[test]
fn what_is_converted_decides_as_before() {
    let facts = std::fs::read_to_string(directory().join("machine.facts")).unwrap();
    let facts = Facts::parse(&facts).unwrap();
    for name in CONVERTED {
        let text = std::fs::read_to_string(directory().join(name)).unwrap();
        let from = Dialect::parse(name.split('.').nth(1).unwrap()).unwrap();
        same_fates(name, &text, from, &facts);
    }
    for (from, text) in OTHERS {
        same_fates(text, text, *from, &facts);
    }
}
