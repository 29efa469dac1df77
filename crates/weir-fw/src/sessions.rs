//! Which sessions with another firewall live, one for each direction, and how they are. It sends
//! nothing itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::protocol::{SyncInStatus, SyncOutStatus, SyncStatus};

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Side<S> {
    is_taken: AtomicBool,
    status: Mutex<S>,
}

impl<S> Side<S> {
    pub(crate) fn status(&self) -> MutexGuard<'_, S> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a session, until it is dropped; `None`: there is one.
    pub(crate) fn take(&self) -> Option<Place<'_>> {
        (!self.is_taken.swap(true, Ordering::AcqRel)).then_some(Place(&self.is_taken))
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
    fn a_direction_has_one_session_at_a_time() {
        let sessions = Sessions::default();
        let place = sessions.out.take().unwrap();
        assert!(sessions.out.take().is_none());
        assert!(sessions.incoming.take().is_some(), "the other one is free");
        drop(place);
        assert!(sessions.out.take().is_some());
    }
}
