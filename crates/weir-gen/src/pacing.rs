//! From packets per second to the time of every packet.
//!
//! On live frames the schedule is kept by the program that sends (`bpf/include/weir/pacing.h`),
//! packet by packet; here is the interval that it works with. [`Schedule`] and [`Pacer`] are the
//! same for backends that send from user space. Time is an argument: nothing here reads a clock.

use std::sync::Arc;
use std::time::Duration;

use weir_bpf::generator::{CATCH_UP_NS, GeneratorCounters, Interval};
use weir_bpf::histogram::Histogram;

use crate::replay::Replay;

const NS_PER_SECOND: f64 = 1e9;

/// The time between two packets of one of `thread_count` threads that send `rate_pps` together, to
/// the nearest 2^-32 ns. Rates that are not positive give the longest interval.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point saturates, and both parts are not negative"
)]
pub fn interval(rate_pps: f64, thread_count: u32) -> Interval {
    const FRACTION_UNITS: f64 = (1_u64 << 32) as f64;
    if rate_pps.is_nan() || rate_pps <= 0.0 {
        return Interval { whole_ns: u64::MAX, fraction: 0 };
    }
    let interval_ns = NS_PER_SECOND * f64::from(thread_count) / rate_pps;
    let whole_ns = interval_ns.floor();
    Interval {
        whole_ns: whole_ns as u64,
        fraction: ((interval_ns - whole_ns) * FRACTION_UNITS).round() as u32,
    }
}

/// When packets are due: at a constant rate, after a linear rise from zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Packets per second after the rise, above zero.
    pub rate_pps: f64,
    /// How long the rate rises from zero; zero if it does not.
    pub ramp: Duration,
}

impl Schedule {
    /// The rate, packets per second, at a time after the start.
    #[must_use]
    pub(crate) fn rate_pps_at(&self, elapsed: Duration) -> f64 {
        if elapsed >= self.ramp {
            return self.rate_pps;
        }
        self.rate_pps * elapsed.as_secs_f64() / self.ramp.as_secs_f64()
    }

    /// How many packets are due until then; a fraction of the next one included.
    #[must_use]
    pub fn packets_by(&self, elapsed: Duration) -> f64 {
        let (elapsed_s, ramp_s) = (elapsed.as_secs_f64(), self.ramp.as_secs_f64());
        if elapsed_s < ramp_s {
            return self.rate_pps * elapsed_s * elapsed_s / (2.0 * ramp_s);
        }
        self.rate_pps * (elapsed_s - ramp_s / 2.0)
    }

    /// When packet number `index` (from 0, the first one is due at the start) is due: the inverse
    /// of [`Schedule::packets_by`].
    #[must_use]
    pub(crate) fn due(&self, index: u64) -> Duration {
        let (packets, ramp_s) = (index as f64, self.ramp.as_secs_f64());
        let due_s = if packets < self.rate_pps * ramp_s / 2.0 {
            (2.0 * packets * ramp_s / self.rate_pps).sqrt()
        } else {
            packets / self.rate_pps + ramp_s / 2.0
        };
        Duration::try_from_secs_f64(due_s).unwrap_or(Duration::MAX)
    }
}

/// When the packets of one thread of a run are due.
#[derive(Debug, Clone)]
pub(crate) enum Timetable {
    /// At a rate.
    Rate(Schedule),
    /// As they were recorded.
    Recorded {
        /// The file.
        replay: Arc<Replay>,
        /// Number of the frame that the run begins with, which is due at once.
        first: u64,
    },
}

impl Timetable {
    /// When packet number `index` of the run, from 0, is due after its start.
    #[must_use]
    pub(crate) fn due(&self, index: u64) -> Duration {
        match self {
            Self::Rate(schedule) => schedule.due(index),
            Self::Recorded { replay, first } => {
                replay.due(first.saturating_add(index)).saturating_sub(replay.due(*first))
            }
        }
    }
}

