//! How much one source may: its entry, its states, its connections; and interfaces that have one
//! name in two namespaces.

use super::{assert_answered, connect_as, has_ping};
use crate::common::{assert_exit, can_run_lab};
use crate::turns::beside;

use super::super::nat::ip;
use super::super::network::{
    IMPATIENCE, Line, Network, PATIENCE, ROUTER, SERVER, SERVER6, echo_server, wait_until,
};

/// Two sources of the client's network.
pub(super) const ONE: &str = "fd01::2";
pub(super) const OTHER: &str = "fd01::3";

#[test]
fn sources_are_tracked_without_a_limit() {
    let test = "sources_are_tracked_without_a_limit";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-track");
    if !has_ping(test, &net.client) {
        return;
    }
    ip(&net.client, "address add 10.1.0.3/24 dev c0");
    net.start("pass in keep state (source-track)\npass out keep state (source-track)\n");
    for source in ["10.1.0.2", "10.1.0.3"] {
        assert_answered(&net.client, &["-I", source, ROUTER]);
    }
    let is_shown = |source: &str| {
        let line = format!("{source} -> 0.0.0.0 ( states 1,");
        net.pfctl("-sS").lines().any(|shown| shown.starts_with(&line))
    };
    assert!(is_shown("10.1.0.2") && is_shown("10.1.0.3"), "{}", net.pfctl("-sS"));
    net.pfctl("-K 10.1.0.2");
    assert!(!is_shown("10.1.0.2") && is_shown("10.1.0.3"), "{}", net.pfctl("-sS"));
    net.pfctl("-FS");
    assert!(!is_shown("10.1.0.3"), "{}", net.pfctl("-sS"));
    let states = net.pfctl("-ss");
    for source in ["10.1.0.2", "10.1.0.3"] {
        let start = format!("all icmp 10.1.0.1:8 <- {source}:");
        assert!(states.lines().any(|line| line.starts_with(&start)), "{states}");
    }
}

/// A network whose client has two addresses.
pub(super) fn two_sources(tag: &str) -> Network {
    let net = Network::new(tag);
    ip(&net.client, &format!("address add {OTHER}/64 dev c0 nodad"));
    echo_server(&net.server, SERVER6, 7001);
    net
}

/// A connection from a source and port, that comes about or does not.
#[track_caller]
pub(super) fn call(net: &Network, source: &str, port: u16, is_expected: bool) -> Option<Line> {
    let local = format!("[{source}]:{port}");
    let line = connect_as(&net.client, &local, SERVER6, 7001, is_expected);
    assert_eq!(line.is_some(), is_expected, "{local}");
    line.map(|mut line| {
        line.echo("hello");
        line
    })
}

const START: &str = "block\npass inet6 proto icmp6 no state\npass out on b1 keep state\n";

#[test]
fn a_source_has_so_many_states_of_each_rule() {
    let test = "a_source_has_so_many_states_of_each_rule";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = two_sources("sc-perrule");
    let rules = |track: &str| {
        let rule = |ports: &str| {
            format!(
                "pass in on b0 inet6 proto tcp from port {ports} \
                 keep state (max-src-states 3 source-track {track}) label rule_{ports}\n"
            )
        };
        format!("{START}{}{}", rule("4210:4219"), rule("4220:4229"))
    };
    net.start(&rules("rule"));
    let mut lines = Vec::new();
    for (source, ports, full) in
        [(ONE, 4211..4214, 4214), (ONE, 4221..4224, 4224), (OTHER, 4225..4228, 4228)]
    {
        lines.extend(ports.map(|port| call(&net, source, port, true)));
        call(&net, source, full, false);
    }
    let shown = net.pfctl("-vsS");
    let count = |source: &str| {
        let start = format!("{source} -> :: ( states 3, connections 3,");
        shown.lines().filter(|line| line.starts_with(&start)).count()
    };
    assert_eq!((count(ONE), count(OTHER)), (2, 1), "{shown}");

    // The same counted over both rules.
    drop(lines);
    net.pfctl("-F states");
    net.pfctl("-F Sources");
    net.reload(&rules("global"));
    let lines: Vec<_> = (4215..4218).map(|port| call(&net, ONE, port, true)).collect();
    for port in [4218, 4229] {
        call(&net, ONE, port, false);
    }
    call(&net, OTHER, 4219, true);
    let shown = net.pfctl("-sS");
    let start = format!("{ONE} -> :: ( states 3, connections 3,");
    assert_eq!(shown.lines().filter(|line| line.starts_with(&start)).count(), 1, "{shown}");
    drop(lines);
}

