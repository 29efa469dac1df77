//! Packets judged in two stages: real TCP through everything that the daemon does and suffers.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use weir_net::Netlink;

use super::network::{
    Line, Network, PATIENCE, SERVER, SERVER6, echo_server, namespace, plain_frames, wait_until,
};
use super::{ip, moves_with_its_route, nat};
use crate::common::{assert_exit, can_run_lab};
use crate::turns::beside;

const RULES: &str = "\
set weir-stages two
block
pass proto icmp6 no state
pass proto tcp to port 7001
";

/// Waits until packets are judged in so many stages, for this cause if it is one.
#[track_caller]
fn wait_for_stages(net: &Network, count: u64, cause: &str) {
    wait_until(&format!("packets are judged in {count} stages: {cause}"), || {
        let stages = net.json("status")["stages"].clone();
        stages["count"] == count
            && stages["one_because"].as_str().unwrap_or_default().contains(cause)
    });
}

#[track_caller]
fn staged_packets(net: &Network) -> u64 {
    net.json("stats")["staged_packets"].as_u64().expect("a number")
}

#[test]
fn two_stages_are_used_where_they_are_right() {
    let test = "two_stages_are_used_where_they_are_right";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("right");
    echo_server(&net.server, SERVER, 7001);
    net.start(RULES);
    wait_for_stages(&net, 2, "");
    assert!(net.printed(&["fw", "status"]).contains("stages:     2\n"));
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    let mut wait = |count: u64, cause: &str| {
        wait_for_stages(&net, count, cause);
        line.echo(cause);
    };
    wait(2, "");
    ip(&net, "rule add from 10.1.0.99 lookup 99");
    wait(1, "a policy rule chooses");
    ip(&net, "rule del from 10.1.0.99 lookup 99");
    wait(2, "");
    ip(&net, "route add 10.9.0.0/16 nexthop via 10.2.0.2 nexthop via 10.1.0.2");
    wait(1, "several ways");
    ip(&net, "route del 10.9.0.0/16");
    wait(2, "");
    ip(&net, "route add 10.9.0.0/16 tos 0x10 via 10.2.0.2");
    wait(1, "type of service");
    ip(&net, "route del 10.9.0.0/16 tos 0x10");
    wait(2, "");
    net.reload(&RULES.replace("block\n", "block return\n"));
    wait(1, "answers what it blocks");
    net.reload(&RULES.replace("stages two", "stages one"));
    wait(1, "`set weir-stages one`");
    net.reload(&RULES.replace("set weir-stages two\n", ""));
    wait(1, "states are too few");
    net.reload(RULES);
    wait(2, "");
    assert!(staged_packets(&net) > 0);
    assert_eq!(net.dropped("state-mismatch"), 0);
}

#[test]
fn an_interface_in_generic_mode_means_one_stage() {
    const MAC: &str = "02:00:00:00:09:01";
    let test = "an_interface_in_generic_mode_means_one_stage";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("generic");
    echo_server(&net.server, SERVER, 7001);
    ip(&net, "link add br9 type bridge");
    ip(&net, "link set br9 up");
    let path = net.file("pf.conf", RULES);
    assert_exit(&net.run(&["fw", "run", "--generic", "-f", &path]), 0);
    wait_for_stages(&net, 1, "interface br9 is in generic mode");
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    assert_eq!(staged_packets(&net), 0);
    ip(&net, "link del br9");
    wait_for_stages(&net, 2, "");
    line.echo("in two stages");
    assert!(staged_packets(&net) > 0);
    let arrived = || {
        let packets = || Netlink::open()?.stats64("s0").map(|counted| counted.rx_packets);
        net.server.run(packets).expect("entered").expect("counted")
    };
    let before = arrived();
    // One that appears while there are two: what comes by it meets no second stage.
    let (other, is_done) = (namespace("generic", "x"), AtomicBool::new(false));
    thread::scope(|scope| {
        let finished = Finish(&is_done);
        ip(&net, &format!("link add br9 address {MAC} type bridge"));
        ip(&net, &format!("link add b9 type veth peer name x0 netns {}", other.name()));
        ip(&net, "link set b9 master br9 up");
        nat::ip(&other, "link set x0 up");
        plain_frames(&other, "x0");
        nat::ip(&other, "addr add 10.9.0.2/24 dev x0");
        nat::ip(&other, "route add default via 10.9.0.1");
        // Nobody is asked for it, so that the first frames come at once.
        nat::ip(&other, &format!("neigh add 10.9.0.1 lladdr {MAC} dev x0"));
        let flood = other.run(|| UdpSocket::bind("10.9.0.2:0")).expect("entered").expect("bound");
        let is_done = &is_done;
        scope.spawn(move || pour(&flood, is_done));
        ip(&net, "addr add 10.9.0.1/24 dev br9");
        ip(&net, "link set br9 up");
        wait_for_stages(&net, 1, "interface br9 is in generic mode");
        let blocked = net.dropped("match");
        wait_until("what br9 receives is judged", || net.dropped("match") > blocked);
        drop(finished);
    });
    // Thousands are blocked; the kernel may have sent some of its own accord.
    let leaked = arrived() - before;
    assert!(leaked < 20, "{leaked} have left");
    line.echo("in one stage");
}

