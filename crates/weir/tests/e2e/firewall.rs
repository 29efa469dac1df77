//! The firewall as a whole: a box between two namespaces, real TCP through it, and pfctl.

mod asymmetric;
mod badline;
mod changes;
mod control;
mod copies;
mod daemon;
mod divert;
mod failover;
mod family;
mod limits;
mod nat;
mod network;
mod os;
mod owners;
mod pflow;
mod pipes;
mod places;
mod programs;
mod proxy;
mod queues;
mod real;
mod rights;
mod routes;
mod scenarios;
mod scrub;
mod stages;
mod stored;
mod sync_lies;
mod sync_stream;
mod sync_tls;
mod tcp;
mod tcx;
mod typed;
mod uplinks;
mod veth;

use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_bpf::attach::Link;
use weir_bpf::sink::SinkProgram;
use weir_net::{Netlink, VethEnd, sysctl};

use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::{alone, beside};
use network::{
    IMPATIENCE, Killed, Network, PATIENCE, ROUTER, SERVER, SERVER6, echo_server, pattern,
    wait_until,
};

/// Passes one port from the client, and answers for all others with a RST.
const RULES: &str = "\
block return
pass in quick on b0 proto tcp to any port 7001 keep state label \"echo\"
pass out quick on b1 proto tcp to any port 7001 keep state
pass proto icmp6
pass out on b1 proto udp
";

/// Why a packet of an established connection might be dropped by half a ruleset.
const REASONS_OF_A_RELOAD: [&str; 6] =
    ["match", "state-mismatch", "state-insert", "state-limit", "memory", "no-route"];

#[test]
fn rules_decide_who_gets_through() {
    let test = "rules_decide_who_gets_through";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("pass");
    for (host, port) in [(SERVER, 7001), (SERVER, 7002), (SERVER6, 7001)] {
        echo_server(&net.server, host, port);
    }
    net.start(RULES);
    for host in [SERVER, SERVER6] {
        let mut line = net.connect(host, 7001, PATIENCE).expect("passed");
        line.echo("through the box");
        let bytes = pattern(3_000_000);
        assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
    }
    // A RST comes back: the connection is refused at once.
    assert!(net.connect(SERVER, 7002, PATIENCE).is_none(), "blocked");

    let status = net.json("status");
    assert_eq!((&status["running"], &status["enabled"]), (&true.into(), &true.into()));
    let interfaces = status["interfaces"].as_array().expect("a list");
    assert_eq!(interfaces.len(), 2);
    assert!(interfaces.iter().all(|interface| interface["mode"] == "native"), "{interfaces:?}");
    let stats = net.json("stats");
    assert!(stats["forwarded_packets"].as_u64() > Some(100), "{stats}");
    let is_match =
        |drop: &serde_json::Value| drop["reason"] == "match" && drop["interface"] == "b0";
    assert!(stats["drops"].as_array().is_some_and(|all| all.iter().any(is_match)), "{stats}");

    let states = net.pfctl("-ss");
    let start = format!("all tcp {SERVER}:7001 <- 10.1.0.2:");
    assert!(states.lines().any(|line| line.starts_with(&start)), "{states}");
    let rules = net.pfctl("-sr");
    assert_eq!(rules.lines().next(), Some("block return all"), "{rules}");
    let counted = net.pfctl("-vsr");
    assert!(counted.contains("  [ Evaluations: "), "{counted}");
    let labels = net.pfctl("-sl");
    let words: Vec<&str> = labels.split_whitespace().collect();
    assert_eq!((words[0], words.len()), ("echo", 9), "{labels}");
    assert!(words[2].parse::<u64>().expect("packets") > 100, "{labels}");
    let info = net.pfctl("-si");
    assert!(info.starts_with("Status: Enabled for 0 days 00:00:"), "{info}");
    assert!(info.contains("  state-mismatch ") && info.contains("  map-failed "), "{info}");
    assert_eq!(net.pfctl("-sm").lines().next(), Some("states        hard limit   100000"));
}

