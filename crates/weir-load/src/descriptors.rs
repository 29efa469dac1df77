//! How many file descriptors this process may have: as many as it can get.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that are not for connections: standard ones, listeners, the event loop's.
const KEPT: u64 = 64;

/// How many connections a worker may have at a time: one descriptor each. Raises its limit.
///
/// # Errors
///
/// As [`raise_limit`].
pub fn for_connections() -> io::Result<u64> {
    Ok(raise_limit()?.saturating_sub(KEPT))
}

/// Raises the limit of this process to the most that it may set itself, and tells it.
///
/// # Errors
///
/// If the kernel does not let it.
pub fn raise_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}
