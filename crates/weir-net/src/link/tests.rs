//! A veth pair across two namespaces, as the lab makes it.

use std::time::Duration;

use super::*;
use crate::testing::{delete_link, namespace, tool};

const MAC_A: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0a];
const MAC_B: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0b];

#[test]
fn names_are_checked_before_the_kernel_is_asked() {
    let netlink = Netlink::open().unwrap();
    for name in ["", "..", "a/b", "a:b", "a b", "0123456789abcdef"] {
        let error = netlink.link(name).unwrap_err();
        assert!(matches!(error, NetlinkError::BadName { .. }), "{error}");
    }
    assert!(matches!(netlink.link("weir-no-such"), Err(NetlinkError::NoLink { .. })));
}

#[test]
fn a_pair_with_four_queues_across_two_namespaces() {
    let (near, far) = (namespace("near"), namespace("far"));
    near.run(|| {
        let netlink = Netlink::open().unwrap();
        let a = VethEnd::new("a0").mac(MAC_A).mtu(2000);
        let b = VethEnd::new("b0").mac(MAC_B).in_netns(&far);
        netlink.create_veth(&a, &b, 4).unwrap();
        assert!(matches!(netlink.link("b0"), Err(NetlinkError::NoLink { .. })));
        netlink.set_up("a0").unwrap();
        let link = netlink.link("a0").unwrap();
        assert_eq!((link.mac, link.mtu), (Some(MAC_A), 2000));
        assert_eq!((link.tx_queue_count, link.rx_queue_count), (4, 4));
        assert!(link.is_up && link.peer_is_elsewhere && !link.is_loopback && !link.has_xdp);
        assert!(netlink.link("lo").unwrap().is_loopback);
        assert_ne!(link.operstate, OperState::Up, "the peer is still down");
        let error = netlink.wait_operational("a0", Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("is its peer up?"), "{error}");
        if let Some(output) = tool(&["ip", "-json", "link", "show", "a0"]) {
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(json[0]["address"], "02:00:00:00:00:0a");
            assert_eq!(json[0]["mtu"], 2000);
            assert_eq!(json[0]["ifindex"], link.ifindex);
        }
        assert_eq!(queue_directories("a0"), 8, "all queues are in use, not only made");
    })
    .unwrap();
    far.run(|| {
        let netlink = Netlink::open().unwrap();
        netlink.set_up("b0").unwrap();
        netlink.wait_operational("b0", Duration::from_secs(30)).unwrap();
        let link = netlink.link("b0").unwrap();
        assert_eq!((link.mac, link.mtu), (Some(MAC_B), 1500));
        assert_eq!((link.tx_queue_count, link.rx_queue_count), (4, 4));
        assert_eq!(link.operstate, OperState::Up);
        assert_eq!(queue_directories("b0"), 8);
        assert_eq!(netlink.links().unwrap().iter().filter(|link| link.name == "b0").count(), 1);
    })
    .unwrap();
    let carrier_change_count =
        near.run(|| Netlink::open().unwrap().link("a0").unwrap().carrier_change_count).unwrap();
    assert!(carrier_change_count > 0, "the carrier came when the peer went up");
}

#[test]
fn what_begins_with_the_ip_header_is_told_from_the_rest() {
    let bare = |link_layer_type: LinkLayerType, remote: &[u8]| {
        let mut message = LinkMessage::default();
        message.header.link_layer_type = link_layer_type;
        message.attributes.push(LinkAttribute::Broadcast(remote.to_vec()));
        is_bare(&message)
    };
    for layer in [LinkLayerType::None, LinkLayerType::Ppp, LinkLayerType::Tunnel] {
        assert!(bare(layer, &[]), "{layer:?}");
    }
    for layer in [LinkLayerType::Ether, LinkLayerType::Infiniband, LinkLayerType::Void] {
        assert!(!bare(layer, &[0xff; 6]), "{layer:?}");
    }
    assert!(bare(LinkLayerType::Ipgre, &[192, 0, 2, 1]));
    assert!(!bare(LinkLayerType::Ipgre, &[0; 4]), "its packets leave with the outer header");
    let netns = namespace("bare");
    netns
        .run(|| {
            if tool(&["ip", "tuntap", "add", "dev", "t0", "mode", "tun"]).is_none() {
                return;
            }
            let link = Netlink::open().unwrap().link("t0").unwrap();
            assert_eq!((link.is_bare, link.is_ethernet, link.mac), (true, false, None));
        })
        .unwrap();
}

fn queue_directories(link: &str) -> usize {
    std::fs::read_dir(format!("/sys/class/net/{link}/queues")).unwrap().count()
}

