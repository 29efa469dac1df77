//! Addresses are translated: where packets come in and where they leave, back again, inside and
//! out of ICMP errors, and every checksum stays right.

use std::net::IpAddr;

use weir_bpf::firewall::layout::{control, table};
use weir_fw::states::View;
use weir_wire::{checksum, icmp, ipv4, ipv6, tcp, udp};

use super::frames::{ETH_BYTES, Ends, Segment, fragment};
use super::rig::{PEER_MAC, Rig};

const DROP: i32 = 1;
const PASS: i32 = 2;
const REDIRECT: i32 = 4;
const NEXT: i32 = -1;
const IN: u32 = 0;
const OUT: u32 = 1;
const NAT: &str = "nat on b1 inet from 10.0.1.0/24 to any -> 10.0.2.1\n\
                   nat on b1 inet6 from fd00:1::/64 to any -> fd00:2::1\npass keep state\n";

/// Both ends of a frame's packet. Its checksums are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    src: (IpAddr, u16),
    dst: (IpAddr, u16),
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn seen(frame: &[u8]) -> Seen {
    let bytes = &frame[ETH_BYTES..];
    if bytes[0] >> 4 == 4 {
        let packet = ipv4::Packet::new_checked(bytes).expect("a packet");
        let header = ipv4::Repr::parse(&packet).expect("the header is right");
        let ports = ports(packet.payload(), header.protocol, header.src, header.dst);
        if header.protocol == 1 {
            let right = checksum::icmp_v4(packet.payload()).to_be_bytes();
            assert_eq!(packet.payload()[2..4], right, "the checksum of ICMP");
        }
        return Seen { src: (header.src.into(), ports.0), dst: (header.dst.into(), ports.1) };
    }
    let packet = ipv6::Packet::new_checked(bytes).expect("a packet");
    let header = ipv6::Repr::parse(&packet);
    let ports = ports(packet.payload(), header.next_header, header.src, header.dst);
    if header.next_header == 58 {
        let view = icmp::Packet::new_checked(packet.payload()).expect("a message");
        icmp::Echo::parse_v6(&view, header.src, header.dst).expect("the checksum of ICMPv6");
    }
    Seen { src: (header.src.into(), ports.0), dst: (header.dst.into(), ports.1) }
}

/// The ports of a message, or the identifier of an echo twice.
fn ports<A: checksum::IpAddress>(message: &[u8], protocol: u8, src: A, dst: A) -> (u16, u16) {
    match protocol {
        6 => {
            let view = tcp::Packet::new_checked(message).expect("a segment");
            tcp::Repr::parse(&view, src, dst).expect("the checksum of TCP");
            (view.src_port(), view.dst_port())
        }
        17 => {
            let view = udp::Packet::new_checked(message).expect("a datagram");
            udp::Repr::parse(&view, src, dst).expect("the checksum of UDP");
            (view.src_port(), view.dst_port())
        }
        1 | 58 => {
            let id = u16::from_be_bytes([message[4], message[5]]);
            (id, id)
        }
        _ => (0, 0),
    }
}

/// A packet that is forwarded, as it leaves.
fn forwarded(rig: &Rig, side: usize, frame: &[u8]) -> Seen {
    let verdict = rig.receive(side, frame);
    assert_eq!(verdict.action, REDIRECT);
    assert_eq!(verdict.frame[..6], PEER_MAC[1 - side]);
    seen(&verdict.frame)
}

fn alias_count(rig: &Rig) -> u64 {
    rig.firewall.arena().read64(control::ALIAS_COUNT)
}

