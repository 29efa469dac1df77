//! What the machine did while it was measured: load of each CPU, softirqs, frequencies,
//! temperatures, fans, and whether something slowed it down for heat.
//!
//! Times and softirqs are read at the two ends; what comes and goes (frequency, temperature, fans,
//! throttling) is read again and again meanwhile, seldom enough not to disturb. Sources:
//! `/proc/stat` and `/proc/softirqs` (proc(5)), `/proc/pressure`
//! (`Documentation/accounting/psi.rst`), `sysfs-devices-system-cpu`,
//! `Documentation/driver-api/thermal/sysfs-api.rst` and `Documentation/hwmon/sysfs-interface.rst`
//! in the kernel tree. What a machine does not show is left out, never guessed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_net::procfs::Stat;
use weir_results::machine_use::{
    CpuUse, DutTime, ForeignInterrupt, ForeignTask, MachineUse, Pressure, Span,
};

use super::cpu::{self, CPU_DIR, CpuTimes, HWMON_DIR, THERMAL_DIR, parse_times, throttle_counts};
use super::files::Files;
use super::interrupts::Interrupted;
use super::tasks::{self, Parts, Ran, Tasks};
use super::{MACHINE, TICK_NS};

/// How far apart readings of sensors are.
const SENSOR_INTERVAL: Duration = Duration::from_secs(1);

/// How many threads are named that are not the measurement's, at the most; and interrupts.
const FOREIGN_MAX: usize = 5;
/// Ticks by which a CPU's time and that of threads differ for nothing: the former is cut to whole
/// ticks, kind by kind, at both ends of a run.
const UNKNOWN_TICKS: u64 = 2;
/// One part in so many of the time of CPUs that threads had which ended may be unseen.
const UNSEEN_PART_MAX: u64 = 20;
/// From which part of a CPU's time on they are.
const FOREIGN_RATIO_MIN: f64 = 0.01;

/// Cooling devices (`type`) that slow CPUs down; others are fans and displays.
const SLOWING: [&str; 4] = ["Processor", "cpufreq-", "thermal-cpufreq-", "intel_powerclamp"];

/// What counts up, at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    /// Times of each CPU.
    pub times: BTreeMap<usize, CpuTimes>,
    /// Softirqs of each CPU by name (`NET_RX`).
    pub softirqs: BTreeMap<usize, BTreeMap<String, u64>>,
    /// Counters of slowing down for heat.
    pub throttled: BTreeMap<String, u64>,
    /// How long tasks have waited since the machine started, and the clock for it.
    pub stalled: Option<Stalled>,
    /// Who ran; `None` if nobody looked.
    pub tasks: Option<Tasks>,
    /// Whoever looked, with the time of the commands that it has started and that have ended.
    pub asker: Option<Stat>,
    /// What was spent on interrupts since the reading before; `None` if nobody traced them.
    pub interrupted: Option<Interrupted>,
}

/// Time in which at least one task waited for a CPU or for memory, since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    pub cpu_us: u64,
    pub memory_us: u64,
}

/// What comes and goes, at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sensors {
    /// Frequency of each CPU, kHz.
    pub frequencies_khz: BTreeMap<usize, u64>,
    /// Temperatures by sensor, degrees Celsius.
    pub temperatures_celsius: BTreeMap<String, f64>,
    /// Fan speeds by sensor, revolutions per minute.
    pub fans_rpm: BTreeMap<String, f64>,
    /// Steps by which cooling devices that slow CPUs down are in use; 0 is not.
    pub cooling: BTreeMap<String, u64>,
}

impl Counted {
    /// Reads this machine.
    #[must_use]
    pub fn take() -> Self {
        Self::with_tasks(&Path::new(MACHINE).into())
    }

    /// The same with who ran.
    pub(crate) fn with_tasks(files: &Files) -> Self {
        let asker = tasks::stat_of(files, "proc/self");
        Self { tasks: Some(Tasks::read(files)), asker, ..Self::read(files) }
    }

