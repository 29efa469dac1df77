//! The clock of signatures and samples: CLOCK_MONOTONIC, which the programs in the kernel read too.

use std::io;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
///
/// # Errors
/// What the system returned; Linux always has this clock.
pub(crate) fn monotonic_ns() -> io::Result<u64> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    Ok(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}
