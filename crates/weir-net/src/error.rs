//! How every error of this crate words the operating system's answer.
//!
//! It never decides what went wrong; it only adds the next step where there is an obvious one.

use std::io;

/// The operating system's message, followed by the next step where one is known.
pub(crate) fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{error}; run as root"),
        _ => error.to_string(),
    }
}
