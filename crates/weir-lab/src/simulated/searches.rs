//! Searches on a simulated testbed whose device is a formula: that they find it, keep every trial,
//! go on where they were stopped, and say what limited them.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use crate::archive::export;
use crate::event::Silent;
use crate::model::Plan;
use crate::model::search;
use crate::plan::{self, Overrides};
use crate::runner::{RunError, Runner};
use crate::search::{collection, expected, items, results};
use crate::spec::files::MemoryFiles;
use crate::store::{Kind, PlanRecord, Store, StoreError};
use crate::task::Task;
use weir_machine::cancel::Cancel;
use weir_results::collection::{DUT, GOAL, Origin, SIZE_BYTES, TRAFFIC};
use weir_results::compare::{Asked, compare};
use weir_results::document::{Document, Terminal};
use weir_results::record::Cost;
use weir_results::search::record::{ItemResult, Limit, StepOutcome};
use weir_results::search::report::SearchReport;
use weir_results::search::show::SearchSummary;
use weir_results::search::{FrameSize, Terms, Test};

use super::setup::{SPEC, plan_of, record};
use super::simulator::{Formula, Script, Simulator};

/// Heads of the table of repetitions.
const REPETITIONS: &str = "| item | goal | n |";

/// The report of what was found.
fn report(summary: &SearchSummary) -> Document {
    let report = SearchReport {
        summary: summary.clone(),
        environment: serde_json::json!({}),
        yardsticks: Vec::new(),
        spec_text: SPEC.to_owned(),
        command: "weir lab search /srv/lab.toml --pdr 1%".to_owned(),
        store: "/srv/results".to_owned(),
    };
    report.document()
}

/// What a terminal shows.
fn text(summary: &SearchSummary) -> String {
    report(summary).text(Terminal::default())
}

/// Trials of five samples, one of which decides.
const SEARCH: &str = r#"
[search]
preset = "rfc2544"
loss = ["0%", "1%"]
trial = "50ms"
width = "2%"
warmup = "50ms"
max_load = "400kpps"
latency_trial = "100ms"
latency_repeats = 2
burst_repeats = 2
"#;

const DEVICE: Formula =
    Formula { capacity_pps: 123_400.0, buffer_packets: 0.0, sender_pps: 500_000.0 };

/// A specification that is searched, and where.
struct Bench {
    dir: tempfile::TempDir,
    plan: Plan,
    terms: Terms,
    script: Rc<Script>,
}

impl Bench {
    fn new(search: &str, device: Formula) -> Self {
        let plan = plan_of(&format!("{SPEC}{search}"), Some(1));
        let terms = search::resolve(&plan.search, &search::Asked::default()).expect("resolved");
        let script: Rc<Script> = Rc::default();
        script.formula.set(Some(device));
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir, plan, terms, script }
    }

    fn task(&self) -> Task {
        Task::Search(Box::new(self.terms.clone()))
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("out")
    }

    /// The store: a new one, or the one that is there, with what is asked for now.
    fn store(&self) -> Result<Store, RunError> {
        let record = PlanRecord { iterations: Some(1), ..record() };
        let (task, source) = (self.task(), &self.plan.source);
        if !self.root().join("campaign.toml").exists() {
            return Ok(task.create(&self.root(), source, &record)?);
        }
        let store = Store::open(&self.root())?;
        task.check(&store).expect("searches");
        task.schedule(&self.plan, &store)?;
        task.replace(&store, source, &record)?;
        Ok(store)
    }

    fn run(&self, cancel: &Cancel) -> Result<Vec<ItemResult>, RunError> {
        let store = self.store()?;
        let testbed = Simulator { script: Rc::clone(&self.script) };
        let task = self.task();
        let mut schedule = task.schedule(&self.plan, &store)?;
        let (plan, store, observer) = (&self.plan, &store, &mut Silent);
        Runner { plan, store, testbed: &testbed, cancel, observer, wait: Duration::ZERO }
            .run(schedule.as_mut())?;
        Ok(self.results(store))
    }

    fn results(&self, store: &Store) -> Vec<ItemResult> {
        let (found, _) = results(&self.plan, &self.terms, store).expect("readable");
        found.into_iter().map(|(_, result)| result).collect()
    }

    fn found(&self) -> Vec<ItemResult> {
        self.run(&Cancel::simulated()).expect("the searches run")
    }

    fn builds(&self) -> usize {
        self.script.log().iter().filter(|call| *call == "build").count()
    }

    fn trials(&self, item: &str, test: Test) -> usize {
        let dir = self.dir.path().join("out/items").join(item).join(test.name());
        std::fs::read_dir(dir).map_or(0, |entries| entries.flatten().count())
    }
}

