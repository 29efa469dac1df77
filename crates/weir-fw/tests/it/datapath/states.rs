//! Flows through the box with rules in force.

use std::time::Duration;

use weir_bpf::firewall::layout::{control, table};
use weir_net::Netlink;

use super::frames::{ETH_BYTES, Ends, Segment, fix};
use super::rig::{DROP, NEXT, OTHER_MAC, PASS, PEER_MAC, REDIRECT, Rig};

const EGRESS_DROP: i32 = 2;
const IN: u32 = 0;
const OUT: u32 = 1;

#[test]
fn a_state_lets_the_answer_back_and_nothing_else() {
    let rules =
        "block all\npass in on b0 proto udp to port 53 keep state\npass out on b1 keep state\n";
    let Some(rig) = Rig::with_rules("answer", rules) else { return };
    for ends in [Ends::new("10.0.1.2", "10.0.2.2"), Ends::new("fd00:1::2", "fd00:2::2")] {
        let back = ends.back();
        assert_eq!(rig.receive(1, &back.udp((53, 1000), b"")).action, DROP, "unasked");
        assert_eq!(rig.receive(0, &ends.udp((1000, 53), b"")).action, REDIRECT);
        assert_eq!(rig.receive(1, &back.udp((53, 1000), b"")).action, REDIRECT);
        assert_eq!(rig.receive(1, &back.udp((53, 1001), b"")).action, DROP, "another port");
        assert_eq!(rig.receive(0, &ends.udp((1000, 54), b"")).action, DROP, "another service");
    }
    assert_eq!(rig.firewall.arena().read64(control::STATE_COUNT), 2);
}

#[test]
fn both_directions_of_rules_are_asked() {
    let Some(rig) = Rig::with_rules("both", "pass\nblock out on b1\n") else { return };
    let frame = Ends::new("10.0.1.2", "10.0.2.2").udp((1000, 53), b"");
    assert_eq!(rig.receive(0, &frame).action, DROP);
    assert_eq!((rig.dropped(0, IN, "match"), rig.dropped(1, OUT, "match")), (0, 1));
    assert_eq!(rig.receive(0, &frame).action, DROP, "also with the state that the way in made");
    assert_eq!(rig.dropped(1, OUT, "match"), 2);
}

