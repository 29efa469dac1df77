//! Campaigns of requests: what the client counts is what server and DUT have counted.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{
    Lab, assert_exit, can_run_lab, json, run, skipped, stderr, stdout, surroundings, trials,
    unless_starved,
};
use crate::turns::alone;

const SPEC: &str = r#"
[campaign]
name = "requests"
iterations = 1

[trial]
retries = 1
warmup = "200ms"
duration = "1s"
drain = "300ms"
latency = "300ms"

[testbed]
kind = "netns"

[[traffic]]
name = "t"
kind = "http"
src = "198.18.10.1-198.18.10.4"
dst = "198.19.10.1"
"#;

const FORWARDERS: &str = r#"
[[dut]]
name = "linux"
kind = "linux"

[[dut]]
name = "weir-fw"
kind = "weir-fw"
files = { pf = "pf.conf" }
"#;

const PF: &str = "\
block drop all
pass in on dut0 proto tcp to any port 80 flags S/SA keep state
pass out on dut1 proto tcp to any port 80 flags S/SA keep state
";

fn lab(traffic: &str, duts: &str) -> Lab {
    Lab::new(&format!("{SPEC}{traffic}{duts}"), &[("pf.conf", PF)])
}

fn count(trial: &Value, source: &str, name: &str) -> u64 {
    let count = trial["counters"][source][name].as_u64();
    count.unwrap_or_else(|| panic!("no {name} of {source}: {}", trial["counters"]))
}

/// So many trials of a run. An error if the machine was too busy to calibrate the path.
fn trials_of(lab: &Lab, output: &Output, count: usize) -> Result<Vec<Value>, String> {
    let (said, trials) = (stderr(output), trials(&lab.path("out")));
    if trials.is_empty() && said.contains("is unusable") {
        return Err(said);
    }
    assert_eq!(trials.len(), count, "{said}");
    Ok(trials.into_iter().map(|(_, trial)| trial).collect())
}

/// The client's account is whole, and the server has answered what it has. An error if requests
/// were lost or late, at rates that an idle machine keeps, or something else ran.
fn adds_up(trial: &Value) -> Result<(), String> {
    let (ledger, verdict) = (&trial["ledger"], &trial["verdict"]);
    let reason = verdict["reason"].as_str().unwrap_or_default();
    if reason.contains("the client is saturated: it sent late") {
        return Err(reason.to_owned());
    }
    assert_ne!(verdict["kind"], "invalid", "{verdict:#}");
    assert_eq!(ledger["residual_packets"], 0, "{ledger:#}");
    assert_eq!(ledger["faults"], Value::Array(Vec::new()), "{ledger:#}");
    let answered = count(trial, "client", "answered");
    assert!(answered > 0 && count(trial, "client", "due") >= answered, "{trial:#}");
    assert_eq!(ledger["points"][1]["packets"], answered, "{ledger:#}");
    if ledger["drops"] != Value::Array(Vec::new()) {
        return Err(ledger["drops"].to_string());
    }
    assert_eq!(answered, count(trial, "server", "responses_2xx"), "{trial:#}");
    let latency = &trial["latency"];
    if latency.is_null() {
        return Err("the client was late itself".to_owned());
    }
    let of = |name: &str| latency[name].as_u64().unwrap_or_else(|| panic!("{name}: {trial:#}"));
    assert!(of("sample_count") > 0 && of("min_ns") > 0 && of("p50_ns") <= of("p99_ns"));
    match verdict["kind"].as_str() {
        Some("disturbed") => Err(verdict["reason"].to_string()),
        _ => Ok(()),
    }
}

#[test]
fn a_campaign_of_requests_agrees_with_what_the_server_counts() {
    let test = "a_campaign_of_requests_agrees_with_what_the_server_counts";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    unless_starved(test, || {
        let lab = lab("connections = 16\nreply = \"2Ki\"\n", FORWARDERS);
        let output = lab.run(&[]);
        let trials = trials_of(&lab, &output, 2)?;
        for trial in &trials {
            adds_up(trial)?;
            assert_eq!(trial["traffic"]["kind"]["http"]["reply_bytes"], 2048);
            assert!(
                count(trial, "client", "received_bytes")
                    > 2048 * count(trial, "client", "answered")
            );
        }
        assert_exit(&output, 0);
        let (text, summary) = (stdout(&output), json(&lab.path("out/summary.json")));
        assert!(text.contains("req/s") && !text.contains("pps"), "{text}");
        let series = summary["series"].as_array().expect("series");
        assert!(series.iter().all(|s| s["unit"] == "rps" && s["http"]["connections"] == 16));
        let page = std::fs::read_to_string(lab.path("out/report.html")).expect("a report");
        assert!(page.contains("Where the requests went"), "{}", page.len());
        let out = lab.arg("out");
        assert!(stdout(&run(&["lab", "compare", &out, &out])).contains("req/s"));
        Ok(())
    });
    assert_eq!(surroundings(), before, "something stayed behind");
}

