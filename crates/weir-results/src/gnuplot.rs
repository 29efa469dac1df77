//! `gnuplot.data`: one row per series, as the original bench lab wrote it.
//!
//! The header is `#index median minimum maximum`; numbers are C's `%.8g`, in packets per second.
//! The index is the series' name or, where the campaign has a numeric axis, the position on it;
//! several curves are then data blocks of their own (gnuplot's `index`), each behind a comment
//! that names it. A series without a valid iteration is a comment: gnuplot must not draw it at 0.

use std::fmt::Write as _;

use crate::summary::{CampaignSummary, SeriesSummary};

/// The file's first line.
const HEADER: &str = "#index median minimum maximum\n";

/// Writes `gnuplot.data`.
#[must_use]
pub fn data(summary: &CampaignSummary) -> String {
    let mut text = HEADER.to_owned();
    if summary.axis.is_none() {
        for series in &summary.series {
            text.push_str(&row(series, &index_name(&series.name)));
        }
        return text;
    }
    let curves = curves(summary);
    for (position, (name, curve)) in curves.iter().enumerate() {
        if position > 0 {
            text.push_str("\n\n");
        }
        if curves.len() > 1 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# {name}");
        }
        for series in curve {
            text.push_str(&row(series, &number(series.axis.unwrap_or_default())));
        }
    }
    text
}

/// The series along the numeric axis: one curve per image, DUT, traffic and other sweep value,
/// each in the order of the axis.
#[must_use]
pub fn curves(summary: &CampaignSummary) -> Vec<(String, Vec<&SeriesSummary>)> {
    let mut curves: Vec<(String, Vec<&SeriesSummary>)> = Vec::new();
    for series in &summary.series {
        let name = curve_name(series, summary.axis.as_deref());
        match curves.iter_mut().find(|(n, _)| *n == name) {
            Some((_, curve)) => curve.push(series),
            None => curves.push((name, vec![series])),
        }
    }
    for (_, curve) in &mut curves {
        curve.sort_by(|a, b| a.axis.unwrap_or_default().total_cmp(&b.axis.unwrap_or_default()));
    }
    curves
}

fn curve_name(series: &SeriesSummary, axis: Option<&str>) -> String {
    let others = series.sweep.iter().filter(|(name, _)| Some(name.as_str()) != axis);
    let sweeps = others.map(|(name, value)| format!("{name}={}", value.label));
    let parts = series.image.iter().chain([&series.dut, &series.traffic_base]).cloned();
    parts.chain(sweeps).collect::<Vec<_>>().join(" ")
}

fn row(series: &SeriesSummary, index: &str) -> String {
    match series.rate_pps {
        Some(s) => {
            format!("{index} {} {} {}\n", number(s.median), number(s.min), number(s.max))
        }
        None => format!("# {}: no valid iteration\n", series.name),
    }
}

/// A name as one column: quoted where gnuplot would split it or take it for a comment.
fn index_name(name: &str) -> String {
    if name.chars().any(|c| c.is_whitespace() || c == '#' || c == '"') {
        format!("\"{}\"", name.replace('"', "'"))
    } else {
        name.to_owned()
    }
}

fn number(value: f64) -> String {
    weir_stats::number::g8(value)
}
