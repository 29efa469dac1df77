//! The state table's size: memory for its slots, and the number of its buckets.
//!
//! Both only change from here. Slots get memory before a program is told of them, because a store
//! to memory that is not there is lost without a trace. The index gets or loses one bucket at a
//! time, by the sweeping program (`bpf/include/weir/fw/index.h` says why no packet misses a record
//! meanwhile).

use std::io;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::layout::{Regions, Slots, account, control, state};
use super::sweep::{Counts, Moves};
use super::{Arena, ArenaError, Firewall};

/// Who may change the index, and when.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// One at a time.
    turn: Mutex<()>,
    /// Who goes through all buckets, and who joins some of them.
    joins: RwLock<()>,
}

/// While it lives, no records move into a bucket from a later one: who goes upwards through the
/// buckets, to the one that is the last then, misses no record.
#[derive(Debug)]
pub struct Still<'a>(#[expect(dead_code, reason = "it is held")] RwLockReadGuard<'a, ()>);

/// The word that says how many buckets there are: `weir_index_of()` of `table.h`.
pub(super) const fn word_of(bucket_count: u32) -> u64 {
    let mask = bucket_count.next_power_of_two() - 1;
    (mask as u64) << 32 | bucket_count as u64
}

/// Has the kernel give memory to the slots that `more` has beyond `have`.
pub(super) fn populate(
    arena: &Arena,
    regions: &Regions,
    have: Slots,
    more: Slots,
) -> Result<(), ArenaError> {
    let behind = regions.sizes.bucket_count;
    for (from, to) in [
        (have.bucket_count, more.bucket_count),
        (behind + have.overflow_count, behind + more.overflow_count),
    ] {
        let count = u64::from(to.saturating_sub(from));
        for (region, each) in
            [(&regions.states, state::SIZE_BYTES), (&regions.accounts, account::SIZE_BYTES)]
        {
            if count > 0 {
                arena.populate(region.at + from * each, count * u64::from(each))?;
            }
        }
    }
    Ok(())
}

impl Firewall {
    /// How many buckets the index has now.
    #[must_use]
    pub fn bucket_count(&self) -> u32 {
        let count = self.arena.read64(control::INDEX) & u64::from(u32::MAX);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Slots that have memory.
    #[must_use]
    pub fn ready(&self) -> Slots {
        Slots {
            bucket_count: self.arena.read32(control::BUCKET_READY),
            overflow_count: self.arena.read32(control::OVERFLOW_READY),
        }
    }

    /// How many buckets there are at least: those that it was loaded with. So many as there are
    /// addresses for: their number is fixed.
    #[must_use]
    pub fn bucket_floor(&self) -> u32 {
        self.arena.read32(control::BUCKET_FLOOR)
    }

    /// Whether the number of buckets is fixed.
    #[must_use]
    pub fn is_index_fixed(&self) -> bool {
        self.bucket_floor() == self.regions.sizes.bucket_count
    }

    /// What the table may grow to, as [`Self::allow`] said last.
    #[must_use]
    pub fn allowed(&self) -> Slots {
        Slots {
            bucket_count: self.arena.read32(control::BUCKET_LIMIT),
            overflow_count: self.arena.read32(control::OVERFLOW_LIMIT),
        }
    }

    /// Says what the table may grow to, at most what it has addresses for. Nothing changes by it.
    pub fn allow(&self, slots: Slots) {
        let most = self.regions.sizes;
        let (buckets, overflow) = (slots.bucket_count, slots.overflow_count);
        self.arena.write32(control::BUCKET_LIMIT, buckets.min(most.bucket_count));
        self.arena.write32(control::OVERFLOW_LIMIT, overflow.min(most.overflow_count));
    }

    /// How many of the slots besides buckets have been used at some time.
    #[must_use]
    pub fn overflow_used(&self) -> u32 {
        self.arena.read32(control::FRESH_COUNT)
    }

    /// Gives memory to slots, at most to those that there are addresses for, and then tells the
    /// programs of them. What has memory keeps it.
    ///
    /// # Errors
    /// [`ArenaError::Populate`] if there is not enough; what is there can be used all the same.
    pub fn extend(&self, slots: Slots) -> Result<(), ArenaError> {
        let _turn = self.moving.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (have, most) = (self.ready(), self.regions.sizes);
        let more = Slots {
            bucket_count: slots.bucket_count.min(most.bucket_count).max(have.bucket_count),
            overflow_count: slots.overflow_count.min(most.overflow_count).max(have.overflow_count),
        };
        populate(&self.arena, &self.regions, have, more)?;
        self.arena.write32(control::BUCKET_READY, more.bucket_count);
        self.arena.write32(control::OVERFLOW_READY, more.overflow_count);
        Ok(())
    }

    /// Lets no buckets be joined until what is returned is dropped.
    #[must_use]
    pub fn hold_still(&self) -> Still<'_> {
        Still(self.moving.joins.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the index get or lose buckets, one by one, until there are so many; gives how many there
    /// are then. That may be fewer than asked for: those that have no memory are left out; and more
    /// where somebody wants [`Self::hold_still`], or where there is no slot for what has to move.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn resize(&self, bucket_count: u32) -> io::Result<u32> {
        let _turn = self.moving.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut have = self.bucket_count();
        while have != bucket_count {
            let Counts { reached, is_stuck } = if have < bucket_count {
                self.move_buckets(Moves::Split, bucket_count)?
            } else {
                let Ok(_alone) = self.moving.joins.try_write() else { return Ok(have) };
                self.move_buckets(Moves::Join, bucket_count)?
            };
            have = reached;
            if is_stuck {
                break;
            }
        }
        Ok(have)
    }
}
