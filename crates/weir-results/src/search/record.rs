//! What a search has found: one `result.json` for each item, written once, when the item is done.
//!
//! A result names what limited it. Every trial behind it stands beside it in the store.

use serde::{Deserialize, Serialize};
use weir_stats::search::curve;
use weir_stats::search::goal::Goal;
use weir_stats::search::mlr::{Ending, GoalResult};

use crate::matrix::SweepValue;
use crate::record::{self, Delays};
use crate::search::{FrameSize, Test, is_once, once};
use crate::unit::{Unit, is_pps};

/// Version of the format of `result.json`.
pub const RESULT_SCHEMA: u32 = 1;

/// Everything that was found for one item: a series at one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemResult {
    /// [`RESULT_SCHEMA`].
    pub schema: u32,
    /// SHA-256 (hex) of what determines it.
    pub item_id: String,
    /// Name, and folder in the store.
    pub name: String,
    /// Which repetition of the same search it is, from 1.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: u32,
    /// Name of the DUT.
    pub dut: String,
    /// Values of the sweeps.
    pub sweep: Vec<(String, SweepValue)>,
    /// Name of the traffic.
    pub traffic: String,
    /// What its rates count, whatever the names of their fields say; packets per second where it is
    /// absent.
    #[serde(default, skip_serializing_if = "is_pps")]
    pub unit: Unit,
    pub frames: Frames,
    /// What the path carries without a DUT, packets per second: as calibrated, or between machines
    /// by the stated rate of their links; absent where neither is known.
    pub calibrated_pps: Option<f64>,
    /// What the generator offers when nothing holds it back; absent where the DUT cannot be left
    /// out of the path.
    pub generator_pps: Option<f64>,
    /// The lowest load that was to be tried.
    pub min_load_pps: f64,
    /// The highest.
    pub max_load_pps: f64,
    /// Bounds, by the goals' loss ratios.
    pub goals: Vec<GoalRecord>,
    /// Every trial of the search for them, in order; empty in results of before it was kept.
    #[serde(default)]
    pub path: Vec<PathStep>,
    /// Points of the loss-rate curve, from the highest load downwards.
    pub loss_curve: Option<CurveRecord>,
    /// Latency at shares of the throughput.
    pub latency: Option<LatencyRecord>,
    /// Back-to-back frames.
    pub back_to_back: Option<BurstRecord>,
    /// What each test cost.
    pub costs: Vec<Cost>,
    /// Trials that something else disturbed, and that were repeated: they are in no figure.
    #[serde(default)]
    pub repeated_trials: u32,
}

impl ItemResult {
    /// What all repetitions of it are called.
    #[must_use]
    pub fn base_name(&self) -> &str {
        base_name(&self.name, self.repeat)
    }

    /// Whether every test has come to its end, with a figure: trials that say nothing about the
    /// DUT give none.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.goals.iter().all(GoalRecord::is_answered)
            && self.loss_curve.as_ref().is_none_or(CurveRecord::is_answered)
            && self.latency.as_ref().is_none_or(LatencyRecord::is_answered)
            && self.back_to_back.as_ref().is_none_or(BurstRecord::is_answered)
    }
}

/// The name of a repetition of an item.
#[must_use]
pub fn repeated_name(base: &str, repeat: u32) -> String {
    if repeat == 1 { base.to_owned() } else { format!("{base}.repeat={repeat}") }
}

/// What all repetitions of an item are called, of which this is one.
#[must_use]
pub fn base_name(name: &str, repeat: u32) -> &str {
    let suffix = repeated_name("", repeat);
    name.strip_suffix(suffix.as_str()).unwrap_or(name)
}

impl GoalRecord {
    /// A rate, or the certainty that there is none.
    pub(super) fn is_answered(&self) -> bool {
        match self.limit {
            Limit::Stopped => false,
            Limit::BelowMinLoad => true,
            Limit::Dut | Limit::Ring | Limit::Link | Limit::Testbed | Limit::MaxLoad => {
                self.lower_pps.is_some()
            }
        }
    }
}

