//! The order of a trial's steps, and that a trial leaves nothing behind whatever fails: on a
//! simulated testbed, without packets and without privilege.

mod simulator;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use simulator::{SAMPLE, Script, Simulator};
use weir_lab::campaign::{CampaignError, Run};
use weir_lab::cancel::Cancel;
use weir_lab::event::Silent;
use weir_lab::model::Plan;
use weir_lab::plan::{self, Overrides};
use weir_lab::record::VerdictKind;
use weir_lab::spec::files::MemoryFiles;
use weir_lab::store::{PlanRecord, STORE_SCHEMA, Store};

const SPEC: &str = r#"
[campaign]
name = "simulated"
iterations = 2
order = "sequential"
[trial]
warmup = "0ms"
duration = "100ms"
drain = "50ms"
sample = "10ms"
[testbed]
kind = "netns"
[[dut]]
name = "linux"
kind = "linux"
[[traffic]]
name = "t"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.16"
"#;

fn plan(iterations: Option<u32>) -> Plan {
    plan_of(SPEC, iterations)
}

fn plan_of(spec: &str, iterations: Option<u32>) -> Plan {
    let files = MemoryFiles(BTreeMap::from([(PathBuf::from("lab.toml"), spec.to_owned())]));
    let overrides = Overrides { iterations, only: None };
    let (plan, _) = plan::load(Path::new("lab.toml"), &files, &overrides).expect("a good plan");
    assert_eq!(plan.trial.sample, SAMPLE);
    plan
}

fn store(dir: &Path, plan: &Plan) -> Store {
    let record = PlanRecord {
        schema: STORE_SCHEMA,
        spec_path: "lab.toml".into(),
        iterations: None,
        only: None,
        weir: "test".into(),
    };
    Store::create(&dir.join("out"), &plan.source, &record).expect("a store")
}

struct Bench {
    dir: tempfile::TempDir,
    script: Rc<Script>,
    cancel: Cancel,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir, script: Rc::default(), cancel: Cancel::default() }
    }

    fn run(&self, plan: &Plan, store: &Store) -> Result<(), CampaignError> {
        let testbed = Simulator { script: Rc::clone(&self.script) };
        Run { plan, store, testbed: &testbed, cancel: &self.cancel, observer: &mut Silent }.run()
    }
}

#[test]
fn a_trial_goes_through_its_steps_in_order() {
    let bench = Bench::new();
    let plan = plan(Some(1));
    let store = store(bench.dir.path(), &plan);
    bench.script.loss_percent.set(50);
    bench.run(&plan, &store).expect("the campaign runs");
    let probe = ["send", "stop"];
    let measurement = ["counters", "start", "stop", "counters", "checks"];
    let end = ["teardown"];
    let run = |configure: &[&'static str]| {
        [configure, &["counters"], &probe, &measurement, &probe, &end].concat()
    };
    let calibration = run(&["build", "load"]);
    let trial = run(&["build", "set_sysctl", "set_sysctl", "load"]);
    assert_eq!(bench.script.log(), [calibration, trial].concat());
}

#[test]
fn latency_has_a_run_of_its_own_after_the_measurement() {
    let bench = Bench::new();
    let plan = plan_of(&SPEC.replace("\"10ms\"", "\"10ms\"\nlatency = \"100ms\""), Some(1));
    let store = store(bench.dir.path(), &plan);
    bench.run(&plan, &store).expect("the campaign runs");
    let log = bench.script.log();
    let at = log.iter().position(|call| call == "checks").expect("the checks");
    assert_eq!(log[at + 1..at + 5], ["observe", "send endlessly", "stop", "observed"]);
    assert_eq!(log.iter().filter(|call| *call == "observe").count(), 2, "calibration and trial");
    let cells = store.read_cells().expect("readable").trials;
    let (trial, _) = &cells[0];
    // The figure is that of the measurement, the latency that of half of the rate.
    assert!((trial.result.rate_pps - 100_000.0).abs() < 1e-6);
    let latency = trial.latency.expect("it was measured");
    assert!((latency.rate_pps - 50_000.0).abs() < 1e-6);
    assert_eq!((latency.delivered_packets, latency.delays.sample_count), (9, 7));
    assert_eq!(latency.delays.in_order(), [1, 5, 6, 7, 8, 9]);
    assert!(trial.times.phases.iter().any(|phase| phase.name == "latency"));
}