#[test]
fn the_scripted_capacity_is_found_and_every_trial_is_kept() {
    let bench = Bench::new(SEARCH, DEVICE);
    let results = bench.found();
    let asked = std::fs::read_to_string(bench.root().join("search.json")).expect("written");
    assert!(asked.contains("400000.0") && !asked.contains("ip_forward"), "{asked}");
    let [ndr, pdr] = results[0].goals.as_slice() else { panic!("{results:?}") };
    assert_eq!((ndr.limit, pdr.limit), (Limit::Dut, Limit::Dut), "{results:?}");
    // A trial of 60 ms in steps of 10 ms: a packet of rounding in each.
    let is_near = |pps: Option<f64>| (pps.expect("a rate") / 123_400.0 - 1.0).abs() < 0.03;
    assert!(is_near(ndr.lower_pps) && is_near(ndr.upper_pps), "{ndr:?}");
    assert!(is_near(pdr.conditional_throughput_pps), "{pdr:?}");
    let cost = results[0].costs[0];
    let kept = bench.trials("linux.t", Test::Throughput);
    assert_eq!(kept, cost.trials as usize);
    assert_eq!(bench.builds(), kept + 1, "a fresh testbed for each trial and the calibration");
    assert!(kept < 30, "{kept} trials");
    // The path has every trial, and leads to what was found.
    let path = &results[0].path;
    assert_eq!(path.len(), kept);
    assert_eq!((path[0].outcome, path[0].load_pps), (StepOutcome::WarmUp, 400_000.0));
    let last = &path.last().expect("trials").bounds;
    for (goal, bounds) in results[0].goals.iter().zip(last) {
        assert_eq!((bounds.lower_pps, bounds.upper_pps), (goal.lower_pps, goal.upper_pps));
    }
    for step in path {
        let StepOutcome::LossRatio(loss_ratio) = step.outcome else { continue };
        assert_eq!(loss_ratio > 0.02, step.load_pps > 123_400.0 * 1.03, "{step:?}");
    }
    // Again: nothing is left to do.
    assert_eq!(bench.found(), results);
    assert_eq!(bench.builds(), kept + 1);
}

#[test]
fn a_search_that_was_stopped_goes_on_from_its_trials_and_finds_the_same() {
    let whole = Bench::new(SEARCH, DEVICE);
    let expected = whole.found();
    let bench = Bench::new(SEARCH, DEVICE);
    let cancel = Cancel::simulated();
    let (asked, mut starts) = (cancel.clone(), 0);
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        starts += usize::from(name == "send endlessly");
        // The calibration has no such start; the third is that of the second load.
        if starts == 3 {
            asked.request(2);
        }
    }));
    let error = bench.run(&cancel).expect_err("it was stopped");
    assert!(matches!(error, RunError::Cancelled { signal: 2 }), "{error}");
    let kept = bench.trials("linux.t", Test::Throughput);
    assert!((1..=3).contains(&kept), "{kept}");
    let before = bench.builds();
    let results = bench.found();
    let (again, all) = (bench.builds() - before, bench.trials("linux.t", Test::Throughput));
    assert_eq!(again, all - kept, "what was kept is not measured again, nor is the calibration");
    // All but the time that the trials took.
    assert_eq!(results[0].goals, expected[0].goals);
}

