//! The processes inside a network namespace: finding and ending them; and the kernel's threads that
//! take packets from the queues of CPUs, which are in none.
//!
//! It never signals this process, nor any outside of the namespace.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{ProcessError, TICK_MS};
use crate::procfs;

/// How long a killed process may take to go.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// The processes whose main thread is in the network namespace with that inode number
/// ([`crate::Netns::inode`]), without this process.
///
/// # Errors
///
/// If `/proc` cannot be read.
pub fn processes_in_netns(inode: u64) -> Result<Vec<i32>, ProcessError> {
    let our_pid = std::process::id();
    let pids = procfs::pids().map_err(|source| ProcessError::List { source })?;
    Ok(pids
        .into_iter()
        .filter(|pid| {
            u32::try_from(*pid) != Ok(our_pid) && procfs::netns_inode(*pid) == Some(inode)
        })
        .collect())
}

/// The kernel's threads that take packets which a program has handed to a CPU
/// (`BPF_MAP_TYPE_CPUMAP`), and that CPU: all of this host's, because they belong to no namespace.
///
/// # Errors
///
/// If `/proc` cannot be read.
pub fn cpumap_threads() -> Result<Vec<(i32, usize)>, ProcessError> {
    let pids = procfs::pids().map_err(|source| ProcessError::List { source })?;
    let one = |pid: i32| {
        let stat = procfs::stat(pid)?;
        let is_one = stat.is_kernel_thread && stat.name.starts_with("cpumap/");
        is_one.then_some((pid, stat.cpu))
    };
    Ok(pids.into_iter().filter_map(one).collect())
}

/// Ends all processes in a namespace, SIGTERM first, then SIGKILL for those left after `grace`.
/// Returns how many there were.
///
/// # Errors
///
/// If the namespace is this process's or that of process 1, or processes do not go even when
/// killed.
pub fn end_processes_in(inode: u64, grace: Duration) -> Result<usize, ProcessError> {
    if [procfs::netns_inode(1), current_netns_inode()].contains(&Some(inode)) {
        return Err(ProcessError::Protected { inode });
    }
    let mut seen = BTreeSet::new();
    for (signal, wait) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, KILL_WAIT)] {
        let deadline = Instant::now() + wait;
        let mut signalled = BTreeSet::new();
        loop {
            let inside = identify(&processes_in_netns(inode)?);
            for process in inside.difference(&signalled) {
                // Looked at once more, in case it ended and its number was given away.
                if procfs::netns_inode(process.pid) == Some(inode) {
                    let _ = kill(Pid::from_raw(process.pid), signal);
                }
            }
            seen.extend(&inside);
            signalled.extend(inside);
            if !seen.iter().any(Identity::is_alive) {
                return Ok(seen.len());
            }
            if Instant::now() >= deadline {
                break;
            }
            thread::sleep(Duration::from_millis(TICK_MS.into()));
        }
    }
    let pids = seen.iter().filter(|process| process.is_alive()).map(|process| process.pid);
    Err(ProcessError::Remaining { inode, pids: pids.collect() })
}

/// One process. A process that is ending leaves its namespace a moment before it has ended, so
/// that it has to be watched by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    pid: i32,
    start_time_ticks: u64,
}

impl Identity {
    fn is_alive(&self) -> bool {
        procfs::stat(self.pid)
            .is_some_and(|stat| stat.start_time_ticks == self.start_time_ticks && !stat.has_ended())
    }
}

fn identify(pids: &[i32]) -> BTreeSet<Identity> {
    pids.iter()
        .filter_map(|&pid| {
            let start_time_ticks = procfs::stat(pid)?.start_time_ticks;
            Some(Identity { pid, start_time_ticks })
        })
        .collect()
}

pub(super) fn current_netns_inode() -> Option<u64> {
    procfs::netns_inode(i32::try_from(std::process::id()).ok()?)
}