/// A connection counts once its handshake is over: the one too many then ends.
#[test]
fn a_source_has_so_many_connections() {
    let test = "a_source_has_so_many_connections";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = two_sources("sc-conns");
    net.start(&format!(
        "table <bad_hosts> persist\n{START}pass in on b0 inet6 proto tcp \
         keep state (max-src-conn 3 source-track rule overload <bad_hosts>)\n"
    ));
    let mut lines: Vec<_> = (4201..4204).map(|port| call(&net, ONE, port, true)).collect();
    // To the client it may look as if it stood.
    drop(connect_as(&net.client, &format!("[{ONE}]:4204"), SERVER6, 7001, false));
    lines.push(call(&net, OTHER, 4205, true));
    wait_until("the source is in the table", || {
        net.run(&["pfctl", "-t", "bad_hosts", "-T", "test", ONE]).status.code() == Some(0)
    });
    assert_exit(&net.run(&["pfctl", "-t", "bad_hosts", "-T", "test", OTHER]), 2);
    let states = net.pfctl("-ss");
    let of = |end: &str| states.lines().find(|line| line.contains(end)).unwrap_or_default();
    for (source, port) in [(ONE, 4201), (ONE, 4202), (ONE, 4203), (OTHER, 4205)] {
        let state = of(&format!("{source}[{port}]"));
        assert!(state.contains("ESTABLISHED:ESTABLISHED"), "{port}: {states}");
    }
    assert!(!of(&format!("{ONE}[4204]")).contains("ESTABLISHED:ESTABLISHED"), "{states}");
    lines.iter_mut().flatten().for_each(|line| line.echo("they go on"));
}

#[test]
fn a_rule_has_so_many_states() {
    let test = "a_rule_has_so_many_states";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = two_sources("sc-max");
    net.start(&format!("{START}pass in on b0 inet6 proto tcp keep state (max 3)\n"));
    let lines: Vec<_> = (4201..4204).map(|port| call(&net, ONE, port, true)).collect();
    call(&net, OTHER, 4204, false);
    drop(lines);
}

/// Two interfaces of one name, each filtered in its namespace; one goes with its namespace.
#[test]
fn one_name_in_two_namespaces_is_two_interfaces() {
    let test = "one_name_in_two_namespaces_is_two_interfaces";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let (net, other) = (Network::new("sc-name1"), Network::new("sc-name2"));
    for net in [&net, &other] {
        for (netns, name) in [(&net.router, "b0"), (&net.client, "c0")] {
            ip(netns, &format!("link set {name} down"));
            ip(netns, &format!("link set {name} name foo"));
            ip(netns, "link set foo up");
        }
        ip(&net.client, "route replace default via 10.1.0.1 dev foo");
        for port in [7001, 7002] {
            echo_server(&net.server, SERVER, port);
        }
    }
    net.start("pass\nblock return in on foo proto tcp to any port 7001\n");
    other.start("pass\nblock return in on foo proto tcp to any port 7002\n");
    let is_open = |net: &Network, port| net.connect(SERVER, port, IMPATIENCE).is_some();
    net.connect(SERVER, 7002, PATIENCE).expect("passed").echo("by the one");
    other.connect(SERVER, 7001, PATIENCE).expect("passed").echo("by the other");
    assert!(!is_open(&net, 7001) && !is_open(&other, 7002));
    drop(other);
    net.connect(SERVER, 7002, PATIENCE).expect("passed").echo("still");
    assert!(!is_open(&net, 7001), "still");
}
