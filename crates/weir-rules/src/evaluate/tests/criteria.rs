//! Each criterion of a filter rule.

use super::*;

#[test]
fn the_last_match_wins_and_quick_ends() {
    table(
        BOTH,
        "block all\npass in on em0 proto tcp to port 80\nblock quick from 10.9.0.0/16\npass out\n",
        "in on em0 tcp 10.0.0.5:1 > 1.2.3.4:80 S => pass @1 state
         in on em0 tcp 10.0.0.5:1 > 1.2.3.4:81 S => block @0
         in on em0 tcp 10.9.0.5:1 > 1.2.3.4:80 S => block @2 quick
         out on em0 udp 10.0.0.5:1 > 1.2.3.4:53 => pass @3 state
         in on em1 tcp 10.0.0.5:1 > 1.2.3.4:80 => block @0",
    );
    table(BOTH, "block in proto udp\n", "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 => pass default");
}

#[test]
fn interfaces_groups_and_families_of_them() {
    table(
        BOTH,
        "block all\npass in on lan no state\npass in on egress no state\npass out on em no state\n\
         pass out on ! em no state\npass in on tun0 no state\n",
        "in on em1 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @1
         in on vlan20 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @1
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @2
         in on lo0 udp 1.1.1.1:1 > 2.2.2.2:2 => block @0
         out on em1 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @3
         out on em7 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @3
         out on vlan20 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @4
         in on tun0 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @5",
    );
    table(
        OPEN,
        "block all\npass on any no state\n",
        "in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @1
         in on lo0 udp 1.1.1.1:1 > 2.2.2.2:2 => block @0",
    );
    table(
        BOTH,
        "set skip on { lo0 lan }\nblock all\n",
        "in on lo0 udp 1.1.1.1:1 > 2.2.2.2:2 => pass skip
         out on vlan20 udp 1.1.1.1:1 > 2.2.2.2:2 => pass skip
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 => block @0",
    );
}

#[test]
fn families_protocols_and_addresses() {
    table(
        BOTH,
        "block all\npass inet proto udp no state\npass inet6 proto 47 no state\n\
         pass proto tcp from 10.0.0.0/8 to ! 10.0.0.0/8 no state\n\
         pass proto tcp from 172.16.0.3 - 172.16.0.9 no state\n\
         pass proto ospf from any to 2001:db8:1::/48 no state\n",
        "in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 => pass @1
         in on em0 udp [::2]:1 > [::3]:2 => block @0
         in on em0 gre ::2 > ::3 => pass @2
         in on em0 gre 1.1.1.1 > 2.2.2.2 => block @0
         in on em0 tcp 10.0.0.1:1 > 11.0.0.1:2 => pass @3
         in on em0 tcp 10.0.0.1:1 > 10.1.0.1:2 => block @0
         in on em0 tcp 172.16.0.2:1 > 10.1.0.1:2 => block @0
         in on em0 tcp 172.16.0.3:1 > 10.1.0.1:2 => pass @4
         in on em0 tcp 172.16.0.9:1 > 10.1.0.1:2 => pass @4
         in on em0 tcp 172.16.0.10:1 > 10.1.0.1:2 => block @0
         in on em0 ospf 2001:db8::1 > 2001:db8:1:2::3 => pass @5
         in on em0 ospf 2001:db8::1 > 2001:db8:2:2::3 => block @0
         in on em0 ospf 10.1.2.3 > 10.1.2.4 => block @0",
    );
}

#[test]
fn every_operator_of_ports() {
    let rules = "block all\npass proto udp to port = 10 no state\n\
         pass proto udp to port != 100 tag a no state\n";
    table(
        BOTH,
        rules,
        "in on em0 udp 1.1.1.1:1 > 2.2.2.2:10 => pass @2 tag=a
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:100 => block @0",
    );
    for (port, inside, outside) in [
        ("port < 10", vec![9, 1], vec![10, 11]),
        ("port <= 10", vec![10, 1], vec![11]),
        ("port > 10", vec![11, 65_535], vec![10, 9]),
        ("port >= 10", vec![10, 11], vec![9]),
        ("port 10:20", vec![10, 15, 20], vec![9, 21]),
        ("port 10 >< 20", vec![11, 19], vec![10, 20, 9, 21]),
        ("port 10 <> 20", vec![9, 21], vec![10, 20, 15]),
    ] {
        let rules = format!("block all\npass proto udp from any {port} no state\n");
        let line =
            |port: &i32, end: &str| format!("in on em0 udp 1.1.1.1:{port} > 2.2.2.2:53 => {end}\n");
        let lines: String = inside.iter().map(|port| line(port, "pass @1")).collect();
        let more: String = outside.iter().map(|port| line(port, "block @0")).collect();
        table(BOTH, &rules, &(lines + &more));
    }
}

