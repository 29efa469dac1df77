//! What each CPU did with packets that the stack received: `/proc/net/softnet_stat`, which is what
//! `netstat -Q` shows elsewhere. Nothing is changed.
//!
//! The kernel counts for the whole host, whatever the interface and the network namespace.
//!
//! Source: `softnet_seq_show` in net/core/net-procfs.c of the kernel tree. Columns are hexadecimal;
//! a line is a CPU that is online, and names it from Linux 5.10 on.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::short;

/// Where the kernel tells.
pub const PATH: &str = "/proc/net/softnet_stat";

/// The counters of a CPU since the host was started. They have 32 bits, and begin anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoftnetCounters {
    pub cpu: u32,
    /// Packets that it took from devices, and from other CPUs.
    pub processed: u32,
    /// Packets that found its backlog full.
    pub dropped: u32,
    /// Times that it stopped with packets left, because its time or its budget was used up.
    pub time_squeezed: u32,
    /// Times that it waited for another CPU to send by the same device; newer kernels do not count.
    pub collisions: u32,
    /// Packets that other CPUs gave it (receive packet steering).
    pub steered: u32,
}

/// The same for each second of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SoftnetRates {
    pub cpu: u32,
    pub processed_rate_pps: f64,
    pub dropped_rate_pps: f64,
    pub time_squeezed_per_second: f64,
    pub collisions_per_second: f64,
    pub steered_rate_pps: f64,
}

/// Reads the file's text; lines that are not understood are left out.
#[must_use]
pub fn parse(text: &str) -> Vec<SoftnetCounters> {
    let line = |(index, line): (usize, &str)| {
        let columns: Option<Vec<u32>> =
            line.split_whitespace().map(|word| u32::from_str_radix(word, 16).ok()).collect();
        let columns = columns?;
        let column = |index: usize| columns.get(index).copied();
        Some(SoftnetCounters {
            cpu: column(12).or_else(|| u32::try_from(index).ok())?,
            processed: column(0)?,
            dropped: column(1)?,
            time_squeezed: column(2)?,
            collisions: column(8)?,
            steered: column(9).unwrap_or(0),
        })
    };
    text.lines().enumerate().filter_map(line).collect()
}

/// What happened between two readings, on CPUs that are in both.
#[must_use]
pub fn rates(
    before: &[SoftnetCounters],
    after: &[SoftnetCounters],
    elapsed: Duration,
) -> Vec<SoftnetRates> {
    let seconds = elapsed.as_secs_f64();
    let rate = |before: u32, after: u32| {
        if seconds > 0.0 { f64::from(after.wrapping_sub(before)) / seconds } else { 0.0 }
    };
    let of = |now: &SoftnetCounters| {
        let then = before.iter().find(|then| then.cpu == now.cpu)?;
        Some(SoftnetRates {
            cpu: now.cpu,
            processed_rate_pps: rate(then.processed, now.processed),
            dropped_rate_pps: rate(then.dropped, now.dropped),
            time_squeezed_per_second: rate(then.time_squeezed, now.time_squeezed),
            collisions_per_second: rate(then.collisions, now.collisions),
            steered_rate_pps: rate(then.steered, now.steered),
        })
    };
    after.iter().filter_map(of).collect()
}

/// `[CPU0 856K/s] [CPU1 2K/s dropped 31/s squeezed 4/s]`: what is zero is left out.
impl fmt::Display for SoftnetRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[CPU{} {}", self.cpu, short(Some(self.processed_rate_pps)))?;
        for (name, rate) in [
            ("dropped", self.dropped_rate_pps),
            ("squeezed", self.time_squeezed_per_second),
            ("collided", self.collisions_per_second),
            ("steered", self.steered_rate_pps),
        ] {
            if rate > 0.0 {
                write!(f, " {name} {}", short(Some(rate)))?;
            }
        }
        write!(f, "]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs, of which CPU 1 is offline, with the columns of Linux 6.12.
    fn before() -> Vec<SoftnetCounters> {
        let line = |first: [u32; 3], steered: u32, cpu: u32| {
            let [processed, dropped, squeezed] = first;
            let zeros = ["00000000"; 6].join(" ");
            format!(
                "{processed:08x} {dropped:08x} {squeezed:08x} {zeros} {steered:08x} 00000000 \
                 00000000 {cpu:08x} 00000000 00000000\n"
            )
        };
        parse(&(line([1000, 0, 2], 0, 0) + &line([u32::MAX, 1, 0], 5, 2)))
    }

    #[test]
    fn cpus_are_told_by_their_numbers_and_counters_begin_anew() {
        let before = before();
        assert_eq!((before[0].cpu, before[0].processed, before[0].time_squeezed), (0, 1000, 2));
        assert_eq!((before[1].cpu, before[1].dropped, before[1].steered), (2, 1, 5));
        let after: Vec<SoftnetCounters> = before
            .iter()
            .map(|one| SoftnetCounters {
                processed: one.processed.wrapping_add(4000),
                dropped: one.dropped + 6,
                ..*one
            })
            .collect();
        let rates = rates(&before, &after, Duration::from_secs(2));
        assert_eq!((rates[1].cpu, rates[1].processed_rate_pps), (2, 2000.0));
        assert_eq!(rates[0].to_string(), "[CPU0 2K/s dropped 3/s]");
        assert!(super::rates(&before[..1], &after, Duration::ZERO)[0].processed_rate_pps == 0.0);
    }

    #[test]
    fn an_old_kernel_has_fewer_columns_and_this_one_is_read() {
        let old = parse("0000000a 00000001 00000002 0 0 0 0 0 00000003\nnothing\n");
        assert_eq!(old.len(), 1);
        assert_eq!((old[0].cpu, old[0].collisions, old[0].steered), (0, 3, 0));
        if let Ok(text) = std::fs::read_to_string(PATH) {
            assert!(!parse(&text).is_empty(), "{text}");
        }
    }
}
