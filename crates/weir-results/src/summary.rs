//! The summary of a campaign: everything that needs more than one cell to know.
//!
//! It takes the records of a store, as [`CampaignData`], and derives one [`CampaignSummary`]:
//! medians over iterations, calibration ratios, verdict counts, median ledgers and comparisons of
//! DUTs. It is a pure function of its input: no clock, no files, no environment, so that a report
//! can be rebuilt at any time and comes out the same. It never changes or drops a record:
//! iterations whose verdict is `invalid` or `disturbed` are left out of figures, and counted.

pub mod analysis;
mod compare;
pub mod cost;
mod directions;
mod latency;
mod ledger;
mod order;
mod series;
pub mod turns;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_stats::Threshold;
use weir_stats::student_t::Confidence;

pub use weir_wire::ethernet::FCS_BYTES;

pub use turns::ToggleSummary;

pub use analysis::{ComparisonAnalysis, CostAnalysis, SeriesAnalysis};

use crate::matrix::{Campaign, SweepValue};
use crate::traffic::{Connect, Http};
use crate::unit::{Unit, is_pps};
use crate::yardstick::Yardstick;

use crate::record::{Delays, Drop, Point, Sample, TrialRecord, Verdict, VerdictKind};

/// Version of the format of `summary.json`.
pub(crate) const SUMMARY_SCHEMA: u32 = 1;

/// Confidence of every comparison.
pub(crate) const CONFIDENCE: Confidence = Confidence::P95;

/// One run of the generator: its record and its samples.
pub type Trial = (TrialRecord, Vec<Sample>);

/// A campaign as its store holds it: the only input of the summary and of every report.
#[derive(Debug, Clone)]
pub struct CampaignData {
    /// The `[campaign]` table.
    pub campaign: Campaign,
    /// The specification, byte for byte.
    pub spec_text: String,
    /// The command line that asks for the same again.
    pub command: String,
    /// The store's directory, as a word of a command line.
    pub store: String,
    /// The content of `env.json`.
    pub environment: serde_json::Value,
    /// The content of `yardsticks.json`.
    pub yardsticks: Vec<Yardstick>,
    /// Calibrations, in any order.
    pub calibrations: Vec<Trial>,
    /// Finished cells, in any order.
    pub cells: Vec<Trial>,
    /// Trials that were run again, because something else ran on the machine, and calibrations that
    /// were of no use, in any order.
    pub rejected: Vec<Rejected>,
    /// Cells of the whole campaign.
    pub planned_cells: usize,
    /// How many CPUs the DUT has, by series, where that is stated.
    pub dut_cpus: BTreeMap<String, usize>,
    /// Every threshold that the verdicts were reached with.
    pub thresholds: Vec<Threshold>,
    /// Profiles of DUTs under load, by the name of their series.
    pub profiles: Vec<Profile>,
}

/// A run that counts nowhere and stays in the store.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// Its folder inside the store.
    pub folder: String,
    pub trial: Trial,
}

/// A profile of a DUT under load, taken in a run that counts nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub series: String,
    /// Its stacks, one a line, outermost first, with the number of samples; absent: there are none.
    pub folded: Option<String>,
    /// The artefacts, as paths inside the store.
    pub files: Vec<String>,
    /// Why there is no profile.
    pub why_not: Option<String>,
}

/// The content of `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignSummary {
    /// [`SUMMARY_SCHEMA`].
    pub schema: u32,
    /// The `[campaign]` table.
    pub campaign: Campaign,
    /// Whether every planned cell is there.
    pub complete: bool,
    /// When the first of the runs began, RFC 3339 in UTC; absent without any run.
    pub started_utc: Option<String>,
    /// When the last of them ended: the time that the summary speaks of.
    pub finished_utc: Option<String>,
    /// Overall counts.
    pub counts: Counts,
    /// Name of the sweep that is the numeric axis, where the campaign has one.
    pub axis: Option<String>,
    /// Confidence of the comparisons, in per cent.
    pub confidence_percent: f64,
    /// Every series that has a cell, in the order of the specification.
    pub series: Vec<SeriesSummary>,
    /// The first DUT against each other one, per traffic and sweep value.
    pub comparisons: Vec<Comparison>,
    /// The thresholds of the verdicts.
    pub thresholds: Vec<Threshold>,
}

