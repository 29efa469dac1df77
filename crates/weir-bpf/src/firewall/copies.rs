//! Has the sweeping program copy states for another firewall: `bpf/include/weir/fw/copy.h`.
//!
//! The copies are in the ring that [`Firewall::change_reader`] reads, beside the ends of states
//! that were copied before. This module says where states may be marked, and never reads one.

use std::io;
use std::sync::atomic::Ordering;

use super::layout::{self, control};
use super::sweep::{WORDS, Words, word};
use super::{Firewall, layout::table};

/// Slots of one request at most.
pub const SLOTS_MAX: usize = layout::SWEEP_SLOTS_MAX as usize;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Slots that are done, the first ones; behind them there was no room in the ring.
    pub done_count: usize,
    /// Of those: slots whose record moved, or whose bucket could not be had. They stay marked.
    pub busy_count: usize,
}

impl Firewall {
    /// Copies what is marked in some slots, or with `is_all` whatever is there; that is unmarked.
    ///
    /// # Errors
    /// What the kernel returned, or that there are more than [`SLOTS_MAX`].
    pub fn copy(&self, slots: &[u32], is_all: bool) -> io::Result<Copied> {
        let count = u32::try_from(slots.len()).map_err(io::Error::other)?;
        if slots.len() > SLOTS_MAX {
            return Err(io::Error::other("too many slots at once"));
        }
        let mut request: Words = [0; WORDS];
        request[word::MODE] = layout::SWEEP_COPY;
        request[word::TO] = count;
        request[word::FLAGS] = if is_all { layout::SWEEP_ALL } else { 0 };
        let answer = self.sweep_list(&request, slots, SLOTS_MAX)?;
        let number = |word: u32| usize::try_from(word).map_err(io::Error::other);
        Ok(Copied {
            done_count: number(answer[word::NEXT])?.min(slots.len()),
            busy_count: number(answer[word::BUSY])?,
        })
    }

    /// Takes the hints where marks may be: calls `each` with the number of every piece of 16 slots
    /// that had one. What is marked from then on has a hint again.
    pub fn take_hints(&self, mut each: impl FnMut(u32)) {
        /// Slots of a word of eight hints.
        const SLOTS: u32 = 8 << layout::DIRTY_SHIFT;
        let (behind, ready) = (self.regions.sizes.bucket_count, self.ready());
        let buckets = 0..ready.bucket_count.div_ceil(SLOTS);
        // They may begin in the last word of the buckets.
        let overflow =
            (behind / SLOTS).max(buckets.end)..(behind + ready.overflow_count).div_ceil(SLOTS);
        for index in buckets.chain(overflow) {
            let word = self.arena.word64(self.regions.dirty.at + index * 8);
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let bytes = word.swap(0, Ordering::AcqRel).to_ne_bytes();
            (0..8)
                .zip(bytes)
                .filter(|(_, byte)| *byte != 0)
                .for_each(|(at, _)| each(index * 8 + at));
        }
    }

    /// Says whether ends of states that were copied are put into the ring, and whether a state that
    /// moves to another slot is marked.
    pub fn tell_changes(&self, are_ends: bool, are_moves: bool) {
        let give = |is_given: bool, flag: u32| if is_given { flag } else { 0 };
        let flags = give(are_ends, layout::SYNC_OUT_TELLS) | give(are_moves, layout::SYNC_OUT_ALL);
        self.arena.write32(control::SYNC_OUT, flags);
    }

    /// How many ends of states found no room in the ring.
    #[must_use]
    pub fn lost_ends(&self) -> u64 {
        (0..self.regions.sizes.cpu_count)
            .map(|cpu| self.regions.counters.at + cpu * layout::cpu::SIZE_BYTES)
            .map(|at| self.arena.read64(at + layout::cpu::TABLE + table::SYNC_LOST))
            .sum()
    }
}