impl CurveRecord {
    /// Whether it came to its end, with figures.
    pub(super) fn is_answered(&self) -> bool {
        self.stopped.is_none() && self.points.iter().any(|point| point.loss_ratio.is_some())
    }
}

impl LatencyRecord {
    /// Whether it came to its end, with figures.
    pub(super) fn is_answered(&self) -> bool {
        self.stopped.is_none() && self.points.iter().all(|point| point.mean.is_some())
    }
}

impl BurstRecord {
    /// Whether it came to its end, with figures.
    pub(super) fn is_answered(&self) -> bool {
        self.stopped.is_none() && self.mean_packets.is_some()
    }
}

/// Frame sizes of an item.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frames {
    /// As asked for.
    pub size: FrameSize,
    /// The smallest frame, bytes without FCS.
    pub size_bytes_min: u16,
    /// The largest.
    pub size_bytes_max: u16,
    pub size_bytes_mean: f64,
    /// The smallest frame as RFC 2544 counts it, bytes with FCS.
    pub size_with_fcs_bytes_min: u16,
    /// The largest.
    pub size_with_fcs_bytes_max: u16,
}

/// What limited a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// The DUT: the figure is its rate.
    #[serde(rename = "dut-bound")]
    Dut,
    /// A ring of the DUT, which overran while its CPUs were idle in between. The figure is its rate
    /// for this traffic on this testbed.
    #[serde(rename = "ring-bound")]
    Ring,
    /// The path: it carries no more without a DUT either. The figure is a lower bound.
    #[serde(rename = "link-bound")]
    Link,
    /// The generator, or another part of the testbed. The figure is a lower bound.
    #[serde(rename = "generator-bound")]
    Testbed,
    /// The specification's `max_load`. The figure is a lower bound.
    #[serde(rename = "max-load")]
    MaxLoad,
    /// The lowest load is not forwarded well enough: there is no figure.
    #[serde(rename = "below-min-load")]
    BelowMinLoad,
    /// The search ended before its end.
    #[serde(rename = "stopped")]
    Stopped,
}

impl Limit {
    /// Its label in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dut => "dut-bound",
            Self::Ring => "ring-bound",
            Self::Link => "link-bound",
            Self::Testbed => "generator-bound",
            Self::MaxLoad => "max-load",
            Self::BelowMinLoad => "below-min-load",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the device can do the figure, and perhaps more.
    #[must_use]
    pub const fn is_lower_bound(self) -> bool {
        matches!(self, Self::Link | Self::Testbed | Self::MaxLoad)
    }
}

/// What was found for a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalRecord {
    /// `NDR` or `PDR …`.
    pub name: String,
    pub goal: Goal,
    /// Relevant lower bound, packets per second.
    pub lower_pps: Option<f64>,
    /// Relevant upper bound.
    pub upper_pps: Option<f64>,
    /// Conditional throughput at the lower bound.
    pub conditional_throughput_pps: Option<f64>,
    /// The lower bound of a coarser stage, where the search ended before the goal had one.
    pub indicated_pps: Option<f64>,
    /// What limited it.
    pub limit: Limit,
    /// The same in words.
    pub reason: String,
    /// What a packet costs the DUT in the trials that decided about the lower bound, where its
    /// system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<record::Cost>,
}

/// One trial of a search for bounds, and what was known after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathStep {
    /// The load, packets per second.
    pub load_pps: f64,
    /// Length of the trial, seconds.
    pub duration_s: f64,
    /// What it said about the DUT.
    pub outcome: StepOutcome,
    /// The bounds after it, by goal, in the order of the goals.
    pub bounds: Vec<Bounds>,
    /// Most of what was lost overran a ring of the DUT, which had CPU time to spare.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_overrun: bool,
}

/// What a trial of a search said.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepOutcome {
    /// This share of what was offered was lost.
    LossRatio(f64),
    /// The load was not offered, or was lost outside the DUT.
    NotOffered,
    /// Nothing: the trial was void.
    Void,
    /// It went before the search, and is not used.
    WarmUp,
}

