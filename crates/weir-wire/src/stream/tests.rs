use super::*;
use crate::frame::UdpStream;
use crate::tcp::Flags;
use crate::vlan::TagKind;
use crate::{icmp, ipv6, tcp, udp};
use proptest::prelude::*;

/// A stream with weir's defaults.
pub(super) fn spec(src: &str, dst: &str) -> StreamSpec {
    let (src_mac, dst_mac) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    StreamSpec::new(src_mac, dst_mac, src.parse().unwrap(), dst.parse().unwrap())
}

fn v6() -> StreamSpec {
    spec("[2001:2::1]:2000-[2001:2::46]", "[2001:2:1::1]:2000-[2001:2:1::46]")
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The UDP words 2001 0002 0001 / 2001 0002 0001 0001 / 0011 001a / 07d0 07d0 001a / 7765 6972 sum,
/// carries taken back, to 30c6, whose complement is cf39.
#[test]
fn golden_udp_over_ipv6() {
    let frame = StreamFrames::new(v6()).unwrap().build(0);
    let expected = concat!(
        "020000000002",
        "020000000001",
        "86dd",
        "60000000001a1140",
        "20010002000000000000000000000001",
        "20010002000100000000000000000001",
        "07d007d0001a",
        "cf39",
        "77656972",
        "00",
        "00",
        "000000000000",
        "000000000000",
    );
    assert_eq!(hex(&frame), expected);
}

/// The IPv4 words 45b8 003b 1236 0000 0506 c612 0a01 c613 0a01 sum to fd57, whose complement is
/// 02a8; the TCP words c612 0a01 c613 0a01 0006 0027 / 07d0 0050 0000 0000 0000 0000 5012 ffff 0000
/// / 7765 6972 0902 0000 0001 1236 0000 0000 0003 to f49b, whose complement is 0b64.
#[test]
fn golden_tcp_in_qinq() {
    let mut spec = spec("198.18.10.1:2000", "198.19.10.1:80");
    spec.tags = vec![
        Tag { kind: TagKind::Service, pcp: 3, dei: true, id: 100 },
        Tag { kind: TagKind::Customer, pcp: 0, dei: false, id: 7 },
    ];
    spec.protocol = Protocol::Tcp { flags: Flags::SYN | Flags::ACK };
    (spec.ttl, spec.dscp, spec.dont_fragment) = (5, 46, false);
    (spec.sizes, spec.stream, spec.thread_count) = (Sizes::Fixed(81), 9, 4);
    let frame = hex(&StreamFrames::new(spec).unwrap().build_stamped(0x1_1236, 3));
    let expected = concat!(
        "020000000002",
        "020000000001",
        "88a8",
        "7064",
        "8100",
        "0007",
        "0800",
        "45b8003b123600000506",
        "02a8",
        "c6120a01",
        "c6130a01",
        "07d0",
        "0050",
        "00000000",
        "00000000",
        "5012",
        "ffff",
        "0b64",
        "0000",
        "77656972",
        "09",
        "02",
        "000000011236",
        "000000000003",
        "00",
    );
    assert_eq!(frame, expected);
}

#[test]
fn the_udp_stream_is_a_special_case() {
    let spec = StreamSpec {
        sizes: Sizes::Fixed(90),
        dscp: 4,
        ttl: 9,
        stream: 5,
        ..spec("198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.70:2009")
    };
    let (AddrRange::V4(src), AddrRange::V4(dst)) = (spec.src, spec.dst) else {
        panic!("these ranges are IPv4");
    };
    let special = UdpStream {
        dst_mac: spec.dst_mac,
        src_mac: spec.src_mac,
        ttl: 9,
        tos: 0x10,
        flows: FlowSpace::new(src, dst).unwrap(),
        size_bytes: 90,
        stream: 5,
        thread: 0,
    };
    let general = StreamFrames::new(spec).unwrap();
    assert_eq!(general.flows().flow_count(), 49_000);
    for sequence in [0, 1, 48_999, 49_000, u64::MAX] {
        assert_eq!(general.build_stamped(sequence, 7), special.build_stamped(sequence, 7));
    }
}

#[test]
fn smallest_sizes_are_named() {
    let expected = [
        (Protocol::Udp, [60, 64, 68], [80, 84, 88]),
        (Protocol::TCP_SYN, [72, 76, 80], [92, 96, 100]),
        (Protocol::IcmpEcho, [60, 64, 68], [80, 84, 88]),
    ];
    for (protocol, v4_sizes, v6_sizes) in expected {
        for (base, sizes) in [(spec("10.0.0.1", "10.1.0.1"), v4_sizes), (v6(), v6_sizes)] {
            for (tag_count, size) in sizes.into_iter().enumerate() {
                let tags = vec![Tag::default(); tag_count];
                let spec = StreamSpec { protocol, tags, ..base.clone() };
                let sized = |sizes| StreamFrames::new(StreamSpec { sizes, ..spec.clone() });
                let frames = sized(Sizes::Fixed(size)).unwrap();
                assert_eq!(frames.build(0).len(), usize::from(size));
                let error = sized(Sizes::List(vec![1514, size - 1])).unwrap_err();
                assert!(matches!(error, StreamError::Size { smallest_bytes, .. }
                    if smallest_bytes == size));
                // What is defined by IP packets grows to what fits.
                let mix = sized(Sizes::Imix).unwrap();
                assert_eq!(mix.sizes().min_bytes(), size);
            }
        }
    }
    let mut small = v6();
    (small.protocol, small.sizes) =
        (Protocol::TCP_SYN, Sizes::Uniform { first_bytes: 60, last_bytes: 99 });
    small.tags = vec![Tag::default()];
    assert_eq!(
        StreamFrames::new(small).unwrap_err().to_string(),
        "frames of 60 bytes cannot be sent: TCP over IPv6 with 1 VLAN tag and the signature of 18 \
         bytes needs at least 96 bytes, without the 4 bytes of FCS"
    );
}

/// The packet within is that of the same stream without a tunnel, and its tunnel is one: between
/// the first addresses, whatever the flow.
#[test]
fn a_stream_in_a_tunnel_carries_its_packets() {
    use crate::rss::inner::{End, walk};

    for tunnel in Tunnel::ALL {
        for base in [v6(), spec("198.18.10.1:2000-198.18.10.9", "198.19.10.1:53")] {
            let size_bytes = 100 + tunnel.overhead_bytes(base.src.is_ipv6());
            let plain = StreamSpec { sizes: Sizes::Fixed(100), ..base.clone() };
            let plain = StreamFrames::new(plain).unwrap();
            let sizes = Sizes::Fixed(size_bytes);
            let tunnelled = StreamSpec { encap: Some(tunnel), sizes, ..base };
            let tunnelled = StreamFrames::new(tunnelled).unwrap();
            let outer = |sequence| tunnelled.build(sequence)[..tunnelled.link_bytes()].to_vec();
            for sequence in [0, 1, 7] {
                let (inside, frame) = (plain.build(sequence), tunnelled.build(sequence));
                assert_eq!(frame.len(), usize::from(size_bytes));
                assert_eq!(frame[tunnelled.link_bytes()..], inside[14..], "{tunnel} {sequence}");
                assert_eq!(outer(sequence), outer(0));
                let (found, flow) = (walk(&frame), plain.flow(sequence));
                let innermost = found.innermost.unwrap();
                assert_eq!((innermost.src, innermost.dst), (flow.src, flow.dst));
                assert_eq!(found.end, End::Whole);
            }
        }
    }
}

#[test]
fn refusals() {
    let refused = |change: &dyn Fn(&mut StreamSpec)| {
        let mut spec = spec("10.0.0.1", "10.1.0.1");
        change(&mut spec);
        StreamFrames::new(spec).unwrap_err()
    };
    assert_eq!(refused(&|spec| spec.ttl = 0), StreamError::Ttl);
    assert_eq!(refused(&|spec| spec.dscp = 64), StreamError::Dscp(64));
    assert_eq!(refused(&|spec| spec.thread_count = 0), StreamError::ThreadCount(0));
    assert_eq!(refused(&|spec| spec.thread_count = 257), StreamError::ThreadCount(257));
    assert_eq!(refused(&|spec| spec.tags = vec![Tag::default(); 3]), StreamError::TagCount(3));
    assert_eq!(refused(&|spec| spec.sizes = Sizes::List(vec![])), StreamError::SizesEmpty);
    let tunnelled = |spec: &mut StreamSpec| spec.encap = Some(Tunnel::Gre);
    let tagged = |spec: &mut StreamSpec| {
        tunnelled(spec);
        spec.tags = vec![Tag::default()];
    };
    assert_eq!(refused(&tagged), StreamError::TagsInTunnel);
    let sized = |sizes: Sizes| {
        refused(&move |spec| {
            tunnelled(spec);
            spec.sizes = sizes.clone();
        })
    };
    assert_eq!(sized(Sizes::Imix), StreamError::SizesInTunnel);
    // 24 bytes of GRE.
    let error = sized(Sizes::Fixed(83));
    assert!(matches!(error, StreamError::Size { smallest_bytes: 84, .. }), "{error}");
    let id = TagError::Id(4095);
    let reserved = |spec: &mut StreamSpec| spec.tags = vec![Tag { id: 4095, ..<_>::default() }];
    assert_eq!(refused(&reserved), StreamError::Tag(id));
    let mac = MacAddr::BROADCAST;
    assert_eq!(refused(&|spec| spec.src_mac = mac), StreamError::SourceMac(mac));
    let zero = AddrRange::V4(crate::range::Range::parse("10.0.0.1:0", 1).unwrap().0);
    assert_eq!(refused(&|spec| spec.dst = zero), StreamError::PortZero(zero));
    let other = |spec: &mut StreamSpec| spec.dst = v6().dst;
    assert!(matches!(refused(&other), StreamError::Flows(FlowSpaceError::Families { .. })));
    let fragments = StreamSpec { dont_fragment: false, ..v6() };
    assert_eq!(StreamFrames::new(fragments).unwrap_err(), StreamError::FragmentV6);
}

fn specs() -> impl Strategy<Value = StreamSpec> {
    let tag =
        (any::<bool>(), 0_u8..8, any::<bool>(), 0_u16..4095).prop_map(|(service, pcp, dei, id)| {
            let kind = if service { TagKind::Service } else { TagKind::Customer };
            Tag { kind, pcp, dei, id }
        });
    let protocol = prop_oneof![
        Just(Protocol::Udp),
        any::<u8>().prop_map(|flags| Protocol::Tcp { flags: Flags(flags) }),
        Just(Protocol::IcmpEcho),
    ];
    let sizes = prop_oneof![
        (100_u16..3000).prop_map(Sizes::Fixed),
        (100_u16..200, 200_u16..3000)
            .prop_map(|(first_bytes, last_bytes)| Sizes::Uniform { first_bytes, last_bytes }),
        Just(Sizes::Imix),
    ];
    let numbers = (1_u8.., 0_u8..64, any::<u8>(), 1_u16..=256);
    let walk =
        prop_oneof![Just(Walk::Odometer), any::<u64>().prop_map(|seed| Walk::Random { seed })];
    let tags = prop::collection::vec(tag, 0..=2);
    (any::<bool>(), any::<bool>(), tags, protocol, sizes, numbers, walk).prop_map(
        |(six, dont_fragment, tags, protocol, sizes, numbers, walk)| {
            let base = if six {
                v6()
            } else {
                spec("198.18.10.1:2000-198.18.10.70:2003", "198.19.10.1:9-198.19.10.70:11")
            };
            let (ttl, dscp, stream, thread_count) = numbers;
            let dont_fragment = dont_fragment || six;
            let spec = StreamSpec { tags, protocol, sizes, ttl, dscp, walk, ..base };
            StreamSpec { stream, thread_count, dont_fragment, ..spec }
        },
    )
}

/// RFC 1071 said literally, over a pseudo header that is written out: independent of the crate.
fn sums_to_ones(parts: &[&[u8]]) -> bool {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let mut total: u16 = 0;
    for word in bytes.chunks(2) {
        let (sum, carry) = total.overflowing_add(u16::from(word[0]) * 256 + u16::from(word[1]));
        total = if carry { sum + 1 } else { sum };
    }
    total == 0xffff
}

/// Takes a frame apart by its bytes alone and checks every checksum.
fn check_frame(spec: &StreamSpec, frame: &[u8]) {
    let mut at = 12;
    for tag in &spec.tags {
        assert_eq!(frame[at..at + 2], tag.kind.ethertype().0.to_be_bytes());
        at += 4;
    }
    let packet = &frame[at + 2..];
    let (message, pseudo) = match packet[0] >> 4 {
        4 => {
            assert!(sums_to_ones(&[&packet[..20]]));
            let length = u16::try_from(packet.len() - 20).unwrap().to_be_bytes();
            (&packet[20..], [&packet[12..20], &[0, packet[9]], &length].concat())
        }
        _ => {
            let length = u32::try_from(packet.len() - 40).unwrap().to_be_bytes();
            (&packet[40..], [&packet[8..40], &length, &[0, 0, 0, packet[6]]].concat())
        }
    };
    let has_pseudo = !(packet[0] >> 4 == 4 && spec.protocol == Protocol::IcmpEcho);
    assert!(sums_to_ones(&[if has_pseudo { &pseudo } else { &[] }, message]));
    if spec.protocol == Protocol::Udp {
        assert_ne!(message[6..8], [0, 0]);
    }
}

proptest! {
    #[test]
    fn every_checksum_verifies(spec in specs(), sequence: u64, stamp: u64) {
        let frames = StreamFrames::new(spec.clone()).unwrap();
        let frame = frames.build_stamped(sequence, stamp);
        prop_assert_eq!(frame.len(), usize::from(frames.sizes().size_bytes(sequence)));
        check_frame(&spec, &frame);
    }

    #[test]
    fn the_views_read_what_was_built(spec in specs(), sequence in 0..signature::WRAP) {
        let frames = StreamFrames::new(spec.clone()).unwrap();
        let (frame, flow) = (frames.build(sequence), frames.flow(sequence));
        let link = ethernet::Packet::new_checked(&frame[..]).unwrap();
        prop_assert_eq!((link.dst(), link.src()), (spec.dst_mac, spec.src_mac));
        let (mut rest, mut ethertype) = (link.payload(), link.ethertype());
        for tag in &spec.tags {
            prop_assert_eq!(ethertype, tag.kind.ethertype());
            let packet = vlan::Packet::new_checked(rest).unwrap();
            prop_assert_eq!((packet.pcp(), packet.dei(), packet.id()), (tag.pcp, tag.dei, tag.id));
            (rest, ethertype) = (&rest[vlan::TAG_BYTES..], packet.ethertype());
        }
        let payload = match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                prop_assert_eq!(ethertype, ethernet::EtherType::IPV4);
                let packet = crate::ipv4::Packet::new_checked(rest).unwrap();
                let repr = crate::ipv4::Repr::parse(&packet).unwrap();
                prop_assert_eq!((repr.src, repr.dst, repr.ttl), (src, dst, spec.ttl));
                prop_assert_eq!(repr.tos, spec.dscp << 2);
                prop_assert_eq!(repr.dont_fragment, spec.dont_fragment);
                if spec.protocol == Protocol::IcmpEcho {
                    let packet = icmp::Packet::new_checked(packet.payload()).unwrap();
                    let echo = icmp::Echo::parse_v4(&packet).unwrap();
                    prop_assert_eq!((echo.ident, echo.sequence), (flow.src_port, flow.dst_port));
                    packet.payload().to_vec()
                } else {
                    transport(&spec, packet.payload(), &flow, (src, dst))
                }
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                prop_assert_eq!(ethertype, ethernet::EtherType::IPV6);
                let packet = ipv6::Packet::new_checked(rest).unwrap();
                let repr = ipv6::Repr::parse(&packet);
                prop_assert_eq!((repr.src, repr.dst, repr.hop_limit), (src, dst, spec.ttl));
                prop_assert_eq!((repr.traffic_class, repr.flow_label), (spec.dscp << 2, 0));
                if spec.protocol == Protocol::IcmpEcho {
                    let packet = icmp::Packet::new_checked(packet.payload()).unwrap();
                    let echo = icmp::Echo::parse_v6(&packet, src, dst).unwrap();
                    prop_assert_eq!((echo.ident, echo.sequence), (flow.src_port, flow.dst_port));
                    packet.payload().to_vec()
                } else {
                    transport(&spec, packet.payload(), &flow, (src, dst))
                }
            }
            _ => unreachable!("a flow has one family"),
        };
        let (stream, thread) = (spec.stream, frames.thread(sequence));
        let expected = Signature { stream, thread, sequence, timestamp_ns: 0 };
        prop_assert_eq!(Signature::parse(&payload), Ok(expected));
        let mut room = vec![0xa5; frame.len()];
        frames.build_into(sequence, 0, &mut room);
        prop_assert_eq!(&room, &frame, "whatever stood there before");
        prop_assert!(payload[signature::SIZE_BYTES..].iter().all(|byte| *byte == 0));
    }
}

/// Checks UDP or TCP; returns the payload.
fn transport<A: crate::checksum::IpAddress>(
    spec: &StreamSpec,
    message: &[u8],
    flow: &Flow<IpAddr>,
    (src, dst): (A, A),
) -> Vec<u8> {
    if let Protocol::Tcp { flags } = spec.protocol {
        let packet = tcp::Packet::new_checked(message).unwrap();
        let repr = tcp::Repr::parse(&packet, src, dst).unwrap();
        assert_eq!((repr.src_port, repr.dst_port), (flow.src_port, flow.dst_port));
        assert_eq!((repr.flags, repr.window, repr.sequence), (flags, u16::MAX, 0));
        return packet.payload().to_vec();
    }
    let packet = udp::Packet::new_checked(message).unwrap();
    let repr = udp::Repr::parse(&packet, src, dst).unwrap();
    assert_eq!((repr.src_port, repr.dst_port), (flow.src_port, flow.dst_port));
    packet.payload().to_vec()
}
