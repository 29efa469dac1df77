//! Two means whose spreads differ: Welch's test, in units and as a ratio.
//!
//! Welch's test (*Biometrika* 34, 1947) does not assume equal variances, as ministat's does; its
//! degrees of freedom are Satterthwaite's (*Biometrics Bulletin* 2, 1946). It should be preferred
//! throughout (Ruxton, *Behavioral Ecology* 17, 2006).
//!
//! What an engineer asks about is the *ratio* of two means, whose divisor is uncertain as well. So
//! everything relative is Fieller's (*JRSS B* 16, 1954): the ratio could be θ if a test of `other −
//! θ · baseline` finds nothing, with Welch's variance and degrees of freedom at that θ (Hasler,
//! Vonk and Hothorn, *Statistics in Medicine* 27, 2008). At θ = 1 this is Welch's test itself, so
//! that the p-value, the interval of the ratio and an equivalence test never contradict each other.
//!
//! Assumptions: the values are independent, and means of them about normal. One stray iteration
//! breaks the second with few values; [`crate::rank`] stands beside it for that reason.

use crate::interval::{Interval, Level};
use crate::student_t;
use crate::summary::Summary;

/// Fewest values on each side.
pub const VALUES_MIN: usize = 3;

/// Ratios under this one are as good as zero.
const RATIO_MIN: f64 = 1e-6;

/// Beyond this ratio no upper end is looked for.
const RATIO_MAX: f64 = 1e6;

/// Why two sets cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WelchError {
    /// A side has fewer than [`VALUES_MIN`] values.
    #[error("{have} values cannot be compared: {VALUES_MIN} are needed on each side")]
    TooFewValues {
        /// How many the smaller side has.
        have: usize,
    },
    /// A value is not finite, or too large to be squared.
    #[error("a value is not a finite number, or is too large to square")]
    NotFinite,
    /// The baseline's mean is not above zero, or the other's is below it: no ratio of them means
    /// anything.
    #[error("the baseline's mean is not above zero, so that nothing is relative to it")]
    NoRatio,
}

/// Two means, ready to be tested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    baseline: Mean,
    other: Mean,
}

/// A mean and its error.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mean {
    mean: f64,
    /// Variance of the mean.
    variance: f64,
    /// Degrees of freedom of that.
    df: f64,
}

impl Mean {
    fn of(summary: &Summary) -> Self {
        let df = summary.count as f64 - 1.0;
        if summary.min == summary.max {
            // The sum of equal values is rounded; they have no spread all the same.
            return Self { mean: summary.max, variance: 0.0, df };
        }
        Self { mean: summary.mean, variance: summary.variance / summary.count as f64, df }
    }
}

impl Welch {
    /// Takes two sets of values.
    ///
    /// # Errors
    /// [`WelchError`] if either has too few values, one is not finite, or the means have no ratio.
    pub fn of(baseline: &[f64], other: &[f64]) -> Result<Self, WelchError> {
        let have = baseline.len().min(other.len());
        if have < VALUES_MIN {
            return Err(WelchError::TooFewValues { have });
        }
        let baseline = Mean::of(&Summary::of(baseline).ok_or(WelchError::NotFinite)?);
        let other = Mean::of(&Summary::of(other).ok_or(WelchError::NotFinite)?);
        if baseline.mean <= 0.0 || other.mean < 0.0 {
            return Err(WelchError::NoRatio);
        }
        Ok(Self { baseline, other })
    }