    /// What belongs to a measurement on a machine that does nothing else: its kernel, all that was
    /// started in the way in which its tasks were asked for, and programs of these names. `None` if
    /// that cannot be told.
    pub(crate) fn parts_of_machine(&self, names: &[String]) -> Option<Parts> {
        let starter = self.tasks.as_ref()?.starter(self.asker.as_ref()?)?;
        let (processes, names) = (vec![starter], names.to_vec());
        Some(Parts { processes, names, has_kernel: true, ..Parts::default() })
    }

    pub(crate) fn read(files: &Files) -> Self {
        Self {
            times: parse_times(&files.text("proc/stat").unwrap_or_default()),
            softirqs: softirqs(&files.text("proc/softirqs").unwrap_or_default()),
            throttled: throttle_counts(files),
            stalled: stalled(files),
            tasks: None,
            asker: None,
            interrupted: None,
        }
    }
}

impl Sensors {
    pub(crate) fn read(files: &Files) -> Self {
        let frequency =
            |(cpu, dir)| Some((cpu, files.number(&format!("{dir}/cpufreq/scaling_cur_freq"))?));
        Self {
            frequencies_khz: files
                .numbered(CPU_DIR, "cpu")
                .into_iter()
                .filter_map(frequency)
                .collect(),
            temperatures_celsius: cpu::temperatures(files),
            fans_rpm: fans(files),
            cooling: cooling(files),
        }
    }
}

/// The `total` of the lines `some` in `/proc/pressure`.
fn stalled(files: &Files) -> Option<Stalled> {
    let total_us = |name: &str| {
        let text = files.text(&format!("proc/pressure/{name}"))?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.rsplit_once("total=")?.1.trim().parse().ok()
    };
    Some(Stalled { cpu_us: total_us("cpu")?, memory_us: total_us("memory")? })
}

/// Fan speeds: hardware monitors by `<chip>/<label>`. A fan that is not connected shows 0 as one
/// that stands still does.
pub(super) fn fans(files: &Files) -> BTreeMap<String, f64> {
    let mut fans = BTreeMap::new();
    for (number_of_chip, chip) in files.numbered(HWMON_DIR, "hwmon") {
        let name_of_chip = files.text(&format!("{chip}/name")).unwrap_or_default();
        for name in files.names(&chip) {
            let Some(fan) = name.strip_suffix("_input").filter(|s| s.starts_with("fan")) else {
                continue;
            };
            let rpm = files.text(&format!("{chip}/{name}"));
            let Some(rpm) = rpm.and_then(|rpm| rpm.parse().ok()) else {
                continue;
            };
            let label = files.text(&format!("{chip}/{fan}_label"));
            let mut key = format!("{name_of_chip}/{}", label.unwrap_or_else(|| fan.to_owned()));
            if fans.contains_key(&key) {
                key = format!("{key} (hwmon{number_of_chip})");
            }
            fans.insert(key, rpm);
        }
    }
    fans
}

fn cooling(files: &Files) -> BTreeMap<String, u64> {
    files
        .numbered(THERMAL_DIR, "cooling_device")
        .into_iter()
        .filter_map(|(device, dir)| {
            let kind = files.text(&format!("{dir}/type"))?;
            let slows = SLOWING.iter().any(|slowing| kind.starts_with(slowing));
            // intel_powerclamp has -1 while it is idle: no number, and no slowing.
            let state = files.number(&format!("{dir}/cur_state"))?;
            slows.then(|| (format!("cooling_device{device}/{kind}"), state))
        })
        .collect()
}

