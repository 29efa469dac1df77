//! What the lab prints: a plan, a result, a hint after an interruption.

use std::io::Write as _;

use anyhow::Context as _;
use weir_gen::units::{format_count, format_duration, format_pps};
use weir_lab::derive::Derived;
use weir_lab::model::Plan;
use weir_lab::plan::view::{PlanView, estimated_duration};
use weir_lab::store::Store;
use weir_lab::summary::{CampaignSummary, SeriesSummary};

use super::absolute;
use crate::progress;

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
    text += &format!(
        "campaign {}: {} series × {} iterations = {} cells, {} calibrations; about {}\n\n",
        campaign.name,
        plan.series.len(),
        campaign.iterations,
        plan.cells.len(),
        plan.calibrations().len(),
        format_duration(progress::whole_seconds(estimated_duration(plan))),
    );
    text += &format!("{:<32} {:>12} {:>6}  {:<10} id\n", "series", "flows", "size", "rate");
    for series in &plan.series {
        text += &format!(
            "{:<32} {:>12} {:>6}  {:<10} {}\n",
            series.name,
            format_count(series.traffic.flow_count),
            series.traffic.size_bytes,
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
    out.write_all(text.as_bytes()).context("cannot write to standard output")
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
        "{:<width$} {:>4} {:>12} {:>12} {:>12} {:>8}  verdict\n",
        "series", "n", "median", "minimum", "maximum", "of path"
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
    text
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
    let ratio =
        series.calibration_ratio.map_or_else(|| "–".to_owned(), |r| format!("{:.0} %", r * 100.0));
    format!(
        "{:<width$} {:>4} {:>12} {:>12} {:>12} {ratio:>8}  {}",
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
    let mut sizes: Vec<(u16, u16)> =
        summary.series.iter().map(|s| (s.size_bytes, s.size_with_fcs_bytes)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let parts: Vec<String> =
        sizes.iter().map(|(size, with)| format!("{size} ({with} with FCS)")).collect();
    parts.join(", ")
}

/// Says how to go on after an interruption.
pub(super) fn interrupted(store: &Store) {
    progress::warn(&format!(
        "interrupted; finished iterations are kept. Go on with: weir lab resume {}",
        store.root().display()
    ));
}
