//! Rules change headers of packets that pass: on the quick way of known flows as on the longer one,
//! with every checksum right.

use weir_bpf::firewall::layout::{SCRUB_COUNT_MAX, SCRUB_ENDS_SHIFT, SCRUBS_AT, table};
use weir_rules::Dialect;
use weir_wire::ipv4;

use super::frames::{ACK, ETH_BYTES, Ends, SYN, Segment, fix, options_of, segment_of};
use super::rig::{NEXT, PASS, REDIRECT, Rig};

/// What is looked at of an IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    ident: u16,
    dont_fragment: bool,
    ttl: u8,
    tos: u8,
}

/// That of a frame; its checksum is right.
fn header(frame: &[u8]) -> Header {
    let packet = ipv4::Packet::new_checked(&frame[ETH_BYTES..]).expect("a packet");
    let header = ipv4::Repr::parse(&packet).expect("the header is right");
    let ipv4::Repr { ident, dont_fragment, ttl, tos, .. } = header;
    Header { ident, dont_fragment, ttl, tos }
}

fn ends() -> Ends {
    Ends::new("10.0.1.2", "10.0.2.2")
}

/// The first segment of a connection with these options.
fn first_segment(options: &[u8]) -> Vec<u8> {
    let segment = Segment { ports: (1000, 80), flags: SYN, ..Segment::default() };
    ends().tcp_with_options(&segment, options)
}

/// The options of a frame's segment, whose checksum is right.
fn options(frame: &[u8]) -> Vec<u8> {
    options_of(&segment_of(frame)).to_vec()
}

#[test]
fn segment_sizes_are_lowered_wherever_they_stand() {
    for (what, rules) in [
        ("msslist", "scrub on b1 all max-mss 1000\npass\n"),
        ("mssmatch", "match out on b1 scrub (max-mss 1000)\npass\n"),
    ] {
        let Some(rig) = Rig::with_rules(what, rules) else { return };
        for (came, left) in [
            (&[2, 4, 5, 0xb4][..], &[2, 4, 3, 0xe8][..]),
            (&[2, 4, 3, 0xe8], &[2, 4, 3, 0xe8]),
            (&[2, 4, 0, 9], &[2, 4, 0, 9]),
            // At an odd place, and behind another option.
            (&[1, 2, 4, 5, 0xb4, 1, 1, 0], &[1, 2, 4, 3, 0xe8, 1, 1, 0]),
            (&[3, 3, 7, 2, 4, 0xff, 0xff, 1], &[3, 3, 7, 2, 4, 3, 0xe8, 1]),
            // Twice.
            (&[2, 4, 5, 0xb4, 1, 2, 4, 9, 9, 0, 0, 0], &[2, 4, 3, 0xe8, 1, 2, 4, 3, 0xe8, 0, 0, 0]),
            // None: cut off, of another size, or behind the end.
            (&[1, 1, 1, 2], &[1, 1, 1, 2]),
            (&[2, 3, 9, 1], &[2, 3, 9, 1]),
            (&[0, 2, 4, 5, 0xb4, 0, 0, 0], &[0, 2, 4, 5, 0xb4, 0, 0, 0]),
        ] {
            let verdict = rig.receive(0, &first_segment(came));
            assert_eq!(verdict.action, REDIRECT, "{came:?}");
            assert_eq!(options(&verdict.frame), left, "{what}: {came:?}");
        }
    }
}

#[test]
fn an_answer_to_a_syn_is_changed_and_nothing_behind_it() {
    let rules = "match out on b1 scrub (max-mss 1000)\npass\n";
    let Some(rig) = Rig::with_rules("mssback", rules) else { return };
    let big = [2, 4, 5, 0xb4];
    assert_eq!(rig.receive(0, &first_segment(&big)).action, REDIRECT);
    let back = |flags: u8, sequence: u32| {
        let segment = Segment { ports: (80, 1000), sequence, acknowledgement: 1, flags };
        rig.receive(1, &ends().back().tcp_with_options(&segment, &big))
    };
    let answer = back(SYN | ACK, 500);
    assert_eq!((answer.action, options(&answer.frame)), (REDIRECT, vec![2, 4, 3, 0xe8]));
    let next = back(ACK, 501);
    assert_eq!((next.action, options(&next.frame)), (REDIRECT, big.to_vec()));
}

