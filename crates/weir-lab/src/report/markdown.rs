//! `summary.md`: the result first, then everything it rests on.

use std::fmt::Write as _;

use super::levels::{self, Levels};
use super::{Report, answer, dut_label, environment, group_label, profile, statistics, text};
use crate::summary::SeriesSummary;

/// Writes the page.
pub(super) fn page(report: &Report<'_>) -> String {
    let summary = &report.summary;
    let mut page = String::new();
    line(&mut page, &format!("# {}", escape(&summary.campaign.name)));
    line(&mut page, &state(report));
    for lead in answer::leads(summary) {
        line(&mut page, &lead.markdown());
    }
    let answers = answer::sentences(summary);
    let list: Vec<String> = answers.iter().map(|s| format!("- {}", s.markdown())).collect();
    line(&mut page, &list.join("\n"));
    line(&mut page, "## Figures");
    line(&mut page, &figures(report));
    line(&mut page, &links(report));
    line(&mut page, &escape(&answer::method(report)));
    latencies(report, &mut page);
    comparisons(report, &mut page);
    statistics_section(report, &mut page);
    levels_section(report, &mut page);
    line(&mut page, "## Verdicts");
    line(&mut page, &verdicts(report));
    line(&mut page, "## Where the packets went");
    line(
        &mut page,
        "Medians over the valid iterations, in packets; medians of entries need not \
                     add up exactly, the ledgers of single iterations in `trial.json` do.",
    );
    for group in summary.groups() {
        ledgers(&group, &mut page);
    }
    if !report.data.profiles.is_empty() {
        line(&mut page, "## Profiles");
        line(&mut page, &profile::markdown(&report.data.profiles));
    }
    line(&mut page, "## Thresholds of the verdicts");
    line(&mut page, &thresholds(report));
    line(&mut page, "## Environment");
    line(&mut page, &environment(report));
    line(&mut page, "## How to reproduce");
    line(&mut page, &reproduce(report));
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// A paragraph.
fn line(page: &mut String, text: &str) {
    if !text.is_empty() {
        page.push_str(text);
        page.push_str("\n\n");
    }
}

/// How much of the campaign this is.
pub(super) fn state(report: &Report<'_>) -> String {
    let counts = &report.summary.counts;
    let cells = format!("{} of {} cells", counts.finished_cells, counts.planned_cells);
    let state = if report.summary.complete {
        format!("Complete: {cells}")
    } else {
        format!("Incomplete: {cells}; `weir lab resume` runs the rest")
    };
    let void = match counts.invalid_cells {
        0 => "none invalid".to_owned(),
        n => format!("{n} invalid, left out of every figure"),
    };
    let ended = report.summary.finished_utc.as_ref();
    let ended = ended.map_or_else(String::new, |t| format!(" Last run ended {}.", text::utc(t)));
    format!("{state}, {void}.{ended}")
}

fn table(header: &[&str], right_from: usize, rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|", header.join(" | "));
    for column in 0..header.len() {
        text.push_str(if column < right_from { " --- |" } else { " ---: |" });
    }
    for row in rows {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n| {} |", row.join(" | "));
    }
    text
}

fn figures(report: &Report<'_>) -> String {
    let rows: Vec<Vec<String>> = report.summary.series.iter().map(figure_row).collect();
    let header = [
        "Traffic",
        "DUT",
        "Median, Mpps",
        "Min–max, Mpps",
        "CV",
        "Offered, Mpps",
        "Lost, of offered",
        "Calibration, Mpps",
        "Ratio",
        "Iterations",
        "Frame without / with FCS, bytes",
    ];
    table(&header, 2, &rows)
}

fn figure_row(series: &SeriesSummary) -> Vec<String> {
    let none = || "–".to_owned();
    let rate = series.rate_pps;
    vec![
        escape(&group_label(series)),
        escape(&dut_label(series)),
        rate.map_or_else(none, |s| format!("**{}**", text::mpps(s.median))),
        rate.map_or_else(none, |s| format!("{}–{}", text::mpps(s.min), text::mpps(s.max))),
        rate.and_then(|s| s.variation_ratio()).map_or_else(none, text::share),
        series.offered_pps.map_or_else(none, |s| text::mpps(s.median)),
        series.loss_ratio.zip(series.lost_packets).map_or_else(none, |(ratio, packets)| {
            format!("{} ({})", text::share(ratio.median), text::packets(packets.median))
        }),
        series.calibration_pps.map_or_else(none, text::mpps),
        series.calibration_ratio.map_or_else(none, text::share),
        format!("{} of {}", series.valid_iterations, series.iterations),
        frame(series),
    ]
}

/// The frame sizes of a series, without and with FCS.
pub(super) fn frame(series: &SeriesSummary) -> String {
    let (min_bytes, max_bytes) = series.size_with_fcs_bytes_range();
    let without = text::sizes(series.size_bytes_min, series.size_bytes_max);
    format!("{without} / {}", text::sizes(min_bytes, max_bytes))
}

/// The latencies of the series that have one.
fn latencies(report: &Report<'_>, page: &mut String) {
    let row = |series: &SeriesSummary| {
        let latency = series.latency?;
        let delays = text::delays(&latency).map(|(_, delay)| delay);
        let mut row = vec![
            escape(&group_label(series)),
            escape(&dut_label(series)),
            text::mpps(latency.rate_pps),
        ];
        row.extend(delays);
        row.push(text::count(latency.delays.sample_count));
        row.push(text::share(latency.loss_ratio));
        Some(row)
    };
    let rows: Vec<Vec<String>> = report.summary.series.iter().filter_map(row).collect();
    if rows.is_empty() {
        return;
    }
    let mut header = vec!["Traffic", "DUT", "At, Mpps"];
    header.extend(text::DELAY_NAMES);
    header.extend(["Packets measured", "Lost, of offered"]);
    line(page, "## Latency");
    line(page, &table(&header, 2, &rows));
    line(page, &prose(text::LATENCY_NOTE));
}

/// The link for which each figure is enough.
fn links(report: &Report<'_>) -> String {
    let series = report.summary.series.iter();
    let item = |series: &SeriesSummary| {
        let enough = text::enough(series.median_pps()?);
        Some(format!("- {}: {enough}", escape(&series.name)))
    };
    series.filter_map(item).collect::<Vec<_>>().join("\n")
}

fn comparisons(report: &Report<'_>, page: &mut String) {
    let blocks = report.ministat();
    if blocks.is_empty() {
        return;
    }
    line(page, "## Comparison");
    for (title, block) in blocks {
        line(page, &format!("{}:", escape(&title)));
        line(page, &fenced(block.trim_end()));
    }
}

/// What the DUTs told of their sizes.
fn levels_section(report: &Report<'_>, page: &mut String) {
    let Some(levels) = Levels::of(&report.summary) else { return };
    let header: Vec<&str> = levels.header.iter().map(String::as_str).collect();
    let cells = |row: Vec<String>| row.iter().map(|cell| escape(cell)).collect();
    let rows: Vec<Vec<String>> = levels.rows.into_iter().map(cells).collect();
    line(page, &format!("## {}", levels::TITLE));
    line(page, &table(&header, 2, &rows));
    line(page, &prose(levels::NOTE));
}

/// Warnings, intervals and words.
fn statistics_section(report: &Report<'_>, page: &mut String) {
    let summary = &report.summary;
    let warnings = statistics::warnings(summary);
    let warnings = warnings.iter().map(|(series, what, advice)| {
        format!("- **{}: {}**: {}.", escape(series), prose(what), prose(advice))
    });
    let warnings: Vec<String> = warnings.collect();
    let cells = |row: Vec<String>| row.iter().map(|cell| escape(cell)).collect();
    let rows: Vec<Vec<String>> = statistics::rows(summary).into_iter().map(cells).collect();
    if warnings.is_empty() && rows.is_empty() {
        return;
    }
    line(page, "## Statistics");
    line(page, &warnings.join("\n"));
    if !rows.is_empty() {
        line(page, &table(&statistics::HEADER, 2, &rows));
        line(page, &prose(statistics::NOTE));
    }
    let words = statistics::words(summary);
    if words.is_empty() {
        return;
    }
    let words =
        words.iter().map(|(title, text)| format!("- **{}**: {}", escape(title), prose(text)));
    line(page, &words.collect::<Vec<_>>().join("\n"));
    line(page, &prose(statistics::WORDS_NOTE));
}

fn fenced(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}text\n{text}\n{fence}")
}

