//! The chain of OpenBSD's tests: a sender, the box, a router whose further link takes shorter
//! packets, and behind it a host that sends back what it gets. Its addresses are reached as they
//! are, by a redirection, from a translated source, and by both.

use std::net::UdpSocket;

use weir_net::{Netlink, NetnsGuard, VethEnd};

use super::{assert_answered, has_ping, ping, set};
use crate::common::can_run_lab;
use crate::turns::beside;

use super::super::nat::{datagrams, ip, seen_of_datagram, who_datagrams};
use super::super::network::{Network, PATIENCE, echo_server, namespace};

/// The last link's MTU.
const MTU_BYTES: u32 = 1300;

/// An address, whom the host at the end sees that asks for it, and whether it is the host's.
struct Target {
    address: &'static str,
    seen: &'static str,
    is_there: bool,
}

const fn target(address: &'static str, seen: &'static str, is_there: bool) -> Target {
    Target { address, seen, is_there }
}

const TARGETS: [Target; 4] = [
    target("10.9.0.2", "10.1.0.2", true),
    target("10.9.1.2", "10.2.0.1", true),
    target("10.8.0.88", "10.1.0.2", false),
    target("10.8.1.88", "10.2.0.1", false),
];
const TARGETS6: [Target; 4] = [
    target("fd09::2", "fd01::2", true),
    target("fd09:1::2", "fd02::1", true),
    target("fd08::88", "fd01::2", false),
    target("fd08:1::88", "fd02::1", false),
];

const RULES: &str = "\
pass
pass in to { 10.8.0.0/24 10.8.1.0/24 } rdr-to 10.9.0.2
pass in to 10.8.1.0/24 rdr-to 10.9.0.2 tag both
pass out to 10.9.1.0/24 nat-to 10.2.0.1
pass out inet tagged both nat-to 10.2.0.1
pass in to { fd08::/64 fd08:1::/64 } rdr-to fd09::2
pass in to fd08:1::/64 rdr-to fd09::2 tag both6
pass out to fd09:1::/64 nat-to fd02::1
pass out inet6 tagged both6 nat-to fd02::1
";

/// The network with the chain's end.
struct Chain {
    net: Network,
    end: NetnsGuard,
}

impl Chain {
    fn new(tag: &str) -> Self {
        let net = Network::new(tag);
        let end = namespace(tag, "e");
        net.server
            .run(|| {
                let netlink = Netlink::open().expect("netlink");
                let peer = VethEnd::new("e0").in_netns(&end);
                netlink.create_veth(&VethEnd::new("s1"), &peer, 1).expect("a veth is made");
            })
            .expect("entered");
        for (netns, name, addresses) in [
            (&net.server, "s1", ["10.9.0.1/24", "fd09::1/64"]),
            (&end, "e0", ["10.9.0.2/24", "fd09::2/64"]),
        ] {
            for address in addresses {
                ip(netns, &format!("address add {address} dev {name}"));
            }
            ip(netns, &format!("link set {name} mtu {MTU_BYTES}"));
            ip(netns, &format!("link set {name} up"));
        }
        for words in [
            "link set lo up",
            "address add 10.9.1.2/32 dev lo",
            "address add fd09:1::2/128 dev lo",
            "route add default via 10.9.0.1",
            "-6 route add default via fd09::1",
        ] {
            ip(&end, words);
        }
        for words in ["route add 10.9.1.0/24 via 10.9.0.2", "-6 route add fd09:1::/64 via fd09::2"]
        {
            ip(&net.server, words);
        }
        for words in ["route add 10.8.0.0/15 via 10.2.0.2", "-6 route add fd08::/15 via fd02::2"] {
            ip(&net.router, words);
        }
        set(&net.server, "net.ipv4.ip_forward", "1");
        set(&net.server, "net.ipv6.conf.all.forwarding", "1");
        for target in TARGETS.iter().chain(&TARGETS6).filter(|target| target.is_there) {
            who_datagrams(&end, target.address, 7);
            echo_server(&end, target.address, 7);
        }
        Self { net, end }
    }
}

fn local(target: &Target) -> &'static str {
    if target.address.contains(':') { "[fd01::2]:0" } else { "10.1.0.2:0" }
}

