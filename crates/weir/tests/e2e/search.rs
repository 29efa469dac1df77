//! `weir lab search` on real packets: the rate of a device that is known.
//!
//! The DUT is a token bucket (`examples/shaper.rs`). That the rate found is the bucket's holds on
//! any machine that can offer it; on one that cannot, the search says so, and so does the test.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::{
    Lab, assert_exit, can_run_lab, json, run, skipped, stderr, stdout, surroundings, unless_starved,
};
use crate::turns::alone;

/// The bucket's rate: few enough that a busy machine holds it, and no round share of anything.
const RATE_PPS: f64 = 17_300.0;

/// The bucket is as deep as a sender's hiccup is long; over a trial of two seconds that adds 0.2 %.
const DEPTH_NS: u64 = 4_000_000;

const SPEC: &str = r#"
[campaign]
name = "shaped"
iterations = 1

[trial]
retries = 5
warmup = "200ms"
duration = "500ms"
drain = "100ms"

[testbed]
kind = "netns"

[[dut]]
name = "bucket"
kind = "command"
parameters = { shaper = "SHAPER", rate = "RATE", depth = "DEPTH" }
start = "exec ${shaper} dut0 dut1 ${rate} ${depth}"
ready = "test -e ready"

[[traffic]]
name = "t"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.16"

[search]
loss = ["0%", "0.5%"]
trial = "2s"
first_trial = "1s"
duration_sum = "4s"
min_load = "15kpps"
max_load = "20kpps"
warmup = "200ms"
"#;

/// What a trial below the bucket's rate may lose: the larger of the two goals.
const LOSS_RATIO_MAX: f64 = 0.005;

/// The example that cargo builds with the tests.
fn shaper() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a test is a program");
    let path = test.parent()?.parent()?.join("examples/shaper");
    path.is_file().then_some(path)
}

fn lab(rate_pps: f64, shaper: &str) -> Lab {
    let spec = SPEC
        .replace("SHAPER", shaper)
        .replace("RATE", &rate_pps.to_string())
        .replace("DEPTH", &DEPTH_NS.to_string());
    Lab::new(&spec, &[])
}

fn goals(summary: &Value) -> &[Value] {
    summary["items"][0]["goals"].as_array().expect("goals")
}

#[test]
fn the_rate_of_a_token_bucket_is_found_within_a_per_cent() {
    const NAME: &str = "the_rate_of_a_token_bucket_is_found_within_a_per_cent";
    if !can_run_lab(NAME) {
        return;
    }
    let Some(shaper) = shaper() else {
        skipped(NAME, "examples/shaper is not built: run `cargo build -p weir --examples`");
        return;
    };
    let _turn = alone();
    unless_starved(NAME, || search(&lab(RATE_PPS, &shaper.to_string_lossy())));
}

/// One search, which has to find the bucket's rate.
///
/// # Errors
/// Why it could not, where the ledgers prove that it was the machine: trials that lost what the
/// bucket had to pass, or a search that says itself that it was not the DUT.
fn search(lab: &Lab) -> Result<(), String> {
    let before = surroundings();
    let (spec, out) = (lab.arg("lab.toml"), lab.arg("out"));
    let output = run(&["lab", "search", &spec, "--out", &out, "--json"]);
    assert_eq!(surroundings(), before, "something stayed behind");
    let summary: Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    let trials = every_trial(lab);
    let limits: Vec<&str> =
        goals(&summary).iter().map(|goal| goal["limit"].as_str().expect("a limit")).collect();
    if limits.iter().any(|&limit| limit != "dut-bound") {
        // A starved sender or sink; the search must not have called it the DUT's rate.
        assert!(limits.iter().all(|limit| *limit != "link-bound" && *limit != "max-load"));
        return Err(format!("limited by {limits:?}"));
    }
    assert_exit(&output, 0);
    assert!(trials.len() >= 5, "{} trials", trials.len());
    let pdr = &goals(&summary)[1];
    let found = pdr["conditional_throughput_pps"].as_f64().expect("a rate");
    let error = found / RATE_PPS - 1.0;
    let outcome = format!("{found:.0} pps found of {RATE_PPS}: {:.2} %", error * 100.0);
    // Only too little may be the machine's doing: nothing makes a bucket pass more.
    let starved: Vec<String> = trials.iter().filter_map(lost_by_the_machine).collect();
    if error <= -0.01 && !starved.is_empty() {
        return Err(format!(
            "{outcome}, with losses outside of the bucket: {}",
            starved.join(", ")
        ));
    }
    assert!(error.abs() < 0.01, "{outcome}");
    let text = fs::read_to_string(lab.path("out/summary.md")).expect("a summary");
    assert!(text.contains("60 (64)") && text.contains("dut-bound"), "{text}");
    Ok(())
}

