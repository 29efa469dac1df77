//! `iterations = "auto"` on a simulated testbed: the time goes where the noise is, whoever
//! interrupts it, and it ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use super::setup::{self, plan_of};
use super::simulator::Script;
use crate::campaign::History;
use crate::derive;
use crate::event::{Event, Observer};
use crate::model::Plan;
use crate::plan::view;
use crate::runner::RunError;
use crate::store::Store;
use weir_machine::cancel::Cancel;

const SPEC: &str = r#"
[campaign]
name = "adaptive"
iterations = "auto"
half_width = "4%"
confidence = "90%"
min = 3
max = 12
[trial]
warmup = "0ms"
duration = "100ms"
drain = "50ms"
sample = "10ms"
[testbed]
kind = "netns"
[[dut]]
name = "quiet"
kind = "linux"
[[dut]]
name = "noisy"
kind = "linux"
[[dut]]
name = "wild"
kind = "linux"
[[traffic]]
name = "t"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.16"
"#;

/// Percent that each DUT loses in its first, second … iteration.
fn loss_percent(series: &str, iteration: usize) -> u64 {
    let cycle: &[u64] = match series {
        "quiet.t" => &[50, 51],
        "noisy.t" => &[50, 55, 46, 53, 48, 51],
        "wild.t" => &[20, 80],
        other => panic!("there is no series {other}"),
    };
    cycle[(iteration - 1) % cycle.len()]
}

/// Scripts the losses, and writes down what it is told.
struct Watcher {
    script: Rc<Script>,
    cancel: Cancel,
    /// Asks for a stop when so many cells have begun.
    cancel_at: usize,
    begun: Vec<String>,
    to_run: Vec<usize>,
    stopped: Vec<(String, u32)>,
    warnings: Vec<String>,
    started: Option<(usize, usize, usize)>,
}

impl Observer for Watcher {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { to_run, to_run_min, done, .. } => {
                self.started = Some((*to_run_min, *to_run, *done));
            }
            Event::TrialStarted { name, .. } if name.starts_with("calibration/") => {
                self.script.loss_percent.set(0);
            }
            Event::TrialStarted { name, to_run, .. } => {
                let (series, iteration) = name.split_once('/').unwrap();
                self.script.loss_percent.set(loss_percent(series, iteration.parse().unwrap()));
                self.begun.push((*name).to_owned());
                self.to_run.push(to_run.expect("a campaign knows"));
                if self.begun.len() == self.cancel_at {
                    self.cancel.request(2);
                }
            }
            Event::SeriesStopped { series, iterations, half_width_percent } => {
                assert_eq!(*half_width_percent, 4.0);
                self.stopped.push(((*series).to_owned(), *iterations));
            }
            Event::Warning(text) => self.warnings.push(text.clone()),
            _ => {}
        }
    }
}

fn plan(iterations: Option<u32>) -> Plan {
    plan_of(SPEC, iterations)
}

/// A store that can be reported.
fn store(dir: &Path, plan: &Plan) -> Store {
    let store = setup::store(dir, plan);
    store.write_json("env.json", &serde_json::json!({})).expect("an environment");
    store
}

/// Runs what is missing.
fn run(plan: &Plan, store: &Store, cancel_at: usize) -> (Watcher, Result<(), RunError>) {
    let script = Rc::new(Script::default());
    let cancel = Cancel::simulated();
    let mut watcher = Watcher {
        script: Rc::clone(&script),
        cancel: cancel.clone(),
        cancel_at,
        begun: Vec::new(),
        to_run: Vec::new(),
        stopped: Vec::new(),
        warnings: Vec::new(),
        started: None,
    };
    let result = setup::run((plan, store), &script, &cancel, &mut watcher);
    (watcher, result)
}

fn iterations(store: &Store) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (record, _) in store.read_cells().expect("readable").trials {
        *counts.entry(record.series).or_insert(0) += 1;
    }
    counts
}

const NEVER: usize = usize::MAX;

#[test]
fn the_time_goes_where_the_noise_is() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(None);
    let store = store(dir.path(), &plan);
    assert_eq!((view::cell_count_min(&plan), plan.cells.len()), (9, 36));
    let (watcher, result) = run(&plan, &store, NEVER);
    result.expect("the campaign runs");
    let counts = iterations(&store);
    let (quiet, noisy, wild) = (counts["quiet.t"], counts["noisy.t"], counts["wild.t"]);
    assert_eq!((quiet, wild), (3, 12));
    assert!((5..12).contains(&noisy), "{noisy}");
    // One calibration besides.
    assert_eq!(watcher.started, Some((10, 37, 0)));
    assert_eq!(
        watcher.stopped,
        [("quiet.t".to_owned(), 3), ("noisy.t".to_owned(), u32::try_from(noisy).unwrap())]
    );
    assert_eq!(watcher.warnings.len(), 1);
    assert!(
        watcher.warnings[0].starts_with("wild.t: after 12 iterations"),
        "{:?}",
        watcher.warnings
    );
    // What is left shrinks when a series stops, and comes out right.
    assert!(watcher.to_run.is_sorted_by(|a, b| a >= b), "{:?}", watcher.to_run);
    assert_eq!(*watcher.to_run.last().unwrap(), 1 + quiet + noisy + wild);
    // Blocks stay blocks: the second iteration of none comes before the first of all.
    let first_of_block = |n: usize| &watcher.begun[3 * n..3 * n + 3];
    for block in 0..3 {
        let end = format!("/{}", block + 1);
        assert!(first_of_block(block).iter().all(|name| name.ends_with(&end)));
    }

    let derived = derive::write(&store, &plan, None).expect("a report");
    assert!(derived.summary.complete);
    assert_eq!(derived.summary.counts.planned_cells, quiet + noisy + wild);
}

#[test]
fn an_interruption_changes_nothing() {
    let whole = tempfile::tempdir().unwrap();
    let plan = plan(None);
    let uninterrupted = store(whole.path(), &plan);
    run(&plan, &uninterrupted, NEVER).1.expect("the campaign runs");
    for cancel_at in [2, 12] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), &plan);
        let (_, stopped) = run(&plan, &store, cancel_at);
        assert!(matches!(stopped, Err(RunError::Cancelled { .. })), "{stopped:?}");
        let records = store.read_cells().unwrap().trials;
        let history = History::of(&plan, records.iter().map(|(record, _)| record));
        assert!(history.planned_cells() > records.len(), "it is not complete");
        run(&plan, &store, NEVER).1.expect("it goes on");
        assert_eq!(iterations(&store), iterations(&uninterrupted), "stopped at {cancel_at}");
        let (watcher, result) = run(&plan, &store, NEVER);
        result.expect("nothing is left");
        assert!(watcher.begun.is_empty());
        assert_eq!(watcher.started.map(|(least, most, _)| (least, most)), Some((0, 0)));
    }
}

#[test]
fn a_number_of_iterations_goes_before_the_rule() {
    let dir = tempfile::tempdir().unwrap();
    let four = plan(Some(4));
    assert_eq!((four.campaign.auto, four.cells.len()), (None, 12));
    let store = store(dir.path(), &four);
    run(&four, &store, NEVER).1.expect("the campaign runs");
    assert!(iterations(&store).values().all(|count| *count == 4));
    // The rule goes on from there: the quiet series has enough.
    run(&plan(None), &store, NEVER).1.expect("it goes on");
    let counts = iterations(&store);
    assert_eq!((counts["quiet.t"], counts["wild.t"]), (4, 12));
}
