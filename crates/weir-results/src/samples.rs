//! From readings to samples to the figure of a trial, and `samples.csv`: cumulative counts since
//! the start of the measurement, one line a sample.
//!
//! Four whole numbers a line under a fixed header; nothing else is written, and anything else is
//! refused when read.

use std::fmt::Write as _;

use weir_stats::{stability, summary};

use crate::record::{Sample, TrialResult};

const HEADER: &str = "t_ns,rx_packets,rx_bytes,tx_packets";

/// The text of the file.
#[must_use]
pub fn render(samples: &[Sample]) -> String {
    let mut text = String::with_capacity(samples.len() * 48 + HEADER.len() + 1);
    text.push_str(HEADER);
    text.push('\n');
    for s in samples {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{},{},{},{}", s.t_ns, s.rx_packets, s.rx_bytes, s.tx_packets);
    }
    text
}

/// Reads the file.
///
/// # Errors
/// When it is not such a file; the error names the line.
pub fn parse(text: &str) -> Result<Vec<Sample>, String> {
    if !text.ends_with('\n') {
        return Err(format!("line {} is cut short", text.lines().count().max(1)));
    }
    let mut lines = text.lines().zip(1..);
    match lines.next() {
        Some((HEADER, _)) => {}
        other => return Err(format!("line 1 is {other:?} instead of `{HEADER}`")),
    }
    lines
        .map(|(line, number)| {
            let fields: Result<Vec<u64>, _> = line.split(',').map(str::parse).collect();
            match fields.as_deref() {
                Ok(&[t_ns, rx_packets, rx_bytes, tx_packets]) => {
                    Ok(Sample { t_ns, rx_packets, rx_bytes, tx_packets })
                }
                _ => Err(format!("line {number} is not four whole numbers: `{line}`")),
            }
        })
        .collect()
}

/// Cumulative counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic clock.
    pub t_ns: u64,
    /// Packets of the traffic that arrived at the sink.
    pub rx_packets: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Packets that the generator has offered.
    pub tx_packets: u64,
}

impl Reading {
    /// The sum of several, at the moment of the first; nothing at all of none.
    #[must_use]
    pub fn total(readings: &[Self]) -> Self {
        let sum = |of: fn(&Self) -> u64| readings.iter().map(of).sum();
        Self {
            t_ns: readings.first().map_or(0, |first| first.t_ns),
            rx_packets: sum(|reading| reading.rx_packets),
            rx_bytes: sum(|reading| reading.rx_bytes),
            tx_packets: sum(|reading| reading.tx_packets),
        }
    }
}

/// Readings as samples: cumulative since the first one.
#[must_use]
pub fn of(readings: &[Reading]) -> Vec<Sample> {
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
fn rates_pps(samples: &[Sample]) -> Vec<f64> {
    samples
        .windows(2)
        .filter_map(|pair| {
            let [a, b] = pair else { return None };
            per_second(b.rx_packets - a.rx_packets, b.t_ns - a.t_ns)
        })
        .collect()
}

/// Packets per second; none over no time.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53")]
pub fn per_second(packets: u64, span_ns: u64) -> Option<f64> {
    (span_ns > 0).then(|| packets as f64 * 1e9 / span_ns as f64)
}

impl TrialResult {
    /// The figure: the median of the samples, as `bench-lab-ministat` reduces an iteration.
    #[must_use]
    pub fn of(samples: &[Sample], requested_pps: Option<f64>) -> Self {
        let rates = rates_pps(samples);
        let offered = samples.last().and_then(|last| per_second(last.tx_packets, last.t_ns));
        let summary = summary::Summary::of(&rates);
        Self {
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
}

impl TrialResult {
    /// The figure of connections that are opened and stay open: how many came through in the end.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers of connections stay below 2^53")]
    pub fn held(samples: &[Sample], requested: u64) -> Self {
        let (held, opened) =
            samples.last().map_or((0, 0), |last| (last.rx_packets, last.tx_packets));
        let figure = held as f64;
        Self {
            rate_pps: figure,
            rate_pps_min: figure,
            rate_pps_max: figure,
            offered_pps: opened as f64,
            // A count that only rises has no level that could trend or jump.
            trend_ratio: None,
            jump_ratio: None,
            ..Self::of(samples, Some(requested as f64))
        }
    }
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
        let samples = of(&readings);
        assert_eq!(samples[0], Sample { t_ns: 0, rx_packets: 0, rx_bytes: 0, tx_packets: 0 });
        assert_eq!(samples[3].rx_bytes, 600 * 60);
        let figure = TrialResult::of(&samples, None);
        assert!((figure.rate_pps - 2_000.0).abs() < 1e-6, "{}", figure.rate_pps);
        assert!((figure.rate_pps_min - 1_000.0).abs() < 1e-6);
        assert!((figure.rate_pps_max - 3_000.0).abs() < 1e-6);
        assert!((figure.offered_pps - 4_000.0).abs() < 1e-6);
        assert_eq!(figure.sample_count, 3);
        assert_eq!(figure.requested_pps, None);
    }

    #[test]
    fn nothing_sampled_is_a_figure_of_nothing() {
        let figure = TrialResult::of(&[], Some(50_000.0));
        assert_eq!(figure.sample_count, 0);
        assert_eq!(figure.requested_pps, Some(50_000.0));
    }

    #[test]
    fn what_is_held_is_what_came_through_in_the_end() {
        let readings = [reading(0, 7), reading(100_000_000, 27), reading(200_000_000, 57)];
        let figure = TrialResult::held(&of(&readings), 100);
        assert_eq!((figure.rate_pps, figure.offered_pps), (50.0, 100.0));
        assert_eq!((figure.requested_pps, figure.sample_count), (Some(100.0), 2));
        assert_eq!((figure.trend_ratio, TrialResult::held(&[], 9).rate_pps), (None, 0.0));
    }

    #[test]
    fn directions_are_added_up_at_the_moment_of_the_first() {
        let total = Reading::total(&[reading(7, 100), reading(9, 20)]);
        assert_eq!((total.t_ns, total.rx_packets, total.tx_packets), (7, 120, 240));
    }
}
