//! Interfaces without native XDP: a tunnel whose packets have no link header, as WireGuard's, with
//! and without segments that are merged and checksums that are missing; and a veth whose frames are
//! too long for XDP, with a VLAN on it. What comes in there is judged by the same rules and states
//! as everywhere, and the kernel forwards it.

use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use std::time::Instant;

use nix::sys::socket::{getsockopt, sockopt::TcpMaxSeg};
use weir_net::{Netlink, Netns, NetnsGuard};
use weir_oracle::tunnel::{Offload, Tunnel};

use super::nat::{datagrams, ip, program, seen, who_server};
use super::network::{
    IMPATIENCE, Network, PATIENCE, SERVER, SERVER6, at, connect_from, echo_server, namespace,
    wait_until,
};
use super::{ROUTER, mode_of};
use crate::common::{assert_exit, can_run_lab, skipped, stderr, stdout};
use crate::turns::beside;

/// The far end of the tunnel, and the box's address in it.
const FAR: &str = "10.9.0.2";
const FAR6: &str = "fd09::2";
pub(super) const NEAR: &str = "10.9.0.1";

/// What the far end may: port 7001 of the server and ping. Port 7005 comes in and may not leave.
/// The client may speak to port 7003 of the far end, the box to all but port 7009 there.
const RULES: &str = "\
block return
pass in on tun9 proto { tcp udp } to any port { 7001 7005 5353 }
pass out on b1 proto { tcp udp } to any port { 7001 5353 }
pass in on b0 proto tcp to any port 7003
pass out on tun9 proto tcp to any port 7003
pass out on tun9 proto tcp from (tun9) to any port 7004
pass proto { icmp icmp6 }
";

/// A box with a tunnel `tun9` to somebody far away, whose way to everywhere it is.
pub(super) struct Site {
    // Before the namespaces: it ends with its interfaces.
    _ends: Tunnel,
    pub(super) far: NetnsGuard,
    pub(super) net: Network,
}

/// An end of the tunnel gets its addresses, and is up.
fn set_up(netns: &Netns, name: &str, addresses: [&str; 2]) {
    let add = || {
        let netlink = Netlink::open().expect("netlink");
        for address in addresses {
            netlink.add_address(name, address.parse().expect("a prefix")).expect("added");
        }
        netlink.set_up("lo").expect("up");
        netlink.set_up(name).expect("up");
    };
    netns.run(add).expect("entered");
}

impl Site {
    pub(super) fn new(tag: &str, offload: Offload) -> Self {
        let net = Network::new(tag);
        let far = namespace(tag, "f");
        let ends: [(&Netns, &str); 2] = [(&net.router, "tun9"), (&far, "far0")];
        let tunnel = Tunnel::between(ends, offload).expect("a tunnel is made");
        set_up(&net.router, "tun9", ["10.9.0.1/24", "fd09::1/64"]);
        set_up(&far, "far0", ["10.9.0.2/24", "fd09::2/64"]);
        ip(&far, "route add default dev far0");
        ip(&far, "-6 route add default dev far0");
        Self { _ends: tunnel, far, net }
    }
}

/// What somebody gets who connects: the kind of the error.
fn refusal(from: &Netns, host: &str, port: u16) -> Option<ErrorKind> {
    let address = at(host, port);
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    from.run(connect).expect("entered").err().map(|error| error.kind())
}

/// A number that the status or the counters have of an interface.
fn counted(net: &Network, name: &str, key: &str) -> u64 {
    let stats = net.json("stats");
    let interfaces = stats["interfaces"].as_array().expect("a list");
    let found = interfaces.iter().find(|interface| interface["name"] == name);
    found.expect("it is there")[key].as_u64().expect("a number")
}

/// Packets that an interface of the box has received, as the kernel counts them.
fn received(net: &Network, name: &str) -> u64 {
    let link = || Netlink::open().expect("netlink").link(name).expect("it is there");
    net.router.run(link).expect("entered").stats.rx_packets
}

