//! What comes in where there is no XDP: the program on the kernel's packets says of each frame what
//! the ingress program says, for the same reason, with the same answer, the same changes and the
//! same states.

use weir_bpf::firewall::layout::{control, table};
use weir_bpf::firewall::reasons::REASONS;

use super::frames::{ACK, ETH_BYTES, Ends, FIN, RST, SYN, Segment, fix, fragment};
use super::rig::{BOX_MAC, Rig};

const IN: u32 = 0;

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passed,
    Dropped,
    Answered,
}

/// Of XDP; a redirection to who sent the frame is an answer.
fn by_ingress(rig: &Rig, frame: &[u8]) -> (Fate, Vec<u8>) {
    let replies = rig.table_counter(table::REPLIES);
    let verdict = rig.receive(0, frame);
    let fate = match verdict.action {
        1 => Fate::Dropped,
        _ if rig.table_counter(table::REPLIES) > replies => Fate::Answered,
        2 | 4 => Fate::Passed,
        action => panic!("an action of {action}"),
    };
    (fate, verdict.frame)
}

/// Of traffic control.
fn by_entry(rig: &Rig, frame: &[u8]) -> (Fate, Vec<u8>) {
    let verdict = rig.enter(0, frame);
    let fate = match verdict.action {
        -1 => Fate::Passed,
        2 => Fate::Dropped,
        7 => Fate::Answered,
        action => panic!("an action of {action}"),
    };
    (fate, verdict.frame)
}

/// A frame without what a router changes: MAC addresses, TTL, and the header's checksum.
fn unrouted(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..12].fill(0);
    if frame[ETH_BYTES] >> 4 == 4 {
        frame[ETH_BYTES + 8] = 0;
        frame[ETH_BYTES + 10..ETH_BYTES + 12].fill(0);
    } else {
        frame[ETH_BYTES + 7] = 0;
    }
    frame
}

fn drops(rig: &Rig) -> Vec<u64> {
    REASONS.iter().map(|reason| rig.dropped(0, IN, reason.name)).collect()
}

/// Has both programs judge the same frames, one after the other, each with a memory of its own.
fn compare(what: &str, rules: &str, frames: &[(&str, Vec<u8>)]) {
    let Some(xdp) = Rig::with_rules(&format!("{what}x"), rules) else { return };
    let Some(tcx) = Rig::with_rules(&format!("{what}t"), rules) else { return };
    for (which, frame) in frames {
        let (expected, theirs) = by_ingress(&xdp, frame);
        let (fate, ours) = by_entry(&tcx, frame);
        assert_eq!(fate, expected, "{what}: {which}");
        assert_eq!(drops(&tcx), drops(&xdp), "{what}: {which}");
        match fate {
            Fate::Passed => assert_eq!(unrouted(&ours), unrouted(&theirs), "{what}: {which}"),
            Fate::Answered => assert_eq!(ours, theirs, "{what}: {which}"),
            Fate::Dropped => {}
        }
    }
    for family in [0, 1] {
        assert_eq!(tcx.passed(0, IN, family), xdp.passed(0, IN, family), "{what}: passed");
    }
    // The way out makes no state of its own here: nothing leaves by the kernel in a test run.
    let states = |rig: &Rig| rig.firewall.arena().read64(control::STATE_COUNT);
    assert_eq!(states(&tcx), states(&xdp), "{what}: states");
}

fn segment(flags: u8, port: u16) -> Segment {
    Segment { ports: (1234, port), sequence: 100, acknowledgement: 0, flags }
}