#[test]
fn what_the_sender_cannot_do_is_not_said_of_the_device() {
    let device = Formula { capacity_pps: 1e6, sender_pps: 90_000.0, ..DEVICE };
    let results = Bench::new(SEARCH, device).found();
    // The path itself carries no more than the sender offers.
    let ndr = &results[0].goals[0];
    assert!(ndr.limit.is_lower_bound(), "{ndr:?}");
    assert!((ndr.lower_pps.expect("a bound") / 90_000.0 - 1.0).abs() < 0.02, "{ndr:?}");
    // The specification's own limit is named as such.
    let device = Formula { capacity_pps: 1e6, ..DEVICE };
    let results = Bench::new(SEARCH, device).found();
    let ndr = &results[0].goals[0];
    assert_eq!((ndr.limit, ndr.lower_pps), (Limit::MaxLoad, Some(400_000.0)));
}

#[test]
fn all_tests_are_done_at_all_sizes() {
    let search = SEARCH.replace(
        "[search]",
        "[search]\nsizes = [60, \"imix\"]\n\
         tests = [\"back-to-back\", \"throughput\", \"latency\", \"loss-curve\"]",
    );
    let bench = Bench::new(&search, Formula { buffer_packets: 700.0, ..DEVICE });
    let results = bench.found();
    let names: Vec<&str> = results.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["linux.t.size=60", "linux.t.size=imix"]);
    assert_eq!(results[1].frames.size, FrameSize::Imix);
    assert_eq!(results[0].frames.size_with_fcs_bytes_min, 64);
    for result in &results {
        let curve = result.loss_curve.as_ref().expect("a curve");
        let lost = |load: f64| (1.0 - DEVICE.capacity_pps / load).max(0.0);
        for point in &curve.points {
            let loss = point.loss_ratio.expect("it was offered");
            assert!((loss - lost(point.load_pps)).abs() < 0.03, "{point:?}");
        }
        assert!(curve.is_lossless_below);
        let latency = result.latency.as_ref().expect("latency");
        assert_eq!(latency.points.len(), 3);
        for point in &latency.points {
            assert_eq!(point.repeats.len(), 2);
            let mean = point.mean.expect("measured");
            assert_eq!((mean.p50_ns, mean.p999_ns), (5.0, Some(8.0)));
        }
        let bursts = result.back_to_back.as_ref().expect("bursts");
        // 700 packets, and what is forwarded in the step in which they come.
        assert!((690.0..=2_000.0).contains(&bursts.mean_packets.expect("bursts")), "{bursts:?}");
        assert!(bursts.corrected_buffer_s < bursts.implied_buffer_s);
    }
    assert_eq!(bench.trials("linux.t.size=imix", Test::Latency), 6);
    let summary = summary(&bench, results);
    assert!(summary.is_whole());
    let document = report(&summary);
    for text in [text(&summary), document.markdown(), document.html()] {
        for word in ["60 (64)", "NDR", "PDR 1 %", "dut-bound", "Loss by load", "p99.9", "longest"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    // Of each item: its path in two widths, its loss in two, three quantiles of latency.
    let html = document.html();
    assert!(!document.markdown().contains(REPETITIONS), "nothing was repeated");
    for text in [document.markdown(), html.clone()] {
        for word in ["residual_max", "offer_kept_min", "lab.toml --pdr 1%", "report /srv/results"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    assert_eq!(html.matches("<svg ").count(), 2 * (2 + 2 + 3), "{html}");
    assert!(html.contains("items/linux.t.size%3D60/throughput/0001/"), "{html}");
}

#[test]
fn other_conditions_are_not_mixed_and_a_campaign_is_no_search() {
    let mut bench = Bench::new(SEARCH, DEVICE);
    bench.found();
    bench.terms.goals[0].width_ratio = 0.1;
    let before = std::fs::read(bench.dir.path().join("out/search.json")).expect("readable");
    let error = bench.store().expect_err("another search");
    let is_conflict = matches!(error, RunError::Store(StoreError::Conflict { .. }));
    assert!(is_conflict, "{error}");
    let after = std::fs::read(bench.dir.path().join("out/search.json")).expect("readable");
    assert_eq!(before, after, "what was asked for stands");
    let store = Store::open_to_read(&bench.root()).expect("a store like any other");
    assert_eq!(Task::of(&store).expect("readable").kind(), Kind::Search);
    let error = Task::Campaign.check(&store).expect_err("no campaign").to_string();
    assert!(error.contains("holds a rate search, not a campaign"), "{error}");
    assert!(error.contains("weir lab resume"), "{error}");
}

#[test]
fn searches_of_before_stores_had_one_layout_are_refused_in_words() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("search.toml"), SPEC).expect("writable");
    std::fs::write(dir.path().join("search.json"), "{}").expect("writable");
    for error in [
        Store::open_to_read(dir.path()).expect_err("read"),
        Store::open(dir.path()).expect_err("gone on with"),
    ] {
        let message = error.to_string();
        assert!(message.contains("earlier version") && message.contains("summary.md"), "{message}");
    }
}

#[test]
fn what_was_found_is_a_collection_by_goal_and_size() {
    let search = SEARCH.replace("[search]", "[search]\nsizes = [60, 590]");
    let bench = Bench::new(&search, DEVICE);
    bench.found();
    let store = Store::open_to_read(&bench.root()).expect("a store");
    let (found, planned) = results(&bench.plan, &bench.terms, &store).expect("readable");
    assert_eq!((found.len(), planned), (2, 2));
    let collected = collection("simulated", serde_json::json!({}), &found);
    assert_eq!(collected.origin, Origin::Search);
    let names: Vec<&str> = collected.series.iter().map(|series| series.name.as_str()).collect();
    let all = ["linux.t.size=60.ndr", "linux.t.size=60.pdr=1%"];
    assert_eq!(names[..2], all);
    let last = &collected.series[3];
    let label = |dimension| last.level(dimension).map(|level| level.label.as_str());
    assert_eq!((label(GOAL), label(SIZE_BYTES)), (Some("PDR 1 %"), Some("590")));
    assert_eq!((label(TRAFFIC), label(DUT)), (Some("t"), Some("linux")));
    let [point] = last.points.as_slice() else { panic!("{last:?}") };
    assert_eq!(Some(point.value), found[1].1.goals[1].lower_pps);
    assert!(bench.root().join(&point.cell).join("result.json").is_file());
    assert_eq!(last.values(), [point.value]);
    // What was not searched to its end is there, and is no figure.
    let mut found = found;
    found[0].1.goals[0].limit = Limit::Stopped;
    let collected = collection("simulated", serde_json::json!({}), &found);
    assert!(collected.series[0].values().is_empty());
    assert!(collected.series[0].points[0].verdict.is_some());
}

const COST: Cost =
    Cost { cost_ns: 0.0, apparatus_ratio: None, run_ns: 1, packets: 1, busy_cpus: None };

#[test]
fn repeated_searches_are_series_that_can_be_tested_and_exported() {
    let repeated = |capacity_pps: f64| {
        let search = SEARCH.replace("[search]", "[search]\nrepeats = 3");
        let bench = Bench::new(&search, Formula { capacity_pps, ..DEVICE });
        let results = bench.found();
        let names: Vec<&str> = results.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["linux.t", "linux.t.repeat=2", "linux.t.repeat=3"]);
        std::fs::write(bench.root().join("env.json"), "{}").expect("writable");
        (bench, results)
    };
    let ((fast, first), (slow, _)) = (repeated(123_400.0), repeated(98_700.0));
    let text = report(&summary(&fast, first)).markdown();
    assert!(text.contains(REPETITIONS) && text.contains("linux.t.repeat=3"), "{text}");
    let collections = [&fast, &slow]
        .map(|bench| crate::derive::collection(&bench.root()).expect("readable").collection);
    let series = &collections[0].series;
    assert_eq!(series.len(), 2);
    assert_eq!((series[0].name.as_str(), series[0].values().len()), ("linux.t.ndr", 3));
    let asked = Asked { regression_ratio: Some(0.01), ..Asked::default() };
    assert!(compare(&collections, asked).expect("comparable").fails(), "20 % slower");
    // What a packet costs at those rates is tested as well.
    let costing = |bench: &Bench, first_ns: f64| {
        let store = Store::open_to_read(&bench.root()).expect("a store");
        let (mut found, _) = results(&bench.plan, &bench.terms, &store).expect("readable");
        for ((_, result), more) in found.iter_mut().zip([0.0, 1.0, 2.0]) {
            let of_goal = Cost { cost_ns: first_ns + more, ..COST };
            result.goals.iter_mut().for_each(|goal| goal.cost = Some(of_goal));
        }
        collection("simulated", serde_json::json!({}), &found)
    };
    let asked = Asked { cost_ratio: Some(0.01), ..Asked::default() };
    let dearer = [costing(&fast, 100.0), costing(&fast, 150.0)];
    assert!(compare(&dearer, asked).expect("comparable").fails(), "50 % dearer");
    let cheaper = [costing(&fast, 150.0), costing(&slow, 100.0)];
    assert!(!compare(&cheaper, asked).expect("comparable").fails(), "slower, but cheaper");
    let same = [collections[0].clone(), collections[0].clone()];
    assert!(!compare(&same, asked).expect("comparable").fails());
    // Every series has a file of its rates, and a row.
    let out = fast.dir.path().join("export");
    let exported = export(&fast.root(), &out).expect("exported");
    assert_eq!(exported.files, ["linux.t.ndr.pps", "linux.t.pdr=1%.pps", "gnuplot.data"]);
    assert!(exported.left_out.is_empty(), "{exported:?}");
    let rates = std::fs::read_to_string(out.join("linux.t.ndr.pps")).expect("written");
    assert_eq!(rates.lines().count(), 3);
    // One more is added, and the others stand.
    let mut more = fast;
    more.terms.repeats = 4;
    let builds = more.builds();
    let results = more.found();
    assert_eq!((results.len(), results[3].repeat), (4, 4));
    assert_eq!(more.builds() - builds, more.trials("linux.t.repeat=4", Test::Throughput));
}