#[test]
fn flags_and_impossible_packets() {
    table(
        BOTH,
        "block all\npass proto tcp\npass proto tcp to port 99 flags any no state\n\
         pass proto tcp to port 98 flags /SFRA no state\n",
        "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 S => pass @1 state
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 SEW => pass @1 state
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 SA => block @0
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 A => block @0
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 PA => pass @2
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 SR => block malformed
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 none => block malformed
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 F => block malformed
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 P => block malformed
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 SF => pass @1 state
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:98 R => block @0
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:0 => block malformed",
    );
}

#[test]
fn icmp_types_codes_errors_and_replies() {
    let rules = "block all\npass inet proto icmp icmp-type echoreq\n\
         pass inet proto icmp icmp-type unreach code needfrag\n\
         pass inet6 proto icmp6 icmp6-type { neighbrsol neighbradv }\n\
         pass inet proto icmp icmp-type echorep tag reply\n";
    let common = "in on em0 icmp 1.1.1.1 > 2.2.2.2 echoreq id 7 => pass @1 state
         in on em0 icmp 1.1.1.1 > 2.2.2.2 unreach/needfrag => pass @2
         in on em0 icmp 1.1.1.1 > 2.2.2.2 unreach/port-unr => block @0
         in on em0 icmp6 fe80::1 > fe80::2 neighbrsol => pass @3 state
         in on em0 icmp6 fe80::1 > fe80::2 neighbradv => pass @4 state";
    table(BOTH, rules, common);
    let reply = "in on em0 icmp 1.1.1.1 > 2.2.2.2 echorep => ";
    table(FREE, rules, &format!("{reply}pass @5 state tag=reply"));
    table(OPEN, rules, &format!("{reply}block @0"));
    table(OPEN, "block\npass proto icmp no state\n", &format!("{reply}pass @1"));
    table(OPEN, "block\npass proto icmp keep state (sloppy)\n", &format!("{reply}pass @1 state"));
}

#[test]
fn tables_with_negated_entries() {
    table(
        BOTH,
        "table <lan> { 10.0.0.0/8 !10.1.0.0/16 10.1.2.3 }\ntable <none> persist\n\
         block all\npass from <lan> no state\npass from ! <lan> to <none> no state\n\
         pass proto udp from ! <lan> to 9.9.9.9 no state\n",
        "in on em0 gre 10.2.0.1 > 1.2.3.4 => pass @1
         in on em0 gre 10.1.0.1 > 1.2.3.4 => block @0
         in on em0 gre 10.1.2.3 > 1.2.3.4 => pass @1
         in on em0 udp 10.1.0.1:1 > 9.9.9.9:2 => pass @3
         in on em0 udp 10.2.0.1:1 > 9.9.9.9:2 => pass @1",
    );
}

#[test]
fn what_interfaces_have() {
    table(
        BOTH,
        "block all\npass in to (em0) no state\npass in from (em1:network) to (em0:0) no state\n\
         pass out to (em0:broadcast) no state\npass out to (tun0:peer) no state\n\
         pass in inet6 from (em0:network) to any tag net6 no state\n",
        "in on em0 gre 1.1.1.1 > 192.0.2.1 => pass @1
         in on em0 gre 1.1.1.1 > 198.51.100.1 => pass @1
         in on em0 gre 1.1.1.1 > 192.0.2.2 => block @0
         in on em0 gre 10.1.1.1 > 192.0.2.1 => pass @2
         in on em0 gre 10.1.1.1 > 198.51.100.1 => pass @1
         in on em0 gre 2001:db8::77 > 2001:db8:9::1 => pass @5 tag=net6
         in on em0 gre 2001:db8::77 > 2001:db8::1 => pass @5 tag=net6
         out on em0 gre 1.1.1.1 > 192.0.2.255 => pass @3
         out on em0 gre 1.1.1.1 > 10.8.0.2 => pass @4",
    );
}

