//! States, limits, chance, routes, normalisation; packets from words and from frames.

use super::*;
use crate::value::{Direction, RouteKind};

/// A view with everything at its limit, or not.
#[derive(Default)]
struct View {
    hit: Option<StateHit>,
    rule_states: u32,
    source: Option<SourceCount>,
    sources: u32,
    rate_exceeded: bool,
    spent: Vec<RuleId>,
    limited: bool,
}

impl StateView for View {
    fn find(&mut self, _: &Packet, _: u64) -> Option<StateHit> {
        self.hit
    }
    fn rule_state_count(&mut self, _: RuleId) -> u32 {
        self.rule_states
    }
    fn source(&mut self, _: Option<RuleId>, _: IpAddr) -> Option<SourceCount> {
        self.source
    }
    fn source_count(&mut self, _: RuleId) -> u32 {
        self.sources
    }
    fn packet_rate_exceeded(&mut self, _: RuleId, _: crate::value::Rate, _: u64) -> bool {
        self.rate_exceeded
    }
    fn once_is_spent(&mut self, rule: RuleId) -> bool {
        self.spent.contains(&rule)
    }
    fn limiter_exceeded(&mut self, _: &crate::value::LimiterUse, _: IpAddr, _: u64) -> bool {
        self.limited
    }
}