#[track_caller]
fn ping(test: &str, from: &Netns, words: &[&str]) {
    let words: Vec<&str> = ["ping", "-c", "3", "-i", "0.2", "-W", "20"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    let Some(output) = program(test, from, &words) else { return };
    assert_exit(&output, 0);
    assert!(stdout(&output).contains(" 0% packet loss"), "{}", stdout(&output));
}

/// Both ways through a tunnel: what the rules pass, and what they answer.
fn through_a_tunnel(test: &str, tag: &str, offload: Offload) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new(tag, offload);
    let Site { net, far, .. } = &site;
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
        echo_server(&net.server, host, 7002);
    }
    for (host, port) in [(FAR, 7003), (FAR6, 7003), (FAR, 7004), (FAR, 7009)] {
        echo_server(far, host, port);
    }
    let path = net.file("pf.conf", RULES);
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("filtered by tcx"), "{}", stderr(&output));
    assert_eq!((mode_of(net, "tun9"), mode_of(net, "b0")), ("tcx".into(), "native".into()));
    // Those that came before the firewall, if one is not just coming in.
    let mut early = unjudged(net, "tun9");
    wait_until("nothing comes in", || {
        std::mem::replace(&mut early, unjudged(net, "tun9")) == early
    });

    for (host, shown) in [(SERVER, "10.2.0.2:7001"), (SERVER6, "fd02::2[7001]")] {
        let mut line = connect_from(far, host, 7001, PATIENCE).expect("passed");
        line.bounce(3_000_000, "the connection");
        let states = net.pfctl("-ss");
        let is_shown = |line: &str| {
            line.starts_with(&format!("all tcp {shown} <- ")) && line.contains("ESTABLISHED")
        };
        assert!(states.lines().any(is_shown), "{states}");
    }
    for (from, host) in [(far, SERVER), (far, SERVER6), (far, ROUTER), (far, NEAR)] {
        assert_eq!(refusal(from, host, 7002), Some(ErrorKind::ConnectionRefused), "{host}");
    }
    assert_eq!(refusal(far, SERVER, 7005), Some(ErrorKind::ConnectionRefused), "on its way out");
    for host in [FAR, FAR6] {
        let mut line = net.connect(host, 7003, PATIENCE).expect("passed");
        line.bounce(3_000_000, "the connection");
    }
    assert_eq!(refusal(&net.client, FAR, 7004), Some(ErrorKind::ConnectionRefused));
    connect_from(&net.router, FAR, 7004, PATIENCE).expect("passed").echo("from the box");
    assert_eq!(refusal(&net.router, FAR, 7009), Some(ErrorKind::ConnectionRefused), "it is told");
    datagrams_are_answered(far);

    ping(test, far, &[SERVER]);
    ping(test, far, &["-6", SERVER6]);
    // In fragments, both ways.
    ping(test, far, &["-s", "4000", SERVER]);
    ping(test, &net.client, &["-6", "-s", "4000", FAR6]);
    assert_eq!(net.dropped("state-mismatch"), 0, "{}", net.pfctl("-vvss"));
    for reason in ["short", "proto-cksum", "normalize", "fragment"] {
        assert_eq!(net.dropped(reason), 0, "{reason}");
    }
    assert!(counted(net, "tun9", "blocked_in_packets") >= 4);
    // Every packet is counted, as passed or as blocked: none is lost in between.
    wait_until("the counters agree", || unjudged(net, "tun9") == early);
}

/// Packets that came in by an interface of the box and were neither passed nor blocked there.
fn unjudged(net: &Network, name: &str) -> u64 {
    let judged = ["passed_in_packets", "blocked_in_packets"].map(|key| counted(net, name, key));
    received(net, name) - judged.iter().sum::<u64>()
}

/// What is blocked is told the far end's sockets: by an ICMP error that quotes their datagram.
#[track_caller]
fn datagrams_are_answered(far: &Netns) {
    for (local, host) in [("10.9.0.2:5001", SERVER), ("[fd09::2]:5001", SERVER6)] {
        let socket = datagrams(far, local, host, 5999);
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        socket.send(&[7; 900]).expect("sent");
        let error = socket.recv(&mut [0; 9]).expect_err("it is blocked");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{host}: {error}");
    }
}

