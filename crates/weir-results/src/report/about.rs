//! What a page tells of the points of its figures, and the records that it holds itself.
//!
//! A click on a point opens the record of its trial. The page holds records up to
//! [`RECORDS_BYTES_MAX`], so that they open wherever it lies; the others open where the store is
//! beside it.

use super::{Report, dut_label, group_label, is_valid};
use crate::document::{Record, Tag};
use crate::number::{count, counted_len, share};
use crate::plot::{About, RowAbout};
use crate::samples;
use crate::summary::{SeriesSummary, Trial};

/// Bytes of records that a page holds at most.
pub(super) const RECORDS_BYTES_MAX: usize = 2 << 20;

/// Named losses that are told of a trial; the page shows the others in its record.
const DROPS_MAX: usize = 3;

/// By what a reader filters what is of a series.
pub(super) fn tag(series: &SeriesSummary) -> Tag {
    Tag { dut: Some(dut_label(series)), traffic: Some(group_label(series)) }
}

/// What is of every DUT of a group.
pub(super) fn group_tag(group: &[&SeriesSummary]) -> Tag {
    Tag { dut: None, traffic: group.first().map(|series| group_label(series)) }
}

/// The trials of a series in a page, in their order: those that count, those that do not, and
/// those that were repeated.
pub(super) fn trials<'a>(
    report: &Report<'a>,
    series: &SeriesSummary,
) -> Vec<(String, &'a Trial, bool)> {
    let cell = |trial: &'a Trial| {
        let (name, iteration) = (&trial.0.series, trial.0.iteration);
        (format!("cells/{name}/{iteration}"), trial, is_valid(trial))
    };
    let cells = report.cells(series).into_iter().map(cell);
    let is_of = |trial: &Trial| trial.0.dut.is_some() && trial.0.series == series.name;
    let rejected = report.data.rejected.iter().filter(|r| is_of(&r.trial));
    cells.chain(rejected.map(|r| (r.folder.clone(), &r.trial, false))).collect()
}

/// A row with each of its trials.
pub(super) fn of_trials(report: &Report<'_>, series: &SeriesSummary) -> RowAbout {
    let trials = trials(report, series);
    let points = trials.iter().map(|(folder, trial, _)| of_trial(series, folder, trial));
    RowAbout { tag: tag(series), points: points.collect(), whole: None }
}

/// A curve over the time of a trial.
pub(super) fn of_samples(report: &Report<'_>, series: &SeriesSummary) -> Vec<RowAbout> {
    let cells = report.cells(series);
    let about = |trial: &&Trial| {
        let folder = format!("cells/{}/{}", trial.0.series, trial.0.iteration);
        let whole = Some(of_trial(series, &folder, trial));
        RowAbout { tag: tag(series), points: Vec::new(), whole }
    };
    cells.iter().map(about).collect()
}

/// What is told of a trial: where it is from, value, verdict, drops.
fn of_trial(series: &SeriesSummary, folder: &str, (record, _): &Trial) -> About {
    let repeated = if folder.starts_with("rejected/") { ", repeated" } else { "" };
    let unit = series.unit;
    let mut lines = vec![
        format!("{}, iteration {}{repeated}", name(series), record.iteration),
        format!(
            "{} {} of {} offered",
            unit.written(record.result.rate_pps),
            unit.done().to_lowercase(),
            unit.written(record.result.offered_pps)
        ),
        format!("{}: {}", record.verdict.kind.name(), record.verdict.reason.replace('`', "")),
    ];
    let offered = record.ledger.points.first().map_or(0, |point| point.packets);
    let mut drops: Vec<_> = record.ledger.drops.iter().filter(|drop| drop.packets > 0).collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.packets));
    for drop in drops.iter().take(DROPS_MAX) {
        let of_offered = share(ratio(drop.packets, offered));
        let (lost, things) = (count(drop.packets), unit.things());
        lines.push(format!("{}: {lost} {things}, {of_offered}", drop.name));
    }
    if drops.is_empty() {
        lines.push("no drops counted".to_owned());
    }
    About {
        text: lines.join("\n"),
        to: Some(crate::document::link(&format!("{folder}/trial.json"))),
    }
}

/// What is told of a series: its median, spread and verdict. It leads to its iterations.
pub(super) fn of_series(report: &Report<'_>, series: &SeriesSummary) -> About {
    let mut lines = vec![name(series)];
    if let Some(rate) = series.rate_pps {
        lines.push(format!("median {}", series.unit.written(rate.median)));
        let range = series.unit.range(rate.min, rate.max);
        lines.push(format!("{range} over {}", counted_len(rate.count, "iteration")));
    }
    let verdict = &series.verdict;
    lines.push(format!("{}: {}", verdict.kind.name(), series.reason().replace('`', "")));
    About { text: lines.join("\n"), to: Some(report.iterations_link(series)) }
}

fn name(series: &SeriesSummary) -> String {
    format!("{} · {}", dut_label(series), group_label(series))
}

#[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The records that a page holds, in the order of its tables, and how many it has no room for.
pub(super) fn records(report: &Report<'_>) -> (Vec<Record>, usize) {
    let mut all: Vec<(String, String, &Trial)> = Vec::new();
    for series in &report.summary.series {
        for (folder, trial, _) in trials(report, series) {
            let title = format!("{}, iteration {}", name(series), trial.0.iteration);
            all.push((folder, title, trial));
        }
    }
    for trial in &report.data.calibrations {
        let traffic = &trial.0.traffic.name;
        all.push((format!("calibration/{traffic}"), format!("Calibration of {traffic}"), trial));
    }
    let calibrations = report.data.rejected.iter().filter(|r| r.trial.0.dut.is_none());
    for rejected in calibrations {
        let title = format!("Rejected calibration of {}", rejected.trial.0.traffic.name);
        all.push((rejected.folder.clone(), title, &rejected.trial));
    }
    let planned = all.len();
    let mut bytes = 0;
    let mut records = Vec::new();
    for (folder, title, (record, samples)) in all {
        let trial = serde_json::to_string(record).unwrap_or_default();
        let samples = samples::render(samples);
        bytes += trial.len() + samples.len();
        if bytes > RECORDS_BYTES_MAX {
            break;
        }
        records.push(Record { folder, title, trial, samples });
    }
    let left_out = planned - records.len();
    (records, left_out)
}
