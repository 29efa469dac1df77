//! What a machine behind SSH did while it was measured: load of each CPU, softirqs, frequencies,
//! temperatures, fans, whether something slowed it down for heat, and on Linux what else ran.
//!
//! A machine does nothing but be measured: its kernel is a part of that, whatever was started over
//! the connection that asks, and the programs that the specification names. All others are foreign.
//!
//! What counts up is asked for at the two ends, when no traffic runs. What comes and goes is
//! printed once a second by a loop on the machine, which ends with the run or with the connection.
//! Of Linux the files are those that this machine is read by ([`crate::environment::machine`]);
//! FreeBSD tells by sysctl(8): `kern.cp_times`, and cpufreq(4), coretemp(4) and their like; of
//! OpenBSD only `hw.sensors` is read. A management controller is not asked: its answers take
//! seconds. This module never judges, and a machine that does not answer is told by whoever needs
//! it: here it shows nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_results::dut::System;
use weir_results::machine_use::{DutTime, MachineUse};

use super::{ask, sensors};
use crate::environment::machine::{Counted, Sensors, busy_time, machine_use};
use crate::environment::{CpuTimes, Files};
use crate::host::{Host, Process};

/// Name of what the loop prints among the machine's artefacts, where it need not be kept.
pub const LOG: &str = "machine-sensors.log";

/// Stands behind each reading of the loop.
const READ: &str = "weir: read";
/// How long the loop may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

const LINUX_COUNTED: &str = "grep -sH '^cpu' /proc/stat; grep -sH '' /proc/softirqs \
     /proc/pressure/cpu /proc/pressure/memory \
     /sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count; \
     grep -sH '' /proc/self/stat /proc/[0-9]*/task/[0-9]*/stat \
     /proc/[0-9]*/task/[0-9]*/schedstat";
const LINUX_SENSORS: &str = "grep -sH '' /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq \
     /sys/class/hwmon/hwmon*/name /sys/class/hwmon/hwmon*/temp*_input \
     /sys/class/hwmon/hwmon*/temp*_label /sys/class/hwmon/hwmon*/fan*_input \
     /sys/class/hwmon/hwmon*/fan*_label /sys/class/thermal/thermal_zone*/type \
     /sys/class/thermal/thermal_zone*/temp /sys/class/thermal/cooling_device*/type \
     /sys/class/thermal/cooling_device*/cur_state";
const FREEBSD_COUNTED: &str = "sysctl -e kern.cp_times; \
     sysctl -e dev.cpu 2>/dev/null | grep '\\.throttle_log='";
const FREEBSD_SENSORS: &str = "sysctl -e dev.cpu hw.acpi.thermal dev.amdtemp dev.asmc \
     2>/dev/null | grep -iE '^dev\\.cpu\\.[0-9]+\\.freq=|temperature=|fan[0-9._a-z]*speed='";
const OPENBSD_SENSORS: &str = "sysctl hw.sensors 2>/dev/null";

/// What is asked at the ends, and by the loop; `None` where nothing is known.
fn questions(system: System) -> Option<(&'static str, &'static str)> {
    match system {
        System::Linux => Some((LINUX_COUNTED, LINUX_SENSORS)),
        System::Freebsd => Some((FREEBSD_COUNTED, FREEBSD_SENSORS)),
        System::Openbsd => Some((":", OPENBSD_SENSORS)),
        System::Generic => None,
    }
}

/// A machine during a run.
pub struct Activity {
    system: System,
    /// Programs that belong to it.
    processes: Vec<String>,
    before: Counted,
    after: Counted,
    readings: Arc<Mutex<Vec<Sensors>>>,
    watching: Option<Box<dyn Process>>,
}

impl Activity {
    /// Begins; `watches` starts the loop. `None` if the machine shows nothing.
    pub fn begin(host: &dyn Host, system: System, watches: bool) -> Option<Self> {
        let (counted, shown) = questions(system)?;
        let (before, first) = read(system, &ask(host, &both(counted, shown)).ok()?);
        let readings = Arc::new(Mutex::new(vec![first]));
        let sink = {
            let readings = Arc::clone(&readings);
            let mut block = String::new();
            move |line: &str| {
                if line == READ {
                    let sensors = read(system, &std::mem::take(&mut block)).1;
                    readings.lock().unwrap_or_else(PoisonError::into_inner).push(sensors);
                } else {
                    block.push_str(line);
                    block.push('\n');
                }
            }
        };
        let watching = if watches {
            let line = format!("while sleep 1; do {shown}; echo '{READ}'; done");
            host.spawn_lines(&line, LOG, Box::new(sink)).ok()
        } else {
            None
        };
        let processes = host.processes().to_vec();
        Some(Self { system, processes, before, after: Counted::default(), readings, watching })
    }

    /// The run has ended.
    pub fn end(&mut self, host: &dyn Host) {
        if let Some(mut watching) = self.watching.take() {
            // One that cannot be ended ends with its connection; a machine that is gone is not
            // waited for a second time.
            if watching.stop(STOP_PATIENCE).is_err_and(|error| error.is_gone()) {
                return;
            }
        }
        let Some((counted, shown)) = questions(self.system) else { return };
        if let Ok(text) = ask(host, &both(counted, shown)) {
            let (after, last) = read(self.system, &text);
            self.after = after;
            self.readings.lock().unwrap_or_else(PoisonError::into_inner).push(last);
        }
    }

