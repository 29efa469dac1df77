//! Real-time priorities of threads, by chrt(1), so that what else runs on a CPU gets only what they
//! leave.

use std::time::Duration;

use weir_net::process::{self, Invocation, ProcessError};

/// How long `chrt` may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Gives a thread a real-time priority, from 1 to 99; what it starts has none.
pub(crate) fn raise(thread: i32, priority: u8) -> Result<(), ProcessError> {
    chrt(&["--reset-on-fork", "--fifo", "--pid", &priority.to_string(), &thread.to_string()])
}

/// Runs `chrt` with these arguments.
pub(crate) fn chrt(arguments: &[&str]) -> Result<(), ProcessError> {
    let invocation = Invocation::program(["chrt"].iter().chain(arguments).copied());
    process::run(&invocation, PATIENCE)?.check().map(drop)
}
