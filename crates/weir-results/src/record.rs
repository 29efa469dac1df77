//! What was measured: the records that the store keeps, one `trial.json` per cell.
//!
//! A record is written once and never changed. It holds what was asked, what was done, every
//! counter that was read, the ledger and the verdict. It never holds anything that could be
//! derived from several cells: that is the summary's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counters::Place;
use crate::dut::Dut;
use crate::machine_use::{DutTime, MachineUse};
use crate::matrix::SweepValue;
use crate::toggle::Window;
use crate::traffic::Traffic;

/// Version of the format of `trial.json`.
pub const TRIAL_SCHEMA: u32 = 1;

/// One iteration: the content of `trial.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialRecord {
    /// [`TRIAL_SCHEMA`].
    pub schema: u32,
    /// SHA-256 (hex) of what determines the cell.
    pub cell_id: String,
    /// SHA-256 (hex) of what determines the series.
    pub series_id: String,
    /// Name of the series.
    pub series: String,
    /// Iteration, from 1; 0 for a calibration.
    pub iteration: u32,
    /// Image, on testbeds that have images.
    pub image: Option<String>,
    /// The DUT as it was configured; absent for a calibration.
    pub dut: Option<Dut>,
    /// Values of the sweeps.
    pub sweep: Vec<(String, SweepValue)>,
    pub traffic: Traffic,
    /// What was asked and done, in time.
    pub times: Times,
    /// The figure and its spread inside the trial.
    pub result: TrialResult,
    /// One-way latency; absent where it was not asked for, or nothing arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// CPU time per packet; absent where the DUT's system or its counters do not tell, and of
    /// calibrations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What was counted with either setting of a DUT with a toggle, in the order of time; figure
    /// and cost are then those of the windows with `off`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Where the packets went.
    pub ledger: Ledger,
    /// Of a traffic with several generators, what went each way: all of the above is their sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<Direction>,
    /// What the figure is worth.
    pub verdict: Verdict,
    /// What was checked before, during and after.
    pub checks: Vec<Check>,
    /// Counters by source and name: the difference over the generator's run.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// Sizes and numbers that the DUT told after the measurement: states, bytes of a table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: BTreeMap<String, u64>,
    /// What the DUT's machine did meanwhile, or the one that carries generator and DUT; absent
    /// where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineUse>,
    /// The same of the other machines, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub machines: BTreeMap<String, MachineUse>,
    /// Namespaced kernel settings of the DUT that differ from a fresh one: name → (fresh, used).
    pub sysctls_changed: BTreeMap<String, (String, String)>,
}

impl TrialRecord {
    /// What went to neither the lab nor the DUT, 0 to 1, by CPU; those of other machines under
    /// their names.
    #[must_use]
    pub fn foreign_ratios(&self) -> BTreeMap<String, f64> {
        let first = self.machine.iter().map(|machine| ("", machine));
        let others = self.machines.iter().map(|(name, machine)| (name.as_str(), machine));
        let mut ratios = BTreeMap::new();
        for (name, machine) in first.chain(others) {
            for (cpu, used) in &machine.cpus {
                let cpu = format!("{name} {cpu}").trim_start().to_owned();
                ratios.extend(used.foreign_ratio.map(|ratio| (cpu, ratio)));
            }
        }
        ratios
    }
}

/// Times of a trial. Absolute times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// When the building of the testbed began.
    pub started_utc: String,
    /// When the testbed was gone again.
    pub finished_utc: String,
    /// Requested length of the warm-up.
    pub warmup_ns: u64,
    /// Requested length of the measurement.
    pub duration_ns: u64,
    /// Measured length: from the first to the last sample.
    pub measured_ns: u64,
    /// Requested pause before the counters were read.
    pub drain_ns: u64,
    /// Requested distance of the samples.
    pub sample_ns: u64,
    /// Duration of each phase, in order.
    pub phases: Vec<Phase>,
}

/// One phase of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// `build`, `boot`, `configure`, `probe`, `prime`, `warmup`, `measure`, `drain`, `latency`,
    /// `teardown`.
    pub name: String,
    /// How long it took.
    pub duration_ns: u64,
}