/// The packets of one flow: the first by the rules, the others by its state, on the quick way.
#[test]
fn known_flows_are_changed_as_their_first_packet() {
    for (what, rules) in [
        ("hdrlist", "scrub in on b0 no-df set-tos 0x20\nscrub out on b1 min-ttl 200\npass\n"),
        (
            "hdrstate",
            "match in scrub (no-df) set tos 0x20\nmatch out on b1 scrub (min-ttl 200)\npass\n",
        ),
        (
            "hdrnat",
            "nat on b1 inet from 10.0.1.0/24 to any -> 10.0.2.1\n\
             match in scrub (no-df, set-tos 0x20)\nmatch out on b1 scrub (min-ttl 200)\npass\n",
        ),
    ] {
        let Some(rig) = Rig::with_rules(what, rules) else { return };
        let expected = Header { ident: 7, dont_fragment: false, ttl: 200, tos: 0x20 };
        for round in 0..4_u8 {
            let verdict = rig.receive(0, &ends().udp((1000, 53), &[round]));
            assert_eq!(verdict.action, REDIRECT);
            assert_eq!(header(&verdict.frame), expected, "{what}: packet {round}");
        }
        let lookups = rig.table_counter(table::FIB_LOOKUPS);
        assert_eq!(lookups, 1, "{what}: the state knows the way");
    }
}

#[test]
fn answers_are_changed_by_the_same_halves() {
    let rules = "match in on b0 set tos 0x20\nmatch out on b1 scrub (min-ttl 90)\npass\n";
    let Some(rig) = Rig::with_rules("hdrback", rules) else { return };
    for round in 0..3_u8 {
        let there = rig.receive(0, &ends().udp((1000, 53), &[round]));
        assert_eq!((header(&there.frame).ttl, header(&there.frame).tos), (90, 0x20));
        // It comes in by the half whose rules raise the TTL, before it is counted down.
        let back = rig.receive(1, &ends().back().udp((53, 1000), &[round]));
        assert_eq!((header(&back.frame).ttl, header(&back.frame).tos), (89, 0x20));
    }
}

#[test]
fn the_largest_ttl_stays_what_it_is() {
    let Some(rig) = Rig::with_rules("ttlmax", "scrub out all min-ttl 255\npass\n") else { return };
    for round in 0..3_u8 {
        let verdict = rig.receive(0, &ends().udp((1000, 53), &[round]));
        assert_eq!((verdict.action, header(&verdict.frame).ttl), (REDIRECT, 255));
    }
    let Some(rig) = Rig::with_rules("ttlin", "scrub in all min-ttl 3\npass\n") else { return };
    for round in 0..3_u8 {
        let verdict = rig.receive(0, &ends().ttl(1).udp((1000, 53), &[round]));
        assert_eq!((verdict.action, header(&verdict.frame).ttl), (REDIRECT, 2), "it does not end");
    }
}

#[test]
fn identifications_are_random() {
    let Some(rig) = Rig::with_rules("ids", "scrub out on b1 random-id\npass\n") else { return };
    let mut idents: Vec<u16> = (0..64_u8)
        .map(|round| {
            let verdict = rig.receive(0, &ends().udp((1000, 53), &[round]));
            assert!(header(&verdict.frame).dont_fragment, "nothing else is changed");
            header(&verdict.frame).ident
        })
        .collect();
    idents.sort_unstable();
    idents.dedup();
    // Of 64 numbers of 65,536 hardly any two are the same.
    assert!(idents.len() > 56, "{idents:?}");
    assert!(idents.last().zip(idents.first()).is_some_and(|(last, first)| last - first > 8192));
}

#[test]
fn what_the_rules_leave_alone_is_left_alone() {
    let rules = "no scrub proto udp from any to any port 53\nscrub in proto tcp no-df\n\
                 scrub out on b0 no-df\npass\n";
    let Some(rig) = Rig::with_rules("left", rules) else { return };
    for round in 0..3_u8 {
        let udp = ends().udp((1000, 54), &[round]);
        let verdict = rig.receive(0, &udp);
        assert_eq!((verdict.action, header(&verdict.frame).dont_fragment), (REDIRECT, true));
        // Ports do not matter to the IP header: `no scrub` takes all of UDP.
        let back = rig.receive(1, &ends().back().udp((54, 1000), &[round]));
        assert_eq!((back.action, header(&back.frame).dont_fragment), (REDIRECT, true));
    }
    let echo = rig.receive(1, &ends().back().echo(9));
    assert_eq!((echo.action, header(&echo.frame).dont_fragment), (REDIRECT, false));
}