/// Bulk transfers of both families, and a flood of what is blocked, whose port hears nothing.
#[test]
fn connections_outlast_all_that_happens_to_the_box() {
    let test = "connections_outlast_all_that_happens_to_the_box";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("outlast");
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
    }
    let forbidden = net.server.run(|| UdpSocket::bind((SERVER, 7002))).expect("entered");
    let forbidden = forbidden.expect("bound");
    forbidden.set_nonblocking(true).expect("set");
    let flood = net.client.run(|| UdpSocket::bind("10.1.0.2:0")).expect("entered").expect("bound");
    net.start(RULES);
    wait_for_stages(&net, 2, "");
    let (is_done, round_count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for host in [SERVER, SERVER, SERVER6] {
            let line = net.connect(host, 7001, PATIENCE).expect("passed");
            scope.spawn(|| transfer(line, &is_done, &round_count));
        }
        scope.spawn(|| pour(&flood, &is_done));
        let finished = Finish(&is_done);
        let pass_a_round = || {
            let before = round_count.load(Ordering::Relaxed);
            wait_until("data goes on", || round_count.load(Ordering::Relaxed) >= before + 6);
        };
        for stages in ["one", "two", "one", "two"] {
            net.reload(&RULES.replace("stages two", &format!("stages {stages}")));
            wait_for_stages(&net, if stages == "one" { 1 } else { 2 }, "");
            pass_a_round();
        }
        ip(&net, "route add 10.9.0.0/16 via 10.2.0.2");
        ip(&net, "neigh flush dev b1");
        pass_a_round();
        ip(&net, "link add b9 type veth peer name b8");
        ip(&net, "link set b9 up");
        pass_a_round();
        ip(&net, "link del b9");
        pass_a_round();
        net.kill_daemon();
        pass_a_round();
        net.start(RULES);
        assert_eq!(net.json("status")["adopted"], true);
        wait_for_stages(&net, 2, "");
        let before = staged_packets(&net);
        pass_a_round();
        assert!(staged_packets(&net) > before, "also those of the adopted programs");
        // What is refused changes nothing.
        let wrong = net.file("wrong.conf", "set weir-stages three\n");
        assert_exit(&net.run(&["pfctl", "-f", &wrong]), 1);
        assert!(net.json("stats")["drops"].to_string().contains("\"match\""), "it was blocked");
        drop(finished);
    });
    assert_eq!(net.dropped("state-mismatch"), 0, "{}", net.pfctl("-vvss"));
    let heard = forbidden.recv_from(&mut [0; 10]);
    assert!(heard.is_err(), "nothing blocked has come: {heard:?}");
    assert_exit(&net.run(&["fw", "stop"]), 0);
}

/// The first stage has seen the way of before; what the second one sends goes the new one.
#[test]
fn a_flow_in_two_stages_moves_with_its_route() {
    let test = "a_flow_in_two_stages_moves_with_its_route";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("moved");
    echo_server(&net.server, SERVER, 7001);
    net.add_second_way();
    net.start(RULES);
    wait_for_stages(&net, 2, "");
    let before = staged_packets(&net);
    moves_with_its_route(&net);
    let count = staged_packets(&net) - before;
    assert!(count > 10, "{count} in two stages: {}", net.json("status")["stages"]);
}

/// `weir fw stop` under load: the connections go on by the kernel's forwarding.
#[test]
fn stop_while_data_runs_leaves_the_kernel_to_forward() {
    let test = "stop_while_data_runs_leaves_the_kernel_to_forward";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("halt");
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
    }
    let link = |name: &str| ip(&net, &format!("-d link show dev {name}"));
    net.start(RULES);
    wait_for_stages(&net, 2, "");
    assert!(["b0", "b1"].iter().all(|name| link(name).contains("prog/xdp")), "{}", link("b0"));
    let (is_done, round_count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for host in [SERVER, SERVER, SERVER6] {
            let line = net.connect(host, 7001, PATIENCE).expect("passed");
            scope.spawn(|| transfer(line, &is_done, &round_count));
        }
        let finished = Finish(&is_done);
        let pass_a_round = || {
            let before = round_count.load(Ordering::Relaxed);
            wait_until("data goes on", || round_count.load(Ordering::Relaxed) >= before + 6);
        };
        pass_a_round();
        assert!(staged_packets(&net) > 0, "in two stages");
        assert_exit(&net.run(&["fw", "stop"]), 0);
        for name in ["b0", "b1"] {
            assert!(!link(name).contains("prog/xdp"), "{}", link(name));
        }
        pass_a_round();
        drop(finished);
    });
    assert_exit(&net.run(&["fw", "status"]), 1);
}

/// Sends bytes and reads them back, again and again.
fn transfer(mut line: Line, is_done: &AtomicBool, round_count: &AtomicU64) {
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    while !is_done.load(Ordering::Relaxed) {
        assert!(line.bulk(&bytes) == bytes, "what comes back was sent");
        round_count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends what no rule passes.
fn pour(flood: &UdpSocket, is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        for _ in 0..32 {
            // What has no room is not sent.
            drop(flood.send_to(b"blocked", (SERVER, 7002)));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Has the other threads end, also when a test fails.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