/// What is known of the rate of a goal, packets per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Relevant lower bound.
    pub lower_pps: Option<f64>,
    /// Relevant upper bound.
    pub upper_pps: Option<f64>,
}

impl GoalRecord {
    /// Says what limited a result. `link_bound_pps` is the rate from which on the path itself is
    /// the limit; `max_load_given` whether the specification named the highest load; `path` are the
    /// trials.
    #[must_use]
    pub fn new(
        result: &GoalResult,
        link_bound_pps: f64,
        max_load_given: bool,
        path: &[PathStep],
    ) -> Self {
        let (limit, reason) = match result.ending {
            Ending::Regular if result.lower_pps.is_some_and(|pps| pps >= link_bound_pps) => {
                (Limit::Link, "even without the DUT, the path carries hardly more".to_owned())
            }
            Ending::Regular if overran(result, path) => (
                Limit::Ring,
                "at the upper bound, a ring of the DUT overran while its CPUs were idle in \
                 between: bursts limit the rate, not the DUT's speed"
                    .to_owned(),
            ),
            Ending::Regular => {
                (Limit::Dut, "the DUT forwards the lower bound and not the upper one".to_owned())
            }
            Ending::MaxLoadPasses if max_load_given => (
                Limit::MaxLoad,
                "the DUT forwards the highest load that the search may try".to_owned(),
            ),
            Ending::MaxLoadPasses => {
                (Limit::Link, "the DUT forwards what the path carries without it".to_owned())
            }
            Ending::TestbedLimited => (
                Limit::Testbed,
                "higher loads could not be offered, or were lost outside the DUT".to_owned(),
            ),
            Ending::MinLoadFails => (
                Limit::BelowMinLoad,
                "not even the lowest load passes: the DUT loses packets at any load, or its rate \
                 is below `min_load`"
                    .to_owned(),
            ),
            Ending::Stopped(stopped) => (Limit::Stopped, stopped.reason().to_owned()),
        };
        let goal = result.goal;
        Self {
            name: goal.name(),
            goal,
            lower_pps: result.lower_pps,
            upper_pps: result.upper_pps,
            conditional_throughput_pps: result.conditional_throughput_pps,
            indicated_pps: result.indicated_pps,
            limit,
            reason,
            cost: None,
        }
    }
}

/// Whether a ring overran in every trial that was too bad at the upper bound.
fn overran(result: &GoalResult, path: &[PathStep]) -> bool {
    let is_bad = |step: &&PathStep| {
        let is_upper = result.upper_pps.is_some_and(|pps| step.load_pps.total_cmp(&pps).is_eq());
        is_upper
            && matches!(step.outcome, StepOutcome::LossRatio(loss) if loss > result.goal.loss_ratio)
    };
    let mut bad = path.iter().filter(is_bad).peekable();
    bad.peek().is_some() && bad.all(|step| step.is_overrun)
}

/// A loss-rate curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurveRecord {
    /// Its points, from the highest load downwards.
    pub points: Vec<CurvePoint>,
    /// Whether two loads in a row lost nothing, which is its end.
    pub is_lossless_below: bool,
    /// Why it ended before that, if it was not the lowest load.
    pub stopped: Option<String>,
}

/// A point of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// The load as a share of the maximum.
    pub load_ratio: f64,
    /// The load, packets per second.
    pub load_pps: f64,
    /// The share that was lost; absent where the load could not be offered.
    pub loss_ratio: Option<f64>,
}

impl From<&curve::Point> for CurvePoint {
    fn from(point: &curve::Point) -> Self {
        let curve::Point { share, load_pps, loss_ratio } = *point;
        Self { load_ratio: share, load_pps, loss_ratio }
    }
}

/// Latency at shares of a throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyRecord {
    /// The goal whose lower bound the shares are of.
    pub of: String,
    /// That bound, packets per second.
    pub throughput_pps: f64,
    /// By share.
    pub points: Vec<LatencyPoint>,
    /// Why it ended before its end.
    pub stopped: Option<String>,
}

