//! Who goes first on a CPU: real-time priorities for the threads that take part (sched(7)).
//!
//! With them, what else runs on the machine gets what they leave, and the share that the kernel
//! keeps for it: a twentieth at most. What that takes from the device under test is measured.

use std::fs;
use std::time::Duration;

use weir_net::process::{self, Invocation};

use super::Result;

/// The higher, the earlier. The sink empties its ring whenever something arrives, and the generator
/// makes packets in the rest of the time; who measures is never late.
const GENERATOR: u8 = 2;
pub(crate) const DEVICE: u8 = 2;
pub(crate) const SINK: u8 = 3;
const MEASURER: u8 = 4;

/// How long `chrt` may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Gives a thread a real-time priority; what it starts has none.
pub(crate) fn raise(thread: i32, priority: u8) -> Result<()> {
    chrt(&["--reset-on-fork", "--fifo", "--pid", &priority.to_string(), &thread.to_string()])
}

/// The calling thread's priority while this lives.
#[derive(Debug)]
pub(crate) struct Measuring(i32);

impl Measuring {
    /// Starts the generator, whose threads have their priority from the beginning, because they get
    /// it from the thread that makes them; then raises that one above all.
    pub(crate) fn begin(start: impl FnOnce() -> Result<()>) -> Result<Self> {
        let link = fs::read_link("/proc/thread-self")?;
        let thread = link.file_name().and_then(|name| name.to_str()?.parse().ok());
        let measuring = Self(thread.ok_or("/proc does not tell this thread's number")?);
        let number = measuring.0.to_string();
        chrt(&["--fifo", "--pid", &GENERATOR.to_string(), &number])?;
        start()?;
        raise(measuring.0, MEASURER)?;
        Ok(measuring)
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        // With it, the thread would only be in nobody's way a little less.
        let _ = chrt(&["--other", "--pid", "0", &self.0.to_string()]);
    }
}

fn chrt(arguments: &[&str]) -> Result<()> {
    let invocation = Invocation::program(["chrt"].iter().chain(arguments).copied());
    process::run(&invocation, PATIENCE)?.check()?;
    Ok(())
}
