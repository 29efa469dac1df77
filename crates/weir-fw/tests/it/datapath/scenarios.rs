//! Scenarios of FreeBSD's and OpenBSD's tests of pf that are about single packets: SCTP, headers
//! that rules change, segments that do not fit, and fragments that overlap. docs/fw-scenarios.md
//! says which are which.

use weir_bpf::firewall::layout::control;
use weir_rules::Dialect;

use super::frames::{
    ACK, ETH_BYTES, Ends, RST, SYN, Segment, fix, fragment, options_of, segment_of,
};
use super::rig::{DROP, PEER_MAC, REDIRECT, Rig};

const SCTP: u8 = 132;
const IN: u32 = 0;
const PSH_ACK: u8 = 0x18;

/// A client on the left and a server on the right, of either family.
fn pairs() -> [Ends; 2] {
    [Ends::new("10.0.1.2", "10.0.2.2"), Ends::new("fd00:1::2", "fd00:2::2")]
}

/// A packet of SCTP with these ports: its common header, and an INIT without parameters.
fn sctp(ends: &Ends, ports: (u16, u16)) -> Vec<u8> {
    let mut message = vec![0; 32];
    message[..2].copy_from_slice(&ports.0.to_be_bytes());
    message[2..4].copy_from_slice(&ports.1.to_be_bytes());
    message[8..12].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
    message[12..16].copy_from_slice(&[1, 0, 0, 20]);
    ends.message(SCTP, &message)
}

/// Addresses and message of a frame.
fn parts(frame: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let ip = &frame[ETH_BYTES..];
    if ip[0] >> 4 == 4 {
        (&ip[12..16], &ip[16..20], &ip[20..])
    } else {
        (&ip[8..24], &ip[24..40], &ip[40..])
    }
}

/// TOS or traffic class.
fn tos(frame: &[u8]) -> u8 {
    let ip = &frame[ETH_BYTES..];
    if ip[0] >> 4 == 4 { ip[1] } else { ip[0] << 4 | ip[1] >> 4 }
}

/// The same frame with another one.
fn with_tos(mut frame: Vec<u8>, tos: u8) -> Vec<u8> {
    if frame[ETH_BYTES] >> 4 == 4 {
        frame[ETH_BYTES + 1] = tos;
        fix(&mut frame);
    } else {
        frame[ETH_BYTES] = 0x60 | tos >> 4;
        frame[ETH_BYTES + 1] = tos << 4 | frame[ETH_BYTES + 1] & 15;
    }
    frame
}

/// TTL or hop limit.
fn ttl(frame: &[u8]) -> u8 {
    let ip = &frame[ETH_BYTES..];
    if ip[0] >> 4 == 4 { ip[8] } else { ip[7] }
}

