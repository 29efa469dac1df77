//! A way to ask what runs to stop.
//!
//! Whoever handles signals keeps a clone and sets it; what runs looks at it in every wait,
//! and takes the time from it. It never interrupts anything by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a wait looks whether it was cancelled.
const POLL: Duration = Duration::from_millis(20);

/// A shared request to stop, with the signal that caused it.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    signal: Arc<AtomicI32>,
    clock: Option<Arc<SimulatedClock>>,
}

/// A clock that only waiting advances.
#[derive(Debug)]
struct SimulatedClock {
    start: Instant,
    passed_ns: AtomicU64,
}

impl SimulatedClock {
    fn now(&self) -> Instant {
        self.start + Duration::from_nanos(self.passed_ns.load(Ordering::SeqCst))
    }

    fn advance(&self, duration: Duration) {
        let passed_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.passed_ns.fetch_add(passed_ns, Ordering::SeqCst);
    }
}

impl Cancel {
    /// One whose waits take no time: its clock stands still otherwise. For runs on simulated
    /// testbeds, which have no clock of their own.
    #[must_use]
    pub fn simulated() -> Self {
        let clock = SimulatedClock { start: Instant::now(), passed_ns: AtomicU64::new(0) };
        Self { signal: Arc::default(), clock: Some(Arc::new(clock)) }
    }

    /// The time, by the clock that waits go by.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.as_ref().map_or_else(Instant::now, |clock| clock.now())
    }

    /// Asks to stop because of `signal`. The first signal is kept.
    pub fn request(&self, signal: i32) {
        // A later signal must not change the exit code that the first one announced.
        let _ = self.signal.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The signal that asked to stop, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// Sleeps until `deadline`, or less if asked to stop. Returns whether it slept to the end.
    #[must_use]
    pub fn sleep_until(&self, deadline: Instant) -> bool {
        loop {
            if self.signal().is_some() {
                return false;
            }
            let left = deadline.saturating_duration_since(self.now());
            if left.is_zero() {
                return true;
            }
            match &self.clock {
                Some(clock) => clock.advance(left),
                None => std::thread::sleep(left.min(POLL)),
            }
        }
    }

    /// As [`Cancel::sleep_until`], for a duration.
    #[must_use]
    pub fn sleep(&self, duration: Duration) -> bool {
        self.sleep_until(self.now() + duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_counts_and_sleeps_end() {
        let cancel = Cancel::default();
        assert!(cancel.sleep(Duration::ZERO));
        let other = cancel.clone();
        other.request(2);
        cancel.request(15);
        assert_eq!(cancel.signal(), Some(2));
        assert!(!cancel.sleep(Duration::from_secs(3600)));
    }

    #[test]
    fn a_simulated_clock_goes_by_what_is_slept() {
        let cancel = Cancel::simulated();
        let start = cancel.now();
        assert_eq!(cancel.now(), start);
        let other = cancel.clone();
        assert!(other.sleep(Duration::from_secs(3600)), "clones share the clock");
        assert_eq!(cancel.now() - start, Duration::from_secs(3600));
        assert!(cancel.sleep_until(start), "it is over");
        cancel.request(2);
        assert!(!cancel.sleep(Duration::from_secs(1)));
        assert_eq!(cancel.now() - start, Duration::from_secs(3600));
    }
}
