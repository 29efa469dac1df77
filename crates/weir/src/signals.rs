//! SIGINT and SIGTERM become a request to stop; a second one ends the process at once.
//!
//! The handler itself does nothing but store numbers: the campaign looks at them in its waits, and
//! takes its testbed down before it returns.

use std::io;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_lab::cancel::Cancel;

/// Starts to listen. The listening thread ends with the process.
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn listen() -> io::Result<Cancel> {
    let cancel = Cancel::default();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let shared = cancel.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if shared.signal().is_some() {
                // Asked twice: whoever is in a hurry takes what is left behind; the next start
                // removes it.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            shared.request(signal);
        }
    })?;
    Ok(cancel)
}

/// Exit code after a signal, as a shell gives it.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