/// Pings, also in fragments, which the sender makes or learns to make.
#[test]
fn pings_whole_and_in_pieces_come_back_along_the_chain() {
    let test = "pings_whole_and_in_pieces_come_back_along_the_chain";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let chain = Chain::new("sc-chain");
    let from = &chain.net.client;
    if !has_ping(test, from) {
        return;
    }
    chain.net.start("pass\n");
    chain.net.reload_as("openbsd", RULES);
    for target in TARGETS.iter().chain(&TARGETS6) {
        assert_answered(from, &[target.address]);
    }
    // What is too long for the last link, and must stay whole: the router there says so.
    for (targets, message) in
        [(&TARGETS, "Frag needed and DF set (mtu = 1300)"), (&TARGETS6, "Packet too big: mtu=1300")]
    {
        for target in targets {
            let words = ["-M", "do", "-s", "1400", target.address];
            let (said, is_answered) = ping(from, "20", &words);
            assert!(!is_answered && said.contains(message), "{}: {said}", target.address);
            let said = said.lines().find(|line| line.contains(message)).expect("it is there");
            // The router is known by its address, or hidden with the host that it speaks of.
            let is_hidden = !target.is_there;
            assert_eq!(said.contains(target.address), is_hidden, "{said}");
        }
    }
    for target in TARGETS.iter().chain(&TARGETS6) {
        assert_answered(from, &["-s", "5000", target.address]);
    }
    assert_eq!(chain.net.dropped("state-mismatch"), 0);
}

#[test]
fn datagrams_come_back_along_the_chain() {
    let test = "datagrams_come_back_along_the_chain";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let chain = Chain::new("sc-chudp");
    chain.net.start("pass\n");
    chain.net.reload_as("openbsd", RULES);
    for target in TARGETS.iter().chain(&TARGETS6) {
        let socket: UdpSocket = datagrams(&chain.net.client, local(target), target.address, 7);
        for size in [6, 1200] {
            let seen = seen_of_datagram(&socket, size).ip().to_string();
            assert_eq!(seen, target.seen, "{}", target.address);
        }
    }
}

/// More than fits into a packet of the last link: TCP learns how long they may be.
#[test]
fn connections_learn_the_mtu_along_the_chain() {
    let test = "connections_learn_the_mtu_along_the_chain";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let chain = Chain::new("sc-chtcp");
    // The end tells that it takes more than its link.
    for words in [
        "route replace default via 10.9.0.1 advmss 1460",
        "-6 route replace default via fd09::1 advmss 1440",
    ] {
        ip(&chain.end, words);
    }
    chain.net.start("pass\n");
    chain.net.reload_as("openbsd", RULES);
    for target in TARGETS.iter().chain(&TARGETS6) {
        let mut line = chain.net.connect(target.address, 7, PATIENCE).expect("passed");
        line.bounce(200_000, target.address);
    }
    assert_eq!(chain.net.dropped("state-mismatch"), 0);
}

/// A tag of what comes in says where it leaves, and answers go where the sender is said to be.
#[test]
fn gateways_are_chosen_by_tag_along_the_chain() {
    let test = "gateways_are_chosen_by_tag_along_the_chain";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let chain = Chain::new("sc-chgw");
    let Chain { net, .. } = &chain;
    // The kernel's routes lead nowhere useful.
    ip(&net.router, "link add d9 type veth peer name d8");
    for words in [
        "link set d8 up",
        "link set d9 up",
        "address add 10.7.0.1/24 dev d9",
        "-6 address add fd07::1/64 dev d9 nodad",
        "neigh add 10.7.0.2 lladdr 02:00:00:00:00:09 dev d9 nud permanent",
        "neigh add fd07::2 lladdr 02:00:00:00:00:09 dev d9 nud permanent",
        "route replace 10.9.1.0/24 via 10.7.0.2",
        "-6 route replace fd09:1::/64 via fd07::2",
    ] {
        ip(&net.router, words);
    }
    let rules = "pass\n\
                 pass in to { 10.9.1.0/24 fd09:1::/64 } tag rtt\n\
                 pass out inet route-to 10.2.0.2 tagged rtt\n\
                 pass out inet6 route-to fd02::2 tagged rtt\n";
    net.start("pass\n");
    net.reload_as("openbsd", rules);
    for target in [&TARGETS[1], &TARGETS6[1]] {
        let socket = datagrams(&net.client, local(target), target.address, 7);
        seen_of_datagram(&socket, 100);
        let mut line = net.connect(target.address, 7, PATIENCE).expect("passed");
        line.bounce(200_000, target.address);
    }
    // Who asks has an address that the routes look for elsewhere.
    for words in ["address add 10.7.0.77/32 dev lo", "address add fd07::77/128 dev lo"] {
        ip(&net.client, words);
    }
    net.reload_as(
        "openbsd",
        "pass\npass in from 10.7.0.77 reply-to 10.1.0.2\npass in from fd07::77 reply-to fd01::2\n",
    );
    for words in
        ["route replace 10.7.0.77/32 via 10.2.0.1", "-6 route replace fd07::77 via fd02::1"]
    {
        ip(&net.server, words);
    }
    for (source, target) in [("10.7.0.77:0", &TARGETS[0]), ("[fd07::77]:0", &TARGETS6[0])] {
        let socket = datagrams(&net.client, source, target.address, 7);
        let seen = seen_of_datagram(&socket, 100).ip().to_string();
        assert!(source.contains(&seen), "{seen}");
    }
}
