//! Results of searches for programs (JSON), and the tables and notes that people read, all computed
//! from the results alone.

use serde::{Deserialize, Serialize};
use weir_stats::Summary;

use super::record::{
    BurstRecord, CurvePoint, CurveRecord, Frames, GoalRecord, ItemResult, LatencyPoint,
    LatencyRecord, Limit,
};
use crate::document::{Cell, Column, Row, Table};
use crate::number::{self, or_dash, pps, share, signed};
use crate::search::{Terms, Test};
use crate::unit::Unit;

/// The content of `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchSummary {
    /// Name of the campaign.
    pub campaign: String,
    /// What was asked for.
    // Stores that were made before have this key.
    #[serde(rename = "wanted")]
    pub terms: Terms,
    /// Items that were to be searched.
    pub planned_items: usize,
    /// Results, in the order of the items.
    pub items: Vec<ItemResult>,
}

/// Frame sizes in both ways to count them: `60 (64)`.
#[must_use]
pub fn sizes(frames: &Frames) -> String {
    let range = |min: u16, max: u16| {
        if min == max { min.to_string() } else { format!("{min}-{max}") }
    };
    let without = range(frames.size_bytes_min, frames.size_bytes_max);
    let with_fcs = range(frames.size_with_fcs_bytes_min, frames.size_with_fcs_bytes_max);
    format!("{without} ({with_fcs})")
}

/// The figure of a goal: its lower bound, with a sign that the device may do more.
#[must_use]
pub fn figure(goal: &GoalRecord, unit: Unit) -> String {
    match (goal.lower_pps, goal.indicated_pps) {
        (Some(lower), _) if goal.limit.is_lower_bound() || goal.limit == Limit::Stopped => {
            format!(">= {}", unit.written(lower))
        }
        (Some(lower), _) => unit.written(lower),
        (None, Some(indicated)) => format!("about {}", unit.written(indicated)),
        (None, None) => "none".to_owned(),
    }
}

