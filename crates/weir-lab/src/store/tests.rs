//! The store: whole cells or none, resumable, never rewritten.

use std::collections::BTreeMap;

use super::*;
use crate::fixture;
use crate::model::SpecSource;

fn spec() -> SpecSource {
    SpecSource {
        path: "lab.toml".into(),
        text: "[campaign]\nname = \"t\"\n".into(),
        files: BTreeMap::from([("../rules.nft".to_owned(), "table inet t {}\n".to_owned())]),
    }
}

fn plan() -> PlanRecord {
    PlanRecord {
        schema: STORE_SCHEMA,
        spec_path: "lab.toml".into(),
        iterations: Some(2),
        only: None,
        weir: "weir 0.1.0".into(),
    }
}

fn samples() -> Vec<Sample> {
    (0..4)
        .map(|i| Sample { t_ns: i * 100, rx_packets: i * 7, rx_bytes: i * 420, tx_packets: i * 9 })
        .collect()
}

#[test]
fn what_is_written_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = Store::create(&root, &spec(), &plan()).unwrap();
    let record = fixture::trial("linux", "flows-128", 1);
    let cell = store.cell_dir(&record.series, 1);
    assert!(!store.holds(&cell, &record.cell_id).unwrap());
    store
        .write_trial(&cell, &record, &samples(), &[("dut.log".into(), b"hello".to_vec())])
        .unwrap();
    assert!(store.holds(&cell, &record.cell_id).unwrap());
    assert_eq!(store.read_cells().unwrap(), [(record, samples())]);
    assert_eq!(fs::read(cell.join("artefacts/dut.log")).unwrap(), b"hello");
    assert_eq!(store.plan_record().unwrap(), plan());
    let copy = StoredFiles::new(&store).location("../rules.nft");
    assert_eq!(fs::read_to_string(copy).unwrap(), "table inet t {}\n");
}

#[test]
fn a_second_campaign_does_not_get_into_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = Store::create(&root, &spec(), &plan()).unwrap();
    assert!(matches!(Store::create(&root, &spec(), &plan()), Err(StoreError::Exists { .. })));
    assert!(matches!(Store::open(&root), Err(StoreError::Locked { .. })));
    drop(store);
    assert!(Store::open(&root).is_ok());
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.tex"), "x").unwrap();
    assert!(matches!(Store::create(&other, &spec(), &plan()), Err(StoreError::NotEmpty { .. })));
    assert!(matches!(Store::open(&other), Err(StoreError::NoCampaign { .. })));
}

#[test]
fn a_cell_of_another_configuration_is_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("s"), &spec(), &plan()).unwrap();
    let record = fixture::trial("linux", "flows-128", 1);
    let cell = store.cell_dir(&record.series, 1);
    store.write_trial(&cell, &record, &samples(), &[]).unwrap();
    let error = store.holds(&cell, "another").unwrap_err();
    assert!(error.to_string().contains("another configuration"), "{error}");
}

#[test]
fn unfinished_cells_are_invisible_and_removed_when_opened() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = Store::create(&root, &spec(), &plan()).unwrap();
    let record = fixture::trial("linux", "flows-128", 1);
    store.write_trial(&store.cell_dir(&record.series, 1), &record, &samples(), &[]).unwrap();
    let half = root.join("cells").join(&record.series).join(".unfinished-2");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("samples.csv"), "t_ns").unwrap();
    assert_eq!(store.read_cells().unwrap().len(), 1);
    drop(store);
    let store = Store::open(&root).unwrap();
    assert!(!half.exists());
    assert_eq!(store.read_cells().unwrap().len(), 1);
}

#[test]
fn a_damaged_file_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("s"), &spec(), &plan()).unwrap();
    let record = fixture::trial("linux", "flows-128", 1);
    let cell = store.cell_dir(&record.series, 1);
    store.write_trial(&cell, &record, &samples(), &[]).unwrap();
    fs::write(cell.join("samples.csv"), "t_ns,rx_packets,rx_bytes,tx_packets\n1,2,3,4\n1,x,3,4\n")
        .unwrap();
    let error = store.read_trial(&cell).unwrap_err().to_string();
    assert!(error.contains("samples.csv") && error.contains("line 3"), "{error}");
}
