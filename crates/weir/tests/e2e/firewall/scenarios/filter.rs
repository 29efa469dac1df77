//! What is passed and what is blocked, of packets for the box and of packets through it.

use std::net::UdpSocket;

use weir_net::{Netlink, Netns};

use super::{
    CLIENT, assert_answered, assert_ping, assert_silent, fill_anchor, has_ping, pin_neighbours, set,
};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

use super::super::nat::ip;
use super::super::network::{
    IMPATIENCE, Network, PATIENCE, ROUTER, ROUTER6, SERVER, SERVER6, echo_server,
};

/// Each ruleset, and which of the hosts a ping reaches under it.
#[track_caller]
fn assert_pings(net: &Network, hosts: &[&str], cases: &[(&str, &[bool])]) {
    for (rules, expected) in cases {
        net.reload(rules);
        for (host, is_expected) in hosts.iter().zip(*expected) {
            assert_ping(*is_expected, &net.client, &[host]);
        }
    }
}

#[test]
fn what_is_on_is_not_switched_on_again() {
    let test = "what_is_on_is_not_switched_on_again";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-onoff");
    net.start("pass\n");
    for (word, code) in [("-e", 1), ("-d", 0), ("-d", 1), ("-e", 0), ("-e", 1)] {
        assert_exit(&net.run(&["pfctl", word]), code);
    }
}

#[test]
fn a_ping_of_the_box_needs_a_rule_of_its_family() {
    let test = "a_ping_of_the_box_needs_a_rule_of_its_family";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-ping");
    if !has_ping(test, &net.client) {
        return;
    }
    pin_neighbours(&net);
    let hosts = [ROUTER, ROUTER6];
    for host in hosts {
        assert_answered(&net.client, &[host]);
    }
    // Without a rule all is passed.
    net.start("\n");
    assert_pings(
        &net,
        &hosts,
        &[
            ("\n", &[true, true]),
            ("block in\n", &[false, false]),
            ("block in\npass in proto icmp\n", &[true, false]),
            ("block in\npass in proto icmp6\n", &[false, true]),
            // An address in a list with `any` is no narrower.
            ("block\npass in inet from { any, 10.1.0.77 }\n", &[true, false]),
            (
                "block in\nanchor \"an1\" {\npass in quick proto tcp to port time\n\
                 anchor \"an2\" {\npass in quick proto icmp\n}\n}\n",
                &[true, false],
            ),
        ],
    );
}

#[test]
fn a_ping_through_the_box_needs_both_ways() {
    let test = "a_ping_through_the_box_needs_both_ways";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-fwd");
    if !has_ping(test, &net.client) {
        return;
    }
    pin_neighbours(&net);
    net.start("pass\n");
    assert_pings(
        &net,
        &[SERVER, SERVER6],
        &[
            ("pass\n", &[true, true]),
            ("block in\n", &[false, false]),
            ("block out\n", &[false, false]),
            ("block in\npass in proto icmp\n", &[true, false]),
            ("block in inet6 proto icmp6 icmp6-type echoreq\n", &[true, false]),
            ("block out inet6 proto icmp6 icmp6-type echoreq\n", &[true, false]),
            ("block out\npass out inet6 proto icmp6\n", &[false, true]),
            (
                "block out inet6 proto icmp6 icmp6-type echoreq\npass in proto icmp\n",
                &[true, false],
            ),
        ],
    );
}

/// The link-local address of an interface.
fn link_local(netns: &Netns, name: &str) -> String {
    let addresses = || Netlink::open().expect("netlink").addresses(name).expect("listed");
    let all = netns.run(addresses).expect("entered");
    let mut texts = all.iter().map(|prefix| prefix.address().to_string());
    texts.find(|text| text.starts_with("fe80:")).expect("it has one")
}

/// `(b0:0)` is the first address of each family, and not the link-local one.
#[test]
fn an_interface_without_aliases_has_no_link_local_address() {
    let test = "an_interface_without_aliases_has_no_link_local_address";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-alias");
    if !has_ping(test, &net.client) {
        return;
    }
    pin_neighbours(&net);
    let local = format!("{}%c0", link_local(&net.router, "b0"));
    net.start("pass\n");
    for host in [ROUTER6, &local] {
        assert_answered(&net.client, &[host]);
    }
    net.reload("block out inet6 from (b0:0) to any\n");
    assert_silent(&net.client, &[ROUTER6]);
    assert_answered(&net.client, &[&local]);
    net.reload("block out inet6 from (b0) to any\n");
    assert_silent(&net.client, &[&local]);
}

/// Whose source leads elsewhere than where the packet came in.
#[test]
fn a_source_that_is_elsewhere_fails_the_reverse_path() {
    let test = "a_source_that_is_elsewhere_fails_the_reverse_path";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-urpf");
    for key in ["all", "b0", "b1"] {
        set(&net.router, &format!("net.ipv4.conf.{key}.rp_filter"), "0");
    }
    // Each has the other's address, too.
    ip(&net.client, &format!("address add {SERVER}/32 dev lo"));
    ip(&net.server, &format!("address add {CLIENT}/32 dev lo"));
    let listener = net.router.run(|| UdpSocket::bind("0.0.0.0:7777")).expect("entered");
    let listener = listener.expect("bound");
    listener.set_read_timeout(Some(PATIENCE)).expect("set");
    let send = |from: &Netns, local: &str, host: &str, word: &str| {
        let socket = from.run(|| UdpSocket::bind((local, 0)).expect("bound")).expect("entered");
        socket.send_to(word.as_bytes(), (host, 7777)).expect("sent");
    };
    let heard = || {
        let mut bytes = [0; 99];
        let (size, from) = listener.recv_from(&mut bytes).expect("it comes");
        (String::from_utf8_lossy(&bytes[..size]).into_owned(), from.ip().to_string())
    };
    let said = |word: &str, address: &str| (word.to_owned(), address.to_owned());
    let far = "10.2.0.1";
    net.start("pass\n");
    send(&net.client, SERVER, ROUTER, "false");
    assert_eq!(heard(), said("false", SERVER));
    send(&net.server, CLIENT, far, "false");
    assert_eq!(heard(), said("false", CLIENT));

    net.reload("block quick from urpf-failed\nset skip on lo\n");
    let before = net.dropped("match");
    // Of one sender packets come in order.
    for (from, other, address, host) in
        [(&net.client, SERVER, CLIENT, ROUTER), (&net.server, CLIENT, SERVER, far)]
    {
        send(from, other, host, "false");
        send(from, address, host, "true");
        assert_eq!(heard(), said("true", address));
    }
    assert!(net.dropped("match") >= before + 2);
}