/// Columns of a table: the first `words` of them hold words, the others numbers.
fn columns(words: usize, heads: &[&'static str]) -> Vec<Column> {
    let column = |(index, head): (usize, &&'static str)| {
        if index < words { Column::words(*head) } else { Column::numbers(*head) }
    };
    heads.iter().enumerate().map(column).collect()
}

pub(super) fn goals(items: &[ItemResult]) -> Table {
    let heads = ["item", "frame", "goal", "rate", "upper", "arrives", "of path", "limit"];
    let goals = || items.iter().flat_map(|item| item.goals.iter().map(move |goal| (item, goal)));
    let has_costs = goals().any(|(_, goal)| goal.cost.is_some());
    let mut columns = columns(1, &heads);
    columns.extend(has_costs.then(|| Column::numbers("CPU time").unit("per packet")));
    let row = |(item, goal): (&ItemResult, &GoalRecord)| -> Row {
        let written = |rate: f64| item.unit.written(rate);
        let of_path = goal.lower_pps.zip(item.calibrated_pps).map(|(lower, path)| lower / path);
        let cells = [
            item.name.clone(),
            sizes(&item.frames),
            goal.name.clone(),
            figure(goal, item.unit),
            or_dash(goal.upper_pps.map(written)),
            or_dash(goal.conditional_throughput_pps.map(written)),
            or_dash(of_path.map(share)),
            goal.limit.name().to_owned(),
        ];
        cells.map(Cell::from).into_iter().chain(has_costs.then(|| cost(goal))).collect()
    };
    Table::new(columns, goals().map(row))
}

/// What the repetitions of each item found together; empty where nothing was repeated.
pub(super) fn repetitions(items: &[ItemResult]) -> Table {
    let unit = items.first().map_or(Unit::Pps, |item| item.unit);
    let mut found: Vec<((&str, &str), Vec<f64>)> = Vec::new();
    for item in items {
        for goal in item.goals.iter().filter(|goal| goal.is_answered()) {
            let key = (item.base_name(), goal.name.as_str());
            let rate = goal.lower_pps;
            match found.iter_mut().find(|(known, _)| *known == key) {
                Some((_, rates)) => rates.extend(rate),
                None => found.push((key, rate.into_iter().collect())),
            }
        }
    }
    found.retain(|(_, rates)| rates.len() > 1);
    let row = |((item, goal), rates): &((&str, &str), Vec<f64>)| -> Row {
        let summary = Summary::of(rates);
        let figure = |of: fn(&Summary) -> f64| {
            or_dash(summary.as_ref().map(of).map(|rate| unit.written(rate)))
        };
        Row::from_iter([
            (*item).to_owned(),
            (*goal).to_owned(),
            rates.len().to_string(),
            figure(|s| s.median),
            figure(|s| s.min),
            figure(|s| s.max),
        ])
    };
    let heads = ["item", "goal", "n", "median", "lowest", "highest"];
    Table::new(columns(2, &heads), found.iter().map(row))
}

/// What a packet costs at the rate of a goal, and how much of it is the sink's work.
fn cost(goal: &GoalRecord) -> Cell {
    let cost_ns = goal.cost.map(|cost| cost.cost_ns);
    let sink = goal.cost.and_then(|cost| cost.apparatus_ratio);
    let sink = sink.map(|ratio| format!("{} sink", share(ratio)));
    Cell::from(or_dash(cost_ns.map(number::cost))).sorted(cost_ns).under(sink.unwrap_or_default())
}

pub(super) fn curve(record: &CurveRecord, unit: Unit) -> Table {
    let row = |point: &CurvePoint| -> Row {
        let lost = point.loss_ratio.map_or_else(|| "no usable trial".to_owned(), share);
        let of_maximum = format!("{:.0} %", point.load_ratio * 100.0);
        Row::from_iter([of_maximum, unit.written(point.load_pps), lost])
    };
    Table::new(columns(1, &["of maximum", "load", "lost"]), record.points.iter().map(row))
}

pub(super) fn latency(record: &LatencyRecord) -> Table {
    let heads = ["of rate", "load", "min", "p50", "p90", "p99", "p99.9", "max", "n"];
    let row = |point: &LatencyPoint| -> Row {
        let delay = |ns: Option<f64>| or_dash(ns.map(number::delay));
        let mean = point.mean;
        Row::from_iter([
            format!("{:.0} %", point.load_ratio * 100.0),
            pps(point.load_pps),
            delay(mean.map(|mean| mean.min_ns)),
            delay(mean.map(|mean| mean.p50_ns)),
            delay(mean.map(|mean| mean.p90_ns)),
            delay(mean.map(|mean| mean.p99_ns)),
            delay(mean.and_then(|mean| mean.p999_ns)),
            delay(mean.map(|mean| mean.max_ns)),
            counted(point),
        ])
    };
    Table::new(columns(1, &heads), record.points.iter().map(row))
}

/// How many repetitions are in the means, and of how many if not all are.
fn counted(point: &LatencyPoint) -> String {
    let counted = point.repeats.len();
    match usize::try_from(point.trials) {
        Ok(trials) if trials > counted => format!("{counted} of {trials}"),
        _ => counted.to_string(),
    }
}

/// The longest bursts of all items that have any; empty without.
pub(super) fn bursts(items: &[ItemResult]) -> Table {
    let heads = ["item", "frame", "longest burst", "stddev", "n", "rate", "buffer", "corrected"];
    let time = |s: Option<f64>| or_dash(s.map(|s| number::delay(s * 1e9)));
    let row = |(item, record): (&ItemResult, &BurstRecord)| -> Row {
        let sign = if record.is_lower_bound { ">= " } else { "" };
        Row::from_iter([
            item.name.clone(),
            sizes(&item.frames),
            or_dash(record.mean_packets.map(|mean| format!("{sign}{}", signed(mean, 0)))),
            or_dash(record.stddev_packets.map(|stddev| format!("{stddev:.1}"))),
            record.lengths_packets.len().to_string(),
            pps(record.burst_pps),
            time(record.implied_buffer_s),
            time(record.corrected_buffer_s),
        ])
    };
    let rows = items.iter().filter_map(|item| Some((item, item.back_to_back.as_ref()?)));
    Table::new(columns(1, &heads), rows.map(row))
}

/// The tests, beside the throughput, that did not come to their end, or have no figure, and why.
fn unanswered(item: &ItemResult) -> Vec<(Test, String)> {
    const UNUSABLE: &str = "none of its trials could be used";
    let mut found = Vec::new();
    if let Some(curve) = item.loss_curve.as_ref().filter(|curve| !curve.is_answered()) {
        let why = curve.stopped.as_deref().unwrap_or(UNUSABLE);
        found.push((Test::LossCurve, why.to_owned()));
    }
    if let Some(latency) = item.latency.as_ref().filter(|latency| !latency.is_answered()) {
        let why = match &latency.stopped {
            Some(why) => format!("{why}; its means are of fewer repetitions"),
            None => "at a load without figures, none of the trials could be used".to_owned(),
        };
        found.push((Test::Latency, why));
    }
    if let Some(bursts) = item.back_to_back.as_ref().filter(|bursts| !bursts.is_answered()) {
        let why = bursts.stopped.as_deref().unwrap_or(UNUSABLE);
        found.push((Test::BackToBack, why.to_owned()));
    }
    found
}

/// What is not plain from the tables: why figures are missing or only bounds.
pub(super) fn notes(items: &[ItemResult]) -> Vec<String> {
    let mut notes = Vec::new();
    for item in items {
        for goal in item.goals.iter().filter(|goal| goal.limit != Limit::Dut) {
            notes.push(format!("{}, {}: {}", item.name, goal.name, goal.reason));
        }
        for (test, why) in unanswered(item) {
            notes.push(format!("{}, {}: {why}", item.name, test.name()));
        }
        if item.repeated_trials > 0 {
            let count = number::counted(item.repeated_trials.into(), "disturbed trial");
            notes.push(format!("{}: {count} repeated; see `rejected/{}`", item.name, item.name));
        }
        for cost in &item.costs {
            let unused = [
                (cost.not_offered_trials, "could not offer the load, or lost it outside the DUT"),
                (cost.void_trials, "gave no result"),
            ];
            let parts = unused.into_iter().filter(|&(count, _)| count > 0);
            let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
            if !parts.is_empty() {
                let trials = number::counted(cost.trials.into(), "trial");
                notes.push(format!(
                    "{}, {}: of {trials}, {}",
                    item.name,
                    cost.test.name(),
                    parts.join(", ")
                ));
            }
        }
    }
    notes
}

impl SearchSummary {
    /// Whether the answer stands: every item has a result, none of which ended before its end, or
    /// lacks a figure because none of its trials could be used.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.items.len() == self.planned_items && self.items.iter().all(ItemResult::is_answered)
    }
}