fn address_bytes(text: &str) -> Vec<u8> {
    match text.parse().expect("an address") {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[test]
fn sctp_is_passed_by_its_ports() {
    for (what, rules) in [
        ("sctp", "block\npass proto sctp to port 1234\n"),
        ("sctpscrub", "scrub on b0\nblock\npass proto sctp to port 1234\n"),
    ] {
        let Some(rig) = Rig::with_rules(what, rules) else { return };
        for ends in pairs() {
            let back = ends.back();
            let passes = |ports| rig.receive(0, &sctp(&ends, ports)).action == REDIRECT;
            let answers = |ports| rig.receive(1, &sctp(&back, ports)).action == REDIRECT;
            assert!(!answers((1234, 4000)), "{what}: unasked");
            assert!(passes((4000, 1234)) && answers((1234, 4000)), "{what}");
            assert!(!passes((4000, 1235)), "{what}: another port");
            assert!(!passes((1234, 1235)), "{what}: the source's port does not matter");
            // A client that begins anew from the same port.
            assert!(passes((4000, 1234)) && answers((1234, 4000)), "{what}");
        }
        assert_eq!(rig.firewall.arena().read64(control::STATE_COUNT), 2);
    }
}

/// pf would send an ABORT.
#[test]
fn blocked_sctp_is_dropped_without_an_answer() {
    let rules = "block return in proto sctp to port 1234\n";
    let Some(rig) = Rig::with_rules("sctpret", rules) else { return };
    for (ends, round) in pairs().iter().zip(1..) {
        assert_eq!(rig.receive(0, &sctp(ends, (4000, 1234))).action, DROP);
        assert_eq!(rig.dropped(0, IN, "match"), round);
        assert_eq!(rig.receive(0, &sctp(ends, (4000, 1235))).action, REDIRECT);
    }
}

#[test]
fn sctp_is_translated_but_for_its_ports() {
    let rules = "nat on b1 inet from 10.0.1.0/24 to any -> 10.0.2.1\n\
                 nat on b1 inet6 from fd00:1::/64 to any -> fd00:2::1\npass\n";
    let Some(rig) = Rig::with_rules("sctpnat", rules) else { return };
    for (ends, outside) in pairs().iter().zip(["10.0.2.1", "fd00:2::1"]) {
        let frame = sctp(ends, (4000, 1234));
        let there = rig.receive(0, &frame);
        assert_eq!(there.action, REDIRECT);
        let (src, dst, message) = parts(&there.frame);
        assert_eq!(src, address_bytes(outside));
        assert_eq!((dst, message), (parts(&frame).1, parts(&frame).2), "nothing else changes");
        let answer = Ends { dst: outside.parse().unwrap(), ..ends.back() };
        let back = rig.receive(1, &sctp(&answer, (1234, 4000)));
        assert_eq!(back.action, REDIRECT);
        assert_eq!(parts(&back.frame).1, parts(&frame).0, "the client gets its answer");
    }
}

#[test]
fn sctp_is_redirected_but_for_its_ports() {
    for port in [1234, 4321] {
        let rules = format!(
            "rdr pass on b0 proto sctp from 10.0.1.0/24 to any port 1234 -> 10.0.2.2 port {port}\n\
             pass\n"
        );
        let Some(rig) = Rig::with_rules("sctprdr", &rules) else { return };
        let ends = Ends::new("10.0.1.2", "10.0.1.1");
        let there = rig.receive(0, &sctp(&ends, (4000, 1234)));
        assert_eq!(there.action, REDIRECT);
        let (_, dst, message) = parts(&there.frame);
        assert_eq!(dst, address_bytes("10.0.2.2"));
        assert_eq!(message[..4], [&4000_u16.to_be_bytes()[..], &1234_u16.to_be_bytes()].concat());
        let answer = Ends { side: 1, ..Ends::new("10.0.2.2", "10.0.1.2") };
        let back = rig.receive(1, &sctp(&answer, (1234, 4000)));
        assert_eq!(back.action, REDIRECT);
        assert_eq!(parts(&back.frame).0, address_bytes("10.0.1.1"));
    }
}

/// An ICMP error about a flow of SCTP passes with it, although rules block ICMP.
#[test]
fn errors_about_sctp_pass_with_it() {
    let rules = "block proto icmp\npass proto sctp\n";
    let Some(rig) = Rig::with_rules("sctperr", rules) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let too_long = |quoted: &[u8]| {
        let mut message = vec![3, 4, 0, 0, 0, 0, 5, 20];
        message.extend_from_slice(&quoted[ETH_BYTES..]);
        let checksum = weir_wire::checksum::icmp_v4(&message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        let on_the_way = Ends { src: "10.0.2.77".parse().unwrap(), ..ends.back() };
        rig.receive(1, &on_the_way.message(1, &message)).action
    };
    let asked = sctp(&ends, (4000, 1234));
    assert_eq!(too_long(&asked), DROP, "nobody has sent that");
    assert_eq!(rig.receive(0, &asked).action, REDIRECT);
    assert_eq!(too_long(&asked), REDIRECT);
    assert_eq!(too_long(&sctp(&ends, (4000, 1235))), DROP, "about another flow");
}

/// Each rules, the TOS that an echo request comes with, and the one that it leaves with.
#[test]
fn tos_is_set_by_the_rule_that_takes_the_packet() {
    let two = "scrub out proto tcp set-tos 13\nscrub out proto icmp set-tos 14\n";
    for (rules, came, left) in [
        ("scrub out proto icmp\n", 0, 0),
        ("scrub out proto icmp set-tos 42\n", 0, 42),
        ("scrub out proto tcp set-tos 42\n", 0, 0),
        (two, 0, 14),
        (two, 42, 14),
        ("scrub out proto tcp set-tos 13\n", 42, 42),
    ] {
        let Some(rig) = Rig::with_rules("tos", rules) else { return };
        for _ in 0..2 {
            let frame = with_tos(Ends::new("10.0.1.2", "10.0.2.2").echo(7), came);
            let verdict = rig.receive(0, &frame);
            assert_eq!((verdict.action, tos(&verdict.frame)), (REDIRECT, left), "{rules}{came}");
        }
    }
}

/// The first segment of a connection with these options.
fn first_segment(ends: &Ends, options: &[u8]) -> Vec<u8> {
    let segment = Segment { ports: (1000, 80), flags: SYN, ..Segment::default() };
    ends.tcp_with_options(&segment, options)
}

/// What changes a header, in each of three ways to say it, over both families.
#[test]
fn headers_of_both_families_are_changed() {
    for (what, dialect, [mss, tos_rule, ttl_rule]) in [
        (
            "hlist",
            Dialect::FreeBsd,
            [
                "scrub on b0 max-mss 1300\n",
                "scrub on b0 set-tos 0x42\n",
                "scrub on b0 min-ttl 50\n",
            ],
        ),
        (
            "hpass",
            Dialect::FreeBsd,
            [
                "pass on b0 scrub (max-mss 1300)\n",
                "pass on b0 set (tos 0x42)\n",
                "pass on b0 scrub (min-ttl 50)\n",
            ],
        ),
        (
            "hmatch",
            Dialect::OpenBsd,
            [
                "match on b0 scrub (max-mss 1300)\n",
                "match on b0 set tos 0x42\n",
                "match on b0 scrub (min-ttl 50)\n",
            ],
        ),
    ] {
        let Some(rig) = Rig::with_rules(what, "pass\n") else { return };
        for (ends, round) in pairs().into_iter().zip(1..) {
            rig.load_as(dialect, mss);
            for (came, left) in [
                (&[2, 4, 5, 0x78][..], &[2, 4, 5, 0x14][..]),
                (&[1, 2, 4, 5, 0x78, 1, 1, 1], &[1, 2, 4, 5, 0x14, 1, 1, 1]),
            ] {
                let verdict = rig.receive(0, &first_segment(&ends, came));
                assert_eq!(verdict.action, REDIRECT, "{what}");
                let segment = segment_of(&verdict.frame);
                assert_eq!(options_of(&segment), left, "{what}");
            }
            rig.load_as(dialect, tos_rule);
            let verdict = rig.receive(0, &ends.udp((2000 + round, 53), b"x"));
            assert_eq!((verdict.action, tos(&verdict.frame)), (REDIRECT, 0x42), "{what}");
            rig.load_as(dialect, ttl_rule);
            let verdict = rig.receive(0, &ends.clone().ttl(40).udp((3000 + round, 53), b"x"));
            assert_eq!((verdict.action, ttl(&verdict.frame)), (REDIRECT, 49), "{what}");
        }
    }
}

#[test]
fn no_scrub_takes_packets_out() {
    let rules = "no scrub on b0 to { 10.0.2.2 fd00:2::2 }\nscrub on b0 set-tos 0x40\npass\n";
    let Some(rig) = Rig::with_rules("noscrub", rules) else { return };
    for ends in pairs() {
        let verdict = rig.receive(0, &ends.echo(7));
        assert_eq!((verdict.action, tos(&verdict.frame)), (REDIRECT, 0));
        let verdict = rig.receive(0, &ends.udp((1000, 53), b"x"));
        assert_eq!((verdict.action, tos(&verdict.frame)), (REDIRECT, 0));
    }
    let other = rig.receive(0, &Ends::new("10.0.1.2", "10.0.2.9").udp((1000, 53), b"x"));
    assert_eq!((other.action, tos(&other.frame)), (REDIRECT, 0x40), "not of others");
}

/// A connection behind its handshake: the client has sent up to 101, the server up to 501.
struct Connection<'r> {
    rig: &'r Rig,
    ends: Ends,
}

impl<'r> Connection<'r> {
    fn open(rig: &'r Rig) -> Self {
        let one = Self { rig, ends: Ends::new("10.0.1.2", "10.0.2.2") };
        assert_eq!(one.there(SYN, 100, 0, b"").0, REDIRECT);
        assert_eq!(one.back(SYN | ACK, 500, 101), REDIRECT);
        assert_eq!(one.there(ACK, 101, 501, b"").0, REDIRECT);
        one
    }

    /// A segment of the client's: the verdict, and what it leaves as.
    fn there(&self, flags: u8, sequence: u32, ack: u32, payload: &[u8]) -> (i32, Vec<u8>) {
        let ports = (1000, 80);
        let segment = Segment { ports, sequence, acknowledgement: ack, flags };
        let verdict = self.rig.receive(0, &self.ends.tcp(&segment, payload));
        (verdict.action, verdict.frame)
    }

    fn back(&self, flags: u8, sequence: u32, ack: u32) -> i32 {
        let ports = (80, 1000);
        let segment = Segment { ports, sequence, acknowledgement: ack, flags };
        self.rig.receive(1, &self.ends.back().tcp(&segment, b"")).action
    }

    /// Fails unless the box knows the connection still: it answers a SYN by an ACK of the server's.
    #[track_caller]
    fn assert_stands(&self) {
        let (action, frame) = self.there(SYN, 1_000_000, 0, b"");
        assert_eq!((action, &frame[..6]), (REDIRECT, &PEER_MAC[0][..]), "it goes back");
        let segment = segment_of(&frame);
        assert_eq!(segment[13], ACK);
        assert_eq!(segment[4..8], 501_u32.to_be_bytes(), "what the server sends next");
        assert_eq!(self.back(ACK, 501, 101), REDIRECT, "the server speaks on");
    }
}

#[test]
fn a_syn_into_a_connection_is_challenged() {
    let Some(rig) = Rig::with_rules("challenge", "pass keep state\n") else { return };
    Connection::open(&rig).assert_stands();
    assert_eq!(rig.dropped(0, IN, "state-mismatch"), 1);
}

/// A RST must stand at the edge of what its sender has sent, whatever it acknowledges.
#[test]
fn a_reset_behind_the_edge_ends_nothing() {
    let Some(rig) = Rig::with_rules("reset", "pass keep state\n") else { return };
    let connection = Connection::open(&rig);
    for (sequence, ack) in [(101 - 500, 0), (101 - 500, 501), (101 + 500, 0), (101 + 500, 501)] {
        let sequence = u32::from_ne_bytes(i32::to_ne_bytes(sequence));
        assert_eq!(connection.there(RST | ACK, sequence, ack, b"").0, DROP, "{sequence}");
        connection.assert_stands();
    }
}

/// What came behind a gap moves the edge: OpenBSD takes a RST before it if it acknowledges all that
/// the other end has sent, weir does not.
#[test]
fn a_reset_before_a_gap_ends_nothing() {
    let Some(rig) = Rig::with_rules("gap", "pass keep state\n") else { return };
    let connection = Connection::open(&rig);
    assert_eq!(connection.there(PSH_ACK, 117, 501, b"ABCDEFGH").0, REDIRECT);
    assert_eq!(connection.back(ACK, 501, 101), REDIRECT);
    assert_eq!(connection.there(PSH_ACK, 101, 501, b"abcdefgh").0, REDIRECT);
    assert_eq!(connection.back(ACK, 501, 109), REDIRECT);
    assert_eq!(connection.there(RST | ACK, 109, 501, b"").0, DROP);
    connection.assert_stands();
    // At the edge it does.
    assert_eq!(connection.there(RST | ACK, 125, 501, b"").0, REDIRECT);
    let (action, frame) = connection.there(SYN, 1_000_000, 0, b"");
    assert_eq!((action, &frame[..6]), (REDIRECT, &PEER_MAC[1][..]), "a new connection");
}

/// A piece of a datagram over either family.
fn piece(ends: &Ends, at: u16, more: bool, bytes: &[u8]) -> Vec<u8> {
    if ends.src.is_ipv4() {
        return fragment(ends, at, more, bytes);
    }
    let mut message = vec![17, 0];
    message.extend_from_slice(&(at | u16::from(more)).to_be_bytes());
    message.extend_from_slice(&[0, 0, 0, 9]);
    message.extend_from_slice(bytes);
    ends.message(44, &message)
}

/// Pieces of a datagram that overlap: pf cuts or drops one of two of IPv4, and all of IPv6. weir
/// drops the later one if it knows the first of all; else the host at the end has to see to it.
#[test]
fn of_fragments_that_overlap_the_later_one_is_dropped() {
    let Some(rig) = Rig::with_rules("overlap", "pass\n") else { return };
    let header = [1000_u16, 53, 40, 0].map(u16::to_be_bytes).concat();
    let first = |ends: &Ends, bytes: usize| {
        piece(ends, 0, true, &[&header[..], &vec![0; bytes - header.len()]].concat())
    };
    let send = |frame: &[u8]| rig.receive(0, frame).action;
    for (net, host, dropped) in [("192.0.2.", "10.0.2.2", 2), ("2001:db8::", "fd00:2::2", 4)] {
        let ends = |number: u8| Ends::new(&format!("{net}{number}"), host);
        // The beginning of the new one.
        assert_eq!(send(&first(&ends(1), 16)), REDIRECT);
        assert_eq!(send(&piece(&ends(1), 8, false, &[1; 32])), DROP, "{host}");
        // All of an old one.
        assert_eq!(send(&first(&ends(2), 8)), REDIRECT);
        assert_eq!(send(&piece(&ends(2), 16, true, &[1; 8])), REDIRECT);
        assert_eq!(send(&piece(&ends(2), 8, false, &[1; 32])), DROP, "{host}");
        assert_eq!(rig.dropped(0, IN, "fragment"), dropped);
        // The first one comes last: what came before it is not remembered.
        for frame in [piece(&ends(3), 8, false, &[1; 32]), first(&ends(3), 16)] {
            assert_eq!(send(&frame), REDIRECT, "{host}");
        }
        let before = [piece(&ends(4), 8, false, &[1; 32]), piece(&ends(4), 16, true, &[1; 8])];
        for frame in before.into_iter().chain([first(&ends(4), 8)]) {
            assert_eq!(send(&frame), REDIRECT, "{host}");
        }
        assert_eq!(rig.dropped(0, IN, "fragment"), dropped);
    }
}
