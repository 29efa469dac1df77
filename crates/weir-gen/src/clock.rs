//! The clock of signatures and samples: CLOCK_MONOTONIC, which the programs in the kernel read too.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC; 0, which in a signature says "not stamped", if it cannot be
/// read, which Linux does not let happen.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(now.as_nanos()).unwrap_or_default()
}
