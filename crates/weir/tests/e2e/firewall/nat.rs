//! A router that translates: a network of its own addresses behind one that the world sees. The
//! server knows no way back to the client but the router's own address, so that nothing comes back
//! that is not translated right.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use weir_net::Netns;

use super::network::{
    IMPATIENCE, Network, PAGE, PATIENCE, ROUTER, SERVER, SERVER6, at, connect_from, echo_server,
    http_server, pattern, wait_until,
};
use crate::common::{assert_exit, can_run_lab, skipped, stderr, stdout};
use crate::turns::beside;

/// The router's address that the world sees.
const OUTSIDE: &str = "10.2.0.1";
const OUTSIDE6: &str = "fd02::1";
const CLIENT: &str = "10.1.0.2";

/// FreeBSD's words: translation in front, and what the filter sees is translated where it comes in.
const FREEBSD: &str = "\
ext = \"b1\"
int = \"b0\"
nat on $ext inet from $int:network to any -> ($ext)
nat on $ext inet6 from fd01::/64 to any -> fd02::1
nat on $int inet proto tcp from $int:network to 10.1.0.2 port 80 -> ($int)
rdr on { $int $ext } inet proto tcp from any to ($ext) port 18080 -> 10.1.0.2 port 80
block return
pass proto icmp6
pass in on $int
pass in on $ext inet proto tcp to 10.1.0.2 port 80
pass out
";

/// OpenBSD's: the same, as options of rules.
const OPENBSD: &str = "\
ext = \"b1\"
int = \"b0\"
block return
pass inet6 proto icmp6
match out on egress inet from ! (egress:network) to any nat-to (egress:0)
match out on $ext inet6 from fd01::/64 to any nat-to fd02::1
match out on $int inet proto tcp from $int:network to 10.1.0.2 port 80 nat-to ($int)
match in on { $int $ext } inet proto tcp to ($ext) port 18080 rdr-to 10.1.0.2 port 80
pass in on $int
pass in on $ext inet proto tcp to 10.1.0.2 port 80
pass out
";

/// A network whose server knows no way to the client.
pub(super) fn network(tag: &str) -> Network {
    let net = Network::new(tag);
    for words in ["route del default", "-6 route del default"] {
        ip(&net.server, words);
    }
    // The interface of the default route is in the group `egress`.
    ip(&net.router, "route add default via 10.2.0.2 dev b1");
    net
}

/// `ip` in a namespace; gives what it printed.
#[track_caller]
pub(super) fn ip(netns: &Netns, words: &str) -> String {
    let mut command = Command::new("ip");
    command.args(["-n", netns.name()]).args(words.split(' '));
    let output = command.output().expect("ip runs");
    assert_exit(&output, 0);
    stdout(&output)
}

/// A program in a namespace; `None`, and the test says so, if there is none of that name.
pub(super) fn program(test: &str, netns: &Netns, words: &[&str]) -> Option<Output> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name()]).args(words);
    let output = command.output().expect("ip runs");
    if stderr(&output).contains("exec of") {
        skipped(test, &format!("no {}", words[0]));
        return None;
    }
    Some(output)
}

/// Tells everybody who connects from where that is.
pub(super) fn who_server(netns: &Netns, host: &str, port: u16) {
    let address = at(host, port);
    let listener = netns.run(|| TcpListener::bind(address)).expect("entered").expect("bound");
    thread::spawn(move || {
        while let Ok((mut stream, peer)) = listener.accept() {
            // Who has gone meanwhile is not told.
            drop(writeln!(stream, "{peer}"));
        }
    });
}

/// The same of datagrams, each answered with a line and what it said.
pub(super) fn who_datagrams(netns: &Netns, host: &str, port: u16) {
    let address = at(host, port);
    let socket = netns.run(|| UdpSocket::bind(address)).expect("entered").expect("bound");
    thread::spawn(move || {
        let mut bytes = vec![0; 65_535];
        while let Ok((size, peer)) = socket.recv_from(&mut bytes) {
            let answer = [format!("{peer}\n").as_bytes(), &bytes[..size]].concat();
            drop(socket.send_to(&answer, peer));
        }
    });
}