#[test]
fn trials_of_other_conditions_are_refused_before_anything_is_replaced() {
    let mut bench = Bench::new(SEARCH, DEVICE);
    let cancel = Cancel::simulated();
    let (asked, mut starts) = (cancel.clone(), 0);
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        starts += usize::from(name == "send endlessly");
        if starts == 3 {
            asked.request(2);
        }
    }));
    bench.run(&cancel).expect_err("it was stopped");
    assert!(bench.trials("linux.t", Test::Throughput) > 0, "and has no result");
    let read = || {
        let of = |name| std::fs::read(bench.dir.path().join("out").join(name)).expect("readable");
        ["search.json", "campaign.toml", "plan.json"].map(of)
    };
    let before = read();
    let good = bench.terms.clone();
    bench.terms.goals[0].width_ratio = 0.1;
    let error = bench.store().expect_err("other");
    let is_conflict = matches!(error, RunError::Store(StoreError::Conflict { .. }));
    assert!(is_conflict, "{error}");
    assert_eq!(before, read(), "what was asked for stands");
    bench.terms = good;
    bench.found();
}

#[test]
fn latency_of_trials_that_say_nothing_is_not_in_the_means() {
    let search = SEARCH.replace("[search]", "[search]\ntests = [\"throughput\", \"latency\"]");
    let bench = Bench::new(&search, DEVICE);
    let (script, mut observed) = (Rc::downgrade(&bench.script), 0);
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        observed += usize::from(name == "observed");
        // In the second of six measurements, at half of the rate, the sender cannot keep it.
        let sender_pps = if observed == 1 { 30_000.0 } else { DEVICE.sender_pps };
        if let Some(script) = script.upgrade() {
            script.formula.set(Some(Formula { sender_pps, ..DEVICE }));
        }
    }));
    let results = bench.found();
    let latency = results[0].latency.as_ref().expect("latency");
    let counts: Vec<_> = latency.points.iter().map(|at| (at.repeats.len(), at.trials)).collect();
    assert_eq!(counts, [(2, 2), (1, 2), (2, 2)]);
    assert_eq!(latency.stopped, None);
    let cost = results[0].costs[1];
    assert_eq!((cost.trials, cost.not_offered_trials + cost.void_trials), (6, 1), "{cost:?}");
    let summary = summary(&bench, results);
    assert!(summary.is_whole());
    assert!(text(&summary).contains("1 of 2"), "{}", text(&summary));
}

