//! What never comes so far as the rules.

use super::frames::{ETH_BYTES, Ends, Segment, fix, frame};
use super::rig::{DROP, PASS, REDIRECT, Rig};

const IN: u32 = 0;

/// A frame, and the reason for which it is dropped.
type Case = (&'static str, &'static str, Vec<u8>);

fn broken_ipv4() -> Vec<Case> {
    let good = Ends::new("192.0.2.1", "10.0.2.2").udp((1, 2), b"0123");
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[ETH_BYTES + at] = byte;
        frame
    };
    let with_sum = |at: usize, byte: u8| {
        let mut frame = with(at, byte);
        fix(&mut frame);
        frame
    };
    vec![
        ("a wrong header checksum", "proto-cksum", with(10, 0)),
        ("another version", "short", with_sum(0, 0x55)),
        ("a header of 16 bytes", "short", with_sum(0, 0x44)),
        ("a header beyond the packet", "short", with_sum(0, 0x4f)),
        ("longer than the frame", "short", with_sum(3, 33)),
        ("cut in the IP header", "short", good[..ETH_BYTES + 19].to_vec()),
        ("too short for UDP", "short", frame(&Ends::new("192.0.2.1", "10.0.2.2").packet(17, b"0"))),
        ("a datagram beyond the packet", "short", with(25, 13)),
        ("a datagram of 7 bytes", "short", with(25, 7)),
    ]
}

fn broken_messages() -> Vec<Case> {
    let v4 = Ends::new("192.0.2.1", "10.0.2.2");
    let v6 = Ends::new("2001:db8::1", "fd00:2::2");
    let flags = |flags: u8| v4.tcp(&Segment { ports: (1, 2), flags, ..Segment::default() }, b"");
    let mut short_header = flags(2);
    short_header[ETH_BYTES + 32] = 4 << 4;
    let mut long_header = flags(2);
    long_header[ETH_BYTES + 32] = 6 << 4;
    vec![
        ("no flag", "normalize", flags(0)),
        ("SYN and RST", "normalize", flags(0x06)),
        ("FIN alone", "normalize", flags(0x01)),
        ("RST and PSH", "normalize", flags(0x0c)),
        ("a TCP header of 16 bytes", "normalize", short_header),
        ("a TCP header beyond the packet", "short", long_header),
        ("UDP to port 0", "short", v4.udp((1, 0), b"")),
        ("UDP over IPv6 to port 0", "short", v6.udp((1, 0), b"")),
        ("ICMPv6 over IPv4", "normalize", frame(&v4.packet(58, &[128, 0, 0, 0, 0, 0, 0, 0]))),
        ("ICMP over IPv6", "normalize", frame(&v6.packet(1, &[8, 0, 0, 0, 0, 0, 0, 0]))),
        ("ICMP of 7 bytes", "short", frame(&v4.packet(1, &[8, 0, 0, 0, 0, 0, 0]))),
        ("an extension header beyond the end", "short", frame(&v6.packet(0, &[17, 1, 0, 0]))),
        ("a type 0 routing header", "ip-option", frame(&v6.packet(43, &[17, 0, 0, 0, 0, 0, 0, 0]))),
        ("20 extension headers", "ip-option", frame(&v6.packet(60, &endless(20)))),
    ]
}

/// Destination options headers, the last of which announces another one.
fn endless(count: usize) -> Vec<u8> {
    [60, 0, 1, 4, 0, 0, 0, 0].repeat(count)
}

#[test]
fn malformed_packets_are_dropped_for_their_reason() {
    let Some(rig) = Rig::with_rules("sanity", "pass no state\n") else { return };
    for (what, reason, frame) in broken_ipv4().into_iter().chain(broken_messages()) {
        let before = rig.dropped(0, IN, reason);
        let verdict = rig.receive(0, &frame);
        assert_eq!((verdict.action, what), (DROP, what));
        assert_eq!((rig.dropped(0, IN, reason), what), (before + 1, what));
    }
}

