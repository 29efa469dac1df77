//! The ratio of two things that were measured in pairs, one right after the other.
//!
//! What drifts is the same for both of a pair, and cancels in its ratio. The estimate is the
//! geometric mean of the pairs' ratios, its interval is Student's on their logarithms (Bland and
//! Altman, *The Lancet* 327, 1986): it is of a ratio, and cannot pass zero. The order within the
//! pairs has to be random for that; what was measured, and when, is not known here.

use crate::interval::{Interval, Level};
use crate::student_t;
use crate::summary::Summary;

/// Pairs that it takes at the least.
pub const PAIRS_MIN: usize = 3;

/// The ratio of pairs, other over baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedRatio {
    /// Pairs that it rests on.
    pub count: usize,
    /// The estimate.
    pub ratio: f64,
    /// Student's, of the mean of the logarithms.
    pub interval: Interval,
    /// Two-sided p-value of "the ratio is 1".
    pub p_value: f64,
}

impl PairedRatio {
    /// That of pairs of baseline and other. `family_size` intervals are read together, and hold
    /// together at `level` (Bonferroni). `None` for fewer than [`PAIRS_MIN`] pairs, or if a value
    /// is not finite and above zero.
    #[must_use]
    pub fn of(pairs: &[(f64, f64)], level: Level, family_size: usize) -> Option<Self> {
        let Summary { mean, stddev, count, .. } = logarithms(pairs)?;
        let (error, df) = (stddev / (count as f64).sqrt(), count as f64 - 1.0);
        Some(Self::new((mean, error, df), count, level.each_of(family_size)))
    }

    /// The ratio of two such ratios: whether what was tried changes as much in the one place as in
    /// the other. It rests on the pairs of the place that has fewer; its interval and p-value are
    /// Welch's, of the logarithms.
    #[must_use]
    pub fn between(
        baseline: &[(f64, f64)],
        other: &[(f64, f64)],
        level: Level,
        family_size: usize,
    ) -> Option<Self> {
        let (before, after) = (logarithms(baseline)?, logarithms(other)?);
        // The variance of a mean, and what it adds to Satterthwaite's degrees of freedom.
        let part = |side: &Summary| {
            let variance = side.variance / side.count as f64;
            (variance, variance * variance / (side.count as f64 - 1.0))
        };
        let ((a, a_part), (b, b_part)) = (part(&before), part(&after));
        let df = if a + b > 0.0 { (a + b) * (a + b) / (a_part + b_part) } else { 1.0 };
        let mean = after.mean - before.mean;
        let count = before.count.min(after.count);
        Some(Self::new((mean, (a + b).sqrt(), df), count, level.each_of(family_size)))
    }

    /// From a mean of logarithms with its standard error and the degrees of freedom of that.
    fn new((mean, error, df): (f64, f64, f64), count: usize, level: Level) -> Self {
        let half_width = student_t::quantile(1.0 - level.alpha() / 2.0, df) * error;
        let p_value = if error > 0.0 {
            2.0 * student_t::cdf(-(mean / error).abs(), df)
        } else if mean == 0.0 {
            1.0
        } else {
            0.0
        };
        let interval = Interval { low: (mean - half_width).exp(), high: (mean + half_width).exp() };
        Self { count, ratio: mean.exp(), interval, p_value }
    }

    /// Whether the interval leaves out 1: a difference is proven.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        !self.interval.contains(1.0)
    }
}

/// The logarithms of the pairs' ratios; `None` for too few pairs, or if a value is no part of a
/// ratio.
fn logarithms(pairs: &[(f64, f64)]) -> Option<Summary> {
    let is_positive = |value: f64| value.is_finite() && value > 0.0;
    if pairs.len() < PAIRS_MIN || !pairs.iter().all(|&(a, b)| is_positive(a) && is_positive(b)) {
        return None;
    }
    Summary::of(&pairs.iter().map(|(a, b)| (b / a).ln()).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Source, share};

    #[test]
    fn a_ratio_is_found_where_both_of_a_pair_drift() {
        // The level trebles over the pairs; the ratio stays.
        let pairs: Vec<(f64, f64)> = (0..20)
            .map(|index| {
                let level = 100.0 * (1.0 + 0.1 * f64::from(index));
                let wobble = if index % 2 == 0 { 1.004 } else { 0.996 };
                (level, level * 0.7 * wobble)
            })
            .collect();
        let found = PairedRatio::of(&pairs, Level::P95, 1).unwrap();
        assert!((found.ratio - 0.7).abs() < 0.001 && found.is_proven(), "{found:?}");
        assert!(found.interval.half_width() < 0.002 && found.p_value < 1e-9, "{found:?}");
        // Read together with others, it is as far away, and its interval is wider.
        let together = PairedRatio::of(&pairs, Level::P95, 10).unwrap();
        assert!(together.ratio.total_cmp(&found.ratio).is_eq());
        assert!(together.interval.half_width() > found.interval.half_width());
    }

    #[test]
    fn where_nothing_differs_it_errs_as_often_as_stated() {
        let mut source = Source::new(3);
        let proven = share(4000, || {
            let (a, b) = (source.normals(12, 100.0, 3.0), source.normals(12, 100.0, 3.0));
            let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
            let found = PairedRatio::of(&pairs, Level::P95, 1).unwrap();
            assert_eq!(found.is_proven(), found.p_value < 0.05);
            found.is_proven()
        });
        assert!((0.035..0.065).contains(&proven), "{proven}");
    }

    #[test]
    fn two_ratios_are_told_apart_and_equal_ones_as_seldom_as_stated() {
        let mut source = Source::new(7);
        let mut pairs = |count: usize, factor: f64| -> Vec<(f64, f64)> {
            let (a, b) = (source.normals(count, 100.0, 2.0), source.normals(count, 100.0, 3.0));
            a.into_iter().zip(b.into_iter().map(|value| value * factor)).collect()
        };
        let found =
            PairedRatio::between(&pairs(14, 0.9), &pairs(20, 0.7), Level::P95, 1).expect("pairs");
        assert!((found.ratio - 0.7 / 0.9).abs() < 0.03 && found.is_proven(), "{found:?}");
        assert!(found.interval.contains(0.7 / 0.9), "{found:?}");
        let proven = share(4000, || {
            PairedRatio::between(&pairs(14, 0.7), &pairs(8, 0.7), Level::P95, 1)
                .expect("pairs")
                .is_proven()
        });
        assert!((0.035..0.065).contains(&proven), "{proven}");
        let exact = [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)];
        let same = PairedRatio::between(&exact, &exact, Level::P95, 3).expect("pairs");
        assert!((same.ratio - 1.0).abs() < 1e-12 && !same.is_proven(), "{same:?}");
        assert_eq!(PairedRatio::between(&exact[..2], &exact, Level::P95, 1), None);
    }

    #[test]
    fn what_is_no_ratio_gives_none() {
        let good = [(1.0, 2.0), (1.0, 2.0), (1.0, 2.0)];
        let found = PairedRatio::of(&good, Level::P95, 1).unwrap();
        assert!((found.ratio - 2.0).abs() < 1e-12 && found.is_proven());
        assert_eq!(PairedRatio::of(&good[..2], Level::P95, 1), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let pairs = [good[0], good[1], (1.0, bad)];
            assert_eq!(PairedRatio::of(&pairs, Level::P95, 1), None, "{bad}");
        }
    }
}
