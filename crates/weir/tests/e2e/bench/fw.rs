//! The benchmark of `make bench-fw`, tiny: that it runs and reports, not how fast anything is.

#[path = "../../../benches/fw/suite/mod.rs"]
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use super::{cannot_run, entry};
use serde_json::Value;
use suite::rows::{ROWS, selected};
use suite::{Outcome, Settings, show};
use weir_machine::cancel::Cancel;

/// The rows of a quick run: one of each kind, and those that they are compared with.
const QUICK: [&str; 5] = [
    "route",
    "stateful_4900_polled",
    "stateful_5m_vs_one_stage",
    "stateful_128_vs_before",
    "start_10m",
];

/// Numbers of flows in the thousands, samples of some milliseconds.
fn tiny(only: &[&str]) -> Settings {
    let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
    let weir = PathBuf::from(env!("CARGO_BIN_EXE_weir"));
    Settings {
        sample: Duration::from_millis(60),
        settle: Duration::ZERO,
        patience: Duration::ZERO,
        repeats: 1,
        rows: selected(&only, true).expect("rows"),
        before: Some(weir.clone()),
        weir,
        divisor: 1000,
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn the_benchmark_runs_and_reports() {
    if let Some(reason) = cannot_run() {
        eprintln!("skipped: {reason}");
        return;
    }
    let _turn = crate::turns::alone();
    let mut said = Vec::new();
    let settings = tiny(if weir_oracle::count::is_quick() { &QUICK } else { &[] });
    let outcome = suite::run(&settings, &Cancel::default(), &mut |line| said.push(line.to_owned()))
        .unwrap_or_else(|error| panic!("{error}\n{}", said.join("\n")));
    assert_eq!(outcome.rows.len(), settings.rows.len());
    check(&outcome);
}

/// Every row is there, with positive numbers, in the table and in the JSON.
fn check(outcome: &Outcome) {
    let json: Value = serde_json::from_str(&show::json(outcome)).expect("it is JSON");
    let table = show::table(outcome);
    for row in &outcome.rows {
        let name = row.spec.name;
        let entry = entry(&json, name);
        assert!(entry["value"].as_f64().is_some_and(|value| value > 0.0), "{entry}");
        assert_eq!(entry["against"].is_null(), entry["ratio"].is_null(), "{entry}");
        assert_eq!(row.meets().is_some(), row.spec.floor.is_some(), "{entry}");
        let has_cost = entry["cost_ns"].as_f64().is_some_and(|cost_ns| cost_ns > 0.0);
        assert_eq!(has_cost, row.spec.unit == "pps", "{entry}");
        assert!(table.contains(row.spec.what), "{name} is missing in\n{table}");
    }
}

#[test]
fn rows_bring_what_they_are_compared_with() {
    let names = |only: &str| -> Vec<&str> {
        let rows = selected(&[only.to_owned()], true).expect("it exists");
        rows.iter().map(|row| row.name).collect()
    };
    assert_eq!(names("route"), ["minimal", "route"]);
    assert_eq!(names("stateful_5m_vs_128"), ["stateful_128", "stateful_5m_vs_128"]);
    assert_eq!(names("memory_rest"), ["memory_rest"]);
    assert_eq!(names("stateful_128_vs_before"), ["before_128", "stateful_128_vs_before"]);
    assert_eq!(selected(&[], false).expect("rows").len() + 4, ROWS.len());
    let error = selected(&["before_128".to_owned()], false).expect_err("no other weir");
    assert!(error.to_string().contains("--before=FILE"), "{error}");
    let error = selected(&["fast".to_owned()], true).expect_err("there is no such row").to_string();
    assert!(error.contains("`fast`") && error.contains("new_states"), "{error}");
}

/// What is compared is there to be compared with, under the name of its series.
#[test]
fn every_counterpart_is_a_row() {
    use crate::support::rows::Against;
    for row in ROWS {
        if let Against::Series(other) = row.against {
            assert!(ROWS.iter().any(|row| row.name == other && row.series == other), "{other}");
        }
        let is_shown = row.name.starts_with("control_") || row.name.ends_with("_polled");
        let has_floor = row.against != Against::Nothing && !is_shown;
        assert_eq!(row.floor.is_some(), has_floor, "{}", row.name);
    }
}
