//! Two series by their ranks alone: the Mann–Whitney test and the Hodges–Lehmann shift.
//!
//! U (Mann and Whitney, *Annals of Mathematical Statistics* 18, 1947) is the number of pairs in
//! which the other's value is the larger one; a tie counts one half. The shift (Hodges and Lehmann,
//! *Annals of Mathematical Statistics* 34, 1963) is the median of the differences of all pairs, and
//! its interval holds the shifts that the test does not reject (Hollander, Wolfe and Chicken,
//! *Nonparametric Statistical Methods*, 3rd ed. 2014, §4.1–4.3).
//!
//! Without ties and up to [`EXACT_PAIRS_MAX`] pairs, p-values and intervals are exact. Otherwise
//! they are those of the normal distribution with a correction for continuity and for ties. With
//! ties the interval stays that of the exact distribution, which is then wider than it had to be.
//!
//! Assumptions: independent values. The test then asks whether one side tends to be larger; only if
//! both distributions have the same shape is the shift also that of their medians. One stray
//! iteration changes hardly anything. Few values cannot prove anything, however far apart: three
//! against three have no smaller p-value than 0.1.

use crate::interval::{Interval, Level, TooFew};
use crate::student_t;
use crate::summary::{self, median_of_sorted};

/// Most pairs, the product of both numbers of values, of which the exact distribution is computed.
pub(crate) const EXACT_PAIRS_MAX: usize = 400;

/// The result of the Mann–Whitney test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// U of the other side: pairs in which its value is the larger one, ties counted half.
    pub u: f64,
    /// Two-sided p-value.
    pub p_value: f64,
    /// Whether it is exact, not a normal approximation.
    pub exact: bool,
    /// The share of pairs in which the other's value is the larger one, ties counted half: 0.5 for
    /// no tendency.
    pub share: f64,
}

/// The Hodges–Lehmann shift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Median of all differences, other minus baseline.
    pub shift: f64,
    /// Its interval, or why there is none.
    pub interval: Result<Interval, TooFew>,
}

/// Tests whether the values of one side tend to be larger.
///
/// `None` if a side is empty or a value is not finite.
#[must_use]
pub(crate) fn mann_whitney(baseline: &[f64], other: &[f64]) -> Option<MannWhitney> {
    let (baseline, other) = (summary::sorted(baseline)?, summary::sorted(other)?);
    let u = u_statistic(&baseline, &other);
    let pairs = baseline.len() * other.len();
    let ties = tie_cubes(&baseline, &other);
    let exact = ties == 0.0 && pairs <= EXACT_PAIRS_MAX;
    let far = u.min(pairs as f64 - u);
    let p_value = if exact {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "no ties")]
        let below = 0..=far as usize;
        2.0 * distribution(baseline.len(), other.len())[below].iter().sum::<f64>()
    } else {
        let stddev = normal_variance(baseline.len(), other.len(), ties).sqrt();
        // All values alike say nothing.
        let z = if stddev > 0.0 { (pairs as f64 / 2.0 - far - 0.5).max(0.0) / stddev } else { 0.0 };
        2.0 * student_t::cdf(-z, f64::INFINITY)
    };
    Some(MannWhitney { u, p_value: p_value.min(1.0), exact, share: u / pairs as f64 })
}

/// The shift from the baseline to the other side, in the values' unit.
///
/// `None` if a side is empty or a value is not finite.
#[must_use]
pub fn shift(baseline: &[f64], other: &[f64], level: Level) -> Option<Shift> {
    let (baseline, other) = (summary::sorted(baseline)?, summary::sorted(other)?);
    let pairs = other.iter().flat_map(|other| baseline.iter().map(move |base| other - base));
    let mut differences: Vec<f64> = pairs.collect();
    differences.sort_by(f64::total_cmp);
    let interval = match interval_rank(baseline.len(), other.len(), level) {
        Some(rank) => {
            Ok(Interval { low: differences[rank - 1], high: differences[differences.len() - rank] })
        }
        None => {
            Err(TooFew { have: baseline.len().min(other.len()), need: values_needed(level), level })
        }
    };
    Some(Shift { shift: median_of_sorted(&differences), interval })
}

/// The fewest values on each of two equal sides whose shift has an interval at `level`.
#[must_use]
pub(crate) fn values_needed(level: Level) -> usize {
    let mut count = 2;
    while smallest_tail(count, count) * 2.0 > level.alpha() {
        count += 1;
    }
    count
}

/// The probability that all values of one side are above all of the other's: 1 / (a + b choose a).
fn smallest_tail(a: usize, b: usize) -> f64 {
    (1..=a).map(|i| i as f64 / (b + i) as f64).product()
}

/// Which of the sorted differences ends the interval, from either end, from 1.
fn interval_rank(baseline: usize, other: usize, level: Level) -> Option<usize> {
    // A rounding error must not cost a rank.
    const SLACK: f64 = 1e-12;
    let (tail, pairs) = (level.alpha() / 2.0 + SLACK, baseline * other);
    if smallest_tail(baseline, other) > tail {
        return None;
    }
    if pairs <= EXACT_PAIRS_MAX {
        let mut sum = 0.0;
        let within = |probability: &&f64| {
            sum += **probability;
            sum <= tail
        };
        return Some(distribution(baseline, other).iter().take_while(within).count());
    }
    let z = student_t::quantile(1.0 - tail, f64::INFINITY);
    let rank = pairs as f64 / 2.0 - z * normal_variance(baseline, other, 0.0).sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1")]
    Some(rank.floor().max(1.0) as usize)
}

/// U of `other`: pairs in which its value is larger, ties counted half. Both are sorted.
fn u_statistic(baseline: &[f64], other: &[f64]) -> f64 {
    let pairs_won = |value: &f64| {
        let below = baseline.partition_point(|base| base < value);
        let not_above = baseline.partition_point(|base| base <= value);
        (below + not_above) as f64 / 2.0
    };
    other.iter().map(pairs_won).sum()
}

/// The sum of t³ − t over all groups of t equal values.
fn tie_cubes(baseline: &[f64], other: &[f64]) -> f64 {
    let mut all = [baseline, other].concat();
    all.sort_by(f64::total_cmp);
    let groups = all.chunk_by(|a, b| a == b).map(|group| group.len() as f64);
    groups.map(|t| t * t * t - t).sum()
}

/// Variance of U with ties.
fn normal_variance(a: usize, b: usize, ties: f64) -> f64 {
    let (a, b) = (a as f64, b as f64);
    let n = a + b;
    a * b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)))
}

/// The probability of every U from 0 to a · b if nothing differs and nothing is tied.
///
/// The largest of all values is one of the `a` with probability a / (a + b), and then no pair of it
/// counts; otherwise it is one of the `b`, and all `a` pairs of it do.
fn distribution(a: usize, b: usize) -> Vec<f64> {
    // One row for each number of `a`, all of them for the same number of `b`.
    let mut rows = vec![vec![1.0]; a + 1];
    for of_b in 1..=b {
        for of_a in 1..=a {
            let share = of_a as f64 / (of_a + of_b) as f64;
            let mut row = vec![0.0; of_a * of_b + 1];
            for (u, probability) in rows[of_a - 1].iter().enumerate() {
                row[u] += share * probability;
            }
            for (u, probability) in rows[of_a].iter().enumerate() {
                row[u + of_a] += (1.0 - share) * probability;
            }
            rows[of_a] = row;
        }
    }
    rows.swap_remove(a)
}

#[cfg(test)]
mod tests;
