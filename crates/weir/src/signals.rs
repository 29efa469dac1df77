//! SIGHUP, SIGINT and SIGTERM become a request to stop; a second one ends the process at once.
//!
//! The handler itself does nothing but store numbers: the campaign looks at them in its waits, and
//! takes its testbed down before it returns. A SIGHUP that is ignored, as nohup(1) does, stays so.

use std::fs;
use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_lab::cancel::Cancel;

use crate::progress;

/// Starts to listen. The listening thread ends with the process.
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn listen() -> io::Result<Cancel> {
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
                // Asked twice: whoever is in a hurry takes what is left behind.
                progress::warn(
                    "stopped before everything was taken down: `weir lab clean` removes what is \
                     left (so does the next `weir lab`)",
                );
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
