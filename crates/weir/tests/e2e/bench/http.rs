//! The benchmark of `make bench-http`, tiny: that it runs and reports, not how fast anything is.

#[path = "../../../benches/http/suite/mod.rs"]
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use suite::rows::selected;
use suite::rows::{CONNECT, HELD, LEDGER_FW, LEDGER_NFT, MEMORY, NGINX, OPENING};
use suite::rows::{OHA_64, OHA_1000, TIMES_OHA_64, TIMES_OHA_1000};
use suite::rows::{TIMES_NGINX, TIMES_SOCKETS};
use suite::rows::{TIMES_WRK_64, TIMES_WRK_1000, TIMES_WRK_CLOSE, WRK_64, WRK_1000, WRK_CLOSE};
use suite::{Row, Samples, Settings, show};
use weir_machine::cancel::Cancel;

use super::{cannot_run, entry};
use crate::common::skipped;

/// Programs that may be missing, what prints their version, and their rows.
const OTHERS: [(&str, &str, &[&str]); 3] = [
    ("wrk", "-v", &[WRK_64, WRK_1000, WRK_CLOSE, TIMES_WRK_64, TIMES_WRK_1000, TIMES_WRK_CLOSE]),
    ("oha", "--version", &[OHA_64, OHA_1000, TIMES_OHA_64, TIMES_OHA_1000]),
    ("nginx", "-v", &[NGINX, TIMES_NGINX]),
];

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
        sample: Duration::from_millis(20),
        ledger_connections: 200,
        // What fewer need may fit into what the process had before.
        held_connections: 8_000,
        rows: selected(&[]).expect("rows"),
        weir: PathBuf::from(env!("CARGO_BIN_EXE_weir")),
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
        assert!(table.contains(row.spec.what), "{name} is missing in\n{table}");
        let other = OTHERS.iter().find(|(_, _, rows)| rows.contains(&name));
        if let (Some((program, version, rows)), None) = (other, row.value) {
            let is_there = std::process::Command::new(program).arg(version).output().is_ok();
            assert!(!is_there, "{program} is installed, and {name} was not measured");
            if name == rows[0] {
                let why = format!("{program} is not installed");
                skipped("the_benchmark_runs_and_reports", &why);
            }
            continue;
        }
        assert!(entry["value"].as_f64().is_some_and(|value| value > 0.0), "{entry}");
        assert_eq!(entry["ratio"].is_null(), entry["floor"].is_null(), "{entry}");
    }
    // Neither is a share.
    for (name, unit) in [(MEMORY, " B"), (OPENING, " s")] {
        let what = outcome.rows.iter().find(|row| row.spec.name == name).expect("a row").spec.what;
        let line = table.lines().find(|line| line.starts_with(what));
        assert!(line.is_some_and(|line| line.contains(unit) && !line.contains('%')), "{table}");
    }
    let held = entry(&json, HELD)["value"].as_f64();
    assert!(held.is_some_and(|share| share > 0.9), "{table}");
    // The smaller count over the larger one; that they are the same is the benchmark's to judge.
    for name in [LEDGER_FW, LEDGER_NFT] {
        let value = entry(&json, name)["value"].as_f64();
        assert!(value.is_some_and(|value| value <= 1.0), "{table}");
    }
}

#[test]
fn rows_are_selected_and_judged() {
    let only = |name: &str| selected(&[name.to_owned()]);
    let error = only("connections").expect_err("there is no such row").to_string();
    assert!(error.contains("`connections`") && error.contains(CONNECT), "{error}");
    let holds = |name: &'static str, samples: &[f64]| {
        let all = Samples::from([(name, samples.to_vec())]);
        Row::new(only(name).expect("it exists")[0], &all).holds()
    };
    assert!(holds(TIMES_SOCKETS, &[60.0]) && !holds(TIMES_SOCKETS, &[59.0]));
    assert!(holds(LEDGER_FW, &[1.0]) && !holds(LEDGER_FW, &[0.9999]));
    assert!(!holds(LEDGER_NFT, &[]), "not measured");
    assert!(holds(CONNECT, &[1.0]), "there is no limit");
}
