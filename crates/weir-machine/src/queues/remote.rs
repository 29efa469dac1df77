//! Queues of an interface of another machine, through whatever runs commands there.
//!
//! FreeBSD tells by sysctl(8), Linux by sysfs and ethtool(8); both tell their clock in the same
//! command. Nothing is changed there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::moment::{Moment, machine_clock};
use super::{QueueCounters, freebsd, linux};
use crate::host::{Command, Host, HostError, Output, Program};

/// How long a reading may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Tells the time, as late as can be before the counters are read.
const CLOCK: &str = "date +'weir-date %s.%N'";

/// The same on Linux, where a date(1) without `%N` is not the only clock.
const UPTIME: &str = "read -r up rest </proc/uptime && echo \"weir-uptime $up\"";

/// A machine whose system is known.
pub struct Remote<'a> {
    host: &'a dyn Host,
    is_freebsd: bool,
}

impl<'a> Remote<'a> {
    /// Asks which system the machine has.
    ///
    /// # Errors
    /// When it cannot be asked, or has another one than FreeBSD and Linux.
    pub fn new(host: &'a dyn Host) -> Result<Self, HostError> {
        let output = run(host, Program::Arguments(&["uname", "-s"]))?;
        match output.stdout.trim() {
            "FreeBSD" => Ok(Self { host, is_freebsd: true }),
            "Linux" => Ok(Self { host, is_freebsd: false }),
            other => Err(HostError::new(
                host.name(),
                format!("counters of queues are known for FreeBSD and Linux, not for `{other}`"),
            )),
        }
    }

    /// Reads an interface's counters, and when that was.
    ///
    /// # Errors
    /// When there is no such interface, or the machine does not answer.
    pub fn read(&self, interface: &str) -> Result<(QueueCounters, Moment), HostError> {
        let refused = |what: String| HostError::new(self.host.name(), what);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
        if interface.is_empty() || interface.starts_with('-') || !interface.chars().all(is_name) {
            return Err(refused(format!("`{interface}` is not an interface name")));
        }
        if self.is_freebsd {
            let variable = freebsd::variable(interface).ok_or_else(|| {
                refused(format!("`{interface}` is not a driver name with a unit number"))
            })?;
            let (output, moment) = self.timed(&format!("{CLOCK}; sysctl {variable}"))?;
            let counters = freebsd::parse(&variable, &output.stdout);
            if counters == QueueCounters::default() {
                return Err(refused(format!("`sysctl {variable}`: {}", output.said())));
            }
            return Ok((counters, moment));
        }
        let line = format!(
            "{UPTIME}; {CLOCK}; grep . /sys/class/net/{interface}/statistics/*; \
             ethtool -S {interface} 2>/dev/null"
        );
        let (output, moment) = self.timed(&line)?;
        match from_linux(&output.stdout) {
            Some(counters) => Ok((counters, moment)),
            None => Err(refused(format!("no interface `{interface}`: {}", output.said()))),
        }
    }

    fn timed(&self, line: &str) -> Result<(Output, Moment), HostError> {
        let asked = Instant::now();
        let output = run(self.host, Program::Shell(line))?;
        let (answered, clock) = (Instant::now(), machine_clock(&output.stdout));
        Ok((output, Moment { asked, answered, clock }))
    }
}

fn run(host: &dyn Host, program: Program<'_>) -> Result<Output, HostError> {
    host.run(&Command { program, stdin: "", timeout: TIMEOUT, cancellable: true })
}

/// Reads `PATH/statistics/NAME:VALUE` of sysfs and `NAME: VALUE` of ethtool; `None` if the former
/// are not there.
fn from_linux(text: &str) -> Option<QueueCounters> {
    let mut kernel = BTreeMap::new();
    let mut driver = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.rsplit_once(':') else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        match name.split_once("/statistics/") {
            Some((_, name)) => drop(kernel.insert(name, value)),
            None => driver.push((name.trim().to_owned(), value)),
        }
    }
    (!kernel.is_empty()).then(|| linux::with_totals(&driver, |name| kernel.get(name).copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linux_machine_is_read_by_sysfs_and_ethtool() {
        let text = "/sys/class/net/eth1/statistics/rx_packets:100\n\
                    /sys/class/net/eth1/statistics/rx_missed_errors:7\n\
                    /sys/class/net/eth1/statistics/tx_packets:3\nNIC statistics:\n     \
                    rx_queue_0_packets: 60\n     rx_queue_1_packets: 40\n     [0]: odd: 9\n";
        let counters = from_linux(text).unwrap();
        assert_eq!(counters.rx_packets, BTreeMap::from([(0, 60), (1, 40)]));
        assert_eq!((counters.rx_total_packets, counters.tx_total_packets), (Some(107), Some(3)));
        assert_eq!(counters.drops["rx_missed_errors"], 7);
        assert_eq!(from_linux("grep: no such file\n"), None);
    }
}