/// Whom a server sees that a connection comes from.
#[track_caller]
pub(super) fn seen(from: &Netns, host: &str, port: u16) -> SocketAddr {
    let mut line = connect_from(from, host, port, PATIENCE).expect("passed");
    line.hear().parse().expect("an address")
}

/// A datagram to a server and back: whom it sees.
#[track_caller]
pub(super) fn seen_of_datagram(socket: &UdpSocket, size: usize) -> SocketAddr {
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let said: Vec<u8> = (0..size).map(|at| at.to_le_bytes()[0]).collect();
    socket.send(&said).expect("sent");
    let mut bytes = vec![0; 65_535];
    let size = socket.recv(&mut bytes).expect("an answer");
    let end = bytes.iter().position(|byte| *byte == b'\n').expect("a line");
    assert!(bytes[end + 1..size] == said, "what was said comes back");
    String::from_utf8_lossy(&bytes[..end]).parse().expect("an address")
}

pub(super) fn datagrams(from: &Netns, local: &str, host: &str, port: u16) -> UdpSocket {
    let connect = || {
        let socket = UdpSocket::bind(local).expect("bound");
        socket.connect(at(host, port)).expect("set");
        socket
    };
    from.run(connect).expect("entered")
}

fn assert_outside(peer: SocketAddr, address: &str) {
    assert_eq!(peer.ip().to_string(), address, "{peer}");
    assert!(peer.port() >= 50_001, "a port of pf's range: {peer}");
}

/// What a home has: out by one address, a port forward, also from within.
fn a_home(test: &str, tag: &str, rules: &str) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network(tag);
    for host in [SERVER, SERVER6] {
        who_server(&net.server, host, 7001);
        who_datagrams(&net.server, host, 5353);
    }
    echo_server(&net.server, SERVER, 7002);
    http_server(&net.server, SERVER, 8081);
    who_server(&net.client, CLIENT, 80);
    net.start(rules);

    assert_outside(seen(&net.client, SERVER, 7001), OUTSIDE);
    assert_outside(seen(&net.client, SERVER6, 7001), OUTSIDE6);
    let mut line = net.connect(SERVER, 7002, PATIENCE).expect("passed");
    let bytes = pattern(3_000_000);
    assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
    for (local, host, outside) in
        [("10.1.0.2:5000", SERVER, OUTSIDE), ("[fd01::2]:5000", SERVER6, OUTSIDE6)]
    {
        let socket = datagrams(&net.client, local, host, 5353);
        let first = seen_of_datagram(&socket, 40);
        assert_outside(first, outside);
        assert_eq!(seen_of_datagram(&socket, 1200), first, "a flow keeps its port");
    }

    // The port forward: its server sees who really asks, and from within the router asks.
    assert_eq!(seen(&net.server, OUTSIDE, 18080).ip().to_string(), SERVER);
    assert_eq!(seen(&net.client, OUTSIDE, 18080).ip().to_string(), "10.1.0.1");
    let is_closed = connect_from(&net.server, OUTSIDE, 8081, IMPATIENCE).is_none();
    assert!(is_closed, "only that port");

    shown(&net, line.port());
    if let Some(output) = program(test, &net.client, &["curl", "-sS", "http://10.2.0.2:8081/"]) {
        assert_exit(&output, 0);
        assert_eq!(stdout(&output), PAGE);
    }
    assert_eq!(net.dropped("state-mismatch"), 0, "{}", net.pfctl("-vvss"));
    assert_eq!(net.dropped("map-failed"), 0);
}

