//! The time that others took: how long threads that had work waited for a CPU.
//!
//! A sender never sleeps, so that the time which it waits for its CPU is what other programs took
//! from it. Without that time, figures of a machine that is not quite idle can be compared. The
//! source is the second number of `/proc/PID/task/TID/schedstat` (Documentation/scheduler/
//! sched-stats.rst); a kernel without it reports zero, and figures are then per wall clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of the threads of this process that send: the generator's, and those of this benchmark.
const SENDER_NAMES: [&str; 2] = ["weir-gen/", super::senders::THREAD_NAME];

/// Threads that share some work evenly.
#[derive(Debug, Clone, Default)]
pub(crate) struct Threads(Vec<PathBuf>);

impl Threads {
    /// The threads of this process that are sending.
    pub(crate) fn senders() -> Self {
        let is_sender = |task: &Path| {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            SENDER_NAMES.iter().any(|sender| name.starts_with(sender))
        };
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        Self(tasks.map(|task| task.path()).filter(|task| is_sender(task)).collect())
    }

    /// One thread.
    pub(crate) fn one(pid: i32) -> Self {
        Self(vec![PathBuf::from(format!("/proc/{pid}"))])
    }

    /// The first child of a process.
    pub(crate) fn child_of(pid: i32) -> Self {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let first = children.split_whitespace().next().and_then(|child| child.parse().ok());
        first.map_or_else(Self::default, Self::one)
    }

    /// How long each of them has waited for a CPU so far, on average.
    pub(crate) fn waited(&self) -> Duration {
        let waited_ns = |task: &PathBuf| -> Option<u64> {
            let text = fs::read_to_string(task.join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse().ok()
        };
        let sum_ns: u64 = self.0.iter().filter_map(waited_ns).sum();
        Duration::from_nanos(sum_ns / (self.0.len().max(1) as u64))
    }
}