#[test]
fn what_the_box_gets_and_sends_is_changed_too() {
    let rules = "match in scrub (no-df)\nmatch out scrub (min-ttl 99, max-mss 1000)\npass\n";
    let Some(rig) = Rig::with_rules("own", rules) else { return };
    let verdict = rig.receive(0, &Ends::new("10.0.1.2", "10.0.1.1").udp((1000, 53), b"x"));
    assert_eq!((verdict.action, header(&verdict.frame).dont_fragment), (PASS, false));
    let local = Ends::new("10.0.2.1", "10.0.2.2");
    for round in 0..2_u8 {
        let verdict = rig.send(1, &local.udp((1000, 53), &[round]));
        assert_eq!((verdict.action, header(&verdict.frame).ttl), (NEXT, 99));
    }
}

/// States keep fifteen different changes; of a flow that would need another one the first packet
/// alone is changed.
#[test]
fn flows_pass_when_states_have_no_room_for_their_changes() {
    let Some(rig) = Rig::with_rules("many", "pass\n") else { return };
    let first = u16::try_from(SCRUB_COUNT_MAX).expect("few");
    let ttl_of = |number: u16| {
        let verdict = rig.receive(0, &ends().ttl(64).udp((1000 + number, 53), b"x"));
        assert_eq!(verdict.action, REDIRECT, "{number}");
        header(&verdict.frame).ttl
    };
    let changed = |number: u16| u8::try_from(99 + number).expect("small");
    for number in 0..=first {
        rig.load(&format!("match in scrub (min-ttl {})\npass\n", 100 + number));
        assert_eq!(ttl_of(number), changed(number));
    }
    // Those that are there keep theirs, whatever the rules say by now.
    for number in 0..first {
        assert_eq!(ttl_of(number), changed(number));
    }
    assert_eq!(ttl_of(first), 63, "its state keeps nothing");
    let last = rig.firewall.arena().read64(SCRUBS_AT + SCRUB_COUNT_MAX * 8);
    assert_ne!(last, 0, "all numbers are taken");
}

#[test]
fn a_change_that_was_to_end_is_kept_again() {
    let Some(rig) = Rig::with_rules("again", "match in scrub (min-ttl 100)\npass\n") else {
        return;
    };
    let ttl_of = |port: u16| {
        let verdict = rig.receive(0, &ends().ttl(64).udp((port, 53), b"x"));
        (verdict.action, header(&verdict.frame).ttl)
    };
    assert_eq!(ttl_of(1000), (REDIRECT, 99));
    let words = || [1, 2].map(|number| rig.firewall.arena().read64(SCRUBS_AT + number * 8));
    let before = words();
    rig.firewall.arena().write64(SCRUBS_AT + 8, before[0] | 1 << SCRUB_ENDS_SHIFT);
    assert_eq!(ttl_of(1000), (REDIRECT, 99), "states have it until then");
    for _ in 0..2 {
        assert_eq!(ttl_of(1001), (REDIRECT, 99));
    }
    assert_eq!(words(), before, "and no other number is taken for it");
}

/// What the box sends has the priority of its rules, and what it answers with that of its state's
/// other side; of two, the second is for acknowledgements and for low delay.
#[test]
fn what_leaves_has_the_priority_of_its_rules() {
    let rules = "pass\npass out proto udp to port 53 set prio (3, 6)\n\
                 pass in proto udp to port 7 set prio 4\n\
                 pass out proto tcp to port 80 set prio (2, 5)\n";
    let Some(rig) = Rig::with_rules("prio", rules) else { return };
    let local = Ends::new("10.0.2.1", "10.0.2.2");
    let sent = |frame: &[u8]| {
        let verdict = rig.send(1, frame);
        assert_eq!(verdict.action, NEXT);
        verdict.priority
    };
    for _ in 0..2 {
        assert_eq!(sent(&local.udp((1000, 53), b"x")), 3, "by the rule, and by its state");
        assert_eq!(sent(&local.udp((1000, 54), b"x")), 0, "nobody has said any");
    }
    let mut hasty = local.udp((1000, 53), b"x");
    hasty[ETH_BYTES + 1] = 0x10;
    fix(&mut hasty);
    assert_eq!(sent(&hasty), 6, "low delay");
    let syn = Segment { ports: (1000, 80), flags: SYN, ..Segment::default() };
    assert_eq!(sent(&local.tcp(&syn, b"")), 2);
    let (in_words, out_words) = (Ends::new("10.0.2.2", "10.0.2.1"), local);
    assert_eq!(rig.receive(1, &in_words.udp((1000, 7), b"x")).action, PASS);
    assert_eq!(sent(&out_words.udp((7, 1000), b"x")), 4, "of the way in");
}

