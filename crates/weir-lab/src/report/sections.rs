//! The sections of `report.html` that are tables: figures, ledgers, iterations.

use maud::{Markup, html};
use weir_gen::units::Rate;

use super::answer::{keep_units, prose};
use super::markdown::{frame, verdict_counts};
use super::{Report, answer, dut_label, group_label, text};
use crate::record::{TrialRecord, VerdictKind};
use crate::summary::{LatencySummary, SeriesSummary, Spread};

/// One line of a ledger table: a counting point, a drop after it, or the residual.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LedgerRow {
    /// Its name in words.
    pub(super) name: String,
    /// The counter it was read from.
    pub(super) source: String,
    /// Whether it is a loss.
    pub(super) is_drop: bool,
    /// Packets, and their share of the offer, per series; absent without a valid iteration.
    pub(super) cells: Vec<Option<(u64, f64)>>,
}

/// The ledgers of a group side by side: points in order, the drops after each, the residual.
pub(super) fn ledger_rows(group: &[&SeriesSummary]) -> Vec<LedgerRow> {
    let Some(first) = group.iter().find_map(|s| s.ledger.as_ref()) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for point in &first.points {
        rows.push(row(group, text::words(&point.name), &point.source, false, |ledger| {
            ledger.points.iter().find(|p| p.name == point.name).map_or(0, |p| p.packets)
        }));
        let all = group.iter().filter_map(|s| s.ledger.as_ref()).flat_map(|l| &l.drops);
        let mut seen = Vec::new();
        for drop in all.filter(|d| d.after == point.name) {
            if seen.contains(&(&drop.name, drop.place)) {
                continue;
            }
            seen.push((&drop.name, drop.place));
            let name = format!("{} ({})", drop.name, text::place(drop.place));
            rows.push(row(group, name, &drop.source, true, |ledger| {
                let same = ledger.drops.iter().filter(|d| {
                    d.name == drop.name && d.place == drop.place && d.after == drop.after
                });
                same.map(|d| d.packets).sum()
            }));
        }
    }
    rows.push(row(group, "residual".to_owned(), "no counter explains it", true, |ledger| {
        ledger.residual_packets
    }));
    rows
}

fn row(
    group: &[&SeriesSummary],
    name: String,
    source: &str,
    is_drop: bool,
    packets: impl Fn(&crate::summary::LedgerSummary) -> u64,
) -> LedgerRow {
    let cell = |series: &&SeriesSummary| {
        let ledger = series.ledger.as_ref()?;
        let offered = ledger.points.first().map_or(0, |p| p.packets);
        Some((packets(ledger), ratio(packets(ledger), offered)))
    };
    LedgerRow { name, source: source.to_owned(), is_drop, cells: group.iter().map(cell).collect() }
}

#[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A reason in words, with a true minus before numbers.
fn reason(text: &str) -> Markup {
    prose(&true_minus(text))
}

/// Puts U+2212 where a hyphen stands as the sign of a number; ranges, names and what is between
/// backticks keep theirs.
fn true_minus(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut before = ' ';
    let mut is_code = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        is_code ^= character == '`';
        let opens = before.is_whitespace() || before == '(';
        let is_sign = character == '-' && opens && !is_code;
        let is_sign = is_sign && characters.peek().is_some_and(char::is_ascii_digit);
        result.push(if is_sign { '\u{2212}' } else { character });
        before = character;
    }
    result
}

/// The rate that the specification asks for; absent where it asks for all there is.
fn requested_pps(report: &Report<'_>, series: &SeriesSummary) -> Option<f64> {
    match report.cells(series).first()?.0.traffic.rate {
        Rate::Pps(rate_pps) => Some(rate_pps),
        Rate::Max | Rate::Bps(_) | Rate::Percent(_) => None,
    }
}

/// A verdict with its reason on hover; the reason in text is the caller's.
fn badge(kind: VerdictKind, text: &str, reason: &str) -> Markup {
    html! { span class={ "badge v-" (kind.name()) } title=(reason) { (text) } }
}

