//! When counters of another machine were read, and how long it was between two readings.
//!
//! An answer takes its time, and not always the same: by the clock of whoever asked, an interval is
//! as wrong as two answers differ. The machine that has the counters tells its own time with them.
//! That clock is believed as long as the interval fits between what is certain here: not shorter
//! than from the first answer to the second question, not longer than from the first question to
//! the second answer. The clocks of two machines are never compared, only their intervals.

use std::time::{Duration, Instant};

/// Clocks of two machines run apart by far less than this part.
const DRIFT_RATIO: f64 = 0.01;

/// The coarsest clock that is read (`/proc/uptime`) has steps of 10 ms, which count twice.
const STEPS: Duration = Duration::from_millis(20);

/// When a reading was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Before the question, by this machine.
    pub asked: Instant,
    /// After the answer, by this machine.
    pub answered: Instant,
    /// The other machine's own clock, from a beginning of its own; `None` if it does not tell.
    pub clock: Option<Duration>,
}

/// Why the other machine's clock is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// It tells none with fractions of seconds.
    Absent,
    /// It was set meanwhile.
    Set,
}

impl Moment {
    /// The time since an earlier reading by the machine's own clock.
    ///
    /// # Errors
    /// When it has none that can be used.
    pub fn since(&self, earlier: &Self) -> Result<Duration, Unfit> {
        let (Some(before), Some(after)) = (earlier.clock, self.clock) else {
            return Err(Unfit::Absent);
        };
        let least = self.asked.saturating_duration_since(earlier.answered);
        let most = self.answered.saturating_duration_since(earlier.asked);
        let least = least.mul_f64(1.0 - DRIFT_RATIO).saturating_sub(STEPS);
        let most = most.mul_f64(1.0 + DRIFT_RATIO) + STEPS;
        let elapsed = after.checked_sub(before).ok_or(Unfit::Set)?;
        if least <= elapsed && elapsed <= most { Ok(elapsed) } else { Err(Unfit::Set) }
    }

    /// The same by this machine's clock, from answer to answer.
    #[must_use]
    pub fn since_here(&self, earlier: &Self) -> Duration {
        self.answered.saturating_duration_since(earlier.answered)
    }
}

/// What a machine told of its clock: `weir-date SECONDS.FRACTION`, as date(1) prints them, or
/// `weir-uptime SECONDS` of Linux. A date(1) without `%N` (busybox, FreeBSD's for long) leaves no
/// fraction, which is no clock for this.
pub(super) fn machine_clock(text: &str) -> Option<Duration> {
    let reading = |name: &str| {
        let value = text.lines().find_map(|line| line.trim().strip_prefix(name))?.trim();
        let (seconds, fraction) = value.split_once('.')?;
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !are_digits(seconds) || !are_digits(fraction) || fraction.len() > 9 {
            return None;
        }
        let ns: u32 = format!("{fraction:0<9}").parse().ok()?;
        Some(Duration::new(seconds.parse().ok()?, ns))
    };
    reading("weir-date ").or_else(|| reading("weir-uptime "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Readings that are asked for at these times, answered later, and have this clock.
    fn readings(list: [(u64, u64, Option<u64>); 2]) -> [Moment; 2] {
        let begin = Instant::now();
        list.map(|(asked, took, clock)| Moment {
            asked: begin + ms(asked),
            answered: begin + ms(asked + took),
            clock: clock.map(ms),
        })
    }

    #[test]
    fn an_answer_that_is_late_does_not_change_the_interval() {
        // The second answer is on its way for 700 ms; here, that looks like 1,650 ms.
        let [before, after] = readings([(0, 50, Some(5_000)), (1_000, 700, Some(6_002))]);
        assert_eq!(after.since(&before), Ok(ms(1_002)));
        assert_eq!(after.since_here(&before), ms(1_650));
    }

    #[test]
    fn a_clock_that_was_set_or_is_not_there_is_not_used() {
        let since = |clock: (Option<u64>, Option<u64>)| {
            let [before, after] = readings([(0, 50, clock.0), (1_000, 50, clock.1)]);
            after.since(&before)
        };
        for good in [6_000, 5_930, 6_070] {
            assert_eq!(since((Some(5_000), Some(good))), Ok(ms(good - 5_000)));
        }
        for set in [4_000, 5_000, 5_900, 6_100, 3_605_000] {
            assert_eq!(since((Some(5_000), Some(set))), Err(Unfit::Set), "{set}");
        }
        assert_eq!(since((None, Some(6_000))), Err(Unfit::Absent));
        assert_eq!(since((Some(5_000), None)), Err(Unfit::Absent));
    }

    #[test]
    fn clocks_are_read_as_the_systems_print_them() {
        // Debian 13; FreeBSD 13, whose date(1) has no %N; a Linux with such a date(1).
        let debian = "weir-uptime 352733.17\nweir-date 1795388231.204671873\n/sys/x:1\n";
        assert_eq!(machine_clock(debian), Some(Duration::new(1_795_388_231, 204_671_873)));
        assert_eq!(machine_clock("weir-date 1795388231.N\ndev.ix.0.dropped: 0\n"), None);
        let uptime = "weir-uptime 352733.07\nweir-date 1795388231.%N\n";
        assert_eq!(machine_clock(uptime), Some(Duration::new(352_733, 70_000_000)));
        for none in ["", "weir-date", "weir-date 17.", "weir-date -1.5", "date 1.5"] {
            assert_eq!(machine_clock(none), None, "{none}");
        }
    }
}
