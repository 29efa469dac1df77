//! `weir rerss`: packets are where they are predicted to be, flows stay in order whatever changes,
//! and nothing is left behind.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::NamedTempFile;
use weir_bpf::attach::{self, Mode};
use weir_bpf::ethtool;
use weir_bpf::rerss::Rerss;
use weir_gen::backend::{Backend as _, RunOptions};
use weir_gen::expect::Expectation;
use weir_gen::live::LiveGenerator;
use weir_gen::observer::{Observed, Observer};
use weir_net::address::Prefix;
use weir_net::{Netlink, NetnsGuard, VethEnd, cpu, sysctl};
use weir_wire::encap::Tunnel;
use weir_wire::mac::MacAddr;
use weir_wire::rss::inner::{FRAGMENT_TIMEOUT_NS, Follower};
use weir_wire::rss::{Fields, Key, Settings, Symmetry, Table};
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamFrames, StreamSpec};
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

use crate::common::{arrived_packets, assert_exit, can_run_lab, skipped, stderr, wait_until};
use crate::turns::{Turn, beside, namespace};

mod lab;

const KEY: &str =
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";

const FLOWS: u8 = 16;

/// A generator at `out`, a router with `in` and `exit`, a receiver at `end`.
struct Bed {
    left: NetnsGuard,
    router: NetnsGuard,
    right: NetnsGuard,
    macs: [MacAddr; 2],
    _turn: Turn,
}

fn mac(name: &str) -> [u8; 6] {
    let link = Netlink::open().and_then(|netlink| netlink.link(name)).expect("it is there");
    link.mac.expect("a veth has a MAC address")
}

fn ifindex(name: &str) -> u32 {
    Netlink::open().and_then(|netlink| netlink.ifindex(name)).expect("it is there")
}

impl Bed {
    fn new() -> Self {
        let turn = beside();
        let [left, router, right] = ["rerss-left", "rerss-router", "rerss-right"].map(namespace);
        for netns in [&left, &router, &right] {
            let quiet = || {
                // Only the packets of the test are to be seen.
                for which in ["all", "default"] {
                    sysctl::write(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
                }
                sysctl::write("net.ipv4.ip_forward", "1")
            };
            netns.run(quiet).expect("entered").expect("written");
        }
        let made = router.run(|| {
            let netlink = Netlink::open().expect("netlink");
            let pairs = [("in", "out", &left), ("exit", "end", &right)];
            for (here, there, netns) in pairs {
                let ends = (VethEnd::new(here), VethEnd::new(there).in_netns(netns));
                netlink.create_veth(&ends.0, &ends.1, 1).expect("a pair");
                netlink.set_up(here).expect("it goes up");
                netns
                    .run(|| Netlink::open().and_then(|netlink| netlink.set_up(there)))
                    .expect("entered")
                    .expect("it goes up");
            }
            for (name, second) in [("in", 18), ("exit", 19)] {
                let prefix = Prefix::new([198, second, 0, 1].into(), 16).expect("a prefix");
                netlink.add_address(name, prefix).expect("an address");
            }
            let far = right.run(|| mac("end")).expect("entered");
            netlink.add_neighbour("exit", [198, 19, 10, 1].into(), far).expect("a neighbour");
            mac("in")
        });
        let into = made.expect("it can be entered");
        let out = left.run(|| mac("out")).expect("entered");
        Self { left, router, right, macs: [out, into].map(MacAddr), _turn: turn }
    }

    fn weir(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.router.name(), env!("CARGO_BIN_EXE_weir"), "rerss"]);
        command.args(words).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.weir(words).output().expect("ip runs")
    }

    /// Starts it at `in`, and waits until the program is there.
    fn start(&self, words: &[&str]) -> Running {
        let all = [&["run", "-i", "in", "--json"], words].concat();
        let mut command = self.weir(&all);
        let [said, errors] = [(); 2].map(|()| NamedTempFile::new().expect("a file"));
        let [out, err] = [&said, &errors].map(|file| file.reopen().expect("a descriptor"));
        let child = command.stdout(out).stderr(err).spawn().expect("it runs");
        wait_until("its program is attached", || self.attached().is_some());
        Running { child, said, errors }
    }

    /// The same, and waits until packets are handed on.
    fn start_on(&self, words: &[&str]) -> Running {
        let running = self.start(&[&["--from", "0"], words].concat());
        wait_until("it is on", || running.lines().iter().any(|line| line["is_on"] == true));
        running
    }

    fn attached(&self) -> Option<String> {
        let attached = self.router.run(|| attach::attached(ifindex("in"))).expect("entered");
        attached.expect("readable").map(|program| program.name)
    }

    fn spec(&self, src: &str) -> StreamSpec {
        let range = |text: &str| text.parse().expect("a range");
        StreamSpec::new(self.macs[0], self.macs[1], range(src), range("198.19.10.1:53"))
    }

    /// Starts to send a traffic, which ends after so many packets if that is given.
    fn begin_to_send(&self, traffic: &Traffic, rate_pps: f64, limit: Option<u64>) -> LiveGenerator {
        let first = u32::try_from(cpu::online().expect("CPUs").first()).expect("small");
        let generator = || LiveGenerator::with_private_park(traffic, ifindex("out"), &[first]);
        let mut generator = self.left.run(generator).expect("entered").expect("it is set up");
        let options = RunOptions {
            rate: Rate::Pps(rate_pps),
            ramp: Duration::ZERO,
            packet_limit: limit,
            first_sequence: 0,
            timestamps: false,
        };
        generator.start(options).expect("it starts");
        generator
    }

    /// Sends so many packets of a traffic.
    fn send(&self, traffic: &Traffic, packets: u64, rate_pps: f64, during: impl FnOnce()) {
        let mut generator = self.begin_to_send(traffic, rate_pps, Some(packets));
        during();
        generator.wait().expect("it ends by itself");
    }

    /// Sees what arrives behind the router.
    fn observe(&self) -> Observer {
        let attach = || Observer::attach(ifindex("end"), Mode::Native, Expectation::default());
        self.right.run(attach).expect("entered").expect("it attaches")
    }

    /// Flows that can be told apart, each a stream of its own.
    fn flows(&self) -> Traffic {
        let specs = (0..FLOWS).map(|number| {
            let src = format!("198.18.10.1:{}", 2000 + u16::from(number));
            (StreamSpec { stream: number, ..self.spec(&src) }, 1)
        });
        Traffic::new(specs.collect()).expect("it can be sent")
    }
}