/// What people run at home, without translation.
const HOME: &str = "\
ext_if = \"b1\"
int_if = \"b0\"
table <bad> persist
set block-policy drop
set skip on lo
antispoof quick for $int_if
block in log quick on $ext_if from <bad>
block all
pass quick inet proto icmp all icmp-type echoreq
pass quick inet6 proto icmp6 all
pass in on $int_if inet proto { tcp udp } from $int_if:network to any port { domain www 8080 }
pass out on $ext_if inet all
";

#[test]
fn curl_goes_through_a_home_router() {
    let test = "curl_goes_through_a_home_router";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("home");
    network::http_server(&net.server, SERVER, 8080);
    echo_server(&net.client, "10.1.0.2", 7001);
    net.start(HOME);
    let inside = |program: &[&str]| {
        let mut command = std::process::Command::new("ip");
        command.args(["netns", "exec", net.client.name()]).args(program);
        command.output().expect("ip runs")
    };
    let output = inside(&["curl", "-sS", "--max-time", "30", &format!("http://{SERVER}:8080/")]);
    if stderr(&output).contains("exec of") {
        crate::common::skipped(test, "no curl");
        return;
    }
    assert_exit(&output, 0);
    assert_eq!(String::from_utf8_lossy(&output.stdout), network::PAGE);
    // Nothing comes in from outside by itself.
    let address = "10.1.0.2:7001".parse().expect("an address");
    let from_outside = || std::net::TcpStream::connect_timeout(&address, IMPATIENCE).is_err();
    assert!(net.server.run(from_outside).expect("entered"), "blocked");
    let sum = net.pfctl("-si -i b1");
    assert!(sum.contains("Interface Stats for b1"), "{sum}");
}

#[test]
fn a_reload_keeps_flows_and_counters() {
    let test = "a_reload_keeps_flows_and_counters";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("load");
    // Nobody speaks but the connection: what a router or a host says of itself would be blocked.
    for netns in [&net.client, &net.router, &net.server] {
        let write = || sysctl::write("net.ipv6.conf.all.disable_ipv6", "1").expect("written");
        netns.run(write).expect("entered");
    }
    echo_server(&net.server, SERVER, 7001);
    net.start(RULES);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("before");
    let packets = |net: &Network| -> u64 {
        let labels = net.pfctl("-sl");
        labels.split_whitespace().nth(2).expect("packets").parse().expect("a number")
    };
    let before = packets(&net);
    assert!(before > 0);

    // A file with an error changes nothing; neither does one that the data path cannot run, nor one
    // with a name that has no address, of which it is said why.
    for (text, part) in [
        ("pass\nblock al\n", ":2:"),
        ("pass\npass in proto tcp rtable 1\n", ":2:"),
        (
            "pass\npass in from 0x7f.1\n",
            ":2: no address is known for `0x7f.1`: `0x7f.1` is neither",
        ),
    ] {
        let path = net.file("bad.conf", text);
        let output = net.run(&["pfctl", "-f", &path]);
        assert_exit(&output, 1);
        let message = stderr(&output);
        assert!(message.contains(&format!("bad.conf{part}")), "{message}");
        line.echo("still there");
    }
    assert!(net.pfctl("-sr").starts_with("block return all\n"));

    // Nothing new may pass by these, and what is there goes on.
    let rest = "block return\npass in quick on b0 proto tcp to any port 7001 keep state label \
                \"echo\"\nblock out quick on b1\n";
    let path = net.file("next.conf", rest);
    net.pfctl(&format!("-f {path}"));
    line.echo("after");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "new ones are blocked");
    assert!(packets(&net) > before, "the same rule counts on");

    // Under load, many times. TCP would repair what a reload drops; it drops nothing.
    let drops = || REASONS_OF_A_RELOAD.map(|reason| (reason, net.dropped(reason)));
    let drops_before = drops();
    let bytes = vec![7; 20_000_000];
    thread::scope(|scope| {
        let transfer = scope.spawn(|| line.bulk(&bytes) == bytes);
        let paths = [net.file("a.conf", RULES), net.file("b.conf", rest)];
        let mut count = 0;
        while !transfer.is_finished() || count < 4 {
            net.pfctl(&format!("-f {}", paths[count % 2]));
            count += 1;
        }
        assert!(transfer.join().expect("no panic"), "what comes back is what was sent");
    });
    assert_eq!(drops(), drops_before);
}

