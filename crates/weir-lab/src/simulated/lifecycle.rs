//! The order of a trial's steps, and that a trial leaves nothing behind whatever fails: on a
//! simulated testbed, without packets and without privilege.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::setup::{SPEC, plan_of, run, store};
use super::simulator::{Script, Simulator};
use crate::bisect::{self, Bisection};
use crate::event::{Event, Observer, Silent};
use crate::model::Plan;
use crate::runner::{RunError, Runner};
use crate::store::Store;
use weir_machine::cancel::Cancel;
use weir_results::bisect::{Answer, BISECT_SCHEMA, Question, Report};
use weir_results::record::{Latency, VerdictKind};

fn plan(iterations: Option<u32>) -> Plan {
    plan_of(SPEC, iterations)
}

struct Bench {
    dir: tempfile::TempDir,
    script: Rc<Script>,
    cancel: Cancel,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir, script: Rc::default(), cancel: Cancel::simulated() }
    }

    fn run(&self, plan: &Plan, store: &Store) -> Result<(), RunError> {
        run((plan, store), &self.script, &self.cancel, &mut Silent)
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
fn two_directions_are_probed_in_turn_measured_at_once_and_kept_apart() {
    let bench = Bench::new();
    let both = SPEC.replace("name = \"t\"", "name = \"t\"\ndirection = \"both\"");
    let both = both.replace("\"10ms\"", "\"10ms\"\nlatency = \"100ms\"");
    let plan = plan_of(&both, Some(1));
    let store = store(bench.dir.path(), &plan);
    bench.script.loss_percent.set(50);
    bench.run(&plan, &store).expect("the campaign runs");
    let probe = ["send", "stop", "send back", "stop"];
    let measurement = ["counters", "start", "stop", "counters", "checks"];
    let latency = ["observe", "send endlessly", "stop", "observed"];
    let run = |configure: &[&'static str]| {
        [configure, &["counters"], &probe, &measurement, &latency, &probe, &["teardown"]].concat()
    };
    let calibration = run(&["build", "load"]);
    let trial = run(&["build", "set_sysctl", "set_sysctl", "load"]);
    assert_eq!(bench.script.log(), [calibration, trial].concat());

    let cells = store.read_cells().expect("readable").trials;
    let (trial, samples) = &cells[0];
    let [there, back] = &trial.directions[..] else { panic!("two directions") };
    assert_eq!((there.name.as_str(), back.name.as_str()), ("dut0 → dut1", "dut1 → dut0"));
    // The figure is the sum of both, and so is the ledger.
    assert!((trial.result.rate_pps - 100_000.0).abs() < 1e-6, "{:?}", trial.result);
    assert!((there.result.rate_pps - 50_000.0).abs() < 1e-6, "{:?}", there.result);
    for point in ["offered", "delivered"] {
        assert_eq!(trial.ledger.point(point), there.ledger.point(point).map(|count| count * 2));
    }
    assert_eq!(trial.ledger.lost_packets(), back.ledger.lost_packets() * 2);
    assert_eq!((trial.ledger.residual_packets, trial.verdict.kind.is_void()), (0, false));
    // Half of what each direction delivered is asked of its generator.
    let asked = |latency: Option<Latency>| latency.expect("it was measured").rate_pps;
    assert!((asked(back.latency) - 25_000.0).abs() < 1e-6, "{:?}", back.latency);
    assert!((asked(trial.latency) - 50_000.0).abs() < 1e-6, "{:?}", trial.latency);
    let dir = store.cell_dir(&trial.series, 1).join("artefacts");
    let of = |name: &str| std::fs::read_to_string(dir.join(name)).expect("samples");
    let one = weir_results::samples::parse(&of("samples-dut1-dut0.csv")).expect("samples");
    assert_eq!(one.len(), samples.len());
    assert!(one.iter().zip(samples).all(|(one, sum)| one.rx_packets * 2 == sum.rx_packets));
    let probe = trial.checks.iter().find(|check| check.name == "probe-before").expect("a probe");
    assert!(probe.detail.contains("sent to dut0; ") && probe.detail.ends_with("sent to dut1"));
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

/// Something else takes half of the CPU in these builds, counted from 1: the first is the
/// calibration.
fn disturb(bench: &Bench, disturbed: &'static [usize]) {
    let script = Rc::downgrade(&bench.script);
    let mut builds = 0;
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        builds += usize::from(name == "build");
        if let Some(script) = script.upgrade() {
            script.foreign_ratio.set(if disturbed.contains(&builds) { 0.5 } else { 0.0 });
        }
    }));
}

