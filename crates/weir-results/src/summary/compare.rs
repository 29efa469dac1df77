//! The first DUT against each other one, where everything else is equal.
//!
//! One test is ministat's: Student's t with a pooled deviation, two-sided. It never says that two
//! DUTs are equal: the most it says is that no difference is proven. The other is Welch's,
//! corrected over all comparisons of the campaign, with what goes beside it ([`super::analysis`]).

use weir_stats::ministat;

use crate::summary::{CONFIDENCE, Comparison, Difference, SeriesSummary, analysis};

/// Every comparison with `baseline_dut`, in the order of the series. Where that DUT has no cell
/// yet there is none: one of two other DUTs would be taken for it.
pub(super) fn all(series: &[SeriesSummary], baseline_dut: &str) -> Vec<Comparison> {
    let mut pairs = Vec::new();
    for baseline in series.iter().filter(|s| s.dut == baseline_dut) {
        let others = series.iter().filter(|s| s.dut != baseline_dut && s.comparable(baseline));
        for other in others {
            pairs.push((baseline, other));
        }
    }
    let analyses = analysis::comparisons(&pairs, CONFIDENCE.into());
    let compare =
        |((baseline, other), analysis): (&(&SeriesSummary, &SeriesSummary), _)| Comparison {
            baseline: baseline.name.clone(),
            other: other.name.clone(),
            difference: difference(&baseline.values_pps, &other.values_pps),
            analysis: Result::ok(analysis),
        };
    pairs.iter().zip(analyses).map(compare).collect()
}

/// The test of `other` against `baseline`; `None` with too few values on a side.
fn difference(baseline: &[f64], other: &[f64]) -> Option<Difference> {
    let test = ministat::compare(baseline, other, CONFIDENCE)?;
    Some(Difference {
        difference_pps: test.difference,
        half_width_pps: test.half_width,
        difference_percent: Some(test.percent).filter(|p| p.is_finite()),
        half_width_percent: Some(test.percent_half_width).filter(|p| p.is_finite()),
        pooled_stddev_pps: test.pooled_stddev,
        proven: test.proven,
    })
}
