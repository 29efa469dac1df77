//! Which threads ran on a machine's CPUs between two moments, and for how long: what belongs to a
//! measurement, and what else ran.
//!
//! Run time is the first field of `/proc/PID/task/TID/schedstat`
//! (`Documentation/scheduler/sched-stats.rst` in the kernel tree), the rest is in `stat`
//! (proc_pid_stat(5)). A thread that ended between the two readings is not seen here: the times
//! of its CPU hold it ([`super::machine`]). Nothing is ever changed, and nothing judged.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_net::procfs::{Stat, parse_stat};

use super::TICK_NS;
use super::files::Files;

/// Softirqs that found no other thread to run in: they belong to whoever's packets they handle.
const SOFTIRQ_THREAD: &str = "ksoftirqd/";
/// How the kernel names its workers (`kernel/workqueue.c`).
pub(super) const WORKER: &str = "kworker/";

/// What the kernel keeps of the name of a program.
const NAME_BYTES_MAX: usize = 15;

/// The run time of every thread at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tasks(BTreeMap<Key, Task>);

/// A thread's number, and when it was started, in ticks since the machine was: numbers come again.
type Key = (i32, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Task {
    process: i32,
    stat: Stat,
    run_ns: u64,
}

/// What belongs to a measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// Processes: all of their threads, and all that they have started.
    pub processes: Vec<i32>,
    /// By their thread numbers: no process is theirs.
    pub kernel_threads: Vec<i32>,
    /// The CPUs that this process's own commands ran on: what those had that have ended meanwhile
    /// belongs to the measurement, too.
    pub ended_on: Vec<usize>,
    /// The CPUs on which packets of the measurement are received in softirqs.
    pub receives_on: Vec<usize>,
    /// By the names of their programs, with all that they have started.
    pub names: Vec<String>,
    /// The kernel's workers are a part: what it has to do later for connections that it tracks, it
    /// does there (`gc_worker()` of `nf_conntrack_core.c`).
    pub has_workers: bool,
    /// The machine does nothing else, so that its kernel is a part.
    pub has_kernel: bool,
}

/// How long a thread ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub process: i32,
    pub name: String,
    /// The CPU that it ran on last.
    pub cpu: usize,
    /// For so long.
    pub run_ns: u64,
    /// Whether it belongs to the measurement.
    pub is_part: bool,
}

impl Tasks {
    /// Reads those of a machine; none where they cannot be read.
    pub(super) fn read(files: &Files) -> Self {
        let mut tasks = BTreeMap::new();
        for process in numbers(files, "proc") {
            for thread in numbers(files, &format!("proc/{process}/task")) {
                let dir = format!("proc/{process}/task/{thread}");
                // One that has just ended is left out.
                let stat = stat_of(files, &dir);
                let run_ns = run_ns_of(files, &dir);
                if let (Some(stat), Some(run_ns)) = (stat, run_ns) {
                    tasks.insert((thread, stat.start_time_ticks), Task { process, stat, run_ns });
                }
            }
        }
        Self(tasks)
    }

    /// Those that ran since an earlier reading, the longest first.
    pub(super) fn since(&self, earlier: &Self, parts: &Parts) -> Vec<Ran> {
        let parents = self.parents();
        let parts = &self.with_named(parts);
        let ran = self.ran_since(earlier).map(|(thread, task, run_ns)| Ran {
            process: task.process,
            name: task.stat.name.clone(),
            cpu: task.stat.cpu,
            run_ns,
            is_part: belongs(thread, task, parts, &parents)
                || task.stat.is_kernel_thread && task.stat.name.starts_with(SOFTIRQ_THREAD),
        });
        let mut ran: Vec<Ran> = ran.collect();
        if parts.has_kernel {
            ran.extend(self.ended_since(earlier, parts, &parents));
        }
        ran.sort_by_key(|ran| std::cmp::Reverse(ran.run_ns));
        ran
    }

    /// What processes that are no parts had by others that they started and that ended since: as if
    /// it was their own, on the CPU that they ran on last.
    fn ended_since(&self, earlier: &Self, parts: &Parts, parents: &BTreeMap<i32, i32>) -> Vec<Ran> {
        let of_children = |task: &Task| task.stat.ended_ticks * TICK_NS;
        // What had run before, and was waited for in the meantime.
        let mut gone_ns: BTreeMap<i32, u64> = BTreeMap::new();
        let is_gone = |task: &&Task| !parents.contains_key(&task.process);
        for (key, task) in earlier.0.iter().filter(|(_, task)| is_gone(task)) {
            let children_ns = if key.0 == task.process { of_children(task) } else { 0 };
            *gone_ns.entry(task.stat.parent).or_default() += task.run_ns + children_ns;
        }
        let processes = self.0.iter().filter(|(key, task)| key.0 == task.process);
        let ended = processes.filter_map(|(key, task)| {
            let before_ns = earlier.0.get(key).map_or(0, of_children);
            let gone_ns = gone_ns.get(&task.process).copied().unwrap_or_default();
            let run_ns = of_children(task).saturating_sub(before_ns + gone_ns);
            let is_foreign = run_ns > 0 && !belongs(key.0, task, parts, parents);
            is_foreign.then(|| Ran {
                process: task.process,
                name: format!("what {} started", task.stat.name),
                cpu: task.stat.cpu,
                run_ns,
                is_part: false,
            })
        });
        ended.collect()
    }