/// Overall counts of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Cells of the whole campaign.
    pub planned_cells: usize,
    pub finished_cells: usize,
    /// Finished cells that gave no figure.
    pub invalid_cells: usize,
    /// Finished cells whose figure takes part in nothing, because something else ran.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disturbed_cells: usize,
    pub calibrations: usize,
    /// Finished cells by verdict.
    pub verdicts: BTreeMap<String, usize>,
}

/// A figure over several iterations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Iterations it is taken over.
    pub count: usize,
    /// Median; of an even count, the mean of the middle pair.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    pub mean: f64,
    /// Sample standard deviation; absent for a single iteration.
    pub stddev: Option<f64>,
}

/// One point of the matrix, over its iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesSummary {
    /// Name of the series.
    pub name: String,
    /// SHA-256 (hex) of what determines it.
    pub series_id: String,
    /// Image, on testbeds that have images.
    pub image: Option<String>,
    /// Name of the DUT.
    pub dut: String,
    /// Name of the traffic.
    pub traffic: String,
    /// Name of the traffic without the sweep values that it carries.
    pub traffic_base: String,
    pub flow_count: u64,
    /// What its figures count, whatever the names of their fields say; packets per second where it
    /// is absent.
    #[serde(default, skip_serializing_if = "is_pps")]
    pub unit: Unit,
    /// What is done with each connection, where its traffic is of connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Connect>,
    /// What is asked for, where its traffic is of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// Whether the DUT still knew, after each valid iteration, the connections that came through
    /// and stay open; false where it does not tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub knows_connections: bool,
    /// Values of the sweeps, in their order.
    pub sweep: Vec<(String, SweepValue)>,
    /// Position on the numeric axis, where the campaign has one.
    pub axis: Option<f64>,
    /// Frame size without FCS; of several sizes the mean, rounded.
    pub size_bytes: u16,
    /// The smallest frame without FCS.
    pub size_bytes_min: u16,
    /// The largest frame without FCS.
    pub size_bytes_max: u16,
    /// Frame size with FCS, as RFC 2544 counts; of several sizes the mean, rounded.
    pub size_with_fcs_bytes: u16,
    /// Finished iterations.
    pub iterations: usize,
    /// Those of them that count: all but the invalid and the disturbed ones.
    pub valid_iterations: usize,
    /// Packets per second delivered, over the valid iterations.
    pub rate_pps: Option<Spread>,
    /// Packets per second offered, over the valid iterations.
    pub offered_pps: Option<Spread>,
    /// Packets offered and not delivered, over the valid iterations, warm-up included.
    pub lost_packets: Option<Spread>,
    /// The same as a share of the packets offered.
    pub loss_ratio: Option<Spread>,
    /// Of a traffic with several generators, what went each way; the figures of the series are
    /// their sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionSummary>,
    /// One-way latency, where it was measured, over the valid iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySummary>,
    /// The DUT's CPU time per packet in nanoseconds, over the valid iterations that tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ns: Option<Spread>,
    /// The part of it that is the sink's work on the DUT's CPUs: the median; absent where the sink
    /// is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apparatus_ratio: Option<f64>,
    /// What the two settings of its DUT come to, where it has a toggle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toggle: Option<ToggleSummary>,
    /// Packets per second that this traffic reached with no DUT between.
    pub calibration_pps: Option<f64>,
    /// `rate_pps.median / calibration_pps`.
    pub calibration_ratio: Option<f64>,
    /// Iterations by verdict.
    pub verdicts: BTreeMap<String, usize>,
    /// The most frequent verdict of the valid iterations (of all, if none is valid), and the
    /// reason given for the iteration of that verdict that is nearest to the median.
    pub verdict: Verdict,
    /// That iteration; absent where all of that verdict have the same reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_iteration: Option<u32>,
    /// Largest residual of any iteration, the invalid ones included, as a share of its offer.
    pub residual_ratio_worst: f64,
    /// Where the packets went, over the valid iterations.
    pub ledger: Option<LedgerSummary>,
    /// Sizes and numbers that the DUT told after its trials: the medians over the valid
    /// iterations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: BTreeMap<String, u64>,
    /// The figures themselves: `rate_pps` of the valid iterations, in their order.
    pub values_pps: Vec<f64>,
    /// What statistics say of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<SeriesAnalysis>,
}