/// The figure of a trial. Rates are of what its traffic's [`crate::unit::Unit`] says: packets, or
/// connections. Of connections that stay open, they are numbers of these and not rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Median of the samples: packets per second delivered at the sink.
    pub rate_pps: f64,
    /// Smallest sample.
    pub rate_pps_min: f64,
    /// Largest sample.
    pub rate_pps_max: f64,
    /// Number of samples.
    pub sample_count: usize,
    /// Packets per second offered during the measurement.
    pub offered_pps: f64,
    /// Packets per second asked for; absent for "as fast as possible".
    pub requested_pps: Option<f64>,
    /// Theil–Sen trend over the trial, relative to the median; absent if there are too few samples
    /// or their median is 0.
    pub trend_ratio: Option<f64>,
    /// Largest shift of the level inside the trial, relative to the median; absent as above.
    pub jump_ratio: Option<f64>,
}

/// What went one way, of a traffic with several generators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// From which port of the DUT to which: `dut0 → dut1`; `to dut1` in a full mesh, of whose
    /// packets nobody counts where each came from.
    pub name: String,
    /// What was delivered that way; in a full mesh, what is offered is of the generator that sends
    /// to the other port of the link.
    pub result: TrialResult,
    /// Where its packets went. The DUT's counters do not tell directions apart: what it lost is
    /// `inside_the_dut`.
    pub ledger: Ledger,
    /// One-way latency; absent where it was not asked for, or nothing arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// Distribution of one-way latencies from the generator to the sink, by one clock, in nanoseconds.
/// Quantiles are within 1/64; all are 0 without a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// Packets whose latency was measured.
    pub sample_count: u64,
    /// The smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// What 90 % do not exceed.
    pub p90_ns: u64,
    /// What 99 % do not exceed.
    pub p99_ns: u64,
    /// What 99.9 % do not exceed.
    pub p999_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

impl Delays {
    /// Names of what [`Delays::in_order`] gives.
    pub const NAMES: [&str; 6] = ["min", "p50", "p90", "p99", "p99_9", "max"];

    /// The smallest, the quantiles in their order, the largest.
    #[must_use]
    pub const fn in_order(&self) -> [u64; 6] {
        [self.min_ns, self.p50_ns, self.p90_ns, self.p99_ns, self.p999_ns, self.max_ns]
    }
}

/// One-way latency from the generator to the sink, measured in a phase of its own after the
/// measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Packets per second that were asked for in that phase.
    pub rate_pps: f64,
    /// Packets offered in that phase.
    pub offered_packets: u64,
    /// Packets that arrived.
    pub delivered_packets: u64,
    /// How long those took that were measured.
    #[serde(flatten)]
    pub delays: Delays,
}

/// What a packet costs the DUT: its CPU time during the generator's run, warm-up included, by the
/// packets that it received in that time. It hardly depends on what else a shared machine does; at
/// rates that leave a CPU idle a packet costs more, because fewer of them are handled at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Nanoseconds per packet.
    pub cost_ns: f64,
    /// The part of it, 0 to 1, that is the sink's work on the DUT's CPUs; absent where the sink is
    /// elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apparatus_ratio: Option<f64>,
    /// CPU time of the DUT.
    pub run_ns: u64,
    /// Packets that it received.
    pub packets: u64,
    /// How many CPUs that kept busy, on average: what is left of the DUT's was idle, or went to
    /// something else. Absent where the length of the run is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cpus: Option<f64>,
}

impl Cost {
    /// The cost of the packets that a DUT received; `None` if it received none, or nothing counted
    /// them.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "packets and times of a run are below 2^53")]
    pub fn of(time: DutTime, ledger: &Ledger) -> Option<Self> {
        let received = ledger.points.iter().find(|point| point.name == "dut_received")?;
        let (run_ns, packets) = (time.run_ns, received.packets);
        let part = |sink_ns: u64| if run_ns == 0 { 0.0 } else { sink_ns as f64 / run_ns as f64 };
        let elapsed_ns = time.elapsed_ns;
        (packets > 0).then(|| Self {
            cost_ns: run_ns as f64 / packets as f64,
            apparatus_ratio: time.sink_ns.map(part),
            run_ns,
            packets,
            busy_cpus: (elapsed_ns > 0).then(|| run_ns as f64 / elapsed_ns as f64),
        })
    }

