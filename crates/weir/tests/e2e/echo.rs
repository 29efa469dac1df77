//! `weir echo`: both ends, with a wire between them that spreads packets as a card would.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use weir_bpf::echo::{EchoLink, EchoProgram, Way};
use weir_bpf::ethtool;
use weir_bpf::rss::{Link, QueueMark, Receiver, Wire};
use weir_gen::echo::report;
use weir_net::address::Prefix;
use weir_net::{Netlink, NetnsGuard, VethEnd};
use weir_wire::rss::{Fields, Key, Settings, Symmetry};

use crate::common::{assert_exit, can_run_lab, run, stderr, stdout, unless_starved, wait_until};
use crate::turns::{Turn, beside, namespace};

mod lab;

const SERVER: &str = "10.9.0.1:7007";
/// Slow enough for a veth's ring of 256 packets, and for sockets of a busy machine.
const RATE: &str = "4kpps";
const COUNT: u64 = 2000;

/// A namespace with `in` and one with `out`, of four queues.
struct Bed {
    here: NetnsGuard,
    peer: NetnsGuard,
    _wire: (Wire, Link),
    _turn: Turn,
}

fn settings() -> Settings {
    Settings {
        key: Key::random(7, 40, 64).expect("a length that keys have").0,
        table: "weights:2,1,0,1/16".parse().expect("a table"),
        symmetry: Symmetry::None,
        fields: [Fields::FourTuple; 4],
    }
}

impl Bed {
    fn new() -> Self {
        let turn = beside();
        let [here, peer] = ["echo-here", "echo-peer"].map(namespace);
        let address = |last| Prefix::new([10, 9, 0, last].into(), 24).expect("a prefix");
        let ifindex = here.run(|| {
            let netlink = Netlink::open().expect("netlink");
            let ends = (VethEnd::new("in"), VethEnd::new("out").in_netns(&peer));
            netlink.create_veth(&ends.0, &ends.1, 4).expect("a pair");
            netlink.add_address("in", address(1)).expect("an address");
            netlink.set_up("in").expect("it goes up");
            ethtool::set_gro("in", true).expect("GRO goes on");
            netlink.ifindex("in").expect("it is there")
        });
        let ifindex = ifindex.expect("it can be entered");
        let wire = Wire::load(&settings(), Receiver { netns: here.inode(), ifindex });
        let wire = wire.expect("it loads");
        let link = peer.run(|| {
            let netlink = Netlink::open().expect("netlink");
            netlink.add_address("out", address(2)).expect("an address");
            netlink.set_up("out").expect("it goes up");
            ethtool::set_tso("out", false).expect("TSO goes off");
            // What is returned before the stack has them.
            ethtool::set_tx_checksums("out", false).expect("checksums are computed");
            wire.attach(netlink.ifindex("out").expect("it is there")).expect("it attaches")
        });
        let link = link.expect("it can be entered");
        Self { here, peer, _wire: (wire, link), _turn: turn }
    }

    /// Lets everything pass at `out`: a veth takes what is returned by XDP_TX only with a program.
    fn pass(&self) -> (EchoProgram, EchoLink) {
        let settings = settings();
        let nobody = "192.0.2.1:1".parse().expect("an address");
        let program = EchoProgram::load(Way::Sockets, nobody, &settings, 4, QueueMark::Number);
        let program = program.expect("it loads");
        let attach = || {
            let ifindex = Netlink::open().expect("netlink").ifindex("out").expect("it is there");
            program.attach(ifindex).expect("it attaches")
        };
        let link = self.peer.run(attach).expect("it can be entered");
        (program, link)
    }

    /// A server that has begun to answer.
    fn serve(&self, more: &[&str]) -> Serving {
        let child = inside(&self.here)
            .args(["serve", "--listen", SERVER, "-i", "in", "--announce", "--json"])
            // Few enough for the pipe, which is read at the end.
            .args(["--interval", "1s"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("weir runs");
        let mut serving = Serving(Some(child));
        wait_until("the server answers", || {
            assert!(!serving.has_ended(), "{}", serving.complaint());
            let address: SocketAddr = SERVER.parse().expect("an address");
            self.peer.run(|| TcpStream::connect(address).is_ok()).expect("it can be entered")
        });
        serving
    }

    fn client(&self, more: &[&str]) -> Output {
        inside(&self.peer).args(["client", SERVER]).args(more).output().expect("weir runs")
    }

    /// What a client counts that sends some datagrams of two flows of each bucket.
    fn count(&self, more: &[&str]) -> Value {
        let count = COUNT.to_string();
        let words =
            ["--buckets", "all", "--flows", "2", "--rate", RATE, "--count", &count, "--json"];
        let output = self.client(&[&words[..], more].concat());
        assert_exit(&output, 0);
        last_line(&stdout(&output))
    }
}

fn inside(netns: &NetnsGuard) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name(), env!("CARGO_BIN_EXE_weir"), "echo"]);
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn last_line(text: &str) -> Value {
    let line = text.lines().last().unwrap_or_else(|| panic!("nothing was printed"));
    serde_json::from_str(line).expect("JSON")
}