fn verdicts(report: &Report<'_>) -> String {
    let rows: Vec<Vec<String>> = report
        .summary
        .series
        .iter()
        .map(|series| {
            vec![
                escape(&series.name),
                verdict_counts(series),
                prose(&series.verdict.reason),
                text::share(series.residual_ratio_worst),
            ]
        })
        .collect();
    table(&["Series", "Verdict", "Reason", "Worst residual"], 3, &rows)
}

/// `dut-bound 4 of 5, invalid 1 of 5`.
pub(super) fn verdict_counts(series: &SeriesSummary) -> String {
    let mut kinds: Vec<(&String, &usize)> = series.verdicts.iter().collect();
    kinds.sort_by_key(|(name, count)| (*name != series.verdict.kind.name(), usize::MAX - **count));
    kinds
        .iter()
        .map(|(name, count)| format!("{name} {count} of {}", series.iterations))
        .collect::<Vec<_>>()
        .join(", ")
}

fn ledgers(group: &[&SeriesSummary], page: &mut String) {
    let rows = super::sections::ledger_rows(group);
    if rows.is_empty() {
        return;
    }
    let duts: Vec<String> = group.iter().map(|s| escape(&dut_label(s))).collect();
    let mut header = vec!["", "Counted by"];
    header.extend(duts.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let name = if row.is_drop { format!("– {}", row.name) } else { row.name.clone() };
            let cells = row.cells.iter().map(|cell| {
                cell.map_or_else(
                    || "–".to_owned(),
                    |(packets, share)| format!("{} ({})", text::count(packets), text::share(share)),
                )
            });
            [escape(&name), escape(&row.source)].into_iter().chain(cells).collect()
        })
        .collect();
    line(page, &format!("{}:", escape(&group_label(group[0]))));
    line(page, &table(&header, 2, &rows));
}