#[test]
fn a_daemon_that_dies_is_followed() {
    let test = "a_daemon_that_dies_is_followed";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("die");
    echo_server(&net.server, SERVER, 7001);
    net.start(RULES);
    net.pfctl("-t bad -T add 192.0.2.1 198.51.100.0/24");
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("before");
    let states = net.pfctl("-ss");
    let status = net.json("status");
    net.kill_daemon();

    // The programs go on: what has a state, and what rules pass.
    line.echo("without a daemon");
    let mut other = net.connect(SERVER, 7001, PATIENCE).expect("passed without a daemon");
    other.echo("new");
    assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "blocked without a daemon");

    net.start(RULES);
    let after = net.json("status");
    assert_eq!(after["adopted"], true);
    assert_ne!(after["pid"], status["pid"]);
    let state = states.lines().next().expect("a state");
    assert!(net.pfctl("-ss").lines().any(|line| line == state), "the same state: {state}");
    let labels = net.pfctl("-sl");
    let created = labels.split_whitespace().next_back().and_then(|word| word.parse::<u64>().ok());
    assert_eq!(created, Some(2), "counters go on: {labels}");
    assert_eq!(net.pfctl("-t bad -T show"), "   192.0.2.1\n   198.51.100.0/24\n");
    line.echo("after");
    other.echo("after");

    // A second one is refused; stopping removes everything.
    let path = net.file("pf.conf", RULES);
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("runs already"), "{}", stderr(&output));
    assert_exit(&net.run(&["fw", "stop"]), 0);
    let has_xdp = net.router.run(|| {
        let netlink = Netlink::open().expect("netlink");
        netlink.links().expect("listed").iter().any(|link| link.has_xdp)
    });
    assert!(!has_xdp.expect("entered"), "nothing is attached");
    assert_exit(&net.run(&["fw", "stop"]), 1);
}

#[test]
fn connections_go_on_over_an_empty_ruleset() {
    let test = "connections_go_on_over_an_empty_ruleset";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("empty");
    for port in [7001, 7002] {
        echo_server(&net.server, SERVER, port);
    }
    net.start(RULES);
    let rules = net.file("rules.conf", RULES);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    // More than any window, so that a tracker that does not look meanwhile is lost.
    let bytes = vec![7; 3_000_000];
    for _ in 0..2 {
        assert!(line.bulk(&bytes) == bytes, "with rules");
        net.pfctl("-F rules");
        assert!(line.bulk(&bytes) == bytes, "without rules");
        net.connect(SERVER, 7002, PATIENCE).expect("nothing blocks").echo("free");
        net.pfctl(&format!("-f {rules}"));
        line.echo("with rules again");
        assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "blocked again");
    }
    assert_eq!(net.dropped("state-mismatch"), 0);
}

#[test]
fn a_start_that_is_interrupted_leaves_nothing() {
    let test = "a_start_that_is_interrupted_leaves_nothing";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("int");
    let path = net.file("pf.conf", "block\n");
    let mut command = net.weir(&["fw", "run", "-f", &path]);
    let mut child = Killed(command.spawn().expect("ip runs"));
    // The socket is there before the programs are loaded, which takes a second at least.
    let socket = net.socket();
    let has_socket = || socket.exists();
    wait_until("the daemon has begun", has_socket);
    let pid = Pid::from_raw(i32::try_from(child.0.id()).expect("a process"));
    kill(pid, Signal::SIGINT).expect("asked");
    assert_eq!(child.0.wait().expect("it ends").code(), Some(130));
    assert!(!has_socket(), "and so has the daemon");
    let has_xdp = net.router.run(|| {
        let netlink = Netlink::open().expect("netlink");
        netlink.links().expect("listed").iter().any(|link| link.has_xdp)
    });
    assert!(!has_xdp.expect("entered"), "nothing is attached");
}

