//! Checks of the CPUs: enough of them, apart from each other, at a steady clock.

use std::collections::BTreeSet;

use weir_net::CpuList;

use super::finding::Finding;
use super::host::Host;

/// Generator and DUT do not share a core.
const CPU_COUNT_MIN: usize = 2;
/// Stolen time that shows in figures, as a share of all time since the start.
const STEAL_SHARE_MAX: f64 = 0.01;

const CPU: &str = "/sys/devices/system/cpu";

/// The CPUs that are online.
fn online(host: &Host) -> Option<CpuList> {
    host.read(&format!("{CPU}/online"))?.parse().ok()
}

pub(super) fn count(host: &Host) -> Finding {
    let Some(cpus) = online(host) else {
        return Finding::lacking(format!("{CPU}/online cannot be read"));
    };
    let model = host.field("/proc/cpuinfo", "model name").unwrap_or_else(|| "model unknown".into());
    let seen = format!("{} online ({cpus}), {model}", cpus.count());
    if cpus.count() < CPU_COUNT_MIN { Finding::lacking(seen) } else { Finding::ok(seen) }
}

pub(super) fn smt(host: &Host) -> Finding {
    let Some(cpus) = online(host) else {
        return Finding::info("not visible");
    };
    let cores: BTreeSet<String> = cpus
        .iter()
        .filter_map(|cpu| host.read(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")))
        .collect();
    let shared: Vec<&str> =
        cores.iter().map(String::as_str).filter(|core| core.contains(['-', ','])).collect();
    match (cores.len(), shared.len()) {
        (0, _) => Finding::info("not visible"),
        (_, 0) => Finding::ok("one thread per core"),
        (1, _) => Finding::lacking(format!("all CPUs are threads of one core ({})", shared[0])),
        _ => Finding::info(format!("CPUs of one core: {}", shared.join("; "))),
    }
}

pub(super) fn governor(host: &Host) -> Finding {
    let directory = format!("{CPU}/cpufreq");
    let governors: BTreeSet<String> = host
        .names(&directory)
        .iter()
        .filter_map(|policy| host.read(&format!("{directory}/{policy}/scaling_governor")))
        .collect();
    if governors.is_empty() {
        return Finding::info(not_visible(host));
    }
    let seen = governors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if seen == "performance" { Finding::ok(seen) } else { Finding::lacking(seen) }
}

pub(super) fn turbo(host: &Host) -> Finding {
    let no_turbo = host.read(&format!("{CPU}/intel_pstate/no_turbo"));
    let boost = host.read(&format!("{CPU}/cpufreq/boost"));
    match (no_turbo.as_deref(), boost.as_deref()) {
        (Some("1"), _) | (None, Some("0")) => Finding::ok("off"),
        (Some(_), _) | (None, Some(_)) => Finding::lacking("on"),
        (None, None) => Finding::info(not_visible(host)),
    }
}

/// Why the clock cannot be seen.
fn not_visible(host: &Host) -> &'static str {
    if is_virtual(host) { "not visible (virtual machine)" } else { "not visible" }
}

fn is_virtual(host: &Host) -> bool {
    let flags = host.field("/proc/cpuinfo", "flags").unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
}

pub(super) fn hypervisor(host: &Host) -> Finding {
    if !is_virtual(host) {
        return Finding::ok("no hypervisor");
    }
    let product = host.read("/sys/class/dmi/id/product_name");
    match product.filter(|name| !name.is_empty()) {
        Some(product) => Finding::info(format!("under a hypervisor ({product})")),
        None => Finding::info("under a hypervisor"),
    }
}

pub(super) fn steal(host: &Host) -> Finding {
    let Some(share) = host.read("/proc/stat").and_then(|stat| steal_share(&stat)) else {
        return Finding::info("/proc/stat does not say");
    };
    let seen = format!("{:.2} % since the machine started", share * 100.0);
    if share > STEAL_SHARE_MAX { Finding::lacking(seen) } else { Finding::ok(seen) }
}

/// Stolen time over all time, from the first line of `/proc/stat` (proc_stat(5)).
pub(super) fn steal_share(stat: &str) -> Option<f64> {
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?;
    // user nice system idle iowait irq softirq steal; guest times are within user and nice.
    let ticks: Vec<f64> =
        numbers.split_whitespace().take(8).map_while(|number| number.parse().ok()).collect();
    let total: f64 = ticks.iter().sum();
    let steal = ticks.get(7)?;
    (total > 0.0).then_some(steal / total)
}

pub(super) fn clock(host: &Host) -> Finding {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Some(source) = host.read(SOURCE) else {
        return Finding::info("not visible");
    };
    // These need a trip to the chip set or the hypervisor for every reading.
    if ["hpet", "acpi_pm", "jiffies", "refined-jiffies"].contains(&source.as_str()) {
        Finding::lacking(source)
    } else {
        Finding::ok(source)
    }
}