    /// The process that started the group of processes in which `asker` is.
    pub(super) fn starter(&self, asker: &Stat) -> Option<i32> {
        let mut tasks = self.0.values();
        Some(tasks.find(|task| task.process == asker.group)?.stat.parent)
    }

    /// How long these parts ran since an earlier reading, all together.
    pub(super) fn run_ns_since(&self, earlier: &Self, parts: &Parts) -> u64 {
        let parents = self.parents();
        let ran = self.ran_since(earlier);
        ran.filter(|(thread, task, _)| belongs(*thread, task, parts, &parents))
            .map(|(_, _, run_ns)| run_ns)
            .sum()
    }

    /// These parts, with the processes that have one of their names.
    fn with_named(&self, parts: &Parts) -> Parts {
        let is_named = |task: &&Task| {
            let cut = |name: &String| name.bytes().take(NAME_BYTES_MAX).eq(task.stat.name.bytes());
            parts.names.iter().any(cut)
        };
        let named = self.0.values().filter(is_named).map(|task| task.process);
        let processes = parts.processes.iter().copied().chain(named).collect();
        Parts { processes, ..parts.clone() }
    }

    /// The parent of each process.
    fn parents(&self) -> BTreeMap<i32, i32> {
        self.0.values().map(|task| (task.process, task.stat.parent)).collect()
    }

    /// Threads that ran since an earlier reading, by number, and for how long.
    fn ran_since<'a>(
        &'a self,
        earlier: &'a Self,
    ) -> impl Iterator<Item = (i32, &'a Task, u64)> + 'a {
        self.0.iter().filter_map(|(key, task)| {
            let before = earlier.0.get(key).map_or(0, |task| task.run_ns);
            let run_ns = task.run_ns.saturating_sub(before);
            (run_ns > 0).then_some((key.0, task, run_ns))
        })
    }
}

/// How long these parts have run until now, read from their threads alone: processes that they
/// start are parts of their own. One that has ended is left out.
#[must_use]
pub fn run_ns(parts: &Parts) -> u64 {
    let files = Files::from(std::path::Path::new(super::MACHINE));
    let of_process = |process: &i32| {
        let dir = format!("proc/{process}/task");
        numbers(&files, &dir).into_iter().map(move |thread| format!("{dir}/{thread}"))
    };
    let threads = parts.kernel_threads.iter().map(|thread| format!("proc/{thread}"));
    let threads = threads.chain(parts.processes.iter().flat_map(of_process));
    threads.filter_map(|dir| run_ns_of(&files, &dir)).sum()
}

/// How long all processes whose name begins like this have run until now.
pub(super) fn run_time_by_name(files: &Files, prefix: &str) -> Duration {
    let of_process = |process: i32| {
        let dir = format!("proc/{process}");
        let is_meant = files.text(&format!("{dir}/comm"))?.starts_with(prefix);
        if is_meant { run_ns_of(files, &dir) } else { None }
    };
    Duration::from_nanos(numbers(files, "proc").into_iter().filter_map(of_process).sum())
}

/// The run time of the thread whose directory this is.
fn run_ns_of(files: &Files, dir: &str) -> Option<u64> {
    files.text(&format!("{dir}/schedstat"))?.split(' ').next()?.parse().ok()
}

/// The thread or process whose directory this is.
pub(super) fn stat_of(files: &Files, dir: &str) -> Option<Stat> {
    parse_stat(&files.text(&format!("{dir}/stat"))?)
}

/// Whether a thread is one of these parts.
fn belongs(thread: i32, task: &Task, parts: &Parts, parents: &BTreeMap<i32, i32>) -> bool {
    if task.stat.is_kernel_thread {
        let is_worker = task.stat.name.starts_with(WORKER);
        let is_named = parts.kernel_threads.contains(&thread);
        return parts.has_kernel || parts.has_workers && is_worker || is_named;
    }
    let mut process = Some(task.process);
    // A machine's processes are a tree; the bound is for one that changed while it was read.
    for _ in 0..=parents.len() {
        match process {
            Some(number) if parts.processes.contains(&number) => return true,
            Some(number) => process = parents.get(&number).copied().filter(|parent| *parent != 0),
            None => return false,
        }
    }
    false
}