#[test]
fn latency_ends_when_its_trials_are_used_up() {
    let search = SEARCH
        .replace("[search]", "[search]\ntests = [\"throughput\", \"latency\"]\ntrials_max = 40")
        .replace("latency_repeats = 2", "latency_repeats = 20");
    let bench = Bench::new(&search, DEVICE);
    let results = bench.found();
    assert_eq!(bench.trials("linux.t", Test::Latency), 40);
    let latency = results[0].latency.as_ref().expect("latency");
    assert!(latency.stopped.as_ref().is_some_and(|why| why.contains("trials")), "{latency:?}");
    assert_eq!(latency.points.iter().map(|at| at.trials).sum::<u32>(), 40);
    let summary = summary(&bench, results);
    assert!(!summary.is_whole(), "60 were asked for");
    assert!(text(&summary).contains("fewer repetitions"), "{}", text(&summary));
}

/// Something else takes the CPU during the trials with these numbers, calibrations included.
fn disturb(bench: &Bench, disturbed: &'static [usize]) {
    let (script, mut builds) = (Rc::downgrade(&bench.script), 0);
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        builds += usize::from(name == "build");
        if let Some(script) = script.upgrade() {
            script.foreign_ratio.set(if disturbed.contains(&builds) { 0.6 } else { 0.0 });
        }
    }));
}