/// One direction of a traffic, over the valid iterations: see [`crate::record::Direction`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionSummary {
    pub name: String,
    /// Packets per second delivered.
    pub rate_pps: Option<Spread>,
    /// Packets per second offered.
    pub offered_pps: Option<Spread>,
    /// Packets per second that this direction reached with no DUT between.
    pub calibration_pps: Option<f64>,
    /// Where the packets went.
    pub ledger: Option<LedgerSummary>,
    /// One-way latency, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySummary>,
}

/// One-way latency over several iterations, in nanoseconds: every entry is the median of that entry
/// of [`crate::record::Latency`], the mean of a middle pair rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Iterations it is taken over.
    pub iterations: usize,
    /// Packets per second of the latency phase.
    pub rate_pps: f64,
    /// Packets lost in the latency phase, as a share of those offered in it: those have no latency.
    pub loss_ratio: f64,
    /// How long the packets of an iteration took that were measured.
    #[serde(flatten)]
    pub delays: Delays,
}

/// A ledger over several iterations: every entry is the median of that entry. Medians of entries
/// need not add up to the packet; the ledgers of single iterations do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerSummary {
    /// The counting points, in order.
    pub points: Vec<Point>,
    /// The named losses.
    pub drops: Vec<Drop>,
    /// What no counter explains, in packets.
    pub residual_packets: u64,
    /// The residual as a share of `offered`.
    pub residual_ratio: f64,
}

/// Two DUTs under the same traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Series of the first DUT: the one compared with.
    pub baseline: String,
    /// Series of the other DUT.
    pub other: String,
    /// Welch's test and what goes with it, corrected over all comparisons; absent where the two
    /// cannot be compared.
    pub analysis: Option<ComparisonAnalysis>,
    /// Why they cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The same of the CPU time per packet; absent where a side does not tell it, or too few
    /// iterations do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostAnalysis>,
}

impl Spread {
    /// Over `values`; `None` without any, or if one is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let summary = weir_stats::summary::Summary::of(values)?;
        Some(Self {
            count: summary.count,
            median: summary.median,
            min: summary.min,
            max: summary.max,
            mean: summary.mean,
            stddev: (summary.count > 1).then_some(summary.stddev),
        })
    }

    /// The coefficient of variation, `stddev / mean`; `None` for one iteration or a mean of 0.
    #[must_use]
    pub(crate) fn variation_ratio(&self) -> Option<f64> {
        self.stddev.filter(|_| self.mean > 0.0).map(|s| s / self.mean)
    }
}

impl CampaignSummary {
    /// Derives the summary.
    #[must_use]
    pub fn of(data: &CampaignData) -> Self {
        let order = order::SpecOrder::of(&data.spec_text, &data.cells);
        let axis = numeric_axis(&data.cells);
        let groups = order.series(&data.cells);
        let series: Vec<SeriesSummary> = groups
            .iter()
            .filter_map(|cells| series::summarise(cells, data, (axis.as_deref(), groups.len())))
            .collect();
        let trials = || data.cells.iter().chain(&data.calibrations).map(|(record, _)| record);
        Self {
            schema: SUMMARY_SCHEMA,
            campaign: data.campaign.clone(),
            complete: data.cells.len() >= data.planned_cells,
            started_utc: trials().map(|r| r.times.started_utc.clone()).min(),
            finished_utc: trials().map(|r| r.times.finished_utc.clone()).max(),
            counts: counts(data),
            axis,
            confidence_percent: CONFIDENCE.percent(),
            comparisons: order
                .first_dut(&data.cells)
                .map_or_else(Vec::new, |dut| compare::all(&series, &data.cells, dut)),
            series,
            thresholds: data.thresholds.clone(),
        }
    }

