//! Streams of every kind that the stream model has, for tests.

use proptest::prelude::*;
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::range::AddrRange;
use weir_wire::sizes::Sizes;
use weir_wire::stream::StreamSpec;
use weir_wire::tcp::Flags;
use weir_wire::vlan::{Tag, TagKind};
use weir_wire::walk::Walk;

/// An address and a port, or a number of them.
fn range(over_ipv6: bool, many: bool) -> impl Strategy<Value = AddrRange> {
    (any::<u128>(), 1_u16..60_000).prop_map(move |(bits, port)| {
        let text = if over_ipv6 {
            let addr = std::net::Ipv6Addr::from_bits(bits & !0xffff);
            let end = if many { format!("-[{}]:{}", addr, port + 3) } else { String::new() };
            format!("[{addr}]:{port}{end}")
        } else {
            let [.., a, b, c, _] = bits.to_be_bytes();
            let end = if many { format!("-{a}.{b}.{c}.9:{}", port + 3) } else { String::new() };
            format!("{a}.{b}.{c}.0:{port}{end}")
        };
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    })
}

/// Any stream; with one flow, or with several.
pub(crate) fn specs(many: bool) -> impl Strategy<Value = StreamSpec> {
    let kind = prop_oneof![Just(TagKind::Customer), Just(TagKind::Service)];
    let tag = (kind, 0_u8..8, any::<bool>(), 0_u16..4095).prop_map(|(kind, pcp, dei, id)| Tag {
        kind,
        pcp,
        dei,
        id,
    });
    let protocol = prop_oneof![
        Just(Protocol::Udp),
        any::<u8>().prop_map(|flags| Protocol::Tcp { flags: Flags(flags) }),
        Just(Protocol::IcmpEcho),
    ];
    let sizes = prop_oneof![
        (100_u16..1515).prop_map(Sizes::Fixed),
        Just(Sizes::Uniform { first_bytes: 100, last_bytes: 1514 }),
        Just(Sizes::Imix),
    ];
    let walk =
        prop_oneof![Just(Walk::Odometer), any::<u64>().prop_map(|seed| Walk::Random { seed })];
    let ranges = any::<bool>().prop_flat_map(move |six| (range(six, many), range(six, many)));
    let tags = prop::collection::vec(tag, 0..=2);
    let numbers = (1_u8.., 0_u8..64, any::<u8>(), 1_u16..=256, any::<bool>());
    (ranges, tags, protocol, sizes, walk, numbers).prop_map(
        |((src, dst), tags, protocol, sizes, walk, numbers)| {
            let macs = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1]));
            let base = StreamSpec::new(macs.0, macs.1, src, dst);
            let (ttl, dscp, stream, thread_count, dont_fragment) = numbers;
            let dont_fragment = dont_fragment || src.is_ipv6();
            let spec = StreamSpec { tags, protocol, sizes, walk, ttl, dscp, ..base };
            StreamSpec { stream, thread_count, dont_fragment, ..spec }
        },
    )
}
