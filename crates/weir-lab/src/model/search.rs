//! The `[search]` table: what is searched for, and how.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_stats::search::goal::Preset;
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
    Own,
    /// One, bytes without FCS.
    Bytes(u16),
    /// The simple Internet mix.
    Imix,
}

impl FrameSize {
    /// The sizes of RFC 2544 section 9.1, which count the FCS.
    pub const RFC2544_WITH_FCS: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

    /// Those seven.
    #[must_use]
    pub fn rfc2544() -> Vec<Self> {
        Self::RFC2544_WITH_FCS.into_iter().map(|size| Self::Bytes(size - FCS_BYTES)).collect()
    }

    /// What streams are told; `None` leaves them as they are.
    #[must_use]
    pub fn sizes(self) -> Option<Sizes> {
        match self {
            Self::Own => None,
            Self::Bytes(size_bytes) => Some(Sizes::Fixed(size_bytes)),
            Self::Imix => Some(Sizes::Imix),
        }
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::Bytes(size_bytes) => size_bytes.fmt(f),
            Self::Imix => f.write_str("imix"),
        }
    }
}

/// The `[search]` table as far as it is written; the rest is the preset's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchTable {
    /// Durations and exceed ratio of all goals.
    pub preset: Option<Preset>,
    /// The goals' loss ratios.
    pub loss_ratios: Option<Vec<f64>>,
    /// Length of a full trial.
    pub trial: Option<Duration>,
    /// Trial time that decides about a load.
    pub duration_sum: Option<Duration>,
    /// The share of trial time that may be bad.
    pub exceed_ratio: Option<f64>,
    /// How close bounds are in the end.
    pub width_ratio: Option<f64>,
    /// Length of the first trials.
    pub first_trial: Option<Duration>,
    /// What is found out.
    pub tests: Option<Vec<Test>>,
    /// With which frames.
    pub sizes: Option<Vec<FrameSize>>,
    /// The lowest load.
    pub min_load_pps: Option<f64>,
    /// The highest load; absent: what the path carries without a DUT.
    pub max_load_pps: Option<f64>,
    /// Length of the warm-up trial; zero: none.
    pub warmup: Option<Duration>,
    /// The longest that one test of one item may take.
    pub time_max: Option<Duration>,
    /// The most trials of it.
    pub trials_max: Option<u32>,
    /// Step of the loss-rate curve, as a share of its maximum.
    pub curve_step_ratio: Option<f64>,
    /// Length of its trials.
    pub curve_trial: Option<Duration>,
    /// Length of a latency measurement.
    pub latency_trial: Option<Duration>,
    /// Repetitions of it.
    pub latency_repeats: Option<u32>,
    /// The longest burst, packets.
    pub burst_packets_max: Option<u64>,
    /// Repetitions of the search for the longest burst.
    pub burst_repeats: Option<u32>,
    /// How close the lengths of bursts are in the end.
    pub burst_width_ratio: Option<f64>,
}