#[test]
fn a_tunnel_is_filtered_like_any_interface() {
    let test = "a_tunnel_is_filtered_like_any_interface";
    through_a_tunnel(test, "tun", Offload::None);
}

/// Merged segments of up to 64 KiB, and checksums that are left to hardware which there is not.
#[test]
fn a_tunnel_with_merged_segments_is_filtered_like_any_interface() {
    let test = "a_tunnel_with_merged_segments_is_filtered_like_any_interface";
    through_a_tunnel(test, "gso", Offload::Tcp);
}

/// Sources where packets leave by the tunnel, a port forward where they come in, errors about both.
const TRANSLATION: &str = "\
nat on tun9 inet from 10.1.0.0/24 to any -> (tun9)
nat on tun9 inet6 from fd01::/64 to any -> fd09::1
rdr on tun9 inet proto tcp from any to (tun9) port 8080 -> 10.2.0.2 port 7001
block return
pass proto icmp6
pass in on b0
pass in on tun9 inet proto tcp to 10.2.0.2 port 7001
pass out
";

#[test]
fn what_goes_by_a_tunnel_is_translated() {
    let test = "what_goes_by_a_tunnel_is_translated";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    for (tag, offload) in [("tunn", Offload::None), ("tung", Offload::Tcp)] {
        let Site { net, far, .. } = &Site::new(tag, offload);
        for host in [FAR, FAR6] {
            who_server(far, host, 7001);
        }
        echo_server(far, FAR, 7002);
        echo_server(&net.server, SERVER, 7001);
        net.start(TRANSLATION);
        for (host, near) in [(FAR, NEAR), (FAR6, "fd09::1")] {
            let peer = seen(&net.client, host, 7001);
            assert_eq!(peer.ip().to_string(), near);
            assert!(peer.port() >= 50_001, "a port of pf's range: {peer}");
        }
        let mut line = net.connect(FAR, 7002, PATIENCE).expect("passed");
        line.bounce(3_000_000, "the connection");
        let mut line = connect_from(far, NEAR, 8080, PATIENCE).expect("redirected");
        line.bounce(3_000_000, "the connection");
        assert_eq!(refusal(far, NEAR, 8081), Some(ErrorKind::ConnectionRefused), "that port alone");
        let states = net.pfctl("-ss");
        let forward = format!(" {SERVER}:7001 ({NEAR}:8080) <- {FAR}:");
        assert!(states.contains(&forward), "{states}");
        // An error from the far end is translated with what it quotes, and so reaches the client.
        let socket = datagrams(&net.client, "10.1.0.2:5001", FAR, 5999);
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        socket.send(b"anybody?").expect("sent");
        let error = socket.recv(&mut [0; 9]).expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        assert_eq!(net.dropped("state-mismatch"), 0, "{}", net.pfctl("-vvss"));
    }
}

/// The segment size of connections through a tunnel: in SYNs that come in, and that leave.
#[test]
fn max_mss_holds_in_a_tunnel() {
    let test = "max_mss_holds_in_a_tunnel";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    for (tag, offload, rules) in [
        ("mssn", Offload::None, "scrub on tun9 all max-mss 1200\npass\n"),
        ("msst", Offload::Tcp, "match on tun9 scrub (max-mss 1200)\npass\n"),
    ] {
        let Site { net, far, .. } = &Site::new(tag, offload);
        echo_server(far, FAR, 7001);
        echo_server(&net.server, SERVER, 7001);
        echo_server(&net.server, SERVER6, 7001);
        net.start(rules);
        for (from, host) in [(&net.client, FAR), (far, SERVER), (far, SERVER6)] {
            let address = at(host, 7001);
            let connect = || TcpStream::connect_timeout(&address, PATIENCE);
            let stream = from.run(connect).expect("entered").expect("connected");
            let size = getsockopt(&stream, TcpMaxSeg).expect("known");
            assert!((1000..=1200).contains(&size), "{host}: {size}");
            let mut line = super::network::Line::new(stream);
            line.bounce(3_000_000, "the connection");
        }
    }
}

