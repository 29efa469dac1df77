//! A device that is a formula: capacity, loss floor, noise and a sender with limits, for the tests
//! of the searches.

use super::{Measured, Standing};
use crate::shuffle::SplitMix64;

/// A scripted device behind a scripted sender.
#[derive(Debug, Clone)]
pub(crate) struct Simulated {
    /// What it forwards, packets per second.
    pub(crate) capacity_pps: f64,
    /// The share that it always loses.
    pub(crate) loss_floor: f64,
    /// How much a trial's capacity may lie below `capacity_pps`, as a share; drawn evenly.
    pub(crate) noise: f64,
    /// The share of trials in which something else takes a tenth of its capacity.
    pub(crate) hiccups: f64,
    /// The most that the sender offers.
    pub(crate) sender_pps: f64,
    /// The share of trials that are void.
    pub(crate) voids: f64,
    /// Time that a trial takes beside its traffic, seconds.
    pub(crate) overhead_s: f64,
    /// Packets that it can hold.
    pub(crate) buffer_packets: f64,
    /// Its dice.
    pub(crate) random: SplitMix64,
}

impl Simulated {
    /// A device without noise, losses or limits but its capacity.
    pub(crate) fn new(capacity_pps: f64) -> Self {
        Self {
            capacity_pps,
            loss_floor: 0.0,
            noise: 0.0,
            hiccups: 0.0,
            sender_pps: f64::INFINITY,
            voids: 0.0,
            overhead_s: 0.5,
            buffer_packets: 0.0,
            random: SplitMix64::new(1),
        }
    }

    /// The same with other random numbers.
    pub(crate) fn seeded(self, seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), ..self }
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits are enough for a test's dice")]
    fn share(&mut self) -> f64 {
        self.random.next_u64() as f64 / u64::MAX as f64
    }

    /// What a trial brings.
    pub(crate) fn trial(&mut self, load_pps: f64, duration_s: f64) -> Measured {
        let capacity_pps = self.capacity_pps * (1.0 - self.noise * self.share());
        let is_slow = self.share() < self.hiccups;
        let capacity_pps = if is_slow { capacity_pps * 0.9 } else { capacity_pps };
        let offered_pps = load_pps.min(self.sender_pps);
        let offered = (offered_pps * duration_s).round();
        let room = (capacity_pps * duration_s).round() + self.buffer_packets;
        let delivered = offered.min(room);
        let lost = (delivered * self.loss_floor).ceil();
        let standing = if self.share() < self.voids { Standing::Void } else { Standing::Good };
        Measured {
            offered_packets: count(offered),
            delivered_packets: count((delivered - lost).max(0.0)),
            offered_pps,
            elapsed_s: duration_s + self.overhead_s,
            standing,
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, not negative")]
fn count(packets: f64) -> u64 {
    packets as u64
}
