//! The scenarios of FreeBSD's and OpenBSD's tests of pf, in namespaces. docs/fw-scenarios.md says
//! for each of theirs what weir does, and by which test; these are the tests that others here did
//! not have yet.

mod chain;
mod filter;
mod gateways;
mod groups;
mod limiters;
mod page;
mod pipes;
mod redirect;
mod sources;
mod translate;

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket,
    sockopt::{ReuseAddr, SendTimeout},
};
use nix::sys::time::{TimeVal, TimeValLike as _};
use weir_net::{Netlink, Netns};

use super::nat::{ip, program};
use super::network::{IMPATIENCE, Line, Network, PATIENCE, at};
use crate::common::{assert_exit, stdout};

const CLIENT: &str = "10.1.0.2";

/// Whether there is a `ping`; a test without it says so.
fn has_ping(test: &str, from: &Netns) -> bool {
    program(test, from, &["ping", "-V"]).is_some()
}

/// One echo request with these further words; what `ping` printed, and whether it was answered.
fn ping(from: &Netns, wait_s: &str, words: &[&str]) -> (String, bool) {
    let words: Vec<&str> =
        ["ping", "-n", "-c", "1", "-W", wait_s].into_iter().chain(words.iter().copied()).collect();
    let output = program("ping", from, &words).expect("there is a ping");
    (stdout(&output), output.status.success())
}

/// Fails unless a ping is answered.
#[track_caller]
fn assert_answered(from: &Netns, words: &[&str]) {
    let (said, is_answered) = ping(from, "20", words);
    assert!(is_answered, "{words:?}: {said}");
}

/// Fails if one is.
#[track_caller]
fn assert_silent(from: &Netns, words: &[&str]) {
    let (said, is_answered) = ping(from, "1", words);
    assert!(!is_answered, "{words:?}: {said}");
}

/// Either of the two.
#[track_caller]
fn assert_ping(is_expected: bool, from: &Netns, words: &[&str]) {
    if is_expected {
        assert_answered(from, words);
    } else {
        assert_silent(from, words);
    }
}

/// The MAC address of an interface, as `ip` writes it.
fn mac(netns: &Netns, name: &str) -> String {
    let link = netns.run(|| Netlink::open().expect("netlink").link(name).expect("there"));
    let mac = link.expect("entered").mac.expect("an address");
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Neighbours whom the client, the box and the server know for good, so that rules may block all
/// that hosts find each other by.
fn pin_neighbours(net: &Network) {
    for (netns, name, hosts, other, its) in [
        (&net.client, "c0", ["10.1.0.1", "fd01::1"], &net.router, "b0"),
        (&net.router, "b0", ["10.1.0.2", "fd01::2"], &net.client, "c0"),
        (&net.router, "b1", ["10.2.0.2", "fd02::2"], &net.server, "s0"),
        (&net.server, "s0", ["10.2.0.1", "fd02::1"], &net.router, "b1"),
    ] {
        let mac = mac(other, its);
        for host in hosts {
            ip(netns, &format!("neigh replace {host} lladdr {mac} dev {name} nud permanent"));
        }
    }
}

/// A connection from an address and port; `None` if it did not come about in time.
fn connect_as(from: &Netns, local: &str, host: &str, port: u16, is_expected: bool) -> Option<Line> {
    let timeout = if is_expected { PATIENCE } else { IMPATIENCE };
    let timeout_ms = i64::try_from(timeout.as_millis()).expect("it is short");
    let local: SocketAddr = local.parse().expect("an address");
    let peer = at(host, port);
    let family = if peer.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let begin = || {
        let made = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("made");
        setsockopt(&made, ReuseAddr, &true).expect("set");
        setsockopt(&made, SendTimeout, &TimeVal::milliseconds(timeout_ms)).expect("set");
        bind(made.as_raw_fd(), &SockaddrStorage::from(local)).expect("bound");
        connect(made.as_raw_fd(), &SockaddrStorage::from(peer)).ok()?;
        Some(Line::new(TcpStream::from(made)))
    };
    from.run(begin).expect("entered")
}

/// Loads rules into an anchor.
#[track_caller]
fn fill_anchor(net: &Network, anchor: &str, rules: &str) {
    let path = net.file("anchor.conf", rules);
    net.pfctl(&format!("-a {anchor} -f {path}"));
}

/// Writes a setting of a namespace's network.
#[track_caller]
fn set(netns: &Netns, key: &str, value: &str) {
    let write = || weir_net::sysctl::write(key, value).expect("written");
    netns.run(write).expect("entered");
}

/// What `pfctl` says when it refuses a ruleset.
#[track_caller]
fn refusal(net: &Network, rules: &str) -> String {
    let path = net.file("refused.conf", rules);
    let output = net.run(&["pfctl", "-f", &path]);
    assert_exit(&output, 1);
    crate::common::stderr(&output)
}