/// Whatever the moment: what it left is no firewall that filters nothing for good.
#[test]
fn a_daemon_that_is_killed_while_it_starts_is_followed_by_one_that_filters() {
    let test = "a_daemon_that_is_killed_while_it_starts_is_followed_by_one_that_filters";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("early");
    echo_server(&net.server, SERVER, 7002);
    let path = net.file("pf.conf", RULES);
    let has_xdp = || {
        let look = || Netlink::open().and_then(|netlink| netlink.links());
        let links = net.router.run(look).expect("entered").expect("listed");
        links.iter().any(|link| link.has_xdp)
    };
    for _ in 0..3 {
        let mut command = net.weir(&["fw", "run", "--foreground", "-f", &path]);
        let mut child = Killed(command.spawn().expect("ip runs"));
        let until = Instant::now() + PATIENCE;
        while !has_xdp() {
            assert!(Instant::now() < until, "a program is attached");
        }
        let pid = Pid::from_raw(i32::try_from(child.0.id()).expect("a process"));
        kill(pid, Signal::SIGKILL).expect("killed");
        drop(child.0.wait());
        assert_exit(&net.run(&["fw", "run", "-f", &path]), 0);
        assert_eq!(net.json("status")["enabled"], true);
        assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "it filters");
        assert_exit(&net.run(&["fw", "stop"]), 0);
    }
}

#[test]
fn a_firewall_without_a_daemon_is_stopped() {
    let test = "a_firewall_without_a_daemon_is_stopped";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("stop");
    echo_server(&net.server, SERVER, 7002);
    net.start(RULES);
    let pid = net.json("status")["pid"].as_i64().expect("a number");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process"));
    kill(pid, Signal::SIGTERM).expect("asked");
    wait_until("the daemon is gone", || net.run(&["fw", "status"]).status.code() == Some(1));
    assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "it still filters");
    assert_exit(&net.run(&["fw", "stop"]), 0);
    net.connect(SERVER, 7002, PATIENCE).expect("nothing filters").echo("free");
}

#[test]
fn pfctl_controls_it() {
    let test = "pfctl_controls_it";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("ctl");
    echo_server(&net.server, SERVER, 7001);
    net.start("table <bad> persist\nblock in quick on b0 from <bad>\npass\n");
    assert_eq!(net.pfctl("-t bad -T add 10.1.0.2"), "1/1 addresses added.\n");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "in the table");
    assert_eq!(net.pfctl("-t bad -T delete 10.1.0.2"), "1/1 addresses deleted.\n");
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("no longer in it");
    line.echo("one");
    assert_eq!(net.pfctl("-sT"), "bad\n");
    assert_eq!(net.run(&["pfctl", "-t", "bad", "-T", "test", "10.9.9.9"]).status.code(), Some(2));

    // Disabled, everything passes without a state.
    assert_eq!(net.pfctl("-t bad -T add 10.1.0.2"), "1/1 addresses added.\n");
    assert_eq!(net.pfctl("-d"), "pf disabled\n");
    net.connect(SERVER, 7001, PATIENCE).expect("nothing filters").echo("two");
    assert_exit(&net.run(&["pfctl", "-d"]), 1);
    assert_eq!(net.pfctl("-e"), "pf enabled\n");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "in the table");

    // What has a state goes on, until it is killed.
    line.echo("three");
    let printed = net.pfctl("-k 10.1.0.2 -k 0.0.0.0/0");
    assert!(printed.starts_with("killed ") && !printed.starts_with("killed 0 "), "{printed}");
    assert!(!net.pfctl("-ss").contains(":7001"), "no state is left");
    // The box's own neighbour discovery may make states at any moment.
    let inserts = || -> u64 {
        let info = net.pfctl("-si");
        let line = info.lines().find(|line| line.starts_with("  inserts ")).expect("a line");
        line.split_whitespace().nth(1).expect("a count").parse().expect("a number")
    };
    let before = inserts();
    assert_eq!(net.pfctl("-Fi"), "pf: statistics cleared\n");
    assert!(inserts() < before, "counted from 0 again");
    let all = net.pfctl("-sa");
    for title in ["FILTER RULES:", "INFO:", "TIMEOUTS:", "LIMITS:", "TABLES:"] {
        assert!(all.lines().any(|line| line == title), "{title}: {all}");
    }
    assert_eq!(net.pfctl("-Fr"), "rules cleared\n");
    assert_eq!(net.pfctl("-sr"), "");
}

