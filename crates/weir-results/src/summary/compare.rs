//! The first DUT against each other one, where everything else is equal: Welch's test, corrected
//! over all comparisons of the campaign, with what goes beside it ([`super::analysis`]).

use weir_stats::welch::WelchError;

use crate::proof::Ground;
use crate::record::{Cost, TrialRecord};
use crate::summary::{CONFIDENCE, Comparison, SeriesSummary, Trial, analysis};

/// Every comparison with `baseline_dut`, in the order of the series. Where that DUT has no cell
/// yet there is none: one of two other DUTs would be taken for it.
pub(super) fn all(
    series: &[SeriesSummary],
    cells: &[Trial],
    baseline_dut: &str,
) -> Vec<Comparison> {
    let mut pairs = Vec::new();
    // Settings of one DUT are compared inside its trials: its figures are those of `off` alone.
    let in_place = |s: &&SeriesSummary| s.toggle.is_none();
    for baseline in series.iter().filter(|s| s.dut == baseline_dut).filter(in_place) {
        let others = series.iter().filter(|s| s.dut != baseline_dut && s.comparable(baseline));
        for other in others {
            pairs.push((baseline, other));
        }
    }
    let sides: Vec<_> = pairs.iter().map(|(a, b)| (side(cells, a), side(cells, b))).collect();
    let analyses = analysis::comparisons(&sides, CONFIDENCE.into());
    let costs: Vec<_> = pairs.iter().map(|(a, b)| (costs(cells, a), costs(cells, b))).collect();
    let mut costs = analysis::costs(&costs, &analyses, CONFIDENCE.into()).into_iter();
    let compare = |((baseline, other), result): (&(&SeriesSummary, &SeriesSummary), _)| {
        let (analysis, problem) = match result {
            Ok(analysis) => (Some(analysis), None),
            Err(error) => (None, Some(WelchError::to_string(&error))),
        };
        let (baseline, other) = (baseline.name.clone(), other.name.clone());
        Comparison { baseline, other, analysis, problem, cost: costs.next().flatten() }
    };
    pairs.iter().zip(analyses).map(compare).collect()
}

/// The iterations of a series that may prove something.
fn proving<'a>(cells: &'a [Trial], series: &SeriesSummary) -> Vec<&'a TrialRecord> {
    let of_series = cells.iter().map(|(record, _)| record).filter(|r| r.series == series.name);
    of_series.filter(|r| r.verdict.kind.may_prove()).collect()
}

/// Their figures, and what they say of them.
fn side(cells: &[Trial], series: &SeriesSummary) -> analysis::Side {
    let proving = proving(cells, series);
    let foreign: Vec<_> = proving.iter().map(|record| record.foreign_ratios()).collect();
    let kinds = proving.iter().map(|record| Some(record.verdict.kind));
    let trials: Vec<_> = kinds.zip(&foreign).collect();
    (proving.iter().map(|record| record.result.rate_pps).collect(), Ground::of(&trials))
}

/// What packets cost in those of them that tell it.
fn costs(cells: &[Trial], series: &SeriesSummary) -> Vec<Cost> {
    proving(cells, series).into_iter().filter_map(|record| record.cost).collect()
}
