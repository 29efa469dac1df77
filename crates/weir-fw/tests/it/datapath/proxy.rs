//! `synproxy state`, frame by frame: the cookie, the SYN that is made of its acknowledgement, and
//! the numbers on both sides of the box from then on.

use weir_bpf::firewall::layout::control;
use weir_bpf::firewall::sweep::{Filter, Mode};

use super::frames::{ACK, Ends, RST, SYN, Segment, options_of, segment_of};
use super::rig::{BOX_MAC, DROP, NEXT, PASS, PEER_MAC, REDIRECT, Rig};

const TCX_REDIRECT: i32 = 7;

const RULES: &str = "\
block
pass in on b0 proto tcp to any port 80 synproxy state
pass out on b1 proto tcp
";

/// What a frame says; its checksums are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    flags: u8,
    seq: u32,
    ack: u32,
    window: u16,
    /// The maximum segment size of its only option; 0: there is none.
    mss: u16,
}

fn seen(frame: &[u8]) -> Seen {
    let message = segment_of(frame);
    let half = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
    let mss = match options_of(&message) {
        [] => 0,
        [2, 4, high, low] => u16::from_be_bytes([*high, *low]),
        options => panic!("other options: {options:x?}"),
    };
    Seen { flags: message[13], seq: word(4), ack: word(8), window: half(14), mss }
}

/// A client on the left and a server on the right.
fn ends(is_v4: bool) -> Ends {
    if is_v4 { Ends::new("10.0.1.2", "10.0.2.2") } else { Ends::new("fd00:1::2", "fd00:2::2") }
}

/// A segment of the client.
fn ask(ends: &Ends, flags: u8, sequence: u32, acknowledgement: u32) -> Vec<u8> {
    ends.tcp(&Segment { ports: (1000, 80), sequence, acknowledgement, flags }, &[])
}

/// One of the server.
fn answer(ends: &Ends, flags: u8, sequence: u32, acknowledgement: u32) -> Vec<u8> {
    ends.back().tcp(&Segment { ports: (80, 1000), sequence, acknowledgement, flags }, &[])
}

/// The client's SYN with these options, whose size is a multiple of four.
fn first(ends: &Ends, options: &[u8]) -> Vec<u8> {
    let segment = Segment { ports: (1000, 80), sequence: 999, flags: SYN, acknowledgement: 0 };
    ends.tcp_with_options(&segment, options)
}

fn state_count(rig: &Rig) -> u64 {
    rig.firewall.arena().read64(control::STATE_COUNT)
}

/// What a SYN is answered with at the hook.
fn greeted(rig: &Rig, frame: &[u8], by_tcx: bool) -> Seen {
    let verdict = if by_tcx { rig.enter(0, frame) } else { rig.receive(0, frame) };
    assert_eq!(verdict.action, if by_tcx { TCX_REDIRECT } else { REDIRECT });
    assert_eq!(verdict.frame[..12], [PEER_MAC[0], BOX_MAC[0]].concat(), "it goes back");
    seen(&verdict.frame)
}

