//! What the daemon's threads share: the engine, a request to end, and a voice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::{Engine, Ways};
use crate::sessions::Sessions;

/// What the daemon has to say while it runs; whoever starts it decides where that goes.
pub trait Messages: Send + Sync {
    /// Something that somebody should know.
    fn tell(&self, text: &str);
}

/// A request to end, which threads wait for.
#[derive(Debug, Default)]
pub struct Stop {
    is_requested: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Stop {
    /// Asks all threads to end.
    pub fn request(&self) {
        self.is_requested.store(true, Ordering::Release);
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake.notify_all();
    }

    /// Whether it was asked for.
    #[must_use]
    pub(crate) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Acquire)
    }

    /// Waits until it is asked for, at most this long; tells whether it is.
    pub fn wait(&self, timeout: Duration) -> bool {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |_: &mut ()| !self.is_requested();
        drop(self.wake.wait_timeout_while(guard, timeout, is_open));
        self.is_requested()
    }
}

/// What the daemon's threads share.
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    /// What is known of the routes.
    pub(crate) ways: Ways,
    /// Those with another firewall.
    pub(crate) sessions: Sessions,
    pub(crate) stop: Arc<Stop>,
    pub(crate) messages: Arc<dyn Messages>,
    pub(crate) has_log_file: bool,
    /// Flows are exported to somebody.
    pub(crate) has_collector: bool,
}

impl Shared {
    pub(crate) fn new(
        engine: Engine,
        stop: &Arc<Stop>,
        messages: Arc<dyn Messages>,
        [has_log_file, has_collector]: [bool; 2],
    ) -> Self {
        let (engine, ways, sessions) = (Mutex::new(engine), Ways::default(), Sessions::default());
        Self {
            engine,
            ways,
            sessions,
            stop: Arc::clone(stop),
            messages,
            has_log_file,
            has_collector,
        }
    }

    /// The engine, for one change or one look.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        // A thread that panicked in the middle has left what the shared memory has.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_stop_wakes_who_waits() {
        let stop = Arc::new(Stop::default());
        assert!(!stop.wait(Duration::ZERO));
        let other = Arc::clone(&stop);
        let waiting = thread::spawn(move || other.wait(Duration::from_secs(600)));
        stop.request();
        assert!(waiting.join().unwrap() && stop.is_requested());
    }
}
