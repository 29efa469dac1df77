//! The account of a bisection: what is asked, the list that is searched, and what is known of it.
//!
//! Which candidate is measured next, and when that is enough, is [`weir_stats::bisect`]'s to say.

mod list;
mod report;
mod show;

use serde::{Deserialize, Serialize};
use weir_stats::bisect::Settings;

use crate::record::TrialRecord;

pub use list::{Entry, List, ListError};
pub use report::{Answer, CandidateReport, ChangeReport, Report};

/// Version of `bisect.json`.
pub const BISECT_SCHEMA: u32 = 1;

/// Invalid runs of a candidate from which on it is passed over, unless more of its runs are valid.
pub(crate) const INVALID_MAX: usize = 3;

/// The most runs of a search: a candidate that has them all has no more iterations.
pub const RUNS_MAX: usize = 1000;

/// What is asked: the content of `bisect.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// [`BISECT_SCHEMA`].
    pub schema: u32,
    /// Name of the candidate that is good, as it was given.
    pub good: String,
    /// Name of the candidate that is bad.
    pub bad: String,
    /// Which series of a candidate is measured: a name or a pattern.
    pub metric: Option<String>,
    /// Probability that an answer needs.
    pub confidence: f64,
    /// The smallest change that matters, as a share of the good level.
    pub margin_ratio: f64,
    /// The most runs, invalid ones included.
    pub runs_max: usize,
}

impl Question {
    /// Whether the other asks for the same list of the same figures: it may differ in how sure
    /// the answer has to be.
    #[must_use]
    pub fn continues(&self, other: &Self) -> bool {
        (&self.good, &self.bad, &self.metric) == (&other.good, &other.bad, &other.metric)
    }

    /// What decides, with that many invalid runs by now.
    #[must_use]
    pub fn settings(&self, invalid: usize) -> Settings {
        Settings {
            confidence: self.confidence,
            margin_ratio: self.margin_ratio,
            measurements_max: self.runs_max.saturating_sub(invalid),
        }
    }
}

/// The runs of one candidate that stand in the store.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    /// Packets per second of the valid ones, in the order of the iterations.
    pub values_pps: Vec<f64>,
    /// Invalid ones.
    pub invalid: usize,
    /// Iteration of the last one.
    pub last: u32,
    /// Why the last invalid one is so.
    pub reason: String,
}

impl Runs {
    /// Counts a run among them.
    pub fn add(&mut self, record: &TrialRecord) {
        self.last = self.last.max(record.iteration);
        if record.verdict.kind.is_void() {
            self.invalid += 1;
            self.reason.clone_from(&record.verdict.reason);
        } else {
            self.values_pps.push(record.result.rate_pps);
        }
    }

    /// Whether the candidate is passed over, because it cannot be measured.
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        self.invalid >= INVALID_MAX && self.invalid > self.values_pps.len()
    }
}
