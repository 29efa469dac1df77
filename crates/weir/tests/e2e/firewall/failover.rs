//! Two firewalls that keepalived chooses between, by `dist/keepalived.conf`: a transfer goes on by
//! the other one, after whatever happens to the first, and so do curl, ssh and iperf3.

use std::cell::RefCell;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use weir_net::NetnsGuard;

use super::nat::ip;
use super::network::{
    Killed, Line, Network, SERVER, SERVER6, echo_server, namespace, pattern, plain_frames,
    wait_until,
};
use super::programs::{PORTS, Programs};
use super::sync_stream::{RULES, open, status, wait_for_the_same};
use super::sync_tls::{LISTEN, Running, keygen, link};
use crate::common::{assert_exit, can_run_lab, skipped, stdout, wait_or_show};
use crate::keepalived;
use crate::turns::beside;

/// A cable from a host's interface to a port of a switch.
fn cable(host: &NetnsGuard, name: &str, switch: &NetnsGuard, port: &str) {
    ip(host, &format!("link add {name} type veth peer name {port} netns {}", switch.name()));
    ip(switch, &format!("link set {port} master br0 up"));
    ip(host, &format!("link set {name} up"));
    plain_frames(switch, port);
    plain_frames(host, name);
}

/// Both firewalls, `b0` at the inner switch and `b1` at the outer one, `y0` between them. The first
/// one has the namespaces of the client and the server, the second one those of the switches.
fn cluster() -> [Network; 2] {
    let make = |tag: &str, [client, router, server]: [&str; 3]| Network {
        client: namespace(tag, client),
        router: namespace(tag, router),
        server: namespace(tag, server),
        dir: tempfile::tempdir().expect("a temporary directory"),
    };
    let one = make("fail1", ["c", "r", "s"]);
    let two = make("fail2", ["i", "r", "o"]);
    for switch in [&two.client, &two.server] {
        ip(switch, "link add br0 type bridge");
        ip(switch, "link set br0 up");
    }
    ip(&one.router, &format!("link add y0 type veth peer name y0 netns {}", two.router.name()));
    for (number, net) in [&one, &two].into_iter().enumerate() {
        let last = number + 1;
        cable(&net.router, "b0", &two.client, &format!("f{last}"));
        cable(&net.router, "b1", &two.server, &format!("f{last}"));
        for (name, side) in [("b0", 1), ("b1", 2)] {
            ip(&net.router, &format!("addr add 10.{side}.0.25{last}/24 dev {name}"));
            ip(&net.router, &format!("addr add fd0{side}::25{last}/64 dev {name} nodad"));
        }
        ip(&net.router, &format!("addr add 10.9.0.{last}/24 dev y0"));
        ip(&net.router, "link set y0 up");
        ip(&net.router, "link set lo up");
        let forward = || {
            // Also what an interface keeps that is down for a while.
            let all6 =
                ["forwarding", "keep_addr_on_down"].map(|name| format!("net.ipv6.conf.all.{name}"));
            for name in all6.iter().map(String::as_str).chain(["net.ipv4.ip_forward"]) {
                weir_net::sysctl::write(name, "1").expect("written");
            }
        };
        net.router.run(forward).expect("entered");
    }
    for (host, name, switch, net) in
        [(&one.client, "c0", &two.client, 1), (&one.server, "s0", &two.server, 2)]
    {
        cable(host, name, switch, "host");
        ip(host, &format!("addr add 10.{net}.0.2/24 dev {name}"));
        ip(host, &format!("route add default via 10.{net}.0.1"));
        ip(host, &format!("addr add fd0{net}::2/64 dev {name} nodad"));
        ip(host, &format!("-6 route add default via fd0{net}::1"));
    }
    [one, two]
}

/// Of `dist/keepalived.conf`.
const MASTER: u8 = 150;
const BACKUP: u8 = 100;

/// As `ip` shows them.
const SHARED: [&str; 4] = [" 10.1.0.1/32", " 10.2.0.1/32", " fd01::1/128", " fd02::1/128"];

/// Where a box's tracked file is.
fn tracked(net: &Network) -> String {
    net.dir.path().join("priority").to_string_lossy().into_owned()
}

/// keepalived on a box.
struct Keepalived(Killed);

