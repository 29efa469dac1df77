//! Frames as packet tests write them, and seeds.

use weir_oracle::frame::FrameSpec;
use weir_oracle::random::{Case, Features};
use weir_rules::evaluate::Packet;
use weir_rules::facts::Facts;

fn frame(words: &str) -> (FrameSpec, Vec<u8>) {
    let spec = FrameSpec::parse(words, &Facts::new()).unwrap();
    let bytes = spec.build();
    (spec, bytes)
}

/// The evaluator's own reading of frames, which looks at captures, sees what was written.
#[test]
fn frames_read_back_as_their_words() {
    for words in [
        "in on em0 tcp 10.0.0.5:1000 > 1.2.3.4:443 SA seq 5 ack 7 win 100 wscale 3 mss 1400",
        "in on em0 udp [2001:db8::5]:1000 > [2001:db8::1]:53 payload 33 tos 0x10",
        "out on em0 udp 10.0.0.5:1000 > 1.2.3.4:53 vlan 5 vlan 7 prio 3 options",
        "in on em0 tcp [2001:db8::5]:1000 > [2001:db8::1]:53 A options routing-header \
         destination-options authentication",
        "in on em0 icmp 10.0.0.5 > 1.2.3.4 echorep id 77",
        "in on em0 icmp6 2001:db8::5 > 2001:db8::1 echoreq id 3",
        "in on em0 icmp 10.0.0.5 > 1.2.3.4 unreach/1 about tcp 1.2.3.4:80 > 10.0.0.5:1000",
        "in on em0 icmp6 2001:db8::5 > 2001:db8::1 timex about udp [2001:db8::1]:80 > \
         [2001:db8::5]:1000",
        "in on em0 icmp6 2001:db8::5 > 2001:db8::1 toobig about tcp [2001:db8::1]:80 > \
         [2001:db8::5]:1000 inner-extension 0 inner-extension 43 inner-extension 44 \
         inner-extension 51 inner-extension 60",
        "in on em0 fragment udp 10.0.0.5 > 1.2.3.4 offset 1480 more payload 80",
        "in on em0 fragment udp 2001:db8::5 > 2001:db8::1 offset 1480 payload 80 options",
        "in on em0 esp 10.0.0.5 > 1.2.3.4 payload 12",
    ] {
        let (spec, bytes) = frame(words);
        let read = Packet::from_frame(&bytes, spec.packet.direction, &spec.packet.interface);
        assert_eq!(read, Ok(spec.packet), "{words}");
        assert!(bytes.len() >= 60);
    }
}

#[test]
fn a_quoted_later_fragment_has_no_message() {
    let words = "in on em0 icmp6 2001:db8::5 > 2001:db8::1 toobig about tcp [2001:db8::1]:80 > \
                 [2001:db8::5]:1000 inner-extension 44 inner-offset 1448";
    let (spec, bytes) = frame(words);
    let read = Packet::from_frame(&bytes, spec.packet.direction, "em0").unwrap();
    assert_eq!(read.quoted, None);
    for words in [
        "in on em0 icmp 10.0.0.5 > 1.2.3.4 timex about udp 1.2.3.4:1 > 10.0.0.5:2 \
         inner-extension 44",
        "in on em0 icmp6 2001:db8::5 > 2001:db8::1 timex about udp [2001:db8::1]:1 > \
         [2001:db8::5]:2 inner-extension 59",
    ] {
        let refused = FrameSpec::parse(words, &Facts::new()).unwrap_err();
        assert!(refused.contains("extension headers of a quoted IPv6 packet"), "{refused}");
    }
}

#[test]
fn frames_hold_what_was_asked() {
    let (_, bytes) = frame("in on em0 udp 10.0.0.5:1 > 1.2.3.4:2 ttl 9 df ident 258 payload 2");
    assert_eq!(
        bytes[14..34],
        [0x45, 0, 0, 30, 1, 2, 0x40, 0, 9, 17, 0x62, 0xc3, 10, 0, 0, 5, 1, 2, 3, 4]
    );
    let (_, right) = frame("in on em0 udp 10.0.0.5:1 > 1.2.3.4:2 payload 2");
    let (_, wrong) = frame("in on em0 udp 10.0.0.5:1 > 1.2.3.4:2 payload 2 bad-checksum");
    let differing: Vec<usize> = (0..60).filter(|at| right[*at] != wrong[*at]).collect();
    assert_eq!(differing, [41]);
    let (_, cut) = frame("in on em0 udp 10.0.0.5:1 > 1.2.3.4:2 payload 200 truncate 20");
    assert_eq!(cut.len(), 20);
}

#[test]
fn seeds_repeat_and_differ() {
    let one = Case::new(1, &Features::ALL, 20);
    assert_eq!(format!("{one:?}"), format!("{:?}", Case::new(1, &Features::ALL, 20)));
    assert_ne!(format!("{one:?}"), format!("{:?}", Case::new(2, &Features::ALL, 20)));
    assert_eq!(one.packet_count(), 20);
}
