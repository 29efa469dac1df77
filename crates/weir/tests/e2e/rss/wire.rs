//! `weir rss` at an interface: a veth that receives from a wire which spreads packets as a card
//! would. Whatever a card would refuse halfway is tested with one that is made up, in weir-machine.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use weir_bpf::ethtool;
use weir_bpf::rss::{Link, Receiver, Wire};
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd};
use weir_wire::rss::{Fields, Key, Settings, Symmetry, Table};

use crate::common::{Lab, assert_exit, can_run_lab, json, stderr, stdout, trials};
use crate::turns::{Turn, alone, beside, namespace};

/// Two namespaces, `in` of one connected to `out` of the other with four queues.
struct Bed {
    here: NetnsGuard,
    peer: NetnsGuard,
    _wire: (Wire, Link),
    _turn: Turn,
}

const MAC: &str = "02:00:00:00:00:01";

fn settings(fields: Fields, table: &str) -> Settings {
    Settings {
        key: Key::random(11, 40, 64).expect("a length that keys have").0,
        table: table.parse().expect("a table"),
        symmetry: Symmetry::None,
        fields: [Fields::FourTuple, fields, Fields::FourTuple, fields],
    }
}

impl Bed {
    /// A wire that does one thing and may say that it has another key.
    fn new(done: &Settings, shown: &Key) -> Self {
        let turn = beside();
        let [here, peer] = ["rss-here", "rss-peer"].map(namespace);
        for side in [&here, &peer] {
            side.run(|| {
                // No neighbour discovery: only the packets of the test are to be seen.
                for which in ["all", "default"] {
                    let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                    fs::write(path, "1").expect("the sysctl is written");
                }
            })
            .expect("the namespace can be entered");
        }
        let netns = here.inode();
        let ifindex = here
            .run(|| {
                let netlink = Netlink::open().expect("netlink");
                let ends = (VethEnd::new("in"), VethEnd::new("out").in_netns(&peer));
                netlink.create_veth(&ends.0, &ends.1, 4).expect("a pair");
                netlink.set_up("in").expect("it goes up");
                ethtool::set_gro("in", true).expect("GRO goes on");
                netlink.ifindex("in").expect("it is there")
            })
            .expect("the namespace can be entered");
        let wire = Wire::load_as(done, shown, Receiver { netns, ifindex }).expect("it loads");
        let link = peer
            .run(|| {
                let netlink = Netlink::open().expect("netlink");
                netlink.set_up("out").expect("it goes up");
                ethtool::set_tso("out", false).expect("TSO goes off");
                wire.attach(netlink.ifindex("out").expect("it is there")).expect("it attaches")
            })
            .expect("the namespace can be entered");
        Self { here, peer, _wire: (wire, link), _turn: turn }
    }

    fn honest(done: &Settings) -> Self {
        Self::new(done, &done.key)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.here.name(), env!("CARGO_BIN_EXE_weir"), "rss"]);
        command.args(words).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("weir runs")
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        assert_exit(&output, code);
        serde_json::from_str(&stdout(&output)).expect("JSON")
    }

    /// Sends some flows, and looks where they arrive.
    fn probe_by_looking(&self) -> Value {
        self.probe(&["--flows", "400", "--learn"], 0)
    }

    fn probe(&self, more: &[&str], code: i32) -> Value {
        let from = format!("{}:out", self.peer.name());
        let flows = ["--src", "10.0.0.1:1024-10.0.0.9:1073", "--dst", "10.0.1.1:7"];
        self.json(&[&["probe", "in", "--from", &from], &flows[..], more].concat(), code)
    }
}

impl std::ops::Deref for Bed {
    type Target = Netns;

    fn deref(&self) -> &Netns {
        &self.here
    }
}

