//! Answers to blocked packets.

use weir_bpf::firewall::layout::table;
use weir_wire::{icmp, ipv4, ipv6, tcp};

use super::frames::{ETH_BYTES, Ends, SYN, Segment};
use super::rig::{BOX_MAC, DROP, PEER_MAC, REDIRECT, Rig};

/// A redirection, to the interface itself.
const SEND_BACK: i32 = 4;
const IN: u32 = 0;
const RST_ACK: u8 = 0x14;

fn segment(flags: u8) -> Segment {
    Segment { ports: (1234, 80), sequence: 0xffff_fffe, acknowledgement: 77, flags }
}

#[test]
fn a_segment_is_answered_by_a_reset() {
    let Some(rig) = Rig::with_rules("rst", "block return all\n") else { return };
    let ends = Ends::new("192.0.2.1", "10.0.2.2");
    for (flags, payload, acknowledges) in [
        (SYN, &b""[..], 0xffff_ffff_u32),
        (0x10, b"0123456789", 8),
        (0x11, b"0123456789abcdefghij", 19),
    ] {
        let verdict = rig.receive(0, &ends.tcp(&segment(flags), payload));
        assert_eq!(verdict.action, SEND_BACK);
        assert_eq!(
            (&verdict.frame[..6], &verdict.frame[6..12]),
            (&PEER_MAC[0][..], &BOX_MAC[0][..])
        );
        assert_eq!(verdict.frame.len(), ETH_BYTES + 40);
        let ip = ipv4::Packet::new_checked(&verdict.frame[ETH_BYTES..]).unwrap();
        let header = ipv4::Repr::parse(&ip).expect("the header is right");
        assert_eq!(
            (header.src.to_string(), header.dst.to_string()),
            ("10.0.2.2".into(), "192.0.2.1".into())
        );
        let view = tcp::Packet::new_checked(ip.payload()).unwrap();
        let reset = tcp::Repr::parse(&view, header.src, header.dst).expect("its checksum is right");
        assert_eq!((reset.src_port, reset.dst_port), (80, 1234));
        assert_eq!((reset.flags.0, reset.sequence), (RST_ACK, 77));
        assert_eq!(reset.acknowledgement, acknowledges);
    }
    assert_eq!(rig.dropped(0, IN, "match"), 3);
}

#[test]
fn a_segment_over_ipv6_is_answered_by_a_reset() {
    let Some(rig) = Rig::with_rules("rst6", "block return all\n") else { return };
    let verdict = rig.receive(0, &Ends::new("2001:db8::1", "fd00:2::2").tcp(&segment(SYN), b""));
    assert_eq!(verdict.action, SEND_BACK);
    let ip = ipv6::Packet::new_checked(&verdict.frame[ETH_BYTES..]).unwrap();
    assert_eq!(
        (ip.src().to_string(), ip.dst().to_string()),
        ("fd00:2::2".into(), "2001:db8::1".into())
    );
    let view = tcp::Packet::new_checked(ip.payload()).unwrap();
    let reset = tcp::Repr::parse(&view, ip.src(), ip.dst()).expect("its checksum is right");
    assert_eq!((reset.flags.0, reset.acknowledgement), (RST_ACK, 0xffff_ffff));
}

#[test]
fn what_is_no_right_segment_is_not_answered() {
    let Some(rig) = Rig::with_rules("norst", "block return all\n") else { return };
    let ends = Ends::new("192.0.2.1", "10.0.2.2");
    assert_eq!(rig.receive(0, &ends.tcp(&segment(0x04), b"")).action, DROP, "a RST");
    let mut wrong = ends.tcp(&segment(SYN), b"");
    wrong[ETH_BYTES + 36] ^= 1;
    assert_eq!(rig.receive(0, &wrong).action, DROP, "a wrong checksum");
    assert_eq!(rig.dropped(0, IN, "proto-cksum"), 1);
}

#[test]
fn what_was_sent_to_somebody_else_is_not_answered() {
    let Some(rig) = Rig::with_rules("flood", "block return all\n") else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    for mut frame in [ends.tcp(&segment(SYN), b""), ends.udp((1234, 53), b"")] {
        assert_eq!(rig.receive(0, &frame).action, SEND_BACK);
        frame[5] ^= 0x40;
        assert_eq!(rig.receive(0, &frame).action, DROP, "a switch has flooded it");
    }
    assert_eq!(rig.dropped(0, IN, "match"), 4);
    assert_eq!(rig.table_counter(table::REPLIES), 2);
}

