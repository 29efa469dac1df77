//! `weir queues` on a veth with two queues: what it shows adds up to what the driver counted.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_bpf::ethtool;
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd};

use crate::common::{assert_exit, can_run_lab, run, stderr, stdout};
use crate::turns::{alone, namespace};

const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace with `out` connected to `in`, of two queues each, and an idle `park`.
fn wire(name: &str) -> NetnsGuard {
    let namespace = namespace(&format!("queues-{name}"));
    let made = namespace.run(|| {
        for which in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
            fs::write(path, "1").expect("the sysctl is written");
        }
        let netlink = Netlink::open()?;
        netlink.create_veth(&VethEnd::new("out"), &VethEnd::new("in"), 2)?;
        netlink.set_up("in")?;
        netlink.set_up("out")?;
        // NAPI, so that its queues receive.
        ethtool::set_gro("in", true).expect("GRO goes on");
        Ok::<_, weir_net::NetlinkError>(())
    });
    made.expect("the namespace can be entered").expect("the interfaces can be made");
    namespace
}

fn inside(namespace: &Netns, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name()]).args(arguments);
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// What `ethtool -S in` says of a queue.
fn counted(namespace: &Netns, queue: usize) -> u64 {
    let output = inside(namespace, &["ethtool", "-S", "in"]).output().expect("ethtool runs");
    let text = stdout(&output);
    let name = format!("rx_queue_{queue}_xdp_packets:");
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name.as_str()));
    let value = line.unwrap_or_else(|| panic!("no {name} in {text}")).trim();
    value.parse().unwrap_or_else(|e| panic!("{value}: {e}"))
}

#[test]
fn the_rates_of_two_queues_add_up_to_what_ethtool_counts() {
    if !can_run_lab("the_rates_of_two_queues_add_up_to_what_ethtool_counts") {
        return;
    }
    let _turn = alone();
    let namespace = wire("rates");
    let weir = env!("CARGO_BIN_EXE_weir");
    let mut command = inside(&namespace, &[weir, "queues", "in", "--interval", "100ms", "--json"]);
    let mut queues = command.stdout(Stdio::piped()).spawn().expect("ip runs");
    let mut lines = BufReader::new(queues.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("it goes on").expect("readable");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"))
    };
    // It has its first reading: what comes now is shown.
    let first = next();
    assert_eq!(first["interface"], "in");
    assert_eq!(first["queues"].as_array().map(Vec::len), Some(2), "{first}");
    let mut sent = inside(
        &namespace,
        &[
            weir,
            "gen",
            "-i",
            "out",
            "--src",
            "198.18.10.1:2000-198.18.10.9",
            "--dst",
            "198.19.10.1:2000",
            "--dst-mac",
            "02:00:00:00:00:01",
            "--count",
            "20000",
            "--rate",
            "100kpps",
            "--threads",
            "2",
            "--cpus",
            "0,1",
        ],
    );
    let sent = sent.output().expect("ip runs");
    assert_exit(&sent, 0);
    let mut seen = [0.0_f64; 2];
    let mut total = 0.0;
    let packets = |seen: f64| format!("{seen:.0}");
    let deadline = Instant::now() + PATIENCE;
    let expected = loop {
        let line = next();
        let seconds = line["interval_ns"].as_f64().expect("a number") / 1e9;
        for (seen, queue) in seen.iter_mut().zip(line["queues"].as_array().expect("a list")) {
            *seen += queue["rx_rate_pps"].as_f64().expect("a number") * seconds;
        }
        total += line["rx_rate_pps"].as_f64().expect("a number") * seconds;
        assert_eq!(line["tx_rate_pps"], 0.0);
        let expected = [counted(&namespace, 0), counted(&namespace, 1)];
        if expected.map(|packets| packets.to_string()) == seen.map(packets) {
            break expected;
        }
        assert!(Instant::now() < deadline, "shown {seen:?}, counted {expected:?}");
    };
    assert!(expected.iter().all(|&packets| packets > 0), "both CPUs sent: {expected:?}");
    assert_eq!(packets(total), (expected[0] + expected[1]).to_string());
    let killed = Command::new("kill").args(["-INT", &queues.id().to_string()]).status();
    assert!(killed.expect("kill(1) runs").success());
    assert_eq!(queues.wait().expect("it ended").code(), Some(130));
}

#[test]
fn lines_are_those_that_were_asked_for() {
    if !can_run_lab("lines_are_those_that_were_asked_for") {
        return;
    }
    let namespace = wire("lines");
    let weir = env!("CARGO_BIN_EXE_weir");
    let all = ["--interval", "10ms", "--count", "2"];
    let output = inside(&namespace, &[&[weir, "queues"], &all[..]].concat()).output();
    let output = output.expect("ip runs");
    assert_exit(&output, 0);
    let text = stdout(&output);
    let idle = "[Q0 0/s] [Q1 0/s] [QT 0/s 0/s -> 0/s]";
    let expected = [format!("in {idle}"), format!("out {idle}")].map(Some);
    let mut lines: Vec<Option<String>> = text.lines().map(str::to_owned).map(Some).collect();
    lines.sort();
    assert_eq!(lines, [&expected[0], &expected[0], &expected[1], &expected[1]].map(Clone::clone));
    // The loopback interface has totals only, and says so.
    let output = inside(&namespace, &[weir, "queues", "lo", "--count", "1", "--interval", "10ms"])
        .output()
        .expect("ip runs");
    assert_exit(&output, 0);
    assert_eq!(stdout(&output), "[QT - 0/s -> 0/s]\n");
    assert!(stderr(&output).contains("only its totals"), "{}", stderr(&output));
}

#[test]
fn what_queues_cannot_honour_is_refused() {
    let output = run(&["queues", "no-such-if"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("no-such-if"), "{}", stderr(&output));
    for arguments in [["--interval", "1ms"], ["--count", "0"], ["--interval", "soon"]] {
        assert_exit(&run(&["queues", arguments[0], arguments[1]]), 2);
    }
}