    /// The series of that name.
    #[must_use]
    pub fn series_named(&self, name: &str) -> Option<&SeriesSummary> {
        self.series.iter().find(|s| s.name == name)
    }

    /// The series in groups of equal image, traffic and sweep values: what is compared.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<&SeriesSummary>> {
        let mut groups: Vec<Vec<&SeriesSummary>> = Vec::new();
        for series in &self.series {
            match groups.iter_mut().find(|g| g[0].comparable(series)) {
                Some(group) => group.push(series),
                None => groups.push(vec![series]),
            }
        }
        groups
    }

    /// What its figures count: those of a specification count one thing.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.series.first().map_or(Unit::Pps, |series| series.unit)
    }

    /// The names of the DUTs, in the order of the specification.
    #[must_use]
    pub fn duts(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for series in &self.series {
            if !names.contains(&series.dut.as_str()) {
                names.push(series.dut.as_str());
            }
        }
        names
    }

    /// As `summary.json` holds it.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Its maps have strings as keys and its writer is memory: the two things that can fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl Counts {
    /// Finished cells whose figure takes part in nothing.
    #[must_use]
    pub fn void_cells(&self) -> usize {
        self.invalid_cells + self.disturbed_cells
    }
}

impl SeriesSummary {
    /// Whether the two differ in the DUT alone.
    #[must_use]
    pub fn comparable(&self, other: &Self) -> bool {
        self.image == other.image && self.traffic == other.traffic && self.sweep == other.sweep
    }

    /// The smallest and the largest frame with FCS, bytes.
    #[must_use]
    pub fn size_with_fcs_bytes_range(&self) -> (u16, u16) {
        let with = |size_bytes: u16| size_bytes.saturating_add(FCS_BYTES);
        (with(self.size_bytes_min), with(self.size_bytes_max))
    }

    /// The reason of the verdict, with the iteration that gave it where others gave another one.
    #[must_use]
    pub(crate) fn reason(&self) -> String {
        match self.verdict_iteration {
            Some(iteration) => format!("in iteration {iteration}, {}", self.verdict.reason),
            None => self.verdict.reason.clone(),
        }
    }

    /// The median of the iterations, if one is valid.
    #[must_use]
    pub(crate) fn median_pps(&self) -> Option<f64> {
        self.rate_pps.map(|s| s.median)
    }
}

/// The first sweep whose every value is a number.
fn numeric_axis(cells: &[Trial]) -> Option<String> {
    let (first, _) = cells.first()?;
    let is_numeric = |name: &str| {
        cells.iter().all(|(r, _)| {
            r.sweep.iter().any(|(n, v)| n == name && v.number.is_some_and(f64::is_finite))
        })
    };
    first.sweep.iter().map(|(name, _)| name).find(|name| is_numeric(name)).cloned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn counts(data: &CampaignData) -> Counts {
    let mut verdicts = BTreeMap::new();
    for (record, _) in &data.cells {
        *verdicts.entry(record.verdict.kind.name().to_owned()).or_insert(0) += 1;
    }
    let of = |kind: VerdictKind| data.cells.iter().filter(|(r, _)| r.verdict.kind == kind).count();
    Counts {
        planned_cells: data.planned_cells,
        finished_cells: data.cells.len(),
        invalid_cells: of(VerdictKind::Invalid),
        disturbed_cells: of(VerdictKind::Disturbed),
        calibrations: data
            .calibrations
            .iter()
            .map(|(r, _)| &r.traffic.id)
            .collect::<BTreeSet<_>>()
            .len(),
        verdicts,
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