/// What a trial below the bucket's rate lost, by its ledger: the bucket passes all of that, if it
/// comes evenly.
fn lost_by_the_machine(trial: &Value) -> Option<String> {
    let points = trial["ledger"]["points"].as_array().expect("points");
    let packets = |point: &Value| point["packets"].as_f64().expect("packets");
    let lost_ratio = 1.0 - packets(&points[4]) / packets(&points[0]);
    let load_pps = trial["result"]["requested_pps"].as_f64().filter(|&load| load < RATE_PPS)?;
    (lost_ratio > LOSS_RATIO_MAX)
        .then(|| format!("{:.2} % at {load_pps:.0} pps", lost_ratio * 100.0))
}

/// Every trial, with its ledger and its verdict, and its samples beside it.
fn every_trial(lab: &Lab) -> Vec<Value> {
    let items = lab.path("out/items/bucket.t/throughput");
    let mut trials = Vec::new();
    for entry in fs::read_dir(items).into_iter().flatten().flatten() {
        let trial = json(&entry.path().join("trial.json"));
        assert!(trial["verdict"]["kind"].is_string(), "{trial}");
        let points = trial["ledger"]["points"].as_array().expect("points");
        assert_eq!(points.len(), 5, "{trial}");
        assert!(entry.path().join("samples.csv").is_file());
        trials.push(trial);
    }
    trials
}

#[test]
fn only_losses_below_the_buckets_rate_are_the_machines() {
    let loss_at = |load_pps: f64, delivered_ratio: f64| {
        let points: Vec<Value> = [1.0, 1.0, 1.0, delivered_ratio, delivered_ratio]
            .map(|ratio| serde_json::json!({ "packets": 20_000.0 * ratio }))
            .into();
        lost_by_the_machine(&serde_json::json!({
            "result": { "requested_pps": load_pps }, "ledger": { "points": points },
        }))
    };
    assert_eq!(loss_at(10_000.0, 0.9).as_deref(), Some("10.00 % at 10000 pps"));
    assert_eq!(loss_at(10_000.0, 0.996), None);
    assert_eq!(loss_at(RATE_PPS * 2.0, 0.4), None, "the bucket may have dropped it");
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let lab = lab(RATE_PPS, "/bin/false");
    let (spec, out) = (lab.arg("lab.toml"), lab.arg("out"));
    let output = run(&["lab", "search", &spec, "--pdr", "5"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("0.5%"), "{}", stderr(&output));
    for (field, said) in [
        ("rate = \"50kpps\"", "a search finds the rate"),
        ("ports = \"mesh\"", "a search offers one rate to one link"),
    ] {
        let other = SPEC.replace("name = \"t\"", &format!("name = \"t\"\n{field}"));
        fs::write(lab.path("other.toml"), other).expect("writable");
        let output = run(&["lab", "search", &lab.arg("other.toml"), "--out", &out]);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let output = run(&["lab", "search", &spec, "--resume"]);
    assert_exit(&output, 2);
    assert!(!lab.path("out").exists(), "nothing was made");
}