    /// What it did, on all of its CPUs.
    pub fn machine(&self) -> MachineUse {
        let cpus: Vec<usize> = self.after.times.keys().copied().collect();
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = self.after.parts_of_machine(&self.processes);
        machine_use(&self.before, &self.after, &readings, (&cpus, parts.as_ref()))
    }

    /// Its CPU time if it is the DUT; `None` of systems that count it otherwise than Linux.
    pub fn dut_time(&self) -> Option<DutTime> {
        match self.system {
            System::Linux => busy_time(&self.before, &self.after),
            System::Freebsd | System::Openbsd | System::Generic => None,
        }
    }
}

/// Neither fails: what the machine has not is silent.
fn both(counted: &str, shown: &str) -> String {
    format!("{counted}; {shown}; :")
}

/// Reads what a machine of this system has printed.
fn read(system: System, text: &str) -> (Counted, Sensors) {
    match system {
        System::Linux => {
            let files = Files::printed(text);
            (Counted::with_tasks(&files), Sensors::read(&files))
        }
        System::Freebsd | System::Openbsd => (bsd_counted(text), bsd_sensors(system, text)),
        System::Generic => (Counted::default(), Sensors::default()),
    }
}

/// `kern.cp_times`: user, nice, system, interrupts, idle of one CPU after the other; and coretemp's
/// marks of having slowed down, which stay until somebody takes them away.
fn bsd_counted(text: &str) -> Counted {
    let mut counted = Counted::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        if name == "kern.cp_times" {
            let ticks: Vec<u64> =
                value.split_ascii_whitespace().map_while(|tick| tick.parse().ok()).collect();
            for (cpu, ticks) in ticks.chunks_exact(5).enumerate() {
                let times = CpuTimes {
                    user_ticks: ticks[0],
                    nice_ticks: ticks[1],
                    system_ticks: ticks[2],
                    irq_ticks: ticks[3],
                    idle_ticks: ticks[4],
                    ..CpuTimes::default()
                };
                counted.times.insert(cpu, times);
            }
        } else if name.ends_with(".throttle_log")
            && let Ok(count) = value.trim().parse()
        {
            counted.throttled.insert(name.to_owned(), count);
        }
    }
    counted
}

