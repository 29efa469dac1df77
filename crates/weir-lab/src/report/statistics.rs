//! Intervals, warnings and words: what statistics say of the figures, in every report.

use maud::{Markup, html};

use super::{Report, answer, dut_label, group_label, text};
use crate::summary::analysis::{RateInterval, Stopped};
use crate::summary::{CampaignSummary, SeriesAnalysis, SeriesSummary};

/// The columns of the table of intervals.
pub(super) const HEADER: [&str; 7] = [
    "Traffic",
    "DUT",
    "Median, bootstrap interval, Mpps",
    "Median, exact interval, Mpps",
    "Mean known to",
    "Iterations for ±1 %",
    "Stopped",
];

/// What stands under that table.
pub(super) const NOTE: &str = "The bootstrap interval is near its confidence, the exact one is at \
    it or above, and takes six iterations at 95 %. The number of iterations is what the spread \
    so far lets expect. Methods and their assumptions: docs/statistics.md of weir.";

/// The rows of the table of intervals.
pub(super) fn rows(summary: &CampaignSummary) -> Vec<Vec<String>> {
    let row = |series: &SeriesSummary| {
        let analysis = series.analysis.as_ref().filter(|_| series.valid_iterations > 1)?;
        let none = || "–".to_owned();
        let interval = |found: Option<RateInterval>| {
            let shown = |i: RateInterval| {
                let coverage = i.coverage_percent.map(|c| format!(" ({c:.1} %)"));
                let (low, high) = (text::mpps(i.low_pps), text::mpps(i.high_pps));
                format!("{low}–{high}{}", coverage.unwrap_or_default())
            };
            found.map_or_else(none, shown)
        };
        Some(vec![
            group_label(series),
            dut_label(series),
            interval(analysis.median_bootstrap),
            interval(analysis.median_exact),
            analysis.mean_half_width_percent.map_or_else(none, |h| format!("±{h:.2} %")),
            analysis.iterations_for_one_percent.map_or_else(none, |n| n.to_string()),
            stopped(series, analysis),
        ])
    };
    summary.series.iter().filter_map(row).collect()
}

/// Why a series has as many iterations as it has.
fn stopped(series: &SeriesSummary, analysis: &SeriesAnalysis) -> String {
    match analysis.stopped {
        None => "as asked for".to_owned(),
        Some(Stopped::NarrowEnough) => format!("narrow enough after {}", series.iterations),
        Some(Stopped::MaxReached) => format!("at its most, {}", series.iterations),
        Some(Stopped::Open) => format!("not yet, after {}", series.iterations),
    }
}

/// Every warning: series, what it is, what to do.
pub(super) fn warnings(summary: &CampaignSummary) -> Vec<(&str, &str, &str)> {
    let mut warnings = Vec::new();
    for series in &summary.series {
        for warning in series.analysis.iter().flat_map(|analysis| &analysis.warnings) {
            warnings.push((series.name.as_str(), warning.text.as_str(), warning.advice.as_str()));
        }
    }
    warnings
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
pub(super) const WORDS_NOTE: &str = "Welch's test, which does not assume equal spreads, with \
    Fieller's interval of the ratio; p-values as one of several are Holm's, over all comparisons \
    of this campaign. Undecided is not the same as equal: that takes a margin.";

/// A table whose first two columns are words.
pub(super) fn table<H: AsRef<str>>(header: &[H], rows: &[Vec<String>]) -> Markup {
    html! {
        div class="scroll" {
            table class="figures" {
                thead { tr {
                    @for (column, name) in header.iter().enumerate() {
                        th scope="col" class=[(column > 1).then_some("n")] { (name.as_ref()) }
                    }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=[(column > 1).then_some("n")] {
                                    (answer::keep_units(cell))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The section of `report.html`.
pub(super) fn html_body(report: &Report<'_>) -> Option<Markup> {
    let summary = &report.summary;
    let (rows, warnings, words) = (rows(summary), warnings(summary), words(summary));
    if rows.is_empty() && warnings.is_empty() {
        return None;
    }
    Some(html! {
        @if !warnings.is_empty() {
            ul class="warnings" {
                @for (series, what, advice) in &warnings {
                    li { strong { (series) ": " (answer::keep_units(what)) } ": " (advice) "." }
                }
            }
        }
        @if !rows.is_empty() {
            (table(&HEADER, &rows))
            p class="note" { (NOTE) }
        }
        @if !words.is_empty() {
            ul class="words" {
                @for (title, word) in &words {
                    li { strong { (title) ": " } (answer::prose(word)) }
                }
            }
            p class="note" { (WORDS_NOTE) }
        }
    })
}