/// `weir rerss run`, which is killed if it is still there at the end.
struct Running {
    child: Child,
    said: NamedTempFile,
    errors: NamedTempFile,
}

impl Running {
    /// What it has said, as far as it has come.
    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.said.path()).expect("readable");
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Ends it by SIGINT, and returns the totals.
    fn interrupt(self) -> Value {
        let pid = i32::try_from(self.child.id()).expect("a process");
        kill(Pid::from_raw(pid), Signal::SIGINT).expect("it is there");
        self.total(130)
    }

    /// The totals, when it has ended with this exit code.
    #[track_caller]
    fn total(mut self, code: i32) -> Value {
        let status = self.child.wait().expect("it is ours");
        let errors = fs::read_to_string(self.errors.path()).expect("readable");
        assert_eq!(status.code(), Some(code), "{errors}");
        let total = self.lines().pop().unwrap_or_else(|| panic!("nothing said: {errors}"));
        assert_eq!(total["kind"], "total", "{total}");
        all_packets_have_a_place(&total);
        total
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What has ended was waited for.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn number(total: &Value, key: &str) -> u64 {
    total[key].as_u64().unwrap_or_else(|| panic!("{key}: {total}"))
}

/// Each packet that was received is in one of the counts.
#[track_caller]
fn all_packets_have_a_place(total: &Value) {
    let places = ["passed", "local", "sent", "drained", "unhashed", "unplaced"];
    let places = places.map(|place| number(total, &format!("{place}_packets")));
    assert_eq!(places.iter().sum::<u64>(), number(total, "received_packets"), "{total}");
}

/// No flow is in disorder.
#[track_caller]
fn are_in_order(observed: &Observed, evidence: &str) {
    assert_eq!(observed.streams.len(), usize::from(FLOWS));
    for stream in &observed.streams {
        assert!(stream.packets > 500, "{stream:?}");
        let disorder = (stream.reordered, stream.duplicated, stream.too_late);
        assert_eq!(disorder, (0, 0, 0), "{stream:?}, {evidence}");
    }
}

/// Two CPUs that this machine has.
fn two_cpus() -> Option<[u16; 2]> {
    let online = cpu::online().expect("CPUs");
    let mut numbers = online.iter().map(|cpu| u16::try_from(cpu).expect("small"));
    Some([numbers.next()?, numbers.next()?])
}

fn settings(table: Table) -> Settings {
    Settings {
        key: KEY.parse::<Key>().expect("a key"),
        table,
        symmetry: Symmetry::None,
        fields: [Fields::FourTuple; 4],
    }
}

/// A tunnel's packets, bucket by bucket, as the reference says; the interface is left as it was.
#[test]
fn what_a_tunnel_carries_is_spread_as_predicted() {
    if !can_run_lab("what_a_tunnel_carries_is_spread_as_predicted") {
        return;
    }
    const PACKETS: u64 = 2_000;
    let bed = Bed::new();
    let cpus = cpu::online().expect("CPUs");
    for (round, tunnel) in (1..).zip(Tunnel::ALL) {
        let running = bed.start_on(&["--key", KEY, "--table", "equal:1/16"]);
        let base = bed.spec("198.18.10.1:2000-198.18.10.1:2063");
        let sizes = Sizes::Fixed(120);
        let spec = StreamSpec { encap: Some(tunnel), sizes, ..base };
        bed.send(&Traffic::one(spec.clone()).expect("it can be sent"), PACKETS, 20e3, || ());
        // The interface counts on.
        wait_until("all have arrived", || arrived_packets(&bed.router, "in") >= round * PACKETS);
        let total = running.interrupt();
        assert_eq!(bed.attached(), None, "nothing is left");
        let frames = StreamFrames::new(spec).expect("it can be sent");
        let table = Table::equal(1, 16).expect("a table");
        let mut reference = Follower::new(settings(table.clone()), FRAGMENT_TIMEOUT_NS, 1);
        let mut expected = vec![0_u64; 16];
        for sequence in 0..PACKETS {
            let hash = reference.hash(&frames.build(sequence), 0).hash().expect("an IP header");
            expected[table.bucket(hash)] += 1;
        }
        let found: Vec<u64> = total["bucket_packets"]
            .as_array()
            .expect("buckets")
            .iter()
            .map(|count| count.as_u64().expect("a count"))
            .collect();
        assert_eq!(found, expected, "{tunnel}: {total}");
        assert_eq!(total["received_packets"], PACKETS);
        assert_eq!(total["passed_packets"], 0, "it was on: {total}");
        let handled = number(&total, "local_packets") + number(&total, "sent_packets");
        assert_eq!(handled, PACKETS, "{total}");
        assert_eq!(total["cpus"][0]["cpu"], cpus.first());
    }
}

/// Flows stay in order while it goes on and off, and buckets change their CPUs.
#[test]
fn flows_stay_in_order_whatever_changes() {
    const TEST: &str = "flows_stay_in_order_whatever_changes";
    if !can_run_lab(TEST) {
        return;
    }
    let Some([first, second]) = two_cpus() else { return skipped(TEST, "there is one CPU") };
    const PACKETS: u64 = 120_000;
    let bed = Bed::new();
    let tables: Vec<Table> = [[first, second], [second, first], [second, second]]
        .iter()
        .map(|pair| Table::new(pair.repeat(8)).expect("a table"))
        .collect();
    let settings = settings(tables[0].clone());
    let timeout = Duration::from_nanos(FRAGMENT_TIMEOUT_NS);
    let mut rerss = Rerss::load(&settings, 2_048, timeout).expect("it loads");
    let threads = weir_net::process::cpumap_threads().expect("/proc is there");
    assert!(threads.len() >= 2, "a queue for each CPU: {threads:?}");
    let link = bed.router.run(|| rerss.attach(ifindex("in"))).expect("entered");
    let _link = link.expect("it attaches");
    let observer = bed.observe();
    let mut drained = true;
    bed.send(&bed.flows(), PACKETS, 60e3, || {
        for step in 0..12 {
            let table = tables.get(step % 4);
            drained &= rerss.change(table).expect("it changes").is_drained;
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    rerss.change(None).expect("it changes");
    let counts = rerss.counts().expect("counts");
    let sent: u64 = counts.queues.values().map(|queue| queue.sent_packets).sum();
    assert!(sent > 0 && counts.drained_packets > 0, "it has done something: {counts:?}");
    assert!(drained, "the queues were worked off each time: {counts:?}");
    let observed = observer.observed().expect("readable");
    are_in_order(&observed, &format!("{counts:?}"));
}

/// The same of the command, which comes to a device that packets come in by, goes on and off, and
/// leaves.
#[test]
fn flows_stay_in_order_while_the_command_comes_and_goes() {
    const TEST: &str = "flows_stay_in_order_while_the_command_comes_and_goes";
    if !can_run_lab(TEST) {
        return;
    }
    let Some(cpus) = two_cpus() else { return skipped(TEST, "there is one CPU") };
    let bed = Bed::new();
    // The device takes XDP frames without a program, too.
    bed.router.run(|| ethtool::set_gro("in", true)).expect("entered").expect("it is a veth");
    let observer = bed.observe();
    let mut generator = bed.begin_to_send(&bed.flows(), 60e3, None);
    wait_until("packets arrive", || arrived_packets(&bed.router, "in") >= 1_000);
    let cpus = cpus.map(|cpu| cpu.to_string()).join(",");
    let mut totals = Vec::new();
    for _ in 0..3 {
        let running = bed.start_on(&["--key", KEY, "--cpus", &cpus]);
        let so_far = arrived_packets(&bed.router, "in");
        wait_until("more arrive", || arrived_packets(&bed.router, "in") >= so_far + 5_000);
        totals.push(running.interrupt());
        assert_eq!(bed.attached(), None);
    }
    let so_far = arrived_packets(&bed.router, "in");
    wait_until("more arrive", || arrived_packets(&bed.router, "in") >= so_far + 1_000);
    generator.stop().expect("it stops");
    let handed = |total: &Value| number(total, "sent_packets") > 0;
    assert!(totals.iter().all(handed), "it has done something: {totals:?}");
    are_in_order(&observer.observed().expect("readable"), &format!("{totals:?}"));
}

#[test]
fn it_stays_off_below_its_rate_and_is_stopped_by_name() {
    if !can_run_lab("it_stays_off_below_its_rate_and_is_stopped_by_name") {
        return;
    }
    let bed = Bed::new();
    let running = bed.start(&["--from", "100Mpps"]);
    let again = bed.run(&["run", "-i", "in"]);
    assert_exit(&again, 2);
    assert!(stderr(&again).contains("attached to `in` already: weir_rerss"), "{}", stderr(&again));
    let traffic = Traffic::one(bed.spec("198.18.10.1:2000")).expect("it can be sent");
    bed.send(&traffic, 500, 20e3, || ());
    wait_until("all have arrived", || arrived_packets(&bed.router, "in") >= 500);
    assert_exit(&bed.run(&["stop", "-i", "in"]), 0);
    let total = running.total(143);
    assert_eq!((&total["is_on"], &total["passed_packets"]), (&false.into(), &500.into()));
    assert_eq!((&total["received_packets"], &total["sent_packets"]), (&500.into(), &0.into()));
    assert_exit(&bed.run(&["stop", "-i", "in"]), 1);
    let short = bed.run(&["run", "-i", "in", "--duration", "100ms"]);
    assert_exit(&short, 0);
    assert_eq!(bed.attached(), None);
}

#[test]
fn what_cannot_be_is_refused() {
    if !can_run_lab("what_cannot_be_is_refused") {
        return;
    }
    let bed = Bed::new();
    let refused = |words: &[&str], needle: &str| {
        let output = bed.run(&[&["run"], words].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(needle), "{words:?}: {}", stderr(&output));
        assert_eq!(bed.attached(), None, "{words:?}");
    };
    refused(&["-i", "lo"], "loopback");
    refused(&["-i", "nowhere"], "cannot use `nowhere`");
    refused(&["-i", "in", "--cpus", "999"], "CPU 999 is not there");
    refused(&["-i", "in", "--queue", "16385"], "1 to 16384");
    refused(&["-i", "in", "--cpus", "0", "--table", "0,1"], "more CPUs than the 1 of --cpus");
    refused(&["-i", "in", "--from", "50%"], "packets per second");
    refused(&["-i", "in", "--key", "6d5a"], "40 to 52 bytes");
    refused(&["-i", "in", "--fields", "sctp4=2-tuple"], "tcp4, udp4");
}

/// An interface has one XDP program: whoever comes second is told, and harms nobody.
#[test]
fn the_firewall_keeps_its_interface() {
    if !can_run_lab("the_firewall_keeps_its_interface") {
        return;
    }
    let bed = Bed::new();
    let rules = NamedTempFile::new().expect("a file");
    fs::write(rules.path(), "set limit states 1000\npass\n").expect("writable");
    let file = rules.path().display().to_string();
    let firewall = |words: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", bed.router.name(), env!("CARGO_BIN_EXE_weir"), "fw"]);
        command.args(words).env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("ip runs")
    };
    let running = bed.start(&["--from", "100Mpps"]);
    let second = firewall(&["run", "-f", &file]);
    assert_exit(&second, 2);
    assert_eq!(bed.attached().as_deref(), Some("weir_rerss"), "{}", stderr(&second));
    assert_exit(&bed.run(&["stop", "-i", "in"]), 0);
    running.total(143);
    assert_exit(&firewall(&["run", "-f", &file]), 0);
    let output = bed.run(&["run", "-i", "in"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("`weir fw` is attached to `in`"), "{}", stderr(&output));
    let output = bed.run(&["stop", "-i", "in"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("is not that of `weir rerss`"), "{}", stderr(&output));
    assert_exit(&firewall(&["stop"]), 0);
}

/// What was handed to another CPU comes to the firewall of the devices above.
#[test]
fn the_firewall_filters_above_it() {
    if !can_run_lab("the_firewall_filters_above_it") {
        return;
    }
    const PACKETS: u64 = 64 * 30;
    let bed = Bed::new();
    let bridged = bed.router.run(|| {
        let run = |words: &str| {
            let output = Command::new("ip").args(words.split(' ')).output().expect("ip runs");
            assert!(output.status.success(), "{words}: {}", stderr(&output));
        };
        run("link add br0 type bridge");
        run("addr del 198.18.0.1/16 dev in");
        run("link set in master br0");
        run(&format!("link set br0 address {}", MacAddr(mac("in"))));
        run("addr add 198.18.0.1/16 dev br0");
        run("link set br0 up");
    });
    bridged.expect("entered");
    let rules = NamedTempFile::new().expect("a file");
    // Half of the flows.
    let text = "set skip on { \"in\" exit }\npass\n\
                block drop in quick on br0 proto udp from any port 2032:2063 to any\n";
    fs::write(rules.path(), text).expect("writable");
    let file = rules.path().display().to_string();
    let firewall = |words: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", bed.router.name(), env!("CARGO_BIN_EXE_weir"), "fw"]);
        command.args(words).env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("ip runs")
    };
    let spec = bed.spec("198.18.10.1:2000-198.18.10.1:2063");
    let traffic = Traffic::one(spec).expect("it can be sent");
    for (round, how) in (1..).zip([&[][..], &["--generic"]]) {
        let running = bed.start_on(&["--table", "equal:1/16"]);
        let output = firewall(&[&["run", "-f", &file], how].concat());
        assert_exit(&output, 0);
        assert_eq!(bed.attached().as_deref(), Some("weir_rerss"), "{}", stderr(&output));
        bed.send(&traffic, PACKETS, 20e3, || ());
        let passed = || arrived_packets(&bed.right, "end");
        wait_until("half of them have passed", || passed() == round * PACKETS / 2);
        let total = running.interrupt();
        let handled = number(&total, "local_packets") + number(&total, "sent_packets");
        assert_eq!(handled, PACKETS, "{how:?}: {total}");
        assert_exit(&firewall(&["stop"]), 0);
    }
}
