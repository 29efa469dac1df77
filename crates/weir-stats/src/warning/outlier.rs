//! Rosner's generalised many-outlier procedure.

use crate::student_t;
use crate::summary::Summary;

use super::FALSE_POSITIVES_MAX;

/// The places of the outliers, the farthest first: at most a fifth of the values, and at least one
/// is looked for.
pub(super) fn outliers(values: &[f64]) -> Vec<usize> {
    let most = (values.len() / 5).max(1);
    let mut left: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    let mut removed = Vec::new();
    let mut found = 0;
    while removed.len() < most && left.len() > 2 {
        let kept: Vec<f64> = left.iter().map(|(_, value)| *value).collect();
        let Some(summary) = Summary::of(&kept).filter(|s| s.stddev > 0.0) else {
            break;
        };
        let distance = |value: f64| (value - summary.mean).abs();
        let farthest =
            (0..left.len()).max_by(|a, b| distance(kept[*a]).total_cmp(&distance(kept[*b])));
        let Some(farthest) = farthest else {
            break;
        };
        let statistic = distance(kept[farthest]) / summary.stddev;
        removed.push(left.swap_remove(farthest).0);
        if statistic > critical(kept.len()) {
            // What hides behind a farther one is an outlier as well.
            found = removed.len();
        }
    }
    removed.truncate(found);
    removed
}

/// Grubbs's critical value for the farthest of `count` values, three or more.
fn critical(count: usize) -> f64 {
    let n = count as f64;
    let t = student_t::quantile(1.0 - FALSE_POSITIVES_MAX / (2.0 * n), n - 2.0);
    (n - 1.0) * t / (n * (n - 2.0 + t * t)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grubbs and Beck, Technometrics 14 (1972), two-sided 1 % is their one-sided 0.5 %.
    #[test]
    fn printed_critical_values() {
        for (count, printed) in [(5, 1.764), (6, 1.973), (10, 2.482), (20, 3.001), (50, 3.482)] {
            assert!((critical(count) - printed).abs() < 0.002, "{count}: {}", critical(count));
        }
    }

    /// Rosner's own example (Technometrics 25, 1983; NIST/SEMATECH e-Handbook §1.3.5.17.3): three
    /// outliers of 54 values at 5 %.
    #[test]
    fn rosner_s_example() {
        let values = [
            -0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56,
            1.58, 1.65, 1.69, 1.70, 1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10,
            2.14, 2.15, 2.23, 2.24, 2.26, 2.35, 2.37, 2.40, 2.47, 2.54, 2.62, 2.64, 2.90, 2.92,
            2.92, 2.93, 3.21, 3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01,
        ];
        let found = outliers(&values);
        // At 1 %, as here, the third is not far enough (3.179 under 3.5), nor are two (3.12, 2.94).
        assert!(found.is_empty(), "{found:?}");
        let mut farther = values;
        (farther[53], farther[52], farther[51]) = (9.0, 8.9, 8.8);
        let mut found = outliers(&farther);
        found.sort_unstable();
        assert_eq!(found, [51, 52, 53]);
    }
}
