//! Hosts that only speak IPv6 and hosts that only speak IPv4 through a box that translates between
//! the families (`af-to`): real sockets of both kernels, pings, and the errors of routers.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::Command;

use weir_net::{Netns, sysctl};

use super::nat::{self, datagrams, ip, program, seen, seen_of_datagram, who_datagrams, who_server};
use super::network::{
    IMPATIENCE, Network, PATIENCE, SERVER, SERVER6, connect_from, echo_server, plain_frames,
};
use crate::common::{assert_exit, can_run_lab, stdout};
use crate::turns::beside;

/// The server as IPv6 clients see it.
const MAPPED: &str = "64:ff9b::10.2.0.2";
/// Nothing is let out: what comes in and changes is not judged there.
const NAT64: &str = "\
block return
pass in on b0 inet6 from fd01::/64 to 64:ff9b::/96 af-to inet from (egress:0)
";
/// The server as IPv4 clients see it: fd02::2.
const SHOWN: &str = "192.0.2.2";
const NAT46: &str = "\
block return
pass in on b0 inet from 10.1.0.0/24 to 192.0.2.0/24 af-to inet6 from fd02::1 to fd02::/120
";

/// A client with IPv6 alone, and a server with IPv4 alone.
fn six_to_four(tag: &str) -> Network {
    let net = nat::network(tag);
    ip(&net.client, "address flush dev c0 to 10.1.0.2");
    // In this order: the last address takes the others with it.
    ip(&net.server, "-6 address del fd02::2/64 dev s0");
    net
}

/// The other way round.
fn four_to_six(tag: &str) -> Network {
    let net = nat::network(tag);
    ip(&net.client, "-6 address del fd01::2/64 dev c0");
    ip(&net.server, "address flush dev s0 to 10.2.0.2");
    net
}

fn set_mtu(netns: &Netns, name: &str, mtu: &str) {
    ip(netns, &format!("link set {name} mtu {mtu}"));
}

