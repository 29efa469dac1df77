//! `af-to`: packets leave in the other family, and come back; the checksums are right.

use std::net::IpAddr;

use weir_bpf::firewall::layout::{
    INTERFACE_ATTACHED, INTERFACE_PRESENT, control, interface, table,
};
use weir_bpf::firewall::sweep::{Ends as Selected, Filter};
use weir_fw::states::View;
use weir_rules::Dialect;
use weir_wire::{checksum, ipv4, ipv6};

use super::frames::{ACK, ETH_BYTES, Ends, SYN, Segment, fragment};
use super::rig::{DROP, NEXT, PASS, PEER_MAC, REDIRECT, Rig, SLOT};
use super::translation::{Seen, address, alias_count, counts, kill, seen};

const IN: u32 = 0;
const OUT: u32 = 1;
const V4: u32 = 0;
const V6: u32 = 1;

/// IPv6 on the left, IPv4 on the right. No rule lets anything out.
const NAT64: &str = "block\n\
                     pass in on b0 inet6 to 64:ff9b::/96 af-to inet from 10.0.2.1\n";
/// IPv4 on the left, IPv6 on the right.
const NAT46: &str = "block\n\
                     pass in on b0 inet to 192.0.2.0/24 af-to inet6 from fd00:2::1 \
                     to fd00:2:0:0:64::/96\n";
/// The server on the right, as clients on the left see it.
const SERVER: &str = "64:ff9b::10.0.2.2";

fn client() -> Ends {
    Ends::new("fd00:1::2", SERVER)
}

/// A box with rules, and servers on the right that NAT46 leads to.
fn rig(what: &str, rules: &str) -> Option<Rig> {
    let rig = Rig::with_openbsd_rules(what, rules)?;
    let run = || {
        let netlink = weir_net::Netlink::open().expect("netlink opens");
        for host in ["fd00:2::64:0:c000:221", "fd00:2::64:0:c000:209"] {
            netlink.add_neighbour("b1", address(host), PEER_MAC[1]).expect("a neighbour");
        }
    };
    rig.inside.run(run).expect("the namespace is entered");
    Some(rig)
}

/// A frame from the right: of the server, or of who is asked for.
fn from_right(src: &str, dst: &str) -> Ends {
    Ends { side: 1, ..Ends::new(src, dst) }
}

/// A packet that is forwarded, as it leaves, with its header.
fn forwarded(rig: &Rig, side: usize, frame: &[u8]) -> (Seen, Vec<u8>) {
    let verdict = rig.receive(side, frame);
    assert_eq!(verdict.action, REDIRECT);
    assert_eq!(verdict.frame[..6], PEER_MAC[1 - side]);
    let kind: &[u8] = if verdict.frame[ETH_BYTES] >> 4 == 4 { &[8, 0] } else { &[0x86, 0xdd] };
    assert_eq!(&verdict.frame[12..14], kind);
    (seen(&verdict.frame), verdict.frame[ETH_BYTES..].to_vec())
}

/// Sets the byte that is the traffic class or the type of service, and the TTL's checksum with it.
fn with_tos(mut frame: Vec<u8>, tos: u8) -> Vec<u8> {
    if frame[ETH_BYTES] >> 4 == 6 {
        frame[ETH_BYTES] |= tos >> 4;
        frame[ETH_BYTES + 1] |= tos << 4;
    } else {
        frame[ETH_BYTES + 1] = tos;
        super::frames::fix(&mut frame);
    }
    frame
}

