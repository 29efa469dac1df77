//! A command from its start to its end: how long it took, and how much memory it had.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;

use super::Result;

/// How often the command is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a command took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// Seconds from its start to its end.
    pub(super) time_s: f64,
    /// The highest resident size that was seen, MiB.
    pub(super) memory_mib: f64,
}

/// Runs a command to its end; one that does not end with 0 is an error.
pub(super) fn run(weir: &Path, arguments: &[&str], cancel: &Cancel) -> Result<Taken> {
    let began = Instant::now();
    let mut command = Command::new(weir);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let path = format!("/proc/{}/status", child.id());
    let mut memory_kib = 0;
    loop {
        // Of the highest size of a process that has ended, nothing is left.
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        memory_kib = memory_kib.max(peak_resident_kib(&status).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            let time_s = began.elapsed().as_secs_f64();
            if cancel.signal().is_some() || !status.success() {
                return Err(format!("`weir {}` ended with {status}", arguments.join(" ")).into());
            }
            return Ok(Taken { time_s, memory_mib: f64::from(memory_kib) / 1024.0 });
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// `VmHWM` of proc_pid_status(5), KiB. A process that has ended has none.
fn peak_resident_kib(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
