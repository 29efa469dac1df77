//! What a campaign has measured of every series, and which of them go on.
//!
//! With `iterations = "auto"`, a cell runs if its series is still open when all earlier iterations
//! are looked at ([`weir_stats::stopping`]). The decision rests on records alone: a campaign that
//! was interrupted decides as if it had not been. Invalid and disturbed iterations are no values,
//! but count as runs: a series that never gives a figure ends at its last iteration.

use std::collections::BTreeMap;

use weir_results::record::TrialRecord;
use weir_stats::stopping::{Decision, Rule};

use crate::model::{Cell, Plan};

/// Every finished iteration of a plan's series.
#[derive(Debug)]
pub struct History<'p> {
    plan: &'p Plan,
    rule: Option<Rule>,
    /// By series: the figure of each iteration, if it counts.
    series: Vec<BTreeMap<u32, Option<f64>>>,
}

impl<'p> History<'p> {
    /// What `records` say of the plan's series; records of others are left out.
    pub fn of<'r>(plan: &'p Plan, records: impl Iterator<Item = &'r TrialRecord>) -> Self {
        let names = plan.series.iter().enumerate().map(|(index, s)| (s.name.as_str(), index));
        let index: BTreeMap<&str, usize> = names.collect();
        let series = vec![BTreeMap::new(); plan.series.len()];
        let mut history = Self { plan, rule: plan.campaign.stopping_rule(), series };
        for record in records {
            if let Some(series_index) = index.get(record.series.as_str()) {
                history.add(*series_index, record);
            }
        }
        history
    }

    /// One more iteration is finished.
    pub fn add(&mut self, series_index: usize, record: &TrialRecord) {
        let counts = !record.verdict.kind.is_void();
        let value = counts.then_some(record.result.rate_pps);
        self.series[series_index].insert(record.iteration, value);
    }

    /// Whether an iteration is finished.
    #[must_use]
    pub fn holds(&self, cell: &Cell) -> bool {
        self.series[cell.series_index].contains_key(&cell.iteration)
    }

    /// Whether the iterations before this one leave its series open.
    #[must_use]
    pub fn is_open(&self, cell: &Cell) -> bool {
        self.rule.is_none_or(|rule| {
            let earlier = self.series[cell.series_index].range(..cell.iteration);
            decide(&rule, earlier.map(|(_, value)| *value)) != Decision::NarrowEnough
        })
    }

    /// What all iterations of a series come to; `None` without a rule.
    #[must_use]
    pub fn decision(&self, series_index: usize) -> Option<Decision> {
        Some(decide(&self.rule?, self.series[series_index].values().copied()))
    }

    /// The most trials that are still to run among `cells`, as far as is known.
    #[must_use]
    pub fn to_run_max(&self, cells: &[Cell]) -> usize {
        cells.iter().filter(|cell| !self.holds(cell) && self.is_open(cell)).count()
    }

    /// The cells of the whole campaign, as far as is known: of a series that goes on, those that it
    /// needs at the least.
    #[must_use]
    pub fn planned_cells(&self) -> usize {
        let least = self.plan.campaign.iterations_min();
        let needed = |cell: &&Cell| {
            let runs = &self.series[cell.series_index];
            let next = (1..).find(|iteration| !runs.contains_key(iteration)).unwrap_or(u32::MAX);
            self.holds(cell) || self.is_open(cell) && cell.iteration <= next.max(least)
        };
        self.plan.cells.iter().filter(needed).count()
    }
}

fn decide(rule: &Rule, runs: impl Iterator<Item = Option<f64>>) -> Decision {
    let runs: Vec<Option<f64>> = runs.collect();
    let values: Vec<f64> = runs.iter().flatten().copied().collect();
    rule.decide(runs.len(), &values)
}
