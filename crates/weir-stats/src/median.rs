//! Intervals for the median of a series.
//!
//! Two of them, because they fail differently.
//!
//! - [`order_statistic`] takes two of the values themselves. Whatever the distribution, as long as
//!   it is continuous and the values are independent, the number of values under the true median
//!   is binomial with one half, so that the level is kept exactly, from above (Conover, *Practical
//!   Nonparametric Statistics*, 3rd ed. 1999, §3.2; David and Nagaraja, *Order Statistics*, 3rd ed.
//!   2003, §7.1). Few values have no such interval at all: 95 % takes six.
//! - [`bootstrap`] is the percentile bootstrap (Efron, *Annals of Statistics* 7, 1979; Efron and
//!   Tibshirani, *An Introduction to the Bootstrap*, 1993, ch. 13). The distribution of the median
//!   of a resample is known, so that no resample is drawn: this is the limit of infinitely many of
//!   them (Maritz and Jarrett, JASA 73, 1978), without a seed and without Monte Carlo noise. BCa is
//!   not used: its acceleration is a jackknife estimate, and the jackknife fails for a median
//!   (Efron and Tibshirani, §11.6). Its coverage is near the level, not at it: with 5 values it
//!   cannot be above 93.75 %, which is what smallest to largest covers; simulated, it is 92 to 97 %
//!   of 95 % asked for.
//!
//! Both take the mean of the middle pair as the median of an even number of values.

use crate::interval::{Interval, Level, TooFew};
use crate::student_t::{ln_gamma, regularised_beta};
use crate::summary;

/// Fewest values that are resampled: fewer have hardly any different resamples.
pub const BOOTSTRAP_VALUES_MIN: usize = 5;

/// An interval between two of the values, and what it really covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrderInterval {
    pub interval: Interval,
    /// The probability with which it covers the true median: at least the level asked for.
    pub coverage: f64,
    /// Which of the sorted values its ends are, counted from either end, from 1.
    pub rank: usize,
}

/// The narrowest interval from the `rank`-th smallest to the `rank`-th largest value that covers
/// the median with at least `level`.
///
/// # Errors
/// [`TooFew`] if not even smallest to largest does, or a value is not finite.
pub fn order_statistic(values: &[f64], level: Level) -> Result<OrderInterval, TooFew> {
    let need = values_needed(level);
    let too_few = TooFew { have: values.len(), need, level };
    let sorted = summary::sorted(values).filter(|sorted| sorted.len() >= need).ok_or(too_few)?;
    let count = sorted.len();
    // Two tails of the binomial distribution with one half, as far as the level allows. There are
    // values enough for the first rank, whatever the last bit of its probability.
    let (mut rank, mut tail) = (1, binomial_half(count, 0));
    while rank < count.div_ceil(2) {
        let more = tail + binomial_half(count, rank);
        if 1.0 - 2.0 * more < level.share() {
            break;
        }
        (rank, tail) = (rank + 1, more);
    }
    let interval = Interval { low: sorted[rank - 1], high: sorted[count - rank] };
    Ok(OrderInterval { interval, coverage: 1.0 - 2.0 * tail, rank })
}

/// The fewest values whose smallest and largest cover the median with `level`.
#[must_use]
pub(crate) fn values_needed(level: Level) -> usize {
    let covers = |count: i32| 1.0 - 0.5_f64.powi(count - 1) >= level.share();
    (2..).find(|count| covers(*count)).map_or(usize::MAX, |count| count.unsigned_abs() as usize)
}

/// The percentile bootstrap of the median, in the limit of infinitely many resamples.
///
/// # Errors
/// [`TooFew`] under [`BOOTSTRAP_VALUES_MIN`] values, or if a value is not finite.
pub fn bootstrap(values: &[f64], level: Level) -> Result<Interval, TooFew> {
    let too_few = TooFew { have: values.len(), need: BOOTSTRAP_VALUES_MIN, level };
    let sorted = summary::sorted(values).ok_or(too_few)?;
    if sorted.len() < BOOTSTRAP_VALUES_MIN {
        return Err(too_few);
    }
    let medians = resampled_medians(&sorted);
    let tail = level.alpha() / 2.0;
    Ok(Interval { low: quantile(medians.iter(), tail), high: quantile(medians.iter().rev(), tail) })
}

/// The first of `medians` by which `tail` of the probability is reached.
fn quantile<'a>(medians: impl Iterator<Item = &'a (f64, f64)>, tail: f64) -> f64 {
    // A rounding error must not push the quantile to the next value.
    const SLACK: f64 = 1e-12;
    let (mut sum, mut last) = (0.0, f64::NAN);
    for (median, probability) in medians {
        (sum, last) = (sum + probability, *median);
        if sum >= tail - SLACK {
            break;
        }
    }
    last
}

/// Every median that a resample of as many values can have, ascending, with its probability.
fn resampled_medians(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let middle = count.div_ceil(2);
    // The probability that the value of rank `rank` of a resample is at most the `index`-th.
    let at_most = |index: usize| at_least(middle, count, index as f64 / count as f64);
    let single: Vec<f64> = (1..=count).map(|index| at_most(index) - at_most(index - 1)).collect();
    let pairs = sorted.iter().copied().zip(single.iter().copied());
    if !count.is_multiple_of(2) {
        return pairs.collect();
    }
    let mut medians = Vec::new();
    for (low, (value, probability)) in pairs.enumerate() {
        let mut same = probability;
        for (high, larger) in sorted.iter().enumerate().skip(low + 1) {
            let both = middle_pair(count, low, high);
            if both < NEGLIGIBLE {
                break;
            }
            same -= both;
            medians.push(((value + larger) / 2.0, both));
        }
        if same > NEGLIGIBLE {
            medians.push((value, same));
        }
    }
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    medians
}

/// A resample's median with a smaller probability is left out.
const NEGLIGIBLE: f64 = 1e-15;

/// The probability that the middle pair of a resample of `count` values, an even number, is value
/// number `low` and value number `high`, from 0, where `low` is the smaller: half of the resample
/// is at most `low` and reaches it, the other half is at least `high` and reaches it.
fn middle_pair(count: usize, low: usize, high: usize) -> f64 {
    let mirrored = count - 1 - high;
    let half = count as f64 / 2.0;
    let count = count as f64;
    let reaching = |index: usize| {
        let (with, without) = ((index as f64 + 1.0) / count, index as f64 / count);
        // ln(with^half − without^half)
        half * with.ln() + (-(without / with).powf(half)).ln_1p()
    };
    let ways = ln_gamma(count + 1.0) - 2.0 * ln_gamma(half + 1.0);
    (ways + reaching(low) + reaching(mirrored)).exp()
}

/// The probability of at least `rank` successes in `count` trials of probability `p`.
fn at_least(rank: usize, count: usize, p: f64) -> f64 {
    regularised_beta(p, 1.0 - p, rank as f64, (count - rank) as f64 + 1.0)
}

/// The probability of exactly `successes` in `count` trials of one half.
fn binomial_half(count: usize, successes: usize) -> f64 {
    let (n, k) = (count as f64, successes as f64);
    let ways = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    (ways - n * std::f64::consts::LN_2).exp()
}

#[cfg(test)]
mod tests;