fn bsd_sensors(system: System, text: &str) -> Sensors {
    let is_sensor = |line: &&str| !line.contains("throttle_log") && !line.starts_with("kern.");
    let shown: Vec<&str> = text.lines().filter(is_sensor).collect();
    let (temperatures_celsius, fans_rpm) = sensors::read(system, &shown.join("\n"));
    let frequency = |line: &&str| {
        let (cpu, mhz) = line.strip_prefix("dev.cpu.")?.split_once(".freq=")?;
        Some((cpu.parse().ok()?, mhz.trim().parse::<u64>().ok()?.checked_mul(1_000)?))
    };
    let frequencies_khz: BTreeMap<usize, u64> = shown.iter().filter_map(frequency).collect();
    Sensors { frequencies_khz, temperatures_celsius, fans_rpm, cooling: BTreeMap::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_results::machine_use::Span;

    #[test]
    fn a_linux_machine_is_read_as_this_one_is() {
        let (counted, sensors) = read(
            System::Linux,
            "/proc/stat:cpu  9\n/proc/stat:cpu0 10 0 20 100 0 5 10 1 0 0\n\
             /proc/softirqs:            CPU0\n/proc/softirqs:  NET_RX:  7\n\
             /sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count:3\n\
             /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq:3600000\n\
             /sys/class/hwmon/hwmon0/name:coretemp\n\
             /sys/class/hwmon/hwmon0/temp1_input:41000\n\
             /sys/class/hwmon/hwmon0/temp1_label:Core: 0\n\
             /sys/class/thermal/cooling_device1/type:Processor\n\
             /sys/class/thermal/cooling_device1/cur_state:2\n\
             grep: what else it says\n",
        );
        assert_eq!(counted.times[&0].softirq_ticks, 10);
        assert_eq!(counted.softirqs[&0]["NET_RX"], 7);
        assert_eq!(counted.throttled["cpu0/core_throttle_count"], 3);
        assert_eq!(sensors.frequencies_khz, BTreeMap::from([(0, 3_600_000)]));
        assert_eq!(sensors.temperatures_celsius["coretemp/Core: 0"], 41.0);
        assert_eq!(sensors.cooling["cooling_device1/Processor"], 2);
    }

    /// A reading of a machine with these threads: process, name, parent, group, run time and the
    /// time of what it has started, in ticks. Whoever asks is in the group of 20.
    fn reading(user_ticks: u64, threads: &[(i32, &str, i32, i32, u64, u64)]) -> Counted {
        let mut text = format!("/proc/stat:cpu0 {user_ticks} 0 0 {user_ticks} 0 0 0 0\n");
        let stat = |number: i32, name: &str, parent: i32, group: i32, ended: u64| {
            let (flags, zeros) = (if parent == 0 { 0x20_0000 } else { 0 }, "0 ".repeat(16));
            format!(
                "{number} ({name}) R {parent} {group} 1 0 -1 {flags} 0 0 0 0 0 0 {ended} 0 0 0 0 0 \
                 {number} {zeros}0 0 0"
            )
        };
        for &(number, name, parent, group, run_ticks, ended) in threads {
            let dir = format!("/proc/{number}/task/{number}");
            text += &format!("{dir}/stat:{}\n", stat(number, name, parent, group, ended));
            text += &format!("{dir}/schedstat:{} 0 0\n", run_ticks * 10_000_000);
        }
        text += &format!("/proc/self/stat:{}\n", stat(21, "grep", 20, 20, 0));
        read(System::Linux, &text).0
    }

    #[test]
    fn what_ran_on_a_machine_is_told_apart_from_what_belongs_to_it() {
        // The server's process for this connection, and a program that was started over it; the
        // kernel; a daemon of the machine's, a shell whose child has ended, and somebody's hog.
        let all = |ran: u64, shell_ended: u64| {
            vec![
                (10, "sshd", 1, 10, 1, 0),
                (20, "sh", 10, 20, 1, 0),
                (30, "weir", 20, 20, 1 + ran, 0),
                (40, "napi/eth0-1", 0, 0, 1 + ran, 0),
                (50, "a-daemon-with-a", 1, 50, 1 + ran * 3, 0),
                (60, "bash", 1, 60, 1, shell_ended),
                (70, "hog", 1, 70, 1 + ran * 2, 0),
            ]
        };
        let mut first = all(0, 1);
        // It had run for 7 ticks before, and ends in the meantime.
        first.push((61, "sleep", 60, 60, 7, 0));
        // CPU 0 was busy for 60 of 120 ticks.
        let (before, after) = (reading(0, &first), reading(60, &all(8, 1 + 7 + 12)));
        let used = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let parts = after.parts_of_machine(&names).expect("it is known who asked");
            machine_use(&before, &after, &[], (&[0], Some(&parts)))
        };
        let seen = used(&[]);
        let names: Vec<&str> = seen.foreign.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["a-daemon-with-a", "hog", "what bash started"], "{seen:?}");
        let has = |used: &MachineUse, ticks: f64| {
            let ratio = used.cpus[&0].foreign_ratio.expect("it is known");
            assert!((ratio - ticks / 120.0).abs() < 1e-6, "{ratio}");
        };
        has(&seen, 24.0 + 16.0 + 12.0);
        // Names are as long as the kernel keeps them.
        has(&used(&["a-daemon-with-a-long-name", "bash"]), 16.0);
        has(&used(&["a-daemon-with-a-long-name", "bash", "hog"]), 0.0);
        // A server that gives no group of its own does not tell who belongs to whom.
        let asked = Counted { asker: None, ..reading(160, &all(8, 1)) };
        assert_eq!(asked.parts_of_machine(&[]), None);
    }

    #[test]
    fn a_freebsd_machine_tells_by_its_variables() {
        let at = |idle: u64, log: u64, mhz: u64| {
            read(
                System::Freebsd,
                &format!(
                    "kern.cp_times=10 0 20 5 100 1 0 2 0 {idle}\n\
                     dev.cpu.1.coretemp.throttle_log={log}\n\
                     dev.cpu.0.freq={mhz}\ndev.cpu.1.temperature=61.0C\n\
                     dev.asmc.0.fan.0.speed=1998\n"
                ),
            )
        };
        let (first, last) = (at(100, 0, 2_400), at(300, 1, 1_200));
        assert_eq!(first.0.times[&0].irq_ticks, 5);
        assert_eq!(first.1.fans_rpm["dev.asmc.0.fan.0.speed"], 1_998.0);
        assert_eq!(first.1.temperatures_celsius.len(), 1, "{first:?}");
        let cpus = (&[0, 1][..], None);
        let used = machine_use(&first.0, &last.0, &[first.1, last.1], cpus);
        // CPU 0 stood still between the two.
        assert_eq!(used.cpus.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(used.cpus[&1].busy_ratio, 0.0);
        assert_eq!(used.slowed_for_heat, ["dev.cpu.1.coretemp.throttle_log"]);
        assert_eq!(
            used.temperatures_celsius["dev.cpu.1.temperature"],
            Span { min: 61.0, max: 61.0 }
        );
    }

    #[test]
    fn an_openbsd_machine_tells_its_sensors() {
        let text = "hw.sensors.cpu0.temp0=45.00 degC\nhw.sensors.it0.fan0=1100 RPM\n";
        let (counted, sensors) = read(System::Openbsd, text);
        assert_eq!(counted, Counted::default());
        assert_eq!(sensors.temperatures_celsius["cpu0.temp0"], 45.0);
        assert_eq!(sensors.fans_rpm["it0.fan0"], 1_100.0);
        assert!(questions(System::Generic).is_none());
    }
}