#[test]
fn a_disturbed_trial_is_repeated_and_the_same_is_found() {
    let undisturbed = Bench::new(SEARCH, DEVICE).found();
    let bench = Bench::new(SEARCH, DEVICE);
    disturb(&bench, &[3, 5]);
    let results = bench.found();
    assert_eq!(results[0].goals, undisturbed[0].goals);
    let (cost, before) = (results[0].costs[0], undisturbed[0].costs[0]);
    assert_eq!((cost.trials, cost.void_trials), (before.trials, 0));
    assert_eq!(results[0].repeated_trials, 2);
    let kept = bench.trials("linux.t", Test::Throughput);
    assert_eq!(bench.builds(), 1 + kept + 2);
    for attempt in ["1", "2"] {
        let path = bench.root().join("rejected/linux.t").join(attempt).join("trial.json");
        let record = std::fs::read_to_string(path).expect("on record");
        assert!(record.contains("\"disturbed\""), "{record}");
    }
    let text = text(&summary(&bench, results));
    assert!(text.contains("linux.t: 2 disturbed trials repeated"), "{text}");
}

#[test]
fn trials_that_stay_disturbed_end_the_search_without_an_answer() {
    let bench = Bench::new(SEARCH, DEVICE);
    // All but the calibration and the warm-up trial; each is repeated once.
    disturb(&bench, &[3, 4, 5, 6, 7, 8]);
    let results = bench.found();
    let ndr = &results[0].goals[0];
    assert_eq!((ndr.limit, ndr.lower_pps), (Limit::Stopped, None));
    let cost = results[0].costs[0];
    assert_eq!((cost.trials, cost.void_trials, results[0].repeated_trials), (4, 3, 3));
    assert!(!summary(&bench, results.clone()).is_whole());
    // What stands in its place is not repeated again.
    std::fs::remove_file(bench.root().join("items/linux.t/result.json")).expect("removable");
    let builds = bench.builds();
    assert_eq!(bench.found()[0].goals, results[0].goals);
    assert_eq!(bench.builds(), builds, "every trial was kept");
}