#[test]
fn a_datagram_goes_from_ipv6_to_ipv4_and_back() {
    let Some(rig) = rig("nat64", NAT64) else { return };
    let known = rig.load_as(Dialect::OpenBsd, NAT64);
    for payload in [&b"odd"[..], b"even", b""] {
        let frame = with_tos(client().ttl(9).udp((1000, 53), payload), 0xb8);
        let (there, packet) = forwarded(&rig, 0, &frame);
        assert_eq!((there.src.0, there.dst), (address("10.0.2.1"), (address("10.0.2.2"), 53)));
        assert!(there.src.1 >= 50_001, "{there:?}");
        assert_eq!((packet[1], packet[8], packet[6]), (0xb8, 8, 0), "class, TTL, may be cut up");
        assert_eq!(packet.len(), 28 + payload.len());
        let answer = from_right("10.0.2.2", "10.0.2.1").ttl(7).udp((53, there.src.1), payload);
        let (back, packet) = forwarded(&rig, 1, &with_tos(answer, 0x2c));
        assert_eq!((back.src, back.dst), ((address(SERVER), 53), (address("fd00:1::2"), 1000)));
        assert_eq!(packet[..4], [0x62, 0xc0, 0, 0], "class, and no flow label");
        assert_eq!((packet[7], packet.len()), (6, 48 + payload.len()));
    }
    assert_eq!((alias_count(&rig), rig.passed(0, IN, V6), rig.passed(1, OUT, V4)), (1, 3, 3));
    assert_eq!((rig.passed(1, IN, V4), rig.passed(0, OUT, V6)), (3, 3));
    let stranger = from_right("10.0.2.2", "10.0.2.1").udp((54, 50_001), b"");
    assert_eq!(rig.receive(1, &stranger).action, DROP, "another end");
    // What goes as the box would have sent it does not come in by that.
    let (there, _) = forwarded(&rig, 0, &client().udp((1000, 53), b""));
    let forged = from_right("10.0.2.1", "10.0.2.2").udp((there.src.1, 53), b"");
    assert_eq!(rig.receive(1, &forged).action, DROP);
    let mut records = Vec::new();
    View::new(&rig.firewall).for_all(|record| records.push(*record));
    let [record] = records[..] else { panic!("{records:?}") };
    assert_eq!(record.ends, [(address("fd00:1::2"), 1000), (address(SERVER), 53)]);
    assert_eq!(record.wire, [None, Some([there.src, there.dst])]);
    assert_eq!(record.packets, [4, 3]);
    assert_eq!(record.rules[0], record.rules[1]);
    let alive = counts(&rig, &known, "pass in on b0");
    assert_eq!((alive.packet_count, alive.state_count), ([4, 3], 1));
    // All of it goes with the record.
    assert_eq!(kill(&rig, Filter::default()), 1);
    assert_eq!((alias_count(&rig), rig.firewall.arena().read64(control::STATE_COUNT)), (0, 0));
    let over = counts(&rig, &known, "pass in on b0");
    assert_eq!((over.packet_count, over.state_count), ([4, 3], 0));
    assert_eq!(rig.receive(1, &stranger).action, DROP);
}

#[test]
fn a_state_ends_by_the_address_that_it_has_in_the_other_family() {
    let Some(rig) = rig("natoutside", NAT64) else { return };
    let outside = |last: u8| {
        let mut source = Selected::default();
        source.address[..4].copy_from_slice(&[10, 0, 2, last]);
        source.mask[..4].fill(0xff);
        Filter { ip_version: 4, source, is_outside: true, ..Filter::default() }
    };
    forwarded(&rig, 0, &client().udp((1000, 53), b""));
    assert_eq!(kill(&rig, outside(2)), 0, "it is asked for, and not given");
    assert_eq!(kill(&rig, outside(1)), 1);
    assert_eq!(alias_count(&rig), 0);
}

#[test]
fn slots_come_back_when_flows_end() {
    let Some(rig) = rig("natslots", &format!("{NAT64}{}", &NAT46[6..])) else { return };
    let taken = |rig: &Rig| {
        let arena = rig.firewall.arena();
        arena.read32(control::FRESH_COUNT) - arena.read32(control::FREE_COUNT)
    };
    for round in 0..3 {
        for port in 0..20 {
            forwarded(&rig, 0, &client().udp((1000 + port, 53), b""));
            forwarded(&rig, 0, &Ends::new("10.0.1.2", "192.0.2.9").udp((1000 + port, 53), b""));
        }
        assert_eq!(alias_count(&rig), 40);
        assert_eq!(kill(&rig, Filter::default()), 40, "round {round}");
        assert_eq!((taken(&rig), alias_count(&rig)), (0, 0), "round {round}");
    }
}

