//! Finds the first bad one of an ordered list by noisy measurements.
//!
//! The list begins with a candidate that is good and ends with one that is bad; between them the
//! figure changes **once**, from one level to another, and stays. The hypotheses are "number `k`
//! is the first bad one", all equally likely beforehand, and "nothing changes", as likely as all
//! of them together ([`NO_CHANGE_PRIOR`]). A change is at least the margin, up or down; its size
//! has a Cauchy prior, cut at the margin ([`CHANGE_SCALE`]). Levels and noise are unknown and are
//! integrated out, as for two groups with a common deviation (Jeffreys, *Theory of Probability*,
//! §5.2).
//!
//! One bad boot must not decide: beyond [`CLIP`] deviations from both levels, and from the median
//! of its candidate where that has three measurements, the weight of a measurement falls with the
//! eighth power of its distance, so that it soon has no say; and no answer rests on a single
//! measurement of a neighbour of the change ([`CONFIRM_MIN`]).
//!
//! What is measured next follows from the posterior: an end of the list while it is open whether
//! anything changes, and to know the levels as well as the candidates; else the candidate of which
//! it is most uncertain whether it is bad (Horstein's probabilistic bisection). All of it is a
//! function of the measurements alone, in any order: a search can be interrupted at any time.
//!
//! A list that changes more than once is beyond the model. The answer is then the split that
//! explains most, and [`Assessment::misfits`] names the candidates that lie on neither level.

use crate::student_t;
use crate::summary::median;

mod fit;
mod next;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use fit::Fit;

/// Measurements of each end before anything is computed.
pub(crate) const ENDS_MIN: usize = 3;

/// Measurements of the last good and the first bad candidate, before they are called so.
pub(crate) const CONFIRM_MIN: usize = 2;

/// The doubt that is left where a search stops with a place, as a part of what the confidence
/// allows. Under one, because looking after each measurement picks the moments of chance, and the
/// size of the change is not known: the simulations hold the answers to the confidence.
pub(crate) const FOUND_DOUBT: f64 = 0.5;

/// The same for "nothing changes", which a small change resembles for a long time.
pub(crate) const NO_CHANGE_DOUBT: f64 = 0.2;

/// The probability, before any measurement, that nothing changes between the ends.
pub(crate) const NO_CHANGE_PRIOR: f64 = 0.5;

/// Scale of the prior of the change's size, as a share of the good level: half of all changes are
/// taken to be larger.
pub(crate) const CHANGE_SCALE: f64 = 0.02;

/// Distance from both levels, in deviations, beyond which a measurement loses weight.
pub(crate) const CLIP: f64 = 3.5;

/// Smallest noise that is believed, as a share of the good level: figures that repeat exactly say
/// nothing about smaller differences.
pub(crate) const NOISE_MIN_RATIO: f64 = 1e-4;

/// Distance between a candidate's mean and its level, in standard errors, beyond which it fits
/// neither.
const MISFIT: f64 = 4.0;

/// When to stop, and what counts as a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Posterior probability that an answer needs, above 0.5 and below 1. A search goes on to a
    /// little more ([`FOUND_DOUBT`], [`NO_CHANGE_DOUBT`]) while the limit allows it.
    pub confidence: f64,
    /// The smallest change that matters, as a share of the good level, above 0 and below 1.
    pub margin_ratio: f64,
    /// The most measurements, of all candidates together.
    pub measurements_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { confidence: 0.95, margin_ratio: 0.01, measurements_max: 1000 }
    }
}

/// One entry of the list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidate<'a> {
    /// Its measurements, in one unit for all candidates.
    pub values: &'a [f64],
    /// Whether it cannot be measured: it is passed over, as by `git bisect skip`.
    pub skipped: bool,
}

/// Why there is nothing to compute.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BisectError {
    /// Too short a list.
    #[error("a list of {count} has no first bad one: it needs a good one and a bad one")]
    TooFew {
        /// Its length.
        count: usize,
    },
    /// A measurement is not a number.
    #[error("a measurement of candidate number {index} is not finite")]
    NotFinite {
        /// The candidate, from 0.
        index: usize,
    },
    /// An end cannot be measured.
    #[error("candidate number {index}, an end of the list, cannot be measured")]
    NoEnd {
        /// The candidate, from 0.
        index: usize,
    },
    /// A setting out of its range.
    #[error("the confidence must be between 0.5 and 1, and the margin between 0 and 1")]
    Settings,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Measure this candidate once more.
    Measure(usize),
    /// One of the candidates from `first` to `last` is the first bad one: a single one, unless
    /// those between cannot be measured.
    Found {
        /// The earliest that it may be.
        first: usize,
        /// The latest that it may be, which is bad.
        last: usize,
    },
    /// Between the ends nothing changes by the margin or more.
    NoChange,
    /// The limit of measurements is reached.
    Undecided,
}

