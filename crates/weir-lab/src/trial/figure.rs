//! Outcomes without a figure, and what a viewer is shown meanwhile.

use std::collections::BTreeMap;

use weir_results::counters::Counters;
use weir_results::record::{Ledger, TrialResult};
use weir_results::samples::per_second;
use weir_results::unit::Unit;

use super::Outcome;
use crate::event::Event;
use crate::testbed::Reading;

/// An outcome without figure: the DUT could not be measured.
pub(super) fn not_measured(why: String) -> Outcome {
    Outcome {
        samples: Vec::new(),
        result: TrialResult::of(&[], None),
        latency: None,
        cost: None,
        windows: Vec::new(),
        ledger: Ledger::without_points(Vec::new()),
        directions: Vec::new(),
        checks: Vec::new(),
        counters: Counters::new(),
        levels: BTreeMap::new(),
        machine: None,
        machines: BTreeMap::new(),
        sysctls_changed: BTreeMap::new(),
        phases: Vec::new(),
        artefacts: Vec::new(),
        host_log: String::new(),
        not_measured: Some(why),
    }
}

/// An outcome without figure, but with the way of the probe's packets.
pub(super) fn no_probe(ledger: Ledger, counters: Counters) -> Outcome {
    let losses: Vec<String> =
        ledger.drops.iter().map(|d| format!("{} ({})", d.name, d.packets)).collect();
    let where_lost = if losses.is_empty() {
        "no counter says where they were lost".to_owned()
    } else {
        format!("lost as {}", losses.join(", "))
    };
    let last = ledger.points.iter().rev().find(|p| p.packets > 0);
    let how_far = last.map_or_else(
        || "none was offered".to_owned(),
        |p| format!("{} were counted at `{}`, the last point they reached", p.packets, p.name),
    );
    let why = format!("no probe packet got through: {how_far}; {where_lost}");
    Outcome { ledger, counters, ..not_measured(why) }
}

/// What a viewer is shown between two readings.
pub(super) fn live((earlier, later): (&Reading, &Reading), unit: Unit) -> Event<'static> {
    let span = later.t_ns - earlier.t_ns;
    Event::Live {
        rx_pps: per_second(later.rx_packets - earlier.rx_packets, span).unwrap_or(0.0),
        tx_pps: per_second(later.tx_packets - earlier.tx_packets, span).unwrap_or(0.0),
        unit: unit.of_samples(),
    }
}
