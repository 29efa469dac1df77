//! Two groups in one series.

use std::fmt;

/// Two groups of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clusters {
    /// How many values the lower group has.
    pub low_count: usize,
    /// Their mean, in the values' unit.
    pub low_mean: f64,
    /// How many values the upper group has.
    pub high_count: usize,
    /// Their mean, in the values' unit.
    pub high_mean: f64,
    /// The largest value of the lower group.
    pub low_max: f64,
    /// Sum of squares within the groups, as a share of that of all values.
    pub within_ratio: f64,
}

impl Clusters {
    /// From one mean to the other, in the values' unit.
    #[must_use]
    pub fn distance(&self) -> f64 {
        self.high_mean - self.low_mean
    }
}

impl fmt::Display for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (high, low) = (self.high_count, self.low_count);
        write!(f, "the iterations fall into two clusters, ")?;
        // Of a group at nothing, nothing is a share.
        if self.low_mean < self.distance() / 1000.0 {
            return write!(f, "{low} of them at nothing, or next to it, and {high} far above");
        }
        let percent = self.distance() / self.low_mean * 100.0;
        write!(f, "{high} of them {percent:.1} % above the other {low}")
    }
}

/// Number of values, and the share of the sum of squares within the groups of the best split that
/// 1 % of normal series stay under.
const SHARES_MAX: [(f64, f64); 18] = [
    (5.0, 0.0178),
    (6.0, 0.0324),
    (7.0, 0.0482),
    (8.0, 0.0638),
    (9.0, 0.0782),
    (10.0, 0.0919),
    (12.0, 0.1144),
    (15.0, 0.1396),
    (20.0, 0.1697),
    (25.0, 0.1903),
    (30.0, 0.2060),
    (40.0, 0.2274),
    (50.0, 0.2426),
    (70.0, 0.2623),
    (100.0, 0.2793),
    (200.0, 0.3044),
    (500.0, 0.3265),
    (1000.0, 0.3379),
];

/// What the share approaches with many normal values: 1 − 2/π.
const SHARE_LIMIT: f64 = 1.0 - std::f64::consts::FRAC_2_PI;

/// The best split of sorted values, if it is better than chance gives; at least five values that
/// are not all the same.
pub(super) fn clusters(sorted: &[f64]) -> Option<Clusters> {
    let count = sorted.len();
    let side = count.div_ceil(5).max(2);
    let mean = sorted.iter().sum::<f64>() / count as f64;
    let squares: f64 = sorted.iter().map(|v| (v - mean) * (v - mean)).sum();
    if squares <= 0.0 {
        return None;
    }
    let mut low_sum: f64 = sorted[..side - 1].iter().map(|v| v - mean).sum();
    let mut best = (f64::INFINITY, side, 0.0);
    for low_count in side..=count - side {
        low_sum += sorted[low_count - 1] - mean;
        let (low, high) = (low_count as f64, (count - low_count) as f64);
        // Both groups' sums around the mean of all are opposite.
        let within = 1.0 - low_sum * low_sum * (1.0 / low + 1.0 / high) / squares;
        if within < best.0 {
            best = (within, low_count, low_sum);
        }
    }
    let (within_ratio, low_count, low_sum) = best;
    let high_count = count - low_count;
    (within_ratio <= share_max(count as f64)).then(|| Clusters {
        low_count,
        low_mean: mean + low_sum / low_count as f64,
        high_count,
        high_mean: mean - low_sum / high_count as f64,
        low_max: sorted[low_count - 1],
        within_ratio: within_ratio.max(0.0),
    })
}

/// The table between its rows: linear in 1/√n, which it nearly is throughout.
fn share_max(count: f64) -> f64 {
    let place = |n: f64| 1.0 / n.sqrt();
    let above = SHARES_MAX.iter().find(|(n, _)| *n >= count).copied();
    let (n1, share1) = above.unwrap_or((f64::INFINITY, SHARE_LIMIT));
    let below = SHARES_MAX.iter().rfind(|(n, _)| *n <= count).copied();
    let (n0, share0) = below.unwrap_or(SHARES_MAX[0]);
    if n0 == n1 {
        return share0;
    }
    share0 + (share1 - share0) * (place(n0) - place(count)) / (place(n0) - place(n1))
}