    /// Mean of the other minus mean of the baseline, in the values' unit.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.other.mean - self.baseline.mean
    }

    /// The standard error of the difference, in the values' unit.
    #[must_use]
    pub(crate) fn standard_error(&self) -> f64 {
        (self.other.variance + self.baseline.variance).sqrt()
    }

    /// Satterthwaite's degrees of freedom of the difference.
    #[must_use]
    pub(crate) fn degrees_of_freedom(&self) -> f64 {
        self.df(1.0)
    }

    /// Welch's t: the difference over its standard error; infinite if only the error is zero.
    #[must_use]
    pub fn t(&self) -> f64 {
        let difference = self.difference();
        if difference == 0.0 { 0.0 } else { difference / self.standard_error() }
    }

    /// Two-sided p-value of the hypothesis that the means are equal.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        (2.0 * self.p_at_most(1.0).min(self.p_at_least(1.0))).min(1.0)
    }

    /// The interval of the difference, in the values' unit.
    #[must_use]
    pub fn interval(&self, level: Level) -> Interval {
        let t = student_t::quantile(1.0 - level.alpha() / 2.0, self.degrees_of_freedom());
        let half_width = if self.standard_error() > 0.0 { t * self.standard_error() } else { 0.0 };
        Interval { low: -half_width, high: half_width }.shifted(self.difference())
    }

    /// Mean of the other over mean of the baseline.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.other.mean / self.baseline.mean
    }

    /// Fieller's interval of the ratio. Its upper end is infinite if the baseline's mean cannot be
    /// told from zero; its lower end is never below zero.
    #[must_use]
    pub(crate) fn ratio_interval(&self, level: Level) -> Interval {
        let (tail, ratio) = (level.alpha() / 2.0, self.ratio());
        let low = if self.p_at_most(0.0) > tail {
            0.0
        } else {
            boundary(0.0, ratio, |theta| self.p_at_most(theta) <= tail)
        };
        let mut beyond = ratio.max(RATIO_MIN) * 2.0;
        while self.p_at_least(beyond) > tail && beyond < RATIO_MAX {
            beyond *= 2.0;
        }
        let high = if beyond < RATIO_MAX {
            boundary(beyond, ratio, |theta| self.p_at_least(theta) <= tail)
        } else {
            f64::INFINITY
        };
        Interval { low, high }
    }

    /// One-sided p-value of the hypothesis that the ratio is at most `theta`: small values are
    /// evidence that it is above.
    #[must_use]
    pub(crate) fn p_at_most(&self, theta: f64) -> f64 {
        self.tail(self.distance(theta), theta)
    }

    /// One-sided p-value of the hypothesis that the ratio is at least `theta`: small values are
    /// evidence that it is below.
    #[must_use]
    pub(crate) fn p_at_least(&self, theta: f64) -> f64 {
        self.tail(-self.distance(theta), theta)
    }

    /// The baseline's mean, in the values' unit; above zero.
    #[must_use]
    pub(crate) const fn baseline_mean(&self) -> f64 {
        self.baseline.mean
    }

    fn distance(&self, theta: f64) -> f64 {
        self.other.mean - theta * self.baseline.mean
    }

    /// The probability of a distance this far up or farther, if the ratio is `theta`.
    fn tail(&self, distance: f64, theta: f64) -> f64 {
        let variance = self.other.variance + theta * theta * self.baseline.variance;
        if variance > 0.0 {
            student_t::cdf(-distance / variance.sqrt(), self.df(theta))
        } else if distance > 0.0 {
            0.0
        } else {
            1.0
        }
    }

    /// Satterthwaite's degrees of freedom of `other − theta · baseline`.
    fn df(&self, theta: f64) -> f64 {
        let (other, baseline) = (self.other.variance, theta * theta * self.baseline.variance);
        let sum = other + baseline;
        if sum == 0.0 {
            return self.other.df + self.baseline.df;
        }
        // Shares of the sum, because squares of small variances vanish.
        let (other, baseline) = (other / sum, baseline / sum);
        1.0 / (other * other / self.other.df + baseline * baseline / self.baseline.df)
    }
}

/// The point between `outside`, where `is_outside` holds, and `inside`, where it does not, at which
/// that changes.
fn boundary(outside: f64, inside: f64, is_outside: impl Fn(f64) -> bool) -> f64 {
    const PRECISION: f64 = 1e-10;
    let (mut outside, mut inside) = (outside, inside);
    // Near zero the precision is absolute: nobody asks for the digits of a ratio of nothing.
    while (outside - inside).abs() > PRECISION * inside.abs().max(outside.abs()).max(RATIO_MIN) {
        let middle = (outside + inside) / 2.0;
        if is_outside(middle) {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    inside
}

#[cfg(test)]
mod tests;
