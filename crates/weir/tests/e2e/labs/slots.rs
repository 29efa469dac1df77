//! How many tests of labs run side by side. Those of machines behind SSH mostly wait, for boots and
//! for the length of a run, so several run at once whatever the number of CPUs. Those that emulate
//! a CPU keep one busy, so one of each kind runs at a time. Whoever has a slot has a turn beside
//! others.
//!
//! libtest starts as many tests as `RUST_TEST_THREADS` says, and `cargo xtask test` lets it start
//! all of them. With fewer threads they pass as well, later.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::turns::{Turn, beside};

/// Three machines behind SSH, with what runs on them: about a tenth of a CPU. More at once make
/// traffic unsteady, which is then its verdict.
pub(super) static MACHINES: Slots = Slots::new(3);
/// A virtual machine of a campaign, on the CPU that the campaign gives it.
pub(super) static EMULATOR: Slots = Slots::new(1);
/// A virtual machine that boots from the network, on any CPU.
pub(super) static NETWORK_BOOT: Slots = Slots::new(1);

/// A number of tests that may run at once.
#[derive(Debug)]
pub(super) struct Slots {
    free_count: Mutex<usize>,
    freed: Condvar,
}

/// The right to run, until it is dropped. Nobody may wait for a second one while they have it:
/// somebody who waits to be alone may stand between the two.
#[must_use = "a slot is free again when it is dropped"]
pub(super) struct Slot {
    slots: &'static Slots,
    _turn: Turn,
}

impl Slots {
    const fn new(count: usize) -> Self {
        Self { free_count: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for one.
    pub(super) fn take(&'static self) -> Slot {
        let free_count = self.free_count.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.freed.wait_while(free_count, |free_count| *free_count == 0);
        *wait.unwrap_or_else(PoisonError::into_inner) -= 1;
        Slot { slots: self, _turn: beside() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.slots.free_count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.slots.freed.notify_one();
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("slots", self.slots).finish_non_exhaustive()
    }
}
