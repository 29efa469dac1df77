//! Rate search: which load a device still forwards.
//!
//! Every search is a state machine. It says which trial it wants next, is told what that trial
//! brought, and says when it has its answer. It never sends a packet, never looks at a clock and
//! never waits, so that it can be run against real traffic, against a record of trials, or against
//! a device that is nothing but a formula.
//!
//! - [`mlr`]: Multiple Loss Ratio search, RFC 9971: no-drop rate, partial-drop rates, and, with
//!   the right goal, the throughput of RFC 2544 section 26.1;
//! - [`curve`]: the loss-rate curve of RFC 2544 section 26.3;
//! - [`burst`]: back-to-back frames, RFC 2544 section 26.4 as updated by RFC 9004;
//! - [`latency`]: at which shares of a throughput latency is measured (RFC 2544 section 26.2);
//! - [`expected`]: what these cost about.
//!
//! All of them keep apart what the device did from what the testbed could not do. A trial whose
//! sender did not offer the load says nothing about the device at that load, however many packets
//! are missing: see [`Reading`]. A trial that delivered more than was offered is as bad as one that
//! lost as many.

pub mod burst;
pub mod classify;
pub mod curve;
pub mod expected;
pub mod goal;
pub mod latency;
pub mod mlr;

#[cfg(test)]
mod simulated;

use crate::Threshold;

/// A load that was offered at less than this share of what was asked for was not offered: the
/// generator was the limit, or was held up.
pub const OFFER_KEPT_MIN: Threshold = Threshold::new(
    "offer_kept_min",
    0.995,
    "of the load",
    "a trial of a search that offers less than this of its load says nothing about the DUT",
);

/// How often in a row the same load is tried again that was not offered, or whose trial is void.
pub const ATTEMPTS_MAX: u32 = 3;

/// Loads from here on are whole packets per second, those below have thousandths.
const WHOLE_LOADS_PPS: f64 = 10_000.0;

/// A load that can be written down: rounded to a packet per second, or to a thousandth of one below
/// ten thousand.
#[must_use]
pub fn rounded_load(load_pps: f64) -> f64 {
    if load_pps >= WHOLE_LOADS_PPS { load_pps.round() } else { (load_pps * 1e3).round() / 1e3 }
}

/// A trial that a search wants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// The intended load, packets per second over all streams.
    pub load_pps: f64,
    /// How long it is to be offered, seconds.
    pub duration_s: f64,
    /// What for.
    pub purpose: Purpose,
}

/// What a trial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The first traffic after a pause: its result is recorded and not used.
    Warmup,
    /// Its result decides.
    Search,
}

/// What a trial has brought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Packets that were offered.
    pub offered_packets: u64,
    /// Packets that were delivered.
    pub delivered_packets: u64,
    /// The rate at which they were offered, packets per second.
    pub offered_pps: f64,
    /// What the whole trial took, with everything around the traffic, seconds.
    pub elapsed_s: f64,
    /// What it is worth.
    pub standing: Standing,
}

/// What a trial is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// What was lost, the device lost.
    Good,
    /// What was lost, the testbed lost: its generator, its links or its sink.
    TestbedLimited,
    /// The trial is void: something other than load and device decided its result.
    Void,
}

/// What a trial says about the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// It lost this share of what was offered, 0 to 1 and above: a surplus counts as a loss.
    Loss(f64),
    /// Nothing: the load was not offered to it, or did not get to the sink for another reason.
    NotOffered,
    /// Nothing.
    Void,
}

impl Measured {
    /// What the trial says about the device at `load_pps`.
    #[must_use]
    pub fn reading(&self, load_pps: f64) -> Reading {
        match self.standing {
            Standing::Void => Reading::Void,
            _ if self.offered_packets == 0 => Reading::NotOffered,
            _ if self.offered_pps.is_nan()
                || self.offered_pps < load_pps * OFFER_KEPT_MIN.value =>
            {
                Reading::NotOffered
            }
            // What arrived in spite of the testbed's losses stands.
            Standing::TestbedLimited if self.loss_ratio() > 0.0 => Reading::NotOffered,
            Standing::TestbedLimited | Standing::Good => Reading::Loss(self.loss_ratio()),
        }
    }

