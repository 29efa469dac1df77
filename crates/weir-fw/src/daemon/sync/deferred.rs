//! Answers that come before the states that another firewall sends: each waits for a moment, and is
//! judged then, for good. What happens to it is the program's business.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bpf::firewall::Firewall;

use crate::engine::boot_ns;
use crate::shared::Shared;

/// How long an answer waits for its state.
const WAIT: Duration = Duration::from_millis(5);
/// How long it waits for answers before it looks whether the session is over.
const POLL: Duration = Duration::from_millis(200);

/// How it stands with a session's answers.
#[derive(Debug, Default)]
pub(super) struct Deferring {
    /// They wait.
    pub(super) is_live: AtomicBool,
    /// The session ends.
    pub(super) is_over: AtomicBool,
}

/// Has answers wait until the session is over.
pub(super) fn run(shared: &Shared, firewall: &Arc<Firewall>, deferring: &Deferring) {
    if let Err(error) = serve(shared, firewall, deferring) {
        shared.messages.tell(&format!("answers do not wait for their states: {error}"));
    }
    firewall.defer(false);
    deferring.is_live.store(false, Ordering::Release);
}

fn serve(shared: &Shared, firewall: &Firewall, deferring: &Deferring) -> io::Result<()> {
    let program = firewall.load_deferred_program().map_err(io::Error::other)?;
    let mut reader = firewall.deferred_reader()?;
    // Of a session before.
    drop(reader.read(Duration::ZERO)?);
    firewall.defer(true);
    deferring.is_live.store(true, Ordering::Release);
    let wait_ns = u64::try_from(WAIT.as_nanos()).unwrap_or(0);
    loop {
        let is_over = deferring.is_over.load(Ordering::Acquire) || shared.stop.is_requested();
        if is_over {
            firewall.defer(false);
            // Whoever has seen it before is done then.
            firewall.wait_for_polls()?;
        }
        // Once it is over, those that wait still.
        for deferred in reader.read(if is_over { Duration::ZERO } else { POLL })? {
            let due_ns = deferred.time_ns.saturating_add(wait_ns);
            std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(boot_ns()).min(wait_ns)));
            // One whose interface has gone goes with it.
            drop(program.judge(&deferred));
        }
        if is_over {
            return Ok(());
        }
    }
}