#[test]
fn a_connection_goes_through_its_handshake() {
    let rules = "block all\npass proto tcp to port 80 flags S/SA keep state\n";
    let Some(rig) = Rig::with_rules("tcp", rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let there = |sequence: u32, acknowledgement: u32, flags: u8, payload: &[u8]| {
        let segment = Segment { ports: (1000, 80), sequence, acknowledgement, flags };
        rig.receive(0, &ends.tcp(&segment, payload)).action
    };
    let back = |sequence: u32, acknowledgement: u32, flags: u8| {
        let segment = Segment { ports: (80, 1000), sequence, acknowledgement, flags };
        rig.receive(1, &ends.back().tcp(&segment, b"")).action
    };
    assert_eq!(there(100, 0, 0x10, b""), DROP, "no state yet");
    assert_eq!(there(100, 0, 0x02, b""), REDIRECT);
    assert_eq!(back(500, 101, 0x12), REDIRECT);
    assert_eq!(there(101, 501, 0x10, b""), REDIRECT);
    assert_eq!(there(101, 501, 0x18, b"hello"), REDIRECT);
    assert_eq!(back(501, 106, 0x10), REDIRECT);
    assert_eq!(there(900_000, 501, 0x18, b"x"), DROP, "far outside the window");
    assert_eq!(rig.dropped(0, IN, "state-mismatch"), 1);
}

#[test]
fn an_icmp_error_passes_with_the_flow_that_it_is_about() {
    let rules = "block all\npass in on b0 proto udp keep state\npass out on b1 keep state\n";
    let Some(rig) = Rig::with_rules("error", rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let asked = ends.udp((1000, 53), b"");
    let error = |quoted: &[u8]| {
        let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(&quoted[ETH_BYTES..]);
        let checksum = weir_wire::checksum::icmp_v4(&message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        // From a router on the way.
        let on_the_way = Ends { src: "10.0.2.77".parse().unwrap(), ..ends.back() };
        rig.receive(1, &on_the_way.message(1, &message)).action
    };
    assert_eq!(error(&asked), DROP, "nobody has sent that");
    assert_eq!(rig.receive(0, &asked).action, REDIRECT);
    assert_eq!(error(&asked), REDIRECT);
    assert_eq!(error(&ends.udp((1000, 54), b"")), DROP, "about another flow");
    assert_eq!(error(&ends.back().udp((53, 1000), b"")), DROP, "not to who sent it");
    assert_eq!(rig.dropped(1, IN, "state-mismatch"), 1);
    assert_eq!(error(&asked[..ETH_BYTES + 24]), DROP, "too little of it");
    assert_eq!(rig.dropped(1, IN, "short"), 1);
}

#[test]
fn an_echo_reply_needs_its_request() {
    let rules = "block all\npass inet proto icmp icmp-type echoreq keep state\n";
    let Some(rig) = Rig::with_rules("echo", rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let mut reply = ends.back().echo(7);
    reply[ETH_BYTES + 20] = 0;
    assert_eq!(rig.receive(1, &reply).action, DROP);
    assert_eq!(rig.receive(0, &ends.echo(7)).action, REDIRECT);
    assert_eq!(rig.receive(1, &reply).action, REDIRECT);
    reply[ETH_BYTES + 25] = 8;
    assert_eq!(rig.receive(1, &reply).action, DROP, "another identifier");
}

#[test]
fn ip_options_need_a_rule_that_allows_them() {
    let rules = "pass in proto udp to port 1 keep state\n\
                 pass in proto udp to port 2 keep state allow-opts\n";
    let Some(rig) = Rig::with_rules("options", rules) else { return };
    let with_options = |port: u16| {
        let mut frame = Ends::new("10.0.1.2", "10.0.2.2").udp((1000, port), b"");
        frame.splice(ETH_BYTES + 20..ETH_BYTES + 20, [7, 4, 4, 0]);
        frame[ETH_BYTES] = 0x46;
        frame[ETH_BYTES + 3] += 4;
        fix(&mut frame);
        frame
    };
    for round in 1..=2 {
        assert_eq!(rig.receive(0, &with_options(1)).action, DROP);
        assert_eq!(rig.dropped(0, IN, "ip-option"), round, "without and with a state");
        assert_eq!(rig.receive(0, &with_options(2)).action, PASS, "the kernel knows options");
        rig.receive(0, &Ends::new("10.0.1.2", "10.0.2.2").udp((1000, 1), b""));
    }
    let mut wrong = with_options(2);
    wrong[ETH_BYTES + 21] ^= 1;
    assert_eq!(rig.receive(0, &wrong).action, DROP);
    assert_eq!(rig.dropped(0, IN, "proto-cksum"), 1);
}

#[test]
fn a_flow_keeps_its_next_hop_until_routes_change() {
    let Some(rig) = Rig::with_rules("hop", "pass keep state\n") else { return };
    let netlink = |what: &(dyn Fn(&Netlink) + Sync)| {
        rig.inside.run(|| what(&Netlink::open().expect("netlink opens"))).unwrap();
    };
    netlink(&|netlink| {
        let gateway = Some("10.0.2.2".parse().unwrap());
        netlink.add_route("203.0.113.0/24".parse().unwrap(), gateway, "b1").unwrap();
    });
    let frame = Ends::new("10.0.1.2", "203.0.113.1").udp((1000, 2000), b"");
    for _ in 0..2 {
        assert_eq!(rig.receive(0, &frame).frame[..6], PEER_MAC[1]);
    }
    let asked = rig.table_counter(table::FIB_LOOKUPS);
    for _ in 0..10 {
        assert_eq!(rig.receive(0, &frame).frame[..6], PEER_MAC[1]);
    }
    assert_eq!(rig.table_counter(table::FIB_LOOKUPS), asked, "the state knows");
    netlink(&|netlink| {
        let gateway = Some("10.0.2.9".parse().unwrap());
        netlink.add_route("203.0.113.1/32".parse().unwrap(), gateway, "b1").unwrap();
    });
    rig.firewall.arena().write32(control::GENERATION, 2);
    for _ in 0..10 {
        assert_eq!(rig.receive(0, &frame).frame[..6], OTHER_MAC, "the very next packet");
    }
    assert_eq!(rig.table_counter(table::FIB_LOOKUPS), asked + 1);
}

/// What states and the table of next hops keep of a route is older than the rules.
#[test]
fn whether_a_next_hop_is_filtered_is_up_to_the_ruleset_of_the_packet() {
    let rules = "pass in on b0 keep state\nblock out on b1\n";
    let skips = format!("set skip on b1\n{rules}");
    let Some(rig) = Rig::with_rules("oldhop", &skips) else { return };
    let receive = |port| {
        let frame = Ends::new("10.0.1.2", "10.0.2.2").udp((port, 53), b"");
        [0; 2].map(|_| rig.receive(0, &frame).action)
    };
    assert_eq!(receive(1000), [REDIRECT; 2], "nothing is filtered where it leaves");
    rig.load(rules);
    assert_eq!(receive(1000), [DROP; 2], "the state covers the way in alone");
    assert_eq!(receive(1001), [DROP; 2], "neither by the route nor by what the state keeps of it");
    rig.load(&skips);
    assert_eq!(receive(1001), [REDIRECT; 2]);
}

#[test]
fn a_flow_to_the_box_asks_for_its_route_once() {
    let Some(rig) = Rig::with_rules("local", "pass keep state\n") else { return };
    let frame = Ends::new("10.0.1.2", "10.0.1.1").udp((1000, 2000), b"");
    for _ in 0..10 {
        assert_eq!(rig.receive(0, &frame).action, PASS);
    }
    assert!(rig.table_counter(table::FIB_LOOKUPS) <= 2);
}

#[test]
fn what_the_box_sends_is_judged_as_it_leaves() {
    let rules = "block all\npass out proto udp to port 53 keep state\n";
    let Some(rig) = Rig::with_rules("egress", rules) else { return };
    let ends = Ends::new("10.0.2.1", "10.0.2.2");
    let answer = Ends { side: 1, ..ends.back() }.udp((53, 1000), b"");
    assert_eq!(rig.receive(1, &answer).action, DROP, "unasked");
    assert_eq!(rig.send(1, &ends.udp((1000, 54), b"")).action, EGRESS_DROP);
    assert_eq!(rig.dropped(1, OUT, "match"), 1);
    assert_eq!(rig.send(1, &ends.udp((1000, 53), b"")).action, NEXT);
    assert_eq!(rig.receive(1, &answer).action, PASS);
}

#[test]
fn packets_of_rules_with_log_are_recorded() {
    let rules = "block log all\npass in log (all) on b0 proto udp to port 53 keep state\n\
                 pass out on b1 keep state\n";
    let Some(rig) = Rig::with_rules("log", rules) else { return };
    let mut reader = rig.firewall.log_reader().expect("the ring opens");
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let asked = ends.udp((1000, 53), &[5; 300]);
    rig.receive(0, &asked);
    rig.receive(0, &asked);
    rig.receive(0, &ends.udp((1000, 54), b"blocked"));
    let records = reader.read(Duration::from_secs(1)).expect("the ring is read");
    assert_eq!(records.len(), 3);
    let field =
        |record: &[u8], at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().unwrap());
    for record in &records[..2] {
        assert_eq!((field(record, 0), field(record, 4)), (1, 1), "a packet, of the first slot");
        assert_eq!(field(record, 20), 328, "its size");
        assert_eq!(u16::from_ne_bytes([record[24], record[25]]), 160, "what is kept of it");
        assert_eq!(record[26..30], [0, 0, 0, 0], "in, passed, by a rule, IPv4");
        assert_eq!(record[32..192], asked[ETH_BYTES..ETH_BYTES + 160]);
    }
    assert_eq!(records[2][26..30], [0, 1, 0, 0], "in, blocked, by a rule, IPv4");
    assert_ne!(field(&records[0], 16), field(&records[2], 16), "the rules differ");
}

/// A connection to port 80 as far as its handshake.
fn handshake(rig: &Rig, ends: &Ends, port: u16) {
    let there = |sequence: u32, acknowledgement: u32, flags: u8| {
        let segment = Segment { ports: (port, 80), sequence, acknowledgement, flags };
        rig.receive(0, &ends.tcp(&segment, b""));
    };
    there(100, 0, 0x02);
    let segment = Segment { ports: (80, port), sequence: 500, acknowledgement: 101, flags: 0x12 };
    rig.receive(1, &ends.back().tcp(&segment, b""));
    there(101, 501, 0x10);
}

/// What a source that goes over its limit tells finds room behind any number of logged packets.
#[test]
fn a_full_log_hides_no_source_that_goes_over_its_limit() {
    let rules = "table <rude> persist\nblock log all\n\
                 pass in on b0 proto tcp to port 80 keep state \
                 (max-src-conn 1, overload <rude>)\npass out on b1 keep state\n";
    let Some(rig) = Rig::with_rules("flood", rules) else { return };
    let lost = || rig.table_counter(table::LOG_LOST);
    let flood = Ends::new("10.0.1.2", "10.0.2.2").udp((1000, 54), b"blocked");
    for _ in 0..10_000 {
        if lost() > 0 {
            break;
        }
        rig.receive(0, &flood);
    }
    assert!(lost() > 0, "the ring is full, and nobody reads it");
    let mut reader = rig.firewall.overload_reader().expect("the ring opens");
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    for port in [1001, 1002] {
        handshake(&rig, &ends, port);
    }
    let over = reader.read(Duration::from_secs(1)).expect("the ring is read");
    let [record] = over[..] else { panic!("{over:?}") };
    assert_eq!(record.address.to_string(), "10.0.1.2");
}
