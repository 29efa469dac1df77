//! A bound on the packets under way: as many as the rings behind the generator have room for, so
//! that a receiver that stands still for a moment loses none.
//!
//! Like TCP's window, it paces by what arrives. It is for filling tables, never for measurements:
//! it says nothing of what a device can do, and hides what it would lose.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::GeneratorError;

/// How long nothing arrives until all that is under way counts as lost.
const PATIENCE: Duration = Duration::from_millis(50);

/// Reads how many packets have arrived, from any time on; `None` if it cannot be read.
pub type Arrived = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// How many packets may be under way, and what says how many arrive.
#[derive(Clone)]
pub struct Window {
    /// The most packets that are under way at once, at least [`BATCH_FRAMES`], and a batch less
    /// than a ring behind the generator has room for.
    ///
    /// [`BATCH_FRAMES`]: crate::backend::BATCH_FRAMES
    pub packets: u32,
    /// How many have arrived.
    pub arrived: Arrived,
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("packets", &self.packets).finish_non_exhaustive()
    }
}

/// What a thread knows of what it has sent.
pub(crate) struct UnderWay<'w> {
    window: &'w Window,
    arrived_before: u64,
    arrived: u64,
    since: Instant,
    lost: u64,
}

impl<'w> UnderWay<'w> {
    pub(crate) fn new(window: &'w Window) -> Result<Self, GeneratorError> {
        let arrived_before = (window.arrived)().ok_or(GeneratorError::Window)?;
        Ok(Self { window, arrived_before, arrived: 0, since: Instant::now(), lost: 0 })
    }

    /// Whether there is room for so many more, after so many were sent.
    pub(crate) fn has_room(&mut self, sent: u64, more: u32) -> Result<bool, GeneratorError> {
        let now = (self.window.arrived)().ok_or(GeneratorError::Window)?;
        let arrived = now.saturating_sub(self.arrived_before);
        if arrived != self.arrived {
            (self.arrived, self.since) = (arrived, Instant::now());
        }
        let under_way = sent.saturating_sub(arrived.saturating_add(self.lost));
        if under_way.saturating_add(u64::from(more)) <= u64::from(self.window.packets) {
            return Ok(true);
        }
        if self.since.elapsed() >= PATIENCE {
            self.lost = self.lost.saturating_add(under_way);
            self.since = Instant::now();
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn room_comes_with_what_arrives_and_with_what_is_given_up() {
        let count = Arc::new(AtomicU64::new(1000));
        let reader = Arc::clone(&count);
        let arrived: Arrived = Arc::new(move || Some(reader.load(Ordering::Relaxed)));
        let window = Window { packets: 100, arrived };
        let mut under_way = UnderWay::new(&window).unwrap();
        assert!(under_way.has_room(0, 100).unwrap());
        assert!(!under_way.has_room(100, 1).unwrap());
        count.fetch_add(60, Ordering::Relaxed);
        assert!(under_way.has_room(100, 60).unwrap());
        assert!(!under_way.has_room(100, 61).unwrap());
        // The other 40 never come.
        under_way.since -= PATIENCE;
        assert!(!under_way.has_room(100, 61).unwrap());
        assert!(under_way.has_room(100, 100).unwrap());
        // They do, late: no more than the window is under way.
        count.fetch_add(40, Ordering::Relaxed);
        assert!(!under_way.has_room(100, 101).unwrap());
    }

    #[test]
    fn a_count_that_cannot_be_read_ends_the_run() {
        let window = Window { packets: 100, arrived: Arc::new(|| None) };
        assert!(matches!(UnderWay::new(&window), Err(GeneratorError::Window)));
    }
}
