//! The calling thread's turn on its CPU.

use std::io;

use crate::sys;

/// As the kernel's own threads of interrupts have (sched(7)).
const PRIORITY: i32 = 50;

/// Has the calling thread run before all that has no such priority, as soon as it wants to: for one
/// that hardly ever does, and then must not wait for packets. What it starts is not concerned.
///
/// # Errors
/// What the kernel returned; then nothing has changed.
pub fn go_first() -> io::Result<()> {
    sys::set_real_time_priority(PRIORITY)
}