fn figure(rate: Option<f64>) -> String {
    rate.map_or_else(|| "–".to_owned(), text::mpps)
}

fn min_max(rate: Option<Spread>) -> String {
    rate.map_or_else(
        || "–".to_owned(),
        |s| format!("{}\u{2013}{}", text::mpps(s.min), text::mpps(s.max)),
    )
}

/// One large figure per traffic and DUT, and the difference between the DUTs.
pub(super) fn key_figures(report: &Report<'_>) -> Markup {
    let summary = &report.summary;
    let mut duts: Vec<(String, usize)> = Vec::new();
    for series in &summary.series {
        if !duts.iter().any(|(name, _)| *name == series.dut) {
            duts.push((series.dut.clone(), report.colour(series)));
        }
    }
    let has_comparisons = !summary.comparisons.is_empty();
    html! {
        div class="scroll" {
            table class="key" {
                thead { tr {
                    th scope="col" { "Mpps delivered" }
                    @for (name, colour) in &duts {
                        th scope="col" class="n" {
                            span class={ "swatch " (super::colour_class(*colour)) } {} (name)
                        }
                    }
                    @if has_comparisons { th scope="col" class="n answer" { "Difference" } }
                } }
                tbody {
                    @for group in summary.groups() {
                        tr {
                            th scope="row" { (key_label(group[0])) }
                            @for (name, _) in &duts {
                                (key_cell(group.iter().find(|s| s.dut == *name).copied()))
                            }
                            @if has_comparisons { (key_difference(report, &group)) }
                        }
                    }
                }
            }
        }
    }
}

fn key_label(series: &SeriesSummary) -> Markup {
    let image = series.image.as_ref().map_or_else(String::new, |image| format!("{image} "));
    let label = format!("{image}{}", group_label(series));
    let (name, flows) = label.rsplit_once(" · ").unwrap_or((&label, ""));
    html! { (name) span class="under" { (flows) } }
}

fn key_cell(series: Option<&SeriesSummary>) -> Markup {
    let Some(series) = series else {
        return html! { td class="n" { "–" } };
    };
    html! {
        td class="n" {
            a class="big" href=(super::series_link(&series.name)) { (figure(series.median_pps())) }
            span class="under" {
                @match series.rate_pps {
                    Some(rate) if rate.count > 1 => { (min_max(series.rate_pps)) }
                    Some(_) => { "one iteration" }
                    None => { "no valid iteration" }
                }
            }
        }
    }
}

fn key_difference(report: &Report<'_>, group: &[&SeriesSummary]) -> Markup {
    let of_group = report
        .summary
        .comparisons
        .iter()
        .filter(|c| group.iter().any(|s| s.name == c.other))
        .collect::<Vec<_>>();
    html! {
        td class="n answer" {
            @if of_group.is_empty() { "–" }
            @for comparison in &of_group {
                @let proven = comparison.difference.is_some_and(|d| d.proven);
                @let name = group.iter().find(|s| s.name == comparison.other).map(|s| dut_label(s));
                span class=(if proven { "difference" } else { "difference open" }) {
                    @if let Some(name) = name.filter(|_| of_group.len() > 1) {
                        span class="of" { (name) " " }
                    }
                    (keep_units(&answer::short(comparison)))
                }
            }
        }
    }
}