#[test]
fn an_acknowledged_cookie_becomes_the_syn() {
    let Some(rig) = Rig::with_rules("proxy", RULES) else { return };
    for ends in [ends(true), ends(false)] {
        let before = state_count(&rig);
        let options = [2, 4, 5, 120, 1, 3, 3, 7];
        let hello = greeted(&rig, &first(&ends, &options), false);
        let cookie = hello.seq;
        let expected = Seen { flags: SYN | ACK, seq: cookie, ack: 1000, window: 0, mss: 1400 };
        assert_eq!(hello, expected);
        assert_eq!(state_count(&rig), before, "nothing is kept");
        // It opens the connection to the server; until that answers, all of the client's does.
        for (flags, sequence) in [(ACK, 1000), (ACK, 999), (ACK | 8, 1000)] {
            let verdict = rig.receive(0, &ask(&ends, flags, sequence, cookie.wrapping_add(1)));
            assert_eq!(verdict.action, REDIRECT);
            let call = Seen { flags: SYN, seq: 999, ack: 0, window: 1000, mss: 1400 };
            assert_eq!(seen(&verdict.frame), call);
            assert_eq!(verdict.frame[..6], PEER_MAC[1], "it goes on");
            assert_eq!(state_count(&rig), before + 1);
        }
        // Nobody answers for it who has not seen the SYN.
        for (flags, acknowledgement) in
            [(SYN | ACK, 1001), (RST | ACK, 999), (RST, 1000), (ACK, 1000)]
        {
            let verdict = rig.receive(1, &answer(&ends, flags, 5555, acknowledgement));
            assert_eq!(verdict.action, DROP, "{flags:#x} {acknowledgement}");
        }
        // Its SYN is the kernel's to send on, and of the cookie's number.
        for _ in 0..2 {
            let verdict = rig.receive(1, &answer(&ends, SYN | ACK, 7777, 1000));
            assert_eq!(verdict.action, PASS);
            let (flags, window) = (SYN | ACK, 1000);
            let expected = Seen { flags, seq: cookie, ack: 1000, window, mss: 0 };
            assert_eq!(seen(&verdict.frame), expected);
        }
        let verdict = rig.receive(0, &ask(&ends, ACK, 1000, cookie.wrapping_add(1)));
        assert_eq!(verdict.action, REDIRECT);
        let found = seen(&verdict.frame);
        assert_eq!((found.flags, found.seq, found.ack), (ACK, 1000, 7778));
        let verdict = rig.receive(1, &answer(&ends, ACK, 7778, 1000));
        assert_eq!(verdict.action, REDIRECT);
        let found = seen(&verdict.frame);
        assert_eq!((found.flags, found.seq, found.ack), (ACK, cookie.wrapping_add(1), 1000));
        // Another SYN is none of this connection.
        assert_eq!(rig.receive(0, &first(&ends, &[])).action, REDIRECT, "it is asked by an ACK");
    }
}

#[test]
fn what_brings_no_cookie_back_is_no_connection() {
    let Some(rig) = Rig::with_rules("cookies", RULES) else { return };
    let ends = ends(true);
    let cookie = greeted(&rig, &first(&ends, &[]), false).seq;
    let right = cookie.wrapping_add(1);
    let mut other = ends.clone();
    other.src = "10.0.1.3".parse().expect("an address");
    for frame in [
        ask(&ends, ACK, 1000, cookie),
        ask(&ends, ACK, 1000, right ^ 0x8000_0000),
        ask(&ends, ACK, 1000, right.wrapping_add(1)),
        ask(&ends, ACK, 1001, right),
        ask(&ends, SYN | ACK, 1000, right),
        ask(&ends, RST | ACK, 1000, right),
        ask(&other, ACK, 1000, right),
    ] {
        assert_eq!(rig.receive(0, &frame).action, DROP, "{frame:x?}");
    }
    assert_eq!(state_count(&rig), 0);
    // A cookie is good for one period or two.
    let arena = rig.firewall.arena();
    let offset = arena.read32(control::CLOCK_OFFSET);
    arena.write32(control::CLOCK_OFFSET, offset + (2 << 12));
    assert_eq!(rig.receive(0, &ask(&ends, ACK, 1000, right)).action, DROP);
    arena.write32(control::CLOCK_OFFSET, offset + (1 << 12));
    assert_eq!(rig.receive(0, &ask(&ends, ACK, 1000, right)).action, REDIRECT);
    assert_eq!(state_count(&rig), 1);
}

#[test]
fn segments_are_no_longer_than_either_asks_for() {
    for (tag, rules, sizes) in [
        (
            "sizes",
            RULES.to_owned(),
            [(0_u16, 536), (100, 536), (1459, 1440), (1460, 1460), (9000, 8940)],
        ),
        (
            "maxsizes",
            RULES.replace("synproxy", "scrub (max-mss 1300) synproxy"),
            [(0, 536), (100, 536), (1300, 1300), (1460, 1300), (9000, 1300)],
        ),
    ] {
        let Some(rig) = Rig::with_rules(tag, &rules) else { return };
        for (mss, expected) in sizes {
            let [high, low] = mss.to_be_bytes();
            let options: &[u8] = if mss == 0 { &[] } else { &[2, 4, high, low] };
            let hello = greeted(&rig, &first(&ends(true), options), false);
            assert_eq!(hello.mss, expected, "{tag} {mss}");
        }
    }
}

