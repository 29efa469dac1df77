//! Pools of gateways, which tables and weights make and change; and gateways of packets that make
//! no state, by XDP and by way of the kernel.

use super::nat::{ip, program, seen};
use super::network::{IMPATIENCE, PATIENCE, connect_from, echo_server};
use super::uplinks::{Site, WORLD};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

/// The box's addresses at either uplink.
const FIRST: &str = "10.2.0.1";
const SECOND: &str = "10.3.0.1";

const TRANSLATES: &str = "\
match out on b1 inet from 10.1.0.0/24 nat-to (b1)
match out on b2 inet from 10.1.0.0/24 nat-to (b2)
pass
";

/// By which uplink connections to a port of the world went, one after another: how many by each.
fn taken(site: &Site, port: u16, count: usize) -> [usize; 2] {
    let by: Vec<String> =
        (0..count).map(|_| seen(&site.net.client, WORLD, port).ip().to_string()).collect();
    [FIRST, SECOND].map(|address| by.iter().filter(|by| *by == address).count())
}

#[test]
fn a_table_of_gateways_is_shared_and_followed() {
    let test = "a_table_of_gateways_is_shared_and_followed";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new("ro-table", true);
    let net = &site.net;
    net.start(&format!(
        "table <uplinks> persist {{ 10.2.0.2, 10.3.0.2 }}\n{TRANSLATES}\
         pass in on b0 inet proto tcp to any port 7001 route-to {{ 10.2.0.2 weight 3, 10.3.0.2 }}\n\
         pass in on b0 inet proto tcp to any port 7002 route-to <uplinks> sticky-address\n\
         pass in on b0 inet proto tcp to any port 7003 route-to <uplinks>\n"
    ));
    assert_eq!(taken(&site, 7001, 8), [6, 2], "by their weights");
    assert_eq!(taken(&site, 7003, 6), [3, 3], "in turn");
    let stuck = taken(&site, 7002, 4);
    assert!(stuck.contains(&4), "{stuck:?}: a source keeps its gateway");

    let mut line = net.connect(WORLD, 7003, PATIENCE).expect("passed");
    line.hear();
    net.pfctl("-t uplinks -T delete 10.2.0.2");
    assert_eq!(taken(&site, 7003, 4), [0, 4], "the other one alone");
    net.pfctl("-t uplinks -T replace 10.2.0.2");
    assert_eq!(taken(&site, 7003, 4), [4, 0], "and then this one");

    let output = net.run(&["pfctl", "-t", "uplinks", "-T", "add", "10.3.0.16/28"]);
    assert_exit(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("a pool of 17 gateways: states keep at most 15"), "{said}");
    assert_eq!(taken(&site, 7003, 2), [2, 0], "nothing has changed");

    net.pfctl("-t uplinks -T flush");
    assert!(connect_from(&net.client, WORLD, 7003, IMPATIENCE).is_none(), "there is none");
    assert!(net.dropped("map-failed") > 0);

    // FreeBSD's words: networks and tables stand beside the interface.
    ip(&site.second, "address add 10.3.0.3/24 dev i0");
    net.reload(
        "table <second> { 10.3.0.2 10.3.0.3 }\n\
         nat on b1 inet from 10.1.0.0/24 to any -> (b1)\n\
         nat on b2 inet from 10.1.0.0/24 to any -> (b2)\npass\n\
         pass in on b0 route-to (b2 10.3.0.2/31) random inet proto tcp to any port 7001\n\
         pass in on b0 route-to { (b1 10.2.0.2), (b2 <second>) } inet proto tcp to any port 7003\n",
    );
    assert_eq!(taken(&site, 7001, 4), [0, 4], "either of two");
    assert_eq!(taken(&site, 7003, 6), [2, 4], "each of them in turn");
}

/// A host that is behind the second uplink alone.
const FAR: &str = "203.0.113.10";
const FAR6: &str = "2001:db8:9::10";

/// Each packet goes to the gateway of its rule, though nothing remembers it.
fn without_states(test: &str, tag: &str, is_plain: bool, mtu_bytes: u32) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new(tag, is_plain);
    let Site { net, second } = &site;
    for (netns, link) in [(&net.router, "b0"), (&net.client, "c0")] {
        ip(netns, &format!("link set {link} mtu {mtu_bytes}"));
    }
    // What is longer than the way there takes is dropped as anywhere; it comes in pieces.
    ip(&net.client, "route change default via 10.1.0.1 mtu 1500");
    for host in [FAR, FAR6] {
        ip(second, &format!("address add {host} dev lo"));
        echo_server(second, host, 7007);
    }
    net.start(
        "pass no state\n\
         pass in on b0 route-to (b2 10.3.0.2) inet from any to 203.0.113.10 no state\n\
         pass in on b0 route-to (b2 fd03::2) inet6 from any to 2001:db8:9::10 no state\n",
    );
    // The first packet of all finds no neighbour.
    ip(&net.router, "neigh flush dev b2");
    for host in [FAR, FAR6] {
        let mut line = net.connect(host, 7007, PATIENCE).expect("by the second uplink");
        line.bounce(200_000, host);
    }
    let reaches = |words: &[&str]| {
        let words: Vec<&str> = ["ping", "-n", "-c", "1"].iter().chain(words).copied().collect();
        let output = program(test, &net.client, &words)?;
        Some(output.status.success())
    };
    // In pieces, and with a TTL that ends at the box, or behind it.
    for words in [["-W", "20", "-s", "4000", FAR], ["-W", "20", "-t", "2", FAR]] {
        assert_ne!(reaches(&words), Some(false), "{words:?}");
    }
    assert_ne!(reaches(&["-W", "1", "-t", "1", FAR]), Some(true), "the TTL ends at the box");
    assert_ne!(reaches(&["-W", "20", "10.1.0.1"]), Some(false), "the box is not far away");
    assert_eq!(net.dropped("no-route"), 0, "{}", net.json("stats"));
    assert_eq!(net.json("stats")["states"]["current_count"], 0);

    // What is for the box itself stays.
    net.reload("pass no state\npass in on b0 route-to (b2 10.3.0.2) inet no state\n");
    assert_ne!(reaches(&["-W", "20", "10.1.0.1"]), Some(false));
    let mut line = net.connect(FAR, 7007, PATIENCE).expect("by the second uplink");
    line.bounce(10_000, "the same");
}

#[test]
fn packets_without_states_go_to_their_gateway() {
    without_states("packets_without_states_go_to_their_gateway", "ro-none", true, 1500);
}

#[test]
fn packets_that_the_kernel_sends_go_to_their_gateway() {
    without_states("packets_that_the_kernel_sends_go_to_their_gateway", "ro-kern", false, 1500);
}

/// The frames are too long for XDP there.
#[test]
fn packets_that_a_tcx_program_judges_go_to_their_gateway() {
    without_states("packets_that_a_tcx_program_judges_go_to_their_gateway", "ro-tcx", true, 9000);
}
