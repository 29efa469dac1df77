//! A state table at its limits, and a daemon that goes and comes: what is established stays.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_net::Netns;

use super::network::{IMPATIENCE, Network, PATIENCE, ROUTER, SERVER, echo_server, wait_until};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

/// TCP and UDP with states; what the hosts' neighbour discovery needs makes none.
const RULES: &str = "\
block
pass proto icmp6 no state
pass proto { tcp udp } keep state
";

/// One datagram of the client to each of these ports of the server: a state each.
fn flows(net: &Network, ports: std::ops::Range<u16>) {
    let socket = net.client.run(|| UdpSocket::bind("10.1.0.2:0")).expect("entered").expect("bound");
    for port in ports {
        socket.send_to(b"flow", (SERVER, port)).expect("sent");
    }
}

fn state_count(net: &Network) -> u64 {
    let info = net.pfctl("-si");
    let line = info.lines().find(|line| line.starts_with("  current entries")).expect("a line");
    line.split_whitespace().nth(2).expect("a count").parse().expect("a number")
}

#[test]
fn a_full_table_loses_no_flow() {
    let test = "a_full_table_loses_no_flow";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("full");
    echo_server(&net.server, SERVER, 7001);
    let rules = format!(
        "set limit states 50\nset timeout {{ adaptive.start 0, adaptive.end 0 }}\n\
         set timeout interval 1\n{RULES}"
    );
    net.start(&rules);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("before");
    wait_until("the table is full", || {
        flows(&net, 20_000..20_200);
        net.dropped("state-limit") > 0
    });
    assert_eq!(state_count(&net), 50, "neither more nor less");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "there is no room");
    line.echo("through a full table");
    let bytes = vec![9; 1_000_000];
    assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
    assert_eq!(net.dropped("state-mismatch"), 0);
    // Room again, for whoever comes.
    net.reload(&format!("set timeout {{ udp.first 1, udp.single 1, udp.multiple 1 }}\n{rules}"));
    wait_until("states have gone", || state_count(&net) < 40);
    net.connect(SERVER, 7001, PATIENCE).expect("there is room").echo("new");
    line.echo("after");
}

/// Whoever manages the box gets in where nobody else does.
#[test]
fn reserved_states_are_for_the_rules_that_say_so() {
    let test = "reserved_states_are_for_the_rules_that_say_so";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("reserve");
    echo_server(&net.server, SERVER, 7001);
    echo_server(&net.router, ROUTER, 7022);
    let rules = format!(
        "set limit states 40\nset state-reserve 2\n\
         set timeout {{ adaptive.start 0, adaptive.end 0 }}\n{RULES}\
         pass in on b0 proto tcp to {ROUTER} port 7022 keep state (reserve)\n"
    );
    net.start(&rules);
    assert!(net.pfctl("-sr").contains("port = 7022 flags S/SA keep state (reserve)"));
    assert_eq!(net.json("stats")["states"]["reserved_count"], 2);
    wait_until("the table is full for others", || {
        flows(&net, 20_000..20_200);
        net.dropped("state-limit") > 0
    });
    assert_eq!(state_count(&net), 38);
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "there is no room");
    let mut one = net.connect(ROUTER, 7022, PATIENCE).expect("reserved");
    let mut other = net.connect(ROUTER, 7022, PATIENCE).expect("reserved");
    assert!(net.connect(ROUTER, 7022, IMPATIENCE).is_none(), "no more than that");
    one.echo("in");
    other.echo("in");
    assert_eq!(state_count(&net), 40);

    // What leaves nothing to others is refused.
    let path = net.file("next.conf", &rules.replace("state-reserve 2", "state-reserve 40"));
    let output = net.run(&["pfctl", "-f", &path]);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("next.conf:2: state-reserve 40 leaves nothing"));
}

/// The table grows towards `adaptive.end`, with equal timeouts for all: what nobody has answered
/// goes, and what is established stays, even idle.
#[test]
fn half_open_states_go_first() {
    let test = "half_open_states_go_first";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("adapt");
    echo_server(&net.server, SERVER, 7001);
    let mut nft = Command::new("ip");
    nft.args(["netns", "exec", net.server.name(), "nft"]);
    nft.arg("table ip t { chain c { type filter hook input priority 0; tcp dport 9 drop; }; }");
    assert_exit(&nft.output().expect("ip runs"), 0);
    let settings = "set limit states 1000\nset timeout { adaptive.start 20, adaptive.end 240 }\n\
               set timeout { tcp.first 90, tcp.opening 90, tcp.established 90, interval 1 }\n";
    net.start(&format!("{settings}{RULES}"));
    let mut idle = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    let half_open = || net.pfctl("-ss").lines().filter(|state| state.contains("SYN_SENT")).count();
    wait_until("many connections are half open", || {
        idle.echo("not idle yet");
        knock(&net.client, 40);
        half_open() >= 190
    });
    idle.echo("from now on");
    // 90 s scaled once are longer than 90 s scaled twice, at any number of states.
    wait_until("half-open ones go", || half_open() <= 175);
    assert!(net.pfctl("-ss").contains("ESTABLISHED:ESTABLISHED"));
    idle.echo("still there");
}

/// Connections that begin, and that nobody answers.
fn knock(netns: &Netns, count: usize) {
    let address = format!("{SERVER}:9").parse().expect("an address");
    let begin = || {
        for _ in 0..count {
            let begun = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(2));
            assert!(begun.is_err(), "nobody answers");
        }
    };
    netns.run(begin).expect("entered");
}

