//! The benchmark of `make bench-rules`, tiny: that it runs and reports, not how fast anything is.

#[path = "../../../benches/rules/suite/mod.rs"]
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use super::entry;
use serde_json::Value;
use suite::rows::{EVALUATE_100, EVALUATE_10000, ROWS, WRITTEN_MEMORY, WRITTEN_TIME, selected};
use suite::{Row, Samples, Settings, ruleset, show};
use weir_machine::cancel::Cancel;

#[test]
fn the_benchmark_runs_and_reports() {
    let settings = Settings {
        repeats: 1,
        sample: Duration::from_millis(5),
        rows: selected(&[]).expect("all rows"),
        weir: PathBuf::from(env!("CARGO_BIN_EXE_weir")),
        divisor: 100,
    };
    let mut said = 0;
    let outcome = suite::run(&settings, &Cancel::default(), &mut |_| said += 1)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(said, 4);
    let json: Value = serde_json::from_str(&show::json(&outcome)).expect("it is JSON");
    let table = show::table(&outcome);
    assert_eq!(outcome.rows.len(), ROWS.len());
    for row in &outcome.rows {
        let name = row.spec.name;
        let entry = entry(&json, name);
        assert!(entry["value"].as_f64().is_some_and(|value| value > 0.0), "{entry}");
        assert_eq!(entry["ratio"].is_null(), entry["floor"].is_null(), "{entry}");
        assert!(table.contains(row.spec.what), "{name} is missing in\n{table}");
    }
}

#[test]
fn rows_are_selected_and_judged() {
    let only = |name: &str| selected(&[name.to_owned()]);
    let error = only("check").expect_err("there is no such row").to_string();
    assert!(error.contains("`check`") && error.contains(WRITTEN_MEMORY), "{error}");
    let holds = |name: &'static str, samples: &[f64]| {
        let all = Samples::from([(name, samples.to_vec())]);
        Row::new(only(name).expect("it exists")[0], &all).holds()
    };
    assert!(holds(WRITTEN_TIME, &[0.1, 1.0, 9.0]));
    assert!(!holds(WRITTEN_TIME, &[0.1, 1.1, 9.0]));
    assert!(!holds(WRITTEN_TIME, &[]), "not measured");
    assert!(holds(WRITTEN_MEMORY, &[400.0]) && !holds(WRITTEN_MEMORY, &[401.0]));
    assert!(holds(EVALUATE_100, &[1e6]) && !holds(EVALUATE_100, &[0.9e6]));
    assert!(holds(EVALUATE_10000, &[1.0]), "there is no limit");
}

/// What is measured is as large as the rows say, and no entry of the table is there twice.
#[test]
fn rulesets_are_as_large_as_they_say() {
    let rules = |text: &str| {
        text.lines().filter(|line| line.starts_with("pass") || line.starts_with("block")).count()
    };
    assert_eq!(rules(&ruleset::written(10_000, true)), 10_000);
    assert_eq!(rules(&ruleset::lists(10_000)), 101);
    let table = ruleset::table(100_000);
    let mut entries: Vec<&str> = table.lines().skip(1).collect();
    entries.sort_unstable();
    entries.dedup();
    assert!(entries.len() > 99_000, "{}", entries.len());
}
