//! Latency at shares of a throughput: RFC 2544 section 26.2 measures it at the throughput, CSIT at
//! 10, 50 and 90 % of it, several times each, and reports the mean of the repetitions.

use super::rounded_load;

/// The shares of a throughput at which latency is measured.
pub const SHARES: [f64; 3] = [0.1, 0.5, 0.9];

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The share of the throughput.
    pub share: f64,
    /// The load, packets per second.
    pub load_pps: f64,
    /// Repetition, from 1.
    pub repeat: u32,
}

/// All measurements, repetition by repetition, so that a drift of the machine meets all shares.
#[must_use]
pub fn points(throughput_pps: f64, repeats: u32) -> Vec<Point> {
    let at = |repeat| {
        let point =
            move |share| Point { share, load_pps: rounded_load(throughput_pps * share), repeat };
        SHARES.into_iter().map(point)
    };
    (1..=repeats).flat_map(at).collect()
}

/// The mean of a figure over the repetitions; `None` without one.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nanoseconds and counts stay below 2^53")]
pub fn mean_ns(values_ns: &[u64]) -> Option<f64> {
    let count = values_ns.len();
    (count > 0).then(|| values_ns.iter().map(|&ns| ns as f64).sum::<f64>() / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_have_their_turn_in_each_repetition() {
        let points = points(200e3, 2);
        let loads: Vec<f64> = points.iter().map(|point| point.load_pps.round()).collect();
        assert_eq!(loads, [20e3, 100e3, 180e3, 20e3, 100e3, 180e3]);
        assert_eq!(points[3].repeat, 2);
        assert_eq!(mean_ns(&[10, 20, 60]), Some(30.0));
        assert_eq!(mean_ns(&[]), None);
    }
}
