//! `synproxy state`: servers behind the box, on it and behind a translation, of whom nobody hears
//! who has not shaken hands with the box.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use nix::sys::socket::{SockType, SockaddrStorage, connect};
use weir_net::Netns;
use weir_oracle::tunnel::Offload;

use super::divert::transparent;
use super::nat::{program, seen, who_server};
use super::network::{
    IMPATIENCE, Network, PATIENCE, ROUTER, ROUTER6, SERVER, SERVER6, at, connect_from, echo_server,
    wait_until,
};
use super::tcx::{NEAR, Site};
use crate::common::{assert_exit, can_run_lab};
use crate::turns::beside;

/// Everything that comes in is proxied, but for port 7009.
const RULES: &str = "\
block return
pass proto icmp6 no state
pass in proto tcp to any port 7001:7005 synproxy state
pass in proto tcp to any port 7009
pass out proto tcp
";

/// Servers at these addresses: one that speaks first, and one that listens first.
fn serve(netns: &Netns, hosts: &[&str]) {
    for host in hosts {
        who_server(netns, host, 7001);
        echo_server(netns, host, 7002);
    }
}

/// Both ways, whoever speaks first, and much of it.
fn talks(from: &Netns, hosts: &[&str]) {
    for host in hosts {
        assert!(seen(from, host, 7001).port() > 0, "{host}");
        let mut line = connect_from(from, host, 7002, PATIENCE).expect("passed");
        line.echo("one line");
        line.bounce(3_000_000, host);
        line.finish();
        assert_eq!(line.hear(), "", "{host}: it ends");
    }
}

