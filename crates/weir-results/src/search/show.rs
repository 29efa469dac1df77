//! Results of searches for programs (JSON) and for people (a document). Everything is computed from
//! the results alone.

use serde::{Deserialize, Serialize};

use super::record::{
    BurstRecord, CurvePoint, CurveRecord, Frames, GoalRecord, ItemResult, LatencyPoint,
    LatencyRecord, Limit,
};
use crate::document::{Block, Column, Document, Line, Outputs, Row, Table, Voice, prose};
use crate::number::{self, or_dash, percent, share, whole_pps};
use crate::search::{Terms, Test};

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
pub fn figure(goal: &GoalRecord) -> String {
    match (goal.lower_pps, goal.indicated_pps) {
        (Some(lower), _) if goal.limit.is_lower_bound() || goal.limit == Limit::Stopped => {
            format!(">= {}", whole_pps(lower))
        }
        (Some(lower), _) => whole_pps(lower),
        (None, Some(indicated)) => format!("about {}", whole_pps(indicated)),
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

fn goals(items: &[ItemResult]) -> Table {
    let heads =
        ["item", "frame", "goal", "rate pps", "upper pps", "arrives pps", "of path", "limit"];
    let goals = items.iter().flat_map(|item| item.goals.iter().map(move |goal| (item, goal)));
    let row = |(item, goal): (&ItemResult, &GoalRecord)| -> Row {
        let of_path = goal.lower_pps.map(|lower| lower / item.calibrated_pps);
        Row::from_iter([
            item.name.clone(),
            sizes(&item.frames),
            goal.name.clone(),
            figure(goal),
            or_dash(goal.upper_pps.map(whole_pps)),
            or_dash(goal.conditional_throughput_pps.map(whole_pps)),
            or_dash(of_path.map(|of_path| format!("{:.0} %", of_path * 100.0))),
            goal.limit.name().to_owned(),
        ])
    };
    Table::new(columns(1, &heads), goals.map(row))
}

fn curve(record: &CurveRecord) -> Table {
    let row = |point: &CurvePoint| -> Row {
        let lost = point.loss_ratio.map_or_else(|| "not offered".to_owned(), share);
        let of_maximum = format!("{:.0} %", point.load_ratio * 100.0);
        Row::from_iter([of_maximum, whole_pps(point.load_pps), lost])
    };
    Table::new(columns(1, &["of maximum", "load pps", "lost"]), record.points.iter().map(row))
}

fn latency(record: &LatencyRecord) -> Table {
    let heads = ["of rate", "load pps", "min us", "p50 us", "p90 us", "p99 us", "max us", "n"];
    let row = |point: &LatencyPoint| -> Row {
        let us = |ns: Option<f64>| or_dash(ns.map(|ns| format!("{:.1}", ns / 1e3)));
        let mean = point.mean;
        Row::from_iter([
            format!("{:.0} %", point.load_ratio * 100.0),
            whole_pps(point.load_pps),
            us(mean.map(|mean| mean.min_ns)),
            us(mean.map(|mean| mean.p50_ns)),
            us(mean.map(|mean| mean.p90_ns)),
            us(mean.map(|mean| mean.p99_ns)),
            us(mean.map(|mean| mean.max_ns)),
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

fn bursts(record: &BurstRecord) -> String {
    let Some(mean) = record.mean_packets else {
        return format!(
            "no burst without loss was found: {}",
            record.stopped.as_deref().unwrap_or("there is none")
        );
    };
    let sign = if record.is_lower_bound { ">= " } else { "" };
    let spread = record.stddev_packets.map(|stddev| format!(", standard deviation {stddev:.1}"));
    let ms = |s: Option<f64>| or_dash(s.map(|s| format!("{:.3} ms", s * 1e3)));
    format!(
        "longest burst without loss: {sign}{} packets at {} pps (mean of {}{}); buffer {}, \
         corrected {}",
        whole_pps(mean),
        whole_pps(record.burst_pps),
        record.lengths_packets.len(),
        spread.unwrap_or_default(),
        ms(record.implied_buffer_s),
        ms(record.corrected_buffer_s),
    )
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
fn notes(items: &[ItemResult]) -> Vec<String> {
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
    /// Whether the answer stands: every item has a result, none of which ended before its end, or
    /// lacks a figure because none of its trials could be used.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.items.len() == self.planned_items && self.items.iter().all(ItemResult::is_answered)
    }

    /// For people.
    #[must_use]
    pub fn document(&self) -> Document {
        let title = format!("{}: rate search", self.campaign);
        let answer = format!(
            "{} of {} searches; frame sizes without FCS (with FCS)",
            self.items.len(),
            self.planned_items
        );
        let mut document = Document {
            kind: "weir lab · rate search".to_owned(),
            window: format!("{title} – weir lab report"),
            title,
            answer: vec![Block::plain(answer)],
            foot: "Derived by weir; the raw records of every trial are beside this page.".into(),
            ..Document::default()
        };
        document.section("goals", "Rates", self.goals());
        for (item, index) in self.items.iter().zip(1_u32..) {
            if let Some(record) = &item.loss_curve {
                let title = format!("{}: loss by load", item.name);
                document.section(format!("loss-{index}"), title, vec![curve(record).into()]);
            }
            if let Some(record) = &item.latency {
                let title = format!("{}: latency at shares of the {}", item.name, record.of);
                document.section(format!("latency-{index}"), title, vec![latency(record).into()]);
            }
            if let Some(record) = &item.back_to_back {
                let title = format!("{}: back-to-back frames", item.name);
                let blocks = vec![Block::plain(bursts(record))];
                document.section(format!("bursts-{index}"), title, blocks);
            }
        }
        let notes = notes(&self.items).into_iter().map(Line::from).collect();
        document.section("notes", "Notes", vec![Block::List(Voice::Plain, notes)]);
        document
    }

    /// What was asked for, and what was found.
    fn goals(&self) -> Vec<Block> {
        let terms = self.terms.goals.iter().map(|goal| {
            let terms = format!(
                "{}: trials of {} s, {} s decide, {} of the time may be bad, bounds {} apart",
                goal.name(),
                goal.final_trial_s,
                goal.duration_sum_s,
                percent(goal.exceed_ratio),
                percent(goal.width_ratio),
            );
            terms.into()
        });
        let method = prose(
            "Rates are loads in packets per second, frame sizes in bytes without FCS (with FCS). \
             `rate` is the relevant lower bound of RFC 9971, `arrives` its conditional \
             throughput; `>=` marks figures that something other than the DUT limited.",
        );
        let terms = Block::List(Voice::Plain, terms.collect());
        vec![
            Block::Only(Outputs::FILES, vec![terms, Block::note(method)]),
            goals(&self.items).into(),
        ]
    }
}
