//! One series: the figures over its iterations.

use std::collections::BTreeMap;

use crate::record::{Latency, TrialRecord, Verdict, VerdictKind};
use crate::summary::{
    CampaignData, FCS_BYTES, SeriesSummary, Spread, Trial, analysis, directions, latency, ledger,
    order, turns::ToggleSummary,
};
use crate::traffic::connect::HELD_CHECK;

/// Summarises the cells of one of so many series; `None` without any, or without a DUT.
pub(super) fn summarise(
    cells: &[&Trial],
    data: &CampaignData,
    (axis, series_count): (Option<&str>, usize),
) -> Option<SeriesSummary> {
    let (first, _) = cells.first()?;
    let valid: Vec<&Trial> =
        cells.iter().filter(|(r, _)| !r.verdict.kind.is_void()).copied().collect();
    let values_pps: Vec<f64> = valid.iter().map(|(r, _)| r.result.rate_pps).collect();
    let offered: Vec<f64> = valid.iter().map(|(r, _)| r.result.offered_pps).collect();
    let rate_pps = Spread::of(&values_pps);
    let calibrations = calibrations(&data.calibrations, &first.traffic.id);
    let calibration_pps = calibration(&calibrations);
    let residuals = cells.iter().map(|(r, _)| r.ledger.residual_ratio);
    let ledgers: Vec<_> = valid.iter().map(|(r, _)| &r.ledger).collect();
    // A trial whose counters gave no ledger says nothing of losses.
    let counted = || ledgers.iter().filter(|ledger| !ledger.points.is_empty());
    let lost: Vec<f64> = counted().map(|ledger| count(ledger.lost_packets())).collect();
    let loss_ratios: Vec<f64> = counted().map(|ledger| ledger.loss_ratio()).collect();
    let latencies: Vec<Latency> = valid.iter().filter_map(|(r, _)| r.latency).collect();
    let costs = || valid.iter().filter_map(|(record, _)| record.cost);
    let costs_ns: Vec<f64> = costs().map(|cost| cost.cost_ns).collect();
    let apparatus: Vec<f64> = costs().filter_map(|cost| cost.apparatus_ratio).collect();
    let records: Vec<&TrialRecord> = cells.iter().map(|(record, _)| record).collect();
    let (size_bytes_min, size_bytes_max) = first.traffic.streams.size_bytes_range();
    let size_bytes = rounded(first.traffic.streams.mean_bytes());
    let (verdict, verdict_iteration) =
        verdict(if valid.is_empty() { cells } else { &valid }, rate_pps)?;
    let position = |name: &str| first.sweep.iter().find(|(n, _)| n == name)?.1.number;
    Some(SeriesSummary {
        name: first.series.clone(),
        series_id: first.series_id.clone(),
        image: first.image.clone(),
        dut: first.dut.as_ref()?.name.clone(),
        traffic: first.traffic.name.clone(),
        traffic_base: order::traffic_base(first).to_owned(),
        flow_count: first.traffic.flow_count(),
        unit: first.traffic.kind.unit(),
        connect: first.traffic.connect().copied(),
        http: first.traffic.http().copied(),
        knows_connections: knows_connections(&valid),
        sweep: first.sweep.clone(),
        axis: axis.and_then(position),
        size_bytes,
        size_bytes_min,
        size_bytes_max,
        size_with_fcs_bytes: size_bytes.saturating_add(FCS_BYTES),
        iterations: cells.len(),
        valid_iterations: valid.len(),
        rate_pps,
        offered_pps: Spread::of(&offered),
        lost_packets: Spread::of(&lost),
        loss_ratio: Spread::of(&loss_ratios),
        directions: directions::summarise(&valid, &calibrations),
        latency: latency::median(&latencies),
        cost_ns: Spread::of(&costs_ns),
        apparatus_ratio: Spread::of(&apparatus).map(|s| s.median),
        toggle: ToggleSummary::of(&records, series_count),
        calibration_pps,
        calibration_ratio: calibration_ratio(rate_pps, calibration_pps),
        verdicts: verdicts(cells),
        verdict,
        verdict_iteration,
        residual_ratio_worst: residuals.fold(0.0, f64::max),
        ledger: ledger::median(&ledgers),
        levels: levels(&valid),
        values_pps,
        analysis: Some(analysis::series(cells, &data.campaign)),
    })
}

#[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
fn count(packets: u64) -> f64 {
    packets as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of frame sizes is one"
)]
fn rounded(size_bytes: f64) -> u16 {
    size_bytes.round() as u16
}

/// Whether the DUT knew in every one of these trials what it was to hold.
fn knows_connections(valid: &[&Trial]) -> bool {
    let knows = |(record, _): &&Trial| {
        record.checks.iter().any(|check| check.name == HELD_CHECK && check.passed)
    };
    !valid.is_empty() && valid.iter().all(knows)
}

/// The valid calibrations of a traffic.
fn calibrations<'a>(calibrations: &'a [Trial], traffic_id: &str) -> Vec<&'a Trial> {
    let of = |(r, _): &&Trial| r.traffic.id == traffic_id && !r.verdict.kind.is_void();
    calibrations.iter().filter(of).collect()
}

/// What the traffic reached with no DUT between: the median of its calibrations.
fn calibration(calibrations: &[&Trial]) -> Option<f64> {
    let rates: Vec<f64> = calibrations.iter().map(|(record, _)| record.result.rate_pps).collect();
    Spread::of(&rates).map(|s| s.median)
}

/// The figure as a share of what the traffic reached with no DUT between.
fn calibration_ratio(rate_pps: Option<Spread>, calibration_pps: Option<f64>) -> Option<f64> {
    let (rate, calibration) = rate_pps.zip(calibration_pps)?;
    (calibration > 0.0).then(|| rate.median / calibration)
}

/// The median of each level that a DUT told of.
fn levels(valid: &[&Trial]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::<&String, Vec<u64>>::new();
    for (name, value) in valid.iter().flat_map(|trial| &trial.0.levels) {
        all.entry(name).or_default().push(*value);
    }
    all.into_iter().map(|(name, values)| (name.clone(), ledger::median_of(values))).collect()
}

fn verdicts(cells: &[&Trial]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (record, _) in cells {
        *counts.entry(record.verdict.kind.name().to_owned()).or_insert(0) += 1;
    }
    counts
}

/// The most frequent verdict, the earlier in the closed list of equals, with the reason of the
/// iteration that is nearest to the median, and that iteration where others have another reason.
fn verdict(cells: &[&Trial], rate: Option<Spread>) -> Option<(Verdict, Option<u32>)> {
    let count = |kind| cells.iter().filter(|(r, _)| r.verdict.kind == kind).count();
    let kind = VerdictKind::ALL.into_iter().rev().max_by_key(|&kind| count(kind))?;
    let median = rate.map_or(0.0, |s| s.median);
    let distance = |(record, _): &&&Trial| (record.result.rate_pps - median).abs();
    let of_kind = || cells.iter().filter(|(record, _)| record.verdict.kind == kind);
    let (nearest, _) = of_kind().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let is_shared = of_kind().all(|(record, _)| record.verdict.reason == nearest.verdict.reason);
    Some((nearest.verdict.clone(), (!is_shared).then_some(nearest.iteration)))
}