#[test]
fn settings_counters_moves_and_deletion() {
    let (near, far) = (namespace("near"), namespace("far"));
    near.run(|| {
        let netlink = Netlink::open().unwrap();
        netlink.create_veth(&VethEnd::new("a0"), &VethEnd::new("a1"), 1).unwrap();
        netlink.set_mac("a0", MAC_A).unwrap();
        netlink.set_mtu("a0", 9000).unwrap();
        netlink.set_up("a0").unwrap();
        netlink.set_up("a1").unwrap();
        let link = netlink.link("a0").unwrap();
        assert_eq!((link.mac, link.mtu, link.is_up), (Some(MAC_A), 9000, true));
        assert_eq!(link.peer_ifindex, Some(netlink.ifindex("a1").unwrap()));
        netlink
            .change("a0", "set", "down", |message| message.header.change_mask |= LinkFlags::Up)
            .unwrap();
        assert!(!netlink.link("a0").unwrap().is_up);
        assert_eq!(netlink.stats64("a0").unwrap().named().len(), 19);
        netlink.move_to_netns("a1", &far).unwrap();
        assert!(matches!(netlink.ifindex("a1"), Err(NetlinkError::NoLink { .. })));
        delete_link(&netlink, "a0");
        assert!(matches!(netlink.ifindex("a0"), Err(NetlinkError::NoLink { .. })));
    })
    .unwrap();
    let gone = far.run(|| Netlink::open().unwrap().ifindex("a1")).unwrap();
    assert!(matches!(gone, Err(NetlinkError::NoLink { .. })), "the peer goes too");
}

#[test]
fn refusals_name_the_object_and_the_cause() {
    let netns = namespace("refusals");
    netns
        .run(|| {
            let netlink = Netlink::open().unwrap();
            let pair = (VethEnd::new("a0"), VethEnd::new("a1"));
            for count in [0, QUEUE_COUNT_MAX + 1] {
                let error = netlink.create_veth(&pair.0, &pair.1, count).unwrap_err();
                assert!(error.to_string().contains("`a0`"), "{error}");
                assert!(matches!(error, NetlinkError::BadValue { .. }));
            }
            netlink.create_veth(&pair.0, &pair.1, 1).unwrap();
            let error = netlink.create_veth(&pair.0, &VethEnd::new("a2"), 1).unwrap_err();
            assert_eq!(
                error.to_string(),
                "cannot create veth `a0` with peer `a2`: File exists (os error 17)"
            );
            let error = netlink.set_mtu("a0", 70_000).unwrap_err();
            assert!(
                error.to_string().starts_with("cannot set the MTU of interface `a0` to 70000: ")
            );
            let error = netlink.set_mac("a0", [0xff; 6]).unwrap_err();
            assert!(
                error.to_string().starts_with("cannot set the MAC address of interface `a0`: ")
            );
        })
        .unwrap();
}

/// Of devices that a kernel may not have.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn made_or_skipped(made: Result<(), NetlinkError>, what: &str) {
    match made {
        Ok(()) => {}
        Err(NetlinkError::Refused { source, .. }) if source.raw_os_error() == Some(95) => {
            eprintln!("skipped: this kernel has no {what}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_macvlan_has_another_address_and_a_parent() {
    let netns = namespace("macvlan");
    let made = netns.run(|| {
        let netlink = Netlink::open().unwrap();
        netlink.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1"), 1).unwrap();
        let mac = [0, 0, 0x5e, 0, 1, 7];
        netlink.create_macvlan("vrrp.7", "v0", mac)?;
        let [above, below] = ["vrrp.7", "v0"].map(|name| netlink.link(name).unwrap());
        assert_eq!((above.mac, above.is_up), (Some(mac), false));
        assert_eq!((above.macvlan_parent, below.macvlan_parent), (Some(below.ifindex), None));
        Ok::<(), NetlinkError>(())
    });
    made_or_skipped(made.unwrap(), "macvlan devices (CONFIG_MACVLAN)");
}

#[test]
fn a_vlan_is_on_its_parent_and_may_have_another_one_on_it() {
    let netns = namespace("vlan");
    let made = netns.run(|| {
        let netlink = Netlink::open().unwrap();
        netlink.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1"), 1).unwrap();
        netlink.create_vlan("v0.100", "v0", 100, true)?;
        netlink.create_vlan("v0.100.200", "v0.100", 200, false)?;
        let vlans = ["v0.100", "v0.100.200"].map(|name| netlink.link(name).unwrap().vlan.unwrap());
        let below = ["v0", "v0.100"].map(|name| netlink.ifindex(name).unwrap());
        assert_eq!(vlans.map(|vlan| vlan.parent_ifindex), below);
        assert_eq!(vlans.map(|vlan| vlan.id), [100, 200]);
        Ok::<(), NetlinkError>(())
    });
    made_or_skipped(made.unwrap(), "VLAN devices (CONFIG_VLAN_8021Q)");
}
