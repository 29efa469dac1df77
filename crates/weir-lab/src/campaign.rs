//! The schedule of a campaign: the calibrations that are missing, then every cell that the store
//! does not hold yet, then those that something else disturbed once more, then a run for each
//! profile.
//!
//! A campaign that is resumed only adds. With `iterations = "auto"` a cell is left out when its
//! series has been measured often enough by the time its turn comes ([`History`]).

use std::collections::{BTreeSet, VecDeque};

use weir_stats::stopping::Decision;

use crate::event::{Event, Observer};
use crate::model::{Cell, Plan};
use crate::plan::view::duration_of;
use crate::runner::{Paths, Request, RunError, Schedule, Step};
use crate::store::{Store, StoreError};
use weir_results::matrix::Series;
use weir_results::record::{Sample, TrialRecord, VerdictKind};

mod history;

pub use history::History;

/// A campaign about to run: all that is missing.
pub struct Campaign<'a> {
    plan: &'a Plan,
    store: &'a Store,
    history: History<'a>,
    /// Those whose traffic is to be calibrated.
    uncalibrated: VecDeque<Series>,
    /// What the store did not hold at the beginning.
    cells: Vec<Cell>,
    /// The first of them whose turn has not come.
    next: usize,
    /// The one that is running, and how often it was disturbed since the campaign began or was
    /// resumed.
    running: Option<(Cell, u32)>,
    /// Those that something else disturbed, in the order in which they are repeated.
    again: VecDeque<(Cell, u32)>,
    /// Runs for profiles, once the cells are done.
    profiles: Option<VecDeque<Request>>,
}

impl<'a> Campaign<'a> {
    /// What a store lacks of a plan.
    ///
    /// # Errors
    /// When the store holds something that was taken under other conditions, or cannot be read.
    pub fn new(plan: &'a Plan, store: &'a Store) -> Result<Self, StoreError> {
        let cells = pending_cells(plan, store)?;
        let finished = store.read_cells()?.trials;
        let history = History::of(plan, finished.iter().map(|(record, _)| record));
        let mut uncalibrated = VecDeque::new();
        if history.to_run_max(&cells) > 0 {
            for series in plan.calibrations() {
                let traffic = &series.traffic;
                if !store.holds(&store.calibration_dir(&traffic.name), &traffic.id)? {
                    uncalibrated.push_back(series.clone());
                }
            }
        }
        let (next, running, profiles) = (0, None, None);
        let again = VecDeque::new();
        Ok(Self { plan, store, history, uncalibrated, cells, next, running, again, profiles })
    }

    /// The trial of a cell that was disturbed so often.
    fn trial(&mut self, (cell, disturbances): (Cell, u32), left: usize) -> Step {
        let is_repeatable = disturbances < self.plan.retries;
        let request = Request::cell(self.plan, self.store, &cell);
        self.running = Some((cell, disturbances));
        Step::Trial(Box::new(Request { is_repeatable, left: Some(left), ..request }))
    }

    /// Runs for profiles, one of each series, where they are asked for.
    fn profiles(&self) -> Result<VecDeque<Request>, StoreError> {
        let used: BTreeSet<usize> = self.plan.cells.iter().map(|cell| cell.series_index).collect();
        let profile = |index| Request::profile(self.plan, self.store, index).transpose();
        used.into_iter().filter_map(profile).collect()
    }

    /// Says it if the cell was its series' last.
    fn tell_stop(&self, cell: &Cell, record: &TrialRecord, observer: &mut dyn Observer) {
        let Some(auto) = self.plan.campaign.auto else {
            return;
        };
        match self.history.decision(cell.series_index) {
            None | Some(Decision::Continue) => {}
            Some(Decision::NarrowEnough) => observer.event(&Event::SeriesStopped {
                series: &record.series,
                iterations: record.iteration,
                half_width_percent: auto.half_width_percent(),
            }),
            Some(Decision::MaxReached) => observer.event(&Event::Warning(format!(
                "{}: after {} iterations its interval is still wider than ±{} %; the report says \
                 how wide",
                record.series,
                record.iteration,
                auto.half_width_percent()
            ))),
        }
    }
}

impl Schedule for Campaign<'_> {
    fn begin(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let most = self.history.to_run_max(&self.cells);
        let to_run = self.uncalibrated.len() + most;
        let done = self.plan.cells.len() - self.cells.len();
        observer.event(&Event::Started {
            to_run,
            to_run_min: self.uncalibrated.len() + self.history.planned_cells() - done,
            done,
            planned: done + most,
            estimate: duration_of(self.plan, to_run),
        });
        Ok(())
    }

    fn next(&mut self, _: &Paths, _: &mut dyn Observer) -> Result<Step, RunError> {
        let cells = self.history.to_run_max(&self.cells[self.next..]) + self.again.len();
        let left = self.uncalibrated.len() + cells;
        if let Some(series) = self.uncalibrated.pop_front() {
            return Ok(Step::Calibrate { series: Box::new(series), left: Some(left) });
        }
        while let Some(cell) = self.cells.get(self.next) {
            self.next += 1;
            if self.history.is_open(cell) {
                let cell = cell.clone();
                return Ok(self.trial((cell, 0), left));
            }
        }
        if let Some(cell) = self.again.pop_front() {
            return Ok(self.trial(cell, left));
        }
        let mut profiles = match self.profiles.take() {
            Some(profiles) => profiles,
            None => self.profiles()?,
        };
        let left = Some(profiles.len());
        let next = profiles.pop_front();
        self.profiles = Some(profiles);
        Ok(match next {
            Some(request) => Step::Trial(Box::new(Request { left, ..request })),
            None => Step::Done,
        })
    }

    fn record(
        &mut self,
        (record, _): &(TrialRecord, Vec<Sample>),
        observer: &mut dyn Observer,
    ) -> Result<(), RunError> {
        // A profile's run counts nowhere.
        if let Some((cell, disturbances)) = self.running.take() {
            let is_disturbed = record.verdict.kind == VerdictKind::Disturbed;
            if is_disturbed && disturbances < self.plan.retries {
                self.again.push_back((cell, disturbances + 1));
                return Ok(());
            }
            self.history.add(cell.series_index, record);
            self.tell_stop(&cell, record, observer);
        }
        Ok(())
    }
}

/// Cells of the plan that the store does not hold, in the plan's order.
///
/// # Errors
/// When the store holds one that was taken under other conditions, or cannot be read.
pub fn pending_cells(plan: &Plan, store: &Store) -> Result<Vec<Cell>, StoreError> {
    let mut pending = Vec::new();
    for cell in &plan.cells {
        let dir = store.cell_dir(&plan.series[cell.series_index].name, cell.iteration);
        if !store.holds(&dir, &cell.id)? {
            pending.push(cell.clone());
        }
    }
    Ok(pending)
}

/// How many of these cells are still to run at the most, as far as the store tells.
///
/// # Errors
/// When the store cannot be read.
pub fn to_run_max(plan: &Plan, store: &Store, cells: &[Cell]) -> Result<usize, StoreError> {
    let finished = store.read_cells()?.trials;
    let history = History::of(plan, finished.iter().map(|(record, _)| record));
    Ok(history.to_run_max(cells))
}
