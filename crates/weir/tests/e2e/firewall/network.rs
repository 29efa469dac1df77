//! A client and a server in namespaces of their own, and between them the box that the firewall
//! runs on: `b0` towards the client, `b1` towards the server, IPv4 and IPv6.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd, sysctl};

pub(super) use crate::common::{PATIENCE, wait_until};
use crate::common::{assert_exit, stderr, stdout};
use crate::turns;

/// How long a connection may take that is not to come about.
pub(super) const IMPATIENCE: Duration = Duration::from_millis(700);

/// The server's addresses.
pub(super) const SERVER: &str = "10.2.0.2";
pub(super) const SERVER6: &str = "fd02::2";
/// The box's own addresses on the client's side.
pub(super) const ROUTER: &str = "10.1.0.1";
pub(super) const ROUTER6: &str = "fd01::1";

/// Three namespaces in a row.
pub(super) struct Network {
    pub(super) client: NetnsGuard,
    pub(super) router: NetnsGuard,
    pub(super) server: NetnsGuard,
    pub(super) dir: tempfile::TempDir,
}

/// An empty namespace that goes when it is dropped. Its interfaces have their link-local addresses
/// at once: a router asks for neighbours from these, and while duplicates are looked for, for up to
/// two seconds, it asks nobody and reports hosts as unreachable.
pub(super) fn namespace(tag: &str, which: &str) -> NetnsGuard {
    let netns = turns::namespace(&format!("fw-{tag}-{which}"));
    let write = || sysctl::write("net.ipv6.conf.default.accept_dad", "0").expect("written");
    netns.run(write).expect("entered");
    netns
}

fn end(netns: &Netns, name: &str, addresses: [&str; 2]) {
    netns
        .run(|| {
            let netlink = Netlink::open().expect("netlink");
            for address in addresses {
                netlink.add_address(name, address.parse().expect("a prefix")).expect("added");
            }
            netlink.set_up("lo").expect("up");
            netlink.set_up(name).expect("up");
        })
        .expect("entered");
}

/// What hardware would do to a frame that a peer's driver sends is not done behind a redirect, and
/// a veth takes redirected frames only while its peer has GRO or a program.
pub(super) fn plain_frames(netns: &Netns, name: &str) {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name(), "ethtool", "-K", name]);
    command.args(["gro", "on", "tx", "off", "tso", "off", "gso", "off", "txvlan", "off"]);
    let output = command.output().expect("ip runs");
    assert_exit(&output, 0);
}

impl Network {
    /// A second way to the server, by `b2`.
    pub(super) fn add_second_way(&self) {
        self.router
            .run(|| {
                let netlink = Netlink::open().expect("netlink");
                let peer = VethEnd::new("s1").in_netns(&self.server);
                netlink.create_veth(&VethEnd::new("b2"), &peer, 1).expect("a veth is made");
                netlink.add_address("b2", "10.3.0.1/24".parse().expect("a prefix")).expect("added");
                netlink.set_up("b2").expect("up");
            })
            .expect("entered");
        self.server
            .run(|| {
                let netlink = Netlink::open().expect("netlink");
                netlink.add_address("s1", "10.3.0.2/24".parse().expect("a prefix")).expect("added");
                netlink.set_up("s1").expect("up");
            })
            .expect("entered");
    }

    /// Makes it; `tag` tells the tests' namespaces apart.
    pub(super) fn new(tag: &str) -> Self {
        let [client, router, server] = ["c", "r", "s"].map(|which| namespace(tag, which));
        let dir = tempfile::tempdir().expect("a temporary directory");
        router
            .run(|| {
                let netlink = Netlink::open().expect("netlink");
                let ends = [("b0", "c0", &client), ("b1", "s0", &server)];
                for (name, other, netns) in ends {
                    let peer = VethEnd::new(other).in_netns(netns);
                    netlink.create_veth(&VethEnd::new(name), &peer, 1).expect("a veth is made");
                }
                sysctl::write("net.ipv4.ip_forward", "1").expect("written");
                sysctl::write("net.ipv6.conf.all.forwarding", "1").expect("written");
            })
            .expect("entered");
        end(&router, "b0", ["10.1.0.1/24", "fd01::1/64"]);
        end(&router, "b1", ["10.2.0.1/24", "fd02::1/64"]);
        end(&client, "c0", ["10.1.0.2/24", "fd01::2/64"]);
        end(&server, "s0", ["10.2.0.2/24", "fd02::2/64"]);
        for (netns, name, via) in
            [(&client, "c0", ["10.1.0.1", "fd01::1"]), (&server, "s0", ["10.2.0.1", "fd02::1"])]
        {
            plain_frames(netns, name);
            netns
                .run(|| {
                    let netlink = Netlink::open().expect("netlink");
                    netlink.wait_operational(name, PATIENCE).expect("operational");
                    for (all, via) in ["0.0.0.0/0", "::/0"].into_iter().zip(via) {
                        let via: IpAddr = via.parse().expect("an address");
                        let all = all.parse().expect("a prefix");
                        netlink.add_route(all, Some(via), name).expect("added");
                    }
                })
                .expect("entered");
        }
        Self { client, router, server, dir }
    }

