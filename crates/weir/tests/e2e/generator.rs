//! `weir gen`: what it refuses, what it sends and reports, and that signals end it cleanly.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use weir_net::NetnsGuard;

use crate::common::{assert_exit, can_run_lab, run, stderr, stdout};
use crate::turns::{beside, namespace};

const STREAM: [&str; 4] =
    ["--src", "198.18.10.1:2000-198.18.10.70", "--dst", "198.19.10.1:2000-198.19.10.70"];
const TO: [&str; 2] = ["--dst-mac", "02:00:00:00:00:01"];

/// A namespace with a veth pair `out`, `in`, whose far end takes frames; removed when dropped.
pub(crate) struct Wire(NetnsGuard);

impl Wire {
    pub(crate) fn new() -> Self {
        let wire = Self(namespace("gen"));
        wire.ip("link add out type veth peer name in");
        wire.ip("link set in up");
        wire.ip("link set out up");
        wire
    }

    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    fn ip(&self, line: &str) {
        ip(&format!("-n {} {line}", self.name()));
    }

    /// `weir gen -i out` inside, without a stream.
    fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            self.name(),
            env!("CARGO_BIN_EXE_weir"),
            "gen",
            "-i",
            "out",
        ]);
        command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// Runs that to its end.
    pub(crate) fn generate(&self, arguments: &[&str]) -> Output {
        self.bare(arguments).output().expect("it starts")
    }

    /// `weir gen` inside.
    fn command(&self, arguments: &[&str]) -> Command {
        self.bare(&[&STREAM[..], arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it starts")
    }
}

fn ip(line: &str) {
    let status = Command::new("ip").args(line.split_whitespace()).status().expect("ip runs");
    assert!(status.success(), "ip {line}");
}

/// The JSON objects on standard output.
fn objects(output: &Output) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).expect("every line is an object");
    stdout(output).lines().map(parse).collect()
}

