//! What the lab prints: a plan, a result, a hint after an interruption.

use std::io::Write as _;

use anyhow::Context as _;
use weir_gen::units::{format_count, format_duration, format_pps};
use weir_lab::derive::Derived;
use weir_lab::model::Plan;
use weir_lab::plan::view::{self, PlanView, estimated_duration};
use weir_lab::store::Store;
use weir_lab::summary::{CampaignSummary, SeriesSummary};

use super::absolute;
use crate::progress::{self, time};

/// Cells of a plan that are listed one by one; the rest is counted.
const CELLS_SHOWN: usize = 60;

/// Prints a plan.
pub(super) fn plan(plan: &Plan, json: bool) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    if json {
        let text = serde_json::to_string_pretty(&PlanView::new(plan))?;
        return writeln!(out, "{text}").context("cannot write to standard output");
    }
    let mut text = String::new();
    let campaign = &plan.campaign;
    let duration = |duration| format_duration(progress::whole_seconds(duration));
    text += &format!(
        "campaign {}: {} series × {} iterations = {} cells, {} calibrations; about {}\n",
        campaign.name,
        plan.series.len(),
        campaign.iterations_text(),
        range(&view::cell_count_min(plan), &plan.cells.len()),
        plan.calibrations().len(),
        range(&duration(view::estimated_duration_min(plan)), &duration(estimated_duration(plan))),
    );
    if let Some(auto) = campaign.auto {
        text += &format!(
            "a series stops once its mean is known to ±{} % at {} % confidence\n",
            auto.half_width_percent(),
            auto.confidence_percent
        );
    }
    text.push('\n');
    text += &format!("{:<32} {:>12} {:>9}  {:<10} id\n", "series", "flows", "size", "rate");
    for series in &plan.series {
        text += &format!(
            "{:<32} {:>12} {:>9}  {:<10} {}\n",
            series.name,
            format_count(series.traffic.flow_count()),
            one_or_both(series.traffic.streams.size_bytes_range()),
            series.traffic.rate.to_string(),
            &series.id[..12],
        );
    }
    text += &format!("\norder ({:?}, seed {}):\n", campaign.order, campaign.seed);
    for (index, cell) in plan.cells.iter().take(CELLS_SHOWN).enumerate() {
        text += &format!("{:>5}  {}\n", index + 1, plan.cell_name(cell));
    }
    if plan.cells.len() > CELLS_SHOWN {
        text += &format!("       … and {} more\n", plan.cells.len() - CELLS_SHOWN);
    }
    if plan.search != weir_lab::model::SearchTable::default() {
        text += "\n[search] is not part of `weir lab run`: `weir lab search` with this \
                 specification searches every series at each of its frame sizes\n";
    }
    out.write_all(text.as_bytes()).context("cannot write to standard output")
}

/// One value, or the least and the most.
fn range<T: PartialEq + std::fmt::Display>(least: &T, most: &T) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

/// A size, or the smallest and the largest.
fn one_or_both((min_bytes, max_bytes): (u16, u16)) -> String {
    if min_bytes == max_bytes { min_bytes.to_string() } else { format!("{min_bytes}-{max_bytes}") }
}

/// Prints the result of a campaign: table, comparison, answers, where the report is.
pub(super) fn result(store: &Store, derived: &Derived, json: bool) -> anyhow::Result<()> {
    let report = absolute(&store.root().join("report.html"))?;
    let mut out = anstream::stdout();
    if json {
        let mut value = serde_json::to_value(&derived.summary)?;
        value["report"] = report.display().to_string().into();
        let text = serde_json::to_string_pretty(&value)?;
        return writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .context("cannot write to standard output");
    }
    let mut text = String::from("\n");
    text += &table(&derived.summary);
    for (title, comparison) in &derived.ministat {
        text += &format!("\n{title}\n{comparison}");
        if !comparison.ends_with('\n') {
            text.push('\n');
        }
    }
    for (title, words) in &derived.words {
        text += &format!("{title}: {words}\n");
    }
    text.push('\n');
    for answer in &derived.answers {
        text += &format!("{answer}\n");
    }
    text += &format!("\nreport: {}\n", report.display());
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// The table of the series.
fn table(summary: &CampaignSummary) -> String {
    let width = summary.series.iter().map(|s| s.name.chars().count()).max().unwrap_or(0).max(6);
    let mut text = format!(
        "{:<width$} {:>4} {:>12} {:>12} {:>12} {:>8} {:>8}  verdict\n",
        "series", "n", "median", "minimum", "maximum", "lost", "of path"
    );
    for series in &summary.series {
        text += &format!("{}\n", row(series, width));
    }
    let counts = &summary.counts;
    text += &format!("{} of {} cells", counts.finished_cells, counts.planned_cells);
    if counts.invalid_cells > 0 {
        text += &format!(", {} of them invalid and left out of the figures", counts.invalid_cells);
    }
    text += &format!("; frames of {} bytes\n", sizes(summary));
    text += &latencies(summary, width);
    text
}

/// The table of the latencies; empty without any.
fn latencies(summary: &CampaignSummary, width: usize) -> String {
    let measured = summary.series.iter().filter_map(|series| Some((series, series.latency?)));
    let mut text = String::new();
    for (series, latency) in measured {
        if text.is_empty() {
            text += &format!(
                "\n{:<width$} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                "latency", "at", "min", "p50", "p90", "p99", "p99.9", "max"
            );
        }
        text += &format!("{:<width$} {:>12}", series.name, format_pps(latency.rate_pps));
        for delay_ns in latency.delays.in_order() {
            text += &format!(" {:>9}", time(delay_ns));
        }
        text.push('\n');
    }
    text
}

/// A share in per cent; what is there is never 0 %.
fn percent(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 1e-4 {
        return "< 0.01 %".to_owned();
    }
    format!("{:.*} %", if ratio > 0.0 && ratio < 0.1 { 2 } else { 0 }, ratio * 100.0)
}

fn row(series: &SeriesSummary, width: usize) -> String {
    let pps = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), format_pps);
    let rate = series.rate_pps;
    let verdicts: Vec<String> = series
        .verdicts
        .iter()
        .map(
            |(name, count)| {
                if *count == series.iterations { name.clone() } else { format!("{count} {name}") }
            },
        )
        .collect();
    let lost = series.loss_ratio.map_or_else(|| "–".to_owned(), |s| percent(s.median));
    let ratio =
        series.calibration_ratio.map_or_else(|| "–".to_owned(), |r| format!("{:.0} %", r * 100.0));
    format!(
        "{:<width$} {:>4} {:>12} {:>12} {:>12} {lost:>8} {ratio:>8}  {}",
        series.name,
        series.valid_iterations,
        pps(rate.map(|r| r.median)),
        pps(rate.map(|r| r.min)),
        pps(rate.map(|r| r.max)),
        verdicts.join(", "),
    )
}

/// Frame sizes of the campaign, without and with FCS.
fn sizes(summary: &CampaignSummary) -> String {
    let range =
        |s: &SeriesSummary| ((s.size_bytes_min, s.size_bytes_max), s.size_with_fcs_bytes_range());
    let mut sizes: Vec<_> = summary.series.iter().map(range).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let both =
        |(without, with)| format!("{} ({} with FCS)", one_or_both(without), one_or_both(with));
    let parts: Vec<String> = sizes.into_iter().map(both).collect();
    parts.join(", ")
}

/// Says how to go on after an interruption.
pub(super) fn interrupted(store: &Store) {
    progress::warn(&format!(
        "interrupted; finished iterations are kept. Go on with: weir lab resume {}",
        store.root().display()
    ));
}
