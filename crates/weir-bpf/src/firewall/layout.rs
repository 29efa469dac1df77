//! The firewall's shared memory as byte offsets: what the headers in `bpf/include/weir/fw` define.
//!
//! The build script makes the constants, out of the BTF of `bpf/layout.bpf.c`. There is a module
//! for each structure: `SIZE_BYTES` is its size, the other constants are offsets of fields from its
//! start. Values of enumerations have lost the `WEIR_FW_` or `WEIR_` of their names; those of flags
//! and kinds are in modules. [`Regions`] says where in the arena things stand.

include!(concat!(env!("OUT_DIR"), "/layout.rs"));

/// Number of timeouts in a [`profile`].
pub const TIMEOUT_COUNT: usize = timeout::COUNT as usize;

/// Where the timeout table of the image at [`BLANK_AT`] stands.
pub const BLANK_PROFILE_AT: u32 = BLANK_AT + image::SIZE_BYTES;

const _: () = assert!(BLANK_AT >= control::SIZE_BYTES, "one stands behind the other");

/// Size of a page, which regions begin on.
pub const PAGE_BYTES: u32 = 4096;

/// What the arena can hold, bytes: offsets have 32 bits.
pub const ARENA_BYTES: u64 = ARENA_PAGE_COUNT * PAGE_BYTES as u64;

const _: () = assert!(ARENA_BYTES == crate::sys::ARENA_BYTES as u64, "all of it is mapped");

/// How many of what the arena has addresses for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Buckets of the state table.
    pub bucket_count: u32,
    /// Slots for records that are not the first of their bucket, and for IPv6 addresses.
    pub overflow_count: u32,
    /// Room for rulesets and tables.
    pub heap_bytes: u32,
    /// Possible CPUs of the machine.
    pub cpu_count: u32,
}

impl Sizes {
    /// All slots.
    #[must_use]
    pub const fn slots(&self) -> Slots {
        Slots { bucket_count: self.bucket_count, overflow_count: self.overflow_count }
    }
}

/// Some of the state table's slots: the first ones of either kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slots {
    /// Each is also the slot of its first record.
    pub bucket_count: u32,
    /// Slots for records that are not the first of their bucket, and for IPv6 addresses.
    pub overflow_count: u32,
}

impl Slots {
    /// Bytes of a slot: a line and an account.
    pub const BYTES_EACH: u32 = state::SIZE_BYTES + account::SIZE_BYTES;

    /// What they take.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.bucket_count as u64 + self.overflow_count as u64) * Self::BYTES_EACH as u64
    }
}

/// One region of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// What it holds, in words for a user.
    pub name: &'static str,
    /// Offset from the arena's start.
    pub at: u32,
    /// Size without the rest of its last page.
    pub bytes: u64,
}

/// Where the regions stand in the arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regions {
    /// What they were planned for.
    pub sizes: Sizes,
    /// Counters: a [`cpu`] for each CPU.
    pub counters: Region,
    /// Interfaces: an [`interface`] for each slot.
    pub interfaces: Region,
    /// Slots of interfaces: a byte for each interface index.
    pub ifslots: Region,
    pub next_hops: Region,
    /// Kept routes: so many times [`KEPT_SET_COUNT`] of [`kept_set`] as there are CPUs.
    pub kept: Region,
    /// Where states may be marked: a byte for 16 slots.
    pub dirty: Region,
    /// States: a [`state`] for each slot.
    pub states: Region,
    /// Accounts of states, as many.
    pub accounts: Region,
    /// Rulesets and tables.
    pub heap: Region,
    /// Bytes from the arena's start to the end of the last region.
    pub total_bytes: u64,
}

impl Regions {
    /// For how many slots there are addresses beside so large a heap.
    #[must_use]
    pub fn slot_count_max(heap_bytes: u32, cpu_count: u32) -> u32 {
        let none = Sizes { bucket_count: 0, overflow_count: 0, heap_bytes, cpu_count };
        // Lines, accounts and marks all begin on a page of their own.
        let used = Self::plan(none).map_or(ARENA_BYTES, |regions| regions.total_bytes);
        let left = ARENA_BYTES.saturating_sub(used + 3 * u64::from(PAGE_BYTES));
        let each = (u64::from(Slots::BYTES_EACH) << DIRTY_SHIFT) + 1;
        u32::try_from((left << DIRTY_SHIFT) / each).unwrap_or(u32::MAX)
    }

    /// Lays out regions in the order of the fields, each on a page of its own; `None` if they do
    /// not fit into [`ARENA_BYTES`].
    #[must_use]
    pub fn plan(sizes: Sizes) -> Option<Self> {
        let mut end = u64::from(PAGE_BYTES);
        let mut place = |name, count: u64, each: u32| {
            let (at, bytes) = (u32::try_from(end).ok()?, count.checked_mul(u64::from(each))?);
            end = end.checked_add(bytes)?.next_multiple_of(u64::from(PAGE_BYTES));
            (end <= ARENA_BYTES).then_some(Region { name, at, bytes })
        };
        let slot_count = u64::from(sizes.bucket_count) + u64::from(sizes.overflow_count);
        let interface_count = u64::from(INTERFACE_COUNT_MAX);
        let counters = place("counters", u64::from(sizes.cpu_count), cpu::SIZE_BYTES)?;
        let interfaces = place("interfaces", interface_count, interface::SIZE_BYTES)?;
        let ifslots = place("interface slots", u64::from(IFINDEX_COUNT_MAX), 1)?;
        let next_hops = place("next hops", u64::from(NEXT_HOP_COUNT_MAX), next_hop::SIZE_BYTES)?;
        let kept_count = u64::from(sizes.cpu_count) * u64::from(KEPT_SET_COUNT);
        let kept = place("kept routes", kept_count, kept_set::SIZE_BYTES)?;
        let dirty = place("marks of states", slot_count.div_ceil(1 << DIRTY_SHIFT), 1)?;
        let states = place("states", slot_count, state::SIZE_BYTES)?;
        let accounts = place("accounts of states", slot_count, account::SIZE_BYTES)?;
        let heap = place("rules and tables", u64::from(sizes.heap_bytes), 1)?;
        Some(Self {
            sizes,
            counters,
            interfaces,
            ifslots,
            next_hops,
            kept,
            dirty,
            states,
            accounts,
            heap,
            total_bytes: end,
        })
    }

    /// All regions, in their order.
    #[must_use]
    pub fn all(&self) -> [&Region; 9] {
        [
            &self.counters,
            &self.interfaces,
            &self.ifslots,
            &self.next_hops,
            &self.kept,
            &self.dirty,
            &self.states,
            &self.accounts,
            &self.heap,
        ]
    }
}

#[cfg(test)]
mod tests;
