//! The directions of a traffic that several generators send: each has its samples, its figure and
//! its ledger, of which the trial's are the sums. Arithmetic only.

use weir_results::counters::Counters;
use weir_results::ledger::{self, MissingPoint};
use weir_results::record::{Direction, Ledger, Sample};
use weir_results::samples;
use weir_results::traffic::{Sender, Traffic};
use weir_wire::units::Rate;

use super::{DutDriver, Place, drops, figure};
use crate::testbed::{Accounting, DirectionRules, Reading};

/// The ledger of a run over all directions, and that of each.
pub(super) fn account(
    accounting: &Accounting,
    dut: Option<&dyn DutDriver>,
    run: &Counters,
) -> Result<(Ledger, Vec<Ledger>), MissingPoint> {
    let rules = &accounting.directions;
    let parts = rules.iter().map(|each| ledger::build(run, &each.points, &each.drops));
    let parts = parts.collect::<Result<Vec<Ledger>, _>>()?;
    let named_by_dut = dut.map_or(&[][..], DutDriver::names_drops_of);
    let is_counted =
        |drop: &weir_results::record::Drop| !named_by_dut.contains(&drop.name.as_str());
    let mut total = ledger::total(&parts, is_counted, run, &drops(accounting, dut));
    let shown = |(rules, part): (&DirectionRules, Ledger)| {
        let mut part = match rules.is_merged {
            true => ledger::from_point(&part, "dut_forwarded"),
            false => part,
        };
        // The DUT's counters do not tell directions apart.
        ledger::attribute_gap(&mut part, "dut_received", "inside_the_dut", Place::Dut);
        ledger::hold_against(&mut total, &rules.name, &part);
        part
    };
    let parts = rules.iter().zip(parts).map(shown).collect();
    Ok((total, parts))
}

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
        result: figure::result(
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
    figure::samples(&readings.collect::<Vec<Reading>>())
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