    /// The share of the offered packets that is missing, or that there is too much of; 1 if none
    /// was offered.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
    pub fn loss_ratio(&self) -> f64 {
        if self.offered_packets == 0 {
            return 1.0;
        }
        let missing = self.offered_packets.abs_diff(self.delivered_packets);
        missing as f64 / self.offered_packets as f64
    }
}

/// What a search may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Time of all its trials with everything around them, seconds.
    pub time_max_s: f64,
    /// Trials, of whatever outcome.
    pub trials_max: u32,
}

impl Budget {
    /// What is exceeded once that much is spent; `None` if more may be spent.
    #[must_use]
    pub fn exceeded(&self, trials: u32, elapsed_s: f64) -> Option<Stopped> {
        if trials >= self.trials_max {
            Some(Stopped::Trials)
        } else if elapsed_s >= self.time_max_s {
            Some(Stopped::Time)
        } else {
            None
        }
    }
}

/// Why a search ended before it had its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Its time was up.
    Time,
    /// It had all the trials it may have.
    Trials,
    /// [`ATTEMPTS_MAX`] trials in a row were void.
    Void,
    /// Trials of other goals moved its bounds again and again.
    Unsettled,
    /// The next load of it is, once rounded ([`rounded_load`]), one that is known already.
    Resolution,
}

impl Stopped {
    /// In words.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Time => "the search ran out of time",
            Self::Trials => "the search used all its trials",
            Self::Void => "the trials at one load were void time and again",
            Self::Unsettled => "trials of other goals moved the bounds time and again",
            Self::Resolution => {
                "its next load, once rounded, is already known: the width is finer than the steps \
                 of loads"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(offered: u64, delivered: u64, offered_pps: f64, standing: Standing) -> Measured {
        Measured {
            offered_packets: offered,
            delivered_packets: delivered,
            offered_pps,
            elapsed_s: 1.0,
            standing,
        }
    }

    #[test]
    fn what_was_not_offered_is_not_blamed_on_the_device() {
        let good = measured(1_000, 990, 1_000.0, Standing::Good);
        assert_eq!(good.reading(1_000.0), Reading::Loss(0.01));
        // The sender could not: however little was lost, 2,000 pps were never there.
        assert_eq!(good.reading(2_000.0), Reading::NotOffered);
        let short = measured(996, 996, 996.0, Standing::Good);
        assert_eq!(short.reading(1_000.0), Reading::Loss(0.0), "within the tolerance");
        let none = measured(0, 0, 0.0, Standing::Good);
        assert_eq!(none.reading(1_000.0), Reading::NotOffered);
        assert_eq!(none.reading(0.0), Reading::NotOffered);
    }

    #[test]
    fn losses_of_the_testbed_say_nothing_and_its_successes_stand() {
        let lost = measured(1_000, 900, 1_000.0, Standing::TestbedLimited);
        assert_eq!(lost.reading(1_000.0), Reading::NotOffered);
        let whole = measured(1_000, 1_000, 1_000.0, Standing::TestbedLimited);
        assert_eq!(whole.reading(1_000.0), Reading::Loss(0.0));
        let void = measured(1_000, 1_000, 1_000.0, Standing::Void);
        assert_eq!(void.reading(1_000.0), Reading::Void);
    }

    #[test]
    fn a_surplus_counts_as_a_loss() {
        let more = measured(1_000, 1_020, 1_000.0, Standing::Good);
        assert_eq!(more.reading(1_000.0), Reading::Loss(0.02));
    }

    #[test]
    fn loads_are_rounded() {
        assert_eq!(rounded_load(233_324.132_479), 233_324.0);
        assert_eq!(rounded_load(9_999.123_456), 9_999.123);
        assert_eq!(rounded_load(0.5), 0.5);
    }

    #[test]
    fn a_budget_ends_by_trials_or_time() {
        let budget = Budget { time_max_s: 10.0, trials_max: 3 };
        assert_eq!(budget.exceeded(2, 9.9), None);
        assert_eq!(budget.exceeded(3, 1.0), Some(Stopped::Trials));
        assert_eq!(budget.exceeded(1, 10.0), Some(Stopped::Time));
    }
}
