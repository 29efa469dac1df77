//! What `/proc/PID` says of other processes (proc_pid_stat(5)).
//!
//! It never changes anything.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The flag of kernel threads (`include/linux/sched.h`).
const PF_KTHREAD: u32 = 0x0020_0000;

/// What is needed of `/proc/PID/stat`, and of `/proc/PID/task/TID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The name, of at most 15 bytes.
    pub name: String,
    /// `R`, `S`, `D`, `Z`, ...
    pub(crate) state: char,
    /// The process that started it.
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// Whether it is a kernel thread (`PF_KTHREAD`).
    pub is_kernel_thread: bool,
    /// CPU time of the processes that it has started and that have ended, and of theirs, in clock
    /// ticks; counted when they are waited for.
    pub ended_ticks: u64,
    /// When it was started, in clock ticks since boot: with the pid, this names one process.
    pub start_time_ticks: u64,
    /// The CPU that it ran on last.
    pub cpu: usize,
}

impl Stat {
    /// Whether the process has ended, though its parent may not have noticed.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// `None` if there is no such process.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads a line of it; `None` if it is not one. The name, field 2, may contain spaces and
/// parentheses: the fields are counted from the last closing one.
#[must_use]
pub fn parse_stat(text: &str) -> Option<Stat> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        name: text.get(open + 1..close)?.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        is_kernel_thread: fields.get(6)?.parse::<u32>().ok()? & PF_KTHREAD != 0,
        ended_ticks: ticks(13)? + ticks(14)?,
        start_time_ticks: ticks(19)?,
        cpu: fields.get(36)?.parse().ok()?,
    })
}

/// The inode number of a process's network namespace; `None` if it is gone, a zombie, or another
/// user's.
pub(crate) fn netns_inode(pid: i32) -> Option<u64> {
    Some(fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino())
}

/// All process ids.
pub(crate) fn pids() -> std::io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let text = "77 (a) b (c)) S 1 70 70 0 -1 4194304 100 0 0 0 1 2 3 4 20 0 1 0 143616 3 4 \
                    5 6 7 8 9 10 11 12 13 14 15 16 17 18 5 0 0";
        let expected = Stat {
            name: "a) b (c)".to_owned(),
            state: 'S',
            parent: 1,
            group: 70,
            is_kernel_thread: false,
            ended_ticks: 7,
            start_time_ticks: 143_616,
            cpu: 5,
        };
        assert_eq!(parse_stat(text), Some(expected));
        let kernel = text.replace("4194304", "2129984");
        assert!(parse_stat(&kernel).unwrap().is_kernel_thread);
        assert_eq!(parse_stat("77 (a) S 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_is_alive_and_older_than_nothing() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let this_process = stat(pid).unwrap();
        assert!(!this_process.has_ended());
        assert!(this_process.start_time_ticks > 0);
        assert!(pids().unwrap().contains(&pid));
        assert_eq!(netns_inode(pid), crate::netns::current_inode().ok());
    }
}
