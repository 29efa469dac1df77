//! The example campaigns in which packets are handed to CPUs (labs/tunnel, labs/scaling), short.

use std::fs;
use std::path::Path;

use weir_net::cpu;

use crate::common::{
    Lab, can_run_lab, lossy, skipped, stderr, surroundings, trials, unless_starved,
};
use crate::turns::alone;

/// An example with one iteration, at a rate that each of its DUTs can forward.
fn short(name: &str, changes: &[(&str, &str)]) -> Lab {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name);
    let mut spec = fs::read_to_string(&path).expect("an example");
    // The weir that is tested, and not one that happens to be installed.
    let program = format!("weir = \"{}\"", env!("CARGO_BIN_EXE_weir"));
    let always = [
        ("warmup = \"500ms\"", "retries = 0\nwarmup = \"100ms\""),
        ("weir = \"weir\"", program.as_str()),
    ];
    for (from, to) in always.iter().chain(changes) {
        assert!(spec.contains(from), "{name}: {from}");
        spec = spec.replace(from, to);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path.parent().expect("a folder")).expect("readable") {
        let entry = entry.expect("readable");
        let file = entry.file_name().into_string().expect("UTF-8");
        files.push((file, fs::read_to_string(entry.path()).expect("readable")));
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .filter(|(file, _)| file != "lab.toml")
        .map(|(file, text)| (file.as_str(), text.as_str()))
        .collect();
    Lab::new(&spec, &files)
}

/// Each trial of the example delivers what it was offered.
fn all_is_forwarded(test: &str, name: &str, changes: &[(&str, &str)], count: usize) {
    if !can_run_lab(test) {
        return;
    }
    let online = cpu::online().expect("CPUs");
    if ![0, 1].iter().all(|cpu| online.contains(*cpu)) {
        return skipped(test, "the example needs CPU 0 and 1");
    }
    let _turn = alone();
    let before = surroundings();
    unless_starved(test, || {
        let lab = short(name, changes);
        let output = lab.run(&[]);
        // The exit code is 1 where something else on the machine disturbed a trial.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        assert_eq!(surroundings(), before, "something stayed behind");
        let trials = trials(&lab.path("out"));
        assert_eq!(trials.len(), count, "{}", stderr(&output));
        let lost = lossy(&trials);
        if lost.is_empty() { Ok(()) } else { Err(lost.join(", ")) }
    });
}

const ONE_ITERATION: (&str, &str) = ("iterations = 3", "iterations = 1");
const SLOW: (&str, &str) = ("values = [\"200kpps\", \"max\"]", "values = [\"4kpps\"]");
const SHORT: (&str, &str) = ("duration = \"2s\"", "duration = \"500ms\"");

#[test]
fn every_dut_of_the_example_with_tunnels_forwards_them() {
    let test = "every_dut_of_the_example_with_tunnels_forwards_them";
    all_is_forwarded(test, "tunnel/lab.toml", &[ONE_ITERATION, SLOW, SHORT], 6);
}

#[test]
fn every_dut_of_the_example_with_pppoe_forwards_it() {
    let test = "every_dut_of_the_example_with_pppoe_forwards_it";
    all_is_forwarded(test, "tunnel/pppoe.toml", &[ONE_ITERATION, SLOW, SHORT], 3);
}

#[test]
fn flows_are_handed_to_one_cpu_and_to_two() {
    let changes = [
        ("iterations = 5", "iterations = 1"),
        ("rate = \"100kpps\"", "rate = \"4kpps\""),
        ("duration = \"3s\"", "duration = \"500ms\""),
    ];
    let test = "flows_are_handed_to_one_cpu_and_to_two";
    all_is_forwarded(test, "scaling/handed.toml", &changes, 2);
}