/// How pfctl shows the connection from this port of the client.
fn shown(net: &Network, port: u16) {
    let states = net.pfctl("-ss");
    let inside = format!(" ({CLIENT}:{port}) -> {SERVER}:7002 ");
    let is_shown = |line: &&str| line.contains(&inside) && line.contains(&format!(" {OUTSIDE}:"));
    assert!(states.lines().any(|line| is_shown(&line)), "{states}");
    let forward = format!(" {CLIENT}:80 ({OUTSIDE}:18080) <- {SERVER}:");
    assert!(states.contains(&forward), "{states}");
}

#[test]
fn a_home_router_in_freebsds_words() {
    a_home("a_home_router_in_freebsds_words", "natf", FREEBSD);
}

#[test]
fn a_home_router_in_openbsds_words() {
    a_home("a_home_router_in_openbsds_words", "nato", OPENBSD);
}

#[test]
fn translation_rules_are_listed() {
    let test = "translation_rules_are_listed";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("natl");
    who_server(&net.server, SERVER, 7001);
    net.start(FREEBSD);
    let rules = net.pfctl("-sn");
    assert_eq!(
        rules.lines().collect::<Vec<_>>(),
        [
            "nat on b1 inet from 10.1.0.0/24 to any -> (b1) round-robin",
            "nat on b1 inet6 from fd01::/64 to any -> fd02::1",
            "nat on b0 inet proto tcp from 10.1.0.0/24 to 10.1.0.2 port = http -> (b0) round-robin",
            "rdr on b0 inet proto tcp from any to (b1) port = 18080 -> 10.1.0.2 port 80",
            "rdr on b1 inet proto tcp from any to (b1) port = 18080 -> 10.1.0.2 port 80",
        ]
    );
    seen(&net.client, SERVER, 7001);
    let counted = net.pfctl("-vsn");
    let (_, counts) = counted.split_once('\n').expect("two lines");
    assert!(counts.trim_start().starts_with("[ Evaluations: "), "{counted}");
    assert!(counts.lines().next().is_some_and(|line| line.contains("States: 1 ")), "{counted}");
    net.pfctl("-F states");
    let counted = net.pfctl("-vsn");
    let kept = counted.lines().nth(1).expect("two lines");
    assert!(kept.contains("States: 0 ") && !kept.contains("Packets: 0 "), "{counted}");
    let filter = net.pfctl("-sr");
    assert_eq!(filter.lines().next(), Some("block return all"), "{filter}");
    assert!(!filter.contains("nat on"), "{filter}");
    let all = net.pfctl("-sa");
    assert!(all.starts_with("TRANSLATION RULES:\nnat on b1 "), "{all}");

    // Without them the client's addresses are its own again, and nobody knows the way back.
    net.pfctl("-F nat");
    assert_eq!(net.pfctl("-sn"), "");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "not translated any more");
    assert_eq!(net.pfctl("-sr").lines().next(), Some("block return all"));
}