/// Frames of all kinds from one host to another.
fn frames(ends: &Ends, other: &Ends) -> Vec<(&'static str, Vec<u8>)> {
    let mut wrong_header = ends.udp((1000, 53), b"wrong header");
    wrong_header[ETH_BYTES + 10] ^= 1;
    let mut wrong_segment = ends.tcp(&segment(SYN, 81), b"");
    wrong_segment[ETH_BYTES + 36] ^= 1;
    let mut options = ends.packet(17, &[3, 232, 0, 53, 0, 8, 0, 0]);
    options.splice(20..20, [0x94, 4, 0, 0]);
    options[0] = 0x46;
    options[3] += 4;
    let mut options = super::frames::frame(&options);
    fix(&mut options);
    let mut wrong_options = options.clone();
    wrong_options[ETH_BYTES + 10] ^= 1;
    let mut elsewhere = ends.tcp(&segment(SYN, 81), b"");
    elsewhere[5] ^= 0x40;
    let mut empty = ends.udp((1000, 53), b"");
    empty[ETH_BYTES + 2..ETH_BYTES + 4].fill(0);
    fix(&mut empty);
    let mut group = ends.udp((1000, 54), b"");
    group[0] |= 1;
    vec![
        ("a SYN that passes", ends.tcp(&segment(SYN, 80), b"")),
        ("its repetition", ends.tcp(&segment(SYN, 80), b"")),
        (
            "a segment outside of its window",
            ends.tcp(&Segment { sequence: 9_000_000, ..segment(ACK, 80) }, b"x"),
        ),
        ("a SYN that is blocked", ends.tcp(&segment(SYN, 81), b"")),
        ("one with the wrong checksum", wrong_segment),
        ("one for another MAC address", elsewhere),
        ("a RST that is blocked", ends.tcp(&segment(RST, 81), b"")),
        ("a SYN with FIN", ends.tcp(&segment(SYN | FIN, 80), b"")),
        ("no flags at all", ends.tcp(&segment(0, 80), b"")),
        ("an ACK without a state", ends.tcp(&segment(ACK, 82), b"0123456789")),
        ("a datagram that passes", ends.udp((1000, 53), b"passes")),
        ("a datagram that is blocked", ends.udp((1000, 54), &[7; 900])),
        ("one to a group", group),
        ("a header with the wrong checksum", wrong_header),
        ("one without a length", empty),
        ("IP options", options),
        ("IP options with the wrong checksum", wrong_options),
        ("a later fragment of nothing", fragment(ends, 1000, false, &[0; 100])),
        ("an echo request", ends.echo(7)),
        ("a datagram over IPv6 that passes", other.udp((1000, 53), b"passes")),
        ("one that is blocked", other.udp((1000, 54), &[7; 1300])),
        ("a SYN over IPv6 that is blocked", other.tcp(&segment(SYN, 81), b"")),
        ("an echo request over IPv6", other.echo(7)),
        ("what is for the box", Ends::new("10.0.1.2", "10.0.1.1").udp((1000, 53), b"box")),
        ("a frame that ends early", ends.tcp(&segment(SYN, 80), b"")[..ETH_BYTES + 30].to_vec()),
    ]
}

const RULES: &str = "\
block return
pass in on b0 proto tcp to any port 80 flags S/SA keep state
pass in on b0 proto udp to any port 53 keep state
pass in on b0 proto { icmp icmp6 } keep state
";

#[test]
fn it_says_what_the_ingress_program_says() {
    let (ends, other) = (Ends::new("10.0.1.2", "10.0.9.2"), Ends::new("fd00:1::2", "fd00:9::2"));
    compare("says", RULES, &frames(&ends, &other));
    compare("drop", &RULES.replace("block return", "block"), &frames(&ends, &other));
    compare("none", "", &frames(&ends, &other));
}

#[test]
fn fragments_follow_their_first_one() {
    let ends = Ends::new("10.0.1.2", "10.0.9.2");
    let mut message = vec![0; 1000];
    message[..8].copy_from_slice(&[3, 232, 0, 53, 11, 184, 0, 0]);
    let list = [
        ("a stranger", fragment(&ends, 1000, true, &[1; 1000])),
        ("the first", fragment(&ends, 0, true, &message)),
        ("the second", fragment(&ends, 1000, true, &[1; 1000])),
        ("an overlap", fragment(&ends, 1008, true, &[1; 1000])),
        ("the last", fragment(&ends, 2000, false, &[2; 1000])),
        ("again", fragment(&ends, 2000, false, &[2; 1000])),
    ];
    compare("frag", "block\npass in on b0 proto udp to any port 53 keep state\n", &list);
    let translating = "rdr on b0 proto udp to 10.0.9.2 port 53 -> 10.0.9.3\nblock\n\
                       pass in on b0 proto udp to 10.0.9.3 port 53 keep state\n";
    compare("fragt", translating, &list);
}

#[test]
fn it_changes_what_the_ingress_program_changes() {
    let (ends, other) = (Ends::new("10.0.1.2", "10.0.9.2"), Ends::new("fd00:1::2", "fd00:9::2"));
    let list = frames(&ends, &other);
    let headers = "scrub in on b0 no-df set-tos 0x20\nscrub in on b0 max-mss 1000\n";
    compare("scrub", &format!("{headers}{RULES}"), &list);
    let ports = "rdr on b0 inet proto tcp to 10.0.9.2 port 80 -> 10.0.9.7 port 8080\n\
                 rdr on b0 inet6 proto udp to fd00:9::2 port 53 -> fd00:9::7\n";
    let rules = RULES.replace("port 80 ", "port { 80 8080 } ");
    compare("rdr", &format!("{ports}{rules}"), &list);
}

/// An answer to a packet whose checksum is to be made by hardware, or that is longer than the MTU,
/// cannot be had in a test run; that the link's header is turned round can.
#[test]
fn an_answer_goes_to_who_sent_the_packet() {
    let Some(rig) = Rig::with_rules("turn", "block return\n") else { return };
    let frame = Ends::new("10.0.1.2", "10.0.9.2").tcp(&segment(SYN, 81), b"");
    let verdict = rig.enter(0, &frame);
    assert_eq!((verdict.action, verdict.frame.len()), (7, ETH_BYTES + 40));
    assert_eq!((&verdict.frame[..6], &verdict.frame[6..12]), (&frame[6..12], &BOX_MAC[0][..]));
    assert_eq!(rig.table_counter(table::REPLIES), 1);
}
