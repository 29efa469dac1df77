//! For how long a thread has run (Documentation/scheduler/sched-stats.rst).

use std::fs;

/// Since it began, ns.
pub(crate) fn run_time_ns(thread: i32) -> Result<u64, String> {
    let path = format!("/proc/{thread}/schedstat");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let time_ns = text.split(' ').next().and_then(|word| word.parse().ok());
    time_ns.ok_or_else(|| format!("{path} does not begin with a time"))
}
