//! The clocks: the kernel's, which the shared memory has, and one for people.

use nix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()));
    let (seconds, ns) = (u64::try_from(time.0).unwrap_or(0), u64::try_from(time.1).unwrap_or(0));
    seconds * 1_000_000_000 + ns
}

/// Nanoseconds since the start of the machine, sleep included: what the control page's times are.
pub(crate) fn boot_ns() -> u64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Nanoseconds since the start of the machine without sleep: what ticks are made of.
pub(crate) fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Seconds since 1970.
pub(crate) fn unix_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_on() {
        let (boot, monotonic) = (boot_ns(), monotonic_ns());
        assert!(boot > 0 && boot_ns() >= boot && monotonic_ns() >= monotonic && unix_s() > 0);
    }
}
