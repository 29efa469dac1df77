//! Campaigns whose traffic goes both ways, over several links, and from every port to all others.
//!
//! Rates are so low that a busy machine can offer them; nothing is asserted of what is delivered
//! but that it adds up.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::common::{
    Lab, STATEFUL, assert_exit, can_run_lab, json, run, stderr, stdout, surroundings, trials,
};
use crate::turns::alone;

const HEAD: &str = r#"
[campaign]
name = "ways"
iterations = 1

[trial]
warmup = "100ms"
duration = "1s"
latency = "100ms"
retries = 0

[testbed]
kind = "netns"
links = LINKS

[[dut]]
name = "linux"
kind = "linux"

[[dut]]
name = "weir-fw"
kind = "weir-fw"
files = { pf = "pf.conf" }
"#;

const NFT: &str = r#"
[[dut]]
name = "nft"
kind = "linux"
files = { nft = "stateful.nft" }
"#;

const BOTH: &str = r#"
[[traffic]]
name = "both"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.8"
rate = "4kpps"
direction = "both"
[traffic.reverse]
rate = "2kpps"
size = 128
"#;

/// Starts of flows come in by the first port of a link only.
const ONE_WAY_RULES: &str = "\
block drop all
pass in on dut0 proto udp keep state
pass out on dut1 proto udp keep state
";

const MESH: &str = r#"
[[traffic]]
name = "pairs"
src = "198.18.10.1:2000-198.18.10.4"
dst = "198.19.10.1:2000-198.19.10.4"
rate = "1kpps"

[[traffic]]
name = "mesh"
src = "198.18.10.1:2000-198.18.10.4"
dst = "198.19.10.1:2000-198.19.10.4"
rate = "1kpps"
ports = "mesh"
"#;

fn lab(links: u32, more: &[&str], rules: &str) -> Lab {
    let spec = [&[HEAD.replace("LINKS", &links.to_string()).as_str()], more].concat().concat();
    Lab::new(&spec, &[("stateful.nft", STATEFUL), ("pf.conf", rules)])
}

/// Fails unless the campaign went to its end. The exit code is 1 where each trial was disturbed by
/// something else on the machine, which spoils figures and nothing that is asserted here.
#[track_caller]
fn ended(output: &Output) {
    if output.status.code() != Some(1) || !stdout(output).contains("disturbed") {
        assert_exit(output, 0);
    }
}

fn count(ledger: &Value, point: &str) -> u64 {
    let points = ledger["points"].as_array().expect("points");
    let found = points.iter().find(|p| p["name"] == point);
    found.and_then(|p| p["packets"].as_u64()).unwrap_or_else(|| panic!("no point {point}"))
}

fn directions(trial: &Value) -> &[Value] {
    trial["directions"].as_array().map_or(&[], Vec::as_slice)
}

/// What holds whatever the machine does meanwhile: everything is accounted for, in each direction.
fn adds_up(path: &str, trial: &Value, names: &[&str]) {
    let checks = trial["checks"].as_array().expect("checks");
    let failed = checks.iter().find(|check| check["passed"] != Value::Bool(true));
    assert_eq!(failed, None, "{path}");
    assert_ne!(trial["verdict"]["kind"], "invalid", "{path}: {}", trial["verdict"]);
    let found: Vec<&str> =
        directions(trial).iter().filter_map(|each| each["name"].as_str()).collect();
    assert_eq!(found, names, "{path}");
    for point in ["dut_forwarded", "delivered"] {
        let of = directions(trial).iter();
        let of = of.map(|each| count(&each["ledger"], point)).collect::<Vec<u64>>();
        assert!(of.iter().all(|&packets| packets > 0), "{path}: {point} {of:?}");
        assert_eq!(count(&trial["ledger"], point), of.iter().sum::<u64>(), "{path}: {point}");
    }
    for each in directions(trial).iter().chain([trial]) {
        let measured = each["latency"]["sample_count"].as_u64();
        assert!(measured.is_some_and(|count| count > 0), "{path}: {}", each["latency"]);
    }
}

