//! The account of a rate search: what was asked for, what was found, and what limited it.

mod figures;
mod judged;
pub mod record;
pub mod report;
pub mod show;

use std::fmt;

pub use judged::Judged;

use serde::{Deserialize, Serialize};
use weir_stats::search::goal::Goal;
use weir_wire::ethernet::FCS_BYTES;
use weir_wire::sizes::Sizes;

/// What a search is to find out about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// No-drop and partial-drop rates (RFC 9971, RFC 2544 section 26.1).
    Throughput,
    /// Loss by load (RFC 2544 section 26.3).
    LossCurve,
    /// Latency at shares of the throughput (RFC 2544 section 26.2).
    Latency,
    /// Longest bursts without loss (RFC 2544 section 26.4, RFC 9004).
    BackToBack,
}

impl Test {
    /// Every test, in the order in which they are done.
    pub const ALL: [Self; 4] = [Self::Throughput, Self::LossCurve, Self::Latency, Self::BackToBack];

    /// Its name in specifications, folders and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::LossCurve => "loss-curve",
            Self::Latency => "latency",
            Self::BackToBack => "back-to-back",
        }
    }

    /// Whether the throughput must be known for it.
    #[must_use]
    pub const fn needs_throughput(self) -> bool {
        matches!(self, Self::Latency | Self::BackToBack)
    }
}

/// The frame sizes of one search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameSize {
    /// Those of the traffic.
    #[serde(rename = "own")]
    OfTraffic,
    /// One, bytes without FCS.
    Bytes(u16),
    /// The simple Internet mix.
    Imix,
}

impl FrameSize {
    /// The sizes of RFC 2544 section 9.1, which count the FCS.
    pub(crate) const RFC2544_WITH_FCS: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

    /// Those seven.
    #[must_use]
    pub fn rfc2544() -> Vec<Self> {
        Self::RFC2544_WITH_FCS.into_iter().map(|size| Self::Bytes(size - FCS_BYTES)).collect()
    }

    /// What streams are told; `None` leaves them as they are.
    #[must_use]
    pub fn sizes(self) -> Option<Sizes> {
        match self {
            Self::OfTraffic => None,
            Self::Bytes(size_bytes) => Some(Sizes::Fixed(size_bytes)),
            Self::Imix => Some(Sizes::Imix),
        }
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfTraffic => f.write_str("own"),
            Self::Bytes(size_bytes) => size_bytes.fmt(f),
            Self::Imix => f.write_str("imix"),
        }
    }
}

/// Everything that determines a search, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Where the goals' values come from that nobody gave.
    pub preset: String,
    /// The goals, by their loss ratios.
    pub goals: Vec<Goal>,
    /// What is found out.
    pub tests: Vec<Test>,
    /// With which frames.
    pub sizes: Vec<FrameSize>,
    /// The lowest load, packets per second; absent: a thousandth of the highest.
    pub min_load_pps: Option<f64>,
    /// The highest load; absent: what the path carries without a DUT.
    pub max_load_pps: Option<f64>,
    /// Length of the warm-up trial, seconds; absent: none.
    pub warmup_s: Option<f64>,
    /// The longest that one test of one item may take, seconds.
    pub time_max_s: f64,
    /// The most trials of it.
    pub trials_max: u32,
    /// Step of the loss-rate curve, as a share of its maximum.
    pub curve_step_ratio: f64,
    /// Length of its trials, seconds.
    pub curve_trial_s: f64,
    /// Length of a latency measurement, seconds.
    pub latency_trial_s: f64,
    /// Repetitions of it.
    pub latency_repeats: u32,
    /// The longest burst, packets; absent: two seconds of the maximum rate.
    pub burst_packets_max: Option<u64>,
    /// Repetitions of the search for the longest burst.
    pub burst_repeats: u32,
    /// How close the lengths of bursts are in the end.
    pub burst_width_ratio: f64,
    /// How often all of it is done for each item.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeats: u32,
}

/// What results and stores of before there were repetitions mean.
pub(crate) const fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(crate) const fn is_once(repeats: &u32) -> bool {
    *repeats == 1
}