#[test]
fn a_connection_goes_from_ipv6_to_ipv4_and_back() {
    let Some(rig) = rig("nat64tcp", NAT64) else { return };
    let there = |sequence, acknowledgement, flags, payload: &[u8]| {
        let segment = Segment { ports: (1000, 80), sequence, acknowledgement, flags };
        rig.receive(0, &client().tcp(&segment, payload))
    };
    let first = there(100, 0, SYN, b"");
    let outside = seen(&first.frame).src;
    let back = |sequence, acknowledgement, flags, payload: &[u8]| {
        let segment = Segment { ports: (80, outside.1), sequence, acknowledgement, flags };
        rig.receive(1, &from_right("10.0.2.2", "10.0.2.1").tcp(&segment, payload))
    };
    let answer = back(500, 101, SYN | ACK, b"");
    assert_eq!(seen(&answer.frame).dst, (address("fd00:1::2"), 1000));
    assert_eq!(there(101, 501, ACK, b"").action, REDIRECT);
    for payload in [&[1_u8; 900][..], &[2; 7]] {
        let verdict = there(101, 501, ACK, payload);
        assert_eq!(seen(&verdict.frame).src, outside);
        assert_eq!(verdict.frame[ETH_BYTES + 40..], *payload);
    }
    assert_eq!(back(501, 101, ACK, &[3; 900]).action, REDIRECT);
    // What does not fit the connection is no part of it.
    let verdict = back(900_000, 101, ACK, b"x");
    assert_eq!(verdict.action, DROP, "{:?}", seen(&verdict.frame));
    assert_eq!(rig.dropped(1, IN, "state-mismatch"), 1);
}