/// What is refused whatever the machine has.
#[test]
fn bad_arguments_are_refused() {
    let refused = |arguments: &[&str], needle: &str| {
        let output = run(&[&["gen"][..], arguments].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(needle), "{arguments:?}:\n{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    };
    let with = |more: &[&'static str]| [&STREAM[..], &TO[..], more].concat();
    let file = ["--backend", "pcap:/dev/null"];
    refused(&with(&["--rate", "0"]), "above zero");
    refused(&with(&["--rate", "101%"]), "100 %");
    refused(&with(&["--size", "59"]), "60 bytes");
    refused(&with(&["--size", "1500-60"]), "--size: the sizes 1500-60 run backwards");
    refused(&with(&["--size", "60-"]), "--size");
    refused(&with(&["--proto", "tcp", "--size", "71"]), "72");
    refused(&with(&["--vlan", "5000"]), "--vlan: VLAN 5000");
    refused(&with(&["--tcp-flags", "S"]), "--tcp-flags: UDP has no flags");
    refused(&with(&["--stream", "x.toml"]), "--stream");
    refused(&["--stream", "/nonexistent/x.toml", "-i", "lo"], "/nonexistent/x.toml");
    refused(&with(&["--dscp", "64"]), "64");
    refused(&with(&["--ttl", "0"]), "0");
    refused(&with(&["--count", "0"]), "above zero");
    refused(&with(&["--threads", "0"]), "0");
    refused(&with(&["--backend", "pcap"]), "pcap:FILE");
    refused(&with(&["--backend", "dpdk"]), "`packet`");
    refused(&with(&["--proto", "sctp"]), "--proto: `sctp`");
    refused(&with(&[&file[..], &["--count", "1", "--cpus", "0"]].concat()), "--cpus");
    refused(&with(&file), "--count");
    refused(&with(&[&file[..], &["--duration", "1s"]].concat()), "--rate");
    refused(&with(&[&file[..], &["--count", "1", "--ramp", "1s"]].concat()), "ramp");
    refused(&with(&[&file[..], &["--count", "1", "--rate", "80%"]].concat()), "no line");
    refused(&[&STREAM[..], &file[..], &["--count", "1"][..]].concat(), "--dst-mac");
    for (range, needle) in [
        ("198.18.0.1:0", "--src: port `0`"),
        ("198.18.0.1:65536", "65535"),
        ("198.18.0.1-2001:db8::1", "IPv6"),
        ("198.18.0.256", "255"),
    ] {
        refused(&["--src", range, "--dst", "198.19.0.1"], needle);
    }
}

#[test]
fn bad_paths_are_refused() {
    if !can_run_lab("weir gen needs namespaces") {
        return;
    }
    let _turn = beside();
    let wire = Wire::new();
    let refused = |arguments: &[&str], needle: &str| {
        let output = wire.run(arguments);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(needle), "{arguments:?}:\n{}", stderr(&output));
    };
    refused(&TO, "ethtool -K in gro on");
    refused(&["--backend", "packet"], "no route to 198.19.10.1");
    let status = Command::new("ip")
        .args(["netns", "exec", wire.name(), env!("CARGO_BIN_EXE_weir"), "gen", "-i", "lo"])
        .args(STREAM)
        .output()
        .expect("it starts");
    assert_exit(&status, 2);
    assert!(stderr(&status).contains("loopback"), "{}", stderr(&status));
    refused(&[&TO[..], &["--threads", "2", "--cpus", "0"]].concat(), "do not fit");
    refused(&[&TO[..], &["--rate", "10%"]].concat(), "ethtool");
    refused(&[&TO[..], &["--backend", "packet", "--rate", "10%"]].concat(), "no line");
    refused(&[&TO[..], &["--backend", "packet", "--cpus", "0-1"]].concat(), "transmit queues");
    wire.ip("link set out down");
    refused(&TO, "ip link set out up");
}

/// A counted run: exact, reported as JSON, delivered to the device.
#[test]
fn a_counted_run_is_reported_exactly() {
    if !can_run_lab("weir gen needs namespaces") {
        return;
    }
    let _turn = beside();
    let wire = Wire::new();
    for backend in ["live", "packet"] {
        if backend == "live" {
            // GRO makes the far end take XDP frames.
            let status = Command::new("ip")
                .args(["netns", "exec", wire.name(), "ethtool", "-K", "in", "gro", "on"])
                .status();
            if !status.is_ok_and(|status| status.success()) {
                crate::common::skipped("weir gen live", "ethtool is not installed");
                return;
            }
        }
        let arguments = ["--count", "5000", "--rate", "10kpps", "--backend", backend, "--json"];
        let output = wire.run(&[&TO[..], &arguments[..]].concat());
        assert_exit(&output, 0);
        let objects = objects(&output);
        let result = objects.last().expect("there is a result");
        assert_eq!(result["kind"], "result");
        assert_eq!(result["backend"], backend);
        assert_eq!(result["ended_by"], "count");
        assert_eq!(result["flow_count"], 4_900);
        assert_eq!(
            (&result["mean_size_bytes"], &result["mean_size_with_fcs_bytes"]),
            (&60.0.into(), &64.0.into())
        );
        assert_eq!(result["offered_packets"], 5_000);
        assert_eq!(result["requested_pps"], 10_000.0);
        assert_eq!(result["accepted_packets"], 5_000, "{result}");
        assert!(result["gap_max_ns"].as_u64().is_some_and(|gap_ns| gap_ns > 0), "{result}");
        assert!(stderr(&output).contains("4,900 flows, 60 bytes (64 with FCS)"));
    }
}

/// A signal ends a run with its totals, and the exit code of a shell.
#[test]
fn signals_end_a_run_with_totals() {
    if !can_run_lab("weir gen needs namespaces") {
        return;
    }
    let _turn = beside();
    let wire = Wire::new();
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let arguments = [&TO[..], &["--backend", "packet", "--rate", "1000", "--json"]].concat();
        let mut child = wire
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // The first line says that it sends.
        let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let mut first = String::new();
        std::io::BufRead::read_line(&mut out, &mut first).expect("readable");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill runs").success());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut out, &mut rest).expect("readable");
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        let first: Value = serde_json::from_str(&first).expect("an object");
        assert_eq!(first["kind"], "second");
        let last = rest.lines().last().expect("a result");
        let result: Value = serde_json::from_str(last).expect("an object");
        assert_eq!((&result["kind"], &result["ended_by"]), (&"result".into(), &"signal".into()));
        assert!(result["offered_packets"].as_u64() >= first["offered_packets"].as_u64());
    }
}

/// The file has what was asked for, and tcpdump, where it is, reads it without complaint.
#[test]
fn a_file_holds_the_whole_stream() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("out.pcap");
    let backend = format!("pcap:{}", file.display());
    let arguments = ["--backend", &backend, "--rate", "1000", "--duration", "2s"];
    let output = run(&[&["gen"][..], &STREAM[..], &TO[..], &arguments[..]].concat());
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("2,000 packets"), "{}", stdout(&output));
    let size = std::fs::metadata(&file).expect("it is there").len();
    assert_eq!(size, 24 + 2_000 * (16 + 60));
    let Ok(dump) = Command::new("tcpdump").args(["-nvvr"]).arg(&file).output() else { return };
    let text = stdout(&dump);
    assert_eq!(text.matches("[udp sum ok]").count(), 2_000);
    assert!(!text.contains("bad cksum"), "a checksum is wrong");
}