/// Also where a test fails, so that what waits for it ends.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A transfer through the box, while its daemon is killed and another one takes over, some times.
fn transfer_while_daemons_follow_each_other(net: &Network, rules: &str) {
    echo_server(&net.server, SERVER, 7001);
    net.start(rules);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    let bytes = vec![5; 2_000_000];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
            }
        });
        let _end = SetWhenDropped(&is_over);
        for _ in 0..2 {
            net.kill_daemon();
            net.start(rules);
            assert_eq!(net.json("status")["adopted"], true);
        }
    });
}

#[test]
fn a_transfer_outlives_the_daemon() {
    let test = "a_transfer_outlives_the_daemon";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("outlive");
    transfer_while_daemons_follow_each_other(&net, RULES);
    assert_eq!(net.dropped("state-mismatch"), 0);
}

/// Without states every packet towards the client asks whether b0 is skipped.
#[test]
fn what_is_skipped_stays_so_while_a_daemon_takes_over() {
    let test = "what_is_skipped_stays_so_while_a_daemon_takes_over";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("skipped");
    let rules = "set skip on b0\nblock\npass on b1 no state allow-opts\n";
    transfer_while_daemons_follow_each_other(&net, rules);
    assert_eq!(net.dropped("match"), 0);
    // The same without it drops what leaves by b0.
    net.reload("block\npass on b1 no state allow-opts\n");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "blocked");
    assert!(net.dropped("match") > 0);
}

/// Some sizes are made at the start: a reload that wants others is refused in words, and what runs
/// stays.
#[test]
fn sizes_change_by_a_new_start_alone() {
    let test = "sizes_change_by_a_new_start_alone";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sizes");
    echo_server(&net.server, SERVER, 7001);
    let sizes = "set limit states 2000\nset hashsize 1024\n";
    net.start(&format!("{sizes}{RULES}"));
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    let refused = |first: &str, parts: &[&str]| {
        let path = net.file("next.conf", &format!("{first}{RULES}"));
        let output = net.run(&["pfctl", "-f", &path]);
        assert_exit(&output, 1);
        let message = stderr(&output);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    let stop = "run `weir fw stop`, then `weir fw run`";
    refused("set hashsize 2048\n", &["next.conf:1: set hashsize 2048", "1024 buckets", stop]);
    refused("set limit states 900000\n", &["next.conf:1: ", "states 900000", "set hashsize 1024"]);
    let two = "set limit states 2000\nset limit frags 100\n";
    refused(two, &["next.conf:2: set limit frags 100", "5000 places", stop]);
    refused("set limit src-nodes 900000\n", &["src-nodes 900000", "65536 places", stop]);
    let reserve = "set state-reserve 2000\nset limit states 2000\n";
    refused(reserve, &["next.conf:1: state-reserve 2000"]);
    line.echo("the previous ones are still in effect");
    assert_eq!(net.pfctl("-sm").lines().next(), Some("states        hard limit     2000"));

    // Fewer and more states are possible at any time.
    net.reload(&format!("set limit states 20000\n{RULES}"));
    assert_eq!(net.pfctl("-sm").lines().next(), Some("states        hard limit    20000"));
    net.reload(&format!("set limit states 3\nset hashsize 1024\n{RULES}"));
    assert_eq!(net.pfctl("-sm").lines().next(), Some("states        hard limit        3"));
    wait_until("the table is full", || {
        flows(&net, 20_000..20_010);
        net.dropped("state-limit") > 0
    });
    net.reload(&format!("{sizes}{RULES}"));
    net.connect(SERVER, 7001, PATIENCE).expect("there is room").echo("new");
    line.echo("through it all");
}

/// The index grows and shrinks with the states, and their limit moves; what is established stays,
/// also when the daemon is killed meanwhile.
#[test]
fn the_table_follows_its_states_and_their_limit() {
    let test = "the_table_follows_its_states_and_their_limit";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("grow");
    echo_server(&net.server, SERVER, 7001);
    let rules = |limit: u32, timeouts: &str| {
        format!(
            "set limit states {limit}\n\
             set timeout {{ adaptive.start 0, adaptive.end 0, interval 1, {timeouts} }}\n{RULES}"
        )
    };
    let lasting = "udp.first 3600, udp.single 3600, udp.multiple 3600";
    let buckets = || net.json("status")["states"]["bucket_count"].as_u64().expect("a number");
    net.start(&rules(100, lasting));
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    assert_eq!(buckets(), 128);
    wait_until("the table is full", || {
        flows(&net, 20_000..20_200);
        net.dropped("state-limit") > 0
    });
    line.echo("in a small table");

    net.reload(&rules(200_000, lasting));
    wait_until("many states are there", || {
        flows(&net, 10_000..50_000);
        line.echo("while it grows");
        state_count(&net) > 30_000
    });
    wait_until("the index has followed", || buckets() > 100_000);
    line.echo("in a large table");
    net.kill_daemon();
    line.echo("without a daemon");
    net.start(&rules(200_000, lasting));
    assert!(buckets() > 100_000, "the next daemon goes on with it");
    let states = net.pfctl("-ss");
    let listed: std::collections::BTreeSet<&str> = states.lines().collect();
    assert!(listed.len() as u64 > 30_000 && listed.len() == states.lines().count());

    net.reload(&rules(50, lasting));
    assert!(state_count(&net) > 30_000, "none has ended");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "there is no room");
    line.echo("above the limit");
    net.reload(&rules(200_000, "udp.first 1, udp.single 1, udp.multiple 1"));
    wait_until("states have gone, and buckets with them", || {
        line.echo("while it shrinks");
        buckets() < 1000
    });
    net.connect(SERVER, 7001, PATIENCE).expect("there is room").echo("new");
    line.echo("through it all");
}
