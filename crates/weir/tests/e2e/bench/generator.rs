//! The benchmark of `make bench-gen`, tiny: that it runs and reports, not how fast anything is.

#[path = "../../../benches/gen/suite/mod.rs"]
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use super::cannot_run;
use serde_json::Value;
use suite::rows::{Against, ROWS, selected};
use suite::{AllSeries, Outcome, Row, Settings, show};
use weir_machine::cancel::Cancel;

/// Rows that depend on a program that may be missing, or give up on a busy machine.
const FOREIGN: [&str; 2] = ["trafgen", "flows_4900_vs_trafgen"];

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn the_benchmark_runs_and_reports() {
    if let Some(reason) = cannot_run() {
        eprintln!("skipped: {reason}");
        return;
    }
    let _turn = crate::turns::alone();
    let settings = Settings {
        sample: Duration::from_millis(60),
        slices: 2,
        rate_sample: Duration::from_millis(200),
        repeats: 1,
        rows: selected(&[]).expect("all rows"),
        weir: PathBuf::from(env!("CARGO_BIN_EXE_weir")),
    };
    let mut said = 0;
    let outcome = suite::run(&settings, &Cancel::default(), &mut |_| said += 1)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(said, settings.repeats);
    check(&outcome);
    for row in outcome.rows.iter().filter(|row| row.value.is_none()) {
        if let Some(reason) = &row.series.missing {
            eprintln!("skipped: the row {}: {reason}", row.spec.name);
        }
    }
}

/// Every row is there, with positive numbers, in the table and in the JSON.
fn check(outcome: &Outcome) {
    let json: Value = serde_json::from_str(&show::json(outcome)).expect("it is JSON");
    let table = show::table(outcome);
    let list = json.as_array().expect("it is a list");
    let entry = |name: &str| {
        let found = list.iter().find(|entry| entry["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is missing in {json:#}"))
    };
    for fact in ["machine_cpu", "machine_kernel", "machine_cpus"] {
        assert!(!entry(fact)["value"].is_null(), "{fact}");
    }
    let has_trafgen =
        outcome.rows.iter().any(|row| row.spec.name == FOREIGN[0] && row.value.is_some());
    assert_eq!(outcome.rows.len(), ROWS.len());
    for row in &outcome.rows {
        let (name, entry) = (row.spec.name, entry(row.spec.name));
        assert!(table.contains(row.spec.what), "{name} is missing in\n{table}");
        for key in ["name", "value", "unit", "samples", "against", "ratio", "floor"] {
            assert!(entry.get(key).is_some(), "{name} has no {key}");
        }
        if FOREIGN.contains(&name) && !has_trafgen {
            assert!(table.contains("trafgen: 0 samples: "), "the reason is missing in\n{table}");
            continue;
        }
        assert_measured(row, entry);
    }
}

fn assert_measured(row: &Row, entry: &Value) {
    let is_positive = |value: &Value| value.as_f64().is_some_and(|value| value > 0.0);
    assert!(is_positive(&entry["value"]), "{entry}");
    let samples = entry["samples"].as_array().expect("a list of samples");
    assert!(!samples.is_empty() && samples.iter().all(is_positive), "{entry}");
    assert_eq!(entry["against"].is_null(), entry["ratio"].is_null(), "{entry}");
    assert!(entry["ratio"].is_null() || is_positive(&entry["ratio"]), "{entry}");
    assert_eq!(row.meets().is_some(), row.spec.floor.is_some(), "{entry}");
}

#[test]
fn rows_are_selected_by_name() {
    let names = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        selected(&only).map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
    };
    assert_eq!(names(&[]).expect("all").len(), ROWS.len());
    assert_eq!(names(&["flows_5m"]).expect("it exists"), ["minimal", "flows_5m"]);
    let versus = names(&["flows_4900_vs_trafgen"]).expect("it exists");
    assert_eq!(versus, ["trafgen", "flows_4900_vs_trafgen"]);
    let error = names(&["minimal", "flow"]).expect_err("there is no such row").to_string();
    assert!(error.contains("`flow`") && error.contains("flows_4900"), "{error}");
}

/// A row whose series, and whose counterpart's, have these samples.
fn judged(name: &str, samples: &[f64], against: &[f64]) -> Row {
    let spec = ROWS.iter().find(|spec| spec.name == name).expect("there is such a row");
    let mut all = AllSeries::new();
    all.entry(spec.series).or_default().samples = samples.to_vec();
    if let Against::Series(other) = spec.against {
        all.entry(other).or_default().samples = against.to_vec();
    }
    Row::new(spec, &all)
}

#[test]
fn floors_are_judged_on_medians() {
    let verdict = |row: &Row| (row.meets(), row.holds());
    let slow = judged("flows_4900", &[1e6, 5e6, 9e6], &[2e6, 5e6, 1e7]);
    assert_eq!(
        (slow.value, slow.ratio, verdict(&slow)),
        (Some(5e6), Some(0.9), (Some(true), true))
    );
    let slow = judged("flows_4900", &[1e6, 5e6, 8e6], &[2e6, 5e6, 1e7]);
    assert_eq!((slow.ratio, verdict(&slow)), (Some(0.8), (Some(false), false)));
    let gap = judged("flows_4900", &[1e6, 5e6, 8e6], &[5e6, 1e7]);
    assert_eq!(gap.ratio, Some(5.0 / 7.5), "rounds are missing");
    assert_eq!(verdict(&judged("flows_4900", &[9e6], &[9e6])), (Some(true), true));
    assert_eq!(verdict(&judged("flows_4900", &[9e6], &[])), (None, false), "nothing to compare");
    assert_eq!(verdict(&judged("flows_4900", &[], &[9e6])), (None, false), "not measured");
    assert_eq!(verdict(&judged("minimal", &[1.0], &[])), (None, true), "there is no floor");
    assert_eq!(verdict(&judged("rate_100k", &[100_100.0], &[])), (Some(true), true));
    for wrong in [99_000.0, 101_000.0] {
        assert_eq!(verdict(&judged("rate_100k", &[wrong], &[])), (Some(false), false));
    }
    let huge = judged("memory_5m", &[1e6], &[]);
    assert_eq!(verdict(&huge), (Some(false), false));
    assert!(judged("memory_5m", &[8.0], &[]).ratio.is_some_and(|ratio| ratio > 1.0));
}
