//! Transparent proxies on the box: `divert-to` hands them connections and datagrams that are for
//! somebody else, and `divert-reply` what comes back to an address that is not the box's.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::thread;
use std::time::Instant;

use nix::sys::socket::sockopt::IpTransparent;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt,
    socket,
};
use weir_net::Netns;

use super::nat::{datagrams, who_server};
use super::network::{
    Line, Network, PATIENCE, SERVER, SERVER6, at, connect_from, pattern, repeat, wait_until,
};
use crate::common::can_run_lab;
use crate::turns::beside;

/// The words that OpenBSD's manuals of proxies have.
const RULES: &str = "\
block return
pass proto icmp6 no state
pass in on b0 inet proto tcp to port { 80 81 } divert-to 127.0.0.1 port 3128
pass in on b0 inet6 proto tcp to port 80 divert-to ::1 port 3128
pass in on b0 inet proto udp to port 5353 divert-to 127.0.0.1 port 5300
pass in on b0 proto tcp to port 7001
pass out proto tcp to port 7001
pass out on b1 inet proto tcp to port 7002 divert-reply
match in inet6 proto esp scrub (min-ttl 1)
";

/// A socket of a namespace at an address, which may be anybody's.
pub(super) fn transparent(netns: &Netns, kind: SockType, at: SocketAddr) -> OwnedFd {
    let make = || {
        let family = if at.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let made = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        setsockopt(&made, IpTransparent, &true).expect("root may");
        bind(made.as_raw_fd(), &SockaddrStorage::from(at)).expect("bound");
        made
    };
    netns.run(make).expect("entered")
}

/// A proxy that says to everybody whom they have called, and repeats what they say.
fn proxy(netns: &Netns, host: &str) {
    let socket = transparent(netns, SockType::Stream, at(host, 3128));
    listen(&socket, Backlog::new(16).expect("short")).expect("it listens");
    let listener = TcpListener::from(socket);
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let called = stream.local_addr().expect("an address");
            drop(writeln!(stream, "{called}"));
            repeat(stream);
        }
    });
}

#[track_caller]
fn called(from: &Netns, host: &str, port: u16) -> String {
    connect_from(from, host, port, PATIENCE).expect("passed").hear()
}

/// Whether marked packets are taken in the box.
fn takes_marked(net: &Network) -> bool {
    let rules = |family: &str| {
        let mut command = std::process::Command::new("ip");
        command.args(["-n", net.router.name(), family, "rule"]);
        String::from_utf8_lossy(&command.output().expect("ip runs").stdout).into_owned()
    };
    let both = ["-4", "-6"].map(|family| rules(family).contains("fwmark"));
    assert_eq!(both[0], both[1], "{}", rules("-4"));
    both[0]
}

#[test]
fn connections_for_others_go_to_a_proxy() {
    let test = "connections_for_others_go_to_a_proxy";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("divert");
    // Nobody is to be called by these ports.
    for host in [SERVER, SERVER6] {
        who_server(&net.server, host, 80);
        who_server(&net.server, host, 7001);
    }
    // A server of the box that would take what comes to any address.
    who_server(&net.router, "0.0.0.0", 81);
    for host in ["127.0.0.1", "::1"] {
        proxy(&net.router, host);
    }
    net.start(RULES);
    assert!(takes_marked(&net));
    for (host, port) in [(SERVER, 80), (SERVER, 81), (SERVER6, 80), ("203.0.113.9", 80)] {
        let whom = at(host, port).to_string();
        assert_eq!(called(&net.client, host, port), whom);
    }
    // What other rules pass goes where it is sent.
    assert!(called(&net.client, SERVER, 7001).starts_with("10.1.0.2:"));
    let mut kept = connect_from(&net.client, SERVER, 80, PATIENCE).expect("passed");
    assert_eq!(kept.hear(), "10.2.0.2:80");
    let all = pattern(2_000_000);
    assert!(kept.bulk(&all) == all, "what was said comes back");
    assert!(net.pfctl("-vvss").contains("divert-to 127.0.0.1 port 3128"), "{}", net.pfctl("-vvss"));
    assert!(net.pfctl("-sr").contains("divert-to 127.0.0.1 port 3128"));
    // A state keeps its socket, also without its rule and without its daemon.
    let mut kept = connect_from(&net.client, SERVER, 80, PATIENCE).expect("passed");
    assert_eq!(kept.hear(), "10.2.0.2:80");
    net.reload("pass\n");
    kept.echo("after the rule");
    net.kill_daemon();
    kept.echo("without a daemon");
    assert!(called(&net.client, SERVER, 80).starts_with("10.1.0.2:"), "it is not diverted");
    net.start("pass\n");
    kept.echo("with another daemon");
    drop(kept);
    net.pfctl("-F states");
    net.reload("pass\n");
    wait_until("nothing is left of it", || !takes_marked(&net));
}

#[test]
fn where_nobody_listens_connections_are_refused() {
    let test = "where_nobody_listens_connections_are_refused";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("nobody");
    net.start(RULES);
    let began = Instant::now();
    assert!(connect_from(&net.client, SERVER, 80, PATIENCE).is_none());
    assert!(began.elapsed() < PATIENCE, "a RST comes at once");
    assert_eq!(net.dropped("no-socket"), 1);
    drop(net.run(&["fw", "stop"]));
    assert!(!takes_marked(&net));
}

#[test]
fn datagrams_for_others_go_to_a_proxy() {
    let test = "datagrams_for_others_go_to_a_proxy";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("dgram");
    let server: UdpSocket =
        transparent(&net.router, SockType::Datagram, at("127.0.0.1", 5300)).into();
    net.start(RULES);
    let client = datagrams(&net.client, "0.0.0.0:5999", SERVER, 5353);
    client.set_read_timeout(Some(PATIENCE)).expect("set");
    server.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut bytes = [0; 64];
    for round in ["one", "two"] {
        client.send(round.as_bytes()).expect("sent");
        let (size, from) = server.recv_from(&mut bytes).expect("it comes");
        assert_eq!(
            (&bytes[..size], from.to_string().as_str()),
            (round.as_bytes(), "10.1.0.2:5999")
        );
        // The answer has the address that the client has called.
        let answer: UdpSocket =
            transparent(&net.router, SockType::Datagram, at(SERVER, 5353)).into();
        answer.send_to(round.as_bytes(), from).expect("sent");
        let size = client.recv(&mut bytes).expect("it comes back");
        assert_eq!(&bytes[..size], round.as_bytes());
    }
}

/// A proxy that calls the server as its client: what the server answers is for the proxy.
#[test]
fn answers_to_another_address_come_back_to_the_proxy() {
    let test = "answers_to_another_address_come_back_to_the_proxy";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("reply");
    who_server(&net.server, SERVER, 7002);
    net.start(RULES);
    let as_client: IpAddr = "10.1.0.2".parse().expect("an address");
    let socket = transparent(&net.router, SockType::Stream, SocketAddr::new(as_client, 4999));
    let call = || connect(socket.as_raw_fd(), &SockaddrStorage::from(at(SERVER, 7002)));
    net.router.run(call).expect("entered").expect("connected");
    assert_eq!(Line::new(TcpStream::from(socket)).hear(), "10.1.0.2:4999");
}