/// The table of `/proc/softirqs`: a line of CPUs, then a line for each softirq.
fn softirqs(table: &str) -> BTreeMap<usize, BTreeMap<String, u64>> {
    let mut lines = table.lines();
    let cpus: Vec<usize> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|name| name.strip_prefix("CPU")?.parse().ok())
        .collect();
    let mut softirqs: BTreeMap<usize, BTreeMap<String, u64>> = BTreeMap::new();
    for line in lines {
        let Some((name, counts)) = line.split_once(':') else { continue };
        for (cpu, count) in cpus.iter().zip(counts.split_ascii_whitespace()) {
            if let Ok(count) = count.parse() {
                softirqs.entry(*cpu).or_default().insert(name.trim().to_owned(), count);
            }
        }
    }
    softirqs
}

/// What was done between two readings, on these CPUs. `parts` belong to the measurement; without
/// them what else ran is not told.
#[must_use]
pub fn machine_use(
    before: &Counted,
    after: &Counted,
    sensors: &[Sensors],
    (cpus, parts): (&[usize], Option<&Parts>),
) -> MachineUse {
    let ran = match (&before.tasks, &after.tasks, parts) {
        (Some(before), Some(after), Some(parts)) => Some(after.since(before, parts)),
        _ => None,
    };
    let uses = cpus.iter().filter_map(|&cpu| {
        let mut used = cpu_use(before, after, sensors, cpu)?;
        let on_cpu = ran.as_ref().map(|ran| ran.iter().filter(|ran| ran.cpu == cpu));
        let ended_ns = ended_ns(before, after, parts, cpu);
        let has_kernel = parts.is_some_and(|parts| parts.has_kernel);
        let times = (ended_ns, elapsed_ns(before, after, cpu));
        let interrupts = foreign_interrupts(after, parts, cpu);
        used.interrupted_ratio =
            interrupts.map(|all| all.iter().fold(0.0, |sum, seen| sum + seen.ratio));
        let interrupted_ratio = used.interrupted_ratio.unwrap_or(0.0);
        used.foreign_ratio = on_cpu
            .map(|ran| (foreign_ratio(&used, ran, times, has_kernel) + interrupted_ratio).min(1.0));
        Some((cpu, used))
    });
    let cpu_uses: BTreeMap<usize, CpuUse> = uses.collect();
    let interrupts = cpus.iter().filter_map(|&cpu| foreign_interrupts(after, parts, cpu)).flatten();
    let elapsed_ns = |cpu| elapsed_ns(before, after, cpu);
    MachineUse {
        foreign: foreign(ran.unwrap_or_default(), &cpu_uses, elapsed_ns),
        foreign_interrupts: worth_naming(interrupts),
        cpus: cpu_uses,
        pressure: pressure(before, after, cpus),
        dut_cpus: Vec::new(),
        temperatures_celsius: spans(sensors, |s| &s.temperatures_celsius),
        fans_rpm: spans(sensors, |s| &s.fans_rpm),
        slowed_for_heat: slowed(before, after, sensors),
        counts_throttling: counts_throttling(after, sensors),
        sensor_reading_count: sensors.len(),
        distance: None,
    }
}

/// The CPU time of a DUT that shares its machine: of these threads, on these CPUs. With
/// `has_sink`, their softirqs are the sink's work; a DUT's NAPI has threads. How much that was is
/// not told where too much else ran and has ended. `None` if nobody read who ran.
///
/// Where the kernel counts softirqs by ticks, they are part of the run time of the thread that they
/// interrupt; where it measures them (`CONFIG_IRQ_TIME_ACCOUNTING`), they are not, and cost the DUT
/// nothing here.
#[must_use]
pub fn dut_time(
    before: &Counted,
    after: &Counted,
    dut: &Parts,
    (cpus, has_sink): (&[usize], bool),
) -> Option<DutTime> {
    let run_ns = after.tasks.as_ref()?.run_ns_since(before.tasks.as_ref()?, dut);
    let spent = spent(before, after, cpus);
    let ns = |of: fn(&CpuTimes) -> u64| spent.iter().map(of).sum::<u64>() * TICK_NS;
    let softirq_ns = ns(|spent| spent.softirq_ticks);
    let elapsed_ns = longest_ns(&spent);
    // All threads that ran there: softirqs beside them would be more than the CPUs did.
    let all = after.tasks.as_ref()?.since(before.tasks.as_ref()?, dut).into_iter();
    let all_ns: u64 = all.filter(|ran| cpus.contains(&ran.cpu)).map(|ran| ran.run_ns).sum();
    let threads_ns = ns(CpuTimes::busy_ticks).saturating_sub(softirq_ns);
    let sink_ns = if all_ns > threads_ns + softirq_ns / 2 {
        Some(softirq_ns.min(run_ns))
    } else {
        // Threads that have ended hide how it is.
        let is_known = all_ns + elapsed_ns / UNSEEN_PART_MAX >= threads_ns;
        is_known.then_some(0)
    };
    Some(DutTime { run_ns, sink_ns: sink_ns.filter(|_| has_sink), elapsed_ns })
}

