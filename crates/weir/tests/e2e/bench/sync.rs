//! The benchmark of `make bench-sync`, tiny: that it runs and reports, not how fast anything is.

#[path = "../../../benches/sync/suite/mod.rs"]
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use suite::rows::{
    BULK, BULK_LOAD_PPS, BULK_RATE, BULK_STATES, CONNECTIONS, DEATH_KEPT, FLOOD_CHANGES, FLOOD_PPS,
    HANDOVER_KEPT, KNOWN_FLOWS, LOAD, NEW_FLOWS_PPS, NEW_KEPT, PAUSE, TRANSFERS, selected,
};
use suite::{Row, Samples, Settings, show};
use weir_machine::cancel::Cancel;

use super::{cannot_run, entry};
use crate::common::skipped;

#[test]
fn the_benchmark_runs_and_reports() {
    if let Some(why) = cannot_run() {
        skipped("the_benchmark_runs_and_reports", &why);
        return;
    }
    let _turn = crate::turns::alone();
    let settings = Settings {
        patience: Duration::ZERO,
        repeats: 1,
        sample: Duration::from_millis(500),
        state_count: BULK_STATES / 500,
        new_flows_pps: NEW_FLOWS_PPS / 40,
        pause: PAUSE / 10,
        known_count: KNOWN_FLOWS / 500,
        bulk_load_pps: BULK_LOAD_PPS / 100,
        flood_pps: FLOOD_PPS / 100,
        connection_count: CONNECTIONS / 10,
        load: LOAD / 10,
        transfer_count: TRANSFERS / 50,
        rows: selected(&[]).expect("rows"),
        weir: PathBuf::from(env!("CARGO_BIN_EXE_weir")),
    };
    let mut said = 0;
    let outcome = suite::run(&settings, &Cancel::default(), &mut |_| said += 1)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(said, 1 + settings.rows.len());
    let json: Value = serde_json::from_str(&show::json(&outcome)).expect("it is JSON");
    let table = show::table(&outcome);
    assert_eq!(outcome.rows.len(), settings.rows.len());
    for row in &outcome.rows {
        let entry = entry(&json, row.spec.name);
        assert!(table.contains(row.spec.what), "{} is missing in\n{table}", row.spec.name);
        assert!(entry["value"].as_f64().is_some_and(|value| value > 0.0), "{entry}");
        assert_eq!(entry["ratio"].is_null(), entry["floor"].is_null(), "{entry}");
    }
    for kept in [NEW_KEPT, HANDOVER_KEPT, DEATH_KEPT, FLOOD_CHANGES] {
        assert_eq!(entry(&json, kept)["value"].as_f64(), Some(1.0), "{table}");
    }
}

#[test]
fn rows_are_selected_and_judged() {
    let only = |name: &str| selected(&[name.to_owned()]);
    let error = only("states").expect_err("no such row").to_string();
    assert!(error.contains("`states`") && error.contains(BULK), "{error}");
    let holds = |name: &'static str, samples: &[f64]| {
        let all = Samples::from([(name, samples.to_vec())]);
        Row::new(only(name).expect("it exists")[0], &all).holds()
    };
    assert!(holds(BULK, &[6.0]) && !holds(BULK, &[6.1]));
    assert!(holds(NEW_KEPT, &[1.0]) && !holds(NEW_KEPT, &[0.9999]));
    assert!(!holds(NEW_KEPT, &[]), "not measured");
    assert!(holds(BULK_RATE, &[1.0]), "the row has no limit");
}
