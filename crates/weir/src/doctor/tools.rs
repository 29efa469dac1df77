//! Checks of privileges, tools and memory.

use super::finding::Finding;
use super::host::Host;
use super::kernel::tried;

/// Room for the connection table of the largest campaign that comes with weir, with reserve.
const MEMORY_AVAILABLE_MIN_KIB: u64 = 1024 * 1024;

pub(super) fn capabilities(host: &Host) -> Finding {
    let user = host
        .field("/proc/self/status", "Uid")
        .and_then(|ids| ids.split_whitespace().nth(1).map(str::to_owned));
    let user = match user.as_deref() {
        Some("0") => "root".to_owned(),
        Some(uid) => format!("user {uid}"),
        None => "user unknown".to_owned(),
    };
    match host.missing_capabilities().as_slice() {
        [] if user == "root" => Finding::ok(user),
        // Files in /run and /sys belong to root, whatever the capabilities.
        [] => Finding::lacking(format!("{user}, not root")),
        missing => Finding::lacking(format!("{user}, without {}", missing.join(", "))),
    }
}

pub(super) fn namespaces(host: &Host) -> Finding {
    tried(host, "one was made and removed", |probes| probes.namespaces())
}

pub(super) fn nft(host: &Host) -> Finding {
    match host.probes.nft_version() {
        Ok(version) => Finding::ok(version),
        Err(reason) => Finding::lacking(reason),
    }
}

pub(super) fn memory(host: &Host) -> Finding {
    let available = host.field("/proc/meminfo", "MemAvailable");
    let Some(size_kib) = available.as_deref().and_then(first_number) else {
        return Finding::info("not visible");
    };
    let seen = format!("{} MiB available", size_kib / 1024);
    if size_kib < MEMORY_AVAILABLE_MIN_KIB { Finding::lacking(seen) } else { Finding::ok(seen) }
}

pub(super) fn huge_pages(host: &Host) -> Finding {
    let count = host.field("/proc/meminfo", "HugePages_Total");
    let size = host.field("/proc/meminfo", "Hugepagesize");
    match (count, size) {
        (Some(count), Some(size)) if count != "0" => {
            Finding::info(format!("{count} of {size} are set aside"))
        }
        _ => Finding::ok("none set aside; none needed"),
    }
}

fn first_number(value: &str) -> Option<u64> {
    value.split_whitespace().next()?.parse().ok()
}
