//! Addresses are translated: where packets come in and where they leave, back again, inside and
//! out of ICMP errors, and every checksum stays right.

use std::net::IpAddr;

use weir_bpf::firewall::layout::{INTERFACE_VETH, control, interface, table};
use weir_bpf::firewall::sweep::{self, Filter, Mode};
use weir_fw::compile::known::Known;
use weir_fw::engine::counters::{live_counts, of_rule};
use weir_fw::show::rules::RuleCounts;
use weir_fw::states::View;
use weir_rules::Dialect;
use weir_wire::{checksum, icmp, ipv4, ipv6, tcp, udp};

use super::frames::{ETH_BYTES, Ends, Segment, fragment};
use super::rig::{DROP, NEXT, PASS, PEER_MAC, REDIRECT, Rig, SLOT};

const IN: u32 = 0;
const OUT: u32 = 1;
const NAT: &str = "nat on b1 inet from 10.0.1.0/24 to any -> 10.0.2.1\n\
                   nat on b1 inet6 from fd00:1::/64 to any -> fd00:2::1\npass keep state\n";

/// Both ends of a frame's packet. Its checksums are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) src: (IpAddr, u16),
    pub(super) dst: (IpAddr, u16),
}

pub(super) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(super) fn seen(frame: &[u8]) -> Seen {
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

pub(super) fn alias_count(rig: &Rig) -> u64 {
    rig.firewall.arena().read64(control::ALIAS_COUNT)
}

/// Ends states; gives how many.
pub(super) fn kill(rig: &Rig, filter: Filter) -> u64 {
    rig.firewall.sweep_all(Mode::Kill(filter)).expect("the program runs").removed_count
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
    let whole = |quoted: &[u8]| seen(&[&verdict.frame[..ETH_BYTES], quoted].concat());
    assert_eq!(whole(quoted).src.1, 1000, "and so is the checksum of the datagram");
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
    assert_eq!(seen(&[&inside.frame[..ETH_BYTES], quoted].concat()).dst.1, outside.1);
    // TCP and echoes, whole, and as little as a router has to quote.
    let syn = Segment { ports: (1234, 80), sequence: 7, acknowledgement: 0, flags: 2 };
    for (what, packet) in
        [("tcp", ends.tcp(&syn, b"")), ("echo", ends.message(1, &[8, 0, 0xf7, 0xf8, 0, 7, 0, 0]))]
    {
        let out = rig.receive(0, &packet);
        assert_eq!(out.action, REDIRECT, "{what}");
        for quoted_bytes in [out.frame.len() - ETH_BYTES, 28] {
            let quoted = &out.frame[ETH_BYTES..ETH_BYTES + quoted_bytes];
            let verdict = rig.receive(1, &error(quoted, &router));
            assert_eq!(verdict.action, REDIRECT, "{what}");
            seen(&verdict.frame);
            let back = &verdict.frame[ETH_BYTES + 28..ETH_BYTES + 28 + quoted_bytes];
            if back.len() == packet.len() - ETH_BYTES {
                // But for the TTL, which the firewall has decremented.
                assert_eq!(back[20..], packet[ETH_BYTES + 20..], "{what}");
            }
        }
    }
}

#[test]
fn an_icmpv6_error_is_translated_inside_and_out() {
    let Some(rig) = Rig::with_rules("naterror6", NAT) else { return };
    let ends = Ends::new("fd00:1::2", "fd00:2::2");
    let message = |ends: &Ends, text: &[u8]| {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (ends.src, ends.dst) else { panic!("IPv6") };
        let mut text = text.to_vec();
        let checksum = checksum::icmp_v6(src, dst, &text);
        text[2..4].copy_from_slice(&checksum.to_be_bytes());
        ends.message(58, &text)
    };
    let router = Ends { side: 1, ..Ends::new("fd00:2::77", "fd00:2::1") };
    for packet in [ends.udp((1000, 53), b"1234"), message(&ends, &[128, 0, 0, 0, 0, 7, 0, 0])] {
        let out = rig.receive(0, &packet);
        assert_eq!(out.action, REDIRECT);
        let error = [&[1, 4, 0, 0, 0, 0, 0, 0], &out.frame[ETH_BYTES..]].concat();
        let verdict = rig.receive(1, &message(&router, &error));
        assert_eq!(verdict.action, REDIRECT);
        let seen = ipv6::Packet::new_checked(&verdict.frame[ETH_BYTES..]).expect("a packet");
        let header = ipv6::Repr::parse(&seen);
        assert_eq!(IpAddr::from(header.dst), address("fd00:1::2"));
        let right = checksum::icmp_v6(header.src, header.dst, seen.payload()).to_be_bytes();
        assert_eq!(seen.payload()[2..4], right, "the checksum of the error");
        let quoted = &verdict.frame[ETH_BYTES + 48..];
        // But for the hop limit.
        assert_eq!(quoted[8..], packet[ETH_BYTES + 8..]);
    }
}

#[test]
fn a_fragment_that_overtakes_its_first_one_does_not_leave_untranslated() {
    let openbsd = "match out on b1 inet from 10.0.1.0/24 nat-to 10.0.2.1\n\
                   match in on b1 inet to 10.0.2.1 rdr-to 10.0.1.2\npass\n";
    let freebsd = "nat on b1 inet from 10.0.1.0/24 -> 10.0.2.1\n\
                   rdr on b1 inet from any to 10.0.2.1 -> 10.0.1.2\npass\n";
    let mut message = vec![0; 1000];
    message[..8].copy_from_slice(&[3, 0xe8, 0, 53, 0x07, 0xd0, 0, 0]);
    for (dialect, rules) in [(Dialect::FreeBsd, freebsd), (Dialect::OpenBsd, openbsd)] {
        let Some(rig) = Rig::with_rules("natlate", "pass\n") else { return };
        rig.load_as(dialect, rules);
        let out = Ends::new("10.0.1.2", "10.0.2.2");
        let back = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
        for (side, direction, ends) in [(0, OUT, &out), (1, IN, &back)] {
            let other = if direction == OUT { 1 } else { side };
            let late = fragment(ends, 1000, false, &message);
            assert_eq!(rig.receive(side, &late).action, DROP, "{dialect:?}");
            assert_eq!(rig.dropped(other, direction, "map-failed"), 1, "{dialect:?}");
            // In their order they go.
            let first = fragment(ends, 0, true, &message);
            for frame in [&first, &late] {
                let verdict = rig.receive(side, frame);
                assert_eq!(verdict.action, REDIRECT, "{dialect:?}");
                let header = &verdict.frame[ETH_BYTES..ETH_BYTES + 20];
                let translated = if direction == OUT { &header[12..16] } else { &header[16..20] };
                let address = if direction == OUT { [10, 0, 2, 1] } else { [10, 0, 1, 2] };
                assert_eq!(translated, address, "{dialect:?}");
            }
        }
    }
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
    assert_eq!(kill(&rig, Filter::default()), 2);
    assert_eq!(alias_count(&rig), 0);
    let answer = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
    let verdict = rig.receive(1, &answer.udp((53, first.src.1), b""));
    assert_eq!(verdict.action, PASS, "nobody's: the box's own");
    assert_eq!(rig.table_counter(table::TRANSLATIONS), 1);
}

/// What the rule that begins with some words has counted, states that live included.
pub(super) fn counts(rig: &Rig, known: &Known, words: &str) -> RuleCounts {
    let mut rules = known.rules.iter();
    let found = rules.find(|(key, _)| key.text.starts_with(words));
    let (_, id) = found.unwrap_or_else(|| panic!("no rule `{words}`: {:?}", known.rules));
    let mut counts = of_rule(&rig.firewall, known, *id);
    if let Some(live) = live_counts(&rig.firewall).get(id) {
        for direction in 0..2 {
            counts.packet_count[direction] += live.packet_count[direction];
            counts.size_bytes[direction] += live.size_bytes[direction];
        }
    }
    counts
}

/// Checks packets in and out of rules, and that each has had one state, while that lives and when
/// it has ended.
fn assert_counts(rig: &Rig, known: &Known, expected: &[(&str, [u64; 2])]) {
    let check = |state_count: u64| {
        for (words, packets) in expected {
            let found = counts(rig, known, words);
            assert_eq!(found.packet_count, *packets, "{words}: {found:?}");
            let bytes = packets.map(|count| count * 29);
            assert_eq!(found.size_bytes, bytes, "{words}: {found:?}");
            assert_eq!((found.state_count, found.created_count), (state_count, 1), "{words}");
        }
    };
    check(1);
    kill(rig, Filter::default());
    check(0);
}

/// Three packets there, two back.
fn talk(rig: &Rig, inside: &str) {
    let ends = Ends::new(inside, "10.0.2.2");
    let outside = forwarded(rig, 0, &ends.udp((1000, 53), b"x")).src;
    let back = Ends { side: 1, ..Ends::new("10.0.2.2", &outside.0.to_string()) };
    for _ in 0..2 {
        forwarded(rig, 0, &ends.udp((1000, 53), b"x"));
        rig.receive(1, &back.udp((53, outside.1), b"y"));
    }
}

#[test]
fn rules_count_what_they_translate_once_and_for_all() {
    let rules = "nat on b1 inet proto udp -> 10.0.2.1\npass in keep state\npass out no state\n";
    let Some(rig) = Rig::with_rules("natcount", rules) else { return };
    let known = rig.load(rules);
    talk(&rig, "10.0.1.2");
    let expected = [("nat on b1", [2, 3]), ("pass in", [3, 2]), ("pass out", [2, 3])];
    assert_counts(&rig, &known, &expected);
}

#[test]
fn a_rule_that_translates_and_passes_has_one_state() {
    let rules = "match out on b1 inet proto udp from 10.0.1.3 nat-to 10.0.2.9\npass in\n\
                 pass out on b1 inet proto udp from 10.0.1.2 nat-to 10.0.2.1\n\
                 pass out on b1 inet proto udp from 10.0.2.9\n";
    let Some(rig) = Rig::with_rules("natonce", "pass\n") else { return };
    let known = rig.load_as(Dialect::OpenBsd, rules);
    talk(&rig, "10.0.1.2");
    let by_pass = ("pass out on b1 inet proto udp from 10.0.1.2", [2, 3]);
    assert_counts(&rig, &known, &[by_pass, ("pass in", [3, 2])]);
    let known = rig.load_as(Dialect::OpenBsd, rules);
    talk(&rig, "10.0.1.3");
    let by_match = ("match out on b1", [2, 3]);
    let then = ("pass out on b1 inet proto udp from 10.0.2.9", [2, 3]);
    assert_counts(&rig, &known, &[by_match, then, ("pass in", [3, 2])]);
}

#[test]
fn states_end_by_the_address_that_the_world_sees() {
    let rules = "nat on b1 inet from 10.0.1.2 to any -> 10.0.2.1\n\
                 nat on b1 inet from 10.0.1.3 to any -> 10.0.2.9\n\
                 nat on b1 inet6 -> fd00:2::1\n\
                 rdr on b1 inet proto udp to 10.0.2.1 port 53 -> 10.0.1.2\npass keep state\n";
    let Some(rig) = Rig::with_rules("natkill", rules) else { return };
    let open = || {
        for port in 1000..1005 {
            forwarded(&rig, 0, &Ends::new("10.0.1.2", "10.0.2.2").udp((port, 53), b""));
        }
        forwarded(&rig, 0, &Ends::new("10.0.1.3", "10.0.2.2").udp((1000, 53), b""));
        forwarded(&rig, 0, &Ends::new("fd00:1::2", "fd00:2::2").udp((1000, 53), b""));
        let query = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.2.1") };
        forwarded(&rig, 1, &query.udp((900, 53), b""));
    };
    let outside = |address: &str, bits: usize| {
        let (mut source, ip_version) = (sweep::Ends::default(), if bits > 32 { 6 } else { 4 });
        match address.parse().expect("an address") {
            IpAddr::V4(address) => source.address[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => source.address = address.octets(),
        }
        source.mask[..bits / 8].fill(0xff);
        Filter { ip_version, source, is_outside: true, ..Filter::default() }
    };
    open();
    assert_eq!(alias_count(&rig), 8);
    assert_eq!(kill(&rig, outside("10.0.1.2", 32)), 0, "it is inside");
    assert_eq!(kill(&rig, outside("10.0.2.2", 32)), 0, "it is not translated");
    assert_eq!(kill(&rig, outside("10.0.2.1", 32)), 6, "in one sweep");
    assert_eq!(kill(&rig, outside("fd00:2::1", 128)), 1);
    assert_eq!((kill(&rig, outside("10.0.2.0", 24)), alias_count(&rig)), (1, 0));
    open();
    let mut redirected = outside("10.0.2.1", 32);
    redirected.source.port = 53;
    assert_eq!(kill(&rig, redirected), 1, "by its port outside");
}

/// Slots that are in use beside the buckets.
fn slot_count(rig: &Rig) -> u32 {
    let arena = rig.firewall.arena();
    arena.read32(control::FRESH_COUNT) - arena.read32(control::FREE_COUNT)
}

#[test]
fn a_state_that_a_limit_refuses_leaves_no_alias() {
    let rules = "nat on b1 inet proto udp -> 10.0.2.1 port 6000\n\
                 nat on b1 inet6 proto udp -> fd00:2::1 port 6000\n\
                 pass in keep state\npass out inet keep state (max 1)\n\
                 pass out inet6 keep state (max 1)\n";
    let Some(rig) = Rig::with_rules("natmax", rules) else { return };
    let pairs = [("10.0.1.2", "10.0.2.2"), ("fd00:1::2", "fd00:2::2")];
    for (inside, other) in pairs {
        forwarded(&rig, 0, &Ends::new(inside, other).udp((1000, 53), b""));
    }
    let translations = rig.table_counter(table::TRANSLATIONS);
    for round in 1..=20 {
        let mut used = Vec::new();
        for (inside, other) in pairs {
            let frame = Ends::new(inside, other).udp((1001, 54), b"");
            assert_eq!(rig.receive(0, &frame).action, DROP);
            used.push(slot_count(&rig));
            assert_eq!(rig.receive(0, &frame).action, DROP);
            used.push(slot_count(&rig));
        }
        assert_eq!(alias_count(&rig), 2);
        assert_eq!((used[0], used[2]), (used[1], used[3]), "round {round}");
        assert_eq!(rig.dropped(1, OUT, "state-limit"), 4 * round);
    }
    let made = rig.table_counter(table::TRANSLATIONS) - translations;
    assert_eq!(made, 80, "each of them had an alias");
}

/// Wherever memory ends, in the middle of a flow's lines too: what ends gives all of it back.
#[test]
fn a_full_table_loses_no_slot() {
    let Some(rig) = Rig::with_room("natfull", 64, NAT) else { return };
    for round in 0..3 {
        let (mut passed, mut dropped) = (0, 0);
        for flow in 0..200 {
            for (inside, other) in [("10.0.1.2", "10.0.2.2"), ("fd00:1::2", "fd00:2::2")] {
                let frame = Ends::new(inside, other).udp((1000 + flow, 53), b"");
                match rig.receive(0, &frame).action {
                    REDIRECT => passed += 1,
                    action => {
                        assert_eq!(action, DROP);
                        dropped += 1;
                    }
                }
            }
        }
        assert!(passed > 10 && dropped > 10, "round {round}: {passed} passed, {dropped} dropped");
        assert!(rig.dropped(0, IN, "memory") + rig.dropped(1, OUT, "memory") > 0);
        assert!(kill(&rig, Filter::default()) >= passed);
        // What had no room in the notes of the first one.
        rig.firewall.sweep_all(Mode::Expire).expect("the program runs");
        assert_eq!((slot_count(&rig), alias_count(&rig)), (0, 0), "round {round}");
    }
}

#[test]
fn where_nothing_is_filtered_nothing_is_translated() {
    let Some(rig) = Rig::with_rules("natskip", NAT) else { return };
    let frame = Ends::new("10.0.1.2", "10.0.2.2").udp((1000, 53), b"");
    for _ in 0..3 {
        assert_eq!(forwarded(&rig, 0, &frame).src.0, address("10.0.2.1"));
    }
    rig.load(&format!("set skip on b1\n{NAT}"));
    for _ in 0..3 {
        let there = forwarded(&rig, 0, &frame);
        assert_eq!(there.src, (address("10.0.1.2"), 1000), "its state is there, and b1 skipped");
    }
}

#[test]
fn a_pool_in_turn_goes_on_where_no_port_is_free() {
    let rules = "nat on b1 inet proto udp -> { 10.0.2.1, 10.0.2.9 } port 6000 round-robin\n\
                 pass keep state\n";
    let Some(rig) = Rig::with_rules("natturn", rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let given = |flow: u16, port: u16| {
        let there = forwarded(&rig, 0, &ends.udp((flow, port), b""));
        assert_eq!(there.src.1, 6000);
        there.src.0.to_string()
    };
    assert_eq!([given(1000, 53), given(1001, 53)], ["10.0.2.1", "10.0.2.9"], "in turn");
    assert_eq!(rig.receive(0, &ends.udp((1002, 53), b"")).action, DROP, "both are taken");
    assert_eq!(rig.dropped(1, OUT, "map-failed"), 1);
    assert_eq!([given(1003, 54), given(1004, 55)], ["10.0.2.9", "10.0.2.1"]);
    assert_eq!(given(1005, 54), "10.0.2.1", "it was the other one's turn, whose port is taken");
}

#[test]
fn weights_are_turns_of_a_pool() {
    let pool = "{ 10.0.2.1 weight 3, 10.0.2.9 } round-robin";
    let rules = &format!("match out on b1 inet proto udp nat-to {pool}\npass\n");
    let Some(rig) = Rig::with_openbsd_rules("natweight", rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let given: Vec<bool> = (1000..1008)
        .map(|flow| forwarded(&rig, 0, &ends.udp((flow, 53), b"")).src.0 == address("10.0.2.9"))
        .collect();
    assert_eq!(given, [false, false, false, true, false, false, false, true]);
}

/// Where a query to the box's port 53 from somebody outside is sent.
fn redirected(rig: &Rig, from: &str, port: u16) -> String {
    let query = Ends { side: 1, ..Ends::new(from, "10.0.2.1") };
    seen(&rig.receive(1, &query.udp((port, 53), b"")).frame).dst.0.to_string()
}

#[test]
fn a_table_gives_the_addresses_of_a_pool() {
    let rules = "table <servers> { 10.0.1.2, 10.0.1.7, !10.0.1.9 }\n\
                 rdr on b1 inet proto udp to 10.0.2.1 port 53 -> <servers>\npass keep state\n";
    let Some(rig) = Rig::with_rules("nattable", rules) else { return };
    let given = [1000, 1001, 1002].map(|port| redirected(&rig, "10.0.2.2", port));
    assert_eq!(given, ["10.0.1.2", "10.0.1.7", "10.0.1.2"]);
}

#[test]
fn a_source_keeps_its_address_of_a_sticky_pool() {
    let rules = "rdr on b1 inet proto udp to 10.0.2.1 port 53 -> { 10.0.1.2, 10.0.1.7 } \
                 round-robin sticky-address\npass keep state\n";
    let Some(rig) = Rig::with_rules("natsticky", rules) else { return };
    let mut given = std::collections::BTreeSet::new();
    for host in 2..30 {
        let source = format!("10.0.2.{host}");
        let first = redirected(&rig, &source, 1000);
        kill(&rig, Filter::default());
        for port in 1000..1004 {
            assert_eq!(redirected(&rig, &source, port), first, "{source}");
        }
        given.insert(first);
    }
    assert_eq!(given.into_iter().collect::<Vec<_>>(), ["10.0.1.2", "10.0.1.7"]);
}

/// A segment over IPv4 whose right checksum is what stands in the place of one that is missing: the
/// sum of the pseudo-header.
fn ambiguous(ends: &Ends, segment: &Segment) -> Vec<u8> {
    let is_so = |frame: &Vec<u8>| {
        let packet = &frame[ETH_BYTES..];
        let half = |at: usize| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        let bytes = u32::try_from(packet.len() - 20).expect("it is short");
        let sum: u32 = (12..20).step_by(2).map(half).sum::<u32>() + 6 + bytes;
        half(36) == (sum & 0xffff) + (sum >> 16)
    };
    let tried = (0..=u16::MAX).map(|word| ends.tcp(segment, &word.to_be_bytes()));
    tried.into_iter().find(is_so).expect("each checksum comes up")
}

#[test]
fn a_right_checksum_that_looks_missing_stays_right() {
    let Some(rig) = Rig::with_rules("ambiguous", NAT) else { return };
    let at = rig.firewall.regions().interfaces.at + SLOT[0] * interface::SIZE_BYTES;
    let arena = rig.firewall.arena();
    let flags = arena.read32(at + interface::FLAGS);
    arena.write32(at + interface::FLAGS, flags | INTERFACE_VETH);
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let syn = Segment { ports: (1000, 80), flags: 0x02, ..Segment::default() };
    assert_eq!(rig.receive(0, &ends.tcp(&syn, &[])).action, REDIRECT);
    let data = Segment { sequence: 1, flags: 0x10, ..syn };
    let verdict = rig.receive(0, &ambiguous(&ends, &data));
    assert_eq!(verdict.action, REDIRECT);
    assert_eq!(seen(&verdict.frame).src.0, address("10.0.2.1"));
    // One that is missing is the kernel's to make.
    let mut missing = ambiguous(&ends, &data);
    let last = missing.len() - 1;
    missing[last] ^= 1;
    assert_eq!(rig.receive(0, &missing).action, PASS);
}
