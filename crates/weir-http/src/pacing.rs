//! When requests are due: at a constant rate, or as independent users send them (Poisson).
//!
//! Times are nanoseconds since the start of a run. A schedule never waits, and never moves a time
//! because something was late: what was due then stays due then.

use serde::{Deserialize, Serialize};
use weir_wire::random::splitmix64;

const NS_PER_S: f64 = 1e9;

/// How the times between requests are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// All gaps are equal.
    #[default]
    Constant,
    /// Gaps are exponential, as those of many users who know nothing of each other.
    Poisson,
}

/// The part of a load that one of several workers has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Number of the worker, from 0.
    pub index: u32,
    /// Number of workers, at least 1.
    pub of: u32,
}

impl Share {
    /// The whole load.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// The worker's part of a count: parts differ by at most 1, and add up to it.
    #[must_use]
    pub const fn of_count(self, count: u64) -> u64 {
        let (index, of) = (self.index as u64, self.of as u64);
        count / of + (index < count % of) as u64
    }
}

/// How many requests of all workers are due per second, and from when on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    pub arrivals: Arrivals,
    /// Above zero.
    pub rate_per_s: f64,
    /// The rate rises from zero, evenly, for so long.
    pub ramp_ns: u64,
}

impl Pace {
    /// Equal gaps from the start.
    #[must_use]
    pub const fn constant(rate_per_s: f64) -> Self {
        Self { arrivals: Arrivals::Constant, rate_per_s, ramp_ns: 0 }
    }

    /// When as many requests as `count` are due: the inverse of the integral of the rate.
    fn time_ns(&self, count: f64) -> f64 {
        let ramp_ns = self.ramp_ns as f64;
        let gap_ns = NS_PER_S / self.rate_per_s;
        let full_ns = ramp_ns / 2.0 + count * gap_ns;
        if full_ns >= ramp_ns { full_ns } else { (2.0 * ramp_ns * count * gap_ns).sqrt() }
    }
}

/// Due times of one worker, in order.
#[derive(Debug, Clone)]
pub struct Schedule {
    pace: Pace,
    share: Share,
    seed: u64,
    /// How many times were taken.
    taken: u64,
    /// How many requests of all workers are expected before the next one.
    before: f64,
}

impl Schedule {
    /// The times of a worker. Those of all workers, if they are constant, are one sequence; the sum
    /// of Poisson processes is one.
    #[must_use]
    pub fn new(pace: Pace, share: Share, seed: u64) -> Self {
        let seed = splitmix64(seed, share.index.into());
        let mut schedule = Self { pace, share, seed, taken: 0, before: 0.0 };
        schedule.before = schedule.next_place();
        schedule
    }

    /// When the next request is due.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a conversion from floating point saturates, and times are not negative"
    )]
    pub fn next_ns(&self) -> u64 {
        self.pace.time_ns(self.before) as u64
    }

    /// Takes the next time, if it is not after `now_ns`.
    pub fn take_due(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.next_ns();
        if due_ns > now_ns {
            return None;
        }
        self.taken += 1;
        self.before = self.next_place();
        Some(due_ns)
    }

    fn next_place(&self) -> f64 {
        let workers = f64::from(self.share.of);
        match self.pace.arrivals {
            // From the start each time, so that no error adds up.
            Arrivals::Constant => self.taken as f64 * workers + f64::from(self.share.index),
            Arrivals::Poisson => {
                self.before + exponential(splitmix64(self.seed, self.taken)) * workers
            }
        }
    }
}

/// Sets what is drawn for requests apart from their times, which have the same seed.
const DRAWS: u64 = 0x7765_6972_2d64_7277;

/// Random bits of one worker, for all that is drawn of its requests. They have nothing to do with
/// the times of its [`Schedule`], nor with the bits of other workers.
#[derive(Debug, Clone)]
pub struct Draws {
    seed: u64,
    taken: u64,
}

impl Draws {
    /// Those of a worker, by the seed of all workers.
    #[must_use]
    pub const fn new(share: Share, seed: u64) -> Self {
        Self { seed: splitmix64(seed ^ DRAWS, share.index as u64), taken: 0 }
    }

    /// The next 64 bits.
    pub const fn take(&mut self) -> u64 {
        self.taken += 1;
        splitmix64(self.seed, self.taken)
    }
}

/// An exponential number of mean 1 from 64 random bits.
fn exponential(draw: u64) -> f64 {
    -(1.0 - unit(draw)).ln()
}

