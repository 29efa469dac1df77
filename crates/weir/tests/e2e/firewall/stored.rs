//! States in a file: a connection outlives the firewall that let it through.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;

use super::network::{Network, PATIENCE, ROUTER, SERVER, SERVER6, at, echo_server, wait_until};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

/// A connection needs its first packet, or a state.
const RULES: &str = "\
block drop all
pass in on b0 proto tcp to any port 7001 flags S/SA keep state
pass out on b1 proto tcp to any port 7001 flags S/SA keep state
pass proto icmp6
";

/// The connections that have states.
fn connections(net: &Network) -> Vec<String> {
    let shown = net.pfctl("-ss");
    let mut lines: Vec<String> =
        shown.lines().filter(|line| line.contains(" tcp ")).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Ends the firewall with all of its states, and starts another one.
fn renew(net: &Network, rules: &str) {
    assert_exit(&net.run(&["fw", "stop"]), 0);
    net.start(rules);
    assert_eq!(connections(net), Vec::<String>::new());
}

#[test]
fn connections_go_on_after_their_states_were_loaded() {
    let test = "connections_go_on_after_their_states_were_loaded";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("stored");
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
    }
    net.start(RULES);
    let mut lines = [SERVER, SERVER6].map(|host| net.connect(host, 7001, PATIENCE).expect("in"));
    for line in &mut lines {
        line.echo("before");
    }
    let before = connections(&net);
    assert_eq!(before.len(), 2, "{before:?}");
    let path = net.file("states", "what was there before");
    let said = net.pfctl(&format!("--store-states={path}"));
    assert!(said.contains(" states stored"), "{said}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    renew(&net, RULES);
    for line in &mut lines {
        let dropped = net.dropped("match");
        line.say("while nobody knows it");
        wait_until("it is dropped", || net.dropped("match") > dropped);
    }
    let said = net.pfctl(&format!("-L {path}"));
    assert!(said.contains(" states loaded"), "{said}");
    assert!(!said.contains("without their rule"), "{said}");
    assert_eq!(connections(&net), before);
    for line in &mut lines {
        assert_eq!(line.hear().trim_end(), "while nobody knows it", "sent once more");
        line.echo("and on");
    }
    let again = net.pfctl(&format!("-L {path}"));
    assert!(again.contains("present already"), "{again}");

    // Of a ruleset that has not these rules, they are the default rule's.
    renew(&net, "block drop all\npass proto icmp6\n");
    let said = net.pfctl(&format!("-L {path}"));
    assert!(said.contains("of them without their rule"), "{said}");
    for line in &mut lines {
        line.echo("without a rule");
    }
}

#[test]
fn translated_connections_go_on_after_their_states_were_loaded() {
    let test = "translated_connections_go_on_after_their_states_were_loaded";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("storednat");
    let rules = format!(
        "nat on b1 inet from 10.1.0.0/24 to any -> 10.2.0.1\n\
         rdr on b0 inet proto tcp from any to {ROUTER} port 8001 -> {SERVER} port 7001\n{RULES}"
    );
    echo_server(&net.server, SERVER, 7001);
    net.start(&rules);
    let mut lines = [(SERVER, 7001), (ROUTER, 8001)]
        .map(|(host, port)| net.connect(host, port, PATIENCE).expect("in"));
    for line in &mut lines {
        line.echo("before");
    }
    let before = connections(&net);
    let path = net.file("states", "");
    let said = net.pfctl(&format!("--store-states={path}"));
    assert!(!said.contains("left out"), "{said}");
    renew(&net, &rules);
    let said = net.pfctl(&format!("-L {path}"));
    assert!(!said.contains("left out") && !said.contains("without their rule"), "{said}");
    assert_eq!(connections(&net), before);
    for line in &mut lines {
        line.echo("and on");
    }
    let again = net.pfctl(&format!("-L {path}"));
    assert!(again.contains("present already"), "{again}");
}

/// A rule that keeps the state and translates counts it once.
#[test]
fn a_loaded_state_counts_once_for_a_rule_that_translates_it() {
    let test = "a_loaded_state_counts_once_for_a_rule_that_translates_it";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("storedonce");
    let rules = "block drop all\npass in on b0 inet proto tcp to any port 7001 keep state\n\
                 pass out on b1 inet proto tcp to any port 7001 nat-to 10.2.0.1 keep state\n";
    echo_server(&net.server, SERVER, 7001);
    net.start(rules);
    let mut lines = [(); 2].map(|()| net.connect(SERVER, 7001, PATIENCE).expect("in"));
    let counts = || {
        let shown = net.pfctl("-vsr");
        let counted = shown.lines().filter_map(|line| line.split("States: ").nth(1));
        counted.map(|rest| rest.trim_end_matches(" ]").trim().to_owned()).collect::<Vec<_>>()
    };
    let before = counts();
    assert_eq!(before, ["0", "2", "2"]);
    let path = net.file("states", "");
    net.pfctl(&format!("--store-states={path}"));
    net.pfctl("-F states");
    assert_eq!(counts(), ["0", "0", "0"]);
    net.pfctl(&format!("-L {path}"));
    assert_eq!(counts(), before);
    for line in &mut lines {
        line.echo("and on");
        line.finish();
    }
    net.pfctl("-F states");
    assert_eq!(counts(), ["0", "0", "0"]);
}

#[test]
fn a_file_with_an_error_changes_nothing() {
    let test = "a_file_with_an_error_changes_nothing";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("badfile");
    echo_server(&net.server, SERVER, 7001);
    net.start(RULES);
    net.connect(SERVER, 7001, PATIENCE).expect("passed").echo("once");
    let path = net.file("states", "");
    net.pfctl(&format!("--store-states={path}"));
    let good = fs::read(&path).unwrap();
    renew(&net, RULES);
    let refused = |bytes: &[u8], cause: &str| {
        fs::write(&path, bytes).unwrap();
        let output = net.run(&["pfctl", "-L", &path]);
        assert_exit(&output, 1);
        let said = stderr(&output);
        assert!(said.contains(&path) && said.contains(cause), "{said}");
        assert_eq!(connections(&net), Vec::<String>::new());
    };
    refused(b"block all\n", "byte 0: these are no states");
    refused(&good[..good.len() - 1], "it ends in the middle");
    refused(&good[..good.len() - 12], "it ends in the middle");
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() += 1;
    refused(&damaged, "it says that it has");
    // A small limit: what does not fit is counted.
    renew(&net, &format!("set limit states 1\n{RULES}"));
    net.connect(SERVER, 7001, PATIENCE).expect("passed").echo("the only one");
    fs::write(&path, &good).unwrap();
    let said = net.pfctl(&format!("-L {path}"));
    assert!(said.contains("left out: set limit states is reached"), "{said}");
}

#[test]
fn a_loaded_state_keeps_to_the_rate_of_its_rule() {
    let test = "a_loaded_state_keeps_to_the_rate_of_its_rule";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("rated");
    let rules = "block\npass out\npass in on b0 proto udp to port 7003 max-pkt-rate 20/3600\n";
    net.start(rules);
    let socket = net.client.run(|| UdpSocket::bind("0.0.0.0:0")).expect("entered").expect("bound");
    let send = || assert_eq!(socket.send_to(b"one", at(SERVER, 7003)).expect("sent"), 3);
    let has_state = || net.pfctl("-ss").contains(":7003");
    wait_until("there is a state", || {
        send();
        has_state()
    });
    let path = net.file("states", "");
    net.pfctl(&format!("--store-states={path}"));
    renew(&net, rules);
    assert!(!has_state());
    net.pfctl(&format!("-L {path}"));
    assert!(has_state());
    assert_eq!(net.dropped("pkt-rate"), 0);
    (0..30).for_each(|_| send());
    wait_until("what is too much is dropped", || net.dropped("pkt-rate") == 10);
}