#[test]
fn a_search_of_which_no_trial_can_be_used_has_no_answer() {
    let search = SEARCH.replace("[search]", "[search]\ntests = [\"throughput\", \"loss-curve\"]");
    let bench = Bench::new(&search, DEVICE);
    let script = Rc::downgrade(&bench.script);
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        // With a rate, the sender offers next to nothing; the calibration has none.
        let sender_pps = if name == "send endlessly" { 300.0 } else { DEVICE.sender_pps };
        if let Some(script) = script.upgrade() {
            script.formula.set(Some(Formula { sender_pps, ..DEVICE }));
        }
    }));
    let results = bench.found();
    let result = &results[0];
    assert!(result.goals.iter().all(|goal| goal.lower_pps.is_none()), "{result:?}");
    let curve = result.loss_curve.as_ref().expect("a curve");
    assert!(curve.points.iter().all(|point| point.loss_ratio.is_none()), "{curve:?}");
    let summary = summary(&bench, results);
    assert!(!summary.is_whole());
    assert!(text(&summary).contains("loss-curve: none of its trials"), "{}", text(&summary));
}

fn summary(bench: &Bench, items: Vec<ItemResult>) -> SearchSummary {
    let (terms, planned_items) = (bench.terms.clone(), items.len());
    SearchSummary { campaign: "simulated".into(), terms, planned_items, items }
}

/// What is wrong with a `[search]` table.
fn complaints(table: &str) -> String {
    let text = format!("{SPEC}[search]\n{table}\n");
    let files = MemoryFiles(BTreeMap::new());
    let read = plan::from_text(Path::new("lab.toml"), &text, &files, &Overrides::default());
    let found = read.expect_err(table);
    found.iter().map(|one| format!("{} {:?}\n", one.message, one.help)).collect()
}

#[test]
fn what_cannot_be_searched_is_refused_in_the_specification() {
    for (table, expected) in [
        ("presett = \"csit\"", "did you mean `preset`"),
        ("preset = \"cist\"", "did you mean \\\"csit\\\""),
        ("loss = [\"0.5\"]", "0.5%"),
        ("loss = [\"1%\", \"1%\"]", "twice"),
        ("loss = []", "entries"),
        ("exceed = \"100%\"", "below 100%"),
        ("width = \"0%\"", "0.01%"),
        ("trial = \"0s\"", "must not be zero"),
        ("duration_sum = \"500ms\"", "duration sum"),
        ("first_trial = \"2s\"", "first trials"),
        ("tests = [\"thruput\"]", "there are: throughput"),
        ("tests = [\"latency\"]", "need"),
        ("sizes = [20]", "42 to 1514"),
        ("sizes = [1515]", "\\\"rfc2544\\\""),
        ("max_load = \"80%\"", "packets per second"),
        ("min_load = 2000\nmax_load = 1000", "must not be above"),
        ("curve_step = \"20%\"", "RFC 2544"),
        ("burst_packets_max = 0", "1 to 10G"),
        ("trials_max = 0", "must be 1 to"),
    ] {
        let found = complaints(table);
        assert!(found.contains(expected), "{table}: {found}");
    }
}

#[test]
fn of_both_directions_the_sum_is_found() {
    let spec = SPEC.replace("name = \"t\"", "name = \"t\"\ndirection = \"both\"");
    // The script's device has its capacity for each of them.
    let bench =
        Bench { plan: plan_of(&format!("{spec}{SEARCH}"), Some(1)), ..Bench::new(SEARCH, DEVICE) };
    let results = bench.found();
    let ndr = &results[0].goals[0];
    let lower_pps = ndr.lower_pps.expect("a rate");
    assert!((lower_pps / (2.0 * DEVICE.capacity_pps) - 1.0).abs() < 0.03, "{ndr:?}");
    let bursts = SEARCH.replace("[search]", "[search]\ntests = [\"throughput\", \"back-to-back\"]");
    let plan = plan_of(&format!("{spec}{bursts}"), Some(1));
    let terms = search::resolve(&plan.search, &search::Asked::default()).expect("resolved");
    let error = items(&plan, &terms).expect_err("a burst has one direction").to_string();
    assert!(error.contains("back-to-back"), "{error}");
}

