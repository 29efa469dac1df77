//! Translation in both dialects' orders. The first random number is 100, so a free choice of ports
//! begins at 50101.

use super::*;

#[test]
fn old_lists_come_before_the_filter() {
    table(
        FREE,
        "no nat on em0 from 10.0.0.9 to any\nnat on em0 from 10.0.0.0/8 to any -> 192.0.2.1\n\
         nat on em0 from any to any -> 192.0.2.7\n\
         rdr on em0 proto tcp from any to 192.0.2.1 port 8000:8010 -> 10.0.0.5 port 80:*\n\
         rdr pass on em0 proto udp from any to 192.0.2.1 port 53 -> 10.0.0.53\n\
         binat on em0 from 10.0.1.0/24 to any -> 198.51.100.0/24\n\
         block all\npass out on em0 from 192.0.2.1\npass in proto tcp to 10.0.0.5 port 80:90\n\
         pass out from 198.51.100.0/24\npass in to 10.0.1.0/24\npass out from 10.0.0.9\n",
        "out on em0 tcp 10.0.0.5:4000 > 1.2.3.4:80 => pass @1 state 192.0.2.1,50101>1.2.3.4,80
         out on em0 tcp 172.16.0.5:4000 > 1.2.3.4:80 =>
            block @0 192.0.2.7,50101>1.2.3.4,80 unchanged
         out on em0 udp 10.0.0.9:4000 > 1.2.3.4:80 => pass @5 state
         out on em1 udp 10.0.0.5:4000 > 1.2.3.4:80 => block @0
         in on em0 tcp 1.2.3.4:4000 > 192.0.2.1:8003 => pass @2 state 1.2.3.4,4000>10.0.0.5,83
         in on em0 tcp 1.2.3.4:4000 > 192.0.2.1:8011 => block @0
         in on em0 udp 1.2.3.4:4000 > 192.0.2.1:53 =>
            pass translation-pass state 1.2.3.4,4000>10.0.0.53,53
         out on em0 tcp 10.0.1.7:4000 > 1.2.3.4:80 => pass @3 state 198.51.100.7,4000>1.2.3.4,80
         in on em0 tcp 1.2.3.4:4000 > 198.51.100.9:22 => pass @4 state 1.2.3.4,4000>10.0.1.9,22
         out on em0 icmp 10.0.0.5 > 1.2.3.4 echoreq id 7 => pass @1 state 192.0.2.1,101>1.2.3.4,0
         out on em0 gre 10.0.0.5 > 1.2.3.4 => pass @1 state 192.0.2.1,0>1.2.3.4,0",
    );
}

#[test]
fn a_translated_packet_makes_a_state_in_freebsd() {
    table(
        FREE,
        "nat on em0 from 10.0.0.0/8 to any -> 192.0.2.1 static-port\npass no state\n",
        "out on em0 udp 10.0.0.5:4000 > 1.2.3.4:80 => pass @0 state 192.0.2.1,4000>1.2.3.4,80
         out on em1 udp 10.0.0.5:4000 > 1.2.3.4:80 => pass @0",
    );
}

#[test]
fn nat_to_and_rdr_to_translate_where_they_match() {
    table(
        BOTH,
        "block all\nmatch out on em0 inet from 10.0.0.0/8 nat-to 192.0.2.1\n\
         pass out on em0 from 192.0.2.1\n\
         pass out on em0 inet proto udp from 10.0.0.0/8 to port 99\n\
         pass in on em0 inet proto tcp to 192.0.2.1 port 80 rdr-to 10.0.0.5 port 8080\n\
         block in on em0 proto tcp to 10.0.0.5\n",
        "out on em0 udp 10.0.0.5:4000 > 1.2.3.4:80 => pass @2 state 192.0.2.1,50101>1.2.3.4,80
         in on em0 tcp 1.2.3.4:4000 > 192.0.2.1:80 => pass @4 state 1.2.3.4,4000>10.0.0.5,8080
         in on em0 tcp 1.2.3.4:4000 > 192.0.2.1:81 => block @0",
    );
    // The pass rule translates only if it wins, and match rules at once.
    table(
        OPEN,
        "pass in inet proto tcp to 192.0.2.1 port 80 rdr-to 10.0.0.5\n\
         pass in to 192.0.2.1 no state\n\
         match in inet proto tcp to 192.0.2.1 port 81 rdr-to 10.0.0.6\n\
         block in proto tcp to 10.0.0.6 port 81\n",
        "in on em0 tcp 1.2.3.4:4000 > 192.0.2.1:80 => pass @1
         in on em0 tcp 1.2.3.4:4000 > 192.0.2.1:81 => block @3 1.2.3.4,4000>10.0.0.6,81 unchanged
         in on em0 tcp 1.2.3.4:4000 > 192.0.2.1:82 => pass @1",
    );
}

