//! Frames are made by [`Encap`], and by hand where it makes none.

use alloc::vec::Vec;
use core::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::encap::Encap;
use crate::mac::MacAddr;
use crate::rss::{Key, Symmetry, Table};
use crate::sizes::Sizes;
use crate::stream::{StreamFrames, StreamSpec};

fn frame(src: &str, dst: &str) -> Vec<u8> {
    let macs = [9, 1].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
    let spec = StreamSpec::new(macs[0], macs[1], src.parse().unwrap(), dst.parse().unwrap());
    StreamFrames::new(StreamSpec { sizes: Sizes::Fixed(90), ..spec }).unwrap().build(0)
}

fn v4() -> Vec<u8> {
    frame("10.1.0.1:2000", "10.2.0.1:53")
}

fn v6() -> Vec<u8> {
    frame("[2001:2::1]:2000", "[2001:2::9]:53")
}

fn ends(is_ipv6: bool) -> (IpAddr, IpAddr) {
    let (src, dst) =
        if is_ipv6 { ("2001:db8::1", "2001:db8::2") } else { ("192.0.2.1", "192.0.2.2") };
    (src.parse().unwrap(), dst.parse().unwrap())
}

fn settings(fields: Fields) -> Settings {
    Settings {
        key: Key::microsoft(),
        table: Table::equal(2, 128).unwrap(),
        symmetry: Symmetry::None,
        fields: [fields; 4],
    }
}

fn follower() -> Follower {
    Follower::new(settings(Fields::FourTuple), FRAGMENT_TIMEOUT_NS, 16)
}

fn hash(frame: &[u8]) -> Hashed {
    follower().hash(frame, 0)
}

/// All tunnels, over both families.
fn encaps() -> Vec<Encap> {
    let of = |is_ipv6| {
        let (ends, src_port, id) = (ends(is_ipv6), 9, 3);
        [
            Encap::Gre { ends, key: None },
            Encap::Gre { ends, key: Some(7) },
            Encap::Ip { ends },
            Encap::Vxlan { ends, src_port, id },
            Encap::Geneve { ends, src_port, id, option_words: 0 },
            Encap::Geneve { ends, src_port, id, option_words: 9 },
        ]
    };
    let links = [Encap::Vlan { id: 5 }, Encap::Pppoe { session: 1 }, Encap::Mpls { label: 16 }];
    links.into_iter().chain(of(false)).chain(of(true)).collect()
}

#[test]
fn a_plain_packet_has_the_hash_of_its_flow() {
    // As `weir rss hash` says, which is checked against Microsoft's values.
    for (frame, src, dst) in [(v4(), "10.1.0.1", "10.2.0.1"), (v6(), "2001:2::1", "2001:2::9")] {
        let (src, dst): (IpAddr, IpAddr) = (src.parse().unwrap(), dst.parse().unwrap());
        let flow = Flow { src, dst, src_port: 2000, dst_port: 53 };
        let toeplitz = Toeplitz::new(&Key::microsoft());
        for fields in [Fields::TwoTuple, Fields::FourTuple] {
            let mut follower = Follower::new(settings(fields), FRAGMENT_TIMEOUT_NS, 1);
            let expected = toeplitz.hash(flow, fields, Symmetry::None);
            assert_eq!(follower.hash(&frame, 0), Hashed::Flow(expected));
        }
        assert_eq!((walk(&frame).level_count, walk(&frame).end), (1, End::Whole));
    }
}

#[test]
fn every_tunnel_has_the_hash_of_what_it_carries() {
    for frame in [v4(), v6()] {
        let expected = hash(&frame);
        for outer in encaps() {
            let once = outer.wrap(&frame).unwrap();
            assert_eq!(hash(&once), expected, "{outer:?}");
            assert_eq!(walk(&once).end, End::Whole, "{outer:?}");
            for outermost in encaps() {
                let Ok(twice) = outermost.wrap(&once) else { continue };
                assert_eq!(hash(&twice), expected, "{outer:?} in {outermost:?}");
            }
        }
    }
}

#[test]
fn tags_sessions_and_labels_are_stacked_to_their_limits() {
    let tag = |frame: &[u8]| Encap::Vlan { id: 5 }.wrap(frame).unwrap();
    let expected = hash(&v4());
    let session = Encap::Pppoe { session: 1 }.wrap(&v4()).unwrap();
    assert_eq!(hash(&tag(&tag(&session))), expected);
    assert_eq!(walk(&tag(&tag(&tag(&session)))).end, End::NotIp);
    let mut labelled = v4();
    for count in 1..=5 {
        labelled = Encap::Mpls { label: 16 }.wrap(&labelled).unwrap();
        let walk = walk(&labelled);
        assert_eq!(walk.innermost.is_some(), count <= 4, "{count} labels");
        assert_eq!(walk.end, if count <= 4 { End::Whole } else { End::TooDeep });
    }
}

