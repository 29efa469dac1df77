//! `weir queues --ssh`: counters of another machine's queues.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::ssh_hosts::SshHosts;

fn queues(hosts: &SshHosts, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["queues", "--ssh", "dut", "--ssh-config", &hosts.config()]).args(arguments);
    command.env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("the binary starts")
}

#[test]
fn queues_of_another_machine_are_read_over_ssh() {
    let Some(hosts) = SshHosts::start("queues_of_another_machine_are_read_over_ssh") else {
        return;
    };
    let output = queues(&hosts, &["dut0", "--interval", "50ms", "--count", "2", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    for line in &lines {
        assert_eq!(line["interface"], "dut0");
        assert_eq!(line["queues"][0]["queue"], 0, "{line}");
        for rate in ["queues_rx_rate_pps", "rx_rate_pps", "tx_rate_pps"] {
            assert!(line[rate].is_f64(), "{rate}: {line}");
        }
    }
    let output = queues(&hosts, &["dut9", "--count", "1"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("dut: no interface `dut9`"), "{said}");
    let output = queues(&hosts, &["--", "-x"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("`-x` is not an interface name"), "{said}");
}