/// The difference between the levels, at the most probable change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The good level, in the unit of the measurements.
    pub good: f64,
    /// The bad level.
    pub bad: f64,
    /// Bad minus good, as a share of the good level (of the largest figure, if that is 0).
    pub ratio: f64,
    /// Lower end of its interval, at the confidence asked for.
    pub low_ratio: f64,
    /// Upper end.
    pub high_ratio: f64,
    /// Deviation of a single measurement from its level, as a share of the good level.
    pub noise_ratio: f64,
}

/// What the measurements say.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    /// For each candidate, the probability that it is the first bad one; 0 for the good end.
    pub first_bad: Vec<f64>,
    /// The probability that nothing changes. With `first_bad` it sums to 1.
    pub no_change: f64,
    /// For each candidate, the probability that it is bad, if anything changes.
    pub is_bad: Vec<f64>,
    /// The levels and their difference; absent until both ends are measured.
    pub change: Option<Change>,
    /// Candidates whose mean lies far from the level that they are on: the list may change more
    /// than once, or the figure of that candidate may have several levels of its own.
    pub misfits: Vec<usize>,
    /// What to do next.
    pub step: Step,
}

/// What the measurements of the list say, and what to do next.
///
/// # Errors
/// When the list is too short, a measurement is not finite, an end is skipped, or a setting is out
/// of its range.
pub fn assess(
    candidates: &[Candidate<'_>],
    settings: &Settings,
) -> Result<Assessment, BisectError> {
    check(candidates, settings)?;
    let last = candidates.len() - 1;
    let measured = |index: usize| candidates[index].values.len();
    let few = [0, last].into_iter().filter(|end| measured(*end) < ENDS_MIN);
    if let Some(end) = few.min_by_key(|end| measured(*end)) {
        return Ok(unmeasured(candidates, end, settings));
    }
    let fit = Fit::of(candidates, settings.margin_ratio);
    let posterior = fit.posterior();
    let most = fit::most_probable(&posterior.first_bad);
    let change = fit.change(most, settings.confidence);
    Ok(Assessment {
        step: next::step(candidates, &posterior, &fit, settings),
        misfits: fit.misfits(most),
        is_bad: next::is_bad(&posterior.first_bad),
        first_bad: posterior.first_bad,
        no_change: posterior.no_change,
        change: Some(change),
    })
}

fn check(candidates: &[Candidate<'_>], settings: &Settings) -> Result<(), BisectError> {
    let Settings { confidence, margin_ratio, .. } = *settings;
    let (Some(first), Some(last)) = (candidates.first(), candidates.get(1..).and_then(<[_]>::last))
    else {
        return Err(BisectError::TooFew { count: candidates.len() });
    };
    if !(confidence > 0.5 && confidence < 1.0 && margin_ratio > 0.0 && margin_ratio < 1.0) {
        return Err(BisectError::Settings);
    }
    for (index, end) in [(0, first), (candidates.len() - 1, last)] {
        if end.skipped {
            return Err(BisectError::NoEnd { index });
        }
    }
    let broken = |candidate: &Candidate<'_>| candidate.values.iter().any(|v| !v.is_finite());
    match candidates.iter().position(broken) {
        Some(index) => Err(BisectError::NotFinite { index }),
        None => Ok(()),
    }
}

/// Before the ends are measured: the prior.
fn unmeasured(candidates: &[Candidate<'_>], end: usize, settings: &Settings) -> Assessment {
    let changes = candidates.len() - 1;
    let each = (1.0 - NO_CHANGE_PRIOR) / changes as f64;
    let mut first_bad = vec![each; candidates.len()];
    first_bad[0] = 0.0;
    let spent = candidates.iter().map(|c| c.values.len()).sum::<usize>();
    Assessment {
        is_bad: next::is_bad(&first_bad),
        first_bad,
        no_change: NO_CHANGE_PRIOR,
        change: None,
        misfits: Vec::new(),
        step: if spent < settings.measurements_max { Step::Measure(end) } else { Step::Undecided },
    }
}
