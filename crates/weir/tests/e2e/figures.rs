//! `weir lab plot` and `weir lab compare` over imported stores: the two curves of the Atom C2558,
//! every format, the criteria for failure, refusals.
//!
//! The archive of netbenches is read in place (`../shared/data`, or `WEIR_TEST_DATA`). A small
//! archive in the same format, written by the test, covers the same code where it is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::common::{assert_exit, run, skipped, stderr, stdout};

/// The archive's folders of the Atom C2558, if they are there; says so if not.
fn atom(test: &str) -> Option<PathBuf> {
    let data = std::env::var_os("WEIR_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let atom = data.join("netbenches/Atom_C2558_4Cores/Intel_i350");
    if atom.is_dir() {
        return Some(atom);
    }
    skipped(test, "there are no netbenches in ../shared/data or $WEIR_TEST_DATA");
    None
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Imports a folder; what it says of differing or skipped files is of another test.
fn import(from: &Path, store: &Path) {
    let output = run(&["lab", "import", text(from), "--out", text(store)]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
}

/// Draws as PNG and gives the points of its only curve: position, median, minimum, maximum.
fn drawn(store: &Path, file: &Path) -> (Value, Vec<[f64; 4]>) {
    let output = run(&["lab", "plot", text(store), "--json", "--out", text(file)]);
    assert_exit(&output, 0);
    let value: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let curves = value["panels"][0]["curves"].as_array().expect("curves");
    assert_eq!(curves.len(), 1, "{value:#}");
    let points = curves[0]["points"].as_array().expect("points").iter().map(|point| {
        ["x", "median", "low", "high"].map(|key| point[key].as_f64().expect("a number"))
    });
    let points = points.collect();
    (value, points)
}

/// Whether a file is a PNG of more than `bytes`.
#[track_caller]
fn assert_png(file: &Path, bytes: usize) {
    let content = fs::read(file).expect("the picture");
    assert!(content.starts_with(b"\x89PNG\r\n\x1a\n") && content.len() > bytes, "{file:?}");
}

#[test]
fn the_curve_against_states_hashsize_is_the_published_one() {
    let Some(atom) = atom("the_curve_against_states_hashsize_is_the_published_one") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (store, file) = (dir.path().join("store"), dir.path().join("hashsize.png"));
    import(&atom.join("pf-states_hashsize/results/fbsd10.3.4Mstates"), &store);
    let (value, points) = drawn(&store, &file);
    assert_eq!(value["panels"][0]["scale"], serde_json::json!({"log": "two"}), "{value:#}");
    assert_eq!(points.len(), 11);
    let ki = 1024.0;
    assert_eq!(points[0], [32.0 * ki, 100_809.0, 99_866.0, 101_388.0]);
    assert_eq!(points[1][0], 65_536.0, "65Ki is 65,536");
    assert_eq!(points[9], [16.0 * ki * ki, 366_323.0, 363_514.0, 368_747.0]);
    assert_png(&file, 20_000);
}

#[test]
fn the_curve_against_the_number_of_states_is_the_published_one() {
    let test = "the_curve_against_the_number_of_states_is_the_published_one";
    let Some(atom) = atom(test) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (store, file) = (dir.path().join("store"), dir.path().join("states.png"));
    import(&atom.join("pf-sessions/results/fbsd10.3.10M"), &store);
    let (value, points) = drawn(&store, &file);
    assert_eq!(value["panels"][0]["scale"], serde_json::json!({"log": "ten"}), "{value:#}");
    assert_eq!(points.len(), 7);
    assert_eq!(points[0], [128.0, 406_365.0, 371_415.0, 411_379.0]);
    assert_eq!(points[6], [10e6, 362_200.0, 351_420.0, 365_515.0]);
    assert_png(&file, 20_000);
}

/// A folder of results in bench-lab.sh's format: `forwarding.<flows>` of five runs each, around
/// `rate_pps`.
fn archive(dir: &Path, rate_pps: u32, flows: &[&str]) {
    fs::create_dir_all(dir).expect("a directory");
    for name in flows {
        let info = format!(
            "IMAGE=\"\"\nCFG=\"forwarding\"\nPKTGEN=\"{name}\"\nUNAME=\"FreeBSD {rate_pps}\""
        );
        fs::write(dir.join(format!("bench.forwarding.{name}.info")), info).expect("a file");
        for iteration in 1..=5_u32 {
            let mut log = String::from("CMD: pkt-gen -f rx -i igb2\n");
            for sample in 0..60_u32 {
                let rate = rate_pps + iteration * 100 + sample % 7;
                log += &format!(
                    "{:03}.{:06} main_thread [2639] {rate} pps \
                     ({rate} pkts {} bps in 1000000 usec) \
                     23.20 avg_batch 99999 min_space\n",
                    sample,
                    sample,
                    rate * 480
                );
            }
            log += "Terminated\n";
            let file = dir.join(format!("bench.forwarding.{name}.{iteration}.receiver"));
            fs::write(file, log).expect("a file");
        }
    }
}

/// Two imported stores, the second `percent` slower and without the last series.
fn stores(dir: &Path, percent: u32) -> (PathBuf, PathBuf) {
    let rate = 400_000;
    archive(&dir.join("before"), rate, &["128", "4K", "1M"]);
    archive(&dir.join("after"), rate - rate / 100 * percent, &["128", "4K"]);
    let (old, new) = (dir.join("old"), dir.join("new"));
    import(&dir.join("before"), &old);
    import(&dir.join("after"), &new);
    (old, new)
}

fn compare(old: &Path, new: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["lab", "compare", text(old), text(new)];
    arguments.extend(more);
    run(&arguments)
}

#[test]
fn a_proven_regression_fails_and_what_is_below_the_bound_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = stores(dir.path(), 3);
    let output = compare(&old, &new, &["--fail-on", "regression>1%"]);
    assert_exit(&output, 1);
    let printed = stdout(&output);
    assert!(printed.contains("2 regressions beyond 1 % are proven"), "{printed}");
    let row = |name: &str| printed.lines().find(|line| line.contains(name)).unwrap_or_default();
    assert!(row("forwarding.1M").contains("not in "), "a lone series is listed: {printed}");
    let systems = row("/dut/uname");
    assert!(systems.contains("FreeBSD 400000") && systems.contains("FreeBSD 388000"), "{printed}");
    // ministat's block, which tests each pair alone, is shown when it is asked for.
    const MINISTAT: &str = "Difference at 95.0% confidence";
    assert!(!printed.contains(MINISTAT), "{printed}");
    let more = stdout(&compare(&old, &new, &["-v"]));
    assert!(more.contains(MINISTAT) && more.contains("2 comparisons: 2 slower"), "{more}");
    assert_exit(&compare(&old, &new, &["--fail-on", "regression>5%"]), 0);
    assert_exit(&compare(&old, &new, &[]), 0);
    assert_exit(&compare(&old, &new, &["--fail-on", "missing"]), 1);
    assert_exit(&compare(&old, &new, &["--fail-on", "missing", "--series", "*.4K"]), 0);
    let output = compare(&new, &old, &["--fail-on", "regression>0%", "--json"]);
    assert_exit(&output, 0);
    let value: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(value["words"], serde_json::json!({"faster": 2}));
}

/// The links of a page but those to its sections, which are all there.
fn links_to_files(page: &str) -> Vec<&str> {
    let links = page.split("href=\"").skip(1);
    let links = links.map(|link| link.split('"').next().expect("an end"));
    let (inner, files): (Vec<&str>, Vec<&str>) = links.partition(|link| link.starts_with('#'));
    for link in inner {
        assert!(page.contains(&format!(" id=\"{}\"", &link[1..])), "{link} leads nowhere");
    }
    files
}

#[test]
fn a_report_has_every_form_and_links_to_raw_cells() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = stores(dir.path(), 0);
    let out = dir.path().join("compare");
    assert_exit(&compare(&old, &new, &["--out", text(&out)]), 0);
    let page = fs::read_to_string(out.join("compare.html")).expect("the page");
    let mut links = 0;
    for link in links_to_files(&page) {
        assert!(out.join(link).is_file(), "{link} leads nowhere");
        links += 1;
    }
    assert!(links >= 2 * 2 * 6, "{links} links");
    assert!(!page.contains("src=") && !page.contains("http"), "the page stands alone");
    for name in ["iterations", "curves"] {
        for ending in ["svg", "png", "gp", "data"] {
            let file = out.join(format!("plots/{name}.{ending}"));
            assert!(fs::metadata(&file).is_ok_and(|m| m.len() > 100), "{file:?}");
        }
    }
    assert!(fs::read_to_string(out.join("compare.md")).expect("a file").contains("| forwarding."));
    let json = fs::read(out.join("compare.json")).expect("a file");
    let value: Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(value["series"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_imported_store_has_a_page_and_is_drawn_in_every_format() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, _) = stores(dir.path(), 0);
    assert_exit(&run(&["lab", "report", text(&old)]), 0);
    let page = fs::read_to_string(old.join("report.html")).expect("the page");
    for link in links_to_files(&page) {
        assert!(old.join(link).exists(), "{link} leads nowhere");
    }
    let file = |name: &str| dir.path().join(name);
    for (name, more) in [("a.svg", "--log"), ("b.png", "--linear"), ("c.gp", "--strip")] {
        let output = run(&["lab", "plot", text(&old), more, "--out", text(&file(name))]);
        assert_exit(&output, 0);
        assert!(stdout(&output).contains("figure: "), "{}", stdout(&output));
    }
    assert!(fs::read_to_string(file("a.svg")).expect("a file").contains("logarithmic"));
    assert_png(&file("b.png"), 10_000);
    let script = fs::read_to_string(file("c.gp")).expect("a file");
    assert!(script.contains("\"c.data\" index 0") && file("c.data").is_file(), "{script}");
}

#[test]
fn what_cannot_be_compared_or_drawn_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = stores(dir.path(), 0);
    let nowhere = dir.path().join("nowhere");
    let svg = dir.path().join("x.svg");
    for (output, words) in [
        (compare(&old, &nowhere, &[]), "nowhere"),
        (compare(&old, &new, &["--series", "nft*"]), "no series that matches --series"),
        (compare(&old, &new, &["--series", "["]), "is not a pattern"),
        (compare(&old, &new, &["--out", "report.pdf"]), "ends with .html, .md or .json"),
        (compare(&old, &new, &["--fail-on", "slower"]), "regression>P%"),
        (run(&["lab", "compare", text(&old)]), "2 values required"),
        (run(&["lab", "plot", text(&old), "--out", "x.pdf"]), "ends with .svg, .png or .gp"),
        (
            run(&["lab", "plot", text(&old), "--x", "rules", "--out", text(&svg)]),
            "no series has a dimension `rules`; there are: ",
        ),
    ] {
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(words), "{words}: {}", stderr(&output));
    }
    assert!(!svg.exists(), "nothing is written for a refusal");
}
