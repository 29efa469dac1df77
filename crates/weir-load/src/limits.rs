//! Limits of this process and machine that bound how many connections there can be.

use std::{fs, io};

use weir_net::sysctl::{self, SysctlError};

/// Ports that the kernel gives to connections from one address to one server
/// (`net.ipv4.ip_local_port_range`, which holds for IPv6 too).
///
/// # Errors
///
/// If the setting cannot be read.
pub fn ports_per_source() -> Result<u64, SysctlError> {
    let text = sysctl::read("net.ipv4.ip_local_port_range")?;
    let mut ends = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (first, last) = (ends.next().unwrap_or(0), ends.next().unwrap_or(0));
    Ok((last + 1).saturating_sub(first))
}

/// For how long the calling thread has run and has waited for a CPU, nanoseconds
/// (Documentation/scheduler/sched-stats.rst). The times of what interrupts it are in the first.
///
/// # Errors
///
/// If `/proc` does not say.
pub fn scheduled_ns() -> io::Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(ran_ns)), Some(Ok(waited_ns))) => Ok((ran_ns, waited_ns)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "schedstat is not two numbers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_its_limits_are() {
        assert!((1..=65_535).contains(&ports_per_source().unwrap()));
        // A thread that has just begun has not run for long enough to be counted.
        assert!((0..1_000_000).any(|_| scheduled_ns().is_ok_and(|(ran_ns, _)| ran_ns > 0)));
    }
}
