//! The store: whole cells or none, resumable, never rewritten.

use std::collections::BTreeMap;
use std::io;

use super::*;
use crate::fixture;
use crate::model::SpecSource;

fn spec() -> SpecSource {
    SpecSource {
        path: "lab.toml".into(),
        text: "[campaign]\nname = \"t\"\n".into(),
        files: BTreeMap::from([("../rules.nft".to_owned(), b"table inet t {}\n".to_vec())]),
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

/// A record that goes with [`samples`].
fn record(iteration: u32) -> TrialRecord {
    let mut record = fixture::trial("linux", "flows-128", iteration);
    record.times.measured_ns = 300;
    record
}

/// A store with so many finished cells, and their directories.
fn with_cells(root: &Path, count: u32) -> (Store, Vec<PathBuf>) {
    let store = Store::create(root, &spec(), &plan()).unwrap();
    let mut dirs = Vec::new();
    for iteration in 1..=count {
        let record = record(iteration);
        let dir = store.cell_dir(&record.series, iteration);
        store.write_trial(&dir, &record, &samples(), &[]).unwrap();
        dirs.push(dir);
    }
    (store, dirs)
}

fn iterations(cells: &Cells) -> Vec<u32> {
    cells.trials.iter().map(|(r, _)| r.iteration).collect()
}

#[test]
fn a_store_without_a_trial_says_so_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("out");
    let (store, _) = with_cells(&root, 0);
    let said = store.check_begun().unwrap_err().to_string();
    assert!(said.contains("holds no finished trial"), "{said}");
    assert!(said.contains(&format!("weir lab resume {}", root.display())), "{said}");
    drop(store);
    let other = dir.path().join("other");
    with_cells(&other, 1).0.check_begun().unwrap();
}

#[test]
fn profiles_are_read_back_and_are_no_cells() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_cells(&dir.path().join("store"), 1);
    let record = record(0);
    let place = store.root().join("profiles").join(&record.series);
    let artefacts = ["profile.folded", "flamegraph.svg"].map(|name| (name.into(), b"x 1".to_vec()));
    store.write_trial(&place, &record, &samples(), &artefacts).unwrap();
    let folder = format!("profiles/{}/artefacts", record.series);
    let files = store.profile_files(&record.series);
    assert_eq!(files, [format!("{folder}/flamegraph.svg"), format!("{folder}/profile.folded")]);
    assert_eq!(store.read_profiles().unwrap().trials, [(record, samples())]);
    assert_eq!(iterations(&store.read_cells().unwrap()), [1]);
    assert!(store.profile_files("another").is_empty());
}

#[test]
fn what_is_written_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = Store::create(&root, &spec(), &plan()).unwrap();
    let record = record(1);
    let cell = store.cell_dir(&record.series, 1);
    assert!(!store.holds(&cell, &record.cell_id).unwrap());
    store
        .write_trial(&cell, &record, &samples(), &[("dut.log".into(), b"hello".to_vec())])
        .unwrap();
    assert!(store.holds(&cell, &record.cell_id).unwrap());
    let cells = store.read_cells().unwrap();
    assert_eq!(cells.trials, [(record, samples())]);
    assert!(cells.damaged.is_empty());
    assert_eq!(fs::read(cell.join("artefacts/dut.log")).unwrap(), b"hello");
    assert_eq!(store.plan_record().unwrap(), plan());
    let copy = StoredFiles::new(&store).unwrap().location("../rules.nft");
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
fn a_store_whose_making_was_interrupted_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    drop(Store::create(&root, &spec(), &plan()).unwrap());
    // As after a kill before the last file, and in the middle of another one.
    fs::remove_file(root.join("campaign.toml")).unwrap();
    fs::write(root.join(format!("{UNFINISHED}campaign.toml")), "[camp").unwrap();
    assert!(matches!(Store::open(&root), Err(StoreError::NoCampaign { .. })));
    let store = Store::create(&root, &spec(), &plan()).unwrap();
    assert_eq!(store.plan_record().unwrap(), plan());
    assert!(!root.join(format!("{UNFINISHED}campaign.toml")).exists());
}

#[test]
fn a_cell_of_another_configuration_is_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("s"), &spec(), &plan()).unwrap();
    let record = record(1);
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
    let record = record(1);
    store.write_trial(&store.cell_dir(&record.series, 1), &record, &samples(), &[]).unwrap();
    let half = root.join("cells").join(&record.series).join(".unfinished-2");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("samples.csv"), "t_ns").unwrap();
    assert_eq!(store.read_cells().unwrap().trials.len(), 1);
    drop(store);
    let store = Store::open(&root).unwrap();
    assert!(!half.exists());
    assert_eq!(store.read_cells().unwrap().trials.len(), 1);
}

#[test]
fn a_damaged_file_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("s"), &spec(), &plan()).unwrap();
    let record = record(1);
    let cell = store.cell_dir(&record.series, 1);
    store.write_trial(&cell, &record, &samples(), &[]).unwrap();
    fs::write(cell.join("samples.csv"), "t_ns,rx_packets,rx_bytes,tx_packets\n1,2,3,4\n1,x,3,4\n")
        .unwrap();
    let error = store.read_trial(&cell).unwrap_err().to_string();
    assert!(error.contains("samples.csv") && error.contains("line 3"), "{error}");
}

