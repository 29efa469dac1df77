//! The environment that figures are taken in: the content of `env.json`.
//!
//! Everything that can move a packet rate and can be read without privilege: kernel, CPU,
//! frequency, mitigations, temperatures, memory, kernel settings, tools, revisions; and, asked
//! for inside the testbed's namespaces, the settings of its interfaces. What a machine does not
//! show (a virtual machine shows no frequency) is `null`, never guessed. Nothing is ever changed.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::{Value, json};

mod cpu;
mod devices;
pub mod distance;
mod files;
pub mod interrupts;
pub mod machine;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod workers;
pub mod yardstick;

pub use cpu::CpuTimes;
pub use devices::devices;
pub(crate) use files::Files;

/// Version of the format of `env.json`.
pub(crate) const ENVIRONMENT_SCHEMA: u32 = 1;

/// Where the machine's own `/proc`, `/sys` and `/etc` are.
const MACHINE: &str = "/";

/// A tick of proc(5) (`USER_HZ` is 100 wherever weir runs).
const TICK_NS: u64 = 10_000_000;

/// A host-wide kernel setting that a packet rate depends on.
struct Setting {
    name: &'static str,
    /// The kernel's own default; several where it depends on the kernel's version or
    /// configuration, none where it depends on the machine.
    defaults: &'static [&'static str],
    /// Why it belongs to a result.
    meaning: &'static str,
}

const fn setting(
    name: &'static str,
    defaults: &'static [&'static str],
    meaning: &'static str,
) -> Setting {
    Setting { name, defaults, meaning }
}

/// The settings, with the defaults of `Documentation/admin-guide/sysctl/{net,kernel}.rst`,
/// `Documentation/networking/ip-sysctl.rst` and, where those are silent, `net/core/hotdata.c`.
/// Settings of a network namespace are not here: those the testbed and the DUT set in their own,
/// except for what a new namespace inherits.
const SETTINGS: [Setting; 28] = [
    setting("kernel.bpf_stats_enabled", &["0"], "takes two clock readings per BPF program run"),
    setting("kernel.numa_balancing", &[], "unmaps pages now and then to see who uses them"),
    setting("kernel.randomize_va_space", &["2"], "where a process lies decides cache conflicts"),
    setting("kernel.sched_rt_period_us", &["1000000"], "period of the real-time limit"),
    setting("kernel.sched_rt_runtime_us", &["950000"], "CPU time of real-time threads per period"),
    setting("kernel.sched_schedstats", &["0"], "adds work to every switch of threads"),
    setting("kernel.timer_migration", &["1"], "moves timers to busy CPUs"),
    // The document says 0, but kernels built with BPF_JIT_ALWAYS_ON or BPF_JIT_DEFAULT_ON, as
    // distributions have them, start with 1.
    setting("net.core.bpf_jit_enable", &["1"], "without it BPF and XDP programs are interpreted"),
    setting("net.core.bpf_jit_harden", &["0"], "blinds constants: more instructions per program"),
    setting("net.core.busy_poll", &["0"], "sockets take CPU time for polling"),
    setting("net.core.busy_read", &["0"], "sockets take CPU time for polling"),
    setting(
        "net.core.default_qdisc",
        &["pfifo_fast"],
        "queueing on interfaces, except virtual ones",
    ),
    setting("net.core.dev_weight", &["64"], "packets per poll of the backlog"),
    setting("net.core.dev_weight_rx_bias", &["1"], "multiplies the receive side of dev_weight"),
    setting("net.core.dev_weight_tx_bias", &["1"], "multiplies the transmit side of dev_weight"),
    setting("net.core.devconf_inherit_init_net", &["0"], "what new namespaces take from the host"),
    setting("net.core.flow_limit_cpu_bitmap", &["0"], "CPUs that drop large flows first"),
    setting("net.core.gro_normal_batch", &["8"], "packets handed up at once by GRO"),
    setting("net.core.netdev_budget", &["300"], "packets per softirq before others get a turn"),
    // Two jiffies, with 1000, 300, 250 and 100 of them to the second.
    setting(
        "net.core.netdev_budget_usecs",
        &["2000", "6666", "8000", "20000"],
        "time per softirq before others get a turn",
    ),
    setting("net.core.netdev_max_backlog", &["1000"], "packets that wait per CPU before a drop"),
    setting("net.core.netdev_tstamp_prequeue", &["1"], "on which CPU time stamps are taken"),
    setting("net.core.rps_default_mask", &["0"], "spreads packets of new interfaces over CPUs"),
    // 64 in Linux 6.18, 128 in a later one.
    setting("net.core.skb_defer_max", &["64", "128"], "buffers returned to the CPU they are from"),
    setting("net.ipv4.conf.all.rp_filter", &["0"], "a route lookup more per packet; is inherited"),
    setting(
        "net.ipv4.conf.default.rp_filter",
        &["0"],
        "a route lookup more per packet; is inherited",
    ),
    setting("net.netfilter.nf_conntrack_buckets", &[], "length of the chains of connections"),
    setting("net.netfilter.nf_conntrack_max", &[], "connections before new ones are dropped"),
];

