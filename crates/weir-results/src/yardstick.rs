//! How fast a machine was, by a fixed piece of work: stores of different days are held against each
//! other only where it took the same time.
//!
//! Readings and what is said of them; nothing is measured here.

use serde::{Deserialize, Serialize};

use crate::machine_use::MachineUse;

/// The least change of either time at which two stores are from machines that differ. Readings of
/// one quiet machine are within a few per cent of each other; a shared one swings by more.
pub(crate) const HOST_DIFFERS_MIN: f64 = 0.15;

/// One look at the machine, before or after what a store holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Yardstick {
    /// When it ended: RFC 3339 in UTC.
    pub time_utc: String,
    /// The CPU that did the work: the first of the DUT's.
    pub cpu: usize,
    /// How long it took.
    pub duration_ns: u64,
    /// The XDP program: a chain of shifts, in the first cache.
    pub xdp: Pace,
    /// The walk through memory: each step needs the one before, none is in a cache.
    pub memory: Pace,
    /// What else the machine did meanwhile.
    pub machine: MachineUse,
}

/// How fast one kind of work went, over short stretches that took turns with the other kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// The median of the stretches: one pass of the program, or one step in memory.
    pub median_ns: f64,
    /// Half the distance of the quartiles, of the median: how far stretches are apart.
    pub spread_ratio: f64,
    /// Number of stretches.
    pub count: usize,
}

impl Pace {
    /// Of the times of the stretches; `None` without any.
    #[must_use]
    pub fn of(times_ns: &[f64]) -> Option<Self> {
        let mut sorted = times_ns.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted.get(sorted.len() * part / 4).copied();
        let median_ns = weir_stats::summary::median(&sorted)?;
        let spread_ratio = (at(3)? - at(1)?) / 2.0 / median_ns;
        Some(Self { median_ns, spread_ratio, count: sorted.len() })
    }
}

/// How a machine has changed between two stores: shares by which it was slower, negative where it
/// was faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Of the time that a pass of the XDP program takes.
    pub xdp_ratio: f64,
    /// Of the time that a step of the memory walk takes.
    pub memory_ratio: f64,
}

impl Change {
    /// From the medians of the one store's readings to those of the other's; `None` where one of
    /// them has none.
    #[must_use]
    pub fn between(baseline: &[Yardstick], other: &[Yardstick]) -> Option<Self> {
        let median = |all: &[Yardstick], of: fn(&Yardstick) -> Pace| {
            let times: Vec<f64> = all.iter().map(|reading| of(reading).median_ns).collect();
            weir_stats::summary::median(&times)
        };
        let ratio = |of| Some(median(other, of)? / median(baseline, of)? - 1.0);
        Some(Self { xdp_ratio: ratio(|y| y.xdp)?, memory_ratio: ratio(|y| y.memory)? })
    }

    /// Whether the machines differ by more than [`HOST_DIFFERS_MIN`].
    #[must_use]
    pub(crate) fn is_another_machine(&self) -> bool {
        self.xdp_ratio.abs().max(self.memory_ratio.abs()) > HOST_DIFFERS_MIN
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn reading(xdp_ns: f64, memory_ns: f64) -> Yardstick {
        let pace = |time_ns: f64| Pace::of(&[time_ns]).unwrap();
        Yardstick {
            time_utc: "2026-03-01T12:00:00Z".to_owned(),
            cpu: 1,
            duration_ns: 1_000_000_000,
            xdp: pace(xdp_ns),
            memory: pace(memory_ns),
            machine: MachineUse::default(),
        }
    }

    #[test]
    fn a_pace_is_the_middle_of_its_stretches() {
        let pace = Pace::of(&[9.0, 11.0, 10.0, 12.0, 8.0]).unwrap();
        assert_eq!((pace.median_ns, pace.spread_ratio, pace.count), (10.0, 0.1, 5));
        assert_eq!(Pace::of(&[]), None);
    }

    #[test]
    fn machines_differ_where_either_work_takes_another_time() {
        let quiet = [reading(10.0, 100.0), reading(10.2, 98.0)];
        let change = |xdp_ns, memory_ns| {
            let other = [reading(xdp_ns, memory_ns)];
            Change::between(&quiet, &other).unwrap()
        };
        assert!(!change(10.3, 103.0).is_another_machine());
        assert!(change(11.9, 99.0).is_another_machine());
        assert!(change(10.1, 80.0).is_another_machine());
        let slower = change(12.12, 99.0);
        assert!((slower.xdp_ratio - 0.2).abs() < 1e-9 && slower.memory_ratio == 0.0, "{slower:?}");
        assert_eq!(Change::between(&quiet, &[]), None);
    }
}
