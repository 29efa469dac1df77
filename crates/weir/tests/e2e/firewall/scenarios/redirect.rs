//! Destinations become others: `rdr`, `rdr pass`, `no rdr`, `rdr-to`.

use super::{CLIENT, connect_as, set};
use crate::common::can_run_lab;
use crate::turns::beside;

use super::super::nat::{datagrams, ip, seen_of_datagram, who_datagrams, who_server};
use super::super::network::{
    Network, PATIENCE, ROUTER, ROUTER6, SERVER, SERVER6, echo_server, wait_until,
};

/// `rdr pass` asks no rule of the filter.
#[test]
fn what_is_redirected_and_passed_is_not_filtered() {
    let test = "what_is_redirected_and_passed_is_not_filtered";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-rdrpass");
    for host in [SERVER, ROUTER] {
        who_datagrams(if host == SERVER { &net.server } else { &net.router }, host, 80);
    }
    let rules = "rdr pass on b0 proto udp from any to 10.1.0.1 port 80 -> 10.2.0.2\n\
                 nat on b0 inet from 10.2.0.0/24 to any -> 10.1.0.1\n\
                 block in proto udp from any to any port 80\npass in proto icmp\n";
    net.start(rules);
    let socket = datagrams(&net.client, "10.1.0.2:5000", ROUTER, 80);
    assert_eq!(seen_of_datagram(&socket, 40).to_string(), "10.1.0.2:5000");
    // Without `pass` the filter is asked.
    net.pfctl("-F states");
    net.reload(&rules.replace("rdr pass", "rdr"));
    let before = net.dropped("match");
    socket.send(b"blocked").expect("sent");
    wait_until("it is blocked", || net.dropped("match") > before);
}

/// Checksums are right on both ways: the hosts would take no segment else.
#[test]
fn connections_over_ipv6_are_redirected() {
    let test = "connections_over_ipv6_are_redirected";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-rdr6");
    echo_server(&net.server, SERVER6, 8000);
    net.start("pass\n");
    for rules in [
        "rdr on b0 proto tcp from any to any port 80 -> fd02::2 port 8000\n",
        "pass in on b0 inet6 proto tcp from any to any port 80 rdr-to fd02::2 port 8000\n",
    ] {
        net.reload(rules);
        for (host, port) in [(SERVER6, 8000), (ROUTER6, 80), ("2001:db8::77", 80)] {
            let mut line = net.connect(host, port, PATIENCE).expect("passed");
            line.bounce(300_000, host);
        }
    }
    assert_eq!(net.dropped("state-mismatch"), 0);
}

/// One client that calls three addresses from one port, all of which are one server's: pf gives the
/// later ones other ports, weir drops them.
#[test]
fn two_connections_that_would_be_one_are_not_made() {
    let test = "two_connections_that_would_be_one_are_not_made";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-same");
    for address in ["10.1.0.4/24", "10.1.0.5/24"] {
        ip(&net.router, &format!("address add {address} dev b0"));
    }
    who_server(&net.server, SERVER, 8888);
    net.start("pass\n");
    for (from_port, rules) in [
        (1234, "rdr on b0 inet proto tcp from any to b0 port 7777 -> 10.2.0.2 port 8888\n"),
        (1244, "pass in on b0 inet proto tcp to b0 port 7777 rdr-to 10.2.0.2 port 8888\n"),
    ] {
        net.reload(rules);
        let local = format!("{CLIENT}:{from_port}");
        let mut line = connect_as(&net.client, &local, ROUTER, 7777, true).expect("passed");
        assert_eq!(line.hear(), local);
        for host in ["10.1.0.4", "10.1.0.5"] {
            let before = net.dropped("state-insert");
            let other = connect_as(&net.client, &local, host, 7777, false);
            assert!(other.is_none(), "{rules}: {host}");
            assert!(net.dropped("state-insert") > before, "{rules}: {host}");
        }
        // From another port it is another connection.
        let other = format!("{CLIENT}:{}", from_port + 1);
        let mut line = connect_as(&net.client, &other, "10.1.0.4", 7777, true).expect("passed");
        assert_eq!(line.hear(), other);
    }
}

/// Who is in a table is not redirected.
#[test]
fn exceptions_from_a_redirection_are_in_a_table() {
    let test = "exceptions_from_a_redirection_are_in_a_table";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-nordr");
    ip(&net.client, "address add 10.1.0.3/24 dev c0");
    set(&net.router, "net.ipv4.conf.b0.route_localnet", "1");
    who_server(&net.router, "127.0.0.1", 2500);
    net.start(
        "table <white> { 10.1.0.2 }\nno rdr inet proto tcp from <white> to any port 25\n\
         rdr pass inet proto tcp from any to any port 25 -> 127.0.0.1 port 2500\n",
    );
    let mut line = connect_as(&net.client, "10.1.0.3:0", ROUTER, 25, true).expect("redirected");
    assert!(line.hear().starts_with("10.1.0.3:"));
    let white = connect_as(&net.client, "10.1.0.2:0", ROUTER, 25, false);
    assert!(white.is_none(), "nobody listens there");
}
