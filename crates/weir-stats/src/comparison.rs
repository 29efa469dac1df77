//! Two series compared: one entry for everything that may be said about them.
//!
//! [`family`] takes all comparisons that are read together (a campaign's, a report's), because what
//! may be claimed depends on how many questions were asked ([`crate::holm`]). Each comparison gets:
//! the difference of the means in units and relative to the baseline, both with intervals
//! ([`crate::welch`]); the Mann–Whitney test and the Hodges–Lehmann shift beside it
//! ([`crate::rank`]); where a margin was given, the tests of equivalence ([`crate::equivalence`]);
//! what the test could have found ([`crate::power`]); warnings about either series
//! ([`crate::warning`]); and one [`Word`].
//!
//! Words are about rates, of which more is better, or about costs ([`Question::of_costs`]), of
//! which less is. There is none for "no difference". A word is claimed only
//! after Holm's correction, and its "at least" is the end of an interval at Bonferroni's level, so
//! that all words of a family hold together. Differences, equivalences and excluded losses are each
//! a family of their own: not all words of all kinds hold together.

use std::fmt;

use crate::equivalence::Equivalence;
use crate::holm;
use crate::interval::{Interval, Level};
use crate::number::percent;
use crate::power::{self, POWER};
use crate::rank::{self, MannWhitney, Shift};
use crate::summary::Summary;
use crate::warning::{self, Warning};
use crate::welch::{Welch, WelchError};

/// Two series, in the order of their measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair<'a> {
    /// The one compared with.
    pub baseline: &'a [f64],
    /// The one compared.
    pub other: &'a [f64],
}

/// What is asked of a family of comparisons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    level: Level,
    margin_ratio: Option<f64>,
    better: Better,
}

/// Which values are the better ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The larger ones: rates.
    More,
    /// The smaller ones: costs.
    Less,
}

/// A margin that is none.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{} % is not a margin: it must be above 0 and below 100 %", .0 * 100.0)]
pub struct BadMargin(f64);

impl Question {
    /// Asks at `level`, and for equivalence within `margin_ratio`, a share of the baseline's mean.
    ///
    /// # Errors
    /// [`BadMargin`] unless the margin is above 0 and below 1.
    pub fn new(level: Level, margin_ratio: Option<f64>) -> Result<Self, BadMargin> {
        match margin_ratio {
            Some(margin) if !(margin > 0.0 && margin < 1.0) => Err(BadMargin(margin)),
            _ => Ok(Self { level, margin_ratio, better: Better::More }),
        }
    }

    /// The same, asked of costs.
    #[must_use]
    pub const fn of_costs(self) -> Self {
        Self { better: Better::Less, ..self }
    }

    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The margin, as a share of the baseline's mean.
    #[must_use]
    pub const fn margin_ratio(&self) -> Option<f64> {
        self.margin_ratio
    }
}

/// How large a difference is; never without its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The estimate.
    pub value: f64,
    /// Its interval; the upper end of a relative one may be infinite.
    pub interval: Interval,
}

impl Effect {
    /// A relative one in per cent, estimate and interval: `−2.10 %` and `−2.61 % to −1.50 %`. The
    /// ends are rounded outwards, as the sizes in words are, so that both are the same number.
    #[must_use]
    pub fn percent(&self) -> (String, String) {
        let percent = |value: f64| format!("{value:+.2} %").replace('-', "\u{2212}");
        let Interval { low, high } = self.interval;
        let low = percent((low * 1e4).floor() / 100.0);
        let interval = match high.is_finite() {
            true => format!("{low} to {}", percent((high * 1e4).ceil() / 100.0)),
            false => format!("{low} or more"),
        };
        (percent(self.value * 100.0), interval)
    }
}

/// The tests of equivalence, with their p-values after Holm's correction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdjustedEquivalence {
    pub tests: Equivalence,
    /// p-value of "they differ by the margin or more", adjusted.
    pub adjusted_p_value: f64,
    /// p-value of "a loss of the margin or more", of costs a rise, adjusted.
    pub adjusted_p_loss: f64,
}

/// What may be said of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Word {
    /// The other's mean is larger, by at least this share of the baseline's: 0 if only the
    /// direction is sure.
    Faster {
        /// The share.
        at_least_ratio: f64,
    },
    /// The other's mean is smaller, by at least this share of the baseline's: 0 if only the
    /// direction is sure.
    Slower {
        /// The share.
        at_least_ratio: f64,
    },
    /// Neither a gain nor a loss of the margin or more.
    Equivalent {
        /// The margin, a share of the baseline's mean.
        margin_ratio: f64,
    },
    /// No loss of the margin or more; of a gain nothing is known.
    NotWorse {
        /// The margin, a share of the baseline's mean.
        margin_ratio: f64,
    },
    /// The other costs less, by at least this share of the baseline's mean.
    Cheaper {
        /// The share.
        at_least_ratio: f64,
    },
    /// The other costs more, by at least this share of the baseline's mean.
    Dearer {
        /// The share.
        at_least_ratio: f64,
    },
    /// It does not cost more by the margin or more; whether it costs less is not known.
    NotDearer {
        /// The margin, a share of the baseline's mean.
        margin_ratio: f64,
    },
    /// These values decide nothing.
    Undecided,
}

