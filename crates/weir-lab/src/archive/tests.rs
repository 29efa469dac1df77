//! Archives there and back: what BSDRP publishes, read in place; the project's own in the same
//! formats; what is damaged, doubled, interrupted.

use std::fs;
use std::path::{Path, PathBuf};

use weir_machine::cancel::Cancel;
use weir_results::collection::{self, Origin, Unit};
use weir_results::record::VerdictKind;

use super::published::RUNS_MAX;
use super::*;

type Exception = (&'static str, &'static str, fn(&str) -> String);

/// Files of netbenches that do not come out byte for byte: why, and what makes them equal.
const EXCEPTIONS: &[Exception] = &[(
    "Atom_C2558_4Cores/Intel_i350/pf-states_hashsize/results/fbsd10.3.default10K/gnuplot.data",
    "an editor of another system has ended its lines with CR LF, and not ended the last one",
    |published| published.replace("\r\n", "\n") + "\n",
)];

fn import(source: &Path, out: &Path) -> Result<Archive, ArchiveError> {
    let cancel = Cancel::default();
    let progress = &mut |_, _| {};
    let import = Import { source, out, weir: "test", cancel: &cancel, progress };
    import.run().map(|(archive, _)| archive)
}

/// Every file below a folder that the scripts of the archive made.
fn published(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".pps") || name == "gnuplot.data" {
                found.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn netbenches_comes_out_as_it_is_published() {
    let Some(source) = crate::fixture::netbenches() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (store, out) = (dir.path().join("store"), dir.path().join("out"));
    let archive = import(&source, &store).unwrap();
    let messages: Vec<String> = archive.record().problems.iter().map(Problem::message).collect();
    let only_notes = archive.record().problems.iter().all(|p| p.kind == ProblemKind::Note);
    assert!(only_notes, "{messages:#?}");
    let exported = export(&store, &out).unwrap();
    assert_eq!(exported.left_out, [""; 0]);
    let files = published(&source);
    assert!(files.len() >= 80, "{} files are published", files.len());
    let names: Vec<PathBuf> = published(&out);
    assert_eq!(names, files);
    for file in &files {
        let theirs = fs::read_to_string(source.join(file)).unwrap();
        let ours = fs::read_to_string(out.join(file)).unwrap();
        match EXCEPTIONS.iter().find(|(name, ..)| Path::new(name) == file) {
            None => assert_eq!(ours, theirs, "{}", file.display()),
            Some((_, reason, mended)) => {
                assert_ne!(ours, theirs, "{} is no exception: {reason}", file.display());
                assert_eq!(ours, mended(&theirs), "{}: {reason}", file.display());
            }
        }
    }
    the_atoms_hash_sizes_are_an_axis(&crate::open::open(&store).unwrap().collection);
}

/// 100.8 kpps at 32,768 entries to 366 kpps at 16 Mi; 406 kpps at 128 states to 362 at 10 million.
fn the_atoms_hash_sizes_are_an_axis(archive: &collection::Collection) {
    let points = |folder: &str, dimension: &str| -> Vec<(f64, f64)> {
        let of = archive.series.iter().filter(|s| s.name.contains(folder));
        let mut points: Vec<(f64, f64)> = of
            .map(|series| {
                let median = weir_stats::summary::median(&series.values()).unwrap();
                (series.level(dimension).unwrap().number.unwrap(), median)
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let hash = points("fbsd10.3.4Mstates", "hash");
    let sizes: Vec<f64> = (15..=25).map(|power| 2_f64.powi(power)).collect();
    assert_eq!(hash.iter().map(|p| p.0).collect::<Vec<_>>(), sizes);
    assert_eq!((hash[0].1, hash[9].1), (100_809.0, 366_323.0));
    let states = points("fbsd10.3.10M", collection::TRAFFIC);
    assert_eq!((states[0], states[6]), ((128.0, 406_365.0), (1e7, 362_200.0)));
    // pf makes two states of a flow.
    let flows = points("fbsd10.3.10M", collection::FLOWS);
    assert!((flows[6].0 / 5e6 - 1.0).abs() < 0.001, "{}", flows[6].0);
}

/// A log with 15 opening lines, samples, and 10 closing lines.
fn log(opening: &str, rates: &[u64]) -> String {
    let mut text = format!("{opening}\n{}", "opening\n".repeat(14));
    for rate in rates {
        text += &format!("1.5 main_thread [9] {rate} pps ({rate} pkts in 1000000 usec)\n");
    }
    text + &"closing\n".repeat(10)
}

/// Writes the files of a run.
fn run(dir: &Path, name: &str, received: &[u64], sent: &[u64]) {
    fs::create_dir_all(dir).unwrap();
    let command = "CMD: pkt-gen -f tx -l 60 -s 198.18.0.1-198.18.0.4 -d 198.19.0.1-198.19.0.5";
    fs::write(dir.join(format!("bench.{name}.receiver")), log("CMD: pkt-gen -f rx", received))
        .unwrap();
    fs::write(dir.join(format!("bench.{name}.sender")), log(command, sent)).unwrap();
}

struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn source(&self) -> PathBuf {
        self.dir.path().join("source")
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.source().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn import(&self) -> Archive {
        import(&self.source(), &self.store()).unwrap()
    }

    /// What is wrong, in the order of `archive.json`.
    fn messages(archive: &Archive) -> Vec<String> {
        archive.record().problems.iter().map(Problem::message).collect()
    }
}

#[test]
fn an_imported_store_is_a_collection_with_its_dimensions() {
    let tree = Tree::new();
    for iteration in 1..=3 {
        run(
            &tree.source().join("RAW"),
            &format!("2Mstates-64KBhash.x.{iteration}"),
            &[7; 5],
            &[9; 5],
        );
    }
    let info = "IMAGE=\"r1\"\nCFG=\"2Mstates-64KBhash\"\nPKTGEN=\"5K\"\nUNAME=\"FreeBSD box\"";
    tree.write("RAW/bench.2Mstates-64KBhash.x.info", info);
    let archive = tree.import();
    assert_eq!(Tree::messages(&archive), [""; 0]);
    let opened = crate::open::open(&tree.store()).unwrap();
    assert_eq!((opened.collection.origin, opened.damaged.len()), (Origin::Archive, 0));
    assert_eq!(opened.collection.environment["dut"]["uname"], "FreeBSD box");
    let series = opened.collection.series_named("2Mstates-64KBhash.x").unwrap();
    let number = |dimension: &str| series.level(dimension).unwrap().number;
    assert_eq!(number("states"), Some(2e6));
    assert_eq!(number("hash"), Some(65_536.0));
    assert_eq!(number(collection::TRAFFIC), Some(5000.0));
    assert_eq!(number(collection::FLOWS), Some(20.0));
    assert_eq!(number(collection::SIZE_BYTES), Some(60.0));
    assert_eq!(series.level(collection::IMAGE).unwrap().label, "r1");
    assert_eq!((series.unit, series.values()), (Unit::Pps, vec![7.0; 3]));
    let point = &series.points[1];
    assert_eq!((point.iteration, point.offered, &point.verdict), (2, Some(9.0), &None));
    let samples = fs::read_to_string(tree.store().join(&point.cell).join("samples.csv")).unwrap();
    assert_eq!(samples.lines().nth(1), Some("receiver,16,1.500000,7,7,1000000,1"));
    // A cell that is damaged later is named, and the others are there.
    fs::write(tree.store().join(&point.cell).join("trial.json"), "{").unwrap();
    let opened = crate::open::open(&tree.store()).unwrap();
    assert_eq!(opened.collection.series[0].points.len(), 2);
    assert!(opened.damaged[0].contains("2/trial.json is damaged"), "{:?}", opened.damaged);
}

#[test]
fn doubles_links_and_odd_names_are_named_and_the_rest_is_imported() {
    let tree = Tree::new();
    run(&tree.source(), "a.1", &[7; 5], &[9; 5]);
    run(&tree.source().join("RAW"), "a.1", &[8; 5], &[9; 5]);
    run(&tree.source().join("PMC"), "b.1", &[8; 5], &[9; 5]);
    tree.write("bench.a.0.receiver", "");
    tree.write("bench.c.1.after", "answer\n");
    tree.write("bench.d.info", "CFG=\"d\"\n");
    std::os::unix::fs::symlink(tree.source(), tree.source().join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", tree.source().join("bench.a.2.receiver")).unwrap();
    let archive = tree.import();
    assert_eq!(
        Tree::messages(&archive),
        [
            "RAW/bench.a.1.receiver: a duplicate of bench.a.1.receiver, which was imported",
            "RAW/bench.a.1.sender: a duplicate of bench.a.1.sender, which was imported",
            "bench.a.0.receiver: `0` before `.receiver` is not an iteration",
            "bench.a.2.receiver: not a regular file",
            "bench.c.1.after: no log of a receiver or a generator beside it",
            "bench.d.info: there are no results of this series",
            "loop: a symbolic link to a directory: it is not followed",
        ]
    );
    let trial = archive.read_trial("a", 1).unwrap();
    assert_eq!(trial.figure.unwrap().median, 7.0);
    assert_eq!(archive.read_trial("b", 1).unwrap().flags, [Flag::Profiled]);
    let names: Vec<&str> = archive.record().series.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn deep_trees_are_bounded() {
    let tree = Tree::new();
    run(&tree.source(), "a.1", &[7; 5], &[9; 5]);
    let deep = "d/".repeat(40);
    tree.write(&format!("{deep}x.pps"), "1\n");
    let messages = Tree::messages(&tree.import());
    assert_eq!(messages.len(), 1);
    assert!(
        messages[0].ends_with("deeper than 32 directories: it is not searched"),
        "{messages:?}"
    );
}

#[test]
fn published_figures_that_do_not_fit_are_named() {
    let tree = Tree::new();
    for iteration in 1..=3 {
        run(&tree.source(), &format!("a.{iteration}"), &[7; 5], &[9; 5]);
        run(&tree.source(), &format!("b.{iteration}"), &[5; 5], &[9; 5]);
    }
    tree.write("a.pps", "7\n8\n7\nnan\n");
    tree.write("b.pps", "5\n5\n");
    let rows = "#index median minimum maximum\n9Ki 5 5 5\na 7 7 8\nz 1 2 3\nq 1 2\n";
    tree.write("gnuplot.data", rows);
    let archive = tree.import();
    assert_eq!(
        Tree::messages(&archive),
        [
            "a.pps:2: 8 is published, and the log gives 7",
            "a.pps:4: `nan` is not a finite rate",
            "b.pps: 2 medians are published, and the logs that are there give 3",
            "gnuplot.data:3: `7 7 8` is published, and the runs give `7 7 7`",
            "gnuplot.data:4: no series is named `z`, or has these figures",
            "gnuplot.data:5: a row has an index and three figures",
        ]
    );
    let out = tree.dir.path().join("out");
    assert_eq!(export(&tree.store(), &out).unwrap().left_out, [""; 0]);
    let gnuplot = fs::read_to_string(out.join("gnuplot.data")).unwrap();
    assert_eq!(gnuplot, "#index median minimum maximum\n9Ki 5 5 5\na 7 7 7\n");
}

#[test]
fn too_few_figures_have_no_row() {
    let tree = Tree::new();
    tree.write("few.pps", "1\n2\n");
    tree.write("enough.pps", "1\n2\n3\n");
    let archive = tree.import();
    assert_eq!(archive.read_trial("few", 2).unwrap().basis, Basis::Median);
    let out = tree.dir.path().join("out");
    let exported = export(&tree.store(), &out).unwrap();
    assert_eq!(exported.files, ["enough.pps", "few.pps", "gnuplot.data"]);
    assert_eq!(exported.left_out.len(), 1);
    assert!(exported.left_out[0].contains("it has 2 figures, and statistics need 3"));
    assert!(matches!(
        export(&tree.store(), &out),
        Err(ExportError::Archive(ArchiveError::Exists { .. }))
    ));
}

#[test]
fn searches_are_bits_per_second_and_come_out_in_megabits() {
    let tree = Tree::new();
    let end = |rate: u64| {
        format!(
            "CMD: equilibrium -u\nEstimated Equilibrium Ethernet throughput= {rate} Mb/s (maximum \
             value seen: {} Mb/s)\n",
            rate + 9
        )
    };
    for iteration in 1..=3 {
        tree.write(&format!("RAW/bench.wg.{iteration}.sender"), end(470 + iteration));
    }
    tree.write("alone.equilibrium", "5\n6\n7\n");
    tree.write("alone.equilibrium.max", "15\n16\n17\n");
    run(&tree.source(), "wg.4", &[7; 5], &[9; 5]);
    let archive = tree.import();
    assert_eq!(
        Tree::messages(&archive),
        [
            "alone.equilibrium: 3 medians without the samples they come from",
            "bench.wg.4.receiver: mixed units: it is in pps, the series in bps",
        ]
    );
    let trial = archive.read_trial("wg", 3).unwrap();
    let figure = trial.figure.unwrap();
    assert_eq!((trial.unit, figure.median, figure.maximum), (Unit::Bps, 473e6, 482e6));
    let out = tree.dir.path().join("out");
    export(&tree.store(), &out).unwrap();
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(read("wg.equilibrium"), "471\n472\n473\n");
    assert_eq!(read("wg.equilibrium.max"), "480\n481\n482\n");
    assert_eq!(read("alone.equilibrium.max"), "15\n16\n17\n");
    let header = "#index median minimum maximum\n";
    assert_eq!(read("gnuplot.data"), format!("{header}alone 6 5 7\nwg 472 471 473\n"));
    assert_eq!(read("gnuplot.data.max"), format!("{header}alone 16 15 17\nwg 481 480 482\n"));
}

#[test]
fn medians_stand_in_the_order_of_ls() {
    let tree = Tree::new();
    for iteration in 1..=11 {
        run(&tree.source(), &format!("a.{iteration}"), &[iteration; 5], &[99; 5]);
    }
    tree.import();
    let out = tree.dir.path().join("out");
    export(&tree.store(), &out).unwrap();
    let lines = fs::read_to_string(out.join("a.pps")).unwrap();
    assert_eq!(lines, "1\n10\n11\n2\n3\n4\n5\n6\n7\n8\n9\n");
    // And the same without the logs they are of.
    let again = Tree::new();
    again.write("a.pps", &lines);
    let archive = again.import();
    let median = |iteration| archive.read_trial("a", iteration).unwrap().figure.unwrap().median;
    assert_eq!([median(1), median(2), median(11)], [1.0, 2.0, 11.0]);
}

#[test]
fn nothing_is_left_of_an_import_that_stops() {
    let tree = Tree::new();
    run(&tree.source(), "a.1", &[7; 5], &[9; 5]);
    let cancel = Cancel::default();
    cancel.request(2);
    let (source, store) = (tree.source(), tree.store());
    let progress = &mut |_, _| {};
    let import_it =
        Import { source: &source, out: &store, weir: "test", cancel: &cancel, progress };
    assert!(matches!(import_it.run(), Err(ArchiveError::Cancelled { signal: 2 })));
    let left: Vec<_> = fs::read_dir(tree.dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [tree.source()]);
    // What a killed one has left goes with the next.
    let unfinished = tree.dir.path().join(".unfinished-store");
    fs::create_dir_all(unfinished.join("cells/old/1")).unwrap();
    tree.import();
    assert!(!unfinished.exists() && !tree.store().join("cells/old").exists());
    // A store is never written over.
    assert!(matches!(import(&source, &store), Err(ArchiveError::Exists { .. })));
    let empty = tree.dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(matches!(import(&empty, &unfinished), Err(ArchiveError::NoResults { .. })));
    assert!(matches!(import(&source, &source), Err(ArchiveError::Exists { .. })));
    assert_eq!(import(&source, &empty).unwrap().record().series.len(), 1);
}

#[test]
fn an_invalid_run_is_there_and_does_not_count() {
    let tree = Tree::new();
    run(&tree.source(), "a.1", &[7; 5], &[9; 5]);
    run(&tree.source(), "a.2", &[0; 5], &[9; 5]);
    run(&tree.source(), "a.3", &[0; 5], &[9; 5]);
    tree.write("bench.a.3.after", "1 packets dropped\n");
    let archive = tree.import();
    let kind =
        |iteration| archive.read_trial("a", iteration).unwrap().verdict.map(|verdict| verdict.kind);
    assert_eq!(
        [kind(1), kind(2), kind(3)],
        [None, Some(VerdictKind::Invalid), Some(VerdictKind::Overloaded)]
    );
    let collection = crate::open::open(&tree.store()).unwrap().collection;
    assert_eq!(collection.series[0].values(), [7.0, 0.0]);
}

#[test]
fn paths_that_lead_out_of_a_store_are_refused() {
    let tree = Tree::new();
    run(&tree.source().join("x"), "a.1", &[7; 5], &[9; 5]);
    let record = tree.import().record().clone();
    let path = tree.store().join(ARCHIVE_FILE);
    let strays: [fn(&mut ArchiveRecord); 5] = [
        |record| record.results[0].path = "../x".to_owned(),
        |record| record.results[0].path = "/x".to_owned(),
        |record| record.series[0].results = "x/../../y".to_owned(),
        |record| record.series[0].file_name = "../a".to_owned(),
        |record| record.series[0].file_name = "/a".to_owned(),
    ];
    for stray in strays {
        let mut changed = record.clone();
        stray(&mut changed);
        fs::write(&path, serde_json::to_vec(&changed).unwrap()).unwrap();
        let opened = Archive::open(&tree.store());
        assert!(matches!(opened, Err(ArchiveError::Damaged { .. })), "{changed:?}");
    }
    fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    assert!(Archive::open(&tree.store()).is_ok());
}

#[test]
fn stores_below_an_archive_are_not_looked_into() {
    let tree = Tree::new();
    run(&tree.source(), "a.1", &[7; 5], &[9; 5]);
    import(&tree.source(), &tree.source().join("stores/old")).unwrap();
    tree.write("stores/old/x.pps", "1\n");
    let archive = tree.import();
    let messages = ["stores/old: a store of an earlier import: it is not searched"];
    assert_eq!(Tree::messages(&archive), messages);
    assert_eq!(archive.record().series.len(), 1);
    assert_eq!(archive.record().results.len(), 1);
}

#[test]
fn the_problems_and_the_runs_of_a_published_file_are_bounded() {
    let tree = Tree::new();
    run(&tree.source(), "a.1", &[7; 5], &[9; 5]);
    let long = format!("{}\n", "x".repeat(1000));
    tree.write("a.pps", long.repeat(1000));
    tree.write("b.pps", "1\n".repeat(RUNS_MAX + 1));
    tree.write("c.pps", "1\n".repeat(3));
    tree.write("gnuplot.data", format!("{} 1 2 3\n", "y".repeat(1000)).repeat(1000));
    let archive = tree.import();
    let messages = Tree::messages(&archive);
    let of = |file: &str| messages.iter().filter(|t| t.starts_with(file)).collect::<Vec<_>>();
    assert_eq!(of("a.pps").len(), 7, "{messages:#?}");
    assert!(messages.contains(&"a.pps: 995 more lines like these".to_owned()), "{messages:#?}");
    assert_eq!(of("gnuplot.data").len(), 6, "{messages:#?}");
    let refused = format!("b.pps: it has {} medians, more than {RUNS_MAX}", RUNS_MAX + 1);
    assert!(messages.iter().any(|t| t.starts_with(&refused)), "{messages:#?}");
    assert!(messages.iter().all(|text| text.len() < 200), "{messages:#?}");
    let names: Vec<&str> = archive.record().series.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
}
