//! What a series of iterations shows beside its median, as warnings with advice.
//!
//! Each finding has a test whose *false-positive rate* for a well-behaved series (independent
//! normal values) is about [`FALSE_POSITIVES_MAX`], and a size below which it does not matter; both
//! are in [`THRESHOLDS`]. Simulated in this module's tests: under 1.8 % each and 3.5 % together.
//!
//! - *Clusters*: the values fall into two groups, as they do where every boot takes one of two
//!   roads (which CPU an interrupt lands on, how flows hash to queues). The best split in two
//!   leaves a share of the sum of squares within the groups; percentage points of the smallest such
//!   share are tabled (Engelman and Hartigan, JASA 64, 1969; the table here was simulated for
//!   groups of at least a fifth of the values, 400,000 series up to 30 values, 100,000 up to 100,
//!   20,000 beyond).
//! - *Trend*: values rise or fall with the iterations, as they do where a machine heats up or a
//!   table fills. Kendall's test against the order of measurement (Mann, *Econometrica* 13, 1945),
//!   exact without ties; its size is [`crate::stability::trend`]'s.
//! - *Outliers*: single values far from all others. Rosner's generalised many-outlier procedure
//!   (*Technometrics* 25, 1983), which is Grubbs's test for a single one. Nothing is left out of
//!   any figure for it.
//! - *No spread*: all values are the same, which measured ones are not: a counter, a limit or the
//!   line stands behind them.
//! - *Too few values* for the interval of the median at the level asked for.
//!
//! Few values show few faults: below [`VALUES_MIN`] nothing but missing spread is looked for, and
//! five cannot show a trend at this rate at all.

use std::fmt;

use crate::interval::Level;
use crate::threshold::Threshold;
use crate::{median, stability, summary};

mod cluster;
mod outlier;
mod trend;

pub use cluster::Clusters;

/// Fewest values of which a fault is looked for.
pub const VALUES_MIN: usize = 5;

/// Nominal rate of false warnings of each test, for normal values.
pub(crate) const FALSE_POSITIVES_MAX: f64 = 0.01;

/// Clusters nearer to each other do not matter.
const CLUSTER_DISTANCE_MIN: Threshold = Threshold::new(
    "cluster_distance_min",
    0.005,
    "of the median",
    "clusters whose means are nearer to each other are not reported",
);

/// Smaller trends do not matter.
const TREND_MIN: Threshold = Threshold::new(
    "series_trend_min",
    0.005,
    "of the median",
    "a series that drifts by less from its first to its last iteration is not reported",
);

/// Nearer outliers do not matter.
const OUTLIER_DISTANCE_MIN: Threshold = Threshold::new(
    "outlier_distance_min",
    0.005,
    "of the median",
    "an iteration nearer to the median is not an outlier",
);

/// The nominal rate, as a threshold.
const P_MAX: Threshold = Threshold::new(
    "series_warning_p_max",
    FALSE_POSITIVES_MAX,
    "of well-behaved series",
    "clusters, a trend or an outlier are reported if chance gives them less often",
);

/// Every threshold of the warnings.
pub const THRESHOLDS: [Threshold; 4] =
    [P_MAX, CLUSTER_DISTANCE_MIN, TREND_MIN, OUTLIER_DISTANCE_MIN];

/// Something about a series that its figures do not show.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// Two groups of values.
    Clusters(Clusters),
    /// The values rise or fall with the iterations.
    Trend {
        /// From the first to the last iteration, as a share of the median; negative if falling.
        drift_ratio: f64,
        /// Two-sided p-value of Kendall's test.
        p_value: f64,
    },
    /// Values far from all others.
    Outliers {
        /// Their places in the series, from 0, ascending.
        indices: Vec<usize>,
        /// Distance of the farthest from the median, as a share of it; negative if below.
        farthest_ratio: f64,
    },
    /// All values are the same.
    NoSpread,
    /// The median has no interval at the level asked for.
    TooFew(crate::interval::TooFew),
}