    /// The control socket of the box.
    pub(super) fn socket(&self) -> PathBuf {
        let inode = || fs::metadata("/proc/thread-self/ns/net").map(|file| file.ino());
        let inode = self.router.run(inode).expect("entered").expect("a namespace");
        PathBuf::from(format!("/run/weir/fw/net-{inode}"))
    }

    /// A program with these arguments, in the box's network namespace.
    pub(super) fn program(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.router.name()]).args(words);
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// Writes a file; gives its path.
    pub(super) fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("writable");
        path.to_string_lossy().into_owned()
    }

    /// `weir` with these arguments on the box.
    pub(super) fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(&[env!("CARGO_BIN_EXE_weir")]);
        command.args(arguments);
        command
    }

    /// Runs it to its end.
    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        self.weir(arguments).output().expect("ip runs")
    }

    /// Runs it, and fails unless it ends well; gives what it printed.
    #[track_caller]
    pub(super) fn printed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_exit(&output, 0);
        stdout(&output)
    }

    /// As [`Self::printed`], and fails if it does not end in time.
    #[track_caller]
    pub(super) fn within(&self, timeout: Duration, arguments: &[&str]) -> String {
        let mut command = self.weir(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = Killed(child.expect("ip runs"));
        let mut out = child.0.stdout.take().expect("a pipe");
        let reader = thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).expect("text comes");
            text
        });
        let deadline = Instant::now() + timeout;
        let status = loop {
            if let Some(status) = child.0.try_wait().expect("asked") {
                break status;
            }
            assert!(Instant::now() < deadline, "{arguments:?}: no answer after {timeout:?}");
            thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0), "{arguments:?}");
        reader.join().expect("it was read")
    }

    /// `weir pfctl`, which says what it did on standard error.
    #[track_caller]
    pub(super) fn pfctl(&self, words: &str) -> String {
        let arguments: Vec<&str> = ["pfctl"].into_iter().chain(words.split(' ')).collect();
        let output = self.run(&arguments);
        assert_exit(&output, 0);
        stdout(&output) + &stderr(&output)
    }

    /// Starts the firewall in the background with these rules.
    #[track_caller]
    pub(super) fn start(&self, rules: &str) {
        let path = self.file("pf.conf", rules);
        let output = self.run(&["fw", "run", "-f", &path]);
        assert_exit(&output, 0);
    }

    /// A JSON answer of `weir fw`.
    #[track_caller]
    pub(super) fn json(&self, command: &str) -> serde_json::Value {
        serde_json::from_str(&self.printed(&["fw", command, "--json"])).expect("JSON")
    }

    /// Packets that were dropped for a reason, anywhere.
    #[track_caller]
    pub(super) fn dropped(&self, reason: &str) -> u64 {
        let stats = self.json("stats");
        let drops = stats["drops"].as_array().expect("a list").iter();
        drops
            .filter(|drop| drop["reason"] == reason)
            .filter_map(|drop| drop["packets"].as_u64())
            .sum()
    }

    /// Whether the daemon has read all that the kernel has told of the box.
    pub(super) fn is_all_heard(&self) -> bool {
        let read = || fs::read_to_string("/proc/thread-self/net/netlink");
        let sockets = self.router.run(read).expect("entered").expect("readable");
        // sk Eth Pid Groups Rmem …: the bytes that wait for a socket's reader.
        sockets.lines().skip(1).all(|line| line.split_whitespace().nth(4) == Some("0"))
    }

    /// Loads a ruleset with `pfctl -f`.
    #[track_caller]
    pub(super) fn reload(&self, rules: &str) {
        let path = self.file("next.conf", rules);
        self.pfctl(&format!("-f {path}"));
    }

    /// The same of a ruleset in this dialect.
    #[track_caller]
    pub(super) fn reload_as(&self, dialect: &str, rules: &str) {
        let path = self.file("next.conf", rules);
        assert_exit(&self.run(&["pfctl", &format!("--dialect={dialect}"), "-f", &path]), 0);
    }

    /// Ends the daemon as a fault would.
    #[track_caller]
    pub(super) fn kill_daemon(&self) {
        let pid = self.json("status")["pid"].as_i64().expect("a number");
        let pid = Pid::from_raw(i32::try_from(pid).expect("a process"));
        kill(pid, Signal::SIGKILL).expect("killed");
        wait_until("the daemon is gone", || self.run(&["fw", "status"]).status.code() == Some(1));
    }

    /// A connection from the client; `None` if it did not come about in time.
    pub(super) fn connect(&self, host: &str, port: u16, timeout: Duration) -> Option<Line> {
        connect_from(&self.client, host, port, timeout)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Also when the test failed; there may be nothing to stop.
        drop(self.run(&["fw", "stop"]));
    }
}

