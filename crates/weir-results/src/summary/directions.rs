//! The directions of a series: the figures of each over the iterations.

use crate::record::Direction;
use crate::summary::{DirectionSummary, Spread, Trial, latency, ledger};

/// Every direction, as the first of the valid iterations names them.
pub(super) fn summarise(valid: &[&Trial], calibrations: &[&Trial]) -> Vec<DirectionSummary> {
    let Some((first, _)) = valid.first() else { return Vec::new() };
    let summary = |name: &str| {
        let of: Vec<&Direction> = named(valid, name).collect();
        let spread = |value: fn(&Direction) -> f64| {
            Spread::of(&of.iter().map(|direction| value(direction)).collect::<Vec<f64>>())
        };
        let calibrated: Vec<f64> =
            named(calibrations, name).map(|direction| direction.result.rate_pps).collect();
        DirectionSummary {
            name: name.to_owned(),
            rate_pps: spread(|direction| direction.result.rate_pps),
            offered_pps: spread(|direction| direction.result.offered_pps),
            calibration_pps: Spread::of(&calibrated).map(|spread| spread.median),
            ledger: ledger::median(&of.iter().map(|d| &d.ledger).collect::<Vec<_>>()),
            latency: latency::median(&of.iter().filter_map(|d| d.latency).collect::<Vec<_>>()),
        }
    };
    first.directions.iter().map(|direction| summary(&direction.name)).collect()
}

/// A direction of all trials that have it.
fn named<'a>(trials: &'a [&Trial], name: &'a str) -> impl Iterator<Item = &'a Direction> {
    trials.iter().flat_map(|(record, _)| &record.directions).filter(move |d| d.name == name)
}
