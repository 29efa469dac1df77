//! Whether this machine slept: a laptop whose lid was closed goes on as if no time had passed.
//!
//! CLOCK_BOOTTIME counts the time in suspension, CLOCK_MONOTONIC does not; between two moments they
//! differ by how long the machine was suspended. Clocks of other machines are never asked.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Shorter than this no machine sleeps; reading two clocks one after the other may take as long.
const SLEEP_MIN: Duration = Duration::from_millis(200);

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_BOOTTIME.
    pub boot: Duration,
    /// CLOCK_MONOTONIC.
    pub monotonic: Duration,
}

/// Reads both clocks.
pub type ReadClocks = Box<dyn Fn() -> Clocks>;

/// The kernel's clocks.
#[must_use]
pub fn read() -> Clocks {
    // They exist on every kernel that weir runs on.
    let read = |clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    Clocks { boot: read(ClockId::CLOCK_BOOTTIME), monotonic: read(ClockId::CLOCK_MONOTONIC) }
}

/// How long the machine was suspended between two moments, if it was.
#[must_use]
pub fn slept(before: Clocks, after: Clocks) -> Option<Duration> {
    let boot = after.boot.saturating_sub(before.boot);
    let asleep = boot.saturating_sub(after.monotonic.saturating_sub(before.monotonic));
    (asleep >= SLEEP_MIN).then_some(asleep)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot_ms: u64, monotonic_ms: u64) -> Clocks {
        Clocks {
            boot: Duration::from_millis(boot_ms),
            monotonic: Duration::from_millis(monotonic_ms),
        }
    }

    #[test]
    fn what_only_one_clock_counted_was_slept() {
        assert_eq!(slept(at(5_000, 1_000), at(9_000, 5_000)), None);
        assert_eq!(slept(at(5_000, 1_000), at(9_100, 5_000)), None, "two readings take time");
        let slept = slept(at(5_000, 1_000), at(44_000, 5_000));
        assert_eq!(slept, Some(Duration::from_secs(35)));
    }

    #[test]
    fn the_clocks_of_this_machine_go_on_together() {
        let before = read();
        let after = read();
        assert!(before.boot > Duration::ZERO && after.monotonic >= before.monotonic);
        assert_eq!(slept(before, after), None);
    }
}
