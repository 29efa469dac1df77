//! The benchmarks of `make bench`, tiny: that they run and report, not how fast anything is.

mod fw;
mod generator;
mod http;
mod near;
mod rss;
mod rules;
mod stats;
mod sync;

use serde_json::Value;

/// Why a benchmark that measures packets cannot run here.
fn cannot_run() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !status.lines().any(|line| line.starts_with("Uid:") && line.contains("\t0\t")) {
        return Some("network namespaces need root".to_owned());
    }
    match weir_net::cpu::online() {
        Ok(cpus) if cpus.contains(0) && cpus.contains(1) => None,
        _ => Some("the benchmark needs CPUs 0 and 1".to_owned()),
    }
}

/// What the JSON of a benchmark has under this name; fails if it is incomplete.
fn entry<'a>(json: &'a Value, name: &str) -> &'a Value {
    let mut entries = json.as_array().expect("a list").iter();
    let entry = entries.find(|entry| entry["name"] == name);
    let entry = entry.unwrap_or_else(|| panic!("{name} is missing in {json:#}"));
    for key in ["value", "unit", "samples", "cost_ns", "costs_ns", "against", "ratio", "floor"] {
        assert!(entry.get(key).is_some(), "{name} has no {key}");
    }
    entry
}