/// The verdicts of the cells, and of what was rejected of a series or a traffic.
fn verdicts(store: &Store, rejected: &str) -> (Vec<VerdictKind>, Vec<VerdictKind>) {
    let cells = store.read_cells().expect("readable").trials;
    let folder = store.root().join("rejected").join(rejected);
    let read = |attempt: u32| store.read_trial(&folder.join(attempt.to_string())).ok();
    let rejected = (1..).map_while(read);
    (
        cells.iter().map(|(record, _)| record.verdict.kind).collect(),
        rejected.map(|(record, _)| record.verdict.kind).collect(),
    )
}

#[test]
fn a_disturbed_trial_is_repeated_after_the_others_and_stays_on_record() {
    use VerdictKind::{Disturbed, LinkBound};
    let bench = Bench::new();
    let plan = plan(None);
    let store = store(bench.dir.path(), &plan);
    disturb(&bench, &[2]);
    bench.run(&plan, &store).expect("the campaign runs");
    let (cells, rejected) = verdicts(&store, "linux.t");
    assert_eq!((cells, rejected), (vec![LinkBound; 2], vec![Disturbed]));
    let cells = store.read_cells().expect("readable").trials;
    let times: BTreeMap<u32, &str> = cells
        .iter()
        .map(|(record, _)| (record.iteration, record.times.started_utc.as_str()))
        .collect();
    assert!(times[&1] > times[&2], "the first was measured last: {times:?}");
}

#[test]
fn a_trial_that_is_disturbed_again_takes_its_place_and_no_part() {
    use VerdictKind::{Disturbed, LinkBound};
    let bench = Bench::new();
    let plan = plan(None);
    let store = store(bench.dir.path(), &plan);
    disturb(&bench, &[3, 4]);
    bench.run(&plan, &store).expect("the campaign runs");
    let (cells, rejected) = verdicts(&store, "linux.t");
    assert_eq!((cells, rejected), (vec![LinkBound, Disturbed], vec![Disturbed]));
    std::fs::write(store.root().join("env.json"), "{}").expect("writable");
    let derived = crate::derive::write(&store, &plan, None).expect("a report");
    let series = &derived.summary.series[0];
    assert_eq!((series.iterations, series.valid_iterations), (2, 1));
    assert_eq!(derived.summary.counts.disturbed_cells, 1);
    let page = std::fs::read_to_string(store.root().join("report.html")).expect("a page");
    assert!(page.contains("href=\"rejected/linux.t/1/trial.json\""), "what was rejected is shown");
    // As often as the specification says.
    let bench = Bench::new();
    let plan = plan_of(&SPEC.replace("[trial]", "[trial]\nretries = 0"), None);
    let store = self::store(bench.dir.path(), &plan);
    disturb(&bench, &[2, 3]);
    bench.run(&plan, &store).expect("the campaign runs");
    assert_eq!(verdicts(&store, "linux.t"), (vec![Disturbed; 2], vec![]));
}

#[test]
fn a_disturbed_calibration_is_repeated_at_once() {
    let bench = Bench::new();
    let plan = plan(Some(1));
    let store = store(bench.dir.path(), &plan);
    disturb(&bench, &[1]);
    bench.run(&plan, &store).expect("the campaign runs");
    let (_, rejected) = verdicts(&store, "t");
    assert_eq!(rejected, [VerdictKind::Disturbed]);
    let calibrations = store.read_calibrations().expect("readable").trials;
    assert_eq!(calibrations[0].0.verdict.kind, VerdictKind::GeneratorBound);
}

