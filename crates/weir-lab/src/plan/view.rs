//! A plan for people and programs: what would run, in which order, and for how long.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use weir_results::dut::Dut;
use weir_results::matrix::{Campaign, SweepValue};
use weir_results::traffic::Traffic;
use weir_wire::units::whole_ns as ns;

use crate::model::{Cell, Image, Plan, TestbedSpec, TrialTimes};
use crate::plan::estimate::Estimate;

/// About how long the plan's calibrations and cells take together.
#[must_use]
pub fn estimated_duration(plan: &Plan) -> Duration {
    Estimate::of(plan, plan.cells.iter()).total()
}

/// About how long so many trials of the plan take, if they are like all of them.
#[must_use]
pub fn duration_of(plan: &Plan, trial_count: usize) -> Duration {
    let all = plan.calibrations().len() + plan.cells.len();
    let share = trial_count as f64 / all.max(1) as f64;
    estimated_duration(plan).mul_f64(share)
}

/// The same for the fewest cells that `iterations = "auto"` may need.
#[must_use]
pub fn estimated_duration_min(plan: &Plan) -> Duration {
    Estimate::of(plan, certain_cells(plan)).total()
}

/// The fewest cells that the plan may need: all of them, but for `iterations = "auto"`.
#[must_use]
pub fn cell_count_min(plan: &Plan) -> usize {
    certain_cells(plan).count()
}

fn certain_cells(plan: &Plan) -> impl Iterator<Item = &Cell> {
    let least = plan.campaign.iterations_min();
    plan.cells.iter().filter(move |cell| cell.iteration <= least)
}

/// A plan as `weir lab plan --json` prints it.
#[derive(Debug, Clone, Serialize)]
pub struct PlanView<'p> {
    pub campaign: &'p Campaign,
    /// Times of a trial.
    pub trial: TrialView,
    /// Where it runs.
    pub testbed: &'p TestbedSpec,
    /// Images of the DUT's machine; left out where there are none.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub images: &'p [Image],
    /// Traffics that are calibrated first.
    pub calibrations: Vec<&'p Traffic>,
    /// Every series of the matrix.
    pub series: Vec<SeriesView<'p>>,
    /// The cells, in the order in which they run; with `iterations = "auto"` the most of them.
    pub cells: Vec<CellView<'p>>,
    /// [`cell_count_min`].
    pub cell_count_min: usize,
    /// [`estimated_duration`], in nanoseconds.
    pub estimated_duration_ns: u64,
    /// What that is made of, in nanoseconds: `priming_ns` and so on.
    pub estimate: BTreeMap<String, u64>,
    /// [`estimated_duration_min`], in nanoseconds.
    pub estimated_duration_min_ns: u64,
}

/// Times of a trial, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TrialView {
    /// Traffic before the measurement.
    pub warmup_ns: u64,
    /// Length of the measurement.
    pub duration_ns: u64,
    /// Pause before counters are read.
    pub drain_ns: u64,
    /// Distance of the samples.
    pub sample_ns: u64,
    /// Length of the latency phase; absent where latency is not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// How often a disturbed trial is repeated.
    pub retries: u32,
}

#[derive(Debug, Clone, Serialize)]
pub struct SeriesView<'p> {
    pub name: &'p str,
    /// What determines it, as SHA-256.
    pub id: &'p str,
    /// Its image, on testbeds that have images.
    pub image: Option<&'p str>,
    pub dut: &'p Dut,
    /// Its sweep values.
    pub sweep: &'p [(String, SweepValue)],
    pub traffic: &'p Traffic,
    /// Where it runs, if the testbed refers to sweeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub testbed: Option<&'p TestbedSpec>,
    /// How many of the plan's cells are its.
    pub cell_count: usize,
}

#[derive(Debug, Clone, Serialize)]
pub struct CellView<'p> {
    /// `<series>/<iteration>`.
    pub name: String,
    /// Name of its series.
    pub series: &'p str,
    /// Its iteration, from 1.
    pub iteration: u32,
    /// What determines it, as SHA-256.
    pub id: &'p str,
}

impl<'p> PlanView<'p> {
    /// The view of `plan`.
    #[must_use]
    pub fn new(plan: &'p Plan) -> Self {
        let mut cell_counts = vec![0; plan.series.len()];
        for cell in &plan.cells {
            cell_counts[cell.series_index] += 1;
        }
        let series = plan.series.iter().zip(cell_counts).map(|(series, cell_count)| SeriesView {
            name: &series.name,
            id: &series.id,
            image: series.image.as_deref(),
            dut: &series.dut,
            sweep: &series.sweep,
            traffic: &series.traffic,
            testbed: plan.places.get(&series.id),
            cell_count,
        });
        let cells = plan.cells.iter().map(|cell| CellView {
            name: plan.cell_name(cell),
            series: &plan.series[cell.series_index].name,
            iteration: cell.iteration,
            id: &cell.id,
        });
        let TrialTimes { warmup, duration, drain, sample, latency } = plan.trial;
        Self {
            campaign: &plan.campaign,
            trial: TrialView {
                warmup_ns: ns(warmup),
                duration_ns: ns(duration),
                drain_ns: ns(drain),
                sample_ns: ns(sample),
                latency_ns: latency.map(ns),
                retries: plan.retries,
            },
            testbed: &plan.testbed,
            images: &plan.images,
            calibrations: plan.calibrations().iter().map(|series| &series.traffic).collect(),
            series: series.collect(),
            cells: cells.collect(),
            cell_count_min: cell_count_min(plan),
            estimated_duration_min_ns: ns(estimated_duration_min(plan)),
            estimated_duration_ns: ns(estimated_duration(plan)),
            estimate: Estimate::of(plan, plan.cells.iter())
                .parts()
                .map(|(name, time)| (format!("{name}_ns"), ns(time)))
                .into(),
        }
    }
}
