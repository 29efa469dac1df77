//! Finds the first bad one of an ordered list of DUTs, images or sweep values.
//!
//! The list is a part of the specification: from the good name to the bad one, in the order in
//! which they are written. Which of them is measured next, and when that is enough, is
//! [`weir_stats::bisect`]'s to say; a measurement is a cell like any other, on a freshly built
//! DUT, and is written to a store before the next one begins. The decision depends on the list and
//! the store alone, so that a search that was interrupted goes on as if it had not been.
//!
//! `bisect.json` in the store says what is asked. It marks the store: a campaign does not go on in
//! it, because that would run the whole matrix.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_stats::bisect::{Assessment, Candidate, Settings, Step};

use crate::campaign::{CampaignError, Run};
use crate::cancel::Cancel;
use crate::event::Observer;
use crate::identity;
use crate::model::{Cell, Plan};
use crate::record::{TrialRecord, VerdictKind};
use crate::store::{Store, StoreError};
use crate::testbed::Testbed;

mod list;
mod report;

#[cfg(test)]
mod tests;

pub use list::{Entry, List, ListError};
pub use report::{Answer, CandidateReport, ChangeReport, Report};

/// Version of `bisect.json`.
pub const BISECT_SCHEMA: u32 = 1;

/// Name of the file that holds the [`Question`].
const FILE: &str = "bisect.json";

/// Invalid runs of a candidate from which on it is passed over, unless more of its runs are valid.
pub const INVALID_MAX: usize = 3;

/// The most runs of a search: a candidate that has them all has no more iterations.
pub const RUNS_MAX: usize = 1000;

/// What is asked: the content of `bisect.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// [`BISECT_SCHEMA`].
    pub schema: u32,
    /// Name of the candidate that is good, as it was given.
    pub good: String,
    /// Name of the candidate that is bad.
    pub bad: String,
    /// Which series of a candidate is measured: a name or a pattern.
    pub metric: Option<String>,
    /// Probability that an answer needs.
    pub confidence: f64,
    /// The smallest change that matters, as a share of the good level.
    pub margin_ratio: f64,
    /// The most runs, invalid ones included.
    pub runs_max: usize,
}

impl Question {
    /// Whether the other asks for the same list of the same figures: it may differ in how sure
    /// the answer has to be.
    #[must_use]
    pub fn continues(&self, other: &Self) -> bool {
        (&self.good, &self.bad, &self.metric) == (&other.good, &other.bad, &other.metric)
    }

    fn settings(&self, invalid: usize) -> Settings {
        Settings {
            confidence: self.confidence,
            margin_ratio: self.margin_ratio,
            measurements_max: self.runs_max.saturating_sub(invalid),
        }
    }
}

/// Why a search stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum BisectError {
    /// A run failed, or somebody asked to stop.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A setting out of its range, or a store with figures that are none.
    #[error("cannot decide: {0}")]
    Decide(#[from] weir_stats::bisect::BisectError),
    /// Without its ends a list cannot be searched.
    #[error(
        "`{name}`, an end of the list, cannot be measured: {invalid} of its {runs} runs are \
         invalid, the last because: {reason}; mend it, or begin the list elsewhere"
    )]
    End {
        /// The candidate.
        name: String,
        /// Its invalid runs.
        invalid: usize,
        /// All its runs.
        runs: usize,
        /// Why the last of them is invalid.
        reason: String,
    },
}

/// Somebody who watches a search.
pub trait Watcher: Observer {
    /// Called before each run and at the end, with what is known by then.
    fn assessed(&mut self, report: &Report);
}

/// The question that a store was made for; `None` for a store of a campaign.
///
/// # Errors
/// When `bisect.json` is damaged.
pub fn question(store: &Store) -> Result<Option<Question>, StoreError> {
    let path = store.root().join(FILE);
    if path.exists() { store.read_json(&path).map(Some) } else { Ok(None) }
}

/// Notes the question in its store.
///
/// # Errors
/// When it cannot be written.
pub fn keep_question(store: &Store, question: &Question) -> Result<(), StoreError> {
    store.write_json(FILE, question)
}

/// The plan with the cells that a search has run, which is all that its reports speak of.
///
/// # Errors
/// When the store cannot be read.
pub fn finished(plan: &Plan, store: &Store) -> Result<Plan, StoreError> {
    let mut plan = plan.clone();
    let finished = |(record, _): &(TrialRecord, _)| {
        let series_index = plan.series.iter().position(|s| s.name == record.series)?;
        let (iteration, id) = (record.iteration, record.cell_id.clone());
        Some(Cell { series_index, iteration, id })
    };
    let cells = store.read_cells()?.trials.iter().filter_map(finished).collect();
    plan.cells = cells;
    // It is not the campaign's rule that ended a series.
    plan.campaign.auto = None;
    Ok(plan)
}

