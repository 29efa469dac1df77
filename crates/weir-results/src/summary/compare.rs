//! The first DUT against each other one, where everything else is equal: Welch's test, corrected
//! over all comparisons of the campaign, with what goes beside it ([`super::analysis`]).

use weir_stats::welch::WelchError;

use crate::summary::{CONFIDENCE, Comparison, SeriesSummary, analysis};

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
    let compare = |((baseline, other), result): (&(&SeriesSummary, &SeriesSummary), _)| {
        let (analysis, problem) = match result {
            Ok(analysis) => (Some(analysis), None),
            Err(error) => (None, Some(WelchError::to_string(&error))),
        };
        let (baseline, other) = (baseline.name.clone(), other.name.clone());
        Comparison { baseline, other, analysis, problem }
    };
    pairs.iter().zip(analyses).map(compare).collect()
}