/// How a connection ends that the box has made and the server refuses.
fn is_reset(from: &Netns, host: &str, port: u16) -> bool {
    let read = || {
        let mut stream = TcpStream::connect_timeout(&at(host, port), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.read(&mut [0; 1])
    };
    let found = from.run(read).expect("entered");
    found.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

#[test]
fn servers_behind_the_box_are_reached_by_its_handshake() {
    if !can_run_lab("servers_behind_the_box_are_reached_by_its_handshake") {
        return;
    }
    let _turn = beside();
    let net = Network::new("proxy");
    serve(&net.server, &[SERVER, SERVER6]);
    net.start(RULES);
    talks(&net.client, &[SERVER, SERVER6]);
    assert!(net.pfctl("-sr").contains("synproxy state"), "{}", net.pfctl("-sr"));
    // Nobody listens there: the client has a connection already, which then ends at once.
    for host in [SERVER, SERVER6] {
        let began = Instant::now();
        assert!(is_reset(&net.client, host, 7003), "{host}");
        assert!(began.elapsed() < PATIENCE, "{host}: a RST comes at once");
    }
    // Nobody has to say a word.
    net.pfctl("-F states");
    let mut line = connect_from(&net.client, SERVER, 7002, PATIENCE).expect("passed");
    wait_until("it is established", || {
        let states = net.pfctl("-ss");
        states.contains("10.2.0.2:7002") && states.contains("ESTABLISHED:ESTABLISHED")
    });
    // A connection lives on without its rule, and without its daemon.
    line.echo("by the proxy");
    net.reload("block\n");
    line.echo("without a rule");
    net.kill_daemon();
    line.echo("without a daemon");
    net.start("block\n");
    line.bounce(3_000_000, "with another daemon");
}

#[test]
fn a_client_that_leaves_checksums_to_its_hardware_is_proxied() {
    let test = "a_client_that_leaves_checksums_to_its_hardware_is_proxied";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("proxytx");
    serve(&net.server, &[SERVER, SERVER6]);
    serve(&net.router, &[ROUTER]);
    let Some(output) = program(test, &net.client, &["ethtool", "-K", "c0", "tx", "on"]) else {
        return;
    };
    assert_exit(&output, 0);
    net.start(RULES);
    talks(&net.client, &[SERVER, SERVER6, ROUTER]);
}

#[test]
fn servers_on_the_box_are_reached_by_its_handshake() {
    if !can_run_lab("servers_on_the_box_are_reached_by_its_handshake") {
        return;
    }
    let _turn = beside();
    let net = Network::new("proxyon");
    serve(&net.router, &[ROUTER, ROUTER6]);
    net.start(RULES);
    talks(&net.client, &[ROUTER, ROUTER6]);
    for host in [ROUTER, ROUTER6] {
        assert!(is_reset(&net.client, host, 7003), "{host}");
    }
}

#[test]
fn a_tunnel_without_xdp_has_the_proxy_too() {
    if !can_run_lab("a_tunnel_without_xdp_has_the_proxy_too") {
        return;
    }
    let _turn = beside();
    for (tag, offload) in [("proxyt", Offload::None), ("proxyg", Offload::Tcp)] {
        let site = Site::new(tag, offload);
        serve(&site.net.server, &[SERVER, SERVER6]);
        serve(&site.net.router, &[NEAR]);
        site.net.start(RULES);
        talks(&site.far, &[SERVER, SERVER6, NEAR]);
        assert!(is_reset(&site.far, SERVER, 7003));
    }
}

#[test]
fn translated_servers_are_reached_by_the_boxs_handshake() {
    if !can_run_lab("translated_servers_are_reached_by_the_boxs_handshake") {
        return;
    }
    let _turn = beside();
    let net = Network::new("proxynat");
    serve(&net.server, &[SERVER]);
    echo_server(&net.router, "10.2.0.1", 7004);
    net.start(
        "block return\n\
         pass in on b0 proto tcp to 10.1.0.1 port 7001:7002 rdr-to 10.2.0.2 synproxy state\n\
         pass in on b0 proto tcp to 10.1.0.1 port 7003 rdr-to 10.2.0.1 port 7004 synproxy state\n\
         pass out on b1 proto tcp nat-to 10.2.0.1\n",
    );
    talks(&net.client, &[ROUTER]);
    assert_eq!(seen(&net.client, ROUTER, 7001).ip().to_string(), "10.2.0.1");
    let mut line = connect_from(&net.client, ROUTER, 7003, PATIENCE).expect("passed");
    line.bounce(3_000_000, "a server of the box, by another address and port");
}

/// Tries to connect from an address that nobody has: the answer reaches nobody.
fn call_from(netns: &Netns, from: &str, to: SocketAddr) {
    let stream = TcpStream::from(transparent(netns, SockType::Stream, at(from, 0)));
    stream.set_nonblocking(true).expect("set");
    let started = connect(stream.as_raw_fd(), &SockaddrStorage::from(to));
    assert_eq!(started, Err(nix::Error::EINPROGRESS));
}

#[test]
fn who_never_answers_reaches_nobody_and_takes_no_state() {
    if !can_run_lab("who_never_answers_reaches_nobody_and_takes_no_state") {
        return;
    }
    let _turn = beside();
    let net = Network::new("flood");
    let count = Arc::new(AtomicUsize::new(0));
    for port in [7001, 7009] {
        let counted = Arc::clone(&count);
        let bind = || TcpListener::bind(at(SERVER, port)).expect("bound");
        let listener = net.server.run(bind).expect("entered");
        thread::spawn(move || {
            listener.incoming().for_each(|stream| {
                counted.fetch_add(1, Ordering::Relaxed);
                drop(stream);
            });
        });
    }
    net.start(RULES);
    let replies = || net.json("stats")["replies_packets"].as_u64().expect("a number");
    let before = replies();
    for host in 50..150 {
        call_from(&net.client, &format!("10.1.0.{host}"), at(SERVER, 7001));
    }
    wait_until("all are answered", || replies() >= before + 100);
    let states = || net.pfctl("-ss");
    assert!(!states().contains(":7001"), "{}", states());
    // Without the proxy each of them takes a state.
    call_from(&net.client, "10.1.0.99", at(SERVER, 7009));
    wait_until("it has a state", || states().contains(":7009"));
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert!(connect_from(&net.client, SERVER, 7001, PATIENCE).is_some());
    wait_until("who answers is let through", || count.load(Ordering::Relaxed) == 1);
}

#[test]
fn syncookies_for_all_need_no_word_in_rules() {
    if !can_run_lab("syncookies_for_all_need_no_word_in_rules") {
        return;
    }
    let _turn = beside();
    let net = Network::new("cookies");
    serve(&net.server, &[SERVER]);
    net.start("set syncookies always\nblock\npass in on b0\npass out on b1\n");
    talks(&net.client, &[SERVER]);
    call_from(&net.client, "10.1.0.99", at(SERVER, 7001));
    let blocked = connect_from(&net.server, "10.1.0.2", 7001, IMPATIENCE);
    assert!(blocked.is_none());
    assert!(!net.pfctl("-ss").contains("10.1.0.99"), "{}", net.pfctl("-ss"));
    let cookies = |mode: &str, active: &str| {
        let info = net.pfctl("-vsi");
        for (name, value) in [("mode", mode), ("active", active)] {
            let line = format!("\n  {name:<25} {value}\n");
            assert!(info.contains(&line), "{name}: {info}");
        }
        info
    };
    cookies("always", "active");
    // Nobody is flooded: hosts shake hands with each other.
    net.reload("set syncookies adaptive (start 25%, end 12%)\npass in on b0\npass out on b1\n");
    talks(&net.client, &[SERVER]);
    let info = cookies("adaptive", "inactive");
    assert!(info.contains(&format!("\n  {:<25} {:>14}\n", "highwater", 25_000)), "{info}");
}
