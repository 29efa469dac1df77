//! The reflector, packet by packet, through test runs.

use proptest::test_runner::TestRunner;
use weir_wire::flow::FlowSpace;
use weir_wire::frame::{Protocol, UdpStream};
use weir_wire::mac::MacAddr;
use weir_wire::range::{AddrRange, Span};
use weir_wire::stream::{StreamFrames, StreamSpec};
use weir_wire::{icmp, ipv4, ipv6, udp};

use super::*;
use crate::{streams, sys};

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
        (changed(&[(23, 47)]), &[MAC, IPV4]),
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
    // The last two are ICMP of type 7, and a VLAN tag before what is no IP packet.
    for (at, value) in
        [(0, 0x01), (0, 0xff), (13, 0x06), (14, 0x65), (14, 0x44), (23, 1), (12, 0x81)]
    {
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

/// What comes back of a stream with one flow is, byte for byte, what the stream that runs the other
/// way would send; an echo request comes back as the reply to it.
#[test]
fn every_stream_is_returned_as_its_reverse() {
    let Some(program) = program() else { return };
    let check = |spec: &StreamSpec, sequence: u64| {
        let frame = StreamFrames::new(spec.clone()).expect("it can be sent").build(sequence);
        let (verdict, returned) = run(&program, &frame);
        assert_eq!(verdict, XDP_TX, "{frame:02x?}");
        let is_echo = spec.protocol == Protocol::IcmpEcho;
        let ends = |addr: AddrRange, port: AddrRange| {
            let port = if is_echo { port } else { addr };
            let text = match addr.addr(0) {
                std::net::IpAddr::V4(addr) => format!("{addr}:{}", port.port_first()),
                std::net::IpAddr::V6(addr) => format!("[{addr}]:{}", port.port_first()),
            };
            text.parse::<AddrRange>().unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        let reverse = StreamSpec {
            src_mac: spec.dst_mac,
            dst_mac: spec.src_mac,
            src: ends(spec.dst, spec.src),
            dst: ends(spec.src, spec.dst),
            ..spec.clone()
        };
        let mut expected = StreamFrames::new(reverse).expect("it can be sent").build(sequence);
        if is_echo {
            assert_reply(&returned, &expected, 14 + 4 * spec.tags.len(), spec.src.is_ipv6());
            let message = 14 + 4 * spec.tags.len() + if spec.src.is_ipv6() { 40 } else { 20 };
            let replied = message..message + 4; // type, code, checksum
            expected[replied.clone()].copy_from_slice(&returned[replied]);
            let again = run(&program, &returned);
            assert_eq!(again.0, XDP_TX, "a reply is returned, too");
        }
        assert_eq!(returned, expected);
    };
    TestRunner::default()
        .run(&(streams::specs(false), 0..(1_u64 << 47)), |(spec, sequence)| {
            check(&spec, sequence);
            Ok(())
        })
        .expect("every frame is returned");
}

/// The views check the checksums.
fn assert_reply(returned: &[u8], request: &[u8], ip_at: usize, over_ipv6: bool) {
    let echo = |frame: &[u8]| {
        if over_ipv6 {
            let ip = ipv6::Packet::new_checked(&frame[ip_at..]).expect("IPv6");
            let message = icmp::Packet::new_checked(ip.payload()).expect("ICMPv6");
            icmp::Echo::parse_v6(&message, ip.src(), ip.dst()).expect("an echo")
        } else {
            let ip = ipv4::Packet::new_checked(&frame[ip_at..]).expect("IPv4");
            assert!(ip.checksum_is_valid());
            let message = icmp::Packet::new_checked(ip.payload()).expect("ICMP");
            icmp::Echo::parse_v4(&message).expect("an echo")
        }
    };
    let request = echo(request);
    assert!(!request.reply);
    assert_eq!(echo(returned), icmp::Echo { reply: true, ..request });
}