#[test]
fn a_result_is_on_the_disk_before_it_gets_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("new/store");
    let store = Store::create(&root, &spec(), &plan()).unwrap();
    let made = disk::trace::take(dir.path());
    let end = [
        "sync new/store/.unfinished-campaign.toml",
        "rename new/store/campaign.toml",
        "sync new/store",
    ];
    assert!(made.ends_with(&end.map(str::to_owned)), "{made:?}");
    assert_eq!(made[1], "sync new", "the store's own entry: {made:?}");

    let artefacts = [("dut.log".to_owned(), b"hello".to_vec())];
    store.write_trial(&root.join("cells/s/1"), &record(1), &samples(), &artefacts).unwrap();
    let expected = [
        "sync .",
        "sync cells",
        "sync cells/s/.unfinished-1/samples.csv",
        "sync cells/s/.unfinished-1/artefacts/dut.log",
        "sync cells/s/.unfinished-1/artefacts",
        "sync cells/s/.unfinished-1/trial.json",
        "sync cells/s/.unfinished-1",
        "rename cells/s/1",
        "sync cells/s",
    ];
    let mut notes = disk::trace::take(&root);
    notes[0] = notes[0].replace(&root.display().to_string(), ".");
    assert_eq!(notes, expected);
}

#[test]
fn a_cell_without_its_record_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let (store, cells) = with_cells(&dir.path().join("s"), 2);
    fs::remove_file(cells[1].join("trial.json")).unwrap();
    fs::write(cells[1].join("stray"), "x").unwrap();
    assert!(!store.holds(&cells[1], &record(2).cell_id).unwrap());
    let found = store.read_cells().unwrap();
    assert_eq!((iterations(&found), found.damaged.len()), (vec![1], 0));
    store.write_trial(&cells[1], &record(2), &samples(), &[]).unwrap();
    assert!(!cells[1].join("stray").exists());
    assert_eq!(iterations(&store.read_cells().unwrap()), [1, 2]);
}

#[test]
fn a_finished_cell_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (store, cells) = with_cells(&dir.path().join("s"), 1);
    let mut other = record(1);
    other.verdict.reason = "another".into();
    store.write_trial(&cells[0], &other, &samples(), &[]).unwrap_err();
    assert_eq!(store.read_trial(&cells[0]).unwrap(), (record(1), samples()));
    assert_eq!(fs::read_dir(cells[0].parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn damaged_cells_do_not_hide_the_good_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (store, cells) = with_cells(&dir.path().join("s"), 6);
    fs::write(cells[0].join("trial.json"), "").unwrap();
    fs::remove_file(cells[2].join("samples.csv")).unwrap();
    fs::write(cells[3].join("samples.csv"), [0xff]).unwrap();
    // Cut inside the last number, and at the end of a line.
    let whole = fs::read_to_string(cells[4].join("samples.csv")).unwrap();
    fs::write(cells[4].join("samples.csv"), &whole[..whole.len() - 2]).unwrap();
    let line = whole.trim_end().rfind('\n').unwrap() + 1;
    fs::write(cells[5].join("samples.csv"), &whole[..line]).unwrap();

    let found = store.read_cells().unwrap();
    assert_eq!(iterations(&found), [2]);
    let names = ["trial.json", "samples.csv", "samples.csv", "samples.csv", "samples.csv"];
    for ((index, name), error) in [0, 2, 3, 4, 5].into_iter().zip(names).zip(&found.damaged) {
        let text = error.to_string();
        let file = cells[index].join(name).display().to_string();
        let next = format!("move {} away, then `weir lab resume`", cells[index].display());
        assert!(text.contains(&file) && text.contains(&next), "{text}");
        let number = u32::try_from(index).unwrap() + 1;
        let held = store.holds(&cells[index], &record(number).cell_id).unwrap_err();
        assert_eq!(held.to_string(), text);
    }
    assert_eq!(found.damaged.len(), 5);
}

#[test]
fn a_damaged_calibration_does_not_hide_the_good_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_cells(&dir.path().join("s"), 0);
    for name in ["a", "b"] {
        store.write_trial(&store.calibration_dir(name), &record(0), &samples(), &[]).unwrap();
    }
    fs::write(store.calibration_dir("a").join("trial.json"), "{").unwrap();
    let found = store.read_calibrations().unwrap();
    assert_eq!((found.trials.len(), found.damaged.len()), (1, 1));
}

