//! The matrix that a campaign measures: its series, and how often each is measured.

use serde::{Deserialize, Serialize};
use weir_stats::number::percent;
use weir_stats::{Level, stopping};

use crate::dut::Dut;
use crate::traffic::Traffic;

/// The `[campaign]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Name: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Iterations of every series; the most of them where `auto` is there.
    pub iterations: u32,
    /// When a series is stopped before that; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoIterations>,
    /// Order of the cells.
    pub order: Order,
    /// Seed of the randomised blocks.
    pub seed: u64,
}

/// What `iterations = "auto"` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AutoIterations {
    /// Half width of the interval that stops a series, as a share of its mean.
    pub half_width_ratio: f64,
    /// Confidence of that interval, in per cent.
    pub confidence_percent: f64,
    /// Fewest valid iterations of a series.
    pub iterations_min: u32,
}

impl AutoIterations {
    /// The half width in per cent.
    #[must_use]
    pub fn half_width_percent(&self) -> f64 {
        percent(self.half_width_ratio)
    }
}

impl Campaign {
    /// How many iterations a series has, for people: `5`, or `5 to 30`.
    #[must_use]
    pub fn iterations_text(&self) -> String {
        match self.iterations_min() {
            least if least < self.iterations => format!("{least} to {}", self.iterations),
            _ => self.iterations.to_string(),
        }
    }

    /// The fewest iterations of a series.
    #[must_use]
    pub fn iterations_min(&self) -> u32 {
        self.auto.map_or(self.iterations, |auto| auto.iterations_min)
    }

    /// The rule that stops a series early, with `iterations = "auto"`.
    #[must_use]
    pub fn stopping_rule(&self) -> Option<stopping::Rule> {
        let auto = self.auto?;
        Some(stopping::Rule {
            half_width_ratio: auto.half_width_ratio,
            level: Level::from_percent(auto.confidence_percent).unwrap_or_default(),
            values_min: usize::try_from(auto.iterations_min).unwrap_or(usize::MAX),
            runs_max: usize::try_from(self.iterations).unwrap_or(usize::MAX),
        })
    }
}

/// In which order the cells of a campaign run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Randomised blocks: each block holds every series once, shuffled by the seed.
    Interleaved,
    /// Series by series, as written.
    Sequential,
}

/// A value of a sweep: as written, and as a number where it is one (`64Ki` is 65,536).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepValue {
    /// As written in the specification.
    pub label: String,
    /// Its numeric value, if it has one.
    pub number: Option<f64>,
}

/// One point of the matrix image × DUT × sweep values × traffic.
#[derive(Debug, Clone)]
pub struct Series {
    /// Name, and folder in the store: `[<image>.]<dut>[.<sweep>=<value>…].<traffic>`.
    pub name: String,
    /// SHA-256 (hex) of everything that determines the series.
    pub id: String,
    /// The image, on testbeds that have images.
    pub image: Option<String>,
    /// The DUT, substituted.
    pub dut: Dut,
    /// Values of the sweeps, in their order.
    pub sweep: Vec<(String, SweepValue)>,
    /// The traffic, substituted.
    pub traffic: Traffic,
}