/// Segments without SYN, FIN and RST, of which the quick way takes the good ones.
fn broken_segments(good: &[u8]) -> Vec<Case> {
    let with = |at: usize, byte: u8| {
        let mut frame = good.to_vec();
        frame[ETH_BYTES + at] = byte;
        fix(&mut frame);
        frame
    };
    vec![
        ("a packet of no bytes", "short", with(3, 0)),
        ("a packet of 12 bytes", "short", with(3, 12)),
        ("a packet of 19 bytes", "short", with(3, 19)),
        ("no byte of a segment", "short", with(3, 20)),
        ("8 bytes of a segment", "short", with(3, 28)),
        ("a byte too few", "short", with(3, 39)),
        ("a TCP header of 16 bytes", "normalize", with(32, 4 << 4)),
        ("a TCP header beyond the packet", "short", with(32, 15 << 4)),
    ]
}

fn segment(ends: &Ends, ports: (u16, u16), numbers: (u32, u32), flags: u8) -> Vec<u8> {
    let (sequence, acknowledgement) = numbers;
    ends.tcp(&Segment { ports, sequence, acknowledgement, flags }, b"")
}

#[test]
fn broken_segments_of_a_known_flow_are_dropped_as_all_others() {
    for rules in ["pass\n", ""] {
        let Some(rig) = Rig::with_rules("segments", rules) else { return };
        let there = Ends::new("10.0.1.2", "10.0.2.2");
        let back = there.back();
        let good = segment(&there, (1000, 80), (101, 501), 0x10);
        for (side, frame) in [
            (0, segment(&there, (1000, 80), (100, 0), 0x02)),
            (1, segment(&back, (80, 1000), (500, 101), 0x12)),
            (0, good.clone()),
            (0, good.clone()),
        ] {
            assert_eq!(rig.receive(side, &frame).action, REDIRECT, "{rules:?}");
        }
        for (what, reason, frame) in broken_segments(&good) {
            let before = (rig.dropped(0, IN, reason), rig.forwarded());
            assert_eq!((rig.receive(0, &frame).action, what), (DROP, what), "{rules:?}");
            let after = (rig.dropped(0, IN, reason), rig.forwarded());
            assert_eq!((after, what), ((before.0 + 1, before.1), what), "{rules:?}");
        }
        assert_eq!(rig.receive(0, &good).action, REDIRECT, "{rules:?}: the flow goes on");
    }
}

#[test]
fn a_disabled_box_drops_nothing() {
    let Some(rig) = Rig::new("off") else { return };
    rig.set_flags(0);
    for (what, _, frame) in broken_ipv4() {
        assert_eq!(rig.receive(0, &frame).action, PASS, "{what}: the kernel's to judge");
    }
}

/// What routers say is a matter of rules: whose word the box takes for its addresses and routes.
/// How neighbours find each other is not.
#[test]
fn routers_are_judged_and_neighbours_are_not() {
    let rules = "block in quick inet6 proto icmp6 icmp6-type { routeradv redir }\npass\n";
    for (what, rules, expected) in [
        ("routers", rules, [PASS, DROP, PASS, PASS, DROP]),
        ("nd", "block\n", [PASS, DROP, PASS, PASS, DROP]),
    ] {
        let Some(rig) = Rig::with_rules(what, rules) else { return };
        let echo = Ends::new("fe80::2", "ff02::1").ttl(255).echo(0);
        let of_type = |kind: u8| {
            let mut frame = echo.clone();
            let message = &mut frame[ETH_BYTES + 40..];
            // The checksum goes down by what the first word goes up (RFC 1624).
            let sum = u16::from_be_bytes([message[2], message[3]]);
            let more = u16::from(kind - message[0]) << 8;
            message[0] = kind;
            let sum = sum.checked_sub(more).unwrap_or_else(|| sum.wrapping_sub(more) - 1);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            frame
        };
        let found = [133, 134, 135, 136, 137].map(|kind| rig.receive(0, &of_type(kind)).action);
        assert_eq!(found, expected, "{what}");
    }
}
