//! One stage or two (`bpf/include/weir/fw/second.h`): the exits that frames leave by, and the steps
//! from the one to the other.
//!
//! Between two steps every poll of a device ends: the kernel is waited for, which takes some
//! milliseconds. So no device ever has frames that are still to be judged behind one that came
//! without the program that judges them.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::Ordering;

use libbpf_rs::{MapCore as _, MapFlags};

use super::layout::{INTERFACE_COUNT_MAX, STAGES_MAP, STAGES_ONE, STAGES_TWO, control};
use super::{Firewall, SECOND};
use crate::sys;

/// In how many stages packets are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stages {
    /// At once.
    One,
    /// Those of flows in a second stage, for which the memory of many is read side by side.
    Two,
}

/// An exit's interface and program, as the kernel has them.
const EXIT_BYTES: usize = 8;

impl Firewall {
    /// In how many stages packets are judged now. What is between the two counts as two: frames go
    /// by the exits.
    #[must_use]
    pub fn stages(&self) -> Stages {
        match self.arena().read32(control::STAGES) {
            STAGES_ONE => Stages::One,
            _ => Stages::Two,
        }
    }

    /// Whether packets are left to the second stage now. Between the two they are judged at once,
    /// though frames go by the exits.
    #[must_use]
    pub fn has_second_stage(&self) -> bool {
        self.arena().read32(control::STAGES) == STAGES_TWO
    }

    /// Has packets judged in one stage from now on, at once and without waiting. Frames still go by
    /// the exits; [`Self::set_stages`] does the rest.
    pub fn leave_second_stage(&self) {
        let word = self.arena().word32(control::STAGES);
        // If it is not so, nothing is to be done.
        let _ = word.compare_exchange(STAGES_TWO, STAGES_MAP, Ordering::SeqCst, Ordering::Acquire);
    }

    /// Goes to one stage or two, step by step. One caller at a time. Two only last if `are_right`
    /// says so behind the last step; what makes them wrong calls [`Self::leave_second_stage`].
    ///
    /// # Errors
    /// What the kernel returned: it cannot be waited for. Then nothing has changed, or frames go by
    /// the exits and are judged at once, which is right though slower.
    pub fn set_stages(&self, stages: Stages, are_right: impl Fn() -> bool) -> io::Result<()> {
        let word = self.arena().word32(control::STAGES);
        let target = match stages {
            Stages::One => STAGES_ONE,
            Stages::Two => STAGES_TWO,
        };
        if word.load(Ordering::Acquire) == target {
            return Ok(());
        }
        // Polls that began before the last step, by whoever made it.
        sys::wait_for_polls()?;
        word.store(STAGES_MAP, Ordering::Release);
        sys::wait_for_polls()?;
        word.store(target, Ordering::SeqCst);
        if stages == Stages::Two && !are_right() {
            self.leave_second_stage();
        }
        sys::wait_for_polls()
    }

    /// Waits until every program that handles packets now, and every poll of a device that it runs
    /// in, has ended.
    ///
    /// # Errors
    /// What the kernel returned: `EINVAL` where CPUs run without ticks (`nohz_full`).
    pub fn wait_for_polls(&self) -> io::Result<()> {
        sys::wait_for_polls()
    }

    /// Has no frames leave for a slot from now on; those on their way are dropped.
    ///
    /// # Errors
    /// What the kernel returned: nothing leaves there.
    pub fn close_exit(&self, slot: u32) -> io::Result<()> {
        self.exits.delete(&slot.to_ne_bytes()).map_err(io::Error::other)
    }

    /// Whether the second stage's program is loaded, without which there are no exits.
    #[must_use]
    pub fn has_second_program(&self) -> bool {
        self.second.get().is_some()
    }

    /// Loads the second stage's program, if it is not, for which the kernel takes some tenths of a
    /// second.
    ///
    /// # Errors
    /// What the kernel returned: no memory, or it refuses the program.
    pub fn load_second_program(&self) -> io::Result<()> {
        if self.has_second_program() {
            return Ok(());
        }
        let loaded = self.load_late(SECOND).map_err(|error| io::Error::other(error.to_string()))?;
        // Whoever else has loaded it meanwhile was as right.
        drop(self.second.set(loaded));
        Ok(())
    }

    /// Sets the interface by which frames leave for a slot.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface in the calling thread's network
    /// namespace, or no memory; or the second stage's program is not loaded.
    pub fn open_exit(&self, slot: u32, ifindex: u32) -> io::Result<()> {
        let mut value = [0; EXIT_BYTES];
        let second = self.second.get().ok_or(io::ErrorKind::NotFound)?;
        value[..4].copy_from_slice(&ifindex.to_ne_bytes());
        value[4..].copy_from_slice(&second.as_raw_fd().to_ne_bytes());
        let updated = self.exits.update(&slot.to_ne_bytes(), &value, MapFlags::ANY);
        updated.map_err(io::Error::other)
    }

    /// The interface by which frames leave for a slot. One that goes takes its exit with it.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn exit(&self, slot: u32) -> io::Result<Option<u32>> {
        if slot >= INTERFACE_COUNT_MAX {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let found = self.exits.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(io::Error::other)?;
        let ifindex = found.and_then(|value| Some(u32::from_ne_bytes(*value.first_chunk()?)));
        Ok(ifindex.filter(|ifindex| *ifindex != 0))
    }
}