/// The numbers among the names in a directory.
fn numbers(files: &Files, dir: &str) -> Vec<i32> {
    files.names(dir).iter().filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PF_KTHREAD` (`include/linux/sched.h`).
    const KERNEL: u64 = 0x0020_0000;

    /// Process, thread, name, parent, flags, start, CPU, run time.
    type Thread<'a> = (i32, i32, &'a str, i32, u64, u64, usize, u64);

    /// A machine with these threads.
    fn tasks(list: &[Thread<'_>]) -> Tasks {
        let mut copies = BTreeMap::new();
        for &(process, thread, name, parent, flags, start, cpu, run_ns) in list {
            let dir = format!("proc/{process}/task/{thread}");
            let middle = "0 ".repeat(12);
            let stat = format!(
                "{thread} ({name}) R {parent} 1 1 0 -1 {flags} {middle}{start}{} {cpu} 0 0",
                " 0".repeat(16)
            );
            copies.insert(format!("{dir}/stat"), stat);
            copies.insert(format!("{dir}/schedstat"), format!("{run_ns} 7 3"));
        }
        Tasks::read(&Files::Copies(copies))
    }

    #[test]
    fn run_time_is_added_up_by_name() {
        let process = |number: i32, name: &str, run_ns: u64| {
            let dir = format!("proc/{number}");
            let schedstat = format!("{run_ns} 7 3");
            [(format!("{dir}/comm"), name.to_owned()), (format!("{dir}/schedstat"), schedstat)]
        };
        let all = [
            process(7, "kworker/u8:3+netns", 5_000),
            process(8, "kworker/1:0-events", 70),
            process(9, "weir", 900),
        ];
        let files = Files::Copies(all.into_iter().flatten().collect());
        assert_eq!(run_time_by_name(&files, WORKER), Duration::from_nanos(5_070));
    }

    #[test]
    fn run_time_is_told_apart_by_who_it_belongs_to() {
        let before = tasks(&[
            (10, 10, "weir", 1, 0, 100, 0, 5_000),
            (2, 2, "kthreadd", 0, KERNEL, 1, 0, 50),
            (30, 30, "hog", 1, 0, 90, 1, 1_000),
        ]);
        let after = tasks(&[
            (10, 10, "weir", 1, 0, 100, 0, 6_000),
            (10, 11, "a (b) c", 1, 0, 101, 1, 300),
            (20, 20, "child", 10, 0, 102, 1, 200),
            (21, 21, "grandchild", 20, 0, 103, 1, 100),
            (2, 2, "kthreadd", 0, KERNEL, 1, 0, 50),
            (40, 40, "napi/v0-1", 2, KERNEL, 110, 1, 9_000),
            (41, 41, "napi/v9-1", 2, KERNEL, 111, 1, 8_000),
            (42, 42, "ksoftirqd/1", 2, KERNEL, 5, 1, 70),
            (43, 43, "kworker/1:0-events", 2, KERNEL, 6, 1, 60),
            // The same number, but another process than before.
            (30, 30, "hog", 1, 0, 120, 0, 2_000),
        ]);
        let parts = Parts { processes: vec![10], kernel_threads: vec![40], ..Parts::default() };
        let ran = after.since(&before, &parts);
        let seen: Vec<(&str, u64, usize, bool)> =
            ran.iter().map(|ran| (&*ran.name, ran.run_ns, ran.cpu, ran.is_part)).collect();
        assert_eq!(
            seen,
            [
                ("napi/v0-1", 9_000, 1, true),
                ("napi/v9-1", 8_000, 1, false),
                ("hog", 2_000, 0, false),
                ("weir", 1_000, 0, true),
                ("a (b) c", 300, 1, true),
                ("child", 200, 1, true),
                ("grandchild", 100, 1, true),
                ("ksoftirqd/1", 70, 1, true),
                ("kworker/1:0-events", 60, 1, false),
            ]
        );
        let tracking = Parts { has_workers: true, ..parts.clone() };
        let ran = after.since(&before, &tracking);
        let others = ran.iter().filter(|ran| !ran.is_part).map(|ran| &*ran.name);
        assert_eq!(others.collect::<Vec<_>>(), ["napi/v9-1", "hog"]);
        assert_eq!(after.run_ns_since(&before, &parts), 9_000 + 1_000 + 300 + 200 + 100);
    }

    #[test]
    fn this_machines_threads_are_read() {
        let tasks = Tasks::read(&std::path::Path::new("/").into());
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(tasks.0.iter().any(|(_, task)| task.process == this && task.run_ns > 0));
        let parts = Parts { processes: vec![this], ..Parts::default() };
        assert!(run_ns(&parts) > 0);
    }
}