#[test]
fn families_change() {
    table(
        OPEN,
        "block\npass in inet6 from any to 64:ff9b::/96 af-to inet from 192.0.2.1\n\
         pass in inet to 10.64.0.0/16 af-to inet6 from 2001:db8::1 to 2001:db8:64::/96\n",
        "in on em0 tcp [2001:db8::9]:4000 > [64:ff9b::c000:221]:80 =>
            pass @1 state 192.0.2.1,50101>192.0.2.33,80
         in on em0 udp 10.1.1.1:4000 > 10.64.0.5:53 =>
            pass @2 state 2001:db8::1,50101>2001:db8:64::a40:5,53",
    );
    table(
        OPEN,
        "pass in inet6 to fd08::/120 af-to inet from 192.0.2.1 to 10.9.0.0/24\n\
         pass in inet to 10.9.0.0/24 af-to inet6 from 2001:db8::1 to fd09::aa00/120\n",
        "in on em0 udp [2001:db8::9]:4000 > [fd08::21]:53 =>
            pass @0 state 192.0.2.1,50101>10.9.0.33,53
         in on em0 udp 10.1.1.1:4000 > 10.9.0.33:53 =>
            pass @1 state 2001:db8::1,50101>fd09::aa21,53",
    );
}

/// A state table whose turns count, and that has some ports taken.
#[derive(Default)]
struct Busy {
    turn: u64,
    is_full: bool,
    /// Of which all ports are taken.
    full: Vec<IpAddr>,
    sticky: Option<IpAddr>,
}

impl StateView for Busy {
    fn turn(&mut self, _rule: RuleId) -> u64 {
        self.turn += 1;
        self.turn - 1
    }

    fn mapping_is_free(&mut self, mapping: &Mapping) -> bool {
        let is_full = self.is_full || self.full.contains(&mapping.source);
        !is_full && mapping.source_port != 50_101
    }

    fn sticky(&mut self, _rule: RuleId, _source: IpAddr) -> Option<IpAddr> {
        self.sticky
    }
}

#[test]
fn pools_give_addresses_and_ports() {
    let facts = facts();
    let packet = Packet::parse("out on em0 udp 10.0.0.5:4000 > 1.2.3.4:80", &facts).unwrap();
    let mut states = Busy::default();
    let check = |rules: &str, states: &mut Busy, expected: &[&str]| {
        let ruleset = ruleset(rules, Dialect::FreeBsd, &facts);
        let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
        for expected in expected {
            assert_eq!(run(&evaluator, &packet, states), *expected, "{rules}");
        }
    };
    check(
        "nat on em0 inet from any to any -> { 192.0.2.1 192.0.2.8/31 } round-robin\n",
        &mut states,
        &[
            "pass default state 192.0.2.1,50102>1.2.3.4,80",
            "pass default state 192.0.2.8,50102>1.2.3.4,80",
            "pass default state 192.0.2.9,50102>1.2.3.4,80",
            "pass default state 192.0.2.1,50102>1.2.3.4,80",
        ],
    );
    let bitmask = "nat on em0 inet from any to any -> 192.0.2.0/24 bitmask static-port\n";
    check(bitmask, &mut states, &["pass default state 192.0.2.5,4000>1.2.3.4,80"]);
    let dynamic = "nat on em0 inet from any to any -> (em0:0) port 7:7\n";
    check(dynamic, &mut states, &["pass default state 192.0.2.1,7>1.2.3.4,80"]);
    let pool = "nat on em0 inet from any to any -> 192.0.2.0/24 random sticky-address\n";
    states.sticky = Some("192.0.2.77".parse().unwrap());
    check(pool, &mut states, &["pass default state 192.0.2.77,50102>1.2.3.4,80"]);
    // Without a free port there is no mapping, and the packet is dropped.
    states.is_full = true;
    check(dynamic, &mut states, &["block map-failed"]);
    // A pool that takes turns goes on to its next address, whatever weights they have.
    let mut states = Busy { full: vec!["192.0.2.1".parse().unwrap()], turn: 3, ..Busy::default() };
    check(
        "nat on em0 inet from any to any -> { 192.0.2.8 192.0.2.1 192.0.2.9 } round-robin\n",
        &mut states,
        &[
            "pass default state 192.0.2.8,50102>1.2.3.4,80",
            "pass default state 192.0.2.9,50201>1.2.3.4,80",
            "pass default state 192.0.2.9,50102>1.2.3.4,80",
        ],
    );
    let single = "nat on em0 inet from any to any -> 192.0.2.1\n";
    check(single, &mut states, &["block map-failed"]);
    states.is_full = true;
    let none = "table <t> persist\nnat on em0 inet from any to any -> <t> round-robin\n";
    check(none, &mut states, &["block map-failed"]);
}

