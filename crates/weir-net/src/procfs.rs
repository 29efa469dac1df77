//! What `/proc/PID` says of other processes (proc_pid_stat(5)).
//!
//! It never changes anything.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The flag of kernel threads (`include/linux/sched.h`).
const PF_KTHREAD: u32 = 0x0020_0000;

/// The part of `/proc/PID/stat` that is needed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// `R`, `S`, `D`, `Z`, ...
    pub(crate) state: char,
    /// The process group.
    pub(crate) group: i32,
    /// Whether it is a kernel thread (`PF_KTHREAD`).
    pub(crate) is_kernel_thread: bool,
    /// When it was started, in clock ticks since boot: with the pid, this names one process.
    pub(crate) start_time_ticks: u64,
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

/// The name, field 2, may contain spaces and parentheses: the fields are counted from the last
/// closing one.
fn parse_stat(text: &str) -> Option<Stat> {
    let after_name = &text[text.rfind(')')? + 1..];
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        group: fields.get(2)?.parse().ok()?,
        is_kernel_thread: fields.get(6)?.parse::<u32>().ok()? & PF_KTHREAD != 0,
        start_time_ticks: fields.get(19)?.parse().ok()?,
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
        let text = "77 (a) b (c)) S 1 70 70 0 -1 4194304 100 0 0 0 1 2 3 4 20 0 1 0 143616 3 4";
        let expected =
            Stat { state: 'S', group: 70, is_kernel_thread: false, start_time_ticks: 143_616 };
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