impl Keepalived {
    fn new(net: &Network, priority: u8) -> Self {
        let text = keepalived::config(&[
            ("eth1", "b0"),
            ("eth0", "b1"),
            ("$PRIORITY=150", &format!("$PRIORITY={priority}")),
            // A busy machine is silent for longer than three tenths of a second.
            ("advert_int 0.1", "advert_int 0.5"),
            ("preempt_delay 10", "preempt_delay 1"),
            ("/run/weir-sync/priority", &tracked(net)),
        ]);
        let text = text.unwrap_or_else(|error| panic!("{error}"));
        let config = net.file("keepalived.conf", &text);
        let path = |name: &str| net.dir.path().join(name).to_string_lossy().into_owned();
        let mut command = net.program(&["keepalived", "--dont-fork", "--vrrp", "--log-console"]);
        command.args(["--use-file", &config, "--pid", &path("pid"), "--vrrp_pid", &path("pid2")]);
        let log = File::create(path("keepalived.log")).expect("a file");
        command.stdout(log.try_clone().expect("a handle")).stderr(log);
        Self(Killed(command.spawn().expect("ip runs")))
    }

    /// As `systemctl stop keepalived` does: it tells the other one that it is leaving.
    fn stop(mut self) {
        self.0.end();
    }
}

/// What writes the tracked file.
fn track(net: &Network) -> Killed {
    let mut command = net.program(&[env!("CARGO_BIN_EXE_weir"), "fw", "sync", "track"]);
    command.args([&tracked(net), "--alone-after", "10m"]).stderr(Stdio::null());
    Killed(command.spawn().expect("ip runs"))
}

fn priority(net: &Network) -> String {
    fs::read_to_string(tracked(net)).unwrap_or_default().trim().to_owned()
}

/// How many of the shared addresses a box has.
fn address_count(net: &Network) -> usize {
    let output = net.program(&["ip", "addr"]).output().expect("ip runs");
    let text = stdout(&output);
    SHARED.iter().filter(|address| text.contains(**address)).count()
}

/// Whether a box has the addresses of both sides and versions.
fn is_master(net: &Network) -> bool {
    address_count(net) == SHARED.len()
}

/// How a box is, for whoever reads why a test fails.
fn situation(net: &Network) -> String {
    let log = fs::read_to_string(net.dir.path().join("keepalived.log")).unwrap_or_default();
    let [states, counters] = ["-vvss", "-vsi"].map(|words| net.pfctl(words));
    let sync = net.run(&["fw", "sync", "status"]);
    let is_master = is_master(net);
    format!("master: {is_master}\n{}{states}{counters}{log}", stdout(&sync))
}

/// Waits for something of two boxes.
#[track_caller]
fn wait_for(nets: [&Network; 2], why: &str, is_done: impl Fn() -> bool) {
    wait_or_show(why, is_done, || evidence(nets));
}

fn evidence(nets: [&Network; 2]) -> String {
    let [one, two] = nets.map(situation);
    format!("\n--- one\n{one}\n--- two\n{two}")
}

/// Waits until one has all addresses and the other one none of them.
#[track_caller]
fn wait_for_master(net: &Network, other: &Network, why: &str) {
    wait_for([net, other], why, || is_master(net) && address_count(other) == 0);
}

/// One connection by which a megabyte after another goes to the server and back.
struct Transfer<'a> {
    nets: [&'a Network; 2],
    /// Beside it.
    programs: RefCell<Programs>,
    /// A connection by IPv6.
    line6: RefCell<Line>,
    rounds: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl<'a> Transfer<'a> {
    /// The first one of the boxes has the client.
    fn new(test: &str, nets: [&'a Network; 2]) -> Self {
        let (ends, dir) = (nets[0], nets[0].dir.path());
        let programs = Programs::start(test, &ends.client, &ends.server, dir).into();
        let mut line = open(nets[0], SERVER, 7001);
        let line6 = open(nets[0], SERVER6, 7001).into();
        let (rounds, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&rounds), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let bytes = pattern(1_000_000);
            while !end.load(Ordering::Acquire) {
                assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
                count.fetch_add(1, Ordering::AcqRel);
            }
        });
        Self { nets, programs, line6, rounds, is_over, thread }
    }

    /// Three megabytes more, and some of it by this box: until the switch has learned where it is,
    /// the other one forwards what comes there.
    #[track_caller]
    fn goes_on(&self, net: &Network, why: &str) {
        let packets = || net.json("stats")["forwarded_packets"].as_u64().expect("a number");
        let (start, before) = (self.rounds.load(Ordering::Acquire), packets());
        wait_for(self.nets, why, || {
            self.rounds.load(Ordering::Acquire) >= start + 4 && packets() > before + 1000
        });
        self.line6.borrow_mut().bounce(100_000, why);
        self.programs.borrow_mut().go_on(why, || evidence(self.nets));
    }

    fn finish(self) {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().expect("all bytes came");
    }
}

