//! SIGHUP, SIGINT and SIGTERM become a request to stop; a second one ends the process at once.
//!
//! The handler itself does nothing but store numbers: the campaign looks at them in its waits, and
//! takes its testbed down before it returns. A SIGHUP that is ignored, as nohup(1) does, stays so.
//! What must not stay as it is even then, such as a terminal in raw mode, is put right before the
//! process ends ([`before_the_end`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_machine::cancel::Cancel;

use crate::progress;

/// What is done when a second signal ends the process.
type LastAct = Box<dyn Fn() + Send>;

static LAST_ACTS: Mutex<Vec<(u64, LastAct)>> = Mutex::new(Vec::new());

/// Keeps an act registered.
pub(crate) struct Registered(u64);

impl Drop for Registered {
    fn drop(&mut self) {
        // Waits for acts that are being done: whoever drops this would do the same once more.
        last_acts().retain(|(id, _)| *id != self.0);
    }
}

fn last_acts() -> MutexGuard<'static, Vec<(u64, LastAct)>> {
    LAST_ACTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has something done before a second signal ends the process, as long as the answer is kept. It
/// runs on the listening thread, so it may take locks, and must not take long.
pub(crate) fn before_the_end(act: impl Fn() + Send + 'static) -> Registered {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    last_acts().push((id, Box::new(act)));
    Registered(id)
}

/// Starts to listen, for a command that makes testbeds.
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn listen() -> io::Result<Cancel> {
    listen_and_say(Some(
        "stopped before everything was taken down: `weir lab clean` removes what is left (so does \
         the next `weir lab`)",
    ))
}

/// The same for a command that leaves nothing behind.
///
/// # Errors
/// As [`listen`].
pub(crate) fn listen_alone() -> io::Result<Cancel> {
    listen_and_say(None)
}

/// The same with what is said at a second signal, if something is left behind then. The listening
/// thread ends with the process.
///
/// # Errors
/// As [`listen`].
pub(crate) fn listen_and_say(left_behind: Option<&'static str>) -> io::Result<Cancel> {
    let cancel = Cancel::default();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    if !is_ignored(&status, SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let shared = cancel.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if shared.signal().is_some() {
                for (_, act) in last_acts().iter().rev() {
                    act();
                }
                // Asked twice: whoever is in a hurry takes what is left behind.
                if let Some(what) = left_behind {
                    progress::warn(what);
                }
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            shared.request(signal);
        }
    })?;
    Ok(cancel)
}

/// Whether a process ignores a signal; `status` is its `/proc/PID/status` (proc_pid_status(5)).
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Exit code after a signal, as a shell gives it.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_ignores_is_seen() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(!is_ignored(status, SIGINT));
        assert!(!is_ignored("", SIGHUP));
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(exit_code), [129, 130, 143]);
    }
}
