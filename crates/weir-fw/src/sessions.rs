//! Which sessions with another firewall live, one for each direction, and how they are. It sends
//! nothing itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::protocol::{SyncInStatus, SyncOutStatus, SyncStatus};

/// What sessions fail with once more is not said again for so long.
const QUIET: Duration = Duration::from_secs(60);

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Side<S> {
    is_taken: AtomicBool,
    status: Mutex<S>,
    /// What a session has failed with, and when that was said.
    said: Mutex<Option<(String, Instant)>>,
}

impl<S> Side<S> {
    pub(crate) fn status(&self) -> MutexGuard<'_, S> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a session, until it is dropped; `None`: there is one.
    pub(crate) fn take(&self) -> Option<Place<'_>> {
        (!self.is_taken.swap(true, Ordering::AcqRel)).then_some(Place(&self.is_taken))
    }

    /// Whether a failure is to be said now: whoever fails again and again does not flood the log.
    pub(crate) fn is_news(&self, failure: &str, now: Instant) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = said.as_ref().is_some_and(|(text, at)| text == failure && now - *at < QUIET);
        if !is_known {
            *said = Some((failure.to_owned(), now));
        }
        !is_known
    }
}

/// That a session lives.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a AtomicBool);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// What is known of whoever has sent states last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender {
    /// Its state table.
    pub(crate) table: u64,
    /// When its session had ended here: no packet has come by then of what has no later tick.
    pub(crate) ended_tick: u32,
}

/// Both directions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) out: Side<SyncOutStatus>,
    pub(crate) incoming: Side<SyncInStatus>,
    pub(crate) last_sender: Mutex<Option<Sender>>,
}

impl Sessions {
    pub(crate) fn status(&self) -> SyncStatus {
        SyncStatus { out: self.out.status().clone(), incoming: self.incoming.status().clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_once_a_minute() {
        let sessions = Sessions::default();
        let begin = Instant::now();
        let is_news = |failure, after_s| {
            sessions.incoming.is_news(failure, begin + Duration::from_secs(after_s))
        };
        let news = [("cut", 0), ("cut", 59), ("cut", 60), ("lies", 61), ("lies", 62), ("cut", 63)]
            .map(|(failure, after_s)| is_news(failure, after_s));
        assert_eq!(news, [true, false, true, true, false, true]);
    }

    #[test]
    fn a_direction_has_one_session_at_a_time() {
        let sessions = Sessions::default();
        let place = sessions.out.take().unwrap();
        assert!(sessions.out.take().is_none());
        assert!(sessions.incoming.take().is_some(), "the other one is free");
        drop(place);
        assert!(sessions.out.take().is_some());
    }
}