#[test]
fn an_echo_is_that_of_the_other_family() {
    let Some(rig) = rig("nat64echo", NAT64) else { return };
    let (there, packet) = forwarded(&rig, 0, &client().echo(77));
    assert_eq!((there.src.0, there.dst.0), (address("10.0.2.1"), address("10.0.2.2")));
    assert_eq!((packet[9], packet[20], packet[21]), (1, 8, 0), "an echo request of ICMP");
    let mut message = packet[20..].to_vec();
    message[0] = 0;
    message[2..4].fill(0);
    let sum = checksum::icmp_v4(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let answer = from_right("10.0.2.2", "10.0.2.1").message(1, &message);
    let (back, packet) = forwarded(&rig, 1, &answer);
    assert_eq!((back.src.0, back.dst), (address(SERVER), (address("fd00:1::2"), 77)));
    assert_eq!((packet[6], packet[40], packet[41]), (58, 129, 0), "an echo reply of ICMPv6");
}

#[test]
fn ipv4_goes_to_ipv6_and_back() {
    let Some(rig) = rig("nat46", NAT46) else { return };
    let ends = Ends::new("10.0.1.2", "192.0.2.33");
    let server = "fd00:2::64:0:c000:221";
    for payload in [&b"odd"[..], b"even"] {
        let (there, packet) = forwarded(&rig, 0, &ends.udp((1000, 53), payload));
        assert_eq!((there.src.0, there.dst), (address("fd00:2::1"), (address(server), 53)));
        assert_eq!((packet[7], packet.len()), (63, 48 + payload.len()));
        let answer = from_right(server, "fd00:2::1").udp((53, there.src.1), payload);
        let (back, packet) = forwarded(&rig, 1, &answer);
        assert_eq!((back.src, back.dst), ((address("192.0.2.33"), 53), (ends.src, 1000)));
        assert_eq!(packet.len(), 28 + payload.len());
    }
    let (there, packet) = forwarded(&rig, 0, &ends.echo(5));
    assert_eq!((there.src.0, packet[6], packet[40]), (address("fd00:2::1"), 58, 128));
    let (_, packet) = forwarded(&rig, 0, &ends.tcp(&syn(9), b""));
    assert_eq!(packet[6], 6);
    // A datagram without a checksum gets one.
    for payload in [&[7_u8; 700][..], b"x", b""] {
        let mut frame = ends.udp((2000, 53), payload);
        frame[ETH_BYTES + 26..ETH_BYTES + 28].fill(0);
        let (_, packet) = forwarded(&rig, 0, &frame);
        assert_ne!(packet[46..48], [0, 0]);
    }
}

fn syn(sequence: u32) -> Segment {
    Segment { ports: (1000, 80), sequence, acknowledgement: 0, flags: SYN }
}

#[test]
fn prefixes_are_those_of_rfc_6052() {
    for (prefix, inside) in [
        ("2001:db8::/32", "2001:db8:a00:202::"),
        ("2001:db8:100::/40", "2001:db8:10a:2:2::"),
        ("2001:db8:122::/48", "2001:db8:122:a00:2:200::"),
        ("2001:db8:122:300::/56", "2001:db8:122:30a:0:202::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:a:2:200:0"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::10.0.2.2"),
    ] {
        let rules = format!("pass in inet6 to {prefix} af-to inet from 10.0.2.1\n");
        let Some(rig) = rig("prefix", &rules) else { return };
        let (there, _) = forwarded(&rig, 0, &Ends::new("fd00:1::2", inside).udp((1, 2), b""));
        assert_eq!(there.dst.0, address("10.0.2.2"), "{prefix}");
        let rules = format!("pass in inet af-to inet6 from fd00:2::1 to {prefix}\n");
        rig.load_as(Dialect::OpenBsd, &rules);
        let route = |rig: &Rig| {
            let there = rig.receive(0, &Ends::new("10.0.1.2", "10.0.2.2").udp((1, 2), b""));
            // Nobody routes there: the kernel gets it as it is then.
            assert_eq!(there.action, PASS, "{prefix}");
            seen(&there.frame).dst.0
        };
        assert_eq!(route(&rig), address(inside), "{prefix}");
    }
}

#[test]
fn a_destination_may_be_one_address() {
    let rules = "pass in inet6 to fd00:1::99 af-to inet from 10.0.2.1 to 10.0.2.2\n";
    let Some(rig) = rig("natone", rules) else { return };
    let (there, _) = forwarded(&rig, 0, &Ends::new("fd00:1::2", "fd00:1::99").udp((1, 2), b""));
    assert_eq!(there.dst, (address("10.0.2.2"), 2));
    let answer = from_right("10.0.2.2", "10.0.2.1").udp((2, there.src.1), b"");
    assert_eq!(forwarded(&rig, 1, &answer).0.src, (address("fd00:1::99"), 2));
    // Or a network, whose last bits are those of the old one.
    let rules = "pass in inet6 to fd00:1::/120 af-to inet from 10.0.2.1 to 10.0.2.77/28\n";
    rig.load_as(Dialect::OpenBsd, rules);
    let verdict = rig.receive(0, &Ends::new("fd00:1::2", "fd00:1::a2").udp((3, 2), b""));
    assert_eq!(seen(&verdict.frame).dst, (address("10.0.2.66"), 2));
    let rules = "pass in inet to 192.0.2.0/24 af-to inet6 from fd00:2::1 to fd00:2::ff00/120\n";
    rig.load_as(Dialect::OpenBsd, rules);
    let verdict = rig.receive(0, &Ends::new("10.0.1.2", "192.0.2.33").udp((3, 2), b""));
    assert_eq!(seen(&verdict.frame).dst, (address("fd00:2::ff21"), 2));
    let rules = "pass in inet to 192.0.2.1 af-to inet6 from fd00:2::1 to fd00:2::2\n";
    rig.load_as(Dialect::OpenBsd, rules);
    let (there, _) = forwarded(&rig, 0, &Ends::new("10.0.1.2", "192.0.2.1").udp((1, 2), b""));
    assert_eq!(there.dst, (address("fd00:2::2"), 2));
}

#[test]
fn a_source_keeps_its_address_of_the_other_family() {
    let rules = "pass in inet6 to 64:ff9b::/96 af-to inet from 203.0.113.0/28 random \
                 sticky-address\n";
    let Some(rig) = rig("natsticky", rules) else { return };
    for client in ["fd00:1::2", "fd00:1::3", "fd00:1::4"] {
        let given = |port: u16| {
            let frame = Ends::new(client, SERVER).udp((port, 53), b"");
            forwarded(&rig, 0, &frame).0.src.0
        };
        let first = given(1);
        let IpAddr::V4(address) = first else { panic!("{first}") };
        assert_eq!(address.octets()[..3], [203, 0, 113]);
        assert!((2..9).all(|port| given(port) == first), "{client}");
    }
}

/// An ICMP error about a packet, from the right.
fn error4(from: &Ends, kind: u8, code: u8, word: u32, quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&word.to_be_bytes());
    message.extend_from_slice(quoted);
    let sum = checksum::icmp_v4(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    from.message(1, &message)
}

/// The same of ICMPv6.
fn error6(from: &Ends, kind: u8, code: u8, word: u32, quoted: &[u8]) -> Vec<u8> {
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (from.src, from.dst) else { panic!("not IPv6") };
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&word.to_be_bytes());
    message.extend_from_slice(quoted);
    let sum = checksum::icmp_v6(src, dst, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    from.message(58, &message)
}

/// What an error says: its source, type and code, the word behind them, and what it quotes. Its
/// checksums are right.
fn said_by(packet: &[u8]) -> (IpAddr, [u8; 2], u32, Vec<u8>) {
    let (source, message): (IpAddr, &[u8]) = if packet[0] >> 4 == 4 {
        let view = ipv4::Packet::new_checked(packet).expect("a packet");
        let header = ipv4::Repr::parse(&view).expect("the header's checksum is right");
        assert_eq!(view.payload()[2..4], checksum::icmp_v4(view.payload()).to_be_bytes());
        (header.src.into(), &packet[20..])
    } else {
        let view = ipv6::Packet::new_checked(packet).expect("a packet");
        let header = ipv6::Repr::parse(&view);
        let sum = checksum::icmp_v6(header.src, header.dst, view.payload());
        assert_eq!(view.payload()[2..4], sum.to_be_bytes());
        (header.src.into(), &packet[40..])
    };
    let word = u32::from_be_bytes(message[4..8].try_into().expect("four"));
    (source, [message[0], message[1]], word, message[8..].to_vec())
}

#[test]
fn errors_of_ipv4_become_those_of_ipv6() {
    let Some(rig) = rig("nat64error", NAT64) else { return };
    let frames =
        [client().udp((1000, 53), b"12345"), client().tcp(&syn(100), b""), client().echo(9)];
    for frame in &frames {
        let (_, quoted) = forwarded(&rig, 0, frame);
        let router = from_right("10.0.2.77", "10.0.2.1");
        for ((kind, code, word), said) in [
            ((11, 0, 0), Some((3, 0, 0))),
            ((3, 4, 1400), Some((2, 0, 1420))),
            ((3, 4, 0), Some((2, 0, 1280))),
            ((3, 3, 0), Some((1, 4, 0))),
            ((3, 1, 0), Some((1, 0, 0))),
            ((3, 2, 0), Some((4, 1, 6))),
            ((3, 13, 0), Some((1, 1, 0))),
            ((12, 0, 8 << 24), Some((4, 0, 7))),
            ((12, 0, 20 << 24), None),
            ((3, 14, 0), None),
            ((4, 0, 0), None),
        ] {
            let before = rig.dropped(1, IN, "af-to");
            let verdict = rig.receive(1, &error4(&router, kind, code, word, &quoted));
            let Some((kind6, code6, word6)) = said else {
                assert_eq!(verdict.action, DROP, "{kind}/{code}");
                assert_eq!(rig.dropped(1, IN, "af-to"), before + 1);
                continue;
            };
            assert_eq!(verdict.action, REDIRECT, "{kind}/{code}");
            let (source, is, word, inner) = said_by(&verdict.frame[ETH_BYTES..]);
            assert_eq!((is, word), ([kind6, code6], word6), "{kind}/{code}");
            assert_eq!(source, address("64:ff9b::10.0.2.77"), "who has said it");
            // It quotes what the client has sent, but for TTL and checksums.
            let sent = &frame[ETH_BYTES..];
            assert_eq!((&inner[..7], &inner[8..42]), (&sent[..7], &sent[8..42]));
            assert_eq!(inner[44..46], sent[44..46], "a length, a number, the identifier");
        }
        // The server itself.
        let server = from_right("10.0.2.2", "10.0.2.1");
        let verdict = rig.receive(1, &error4(&server, 3, 3, 0, &quoted));
        assert_eq!(said_by(&verdict.frame[ETH_BYTES..]).0, address(SERVER));
    }
    let quoted = vec![0x45; 28];
    let router = from_right("10.0.2.77", "10.0.2.1");
    assert_eq!(rig.receive(1, &error4(&router, 3, 3, 0, &quoted)).action, DROP, "of nobody");
}

#[test]
fn errors_of_ipv6_become_those_of_ipv4() {
    let Some(rig) = rig("nat64error6", NAT64) else { return };
    let (there, _) = forwarded(&rig, 0, &client().udp((1000, 53), b"12345"));
    let answer = from_right("10.0.2.2", "10.0.2.1").udp((53, there.src.1), b"6789");
    let (_, quoted) = forwarded(&rig, 1, &answer);
    for ((kind, code, word), said) in [
        ((2, 0, 1280), Some((3, 4, 1260))),
        ((2, 0, 100_000), Some((3, 4, 65_535))),
        ((1, 4, 0), Some((3, 3, 0))),
        ((1, 1, 0), Some((3, 10, 0))),
        ((1, 0, 0), Some((3, 1, 0))),
        ((3, 0, 0), Some((11, 0, 0))),
        ((4, 0, 7), Some((12, 0, 8 << 24))),
        ((4, 1, 6), Some((3, 2, 0))),
        ((4, 2, 0), None),
        ((1, 6, 0), None),
        ((2, 0, 68), None),
    ] {
        let verdict = rig.receive(0, &error6(&client(), kind, code, word, &quoted));
        let Some((kind4, code4, word4)) = said else {
            assert_eq!(verdict.action, DROP, "{kind}/{code}");
            continue;
        };
        assert_eq!(verdict.action, REDIRECT, "{kind}/{code}");
        let (source, is, word, inner) = said_by(&verdict.frame[ETH_BYTES..]);
        assert_eq!((is, word), ([kind4, code4], word4), "{kind}/{code}");
        assert_eq!(source, address("10.0.2.1"));
        let packet = ipv4::Packet::new_checked(&inner[..]).expect("the quoted packet");
        let header = ipv4::Repr::parse(&packet).expect("its header's checksum is right");
        assert_eq!(header.src, std::net::Ipv4Addr::new(10, 0, 2, 2));
        assert_eq!(inner[20..24], answer[ETH_BYTES + 20..ETH_BYTES + 24], "the ports");
    }
}

#[test]
fn errors_about_ipv4_flows_come_from_ipv6() {
    let Some(rig) = rig("nat46error", NAT46) else { return };
    let ends = Ends::new("10.0.1.2", "192.0.2.33");
    let (there, quoted) = forwarded(&rig, 0, &ends.udp((1000, 53), b"12345"));
    let router = from_right("fd00:2::77", "fd00:2::1");
    let verdict = rig.receive(1, &error6(&router, 2, 0, 1400, &quoted));
    let (source, is, word, inner) = said_by(&verdict.frame[ETH_BYTES..]);
    assert_eq!((source, is, word), (address("192.0.2.33"), [3, 4], 1380));
    assert_eq!(inner[12..24], ends.udp((1000, 53), b"12345")[ETH_BYTES + 12..ETH_BYTES + 24]);
    let answer = from_right("fd00:2::64:0:c000:221", "fd00:2::1").udp((53, there.src.1), b"67");
    let (_, quoted) = forwarded(&rig, 1, &answer);
    let verdict = rig.receive(0, &error4(&ends, 3, 3, 0, &quoted));
    assert_eq!(said_by(&verdict.frame[ETH_BYTES..]).0, address("fd00:2::1"));
}

#[test]
fn what_cannot_change_is_dropped_and_counted() {
    let rules = format!("{NAT64}{}", &NAT46[6..]);
    let Some(rig) = rig("natcannot", &rules) else { return };
    let to4 = client();
    let to6 = Ends::new("10.0.1.2", "192.0.2.33");
    let mut hops = to4.message(0, &[17, 0, 1, 4, 0, 0, 0, 0, 0, 1, 0, 2, 0, 8, 0, 0]);
    let mut options = to6.udp((1, 2), b"");
    options[ETH_BYTES] = 0x46;
    options.splice(ETH_BYTES + 20..ETH_BYTES + 20, [1, 1, 1, 0]);
    let bytes = u16::try_from(options.len() - ETH_BYTES).expect("few");
    options[ETH_BYTES + 2..ETH_BYTES + 4].copy_from_slice(&bytes.to_be_bytes());
    super::frames::fix(&mut options);
    for (what, frame, reason) in [
        ("a first fragment", fragment(&to6, 0, true, &[1; 16]), "af-to"),
        ("a later fragment", fragment(&to6, 16, false, &[1; 16]), "af-to"),
        ("another protocol", to4.message(47, &[0; 8]), "af-to"),
        ("a timestamp query", to6.message(1, &[13, 0, 0, 0, 0, 0, 0, 0]), "af-to"),
        ("a group", Ends::new("fd00:1::2", "64:ff9b::224.0.0.1").udp((1, 2), b""), "af-to"),
        ("loopback", Ends::new("fd00:1::2", "64:ff9b::127.0.0.1").udp((1, 2), b""), "af-to"),
        ("a link-local source", Ends::new("fe80::2", SERVER).udp((1, 2), b""), "af-to"),
        ("hop-by-hop options", std::mem::take(&mut hops), "af-to"),
        ("options", options.clone(), "af-to"),
    ] {
        let before = rig.dropped(0, IN, reason);
        assert_eq!(rig.receive(0, &frame).action, DROP, "{what}");
        assert_eq!(rig.dropped(0, IN, reason), before + 1, "{what}");
    }
    assert_eq!(alias_count(&rig), 0);
    // Nor by a state, nor where a rule allows the options.
    let (there, _) = forwarded(&rig, 0, &to4.udp((1000, 53), b""));
    let mut piece = from_right("10.0.2.2", "10.0.2.1").udp((53, there.src.1), &[0; 16]);
    piece[ETH_BYTES + 6] = 0x20;
    super::frames::fix(&mut piece);
    assert_eq!(rig.receive(1, &piece).action, DROP);
    assert_eq!(rig.dropped(1, IN, "af-to"), 1);
    rig.load_as(Dialect::OpenBsd, &NAT46.replace("::/96\n", "::/96 allow-opts\n"));
    let before = rig.dropped(0, IN, "af-to");
    assert_eq!(rig.receive(0, &options).action, DROP);
    assert_eq!(rig.dropped(0, IN, "af-to"), before + 1);
}

#[test]
fn where_the_ttl_ends_who_has_sent_it_is_told() {
    let rules = format!("{NAT64}{}", &NAT46[6..]);
    let Some(rig) = rig("natttl", &rules) else { return };
    let frame = client().ttl(1).udp((1000, 53), b"1234");
    let verdict = rig.receive(0, &frame);
    assert_eq!((verdict.action, rig.dropped(0, IN, "ttl")), (REDIRECT, 1));
    let (source, is, _, inner) = said_by(&verdict.frame[ETH_BYTES..]);
    assert_eq!((source, is), (address("fd00:1::1"), [3, 0]));
    assert_eq!(inner, frame[ETH_BYTES..]);
    let frame = Ends::new("10.0.1.2", "192.0.2.33").ttl(1).udp((1000, 53), b"1234");
    let verdict = rig.receive(0, &frame);
    let (source, is, _, inner) = said_by(&verdict.frame[ETH_BYTES..]);
    assert_eq!((source, is), (address("10.0.1.1"), [11, 0]));
    assert_eq!(inner, frame[ETH_BYTES..]);
}

#[test]
fn what_is_too_long_for_its_way_is_answered_in_its_family() {
    let rules = format!("{NAT64}{}", &NAT46[6..]);
    let Some(rig) = rig("natmtu", &rules) else { return };
    let set = |mtu: u32| {
        let run = || {
            weir_net::Netlink::open().expect("netlink opens").set_mtu("b1", mtu).expect("an MTU");
        };
        rig.inside.run(run).expect("the namespace is entered");
    };
    set(1400);
    // 20 bytes fewer as IPv4: 1420 just fits.
    let (_, packet) = forwarded(&rig, 0, &client().udp((1, 2), &[0; 1420 - 48]));
    assert_eq!(packet[4..8], [0, 0, 0x40, 0], "it is not to be cut up");
    let verdict = rig.receive(0, &client().udp((1, 2), &[0; 1421 - 48]));
    let (source, is, mtu, _) = said_by(&verdict.frame[ETH_BYTES..]);
    assert_eq!((source, is, mtu), (address("fd00:1::1"), [2, 0], 1420));
    assert_eq!(rig.dropped(0, IN, "too-big"), 1);
    let ends = Ends::new("10.0.1.2", "192.0.2.33");
    assert_eq!(rig.receive(0, &ends.udp((1, 2), &[0; 1380 - 28])).action, REDIRECT);
    let verdict = rig.receive(0, &ends.udp((1, 2), &[0; 1381 - 28]));
    let (source, is, mtu, _) = said_by(&verdict.frame[ETH_BYTES..]);
    assert_eq!((source, is, mtu), (address("10.0.1.1"), [3, 4], 1380));
    assert_eq!(rig.dropped(0, IN, "too-big"), 2);
}

#[test]
fn what_the_kernel_forwards_is_not_judged_where_it_leaves() {
    let rules = format!("{NAT64}{}", &NAT46[6..]);
    let Some(rig) = rig("natkernel", &rules) else { return };
    // Nothing can be redirected to the interfaces: the kernel forwards.
    let (arena, regions) = (rig.firewall.arena(), rig.firewall.regions());
    for slot in SLOT {
        let at = regions.interfaces.at + slot * interface::SIZE_BYTES;
        arena.write32(at + interface::FLAGS, INTERFACE_PRESENT | INTERFACE_ATTACHED);
    }
    let there = rig.receive(0, &client().udp((1000, 53), b"1234"));
    assert_eq!(there.action, PASS);
    let outside = seen(&there.frame).src;
    assert_eq!(rig.send(1, &there.frame).action, NEXT);
    let answer = from_right("10.0.2.2", "10.0.2.1").udp((53, outside.1), b"12");
    let back = rig.receive(1, &answer);
    assert_eq!((back.action, seen(&back.frame).dst.0), (PASS, address("fd00:1::2")));
    assert_eq!(rig.send(0, &back.frame).action, NEXT);
    // Errors, too.
    let error = error4(&from_right("10.0.2.9", "10.0.2.1"), 11, 0, 0, &there.frame[ETH_BYTES..]);
    let error = rig.receive(1, &error);
    assert_eq!((error.action, rig.send(0, &error.frame).action), (PASS, NEXT));
    let error = rig.receive(0, &error6(&client(), 1, 4, 0, &back.frame[ETH_BYTES..]));
    assert_eq!((error.action, rig.send(1, &error.frame).action), (PASS, NEXT));
    // All else is: `block`.
    assert_ne!(rig.send(1, &from_right("10.0.2.1", "10.0.2.2").udp((9, 9), b"")).action, NEXT);
    assert_ne!(rig.send(0, &from_right("fd00:1::1", "fd00:1::2").udp((9, 9), b"")).action, NEXT);
}

/// As much of a packet as its error quotes.
fn quote(frame: &[u8]) -> &[u8] {
    &frame[ETH_BYTES..frame.len().min(ETH_BYTES + 500)]
}

#[test]
fn packets_of_the_kernel_change_too() {
    let rules = format!("{NAT64}{}", &NAT46[6..]);
    let Some(rig) = rig("natskb", &rules) else { return };
    for payload in [&b"odd"[..], b"even", &[7; 1300]] {
        let there = rig.enter(0, &client().udp((1000, 53), payload));
        assert_eq!(there.action, NEXT);
        assert_eq!(there.frame[12..14], [8, 0]);
        let outside = seen(&there.frame);
        assert_eq!(outside.dst, (address("10.0.2.2"), 53));
        let answer = from_right("10.0.2.2", "10.0.2.1").udp((53, outside.src.1), payload);
        let back = rig.enter(1, &answer);
        assert_eq!((back.action, &back.frame[12..14]), (NEXT, &[0x86, 0xdd][..]));
        assert_eq!(seen(&back.frame).dst, (address("fd00:1::2"), 1000));
        let router = from_right("10.0.2.77", "10.0.2.1");
        let error = rig.enter(1, &error4(&router, 3, 4, 1400, quote(&there.frame)));
        let (source, is, mtu, _) = said_by(&error.frame[ETH_BYTES..]);
        assert_eq!((source, is, mtu), (address("64:ff9b::10.0.2.77"), [2, 0], 1420));
        let error = rig.enter(0, &error6(&client(), 1, 4, 0, quote(&back.frame)));
        assert_eq!(said_by(&error.frame[ETH_BYTES..]).1, [3, 3]);
    }
    let ends = Ends::new("10.0.1.2", "192.0.2.33");
    let mut frame = ends.udp((2000, 53), &[7; 501]);
    frame[ETH_BYTES + 26..ETH_BYTES + 28].fill(0);
    assert_eq!(seen(&rig.enter(0, &frame).frame).src.0, address("fd00:2::1"));
    assert_eq!(seen(&rig.enter(0, &ends.echo(4)).frame).src.0, address("fd00:2::1"));
    assert_eq!(seen(&rig.enter(0, &client().echo(4)).frame).src.0, address("10.0.2.1"));
    assert_eq!(seen(&rig.enter(0, &ends.tcp(&syn(4), b"")).frame).src.0, address("fd00:2::1"));
    assert_eq!(rig.table_counter(table::TRANSLATIONS), 5);
}
