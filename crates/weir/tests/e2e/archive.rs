//! `weir lab import`, `weir lab export` and `weir lab report` of an imported store: the project's
//! own archive there and back, everything that may be wrong with one, a campaign under the
//! originals' names, an interruption.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{assert_exit, json, run, stderr, stdout, weir};

mod fixture;

/// A directory with an archive in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new(fill: impl FnOnce(&Path)) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        fill(&place.0.path().join("archive"));
        place
    }

    fn arg(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    fn import(&self, more: &[&str]) -> std::process::Output {
        let (archive, store) = (self.arg("archive"), self.arg("store"));
        run(&[&["lab", "import", &archive, "--out", &store], more].concat())
    }

    fn export(&self, more: &[&str]) -> std::process::Output {
        let (store, out) = (self.arg("store"), self.arg("out"));
        run(&[&["lab", "export", "--netbenches", &store, "--out", &out], more].concat())
    }
}

fn parsed(output: &std::process::Output) -> Value {
    serde_json::from_str(&stdout(output)).expect("standard output is JSON")
}

#[test]
fn the_own_archive_comes_out_as_it_is_published() {
    let place = Place::new(fixture::sound);
    let imported = place.import(&[]);
    assert_exit(&imported, 0);
    let text = stdout(&imported);
    assert!(text.contains("5 series, 22 runs from "), "{text}");
    assert!(text.contains("verdicts: 1 generator-bound, 21 without a verdict"), "{text}");
    assert!(text.contains("alone.pps: 3 medians without the samples they come from"), "{text}");
    assert!(!text.contains("skipped"), "{text}");
    let exported = place.export(&["--json"]);
    assert_exit(&exported, 0);
    let result = parsed(&exported);
    assert_eq!(result["left_out"], Value::Array(Vec::new()));
    let files = result["files"].as_array().expect("a list");
    assert_eq!(files.len(), fixture::PUBLISHED.len());
    for (path, text) in fixture::PUBLISHED {
        let ours = fs::read_to_string(place.0.path().join("out").join(path));
        assert_eq!(ours.expect(path), *text, "{path}");
    }
    // Neither is written over.
    assert_exit(&place.import(&[]), 2);
    let again = place.export(&[]);
    assert_exit(&again, 2);
    assert!(stderr(&again).contains("choose another directory with --out"), "{}", stderr(&again));
}

#[test]
fn a_report_of_an_imported_store_is_rebuilt() {
    let place = Place::new(fixture::sound);
    assert_exit(&place.import(&[]), 0);
    let store = place.arg("store");
    let derived = ["summary.json", "summary.md", "gnuplot.data"];
    let read = || derived.map(|name| fs::read_to_string(Path::new(&store).join(name)).expect(name));
    let before = read();
    for name in derived {
        fs::remove_file(Path::new(&store).join(name)).expect("removable");
    }
    let report = run(&["lab", "report", &store]);
    assert_exit(&report, 0);
    assert!(stdout(&report).contains("472.0 Mbit/s"), "{}", stdout(&report));
    assert_eq!(read(), before);
    let result = parsed(&run(&["lab", "report", &store, "--json"]));
    let series = result["series"].as_array().expect("a list");
    let hash = series.iter().find(|s| s["name"] == "box/results/fbsd10.2/65KBhash").expect("there");
    let level = |dimension: &str| {
        let levels = hash["levels"].as_array().expect("a list");
        levels.iter().find(|l| l["dimension"] == dimension).expect(dimension)["number"].clone()
    };
    assert_eq!(level("hash"), 65_536.0);
    assert_eq!(level("states"), 4e6);
    assert_eq!(level("flows"), 20.0);
    assert_eq!(hash["figures"]["median"], 2002.5);
    fs::write(Path::new(&store).join("archive.json"), "{}").expect("writable");
    let damaged = run(&["lab", "report", &store]);
    assert_exit(&damaged, 2);
    assert!(stderr(&damaged).contains("archive.json is damaged"), "{}", stderr(&damaged));
}

