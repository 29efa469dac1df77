//! Fragments follow the first one of their packet.

use super::frames::{ETH_BYTES, Ends, fragment};
use super::rig::{DROP, REDIRECT, Rig};

const IN: u32 = 0;
const RULES: &str = "block all\npass proto udp to port 53 keep state\n";

/// A first fragment: the header of a datagram of 3000 bytes and what follows.
fn first(ends: &Ends, port: u16, bytes: usize) -> Vec<u8> {
    let mut message = vec![0; bytes];
    message[..2].copy_from_slice(&1000_u16.to_be_bytes());
    message[2..4].copy_from_slice(&port.to_be_bytes());
    message[4..6].copy_from_slice(&3000_u16.to_be_bytes());
    fragment(ends, 0, true, &message)
}

#[test]
fn later_ones_go_where_the_first_one_went() {
    let Some(rig) = Rig::with_rules("frag", RULES) else { return };
    let ends = Ends::new("192.0.2.1", "10.0.2.2");
    let later = fragment(&ends, 1000, true, &[0; 1000]);
    let last = fragment(&ends, 2000, false, &[0; 1000]);
    assert_eq!(rig.receive(0, &later).action, DROP, "a stranger: no rule is for it");
    assert_eq!(rig.dropped(0, IN, "match"), 1);
    assert_eq!(rig.receive(0, &first(&ends, 53, 1000)).action, REDIRECT);
    assert_eq!(rig.receive(0, &later).action, REDIRECT);
    assert_eq!(rig.receive(0, &last).action, REDIRECT);
    assert_eq!(rig.receive(0, &later).action, DROP, "the packet is complete");
    assert_eq!(rig.dropped(0, IN, "match"), 2);
}

#[test]
fn those_of_a_blocked_packet_are_blocked() {
    let Some(rig) = Rig::with_rules("fragno", RULES) else { return };
    let ends = Ends::new("192.0.2.1", "10.0.2.2");
    assert_eq!(rig.receive(0, &first(&ends, 54, 1000)).action, DROP);
    assert_eq!(rig.receive(0, &fragment(&ends, 1000, false, &[0; 16])).action, DROP);
}

#[test]
fn overlap_and_what_is_impossible_are_dropped() {
    let Some(rig) = Rig::with_rules("fragbad", RULES) else { return };
    let ends = Ends::new("192.0.2.1", "10.0.2.2");
    assert_eq!(rig.receive(0, &first(&ends, 53, 1000)).action, REDIRECT);
    assert_eq!(rig.receive(0, &fragment(&ends, 2000, false, &[0; 8])).action, REDIRECT, "the last");
    let bad = [
        ("a second first", first(&ends, 53, 1000)),
        ("an overlap", fragment(&ends, 992, true, &[0; 16])),
        ("beyond the end", fragment(&ends, 2008, true, &[0; 8])),
        ("a second last", fragment(&ends, 1504, false, &[0; 8])),
        ("not a multiple of eight", fragment(&ends, 1200, true, &[0; 9])),
        ("empty", fragment(&ends, 1200, true, &[])),
        ("beyond all packets", fragment(&ends, 65528, false, &[0; 16])),
    ];
    for (index, (what, frame)) in bad.iter().enumerate() {
        assert_eq!(rig.receive(0, frame).action, DROP, "{what}");
        assert_eq!((rig.dropped(0, IN, "fragment"), what), (index as u64 + 1, what));
    }
}

#[test]
fn pieces_that_leave_many_gaps_are_not_all_remembered() {
    let Some(rig) = Rig::with_rules("fraggap", RULES) else { return };
    let ends = Ends::new("192.0.2.1", "10.0.2.2");
    assert_eq!(rig.receive(0, &first(&ends, 53, 8)).action, REDIRECT);
    let passed = (1..40).filter(|index| {
        rig.receive(0, &fragment(&ends, index * 16, true, &[0; 8])).action == REDIRECT
    });
    assert_eq!(passed.count(), 15);
}

#[test]
fn those_of_ipv6_follow_too() {
    let Some(rig) = Rig::with_rules("frag6", RULES) else { return };
    let ends = Ends::new("2001:db8::1", "fd00:2::2");
    let piece = |at: u16, more: bool, bytes: &[u8]| {
        let field = at | u16::from(more);
        let mut header = vec![17, 0];
        header.extend_from_slice(&field.to_be_bytes());
        header.extend_from_slice(&[0, 0, 0, 9]);
        header.extend_from_slice(bytes);
        ends.message(44, &header)
    };
    let whole = first(&Ends::new("192.0.2.1", "10.0.2.2"), 53, 1000);
    let later = piece(1000, false, &[0; 100]);
    assert_eq!(rig.receive(0, &later).action, DROP);
    assert_eq!(rig.receive(0, &piece(0, true, &whole[ETH_BYTES + 20..])).action, REDIRECT);
    assert_eq!(rig.receive(0, &later).action, REDIRECT);
    let whole_in_one = piece(0, false, &whole[ETH_BYTES + 20..]);
    assert_eq!(rig.receive(0, &whole_in_one).action, DROP, "no fragment: its length is wrong");
}

#[test]
fn those_of_ipv6_follow_a_first_one_with_further_headers() {
    let Some(rig) = Rig::with_rules("frag6x", RULES) else { return };
    let ends = Ends::new("2001:db8::1", "fd00:2::2");
    let piece = |at: u16, more: bool, bytes: &[u8]| {
        // The next header is that of destination options, in every fragment.
        let mut header = vec![60, 0];
        header.extend_from_slice(&(at | u16::from(more)).to_be_bytes());
        header.extend_from_slice(&[0, 0, 0, 9]);
        header.extend_from_slice(bytes);
        ends.message(44, &header)
    };
    let whole = first(&Ends::new("192.0.2.1", "10.0.2.2"), 53, 992);
    // Options of padding alone, then UDP.
    let mut options = vec![17, 0, 1, 4, 0, 0, 0, 0];
    options.extend_from_slice(&whole[ETH_BYTES + 20..]);
    assert_eq!(rig.receive(0, &piece(0, true, &options)).action, REDIRECT);
    assert_eq!(rig.receive(0, &piece(1000, false, &[0; 100])).action, REDIRECT);
    assert_eq!(rig.receive(0, &piece(992, true, &[0; 16])).action, DROP, "that was the last");
}

#[test]
fn more_packets_than_the_limit_find_no_room() {
    let Some(rig) = Rig::with_rules("fraglim", RULES) else { return };
    let send = |index: u16| {
        let ends = Ends::new(&format!("192.0.2.{index}"), "10.0.2.2");
        rig.receive(0, &first(&ends, 53, 1000)).action
    };
    let passed = (1..100).filter(|index| send(*index) == REDIRECT).count();
    assert_eq!(passed, 64, "as many as the loader was told");
    assert_eq!(rig.dropped(1, 1, "memory"), 35);
}