#[test]
fn where_no_ip_is_carried_the_outer_header_counts() {
    let arp = [&v4()[..12], &[8, 6], &[0; 46]].concat();
    assert_eq!((hash(&arp), walk(&arp).end), (Hashed::Not, End::NotIp));
    let vxlan = Encap::Vxlan { ends: ends(false), src_port: 9, id: 3 };
    let bridged = vxlan.wrap(&arp).unwrap();
    let outer = walk(&bridged);
    assert_eq!((outer.level_count, outer.end), (1, End::NotIp));
    let innermost = outer.innermost.unwrap();
    assert_eq!((innermost.src, innermost.dst), ends(false));
    // By the ports of VXLAN's datagram, too.
    let toeplitz = Toeplitz::new(&Key::microsoft());
    let flow = Flow { src: innermost.src, dst: innermost.dst, src_port: 9, dst_port: 4789 };
    let expected = toeplitz.hash(flow, Fields::FourTuple, Symmetry::None);
    assert_eq!(hash(&bridged), Hashed::Flow(expected));
    // A frame that ends within what is carried.
    let cut = &vxlan.wrap(&v4()).unwrap()[..14 + 20 + 16 + 14 + 19];
    assert_eq!((hash(cut), walk(cut).end), (Hashed::Flow(expected), End::Truncated));
    // A version that there is not.
    let mut wrong = Encap::Ip { ends: ends(false) }.wrap(&v4()).unwrap();
    wrong[34] = 0x55;
    assert_eq!((walk(&wrong).level_count, walk(&wrong).end), (1, End::Malformed));
}

#[test]
fn headers_of_other_tunnels_are_none() {
    let gre = Encap::Gre { ends: ends(false), key: None }.wrap(&v4()).unwrap();
    for (at, byte) in [(34, 0x40), (35, 0x01), (36, 0x88)] {
        // Routing, PPTP's version, and ERSPAN or the like.
        let mut other = gre.clone();
        other[at] = byte;
        assert_eq!((walk(&other).level_count, walk(&other).end), (1, End::Whole));
    }
    let mut vxlan = Encap::Vxlan { ends: ends(false), src_port: 9, id: 3 }.wrap(&v4()).unwrap();
    vxlan[42] = 0;
    assert_eq!((walk(&vxlan).level_count, walk(&vxlan).end), (1, End::Whole));
    let mut pppoe = Encap::Pppoe { session: 1 }.wrap(&v4()).unwrap();
    // Discovery's code in a session.
    pppoe[15] = 9;
    assert_eq!((walk(&pppoe).level_count, walk(&pppoe).end), (0, End::Malformed));
}

#[test]
fn four_headers_are_followed_and_the_fifth_is_not() {
    let tunnel = Encap::Ip { ends: ends(false) };
    let mut frame = v4();
    for levels in 2..=5 {
        frame = tunnel.wrap(&frame).unwrap();
        let walk = walk(&frame);
        assert_eq!(walk.level_count, levels.min(4));
        assert_eq!(walk.end, if levels <= 4 { End::Whole } else { End::TooDeep });
    }
    // Options of 252 bytes, twice.
    let geneve = Encap::Geneve { ends: ends(false), src_port: 9, id: 3, option_words: 63 };
    let far = geneve.wrap(&geneve.wrap(&v4()).unwrap()).unwrap();
    assert_eq!((walk(&far).level_count, walk(&far).end), (2, End::TooDeep));
}

/// Puts extension headers between an IPv6 header and its message: (number, bytes) each.
fn extended(frame: &[u8], extensions: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = frame[..54].to_vec();
    let mut next_at = 20;
    let protocol = frame[20];
    for (number, bytes) in extensions {
        out[next_at] = *number;
        next_at = out.len();
        out.extend_from_slice(bytes);
    }
    out[next_at] = protocol;
    out.extend_from_slice(&frame[54..]);
    out
}

#[test]
fn ports_are_found_behind_extension_headers() {
    let expected = hash(&v6());
    let plain = |number| (number, [0; 8].to_vec());
    let long = (60, [&[0, 2], &[0; 22][..]].concat());
    let all = extended(&v6(), &[plain(0), long, plain(43), plain(60)]);
    assert_eq!((hash(&all), walk(&all).end), (expected, End::Whole));
    let five = extended(&v6(), &[plain(0), plain(60), plain(43), plain(60), plain(60)]);
    assert_ne!(hash(&five), expected);
    assert!(matches!(hash(&five), Hashed::Flow(_)), "by its addresses");
    // A fragment that is the whole packet (RFC 6946).
    let atomic = extended(&v6(), &[(44, [0, 0, 0, 0, 0, 0, 0, 7].to_vec())]);
    assert_eq!((hash(&atomic), walk(&atomic).firsts.len()), (expected, 0));
    let cut = &all[..70];
    assert_eq!(walk(cut).end, End::Truncated);
    assert_eq!(walk(cut).innermost.unwrap().protocol, None);
    let far = (60, [&[0, 63], &[0; 510][..]].concat());
    let far = extended(&v6(), &[far]);
    assert_eq!((walk(&far).end, walk(&far).innermost.unwrap().protocol), (End::TooDeep, None));
}