#[test]
fn everything_that_is_wrong_is_named_and_the_rest_is_there() {
    let place = Place::new(|root| {
        fixture::sound(root);
        fixture::traps(root);
    });
    let imported = place.import(&["--json"]);
    assert_exit(&imported, 1);
    let result = parsed(&imported);
    let mut skipped: Vec<String> = result["skipped"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|problem| {
            let file = problem["file"].as_str().expect("a file").rsplit('/').next().expect("one");
            let line = problem["line"].as_u64().map_or_else(String::new, |line| format!(":{line}"));
            format!("{file}{line}: {}", problem["text"].as_str().expect("a text"))
        })
        .collect();
    skipped.sort();
    assert_eq!(skipped, fixture::SKIPPED);
    assert_eq!(result["differing"], Value::Array(Vec::new()));
    let invalid = fixture::VERDICTS.iter().filter(|(_, kind, _)| *kind == "invalid").count();
    assert_eq!(result["invalid"].as_array().expect("a list").len(), invalid);
    for (series, kind, reason) in fixture::VERDICTS {
        let trial = trial(&place, series);
        assert_eq!(trial["verdict"]["kind"], *kind, "{series}");
        let stated = trial["verdict"]["reason"].as_str().expect("a reason");
        assert!(stated.contains(reason), "{series}: {stated}");
    }
    for (series, median) in
        [("cut", 50.0), ("codes", 50.0), ("noise", 50.0), ("scales", 50.0), ("scaled", 1_067_500.0)]
    {
        assert_eq!(trial(&place, series)["figure"]["median"], median, "{series}");
    }
    assert_eq!(trial(&place, "scaled")["flags"][0], "scaled-units");
    assert_eq!(trial(&place, "codes")["flags"][0], "escape-codes");
    let imported_again = run(&["lab", "report", &place.arg("store")]);
    assert_exit(&imported_again, 1);
    // What was sound comes out as it is published, beside what could be read of the rest.
    assert_exit(&place.export(&[]), 1);
    for (path, text) in fixture::PUBLISHED {
        let ours = fs::read_to_string(place.0.path().join("out").join(path));
        assert_eq!(ours.expect(path), *text, "{path}");
    }
}

/// The record of the first run of a trap.
fn trial(place: &Place, series: &str) -> Value {
    let cell = format!("store/cells/box/results/traps/{series}/1/trial.json");
    json(&place.0.path().join(cell))
}

#[test]
fn what_is_no_archive_is_refused() {
    let place = Place::new(|root| fs::create_dir_all(root).expect("writable"));
    let refused = place.import(&[]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("holds no results of bench-lab.sh"), "{}", stderr(&refused));
    assert!(!Path::new(&place.arg("store")).exists());
    let missing = place.export(&[]);
    assert_exit(&missing, 2);
    assert!(stderr(&missing).contains("does not exist"), "{}", stderr(&missing));
    let nameless = run(&["lab", "export", &place.arg("store"), "--out", &place.arg("out")]);
    assert_exit(&nameless, 2);
    assert!(stderr(&nameless).contains("--netbenches"), "{}", stderr(&nameless));
}

#[test]
fn an_interrupted_import_leaves_nothing() {
    /// Series enough that an import takes longer than a signal.
    const SERIES_COUNT: usize = 4000;
    let place = Place::new(|root| {
        fs::create_dir_all(root).expect("writable");
        for series in 0..SERIES_COUNT {
            fs::write(root.join(format!("s{series}.pps")), "1\n2\n3\n4\n5\n").expect("writable");
            let log = "8.5 main_thread [9] 5 pps (5 pkts in 1 usec)\n".repeat(200);
            fs::write(root.join(format!("bench.s{series}.1.receiver")), log).expect("writable");
        }
    });
    let mut command = weir();
    command.args(["lab", "import", &place.arg("archive"), "--out", &place.arg("store")]);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let unfinished = place.0.path().join(".unfinished-store");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !unfinished.join("cells").exists() {
        assert!(Instant::now() < deadline, "the import does not begin");
        thread::sleep(Duration::from_millis(1));
    }
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill(1)");
    assert!(killed.success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(!unfinished.exists() && !Path::new(&place.arg("store")).exists());
}