#[test]
fn weights_are_turns() {
    let facts = facts();
    let packet = Packet::parse("out on em0 udp 10.0.0.5:4000 > 1.2.3.4:80", &facts).unwrap();
    let text = "match out on em0 inet nat-to { 192.0.2.1 weight 3, 192.0.2.2 } round-robin\npass\n";
    let ruleset = ruleset(text, Dialect::OpenBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    let mut states = Busy::default();
    let mut found: Vec<String> = (0..8).map(|_| run(&evaluator, &packet, &mut states)).collect();
    let is_second = |found: &String| found.contains("192.0.2.2,");
    let seconds: Vec<bool> = found.iter().map(is_second).collect();
    assert_eq!(seconds, [false, false, false, true, false, false, false, true], "{found:?}");
    // One turn each, and not the next turn of the same address.
    states.full = vec!["192.0.2.1".parse().unwrap()];
    found = (0..4).map(|_| run(&evaluator, &packet, &mut states)).collect();
    assert!(found.iter().all(is_second), "{found:?}");
}

#[test]
fn link_local_addresses_are_in_no_pool() {
    let facts = facts();
    let packet = "out on em0 udp [2001:db8:5::5]:4000 > [2001:db8:7::7]:80";
    let packet = Packet::parse(packet, &facts).unwrap();
    let text = "nat on em0 inet6 from 2001:db8:5::/64 to any -> (em0)\n";
    let ruleset = ruleset(text, Dialect::FreeBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    let mut states = Busy::default();
    for _ in 0..3 {
        let found = run(&evaluator, &packet, &mut states);
        assert_eq!(found, "pass default state 2001:db8::1,50102>2001:db8:7::7,80");
    }
}

#[test]
fn source_hash_is_stable() {
    let facts = facts();
    let text = "nat on em0 inet from any to any -> 192.0.2.0/24 source-hash static-port\n";
    let ruleset = ruleset(text, Dialect::FreeBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    let mut found = std::collections::BTreeSet::new();
    for host in 1..200 {
        let text = format!("out on em0 udp 10.0.0.{host}:4000 > 1.2.3.4:80");
        let packet = Packet::parse(&text, &facts).unwrap();
        let first = run(&evaluator, &packet, &mut NoStates);
        assert_eq!(run(&evaluator, &packet, &mut NoStates), first);
        found.insert(first);
    }
    assert!(found.len() > 80, "{}", found.len());
}

#[test]
fn translation_anchors() {
    table(
        FREE,
        "nat-anchor \"n\"\nrdr-anchor \"n\" on em0\n\
         anchor \"n\" {\n  nat on em0 inet from 10.0.0.0/8 to any -> 192.0.2.1 static-port\n  \
         rdr on em0 inet proto tcp from any to any port 80 -> 127.0.0.1 port 8080\n}\n",
        "out on em0 udp 10.0.0.5:4000 > 1.2.3.4:80 => pass default state 192.0.2.1,4000>1.2.3.4,80
         in on em0 tcp 10.0.0.5:4000 > 1.2.3.4:80 =>
            pass default state 10.0.0.5,4000>127.0.0.1,8080",
    );
}
