//! A client and a server in namespaces of their own, and a router between them: `b0` towards the
//! client, `b1` towards the server, IPv4 and IPv6. Behind both ends are networks that are none of
//! their interfaces': 198.18.0.0/16 and 2001:2::/48 the client's, 198.19.0.0/16 and 2001:2:1::/48
//! the server's.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weir_bpf::attach;
use weir_net::{Netlink, Netns, NetnsGuard};

use crate::common::{assert_exit, stdout, wait_until};
use crate::turns;

/// What the client connects from and to; sources have ports 1024 and up.
pub(super) const V4: [&str; 4] = ["--src", "198.18.0.1-198.18.0.99", "--dst", "198.19.0.1:80"];
pub(super) const V6: [&str; 4] =
    ["--src", "[2001:2::1]-[2001:2::63]", "--dst", "[2001:2:1::1]:80-[2001:2:1::9]"];

pub(super) struct Network {
    pub(super) client: NetnsGuard,
    pub(super) router: NetnsGuard,
    pub(super) server: NetnsGuard,
    pub(super) dir: tempfile::TempDir,
}

fn ip(line: &str) {
    let status = Command::new("ip").args(line.split_whitespace()).status().expect("ip runs");
    assert!(status.success(), "ip {line}");
}

/// A command in a namespace.
pub(super) fn inside(netns: &Netns, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name()]).args(words);
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

#[track_caller]
pub(super) fn must(netns: &Netns, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = inside(netns, &words).output().expect("ip runs");
    assert_exit(&output, 0);
    stdout(&output)
}

/// `weir` in a namespace.
pub(super) fn weir(netns: &Netns, words: &[&str]) -> Command {
    inside(netns, &[&[env!("CARGO_BIN_EXE_weir")][..], words].concat())
}

impl Network {
    pub(super) fn new() -> Self {
        let [client, router, server] =
            ["client", "router", "server"].map(|which| turns::namespace(&format!("tcp-{which}")));
        for netns in [&client, &router, &server] {
            must(netns, "sysctl -q -w net.ipv6.conf.default.accept_dad=0");
            must(netns, "ip link set lo up");
        }
        for (near, far, end, number) in [("b0", "c0", &client, 1), ("b1", "s0", &server, 2)] {
            let (router, end) = (router.name(), end.name());
            ip(&format!("-n {router} link add {near} type veth peer {far} netns {end}"));
            for (netns, name, host) in [(router, near, 1), (end, far, 2)] {
                ip(&format!("-n {netns} addr add 10.{number}.0.{host}/24 dev {name}"));
                ip(&format!("-n {netns} addr add fd0{number}::{host}/64 dev {name} nodad"));
                ip(&format!("-n {netns} link set {name} up"));
            }
            ip(&format!("-n {end} route add default via 10.{number}.0.1"));
            ip(&format!("-6 -n {end} route add default via fd0{number}::1"));
            ip(&format!("-n {router} route add 198.{}.0.0/16 via 10.{number}.0.2", 17 + number));
            let ours = if number == 1 { "2001:2::/48" } else { "2001:2:1::/48" };
            ip(&format!("-6 -n {router} route add {ours} via fd0{number}::2"));
        }
        must(&router, "sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        // A veth takes redirected frames only while its peer has GRO or a program; and what
        // hardware would do to a frame is not done behind a redirect.
        for (netns, name) in [(&router, "b0"), (&router, "b1"), (&client, "c0"), (&server, "s0")] {
            must(netns, &format!("ethtool -K {name} gro on tx off tso off gso off txvlan off"));
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { client, router, server, dir }
    }

    /// `weir connect -i c0 --json` with these options, to its end; its result.
    #[track_caller]
    pub(super) fn connect(&self, flows: &[&str], options: &[&str]) -> Value {
        let words = [&["connect", "-i", "c0", "--json"][..], flows, options].concat();
        let output = weir(&self.client, &words).output().expect("ip runs");
        assert_exit(&output, 0);
        self.keep("client.json", &output);
        last_object(&output)
    }

    /// `weir connect serve -i s0 --json`, until it is ended.
    pub(super) fn serve(&self, options: &[&str]) -> Serving<'_> {
        let words = [&["connect", "serve", "-i", "s0", "--json"][..], options].concat();
        let mut command = weir(&self.server, &words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ip runs");
        wait_until("the server is attached", || is_attached(&self.server, "s0"));
        Serving { network: self, child: Some(child) }
    }

    /// `weir connect ledger` of the last client and the last server.
    #[track_caller]
    pub(super) fn ledger(&self) -> Value {
        let [client, server] = ["client.json", "server.json"]
            .map(|name| self.dir.path().join(name).to_string_lossy().into_owned());
        let output = crate::common::run(&["connect", "ledger", &client, &server, "--json"]);
        assert_exit(&output, 0);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn keep(&self, name: &str, output: &Output) {
        let path: &Path = &self.dir.path().join(name);
        std::fs::write(path, &output.stdout).expect("writable");
    }
}

fn is_attached(netns: &Netns, name: &str) -> bool {
    let attached = netns.run(|| {
        let ifindex = Netlink::open().and_then(|netlink| netlink.ifindex(name)).expect("there");
        attach::attached(ifindex)
    });
    attached.expect("entered").expect("readable").is_some()
}

/// Whether nothing is attached to the ends of the testbed any more.
pub(super) fn nothing_is_left(network: &Network) -> bool {
    !is_attached(&network.client, "c0") && !is_attached(&network.server, "s0")
}

fn last_object(output: &Output) -> Value {
    let text = stdout(output);
    let line = text.lines().last().unwrap_or_else(|| panic!("nothing was printed: {output:?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// A server that runs.
pub(super) struct Serving<'a> {
    network: &'a Network,
    child: Option<Child>,
}

impl Serving<'_> {
    /// Ends it; its total.
    #[track_caller]
    pub(super) fn end(mut self) -> Value {
        let child = self.child.take().expect("it is ended once");
        interrupt(&child, Signal::SIGINT);
        let output = child.wait_with_output().expect("it ended");
        assert_exit(&output, 130);
        self.network.keep("server.json", &output);
        last_object(&output)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Sends a signal. `ip netns exec` has become the command itself.
pub(super) fn interrupt(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process"));
    kill(pid, signal).expect("it is there");
}