#[test]
fn anchors_translate_by_what_is_loaded_into_them() {
    let test = "anchors_translate_by_what_is_loaded_into_them";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("nata");
    who_server(&net.server, SERVER, 7001);
    let main = "nat-anchor \"foo/*\" on b1\nrdr-anchor \"foo/*\" on { b0 b1 }\nanchor \"foo/*\"\n\
                pass inet proto icmp\n";
    net.start(main);
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "nobody translates");

    // As programs for FTP and UPnP do: rules for one host come and go in an anchor of its own. An
    // anchor within that is called by it.
    let nat = net.file("nat", "nat-anchor \"bar\"\n");
    net.pfctl(&format!("-a foo/host -Nf {nat}"));
    let inner = net.file("inner", "nat on b1 inet from 10.1.0.2 to any -> (b1)\n");
    net.pfctl(&format!("-a foo/host/bar -f {inner}"));
    assert_eq!(seen(&net.client, SERVER, 7001).ip().to_string(), OUTSIDE);
    assert_eq!(net.pfctl("-sn").lines().next(), Some("nat-anchor \"foo/*\" on b1 all"));
    let line = "nat on b1 inet from 10.1.0.2 to any -> (b1) round-robin\n";
    assert_eq!(net.pfctl("-a foo/host/bar -sn"), line);
    let all = net.pfctl("-a foo/host* -sn");
    assert_eq!(all, format!("nat-anchor \"bar\" all {{\n  {line}}}\n"));

    // What is loaded by parts stays in its other parts, also after a restart of the daemon.
    let filter = net.file("filter", "block return in on b0 proto tcp to port 7002\n");
    net.pfctl(&format!("-a foo/host/bar -Rf {filter}"));
    net.kill_daemon();
    net.start(main);
    let rule = "block return in on b0 proto tcp from any to any port = 7002\n";
    assert_eq!(net.pfctl("-P -a foo/host/bar -sr"), rule);
    assert_eq!(net.pfctl("-a foo/host/bar -sn"), line);
    assert_eq!(seen(&net.client, SERVER, 7001).ip().to_string(), OUTSIDE);
    assert_eq!(net.pfctl("-a foo/host/bar -F nat"), "nat cleared\n");
    assert_eq!(net.pfctl("-a foo/host/bar -sn"), "");
    assert_eq!(net.pfctl("-P -a foo/host/bar -sr"), rule);
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "nobody translates any more");
    net.pfctl(&format!("-a foo/host/bar -Nf {inner}"));
    assert_eq!(net.pfctl("-a foo/host/bar -F rules"), "rules cleared\n");
    assert_eq!(net.pfctl("-P -a foo/host/bar -sr"), "");
    assert_eq!(seen(&net.client, SERVER, 7001).ip().to_string(), OUTSIDE);
}

#[test]
fn servers_of_a_table_come_and_go() {
    let test = "servers_of_a_table_come_and_go";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("natt");
    ip(&net.server, "address add 10.2.0.3/24 dev s0");
    who_server(&net.server, "10.2.0.3", 7001);
    net.start(
        "table <servers> persist { 10.2.0.2 }\n\
         nat on b1 inet from 10.1.0.0/24 to any -> (b1)\n\
         rdr on b0 inet proto tcp to 10.1.0.1 port 7001 -> <servers> sticky-address\npass\n",
    );
    assert!(net.connect(ROUTER, 7001, IMPATIENCE).is_none(), "nobody listens there");
    net.pfctl("-t servers -T replace 10.2.0.3");
    for _ in 0..3 {
        assert_outside(seen(&net.client, ROUTER, 7001), OUTSIDE);
    }
    assert_eq!(net.pfctl("-t servers -T show"), "   10.2.0.3\n");
    net.pfctl("-t servers -T flush");
    assert!(net.connect(ROUTER, 7001, IMPATIENCE).is_none(), "there is no server any more");
    assert_ne!(net.dropped("map-failed"), 0);
}

/// ICMP: echo by its identifier, and errors that quote what was translated.
#[test]
fn ping_and_errors_come_back() {
    let test = "ping_and_errors_come_back";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("nati");
    // Behind the server is a network that is reached in one more hop.
    ip(&net.server, "link add far type veth peer name beyond");
    ip(&net.server, "link set far up");
    ip(&net.server, "link set beyond up");
    ip(&net.server, "address add 10.9.0.1/24 dev far");
    let forward = || weir_net::sysctl::write("net.ipv4.ip_forward", "1").expect("written");
    net.server.run(forward).expect("entered");
    net.start(FREEBSD);
    for words in [
        ["ping", "-4", "-c", "3", "-i", "0.2", "-W", "20", SERVER],
        ["ping", "-6", "-c", "3", "-i", "0.2", "-W", "20", SERVER6],
    ] {
        let Some(output) = program(test, &net.client, &words) else { return };
        assert_exit(&output, 0);
        assert!(stdout(&output).contains(" 0% packet loss"), "{}", stdout(&output));
    }
    // As traceroute: the first hop is the router, the second one speaks of what it has seen.
    for (ttl, hop) in [("1", "10.1.0.1"), ("2", SERVER)] {
        let words = ["ping", "-c", "1", "-W", "20", "-t", ttl, "10.9.0.9"];
        let Some(output) = program(test, &net.client, &words) else { return };
        let said = stdout(&output);
        assert!(said.contains(&format!("From {hop} icmp_seq=1 Time to live exceeded")), "{said}");
    }
    // Port unreachable ends a read, if it quotes the socket's own datagram.
    for (local, host) in [("10.1.0.2:5001", SERVER), ("[fd01::2]:5001", SERVER6)] {
        let socket = datagrams(&net.client, local, host, 5999);
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        socket.send(b"anybody?").expect("sent");
        let error = socket.recv(&mut [0; 9]).expect_err("nobody listens");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{host}: {error}");
    }
}