impl Warning {
    /// A word for it, in data.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Clusters(_) => "clusters",
            Self::Trend { .. } => "trend",
            Self::Outliers { .. } => "outliers",
            Self::NoSpread => "no-spread",
            Self::TooFew(_) => "too-few",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Clusters(_) => {
                "a median between two clusters is a rate that the device never had: look for what \
                 differs between its starts (interrupt and queue placement, hash seeds, memory), \
                 and run more iterations"
            }
            Self::Trend { .. } => {
                "the iterations are not alike: look for heat, clock, leaks or tables that fill, \
                 interleave the series, and do not trust intervals, which assume independence"
            }
            Self::Outliers { .. } => {
                "read the log of those cells before believing either side: outliers hardly move \
                 the median, but they do move means and their intervals"
            }
            Self::NoSpread => {
                "measured rates differ in their last digits: a limit, a counter, a copy or a \
                 device that delivers nothing stands behind these, and no interval of them means \
                 anything"
            }
            Self::TooFew(_) => "run more iterations (-n), or ask for a lower confidence",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clusters(clusters) => write!(f, "{clusters}"),
            Self::Trend { drift_ratio, p_value } => {
                let way = if *drift_ratio < 0.0 { "falls" } else { "rises" };
                let percent = drift_ratio.abs() * 100.0;
                write!(
                    f,
                    "the rate {way} by {percent:.1} % of the median from the first to the last \
                     iteration (p = {p_value:.4})"
                )
            }
            Self::Outliers { indices, farthest_ratio } => {
                let places: Vec<String> = indices.iter().map(|i| (i + 1).to_string()).collect();
                let (values, is) = if indices.len() == 1 {
                    ("value", "is an outlier")
                } else {
                    ("values", "are outliers")
                };
                write!(
                    f,
                    "{values} {} {is}, up to {:+.1} % from the median",
                    places.join(", "),
                    farthest_ratio * 100.0
                )
            }
            Self::NoSpread => write!(f, "all values are the same"),
            Self::TooFew(few) => {
                let values = if few.have == 1 { "value" } else { "values" };
                write!(
                    f,
                    "{} {values} cannot give an exact interval of the median at {}: {} are needed",
                    few.have, few.level, few.need
                )
            }
        }
    }
}

/// Every warning about a series, `values` in the order of measurement; empty if a value is not
/// finite, which is not a series' fault but its reader's.
#[must_use]
pub fn warnings(values: &[f64], level: Level) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let Some(sorted) = summary::sorted(values) else {
        return warnings;
    };
    let need = median::values_needed(level);
    if values.len() < need {
        let few = crate::interval::TooFew { have: values.len(), need, level };
        warnings.push(Warning::TooFew(few));
    }
    // Also of few values: without spread, every test is certain of every difference.
    if values.len() > 1 && sorted[0] == sorted[sorted.len() - 1] {
        warnings.push(Warning::NoSpread);
        return warnings;
    }
    if values.len() < VALUES_MIN {
        return warnings;
    }
    let median = summary::median_of_sorted(&sorted);
    if median <= 0.0 {
        return warnings;
    }
    let clusters =
        cluster::clusters(&sorted).filter(|c| c.distance() >= CLUSTER_DISTANCE_MIN.value * median);
    if let Some(drift_ratio) = stability::trend(values).filter(|t| t.abs() >= TREND_MIN.value) {
        let p_value = trend::kendall_p(values);
        if p_value <= FALSE_POSITIVES_MAX {
            warnings.push(Warning::Trend { drift_ratio, p_value });
        }
    }
    match clusters {
        Some(clusters) => warnings.push(Warning::Clusters(clusters)),
        None => warnings.extend(outliers(values, median)),
    }
    warnings
}

fn outliers(values: &[f64], median: f64) -> Option<Warning> {
    let ratio = |index: &usize| (values[*index] - median) / median;
    let mut indices = outlier::outliers(values);
    indices.retain(|index| ratio(index).abs() >= OUTLIER_DISTANCE_MIN.value);
    indices.sort_unstable();
    let farthest = indices.iter().map(ratio).max_by(|a, b| a.abs().total_cmp(&b.abs()));
    farthest.map(|farthest_ratio| Warning::Outliers { indices, farthest_ratio })
}

/// The trend that series show together which took turns: a drift, the median over them, and its
/// p-value, by the same thresholds as one of a single series.
#[must_use]
pub fn pooled_trend(sets: &[&[f64]]) -> Option<(f64, f64)> {
    let drifts: Vec<f64> = sets.iter().filter_map(|values| stability::trend(values)).collect();
    let drift_ratio = summary::median(&drifts)?;
    let p_value = trend::pooled_kendall_p(sets);
    let is_trend = drift_ratio.abs() >= TREND_MIN.value && p_value <= P_MAX.value;
    is_trend.then_some((drift_ratio, p_value))
}

#[cfg(test)]
mod tests;
