//! A client and a server in namespaces of their own, and a wire between them. Behind the client are
//! 198.18.0.0/16 and 2001:2::/48, which no interface has.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weir_net::{Netns, NetnsGuard};

use crate::common::{assert_exit, stdout};
use crate::turns::{Turn, beside, namespace};

pub(super) const SERVER: &str = "10.1.0.3:80";

pub(super) struct Bed {
    pub(super) client: NetnsGuard,
    pub(super) server: NetnsGuard,
    _turn: Turn,
}

pub(super) fn url(target: &str) -> String {
    format!("http://{SERVER}{target}")
}

fn ip(line: &str) {
    let status = Command::new("ip").args(line.split_whitespace()).status().expect("ip runs");
    assert!(status.success(), "ip {line}");
}

fn inside(netns: &Netns, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name()]).args(words);
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn weir(netns: &Netns, before: &[&str], words: &[&str]) -> Command {
    inside(netns, &[before, &[env!("CARGO_BIN_EXE_weir"), "http"], words].concat())
}

impl Bed {
    pub(super) fn new() -> Self {
        let turn = beside();
        let [client, server] =
            ["client", "server"].map(|which| namespace(&format!("http-{which}")));
        let (near, far) = (client.name(), server.name());
        ip(&format!("-n {near} link add c0 type veth peer s0 netns {far}"));
        for (netns, name, host) in [(near, "c0", 2), (far, "s0", 3)] {
            ip(&format!("-n {netns} link set lo up"));
            ip(&format!("-n {netns} addr add 10.1.0.{host}/24 dev {name}"));
            ip(&format!("-n {netns} addr add fd01::{host}/64 dev {name} nodad"));
            ip(&format!("-n {netns} link set {name} up"));
        }
        ip(&format!("-n {far} route add 198.18.0.0/16 via 10.1.0.2"));
        ip(&format!("-6 -n {far} route add 2001:2::/48 via fd01::2"));
        for netns in [&client, &server] {
            let settings = [
                "net.ipv4.ip_local_port_range=1024 65535",
                "net.core.somaxconn=65535",
                "net.ipv4.tcp_max_syn_backlog=65535",
            ];
            let words = [&["sysctl", "-q", "-w"][..], &settings].concat();
            assert!(inside(netns, &words).status().expect("ip runs").success(), "{words:?}");
        }
        Self { client, server, _turn: turn }
    }

    /// `weir http URL --json` to its end, whatever that is.
    pub(super) fn run(&self, url: &str, words: &[&str]) -> Output {
        self.http(&[&[url][..], words].concat())
    }

    /// `weir http --json` with these words, to its end.
    pub(super) fn http(&self, words: &[&str]) -> Output {
        let words = [&["--json"][..], words].concat();
        weir(&self.client, &[], &words).output().expect("ip runs")
    }

    /// The same, to a good end.
    #[track_caller]
    pub(super) fn client(&self, url: &str, words: &[&str]) -> Output {
        let output = self.run(url, words);
        assert_exit(&output, 0);
        output
    }

    /// The same, with a hard limit of descriptors.
    pub(super) fn limited(&self, descriptors: u32, url: &str, words: &[&str]) -> Output {
        let limit = format!("--nofile={descriptors}:{descriptors}");
        let words = [&[url, "--json"][..], words].concat();
        weir(&self.client, &["prlimit", &limit], &words).output().expect("ip runs")
    }

    /// The same, with a name of one more host in /etc/hosts, for this run alone.
    pub(super) fn with_host(&self, line: &str, url: &str, words: &[&str]) -> Output {
        let script = "f=$(mktemp) && echo \"$0\" > $f && mount --bind $f /etc/hosts && rm $f && \
                      exec \"$@\"";
        let before = ["unshare", "--mount", "sh", "-c", script, line];
        let words = [&[url, "--json"][..], words].concat();
        weir(&self.client, &before, &words).output().expect("ip runs")
    }

    /// Another command beside the client.
    pub(super) fn beside_client(&self, words: &[&str]) -> Command {
        inside(&self.client, words)
    }

    /// Another command beside the server.
    pub(super) fn beside_server(&self, words: &[&str]) -> Command {
        inside(&self.server, words)
    }

    /// The same, not waited for.
    pub(super) fn start(&self, url: &str, words: &[&str]) -> Child {
        let words = [&[url, "--json"][..], words].concat();
        let mut command = weir(&self.client, &[], &words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ip runs")
    }

    /// `weir http serve` that has begun to listen.
    pub(super) fn serve(&self, words: &[&str]) -> Serving {
        self.serve_at(SERVER, words)
    }

    /// The same, at another address or port.
    pub(super) fn serve_at(&self, address: &str, words: &[&str]) -> Serving {
        let words = [&["serve", "--json", "--listen", address][..], words].concat();
        let mut command = weir(&self.server, &[], &words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("ip runs");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        wait_for(&mut said, "serving http");
        Serving { child: Some(child), _said: said }
    }

    /// Whether a network's addresses are all the client's.
    pub(super) fn is_local(&self, network: &str) -> bool {
        let words = ["ip", "route", "show", "table", "local"];
        let output = inside(&self.client, &words).output().expect("ip runs");
        assert_exit(&output, 0);
        stdout(&output).lines().any(|line| line.starts_with(&format!("local {network} ")))
    }

    /// IP packets that the client has sent, TCP's.
    pub(super) fn sent_packets(&self) -> u64 {
        let words = ["cat", "/proc/net/snmp"];
        let text = stdout(&inside(&self.client, &words).output().expect("ip runs"));
        let line = text.lines().rfind(|line| line.starts_with("Tcp: ")).expect("a line");
        // RFC 4022: tcpOutSegs, behind RtoAlgorithm to InSegs.
        line.split_whitespace().nth(11).and_then(|word| word.parse().ok()).expect("a number")
    }
}

/// A server that runs.
pub(super) struct Serving {
    child: Option<Child>,
    /// Whatever else it has to say finds a reader.
    _said: BufReader<ChildStderr>,
}

impl Serving {
    /// Ends it; its total.
    #[track_caller]
    pub(super) fn end(mut self) -> Value {
        let child = self.child.take().expect("it is ended once");
        signal(child.id(), Signal::SIGINT);
        let output = child.wait_with_output().expect("it ended");
        assert_exit(&output, 130);
        last_object(&output)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Sends a signal to a process. `ip netns exec` has become the command itself.
pub(super) fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a process")), signal).expect("it is there");
}

/// The processes that a process has started and that still run.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
    let lists: Vec<String> = lists.map(|list| list.expect("the kernel says")).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).flat_map(str::parse).collect()
}

/// Reads lines until one has that text.
#[track_caller]
pub(super) fn wait_for(said: &mut impl BufRead, text: &str) {
    let mut all = String::new();
    while !all.lines().any(|line| line.contains(text)) {
        assert!(said.read_line(&mut all).expect("text") > 0, "it ended: {all}");
    }
}

/// The last object on standard output.
#[track_caller]
pub(super) fn last_object(output: &Output) -> Value {
    let text = stdout(output);
    let line = text.lines().last().unwrap_or_else(|| panic!("nothing was printed: {output:?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}