/// A fragment of an IPv4 packet: the header at `at` gets the offset, in units of 8 bytes.
fn fragment(frame: &[u8], at: usize, offset: u16, has_more: bool) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at + 4..at + 6].copy_from_slice(&77_u16.to_be_bytes());
    let field = offset | u16::from(has_more) << 13;
    frame[at + 6..at + 8].copy_from_slice(&field.to_be_bytes());
    frame
}

#[test]
fn later_fragments_follow_the_first_one() {
    let (first, later) = (fragment(&v4(), 14, 0, true), fragment(&v4(), 14, 3, false));
    let whole = hash(&v4()).hash().unwrap();
    let mut follower = follower();
    let Hashed::Early(addresses) = follower.hash(&later, 0) else { panic!("no first one yet") };
    assert_ne!(addresses, whole);
    assert_eq!(follower.hash(&first, 5), Hashed::Flow(whole));
    assert_eq!(follower.hash(&later, 6), Hashed::Followed(whole));
    assert_eq!(follower.hash(&later, 5 + FRAGMENT_TIMEOUT_NS), Hashed::Followed(whole));
    assert_eq!(follower.hash(&later, 6 + FRAGMENT_TIMEOUT_NS), Hashed::Early(addresses));
    // Another packet's.
    let mut other = later.clone();
    other[19] = 78;
    assert_eq!(follower.hash(&other, 6), Hashed::Early(addresses));
}

#[test]
fn fragments_of_a_tunnel_and_in_it_have_the_hash_of_the_flow() {
    let whole = hash(&v4()).hash().unwrap();
    let tunnel = Encap::Gre { ends: ends(false), key: None };
    // The outer packet was cut: only the first piece has what it carries.
    let carried = tunnel.wrap(&v4()).unwrap();
    let mut one = follower();
    assert_eq!(one.hash(&fragment(&carried, 14, 0, true), 0), Hashed::Flow(whole));
    assert_eq!(one.hash(&fragment(&carried, 14, 9, false), 0), Hashed::Followed(whole));
    // The inner packet was cut before.
    let mut two = follower();
    let first = tunnel.wrap(&fragment(&v4(), 14, 0, true)).unwrap();
    let later = tunnel.wrap(&fragment(&v4(), 14, 3, false)).unwrap();
    assert_eq!(two.hash(&first, 0), Hashed::Flow(whole));
    assert_eq!(two.hash(&later, 0), Hashed::Followed(whole));
    // Both: a later piece of the inner packet, whose own later piece follows it.
    assert_eq!(two.hash(&fragment(&later, 14, 0, true), 0), Hashed::Followed(whole));
    assert_eq!(two.hash(&fragment(&later, 14, 9, false), 0), Hashed::Followed(whole));
}

#[test]
fn the_oldest_first_one_goes_when_there_is_no_room() {
    let mut follower = Follower::new(settings(Fields::FourTuple), FRAGMENT_TIMEOUT_NS, 2);
    let numbered = |number: u8, offset, has_more| {
        let mut frame = fragment(&v4(), 14, offset, has_more);
        frame[19] = number;
        frame
    };
    for (now_ns, number) in (0..).zip(1..=3) {
        follower.hash(&numbered(number, 0, true), now_ns);
    }
    let is_known = |follower: &mut Follower, number| {
        matches!(follower.hash(&numbered(number, 3, false), 5), Hashed::Followed(_))
    };
    let known = [1, 2, 3].map(|number| is_known(&mut follower, number));
    assert_eq!(known, [false, true, true]);
}

proptest! {
    #[test]
    fn any_bytes_are_walked_through(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        encap in 0..15_usize,
        at in 0..120_usize,
        byte in any::<u8>(),
    ) {
        hash(&bytes);
        let mut frame = encaps()[encap].wrap(&v4()).unwrap();
        let at = at.min(frame.len() - 1);
        frame[at] = byte;
        let walk = walk(&frame[..frame.len().min(at + 60)]);
        prop_assert!(walk.level_count <= LEVEL_COUNT_MAX);
        prop_assert_eq!(walk.innermost.is_some(), walk.level_count > 0);
    }
}