/// Tools that a testbed, a DUT or a specification may call: what prints their version.
const TOOLS: [(&str, &[&str]); 5] = [
    ("ethtool", &["ethtool", "--version"]),
    ("git", &["git", "--version"]),
    ("ip", &["ip", "-V"]),
    ("nft", &["nft", "--version"]),
    ("tc", &["tc", "-V"]),
];

/// Where administrators' tools are, whether or not a user's `PATH` says so.
const SYSTEM_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Reads the environment. `weir` is version and revision of the running binary, `spec_dir` the
/// directory of the specification, `testbed` what the testbed says of itself.
#[must_use]
pub fn read(weir: &str, spec_dir: &Path, testbed: &Value) -> Value {
    let root = Path::new(MACHINE);
    let proc = |name: &str| text(&root.join("proc/sys/kernel").join(name));
    json!({
        "schema": ENVIRONMENT_SCHEMA,
        "taken_utc": jiff::Timestamp::now().to_string(),
        "weir": weir,
        "specification_revision": git_revision(spec_dir),
        "host": {
            "os": os_name(root),
            "kernel_release": proc("osrelease"),
            "kernel_version": proc("version"),
            "kernel_command_line": text(&root.join("proc/cmdline")),
            "clock_source":
                text(&root.join("sys/devices/system/clocksource/clocksource0/current_clocksource")),
            "memory_bytes": memory_bytes(root, "MemTotal"),
            "memory_available_bytes": memory_bytes(root, "MemAvailable"),
            "product": text(&root.join("sys/class/dmi/id/product_name")),
        },
        "cpu": cpu::cpu(root),
        "mitigations": texts(&root.join("sys/devices/system/cpu/vulnerabilities")),
        "temperatures_celsius": cpu::temperatures(&root.into()),
        "fans_rpm": machine::fans(&root.into()),
        "sysctls": sysctls(root),
        "sysctls_not_default": sysctls_not_default(root),
        "tools": tools(),
        "testbed": testbed,
    })
}

fn sysctls(root: &Path) -> BTreeMap<&'static str, Option<String>> {
    SETTINGS.iter().map(|setting| (setting.name, sysctl(root, setting.name))).collect()
}

/// The settings that somebody has changed, or a distribution has: value, the kernel's default,
/// and what the setting does. A setting that this kernel does not have is not changed.
fn sysctls_not_default(root: &Path) -> BTreeMap<&'static str, Value> {
    SETTINGS
        .iter()
        .filter_map(|setting| {
            let value = sysctl(root, setting.name)?;
            let is_default = setting.defaults.iter().any(|default| is_same(&value, default));
            (!setting.defaults.is_empty() && !is_default).then(|| {
                let default = setting.defaults.join(" or ");
                let entry = json!({
                    "value": value,
                    "default": default,
                    "meaning": setting.meaning,
                });
                (setting.name, entry)
            })
        })
        .collect()
}

/// Whether two values are the same; an empty set of CPUs has as many zeros as there are CPUs.
fn is_same(value: &str, default: &str) -> bool {
    let is_empty_mask = |text: &str| text.chars().all(|c| matches!(c, '0' | ','));
    value == default || (default == "0" && !value.is_empty() && is_empty_mask(value))
}

fn sysctl(root: &Path, name: &str) -> Option<String> {
    text(&root.join("proc/sys").join(name.replace('.', "/")))
}

fn tools() -> BTreeMap<&'static str, Option<String>> {
    TOOLS.into_iter().map(|(name, argv)| (name, first_line(argv, None))).collect()
}

fn git_revision(dir: &Path) -> Option<String> {
    first_line(&["git", "describe", "--always", "--dirty", "--abbrev=12"], Some(dir))
}

/// First line of what a command prints; `None` if it cannot be run or fails.
fn first_line(argv: &[&str], dir: Option<&Path>) -> Option<String> {
    let (name, arguments) = argv.split_first()?;
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(SYSTEM_DIRS.iter().map(PathBuf::from));
    let mut command = Command::new(find_program(name, dirs)?);
    command.args(arguments);
    if let Some(dir) = dir {
        command.current_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    }
    let output = command.output().ok().filter(|o| o.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(|l| l.trim().to_owned())
}

/// The first of these directories' programs of that name.
fn find_program(name: &str, dirs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    // A relative entry of PATH would be looked up in the command's directory.
    dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(is_program)
}

fn os_name(root: &Path) -> Option<String> {
    let release = text(&root.join("etc/os-release"))?;
    let name = release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn memory_bytes(root: &Path, field: &str) -> Option<u64> {
    let info = text(&root.join("proc/meminfo"))?;
    let line = info.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// A directory's entries by name; none if it cannot be listed.
fn entries(dir: &Path) -> BTreeMap<String, PathBuf> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect()
}

/// Every readable file of a directory: name and trimmed text.
fn texts(dir: &Path) -> BTreeMap<String, String> {
    entries(dir).into_iter().filter_map(|(name, path)| Some((name, text(&path)?))).collect()
}

/// A small file's text without the ends; `None` if it cannot be read.
fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

/// A small file's number; `None` if it cannot be read or has none.
fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}
