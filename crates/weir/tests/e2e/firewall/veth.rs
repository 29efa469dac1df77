//! What a veth's peer has switched on or off, which a firewall on a veth has to live with.

use weir_net::Netns;

use super::RULES;
use super::network::{IMPATIENCE, Network, PATIENCE, SERVER, echo_server, pattern, wait_until};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

/// Switches offloads of an interface: `gro off`.
fn switch(netns: &Netns, name: &str, words: &str) {
    let mut command = std::process::Command::new("ip");
    command.args(["netns", "exec", netns.name(), "ethtool", "-K", name]);
    assert_exit(&command.args(words.split(' ')).output().expect("ip runs"), 0);
}

/// What the status says of an interface.
fn of_interface(net: &Network, name: &str, key: &str) -> serde_json::Value {
    let status = net.json("status");
    let interfaces = status["interfaces"].as_array().expect("a list");
    interfaces.iter().find(|interface| interface["name"] == name).expect("it is there")[key].clone()
}

#[test]
fn answers_that_a_veth_would_lose_are_not_counted_as_made() {
    let test = "answers_that_a_veth_would_lose_are_not_counted_as_made";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("deaf");
    switch(&net.client, "c0", "gro off");
    let path = net.file("pf.conf", RULES);
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 0);
    let message = stderr(&output);
    assert!(message.contains("interface b0: its peer takes no frames from XDP"), "{message}");
    assert!(message.contains("gro on") && !message.contains("interface b1"), "{message}");
    let counted = |key: &str| net.json("stats")[key].as_u64().expect("a count");
    let made = counted("replies_packets");
    assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "blocked");
    assert!(counted("unanswered_packets") >= 1, "nobody hears the answer");
    assert_eq!(counted("replies_packets"), made);
    // Heeding the advice.
    switch(&net.client, "c0", "gro on");
    wait_until("it is seen", || of_interface(&net, "b0", "takes_redirected") == true);
    assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "blocked");
    assert!(counted("replies_packets") > made, "answered");
}

#[test]
fn what_has_no_checksum_yet_goes_by_the_kernel() {
    let test = "what_has_no_checksum_yet_goes_by_the_kernel";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sum");
    // As interfaces are made.
    for (netns, name) in [(&net.client, "c0"), (&net.server, "s0")] {
        switch(netns, name, "gro on tx on");
    }
    echo_server(&net.server, SERVER, 7001);
    net.start(RULES);
    assert_eq!(of_interface(&net, "b0", "takes_redirected"), true);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    let bytes = pattern(3_000_000);
    assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
    wait_until("it is seen", || of_interface(&net, "b0", "peer_leaves_checksums") == true);
    let counted = |key: &str| net.json("stats")[key].as_u64().expect("a count");
    assert!(counted("to_kernel_packets") > 100, "{}", net.json("stats"));
    assert_eq!(net.dropped("state-mismatch"), 0);
    let made = counted("replies_packets");
    assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "blocked");
    assert!(counted("replies_packets") > made, "and answered");
    // Heeding the advice: XDP forwards again.
    for (netns, name) in [(&net.client, "c0"), (&net.server, "s0")] {
        switch(netns, name, "tx off");
    }
    let before = counted("forwarded_packets");
    assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
    assert!(counted("forwarded_packets") - before > 100, "{}", net.json("stats"));
}
