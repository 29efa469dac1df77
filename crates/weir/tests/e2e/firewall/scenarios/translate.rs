//! Sources get other addresses: `nat`, `nat-to`, `binat`, and pools in which there is nobody.

use super::{CLIENT, assert_answered, assert_silent, connect_as, has_ping};
use crate::common::can_run_lab;
use crate::turns::beside;

use super::super::nat::{ip, network, seen, who_server};
use super::super::network::{Network, PATIENCE, SERVER, SERVER6, connect_from};

/// The box as the server sees it.
const OUTSIDE: &str = "10.2.0.1";
const OUTSIDE6: &str = "fd02::1";

#[test]
fn an_interface_gives_no_link_local_address_to_a_pool() {
    let test = "an_interface_gives_no_link_local_address_to_a_pool";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("sc-nolink");
    if !has_ping(test, &net.client) {
        return;
    }
    who_server(&net.server, SERVER6, 7001);
    net.start("nat pass on b1 inet6 from fd01::/64 to any -> (b1)\npass\n");
    for _ in 0..8 {
        assert_answered(&net.client, &[SERVER6]);
        assert_eq!(seen(&net.client, SERVER6, 7001).ip().to_string(), OUTSIDE6);
    }
    assert_eq!(net.dropped("map-failed"), 0);
}

/// A pool without an address: nobody is translated and nothing else suffers.
#[test]
fn a_pool_without_addresses_gives_nobody_one() {
    let test = "a_pool_without_addresses_gives_nobody_one";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("sc-nobody");
    if !has_ping(test, &net.client) {
        return;
    }
    // It has no address, and will have none.
    ip(&net.router, "link add d9 type veth peer name d8");
    ip(&net.router, "link set d9 addrgenmode none");
    who_server(&net.server, SERVER, 7001);
    net.start("pass\n");
    let mut failed = 0;
    for (dialect, rules) in [
        ("freebsd", "table <e>\nnat on b1 inet from 10.1.0.0/24 to any -> <e>\npass\n"),
        ("freebsd", "nat on b1 inet from 10.1.0.0/24 to any -> (d9) source-hash\npass\n"),
        ("freebsd", "nat on b1 inet from 10.1.0.0/24 to any -> (d9) random\npass\n"),
        ("openbsd", "pass\npass out on b1 inet from 10.1.0.0/24 nat-to <none> source-hash\n"),
        ("openbsd", "pass\npass out on b1 inet from 10.1.0.0/24 nat-to <none> random\n"),
        ("openbsd", "pass\npass out on b1 inet from 10.1.0.0/24 to 10.2.0.2 nat-to <none>\n"),
    ] {
        net.reload_as(dialect, rules);
        assert_answered(&net.router, &[SERVER]);
        assert_silent(&net.client, &[SERVER]);
        let now = net.dropped("map-failed");
        assert!(now > failed, "{rules}");
        failed = now;
        let who = connect_from(&net.router, SERVER, 7001, PATIENCE).expect("passed").hear();
        assert!(who.starts_with(OUTSIDE), "{who}");
    }
}

/// Where rules pass and translate at once, and where one translates for those below it.
#[test]
fn rules_of_the_filter_translate() {
    let test = "rules_of_the_filter_translate";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("sc-natto");
    who_server(&net.server, SERVER, 7001);
    let start = "block\npass proto icmp6\npass in on b0 inet proto tcp keep state\n";
    net.start(start);
    for rules in [
        "pass out on b1 inet proto tcp nat-to b1 keep state\n",
        "pass out on b1 inet proto tcp nat-to (b1) keep state\n",
        // What is below sees the new address.
        "match out on b1 inet proto tcp nat-to b1\n\
         pass out on b1 inet proto tcp from b1 keep state\n",
    ] {
        for dialect in ["freebsd", "openbsd"] {
            net.reload_as(dialect, &format!("{start}{rules}"));
            assert_eq!(seen(&net.client, SERVER, 7001).ip().to_string(), OUTSIDE, "{rules}");
        }
    }
    assert!(super::refusal(&net, "pass in on b0 inet proto tcp nat-to 203.0.113.0\n").contains(
        "`nat-to in a rule that is not out, rdr-to in one that is not in`: sources are translated \
         where packets leave"
    ));
}

/// One host that has the box's address outside: as it calls, and as it is called; its rules know
/// each other's packets by a tag.
fn binat(net: &Network, ports: [u16; 2], rules: &str) {
    net.reload(rules);
    let [one, other] = ports;
    let local = format!("{CLIENT}:{one}");
    let mut line = connect_as(&net.client, &local, SERVER, 7001, true).expect("passed");
    assert_eq!(line.hear(), format!("{OUTSIDE}:{one}"), "{rules}: it keeps its port");
    let caller = format!("{SERVER}:{other}");
    let mut line = connect_as(&net.server, &caller, OUTSIDE, 9, true).expect("passed");
    assert_eq!(line.hear(), caller, "{rules}: it sees who calls");
    let states = net.pfctl("-ss");
    for part in [
        format!("{OUTSIDE}:{one} ({CLIENT}:{one}) -> {SERVER}:7001"),
        format!("{CLIENT}:9 ({OUTSIDE}:9) <- {SERVER}:{other}"),
    ] {
        assert!(states.contains(&part), "{rules}: {part}: {states}");
    }
    net.pfctl("-F states");
}

#[test]
fn one_host_is_both_ways_the_address_outside() {
    let test = "one_host_is_both_ways_the_address_outside";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("sc-binat");
    who_server(&net.server, SERVER, 7001);
    who_server(&net.client, CLIENT, 9);
    net.start("pass\n");
    let filter = "pass in on b0 inet proto tcp !tagged sometag keep state\n\
                  pass out on b1 inet proto tcp tagged sometag keep state\n\
                  pass in on b1 inet proto tcp tagged sometag keep state\n\
                  pass out on b0 inet proto tcp tagged sometag keep state\n";
    let settings = "set state-policy if-bound\nset ruleset-optimization none\n";
    binat(
        &net,
        [4201, 4202],
        &format!(
            "{settings}binat on b1 inet proto tcp from 10.1.0.2 to any tag sometag -> b1\n\
             block\n{filter}"
        ),
    );
    binat(
        &net,
        [4203, 4204],
        &format!(
            "{settings}block\nmatch on b1 inet proto tcp from 10.1.0.2 to any tag sometag \
             binat-to b1\n{filter}"
        ),
    );
}
