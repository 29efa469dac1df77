//! Five-number summaries: minimum, maximum, median, mean, standard deviation.
//!
//! The operations and their order are those of FreeBSD's ministat, so that the same values give
//! the same digits: the mean sums in the order of measurement, the variance is the two-pass one
//! over sorted values with n − 1 below, and the median of an even count is the mean of the
//! middle pair.

use std::cmp::Ordering;

/// Summary of one set of measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of values, 1 or more.
    pub count: usize,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Middle value, or the mean of the two middle values.
    pub median: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample variance (n − 1); 0 for a single value, which shows no spread.
    pub variance: f64,
    /// Sample standard deviation, the root of the variance.
    pub stddev: f64,
}

impl Summary {
    /// Summarises `values`; `None` if there are none, one of them is not finite, or they are so
    /// large that their squares cannot be added.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values)?;
        let count = sorted.len();
        let mean = sum(values.iter().copied()) / count as f64;
        let squares = sum(sorted.iter().map(|value| (value - mean) * (value - mean)));
        let variance = if count > 1 { squares / (count as f64 - 1.0) } else { 0.0 };
        let stddev = variance.sqrt();
        (mean.is_finite() && stddev.is_finite()).then(|| Self {
            count,
            min: sorted[0],
            max: sorted[count - 1],
            median: median_of_sorted(&sorted),
            mean,
            variance,
            stddev,
        })
    }
}

/// Median of `values`, which need not be sorted; an even count gives the mean of the middle pair.
/// `None` if there are no values or one of them is not finite.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    sorted(values).map(|sorted| median_of_sorted(&sorted))
}

/// Median of values that are sorted and not empty.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        (sorted[middle] + sorted[middle - 1]) / 2.0
    } else {
        sorted[middle]
    }
}

/// The sum in the order given, from zero: the sum of negative zeros is zero, as in C.
pub(crate) fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// The values in ascending order, equal ones (the two zeros) in the order given; `None` if there
/// are none or one of them is not finite.
pub(crate) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    Some(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        let summary = Summary::of(&[50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0]).unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (7, 50.0, 750.0));
        assert_eq!((summary.median, summary.mean), (200.0, 300.0));
        // Squares around 300 sum to 340,000; over six that is 56,666.7.
        assert!((summary.stddev - (340_000.0_f64 / 6.0).sqrt()).abs() < 1e-12);
        assert!((summary.variance - 340_000.0 / 6.0).abs() < 1e-9);
    }

    #[test]
    fn even_counts_average_the_middle_pair() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0, 5.0]), Some(6.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn one_value_shows_no_spread() {
        let summary = Summary::of(&[42.0]).unwrap();
        assert_eq!((summary.median, summary.mean, summary.stddev), (42.0, 42.0, 0.0));
    }

    #[test]
    fn nothing_comes_from_nothing() {
        for values in [&[][..], &[1.0, f64::NAN], &[f64::INFINITY]] {
            assert_eq!(Summary::of(values), None);
            assert_eq!(median(values), None);
        }
        assert_eq!(Summary::of(&[1e308, 1e308]), None);
    }

    proptest! {
        #[test]
        fn ordered_and_independent_of_the_order(
            values in prop::collection::vec(-1e9_f64..1e9, 1..60), turn: prop::sample::Index
        ) {
            let summary = Summary::of(&values).unwrap();
            prop_assert!(summary.min <= summary.median && summary.median <= summary.max);
            prop_assert!(summary.min - 1e-3 <= summary.mean && summary.mean <= summary.max + 1e-3);
            prop_assert!(summary.stddev >= 0.0);
            prop_assert!(summary.stddev <= (summary.max - summary.min) + 1e-3);
            let mut turned = values.clone();
            turned.rotate_left(turn.index(values.len()));
            let turned = Summary::of(&turned).unwrap();
            prop_assert_eq!(
                (turned.min, turned.max, turned.median), (summary.min, summary.max, summary.median)
            );
            prop_assert!((turned.mean - summary.mean).abs() < 1e-3);
        }

        #[test]
        fn half_lie_on_either_side(values in prop::collection::vec(-1e9_f64..1e9, 1..60)) {
            let median = median(&values).unwrap();
            let below = values.iter().filter(|value| **value < median).count();
            let above = values.iter().filter(|value| **value > median).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        }
    }
}
