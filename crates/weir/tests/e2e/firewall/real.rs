//! Real files of routers, from public repositories: each is run as it is, between interfaces of the
//! names that it has, and what it says is what happens.
//!
//! They are in `../shared/data/pf/real`, or where `WEIR_TEST_DATA` says.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::TcpMaxSeg};
use weir_net::Netlink;

use super::nat::{ip, program, seen, who_server};
use super::network::{
    IMPATIENCE, Network, PATIENCE, SERVER, at, connect_from, echo_server, wait_until,
};
use crate::common::{assert_exit, can_run_lab, run, skipped, stderr, stdout};
use crate::turns::beside;

/// The box towards the server.
const WAN: &str = "10.2.0.1";
const CLIENT: &str = "10.1.0.2";

/// Where the files are; a test without them says so.
fn files(test: &str) -> Option<PathBuf> {
    let root = std::env::var_os("WEIR_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let dir = root.join("pf/real");
    if !dir.is_dir() {
        skipped(test, "there are no real files in ../shared/data/pf or $WEIR_TEST_DATA");
        return None;
    }
    Some(dir)
}

/// The machine that a file is for, and what is to be put in its place in it.
const FACTS: &str = "\
interface em0 10.1.0.1/24 broadcast 10.1.0.255
interface vtnet1 10.1.0.1/24 broadcast 10.1.0.255
interface vmx1 10.0.0.1/24 broadcast 10.0.0.255
interface em1 192.0.2.1/24 broadcast 192.0.2.255 2001:db8::1/64 group egress
interface vtnet0 192.0.2.1/24 broadcast 192.0.2.255 2001:db8::1/64 group egress
interface vmx0 192.0.2.1/24 broadcast 192.0.2.255 2001:db8::1/64 group egress
interface athn0 10.0.3.1/24 broadcast 10.0.3.255
interface alc0 10.0.1.1/24 broadcast 10.0.1.255
interface lo0 loopback 127.0.0.1/8 ::1/128
interface lo1 loopback 127.0.0.2/8
";

/// Only what these machines have is added: their interfaces, and the entries of their tables.
#[test]
fn each_is_run_where_its_interfaces_and_tables_are() {
    let test = "each_is_run_where_its_interfaces_and_tables_are";
    let Some(dir) = files(test) else { return };
    let place = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    fs::write(at("facts"), FACTS).expect("writable");
    fs::write(at("table"), "198.51.100.9\n").expect("writable");
    let mut count = 0;
    for entry in fs::read_dir(dir).expect("it is listed") {
        let path = entry.expect("it is listed").path();
        if path.extension().is_none_or(|extension| extension != "conf") {
            continue;
        }
        count += 1;
        let text = fs::read_to_string(&path).expect("text");
        let parts = text.split("file \"").enumerate().map(|(part, text)| match part {
            0 => text.to_owned(),
            _ => format!("{}\"{}", at("table"), text.split_once('"').expect("a path").1),
        });
        let text = parts.collect::<Vec<_>>().join("file \"");
        fs::write(at("pf.conf"), text).expect("writable");
        let output =
            run(&["fw", "check", "--for", "weir", "--facts", &at("facts"), &at("pf.conf")]);
        let said = || format!("{}: {}{}", path.display(), stdout(&output), stderr(&output));
        assert!(output.status.success(), "{}", said());
    }
    assert!(count >= 7, "{count} files");
}

/// The box between a home and the world, with these names; it runs a file.
fn home(test: &str, tag: &str, file: &str, [lan, wan]: [&str; 2]) -> Option<Network> {
    let path = files(test)?.join(file);
    let net = Network::new(tag);
    for (old, new) in [("b0", lan), ("b1", wan)] {
        ip(&net.router, &format!("link set {old} down"));
        ip(&net.router, &format!("link set {old} name {new}"));
        ip(&net.router, &format!("link set {new} up"));
        let ready = || Netlink::open().expect("netlink").wait_operational(new, PATIENCE);
        net.router.run(ready).expect("entered").expect("operational");
    }
    ip(&net.router, &format!("route add default via {SERVER} dev {wan}"));
    who_server(&net.server, SERVER, 7001);
    echo_server(&net.client, CLIENT, 7002);
    for port in [22, 23] {
        echo_server(&net.router, WAN, port);
    }
    let output = net.run(&["fw", "run", "-f", &path.to_string_lossy()]);
    assert_exit(&output, 0);
    Some(net)
}

/// What the server gets, at last, that connects to the box or to the home.
fn from_outside(
    net: &Network,
    (host, port): (&str, u16),
    patience: Duration,
) -> Result<(), ErrorKind> {
    let address = at(host, port);
    let connect = || TcpStream::connect_timeout(&address, patience);
    net.server.run(connect).expect("entered").map(drop).map_err(|error| error.kind())
}

#[test]
fn a_home_router_of_freebsd_hides_its_network() {
    let test = "a_home_router_of_freebsd_hides_its_network";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let file = "DionSat-FreeBSD-Router-Setup.conf";
    let Some(net) = home(test, "dion", file, ["em0", "em1"]) else { return };
    assert_eq!(seen(&net.client, SERVER, 7001).ip().to_string(), WAN);
    let mut ssh = connect_from(&net.server, WAN, 22, PATIENCE).expect("passed");
    ssh.echo("from outside");
    for closed in [(WAN, 23), (CLIENT, 7002)] {
        let silence = from_outside(&net, closed, IMPATIENCE);
        assert_eq!(silence, Err(ErrorKind::TimedOut), "{closed:?}");
    }
}

#[test]
fn a_simple_router_of_freebsd_translates() {
    let test = "a_simple_router_of_freebsd_translates";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let file = "andre4freelance-FreeBSD-simple-router.conf";
    let Some(net) = home(test, "simple", file, ["vtnet1", "vtnet0"]) else { return };
    assert_eq!(seen(&net.client, SERVER, 7001).ip().to_string(), WAN);
    // It blocks nothing; but who answers from inside is translated, too, as in pf.
    assert_eq!(from_outside(&net, (WAN, 22), PATIENCE), Ok(()));
    assert!(from_outside(&net, (CLIENT, 7002), IMPATIENCE).is_err());
}

#[test]
fn a_router_of_openbsd_translates_scrubs_and_refuses() {
    let test = "a_router_of_openbsd_translates_scrubs_and_refuses";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let file = "grigarr-openbsd-router.conf";
    let Some(net) = home(test, "grig", file, ["vmx1", "vmx0"]) else { return };
    wait_until("it translates", || seen(&net.client, SERVER, 7001).ip().to_string() == WAN);
    // The port stays, and the largest segment is as the file says.
    echo_server(&net.server, SERVER, 7003);
    let line = net.connect(SERVER, 7003, PATIENCE).expect("passed");
    let states = net.pfctl("-ss");
    let both = format!("{WAN}:{0} ({CLIENT}:{0})", line.port());
    assert!(states.contains(&both), "{both}: {states}");
    let address = SocketAddr::new(SERVER.parse().expect("an address"), 7003);
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    let stream = net.client.run(connect).expect("entered").expect("passed");
    let size = getsockopt(&stream, TcpMaxSeg).expect("known");
    assert!((1200..=1440).contains(&size), "{size}");
    assert_eq!(from_outside(&net, (WAN, 22), PATIENCE), Ok(()));
    for closed in [(WAN, 23), (CLIENT, 7002)] {
        let refused = from_outside(&net, closed, PATIENCE);
        assert_eq!(refused, Err(ErrorKind::ConnectionRefused), "{closed:?}");
    }
    if let Some(output) = program(test, &net.server, &["ping", "-c", "1", "-W", "5", WAN]) {
        assert_exit(&output, 0);
    }
}
