//! The environment that a campaign was taken in: the content of `env.json`.
//!
//! Everything that can move a packet rate and can be read without privilege: kernel, CPU,
//! frequency, mitigations, temperatures, memory, kernel settings, tools, revisions. What a
//! machine does not show (a virtual machine shows no frequency) is `null`, never guessed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Version of the format of `env.json`.
pub const ENVIRONMENT_SCHEMA: u32 = 1;

/// Host-wide kernel settings that a packet rate depends on.
const HOST_SYSCTLS: [&str; 9] = [
    "net.core.bpf_jit_enable",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rps_default_mask",
    "net.netfilter.nf_conntrack_buckets",
    "net.netfilter.nf_conntrack_max",
    "kernel.sched_rt_runtime_us",
    "kernel.randomize_va_space",
];

/// Tools whose version belongs to a result: the command that prints it.
const TOOLS: [(&str, &[&str]); 1] = [("nft", &["nft", "--version"])];

/// Reads the environment. `weir` is version and revision of the running binary, `spec_dir` the
/// directory of the specification, `testbed` what the testbed says of itself.
#[must_use]
pub fn read(weir: &str, spec_dir: &Path, testbed: &Value) -> Value {
    json!({
        "schema": ENVIRONMENT_SCHEMA,
        "taken_utc": jiff::Timestamp::now().to_string(),
        "weir": weir,
        "specification_revision": git_revision(spec_dir),
        "host": {
            "os": os_name(),
            "kernel_release": text("/proc/sys/kernel/osrelease"),
            "kernel_version": text("/proc/sys/kernel/version"),
            "kernel_command_line": text("/proc/cmdline"),
            "memory_bytes": memory_bytes(),
            "product": text("/sys/class/dmi/id/product_name"),
        },
        "cpu": cpu(),
        "mitigations": directory_texts(Path::new("/sys/devices/system/cpu/vulnerabilities")),
        "temperatures_celsius": temperatures(),
        "sysctls": sysctls(),
        "tools": tools(),
        "testbed": testbed,
    })
}

/// What differs between two environments, leaving out what always does.
#[must_use]
pub fn differences(earlier: &Value, later: &Value) -> BTreeMap<String, (Value, Value)> {
    const PASSING: [&str; 2] = ["/taken_utc", "/temperatures_celsius"];
    let mut result = BTreeMap::new();
    compare("", earlier, later, &mut result);
    result.retain(|path, _| {
        !PASSING.iter().any(|p| path.starts_with(p)) && !path.ends_with("current_khz")
    });
    result
}

/// Notes in the environment of a campaign's start that it went on now. Returns a warning if
/// something lasting has changed since.
#[must_use]
pub fn resumed(first: &mut Value, now: &Value) -> Option<String> {
    let mut earlier = first.clone();
    if let Some(map) = earlier.as_object_mut() {
        map.remove("resumed");
    }
    let changes = differences(&earlier, now);
    let note = json!({ "taken_utc": now["taken_utc"], "differences": changes });
    if let Some(list) = first["resumed"].as_array_mut() {
        list.push(note);
    } else {
        first["resumed"] = json!([note]);
    }
    let names: Vec<&str> = changes.keys().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the environment has changed since the campaign began ({}); old and new iterations \
             may not be comparable",
            names.join(", ")
        )
    })
}

fn compare(path: &str, a: &Value, b: &Value, out: &mut BTreeMap<String, (Value, Value)>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                let left = x.get(key).unwrap_or(&Value::Null);
                let right = y.get(key).unwrap_or(&Value::Null);
                compare(&format!("{path}/{key}"), left, right, out);
            }
        }
        _ if a != b => {
            out.insert(path.to_owned(), (a.clone(), b.clone()));
        }
        _ => {}
    }
}