/// How long the CPUs of a machine that is the DUT were not idle, all together; `None` if it does
/// not count that in ticks of [`TICK_NS`].
#[must_use]
pub(crate) fn busy_time(before: &Counted, after: &Counted) -> Option<DutTime> {
    let cpus: Vec<usize> = after.times.keys().copied().collect();
    let spent = spent(before, after, &cpus);
    let ticks: u64 = spent.iter().map(CpuTimes::busy_ticks).sum();
    let (run_ns, elapsed_ns) = (ticks * TICK_NS, longest_ns(&spent));
    (!spent.is_empty()).then_some(DutTime { run_ns, sink_ns: None, elapsed_ns })
}

/// What passed meanwhile by the ticks of these CPUs: some count none while they are idle.
fn longest_ns(spent: &[CpuTimes]) -> u64 {
    spent.iter().map(CpuTimes::total_ticks).max().unwrap_or(0) * TICK_NS
}

/// What each of these CPUs spent between two readings, as far as that is known.
fn spent(before: &Counted, after: &Counted, cpus: &[usize]) -> Vec<CpuTimes> {
    let spent = |cpu: &usize| after.times.get(cpu)?.since(before.times.get(cpu)?);
    cpus.iter().filter_map(spent).collect()
}

/// What has slowed CPUs down between two readings, by the counter or cooling device that says so.
fn slowed(before: &Counted, after: &Counted, sensors: &[Sensors]) -> Vec<String> {
    let counted = after
        .throttled
        .iter()
        .filter(|(name, count)| before.throttled.get(*name) != Some(count))
        .map(|(name, _)| name.clone());
    let mut slowed: Vec<String> = counted.collect();
    for (name, _) in sensors.iter().flat_map(|s| &s.cooling).filter(|(_, state)| **state > 0) {
        if !slowed.contains(name) {
            slowed.push(name.clone());
        }
    }
    slowed
}

/// Whether this machine would tell of slowing down for heat at all.
fn counts_throttling(after: &Counted, sensors: &[Sensors]) -> bool {
    !after.throttled.is_empty() || sensors.iter().any(|s| !s.cooling.is_empty())
}

