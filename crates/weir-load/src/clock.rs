//! The one clock: monotonic, the same for all processes of a machine.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC` (clock_gettime(2)).
#[must_use]
pub(crate) fn now_ns() -> u64 {
    // It cannot fail for this clock, and is never negative.
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC);
    let time = time.map_or(std::time::Duration::ZERO, std::time::Duration::from);
    weir_wire::units::whole_ns(time)
}