    /// That of several runs together; `None` without one.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "packets and times of runs are below 2^53")]
    pub fn together(costs: &[Self]) -> Option<Self> {
        let run_ns = costs.iter().map(|cost| cost.run_ns).sum::<u64>();
        let packets = costs.iter().map(|cost| cost.packets).sum::<u64>();
        let all_ns = run_ns as f64;
        let of_all = |part: fn(&Self) -> Option<f64>| costs.iter().map(part).sum::<Option<f64>>();
        let sink_ns = of_all(|cost| Some(cost.apparatus_ratio? * cost.run_ns as f64));
        let elapsed_ns = of_all(|cost| Some(cost.run_ns as f64 / cost.busy_cpus?));
        (packets > 0).then(|| Self {
            cost_ns: all_ns / packets as f64,
            apparatus_ratio: sink_ns.filter(|_| run_ns > 0).map(|sink_ns| sink_ns / all_ns),
            run_ns,
            packets,
            busy_cpus: elapsed_ns.filter(|ns| *ns > 0.0).map(|elapsed_ns| all_ns / elapsed_ns),
        })
    }
}

/// The five counting points of a packet's way, in order, and the drops between them. Of
/// connections, the points are their steps, each counted by one of the ends, and every number of
/// packets is one of connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// `offered`, `accepted`, `dut_received`, `dut_forwarded`, `delivered`; a calibration has no
    /// `dut_…` points. Of connections `syn_sent`, `syn_seen` and so on.
    pub points: Vec<Point>,
    /// Named losses between the points.
    pub drops: Vec<Drop>,
    /// What no counter explains: Σ over the gaps of |gap − named drops|, in packets.
    pub residual_packets: u64,
    /// The residual as a share of `offered`.
    pub residual_ratio: f64,
    /// Gaps where more came out than went in, in words. Not empty means the trial is invalid.
    pub faults: Vec<String>,
    /// What is uncertain about the names of losses, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A counting point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Name out of CLI vocabulary.
    pub name: String,
    pub packets: u64,
    /// The counter it was read from.
    pub source: String,
}

/// A named loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// Name of the counter.
    pub name: String,
    pub packets: u64,
    /// The counting point after which they were lost.
    pub after: String,
    /// Whose loss it is.
    pub place: Place,
    /// The counter it was read from.
    pub source: String,
}

/// A verdict and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub kind: VerdictKind,
    /// The reason, in words, with the numbers that decided.
    pub reason: String,
}

/// The closed list of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The DUT is what limited the figure.
    DutBound,
    /// A ring of the DUT is, which overran while its CPUs were idle in between.
    RingBound,
    /// The DUT forwarded all that was offered.
    GeneratorBound,
    /// The path limited the figure.
    LinkBound,
    /// The sink limited the figure.
    SinkBound,
    /// The DUT lived and delivered next to nothing.
    Overloaded,
    /// The samples trend or jump.
    Unstable,
    /// Something else ran on the machine, or its host had moved its CPUs: the figure takes part in
    /// nothing.
    Disturbed,
    /// The figure is void.
    Invalid,
}

impl VerdictKind {
    /// Every verdict.
    pub const ALL: [Self; 9] = [
        Self::DutBound,
        Self::RingBound,
        Self::GeneratorBound,
        Self::LinkBound,
        Self::SinkBound,
        Self::Overloaded,
        Self::Unstable,
        Self::Disturbed,
        Self::Invalid,
    ];

