//! Packets that are routed: what the box changes in them, and what it leaves to the kernel.

use std::net::IpAddr;

use weir_bpf::firewall::layout::control;
use weir_net::Netlink;
use weir_wire::{ipv4, ipv6};

use super::frames::{ETH_BYTES, Ends, tagged};
use super::rig::{BOX_MAC, OTHER_MAC, PASS, PEER_MAC, REDIRECT, Rig};

const IN: u32 = 0;
const OUT: u32 = 1;

#[test]
fn ipv4_leaves_with_the_next_ones_address_and_one_hop_less() {
    let Some(rig) = Rig::new("v4") else { return };
    let frame = Ends::new("192.0.2.1", "10.0.2.2").udp((1000, 2000), b"hello");
    let verdict = rig.receive(0, &frame);
    assert_eq!(verdict.action, REDIRECT);
    assert_eq!(verdict.frame[..6], PEER_MAC[1]);
    assert_eq!(verdict.frame[6..12], BOX_MAC[1]);
    let packet = ipv4::Packet::new_checked(&verdict.frame[ETH_BYTES..]).unwrap();
    assert_eq!(packet.ttl(), 63);
    assert!(packet.checksum_is_valid());
    assert_eq!(verdict.frame[34..], frame[34..], "the message is as it was");
    assert_eq!((rig.passed(0, IN, 0), rig.passed(1, OUT, 0)), (1, 1));
    assert_eq!(rig.forwarded(), 1);
}

#[test]
fn every_ttl_keeps_the_header_checksum_right() {
    let Some(rig) = Rig::new("ttl") else { return };
    for ttl in 2..=255 {
        // Other identifications make other checksums, also those that are about to overflow.
        let frame = Ends::new(&format!("192.0.2.{ttl}"), "10.0.2.2").ttl(ttl).udp((1, 2), b"");
        let verdict = rig.receive(0, &frame);
        assert_eq!(verdict.action, REDIRECT, "TTL {ttl}");
        let packet = ipv4::Packet::new_checked(&verdict.frame[ETH_BYTES..]).unwrap();
        assert_eq!(packet.ttl(), ttl - 1);
        assert!(packet.checksum_is_valid(), "TTL {ttl}");
    }
}

#[test]
fn ipv6_leaves_with_the_next_ones_address_and_one_hop_less() {
    let Some(rig) = Rig::new("v6") else { return };
    let frame = Ends::new("2001:db8::1", "fd00:2::2").udp((1000, 2000), b"hello");
    let verdict = rig.receive(0, &frame);
    assert_eq!(verdict.action, REDIRECT);
    assert_eq!(verdict.frame[..6], PEER_MAC[1]);
    assert_eq!(verdict.frame[6..12], BOX_MAC[1]);
    let packet = ipv6::Packet::new_checked(&verdict.frame[ETH_BYTES..]).unwrap();
    assert_eq!(packet.hop_limit(), 63);
    assert_eq!(verdict.frame[54..], frame[54..], "the message is as it was");
    assert_eq!((rig.passed(0, IN, 1), rig.passed(1, OUT, 1)), (1, 1));
}

#[test]
fn the_kernel_gets_what_is_its_own() {
    let Some(rig) = Rig::new("kernel") else { return };
    let through = Ends::new("192.0.2.1", "10.0.2.2");
    let udp = through.udp((1, 2), b"");
    let mut arp = udp.clone();
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut foreign = udp.clone();
    foreign[5] ^= 0x40;
    let mut broadcast = udp;
    broadcast[..6].fill(0xff);
    let large = through.udp((1, 2), &[0; 1480]);
    let cases: [(&str, Vec<u8>); 11] = [
        ("ARP", arp),
        ("for the box", Ends::new("192.0.2.1", "10.0.1.1").udp((1, 2), b"")),
        ("for the box, IPv6", Ends::new("2001:db8::1", "fd00:1::1").udp((1, 2), b"")),
        ("the last hop", through.ttl(1).udp((1, 2), b"")),
        ("the last hop, IPv6", Ends::new("2001:db8::1", "fd00:2::2").ttl(1).udp((1, 2), b"")),
        ("an unknown neighbour", Ends::new("192.0.2.1", "10.0.2.77").udp((1, 2), b"")),
        ("over the MTU", large),
        ("for another MAC address", foreign),
        ("broadcast", broadcast),
        ("from nobody", Ends::new("0.0.0.0", "10.0.2.2").udp((1, 2), b"")),
        ("from a link's own address", Ends::new("fe80::9", "fd00:2::2").udp((1, 2), b"")),
    ];
    for (what, frame) in cases {
        let verdict = rig.receive(0, &frame);
        assert_eq!(verdict.action, PASS, "{what}");
        assert_eq!(verdict.frame, frame, "{what}: nothing is changed");
    }
    assert_eq!(rig.forwarded(), 0);
}

