//! Prefixes, and addresses, routes and neighbours read back from the kernel.

use super::*;
use crate::link::VethEnd;
use crate::neighbour::Neighbour;
use crate::route::Route;
use crate::testing::{namespace, tool};

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

#[test]
fn prefixes_parse_print_and_mask() {
    for text in ["198.18.0.1/24", "0.0.0.0/0", "2001:2::1/64", "::/0", "::1/128"] {
        assert_eq!(prefix(text).to_string(), text);
    }
    assert_eq!(prefix("198.18.7.9/15").network(), prefix("198.18.0.0/15"));
    assert_eq!(prefix("198.18.7.9/32").network(), prefix("198.18.7.9/32"));
    assert_eq!(prefix("198.18.7.9/0").network(), prefix("0.0.0.0/0"));
    assert_eq!(prefix("2001:2:0:1::1/48").network(), prefix("2001:2::/48"));
    assert_eq!(prefix("2001:2::1/0").network(), prefix("::/0"));
}

#[test]
fn wrong_prefixes_are_refused() {
    for text in ["", "198.18.0.1", "198.18.0.1/", "198.18.0.1/+8", "x/8", "1.2.3.4/300", "/8"] {
        assert!(matches!(text.parse::<Prefix>(), Err(PrefixError::Syntax { .. })), "{text}");
    }
    let error = "198.18.0.1/33".parse::<Prefix>().unwrap_err();
    assert_eq!(error.to_string(), "the prefix length of 198.18.0.1/33 is too large: at most 32");
    assert!("::1/129".parse::<Prefix>().is_err());
}

#[test]
fn addresses_routes_and_neighbours_are_in_the_kernel() {
    let netns = namespace("address");
    netns
        .run(|| {
            let netlink = Netlink::open().unwrap();
            netlink.create_veth(&VethEnd::new("a0"), &VethEnd::new("a1"), 1).unwrap();
            netlink.set_up("a0").unwrap();
            netlink.set_up("a1").unwrap();
            let (v4, v6) = (prefix("198.18.0.1/24"), prefix("2001:2:0:1::1/64"));
            netlink.add_address("a0", v4).unwrap();
            netlink.add_address("a0", v6).unwrap();
            let addresses = netlink.addresses("a0").unwrap();
            assert!(addresses.contains(&v4) && addresses.contains(&v6), "{addresses:?}");
            check_routes(&netlink);
            check_neighbours(&netlink);
            compare_with_ip();
        })
        .unwrap();
}

fn check_routes(netlink: &Netlink) {
    let ifindex = Some(netlink.ifindex("a0").unwrap());
    let (gateway4, gateway6) = ("198.18.0.2".parse().unwrap(), "2001:2:0:1::2".parse().unwrap());
    // Host bits in a destination are no error.
    netlink.add_route(prefix("198.19.0.1/16"), Some(gateway4), "a0").unwrap();
    netlink.add_route(prefix("2001:2:0:2::/64"), Some(gateway6), "a0").unwrap();
    netlink.add_route(prefix("203.0.113.0/24"), None, "a0").unwrap();
    netlink.add_route(prefix("::/0"), Some(gateway6), "a0").unwrap();
    let routes = netlink.routes().unwrap();
    for (destination, gateway) in [
        ("198.18.0.0/24", None),
        ("198.19.0.0/16", Some(gateway4)),
        ("2001:2:0:1::/64", None),
        ("2001:2:0:2::/64", Some(gateway6)),
        ("203.0.113.0/24", None),
        ("::/0", Some(gateway6)),
    ] {
        let route = Route { destination: prefix(destination), gateway, ifindex };
        assert!(routes.contains(&route), "{route:?} is not among {routes:?}");
    }
    let error = netlink.add_route(prefix("198.19.0.0/16"), Some(gateway4), "a0").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot add route to 198.19.0.0/16 via 198.18.0.2 on interface `a0`: File exists \
         (os error 17)"
    );
    let error = netlink.add_route(prefix("10.0.0.0/8"), Some(gateway6), "a0").unwrap_err();
    assert!(matches!(error, NetlinkError::BadValue { .. }), "{error}");
}

fn check_neighbours(netlink: &Netlink) {
    let first = [2, 0, 0, 0, 0, 1];
    let (address4, address6): (IpAddr, IpAddr) =
        ("198.18.0.2".parse().unwrap(), "2001:2:0:1::2".parse().unwrap());
    netlink.add_neighbour("a0", address4, first).unwrap();
    netlink.add_neighbour("a0", address6, first).unwrap();
    let second = [2, 0, 0, 0, 0, 2];
    netlink.add_neighbour("a0", address4, second).unwrap();
    assert_eq!(
        netlink.neighbours("a0").unwrap(),
        [Neighbour { address: address4, mac: second }, Neighbour { address: address6, mac: first }]
    );
    assert_eq!(netlink.neighbours("a1").unwrap(), []);
}

/// The same, seen by iproute2: an IPv6 address that is not tentative, and permanent neighbours.
fn compare_with_ip() {
    let json = |argv: &[&str]| -> Option<serde_json::Value> {
        Some(serde_json::from_slice(&tool(argv)?.stdout).unwrap())
    };
    let Some(addresses) = json(&["ip", "-json", "address", "show", "a0"]) else {
        return;
    };
    let infos = addresses[0]["addr_info"].as_array().unwrap();
    let find = |local: &str| infos.iter().find(|info| info["local"] == local).unwrap();
    assert_eq!(find("198.18.0.1")["prefixlen"], 24);
    let v6 = find("2001:2:0:1::1");
    assert_eq!((&v6["prefixlen"], v6.get("tentative")), (&64.into(), None));
    let neighbours = json(&["ip", "-json", "neigh", "show", "dev", "a0"]).unwrap();
    let entry = neighbours.as_array().unwrap().iter().find(|n| n["dst"] == "198.18.0.2").unwrap();
    assert_eq!(entry["lladdr"], "02:00:00:00:00:02");
    assert_eq!(entry["state"][0], "PERMANENT");
    let routes = json(&["ip", "-json", "route", "show"]).unwrap();
    let route = routes.as_array().unwrap().iter().find(|r| r["dst"] == "198.19.0.0/16").unwrap();
    assert_eq!((&route["gateway"], &route["dev"]), (&"198.18.0.2".into(), &"a0".into()));
}

#[test]
fn errors_name_the_address_and_the_interface() {
    let netns = namespace("address-error");
    netns
        .run(|| {
            let netlink = Netlink::open().unwrap();
            let address = prefix("198.18.0.1/24");
            let error = netlink.add_address("a0", address).unwrap_err();
            assert_eq!(error.to_string(), "there is no interface `a0` in this network namespace");
            netlink.create_veth(&VethEnd::new("a0"), &VethEnd::new("a1"), 1).unwrap();
            netlink.add_address("a0", address).unwrap();
            let error = netlink.add_address("a0", address).unwrap_err();
            assert_eq!(
                error.to_string(),
                "cannot add address 198.18.0.1/24 to interface `a0`: File exists (os error 17)"
            );
        })
        .unwrap();
}