/// Latency at one share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyPoint {
    /// The share of the throughput.
    pub load_ratio: f64,
    /// The load, packets per second.
    pub load_pps: f64,
    /// Means over the repetitions, in nanoseconds; absent where nothing was measured.
    pub mean: Option<MeanDelays>,
    /// Trials at this load, of whatever outcome.
    #[serde(default)]
    pub trials: u32,
    /// Each repetition that counts: its load was offered, and its trial is valid.
    pub repeats: Vec<Delays>,
}

/// Means of quantiles over repetitions, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeanDelays {
    /// Of the smallest.
    pub min_ns: f64,
    /// Of the medians.
    pub p50_ns: f64,
    /// Of the 90 % quantiles.
    pub p90_ns: f64,
    /// Of the 99 % quantiles.
    pub p99_ns: f64,
    /// Of the 99.9 % quantiles; absent in results of before they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<f64>,
    /// Of the largest.
    pub max_ns: f64,
}

/// Back-to-back frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstRecord {
    /// The longest burst that was to be tried, packets.
    pub packets_max: u64,
    /// The rate of the bursts, packets per second: what the generator offers without a DUT.
    pub burst_pps: f64,
    /// The longest burst without loss of each repetition.
    pub lengths_packets: Vec<u64>,
    /// Their mean.
    pub mean_packets: Option<f64>,
    /// Their standard deviation.
    pub stddev_packets: Option<f64>,
    /// Whether the longest burst came through every time: the buffer may be larger.
    pub is_lower_bound: bool,
    /// Time that the mean burst takes, seconds (RFC 9004).
    pub implied_buffer_s: Option<f64>,
    /// The same without what was forwarded meanwhile.
    pub corrected_buffer_s: Option<f64>,
    /// Why it ended before its end.
    pub stopped: Option<String>,
}

/// What a test cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    pub test: Test,
    /// Trials, of whatever outcome.
    pub trials: u32,
    /// Trials whose load could not be offered.
    pub not_offered_trials: u32,
    /// Trials that were void.
    pub void_trials: u32,
    /// Time of all of them, seconds.
    pub elapsed_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_have_one_name_together() {
        assert_eq!(repeated_name("linux.t", 1), "linux.t");
        let third = repeated_name("linux.t", 3);
        assert_eq!((third.as_str(), base_name(&third, 3)), ("linux.t.repeat=3", "linux.t"));
        assert_eq!(base_name("linux.t", 1), "linux.t");
    }

    #[test]
    fn a_rate_that_bursts_limit_is_ring_bound() {
        let result = GoalResult {
            goal: weir_stats::search::goal::Preset::Csit.goal(0.0),
            lower_pps: Some(9.0),
            upper_pps: Some(10.0),
            conditional_throughput_pps: Some(9.0),
            indicated_pps: None,
            ending: Ending::Regular,
        };
        let step = |load_pps, loss, is_overrun| PathStep {
            load_pps,
            duration_s: 1.0,
            outcome: StepOutcome::LossRatio(loss),
            bounds: Vec::new(),
            is_overrun,
        };
        let limit = |path: &[PathStep]| GoalRecord::new(&result, 100.0, false, path).limit;
        let good = step(10.0, 0.0, false);
        assert_eq!(limit(&[step(10.0, 0.1, true), good.clone()]), Limit::Ring);
        assert_eq!(limit(&[step(10.0, 0.1, true), step(10.0, 0.1, false)]), Limit::Dut);
        assert_eq!(limit(&[step(12.0, 0.1, true), good]), Limit::Dut, "not at the upper bound");
    }

    #[test]
    fn limits_have_the_same_names_in_files_and_tables() {
        for limit in [
            Limit::Dut,
            Limit::Ring,
            Limit::Link,
            Limit::Testbed,
            Limit::MaxLoad,
            Limit::BelowMinLoad,
            Limit::Stopped,
        ] {
            assert_eq!(serde_json::to_value(limit).expect("a name"), limit.name());
        }
    }
}