fn one(dialect: Dialect, rules: &str, packet: &str, view: &mut View) -> String {
    let facts = facts();
    let ruleset = ruleset(rules, dialect, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    run(&evaluator, &Packet::parse(packet, &facts).unwrap(), view)
}

const UDP: &str = "in on em0 udp 1.1.1.1:1 > 2.2.2.2:2";

#[test]
fn states_come_before_rules() {
    for dialect in [Dialect::FreeBsd, Dialect::OpenBsd] {
        let hit = |allow_opts| View {
            hit: Some(StateHit::Pass { rule: Some(RuleId(0)), allow_opts }),
            ..View::default()
        };
        let rules = "block all\n";
        assert_eq!(one(dialect, rules, UDP, &mut hit(false)), "pass state");
        let with_options = format!("{UDP} options");
        assert_eq!(one(dialect, rules, &with_options, &mut hit(false)), "block ip-option");
        assert_eq!(one(dialect, rules, &with_options, &mut hit(true)), "pass state");
        let fragment = "in on em0 fragment udp 1.1.1.1 > 2.2.2.2";
        assert_eq!(one(dialect, rules, fragment, &mut hit(true)), "block @0");
        let mut stray = View { hit: Some(StateHit::Mismatch), ..View::default() };
        assert_eq!(one(dialect, "pass\n", UDP, &mut stray), "block state-mismatch");
        let stale = StateHit::Pass { rule: Some(RuleId(99)), allow_opts: false };
        let mut stale = View { hit: Some(stale), ..View::default() };
        assert_eq!(one(dialect, rules, UDP, &mut stale), "pass state");
    }
}

#[test]
fn limits_of_states_and_sources() {
    for dialect in [Dialect::FreeBsd, Dialect::OpenBsd] {
        let max = "pass keep state (max 5)\n";
        let mut view = View { rule_states: 4, ..View::default() };
        assert_eq!(one(dialect, max, UDP, &mut view), "pass @0 state");
        view.rule_states = 5;
        assert_eq!(one(dialect, max, UDP, &mut view), "block state-limit");
        let sources = "pass keep state (max-src-nodes 3, max-src-states 2)\n";
        let mut view = View { sources: 2, ..View::default() };
        assert_eq!(one(dialect, sources, UDP, &mut view), "pass @0 state");
        view.sources = 3;
        assert_eq!(one(dialect, sources, UDP, &mut view), "block src-limit");
        view.source = Some(SourceCount { state_count: 1 });
        assert_eq!(one(dialect, sources, UDP, &mut view), "pass @0 state");
        view.source = Some(SourceCount { state_count: 2 });
        assert_eq!(one(dialect, sources, UDP, &mut view), "block src-limit");
    }
}

#[test]
fn once_rates_and_limiters() {
    let facts = facts();
    let text = "block\npass in once\n";
    let ruleset = ruleset(text, Dialect::OpenBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    let packet = Packet::parse(UDP, &facts).unwrap();
    let mut view = View::default();
    let mut random = || 0;
    let mut moment =
        Moment { now_ns: 0, random: &mut random, states: &mut view, routes: &AllRouted };
    let verdict = evaluator.evaluate(&packet, &mut moment);
    assert_eq!(summary(&verdict), "pass @1 state");
    let spent = verdict.spent_once;
    assert_eq!(spent, [RuleId(1)]);
    view.spent = spent;
    assert_eq!(run(&evaluator, &packet, &mut view), "block @0");

    let rate = "block\npass max-pkt-rate 10/1\n";
    assert_eq!(one(Dialect::OpenBsd, rate, UDP, &mut View::default()), "pass @1 state");
    let mut view = View { rate_exceeded: true, ..View::default() };
    assert_eq!(one(Dialect::OpenBsd, rate, UDP, &mut view), "block @0");

    let limiter = "state limiter \"few\" id 1 limit 5\n";
    let mut full = View { limited: true, ..View::default() };
    let soft = format!("{limiter}block\npass in state limiter \"few\" (no-match)\n");
    assert_eq!(one(Dialect::OpenBsd, &soft, UDP, &mut full), "block @0");
    let hard = format!("{limiter}pass\npass in state limiter \"few\" (block)\n");
    assert_eq!(one(Dialect::OpenBsd, &hard, UDP, &mut full), "block limiter");
    assert_eq!(one(Dialect::OpenBsd, &hard, UDP, &mut View::default()), "pass @1 state");
    // Without a word OpenBSD blocks, whatever follows, and FreeBSD goes on.
    let plain = format!("{limiter}block\npass in state limiter \"few\"\npass in\n");
    assert_eq!(one(Dialect::OpenBsd, &plain, UDP, &mut full), "block limiter");
    assert_eq!(one(Dialect::FreeBsd, &plain, UDP, &mut full), "pass @2 state");
    // What is not there has no room, and blocks nothing.
    let absent = "block\npass in state limiter id 7 (block)\npass in\n";
    assert_eq!(one(Dialect::OpenBsd, absent, UDP, &mut View::default()), "pass @2 state");
}

/// The probability is a share of all 32-bit numbers.
#[test]
fn probability_is_compared_with_the_number_drawn() {
    let facts = facts();
    for dialect in [Dialect::FreeBsd, Dialect::OpenBsd] {
        let ruleset = ruleset("block\npass probability 25%\n", dialect, &facts);
        let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
        let packet = Packet::parse(UDP, &facts).unwrap();
        for (drawn, passes) in [(0, true), (u32::MAX / 4 - 1, true), (u32::MAX / 4 + 1, false)] {
            let (mut random, mut states) = (move || drawn, NoStates);
            let mut moment =
                Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
            let decision = evaluator.evaluate(&packet, &mut moment).decision;
            assert_eq!(decision == Decision::Pass, passes, "{drawn}");
        }
    }
}

#[test]
fn kinds_of_states() {
    table(
        BOTH,
        "pass modulate state\npass proto tcp to port 2 synproxy state\n\
         pass proto tcp to port 3 no state\n",
        "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:9 => pass @0 modulate
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:9 => pass @0 state
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:3 => pass @2
         in on em0 icmp 1.1.1.1 > 2.2.2.2 unreach => pass @0
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 => pass @1 synproxy
         out on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 => pass @1 state",
    );
}

#[test]
fn routes_apply_by_direction() {
    let facts = facts();
    let text = "pass in on em1 route-to (em0 192.0.2.254)\n\
         pass in on em0 reply-to (em0 192.0.2.253)\n\
         pass out on em1 dup-to (em0 192.0.2.252)\n";
    let ruleset = ruleset(text, Dialect::FreeBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    for (packet, kind, gateway, applies_now) in [
        ("in on em1 gre 1.1.1.1 > 2.2.2.2", RouteKind::RouteTo, "192.0.2.254", true),
        ("in on em0 gre 1.1.1.1 > 2.2.2.2", RouteKind::ReplyTo, "192.0.2.253", false),
        ("out on em1 gre 1.1.1.1 > 2.2.2.2", RouteKind::DupTo, "192.0.2.252", true),
    ] {
        let packet = Packet::parse(packet, &facts).unwrap();
        let (mut random, mut states) = (|| 0, NoStates);
        let mut moment =
            Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
        let route = evaluator.evaluate(&packet, &mut moment).route.unwrap();
        assert_eq!((route.kind, route.applies_now), (kind, applies_now));
        assert_eq!(route.gateway, Some(gateway.parse().unwrap()));
        assert_eq!(route.interface.as_deref(), Some("em0"));
    }
}

#[test]
fn the_first_scrub_rule_holds() {
    let facts = facts();
    let text = "no scrub on em1\nscrub in proto tcp to port 80 max-mss 1400\nscrub in all\n\
         pass no state\n";
    let ruleset = ruleset(text, Dialect::FreeBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    let scrubs = |text: &str| {
        let packet = Packet::parse(text, &facts).unwrap();
        let (mut random, mut states) = (|| 0, NoStates);
        let mut moment =
            Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
        let verdict = evaluator.evaluate(&packet, &mut moment);
        let number = |rule: Option<RuleRef<'_>>| rule.map(|rule| rule.number);
        (number(verdict.scrub.ip), number(verdict.scrub.tcp), summary(&verdict))
    };
    let passes = "pass @0".to_owned();
    let tcp80 = "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:80 S";
    assert_eq!(scrubs(tcp80), (Some(1), Some(1), passes.clone()));
    let tcp81 = "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:81 S";
    assert_eq!(scrubs(tcp81), (Some(1), Some(2), passes.clone()), "ports count for TCP alone");
    let impossible = "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:81 SR";
    assert_eq!(scrubs(impossible).2, "block malformed");
    let left_alone = "in on em1 tcp 1.1.1.1:1 > 2.2.2.2:81 SR";
    assert_eq!(scrubs(left_alone), (Some(0), Some(0), passes.clone()));
    assert_eq!(scrubs("out on em0 tcp 1.1.1.1:1 > 2.2.2.2:81 SR"), (None, None, passes));
}

#[test]
fn descriptions_are_read_and_written() {
    let facts = facts();
    for (text, written) in [
        (
            "in on em0 tcp 10.0.0.5:51234 > 1.2.3.4:https",
            "in on em0 tcp 10.0.0.5:51234 > 1.2.3.4:443 S",
        ),
        (
            "in on em0 proto tcp 10.0.0.5:1 -> 1.2.3.4:2 S.",
            "in on em0 tcp 10.0.0.5:1 > 1.2.3.4:2 SA",
        ),
        (
            "out on em0 udp [2001:db8::1]:53 > [::1]:53 tos ef",
            "out on em0 udp [2001:db8::1]:53 > [::1]:53 tos 0xb8",
        ),
        ("in on em0 icmp 1.1.1.1 > 2.2.2.2", "in on em0 icmp 1.1.1.1 > 2.2.2.2 8/0"),
        (
            "in on em0 icmp 1.1.1.1 > 2.2.2.2 timex about udp 2.2.2.2:53 > 3.3.3.3:domain",
            "in on em0 icmp 1.1.1.1 > 2.2.2.2 11/0 about udp 2.2.2.2:53 > 3.3.3.3:53",
        ),
        ("in on em0 icmp6 ::1 > ::2 toobig", "in on em0 icmp6 ::1 > ::2 2/0"),
        ("in on em0 fragment tcp 1.1.1.1 > 2.2.2.2", "in on em0 fragment tcp 1.1.1.1 > 2.2.2.2"),
        (
            "out on vlan20 received-on em0 gre ::1 > ::2 tag \"a b\" prio 2 options routing-header",
            "out on vlan20 received-on em0 47 ::1 > ::2 prio 2 tag \"a b\" options routing-header",
        ),
        (
            "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 user www group 5 os \"Linux 5\" rdomain 3",
            "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 S rdomain 3 user 80 group 5 os \"Linux 5\"",
        ),
    ] {
        let packet = Packet::parse(text, &facts).unwrap();
        assert_eq!(packet.to_string(), written);
        assert_eq!(Packet::parse(written, &facts).unwrap(), packet);
    }
}

#[test]
fn wrong_descriptions_say_where_and_what() {
    let facts = facts();
    for (text, at, part) in [
        ("", 0..0, "the packet ends where `in` or `out` is expected"),
        ("through em0", 0..7, "`through` is not a direction"),
        ("in em0", 3..6, "expected `on`, found `em0`"),
        ("in on lan tcp", 6..9, "its members: em1, vlan20"),
        ("in on em0 tpc 1.1.1.1:1 > 2.2.2.2:2", 10..13, "`tpc` is not a protocol"),
        ("in on em0 tcp 1.1.1.1 > 2.2.2.2:2", 14..21, "write it as 1.1.1.1:80"),
        ("in on em0 tcp ::1 > ::2", 14..17, "write it as [::1]:80"),
        ("in on em0 gre 1.1.1.1:1 > 2.2.2.2", 14..23, "this protocol has none"),
        ("in on em0 tcp 1.1.1.1:1 2.2.2.2:2", 24..33, "`>` is expected"),
        ("in on em0 tcp 1.1.1:1 > 2.2.2.2:2", 14..21, "`1.1.1:1` is not an address"),
        ("in on em0 tcp 1.1.1.1:99999 > 2.2.2.2:2", 14..27, "`99999` is not a port"),
        ("in on em0 gre 1.1.1.1 > ::1", 24..27, "a different address family"),
        ("in on em0 icmp ::1 > ::2", 15..18, "it is `icmp6`"),
        ("in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 SX", 36..38, "letters of FSRPAUEW"),
        ("in on em0 icmp 1.1.1.1 > 2.2.2.2 unreach/x", 33..42, "`x` is not a code of ICMP type 3"),
        ("in on em0 gre 1.1.1.1 > 2.2.2.2 about udp", 32..37, "only an ICMP error is about"),
        ("in on em0 gre 1.1.1.1 > 2.2.2.2 prio 9", 37..38, "priorities are 0 to 7"),
        ("in on em0 gre 1.1.1.1 > 2.2.2.2 tag", 35..35, "a tag is expected"),
        ("in on em0 gre 1.1.1.1 > 2.2.2.2 frobnicate", 32..42, "does not describe a packet"),
    ] {
        let error = Packet::parse(text, &facts).unwrap_err();
        assert!(error.message.contains(part), "{text}: {}", error.message);
        assert_eq!(error.at, at, "{text}");
    }
}

fn ethernet(kind: u16, rest: &[&[u8]]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(kind.to_be_bytes());
    rest.iter().for_each(|part| frame.extend(*part));
    frame
}

fn v4(protocol: u8, fragment: u16, options: bool, payload: &[u8]) -> Vec<u8> {
    let header = if options { 24_u8 } else { 20 };
    let size = u16::from(header) + u16::try_from(payload.len()).unwrap();
    let mut bytes = vec![0x40 | (header / 4), 0x10];
    bytes.extend(size.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0, 0, 10, 0, 0, 5, 1, 2, 3, 4]);
    if options {
        bytes.extend([1, 1, 1, 0]);
    }
    bytes.extend(payload);
    bytes
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend([next, 64]);
    for last in [5, 6] {
        bytes.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend(payload);
    bytes
}

#[test]
fn frames_are_read() {
    let tcp = [0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 1, 0, 0, 0, 0, 0];
    let udp = [0x10, 0, 0, 53, 0, 8, 0, 0];
    let echo = [8, 0, 0, 0, 0, 7, 0, 1];
    let sctp = [0x10, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 0];
    let tag = [0xa0, 20, 0x08, 0x00];
    let hop = [&[17, 0, 0, 0, 0, 0, 0, 0][..], &udp].concat();
    let routing = [&[43, 0, 0, 0, 0, 0, 0, 0][..], &hop].concat();
    let later = [17, 0, 0, 8, 0, 0, 0, 1, 1, 2, 3];
    for (frame, expected) in [
        (ethernet(0x800, &[&v4(6, 0, false, &tcp)]), "tcp 10.0.0.5:4096 > 1.2.3.4:80 S tos 0x10"),
        (
            ethernet(0x800, &[&v4(17, 0, true, &udp)]),
            "udp 10.0.0.5:4096 > 1.2.3.4:53 tos 0x10 options",
        ),
        (
            ethernet(0x8100, &[&tag, &v4(1, 0, false, &echo)]),
            "icmp 10.0.0.5 > 1.2.3.4 8/0 id 7 tos 0x10 prio 5",
        ),
        (ethernet(0x800, &[&v4(132, 0, false, &sctp)]), "sctp 10.0.0.5:4096 > 1.2.3.4:22 tos 0x10"),
        (
            ethernet(0x800, &[&v4(6, 0x2000, false, &tcp)]),
            "fragment tcp 10.0.0.5 > 1.2.3.4 tos 0x10",
        ),
        (ethernet(0x86dd, &[&v6(17, &udp)]), "udp [2001:db8::5]:4096 > [2001:db8::6]:53"),
        (ethernet(0x86dd, &[&v6(0, &hop)]), "udp [2001:db8::5]:4096 > [2001:db8::6]:53 options"),
        (ethernet(0x86dd, &[&v6(60, &routing)]), "17 "),
        (ethernet(0x86dd, &[&v6(44, &later)]), "fragment udp 2001:db8::5 > 2001:db8::6"),
    ] {
        let packet = Packet::from_frame(&frame, Direction::In, "em0").unwrap();
        if expected == "17 " {
            assert!(packet.extensions.routing_header && packet.extensions.ipv6_options);
            assert_eq!((packet.protocol, packet.destination_port), (17, 53));
            continue;
        }
        assert_eq!(packet.to_string(), format!("in on em0 {expected}"));
    }
    let original = v4(17, 0, true, &udp);
    let error = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &original].concat();
    let frame = ethernet(0x800, &[&v4(1, 0, false, &error)]);
    let packet = Packet::from_frame(&frame, Direction::In, "em0").unwrap();
    let about = "about udp 10.0.0.5:4096 > 1.2.3.4:53";
    assert_eq!(
        packet.to_string(),
        format!("in on em0 icmp 10.0.0.5 > 1.2.3.4 3/3 tos 0x10 {about}")
    );
    for size in 0..frame.len() {
        // Whatever is cut off, there is an answer.
        let _ = Packet::from_frame(&frame[..size], Direction::In, "em0");
    }
    let arp = Packet::from_frame(&ethernet(0x806, &[&[0; 28]]), Direction::In, "em0").unwrap_err();
    assert_eq!(arp, FrameError::NotIp(0x806));
    let cut = ethernet(0x86dd, &[&v6(0, &[6])]);
    assert_eq!(Packet::from_frame(&cut, Direction::In, "em0"), Err(FrameError::Extensions));
}