#[track_caller]
fn ping(test: &str, from: &Netns, words: &[&str]) -> Option<String> {
    let words: Vec<&str> = ["ping", "-c", "2", "-i", "0.2", "-W", "5"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    Some(stdout(&program(test, from, &words)?))
}

#[track_caller]
fn comes_back(said: Option<&str>) {
    assert!(said.is_none_or(|said| said.contains(" 0% packet loss")), "{said:?}");
}

/// What a socket gets to hear instead of an answer.
fn refusal(socket: &UdpSocket) -> Option<ErrorKind> {
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket.send(b"anybody?").expect("sent");
    socket.recv(&mut [0; 100]).err().map(|error| error.kind())
}

/// Sockets of a client and of a server of the other family.
fn sockets(test: &str, net: &Network, (server, shown): (&str, &str), local: &str, outside: &str) {
    who_server(&net.server, server, 7001);
    who_datagrams(&net.server, server, 5353);
    echo_server(&net.server, server, 7002);
    let peer = seen(&net.client, shown, 7001);
    assert_eq!(peer.ip().to_string(), outside);
    assert!(peer.port() >= 50_001, "{peer}");
    let mut line = net.connect(shown, 7002, PATIENCE).expect("passed");
    line.bounce(2_000_000, "a connection");
    let socket = datagrams(&net.client, local, shown, 5353);
    for size in [1, 40, 1200] {
        assert_eq!(seen_of_datagram(&socket, size).ip().to_string(), outside);
    }
    let closed = datagrams(&net.client, local, shown, 9);
    assert_eq!(refusal(&closed), Some(ErrorKind::ConnectionRefused), "an error comes back");
    comes_back(ping(test, &net.client, &[shown]).as_deref());
    comes_back(ping(test, &net.client, &["-s", "1300", shown]).as_deref());
    for reason in ["state-mismatch", "map-failed", "proto-cksum", "af-to"] {
        assert_eq!(net.dropped(reason), 0, "{reason}: {}", net.pfctl("-vvss"));
    }
}

#[test]
fn a_client_with_ipv6_alone_reaches_a_server_with_ipv4_alone() {
    let test = "a_client_with_ipv6_alone_reaches_a_server_with_ipv4_alone";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = six_to_four("nat64");
    net.start(NAT64);
    sockets(test, &net, (SERVER, MAPPED), "[fd01::2]:0", "10.2.0.1");
    // How pfctl shows it, and what was packed into XDP.
    let mut line = net.connect(MAPPED, 7002, PATIENCE).expect("passed");
    line.echo("first");
    let states = net.pfctl("-ss");
    let inside = format!(" (fd01::2[{}]) -> {SERVER}:7002 (64:ff9b::a02:2[7002]) ", line.port());
    let is_shown = |line: &&str| line.contains(&inside) && line.starts_with("all tcp 10.2.0.1:");
    assert!(states.lines().any(|line| is_shown(&line)), "{states}");
    assert!(net.json("stats")["forwarded_packets"].as_u64() > Some(1000), "by XDP");
    // It outlives other rules, and another daemon.
    net.reload_as("openbsd", "block return\n");
    line.echo("under other rules");
    assert!(connect_from(&net.client, MAPPED, 7001, IMPATIENCE).is_none(), "nobody new");
    net.kill_daemon();
    line.echo("without a daemon");
    net.start(NAT64);
    line.echo("under another daemon");
    assert!(net.connect(MAPPED, 7001, PATIENCE).is_some());
    assert!(net.pfctl("-k fd01::2").contains("killed"));
    assert!(!net.pfctl("-ss").contains("fd01::2"), "{}", net.pfctl("-ss"));
}

#[test]
fn a_client_with_ipv4_alone_reaches_a_server_with_ipv6_alone() {
    let test = "a_client_with_ipv4_alone_reaches_a_server_with_ipv6_alone";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = four_to_six("nat46");
    net.start(NAT46);
    sockets(test, &net, (SERVER6, SHOWN), "10.1.0.2:0", "fd02::1");
}

#[test]
fn routers_on_the_way_are_heard_in_the_other_family() {
    let test = "routers_on_the_way_are_heard_in_the_other_family";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = six_to_four("nat64hop");
    // Behind the server is more.
    ip(&net.router, "route add 10.9.0.0/24 via 10.2.0.2");
    ip(&net.server, "route add 10.9.0.0/24 dev s0");
    let forward = || sysctl::write("net.ipv4.ip_forward", "1").expect("written");
    net.server.run(forward).expect("entered");
    net.start(NAT64);
    let far = "64:ff9b::10.9.0.9";
    for (ttl, router) in [("1", "fd01::1"), ("2", "64:ff9b::a02:2")] {
        let Some(said) = ping(test, &net.client, &["-n", "-t", ttl, far]) else { return };
        assert!(said.contains(&format!("From {router}")), "{said}");
        assert!(said.contains("Time exceeded"), "{said}");
    }
    assert_eq!(net.dropped("ttl"), 2);
}

#[test]
fn the_mtu_of_the_other_family_is_learnt() {
    let test = "the_mtu_of_the_other_family_is_learnt";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = six_to_four("nat64mtu");
    set_mtu(&net.router, "b1", "1400");
    set_mtu(&net.server, "s0", "1400");
    echo_server(&net.server, SERVER, 7002);
    who_datagrams(&net.server, SERVER, 5353);
    net.start(NAT64);
    let mut line = net.connect(MAPPED, 7002, PATIENCE).expect("passed");
    line.bounce(2_000_000, "a connection");
    let words = ["ip", "-6", "route", "get", MAPPED];
    let Some(route) = program(test, &net.client, &words) else { return };
    // 20 bytes more than the link has for IPv4; the server's segments say so themselves, but a
    // datagram does not.
    let socket = datagrams(&net.client, "[fd01::2]:0", MAPPED, 5353);
    let long = vec![0; 1400];
    drop(socket.send(&long));
    let route = stdout(&route) + &stdout(&program(test, &net.client, &words).expect("it is there"));
    let is_learnt = || {
        let route = program(test, &net.client, &words).expect("it is there");
        stdout(&route).contains("mtu 1420")
    };
    super::network::wait_until("the MTU is learnt", is_learnt);
    assert!(net.dropped("too-big") > 0, "{route}");
    let socket = datagrams(&net.client, "[fd01::2]:0", MAPPED, 5353);
    assert_eq!(seen_of_datagram(&socket, 1300).ip().to_string(), "10.2.0.1");
}

/// Offloads of an interface, as `ethtool -K` takes them.
fn offload(netns: &Netns, name: &str, words: &str) {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name(), "ethtool", "-K", name]).args(words.split(' '));
    assert_exit(&command.output().expect("ip runs"), 0);
}