#[test]
fn antispoof_routes_and_reverse_paths() {
    table(
        BOTH,
        "pass no state\nantispoof quick for { lo0 em1 }\nblock in quick from urpf-failed\n",
        "in on em0 gre 127.0.0.1 > 1.2.3.4 => block @1 quick
         in on lo0 gre 127.0.0.1 > 127.0.0.1 => pass @0
         in on em0 gre 10.3.3.3 > 1.2.3.4 => block @3 quick
         in on em1 gre 10.3.3.3 > 1.2.3.4 => pass @0
         in on em1 gre 10.0.0.1 > 1.2.3.4 => block @4 quick
         in on em1 gre 8.8.8.8 > 1.2.3.4 => block @5 quick
         in on em0 gre 8.8.8.8 > 1.2.3.4 => pass @0
         in on vlan20 gre fe80::7 > fe80::8 => pass @0",
    );
    let facts = facts();
    let ruleset = ruleset("block from no-route\nblock to ! no-route\n", Dialect::FreeBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    let routes = Routes { entries: vec![("10.0.0.0".parse().unwrap(), 8, "em1".into())] };
    for (text, expected) in [
        ("in on em0 gre 1.1.1.1 > 2.2.2.2", "block @0"),
        ("in on em0 gre 10.1.1.1 > 2.2.2.2", "pass default"),
        ("in on em0 gre 10.1.1.1 > 10.2.2.2", "block @1"),
    ] {
        let packet = Packet::parse(text, &facts).unwrap();
        let mut states = NoStates;
        let mut moment =
            Moment { now_ns: 0, random: &mut || 0, states: &mut states, routes: &routes };
        assert_eq!(summary(&evaluator.evaluate(&packet, &mut moment)), expected, "{text}");
    }
}

#[test]
fn tos_priorities_tags_and_ways_in() {
    table(
        BOTH,
        "block all\npass proto udp tos 0x10 no state\npass proto udp tagged LAN no state\n\
         pass proto gre ! tagged LAN no state\nmatch from 10.7.0.0/16 tag SEVEN\n\
         pass proto esp tagged SEVEN no state\n",
        "in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 tos 0x10 => pass @1
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 tos 0x13 => pass @1
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 tos 0x20 => block @0
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 tag LAN => pass @2
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 tag WAN => block @0
         in on em0 gre 1.1.1.1 > 2.2.2.2 tag LAN => block @0
         in on em0 gre 1.1.1.1 > 2.2.2.2 => pass @3
         in on em0 esp 10.7.1.1 > 2.2.2.2 => pass @5 tag=SEVEN
         in on em0 esp 10.8.1.1 > 2.2.2.2 => block @0",
    );
    table(
        BOTH,
        "block all\npass out received-on em1 no state\npass out received-on egress no state\n",
        "out on em0 received-on em1 gre 1.1.1.1 > 2.2.2.2 => pass @1
         out on em1 received-on em0 gre 1.1.1.1 > 2.2.2.2 => pass @2
         out on em0 gre 1.1.1.1 > 2.2.2.2 => block @0",
    );
    let rules = "block all\npass prio 3 no state\npass prio 0 no state\n";
    table(
        BOTH,
        rules,
        "in on em0 gre 1.1.1.1 > 2.2.2.2 prio 3 => pass @1
         in on em0 gre 1.1.1.1 > 2.2.2.2 prio 0 => pass @2
         in on em0 gre 1.1.1.1 > 2.2.2.2 prio 5 => block @0",
    );
    table(FREE, rules, "in on em0 gre 1.1.1.1 > 2.2.2.2 => block @0");
    table(OPEN, rules, "in on em0 gre 1.1.1.1 > 2.2.2.2 => pass @1");
}

#[test]
fn users_systems_and_routing_domains() {
    table(
        BOTH,
        "block all\npass proto tcp user www no state\n\
         pass proto tcp to port 99 user != www no state\n\
         pass proto tcp to port 98 group 50:90 no state\n\
         pass proto tcp to port 97 user unknown no state\n",
        "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 => block @0
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 S user www => pass @1
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 S user 81 => block @0
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 => pass @2
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:98 => block @0
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:98 S group www => pass @3
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:97 => pass @4
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:97 user 5 => block @0",
    );
    table(
        BOTH,
        "block all\npass proto tcp from any os \"Linux\" no state\n\
         pass proto tcp from any os unknown to port 99 no state\n",
        "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 => block @0
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 os \"Linux 5.4\" => pass @1
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 os Linuxoid => block @0
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 => pass @2",
    );
    table(
        OPEN,
        "block all\npass on rdomain 1 no state\npass on ! rdomain 0 proto gre no state\n",
        "in on em0 gre 1.1.1.1 > 2.2.2.2 => block @0
         in on em0 esp 1.1.1.1 > 2.2.2.2 rdomain 1 => pass @1
         in on em0 gre 1.1.1.1 > 2.2.2.2 rdomain 2 => pass @2",
    );
}

#[test]
fn fragments_and_options() {
    table(
        BOTH,
        "block all\npass inet proto udp to port 53\npass inet proto tcp flags S/SA\n\
         pass inet proto esp fragment no state\npass inet proto gre\n\
         pass inet proto icmp icmp-type 8\n",
        "in on em0 fragment udp 1.1.1.1 > 2.2.2.2 => block @0
         in on em0 fragment tcp 1.1.1.1 > 2.2.2.2 => block @0
         in on em0 fragment esp 1.1.1.1 > 2.2.2.2 => pass @3
         in on em0 esp 1.1.1.1 > 2.2.2.2 => block @0
         in on em0 fragment gre 1.1.1.1 > 2.2.2.2 => pass @4
         in on em0 gre 1.1.1.1 > 2.2.2.2 => pass @4 state
         in on em0 fragment icmp 1.1.1.1 > 2.2.2.2 => block @0",
    );
    let rules = "pass proto gre no state\npass proto esp allow-opts no state\n";
    table(
        BOTH,
        rules,
        "in on em0 gre 1.1.1.1 > 2.2.2.2 options => block ip-option
         in on em0 esp 1.1.1.1 > 2.2.2.2 options => pass @1
         in on em0 ah 1.1.1.1 > 2.2.2.2 options => block ip-option",
    );
    table(
        FREE,
        rules,
        "in on em0 gre ::1 > ::2 options => pass @0
         in on em0 gre ::1 > ::2 routing-header => block ip-option",
    );
    table(
        OPEN,
        rules,
        "in on em0 gre ::1 > ::2 options => block ip-option
         in on em0 gre ::1 > ::2 routing-header => pass @0",
    );
    table(
        FREE,
        "match allow-opts\npass no state\n",
        "in on em0 gre 1.1.1.1 > 2.2.2.2 options => pass @1",
    );
}

#[test]
fn blocks_answer_as_the_protocol_has_it() {
    let rules = "set block-policy return\nblock all\nblock drop proto 60\n\
         block return-icmp inet proto udp to port 53\n\
         block return-rst (ttl 9) proto tcp to port 99\n\
         block return-icmp (host-unr, addr-unr) proto tcp to port 98\n";
    table(
        BOTH,
        rules,
        "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 => block @0 rst
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:2 => block @0 icmp(3,3)
         in on em0 udp [::1]:1 > [::2]:2 => block @0 icmp(1,4)
         in on em0 60 1.1.1.1 > 2.2.2.2 => block @1
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:53 => block @2 icmp(3,3)
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 => block @3 rst(9)
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:99 R => block @3
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:98 => block @4 icmp(3,1)
         in on em0 tcp [::1]:1 > [::2]:98 => block @4 icmp(1,3)
         in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2 R => block @0 icmp(3,3)
         in on em0 fragment udp 1.1.1.1 > 2.2.2.2 => block @0
         in on em0 icmp 1.1.1.1 > 2.2.2.2 unreach => block @0",
    );
    let echo = "in on em0 icmp 1.1.1.1 > 2.2.2.2 echoreq";
    let sctp = "in on em0 sctp 1.1.1.1:1 > 2.2.2.2:2";
    table(FREE, rules, &format!("{echo} => block @0\n{sctp} => block @0 abort"));
    let open = format!("{echo} => block @0 icmp(3,3)\n{sctp} => block @0 icmp(3,3)");
    table(OPEN, rules, &open);
}
