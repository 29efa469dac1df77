//! Campaigns whose DUT has a second firewall: it gets the states, or takes over.

use std::process::Command;

use serde_json::Value;

use crate::common::{Lab, can_run_lab, run, skipped, stderr, surroundings, trials, unless_starved};
use crate::turns::alone;

const SPEC: &str = r#"
[campaign]
name = "pair"
iterations = 1

[trial]
retries = 1
warmup = "200ms"
duration = "2s"
drain = "300ms"

[testbed]
kind = "netns"

[[dut]]
name = "pair"
kind = "weir-fw"
backup = true
files = { pf = "pf.conf" }
"#;

const CONNECTIONS: &str = r#"
[[traffic]]
name = "t"
kind = "connect"
src = "198.18.10.1-198.18.10.4"
dst = "198.19.10.1"
rate = "2k"
"#;

const PACKETS: &str = r#"
[[traffic]]
name = "t"
src = "198.18.10.1:2000-198.18.10.4"
dst = "198.19.10.1:2000-198.19.10.4"
rate = "2kpps"
"#;

const REQUESTS: &str = r#"
[[traffic]]
name = "t"
kind = "http"
src = "198.18.10.1-198.18.10.2"
dst = "198.19.10.1"
connections = 20
rate = "200"
"#;

const PF: &str = "\
set skip on sync0
block drop all
pass quick proto vrrp no state
pass in on dut0 proto { udp tcp } to 198.19.10.0/24 flags S/SA keep state
pass out on dut1 proto { udp tcp } to 198.19.10.0/24 flags S/SA keep state
";

fn lab(spec: &str) -> Lab {
    Lab::new(spec, &[("pf.conf", PF)])
}

/// The single trial of a run. An error if something else on the machine has made it void.
fn trial(lab: &Lab) -> Result<Value, String> {
    let output = lab.run(&[]);
    let said = stderr(&output);
    let trials = trials(&lab.path("out"));
    if trials.is_empty() && said.contains("is unusable") {
        return Err(said);
    }
    let [(_, trial)] = &trials[..] else { panic!("{said}") };
    match trial["verdict"]["kind"].as_str() {
        Some("disturbed") => Err(trial["verdict"]["reason"].to_string()),
        _ => Ok(trial.clone()),
    }
}

#[track_caller]
fn check(trial: &Value, detail: &str) {
    let checks = trial["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["name"] == "weir-fw backup");
    assert_eq!(found.map(|check| &check["passed"]), Some(&Value::Bool(true)), "{trial:#}");
    assert_eq!(found.map(|check| &check["detail"]), Some(&Value::from(detail)), "{trial:#}");
}

fn level(trial: &Value, name: &str) -> u64 {
    let level = trial["levels"][name].as_u64();
    level.unwrap_or_else(|| panic!("no {name}: {:#}", trial["levels"]))
}

#[test]
fn a_second_firewall_gets_the_states_of_a_campaign() {
    let test = "a_second_firewall_gets_the_states_of_a_campaign";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    unless_starved(test, || {
        let lab = lab(&format!("{SPEC}{CONNECTIONS}"));
        let trial = trial(&lab)?;
        check(&trial, "it gets the states");
        assert!(level(&trial, "states") > 1000, "{trial:#}");
        // The last ones may be under way still.
        assert!(level(&trial, "backup_states") > 1000, "{trial:#}");
        assert!(level(&trial, "sync_changes_per_second") > 0, "{trial:#}");
        assert!(level(&trial, "sync_bytes_per_second") > 0, "{trial:#}");
        let (out, svg) = (lab.arg("out"), lab.arg("plot.svg"));
        let refused = run(&["lab", "plot", &out, "--y", "sync_lag", "--out", &svg]);
        assert!(stderr(&refused).contains("sync_lag_p99_ms"), "{}", stderr(&refused));
        Ok(())
    });
    assert_eq!(surroundings(), before, "something stayed behind");
}

fn takes_over(test: &str, takeover: &str, traffic: &str, pause: &str) {
    if !can_run_lab(test) {
        return;
    }
    if Command::new("keepalived").arg("--version").output().is_err() {
        return skipped(test, "keepalived is not installed");
    }
    let _turn = alone();
    let before = surroundings();
    unless_starved(test, || {
        let spec =
            SPEC.replace("backup = true", &format!("backup = true\ntakeover = {takeover:?}"));
        let trial = trial(&lab(&format!("{spec}{traffic}")))?;
        check(&trial, "it has taken over");
        assert_eq!(trial["ledger"]["residual_packets"], 0, "{trial:#}");
        let Some(pause_us) = trial["levels"][pause].as_u64() else {
            return Err(format!("the client was late itself: {:#}", trial["checks"]));
        };
        if takeover == "drain" && trial["ledger"]["drops"] != Value::Array(Vec::new()) {
            return Err(trial["ledger"]["drops"].to_string());
        }
        // Half of the measurement comes after it.
        assert!(pause_us > 0, "{trial:#}");
        if pause_us >= 900_000 {
            return Err(format!("nothing came through for {pause_us} µs"));
        }
        Ok(())
    });
    assert_eq!(surroundings(), before, "something stayed behind");
}

#[test]
fn a_second_firewall_takes_over_by_plan_in_a_campaign() {
    let test = "a_second_firewall_takes_over_by_plan_in_a_campaign";
    takes_over(test, "drain", REQUESTS, "pause_us");
}

#[test]
fn a_second_firewall_takes_over_from_one_that_is_cut_off_in_a_campaign() {
    let test = "a_second_firewall_takes_over_from_one_that_is_cut_off_in_a_campaign";
    takes_over(test, "kill", PACKETS, "outage_us");
}