impl Word {
    /// The word alone, in data.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Faster { .. } => "faster",
            Self::Slower { .. } => "slower",
            Self::Equivalent { .. } => "equivalent",
            Self::NotWorse { .. } => "not-worse",
            Self::Cheaper { .. } => "cheaper",
            Self::Dearer { .. } => "dearer",
            Self::NotDearer { .. } => "not-dearer",
            Self::Undecided => "undecided",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Faster { at_least_ratio }
            | Self::Slower { at_least_ratio }
            | Self::Cheaper { at_least_ratio }
            | Self::Dearer { at_least_ratio } => {
                f.write_str(self.name())?;
                // Rounded down, so that what is printed is claimed.
                let percent = (at_least_ratio * 1e4).floor() / 100.0;
                if percent > 0.0 { write!(f, " by at least {percent:.2} %") } else { Ok(()) }
            }
            Self::Equivalent { margin_ratio } => {
                write!(f, "equivalent within {} %", percent(margin_ratio))
            }
            Self::NotWorse { margin_ratio } => {
                write!(f, "no loss above {} %", percent(margin_ratio))
            }
            Self::NotDearer { margin_ratio } => {
                write!(f, "no rise above {} %", percent(margin_ratio))
            }
            Self::Undecided => f.write_str("undecided"),
        }
    }
}

/// Two series compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What was asked.
    pub question: Question,
    /// How many comparisons the family has, this one included.
    pub family_size: usize,
    /// The series compared with.
    pub baseline: Summary,
    /// The other one.
    pub other: Summary,
    /// Mean of the other minus mean of the baseline, in the values' unit, by Welch. This interval
    /// and the next are at the level that each of the family needs so that all of them hold
    /// together (Bonferroni): where no difference is proven, they contain 0.
    pub difference: Effect,
    /// The same as a share of the baseline's mean, by Fieller: 0.02 is 2 % more; never below −1.
    pub relative: Effect,
    /// Two-sided p-value of Welch's test.
    pub p_value: f64,
    /// The same, adjusted for the family by Holm.
    pub adjusted_p_value: f64,
    /// The Mann–Whitney test.
    pub rank: MannWhitney,
    /// The Hodges–Lehmann shift, in the values' unit.
    pub shift: Shift,
    /// The shift of the logarithms as a share, 0.02 for 2 % more; `None` if a value is not above
    /// zero.
    pub relative_shift: Option<Shift>,
    /// The tests of equivalence, if a margin was given.
    pub equivalence: Option<AdjustedEquivalence>,
    /// The smallest true difference, as a share of the baseline's mean, that would have been
    /// proven within the family with probability [`POWER`].
    pub detectable_ratio: f64,
    /// What may be said.
    pub word: Word,
    /// What the baseline shows beside its figures.
    pub baseline_warnings: Vec<Warning>,
    /// What the other series shows beside its figures.
    pub other_warnings: Vec<Warning>,
    welch: Welch,
}

impl Comparison {
    /// What a word stands on: difference, interval and p-value.
    #[must_use]
    pub fn evidence(&self) -> String {
        let (value, interval) = self.relative.percent();
        let (level, p) = (self.question.level, p_text(self.adjusted_p_value));
        let together = match self.family_size {
            1 => String::new(),
            size => format!(", for all {size} together"),
        };
        format!("{value}, {interval} at {level}, p {p}{together}")
    }

    /// Welch's t and degrees of freedom.
    #[must_use]
    pub fn t(&self) -> (f64, f64) {
        (self.welch.t(), self.welch.degrees_of_freedom())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.word, self.evidence())
    }
}

/// A p-value with as many digits as it deserves, and its sign: `= 0.031`, `< 0.0001`.
#[must_use]
pub fn p_text(p: f64) -> String {
    match p {
        _ if p < 0.000_1 => "< 0.0001".into(),
        _ if p < 0.01 => format!("= {p:.4}"),
        _ => format!("= {p:.3}"),
    }
}

