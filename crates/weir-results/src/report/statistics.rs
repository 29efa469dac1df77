//! Intervals, warnings and words: what statistics say of the figures, in every report.

use weir_stats::comparison::p_text;
use weir_stats::warning::pooled_trend;

use super::{Report, dut_label, group_label};
use crate::document::{Block, Column, Line, Row, Table, Voice};
use crate::number::{or_dash, share};
use crate::summary::analysis::{RateInterval, SeriesWarning, Stopped, also};
use crate::summary::{CampaignSummary, SeriesAnalysis, SeriesSummary};
use crate::unit::Unit;

/// What stands under that table.
const NOTE: &str = "The bootstrap interval is near its confidence, the exact one is at \
    it or above, and takes six iterations at 95 %. The number of iterations is an estimate from \
    the spread so far. Methods and their assumptions: docs/statistics.md of weir.";

/// Intervals of every series of which there are several iterations.
fn intervals(summary: &CampaignSummary) -> Table {
    let columns = vec![
        Column::words("Traffic"),
        Column::words("DUT"),
        Column::numbers("Median, bootstrap interval"),
        Column::numbers("Median, exact interval"),
        Column::numbers("Mean known to"),
        Column::numbers("Iterations for ±1 %"),
        Column::numbers("Stopped"),
    ];
    let interval = |unit: Unit, found: Option<RateInterval>| {
        or_dash(found.map(|i| {
            let coverage = i.coverage_percent.map(|c| format!(" ({c:.1} %)"));
            format!("{}{}", unit.range(i.low_pps, i.high_pps), coverage.unwrap_or_default())
        }))
    };
    let row = |series: &SeriesSummary| -> Option<Row> {
        let analysis = series.analysis.as_ref().filter(|_| series.valid_iterations > 1)?;
        Some(Row::from_iter([
            group_label(series),
            dut_label(series),
            interval(series.unit, analysis.median_bootstrap),
            interval(series.unit, analysis.median_exact),
            or_dash(analysis.mean_half_width_percent.map(|h| format!("±{h:.2} %"))),
            or_dash(analysis.iterations_for_one_percent.map(|n| n.to_string())),
            stopped(series, analysis),
        ]))
    };
    Table::new(columns, summary.series.iter().filter_map(row)).style("figures")
}

/// Why a series has as many iterations as it has.
fn stopped(series: &SeriesSummary, analysis: &SeriesAnalysis) -> String {
    match analysis.stopped {
        None => "as asked for".to_owned(),
        Some(Stopped::NarrowEnough) => format!("narrow enough after {}", series.iterations),
        Some(Stopped::MaxReached) => format!("at the maximum, {}", series.iterations),
        Some(Stopped::Open) => format!("not yet, after {}", series.iterations),
    }
}

/// Every kind of warning once: the first series that it is about, what it is and which other series
/// have one of that kind, what to do.
pub(super) fn warnings(summary: &CampaignSummary) -> Vec<(&str, String, &str)> {
    let mut kinds: Vec<(&str, &SeriesWarning, Vec<&str>)> = Vec::new();
    // Two settings in turns are judged by their pairs, not by iterations.
    for series in summary.series.iter().filter(|series| series.toggle.is_none()) {
        for warning in series.analysis.iter().flat_map(|analysis| &analysis.warnings) {
            match kinds.iter_mut().find(|(_, first, _)| first.kind == warning.kind) {
                Some((.., others)) => others.push(&series.name),
                None => kinds.push((&series.name, warning, Vec::new())),
            }
        }
    }
    let kinds = kinds.into_iter().map(|(series, warning, others)| {
        (series, format!("{}{}", warning.text, also(&others)), warning.advice.as_str())
    });
    kinds.chain(drift(summary)).collect()
}

/// What the iterations of all series show together, which took turns: five of one are too few.
fn drift(summary: &CampaignSummary) -> Option<(&str, String, &str)> {
    let series = summary.series.iter().filter(|series| series.toggle.is_none());
    let sets: Vec<&[f64]> =
        series.map(|s| s.values_pps.as_slice()).filter(|v| v.len() > 2).collect();
    let (drift_ratio, p_value) = pooled_trend(&sets).filter(|_| sets.len() > 1)?;
    let way = if drift_ratio < 0.0 { "fall" } else { "rise" };
    let what = format!(
        "figures {way} by {} over the iterations of {} series together (p {})",
        share(drift_ratio.abs()),
        sets.len(),
        p_text(p_value)
    );
    Some(("the campaign", what, "look for what changes with time: heat, memory, a neighbour"))
}

/// The word of every comparison: title and text.
pub(super) fn words(summary: &CampaignSummary) -> Vec<(String, &str)> {
    let mut words = Vec::new();
    for comparison in &summary.comparisons {
        if let Some(analysis) = &comparison.analysis {
            let title = format!("{} against {}", comparison.other, comparison.baseline);
            words.push((title, analysis.text.as_str()));
        }
    }
    words
}

/// What the words stand on.
const WORDS_NOTE: &str = "Welch's test, which does not assume equal spreads, with \
    Fieller's interval of the ratio. Both hold for all comparisons of this campaign together: \
    p-values by Holm, intervals by Bonferroni. Undecided is not the same as equal: that takes a \
    margin.";

/// The warnings as every report has them at its head.
pub(super) fn warned(summary: &CampaignSummary) -> Vec<Line> {
    let warnings = warnings(summary).into_iter().map(|(series, what, advice)| {
        let what = Line::from(format!("{series}: ")).prose(&what);
        Line::new().strong(what).text(": ").prose(advice).text(".")
    });
    warnings.collect()
}

/// The section of the report.
pub(super) fn blocks(report: &Report<'_>) -> Vec<Block> {
    let summary = &report.summary;
    let table = intervals(summary);
    let mut blocks = Vec::new();
    if !table.is_empty() {
        blocks.extend([table.into(), Block::note(NOTE)]);
    }
    let words = words(summary).into_iter();
    let words = words.map(|(title, text)| Line::new().strong(title).text(": ").prose(text));
    let words: Vec<Line> = words.collect();
    if !blocks.is_empty() && !words.is_empty() {
        blocks.extend([Block::List(Voice::Plain, words), Block::note(WORDS_NOTE)]);
    }
    blocks
}
