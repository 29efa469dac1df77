//! The latency phase: a run of the generator for which the sink measures the delay of packets.
//!
//! It is a run of its own, because a sink that looks at every packet is slower than one that counts
//! them, which would be seen in the figure. Traffic with a rate keeps it. At `max` every queue on
//! the way is full, and a delay would tell how long the queues are: there the rate is a share of
//! what was delivered. RFC 2544 section 26.2 asks for a rate that the DUT forwards without loss.

use weir_results::record::{Direction, Latency};
use weir_wire::units::Rate;

use super::{Runner, TrialError};
use crate::testbed::{Burst, Observed, Rig};

/// The share of the delivered rate at which traffic of maximum rate is sent again.
const SHARE_OF_DELIVERED: f64 = 0.5;

/// Fewer packets per second say nothing.
const RATE_PPS_MIN: f64 = 1.0;

/// The rate of the phase; none where there is nothing to measure.
fn rate_pps(rate: Rate, delivered_pps: f64) -> Option<f64> {
    let rate_pps = match rate {
        Rate::Pps(rate_pps) => rate_pps,
        Rate::Max | Rate::Bps(_) | Rate::Percent(_) => delivered_pps * SHARE_OF_DELIVERED,
    };
    let is_measurable = rate_pps >= RATE_PPS_MIN && rate_pps.is_finite() && delivered_pps > 0.0;
    is_measurable.then_some(rate_pps)
}

impl Runner<'_> {
    /// Measures latency, if it was asked for and `delivered_pps` is not zero. Of several
    /// directions, each generator is asked for its part, and each direction is given its own.
    pub(super) fn latency(
        &mut self,
        rig: &mut dyn Rig,
        delivered_pps: f64,
        directions: &mut [Direction],
    ) -> Result<Option<Latency>, TrialError> {
        let Some(duration) = self.trial.times.latency else { return Ok(None) };
        let (senders, of_traffic) =
            (self.trial.traffic.each_sender(), Burst::of(self.trial.traffic));
        let of_port = |rate, remainder| {
            let of = senders.iter().enumerate().filter(|(_, sender)| sender.port % 2 == remainder);
            let delivered = of.map(|(index, _)| {
                directions.get(index).map_or(delivered_pps, |each| each.result.rate_pps)
            });
            rate_pps(rate, delivered.fold(f64::INFINITY, f64::min))
        };
        let (Some(there), back) =
            (of_port(of_traffic.rate, 0), of_port(of_traffic.reverse_rate, 1))
        else {
            return Ok(None);
        };
        let (rate, reverse_rate) = (Rate::Pps(there), Rate::Pps(back.unwrap_or(there)));
        let burst = Burst { reverse_rate, ..Burst::new(rate, None) };
        let asked = senders.iter().map(|sender| match burst.rate_of(sender.port) {
            Rate::Pps(rate_pps) => rate_pps,
            _ => 0.0,
        });
        let asked: Vec<f64> = asked.collect();
        self.phase("latency");
        let offered = |rig: &dyn Rig| -> Result<Vec<u64>, TrialError> {
            Ok(rig.readings()?.iter().map(|reading| reading.tx_packets).collect())
        };
        let before = offered(rig)?;
        rig.observe()?;
        rig.start(burst)?;
        let waited = self.pause(duration);
        rig.stop()?;
        waited?;
        self.pause(self.trial.times.drain)?;
        let seen = rig.observed()?;
        let offered: Vec<u64> =
            offered(rig)?.iter().zip(&before).map(|(after, before)| after - before).collect();
        let latency = |rate_pps, offered_packets, seen: &Observed| {
            let (delivered_packets, delays) = (seen.packets, seen.delays);
            let latency = Latency { rate_pps, offered_packets, delivered_packets, delays };
            (delays.sample_count > 0).then_some(latency)
        };
        let parts = directions.iter_mut().zip(&seen.directions).zip(asked.iter().zip(&offered));
        for ((direction, seen), (&rate_pps, &offered)) in parts {
            direction.latency = latency(rate_pps, offered, seen);
        }
        Ok(latency(asked.iter().sum(), offered.iter().sum(), &seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_the_maximum_is_halved() {
        assert_eq!(rate_pps(Rate::Pps(5e4), 4e4), Some(5e4));
        assert_eq!(rate_pps(Rate::Max, 4e5), Some(2e5));
        assert_eq!(rate_pps(Rate::Max, 0.0), None);
        assert_eq!(rate_pps(Rate::Pps(5e4), 0.0), None, "nothing arrives");
    }
}
