//! A comparison for a terminal.

use std::fmt::Write as _;

use weir_stats::comparison::p_text;

use super::warnings::advice;
use super::{Figured, Matched, Report, figured, relative, words};
use crate::collection::{CollectedSeries, Unit};
use crate::plot::Quantity;

/// Up to this many comparisons are shown in ministat's layout as well.
const BLOCKS_MAX: usize = 8;
/// Up to this many entries of a list are shown; the rest is counted.
const LIST_MAX: usize = 20;

pub(super) fn page(report: &Report<'_>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for (index, collection) in report.collections.iter().enumerate() {
        let role = if index == 0 { "baseline" } else { "against it" };
        let _ =
            writeln!(text, "{role:<10} {} ({} series)", collection.name, collection.series.len());
    }
    for c in &report.changed {
        let other = &report.collections[c.other_index].name;
        let _ =
            writeln!(text, "compared:  {} {} with {} of {other}", c.dimension, c.baseline, c.other);
    }
    text.push('\n');
    text += &table(report);
    if report.matched.len() <= BLOCKS_MAX {
        for m in &report.matched {
            if let Some(block) = m.ministat() {
                let _ = write!(text, "\n{}\n{block}", title(report, m));
            }
        }
    }
    if let Some(note) = report.zero_note() {
        let _ = writeln!(text, "\n{note}");
    }
    warnings(report, &mut text);
    list(
        &mut text,
        "in one side only",
        report
            .unmatched
            .iter()
            .map(|u| format!("{} ({})", u.told(), report.collections[u.owner_index].name)),
    );
    let environment = report.environment.iter().filter(|d| d.matters).map(|d| {
        let values: Vec<&str> = d.values.iter().map(|v| v.as_deref().unwrap_or("–")).collect();
        format!("{}: {}", d.path, values.join(" | "))
    });
    list(&mut text, "environments differ", environment);
    let rest = report.environment.iter().filter(|d| !d.matters).count();
    if rest > 0 {
        let _ = writeln!(text, "{rest} more entries of the environments differ: --out names them");
    }
    let _ = writeln!(text, "\n{}", report.answer());
    if let Some(verdict) = report.verdict() {
        let _ = writeln!(text, "{verdict}");
    }
    text
}

/// What the series show, and what to do about it, each advice once.
fn warnings(report: &Report<'_>, text: &mut String) {
    let warned = report.warnings();
    let entries = warned.iter().map(|w| {
        let owner = &report.collections[w.owner_index].name;
        format!("{} ({owner}): {}: {}", w.series, w.warning.kind(), w.warning)
    });
    list(text, "warnings", entries);
    for (kind, advice) in advice(&warned) {
        let _ = writeln!(text, "  advice ({kind}): {advice}");
    }
}

fn list(text: &mut String, heading: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.collect();
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{heading}:");
    for entry in entries.iter().take(LIST_MAX) {
        let _ = writeln!(text, "  {entry}");
    }
    if entries.len() > LIST_MAX {
        let _ = writeln!(text, "  … and {} more", entries.len() - LIST_MAX);
    }
}

pub(super) fn title(report: &Report<'_>, m: &Matched<'_>) -> String {
    let names: Vec<&str> = [0, m.other_index]
        .iter()
        .filter_map(|i| report.collections.get(*i))
        .map(|c| c.name.as_str())
        .collect();
    format!("{}, {} (x) against {} (+)", m.baseline.name, names[0], names[names.len() - 1])
}

fn table(report: &Report<'_>) -> String {
    let rows: Vec<[String; 5]> = report.matched.iter().map(|m| row(report, m)).collect();
    let mut text = String::new();
    let headings = ["series", "baseline", "other", "difference", "verdict"];
    let widths: Vec<usize> = (0..4)
        .map(|column| {
            let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            longest.max(headings[column].len())
        })
        .collect();
    let mut line = |cells: [&str; 5]| {
        let _ = writeln!(
            text,
            "{:<a$}  {:>b$}  {:>c$}  {:>d$}  {}",
            cells[0],
            cells[1],
            cells[2],
            cells[3],
            cells[4],
            a = widths[0],
            b = widths[1],
            c = widths[2],
            d = widths[3]
        );
    };
    line(headings);
    for row in &rows {
        line([&row[0], &row[1], &row[2], &row[3], &row[4]]);
    }
    let level = report.asked.level;
    let _ = writeln!(
        text,
        "medians with {level} intervals of the bootstrap; differences of means with {level} \
         intervals; verdicts of one kind hold together (Holm)"
    );
    text
}

fn row(report: &Report<'_>, m: &Matched<'_>) -> [String; 5] {
    let side = |series: &CollectedSeries| median(report, series);
    let name = if report.collections.len() > 2 {
        format!("{} [{}]", m.baseline.name, report.collections[m.other_index].name)
    } else {
        m.baseline.name.clone()
    };
    let (difference, p) = m.result.as_ref().map_or_else(
        |_| ("–".to_owned(), String::new()),
        |c| (relative(c), format!(", p {}", p_text(c.adjusted_p_value))),
    );
    let mark = if m.regressed { "REGRESSION: " } else { "" };
    [name, side(m.baseline), side(m.other), difference, format!("{mark}{}{p}", words(m))]
}

/// The median with its interval and the values behind it.
pub(super) fn median(report: &Report<'_>, series: &CollectedSeries) -> String {
    let Some(figure) = figured(series, report.asked.level) else {
        return NO_RUN.to_owned();
    };
    let quantity = quantity(figure.median, series.unit);
    let interval = interval(&figure, quantity).map_or_else(String::new, |i| format!(" ({i})"));
    let value = quantity.text(figure.median, 4);
    format!("{value}{interval} {} n={}", quantity.name, figure.count)
}

/// The same in two parts: the median, and what it rests on.
pub(super) fn median_parts(report: &Report<'_>, series: &CollectedSeries) -> (String, String) {
    let Some(figure) = figured(series, report.asked.level) else {
        return (NO_RUN.to_owned(), String::new());
    };
    let quantity = quantity(figure.median, series.unit);
    let interval = interval(&figure, quantity).map_or_else(String::new, |i| format!("{i}, "));
    let value = quantity.text(figure.median, 4);
    (format!("{value} {}", quantity.name), format!("{interval}n = {}", figure.count))
}

/// What stands for a series without a figure.
const NO_RUN: &str = "no valid run";

fn interval(figure: &Figured, quantity: Quantity) -> Option<String> {
    let i = figure.interval?;
    Some(format!("{}–{}", quantity.text(i.low, 4), quantity.text(i.high, 4)))
}

fn quantity(value: f64, unit: Unit) -> Quantity {
    Quantity::suited(value, unit)
}
