//! `os`: connections that Linux begins, of whose SYNs a file of fingerprints says whose they are.
//! Settings of the client's kernel make it another system's.

use weir_net::{Netlink, Netns, sysctl};

use super::network::{
    IMPATIENCE, Network, PATIENCE, ROUTER, SERVER, SERVER6, connect_from, echo_server, wait_until,
};
use crate::common::{can_run_lab, stderr, stdout};
use crate::turns::beside;

/// SYNs of Linux: as they are, without timestamps, and without selective acknowledgements. The
/// window and its scale depend on the memory of the machine.
const FINGERPRINTS: &str = "\
# For a test.
*:64:1:60:M*,S,T,N,W*:Linux:3-6:usual:Linux with its usual options
*:64:1:52:M*,N,N,S,N,W*:Linux:5:plain:Linux without timestamps
*:64:1:60:M*,N,N,T,N,W*:Linux:5:deaf:Linux without selective acknowledgements
";

/// Another file, by which nothing of that is Linux.
const OTHERS: &str = "*:64:1:52:M*,N,N,S,N,W*:Minix:3::Minix 3\n";

/// By port: one system, a class, a version of a range, what is unknown, and all but one.
const RULES: &str = "\
block return
pass proto icmp6 no state
pass in on b0 proto tcp from any os \"Linux 6 usual\" to any port 7001
pass in on b0 proto tcp from any os Linux to any port 7002
pass in on b0 proto tcp from any os { \"linux 4\", \"Linux 5 deaf\" } to any port 7003
pass in on b0 proto tcp from any os unknown to any port 7004
pass in on b0 proto tcp to any port 7005
block return in on b0 proto tcp from any os \"Linux 5\" to any port 7005
pass out on b1 proto tcp from any to any port 7001:7005
pass in on b0 proto tcp from any to any port 7006
pass out on b1 proto tcp from any os \"Linux 5 plain\" to any port 7006
";

const PORTS: [u16; 6] = [7001, 7002, 7003, 7004, 7005, 7006];

/// The ports of a host that a connection comes about with.
fn reached(from: &Netns, host: &str, expected: &[u16]) -> Vec<u16> {
    let connects = |port: &u16| {
        let timeout = if expected.contains(port) { PATIENCE } else { IMPATIENCE };
        connect_from(from, host, *port, timeout).is_some()
    };
    PORTS.into_iter().filter(connects).collect()
}

fn set(netns: &Netns, name: &str, value: &str) {
    let name = format!("net.ipv4.{name}");
    netns.run(|| sysctl::write(&name, value).expect("written")).expect("entered");
}

fn rules(net: &Network, text: &str) -> String {
    let path = net.dir.path().join("pf.os");
    format!("set fingerprints \"{}\"\n{text}", path.display())
}

#[test]
fn connections_pass_by_the_system_that_begins_them() {
    if !can_run_lab("connections_pass_by_the_system_that_begins_them") {
        return;
    }
    let _turn = beside();
    let net = Network::new("os");
    for (port, host) in PORTS.into_iter().flat_map(|port| [(port, SERVER), (port, SERVER6)]) {
        echo_server(&net.server, host, port);
    }
    net.file("pf.os", FINGERPRINTS);
    net.start(&rules(&net, RULES));
    let expect = |what: &str, ports: &[u16]| {
        for host in [SERVER, SERVER6] {
            assert_eq!(reached(&net.client, host, ports), ports, "{what}: {host}");
        }
    };
    // It is Linux 3, 4, 5 and 6.
    expect("usual", &[7001, 7002, 7003]);
    set(&net.client, "tcp_timestamps", "0");
    expect("without timestamps", &[7002, 7006]);
    set(&net.client, "tcp_timestamps", "1");
    set(&net.client, "tcp_sack", "0");
    expect("without selective acknowledgements", &[7002, 7003]);
    set(&net.client, "tcp_window_scaling", "0");
    expect("without scaled windows", &[7004, 7005]);
    set(&net.client, "tcp_window_scaling", "1");
    set(&net.client, "tcp_sack", "1");
    // A TTL above that of the fingerprint.
    set(&net.client, "ip_default_ttl", "65");
    assert_eq!(reached(&net.client, SERVER, &[7004, 7005]), [7004, 7005]);
    set(&net.client, "ip_default_ttl", "64");

    let shown = net.pfctl("-sr");
    for rule in [
        "pass in on b0 proto tcp from any os \"Linux 6 usual\" to any port = 7001",
        "pass in on b0 proto tcp from any os \"unknown\" to any port = 7004",
    ] {
        let is_shown = shown.lines().any(|line| line.starts_with(rule));
        assert!(is_shown, "{rule}\n{shown}");
    }
    let listed = net.pfctl("-so");
    let head =
        "Class\tVersion\tSubtype(subversion)\n-----\t-------\t-------------------\nLinux\t\n";
    assert!(listed.starts_with(head), "{listed}");
    assert!(listed.contains("\nLinux\t3-6\tusual\t\n"), "{listed}");
    assert!(net.pfctl("-sa").contains("OS FINGERPRINTS:\n14 fingerprints loaded\n"));

    // The file is read anew with the ruleset.
    net.file("pf.os", OTHERS);
    let text = "block return\npass out\npass in proto tcp from any os Minix to any port 7001\n";
    net.reload(&rules(&net, text));
    assert_eq!(reached(&net.client, SERVER, &[]), [0; 0]);
    set(&net.client, "tcp_timestamps", "0");
    assert_eq!(reached(&net.client, SERVER, &[7001]), [7001]);
    assert!(net.pfctl("-so").contains("\nMinix\t3\t\n"));
    // What runs has its fingerprints also where interfaces change and the file is gone.
    std::fs::remove_file(net.dir.path().join("pf.os")).expect("removed");
    net.router
        .run(|| {
            let netlink = Netlink::open().expect("netlink");
            netlink.add_address("b0", "10.9.0.1/24".parse().expect("a prefix")).expect("added");
        })
        .expect("entered");
    wait_until("the box has heard of it", || net.is_all_heard());
    assert_eq!(reached(&net.client, SERVER, &[7001]), [7001]);
}

#[test]
fn names_without_a_fingerprint_are_refused_where_they_stand() {
    if !can_run_lab("names_without_a_fingerprint_are_refused_where_they_stand") {
        return;
    }
    let _turn = beside();
    let net = Network::new("osname");
    net.file("pf.os", FINGERPRINTS);
    net.start("pass\n");
    let refused = |text: &str| {
        let path = net.file("next.conf", text);
        let output = net.run(&["pfctl", "-f", &path]);
        assert_ne!(output.status.code(), Some(0), "{text}");
        stderr(&output)
    };
    let wrong = rules(&net, "pass\npass in proto tcp from any os Linx\n");
    let said = refused(&wrong);
    assert!(said.contains("next.conf:3") && said.contains("unknown os fingerprint"), "{said}");
    let checked = net.run(&["fw", "check", "--for", "weir", &net.file("next.conf", &wrong)]);
    assert_ne!(checked.status.code(), Some(0));
    let said = stdout(&checked) + &stderr(&checked);
    assert!(said.contains("Linux"), "the nearest name: {said}");
    // Without a file there is nothing to look names up in.
    let said = refused("set fingerprints \"/none/pf.os\"\npass from any os Linux\n");
    assert!(said.contains("next.conf:2") && said.contains("pf.os(5)"), "{said}");
    net.file("pf.os", "1:64:2:40:.:A:::about it\n");
    let said = refused(&rules(&net, "pass\n"));
    assert!(said.contains("pf.os:1") && said.contains("don't-fragment bit 2"), "{said}");
    // An anchor's names are those of the main ruleset.
    net.file("pf.os", FINGERPRINTS);
    net.reload(&rules(&net, "pass\nanchor guests\n"));
    let load = |text: &str| {
        let path = net.file("anchor.conf", text);
        net.run(&["pfctl", "-a", "guests", "-f", &path])
    };
    let good = load("block return in proto tcp from any os \"Linux 5\"\n");
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    let bad = load("block in proto tcp from any os Minix\n");
    assert!(stderr(&bad).contains("anchor.conf:1"), "{}", stderr(&bad));
    echo_server(&net.server, SERVER, 7001);
    assert!(connect_from(&net.client, SERVER, 7001, IMPATIENCE).is_none(), "it is Linux 5");
    // While rules ask for them they stay.
    let flushed = net.run(&["pfctl", "-F", "osfp"]);
    assert_ne!(flushed.status.code(), Some(0));
    net.pfctl("-a guests -F rules");
    net.pfctl("-F osfp");
    assert_eq!(net.pfctl("-so"), "");
}

/// What the box itself begins is seen where it leaves, by a program of tcx.
#[test]
fn the_boxs_connections_have_a_system_too() {
    if !can_run_lab("the_boxs_connections_have_a_system_too") {
        return;
    }
    let _turn = beside();
    let net = Network::new("osbox");
    net.file("pf.os", FINGERPRINTS);
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
        echo_server(&net.server, host, 7002);
    }
    let text = "block return\npass proto icmp6 no state\n\
        pass out proto tcp from any os \"Linux 3-6\" to any port 7001\n\
        pass out proto tcp from any os \"Linux 5 plain\" to any port 7002\n";
    net.start(&rules(&net, text));
    for host in [SERVER, SERVER6] {
        assert_eq!(reached(&net.router, host, &[7001]), [7001], "{host}");
    }
    set(&net.router, "tcp_timestamps", "0");
    for host in [SERVER, SERVER6] {
        assert_eq!(reached(&net.router, host, &[7002]), [7002], "{host}");
    }
    // And what comes to it.
    echo_server(&net.router, ROUTER, 7003);
    let text = "block return\npass in proto tcp from any os \"Linux usual\" to any port 7003\n";
    net.reload(&rules(&net, &text.replace("Linux usual", "Linux 3-6 usual")));
    assert_eq!(reached(&net.client, ROUTER, &[7003]), [7003]);
    set(&net.client, "tcp_timestamps", "0");
    assert_eq!(reached(&net.client, ROUTER, &[]), [0; 0]);
}
