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

use std::collections::BTreeSet;
use std::path::PathBuf;

use weir_results::bisect::{Entry, List, Question, Report, Runs};
use weir_results::record::{Sample, TrialRecord};
use weir_stats::bisect::{self, Assessment, Candidate};

use crate::event::{Event, Observer};
use crate::identity;
use crate::model::{Cell, Plan};
use crate::runner::{Paths, Request, RunError, Schedule, Step};
use crate::store::{Store, StoreError};

#[cfg(test)]
mod tests;

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

/// A bisection about to run: its runs so far decide which one is next.
pub struct Bisection<'a> {
    plan: &'a Plan,
    list: List,
    question: &'a Question,
    store: &'a Store,
    runs: Vec<Runs>,
    report: Report,
    /// What is next, as `report` has it.
    step: bisect::Step,
    /// The candidate whose run was asked for last; absent while it is a run for a profile.
    running: Option<usize>,
    /// Candidates that were measured, whose profile is still to be asked for.
    measured: BTreeSet<usize>,
    /// Series whose profile was asked for.
    profiled: BTreeSet<usize>,
}

impl<'a> Bisection<'a> {
    /// What is known from a store.
    ///
    /// # Errors
    /// When the specification gives no such list, the store cannot be read or holds runs of other
    /// conditions, or an end of the list cannot be measured.
    pub fn new(plan: &'a Plan, question: &'a Question, store: &'a Store) -> Result<Self, RunError> {
        let list =
            List::of(&plan.series, &question.good, &question.bad, question.metric.as_deref())
                .map_err(|error| RunError::Unsuited(error.into()))?;
        let runs = stored_runs(plan, &list, store)?;
        let (assessment, report) = assess(plan, &list, question, &runs)?;
        let (step, running) = (assessment.step, None);
        let (measured, profiled) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { plan, list, question, store, runs, report, step, running, measured, profiled })
    }

    /// What is known by now.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// A run for a profile of a candidate that was measured, where profiles are asked for.
    fn profile(&mut self) -> Result<Option<Request>, StoreError> {
        while let Some(index) = self.measured.pop_first() {
            let series_index = self.list.entries[index].series_index;
            if self.profiled.insert(series_index)
                && let Some(request) = Request::profile(self.plan, self.store, series_index)?
            {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }
}

impl Schedule for Bisection<'_> {
    fn begin(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        observer.event(&Event::Assessed(&self.report));
        Ok(())
    }

    fn next(&mut self, paths: &Paths, _: &mut dyn Observer) -> Result<Step, RunError> {
        if let Some(request) = self.profile()? {
            return Ok(Step::Trial(Box::new(request)));
        }
        let bisect::Step::Measure(index) = self.step else {
            return Ok(Step::Done);
        };
        let series_index = self.list.entries[index].series_index;
        let series = &self.plan.series[series_index];
        if self.plan.testbed.has_direct_path() && paths.of_traffic(&series.traffic).is_none() {
            return Ok(Step::Calibrate { series: Box::new(series.clone()), left: None });
        }
        let iteration = self.runs[index].last + 1;
        let id = identity::cell_id(&series.id, iteration);
        let cell = Cell { series_index, iteration, id };
        self.running = Some(index);
        Ok(Step::Trial(Box::new(Request::cell(self.plan, self.store, &cell))))
    }

    fn record(
        &mut self,
        (record, _): &(TrialRecord, Vec<Sample>),
        observer: &mut dyn Observer,
    ) -> Result<(), RunError> {
        let Some(index) = self.running.take() else {
            return Ok(());
        };
        self.runs[index].add(record);
        self.measured.insert(index);
        let (assessment, report) = assess(self.plan, &self.list, self.question, &self.runs)?;
        (self.step, self.report) = (assessment.step, report);
        observer.event(&Event::Assessed(&self.report));
        Ok(())
    }
}

/// The runs of every candidate; cells of other series do not matter.
fn stored_runs(plan: &Plan, list: &List, store: &Store) -> Result<Vec<Runs>, RunError> {
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
) -> Result<(Assessment, Report), RunError> {
    for end in [0, runs.len() - 1] {
        let summary = &runs[end];
        if summary.is_skipped() {
            return Err(RunError::End {
                name: list.entries[end].name.clone(),
                invalid: summary.invalid,
                runs: summary.invalid + summary.values_pps.len(),
                reason: summary.reason.clone(),
            });
        }
    }
    let candidates: Vec<Candidate<'_>> =
        runs.iter().map(|r| Candidate { values: &r.values_pps, skipped: r.is_skipped() }).collect();
    let invalid = runs.iter().map(|r| r.invalid).sum();
    let assessment = bisect::assess(&candidates, &question.settings(invalid))?;
    let report = Report::new(&plan.series, list, question, runs, &assessment);
    Ok((assessment, report))
}