#[test]
fn where_a_packet_came_in_is_known_where_it_leaves() {
    let test = "where_a_packet_came_in_is_known_where_it_leaves";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-recv");
    if !has_ping(test, &net.client) {
        return;
    }
    pin_neighbours(&net);
    // The group of the interface with the default route.
    ip(&net.router, "route add default via 10.1.0.2 dev b0");
    net.start("pass\n");
    for rules in ["block in\npass received-on b0\n", "block in\npass received-on egress\n"] {
        net.reload(rules);
        assert_answered(&net.client, &[ROUTER]);
        assert_answered(&net.client, &[SERVER]);
        assert_silent(&net.server, &["10.2.0.1"]);
        assert_silent(&net.server, &[CLIENT]);
    }
    net.reload("pass in\nblock out\npass out received-on b0\n");
    assert_answered(&net.client, &[SERVER]);
    assert_silent(&net.server, &[CLIENT]);
}

/// `quick` behind an anchor's name: what matches in it is decided there.
#[test]
fn a_quick_anchor_ends_the_evaluation() {
    let test = "a_quick_anchor_ends_the_evaluation";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-quick");
    for port in [7001, 7002] {
        echo_server(&net.server, SERVER, port);
    }
    net.start("pass\n");
    let passes = |port: u16, is_expected: bool| {
        let timeout = if is_expected { PATIENCE } else { IMPATIENCE };
        assert_eq!(net.connect(SERVER, port, timeout).is_some(), is_expected, "{port}");
    };
    let quick = "pass\nanchor \"a\" in quick on b0 {\npass proto tcp to port 7001\n}\n\
                 block in on b0 proto tcp\n";
    net.reload_as("openbsd", quick);
    passes(7001, true);
    passes(7002, false);
    net.reload_as("openbsd", &quick.replace(" quick", ""));
    passes(7001, false);
}

/// Anchors within anchors, called by the path from where the call stands or from the root; one that
/// calls itself, also by way of another, ends.
#[test]
fn anchors_are_called_by_their_paths() {
    let test = "anchors_are_called_by_their_paths";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-path");
    for port in [7001, 7002, 7003, 7004] {
        echo_server(&net.server, SERVER, port);
    }
    let block = |port: u16| format!("block in quick on b0 proto tcp to port {port}\n");
    net.start("pass\nanchor \"regress\"\n");
    fill_anchor(&net, "regress/near", &block(7001));
    fill_anchor(&net, "far/away", &block(7002));
    fill_anchor(&net, "regress/deep/er", &block(7003));
    for (text, closed) in [
        ("anchor \"near\"\n", &[7001][..]),
        ("anchor \"../far/away\"\n", &[7002]),
        ("anchor \"/far/away\"\n", &[7002]),
        ("anchor \"deep/er\"\n", &[7003]),
        ("anchor \"near\"\nanchor \"/far/away\"\nanchor \"deep/*\"\n", &[7001, 7002, 7003]),
    ] {
        fill_anchor(&net, "regress", text);
        for port in [7001, 7002, 7003, 7004] {
            let is_closed = closed.contains(&port);
            let timeout = if is_closed { IMPATIENCE } else { PATIENCE };
            let is_open = net.connect(SERVER, port, timeout).is_some();
            assert_eq!(is_open, !is_closed, "{text}: {port}");
        }
    }
}

/// One that calls itself, by its path from the root or from where the call stands, or by way of
/// another, is refused; what ran before stays.
#[test]
fn anchors_that_call_themselves_are_refused() {
    let test = "anchors_that_call_themselves_are_refused";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-loop");
    for port in [7001, 7002] {
        echo_server(&net.server, SERVER, port);
    }
    net.start("pass\nanchor \"regress\"\n");
    let block = "block in quick on b0 proto tcp to port 7001\n";
    fill_anchor(&net, "regress/inner", block);
    fill_anchor(&net, "regress", "anchor \"inner\"\n");
    for (anchor, call) in [
        ("regress", "anchor \"/regress\"\n"),
        ("regress", "anchor \"../regress\"\n"),
        ("regress/inner", "anchor \"/regress\"\n"),
    ] {
        let path = net.file("loop.conf", call);
        let output = net.run(&["pfctl", "-a", anchor, "-f", &path]);
        assert_exit(&output, 1);
        assert!(stderr(&output).contains("contains itself"), "{call}: {}", stderr(&output));
        assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "{anchor}: {call}");
        net.connect(SERVER, 7002, PATIENCE).expect("passed").echo("nothing hangs");
    }
    let whole = "pass\nanchor \"a\" {\nanchor \"/a\"\n}\n";
    assert!(super::refusal(&net, whole).contains("contains itself"));
}
