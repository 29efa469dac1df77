//! Answers that come before their states: what waits for them, and what becomes of it.

use std::time::Duration;

use weir_bpf::firewall::layout::{INTERFACE_WHOLE, interface, table};
use weir_wire::checksum;

use super::frames::{Ends, SYN, Segment, fragment};
use super::rig::{DROP, REDIRECT, Rig, SLOT};

const RULES: &str = "block all\npass proto udp to port 53 keep state\n";
const IN: u32 = 0;
const ACK: u8 = 0x10;

/// An ICMP message of a type, without anything else.
fn icmp(ends: &Ends, kind: u8) -> Vec<u8> {
    let mut message = [kind, 0, 0, 0, 0, 7, 0, 1];
    let sum = checksum::icmp_v4(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ends.message(1, &message)
}

#[test]
fn what_may_be_an_answer_waits_and_nothing_else_does() {
    let Some(rig) = Rig::with_rules("waits", RULES) else { return };
    let mut reader = rig.firewall.deferred_reader().expect("a reader");
    let ends = Ends::new("10.0.2.2", "10.0.1.2");
    let tcp = |flags: u8| {
        ends.tcp(&Segment { ports: (80, 1000), sequence: 1, acknowledgement: 2, flags }, b"")
    };
    let frames = [
        ("a SYN's answer", tcp(SYN | ACK), true),
        ("a segment", tcp(ACK), true),
        ("a reset", tcp(ACK | 4), true),
        ("a SYN", tcp(SYN), false),
        ("a datagram", ends.udp((7000, 1000), b"word"), true),
        ("a datagram that is passed", ends.udp((1000, 53), b"word"), false),
        ("a datagram of 2,000 bytes", ends.udp((7000, 1000), &[0; 2000]), false),
        ("a fragment", fragment(&ends, 0, true, &[0; 64]), false),
        ("an echo's reply", icmp(&ends, 0), true),
        ("an echo request", icmp(&ends, 8), false),
        ("another protocol", ends.message(47, &[0; 20]), true),
    ];
    let deferred = || rig.table_counter(table::DEFERRED);
    for (what, frame, _) in &frames {
        rig.receive(1, frame);
        assert_eq!(deferred(), 0, "{what}, while none is expected");
    }
    rig.firewall.defer(true);
    for (what, frame, waits) in &frames {
        let before = (deferred(), rig.dropped(1, IN, "match"));
        let verdict = rig.receive(1, frame);
        assert_eq!(deferred() - before.0, u64::from(*waits), "{what}");
        if *waits {
            assert_eq!(verdict.action, DROP, "{what}");
            assert_eq!(rig.dropped(1, IN, "match"), before.1, "{what} is not judged yet");
        }
    }
    assert_eq!(rig.table_counter(table::DEFER_LOST), 1, "it is too long");
    let waiting = reader.read(Duration::ZERO).expect("read");
    assert_eq!(waiting.len(), frames.iter().filter(|(.., waits)| *waits).count());

    // Nobody reads them, until there is no more room.
    for _ in 0..1000 {
        rig.receive(1, &frames[4].1);
    }
    let before = (deferred(), rig.dropped(1, IN, "match"), rig.table_counter(table::DEFER_LOST));
    rig.receive(1, &frames[4].1);
    let after = (deferred(), rig.dropped(1, IN, "match"), rig.table_counter(table::DEFER_LOST));
    assert_eq!(after, (before.0, before.1 + 1, before.2 + 1), "it is judged at once");

    // An interface that is judged once more behind the program, or hides tags.
    reader.read(Duration::ZERO).expect("read");
    let at = rig.firewall.regions().interfaces.at + SLOT[1] * interface::SIZE_BYTES;
    let flags = rig.firewall.arena().read32(at + interface::FLAGS);
    rig.firewall.arena().write32(at + interface::FLAGS, flags & !INTERFACE_WHOLE);
    rig.receive(1, &frames[4].1);
    assert_eq!((deferred(), rig.dropped(1, IN, "match")), (after.0, after.1 + 1));
}

#[test]
fn an_answer_is_judged_by_the_state_that_has_come() {
    let Some(rig) = Rig::with_rules("answer", RULES) else { return };
    let program = rig.firewall.load_deferred_program().expect("the program");
    let mut reader = rig.firewall.deferred_reader().expect("a reader");
    rig.firewall.defer(true);
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let answer = |port: u16| ends.back().udp((53, port), b"here");
    for port in [1000, 1001] {
        rig.receive(1, &answer(port));
    }
    assert_eq!(rig.receive(0, &ends.udp((1000, 53), b"where?")).action, REDIRECT);
    let passed = rig.table_counter(table::PASSED_PACKETS);
    let waiting = reader.read(Duration::ZERO).expect("read");
    assert_eq!(waiting.len(), 2);
    for deferred in &waiting {
        rig.inside.run(|| program.judge(deferred)).expect("entered").expect("judged");
    }
    assert_eq!(rig.table_counter(table::PASSED_PACKETS), passed + 1, "the first one");
    assert_eq!(rig.dropped(1, IN, "match"), 1, "the other one");
    assert!(reader.read(Duration::ZERO).expect("read").is_empty(), "none waits again");
    assert_eq!(rig.receive(1, &answer(1000)).action, REDIRECT, "its next one needs no wait");
    assert_eq!(rig.table_counter(table::DEFERRED), 2);
}