/// A number from 0 to below 1 from 64 random bits.
#[must_use]
pub fn unit(draw: u64) -> f64 {
    // 53 bits are what a number holds exactly.
    (draw >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut schedule: Schedule, until_ns: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take_due(until_ns)).collect()
    }

    #[test]
    fn workers_share_one_sequence_of_equal_gaps() {
        let share = |index| Share { index, of: 3 };
        let schedule = |index| Schedule::new(Pace::constant(1e3), share(index), 1);
        let mut all: Vec<u64> =
            (0..3).flat_map(|index| times(schedule(index), 999_999_999)).collect();
        all.sort_unstable();
        let expected: Vec<u64> = (0..1000).map(|slot| slot * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_not_due_stays() {
        let mut schedule = Schedule::new(Pace::constant(10.0), Share::ALL, 1);
        assert_eq!(schedule.take_due(0), Some(0));
        assert_eq!((schedule.take_due(99_999_999), schedule.next_ns()), (None, 100_000_000));
        // However late it is asked, the times are those at which they were due.
        assert_eq!(schedule.take_due(u64::MAX), Some(100_000_000));
        assert_eq!(schedule.take_due(u64::MAX), Some(200_000_000));
    }

    /// 30,000 are expected, with a standard deviation of 173; the variance of exponential gaps is
    /// the square of their mean.
    #[test]
    fn poisson_has_the_rate_and_the_spread_of_independent_users() {
        let share = |index| Share { index, of: 3 };
        let pace = Pace { arrivals: Arrivals::Poisson, ..Pace::constant(1e3) };
        let schedule = |index| Schedule::new(pace, share(index), 7);
        let workers: Vec<Vec<u64>> =
            (0..3).map(|index| times(schedule(index), 30_000_000_000)).collect();
        let mut all = workers.concat();
        all.sort_unstable();
        assert!((29_100..30_900).contains(&all.len()), "{}", all.len());
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let ratio = variance / mean.powi(2);
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
        assert_ne!(workers[0][..9], workers[1][..9], "workers draw different numbers");
    }

    /// In a ramp of 2 s to 1,000 per second, 1,000 are due, of which a quarter in its first half.
    #[test]
    fn a_ramp_rises_evenly_and_goes_on_at_its_rate() {
        let second_ns = 1_000_000_000;
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let pace = Pace { arrivals, ramp_ns: 2 * second_ns, ..Pace::constant(1e3) };
            let all = times(Schedule::new(pace, Share::ALL, 3), 4 * second_ns - 1);
            let within = |from: u64, to: u64| {
                let range = from * second_ns..to * second_ns;
                all.iter().filter(|due_ns| range.contains(due_ns)).count()
            };
            let counts = [within(0, 1), within(1, 2), within(2, 3), within(3, 4)];
            // Five standard deviations of Poisson; the seed is fixed.
            let off = if arrivals == Arrivals::Constant { 1 } else { 160 };
            for (count, expected) in counts.into_iter().zip([250_usize, 750, 1000, 1000]) {
                assert!(count.abs_diff(expected) <= off, "{counts:?}");
            }
        }
    }

    /// Where they are independent, the coefficient of correlation has a standard deviation of 0.01.
    #[test]
    fn what_is_drawn_has_nothing_to_do_with_the_gap_behind_it() {
        const COUNT: usize = 10_000;
        let pace = Pace { arrivals: Arrivals::Poisson, ..Pace::constant(1e3) };
        let mut schedule = Schedule::new(pace, Share::ALL, 1);
        let due: Vec<f64> =
            (0..=COUNT).filter_map(|_| schedule.take_due(u64::MAX)).map(|ns| ns as f64).collect();
        let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut draws = Draws::new(Share::ALL, 1);
        let drawn: Vec<f64> = (0..=COUNT).map(|_| unit(draws.take())).collect();
        for offset in [0, 1] {
            let found = correlation(&gaps, &drawn[offset..][..COUNT]);
            assert!(found.abs() < 0.05, "{found} at an offset of {offset}");
        }
        let mut again: Vec<f64> = gaps.clone();
        again.rotate_left(1);
        assert!(correlation(&gaps, &gaps) > 0.99 && correlation(&gaps, &again) < 0.05);
    }

    fn correlation(one: &[f64], other: &[f64]) -> f64 {
        let deviations = |values: &[f64]| -> Vec<f64> {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            values.iter().map(|value| value - mean).collect()
        };
        let product = |one: &[f64], other: &[f64]| -> f64 {
            one.iter().zip(other).map(|(one, other)| one * other).sum()
        };
        let (one, other) = (deviations(one), deviations(other));
        product(&one, &other) / (product(&one, &one) * product(&other, &other)).sqrt()
    }

    #[test]
    fn parts_of_a_count_add_up() {
        for (count, of) in [(0, 1), (7, 3), (250_000, 13), (2, 5)] {
            let parts: Vec<u64> =
                (0..of).map(|index| Share { index, of }.of_count(count)).collect();
            assert_eq!(parts.iter().sum::<u64>(), count);
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1, "{parts:?}");
        }
    }
}