fn thresholds(report: &Report<'_>) -> String {
    let rows: Vec<Vec<String>> = report
        .summary
        .thresholds
        .iter()
        .map(|t| vec![escape(&t.name), escape(&t.meaning), threshold_value(t.value, &t.unit)])
        .collect();
    table(&["Threshold", "Meaning", "Value"], 2, &rows)
}

/// A share in per cent of what it is a share of; any other value as it is.
pub(super) fn threshold_value(value: f64, unit: &str) -> String {
    if unit.starts_with("of ") {
        // Rounded far below any threshold, so that 0.1 % is not 0.10000000000000001 %.
        format!("{} % {unit}", (value * 1e8).round() / 1e6)
    } else {
        format!("{value} {unit}").trim_end().to_owned()
    }
}

fn environment(report: &Report<'_>) -> String {
    let entries = environment::short(&report.data.environment);
    let mut lines: Vec<String> = entries
        .iter()
        .map(|(path, value)| format!("- {}: {}", escape(path), escape(value)))
        .collect();
    lines.push("- everything else: `env.json`".to_owned());
    lines.join("\n")
}

fn reproduce(report: &Report<'_>) -> String {
    let lines: Vec<String> = commands(report)
        .iter()
        .map(|(command, meaning)| format!("- `{command}`: {meaning}"))
        .collect();
    lines.join("\n")
}

/// The commands that lead to this report again, and what each does.
pub(super) fn commands(report: &Report<'_>) -> Vec<(&'static str, String)> {
    let campaign = &report.summary.campaign;
    let order = match campaign.order {
        crate::model::Order::Interleaved => {
            format!("interleaved in randomised blocks, seed {}", campaign.seed)
        }
        crate::model::Order::Sequential => "series by series".to_owned(),
    };
    let run = format!(
        "{} cells, {order}, from the specification that is kept as `campaign.toml`",
        report.summary.counts.planned_cells
    );
    let mut commands = vec![("weir lab run SPEC", run)];
    if !report.summary.complete {
        commands
            .push(("weir lab resume DIR", "runs the missing cells of this campaign".to_owned()));
    }
    commands.push((
        "weir lab report DIR",
        "writes this report again from the raw records, without measuring".to_owned(),
    ));
    commands
}

/// Text whose names between backticks stay code; all else is taken literally.
pub(super) fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // A pipe ends a table's cell even inside of code.
    if parts.len().is_multiple_of(2) || text.contains('|') {
        return escape(text);
    }
    let part = |(part, index): (&&str, u32)| {
        if index % 2 == 1 { format!("`{part}`") } else { escape(part) }
    };
    parts.iter().zip(0_u32..).map(part).collect()
}

/// A name on one line of a table: control characters, which a file's name may hold, as spaces.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Text that Markdown takes literally, on one line.
pub(crate) fn escape(text: &str) -> String {
    let characters: Vec<char> = printable(text).chars().collect();
    let mut escaped = String::with_capacity(text.len());
    for (index, &c) in characters.iter().enumerate() {
        let is_word = |at: Option<usize>| {
            at.and_then(|i| characters.get(i)).is_some_and(|c| c.is_alphanumeric())
        };
        let is_inner = is_word(index.checked_sub(1)) && is_word(index.checked_add(1));
        match c {
            // An underscore or an asterisk marks nothing unless it opens or closes a word.
            '_' if is_inner => escaped.push(c),
            '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '|' | '&' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    escaped
}
