use super::*;
use crate::frame::Protocol;
use crate::stream::{StreamFrames, StreamSpec};
use crate::{MacAddr, sizes::Sizes, vlan::Tag, vlan::TagKind};
use proptest::prelude::*;

fn spec(src: &str, dst: &str) -> StreamSpec {
    let (src_mac, dst_mac) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    StreamSpec::new(src_mac, dst_mac, src.parse().unwrap(), dst.parse().unwrap())
}

fn line(spec: StreamSpec, sequence: u64) -> String {
    Frame(&StreamFrames::new(spec).unwrap().build_stamped(sequence, 5)).to_string()
}

#[test]
fn golden_lines() {
    let v4 = || spec("198.18.10.1:2000-198.18.10.9", "198.19.10.1:80");
    assert_eq!(
        line(v4(), 3),
        "02:00:00:00:00:01 > 02:00:00:00:00:02, IP 198.18.10.4:2000 > 198.19.10.1:80: UDP, length \
         18, weir stream 0 thread 0 sequence 3 at 5 ns, ttl 64, frame 60"
    );
    let service = Tag { kind: TagKind::Service, pcp: 3, dei: true, id: 100 };
    let mut tcp = spec("[2001:2::1]:2000", "[2001:2:1::1]:80");
    (tcp.protocol, tcp.tags) = (Protocol::TCP_SYN, vec![service, Tag { id: 7, ..<_>::default() }]);
    (tcp.sizes, tcp.dscp) = (Sizes::Fixed(101), 46);
    assert_eq!(
        line(tcp, 0),
        "02:00:00:00:00:01 > 02:00:00:00:00:02, 802.1ad vlan 100, p 3, DEI, 802.1Q vlan 7, p 0, \
         IP6 [2001:2::1]:2000 > [2001:2:1::1]:80: Flags [S], seq 0, win 65535, length 19, weir \
         stream 0 thread 0 sequence 0 at 5 ns, hlim 64, tos 0xb8, frame 101"
    );
    assert_eq!(
        line(StreamSpec { protocol: Protocol::IcmpEcho, ..v4() }, 0),
        "02:00:00:00:00:01 > 02:00:00:00:00:02, IP 198.18.10.1 > 198.19.10.1: ICMP echo request, \
         id 2000, seq 80, length 26, weir stream 0 thread 0 sequence 0 at 5 ns, ttl 64, frame 60"
    );
}

#[test]
fn what_is_wrong_is_said() {
    let frames = StreamFrames::new(spec("10.0.0.1", "10.1.0.1")).unwrap();
    let changed = |at: usize, value: u8| {
        let mut frame = frames.build(0);
        frame[at] = value;
        Frame(&frame).to_string()
    };
    assert!(changed(13, 6).ends_with(", ARP, frame 60"));
    assert!(changed(12, 0x12).ends_with("ethertype 0x1200, frame 60"));
    assert!(changed(14, 0x65).contains("IP [IP version is 6, not 4]"));
    assert!(changed(22, 9).ends_with("ttl 9, bad IP checksum, frame 60"));
    assert!(changed(23, 50).contains("10.0.0.1 > 10.1.0.1: protocol 50, length 26"));
    assert!(changed(20, 0x20).contains("10.0.0.1 > 10.1.0.1: fragment at 0 and more, ttl"));
    assert!(changed(59, 1).contains("length 18, [UDP checksum is 0x"));
    assert!(changed(39, 4).contains("10.0.0.1 > 10.1.0.1: [UDP length 4 is less than"));
    let frame = frames.build(0);
    assert_eq!(
        Frame(&frame[..5]).to_string(),
        "[the Ethernet header needs 14 bytes, but the buffer holds 5]"
    );
    assert!(Frame(&frame[..50]).to_string().contains("IP [the IPv4 packet needs 46 bytes"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..150)) {
        let _ = Frame(&bytes).to_string();
    }

    #[test]
    fn nearly_right_frames_never_panic(
        six: bool, which in 0_usize..3, tag_count in 0_usize..3, size in 0_usize..120,
        changes in prop::collection::vec((0_usize..120, any::<u8>()), 0..4)
    ) {
        let base = if six { spec("::1", "::2") } else { spec("10.0.0.1", "10.1.0.1") };
        let protocol = [Protocol::Udp, Protocol::TCP_SYN, Protocol::IcmpEcho][which];
        let tags = vec![Tag::default(); tag_count];
        let spec = StreamSpec { protocol, tags, sizes: Sizes::Fixed(120), ..base };
        let mut frame = StreamFrames::new(spec).unwrap().build(1);
        for (at, value) in changes {
            frame[at] = value;
        }
        let line = Frame(&frame[..size]).to_string();
        prop_assert!(!line.is_empty() && !line.contains('\n'));
    }
}