#[test]
fn what_is_shown_is_predicted_by_and_probed() {
    if !can_run_lab("what_is_shown_is_predicted_by_and_probed") {
        return;
    }
    let done = settings(Fields::FourTuple, "equal:4/64");
    let bed = Bed::honest(&done);
    let shown = bed.json(&["show", "in"], 0);
    assert_eq!(shown["rss"]["key"], done.key.to_string());
    assert_eq!(shown["rss"]["table"].as_array().map(Vec::len), Some(64));
    assert_eq!(shown["rss"]["fields"]["udp6"], "4-tuple");
    assert_eq!(shown["queues"].as_array().map(Vec::len), Some(4));
    let text = stdout(&bed.run(&["show", "in"]));
    assert!(text.contains("64 buckets: equal:4") && text.contains("of a wire"), "{text}");
    for proto in ["udp", "tcp"] {
        let found = bed.probe(&["--proto", proto, "--flows", "400"], 0);
        assert_eq!(
            (&found["flow_count"], &found["misplaced_flow_count"]),
            (&400.into(), &0.into())
        );
        assert_eq!(found["right_hash_count"], 400);
        // The command that only computes says the same.
        let words =
            ["predict", "-i", "in", "--proto", proto, "--src", "10.0.0.1:1024-10.0.0.8:1073"];
        let predicted = bed.json(&[&words[..], &["--dst", "10.0.1.1:7"]].concat(), 0);
        for (there, seen) in predicted["queues"]
            .as_array()
            .expect("queues")
            .iter()
            .zip(found["queues"].as_array().expect("queues"))
        {
            assert_eq!(there["flow_count"], seen["seen_flow_count"], "{proto}");
        }
    }
}

#[test]
fn a_probe_finds_out_what_settings_do_not_tell() {
    if !can_run_lab("a_probe_finds_out_what_settings_do_not_tell") {
        return;
    }
    let done = Settings { key: Key::microsoft(), ..settings(Fields::FourTuple, "equal:4/64") };
    let bed = Bed::new(&done, &Key::random(2, 40, 64).expect("a length that keys have").0);
    let found = bed.probe(&["--flows", "300"], 1);
    assert!(found["misplaced_flow_count"].as_u64().expect("a count") > 150, "{found}");
    assert_eq!(found["explanation"], "Microsoft's key");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let name = file.path().to_string_lossy().into_owned();
    let learned = bed.probe(&["--flows", "300", "--learn", "--stream", &name], 0);
    let least = learned["queues"].as_array().expect("queues").iter();
    let least = least.filter_map(|queue| queue["seen_flow_count"].as_u64()).min().expect("queues");
    let streams = fs::read_to_string(&name).expect("the streams");
    assert_eq!(streams.matches("[[stream]]").count() as u64, 4 * least.min(64));
}

#[test]
fn what_the_doctor_finds_is_mended_by_its_command_and_undone() {
    if !can_run_lab("what_the_doctor_finds_is_mended_by_its_command_and_undone") {
        return;
    }
    let done = settings(Fields::TwoTuple, "equal:2/64");
    let bed = Bed::honest(&done);
    let found = bed.json(&["doctor", "in"], 1);
    let commands: Vec<(String, String)> = found["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|finding| {
            let text = |name: &str| finding[name].as_str().expect("a text").to_owned();
            (text("kind"), text("command"))
        })
        .collect();
    let kinds: Vec<&str> = commands.iter().map(|(kind, _)| kind.as_str()).collect();
    assert!(kinds.starts_with(&["udp-by-addresses", "few-queues"]), "{kinds:?}");
    for (_, command) in &commands[..2] {
        let words: Vec<&str> = command.split(' ').skip(2).collect();
        let output = bed.run(&words);
        assert_exit(&output, 0);
        assert!(stdout(&output).contains("weir rss undo in"), "{}", stdout(&output));
    }
    let rest = bed.json(&["doctor", "in"], 0);
    assert_eq!(rest["findings"].as_array().map(Vec::len), Some(0), "{rest}");
    assert_eq!(bed.probe(&["--flows", "200"], 0)["misplaced_flow_count"], 0);
    // As after a crash: another process, and nothing but what is on disk.
    assert_exit(&bed.run(&["undo", "in"]), 0);
    let shown = bed.json(&["show", "in"], 0);
    assert_eq!(shown["rss"]["fields"]["udp4"], "2-tuple");
    let table: Vec<u64> = serde_json::from_value(shown["rss"]["table"].clone()).expect("a table");
    assert!(table.iter().all(|queue| *queue < 2));
    assert_exit(&bed.run(&["undo", "in"]), 1);
}

