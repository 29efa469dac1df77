//! `route-to` and `reply-to`: states that are bound to an interface, TTL, and ICMP errors about
//! what is translated on its way to a gateway.

use weir_net::Netns;

use super::{assert_answered, assert_silent, connect_as, has_ping, ping};
use crate::common::can_run_lab;
use crate::turns::beside;

use super::super::nat::{ip, who_server};
use super::super::network::{Network, PATIENCE, connect_from, echo_server};
use super::super::uplinks::{Site, WORLD};

/// Hosts that are behind the second uplink alone.
const FAR: &str = "203.0.113.10";
const FAR6: &str = "2001:db8:9::10";

/// A box with two uplinks; `None` if there is no `ping`.
fn site(test: &str, tag: &str) -> Option<Site> {
    let site = Site::new(tag, true);
    if !has_ping(test, &site.net.client) {
        return None;
    }
    ip(&site.second, &format!("address add {FAR}/32 dev lo"));
    ip(&site.second, &format!("address add {FAR6}/128 dev lo"));
    Some(site)
}

/// A state is bound to the interface by which its packets really go.
#[test]
fn states_are_bound_to_the_interface_of_their_gateway() {
    let test = "states_are_bound_to_the_interface_of_their_gateway";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Some(site) = site(test, "sc-bound") else { return };
    let Site { net, second } = &site;
    let rules = "set state-policy if-bound\nblock\n\
                 pass inet6 proto icmp6 icmp6-type { neighbrsol, neighbradv }\n\
                 pass out route-to (b2 10.3.0.2) inet\npass out route-to (b2 fd03::2) inet6\n";
    net.start(rules);
    for host in [FAR, FAR6] {
        assert_answered(&net.router, &["-c", "3", "-i", "0.2", host]);
    }
    // The same in answers to somebody whom the routes would look for elsewhere.
    net.reload(
        "set state-policy if-bound\nblock\n\
         pass quick inet6 proto icmp6 icmp6-type { neighbrsol, neighbradv }\n\
         pass in on b2 reply-to (b2 10.3.0.2) inet from any to 10.3.0.0/24 keep state\n\
         pass in on b2 reply-to (b2 fd03::2) inet6 from any to fd03::/64 keep state\n",
    );
    for (world, host) in
        [("10.3.0.2", "10.3.0.1"), (FAR, "10.3.0.1"), ("fd03::2", "fd03::1"), (FAR6, "fd03::1")]
    {
        assert_answered(second, &["-c", "3", "-i", "0.2", "-I", world, host]);
    }
}

#[test]
fn a_gateway_does_not_stop_the_ttl() {
    let test = "a_gateway_does_not_stop_the_ttl";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Some(site) = site(test, "sc-ttl") else { return };
    let Site { net, .. } = &site;
    net.start(
        "pass out\npass in route-to (b2 10.3.0.2) inet\npass in route-to (b2 fd03::2) inet6\n\
         pass in inet6 proto icmp6 icmp6-type { neighbrsol, neighbradv }\n",
    );
    for host in [FAR, FAR6] {
        assert_answered(&net.client, &[host]);
        assert_answered(&net.client, &["-t", "2", host]);
        assert_silent(&net.client, &["-t", "1", host]);
    }
}

/// The way to the gateway takes shorter packets: the client hears so of its packet as it sent it.
#[test]
fn errors_about_translated_packets_to_a_gateway_are_the_clients() {
    let test = "errors_about_translated_packets_to_a_gateway_are_the_clients";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Some(site) = site(test, "sc-gwicmp") else { return };
    let Site { net, second } = &site;
    ip(&net.router, "link set b2 mtu 700");
    ip(second, "link set i0 mtu 700");
    net.start(
        "nat on b1 inet from 10.1.0.0/24 to any -> (b1)\n\
         nat on b2 inet from 10.1.0.0/24 to any -> (b2)\n\
         pass out route-to (b2 10.3.0.2) inet proto icmp icmp-type echoreq\n",
    );
    assert_answered(&net.client, &[FAR]);
    let (said, is_answered) = ping(&net.client, "20", &["-M", "do", "-s", "1000", FAR]);
    assert!(!is_answered && said.contains("Frag needed and DF set (mtu = 700)"), "{said}");
}

/// The box's connections go by the uplink that their source says.
#[test]
fn the_boxs_connections_go_by_the_uplink_of_their_source() {
    let test = "the_boxs_connections_go_by_the_uplink_of_their_source";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Some(site) = site(test, "sc-source") else { return };
    let Site { net, second } = &site;
    echo_server(second, FAR, 7007);
    echo_server(&net.server, WORLD, 7007);
    net.start(
        "set skip on lo\nblock in\nblock out\npass proto icmp6\n\
         pass out quick route-to (b2 10.3.0.2) inet proto tcp from 10.3.0.1 to any port 7007\n\
         pass out on b1 inet proto tcp from any to any port 7007\n",
    );
    let mut line = connect_from(&net.router, WORLD, 7007, PATIENCE).expect("by the first");
    line.bounce(100_000, "by the first");
    let mut line = connect_as(&net.router, "10.3.0.1:0", FAR, 7007, true).expect("by the second");
    line.bounce(100_000, "by the second");
}

/// Who comes by either uplink and is redirected is answered by it.
fn redirected(net: &Network, second: &Netns, home: &str) {
    net.reload(&format!(
        "rdr on b1 inet proto tcp from any to 10.2.0.1 port 7 -> {home} port 7007\n\
         rdr on b2 inet proto tcp from any to 10.3.0.1 port 7 -> {home} port 7007\n\
         block in\nblock out\npass quick proto icmp6\n\
         pass in quick on b1 reply-to (b1 10.2.0.2) inet proto tcp from any to {home} port 7007\n\
         pass in quick on b2 reply-to (b2 10.3.0.2) inet proto tcp from any to {home} port 7007\n"
    ));
    for (from, local, host) in [
        (&*net.server, "10.2.0.2:0".to_owned(), "10.2.0.1"),
        (second, "10.3.0.2:0".to_owned(), "10.3.0.1"),
        (&*net.server, format!("{WORLD}:0"), "10.2.0.1"),
        (second, format!("{WORLD}:0"), "10.3.0.1"),
    ] {
        let mut line = connect_as(from, &local, host, 7, true).expect("redirected");
        let caller = local.trim_end_matches('0');
        assert!(line.hear().starts_with(caller), "{local}");
    }
}

#[test]
fn redirections_by_two_uplinks_are_answered_by_each() {
    let test = "redirections_by_two_uplinks_are_answered_by_each";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let Some(site) = site(test, "sc-multi") else { return };
    let Site { net, second } = &site;
    for link in ["b1", "b2"] {
        super::set(&net.router, &format!("net.ipv4.conf.{link}.route_localnet"), "1");
    }
    who_server(&net.router, "127.0.0.1", 7007);
    who_server(&net.router, "10.1.0.1", 7007);
    net.start("pass\n");
    redirected(net, second, "10.1.0.1");
    redirected(net, second, "127.0.0.1");
}
