//! Who goes first on a CPU: real-time priorities for the threads that take part (sched(7)).
//!
//! With them, what else runs on the machine gets what they leave, and the share that the kernel
//! keeps for it: a twentieth at most. What that takes from the device under test is measured.

use std::fs;

use super::Result;
use crate::chrt::{chrt, raise};

/// The higher, the earlier. The sink empties its ring whenever something arrives, and the generator
/// makes packets in the rest of the time; who measures is never late.
const GENERATOR: u8 = 2;
pub(crate) const DEVICE: u8 = 2;
pub(crate) const SINK: u8 = 3;
const MEASURER: u8 = 4;

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