/// What a CPU has done that is not the measurement's, as a part of its time.
///
/// Two ways, because neither sees all: its time less what the measurement's threads had, which
/// includes threads that have ended, and what threads had that are still there. Stolen time and
/// interrupts are left out of the first: kernels differ in whose run time they are in. Of a machine
/// whose kernel is a part (`has_kernel`), the second alone counts, which has threads that have
/// ended with those that waited for them: not all threads of a kernel can be seen in a container.
fn foreign_ratio<'a>(
    used: &CpuUse,
    ran: impl Iterator<Item = &'a Ran>,
    (ended_ns, elapsed_ns): (u64, f64),
    has_kernel: bool,
) -> f64 {
    let (mut part_ns, mut other_ns) = (ended_ns, 0);
    for ran in ran {
        *(if ran.is_part { &mut part_ns } else { &mut other_ns }) += ran.run_ns;
    }
    let (part, other) = (ratio_of(part_ns, elapsed_ns), ratio_of(other_ns, elapsed_ns));
    if has_kernel {
        return other.min(used.user_ratio + used.system_ratio);
    }
    let in_threads = used.busy_ratio
        - used.stolen_ratio
        - used.irq_ratio
        - used.softirq_ratio
        - part
        - ratio_of(UNKNOWN_TICKS * TICK_NS, elapsed_ns);
    // Softirqs are in the run time of whoever they interrupted.
    let other = other - used.interrupted_ratio.unwrap_or(0.0);
    in_threads.max(other.min(used.busy_ratio - part)).max(0.0)
}

/// What the measurement's commands had of a CPU that have ended meanwhile: an equal part on each of
/// the CPUs that they could run on.
fn ended_ns(before: &Counted, after: &Counted, parts: Option<&Parts>, cpu: usize) -> u64 {
    let Some(parts) = parts.filter(|parts| parts.ended_on.contains(&cpu)) else { return 0 };
    let ticks = |counted: &Counted| counted.asker.as_ref().map_or(0, |asker| asker.ended_ticks);
    let ticks = ticks(after).saturating_sub(ticks(before));
    ticks * TICK_NS / parts.ended_on.len().max(1) as u64
}

/// Threads that are not the measurement's and had a part of these CPUs worth naming.
/// None of them has more than all of them: a thread's time has the interrupts of its CPU in it.
fn foreign(
    ran: Vec<Ran>,
    cpus: &BTreeMap<usize, CpuUse>,
    elapsed_ns: impl Fn(usize) -> f64,
) -> Vec<ForeignTask> {
    let named = ran.into_iter().filter(|ran| !ran.is_part).filter_map(|ran| {
        let all = cpus.get(&ran.cpu)?.foreign_ratio.unwrap_or(1.0);
        let ratio = ratio_of(ran.run_ns, elapsed_ns(ran.cpu)).min(all);
        Some(ForeignTask { ratio, name: ran.name, process: ran.process, cpu: ran.cpu })
    });
    named.filter(|task| task.ratio >= FOREIGN_RATIO_MIN).take(FOREIGN_MAX).collect()
}

/// What a CPU spent on interrupts that are not the measurement's, if that is known.
fn foreign_interrupts(
    after: &Counted,
    parts: Option<&Parts>,
    cpu: usize,
) -> Option<Vec<ForeignInterrupt>> {
    let seen = after.interrupted.as_ref()?.foreign(cpu, parts?)?;
    Some(seen.into_iter().map(|(name, ratio)| ForeignInterrupt { name, cpu, ratio }).collect())
}

/// Those that are worth naming, the longest first.
fn worth_naming(interrupts: impl Iterator<Item = ForeignInterrupt>) -> Vec<ForeignInterrupt> {
    let mut named: Vec<_> = interrupts.filter(|seen| seen.ratio >= FOREIGN_RATIO_MIN).collect();
    named.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    named.truncate(FOREIGN_MAX);
    named
}

/// How long tasks waited, as parts of the time that passed on the first of these CPUs.
fn pressure(before: &Counted, after: &Counted, cpus: &[usize]) -> Option<Pressure> {
    let (earlier, later) = (before.stalled?, after.stalled?);
    let elapsed_ns = elapsed_ns(before, after, *cpus.first()?);
    let ratio =
        |before: u64, after: u64| ratio_of(after.saturating_sub(before) * 1_000, elapsed_ns);
    Some(Pressure {
        cpu_ratio: ratio(earlier.cpu_us, later.cpu_us),
        memory_ratio: ratio(earlier.memory_us, later.memory_us),
    })
}

