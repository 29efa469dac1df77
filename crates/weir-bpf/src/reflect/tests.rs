//! The reflector, packet by packet, through test runs.

use weir_wire::flow::FlowSpace;
use weir_wire::frame::UdpStream;
use weir_wire::mac::MacAddr;
use weir_wire::{ipv4, udp};

use super::*;
use crate::sys;

const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;

#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn program() -> Option<ReflectProgram> {
    match ReflectProgram::load() {
        Ok(program) => Some(program),
        Err(error) if error.is_permission() => {
            eprintln!("skipped: loading BPF programs needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn frame(size_bytes: u16) -> Vec<u8> {
    let range = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let flows = FlowSpace::new(range("198.18.10.7:2001"), range("198.19.10.9:53"));
    let stream = UdpStream {
        dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        src_mac: MacAddr([2, 0, 0, 0, 0, 9]),
        ttl: 63,
        tos: 0,
        flows: flows.expect("one flow"),
        size_bytes,
        stream: 0,
        thread: 0,
    };
    stream.build(77)
}

fn run(program: &ReflectProgram, frame: &[u8]) -> (u32, Vec<u8>) {
    let mut output = vec![0; 2048];
    let result = sys::test_run_once(program.program.as_fd(), frame, &mut output);
    let (verdict, size) = result.expect("the program runs");
    output.truncate(size);
    (verdict, output)
}

/// Two places in a frame and the number of bytes that change places.
type Pair = (usize, usize, usize);

/// Exchanges byte ranges of a frame.
fn swapped(frame: &[u8], pairs: &[Pair]) -> Vec<u8> {
    let mut swapped = frame.to_vec();
    for &(a, b, size) in pairs {
        for at in 0..size {
            swapped.swap(a + at, b + at);
        }
    }
    swapped
}

const MAC: Pair = (0, 6, 6);
const IPV4: Pair = (26, 30, 4);

#[test]
fn udp_is_returned_with_right_checksums() {
    let Some(program) = program() else { return };
    for size_bytes in [60, 1514] {
        let frame = frame(size_bytes);
        let (verdict, returned) = run(&program, &frame);
        assert_eq!(verdict, XDP_TX);
        assert_eq!(returned, swapped(&frame, &[MAC, IPV4, (34, 36, 2)]));
        let ip = ipv4::Packet::new_checked(&returned[14..]).expect("IPv4");
        assert!(ip.checksum_is_valid());
        let udp = udp::Packet::new_checked(&returned[34..]).expect("UDP");
        assert_eq!(udp.checksum(), udp.computed_checksum(ip.src(), ip.dst()));
        assert_eq!((udp.src_port(), udp.dst_port()), (53, 2001));
        assert_eq!(
            (ip.src().to_string(), ip.dst().to_string()),
            ("198.19.10.9".into(), "198.18.10.7".into())
        );
    }
    let counters = program.counters().expect("readable");
    let expected =
        ReflectCounters { reflected_packets: 2, reflected_bytes: 60 + 1514, passed_packets: 0 };
    assert_eq!(counters, expected);
}

#[test]
fn ports_are_exchanged_only_where_there_are_any() {
    let Some(program) = program() else { return };
    let changed = |changes: &[(usize, u8)]| {
        let mut changed = frame(60);
        for &(at, value) in changes {
            changed[at] = value;
        }
        changed
    };
    let cases: [(Vec<u8>, &[Pair]); 5] = [
        (changed(&[(23, 6)]), &[MAC, IPV4, (34, 36, 2)]),
        (changed(&[(23, 1)]), &[MAC, IPV4]),
        (changed(&[(20, 0x20)]), &[MAC, IPV4]),
        (changed(&[(21, 9)]), &[MAC, IPV4]),
        (changed(&[(14, 0x46)]), &[MAC, IPV4, (38, 40, 2)]),
    ];
    for (frame, pairs) in cases {
        assert_eq!(run(&program, &frame), (XDP_TX, swapped(&frame, pairs)));
    }
    let mut ipv6: Vec<u8> = frame(60)[..12].to_vec();
    ipv6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
    ipv6.extend(0..40);
    assert_eq!(run(&program, &ipv6), (XDP_TX, swapped(&ipv6, &[MAC, (22, 38, 16), (54, 56, 2)])));
}

#[test]
fn what_cannot_be_returned_is_passed_unchanged() {
    let Some(program) = program() else { return };
    let frame = frame(60);
    let mut others = vec![frame[..14].to_vec(), frame[..33].to_vec(), frame[..36].to_vec()];
    for (at, value) in [(0, 0x01), (0, 0xff), (12, 0x81), (13, 0x06), (14, 0x65), (14, 0x44)] {
        let mut other = frame.clone();
        other[at] = value;
        others.push(other);
    }
    for other in &others {
        assert_eq!(run(&program, other), (XDP_PASS, other.clone()), "{other:02x?}");
    }
    let counters = program.counters().expect("readable");
    let passed_packets = others.len() as u64;
    assert_eq!(counters, ReflectCounters { passed_packets, ..Default::default() });
}
