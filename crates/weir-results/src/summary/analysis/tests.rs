use super::*;
use crate::matrix::AutoIterations;
use crate::record::VerdictKind;
use crate::summary::{CampaignSummary, fixture};

fn auto(most: u32, half_width_ratio: f64) -> Campaign {
    let data = fixture::usual();
    let rule = AutoIterations { half_width_ratio, confidence_percent: 95.0, iterations_min: 3 };
    Campaign { iterations: most, auto: Some(rule), ..data.campaign }
}

/// The cells of one series, with these rates; a rate of zero is an invalid one.
fn cells(rates: &[f64]) -> Vec<Trial> {
    let data = fixture::usual();
    let (model, samples) = data.cells[0].clone();
    let made = rates.iter().zip(1..).map(|(rate, iteration)| {
        let mut record = model.clone();
        record.iteration = iteration;
        record.result.rate_pps = *rate;
        if *rate == 0.0 {
            record.verdict.kind = VerdictKind::Invalid;
        }
        (record, samples.clone())
    });
    made.collect()
}

fn analysed(rates: &[f64], campaign: &Campaign) -> SeriesAnalysis {
    let cells = cells(rates);
    series(&cells.iter().collect::<Vec<_>>(), campaign)
}

#[test]
fn why_a_series_stopped() {
    let quiet = [1000.0, 1001.0, 999.0];
    assert_eq!(analysed(&quiet, &fixture::usual().campaign).stopped, None);
    assert_eq!(analysed(&quiet, &auto(9, 0.01)).stopped, Some(Stopped::NarrowEnough));
    let wild = [1000.0, 1100.0, 900.0, 1050.0];
    assert_eq!(analysed(&wild, &auto(9, 0.01)).stopped, Some(Stopped::Open));
    let ended = analysed(&wild, &auto(4, 0.01));
    assert_eq!(ended.stopped, Some(Stopped::MaxReached));
    let warning = ended.warnings.iter().find(|w| w.kind == "max-reached").unwrap();
    assert!(warning.text.contains("after all of its 4 iterations"), "{}", warning.text);
    assert!(warning.advice.contains("valid iterations would do"), "{}", warning.advice);
}

#[test]
fn invalid_iterations_are_runs_and_no_values() {
    let ended = analysed(&[0.0; 4], &auto(4, 0.01));
    assert_eq!((ended.stopped, ended.mean_half_width_percent), (Some(Stopped::MaxReached), None));
    let narrow = analysed(&[1000.0, 0.0, 1000.5, 0.0, 999.5], &auto(9, 0.01));
    assert_eq!(narrow.stopped, Some(Stopped::NarrowEnough));
    let open = analysed(&[1000.0, 0.0, 1000.5, 0.0], &auto(9, 0.01));
    assert_eq!(open.stopped, Some(Stopped::Open));
}

#[test]
fn outliers_are_named_by_their_iteration() {
    let rates = [1000.0, 0.0, 1001.0, 999.0, 700.0, 1000.5, 998.0, 1002.0];
    let found = analysed(&rates, &fixture::usual().campaign);
    let [warning] = found.warnings.as_slice() else {
        panic!("{:?}", found.warnings);
    };
    assert_eq!((warning.kind.as_str(), warning.iterations.as_slice()), ("outliers", &[5][..]));
    assert!(warning.text.starts_with("iteration 5 lies far from the others, up to -30.0 %"));
    assert!(!warning.advice.is_empty());
}

#[test]
fn intervals_hold_the_median() {
    let found =
        analysed(&[990.0, 995.0, 1000.0, 1002.0, 1004.0, 1011.0], &fixture::usual().campaign);
    for interval in [found.median_bootstrap.unwrap(), found.median_exact.unwrap()] {
        assert!(interval.low_pps <= 1001.0 && 1001.0 <= interval.high_pps, "{interval:?}");
    }
    assert_eq!(found.median_exact.unwrap().coverage_percent, Some(96.875));
    assert!(found.iterations_for_one_percent.unwrap() >= 2);
}

#[test]
fn comparisons_have_a_word_that_is_never_no_difference() {
    let summary = CampaignSummary::of(&fixture::usual());
    let analysed: Vec<_> = summary.comparisons.iter().filter_map(|c| c.analysis.as_ref()).collect();
    assert!(!analysed.is_empty());
    for analysis in analysed {
        assert!(["faster", "slower", "undecided"].contains(&analysis.word.as_str()));
        assert!(analysis.text.starts_with(&analysis.word), "{}", analysis.text);
        assert!(analysis.p_value <= analysis.adjusted_p_value);
        assert!(analysis.low_percent <= analysis.difference_percent);
    }
}