#[test]
fn a_route_that_changes_is_taken_at_once() {
    let test = "a_route_that_changes_is_taken_at_once";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("route");
    echo_server(&net.server, SERVER, 7001);
    net.add_second_way();
    net.start("pass\n");
    moves_with_its_route(&net);
}

/// A connection to the server, whose route changes to the second way.
fn moves_with_its_route(net: &Network) {
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("one way");
    let sent = |name: &str| {
        let transmitted =
            || Netlink::open().expect("netlink").stats64(name).expect("counted").tx_packets;
        net.router.run(transmitted).expect("entered")
    };
    let before = sent("b2");
    net.router
        .run(|| {
            let netlink = Netlink::open().expect("netlink");
            let via: IpAddr = "10.3.0.2".parse().expect("an address");
            let host = format!("{SERVER}/32").parse().expect("a prefix");
            netlink.add_route(host, Some(via), "b2").expect("added");
        })
        .expect("entered");
    // The kernel tells the daemon, which makes the state's next hop stale: the packets that come
    // then take the other way, in the same connection.
    wait_until("the running flow has moved", || {
        line.echo("the other way");
        sent("b2") > before
    });
    // And stays there: each echo is two packets, data and acknowledgement.
    let (here, there) = (sent("b1"), sent("b2"));
    for _ in 0..50 {
        line.echo("the other way");
    }
    assert!(sent("b2") - there >= 50 && sent("b1") - here < 50, "all take the other way");
}

#[test]
fn what_cannot_run_is_refused() {
    let test = "what_cannot_run_is_refused";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("not");
    for (text, part) in [
        ("pass\npass in proto tcp rtable 1\n", "pf.conf:2"),
        ("set hashsize 1000\npass\n", "1000 buckets"),
        ("set limit states 40000000\nset hashsize 33554432\npass\n", "33554432 buckets"),
        ("set skip on lo\nset limit states 90000000\npass\n", "pf.conf:2:1: "),
        ("set limit src-nodes 4290000000\npass\n", "pf.conf:1:1: error: set limit src-nodes"),
        ("pass\nset limit frags 20000000\n", "pf.conf:2:1: error: set limit frags 20000000"),
        ("pass al\n", "pf.conf:1"),
    ] {
        let path = net.file("pf.conf", text);
        let output = net.run(&["fw", "run", "-f", &path]);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(part), "{text}: {}", stderr(&output));
        assert_exit(&net.run(&["fw", "status"]), 1);
    }
    for words in ["-e", "-sr", "-ss"] {
        let output = net.run(&["pfctl", words]);
        assert_exit(&output, 1);
        assert!(stderr(&output).contains("weir fw run -f FILE"), "{}", stderr(&output));
    }
    // An interface that somebody else's program is on.
    let _theirs = occupied(&net, "tap9");
    let path = net.file("pf.conf", "pass\n");
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 2);
    let message = stderr(&output);
    assert!(message.contains("tap9") && message.contains("another XDP program"), "{message}");
    assert_exit(&net.run(&["fw", "status"]), 1);
}

