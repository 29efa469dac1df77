//! `weir lab search` on real packets: the rate of a device that is known.
//!
//! The DUT is a token bucket (`examples/shaper.rs`). That the rate found is the bucket's holds on
//! any machine that can offer it; on one that cannot, the search says so, and so does the test.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::{
    Lab, assert_exit, can_run_lab, json, run, skipped, stderr, stdout, surroundings, turn,
};

/// The bucket's rate: few enough that a busy machine holds it, and no round share of anything.
const RATE_PPS: f64 = 17_300.0;

/// The bucket is as deep as a sender's hiccup is long; over a trial of two seconds that adds 0.2 %.
const DEPTH_NS: u64 = 4_000_000;

const SPEC: &str = r#"
[campaign]
name = "shaped"
iterations = 1

[trial]
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
duration_sum = "6s"
min_load = "2kpps"
max_load = "60kpps"
warmup = "500ms"
"#;

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
    let _turn = turn();
    let before = surroundings();
    let lab = lab(RATE_PPS, &shaper.to_string_lossy());
    let (spec, out) = (lab.arg("lab.toml"), lab.arg("out"));
    let output = run(&["lab", "search", &spec, "--out", &out, "--json"]);
    assert_eq!(surroundings(), before, "something stayed behind");
    let summary: Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    every_trial_is_kept(&lab);
    let limits: Vec<&str> =
        goals(&summary).iter().map(|goal| goal["limit"].as_str().expect("a limit")).collect();
    if limits.iter().any(|&limit| limit != "dut-bound") {
        // A starved sender or sink; the search must not have called it the DUT's rate.
        assert!(limits.iter().all(|limit| *limit != "link-bound" && *limit != "max-load"));
        skipped(NAME, &format!("the machine is too busy for the traffic: {limits:?}"));
        return;
    }
    assert_exit(&output, 0);
    let pdr = &goals(&summary)[1];
    let found = pdr["conditional_throughput_pps"].as_f64().expect("a rate");
    let error = found / RATE_PPS - 1.0;
    assert!(error.abs() < 0.01, "{found} pps found of {RATE_PPS}: {:.2} %", error * 100.0);
    let text = fs::read_to_string(lab.path("out/summary.md")).expect("a summary");
    assert!(text.contains("60 (64)") && text.contains("dut-bound"), "{text}");
}

/// Every trial has its ledger and its verdict, and its samples beside it.
fn every_trial_is_kept(lab: &Lab) {
    let items = lab.path("out/items/bucket.t/throughput");
    let mut count = 0;
    for entry in fs::read_dir(items).expect("trials").flatten() {
        let trial = json(&entry.path().join("trial.json"));
        assert!(trial["verdict"]["kind"].is_string(), "{trial}");
        let points = trial["ledger"]["points"].as_array().expect("points");
        assert_eq!(points.len(), 5, "{trial}");
        assert!(entry.path().join("samples.csv").is_file());
        count += 1;
    }
    assert!(count >= 5, "{count} trials");
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let lab = lab(RATE_PPS, "/bin/false");
    let (spec, out) = (lab.arg("lab.toml"), lab.arg("out"));
    let output = run(&["lab", "search", &spec, "--pdr", "5"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("0.5%"), "{}", stderr(&output));
    let rated = SPEC.replace("name = \"t\"", "name = \"t\"\nrate = \"50kpps\"");
    fs::write(lab.path("rated.toml"), rated).expect("writable");
    let output = run(&["lab", "search", &lab.arg("rated.toml"), "--out", &out]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("a search finds the rate"), "{}", stderr(&output));
    let output = run(&["lab", "search", &spec, "--resume"]);
    assert_exit(&output, 2);
    assert!(!lab.path("out").exists(), "nothing was made");
}
