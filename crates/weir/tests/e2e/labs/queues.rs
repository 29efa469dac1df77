//! `weir queues --ssh`: counters of another machine's queues.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::hosts::{machines, on};
use super::ssh_hosts::SshHosts;

/// How long a test waits for something that happens within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn command(hosts: &SshHosts, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["queues", "--ssh", "dut", "--ssh-config", &hosts.config()]).args(arguments);
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn queues(hosts: &SshHosts, arguments: &[&str]) -> Output {
    command(hosts, arguments).output().expect("the binary starts")
}

/// What the DUT itself says of its receive queue.
fn counted(hosts: &SshHosts) -> u64 {
    let name = "rx_queue_0_xdp_packets:";
    let said = on(hosts, "dut", &format!("ethtool -S dut0 | grep -w {name}"));
    let value = said.strip_prefix(name).unwrap_or_else(|| panic!("{said}"));
    value.trim().parse().unwrap_or_else(|e| panic!("{said}: {e}"))
}

#[test]
fn rates_of_another_machine_add_up_to_what_it_counted() {
    let Some(hosts) = machines("rates_of_another_machine_add_up_to_what_it_counted") else {
        return;
    };
    // NAPI, so that its queue counts.
    on(&hosts, "dut", "ethtool -K dut0 gro on");
    let mac = on(&hosts, "dut", "cat /sys/class/net/dut0/address");
    let before = counted(&hosts);
    let mut child = command(&hosts, &["dut0", "--interval", "100ms", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("it goes on").expect("readable");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"))
    };
    // It has its first reading: what comes now is shown.
    next();
    let line = format!(
        "/opt/weir/weir gen -i gen0 --src 198.18.0.2:2000 --dst 198.19.0.2:2000 --dst-mac {mac} \
         --count 5000 --rate 10kpps >/dev/null"
    );
    on(&hosts, "gen", &line);
    let (mut seen, mut total) = (0.0_f64, 0.0_f64);
    let packets = |seen: f64| format!("{seen:.0}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let line = next();
        assert_eq!(line["interface"], "dut0");
        assert_eq!(line["clock"], "there", "{line}");
        let seconds = line["interval_ns"].as_f64().expect("a number") / 1e9;
        let queue = &line["queues"][0];
        assert_eq!(queue["queue"], 0, "{line}");
        seen += queue["rx_rate_pps"].as_f64().expect("a number") * seconds;
        total += line["rx_rate_pps"].as_f64().expect("a number") * seconds;
        assert_eq!(line["queues_rx_rate_pps"], queue["rx_rate_pps"], "{line}");
        let expected = counted(&hosts) - before;
        // The interface's counter is read before its queue's, so one of them can be a reading
        // behind while packets arrive.
        let sums = [packets(seen), packets(total)];
        if expected >= 5000 && sums.iter().all(|sum| *sum == expected.to_string()) {
            break;
        }
        assert!(Instant::now() < deadline, "shown {sums:?}, counted {expected}");
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill(1) runs").success());
    assert_eq!(child.wait().expect("it ended").code(), Some(130));
}

#[test]
fn another_machines_clock_is_not_believed_when_it_jumps() {
    let Some(hosts) = machines("another_machines_clock_is_not_believed_when_it_jumps") else {
        return;
    };
    // An hour a reading.
    let date = hosts.dut().path("/usr/local/bin/date");
    let script = "#!/bin/sh\nn=$(cat /tmp/n 2>/dev/null || echo 0)\n\
                  echo $((n + 3600)) >/tmp/n\necho weir-date $n.5\n";
    fs::write(&date, script).expect("writable");
    fs::set_permissions(&date, fs::Permissions::from_mode(0o755)).expect("own file");
    let output = queues(&hosts, &["dut0", "--interval", "50ms", "--count", "3", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    for line in &lines {
        assert_eq!(line["clock"], "here", "{line}");
        let interval = line["interval_ns"].as_u64().expect("a number");
        assert!((1..3_600_000_000_000).contains(&interval), "{line}");
    }
    assert_eq!(said.matches("clock was set").count(), 1, "{said}");
}

#[test]
fn what_is_not_an_interface_of_the_machine_is_refused() {
    let Some(hosts) = SshHosts::start("what_is_not_an_interface_of_the_machine_is_refused") else {
        return;
    };
    let output = queues(&hosts, &["dut9", "--count", "1"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("dut: no interface `dut9`"), "{said}");
    let output = queues(&hosts, &["--", "-x"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("`-x` is not an interface name"), "{said}");
}