/// Packets whose checksums are still to be made, which the kernel forwards.
#[test]
fn packets_without_checksums_change_family() {
    let test = "packets_without_checksums_change_family";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = six_to_four("nat64part");
    for (netns, name) in [(&net.client, "c0"), (&net.server, "s0")] {
        offload(netns, name, "tx on");
    }
    net.start(NAT64);
    sockets(test, &net, (SERVER, MAPPED), "[fd01::2]:0", "10.2.0.1");
}

/// Interfaces without XDP, whose packets may be segments that are merged.
#[test]
fn families_change_where_there_is_no_xdp() {
    let test = "families_change_where_there_is_no_xdp";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    for (tag, offloads) in [("nat64tcx", false), ("nat64gso", true)] {
        let net = six_to_four(tag);
        for (netns, name) in [(&net.router, "b0"), (&net.router, "b1")] {
            set_mtu(netns, name, "9000");
        }
        for (netns, name) in [(&net.client, "c0"), (&net.server, "s0")] {
            set_mtu(netns, name, "9000");
            if offloads {
                offload(netns, name, "tx on tso on gso on");
            } else {
                plain_frames(netns, name);
            }
        }
        net.start(NAT64);
        assert_eq!(super::mode_of(&net, "b0"), "tcx");
        sockets(test, &net, (SERVER, MAPPED), "[fd01::2]:0", "10.2.0.1");
    }
}

#[test]
fn what_becomes_of_a_packet_that_changes_family_is_explained() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("pf.conf");
    let rules = NAT64.replace("(egress:0)", "10.2.0.1 port 6000");
    std::fs::write(&path, rules).expect("writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["fw", "explain", "--dialect", "openbsd", "--states"]).arg(&path);
    for packet in [
        "in on b0 tcp [fd01::2]:4000 > [64:ff9b::10.2.0.2]:80 S",
        "in on b1 tcp 10.2.0.2:80 > 10.2.0.1:6000 SA",
        "in on b1 tcp 10.2.0.2:80 > 10.2.0.1:6001 SA",
        "in on b0 fragment udp fd01::2 > 64:ff9b::10.2.0.2",
    ] {
        command.args(["--packet", packet]);
    }
    let output = command.output().expect("it runs");
    assert_exit(&output, 0);
    let said = stdout(&output);
    let of_packets: Vec<&str> = said.split("packet: ").collect();
    for (number, words) in [
        (1, "pass by @1"),
        (1, "source [fd01::2]:4000 becomes 10.2.0.1:6000"),
        (1, "destination [64:ff9b::a02:2]:80 becomes 10.2.0.2:80"),
        (1, "the packet becomes inet"),
        (2, "belongs to a state"),
        (2, "source 10.2.0.2:80 becomes [64:ff9b::a02:2]:80"),
        (2, "destination 10.2.0.1:6000 becomes [fd01::2]:4000"),
        (3, "block by @0"),
        (4, "block: the packet cannot change its family by @1"),
    ] {
        assert!(of_packets[number].contains(words), "{words}: {said}");
    }
}
