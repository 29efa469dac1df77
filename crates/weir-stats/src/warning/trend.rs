//! Kendall's test of values against the order in which they were measured.

use crate::student_t;

/// Most values of which the exact distribution is computed.
const EXACT_VALUES_MAX: usize = 30;

/// Two-sided p-value of the hypothesis that every order of the values is equally likely. Exact
/// without ties up to [`EXACT_VALUES_MAX`] values, else normal with corrections for continuity and
/// ties (Kendall, *Rank Correlation Methods*, 4th ed. 1970, ch. 4 and 5).
pub(super) fn kendall_p(values: &[f64]) -> f64 {
    let count = values.len();
    let (mut falling, mut tied) = (0_usize, 0_usize);
    for (index, first) in values.iter().enumerate() {
        falling += values[index + 1..].iter().filter(|second| *second < first).count();
        tied += values[index + 1..].iter().filter(|second| *second == first).count();
    }
    let pairs = count * (count - 1) / 2;
    let far = falling.min(pairs - falling - tied);
    if tied == 0 && count <= EXACT_VALUES_MAX {
        let tail: f64 = falling_pairs(count)[..=far].iter().sum();
        return (2.0 * tail).min(1.0);
    }
    let n = count as f64;
    let of_ties = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|group| of_ties(group.len() as f64)).sum();
    let stddev = ((of_ties(n) - ties) / 18.0).sqrt();
    let excess = (pairs - tied) as f64 - 2.0 * far as f64;
    if stddev == 0.0 {
        return 1.0;
    }
    2.0 * student_t::cdf(-(excess - 1.0).max(0.0) / stddev, f64::INFINITY)
}

/// The same of several series that took turns, ranks within each: their statistics are added, and
/// their variances; normal, without ties. Fewer than two values say nothing.
pub(super) fn pooled_kendall_p(sets: &[&[f64]]) -> f64 {
    let (mut excess, mut variance) = (0.0, 0.0);
    for values in sets {
        for (index, first) in values.iter().enumerate() {
            let sign = |second: &f64| match second.partial_cmp(first) {
                Some(std::cmp::Ordering::Greater) => 1.0,
                Some(std::cmp::Ordering::Less) => -1.0,
                _ => 0.0,
            };
            excess += values[index + 1..].iter().map(sign).sum::<f64>();
        }
        let n = values.len() as f64;
        variance += n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    }
    if variance <= 0.0 {
        return 1.0;
    }
    2.0 * student_t::cdf(-(excess.abs() - 1.0).max(0.0) / variance.sqrt(), f64::INFINITY)
}

/// The probability of every number of falling pairs, where all orders are equally likely: the
/// value that comes last is below 0 to n − 1 of the others, each equally likely.
fn falling_pairs(count: usize) -> Vec<f64> {
    let mut distribution = vec![1.0];
    for n in 2..=count {
        let mut next = vec![0.0; distribution.len() + n - 1];
        for (pairs, probability) in distribution.iter().enumerate() {
            for more in 0..n {
                next[pairs + more] += probability / n as f64;
            }
        }
        distribution = next;
    }
    distribution
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy 1.17, `kendalltau`.
    #[test]
    fn figures_of_another_implementation() {
        let p = kendall_p(&[1.0, 3.0, 2.0, 4.0, 6.0, 5.0, 8.0, 7.0]);
        assert!((p - 0.005_505_952_380_952_381).abs() < 1e-15, "{p}");
        let backwards = kendall_p(&[7.0, 8.0, 5.0, 6.0, 4.0, 2.0, 3.0, 1.0]);
        assert!((p - backwards).abs() < 1e-15);
        // Its asymptotic p-value with ties has no correction for continuity: 0.00098.
        let p = kendall_p(&[1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 5.0, 4.0, 4.0, 6.0]);
        assert!((0.000_98..0.001_6).contains(&p), "{p}");
    }

    #[test]
    fn six_series_of_five_show_what_one_cannot() {
        let falling: &[f64] = &[5.0, 4.0, 3.0, 2.0, 1.0];
        let mixed: &[f64] = &[5.0, 3.0, 4.0, 2.0, 1.0];
        assert!(pooled_kendall_p(&[falling, mixed, falling, mixed, falling, mixed]) < 1e-6);
        let rising: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(pooled_kendall_p(&[falling, rising]), 1.0);
        assert_eq!((pooled_kendall_p(&[]), pooled_kendall_p(&[&[1.0]])), (1.0, 1.0));
    }

    #[test]
    fn five_values_cannot_show_a_trend() {
        assert!((kendall_p(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 2.0 / 120.0).abs() < 1e-15);
        assert!((kendall_p(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) - 2.0 / 720.0).abs() < 1e-15);
        assert_eq!(kendall_p(&[2.0; 7]), 1.0);
    }
}