#[test]
fn fragments_are_translated() {
    let test = "fragments_are_translated";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("natg");
    for host in [SERVER, SERVER6] {
        who_datagrams(&net.server, host, 5353);
    }
    net.start(FREEBSD);
    for (local, host, outside) in
        [("10.1.0.2:5002", SERVER, OUTSIDE), ("[fd01::2]:5002", SERVER6, OUTSIDE6)]
    {
        let socket = datagrams(&net.client, local, host, 5353);
        assert_outside(seen_of_datagram(&socket, 5_000), outside);
    }
}

/// A transfer goes on over reloads, also by rules that would translate it otherwise or not at all,
/// and over the daemon's end.
#[test]
fn translated_flows_outlive_their_rules_and_the_daemon() {
    let test = "translated_flows_outlive_their_rules_and_the_daemon";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("natr");
    echo_server(&net.server, SERVER, 7002);
    who_server(&net.server, SERVER, 7001);
    net.start(FREEBSD);
    let mut line = net.connect(SERVER, 7002, PATIENCE).expect("passed");
    line.echo("before");
    let other = FREEBSD.replace("to any -> ($ext)", "to any -> ($ext) port 40000:40100");
    let none = "block return\npass in on b0\npass out\n";
    let bytes = vec![7; 20_000_000];
    thread::scope(|scope| {
        let transfer = scope.spawn(|| line.bulk(&bytes) == bytes);
        let mut count = 0;
        while !transfer.is_finished() || count < 4 {
            net.reload([other.as_str(), FREEBSD, none, FREEBSD][count % 4]);
            count += 1;
        }
        assert!(transfer.join().expect("no panic"), "what comes back is what was sent");
    });
    net.reload(&other);
    let port = seen(&net.client, SERVER, 7001).port();
    assert!((40_000..=40_100).contains(&port), "by the new rule: {port}");

    let state = |net: &Network| {
        let inside = format!(" ({CLIENT}:{}) -> {SERVER}:7002 ", line.port());
        let states = net.pfctl("-ss");
        let found = states.lines().find(|line| line.contains(&inside));
        found.map(str::to_owned).unwrap_or_else(|| panic!("{states}"))
    };
    let before = state(&net);
    net.kill_daemon();
    assert_outside_any(seen(&net.client, SERVER, 7001));
    net.start(FREEBSD);
    assert_eq!(net.json("status")["adopted"], true);
    assert_eq!(state(&net), before);
    line.echo("after");
    assert_eq!(net.dropped("state-mismatch"), 0, "{}", net.pfctl("-vvss"));
    // Ended by its inner address; its port is free again.
    net.pfctl(&format!("-k {CLIENT}"));
    assert!(!net.pfctl("-ss").contains(CLIENT), "{}", net.pfctl("-ss"));
    assert_outside(seen(&net.client, SERVER, 7001), OUTSIDE);
}

#[track_caller]
fn assert_outside_any(peer: SocketAddr) {
    assert_eq!(peer.ip().to_string(), OUTSIDE, "{peer}");
}