/// Compares the pairs, which are read together, in their order.
///
/// A pair that cannot be compared has an error in its place, and does not count in the family.
#[must_use]
pub fn family(pairs: &[Pair<'_>], question: &Question) -> Vec<Result<Comparison, WelchError>> {
    let tested: Vec<Result<Welch, WelchError>> =
        pairs.iter().map(|pair| Welch::of(pair.baseline, pair.other)).collect();
    let welches: Vec<Welch> =
        tested.iter().filter_map(|welch| welch.as_ref().ok().copied()).collect();
    let adjusted = |p_value: &dyn Fn(&Welch) -> f64| {
        holm::adjusted(&welches.iter().map(p_value).collect::<Vec<_>>())
    };
    let differences = adjusted(&Welch::p_value);
    let equivalence = |welch: &Welch| Equivalence::of(welch, question.margin_ratio?);
    let p_equivalence = adjusted(&|w| equivalence(w).map_or(f64::NAN, |e| e.p_value()));
    let worse = |e: Equivalence| match question.better {
        Better::More => e.p_loss,
        Better::Less => e.p_gain,
    };
    let p_loss = adjusted(&|w| equivalence(w).map_or(f64::NAN, worse));
    let mut place = 0;
    let compare = |(pair, welch): (&Pair<'_>, Result<Welch, WelchError>)| {
        let welch = welch?;
        let index = place;
        place += 1;
        let equivalence = equivalence(&welch).map(|tests| AdjustedEquivalence {
            tests,
            adjusted_p_value: p_equivalence[index],
            adjusted_p_loss: p_loss[index],
        });
        let asked = Asked { question, family_size: welches.len(), p_value: differences[index] };
        comparison(pair, welch, &asked, equivalence).ok_or(WelchError::NotFinite)
    };
    pairs.iter().zip(tested).map(compare).collect()
}

/// Compares one pair, which is read alone.
///
/// # Errors
/// As [`Welch::of`].
pub fn single(pair: Pair<'_>, question: &Question) -> Result<Comparison, WelchError> {
    family(&[pair], question).pop().unwrap_or(Err(WelchError::TooFewValues { have: 0 }))
}

/// A comparison's place in its family.
struct Asked<'a> {
    question: &'a Question,
    family_size: usize,
    /// Adjusted.
    p_value: f64,
}

fn comparison(
    pair: &Pair<'_>,
    welch: Welch,
    asked: &Asked<'_>,
    equivalence: Option<AdjustedEquivalence>,
) -> Option<Comparison> {
    let Pair { baseline, other } = *pair;
    let level = asked.question.level;
    let family_level = level.each_of(asked.family_size);
    let relative = welch.ratio_interval(family_level).shifted(-1.0);
    Some(Comparison {
        question: *asked.question,
        family_size: asked.family_size,
        baseline: Summary::of(baseline)?,
        other: Summary::of(other)?,
        difference: Effect { value: welch.difference(), interval: welch.interval(family_level) },
        relative: Effect { value: welch.ratio() - 1.0, interval: relative },
        p_value: welch.p_value(),
        adjusted_p_value: asked.p_value,
        rank: rank::mann_whitney(baseline, other)?,
        shift: rank::shift(baseline, other, level)?,
        relative_shift: relative_shift(pair, level),
        equivalence,
        detectable_ratio: power::detectable_ratio(&welch, family_level, POWER),
        word: word(&welch, asked, equivalence.as_ref(), relative),
        baseline_warnings: warning::warnings(baseline, level),
        other_warnings: warning::warnings(other, level),
        welch,
    })
}

/// Equivalence comes first: it was asked for, and says that a difference is smaller than what
/// matters.
fn word(
    welch: &Welch,
    asked: &Asked<'_>,
    equivalence: Option<&AdjustedEquivalence>,
    relative: Interval,
) -> Word {
    let alpha = asked.question.level.alpha();
    let is_cost = asked.question.better == Better::Less;
    let (is_proven, difference) = (asked.p_value <= alpha, welch.difference());
    match equivalence {
        Some(e) if e.adjusted_p_value <= alpha => {
            Word::Equivalent { margin_ratio: e.tests.margin_ratio }
        }
        _ if is_proven && difference > 0.0 => {
            let at_least_ratio = relative.low.max(0.0);
            if is_cost { Word::Dearer { at_least_ratio } } else { Word::Faster { at_least_ratio } }
        }
        _ if is_proven && difference < 0.0 => {
            let at_least_ratio = (-relative.high).max(0.0);
            if is_cost { Word::Cheaper { at_least_ratio } } else { Word::Slower { at_least_ratio } }
        }
        Some(e) if e.adjusted_p_loss <= alpha => {
            let margin_ratio = e.tests.margin_ratio;
            if is_cost { Word::NotDearer { margin_ratio } } else { Word::NotWorse { margin_ratio } }
        }
        _ => Word::Undecided,
    }
}

/// The shift of the logarithms, as a share.
fn relative_shift(pair: &Pair<'_>, level: Level) -> Option<Shift> {
    let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
        values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect()
    };
    let shift = rank::shift(&logarithms(pair.baseline)?, &logarithms(pair.other)?, level)?;
    let interval = shift
        .interval
        .map(|interval| Interval { low: interval.low.exp_m1(), high: interval.high.exp_m1() });
    Some(Shift { shift: shift.shift.exp_m1(), interval })
}

#[cfg(test)]
mod tests;
