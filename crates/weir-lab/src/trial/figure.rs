//! From readings to samples to the figure of a trial. Arithmetic only.

use std::collections::BTreeMap;

use weir_results::counters::Counters;
use weir_results::record::{Ledger, Sample, TrialResult};
use weir_stats::{stability, summary};

use super::Outcome;
use crate::event::Event;
use crate::testbed::Reading;

/// Readings as samples: cumulative since the first one.
pub(super) fn samples(readings: &[Reading]) -> Vec<Sample> {
    let Some(first) = readings.first() else {
        return Vec::new();
    };
    readings
        .iter()
        .map(|r| Sample {
            t_ns: r.t_ns - first.t_ns,
            rx_packets: r.rx_packets - first.rx_packets,
            rx_bytes: r.rx_bytes - first.rx_bytes,
            tx_packets: r.tx_packets - first.tx_packets,
        })
        .collect()
}

/// Packets per second between each two samples.
pub(super) fn rates_pps(samples: &[Sample]) -> Vec<f64> {
    samples
        .windows(2)
        .filter_map(|pair| {
            let [a, b] = pair else { return None };
            per_second(b.rx_packets - a.rx_packets, b.t_ns - a.t_ns)
        })
        .collect()
}

/// The figure: the median of the samples, as `bench-lab-ministat` reduces an iteration.
pub(super) fn result(samples: &[Sample], requested_pps: Option<f64>) -> TrialResult {
    let rates = rates_pps(samples);
    let offered = samples.last().and_then(|last| per_second(last.tx_packets, last.t_ns));
    let summary = summary::Summary::of(&rates);
    TrialResult {
        rate_pps: summary.map_or(0.0, |s| s.median),
        rate_pps_min: summary.map_or(0.0, |s| s.min),
        rate_pps_max: summary.map_or(0.0, |s| s.max),
        sample_count: rates.len(),
        offered_pps: offered.unwrap_or(0.0),
        requested_pps,
        trend_ratio: stability::trend(&rates).filter(|r| r.is_finite()),
        jump_ratio: stability::level_shift(&rates).filter(|r| r.is_finite()),
    }
}

/// An outcome without figure: the DUT could not be measured.
pub(super) fn not_measured(why: String) -> Outcome {
    Outcome {
        samples: Vec::new(),
        result: result(&[], None),
        latency: None,
        cost: None,
        ledger: no_ledger(Vec::new()),
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

/// A ledger without points: counters that went backwards give none.
pub(super) fn no_ledger(faults: Vec<String>) -> Ledger {
    Ledger {
        points: Vec::new(),
        drops: Vec::new(),
        residual_packets: 0,
        residual_ratio: 0.0,
        faults,
    }
}

/// What a viewer is shown between two readings.
pub(super) fn live(earlier: &Reading, later: &Reading) -> Event<'static> {
    let span = later.t_ns - earlier.t_ns;
    Event::Live {
        rx_pps: per_second(later.rx_packets - earlier.rx_packets, span).unwrap_or(0.0),
        tx_pps: per_second(later.tx_packets - earlier.tx_packets, span).unwrap_or(0.0),
    }
}

/// Packets per second; none over no time.
#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53")]
fn per_second(packets: u64, span_ns: u64) -> Option<f64> {
    (span_ns > 0).then(|| packets as f64 * 1e9 / span_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(t_ns: u64, rx_packets: u64) -> Reading {
        Reading { t_ns, rx_packets, rx_bytes: rx_packets * 60, tx_packets: rx_packets * 2 }
    }

    #[test]
    fn samples_start_at_zero_and_the_figure_is_the_median_rate() {
        let readings = [
            reading(1_000_000_000, 500),
            reading(1_100_000_000, 600),
            reading(1_200_000_000, 900),
            reading(1_300_000_000, 1_100),
        ];
        let samples = samples(&readings);
        assert_eq!(samples[0], Sample { t_ns: 0, rx_packets: 0, rx_bytes: 0, tx_packets: 0 });
        assert_eq!(samples[3].rx_bytes, 600 * 60);
        let figure = result(&samples, None);
        assert!((figure.rate_pps - 2_000.0).abs() < 1e-6, "{}", figure.rate_pps);
        assert!((figure.rate_pps_min - 1_000.0).abs() < 1e-6);
        assert!((figure.rate_pps_max - 3_000.0).abs() < 1e-6);
        assert!((figure.offered_pps - 4_000.0).abs() < 1e-6);
        assert_eq!(figure.sample_count, 3);
        assert_eq!(figure.requested_pps, None);
    }

    #[test]
    fn nothing_sampled_is_a_figure_of_nothing() {
        let figure = result(&[], Some(50_000.0));
        assert_eq!(figure.sample_count, 0);
        assert_eq!(figure.requested_pps, Some(50_000.0));
    }
}
