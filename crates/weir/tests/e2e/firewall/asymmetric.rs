//! Two firewalls of which one has the packets to a server and the other one those that come back:
//! answers wait for the states that they belong to.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use super::nat::ip;
use super::network::{Network, SERVER, at, echo_server, pattern, wait_until};
use super::sync_stream::{open, status};
use super::sync_tls::{LISTEN, Running, keygen};
use crate::common::{can_run_lab, stdout};
use crate::turns::beside;

const RULES: &str = "\
set skip on y0
block drop
pass in on b0 proto { tcp udp } to port 7001:7002 keep state (sloppy)
pass out on b1 proto { tcp udp } to port 7001:7002 keep state (sloppy)
";

/// What comes back goes by the second box, `d1` and `d0`.
fn boxes() -> [Network; 2] {
    let (one, two) = (Network::new("to"), Network::new("back"));
    for (net, near, name, far, peer) in [
        (9, &one.router, "y0", &two.router, "y0"),
        (21, &two.router, "d0", &one.client, "c9"),
        (22, &two.router, "d1", &one.server, "s9"),
    ] {
        ip(near, &format!("link add {name} type veth peer name {peer} netns {}", far.name()));
        for (host, netns, name) in [(1, near, name), (2, far, peer)] {
            ip(netns, &format!("addr add 10.{net}.0.{host}/24 dev {name}"));
            ip(netns, &format!("link set {name} up"));
        }
    }
    // The networks that it has of its own are not what it forwards here.
    for name in ["b0", "b1"] {
        ip(&two.router, &format!("link del {name}"));
    }
    ip(&two.router, "route add 10.1.0.0/24 via 10.21.0.2");
    ip(&one.server, "route replace default via 10.22.0.1");
    [one, two]
}

/// Sends datagrams back.
fn mirror(net: &Network) {
    let socket = net.server.run(|| UdpSocket::bind(at(SERVER, 7002))).expect("entered");
    let socket = socket.expect("bound");
    thread::spawn(move || {
        let mut bytes = [0; 100];
        while let Ok((size, from)) = socket.recv_from(&mut bytes) {
            if size == 3 || socket.send_to(&bytes[..size], from).is_err() {
                return;
            }
        }
    });
}

/// A new flow of one datagram: whether an answer has come.
fn is_answered(net: &Network, patience: Duration) -> bool {
    let socket = net.client.run(|| UdpSocket::bind("10.1.0.2:0")).expect("entered").expect("bound");
    socket.set_read_timeout(Some(patience)).expect("set");
    socket.send_to(b"word", at(SERVER, 7002)).expect("sent");
    match socket.recv(&mut [0; 10]) {
        Ok(size) => size == 4,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
            false
        }
    }
}

fn waited(net: &Network) -> u64 {
    net.json("stats")["deferred_packets"].as_u64().expect("a number")
}

#[test]
fn answers_that_come_by_another_firewall_wait_for_their_states() {
    let test = "answers_that_come_by_another_firewall_wait_for_their_states";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let nets = boxes();
    let [one, two] = &nets;
    for net in &nets {
        net.start(RULES);
    }
    echo_server(&one.server, SERVER, 7001);
    mirror(one);
    let keys = [keygen(one), keygen(two)];
    let both_ways = |options: &[&str]| {
        let serve = |net: &Network, number: usize| {
            let words = ["serve", "--listen", LISTEN[number], "--peer", &keys[1 - number]];
            let running = Running::new(net, "serve.log", &[&words[..], options].concat());
            running.await_line("listening at");
            running
        };
        let to = |net: &Network, number: usize| {
            let words = ["to", LISTEN[1 - number], "--peer", &keys[1 - number]];
            Running::new(net, "to.log", &[&words[..], options].concat())
        };
        let running = [serve(one, 0), serve(two, 1), to(one, 0), to(two, 1)];
        let is_whole = |net: &Network| status(net).incoming.bulk_count > 0;
        wait_until("both have all states", || nets.iter().all(is_whole));
        running
    };

    let symmetric = both_ways(&[]);
    for _ in 0..3 {
        assert!(!is_answered(one, Duration::from_millis(300)), "its answer came before its state");
    }
    assert_eq!(waited(two), 0);
    drop(symmetric);
    let is_over = |net: &Network| !status(net).incoming.is_live && !status(net).out.is_live;
    wait_until("the sessions are over", || nets.iter().all(is_over));

    let _deferred = both_ways(&["--defer"]);
    wait_until("answers wait", || nets.iter().all(|net| status(net).incoming.is_deferring));
    assert!(stdout(&two.run(&["fw", "sync", "status"])).contains("wait for their states"));
    // A machine that is busy may take longer than an answer waits, of some.
    let mut answered_count = 0;
    wait_until("datagrams are answered", || {
        answered_count += u32::from(is_answered(one, Duration::from_secs(1)));
        answered_count >= 5
    });
    assert!(waited(two) >= 5, "{}", waited(two));
    assert_eq!(waited(one), 0, "what goes there answers nothing");
    let mut line = open(one, SERVER, 7001);
    let bytes = pattern(300_000);
    assert!(line.bulk(&bytes) == bytes, "what comes back was sent");
    // What nobody has asked for waits as well, and is then blocked.
    let unasked = one.server.run(|| UdpSocket::bind(at(SERVER, 7009))).expect("entered");
    let before = (waited(two), two.dropped("match"));
    unasked.expect("bound").send_to(b"unasked", at("10.1.0.2", 7009)).expect("sent");
    wait_until("it is blocked", || two.dropped("match") > before.1);
    assert!(waited(two) > before.0);
}