#[test]
fn both_directions_are_measured_at_once_and_kept_apart() {
    const TEST: &str = "both_directions_are_measured_at_once_and_kept_apart";
    if !can_run_lab(TEST) {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = lab(1, &[NFT, BOTH], ONE_WAY_RULES);
    let output = lab.run(&[]);
    ended(&output);
    assert_eq!(surroundings(), before, "something stayed behind");
    let (there, back) = ("dut0 → dut1", "dut1 → dut0");
    let trials = trials(&lab.path("out"));
    assert_eq!(trials.len(), 3);
    for (path, trial) in &trials {
        let path = path.display().to_string();
        adds_up(&path, trial, &[there, back]);
        let asked = |of: &Value| of["result"]["requested_pps"].as_f64();
        let each: Vec<Option<f64>> = directions(trial).iter().map(asked).collect();
        assert_eq!((each, asked(trial)), (vec![Some(4e3), Some(2e3)], Some(6e3)), "{path}");
        for each in directions(trial) {
            let ledger = &each["ledger"];
            let way = ["offered", "accepted", "dut_received", "dut_forwarded", "delivered"];
            let counts: Vec<u64> = way.iter().map(|point| count(ledger, point)).collect();
            assert!(counts.is_sorted_by(|a, b| a >= b), "{path}: {counts:?}");
        }
        if trial["dut"]["name"] != "linux" {
            let checks = trial["checks"].as_array().expect("checks");
            let flows = checks.iter().find(|check| check["name"] == "flows").expect("counted");
            let detail = flows["detail"].as_str().expect("a text");
            assert!(detail.contains("64 of 64 flows"), "answers make no flows: {detail}");
        }
    }
    let samples = lab.path("out/cells/linux.both/1/artefacts/samples-dut1-dut0.csv");
    assert!(fs::read_to_string(samples).expect("samples").lines().count() > 5);
    let calibration = json(&lab.path("out/calibration/both/trial.json"));
    assert_eq!(directions(&calibration).len(), 2);
    assert!(directions(&calibration).iter().all(|each| count(&each["ledger"], "delivered") > 0));
    let summary = json(&lab.path("out/summary.json"));
    // What something else on the machine disturbed is in no figure.
    if summary["counts"]["disturbed_cells"].is_null() {
        let shown = summary["series"][0]["directions"].as_array().expect("directions");
        assert_eq!((&shown[0]["name"], &shown[1]["name"]), (&there.into(), &back.into()));
        let page = fs::read_to_string(lab.path("out/report.html")).expect("a report");
        assert!(page.contains("id=\"directions\""), "the report shows each");
        assert!(stdout(&output).contains(back), "{}", stdout(&output));
    }
    let plan = run(&["lab", "plan", &lab.arg("lab.toml")]);
    assert_exit(&plan, 0);
    assert!(stdout(&plan).contains("4kpps + 2kpps"), "{}", stdout(&plan));
    assert!(stderr(&plan).contains("2 generators share the 1 CPU"), "{}", stderr(&plan));
}

#[test]
fn several_links_carry_pairs_and_a_full_mesh() {
    if !can_run_lab("several_links_carry_pairs_and_a_full_mesh") {
        return;
    }
    let _turn = alone();
    let lab = lab(2, &[MESH], "pass proto udp keep state\n");
    let output = lab.run(&[]);
    ended(&output);
    let trials = trials(&lab.path("out"));
    assert_eq!(trials.len(), 4);
    for (path, trial) in &trials {
        let (path, is_mesh) = (path.display().to_string(), trial["traffic"]["name"] == "mesh");
        let names: &[&str] = match is_mesh {
            true => &["to dut1", "to dut0", "to dut3", "to dut2"],
            false => &["dut0 → dut1", "dut2 → dut3"],
        };
        adds_up(&path, trial, names);
        // Six pairs of ports with 4 addresses behind each, or two pairs.
        let flow_count = if is_mesh { 6 * 16 } else { 2 * 16 };
        assert_eq!(trial["traffic"]["flow_count"], flow_count, "{path}");
        if trial["dut"]["name"] == "weir-fw" {
            let states = trial["levels"]["states"].as_u64();
            assert_eq!(states, Some(flow_count), "{path}: {}", trial["levels"]);
        }
        let counters = trial["counters"].as_object().expect("counters");
        assert!(counters.contains_key("dut3") && counters.contains_key("sink1"), "{path}");
    }
}

/// Frames of three pages go through the kernel's stack, and are counted as they are.
#[test]
fn jumbo_frames_go_both_ways() {
    if !can_run_lab("jumbo_frames_go_both_ways") {
        return;
    }
    let _turn = alone();
    let head = HEAD.replace("LINKS", "1\nmtu = 9000").replace("[[dut]]\nname = \"weir-fw\"", "#");
    let head = head.replace("kind = \"weir-fw\"\nfiles = { pf = \"pf.conf\" }", "");
    let both = BOTH.replace("rate = \"4kpps\"", "rate = \"4kpps\"\nsize = 9014");
    let lab = Lab::new(&[head.as_str(), &both].concat(), &[]);
    ended(&lab.run(&[]));
    let trials = trials(&lab.path("out"));
    let [(path, trial)] = trials.as_slice() else { panic!("{} trials", trials.len()) };
    adds_up(&path.display().to_string(), trial, &["dut0 → dut1", "dut1 → dut0"]);
    let sink = &trial["counters"]["sink"];
    let [packets, bytes] = ["packets", "bytes"].map(|name| sink[name].as_u64().expect(name));
    assert_eq!(bytes, packets * 9014, "{sink}");
}