/// How much of a delay is made up for at once: what is late beyond that leaves at twice the rate.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Keeps a schedule that is asked from time to time: says how many packets are due, and accounts
/// for stalls as `bpf/include/weir/pacing.h` does. They are made up for at twice the rate: a burst
/// at full speed would overflow the next queue.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    timetable: Timetable,
    taken: u64,
    /// Time that stalls took out of the schedule.
    shift: Duration,
    last: Option<Duration>,
}

impl Pacer {
    /// Begins a schedule.
    #[must_use]
    pub(crate) const fn new(timetable: Timetable) -> Self {
        Self { timetable, taken: 0, shift: Duration::ZERO, last: None }
    }

    /// When the next packet may leave.
    #[must_use]
    pub(crate) fn due(&self) -> Duration {
        let due = self.scheduled();
        let interval = self.timetable.due(self.taken).saturating_sub(self.reached());
        self.last.map_or(due, |last| due.max(last.saturating_add(interval / 2)))
    }

    /// When the next packet is due, whatever has left late.
    fn scheduled(&self) -> Duration {
        self.timetable.due(self.taken).saturating_add(self.shift)
    }

    /// Where the last packet that was taken is in the timetable.
    fn reached(&self) -> Duration {
        self.timetable.due(self.taken.saturating_sub(1))
    }

    /// How many packets are due `now`, of `count_max`; the next one is.
    fn count(&self, now: Duration, count_max: u64) -> u64 {
        let since = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        let reach = self.reached().saturating_add(since.min(AT_ONCE) * 2);
        let until = reach.min(now.saturating_sub(self.shift));
        let may_leave = |index: u64| self.timetable.due(index) <= until;
        let more = (self.taken + 1..).take_while(|&index| index - self.taken < count_max);
        1 + more.take_while(|&index| may_leave(index)).count() as u64
    }