#[test]
fn a_source_is_translated_and_the_answer_back() {
    let Some(rig) = Rig::with_rules("nat", NAT) else { return };
    for (inside, outside, other) in
        [("10.0.1.2", "10.0.2.1", "10.0.2.2"), ("fd00:1::2", "fd00:2::1", "fd00:2::2")]
    {
        let ends = Ends::new(inside, other);
        let before = alias_count(&rig);
        let first = forwarded(&rig, 0, &ends.udp((1000, 53), b"question"));
        assert_eq!((first.src.0, first.dst), (address(outside), (address(other), 53)));
        assert!(first.src.1 >= 50_001, "{first:?}");
        for round in 0..3_u8 {
            let again = forwarded(&rig, 0, &ends.udp((1000, 53), &[round]));
            assert_eq!(again, first, "the port stays");
            let answer = Ends { side: 1, ..Ends::new(other, outside) };
            let back = forwarded(&rig, 1, &answer.udp((53, first.src.1), &[round; 3]));
            assert_eq!((back.src, back.dst), ((address(other), 53), (address(inside), 1000)));
        }
        let stranger = Ends { side: 1, ..Ends::new(other, outside) };
        let verdict = rig.receive(1, &stranger.udp((54, first.src.1), b""));
        assert_eq!(verdict.action, PASS, "another end: it is the box's own");
        assert_eq!(alias_count(&rig), before + 1);
    }
    let mut records = Vec::new();
    View::new(&rig.firewall).for_all(|record| records.push(*record));
    let inside = (address("10.0.1.2"), 1000);
    let record = records.iter().find(|record| record.ends[0] == inside).expect("it is there");
    let [None, Some(wire)] = record.wire else { panic!("{record:?}") };
    assert_eq!((wire[0].0, wire[1]), (address("10.0.2.1"), (address("10.0.2.2"), 53)));
    assert_eq!(record.packets, [4, 3]);
    assert!(record.translator[1].is_some() && record.translator[0].is_none());
}

#[test]
fn a_connection_is_followed_through_a_translation() {
    let Some(rig) = Rig::with_rules("nattcp", NAT) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let there = |sequence: u32, acknowledgement: u32, flags: u8, payload: &[u8]| {
        let segment = Segment { ports: (1000, 80), sequence, acknowledgement, flags };
        rig.receive(0, &ends.tcp(&segment, payload))
    };
    let first = there(100, 0, 0x02, b"");
    assert_eq!(first.action, REDIRECT);
    let outside = seen(&first.frame).src;
    let answers = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
    let back = |sequence: u32, acknowledgement: u32, flags: u8| {
        let segment = Segment { ports: (80, outside.1), sequence, acknowledgement, flags };
        rig.receive(1, &answers.tcp(&segment, b""))
    };
    let verdict = back(500, 101, 0x12);
    assert_eq!(verdict.action, REDIRECT);
    assert_eq!(seen(&verdict.frame).dst, (address("10.0.1.2"), 1000));
    assert_eq!(there(101, 501, 0x10, b"").action, REDIRECT);
    for round in 0..3 {
        let verdict = there(101 + 5 * round, 501, 0x18, b"hello");
        assert_eq!((verdict.action, seen(&verdict.frame).src), (REDIRECT, outside));
        let verdict = back(501, 106 + 5 * round, 0x10);
        assert_eq!(verdict.action, REDIRECT);
        assert_eq!(seen(&verdict.frame).dst, (address("10.0.1.2"), 1000));
    }
    assert_eq!(there(900_000, 501, 0x18, b"x").action, DROP, "far outside the window");
    assert_eq!(rig.dropped(0, IN, "state-mismatch"), 1);
}