fn cpu() -> Value {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .filter_map(|l| l.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let count = info.lines().filter(|l| l.starts_with("processor")).count();
    let hypervisor = field("flags").is_some_and(|f| f.split(' ').any(|flag| flag == "hypervisor"));
    json!({
        "model": field("model name"),
        "microcode": field("microcode"),
        "count": count,
        "online": text("/sys/devices/system/cpu/online"),
        "isolated": text("/sys/devices/system/cpu/isolated"),
        "smt": text("/sys/devices/system/cpu/smt/control"),
        "virtual_machine": hypervisor,
        "frequency": (0..count).map(frequency).collect::<Vec<_>>(),
        "turbo": turbo(),
    })
}

fn frequency(cpu: usize) -> Value {
    let read = |name: &str| text(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}"));
    json!({
        "cpu": cpu,
        "governor": read("scaling_governor"),
        "current_khz": read("scaling_cur_freq"),
        "maximum_khz": read("cpuinfo_max_freq"),
    })
}

/// `on`, `off`, or `null` where the machine does not say.
fn turbo() -> Option<&'static str> {
    if let Some(off) = text("/sys/devices/system/cpu/intel_pstate/no_turbo") {
        return Some(if off == "1" { "off" } else { "on" });
    }
    let boost = text("/sys/devices/system/cpu/cpufreq/boost")?;
    Some(if boost == "1" { "on" } else { "off" })
}

/// Every temperature that the hardware monitors show, by `<chip>/<label>`.
fn temperatures() -> BTreeMap<String, f64> {
    let mut result = BTreeMap::new();
    let chips = fs::read_dir("/sys/class/hwmon").into_iter().flatten().flatten();
    for chip in chips.map(|c| c.path()) {
        let chip_name = text(&chip.join("name").to_string_lossy()).unwrap_or_default();
        for (name, value) in directory_texts(&chip) {
            let Some(sensor) = name.strip_suffix("_input").filter(|s| s.starts_with("temp")) else {
                continue;
            };
            let label = text(&chip.join(format!("{sensor}_label")).to_string_lossy());
            if let Ok(milli) = value.parse::<f64>() {
                let label = label.unwrap_or_else(|| sensor.to_owned());
                result.insert(format!("{chip_name}/{label}"), milli / 1000.0);
            }
        }
    }
    result
}

fn sysctls() -> BTreeMap<&'static str, Option<String>> {
    HOST_SYSCTLS
        .into_iter()
        .map(|name| (name, text(&format!("/proc/sys/{}", name.replace('.', "/")))))
        .collect()
}

fn tools() -> BTreeMap<&'static str, Option<String>> {
    TOOLS.into_iter().map(|(name, argv)| (name, first_line(argv, None))).collect()
}

fn git_revision(dir: &Path) -> Option<String> {
    first_line(&["git", "describe", "--always", "--dirty", "--abbrev=12"], Some(dir))
}

/// First line of what a command prints; `None` if it cannot be run or fails.
fn first_line(argv: &[&str], dir: Option<&Path>) -> Option<String> {
    let (program, arguments) = argv.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(dir) = dir {
        command.current_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    }
    let output = command.output().ok().filter(|o| o.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(|l| l.trim().to_owned())
}

fn os_name() -> Option<String> {
    let release = text("/etc/os-release")?;
    let name = release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn memory_bytes() -> Option<u64> {
    let info = text("/proc/meminfo")?;
    let line = info.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Every readable file of a directory: name and trimmed text.
fn directory_texts(dir: &Path) -> BTreeMap<String, String> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let value = text(&entry.path().to_string_lossy())?;
            Some((entry.file_name().to_string_lossy().into_owned(), value))
        })
        .collect()
}

/// A small file's text without the ends; `None` if it cannot be read.
fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_this_machine_names_kernel_and_cpus() {
        let env = read("weir test", Path::new("."), &json!({"kind": "none"}));
        assert_eq!(env["schema"], ENVIRONMENT_SCHEMA);
        assert!(env["host"]["kernel_release"].as_str().is_some_and(|r| !r.is_empty()));
        assert!(env["cpu"]["count"].as_u64().is_some_and(|n| n > 0));
        assert_eq!(env["testbed"]["kind"], "none");
    }

    #[test]
    fn only_lasting_differences_are_reported() {
        let a = json!({"taken_utc": "1", "host": {"kernel": "6.1"}, "cpu": {"frequency": [1]}});
        let b = json!({"taken_utc": "2", "host": {"kernel": "6.2"}, "cpu": {"frequency": [1]}});
        let found = differences(&a, &b);
        assert_eq!(found.len(), 1);
        assert_eq!(found["/host/kernel"], (json!("6.1"), json!("6.2")));
    }
}
