//! The calling thread's turn on its CPU.

use std::io;

use crate::sys;

/// As the kernel's own threads of interrupts have (sched(7)).
const PRIORITY: i32 = 50;

/// Its weight is some 30 times that of others (setpriority(2)).
const NICE: i32 = -15;

/// Has the calling thread run before others that want to, but not all the time: for one that takes
/// what another thread of its CPU brings, such as that which receives. The less that one gets, the
/// less is received that nobody has time for.
///
/// # Errors
/// What the kernel returned; then nothing has changed.
pub fn go_before_others() -> io::Result<()> {
    sys::set_nice(NICE)
}

/// Has the calling thread run before all that has no such priority, as soon as it wants to: for one
/// that hardly ever does, and then must not wait for packets. What it starts is not concerned.
///
/// # Errors
/// What the kernel returned; then nothing has changed.
pub fn go_first() -> io::Result<()> {
    sys::set_real_time_priority(PRIORITY)
}