/// At a rate that any machine keeps, and with a connection for each request.
#[test]
fn requests_at_a_rate_open_a_connection_each() {
    let test = "requests_at_a_rate_open_a_connection_each";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    unless_starved(test, || {
        let lab = lab("connections = 8\nkeepalive = 1\nclose = \"rst\"\nrate = 200\n", FORWARDERS);
        let output = lab.run(&["--only", "weir-fw.*"]);
        let trial = &trials_of(&lab, &output, 1)?[0];
        adds_up(trial)?;
        let answered = count(trial, "client", "answered");
        assert_eq!(answered, count(trial, "client", "established"), "{trial:#}");
        assert_eq!(answered, count(trial, "weir-fw", "state_inserts"), "{trial:#}");
        let figure = trial["result"]["rate_pps"].as_f64().expect("a figure");
        if !(180.0..220.0).contains(&figure) {
            return Err(format!("{figure} requests per second"));
        }
        Ok(())
    });
}

/// Up to a load that any machine carries; and how long requests take at shares of it.
#[test]
fn the_highest_rate_of_requests_is_searched_and_timed() {
    const SEARCH: &str = "
[search]
loss = [\"0%\"]
trial = \"500ms\"
duration_sum = \"1s\"
first_trial = \"500ms\"
width = \"20%\"
max_load = 400
tests = [\"throughput\", \"latency\"]
latency_trial = \"500ms\"
latency_repeats = 1
";
    let test = "the_highest_rate_of_requests_is_searched_and_timed";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    unless_starved(test, || {
        let lab = lab("connections = 8\n", &format!("{FORWARDERS}{SEARCH}"));
        let (spec, out) = (lab.arg("lab.toml"), lab.arg("out"));
        let output = run(&["lab", "search", &spec, "--out", &out, "--only", "linux.*"]);
        let summary = json(&lab.path("out/summary.json"));
        let item = &summary["items"][0];
        assert_eq!(item["unit"], "rps", "{}", stderr(&output));
        let goal = &item["goals"][0];
        let Some(rate) = goal["lower_pps"].as_f64() else { return Err(goal.to_string()) };
        assert!(rate <= 400.0 && stdout(&output).contains("req/s"), "{}", stdout(&output));
        let points = item["latency"]["points"].as_array().expect("points");
        assert_eq!(points.len(), 3, "{item:#}");
        // A client that was late itself has timed nothing.
        let is_timed = |point: &Value| point["mean"]["p50_ns"].as_f64() > Some(0.0);
        if points.iter().all(is_timed) { Ok(()) } else { Err(format!("{points:?}")) }
    });
}

/// Proxies that nobody here wrote, between both ends.
#[test]
fn proxies_are_duts() {
    let test = "proxies_are_duts";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    let labs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/http");
    for (name, file, start) in [
        ("haproxy", "haproxy.cfg", "exec haproxy -db -f ./haproxy.cfg"),
        ("nginx", "nginx.conf", "exec nginx -p . -c nginx.conf"),
    ] {
        let mut asked = Command::new(name);
        asked.arg("-v").stdout(Stdio::null()).stderr(Stdio::null());
        if asked.status().is_err() {
            skipped(&format!("{test}: {name}"), "it is not installed");
            continue;
        }
        let configuration = std::fs::read_to_string(format!("{labs}/{file}")).expect("readable");
        let dut = format!(
            "\n[[dut]]\nname = \"{name}\"\nkind = \"command\"\n\
             files = {{ configuration = \"{file}\" }}\nstart = \"{start}\"\n"
        );
        unless_starved(&format!("{test}: {name}"), || {
            let traffic = "connections = 4\nreply = \"256Ki\"\nproxy = \"198.18.0.1:8080\"\n";
            let lab = Lab::new(&format!("{SPEC}{traffic}{dut}"), &[(file, &configuration)]);
            let output = lab.run(&[]);
            adds_up(&trials_of(&lab, &output, 1)?[0])
        });
    }
}

/// A DUT that lets nothing through is no figure, and says so.
#[test]
fn a_dut_that_carries_no_request_has_no_figure() {
    let test = "a_dut_that_carries_no_request_has_no_figure";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    unless_starved(test, || {
        let rules = &[("pf.conf", "block drop all\n")];
        let lab = Lab::new(&format!("{SPEC}{FORWARDERS}"), rules);
        let output = lab.run(&["--only", "weir-fw.*"]);
        let trial = &trials_of(&lab, &output, 1)?[0];
        assert_eq!(trial["verdict"]["kind"], "invalid", "{trial:#}");
        let failed = count(trial, "client", "failed_timeout");
        assert!(failed > 0 && count(trial, "client", "answered") == 0, "{trial:#}");
        Ok(())
    });
}