/// Several streams of every kind, by weight: announced, counted apart, and sound to tshark.
#[test]
fn a_file_of_streams_is_sent_by_weight() {
    const STREAMS: &str = r#"
[[stream]]
name = "legitimate"
src = "198.18.10.1:2000-198.18.10.70"
dst = "198.19.10.1:2000-198.19.10.70"
size = "imix"
weight = 8

[[stream]]
name = "attack"
src = "[2001:2::1]:1024-[2001:2::ffff]:65535"
dst = "[2001:2:1::1]:80"
proto = "tcp"
vlan = "100@5,200"
random = true

[[stream]]
name = "echo"
src = "198.18.30.1"
dst = "198.19.30.1"
proto = "icmp"
size = "100-300"
df = false
"#;
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("streams.toml"), STREAMS).expect("writable");
    let backend = format!("pcap:{}", path("out.pcap"));
    let (streams, announced) = (path("streams.toml"), path("expect.json"));
    let arguments = ["gen", "--stream", &streams, "--backend", &backend, "--count", "1000"];
    let more = ["--dst-mac", "02:00:00:00:00:01", "--threads", "3", "--announce", &announced];
    let output = run(&[&arguments[..], &more, &["--json"]].concat());
    assert_exit(&output, 0);
    let objects = objects(&output);
    let result = objects.last().expect("a result");
    let offered: Vec<(&str, u64)> = result["streams"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| {
            (s["name"].as_str().expect("text"), s["offered_packets"].as_u64().expect("a count"))
        })
        .collect();
    assert_eq!(offered.iter().map(|(_, packets)| packets).sum::<u64>(), 1_000);
    for ((name, packets), (expected, share)) in
        offered.iter().zip([("legitimate", 800_u64), ("attack", 100), ("echo", 100)])
    {
        // The thousand packets end inside a period of ten of each of three threads.
        assert!(*name == expected && packets.abs_diff(share) <= 3, "{name}: {packets}");
    }
    let expectation = std::fs::read_to_string(announced).expect("it is there");
    let expectation = weir_gen::expect::Expectation::parse(&expectation).expect("it is sound");
    let packets: Vec<u64> =
        expectation.streams.iter().filter_map(|stream| stream.packets).collect();
    assert_eq!(packets, offered.iter().map(|(_, packets)| *packets).collect::<Vec<_>>());
    assert!(expectation.streams[1].random && !expectation.streams[0].random);
    let checks = ["ip.check_checksum", "udp.check_checksum", "tcp.check_checksum"];
    let mut tshark = Command::new("tshark");
    tshark.args(["-r", &path("out.pcap"), "-q", "-z", "expert,warn"]);
    for check in checks {
        tshark.args(["-o", &format!("{check}:TRUE")]);
    }
    let Ok(dissected) = tshark.output() else { return };
    assert!(dissected.status.success(), "{}", stderr(&dissected));
    assert_eq!(stdout(&dissected).trim(), "", "tshark has nothing to warn of");
}
