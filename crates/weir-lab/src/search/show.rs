//! Results of searches for people and for programs: text for a terminal, Markdown for a document,
//! JSON. Everything is computed from the results alone.

use serde::{Deserialize, Serialize};
use weir_gen::units::format_count;

use super::record::{
    BurstRecord, CurveRecord, Frames, GoalRecord, ItemResult, LatencyPoint, LatencyRecord, Limit,
};
use super::wanted::Wanted;

/// The content of `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchSummary {
    /// Name of the campaign.
    pub campaign: String,
    /// What was asked for.
    pub wanted: Wanted,
    /// Items that were to be searched.
    pub planned_items: usize,
    /// Results, in the order of the items.
    pub items: Vec<ItemResult>,
}

/// A table: a heading for each column, and rows.
struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Columns that are as wide as they must be; the first is flush left.
    fn text(&self) -> String {
        let heads: Vec<String> = self.heads.iter().map(|&head| head.to_owned()).collect();
        let lines = || std::iter::once(&heads).chain(&self.rows);
        let widths: Vec<usize> = (0..heads.len())
            .map(|column| lines().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in lines() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells = cells.iter().map(|cell| cell.replace('|', "\\|"));
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let heads: Vec<String> = self.heads.iter().map(|&head| head.to_owned()).collect();
        let rules: Vec<String> = (0..heads.len())
            .map(|column| if column == 0 { "---" } else { "---:" }.to_owned())
            .collect();
        let rows = self.rows.iter().map(|row| line(row));
        line(&heads) + &line(&rules) + &rows.collect::<String>()
    }
}

/// A rate in whole packets per second.
fn pps(rate_pps: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a conversion from floating point saturates; rates are not negative"
    )]
    let whole = rate_pps.round() as u64;
    format_count(whole)
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// A share in per cent, with the digits that a small one needs.
fn percent(ratio: f64) -> String {
    match ratio {
        0.0 => "0 %".to_owned(),
        ratio if ratio < 1e-4 => "< 0.01 %".to_owned(),
        ratio => format!("{:.2} %", ratio * 100.0),
    }
}

/// Frame sizes in both ways to count them: `60 (64)`.
#[must_use]
pub fn sizes(frames: &Frames) -> String {
    let range = |min: u16, max: u16| {
        if min == max { min.to_string() } else { format!("{min}-{max}") }
    };
    let own = range(frames.size_bytes_min, frames.size_bytes_max);
    let with_fcs = range(frames.size_with_fcs_bytes_min, frames.size_with_fcs_bytes_max);
    format!("{own} ({with_fcs})")
}

/// The figure of a goal: its lower bound, with a sign that the device may do more.
#[must_use]
pub fn figure(goal: &GoalRecord) -> String {
    match (goal.lower_pps, goal.indicated_pps) {
        (Some(lower), _) if goal.limit.is_lower_bound() || goal.limit == Limit::Stopped => {
            format!(">= {}", pps(lower))
        }
        (Some(lower), _) => pps(lower),
        (None, Some(indicated)) => format!("about {}", pps(indicated)),
        (None, None) => "none".to_owned(),
    }
}

fn goals(items: &[ItemResult]) -> Table {
    let mut table = Table::new(&[
        "item",
        "frame",
        "goal",
        "rate pps",
        "upper pps",
        "arrives pps",
        "of path",
        "limit",
    ]);
    for item in items {
        for goal in &item.goals {
            let share = goal.lower_pps.map(|lower| lower / item.calibrated_pps);
            table.rows.push(vec![
                item.name.clone(),
                sizes(&item.frames),
                goal.name.clone(),
                figure(goal),
                or_dash(goal.upper_pps.map(pps)),
                or_dash(goal.conditional_throughput_pps.map(pps)),
                or_dash(share.map(|share| format!("{:.0} %", share * 100.0))),
                goal.limit.name().to_owned(),
            ]);
        }
    }
    table
}

fn curve(record: &CurveRecord) -> Table {
    let mut table = Table::new(&["of maximum", "load pps", "lost"]);
    for point in &record.points {
        let lost = point.loss_ratio.map_or_else(|| "not offered".to_owned(), percent);
        let of_maximum = format!("{:.0} %", point.load_ratio * 100.0);
        table.rows.push(vec![of_maximum, pps(point.load_pps), lost]);
    }
    table
}

fn latency(record: &LatencyRecord) -> Table {
    let mut table =
        Table::new(&["of rate", "load pps", "min us", "p50 us", "p90 us", "p99 us", "max us", "n"]);
    for point in &record.points {
        let us = |ns: Option<f64>| or_dash(ns.map(|ns| format!("{:.1}", ns / 1e3)));
        let mean = point.mean;
        table.rows.push(vec![
            format!("{:.0} %", point.load_ratio * 100.0),
            pps(point.load_pps),
            us(mean.map(|mean| mean.min_ns)),
            us(mean.map(|mean| mean.p50_ns)),
            us(mean.map(|mean| mean.p90_ns)),
            us(mean.map(|mean| mean.p99_ns)),
            us(mean.map(|mean| mean.max_ns)),
            counted(point),
        ]);
    }
    table
}