#[test]
fn a_number_that_json_cannot_hold_is_refused_with_the_name_of_its_field() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_cells(&dir.path().join("s"), 0);
    let cell = store.cell_dir("linux.t", 1);
    let refused = |record: &TrialRecord| {
        let error = store.write_trial(&cell, record, &samples(), &[]).unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
        assert!(!store.root().join("cells").exists());
        error.to_string()
    };
    for number in [f64::INFINITY, f64::NAN] {
        // Would be read as absent.
        let mut one = record(1);
        one.result.trend_ratio = Some(number);
        let text = refused(&one);
        assert!(text.contains("trend_ratio") && text.contains("trial.json"), "{text}");
        // Could not be read at all.
        let mut other = record(1);
        other.ledger.residual_ratio = number;
        let text = refused(&other);
        assert!(text.contains("residual_ratio"), "{text}");
    }
    let mut short = record(1);
    short.times.measured_ns += 1;
    assert!(refused(&short).contains("measured_ns"));
    let numbers = BTreeMap::from([("x".to_owned(), Some(f64::NEG_INFINITY))]);
    let error = store.write_json("env.json", &numbers).unwrap_err().to_string();
    assert!(error.contains("-inf"), "{error}");
    assert!(!store.root().join("env.json").exists());
}

fn later_spec() -> SpecSource {
    let mut spec = spec();
    spec.text.push_str("# later\n");
    spec.files.insert("../rules.nft".into(), (*b"table inet later {}\n").into());
    spec.files.insert("b/rules.nft".into(), (*b"table inet b {}\n").into());
    spec
}

fn stored(store: &Store, path: &str) -> String {
    fs::read_to_string(StoredFiles::new(store).unwrap().location(path)).unwrap()
}

#[test]
fn another_edition_of_the_specification_takes_over_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_cells(&dir.path().join("s"), 0);
    let earlier = StoredFiles::new(&store).unwrap().location("../rules.nft");
    // Interrupted after the first step: the earlier edition stands.
    files::write(&store, &later_spec().files).unwrap();
    assert_eq!(store.plan_record().unwrap(), plan());
    assert_eq!(stored(&store, "../rules.nft"), "table inet t {}\n");
    // Interrupted after the second step: the store says so.
    store.write("campaign.toml", later_spec().text.as_bytes()).unwrap();
    for error in [store.plan_record().unwrap_err(), StoredFiles::new(&store).unwrap_err()] {
        let text = error.to_string();
        assert!(matches!(error, StoreError::OtherSpecification { .. }), "{text}");
        assert!(text.contains(&format!("--out {} --resume", store.root().display())), "{text}");
    }
    // Doing it again mends it.
    let root = store.root().to_owned();
    drop(store);
    let store = Store::open(&root).unwrap();
    let later_plan = PlanRecord { only: Some("b".into()), ..plan() };
    store.replace_specification(&later_spec(), &later_plan).unwrap();
    assert_eq!(store.plan_record().unwrap(), later_plan);
    assert_eq!(stored(&store, "../rules.nft"), "table inet later {}\n");
    assert_eq!(stored(&store, "b/rules.nft"), "table inet b {}\n");
    assert_eq!(fs::read_to_string(earlier).unwrap(), "table inet t {}\n", "never overwritten");
    assert!(!StoredFiles::new(&store).unwrap().location("none").exists());
}

#[test]
fn another_record_of_the_plan_keeps_the_specification() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_cells(&dir.path().join("s"), 0);
    let more = PlanRecord { iterations: Some(5), ..plan() };
    store.replace_plan_record(&more).unwrap();
    assert_eq!(store.plan_record().unwrap(), more);
    assert_eq!(stored(&store, "../rules.nft"), "table inet t {}\n");
}

#[test]
fn copies_have_names_that_a_file_system_takes() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_cells(&dir.path().join("s"), 0);
    let long = format!("a/{}.nft", "é".repeat(120));
    let mut spec = spec();
    for path in ["/.hidden", &long, "x/.hidden"] {
        spec.files.insert(path.to_owned(), format!("# {path}\n").into_bytes());
    }
    store.replace_specification(&spec, &plan()).unwrap();
    for path in ["/.hidden", &long, "x/.hidden"] {
        assert_eq!(stored(&store, path), format!("# {path}\n"));
    }
    let folder = store.root().join("files");
    let mode = fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700, "configurations hold keys");
    let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
    assert!(names.into_iter().all(|n| !n.to_string_lossy().starts_with('.')));
}

#[test]
fn hints_fit_the_store() {
    use std::error::Error as _;

    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_cells(&dir.path().join("s"), 0);
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(store.root()).unwrap());
    let owner = if owner == 0 { "root".to_owned() } else { format!("user {owner}") };
    let failed = |kind: io::ErrorKind| {
        StoreError::io("create", &store.root().join("none/.lock"))(io::Error::from(kind))
    };
    let error = failed(io::ErrorKind::PermissionDenied);
    assert!(error.source().is_none(), "the cause is in the text already");
    let text = error.to_string();
    assert_eq!(text.matches("permission denied").count(), 1, "{text}");
    let hint = format!("{} belongs to {owner}: use sudo, or", store.root().display());
    assert!(text.contains(&hint) && !text.contains("--out"), "{text}");
    let text = failed(io::ErrorKind::ReadOnlyFilesystem).to_string();
    assert!(text.contains("copy of the store") && !text.contains("--out"), "{text}");
    let text = failed(io::ErrorKind::PermissionDenied).of_new_store().to_string();
    assert!(text.ends_with("; choose another directory with --out"), "{text}");
}