#[test]
fn frames_for_virtual_addresses_are_forwarded_like_others() {
    let Some(rig) = Rig::new("virtual") else { return };
    let udp = Ends::new("192.0.2.1", "10.0.2.2").udp((1, 2), b"");
    let to = |last: u8| {
        let mut frame = udp.clone();
        frame[..6].copy_from_slice(&[0, 0, 0x5e, 0, 1, last]);
        rig.receive(0, &frame).action
    };
    assert_eq!([7, 8].map(to), [PASS; 2]);
    rig.add_virtual_macs(0, [[0, 0, 0x5e, 0, 1, 7], [0, 0, 0x5e, 0, 1, 8]]);
    assert_eq!([7, 8, 9].map(to), [REDIRECT, REDIRECT, PASS]);
    assert_eq!(rig.receive(0, &udp).action, REDIRECT);
    // The state is there by now, and the quick way looks at the address as well.
    assert_eq!([7, 8, 9].map(to), [REDIRECT, REDIRECT, PASS]);
}

#[test]
fn frames_with_tags_of_no_interface_are_never_forwarded() {
    let Some(rig) = Rig::new("vlan") else { return };
    let plain = Ends::new("192.0.2.1", "10.0.2.2").udp((1, 2), b"");
    for tags in [&[(0x8100, 5)][..], &[(0x88a8, 7), (0x8100, 5)], &[(0x8100, 0)]] {
        let frame = tagged(&plain, tags);
        let verdict = rig.receive(0, &frame);
        assert_eq!((verdict.action, verdict.frame), (PASS, frame), "{tags:?}");
    }
    assert_eq!(rig.forwarded(), 0, "into the VLAN of the same number elsewhere");
    assert_eq!(rig.receive(0, &plain).action, REDIRECT, "the same without a tag");
}

#[test]
fn frames_of_a_vlan_interface_are_the_kernels_to_forward() {
    let Some(rig) = Rig::new("vlans") else { return };
    rig.add_vlan(0, 5, 3);
    let frame = tagged(&Ends::new("192.0.2.1", "10.0.2.2").udp((1, 2), b""), &[(0x8100, 5)]);
    assert_eq!(rig.receive(0, &frame).action, PASS);
    assert_eq!(rig.passed_at(3, IN, 0), 1, "counted where it belongs");
    assert_eq!(rig.passed(0, IN, 0), 0);
}

#[test]
fn a_blackhole_drops_with_a_reason_of_its_own() {
    let Some(rig) = Rig::new("hole") else { return };
    let add = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let status = std::process::Command::new("ip").args(words).status().expect("ip runs");
        assert!(status.success(), "ip {line}");
    };
    rig.inside.run(|| add("route add blackhole 203.0.113.0/24")).unwrap();
    let verdict = rig.receive(0, &Ends::new("192.0.2.1", "203.0.113.1").udp((1, 2), b""));
    assert_eq!(verdict.action, 1);
    assert_eq!(rig.dropped(0, IN, "no-route"), 1);
}

#[test]
fn a_changed_route_is_taken_by_the_next_packet() {
    let Some(rig) = Rig::new("route") else { return };
    let netlink = |what: &(dyn Fn(&Netlink) + Sync)| {
        rig.inside.run(|| what(&Netlink::open().expect("netlink opens"))).unwrap();
    };
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let frame = Ends::new("192.0.2.1", "203.0.113.1").udp((1000, 2000), b"");
    let prefix = |text: &str| text.parse().expect("a prefix");
    netlink(&|netlink| {
        netlink.add_route(prefix("203.0.113.0/24"), Some(address("10.0.2.2")), "b1").unwrap();
    });
    for _ in 0..3 {
        assert_eq!(rig.receive(0, &frame).frame[..6], PEER_MAC[1]);
    }
    netlink(&|netlink| {
        netlink.add_route(prefix("203.0.113.1/32"), Some(address("10.0.2.9")), "b1").unwrap();
    });
    // What the daemon does on every such event.
    rig.firewall.arena().write32(control::GENERATION, 2);
    assert_eq!(rig.receive(0, &frame).frame[..6], OTHER_MAC);
}
