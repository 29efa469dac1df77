//! An independent check: a second evaluator for simple rules, written from pf.conf(5) alone. It
//! shares no code with the first, has its own form of rules and packets, and walks backwards: the
//! first `quick` that matches wins, or else the last match.

use proptest::prelude::*;

use super::*;
use crate::value::Direction;

#[derive(Debug, Clone)]
struct Simple {
    pass: bool,
    quick: bool,
    direction: Option<bool>,
    interface: Option<(bool, usize)>,
    protocol: Option<usize>,
    from: Option<(bool, u8, u8)>,
    to: Option<(bool, u8, u8)>,
    port: Option<(usize, u16, u16)>,
}

#[derive(Debug, Clone)]
struct Plain {
    inbound: bool,
    interface: usize,
    protocol: usize,
    from: u8,
    to: u8,
    port: u16,
}

const INTERFACES: [&str; 3] = ["em0", "em1", "tun0"];
const PROTOCOLS: [(&str, u8); 3] = [("tcp", 6), ("udp", 17), ("gre", 47)];
const OPERATORS: [&str; 7] = ["=", "!=", "<", ">=", ":", "><", "<>"];

fn rule() -> impl Strategy<Value = Simple> {
    let network = || proptest::option::of((any::<bool>(), any::<u8>(), 0_u8..=8));
    let port = proptest::option::of((0..OPERATORS.len(), 1_u16..20, 1_u16..20));
    let interface = proptest::option::of((any::<bool>(), 0..INTERFACES.len()));
    let protocol = proptest::option::of(0..PROTOCOLS.len());
    let head = (any::<bool>(), proptest::bool::weighted(0.2), proptest::option::of(any::<bool>()));
    (head, interface, protocol, network(), network(), port).prop_map(
        |((pass, quick, direction), interface, protocol, from, to, port)| {
            // pf.conf(5): ports need a protocol that has them.
            let port = port.filter(|_| matches!(protocol, Some(0 | 1)));
            let port = port.map(|(at, a, b)| (at, a.min(b), a.max(b)));
            Simple { pass, quick, direction, interface, protocol, from, to, port }
        },
    )
}

fn packet() -> impl Strategy<Value = Plain> {
    (any::<bool>(), 0..3_usize, 0..3_usize, any::<u8>(), any::<u8>(), 0_u16..22).prop_map(
        |(inbound, interface, protocol, from, to, port)| {
            let port = port.max(1);
            Plain { inbound, interface, protocol, from, to, port }
        },
    )
}

/// The last octet's network: 10.0.0.x/(24 + bits).
fn holds(network: Option<(bool, u8, u8)>, address: u8) -> bool {
    network.is_none_or(|(not, base, bits)| {
        let span = 1_u16 << (8 - bits);
        let first = u16::from(base) / span * span;
        let is_in = (first..first + span).contains(&u16::from(address));
        is_in != not
    })
}

fn naive(rules: &[Simple], packet: &Plain) -> Option<usize> {
    let matches = |rule: &Simple| {
        rule.direction.is_none_or(|inbound| inbound == packet.inbound)
            && rule.interface.is_none_or(|(not, at)| (at == packet.interface) != not)
            && rule.protocol.is_none_or(|at| at == packet.protocol)
            && holds(rule.from, packet.from)
            && holds(rule.to, packet.to)
            && rule.port.is_none_or(|(at, a, b)| {
                let is = packet.port;
                match OPERATORS[at] {
                    "=" => is == a,
                    "!=" => is != a,
                    "<" => is < a,
                    ">=" => is >= a,
                    ":" => (a..=b).contains(&is),
                    "><" => is > a && is < b,
                    _ => is < a || is > b,
                }
            })
    };
    let found: Vec<usize> = (0..rules.len()).filter(|at| matches(&rules[*at])).collect();
    found.iter().copied().find(|at| rules[*at].quick).or(found.last().copied())
}

fn text(rules: &[Simple]) -> String {
    let mut text = String::new();
    for rule in rules {
        text += if rule.pass { "pass" } else { "block" };
        text += rule.direction.map_or("", |inbound| if inbound { " in" } else { " out" });
        text += if rule.quick { " quick" } else { "" };
        if let Some((not, at)) = rule.interface {
            text += &format!(" on {}{}", if not { "! " } else { "" }, INTERFACES[at]);
        }
        text += " inet";
        if let Some(at) = rule.protocol {
            text += &format!(" proto {}", PROTOCOLS[at].0);
        }
        let end = |range: Option<(bool, u8, u8)>| match range {
            None => "any".to_owned(),
            Some((not, base, bits)) => {
                format!("{}10.0.0.{base}/{}", if not { "! " } else { "" }, 24 + bits)
            }
        };
        text += &format!(" from {} to {}", end(rule.from), end(rule.to));
        if let Some((at, a, b)) = rule.port {
            text += &match OPERATORS[at] {
                ":" => format!(" port {a}:{b}"),
                operator @ ("><" | "<>") => format!(" port {a} {operator} {b}"),
                operator => format!(" port {operator} {a}"),
            };
        }
        text += if rule.pass { " no state\n" } else { "\n" };
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn both_evaluators_agree(
        rules in proptest::collection::vec(rule(), 0..24),
        packets in proptest::collection::vec(packet(), 1..64),
        is_openbsd in any::<bool>(),
    ) {
        let facts = facts();
        let dialect = if is_openbsd { Dialect::OpenBsd } else { Dialect::FreeBsd };
        let ruleset = ruleset(&text(&rules), dialect, &facts);
        let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
        for plain in &packets {
            let direction = if plain.inbound { Direction::In } else { Direction::Out };
            let ends = ([10, 0, 0, plain.from].into(), [10, 0, 0, plain.to].into());
            let (name, number) = (INTERFACES[plain.interface], PROTOCOLS[plain.protocol].1);
            let mut packet = Packet::new(direction, name, ends, number);
            packet.destination_port = plain.port;
            packet.tcp_flags = packet::ACK;
            let (mut random, mut states) = (|| 0, NoStates);
            let mut moment = Moment {
                now_ns: 0,
                random: &mut random,
                states: &mut states,
                routes: &AllRouted,
            };
            let verdict = evaluator.evaluate(&packet, &mut moment);
            let expected = naive(&rules, plain);
            let is = verdict.rule.map(|rule| rule.number as usize);
            prop_assert_eq!(is, expected, "{:?}\n{}", plain, text(&rules));
            let passes = expected.is_none_or(|at| rules[at].pass);
            prop_assert_eq!(verdict.decision == Decision::Pass, passes);
            prop_assert_eq!(verdict.quick, expected.is_some_and(|at| rules[at].quick));
        }
    }
}