/// A firewall on nothing but a tunnel: its daemon is killed, comes back, and is stopped.
#[test]
fn a_firewall_without_xdp_is_found_again() {
    let test = "a_firewall_without_xdp_is_found_again";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Site { net, far, .. } = &Site::new("tund", Offload::None);
    for port in [7001, 7002] {
        echo_server(&net.server, SERVER, port);
    }
    let rules = "block in on tun9\npass in on tun9 proto tcp to any port 7001\n";
    net.start(rules);
    assert_eq!((mode_of(net, "tun9"), mode_of(net, "b0")), ("tcx".into(), "none".into()));
    let mut line = connect_from(far, SERVER, 7001, PATIENCE).expect("passed");
    line.echo("before");
    assert!(connect_from(far, SERVER, 7002, IMPATIENCE).is_none(), "blocked");
    let states = net.pfctl("-ss");
    net.kill_daemon();
    line.echo("without a daemon");
    assert!(connect_from(far, SERVER, 7002, IMPATIENCE).is_none(), "blocked without a daemon");
    net.start(rules);
    assert_eq!(net.json("status")["adopted"], true);
    let state = states.lines().next().expect("a state");
    assert!(net.pfctl("-ss").lines().any(|line| line == state), "the same state: {state}");
    line.echo("after");
    assert!(connect_from(far, SERVER, 7002, IMPATIENCE).is_none(), "blocked by the new one");
    net.printed(&["fw", "stop"]);
    connect_from(far, SERVER, 7002, PATIENCE).expect("nothing filters").echo("stopped");
}

#[test]
fn a_tunnel_that_comes_later_is_filtered() {
    let test = "a_tunnel_that_comes_later_is_filtered";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("tunl");
    let far = namespace("tunl", "f");
    echo_server(&net.server, SERVER, 7001);
    echo_server(&net.server, SERVER, 7002);
    net.start("pass\nblock return in on tun9 proto tcp to any port 7002\n");
    let ends: [(&Netns, &str); 2] = [(&net.router, "tun9"), (&far, "far0")];
    let _tunnel = Tunnel::between(ends, Offload::None).expect("a tunnel is made");
    set_up(&net.router, "tun9", ["10.9.0.1/24", "fd09::1/64"]);
    set_up(&far, "far0", ["10.9.0.2/24", "fd09::2/64"]);
    ip(&far, "route add default dev far0");
    wait_until("it is attached", || mode_of(&net, "tun9") == "tcx");
    wait_until("rules know it", || {
        refusal(&far, SERVER, 7002) == Some(ErrorKind::ConnectionRefused)
    });
    connect_from(&far, SERVER, 7001, PATIENCE).expect("passed").echo("through the tunnel");
}

/// A VLAN between client and box on the long frames' veth, and a route by it; false if the kernel
/// has none.
fn put_vlan(net: &Network) -> bool {
    for (netns, name, below, address) in
        [(&net.router, "b3.5", "b3", "10.5.0.1/24"), (&net.client, "c3.5", "c3", "10.5.0.2/24")]
    {
        let add = format!("ip link add link {below} name {name} type vlan id 5");
        let words: Vec<&str> = add.split(' ').collect();
        if !program("ip", netns, &words).is_some_and(|output| output.status.success()) {
            return false;
        }
        ip(netns, &format!("address add {address} dev {name}"));
        ip(netns, &format!("link set {name} up"));
    }
    ip(&net.client, "route add 10.2.0.3 via 10.5.0.1 dev c3.5");
    true
}