/// Both directions of a box's states.
fn sync(net: &Network, number: usize, peer: &str) -> [Running; 2] {
    [Running::serve(net, LISTEN[number], peer), Running::to(net, LISTEN[1 - number], peer)]
}

fn rules() -> String {
    let programs = [("in", "b0"), ("out", "b1")].map(|(direction, interface)| {
        format!(
            "pass {direction} on {interface} proto tcp to any port {PORTS} flags S/SA keep state\n"
        )
    });
    format!("set skip on y0\n{RULES}{}pass quick proto vrrp no state\n", programs.concat())
}

#[test]
fn a_transfer_goes_on_by_the_other_firewall() {
    let test = "a_transfer_goes_on_by_the_other_firewall";
    if !can_run_lab(test) {
        return;
    }
    if Command::new("keepalived").arg("--version").output().is_err() {
        return skipped(test, "keepalived is not installed");
    }
    let _turn = beside();
    let [one, two] = cluster();
    for host in [SERVER, SERVER6] {
        echo_server(&one.server, host, 7001);
    }
    [&one, &two].into_iter().for_each(|net| net.start(&rules()));
    let [key1, key2] = [keygen(&one), keygen(&two)];
    let sync1 = sync(&one, 0, &key2);
    let _sync2 = sync(&two, 1, &key1);
    let _ready = [&one, &two].map(track);
    let keepalived1 = Keepalived::new(&one, MASTER);
    let _keepalived2 = Keepalived::new(&two, BACKUP);
    wait_until("both are ready", || [&one, &two].map(priority) == ["0", "0"]);
    wait_for_master(&one, &two, "the first one has the priority");
    let transfer = Transfer::new(test, [&one, &two]);
    transfer.goes_on(&one, "by the first one");
    let states = wait_for_the_same(&one, &two, "both have the connections").len();

    // By plan, and back.
    one.printed(&["fw", "sync", "drain"]);
    keepalived1.stop();
    wait_for_master(&two, &one, "the first one has left");
    transfer.goes_on(&two, "after a handover by plan");
    let keepalived1 = Keepalived::new(&one, MASTER);
    wait_for_master(&one, &two, "the first one takes over again");
    transfer.goes_on(&one, "and back");

    // The link between them is cut, and comes back.
    link(&one, "down");
    wait_until("both notice", || !status(&one).out.is_live && !status(&two).incoming.is_live);
    let late = open(&one, SERVER, 7001);
    transfer.goes_on(&one, "without the other one");
    assert!(is_master(&one) && !is_master(&two), "a cut link between them moves no address");
    link(&one, "up");
    wait_until("it is there again", || status(&one).out.is_live && status(&two).out.is_live);
    assert_eq!(wait_for_the_same(&one, &two, "both have all").len(), states + 1);

    // The first one dies, with all that it had.
    for name in ["b0", "b1", "y0"] {
        ip(&one.router, &format!("link set {name} down"));
    }
    drop((keepalived1, sync1));
    assert_exit(&one.run(&["fw", "stop"]), 0);
    wait_until("it has no address", || address_count(&one) == 0);
    wait_for_master(&two, &one, "the second one takes over");
    transfer.goes_on(&two, "after the first one has died");

    // It comes back with an empty table: it waits until it has the connections.
    returns(&one, &two, &transfer, &key2);
    transfer.finish();
    drop(late);
}

/// The first box comes back, and takes over once the states have come.
fn returns(one: &Network, two: &Network, transfer: &Transfer<'_>, key2: &str) {
    for name in ["b0", "b1", "y0"] {
        ip(&one.router, &format!("link set {name} up"));
    }
    one.start(&rules());
    let _keepalived = Keepalived::new(one, MASTER);
    transfer.goes_on(two, "while the first one waits");
    assert_eq!(priority(one), "-100");
    assert!(is_master(two) && !is_master(one), "without states it is not the master");
    let _sync = sync(one, 0, key2);
    wait_for_master(one, two, "it has all states");
    assert!(status(one).incoming.bulk_count > 0);
    transfer.goes_on(one, "after the first one has come back");
    wait_for_the_same(one, two, "both have both");
}
