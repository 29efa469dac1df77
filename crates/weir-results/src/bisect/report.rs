//! What a search says: its answer, and what is known of every candidate.

use serde::Serialize;
use weir_stats::bisect::{Assessment, Step};
use weir_stats::summary::median;

use super::{List, Question, Runs};
use crate::matrix::Series;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// There is none yet.
    Open,
    /// The first bad candidate.
    Found,
    /// One of several that cannot be told apart, because those before the last cannot be measured.
    OneOf,
    /// Nothing changes by the margin or more.
    NoChange,
    /// The limit of runs is reached.
    Undecided,
}

/// The state of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub answer: Answer,
    /// What the list consists of: `dut`, `image`, or the name of a sweep.
    pub dimension: String,
    /// The first bad one; of several that cannot be told apart, the earliest that it may be.
    pub first_bad: Option<String>,
    /// The latest that it may be, where it is one of several.
    pub first_bad_latest: Option<String>,
    /// The one before, which is good.
    pub last_good: Option<String>,
    /// Its posterior probability (of one of several: of all of them; where nothing changes, of
    /// that).
    pub probability: Option<f64>,
    /// The probability that nothing changes by the margin or more.
    pub no_change_probability: f64,
    /// The probability that an answer needs.
    pub confidence: f64,
    /// The smallest change that matters.
    pub margin_ratio: f64,
    /// The most runs.
    pub runs_max: usize,
    /// Runs by now, invalid ones included.
    pub runs: usize,
    /// The levels, once both ends are measured.
    pub change: Option<ChangeReport>,
    /// Every candidate, from the good one to the bad one.
    pub candidates: Vec<CandidateReport>,
    /// The candidate that is measured next.
    pub next: Option<String>,
}

/// The levels on both sides of the most probable change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangeReport {
    /// The good level.
    pub good_pps: f64,
    /// The bad level.
    pub bad_pps: f64,
    /// Bad minus good, as a share of the good level.
    pub change_ratio: f64,
    /// Lower end of its interval at the confidence.
    pub change_low_ratio: f64,
    /// Upper end.
    pub change_high_ratio: f64,
    /// Deviation of single runs, as a share of the good level.
    pub noise_ratio: f64,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateReport {
    pub name: String,
    pub series: String,
    /// Probability that it is the first bad one.
    pub first_bad_probability: f64,
    /// Probability that it is bad, if anything changes.
    pub bad_probability: f64,
    /// Valid runs.
    pub measurements: usize,
    /// Invalid runs.
    pub invalid: usize,
    /// Passed over, because it cannot be measured.
    pub skipped: bool,
    /// Its mean lies on neither level.
    pub misfit: bool,
    /// Median of the valid runs.
    pub median_pps: Option<f64>,
    /// The valid runs, in their order.
    pub values_pps: Vec<f64>,
}

impl Report {
    /// What the runs say by now.
    #[must_use]
    pub fn new(
        series: &[Series],
        list: &List,
        question: &Question,
        runs: &[Runs],
        assessment: &Assessment,
    ) -> Self {
        let name = |index: usize| list.entries[index].name.clone();
        let among = |first: usize, last: usize| assessment.first_bad[first..=last].iter().sum();
        let answer = match assessment.step {
            Step::Measure(_) => Answer::Open,
            Step::Found { first, last } if first == last => Answer::Found,
            Step::Found { .. } => Answer::OneOf,
            Step::NoChange => Answer::NoChange,
            Step::Undecided => Answer::Undecided,
        };
        let (found, probability): (_, Option<f64>) = match assessment.step {
            Step::Found { first, last } => (Some((first, last)), Some(among(first, last))),
            Step::NoChange => (None, Some(assessment.no_change)),
            Step::Measure(_) | Step::Undecided => (None, None),
        };
        let next = match assessment.step {
            Step::Measure(index) => Some(name(index)),
            _ => None,
        };
        let candidate = |(index, runs): (usize, &Runs)| CandidateReport {
            name: name(index),
            series: series[list.entries[index].series_index].name.clone(),
            first_bad_probability: assessment.first_bad[index],
            bad_probability: assessment.is_bad[index],
            measurements: runs.values_pps.len(),
            invalid: runs.invalid,
            skipped: runs.is_skipped(),
            misfit: assessment.misfits.contains(&index),
            median_pps: median(&runs.values_pps),
            values_pps: runs.values_pps.clone(),
        };
        Self {
            answer,
            dimension: list.dimension.clone(),
            first_bad: found.map(|(first, _)| name(first)),
            first_bad_latest: found.filter(|(a, b)| a != b).map(|(_, last)| name(last)),
            last_good: found.map(|(first, _)| name(first - 1)),
            probability,
            no_change_probability: assessment.no_change,
            confidence: question.confidence,
            margin_ratio: question.margin_ratio,
            runs_max: question.runs_max,
            runs: runs.iter().map(|r| r.values_pps.len() + r.invalid).sum(),
            change: assessment.change.map(|change| ChangeReport {
                good_pps: change.good,
                bad_pps: change.bad,
                change_ratio: change.ratio,
                change_low_ratio: change.low_ratio,
                change_high_ratio: change.high_ratio,
                noise_ratio: change.noise_ratio,
            }),
            candidates: runs.iter().enumerate().map(candidate).collect(),
            next,
        }
    }

    /// The candidate that is most probably the first bad one; the first of equal ones.
    #[must_use]
    pub fn most_probable(&self) -> Option<&CandidateReport> {
        self.candidates.iter().skip(1).reduce(|best, one| {
            if one.first_bad_probability > best.first_bad_probability { one } else { best }
        })
    }
}