#[test]
fn each_interface_says_by_which_way_it_is_filtered() {
    let test = "each_interface_says_by_which_way_it_is_filtered";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("ways");
    // A bridge has no native XDP.
    ip(&net, "link add br9 type bridge");
    let path = net.file("pf.conf", "pass\n");
    for (options, way, line) in [
        (&["fw", "run", "-f"][..], "tcx", "filtered by tcx (the kernel forwards, several times"),
        (&["fw", "run", "--generic", "-f"][..], "generic", "filtered by generic XDP (behind"),
    ] {
        let arguments: Vec<&str> = options.iter().copied().chain([path.as_str()]).collect();
        let output = net.run(&arguments);
        assert_exit(&output, 0);
        let message = stderr(&output);
        let said = |line: &str, names: &str| {
            message.lines().any(|text| text.contains(line) && text.ends_with(names))
        };
        assert!(said("filtered by native XDP", ": b0, b1") && said(line, ": br9"), "{message}");
        assert_eq!(mode_of(&net, "br9"), way);
        assert_eq!(mode_of(&net, "b0"), "native");
        let status = net.printed(&["fw", "status"]);
        let is_said = |text: &str| text.contains("br9") && text.contains("several times slower");
        assert!(status.lines().any(is_said), "{status}");
        net.printed(&["fw", "stop"]);
    }
}

/// By which way an interface is filtered, as the status says.
#[track_caller]
fn mode_of(net: &Network, name: &str) -> serde_json::Value {
    let status = net.json("status");
    let interfaces = status["interfaces"].as_array().expect("a list");
    let found = interfaces.iter().find(|interface| interface["name"] == name);
    found.map(|interface| interface["mode"].clone()).unwrap_or_default()
}

/// A new interface of the box on which somebody else's XDP program is, so that ours cannot be,
/// until the link is dropped.
#[track_caller]
fn occupied(net: &Network, name: &str) -> Link {
    ip(net, &format!("tuntap add dev {name} mode tap"));
    let attach = || {
        let ifindex = Netlink::open().expect("netlink").ifindex(name).expect("it is there");
        let program = SinkProgram::load().expect("loaded");
        program.attach(ifindex).expect("attached")
    };
    net.router.run(attach).expect("entered")
}

/// `ip` on the box.
#[track_caller]
fn ip(net: &Network, words: &str) -> String {
    nat::ip(&net.router, words)
}

#[test]
fn a_box_that_does_not_forward_says_so() {
    let test = "a_box_that_does_not_forward_says_so";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("host");
    let forward = || sysctl::write("net.ipv4.ip_forward", "0").expect("written");
    net.router.run(forward).expect("entered");
    let path = net.file("pf.conf", "pass\n");
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 0);
    let message = stderr(&output);
    assert!(message.contains("net.ipv4.ip_forward is 0"), "{message}");
}

#[test]
fn a_reload_that_is_refused_changes_no_interface() {
    let test = "a_reload_that_is_refused_changes_no_interface";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("stay");
    net.start("set skip on tap9\npass\nblock in on b1 proto udp\n");
    let status = || net.json("status")["interfaces"].clone();
    let (before, rules) = (status(), net.pfctl("-sr"));
    // Our program cannot be on it. Else b1 would be taken off, and b0 be skipped.
    let _theirs = occupied(&net, "tap9");
    wait_until("it is seen", || status() != before);
    let before = status();
    let path = net.file("pf.conf", "set skip on b0\nblock in on tap9\n");
    let output = net.run(&["pfctl", "-f", &path]);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("tap9"), "{}", stderr(&output));
    assert_eq!((status(), net.pfctl("-sr")), (before, rules));
}