/// Every series with all of its figures and its verdict.
pub(super) fn series_table(report: &Report<'_>) -> Markup {
    html! {
        div class="scroll" {
            table class="series sortable" {
                thead {
                    tr {
                        th scope="col" { "DUT" }
                        th scope="col" class="n" { "Median" span class="unit" { "Mpps" } }
                        th scope="col" class="n" { "Min–max" span class="unit" { "Mpps" } }
                        th scope="col" class="n" { "CV" span class="unit" { "of mean" } }
                        th scope="col" class="n" { "Offered" span class="unit" { "Mpps" } }
                        th scope="col" class="n" { "Lost" span class="unit" { "of offered" } }
                        th scope="col" class="n" { "Calibrated" span class="unit" { "Mpps" } }
                        th scope="col" class="n" { "Ratio" span class="unit" { "of calibr." } }
                        th scope="col" class="n" { "Frame" span class="unit" { "B / with FCS" } }
                        th scope="col" class="n" { "Valid" span class="unit" { "iterations" } }
                    }
                }
                @for group in report.summary.groups() {
                    tbody {
                        tr class="group" {
                            th colspan="10" scope="rowgroup" { (group_label(group[0])) }
                        }
                        @for series in group { (series_row(report, series)) }
                    }
                }
            }
        }
    }
}

fn series_row(report: &Report<'_>, series: &SeriesSummary) -> Markup {
    let rate = series.rate_pps;
    let variation = rate.and_then(|s| s.variation_ratio());
    let none = || "–".to_owned();
    let raw = super::series_link(&series.name);
    html! {
        tr class="figures" {
            th scope="row" title=(series.name) {
                span class={ "swatch " (super::colour_class(report.colour(series))) } {}
                (dut_label(series))
            }
            td class="n strong" data-value=[series.median_pps()] {
                a href=(raw) { (figure(series.median_pps())) }
            }
            td class="n" data-value=[rate.map(|r| r.min)] { a href=(raw) { (min_max(rate)) } }
            td class="n" data-value=[variation] {
                (variation.map_or_else(none, |v| keep_units(&text::share(v))))
            }
            td class="n" data-value=[series.offered_pps.map(|s| s.median)] {
                a href=(raw) { (figure(series.offered_pps.map(|s| s.median))) }
                @if let Some(rate_pps) = requested_pps(report, series) {
                    span class="under" { (text::mpps(rate_pps)) " requested" }
                }
            }
            td class="n" data-value=[series.loss_ratio.map(|s| s.median)] {
                a href=(raw) {
                    (series.loss_ratio.map_or_else(none, |s| keep_units(&text::share(s.median))))
                }
                @if let Some(lost) = series.lost_packets.filter(|s| s.median > 0.0) {
                    span class="under" { (text::packets(lost.median)) }
                }
            }
            td class="n" data-value=[series.calibration_pps] {
                @if let Some(link) = calibration_link(report, series) {
                    a href=(link) { (figure(series.calibration_pps)) }
                } @else { (figure(series.calibration_pps)) }
            }
            td class="n" data-value=[series.calibration_ratio] {
                (series.calibration_ratio.map_or_else(none, |r| keep_units(&text::share(r))))
            }
            td class="n" { (frame(series)) }
            td class="n" { (series.valid_iterations) " of " (series.iterations) }
        }
        tr class="because" {
            td colspan="10" {
                div class="reason" {
                    (badge(series.verdict.kind, &verdict_counts(series), &series.verdict.reason))
                    " " (reason(&series.verdict.reason))
                    @if let Some(rate_pps) = series.median_pps() {
                        "; " (keep_units(&text::enough(rate_pps)))
                    }
                }
            }
        }
    }
}

/// The latency of every series that has one; empty without any.
pub(super) fn latency_table(report: &Report<'_>) -> Option<Markup> {
    let groups = report.summary.groups();
    let measured = |group: &Vec<&SeriesSummary>| group.iter().any(|s| s.latency.is_some());
    let groups: Vec<_> = groups.into_iter().filter(measured).collect();
    if groups.is_empty() {
        return None;
    }
    Some(html! {
        div class="scroll" {
            table class="series" {
                thead { tr {
                    th scope="col" { "DUT" }
                    th scope="col" class="n" { "At" span class="unit" { "Mpps" } }
                    @for name in text::DELAY_NAMES { th scope="col" class="n" { (name) } }
                    th scope="col" class="n" { "Measured" span class="unit" { "packets" } }
                    th scope="col" class="n" { "Lost" span class="unit" { "of offered" } }
                } }
                @for group in &groups {
                    tbody {
                        tr class="group" {
                            th colspan="10" scope="rowgroup" { (group_label(group[0])) }
                        }
                        @for series in group {
                            @if let Some(latency) = &series.latency {
                                (latency_row(report, series, latency))
                            }
                        }
                    }
                }
            }
        }
    })
}