#[test]
fn what_cannot_be_set_is_refused_and_nothing_changes() {
    if !can_run_lab("what_cannot_be_set_is_refused_and_nothing_changes") {
        return;
    }
    let done = settings(Fields::FourTuple, "equal:4/64");
    let bed = Bed::honest(&done);
    let before = bed.json(&["show", "in"], 0);
    let long = "11".repeat(52);
    for (words, why) in [
        (&["set", "in"][..], "nothing to set"),
        (&["set", "in", "--table", "equal:5"], "no queue 4"),
        (&["set", "in", "--table", "0,1"], "has a table of 64 entries, not of 2"),
        (&["set", "in", "--table", "weights:0,0"], "no queue has a share"),
        (&["set", "in", "--table", "equal:0"], "no queue has a share"),
        (&["set", "in", "--key", &long], "has a key of 40 bytes, not of 52"),
        (&["set", "in", "--key", "6d5a"], "a key has 40 to 52 bytes, not 2"),
        (&["set", "in", "--fields", "udp4"], "`udp4` is not KIND=NAME"),
        (&["set", "in", "--fields", "sctp4=sd"], "tcp4, udp4, tcp6 and udp6"),
        (&["set", "lo", "--table", "equal:1"], "has no receive side scaling"),
        (&["set", "absent0", "--table", "equal:1"], "`absent0`"),
        (&["undo", "lo"], "has no receive side scaling"),
        (&["balance", "in", "--every", "1ms"], "at least 100ms"),
        (&["balance", "in", "--ratio", "1"], "above 1"),
        (&["balance", "in", "--moves", "0"], "at least 1"),
        (&["probe", "in", "--from", "peer", "--src", "::1", "--dst", "::2"], "peer:eth2"),
        (&["probe", "in", "--from", "no-such:x", "--src", "::1", "--dst", "::2"], "no-such"),
        (&["send", "in", "--dst-mac", "02", "--src", "::1", "--dst", "::2"], "`02`"),
        (&["send", "absent0", "--dst-mac", MAC, "--src", "::1", "--dst", "::2"], "absent0"),
        (&["send", "lo", "--dst-mac", MAC, "--src", "::1", "--dst", "::2"], "`lo` is down"),
        (&["probe", "lo", "--from", "a:b", "--src", "::1", "--dst", "::2"], "--learn looks"),
    ] {
        let output = bed.run(words);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
    assert_eq!(bed.json(&["show", "in"], 0), before);
    assert_exit(&bed.run(&["undo", "in"]), 1);
}

#[test]
fn a_busy_queue_loses_buckets_until_it_is_undone() {
    if !can_run_lab("a_busy_queue_loses_buckets_until_it_is_undone") {
        return;
    }
    // All buckets but one are queue 0's.
    let mut queues = vec![0; 64];
    queues[63] = 3;
    let table = Table::new(queues).expect("a table");
    let done = Settings { table, ..settings(Fields::FourTuple, "equal:4/64") };
    let bed = Bed::honest(&done);
    let before = bed.json(&["show", "in"], 0);
    let mut balance = bed
        .command(&[
            "balance", "in", "--every", "300ms", "--moves", "64", "--count", "400", "--json",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("weir runs");
    let lines = std::io::BufReader::new(balance.stdout.take().expect("it is piped"));
    let mut lines = std::io::BufRead::lines(lines);
    let mut moved = None;
    // The first look says that it is running; then there are packets to count.
    while let Some(Ok(line)) = lines.next() {
        let step: Value = serde_json::from_str(&line).expect("JSON");
        if step["moves"].as_array().is_some_and(|moves| !moves.is_empty()) {
            moved = Some(step);
            break;
        }
        let output = bed.run(&["set", "in", "--table", "equal:4"]);
        assert!(stderr(&output).contains("another `weir rss"), "{}", stderr(&output));
        // Half of the flows may be elsewhere by the time they are looked at.
        let from = format!("{}:out", bed.peer.name());
        let flows = ["--src", "10.0.0.1:1024-10.0.0.9:2023", "--dst", "10.0.1.1:7"];
        let more = ["--flows", "8000", "--rate", "20kpps", "--learn"];
        drop(bed.run(&[&["probe", "in", "--from", &from], &flows[..], &more].concat()));
    }
    balance.kill().expect("it is ours");
    balance.wait().expect("it ends");
    let step = moved.expect("buckets were moved");
    assert!(step["heaviest_queue_ratio"].as_f64() > step["balanced_ratio"].as_f64(), "{step}");
    assert_ne!(bed.json(&["show", "in"], 0), before);
    // It was killed: what it found is on disk.
    assert_exit(&bed.run(&["undo", "in"]), 0);
    assert_eq!(bed.json(&["show", "in"], 0), before);
}

#[test]
fn queues_show_their_buckets_and_the_hosts_cpus() {
    if !can_run_lab("queues_show_their_buckets_and_the_hosts_cpus") {
        return;
    }
    let done = settings(Fields::FourTuple, "equal:4/64");
    let bed = Bed::new(&done, &Key::microsoft());
    let words = ["netns", "exec", bed.here.name(), env!("CARGO_BIN_EXE_weir"), "queues", "in"];
    let more = ["--buckets", "--softnet", "--json", "--interval", "200ms"];
    let mut watching = Command::new("ip")
        .args(words)
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .expect("weir runs");
    let lines = std::io::BufReader::new(watching.stdout.take().expect("it is piped"));
    let (mut has_cpus, mut misplaced, mut packets) = (false, 0.0, 0.0);
    for line in std::io::BufRead::lines(lines).take(200) {
        let line: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        has_cpus |= line["cpus"].as_array().is_some_and(|cpus| !cpus.is_empty());
        if let Some(rates) = line["buckets"]["rates_pps"].as_array() {
            assert_eq!(rates.len(), 64);
            packets = rates.iter().filter_map(Value::as_f64).sum();
            misplaced = line["buckets"]["misplaced_ratio"].as_f64().expect("a ratio");
        }
        if has_cpus && packets > 0.0 {
            break;
        }
        // Another probe, which is seen by the next line at the latest.
        drop(bed.probe_by_looking());
    }
    watching.kill().expect("it is ours");
    watching.wait().expect("it ends");
    // By a key that is not used, three of four are somewhere else.
    assert!(has_cpus && packets > 0.0 && misplaced > 0.4, "{misplaced} of {packets}");
    let output = bed.command(&["show", "lo"]).output().expect("weir runs");
    assert_exit(&output, 0);
    let refused = crate::common::run(&["queues", "lo", "--buckets", "--count", "1"]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("has no receive side scaling"), "{}", stderr(&refused));
}

const LAB: &str = r#"
[campaign]
name = "spread"
iterations = 1

[trial]
warmup = "100ms"
duration = "500ms"

[testbed]
kind = "netns"
queues = 3
rss = { table = "weights:1,0,1/64", fields = "4-tuple" }

[[dut]]
name = "forward"
kind = "linux"

[[traffic]]
name = "flows"
src = "198.18.10.1:2000-198.18.10.8:2099"
dst = "198.19.10.1:2000"
rate = "5kpps"

[[traffic]]
name = "flood"
src = "198.18.10.1:2000-198.18.10.8:2099"
dst = "198.19.10.1:2000"
"#;

/// Queues get packets as the table has it, in the calibration and with the DUT; no packet is
/// unaccounted for.
#[test]
fn a_campaign_spreads_its_flows_as_its_testbed_says() {
    if !can_run_lab("a_campaign_spreads_its_flows_as_its_testbed_says") {
        return;
    }
    let _turn = alone();
    let lab = Lab::new(LAB, &[]);
    // On a busy machine figures are left out, and the answer is no.
    let output = lab.run(&[]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let environment = json(&lab.path("out/env.json")).to_string();
    assert!(environment.contains("\"fields\":\"4-tuple\""), "{environment}");
    let trials = trials(&lab.path("out"));
    assert_eq!(trials.len(), 2);
    for (_, trial) in &trials {
        assert_eq!(trial["ledger"]["residual_packets"], 0, "{}", trial["ledger"]);
        let received = |queue: usize| {
            let counter = &trial["counters"]["dut0"][format!("rx_queue_{queue}_xdp_packets")];
            counter.as_u64().expect("a counter")
        };
        let [first, none, last] = [0, 1, 2].map(received);
        assert!(first > 500 && last > 500, "{first} {none} {last}");
        assert_eq!(none, 0, "{}", trial["counters"]["dut0"]);
    }
}