/// What passed on a CPU between two readings, by its ticks; 0 if it cannot be said.
#[expect(clippy::cast_precision_loss, reason = "times of a run are far below 2^53 ns: 104 days")]
fn elapsed_ns(before: &Counted, after: &Counted, cpu: usize) -> f64 {
    let ticks: u64 = spent(before, after, &[cpu]).iter().map(CpuTimes::total_ticks).sum();
    (ticks * TICK_NS) as f64
}

/// A part of this time, 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "run times are far below 2^53 ns: 104 days")]
fn ratio_of(part_ns: u64, elapsed_ns: f64) -> f64 {
    if elapsed_ns > 0.0 { (part_ns as f64 / elapsed_ns).min(1.0) } else { 0.0 }
}

fn cpu_use(before: &Counted, after: &Counted, sensors: &[Sensors], cpu: usize) -> Option<CpuUse> {
    let spent = after.times.get(&cpu)?.since(before.times.get(&cpu)?)?;
    let total = spent.total_ticks();
    #[expect(clippy::cast_precision_loss, reason = "ticks of a run are far below 2^53")]
    let ratio = |part: u64| part as f64 / total as f64;
    if total == 0 {
        return None;
    }
    let none = BTreeMap::new();
    let first = before.softirqs.get(&cpu).unwrap_or(&none);
    let softirq_counts =
        after.softirqs.get(&cpu).unwrap_or(&none).iter().filter_map(|(name, c)| {
            let rise = c.checked_sub(*first.get(name)?)?;
            (rise > 0).then(|| (name.clone(), rise))
        });
    #[expect(clippy::cast_precision_loss, reason = "frequencies are far below 2^53 kHz")]
    let frequencies = sensors.iter().filter_map(|s| Some(*s.frequencies_khz.get(&cpu)? as f64));
    Some(CpuUse {
        busy_ratio: 1.0 - ratio(spent.idle_ticks + spent.iowait_ticks),
        user_ratio: ratio(spent.user_ticks + spent.nice_ticks),
        system_ratio: ratio(spent.system_ticks),
        irq_ratio: ratio(spent.irq_ticks),
        softirq_ratio: ratio(spent.softirq_ticks),
        stolen_ratio: ratio(spent.steal_ticks),
        foreign_ratio: None,
        interrupted_ratio: None,
        softirq_counts: softirq_counts.collect(),
        frequency_khz: span(frequencies),
    })
}

fn span(values: impl Iterator<Item = f64>) -> Option<Span> {
    values.fold(None, |span: Option<Span>, value| {
        let span = span.unwrap_or(Span { min: value, max: value });
        Some(Span { min: span.min.min(value), max: span.max.max(value) })
    })
}

fn spans(
    sensors: &[Sensors],
    of: impl Fn(&Sensors) -> &BTreeMap<String, f64>,
) -> BTreeMap<String, Span> {
    let mut names: Vec<&String> = sensors.iter().flat_map(|s| of(s).keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter_map(|name| {
            let values = sensors.iter().filter_map(|s| of(s).get(name).copied());
            Some((name.clone(), span(values)?))
        })
        .collect()
}

/// Reads the sensors of this machine, now and once a second, until it is stopped.
#[derive(Debug)]
pub struct SensorWatch {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Sensors>>,
}

impl SensorWatch {
    /// Begins. `None` if no thread can be started: then nothing is told of sensors.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_in(MACHINE.into(), SENSOR_INTERVAL)
    }

    pub(super) fn start_in(root: PathBuf, interval: Duration) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("sensors".into()).spawn(move || {
            let files = Files::Below(root);
            let mut readings = vec![Sensors::read(&files)];
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                readings.push(Sensors::read(&files));
            }
            readings.push(Sensors::read(&files));
            readings
        });
        Some(Self { stop, thread: thread.ok()? })
    }

    /// Ends, and returns the readings in their order, the last one of this moment.
    #[must_use]
    pub fn stop(self) -> Vec<Sensors> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}
