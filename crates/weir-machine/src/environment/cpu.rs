//! What the processors are, how warm they run, and who had their time.
//!
//! Topology, frequencies, temperatures and throttling come from sysfs
//! (`Documentation/ABI/testing/sysfs-devices-system-cpu` and `sysfs-class-thermal`,
//! `Documentation/hwmon/sysfs-interface.rst` in the kernel tree), times from `/proc/stat`
//! (proc_stat(5)).
//! Nothing is changed here, and nothing is judged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::files::Files;
use super::{entries, text};

pub(super) const CPU_DIR: &str = "sys/devices/system/cpu";
pub(super) const HWMON_DIR: &str = "sys/class/hwmon";
pub(super) const THERMAL_DIR: &str = "sys/class/thermal";

/// What one CPU has done since the machine started, in ticks of `USER_HZ` (10 ms on nearly all
/// systems: too coarse for runs of less than a second). As the kernel counts, a guest's time is
/// in `user_ticks` and `nice_ticks` as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// Processes of normal and raised priority, in user mode.
    pub user_ticks: u64,
    /// Processes of lowered priority, in user mode.
    pub nice_ticks: u64,
    /// Processes and kernel threads in kernel mode; threaded NAPI is here.
    pub system_ticks: u64,
    /// Nothing to do. May go backwards by a little.
    pub idle_ticks: u64,
    /// Nothing to do, with input or output outstanding. May go backwards.
    pub iowait_ticks: u64,
    /// Interrupt handlers.
    pub irq_ticks: u64,
    /// Softirqs; NAPI without threads is here.
    pub softirq_ticks: u64,
    /// Ready to run, but the hypervisor ran somebody else. Zero on bare metal.
    pub steal_ticks: u64,
}

impl CpuTimes {
    /// What was spent between an earlier reading and this one; `None` if a counter that never
    /// goes backwards did (the CPU was offline, or the readings are swapped).
    pub(super) fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            user_ticks: self.user_ticks.checked_sub(earlier.user_ticks)?,
            nice_ticks: self.nice_ticks.checked_sub(earlier.nice_ticks)?,
            system_ticks: self.system_ticks.checked_sub(earlier.system_ticks)?,
            idle_ticks: self.idle_ticks.saturating_sub(earlier.idle_ticks),
            iowait_ticks: self.iowait_ticks.saturating_sub(earlier.iowait_ticks),
            irq_ticks: self.irq_ticks.checked_sub(earlier.irq_ticks)?,
            softirq_ticks: self.softirq_ticks.checked_sub(earlier.softirq_ticks)?,
            steal_ticks: self.steal_ticks.checked_sub(earlier.steal_ticks)?,
        })
    }

    /// What the CPU worked.
    pub(super) fn busy_ticks(&self) -> u64 {
        let tasks = self.user_ticks + self.nice_ticks + self.system_ticks;
        tasks + self.irq_ticks + self.softirq_ticks
    }

    pub(super) fn total_ticks(&self) -> u64 {
        self.busy_ticks() + self.idle_ticks + self.iowait_ticks + self.steal_ticks
    }
}

/// The lines `cpu<number> …` of `/proc/stat`. A line that has fewer fields than the kernel writes
/// is left out.
pub(super) fn parse_times(stat: &str) -> BTreeMap<usize, CpuTimes> {
    stat.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
            let ticks: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
            let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else {
                return None;
            };
            let times = CpuTimes {
                user_ticks: user,
                nice_ticks: nice,
                system_ticks: system,
                idle_ticks: idle,
                iowait_ticks: iowait,
                irq_ticks: irq,
                softirq_ticks: softirq,
                steal_ticks: steal,
            };
            Some((cpu, times))
        })
        .collect()
}

/// How often each CPU was slowed down for heat since the machine started, by
/// `cpu<number>/<counter>`. A package's counter stands at each of its CPUs. Empty where the machine
/// does not count (not x86, or a virtual machine): that is "not known", not "never".
pub(super) fn throttle_counts(files: &Files) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (cpu, dir) in files.numbered(CPU_DIR, "cpu") {
        for name in ["core_throttle_count", "package_throttle_count"] {
            if let Some(count) = files.number(&format!("{dir}/thermal_throttle/{name}")) {
                counts.insert(format!("cpu{cpu}/{name}"), count);
            }
        }
    }
    counts
}

