//! Checks of the kernel: its version, what it can do (tried), and what it is set to.

use super::finding::Finding;
use super::host::Host;
use super::probes::Probes;

/// The first release with live frames (kernel commit b530e9e1063e).
const LIVE_FRAMES_SINCE: (u32, u32) = (5, 18);
/// The largest flow count of `labs/quick`.
const QUICK_FLOW_COUNT_MAX: u64 = 100_000;

pub(super) fn version(host: &Host) -> Finding {
    let Some(release) = host.read("/proc/sys/kernel/osrelease") else {
        return Finding::lacking("/proc/sys/kernel/osrelease cannot be read");
    };
    match release_number(&release) {
        Some(number) if number >= LIVE_FRAMES_SINCE => Finding::ok(format!("Linux {release}")),
        _ => Finding::lacking(format!("Linux {release}")),
    }
}

/// `6.1.0-37-amd64` is (6, 1).
pub(super) fn release_number(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub(super) fn live_frames(host: &Host) -> Finding {
    tried(host, "works", |probes| probes.live_frames())
}

pub(super) fn xdp_native(host: &Host) -> Finding {
    tried(host, "works", |probes| probes.xdp_native())
}

pub(super) fn threaded_napi(host: &Host) -> Finding {
    tried(host, "works", |probes| probes.threaded_napi())
}

pub(super) fn arena(host: &Host) -> Finding {
    tried(host, "works", |probes| probes.arena())
}

/// Tries a feature, if the privileges are there that each of them takes.
pub(super) fn tried(
    host: &Host,
    seen: &str,
    probe: impl Fn(&dyn Probes) -> Result<(), String>,
) -> Finding {
    if !host.missing_capabilities().is_empty() {
        return Finding::info("not tried: privileges are missing");
    }
    match probe(host.probes.as_ref()) {
        Ok(()) => Finding::ok(seen),
        Err(reason) => Finding::lacking(reason),
    }
}

pub(super) fn btf(host: &Host) -> Finding {
    if host.exists("/sys/kernel/btf/vmlinux") {
        Finding::ok("/sys/kernel/btf/vmlinux")
    } else {
        Finding::lacking("/sys/kernel/btf/vmlinux is not there")
    }
}

pub(super) fn bpf_jit(host: &Host) -> Finding {
    match host.read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Some("0") => Finding::lacking("net.core.bpf_jit_enable = 0: programs are interpreted"),
        Some(value) => Finding::ok(format!("net.core.bpf_jit_enable = {value}")),
        None => Finding::info("net.core.bpf_jit_enable cannot be read"),
    }
}

pub(super) fn conntrack(host: &Host) -> Finding {
    let Some(value) = host.read("/proc/sys/net/netfilter/nf_conntrack_max") else {
        return Finding::info("not loaded yet: the first stateful rule set loads it");
    };
    let seen = format!("net.netfilter.nf_conntrack_max = {value}");
    match value.parse::<u64>() {
        // 0 means: no limit.
        Ok(limit) if limit == 0 || limit > QUICK_FLOW_COUNT_MAX => Finding::ok(seen),
        _ => Finding::lacking(seen),
    }
}

pub(super) fn mitigations(host: &Host) -> Finding {
    const DIRECTORY: &str = "/sys/devices/system/cpu/vulnerabilities";
    let mut active = Vec::new();
    let mut vulnerable = Vec::new();
    let names = host.names(DIRECTORY);
    for name in &names {
        let state = host.read(&format!("{DIRECTORY}/{name}")).unwrap_or_default();
        if state.starts_with("Mitigation") {
            active.push(name.as_str());
        } else if state.starts_with("Vulnerable") {
            vulnerable.push(name.as_str());
        }
    }
    if names.is_empty() {
        return Finding::info("not visible");
    }
    let mut seen = match active.as_slice() {
        [] => "none active".to_owned(),
        active => format!("active: {}", active.join(", ")),
    };
    if !vulnerable.is_empty() {
        seen.push_str("; vulnerable without: ");
        seen.push_str(&vulnerable.join(", "));
    }
    if active.is_empty() { Finding::ok(seen) } else { Finding::info(seen) }
}
