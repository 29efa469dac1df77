//! The latency of a series: the median of every entry over the iterations.

use crate::record::{Delays, Latency};
use crate::summary::ledger::median_of;
use crate::summary::{LatencySummary, Spread};

/// The median latency; `None` without any.
pub(super) fn median(latencies: &[Latency]) -> Option<LatencySummary> {
    let of = |entry: fn(&Delays) -> u64| {
        median_of(latencies.iter().map(|latency| entry(&latency.delays)).collect())
    };
    let floats = |entry: fn(&Latency) -> f64| {
        Spread::of(&latencies.iter().map(entry).collect::<Vec<f64>>()).map(|spread| spread.median)
    };
    Some(LatencySummary {
        iterations: latencies.len(),
        rate_pps: floats(|latency| latency.rate_pps)?,
        loss_ratio: floats(loss_ratio)?,
        delays: Delays {
            sample_count: of(|delays| delays.sample_count),
            min_ns: of(|delays| delays.min_ns),
            p50_ns: of(|delays| delays.p50_ns),
            p90_ns: of(|delays| delays.p90_ns),
            p99_ns: of(|delays| delays.p99_ns),
            p999_ns: of(|delays| delays.p999_ns),
            max_ns: of(|delays| delays.max_ns),
        },
    })
}

#[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
fn loss_ratio(latency: &Latency) -> f64 {
    let lost = latency.offered_packets.saturating_sub(latency.delivered_packets);
    if latency.offered_packets == 0 { 0.0 } else { lost as f64 / latency.offered_packets as f64 }
}