/// `(b1)` is what the interface has when a connection begins.
#[test]
fn translation_follows_the_address_of_the_interface() {
    let test = "translation_follows_the_address_of_the_interface";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("nata");
    echo_server(&net.server, SERVER, 7002);
    who_server(&net.server, SERVER, 7001);
    who_server(&net.client, CLIENT, 80);
    net.start(OPENBSD);
    assert_outside(seen(&net.client, SERVER, 7001), OUTSIDE);
    let mut line = net.connect(SERVER, 7002, PATIENCE).expect("passed");
    line.echo("before");
    ip(&net.router, "address add 10.2.0.7/24 dev b1");
    line.echo("two addresses");
    ip(&net.router, "address del 10.2.0.1/24 dev b1");
    ip(&net.router, "address replace 10.2.0.7/24 dev b1");
    ip(&net.router, "route replace default via 10.2.0.2 dev b1");
    wait_until("connections come from the new address", || {
        connect_from(&net.client, SERVER, 7001, IMPATIENCE)
            .is_some_and(|mut line| line.hear().starts_with("10.2.0.7:"))
    });
    assert_eq!(seen(&net.server, "10.2.0.7", 18080).ip().to_string(), SERVER);
    // What began with the old one goes on, as long as the world knows where that is.
    ip(&net.server, "route add 10.2.0.1/32 via 10.2.0.7 dev s0");
    line.echo("after");
}

/// Connections of the box itself, and of others that the kernel forwards, are translated as they
/// leave.
#[test]
fn the_boxs_own_packets_are_translated() {
    let test = "the_boxs_own_packets_are_translated";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("natb");
    who_server(&net.server, SERVER, 7001);
    who_datagrams(&net.server, SERVER, 5353);
    net.start("nat on b1 inet proto { tcp udp } from any to any -> 10.2.0.1 port 30000:30999\n");
    let port = seen(&net.router, SERVER, 7001).port();
    assert!((30_000..31_000).contains(&port), "{port}");
    let socket = datagrams(&net.router, "10.1.0.1:5003", SERVER, 5353);
    let peer = seen_of_datagram(&socket, 100);
    assert!(peer.ip().to_string() == OUTSIDE && (30_000..31_000).contains(&peer.port()), "{peer}");
    // A redirection to the box: its answer comes from whom was asked.
    net.reload("rdr on b0 inet proto udp from any to 10.2.0.2 port 53 -> 10.1.0.1 port 5354\n");
    who_datagrams(&net.router, "10.1.0.1", 5354);
    let socket = datagrams(&net.client, "10.1.0.2:5004", SERVER, 53);
    assert_eq!(seen_of_datagram(&socket, 50).to_string(), "10.1.0.2:5004");
}

/// Many at once: each has a port, and none gets another's answers.
#[test]
fn many_flows_share_one_address() {
    let test = "many_flows_share_one_address";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("natm");
    who_datagrams(&net.server, SERVER, 5353);
    net.start("nat on b1 inet from 10.1.0.0/24 to any -> 10.2.0.1 port 40000:40255\n");
    let mut ports = std::collections::BTreeSet::new();
    let mut sockets = Vec::new();
    for port in 20_000..20_256_u16 {
        let socket = datagrams(&net.client, &format!("{CLIENT}:{port}"), SERVER, 5353);
        let peer = seen_of_datagram(&socket, usize::from(port) % 1000);
        assert!((40_000..=40_255).contains(&peer.port()), "{peer}");
        assert!(ports.insert(peer.port()), "two flows have {peer}");
        sockets.push(socket);
    }
    // All ports are taken: one more is dropped, and said so.
    let socket = datagrams(&net.client, "10.1.0.2:30000", SERVER, 5353);
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    socket.send(b"full").expect("sent");
    assert!(socket.recv(&mut [0; 9]).is_err(), "no port is left");
    assert!(net.dropped("map-failed") > 0);
    // Another server has its own.
    ip(&net.server, "address add 10.2.0.3/24 dev s0");
    who_datagrams(&net.server, "10.2.0.3", 5353);
    let socket = datagrams(&net.client, "10.1.0.2:30001", "10.2.0.3", 5353);
    seen_of_datagram(&socket, 10);
}