/// Model, topology, frequencies: the entry `cpu` of the environment.
pub(super) fn cpu(root: &Path) -> Value {
    let info = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .filter_map(|l| l.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let hypervisor = field("flags").is_some_and(|f| f.split(' ').any(|flag| flag == "hypervisor"));
    let base = root.join(CPU_DIR);
    let dirs = cpu_dirs(root);
    json!({
        "model": field("model name"),
        "microcode": field("microcode"),
        "count": info.lines().filter(|l| l.starts_with("processor")).count(),
        "online": text(&base.join("online")),
        "isolated": text(&base.join("isolated")),
        "without_tick": text(&base.join("nohz_full")),
        "smt": text(&base.join("smt/control")),
        "virtual_machine": hypervisor,
        "idle_driver": text(&base.join("cpuidle/current_driver")),
        "idle_governor": text(&base.join("cpuidle/current_governor")),
        "frequency": dirs.iter().map(|(cpu, dir)| frequency(*cpu, dir)).collect::<Vec<_>>(),
        "turbo": turbo(&base),
        "topology": topology(root, &dirs),
        "numa_nodes": numa_nodes(root),
        "caches": caches(&dirs),
    })
}

/// The directories of all CPUs, also of those that are offline.
fn cpu_dirs(root: &Path) -> BTreeMap<usize, PathBuf> {
    numbered(&root.join(CPU_DIR), "cpu")
}

/// The entries `<prefix><number>` of a directory.
fn numbered(dir: &Path, prefix: &str) -> BTreeMap<usize, PathBuf> {
    entries(dir)
        .into_iter()
        .filter_map(|(name, path)| Some((name.strip_prefix(prefix)?.parse().ok()?, path)))
        .collect()
}

fn frequency(cpu: usize, dir: &Path) -> Value {
    let read = |name: &str| text(&dir.join("cpufreq").join(name));
    json!({
        "cpu": cpu,
        "driver": read("scaling_driver"),
        "governor": read("scaling_governor"),
        "preference": read("energy_performance_preference"),
        "current_khz": read("scaling_cur_freq"),
        "allowed_minimum_khz": read("scaling_min_freq"),
        "allowed_maximum_khz": read("scaling_max_freq"),
        "maximum_khz": read("cpuinfo_max_freq"),
    })
}

/// `on`, `off`, `some CPUs` where they differ, or `None` where the machine does not say.
fn turbo(cpu_dir: &Path) -> Option<&'static str> {
    if let Some(off) = text(&cpu_dir.join("intel_pstate/no_turbo")) {
        return Some(if off == "1" { "off" } else { "on" });
    }
    // Since Linux 6.11 each policy has its own switch, below the one of all.
    let mut policies: Vec<String> = numbered(&cpu_dir.join("cpufreq"), "policy")
        .values()
        .filter_map(|policy| text(&policy.join("boost")))
        .collect();
    policies.sort();
    policies.dedup();
    let all = text(&cpu_dir.join("cpufreq/boost"));
    match (all.as_deref(), policies.as_slice()) {
        (Some("0"), _) => Some("off"),
        (_, [_, _, ..]) => Some("some CPUs"),
        (_, [one]) => Some(if one == "1" { "on" } else { "off" }),
        (Some(_), []) => Some("on"),
        (None, []) => None,
    }
}

/// Where each CPU sits: which share a core decides what a placement is worth.
fn topology(root: &Path, dirs: &BTreeMap<usize, PathBuf>) -> Vec<Value> {
    let nodes = numbered(&root.join("sys/devices/system/node"), "node");
    dirs.iter()
        .map(|(cpu, dir)| {
            let node = nodes.iter().find(|(_, path)| path.join(format!("cpu{cpu}")).exists());
            json!({
                "cpu": cpu,
                "package": text(&dir.join("topology/physical_package_id")),
                "core": text(&dir.join("topology/core_id")),
                "siblings": text(&dir.join("topology/thread_siblings_list")),
                "numa_node": node.map(|(number, _)| number),
            })
        })
        .collect()
}

/// CPU lists of the NUMA nodes, by the node's number.
fn numa_nodes(root: &Path) -> BTreeMap<usize, Option<String>> {
    numbered(&root.join("sys/devices/system/node"), "node")
        .into_iter()
        .map(|(node, dir)| (node, text(&dir.join("cpulist"))))
        .collect()
}

/// Every cache once, with the CPUs that share it.
fn caches(dirs: &BTreeMap<usize, PathBuf>) -> Vec<Value> {
    let mut caches = BTreeMap::new();
    for (cpu, dir) in dirs {
        for (_, cache) in numbered(&dir.join("cache"), "index") {
            let read = |name: &str| text(&cache.join(name)).unwrap_or_default();
            let key = (read("level"), read("type"), read("shared_cpu_list"));
            let size_bytes = cache_size_bytes(&read("size"));
            caches.entry(key).or_insert((*cpu, size_bytes));
        }
    }
    let mut caches: Vec<_> = caches.into_iter().collect();
    caches.sort_by(|((a, ..), (a_cpu, _)), ((b, ..), (b_cpu, _))| (a, a_cpu).cmp(&(b, b_cpu)));
    caches
        .into_iter()
        .map(|((level, kind, cpus), (_, size_bytes))| {
            json!({ "level": level, "type": kind, "size_bytes": size_bytes, "cpus": cpus })
        })
        .collect()
}

/// The kernel writes cache sizes in KiB, with a `K`.
fn cache_size_bytes(size: &str) -> Option<u64> {
    size.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Every temperature that the machine shows: hardware monitors by `<chip>/<label>`, thermal zones
/// by `<zone>/<type>`. Two chips of one name are told apart by the monitor's number.
pub(super) fn temperatures(files: &Files) -> BTreeMap<String, f64> {
    let mut result = BTreeMap::new();
    for (number, chip) in files.numbered(HWMON_DIR, "hwmon") {
        let chip_name = files.text(&format!("{chip}/name")).unwrap_or_default();
        for name in files.names(&chip) {
            let Some(sensor) = name.strip_suffix("_input").filter(|s| s.starts_with("temp")) else {
                continue;
            };
            let Some(celsius) = celsius(files, &format!("{chip}/{name}")) else {
                continue;
            };
            let label = files.text(&format!("{chip}/{sensor}_label"));
            let key = format!("{chip_name}/{}", label.unwrap_or_else(|| sensor.to_owned()));
            let key =
                if result.contains_key(&key) { format!("{key} (hwmon{number})") } else { key };
            result.insert(key, celsius);
        }
    }
    for (number, zone) in files.numbered(THERMAL_DIR, "thermal_zone") {
        if let Some(celsius) = celsius(files, &format!("{zone}/temp")) {
            let kind = files.text(&format!("{zone}/type")).unwrap_or_default();
            result.insert(format!("thermal_zone{number}/{kind}"), celsius);
        }
    }
    result
}

/// sysfs has thousandths; a sensor that is asleep gives an error.
fn celsius(files: &Files, path: &str) -> Option<f64> {
    files.text(path)?.parse::<f64>().ok().map(|milli| milli / 1000.0)
}