fn latency_row(report: &Report<'_>, series: &SeriesSummary, latency: &LatencySummary) -> Markup {
    html! {
        tr class="figures" {
            th scope="row" title=(series.name) {
                span class={ "swatch " (super::colour_class(report.colour(series))) } {}
                (dut_label(series))
            }
            td class="n" {
                a href=(super::series_link(&series.name)) { (text::mpps(latency.rate_pps)) }
            }
            @for (name, delay) in text::delays(latency) {
                td class=(if name == "p50" { "n strong" } else { "n" }) {
                    (delay.replace(' ', "\u{a0}"))
                }
            }
            td class="n" { (text::count(latency.delays.sample_count)) }
            td class="n" { (keep_units(&text::share(latency.loss_ratio))) }
        }
    }
}

/// The ledger of every group as a table.
pub(super) fn ledger_tables(report: &Report<'_>) -> Markup {
    html! {
        @for (group, index) in report.summary.groups().iter().zip(0_u32..) {
            @let rows = ledger_rows(group);
            @if !rows.is_empty() {
                details open[index == 0] {
                    summary { (group_label(group[0])) }
                    div class="scroll" { (ledger_table(report, group, &rows)) }
                }
            }
        }
    }
}

fn ledger_table(report: &Report<'_>, group: &[&SeriesSummary], rows: &[LedgerRow]) -> Markup {
    html! {
        table class="ledger" {
            thead { tr {
                th scope="col" { "Packets" }
                th scope="col" { "Counted by" }
                @for series in group {
                    th scope="col" class="n" colspan="2" {
                        span class={ "swatch " (super::colour_class(report.colour(series))) } {}
                        (dut_label(series))
                    }
                }
            } }
            tbody {
                @for row in rows {
                    tr class=(if row.is_drop { "drop" } else { "point" }) {
                        th scope="row" { (row.name) }
                        td class="source" { (row.source) }
                        @for (cell, series) in row.cells.iter().zip(group) {
                            @if let Some((packets, share)) = cell {
                                td class="n" {
                                    a href=(super::series_link(&series.name)) {
                                        (text::count(*packets))
                                    }
                                }
                                td class="n share" { (keep_units(&text::share(*share))) }
                            } @else {
                                td class="n" { "–" } td class="n share" {}
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Every iteration of every series, folded away.
pub(super) fn iterations(report: &Report<'_>) -> Markup {
    html! {
        @for series in &report.summary.series {
            details {
                summary {
                    (dut_label(series)) " · " (group_label(series))
                    span class="count" { " " (verdict_counts(series)) }
                }
                p class="note" {
                    "Raw records: "
                    a href=(super::series_link(&series.name)) {
                        code { "cells/" (series.name) "/" }
                    }
                }
                div class="scroll" {
                    table class="iterations sortable" {
                        thead { tr {
                            th scope="col" class="n" { "#" }
                            th scope="col" class="n" { "Median" span class="unit" { "Mpps" } }
                            th scope="col" class="n" {
                                "Samples" span class="unit" { "min–max, Mpps" }
                            }
                            th scope="col" class="n" { "Offered" span class="unit" { "Mpps" } }
                            th scope="col" class="n" { "Lost" span class="unit" { "of offered" } }
                            th scope="col" class="n" { "Trend" span class="unit" { "of median" } }
                            th scope="col" class="n" { "Jump" span class="unit" { "of median" } }
                            th scope="col" class="n" {
                                "Residual" span class="unit" { "of offered" }
                            }
                            th scope="col" class="n" { "Began" }
                        } }
                        tbody {
                            @for (record, _) in report.cells(series) { (iteration_row(record)) }
                        }
                    }
                }
            }
        }
    }
}

fn iteration_row(record: &TrialRecord) -> Markup {
    let r = &record.result;
    let is_void = record.verdict.kind == VerdictKind::Invalid;
    let told = &record.verdict.reason;
    // What decided the verdict stands in its reason already.
    let failed = record.checks.iter().filter(|c| !c.passed && !told.contains(&c.detail));
    let faults = record.ledger.faults.iter().filter(|f| !told.contains(f.as_str()));
    let void = if is_void { "figures void" } else { "figures" };
    let raw = |file| super::cell_link(&record.series, record.iteration, file);
    let (trial, samples) = (raw("trial.json"), raw("samples.csv"));
    html! {
        tr class=(void) {
            th scope="row" class="n" { a href=(trial) { (record.iteration) } }
            td class="n strong" data-value=(r.rate_pps) {
                a href=(trial) { (text::mpps(r.rate_pps)) }
            }
            td class="n" data-value=(r.rate_pps_min) {
                a href=(samples) {
                    (r.sample_count) " · "
                    (text::mpps(r.rate_pps_min)) "–" (text::mpps(r.rate_pps_max))
                }
            }
            td class="n" data-value=(r.offered_pps) {
                a href=(trial) { (text::mpps(r.offered_pps)) }
            }
            td class="n" { a href=(trial) { (lost(record)) } }
            td class="n" data-value=[r.trend_ratio] {
                a href=(trial) { (stability(r.trend_ratio)) }
            }
            td class="n" data-value=[r.jump_ratio] {
                a href=(trial) { (stability(r.jump_ratio)) }
            }
            td class="n" data-value=(record.ledger.residual_ratio) {
                a href=(trial) { (keep_units(&text::share(record.ledger.residual_ratio))) }
            }
            td class="n" { (text::utc(&record.times.started_utc)) }
        }
        tr class="because" {
            td {}
            td colspan="8" {
                div class="reason" {
                    (badge(record.verdict.kind, record.verdict.kind.name(), &record.verdict.reason))
                    " " (reason(&record.verdict.reason))
                }
                @for fault in faults {
                    div class="reason" { "Fault: " (reason(fault)) }
                }
                @for check in failed {
                    div class="reason" { "Check " (check.name) " failed: " (reason(&check.detail)) }
                }
            }
        }
    }
}

/// The raw records of the calibration that a series is held against, if there is one.
fn calibration_link(report: &Report<'_>, series: &SeriesSummary) -> Option<String> {
    series.calibration_pps?;
    let traffic = &report.cells(series).first()?.0.traffic;
    let is_there = report.data.calibrations.iter().any(|(r, _)| r.traffic.id == traffic.id);
    is_there.then(|| super::page::link(&format!("calibration/{}/", traffic.name)))
}

/// The loss of a trial; a dash where no counter gave a ledger.
fn lost(record: &TrialRecord) -> String {
    if record.ledger.points.is_empty() {
        return "–".to_owned();
    }
    keep_units(&text::share(record.ledger.loss_ratio()))
}

/// A measure of stability; a dash where a trial has none.
fn stability(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |r| keep_units(&text::share(r)))
}

#[cfg(test)]
mod tests {
    use super::true_minus;

    #[test]
    fn only_signs_become_minuses() {
        for (text, expected) in [
            ("-3.1 % and (-4 %)", "\u{2212}3.1 % and (\u{2212}4 %)"),
            ("a trend of -12 %", "a trend of \u{2212}12 %"),
            ("CPUs 0-3, rx-1, `nft -1`", "CPUs 0-3, rx-1, `nft -1`"),
            ("a - b -c", "a - b -c"),
        ] {
            assert_eq!(true_minus(text), expected);
        }
    }
}
