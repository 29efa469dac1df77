//! The directions of a traffic that several generators send: each has its samples and its figure,
//! of which the trial's are the sums. Arithmetic only.

use weir_results::record::{Direction, Ledger, Sample, TrialResult};
use weir_results::samples;
use weir_results::traffic::{Sender, Traffic};
use weir_wire::units::Rate;

use crate::testbed::{DirectionRules, Reading};

/// What each direction has delivered. `readings` hold one of each for every moment.
pub(super) fn figures(
    rules: &[DirectionRules],
    ledgers: Vec<Ledger>,
    readings: &[Vec<Reading>],
    traffic: &Traffic,
) -> Vec<Direction> {
    let senders = traffic.each_sender();
    let of = |(index, (rules, ledger)): (usize, (&DirectionRules, Ledger))| Direction {
        name: rules.name.clone(),
        result: TrialResult::of(
            &samples_of(readings, index),
            senders.get(index).and_then(requested_pps),
        ),
        ledger,
        latency: None,
    };
    rules.iter().zip(ledgers).enumerate().map(of).collect()
}

/// The samples of each direction, as files beside those of their sum.
pub(super) fn files(rules: &[DirectionRules], readings: &[Vec<Reading>]) -> Vec<(String, Vec<u8>)> {
    let file = |(index, rules): (usize, &DirectionRules)| {
        let name = rules.name.replace(" → ", "-").replace(' ', "-");
        let text = samples::render(&samples_of(readings, index));
        (format!("samples-{name}.csv"), text.into_bytes())
    };
    rules.iter().enumerate().map(file).collect()
}

fn samples_of(readings: &[Vec<Reading>], index: usize) -> Vec<Sample> {
    let readings = readings.iter().filter_map(|moment| moment.get(index).copied());
    samples::of(&readings.collect::<Vec<Reading>>())
}

/// What a generator was asked for; `None` for "as fast as possible".
fn requested_pps(sender: &Sender) -> Option<f64> {
    match sender.rate {
        Rate::Pps(rate_pps) => Some(rate_pps),
        _ => None,
    }
}

/// What all generators were asked for together; `None` if one of them was to do what it can.
pub(super) fn requested_by_all_pps(traffic: &Traffic) -> Option<f64> {
    traffic.each_sender().iter().map(requested_pps).sum()
}