/// Timestamps as an option, with the padding that hosts put before it.
fn stamps(value: u32, echo: u32) -> Vec<u8> {
    [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
}

/// Those of a frame.
fn stamped(frame: &[u8]) -> (u32, u32) {
    let options = options(frame);
    assert_eq!(options[..4], [1, 1, 8, 10]);
    let word = |at: usize| u32::from_be_bytes(options[at..at + 4].try_into().expect("four bytes"));
    (word(4), word(8))
}

/// A connection with timestamps, of a client that the server knows by another address: what is
/// added to those of the client, and of the server.
fn connect_with_stamps(rig: &Rig, port: u16, outside: &str) -> (u32, u32) {
    const HOURS: u32 = 0xffff_fff0;
    let (to, back) = (ends(), Ends { side: 1, ..Ends::new("10.0.2.2", outside) });
    let segment = |ports, flags, sequence| Segment { ports, flags, sequence, acknowledgement: 1 };
    let forth = |flags, sequence, options: &[u8]| {
        let verdict =
            rig.receive(0, &to.tcp_with_options(&segment((port, 80), flags, sequence), options));
        assert_eq!(verdict.action, REDIRECT);
        stamped(&verdict.frame)
    };
    let answer = |flags, sequence, options: &[u8]| {
        let verdict =
            rig.receive(1, &back.tcp_with_options(&segment((80, port), flags, sequence), options));
        assert_eq!(verdict.action, REDIRECT);
        stamped(&verdict.frame)
    };
    let (first, none) = forth(SYN, 0, &stamps(HOURS, 0));
    assert_eq!(none, 0, "nothing is echoed yet");
    let of_client = first.wrapping_sub(HOURS);
    let (second, echo) = answer(SYN | ACK, 0, &stamps(77, first));
    assert_eq!(echo, HOURS, "the client gets its own back");
    let of_server = second.wrapping_sub(77);
    for step in 1..5 {
        let (value, echo) = forth(ACK, 1, &stamps(HOURS.wrapping_add(step), second));
        assert_eq!((value, echo), (first.wrapping_add(step), 77));
        let (value, echo) = answer(ACK, 1, &stamps(77 + step, value));
        assert_eq!((value, echo), (second + step, HOURS.wrapping_add(step)));
    }
    (of_client, of_server)
}

#[test]
fn timestamps_of_connections_are_changed_from_their_beginning() {
    for (what, dialect, rules) in [
        ("stamplist", Dialect::FreeBsd, "scrub on b1 all reassemble tcp\npass keep state\n"),
        (
            "stampmatch",
            Dialect::OpenBsd,
            "match out on b1 scrub (reassemble tcp max-mss 1400)\npass\n",
        ),
        ("stampin", Dialect::OpenBsd, "match in on b0 scrub (reassemble tcp no-df)\npass\n"),
        (
            "stampnat",
            Dialect::FreeBsd,
            "scrub on b0 all reassemble tcp\nscrub on b1 all reassemble tcp\n\
             nat on b1 inet from 10.0.1.0/24 to any -> 10.0.2.1 static-port\npass keep state\n",
        ),
    ] {
        let Some(rig) = Rig::with_rules(what, "pass\n") else { return };
        rig.load_as(dialect, rules);
        let outside = if rules.contains("nat on") { "10.0.2.1" } else { "10.0.1.2" };
        let found = [1000, 1001, 1002].map(|port| connect_with_stamps(&rig, port, outside));
        for (of_client, of_server) in found {
            assert!(of_client != 0 && of_server != 0 && of_client != of_server, "{found:?}");
        }
        assert!(found[0] != found[1] && found[1] != found[2], "{what}: {found:?}");
        // What began before, as far as the box knows, stays as it is.
        let late = Segment { ports: (2000, 80), flags: ACK, sequence: 5, acknowledgement: 9 };
        let frame = ends().tcp_with_options(&late, &stamps(5, 6));
        assert_eq!(stamped(&rig.receive(0, &frame).frame), (5, 6), "{what}");
    }
}