/// The runs of one candidate that stand in the store.
#[derive(Debug, Clone, Default)]
struct Runs {
    /// Packets per second of the valid ones, in the order of the iterations.
    values_pps: Vec<f64>,
    invalid: usize,
    /// Iteration of the last one.
    last: u32,
    /// Why the last invalid one is so.
    reason: String,
}

impl Runs {
    fn add(&mut self, record: &TrialRecord) {
        self.last = self.last.max(record.iteration);
        if record.verdict.kind == VerdictKind::Invalid {
            self.invalid += 1;
            self.reason.clone_from(&record.verdict.reason);
        } else {
            self.values_pps.push(record.result.rate_pps);
        }
    }

    fn is_skipped(&self) -> bool {
        self.invalid >= INVALID_MAX && self.invalid > self.values_pps.len()
    }
}

/// A search about to run.
pub struct Bisect<'a> {
    /// The specification's plan; only the cells that are needed run.
    pub plan: &'a Plan,
    /// What is searched.
    pub list: &'a List,
    /// What is asked.
    pub question: &'a Question,
    /// Where results go.
    pub store: &'a Store,
    /// Where trials run.
    pub testbed: &'a dyn Testbed,
    /// Request to stop.
    pub cancel: &'a Cancel,
    /// Who is told.
    pub watcher: &'a mut dyn Watcher,
}

impl Bisect<'_> {
    /// Measures until there is an answer.
    ///
    /// # Errors
    /// When it was stopped, the store or the testbed fails, a DUT's configuration is at fault, or
    /// an end of the list cannot be measured.
    pub fn run(&mut self) -> Result<Report, BisectError> {
        let mut runs = stored_runs(self.plan, self.list, self.store)?;
        let mut work = self.plan.clone();
        // The search says what runs: the rule of a campaign would leave out what it asks for.
        work.campaign.auto = None;
        loop {
            let (assessment, report) = assess(self.plan, self.list, self.question, &runs)?;
            self.watcher.assessed(&report);
            let Step::Measure(index) = assessment.step else {
                return Ok(report);
            };
            let series_index = self.list.entries[index].series_index;
            let series = &self.plan.series[series_index];
            let iteration = runs[index].last + 1;
            let id = identity::cell_id(&series.id, iteration);
            work.cells = vec![Cell { series_index, iteration, id }];
            Run {
                plan: &work,
                store: self.store,
                testbed: self.testbed,
                cancel: self.cancel,
                observer: self.watcher,
            }
            .run()?;
            let dir = self.store.cell_dir(&series.name, iteration);
            runs[index].add(&self.store.read_trial(&dir)?.0);
        }
    }
}

/// What the store says by now, without running anything.
///
/// # Errors
/// As [`Bisect::run`].
pub fn report(
    plan: &Plan,
    list: &List,
    question: &Question,
    store: &Store,
) -> Result<Report, BisectError> {
    Ok(assess(plan, list, question, &stored_runs(plan, list, store)?)?.1)
}

/// The runs of every candidate; cells of other series do not matter.
fn stored_runs(plan: &Plan, list: &List, store: &Store) -> Result<Vec<Runs>, BisectError> {
    let cells = store.read_cells()?;
    if let Some(damaged) = cells.damaged.into_iter().next() {
        // Its iteration is taken, and what it said is not known.
        return Err(damaged.into());
    }
    let mut runs = vec![Runs::default(); list.entries.len()];
    for (record, _) in &cells.trials {
        let is_its = |entry: &Entry| plan.series[entry.series_index].name == record.series;
        let Some(index) = list.entries.iter().position(is_its) else {
            continue;
        };
        let series = &plan.series[list.entries[index].series_index];
        if record.cell_id != identity::cell_id(&series.id, record.iteration) {
            let path: PathBuf = store.cell_dir(&series.name, record.iteration);
            return Err(StoreError::Conflict { path }.into());
        }
        runs[index].add(record);
    }
    Ok(runs)
}

fn assess(
    plan: &Plan,
    list: &List,
    question: &Question,
    runs: &[Runs],
) -> Result<(Assessment, Report), BisectError> {
    for end in [0, runs.len() - 1] {
        let own = &runs[end];
        if own.is_skipped() {
            return Err(BisectError::End {
                name: list.entries[end].name.clone(),
                invalid: own.invalid,
                runs: own.invalid + own.values_pps.len(),
                reason: own.reason.clone(),
            });
        }
    }
    let candidates: Vec<Candidate<'_>> =
        runs.iter().map(|r| Candidate { values: &r.values_pps, skipped: r.is_skipped() }).collect();
    let invalid = runs.iter().map(|r| r.invalid).sum();
    let assessment = weir_stats::bisect::assess(&candidates, &question.settings(invalid))?;
    let report = Report::new(plan, list, question, runs, &assessment);
    Ok((assessment, report))
}