#[test]
fn who_passes_but_gets_no_state_is_answered_if_the_policy_says_so() {
    for (policy, action) in [("return", SEND_BACK), ("drop", DROP)] {
        let rules = format!("set fail-policy {policy}\npass keep state (max 1)\n");
        let Some(rig) = Rig::with_rules("fail", &rules) else { return };
        let ends = Ends::new("10.0.1.2", "10.0.2.2");
        assert_eq!(rig.receive(0, &ends.udp((1000, 53), b"")).action, REDIRECT);
        let datagram = rig.receive(0, &ends.udp((1001, 53), b""));
        assert_eq!(datagram.action, action, "{policy}");
        let syn = rig.receive(0, &ends.tcp(&segment(SYN), b""));
        assert_eq!(syn.action, action, "{policy}");
        assert_eq!(rig.dropped(0, IN, "state-limit"), 2);
        if action == SEND_BACK {
            let ip = ipv4::Packet::new_checked(&datagram.frame[ETH_BYTES..]).unwrap();
            assert_eq!(ip.payload()[..2], [3, 3], "no such port");
            let ip = ipv4::Packet::new_checked(&syn.frame[ETH_BYTES..]).unwrap();
            assert_eq!(tcp::Packet::new_checked(ip.payload()).unwrap().flags().0, RST_ACK);
        }
    }
}

#[test]
fn a_datagram_is_answered_by_unreachable() {
    let Some(rig) = Rig::with_rules("unreach", "block return all\n") else { return };
    // The route back says which address is the box's own.
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    for payload_bytes in [0, 1, 100, 1400] {
        let frame = ends.udp((1000, 53), &vec![7; payload_bytes]);
        let verdict = rig.receive(0, &frame);
        assert_eq!(verdict.action, SEND_BACK, "{payload_bytes} bytes");
        let ip = ipv4::Packet::new_checked(&verdict.frame[ETH_BYTES..]).unwrap();
        assert!(ip.checksum_is_valid());
        assert_eq!(
            (ip.src().to_string(), ip.dst().to_string()),
            ("10.0.1.1".into(), "10.0.1.2".into())
        );
        let message = ip.payload();
        assert_eq!(icmp_checksum_rest(message), 0, "{payload_bytes} bytes");
        let view = icmp::Packet::new_checked(message).unwrap();
        assert_eq!((view.kind(), view.code()), (3, 3));
        let quoted = (28 + payload_bytes).min(548);
        assert_eq!(view.payload(), &frame[ETH_BYTES..ETH_BYTES + quoted]);
    }
}

#[test]
fn a_datagram_over_ipv6_is_answered_by_unreachable() {
    let Some(rig) = Rig::with_rules("unreach6", "block return all\n") else { return };
    let ends = Ends::new("fd00:1::2", "fd00:2::2");
    for payload_bytes in [0, 1, 100, 1400] {
        let frame = ends.udp((1000, 53), &vec![7; payload_bytes]);
        let verdict = rig.receive(0, &frame);
        assert_eq!(verdict.action, SEND_BACK, "{payload_bytes} bytes");
        let ip = ipv6::Packet::new_checked(&verdict.frame[ETH_BYTES..]).unwrap();
        assert_eq!(
            (ip.src().to_string(), ip.dst().to_string()),
            ("fd00:1::1".into(), "fd00:1::2".into())
        );
        let mut message = ip.payload().to_vec();
        let got = [message[2], message[3]];
        message[2..4].fill(0);
        let expected = weir_wire::checksum::icmp_v6(ip.src(), ip.dst(), &message);
        assert_eq!(u16::from_be_bytes(got), expected, "{payload_bytes} bytes");
        assert_eq!((message[0], message[1]), (1, 4));
        let quoted = (48 + payload_bytes).min(1232);
        assert_eq!(message[8..], frame[ETH_BYTES..ETH_BYTES + quoted]);
    }
}

/// 0 if the message's checksum is right.
fn icmp_checksum_rest(message: &[u8]) -> u16 {
    let mut copy = message.to_vec();
    let got = u16::from_be_bytes([copy[2], copy[3]]);
    copy[2..4].fill(0);
    got ^ weir_wire::checksum::icmp_v4(&copy)
}