#[test]
fn figure_ledger_and_verdict_come_from_the_counters() {
    let bench = Bench::new();
    let plan = plan(Some(1));
    let store = store(bench.dir.path(), &plan);
    // The calibration loses nothing; the DUT, which comes second, half of the packets.
    let script = Rc::downgrade(&bench.script);
    let mut builds = 0;
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        builds += usize::from(name == "build");
        if let Some(script) = script.upgrade() {
            script.loss_percent.set(if builds > 1 { 50 } else { 0 });
        }
    }));
    bench.run(&plan, &store).expect("the campaign runs");
    let calibration = &store.read_calibrations().expect("readable").trials[0].0;
    // A thousand packets every ten milliseconds.
    assert!((calibration.result.rate_pps - 100_000.0).abs() < 1e-6);
    assert_eq!(calibration.verdict.kind, VerdictKind::GeneratorBound);
    let cells = store.read_cells().expect("readable").trials;
    let (trial, samples) = &cells[0];
    assert!((trial.result.rate_pps - 50_000.0).abs() < 1e-6);
    assert_eq!(trial.verdict.kind, VerdictKind::DutBound, "{}", trial.verdict.reason);
    assert_eq!(trial.ledger.residual_packets, 0);
    assert_eq!(samples.len(), 11);
    assert_eq!(trial.sysctls_changed.len(), 2);
    let log = std::fs::read_to_string(store.root().join("host.log")).expect("a log");
    assert_eq!(log, "linux.t/1\ta command\n");
}

#[test]
fn whatever_fails_the_testbed_is_taken_down_and_nothing_is_kept() {
    for failing in ["load", "send", "start", "stop", "counters", "checks", "set_sysctl", "teardown"]
    {
        let bench = Bench::new();
        let plan = plan(Some(1));
        let store = store(bench.dir.path(), &plan);
        *bench.script.fails_at.borrow_mut() = Some(failing);
        let error = bench.run(&plan, &store).expect_err(failing);
        assert!(error.to_string().contains(&format!("{failing} fails")), "{failing}: {error}");
        let log = bench.script.log();
        assert_eq!(log.last().map(String::as_str), Some("teardown"), "{failing}");
        let count = |name: &str| log.iter().filter(|n| *n == name).count();
        assert_eq!(count("build"), count("teardown"), "{failing}");
        assert_eq!(store.read_cells().expect("readable").trials.len(), 0, "{failing}");
    }
}

#[test]
fn a_campaign_that_is_stopped_keeps_what_is_finished_and_goes_on_from_there() {
    let bench = Bench::new();
    let plan = plan(None);
    let store = store(bench.dir.path(), &plan);
    // The third trial is the second cell; stop it while it measures.
    let cancel = bench.cancel.clone();
    let mut starts = 0;
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        starts += usize::from(name == "start");
        if starts == 3 {
            cancel.request(2);
        }
    }));
    let error = bench.run(&plan, &store).expect_err("it was stopped");
    assert!(matches!(error, CampaignError::Cancelled { signal: 2 }), "{error}");
    assert_eq!(bench.script.log().last().map(String::as_str), Some("teardown"));
    assert_eq!(store.read_cells().expect("readable").trials.len(), 1);

    let again = Bench::new();
    again.run(&plan, &store).expect("it goes on");
    let builds = again.script.log().iter().filter(|n| *n == "build").count();
    assert_eq!(builds, 1, "only the missing cell runs, without a second calibration");
    assert_eq!(store.read_cells().expect("readable").trials.len(), 2);
}

#[test]
fn more_iterations_run_only_what_is_missing() {
    let bench = Bench::new();
    let one = plan(Some(1));
    let store = store(bench.dir.path(), &one);
    bench.run(&one, &store).expect("the campaign runs");
    let first = store.read_cells().expect("readable").trials;
    let again = Bench::new();
    again.run(&plan(Some(3)), &store).expect("it goes on");
    let builds = again.script.log().iter().filter(|n| *n == "build").count();
    assert_eq!(builds, 2);
    let cells = store.read_cells().expect("readable").trials;
    assert_eq!(cells.len(), 3);
    assert_eq!(cells[0], first[0]);
}
