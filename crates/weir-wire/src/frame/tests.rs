use super::*;
use crate::error::ParseError;
use proptest::prelude::*;

fn stream(src: &str, dst: &str) -> UdpStream {
    UdpStream {
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ttl: 64,
        tos: 0,
        flows: FlowSpace::new(src.parse().unwrap(), dst.parse().unwrap()).unwrap(),
        size_bytes: 60,
        stream: 0,
        thread: 0,
    }
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checked by hand. The IPv4 words 4500 002e 0000 4000 4011 c612 0a01 c613 0a01 sum to 6568, whose
/// complement is 9a97. The UDP words, pseudo header first, c612 0a01 c613 0a01 0011 001a / 07d0
/// 07d0 001a / 7765 6972, sum to 90e5, whose complement is 6f1a.
#[test]
fn golden_first_frame() {
    let frame = stream("198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.70").build(0);
    let expected = concat!(
        "020000000002",
        "020000000001",
        "0800",
        "4500002e000040004011",
        "9a97",
        "c6120a01",
        "c6130a01",
        "07d007d0001a",
        "6f1a",
        "77656972",
        "00",
        "00",
        "000000000000",
        "000000000000",
    );
    assert_eq!(hex(&frame), expected);
}

/// Packet 4,971 of 4,900 flows is flow 71: the second source, the second destination. Checked by
/// hand: the IPv4 words 4510 0032 0000 4000 0511 c612 0a02 c613 0a02 sum to 2a7e, complement d581;
/// the UDP words c612 0a02 c613 0a02 0011 001e / 07d0 07d0 001e / 7765 6972 0301 0000 0000 136b
/// 0001 0002 0003 to a761, complement 589e.
#[test]
fn golden_later_frame() {
    let mut stream = stream("198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.70");
    (stream.tos, stream.ttl, stream.size_bytes) = (0x10, 5, 64);
    (stream.stream, stream.thread) = (3, 1);
    let frame = stream.build_stamped(4_971, 0x0001_0002_0003);
    let expected = concat!(
        "020000000002",
        "020000000001",
        "0800",
        "45100032000040000511",
        "d581",
        "c6120a02",
        "c6130a02",
        "07d007d0001e",
        "589e",
        "77656972",
        "03",
        "01",
        "00000000136b",
        "000100020003",
        "00000000",
    );
    assert_eq!(hex(&frame), expected);
}

#[test]
fn sizes_are_checked() {
    for size_bytes in [60, 61, 1514] {
        assert_eq!(check_size(size_bytes), Ok(()));
        let stream = UdpStream { size_bytes, ..stream("10.0.0.1", "10.1.0.1") };
        assert_eq!(stream.build(0).len(), usize::from(size_bytes));
    }
    for size_bytes in [0, 59, 1515, u16::MAX] {
        assert_eq!(check_size(size_bytes), Err(SizeError(size_bytes)));
    }
    assert_eq!(
        SizeError(59).to_string(),
        "frames of 59 bytes cannot be sent: sizes run from 60 to 1514 bytes, without the 4 bytes \
         of FCS"
    );
}

#[test]
#[should_panic(expected = "SizeError(59)")]
fn an_unchecked_size_is_a_bug() {
    let _ = UdpStream { size_bytes: 59, ..stream("10.0.0.1", "10.1.0.1") }.build(0);
}

/// Takes a frame apart with the views alone.
fn parse(frame: &[u8]) -> Result<(ethernet::Repr, ipv4::Repr, udp::Repr, Vec<u8>), ParseError> {
    let link = ethernet::Packet::new_checked(frame)?;
    let packet = ipv4::Packet::new_checked(link.payload())?;
    let ip = ipv4::Repr::parse(&packet)?;
    let datagram = udp::Packet::new_checked(packet.payload())?;
    let udp = udp::Repr::parse(&datagram, ip.src, ip.dst)?;
    Ok((ethernet::Repr::parse(&link), ip, udp, datagram.payload().to_vec()))
}

proptest! {
    #[test]
    fn the_views_read_what_was_built(
        dst_mac: [u8; 6], src_mac: [u8; 6], ttl: u8, tos: u8, stream: u8, thread: u8,
        size_bytes in SIZE_BYTES_MIN..=SIZE_BYTES_MAX, sequence in 0..signature::WRAP
    ) {
        let range = |text: &str| text.parse().unwrap();
        let flows = FlowSpace::new(
            range("198.18.10.1:2000-198.18.10.70:2003"),
            range("198.19.10.1:9-198.19.10.70:11"),
        ).unwrap();
        let (dst_mac, src_mac) = (MacAddr(dst_mac), MacAddr(src_mac));
        let built = UdpStream { dst_mac, src_mac, ttl, tos, flows, size_bytes, stream, thread };
        let (link, ip, udp, payload) = parse(&built.build(sequence)).unwrap();
        let flow = flows.flow(sequence);
        prop_assert_eq!((link.dst, link.src), (dst_mac, src_mac));
        prop_assert_eq!((ip.src, ip.dst), (flow.src, flow.dst));
        prop_assert_eq!((udp.src_port, udp.dst_port), (flow.src_port, flow.dst_port));
        prop_assert_eq!((ip.ttl, ip.tos, ip.ident, ip.dont_fragment), (ttl, tos, 0, true));
        prop_assert_eq!(usize::from(ip.payload_bytes), usize::from(size_bytes) - 34);
        let expected = Signature { stream, thread, sequence, timestamp_ns: 0 };
        prop_assert_eq!(Signature::parse(&payload), Ok(expected));
        prop_assert!(payload[signature::SIZE_BYTES..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn arbitrary_frames_never_panic(frame in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = parse(&frame);
    }

    #[test]
    fn frames_with_a_changed_byte_never_panic(at in 0_usize..60, value: u8) {
        let mut frame = stream("10.0.0.1", "10.1.0.1").build(0);
        frame[at] = value;
        let _ = parse(&frame);
    }
}