/// A server, which ends when this is dropped.
struct Serving(Option<Child>);

impl Serving {
    fn has_ended(&mut self) -> bool {
        let child = self.0.as_mut().expect("it was started");
        child.try_wait().expect("it is ours").is_some()
    }

    fn complaint(&mut self) -> String {
        let output = self.0.take().expect("it was started").wait_with_output().expect("it ends");
        stderr(&output)
    }

    /// Ends it as Ctrl-C does, and returns the last thing that it prints.
    fn interrupt(mut self) -> Value {
        let child = self.0.take().expect("it was started");
        // `ip netns exec` becomes what it executes.
        let done = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(done.success());
        let output = child.wait_with_output().expect("it ends");
        assert_exit(&output, 130);
        let lines: Vec<Value> = BufReader::new(&output.stdout[..])
            .lines()
            .map(|line| serde_json::from_str(&line.expect("text")).expect("JSON"))
            .collect();
        assert!(lines.iter().rev().skip(1).all(|line| line["kind"] == "interval"), "{lines:?}");
        lines.last().expect("it prints the totals").clone()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` is no count in {value}"))
}

/// What was lost where nothing should be lost, if it was.
fn check_nothing_lost(found: &Value) -> Result<(), String> {
    let server = &found["server"];
    let ways = [
        number(found, "sent_packets"),
        number(server, "arrived_packets"),
        number(server, "read_packets"),
        number(server, "sent_packets"),
        number(found, "received_packets"),
    ];
    // Each loss that is counted somewhere stands between the two counts that it is between.
    assert_eq!(ways[1] - ways[2], number(server, "dropped_packets"), "{found}");
    assert_eq!(ways[2] - ways[3], number(server, "refused_packets"), "{found}");
    assert!(ways.is_sorted_by(|before, after| before >= after), "{ways:?}");
    let is_all = ways == [COUNT; 5];
    if is_all { Ok(()) } else { Err(format!("{ways:?}")) }
}

#[test]
fn every_backend_returns_what_it_gets_and_five_counts_add_up() {
    let name = "every_backend_returns_what_it_gets_and_five_counts_add_up";
    if !can_run_lab(name) {
        return;
    }
    let bed = Bed::new();
    for (backend, more) in [
        ("epoll", &[][..]),
        ("mmsg", &["--each", "bucket"]),
        ("mmsg", &["--gro"]),
        ("uring", &["--each", "bucket"]),
        ("af_xdp", &[]),
        ("xdp", &[]),
    ] {
        let _pass = (backend == "xdp").then(|| bed.pass());
        let server = bed.serve(&[&["--backend", backend], more].concat());
        let mut last = Value::Null;
        unless_starved(&format!("{name}: {backend}"), || {
            let found = bed.count(&["--clients", "2"]);
            assert_eq!(number(&found["server"], "misplaced_packets"), 0, "{backend}: {found}");
            last = found.clone();
            check_nothing_lost(&found)
        });
        let rows = last["buckets"].as_array().expect("buckets");
        assert_eq!(rows.len(), 16, "{backend}");
        for row in rows {
            assert_eq!((&row["flow_count"], &row["misplaced_packets"]), (&2.into(), &0.into()));
            assert!(number(row, "sent_packets") >= COUNT / 20, "{backend}: {row}");
            assert!(number(&row["latency"], "median_ns") > 0, "{backend}: {row}");
        }
        let total = server.interrupt();
        assert_eq!(total["kind"], "total");
        // Of every attempt.
        assert!(number(&total, "arrived_packets") >= number(&last["server"], "arrived_packets"));
        let worker_count = match (backend, more) {
            ("xdp", _) => 0,
            (_, ["--each", _]) => 16,
            _ => 4,
        };
        let workers = total["workers"].as_array().expect("workers");
        assert_eq!(workers.len(), worker_count, "{backend}");
        for worker in workers.iter().take(2) {
            assert!(number(worker, "read_packets") > 0, "{backend}: {total}");
            assert!(number(worker, "cpu_time_ns") > 0, "{backend}: {total}");
        }
    }
}

#[test]
fn every_interval_says_what_became_of_each_bucket() {
    if !can_run_lab("every_interval_says_what_became_of_each_bucket") {
        return;
    }
    let bed = Bed::new();
    let server = bed.serve(&[]);
    let words = ["--buckets", "0-2", "--rate", "1kpps", "--duration", "1s", "--interval", "100ms"];
    let output = bed.client(&[&words[..], &["--json"]].concat());
    assert_exit(&output, 0);
    let lines: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (total, intervals) = lines.split_last().expect("it prints the totals");
    assert!(!intervals.is_empty(), "{total}");
    let (mut received, mut timed) = ([0.0; 3], 0);
    for interval in intervals {
        let rows = interval["buckets"].as_array().expect("buckets");
        let sum = |name: &str| rows.iter().filter_map(|row| row[name].as_f64()).sum::<f64>();
        for name in ["sent_pps", "received_pps"] {
            let all = interval[name].as_f64().expect("a rate");
            assert!((sum(name) - all).abs() < 1e-3, "{name}: {interval}");
        }
        for (row, received) in rows.iter().zip(&mut received) {
            *received += row["received_pps"].as_f64().expect("a rate");
        }
        timed += rows.iter().filter(|row| row["latency"]["median_ns"].is_u64()).count();
    }
    assert!(received.iter().all(|rate_pps| *rate_pps > 0.0), "{received:?}");
    assert!(timed >= 3, "{intervals:?}");
    let total = server.interrupt();
    let rows = total["buckets"].as_array().expect("buckets");
    assert!(rows.iter().all(|row| row["arrived_pps"].is_number()), "{total}");
}

#[test]
fn workers_are_chosen_by_hash_queue_cpu_or_the_kernel() {
    if !can_run_lab("workers_are_chosen_by_hash_queue_cpu_or_the_kernel") {
        return;
    }
    let bed = Bed::new();
    for steer in ["hash", "queue", "cpu", "none"] {
        let server = bed.serve(&["--steer", steer, "--backend", "mmsg", "--receive-only"]);
        // What a veth's end is sent, the CPU that sends it receives.
        let found = bed.count(&["--cpus", "0"]);
        assert_eq!(number(&found, "received_packets"), 0);
        assert_eq!(number(&found["server"], "sent_packets"), 0);
        let total = server.interrupt();
        let workers = total["workers"].as_array().expect("workers");
        let mut by_queue = [0; 4];
        for bucket in total["buckets"].as_array().expect("buckets") {
            let queue = usize::try_from(number(bucket, "queue")).expect("small");
            by_queue[queue] += number(bucket, "arrived_packets");
        }
        assert_eq!(by_queue[2], 0, "the table does not name it");
        let got =
            |worker: &Value| number(worker, "read_packets") + number(worker, "dropped_packets");
        let got: Vec<u64> = workers.iter().map(got).collect();
        assert_eq!(got.iter().sum::<u64>(), by_queue.iter().sum::<u64>());
        match steer {
            "hash" | "queue" => assert_eq!(got, by_queue, "{steer}"),
            "none" => assert!(got[2] > 0, "the kernel knows of no queues: {got:?}"),
            _ => {
                let is_on_cpu_0 = |worker: &Value| worker["cpu"] == 0;
                let place = workers.iter().position(is_on_cpu_0).expect("CPU 0 has a worker");
                let all: u64 = got.iter().sum();
                assert!(got[place] * 10 >= all * 9, "worker {place} is on CPU 0: {got:?}");
            }
        }
    }
}

#[test]
fn a_server_does_not_answer_another() {
    if !can_run_lab("a_server_does_not_answer_another") {
        return;
    }
    let bed = Bed::new();
    for backend in ["epoll", "mmsg", "uring", "af_xdp", "xdp"] {
        let server = bed.serve(&["--backend", backend]);
        let source = ["--source", "10.9.0.2:7007", "--flows", "1"];
        let output = bed.client(&[&source[..], &["--count", "200", "--rate", RATE]].concat());
        assert_exit(&output, 0);
        let total = server.interrupt();
        assert!(number(&total, "arrived_packets") > 0, "{backend}: {total}");
        assert_eq!(number(&total, "refused_packets"), number(&total, "read_packets"), "{backend}");
        assert_eq!(number(&total, "sent_packets"), 0, "{backend}: {total}");
    }
}

/// The kernel frees what an AF_XDP socket has had only after it was closed.
#[test]
fn a_server_takes_over_the_queues_of_one_that_has_just_ended() {
    if !can_run_lab("a_server_takes_over_the_queues_of_one_that_has_just_ended") {
        return;
    }
    let bed = Bed::new();
    for _ in 0..4 {
        let server = bed.serve(&["--backend", "af_xdp"]);
        assert_eq!(server.interrupt()["kind"], "total");
    }
}

#[test]
fn what_arrives_put_together_is_counted_as_it_was_sent() {
    if !can_run_lab("what_arrives_put_together_is_counted_as_it_was_sent") {
        return;
    }
    let bed = Bed::new();
    let server = bed.serve(&["--backend", "mmsg", "--gro", "--receive-only"]);
    // A flood of one flow, of which GRO makes messages of many.
    let output = bed.client(&["--flows", "1", "--count", "20000"]);
    assert_exit(&output, 0);
    let total = server.interrupt();
    let [arrived, read] = ["arrived_packets", "read_packets"].map(|key| number(&total, key));
    assert!(read > 0 && arrived >= read + number(&total, "dropped_packets"), "{total}");
}

#[test]
fn a_server_follows_its_interfaces_table() {
    if !can_run_lab("a_server_follows_its_interfaces_table") {
        return;
    }
    let bed = Bed::new();
    for backend in ["mmsg", "af_xdp"] {
        let change = |words: &[&str]| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", bed.here.name(), env!("CARGO_BIN_EXE_weir"), "rss"]);
            assert_exit(&command.args(words).output().expect("weir runs"), 0);
        };
        let server = bed.serve(&["--backend", backend]);
        change(&["set", "in", "--table", "weights:0,0,1/16"]);
        wait_until("the server tells the new table", || {
            let said = bed.peer.run(|| report::ask(SERVER.parse().expect("an address")));
            said.expect("it can be entered").expect("it answers").table == [2; 16]
        });
        let found = bed.count(&[]);
        assert_eq!(number(&found["server"], "misplaced_packets"), 0, "{backend}: {found}");
        let total = server.interrupt();
        let arrived = number(&total, "arrived_packets");
        assert!(arrived > COUNT / 2, "{backend}: {total}");
        let worker = &total["workers"][2];
        let got = number(worker, "read_packets") + number(worker, "dropped_packets");
        assert_eq!(got, arrived, "{backend}: {total}");
        change(&["undo", "in"]);
    }
}

#[test]
fn what_cannot_be_echoed_is_refused_with_what_can_be_done() {
    if !can_run_lab("what_cannot_be_echoed_is_refused_with_what_can_be_done") {
        return;
    }
    let _turn = beside();
    let listen = ["echo", "serve", "--listen", "127.0.0.1:7007"];
    for (words, why) in [
        (&["--backend", "dpdk"][..], "af_xdp"),
        (&["--backend", "xdp"], "name it with -i"),
        (&["--backend", "af_xdp", "-i", "lo", "--each", "bucket"], "leave it out"),
        (&["--backend", "af_xdp", "-i", "lo", "--steer", "cpu"], "the card has chosen the queue"),
        (&["--backend", "xdp", "-i", "lo", "--receive-only"], "nobody who would read"),
        (&["--gro"], "it needs --backend mmsg"),
        (&["--backend", "uring", "--gro"], "it needs --backend mmsg"),
        (&["-i", "lo"], "give --table equal:N"),
        (&["--steer", "queue"], "of which interface"),
        (&["--key", "00"], "40 to 52 bytes"),
        (&["--table", "equal:0"], "no queue has a share"),
        (&["--table", "equal:2000/2048", "--each", "bucket"], "2048 sockets are more than 1024"),
    ] {
        let output = run(&[&listen, words].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
    let output = run(&["echo", "serve", "--listen", "192.0.2.1:7", "--steer", "none"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("192.0.2.1:7: cannot bind it"), "{}", stderr(&output));
    for (words, why) in [
        (&["--buckets", "all"][..], "the server does not announce"),
        (&["--buckets", "9", "--table", "equal:2/8"], "whose buckets are 0 to 7"),
        (&["--size", "57"], "58 to 1514 bytes"),
        (&["--rate", "50%"], "line"),
        (&["--flows", "20k", "--table", "equal:2/8"], "each of which takes a socket"),
        (&["--source", "127.0.0.1:5", "--flows", "2"], "has 1 flow, and 2 are asked for"),
        (&["--source", "[::1]:5", "--flows", "1"], "different address families"),
        (&["--source", "192.0.2.7:5", "--flows", "1"], "not one of this host's"),
        (&["--source", "127.0.0.1:5", "--buckets", "all", "--table", "equal:2/8"], "7 of 8"),
    ] {
        let output = run(&[&["echo", "client", "127.0.0.1:7008"], words].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
}