    /// Its name in reports and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DutBound => "dut-bound",
            Self::RingBound => "ring-bound",
            Self::GeneratorBound => "generator-bound",
            Self::LinkBound => "link-bound",
            Self::SinkBound => "sink-bound",
            Self::Overloaded => "overloaded",
            Self::Unstable => "unstable",
            Self::Disturbed => "disturbed",
            Self::Invalid => "invalid",
        }
    }

    /// Whether the figure takes part in nothing: no median, no comparison.
    #[must_use]
    pub fn is_void(self) -> bool {
        matches!(self, Self::Disturbed | Self::Invalid)
    }

    /// Whether the figure may prove something beside others: one of samples that trend or jump is
    /// shown, and is not steady enough for that.
    #[must_use]
    pub fn may_prove(self) -> bool {
        !self.is_void() && self != Self::Unstable
    }

    /// Whether the figure is what the DUT can do; of the others it can do at least the figure. One
    /// that a ring limited is not: bursts made it, and whoever sent or delayed them.
    #[must_use]
    pub fn is_dut_limited(self) -> bool {
        matches!(self, Self::DutBound | Self::Overloaded)
    }
}

/// One check of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// `probe-before`, `configuration`, `flows`, `probe-after`, ….
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// What was seen.
    pub detail: String,
}

/// One line of `samples.csv`: cumulative counts since the start of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Nanoseconds since the first reading of the measurement.
    pub t_ns: u64,
    /// Packets received by the sink since then, or connections that came through.
    pub rx_packets: u64,
    /// Bytes received, without FCS; of connections they are not counted.
    pub rx_bytes: u64,
    /// Packets offered since then, or connections opened.
    pub tx_packets: u64,
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_together_cost_what_they_took_for_all_their_packets() {
        let cost = |run_ns, packets, apparatus_ratio, busy_cpus| Cost {
            cost_ns: 0.0,
            apparatus_ratio,
            run_ns,
            packets,
            busy_cpus,
        };
        let short = cost(1_000, 10, Some(0.1), Some(0.5));
        let both = Cost::together(&[cost(3_000, 10, Some(0.5), Some(1.0)), short]);
        let both = both.expect("packets");
        assert_eq!((both.cost_ns, both.run_ns, both.packets), (200.0, 4_000, 20));
        assert!((both.apparatus_ratio.expect("known") - 0.4).abs() < 1e-12);
        assert!((both.busy_cpus.expect("known") - 0.8).abs() < 1e-12);
        let elsewhere = Cost::together(&[cost(3_000, 10, None, None), short]);
        let elsewhere = elsewhere.expect("packets");
        assert_eq!((elsewhere.apparatus_ratio, elsewhere.busy_cpus), (None, None));
        assert_eq!(Cost::together(&[]), None);
    }

    use super::*;

    fn ledger(points: &[(&str, u64)]) -> Ledger {
        let point = |&(name, packets): &(&str, u64)| Point {
            name: name.to_owned(),
            packets,
            source: "a counter".to_owned(),
        };
        Ledger {
            points: points.iter().map(point).collect(),
            drops: Vec::new(),
            residual_packets: 0,
            residual_ratio: 0.0,
            faults: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_packet_costs_what_the_dut_ran_for_those_it_received() {
        let time = DutTime { run_ns: 3_000_000, sink_ns: Some(750_000), elapsed_ns: 4_000_000 };
        let received = ledger(&[("offered", 9_000), ("dut_received", 3_000), ("delivered", 10)]);
        let cost = Cost::of(time, &received).unwrap();
        assert_eq!((cost.cost_ns, cost.apparatus_ratio), (1_000.0, Some(0.25)));
        assert_eq!(cost.busy_cpus, Some(0.75));
        let elsewhere = Cost::of(DutTime { sink_ns: None, ..time }, &received).unwrap();
        assert_eq!(elsewhere.apparatus_ratio, None);
        // A calibration, a DUT whose counters are not known, and one that received nothing.
        assert_eq!(Cost::of(time, &ledger(&[("offered", 9_000), ("delivered", 9_000)])), None);
        assert_eq!(Cost::of(time, &ledger(&[("dut_received", 0)])), None);
    }
}