    /// How many packets, up to `count_max`, may leave `now` (since the start); they are taken off
    /// the schedule, and leave together. Stalls and the longest gap go to `counters`, all gaps, in
    /// nanoseconds, to `gaps_ns`.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        count_max: u64,
        counters: &mut GeneratorCounters,
        gaps_ns: &mut Histogram,
    ) -> u64 {
        const CATCH_UP: Duration = Duration::from_nanos(CATCH_UP_NS);
        if count_max == 0 || now < self.due() {
            return 0;
        }
        let late = now.saturating_sub(self.scheduled());
        if late > CATCH_UP {
            let lost = late - CATCH_UP;
            counters.stalls += 1;
            counters.stall_lost_ns += nanoseconds(lost);
            self.shift += lost;
        }
        let count = self.count(now, count_max);
        self.taken += count;
        if let Some(last) = self.last.replace(now) {
            let gap_ns = nanoseconds(now.saturating_sub(last));
            counters.gap_max_ns = counters.gap_max_ns.max(gap_ns);
            gaps_ns.record(gap_ns);
        }
        for _ in 1..count {
            gaps_ns.record(0);
        }
        count
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_ramp_is_linear_and_its_inverse_is_exact() {
        let schedule = Schedule { rate_pps: 1_000.0, ramp: at(2_000) };
        assert_eq!(schedule.rate_pps_at(at(500)), 250.0);
        assert_eq!(schedule.rate_pps_at(at(2_000)), 1_000.0);
        assert_eq!(schedule.packets_by(at(1_000)), 250.0);
        assert_eq!(schedule.packets_by(at(2_000)), 1_000.0);
        assert_eq!(schedule.packets_by(at(3_000)), 2_000.0);
        for index in [0, 1, 10, 999, 1_000, 1_001, 5_000] {
            let packets = schedule.packets_by(schedule.due(index));
            assert!((packets - index as f64).abs() < 1e-3, "{index}: {packets}");
        }
        let flat = Schedule { rate_pps: 3.0, ramp: Duration::ZERO };
        assert_eq!((flat.due(0), flat.due(3)), (Duration::ZERO, at(1_000)));
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_pacer_makes_up_for_short_delays_and_counts_long_ones() {
        let (mut counters, mut gaps) = (GeneratorCounters::default(), Histogram::default());
        let schedule = Schedule { rate_pps: 1_000.0, ramp: Duration::ZERO };
        let mut pacer = Pacer::new(Timetable::Rate(schedule));
        let mut take = |pacer: &mut Pacer, now, count_max| {
            let count = pacer.take(now, count_max, &mut counters, &mut gaps);
            (count, counters.stalls, counters.stall_lost_ns)
        };
        assert_eq!(take(&mut pacer, at(0), 64).0, 1);
        assert_eq!(take(&mut pacer, at(0), 64).0, 0, "the next one is not due");
        // Five are late. Two leave at once, the others half an interval apart.
        assert_eq!(take(&mut pacer, at(5), 64).0, 2);
        assert_eq!((take(&mut pacer, at(5), 64).0, pacer.due()), (0, us(5_500)));
        assert_eq!(take(&mut pacer, us(5_500), 64).0, 1);
        assert_eq!(take(&mut pacer, at(6), 0).0, 0);
        assert_eq!(take(&mut pacer, at(7), 1).0, 1, "no more than was asked for");
        // Due at 5 ms, asked at 115 ms: 110 ms late, of which 10 ms are made up for.
        assert_eq!(take(&mut pacer, at(115), 64), (2, 1, 100_000_000));
        assert_eq!(pacer.due(), us(115_500));
        assert_eq!(counters.gap_max_ns, 108_000_000);
        assert_eq!((gaps.count(), gaps.max()), (6, Some(108_000_000)));
    }

    #[test]
    fn no_stall_is_followed_by_more_than_twice_the_rate_and_all_of_it_is_made_up_for() {
        // One every 10 µs.
        const RATE_PPS: u128 = 100_000;
        let schedule = Schedule { rate_pps: 100_000.0, ramp: Duration::ZERO };
        let mut pacer = Pacer::new(Timetable::Rate(schedule));
        let (mut counters, mut gaps) = (GeneratorCounters::default(), Histogram::default());
        // Asked every 3 µs, but for a stall of 9 ms.
        let asked = (0..1_000_u64).chain(4_000..12_000).map(|step| us(step * 3));
        let mut taken: Vec<(Duration, u64)> = Vec::new();
        for now in asked {
            let count = pacer.take(now, 64, &mut counters, &mut gaps);
            // A millisecond of the delay at twice the rate, or what was asked for.
            assert!(count <= 64, "{count} at once");
            taken.extend((count > 0).then_some((now, count)));
        }
        assert_eq!(counters.stalls, 0);
        let (end, _) = taken[taken.len() - 1];
        let all: u64 = taken.iter().map(|(_, count)| count).sum();
        let due = 1 + end.as_micros() * RATE_PPS / 1_000_000;
        assert_eq!(u128::from(all), due, "nothing is missing");
        // In each millisecond: twice the rate, and once what one take makes up for.
        for (index, &(from, _)) in taken.iter().enumerate() {
            let later = taken[index..].iter().take_while(|(now, _)| *now < from + at(1));
            let count: u64 = later.map(|(_, count)| count).sum();
            let most = 2 * RATE_PPS / 1_000 + 64;
            assert!(u128::from(count) <= most, "{count} in a millisecond from {from:?}");
        }
        let after = taken.iter().skip_while(|(now, _)| *now < at(12)).skip(1);
        let most = after.map(|(_, count)| *count).max();
        assert!(most <= Some(2), "{most:?} together, half an interval apart");
    }

    #[test]
    fn intervals_keep_the_fraction() {
        assert_eq!(interval(50_000.0, 1), Interval { whole_ns: 20_000, fraction: 0 });
        assert_eq!(interval(50_000.0, 4), Interval { whole_ns: 80_000, fraction: 0 });
        assert_eq!(interval(0.5, 1), Interval { whole_ns: 2_000_000_000, fraction: 0 });
        let third = interval(3e6, 1);
        assert_eq!(third, Interval { whole_ns: 333, fraction: 1_431_655_765 });
        let fast = interval(4e9, 1);
        assert_eq!(fast, Interval { whole_ns: 0, fraction: 1 << 30 });
    }

    #[test]
    fn what_is_no_rate_never_sends() {
        for rate_pps in [0.0, -1.0, f64::NAN] {
            assert_eq!(interval(rate_pps, 1).whole_ns, u64::MAX);
        }
    }
}