#[test]
fn a_server_that_refuses_ends_the_clients_connection() {
    let Some(rig) = Rig::with_rules("refuses", RULES) else { return };
    let ends = ends(true);
    let cookie = greeted(&rig, &first(&ends, &[]), false).seq;
    let right = cookie.wrapping_add(1);
    assert_eq!(rig.receive(0, &ask(&ends, ACK, 1000, right)).action, REDIRECT);
    let verdict = rig.receive(1, &answer(&ends, RST | ACK, 0, 1000));
    assert_eq!(verdict.action, REDIRECT);
    let found = seen(&verdict.frame);
    assert_eq!((found.flags, found.seq, found.ack), (RST | ACK, right, 1000));
}

#[test]
fn programs_on_the_kernels_packets_do_the_same() {
    let Some(rig) = Rig::with_rules("proxytcx", RULES) else { return };
    for ends in [ends(true), ends(false)] {
        let cookie = greeted(&rig, &first(&ends, &[2, 4, 5, 180]), true).seq;
        let verdict = rig.enter(0, &ask(&ends, ACK, 1000, cookie.wrapping_add(1)));
        assert_eq!(verdict.action, NEXT);
        let call = Seen { flags: SYN, seq: 999, ack: 0, window: 1000, mss: 1460 };
        assert_eq!(seen(&verdict.frame), call);
        // A server on the box: its SYN leaves as the ACK that opens the window.
        let verdict = rig.send(0, &answer(&ends, SYN | ACK, 7777, 1000));
        assert_eq!(verdict.action, NEXT);
        let opened =
            Seen { flags: ACK, seq: cookie.wrapping_add(1), ack: 1000, window: 1000, mss: 0 };
        assert_eq!(seen(&verdict.frame), opened);
    }
}

const ADAPTIVE: &str = "\
set syncookies adaptive (start 2%, end 1%)
block
pass in on b0 proto tcp to any port 80
pass out on b1 proto tcp
";

#[test]
fn while_half_open_states_fill_the_table_cookies_are_sent() {
    let Some(rig) = Rig::with_rules("adaptive", ADAPTIVE) else { return };
    let arena = rig.firewall.arena();
    let half_open = || arena.read32(control::HALF_OPEN_COUNT);
    let ends = ends(true);
    let client = |port: u16, flags: u8, sequence: u32, acknowledgement: u32| {
        ends.tcp(&Segment { ports: (port, 80), sequence, acknowledgement, flags }, &[])
    };
    let opens = |port: u16| {
        let verdict = rig.receive(0, &client(port, SYN, 999, 0));
        assert_eq!(verdict.action, REDIRECT, "{port}");
        match seen(&verdict.frame).flags {
            SYN => true,
            flags => {
                assert_eq!(flags, SYN | ACK, "{port}");
                false
            }
        }
    };
    // Of a table of 1,000: with more than 20 there is a flood.
    assert!((1..=21).all(&opens));
    assert_eq!((half_open(), state_count(&rig)), (21, 21));
    assert!(!opens(22), "the box answers");
    assert_eq!((half_open(), state_count(&rig)), (21, 21), "nothing is kept");
    // A handshake is over with the client's part of it.
    for port in 1..=11 {
        let segment =
            Segment { ports: (80, port), sequence: 7, acknowledgement: 1000, flags: SYN | ACK };
        assert_eq!(rig.receive(1, &ends.back().tcp(&segment, &[])).action, REDIRECT);
        assert_eq!(half_open(), 22 - u32::from(port));
        assert_eq!(rig.receive(0, &client(port, ACK, 1000, 8)).action, REDIRECT);
        assert_eq!(half_open(), 21 - u32::from(port));
    }
    assert!(!opens(22), "with ten there is still a flood");
    // A connection that ends before it has begun.
    assert_eq!(rig.receive(0, &client(12, RST, 1000, 0)).action, REDIRECT);
    assert_eq!(half_open(), 9);
    assert!(opens(22) && opens(23), "it is over");
    rig.firewall.sweep_all(Mode::Kill(Filter::default())).expect("the program runs");
    assert_eq!((half_open(), state_count(&rig)), (0, 0));
}