#[test]
fn interfaces_that_come_later_are_filtered() {
    let test = "interfaces_that_come_later_are_filtered";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("late");
    net.start("pass\nblock return in on b7 proto tcp to any port 7003\n");
    net.router
        .run(|| {
            let netlink = Netlink::open().expect("netlink");
            let peer = VethEnd::new("c7").in_netns(&net.client);
            netlink.create_veth(&VethEnd::new("b7"), &peer, 1).expect("a veth is made");
            netlink.add_address("b7", "10.7.0.1/24".parse().expect("a prefix")).expect("added");
            netlink.set_up("b7").expect("up");
        })
        .expect("entered");
    net.client
        .run(|| {
            let netlink = Netlink::open().expect("netlink");
            netlink.add_address("c7", "10.7.0.2/24".parse().expect("a prefix")).expect("added");
            netlink.set_up("c7").expect("up");
        })
        .expect("entered");
    wait_until("it is attached", || {
        let status = net.json("status");
        let mut list = status["interfaces"].as_array().expect("a list").iter();
        list.any(|interface| interface["name"] == "b7" && interface["mode"] == "native")
    });
    echo_server(&net.router, "10.7.0.1", 7003);
    echo_server(&net.router, "10.7.0.1", 7004);
    net.connect("10.7.0.1", 7004, PATIENCE).expect("passed").echo("to the box");
    assert!(net.connect("10.7.0.1", 7003, IMPATIENCE).is_none(), "blocked by name");
}

#[test]
fn logged_packets_are_read_by_tcpdump() {
    let test = "logged_packets_are_read_by_tcpdump";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("log");
    let rules = net.file("pf.conf", "pass\nblock drop in log on b0 proto tcp to any port 7002\n");
    let log = net.dir.path().join("pflog");
    let path = log.to_string_lossy().into_owned();
    let output = net.run(&["fw", "run", "-f", &rules, "--log", &path]);
    assert_exit(&output, 0);
    assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "blocked");
    wait_until("a packet is logged", || fs::metadata(&log).is_ok_and(|file| file.len() > 24));
    let mut tcpdump = std::process::Command::new("tcpdump");
    let Ok(output) = tcpdump.args(["-ner", &path]).output() else {
        crate::common::skipped(test, "no tcpdump");
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("rule 1/0(match): block in on b0:"), "{printed}");
    assert!(printed.contains(&format!("> {SERVER}.7002")), "{printed}");
}

/// A daemon that takes longer than this does not answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[test]
fn a_box_under_fire_answers() {
    let test = "a_box_under_fire_answers";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    let net = Network::new("fire");
    echo_server(&net.server, SERVER, 7001);
    echo_server(&net.router, ROUTER, 7004);
    net.start("block\npass proto icmp6\npass proto tcp to any port { 7001 7004 }\n");
    let mut through = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    let mut to_box = net.connect(ROUTER, 7004, PATIENCE).expect("passed");
    let mut gen_ = std::process::Command::new("ip");
    gen_.args(["netns", "exec", net.client.name(), env!("CARGO_BIN_EXE_weir"), "gen", "-i", "c0"]);
    gen_.args(["--src", "10.1.0.10:2000-10.1.0.90", "--dst", "10.2.0.2:2000-10.2.0.90"]);
    // Longer than the test looks; it is ended then.
    gen_.args(["--duration", "120s", "--dst-mac", &mac(&net, "b0")]).env("NO_COLOR", "1");
    let child = gen_.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = Killed(child.spawn().expect("ip runs"));
    wait_until("it is under fire", || net.dropped("match") > 100_000);
    for _ in 0..20 {
        let before = net.dropped("match");
        through.echo("through");
        to_box.echo("to the box");
        let info = net.within(ANSWER_MAX, &["pfctl", "-si"]);
        assert!(info.contains("current entries"), "{info}");
        assert!(net.dropped("match") > before, "under fire all the while");
        assert!(child.0.try_wait().expect("asked").is_none(), "the generator goes on");
    }
    drop(child);
    through.echo("after");
    to_box.echo("after");
}

fn mac(net: &Network, name: &str) -> String {
    let link = net.router.run(|| Netlink::open().expect("netlink").link(name).expect("there"));
    let mac = link.expect("entered").mac.expect("an address");
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