/// A veth with long frames, which XDP does not take; its peer leaves checksums to hardware, as is
/// the default. On it is a VLAN, whose frames are judged by its own name.
#[test]
fn long_frames_are_filtered_too() {
    let test = "long_frames_are_filtered_too";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("long");
    ip(&net.router, "link add b3 mtu 9000 type veth peer name c3");
    ip(&net.router, &format!("link set c3 netns {}", net.client.name()));
    ip(&net.client, "link set c3 mtu 9000");
    set_up(&net.router, "b3", ["10.3.0.1/24", "fd03::1/64"]);
    set_up(&net.client, "c3", ["10.3.0.2/24", "fd03::2/64"]);
    // To the server by the first one for one address, by the VLAN for another.
    ip(&net.server, "address add 10.2.0.3/24 dev s0");
    ip(&net.client, "route add 10.2.0.2 via 10.3.0.1 dev c3");
    let has_vlan = put_vlan(&net);
    if !has_vlan {
        skipped(test, "the half of it on a VLAN: this kernel has none (CONFIG_VLAN_8021Q)");
    }
    for (host, port) in [(SERVER, 7001), (SERVER, 7002), ("10.2.0.3", 7001), ("10.2.0.3", 7002)] {
        echo_server(&net.server, host, port);
    }
    net.start(
        "block return\npass in on b3 proto tcp to any port 7001\npass in on b3.5 proto tcp to any \
         port 7002\npass out\npass proto icmp6\n",
    );
    assert_eq!((mode_of(&net, "b3"), mode_of(&net, "b0")), ("tcx".into(), "native".into()));
    let all = [("b3", SERVER, 7001, 7002), ("b3.5", "10.2.0.3", 7002, 7001)];
    let all = if has_vlan { &all[..] } else { &all[..1] };
    for &(_, host, open, closed) in all {
        let mut line = net.connect(host, open, PATIENCE).expect("passed");
        line.bounce(3_000_000, "the connection");
        let asked = Instant::now();
        let refused = refusal(&net.client, host, closed);
        assert_eq!(refused, Some(ErrorKind::ConnectionRefused), "after {:?}", asked.elapsed());
    }
    let socket = || UdpSocket::bind("10.3.0.2:5001").expect("bound");
    let socket = net.client.run(socket).expect("entered");
    socket.connect((SERVER, 5999)).expect("set");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket.send(&[7; 1200]).expect("sent");
    let error = socket.recv(&mut [0; 9]).expect_err("it is blocked");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    assert_eq!(net.dropped("state-mismatch"), 0, "{}", net.pfctl("-vvss"));
    for reason in ["short", "proto-cksum", "normalize", "fragment"] {
        assert_eq!(net.dropped(reason), 0, "{reason}");
    }
    for (name, ..) in all {
        assert!(counted(&net, name, "passed_in_packets") > 20, "{name}");
        assert!(counted(&net, name, "blocked_in_packets") >= 1, "{name}");
    }
}

/// A host of the world that is behind the tunnel, and one that is not, where the kernel's routes
/// say it the other way round; rules know better.
const GATEWAYS: &str = "\
block return
pass proto { icmp icmp6 }
pass in on b0 route-to tun9 inet proto tcp to 203.0.113.9 port 7001
pass in on b0 route-to (b1 10.2.0.2) inet proto tcp to 203.0.113.10 port 7001
pass out proto tcp to any port 7001
";

fn a_tunnel_as_gateway(test: &str, tag: &str, is_plain: bool) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new(tag, Offload::Tcp);
    let Site { net, far, .. } = &site;
    if !is_plain {
        let words = ["ethtool", "-K", "c0", "tx", "on"];
        assert_exit(&program(test, &net.client, &words).expect("ethtool"), 0);
    }
    ip(far, "address add 203.0.113.9/32 dev lo");
    ip(&net.server, "address add 203.0.113.10/32 dev lo");
    ip(&net.router, "route add 203.0.113.9/32 via 10.2.0.2");
    ip(&net.router, "route add 203.0.113.10/32 dev tun9");
    who_server(far, "203.0.113.9", 7001);
    who_server(&net.server, "203.0.113.10", 7001);
    net.start(GATEWAYS);
    for host in ["203.0.113.9", "203.0.113.10"] {
        assert_eq!(seen(&net.client, host, 7001).ip().to_string(), "10.1.0.2", "{host}");
    }
    let states = net.pfctl("-vvss");
    assert!(states.contains("\n   route-to: @tun9\n"), "{states}");
}

#[test]
fn a_tunnel_is_a_gateway() {
    a_tunnel_as_gateway("a_tunnel_is_a_gateway", "tcx-gate", true);
}

#[test]
fn a_tunnel_is_a_gateway_of_what_the_kernel_sends() {
    a_tunnel_as_gateway("a_tunnel_is_a_gateway_of_what_the_kernel_sends", "tcx-gatek", false);
}
