//! The benchmark of `make bench-stats`, tiny: that it runs and reports, not how fast anything is.

#[path = "../../../benches/stats/suite/mod.rs"]
mod suite;

use std::path::PathBuf;

use super::entry;
use serde_json::Value;
use suite::rows::{IMPORT_MEMORY, IMPORT_TIME, ROWS, selected};
use suite::{Row, Samples, Settings, show};
use weir_lab::archive::{Archive, Import};
use weir_machine::cancel::Cancel;

#[test]
fn the_benchmark_runs_and_reports() {
    let settings = Settings {
        repeats: 1,
        rows: selected(&[]).expect("all rows"),
        weir: PathBuf::from(env!("CARGO_BIN_EXE_weir")),
        scale: 0.001,
    };
    let mut said = 0;
    let outcome = suite::run(&settings, &Cancel::default(), &mut |_| said += 1)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(said > 0);
    let json: Value = serde_json::from_str(&show::json(&outcome)).expect("it is JSON");
    let table = show::table(&outcome);
    assert_eq!(outcome.rows.len(), ROWS.len());
    for row in &outcome.rows {
        let name = row.spec.name;
        let entry = entry(&json, name);
        assert!(entry["value"].as_f64().is_some_and(|value| value > 0.0), "{entry}");
        assert!(table.contains(row.spec.what), "{name} is missing in\n{table}");
    }
}

#[test]
fn rows_are_selected_and_judged() {
    let only = |name: &str| selected(&[name.to_owned()]);
    assert_eq!(only(IMPORT_TIME).expect("it exists").len(), 1);
    let error = only("import").expect_err("there is no such row").to_string();
    assert!(error.contains("`import`") && error.contains(IMPORT_MEMORY), "{error}");
    let judged = |samples: &[f64]| {
        let all = Samples::from([(IMPORT_TIME, samples.to_vec())]);
        Row::new(only(IMPORT_TIME).expect("it exists")[0], &all)
    };
    let cases = [(vec![1.0, 60.0, 90.0], "met"), (vec![1.0, 61.0, 90.0], "MISSED")];
    for (samples, word) in cases.into_iter().chain([(Vec::new(), "not judged")]) {
        let row = judged(&samples);
        assert_eq!(row.holds(), word == "met", "{samples:?}");
        let outcome = suite::Outcome { machine: suite::Machine::read(), rows: vec![row] };
        let table = show::table(&outcome);
        assert!(table.ends_with(&format!(" {word}\n")), "{table}");
    }
}

/// The archive that is measured is one: its published medians come out of its logs.
#[test]
fn what_is_imported_is_an_archive() {
    let dir = tempfile::tempdir().expect("a directory");
    let cancel = Cancel::default();
    suite::archive::make(&dir.path().join("a"), 30, &cancel).expect("it is made");
    let (source, out) = (dir.path().join("a"), dir.path().join("store"));
    let import = Import {
        source: &source,
        out: &out,
        weir: "test",
        cancel: &cancel,
        progress: &mut |_, _| {},
    };
    let (_, derived) = import.run().expect("it is imported");
    let record = Archive::open(&out).expect("it is there").record().clone();
    assert_eq!(record.problems, []);
    assert_eq!((record.files_read, record.results.len()), (30 * 12, 3));
    assert_eq!((derived.summary.counts.series, derived.summary.counts.runs), (30, 150));
}
