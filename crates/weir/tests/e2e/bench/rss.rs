//! The benchmark of `make bench-rss`, tiny: that it runs and reports, not how fast anything is.

#[path = "../../../benches/rss/suite/mod.rs"]
mod suite;

use std::time::Duration;

use super::entry;
use serde_json::Value;
use suite::rows::{DISPATCH, ECHO_MMSG, HASH_V4, INNER, PLACED_V4, PLACED_V6, TABLES_V4, selected};
use suite::{Row, Samples, Settings, show};
use weir_machine::cancel::Cancel;
use weir_oracle::count::is_quick;

use crate::common::can_run_lab;

/// The rows of a quick run: hashes, flows where they are predicted, one pair of echo servers, and
/// one of the router.
const QUICK: [&str; 6] = [HASH_V4, PLACED_V4, PLACED_V6, ECHO_MMSG, INNER, DISPATCH];

#[test]
fn the_benchmark_runs_and_reports() {
    if !can_run_lab("the_benchmark_runs_and_reports") {
        return;
    }
    let _turn = crate::turns::alone();
    let only = if is_quick() { QUICK.map(str::to_owned).to_vec() } else { Vec::new() };
    let settings = Settings {
        patience: Duration::ZERO,
        repeats: 1,
        sample: Duration::from_millis(2),
        rows: selected(&only).expect("rows"),
        flow_count: 50,
    };
    let mut said = 0;
    let outcome = suite::run(&settings, &Cancel::default(), &mut |_| said += 1)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(said, 1);
    let json: Value = serde_json::from_str(&show::json(&outcome)).expect("it is JSON");
    let table = show::table(&outcome);
    assert_eq!(outcome.rows.len(), settings.rows.len());
    for row in &outcome.rows {
        let name = row.spec.name;
        let entry = entry(&json, name);
        assert!(entry["value"].as_f64().is_some_and(|value| value > 0.0), "{entry}");
        assert_eq!(entry["ratio"].is_null(), entry["floor"].is_null(), "{entry}");
        assert!(table.contains(row.spec.what), "{name} is missing in\n{table}");
    }
    // No figure of speed: every flow is where it is predicted to be.
    for name in [PLACED_V4, PLACED_V6] {
        assert_eq!(entry(&json, name)["value"], 1.0, "{table}");
    }
}

#[test]
fn rows_are_selected_and_judged() {
    let only = |name: &str| selected(&[name.to_owned()]);
    let error = only("hash").expect_err("there is no such row").to_string();
    assert!(error.contains("`hash`") && error.contains(HASH_V4), "{error}");
    let holds = |name: &'static str, samples: &[f64]| {
        let all = Samples::from([(name, samples.to_vec())]);
        Row::new(only(name).expect("it exists")[0], &all).holds()
    };
    assert!(holds(HASH_V4, &[1e8]) && !holds(HASH_V4, &[0.9e8]));
    assert!(holds(PLACED_V4, &[1.0]) && !holds(PLACED_V4, &[0.9999]));
    assert!(!holds(PLACED_V4, &[]), "not measured");
    assert!(holds(TABLES_V4, &[1.0]), "there is no limit");
}