/// A port of a host.
#[track_caller]
pub(super) fn at(host: &str, port: u16) -> SocketAddr {
    SocketAddr::new(host.parse().expect("an address"), port)
}

/// So many bytes to send.
pub(super) fn pattern(count: u32) -> Vec<u8> {
    (0..count).map(|number| number.to_le_bytes()[0]).collect()
}

/// A connection from a namespace; `None` if it did not come about in time.
#[expect(clippy::print_stderr, reason = "a test that fails shows why")]
pub(super) fn connect_from(
    netns: &Netns,
    host: &str,
    port: u16,
    timeout: Duration,
) -> Option<Line> {
    let address = at(host, port);
    let connect = || TcpStream::connect_timeout(&address, timeout);
    let stream = netns.run(connect).expect("entered");
    Some(Line::new(stream.inspect_err(|error| eprintln!("{address}: {error}")).ok()?))
}

/// A connection that speaks in lines.
pub(super) struct Line(BufReader<TcpStream>);

impl Line {
    /// On a connection that stands.
    pub(super) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.set_nodelay(true).expect("set");
        Self(BufReader::new(stream))
    }

    /// The port at this end.
    pub(super) fn port(&self) -> u16 {
        self.0.get_ref().local_addr().expect("an address").port()
    }

    /// Says that nothing more is sent.
    pub(super) fn finish(&self) {
        self.0.get_ref().shutdown(Shutdown::Write).expect("shut down");
    }

    /// Sends a line.
    pub(super) fn say(&mut self, word: &str) {
        self.0.get_mut().write_all(format!("{word}\n").as_bytes()).expect("sent");
    }

    /// The next line; empty at the end.
    pub(super) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("something comes, or the end");
        line.trim_end().to_owned()
    }

    /// Sends a line; the echo has to come back.
    #[track_caller]
    pub(super) fn echo(&mut self, word: &str) {
        self.say(word);
        assert_eq!(self.hear(), word);
    }

    /// Sends so many bytes back, as they come.
    pub(super) fn answer(&mut self, count: usize) {
        let mut writer = self.0.get_ref().try_clone().expect("a second handle");
        let mut left = std::io::Read::by_ref(&mut self.0).take(count as u64);
        std::io::copy(&mut left, &mut writer).expect("all goes back");
    }

    /// Sends bytes and reads as many back, both at once; gives what came.
    pub(super) fn bulk(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut writer = self.0.get_ref().try_clone().expect("a second handle");
        let copy = bytes.to_vec();
        let sender = thread::spawn(move || writer.write_all(&copy).expect("sent"));
        let mut back = vec![0; bytes.len()];
        self.0.read_exact(&mut back).expect("all comes back");
        sender.join().expect("sent");
        back
    }

    /// Sends so many bytes; the same have to come back.
    #[track_caller]
    pub(super) fn bounce(&mut self, count: u32, what: &str) {
        let bytes = pattern(count);
        assert!(self.bulk(&bytes) == bytes, "{what}: what comes back is what was sent");
    }
}

/// Answers every connection with what it sends, in a namespace, until the test ends.
pub(super) fn echo_server(netns: &Netns, host: &str, port: u16) {
    let address = at(host, port);
    let listener = netns.run(|| TcpListener::bind(address)).expect("entered").expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            repeat(stream);
        }
    });
}

/// Says all that it hears, until the client ends it.
pub(super) fn repeat(mut stream: TcpStream) {
    thread::spawn(move || {
        let mut writer = stream.try_clone().expect("a second handle");
        drop(std::io::copy(&mut stream, &mut writer));
    });
}

/// What the HTTP server has.
pub(super) const PAGE: &str = "<p>through the box</p>\n";

/// Answers every request with one page, in a namespace, until the test ends.
pub(super) fn http_server(netns: &Netns, host: &str, port: u16) {
    let address = at(host, port);
    let listener = netns.run(|| TcpListener::bind(address)).expect("entered").expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
            while reader.read_line(&mut line).is_ok_and(|size| size > 2) {}
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", PAGE.len());
            // A client that is gone is its own affair.
            drop(stream.write_all((head + PAGE).as_bytes()));
        }
    });
}

/// A child that is killed when the test ends.
pub(super) struct Killed(pub(super) Child);

impl Killed {
    /// Asks it to end, and waits until it has.
    pub(super) fn end(&mut self) -> ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a process"));
        kill(pid, Signal::SIGTERM).expect("asked");
        self.0.wait().expect("it ends")
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
