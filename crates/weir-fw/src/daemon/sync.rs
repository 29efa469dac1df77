//! States that two firewalls send each other: each session is one connection on the control socket,
//! served by its thread. It never opens a connection, and knows of no keys: who asks for a session
//! carries its bytes to the other firewall.

mod deferred;
mod incoming;
mod out;
mod pipe;
mod scan;

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_bpf::firewall::layout::{self, control};
use weir_bpf::firewall::sweep::Mode;

use crate::engine::Exchanged;
use crate::protocol::SyncDirection;
use crate::sessions::Place;
use crate::shared::Shared;

/// Each side says something every second: after so long without, it is not there any more.
const SILENCE: Duration = Duration::from_secs(60);

/// Why a session has ended, if not because the other side or the daemon has.
type Failure = String;

/// The place for a session; or why there is none.
pub(super) fn place<'a>(
    shared: &'a Shared,
    direction: &SyncDirection,
) -> Result<Place<'a>, String> {
    let (place, way) = match direction {
        SyncDirection::Out { .. } => (shared.sessions.out.take(), "to"),
        SyncDirection::In { .. } => (shared.sessions.incoming.take(), "from"),
    };
    place.ok_or_else(|| {
        format!("states go {way} another firewall already: there is one session at a time")
    })
}

/// Serves a session in its place until it ends. `first` has come already.
pub(super) fn run(
    shared: &Arc<Shared>,
    direction: &SyncDirection,
    stream: &UnixStream,
    first: &[u8],
) {
    let ended = match direction {
        SyncDirection::Out { defers } => out::run(shared, *defers, stream, first),
        SyncDirection::In { interfaces, defers } => {
            incoming::run(shared, interfaces, *defers, stream, first)
        }
    };
    let Err(failure) = ended else { return };
    let (now, sessions) = (Instant::now(), &shared.sessions);
    let (way, is_news) = match direction {
        SyncDirection::Out { .. } => {
            sessions.out.status().last_error = Some(failure.clone());
            ("to", sessions.out.is_news(&failure, now))
        }
        SyncDirection::In { .. } => {
            sessions.incoming.status().last_error = Some(failure.clone());
            ("from", sessions.incoming.is_news(&failure, now))
        }
    };
    shared.engine().sync_counters().add(Exchanged::Errors, 1);
    if is_news {
        shared.messages.tell(&format!("no states go {way} another firewall any more: {failure}"));
    }
}

/// What a daemon that was killed has left of its sessions: they have ended.
pub(super) fn end_left(shared: &Arc<Shared>) {
    let firewall = Arc::clone(shared.engine().firewall());
    firewall.tell_changes(false, false);
    firewall.defer(false);
    let word = firewall.arena().read32(control::SYNC_IN);
    if word & layout::SYNC_IN_LIVE == 0 {
        return;
    }
    if let Err(error) = firewall.sweep_all(Mode::Stamp) {
        shared.messages.tell(&format!("the time of imported states cannot begin anew: {error}"));
    }
    firewall.keep_imported(false, word & layout::SYNC_IN_ODD != 0, false);
}