#[test]
fn what_searches_cost_is_known_beforehand() {
    let bench = Bench::new(SEARCH, DEVICE);
    let asked = expected(&bench.plan, &bench.terms).expect("it can be searched");
    let results = bench.found();
    let trials = results[0].costs[0].trials;
    assert_eq!(asked.item_count, 1);
    // Of a device without noise a search needs few trials.
    assert!((trials..=30).contains(&asked.trial_count), "{asked:?}, {trials} trials");
    assert!(asked.duration > Duration::from_millis(50) * asked.trial_count, "{asked:?}");
}

#[test]
fn a_traffic_with_a_rate_is_refused() {
    let spec = SPEC.replace("name = \"t\"", "name = \"t\"\nrate = \"50kpps\"");
    let plan = plan_of(&spec, Some(1));
    let terms = search::resolve(&plan.search, &search::Asked::default()).expect("resolved");
    let error = items(&plan, &terms).expect_err("refused").to_string();
    assert!(error.contains("50kpps") && error.contains("max_load"), "{error}");
}

/// A testbed of machines, and a traffic that their generator can send.
const MACHINES: &str = r#"
[trial]
sample = "10ms"
[testbed]
kind = "hosts"
LINK
[[testbed.generator]]
name = "gen"
ssh = "gen"
interface = "gen0"
next_hop_mac = "02:00:00:00:00:01"
DRIVER
[testbed.receiver]
name = "recv"
ssh = "recv"
interface = "recv0"
driver = "pkt-gen"
[testbed.dut]
name = "dut"
ssh = "dut"
system = "linux"
[[dut]]
name = "linux"
kind = "linux"
[[traffic]]
name = "t"
src = "198.18.0.2:2000"
dst = "198.19.0.2:2000"
"#;

/// What is said of a search on machines; `None` if it can be made.
fn machines_refusal(link: &str, driver: &str, search: &str) -> Option<String> {
    let spec = MACHINES.replace("LINK", link).replace("DRIVER", driver);
    let plan = plan_of(
        &format!("[campaign]\nname = \"m\"\niterations = 1\n{spec}[search]\n{search}\n"),
        Some(1),
    );
    let terms = search::resolve(&plan.search, &search::Asked::default()).expect("resolved");
    items(&plan, &terms).err().map(|error| error.to_string())
}

#[test]
fn machines_are_searched_up_to_their_links_and_refused_what_they_cannot_do() {
    const LINK: &str = "link_rate = \"10G\"";
    const PKT_GEN: &str = "driver = \"pkt-gen\"";
    assert_eq!(machines_refusal(LINK, PKT_GEN, ""), None);
    assert_eq!(machines_refusal("", PKT_GEN, "max_load = 1000"), None);
    let paced = "driver = \"pkt-gen\"\nstart = \"run -R ${rate_pps}\"";
    assert_eq!(machines_refusal(LINK, paced, "tests = [\"throughput\", \"loss-curve\"]"), None);
    for (link, driver, search, expected) in [
        (LINK, PKT_GEN, "tests = [\"throughput\", \"latency\"]", "share no clock"),
        (LINK, PKT_GEN, "tests = [\"throughput\", \"back-to-back\"]", "without a DUT"),
        ("", PKT_GEN, "", "set `max_load`"),
        (LINK, "driver = \"pkt-gen\"\nstart = \"run\"", "", "generator gen does not use"),
        (LINK, PKT_GEN, "first_trial = \"40ms\"", "shortest trial takes 40ms"),
        (LINK, PKT_GEN, "sizes = [60, \"imix\"]", "frames of size imix: pkt-gen sends frames"),
    ] {
        let found = machines_refusal(link, driver, search).expect(search);
        assert!(found.contains(expected), "{search}: {found}");
    }
}