#[test]
fn an_echo_has_another_identifier_outside() {
    let Some(rig) = Rig::with_rules("natecho", NAT) else { return };
    for (inside, outside, other, reply) in
        [("10.0.1.2", "10.0.2.1", "10.0.2.2", 0), ("fd00:1::2", "fd00:2::1", "fd00:2::2", 129)]
    {
        let first = forwarded(&rig, 0, &Ends::new(inside, other).echo(7));
        assert_eq!(first.src.0, address(outside));
        let id = first.src.1;
        let back = Ends { side: 1, ..Ends::new(other, outside) };
        let mut frame = back.echo(id);
        let header_bytes = if reply == 0 { 20 } else { 40 };
        let at = ETH_BYTES + header_bytes;
        frame[at] = reply;
        // The type is the upper byte of its word: 8 or 1 more, or less.
        let sum = u16::from_be_bytes([frame[at + 2], frame[at + 3]]);
        let sum = if reply == 0 { add(sum, 0x0800) } else { add(sum, !0x0100) };
        frame[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
        let answer = forwarded(&rig, 1, &frame);
        assert_eq!((answer.dst, answer.src.0), ((address(inside), 7), address(other)));
    }
}

fn add(one: u16, two: u16) -> u16 {
    let sum = u32::from(one) + u32::from(two);
    u16::try_from(sum % 0xffff).expect("it is folded")
}

#[test]
fn a_destination_is_translated_and_the_answer_back() {
    let rules = "rdr on b1 proto udp from any to 10.0.2.1 port 2000:2999 -> 10.0.1.2 port 3000:*\n\
                 pass keep state\n";
    let Some(rig) = Rig::with_rules("rdr", rules) else { return };
    let ends = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
    let frame = ends.udp((700, 2345), b"x");
    for _ in 0..3 {
        let there = forwarded(&rig, 1, &frame);
        assert_eq!(there.dst, (address("10.0.1.2"), 3345), "the distance stays");
        assert_eq!(there.src, (address("10.0.2.2"), 700));
        let answer = Ends::new("10.0.1.2", "10.0.2.2").udp((3345, 700), b"y");
        let back = forwarded(&rig, 0, &answer);
        assert_eq!((back.src, back.dst), ((address("10.0.2.1"), 2345), (address("10.0.2.2"), 700)));
    }
    assert_eq!(rig.receive(1, &ends.udp((700, 3000), b"x")).action, PASS, "another port");
    let straight = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.1.2") };
    let verdict = rig.receive(1, &straight.udp((700, 3345), b"x"));
    assert_eq!(verdict.action, DROP, "the inner host spoken to directly by the same port");
    assert_eq!(rig.dropped(1, IN, "state-insert"), 1);
}

#[test]
fn a_hairpin_is_both_at_once() {
    let rules = "rdr on b0 inet proto udp from any to 10.0.2.1 port 80 -> 10.0.1.77\n\
                 nat on b0 inet proto udp from 10.0.1.0/24 to 10.0.1.77 -> 10.0.1.1\n\
                 pass keep state\n";
    let Some(rig) = Rig::with_rules("hairpin", rules) else { return };
    let neighbour = || {
        let netlink = weir_net::Netlink::open().expect("netlink opens");
        netlink.add_neighbour("b0", address("10.0.1.77"), PEER_MAC[0]).expect("a neighbour");
    };
    rig.inside.run(neighbour).expect("the namespace is entered");
    for _ in 0..3 {
        let verdict = rig.receive(0, &Ends::new("10.0.1.2", "10.0.2.1").udp((1000, 80), b"x"));
        assert_eq!(verdict.action, REDIRECT);
        let there = seen(&verdict.frame);
        assert_eq!((there.src.0, there.dst), (address("10.0.1.1"), (address("10.0.1.77"), 80)));
        let answer = Ends::new("10.0.1.77", "10.0.1.1").udp((80, there.src.1), b"y");
        let verdict = rig.receive(0, &answer);
        assert_eq!(verdict.action, REDIRECT);
        let back = seen(&verdict.frame);
        assert_eq!(back.src, (address("10.0.2.1"), 80));
        assert_eq!(back.dst, (address("10.0.1.2"), 1000));
    }
    assert_eq!(alias_count(&rig), 2, "one state with two wire keys");
    assert_eq!(rig.firewall.arena().read64(control::STATE_COUNT), 1);
}

#[test]
fn openbsd_rules_translate_as_they_match() {
    let rules = "match out on b1 inet from 10.0.1.0/24 nat-to 10.0.2.9\n\
                 pass in keep state\n\
                 block out\n\
                 pass out on b1 inet from 10.0.2.9\n\
                 pass in on b1 inet proto udp to 10.0.2.1 port 53 rdr-to 10.0.1.2 port 5353\n\
                 pass out on b0\n";
    let Some(rig) = Rig::with_openbsd_rules("openbsd", rules) else { return };
    let there = forwarded(&rig, 0, &Ends::new("10.0.1.2", "10.0.2.2").udp((1000, 53), b""));
    assert_eq!(there.src.0, address("10.0.2.9"), "the rules behind it saw that");
    let query = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
    let inside = forwarded(&rig, 1, &query.udp((900, 53), b""));
    assert_eq!(inside.dst, (address("10.0.1.2"), 5353));
    let answer = Ends::new("10.0.1.2", "10.0.2.2").udp((5353, 900), b"");
    assert_eq!(forwarded(&rig, 0, &answer).src, (address("10.0.2.1"), 53));
}

#[test]
fn binat_translates_whole_networks_both_ways() {
    let rules = "binat on b1 from 10.0.1.0/28 to any -> 192.0.2.16/28\npass keep state\n";
    let Some(rig) = Rig::with_rules("binat", rules) else { return };
    let there = forwarded(&rig, 0, &Ends::new("10.0.1.2", "10.0.2.2").udp((1000, 53), b""));
    assert_eq!(there.src, (address("192.0.2.18"), 1000));
    let other = Ends { side: 1, ..Ends::new("10.0.2.2", "192.0.2.18") };
    let inside = forwarded(&rig, 1, &other.udp((53, 2000), b""));
    assert_eq!(inside.dst, (address("10.0.1.2"), 2000));
}

#[test]
fn an_icmp_error_is_translated_inside_and_out() {
    let Some(rig) = Rig::with_rules("naterror", NAT) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let verdict = rig.receive(0, &ends.udp((1000, 53), b"1234"));
    assert_eq!(verdict.action, REDIRECT);
    let outside = seen(&verdict.frame).src;
    let error = |quoted: &[u8], from: &Ends| {
        let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(quoted);
        let checksum = checksum::icmp_v4(&message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        from.message(1, &message)
    };
    // A router on the way tells of what it has seen.
    let router = Ends { side: 1, ..Ends::new("10.0.2.77", "10.0.2.1") };
    let verdict = rig.receive(1, &error(&verdict.frame[ETH_BYTES..], &router));
    assert_eq!(verdict.action, REDIRECT);
    let error_seen = seen(&verdict.frame);
    assert_eq!((error_seen.src.0, error_seen.dst.0), (address("10.0.2.77"), address("10.0.1.2")));
    let quoted = &verdict.frame[ETH_BYTES + 28..];
    let packet = ipv4::Packet::new_checked(quoted).expect("the quoted packet");
    let header = ipv4::Repr::parse(&packet).expect("its header's checksum is right");
    assert_eq!((header.src.into(), header.dst.into()), (address("10.0.1.2"), address("10.0.2.2")));
    assert_eq!(packet.payload()[..4], [3, 0xe8, 0, 53]);
    // The inner host tells of an answer.
    let answer = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
    let inside = rig.receive(1, &answer.udp((53, outside.1), b"5678"));
    let verdict = rig.receive(0, &error(&inside.frame[ETH_BYTES..], &ends));
    assert_eq!(verdict.action, REDIRECT);
    let error_seen = seen(&verdict.frame);
    assert_eq!((error_seen.src.0, error_seen.dst.0), (address("10.0.2.1"), address("10.0.2.2")));
    let quoted = &verdict.frame[ETH_BYTES + 28..];
    let packet = ipv4::Packet::new_checked(quoted).expect("the quoted packet");
    let header = ipv4::Repr::parse(&packet).expect("its header's checksum is right");
    assert_eq!(IpAddr::from(header.dst), address("10.0.2.1"));
    assert_eq!(packet.payload()[2..4], outside.1.to_be_bytes());
}

#[test]
fn later_fragments_have_the_addresses_of_their_first_one() {
    let Some(rig) = Rig::with_rules("natfrag", NAT) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let mut message = vec![0; 1000];
    message[..8].copy_from_slice(&[3, 0xe8, 0, 53, 0x0b, 0xb8, 0, 0]);
    for (at, more) in [(0, true), (1000, true), (2000, false)] {
        let verdict = rig.receive(0, &fragment(&ends, at, more, &message));
        let header = &verdict.frame[ETH_BYTES..ETH_BYTES + 20];
        assert_eq!((verdict.action, &header[12..16]), (REDIRECT, &[10, 0, 2, 1][..]));
        let right = checksum::ipv4_header(header).to_be_bytes();
        assert_eq!(header[10..12], right, "the header's checksum");
    }
}

#[test]
fn a_free_port_is_found_among_few_and_a_full_range_is_told() {
    let rules = "nat on b1 inet proto udp -> 10.0.2.1 port 6000:6003\npass keep state\n";
    let Some(rig) = Rig::with_rules("natports", rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let mut given: Vec<u16> =
        (0..4).map(|flow| forwarded(&rig, 0, &ends.udp((1000 + flow, 53), b"")).src.1).collect();
    given.sort_unstable();
    assert_eq!(given, [6000, 6001, 6002, 6003]);
    assert_eq!(rig.receive(0, &ends.udp((1004, 53), b"")).action, DROP);
    assert_eq!(rig.dropped(1, OUT, "map-failed"), 1);
    let other = forwarded(&rig, 0, &ends.udp((1004, 54), b""));
    assert!((6000..=6003).contains(&other.src.1), "for another end they are free");
}

/// 60,000 of 64,512 ports are in use: 14 have to be looked at on average, and 256 at most.
#[test]
fn a_free_port_is_found_in_bounded_time_when_most_are_taken() {
    const FLOW_COUNT: u16 = 60_000;
    const PROBES_MAX: u64 = 256;
    let rules = "nat on b1 inet proto udp -> 10.0.2.1 port 1024:65535\npass keep state\n";
    let Some(rig) = Rig::with_room("natmany", 1 << 16, rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let mut given = std::collections::HashSet::new();
    for flow in 1..=FLOW_COUNT {
        let verdict = rig.receive(0, &ends.udp((flow, 53), b""));
        assert_eq!(verdict.action, REDIRECT, "flow {flow}");
        let port = seen(&verdict.frame).src.1;
        assert!(port >= 1024 && given.insert(port), "port {port} of flow {flow}");
    }
    let before = rig.table_counter(table::PORT_PROBES);
    for flow in 1..=100 {
        let other = Ends::new("10.0.1.3", "10.0.2.2").udp((flow, 53), b"");
        assert_eq!(rig.receive(0, &other).action, REDIRECT);
    }
    let probes = rig.table_counter(table::PORT_PROBES) - before;
    assert!((100..100 * PROBES_MAX).contains(&probes), "{probes}");
    assert_eq!(alias_count(&rig), u64::from(FLOW_COUNT) + 100);
}

#[test]
fn what_is_not_translated_says_so() {
    let rules = "no nat on b1 proto udp to port 53\n\
                 nat pass on b1 inet proto udp -> 10.0.2.9 static-port\n\
                 block out on b1 proto udp to port 80\npass keep state\n";
    let Some(rig) = Rig::with_rules("nonat", rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    assert_eq!(forwarded(&rig, 0, &ends.udp((1000, 53), b"")).src, (address("10.0.1.2"), 1000));
    assert_eq!(forwarded(&rig, 0, &ends.udp((1000, 80), b"")).src, (address("10.0.2.9"), 1000));
    let other = Ends::new("10.0.1.3", "10.0.2.2");
    assert_eq!(rig.receive(0, &other.udp((1000, 80), b"")).action, DROP, "the port is taken");
    assert_eq!(rig.dropped(1, OUT, "map-failed"), 1);
}

#[test]
fn what_a_reset_answers_keeps_its_ends() {
    let rules = "rdr on b1 proto tcp to 10.0.2.1 port 80 -> 10.0.1.2\n\
                 block return out on b0\npass in keep state\n";
    let Some(rig) = Rig::with_rules("natreset", rules) else { return };
    let ends = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
    let segment = Segment { ports: (700, 80), sequence: 1, acknowledgement: 0, flags: 2 };
    let verdict = rig.receive(1, &ends.tcp(&segment, b""));
    assert_eq!(verdict.action, REDIRECT, "it is sent back");
    let reset = seen(&verdict.frame);
    assert_eq!((reset.src, reset.dst), ((address("10.0.2.1"), 80), (address("10.0.2.2"), 700)));
}

#[test]
fn the_box_is_translated_where_the_kernel_sends() {
    let rules = "nat on b1 inet proto udp from 10.0.2.1 to any port 53 -> 10.0.2.9\n\
                 pass keep state\n";
    let Some(rig) = Rig::with_rules("natbox", rules) else { return };
    let ends = Ends::new("10.0.2.1", "10.0.2.2");
    let verdict = rig.send(1, &ends.udp((1000, 53), b"question"));
    assert_eq!(verdict.action, NEXT);
    let there = seen(&verdict.frame);
    assert_eq!(there.src.0, address("10.0.2.9"));
    let answer = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.9") };
    let verdict = rig.receive(1, &answer.udp((53, there.src.1), b"answer"));
    assert_eq!(verdict.action, PASS, "the kernel gets it");
    assert_eq!(seen(&verdict.frame).dst, (address("10.0.2.1"), 1000), "as it knows itself");
}

/// What ends takes its wire key along, and a reload leaves both.
#[test]
fn a_translation_outlives_a_reload_and_ends_with_its_state() {
    let Some(rig) = Rig::with_rules("natreload", NAT) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let first = forwarded(&rig, 0, &ends.udp((1000, 53), b""));
    rig.load("pass keep state\n");
    assert_eq!(forwarded(&rig, 0, &ends.udp((1000, 53), b"")), first);
    let other = forwarded(&rig, 0, &ends.udp((1001, 53), b""));
    assert_eq!(other.src, (address("10.0.1.2"), 1001), "no rule says it any more");
    let mode = weir_bpf::firewall::sweep::Mode::Kill(Default::default());
    let swept = rig.firewall.sweep_all(mode).expect("the program runs");
    assert_eq!(swept.removed_count, 2);
    assert_eq!(alias_count(&rig), 0);
    let answer = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
    let verdict = rig.receive(1, &answer.udp((53, first.src.1), b""));
    assert_eq!(verdict.action, PASS, "nobody's: the box's own");
    assert_eq!(rig.table_counter(table::TRANSLATIONS), 1);
}
