//! A way to ask a running campaign to stop.
//!
//! Whoever handles signals keeps a clone and sets it; the campaign looks at it in every wait. It
//! never interrupts anything by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// How often a wait looks whether it was cancelled.
const POLL: Duration = Duration::from_millis(20);

/// A shared request to stop, with the signal that caused it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicI32>);

impl Cancel {
    /// Asks to stop because of `signal`. The first signal is kept.
    pub fn request(&self, signal: i32) {
        // A later signal must not change the exit code that the first one announced.
        let _ = self.0.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The signal that asked to stop, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::SeqCst) {
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
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(POLL));
        }
    }

    /// As [`Cancel::sleep_until`], for a duration.
    #[must_use]
    pub fn sleep(&self, duration: Duration) -> bool {
        self.sleep_until(Instant::now() + duration)
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
}