/// How many repetitions are in the means, and of how many if not all are.
fn counted(point: &LatencyPoint) -> String {
    let counted = point.repeats.len();
    match usize::try_from(point.trials) {
        Ok(trials) if trials > counted => format!("{counted} of {trials}"),
        _ => counted.to_string(),
    }
}

fn bursts(record: &BurstRecord) -> String {
    let Some(mean) = record.mean_packets else {
        return format!(
            "no burst without loss was found: {}\n",
            record.stopped.as_deref().unwrap_or("there is none")
        );
    };
    let sign = if record.is_lower_bound { ">= " } else { "" };
    let spread = record.stddev_packets.map(|stddev| format!(", standard deviation {stddev:.1}"));
    let ms = |s: Option<f64>| or_dash(s.map(|s| format!("{:.3} ms", s * 1e3)));
    format!(
        "longest burst without loss: {sign}{} packets at {} pps (mean of {}{}); buffer {}, \
         corrected {}{}\n",
        pps(mean),
        pps(record.burst_pps),
        record.lengths_packets.len(),
        spread.unwrap_or_default(),
        ms(record.implied_buffer_s),
        ms(record.corrected_buffer_s),
        record.stopped.as_deref().map(|why| format!("; {why}")).unwrap_or_default(),
    )
}

/// What is not plain from the tables: why figures are missing or only bounds.
fn notes(items: &[ItemResult]) -> Vec<String> {
    let mut notes = Vec::new();
    for item in items {
        for goal in item.goals.iter().filter(|goal| goal.limit != Limit::Dut) {
            notes.push(format!("{}, {}: {}", item.name, goal.name, goal.reason));
        }
        if let Some(why) = item.latency.as_ref().and_then(|latency| latency.stopped.as_ref()) {
            notes
                .push(format!("{}, latency: {why}; its means are of fewer repetitions", item.name));
        }
        for cost in &item.costs {
            let parts: Vec<String> =
                [(cost.not_offered_trials, "not offered"), (cost.void_trials, "void")]
                    .into_iter()
                    .filter(|&(count, _)| count > 0)
                    .map(|(count, what)| format!("{count} {what}"))
                    .collect();
            if !parts.is_empty() {
                notes.push(format!(
                    "{}, {}: of {} trials {}",
                    item.name,
                    cost.test.name(),
                    cost.trials,
                    parts.join(", ")
                ));
            }
        }
    }
    notes
}

impl SearchSummary {
    /// Whether the answer stands: every item has a result, none of which ended before its end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_stopped = |item: &ItemResult| {
            item.goals.iter().any(|goal| goal.limit == Limit::Stopped)
                || item.loss_curve.as_ref().is_some_and(|curve| curve.stopped.is_some())
                || item.latency.as_ref().is_some_and(|latency| latency.stopped.is_some())
                || item.back_to_back.as_ref().is_some_and(|bursts| bursts.stopped.is_some())
        };
        self.items.len() == self.planned_items && !self.items.iter().any(is_stopped)
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.items.iter().any(|item| !item.goals.is_empty()) {
            text += &goals(&self.items).text();
        }
        for item in &self.items {
            if let Some(record) = &item.loss_curve {
                text += &format!("\n{}: loss by load\n{}", item.name, curve(record).text());
            }
            if let Some(record) = &item.latency {
                let of = &record.of;
                text += &format!("\n{}: latency, {of}\n{}", item.name, latency(record).text());
            }
            if let Some(record) = &item.back_to_back {
                text += &format!("\n{}: {}", item.name, bursts(record));
            }
        }
        for note in notes(&self.items) {
            text += &format!("\n{note}");
        }
        text += &format!(
            "\n{} of {} searches; frame sizes without FCS (with FCS)\n",
            self.items.len(),
            self.planned_items
        );
        text
    }

    /// For a document.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}: rate search\n\n", self.campaign);
        for goal in &self.wanted.goals {
            text += &format!(
                "- {}: trials of {} s, {} s decide, {} % of the time may be bad, bounds {} % \
                 apart\n",
                goal.name(),
                goal.final_trial_s,
                goal.duration_sum_s,
                goal.exceed_ratio * 100.0,
                goal.width_ratio * 100.0,
            );
        }
        text += "\nRates are loads in packets per second, frame sizes in bytes without FCS (with \
                 FCS). `rate` is the relevant lower bound of RFC 9971, `arrives` its conditional \
                 throughput; `>=` marks figures that something other than the DUT limited.\n\n";
        text += &goals(&self.items).markdown();
        for item in &self.items {
            if let Some(record) = &item.loss_curve {
                text += &format!("\n## {}: loss by load\n\n", item.name);
                text += &curve(record).markdown();
            }
            if let Some(record) = &item.latency {
                let of = &record.of;
                text += &format!("\n## {}: latency at shares of the {of}\n\n", item.name);
                text += &latency(record).markdown();
            }
            if let Some(record) = &item.back_to_back {
                text += &format!("\n## {}: back-to-back frames\n\n{}", item.name, bursts(record));
            }
        }
        let notes = notes(&self.items);
        if !notes.is_empty() {
            text += "\n## Notes\n\n";
            for note in notes {
                text += &format!("- {note}\n");
            }
        }
        text
    }
}