#[test]
fn an_unusable_calibration_is_repeated_and_then_explained() {
    let bench = Bench::new();
    let plan = plan(Some(1));
    let store = store(bench.dir.path(), &plan);
    // Nothing gets through in the first attempt, and then everything does.
    bench.script.loss_percent.set(100);
    let (script, mut builds) = (Rc::downgrade(&bench.script), 0);
    *bench.script.on_call.borrow_mut() = Some(Box::new(move |name| {
        builds += usize::from(name == "build");
        if let (Some(script), true) = (script.upgrade(), builds > 1) {
            script.loss_percent.set(0);
        }
    }));
    bench.run(&plan, &store).expect("the campaign runs");
    let (_, rejected) = verdicts(&store, "t");
    assert_eq!(rejected, [VerdictKind::SinkBound]);
    assert_eq!(store.read_calibrations().expect("readable").trials.len(), 1);

    let bench = Bench::new();
    let store = self::store(bench.dir.path(), &plan);
    bench.script.loss_percent.set(100);
    let error = bench.run(&plan, &store).expect_err("it stays unusable").to_string();
    for part in ["last of 2 attempts", "lost, most of them at the sink", "rejected/t"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(verdicts(&store, "t").1.len(), 2);
    assert!(store.read_calibrations().expect("readable").trials.is_empty());
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
    assert!(matches!(error, RunError::Cancelled { signal: 2 }), "{error}");
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

/// Eight DUTs under the traffic of [`SPEC`].
fn eight_duts() -> String {
    let (head, traffic) = SPEC.split_once("[[traffic]]").expect("a traffic");
    let head = head.replace("\"linux\"\nkind", "\"d0\"\nkind");
    let duts = (1..8).map(|n| format!("[[dut]]\nname = \"d{n}\"\nkind = \"linux\"\n"));
    format!("{head}{}[[traffic]]{traffic}", duts.collect::<String>())
}

fn question() -> Question {
    Question {
        schema: BISECT_SCHEMA,
        good: "d0".into(),
        bad: "d7".into(),
        metric: None,
        confidence: 0.95,
        margin_ratio: 0.01,
        runs_max: 60,
    }
}

/// Scripts a DUT's loss before each run, and asks to stop in the run of that number.
struct Losses {
    script: Rc<Script>,
    first_bad: u8,
    runs: usize,
    stop_at: Option<(usize, Cancel)>,
    reports: Vec<Report>,
}

impl Observer for Losses {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Assessed(report) = event {
            self.reports.push((*report).clone());
        }
        let Event::TrialStarted { name, .. } = event else {
            return;
        };
        self.script.loss_percent.set(0);
        let Some(dut) = name.strip_prefix('d') else {
            return;
        };
        let digits: Vec<u8> = dut.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect();
        // 0 to 2 % of noise, by the iteration; a bad one loses 20 % besides.
        let loss = if digits[0] >= self.first_bad { 20 } else { 0 };
        self.script.loss_percent.set(loss + u64::from(digits[digits.len() - 1] * 2 % 3));
        self.runs += 1;
        if let Some((run, cancel)) = &self.stop_at
            && *run == self.runs
        {
            cancel.request(2);
        }
    }
}

fn search(
    bench: &Bench,
    store: &Store,
    plan: &Plan,
    losses: &mut Losses,
) -> Result<Report, RunError> {
    let testbed = Simulator { script: Rc::clone(&bench.script) };
    let question = question();
    let mut bisection = Bisection::new(plan, &question, store)?;
    let cancel = &bench.cancel;
    let mut runner =
        Runner { plan, store, testbed: &testbed, cancel, observer: losses, wait: Duration::ZERO };
    runner.run(&mut bisection)?;
    Ok(bisection.report().clone())
}

fn losses(bench: &Bench, stop_at: Option<usize>) -> Losses {
    let stop_at = stop_at.map(|run| (run, bench.cancel.clone()));
    let script = Rc::clone(&bench.script);
    Losses { script, first_bad: 5, runs: 0, stop_at, reports: Vec::new() }
}

#[test]
fn a_search_finds_the_first_bad_one_and_goes_on_after_an_interruption_as_if_there_was_none() {
    let plan = plan_of(&eight_duts(), None);
    let bench = Bench::new();
    let whole = store(bench.dir.path(), &plan);
    let mut watched = losses(&bench, None);
    let report = search(&bench, &whole, &plan, &mut watched).expect("it ends");
    assert_eq!(report.answer, Answer::Found, "{report:?}");
    assert_eq!(report.first_bad.as_deref(), Some("d5"));
    assert_eq!(report.last_good.as_deref(), Some("d4"));
    assert!(report.probability.is_some_and(|p| p > 0.95));
    assert_eq!(watched.reports.len(), report.runs + 1, "one before each run, one at the end");
    let cells = whole.read_cells().expect("readable").trials;
    assert_eq!(cells.len(), report.runs);

    let stopped = Bench::new();
    let parts = store(stopped.dir.path(), &plan);
    let mut first = losses(&stopped, Some(4));
    let error = search(&stopped, &parts, &plan, &mut first).expect_err("it was stopped");
    assert!(matches!(error, RunError::Cancelled { signal: 2 }));
    assert_eq!(parts.read_cells().expect("readable").trials.len(), 3);
    let again = Bench { dir: stopped.dir, script: stopped.script, cancel: Cancel::simulated() };
    let mut rest = losses(&again, None);
    let resumed = search(&again, &parts, &plan, &mut rest).expect("it ends");
    assert_eq!(resumed, report);
    assert_eq!(rest.runs, report.runs - 3);

    // Nothing is left to do, and the store of a search is complete with what it ran.
    let mut none = losses(&again, None);
    assert_eq!(search(&again, &parts, &plan, &mut none).expect("it ends"), report);
    assert_eq!(none.runs, 0);
    let finished = bisect::finished(&plan, &parts).expect("readable");
    assert_eq!(finished.cells.len(), report.runs);
}

#[test]
fn a_search_measures_what_it_asks_for_whatever_a_campaign_would_do_with_auto_iterations() {
    let plan = plan_of(&eight_duts(), None);
    let bench = Bench::new();
    let store_of_all = store(bench.dir.path(), &plan);
    let report = search(&bench, &store_of_all, &plan, &mut losses(&bench, None)).expect("it ends");
    let auto = "iterations = \"auto\"\nhalf_width = \"20%\"\nmin = 3\nmax = 4";
    let plan = plan_of(&eight_duts().replace("iterations = 2", auto), None);
    assert!(plan.campaign.auto.is_some());
    let bench = Bench::new();
    let store = store(bench.dir.path(), &plan);
    let found = search(&bench, &store, &plan, &mut losses(&bench, None)).expect("it ends");
    assert_eq!(found, report, "the rule of a campaign changes nothing");
    let finished = bisect::finished(&plan, &store).expect("readable");
    assert_eq!((finished.cells.len(), finished.campaign.auto), (found.runs, None));
}

#[test]
fn a_search_refuses_runs_of_other_conditions() {
    let plan = plan_of(&eight_duts(), None);
    let bench = Bench::new();
    let store = store(bench.dir.path(), &plan);
    let mut stopped = losses(&bench, Some(3));
    search(&bench, &store, &plan, &mut stopped).expect_err("it was stopped");
    let other = plan_of(&eight_duts().replace("\"50ms\"", "\"60ms\""), None);
    let again = Bench { cancel: Cancel::simulated(), ..bench };
    let mut none = losses(&again, None);
    let error = search(&again, &store, &other, &mut none).expect_err("another drain");
    assert!(error.to_string().contains("another configuration"), "{error}");
    assert_eq!(none.runs, 0);
}
