//! How much memory a limit of states takes, and whether there is that much: before anything is
//! allocated. A start takes little of it, and the daemon's grower the rest as it is needed.
//!
//! The first record of a bucket stands in the bucket itself; the others, and the addresses of IPv6
//! records, stand in further slots. How many of those a full table needs is a question of chance:
//! n records in m buckets leave m·e^(-n/m) buckets empty on average, so that n - m + m·e^(-n/m) of
//! them are not the first of theirs (W. Feller, An Introduction to Probability Theory, vol. 1,
//! II.5). Eight standard deviations are added to that.
//!
//! A translated state has an alias besides (`alias.h`), which takes a further slot, and another one
//! for its addresses if they are of IPv6. An alias may stand in the way of the records behind it:
//! of t aliases, only a bucket without any, e^(-t/m) of them, is sure to have a record in itself.

use std::fmt;

use weir_bpf::firewall::layout::{ARENA_BYTES, PAGE_BYTES, Regions, Sizes, Slots};

#[cfg(test)]
mod tests;

/// Room for rules, tables and their counters by addresses; memory is taken as it is used.
pub(crate) const HEAP_BYTES_DEFAULT: u32 = 512 << 20;
/// The largest index: 32Mi buckets take 3 GiB with their accounts.
pub(crate) const BUCKET_COUNT_MAX: u32 = 1 << 25;
/// The smallest one.
pub(crate) const BUCKET_COUNT_MIN: u32 = 16;
/// The most that an index has that follows the number of states: 1.5 GiB with their accounts.
pub(crate) const BUCKET_COUNT_FOLLOWING_MAX: u32 = 1 << 24;
/// The fewest, if the limit is not smaller: 2 MiB of lines, which a processor's second level of
/// address translation covers.
const BUCKET_COUNT_FIRST: u32 = 1 << 15;
/// Slots that are kept ready for what is going to be inserted before there can be more, at least:
/// at two million states a second in 64 ms.
pub(crate) const OVERFLOW_COUNT_SPARE: u32 = 1 << 17;
/// Records of a bucket in a full table, on average: the programs follow at most 1,024, and with
/// this average a bucket has more than 700 about never.
const LOAD_MAX: u32 = 512;
/// As many IPv6 records there is always room for, if the limit allows them.
const IPV6_COUNT_MIN: u32 = 250_000;
/// Of larger limits, one in so many records may be of IPv6.
const IPV6_SHARE: u32 = 20;
/// Rules that limit the number of their sources (`max-src-nodes`), and have a place for it.
const SOURCE_RULE_COUNT: u32 = 1 << 12;
/// The fewest places for sources: 1 MiB of buckets, whether sources are tracked or not.
const SOURCE_PLACES_MIN: u32 = 1 << 16;
/// The most.
const SOURCE_PLACES_MAX: u32 = 1 << 22;
/// The largest `set limit src-nodes`.
pub(crate) const SOURCE_LIMIT_MAX: u32 = SOURCE_PLACES_MAX - SOURCE_RULE_COUNT;
/// The largest `set limit frags`.
pub(crate) const FRAGMENT_LIMIT_MAX: u32 = 1 << 20;
/// What a packet in fragments takes in its table, which is allocated whole: the kernel's header of
/// an element, the key, and the pieces; at most.
const FRAGMENT_BYTES: u64 = 240;
/// What a source takes in its table as it comes: the size class of the kernel's allocator.
const SOURCE_BYTES: u64 = 192;
/// A bucket of either (`struct bucket` of kernel/bpf/hashtab.c).
const MAP_BUCKET_BYTES: u64 = 16;
/// Standard deviations that are added to what is expected.
const DEVIATIONS: f64 = 8.0;
/// Bytes of a slot: a line and an account.
pub(crate) const SLOT_BYTES: u32 = Slots::BYTES_EACH;
/// An entry of a page table, once for programs and once for the control process.
const PAGE_TABLE_BYTES_PER_PAGE: u64 = 2 * 8;

/// What a limit of states takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// `set limit states`.
    pub(crate) state_limit: u32,
    /// IPv6 records that there is room for in a full table.
    pub(crate) ipv6_count: u32,
    /// Whether `set hashsize` says how many buckets there are; else they follow the states.
    pub(crate) is_fixed: bool,
    /// What there are to be addresses for.
    pub(crate) sizes: Sizes,
    /// Slots that a full table needs.
    pub(crate) slots: Slots,
    /// Where everything is going to be.
    pub(crate) regions: Regions,
    /// What is followed beside states.
    pub(crate) followed: Followed,
}

/// What the data path follows beside states, in tables of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Followed {
    /// `set limit frags`: packets in fragments.
    pub(crate) fragment_limit: u32,
    /// `set limit src-nodes`: sources.
    pub(crate) source_limit: u32,
}

impl Followed {
    /// Bytes of the table of fragments; each CPU has an element to spare.
    const fn fragment_bytes(self, cpu_count: u32) -> u64 {
        if self.fragment_limit == 0 {
            return 0;
        }
        let places = self.fragment_limit as u64;
        (places + cpu_count as u64) * FRAGMENT_BYTES + places.next_power_of_two() * MAP_BUCKET_BYTES
    }

    /// Bytes of the table of sources when it is full.
    const fn source_bytes(self) -> u64 {
        if self.source_limit == 0 {
            return 0;
        }
        source_places(self.source_limit) as u64 * MAP_BUCKET_BYTES
            + self.source_limit as u64 * SOURCE_BYTES
    }
}

impl Plan {
    /// With tables for what else is followed.
    #[must_use]
    pub(crate) const fn with(self, followed: Followed) -> Self {
        Self { followed, ..self }
    }

    /// Bytes of the table of fragments, and of that of sources when it is full.
    #[must_use]
    pub(crate) const fn followed_bytes(&self) -> [u64; 2] {
        [self.followed.fragment_bytes(self.sizes.cpu_count), self.followed.source_bytes()]
    }

    /// Bytes of the whole state table when it is full.
    #[must_use]
    pub(crate) const fn table_bytes(&self) -> u64 {
        self.slots.bytes()
    }

    /// Slots that are to have memory before anything is attached.
    #[must_use]
    pub(crate) fn first(&self) -> Slots {
        let buckets = self.slots.bucket_count;
        Slots {
            bucket_count: if self.is_fixed { buckets } else { buckets.min(BUCKET_COUNT_FIRST) },
            overflow_count: self.slots.overflow_count.min(OVERFLOW_COUNT_SPARE),
        }
    }

    /// Bytes that are taken when there are as many states and sources as may be, page tables
    /// included; rules and tables come on top as they are loaded.
    #[must_use]
    pub(crate) const fn full_bytes(&self) -> u64 {
        let [fragments, sources] = self.followed_bytes();
        paged(self.regions.states.at as u64 + self.table_bytes()) + fragments + sources
    }

    /// Refuses a plan that the machine has no memory for, beside that which such slots have already
    /// taken of it.
    ///
    /// # Errors
    /// [`LimitError::Memory`] if less is available: `MemAvailable` of /proc/meminfo, or what is
    /// left of the control group's limit.
    pub(crate) fn check(
        &self,
        taken: Option<Slots>,
        available_bytes: u64,
    ) -> Result<(), LimitError> {
        let needed_bytes = match taken {
            None => self.full_bytes(),
            // All else was there before the first slot.
            Some(slots) => paged(self.table_bytes()).saturating_sub(paged(slots.bytes())),
        };
        if needed_bytes <= available_bytes {
            return Ok(());
        }
        let arithmetic = Arithmetic::of(self.state_limit, self.ipv6_count, self.slots);
        let arithmetic =
            Arithmetic { followed: self.followed, cpu_count: self.sizes.cpu_count, ..arithmetic };
        Err(LimitError::Memory { arithmetic, needed_bytes, available_bytes })
    }
}

/// Bytes with what their page tables take.
const fn paged(bytes: u64) -> u64 {
    bytes + bytes / PAGE_BYTES as u64 * PAGE_TABLE_BYTES_PER_PAGE
}

/// How a plan's bytes come about, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arithmetic {
    state_limit: u32,
    ipv6_count: u32,
    slots: Slots,
    followed: Followed,
    cpu_count: u32,
}

impl Arithmetic {
    const fn of(state_limit: u32, ipv6_count: u32, slots: Slots) -> Self {
        let followed = Followed { fragment_limit: 0, source_limit: 0 };
        Self { state_limit, ipv6_count, slots, followed, cpu_count: 0 }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slots { bucket_count, overflow_count } = self.slots;
        let slots = u64::from(bucket_count) + u64::from(overflow_count);
        write!(
            formatter,
            "{} states need {bucket_count} buckets and {overflow_count} further slots ({} of them \
             for IPv6 addresses); {slots} slots of {SLOT_BYTES} bytes are {} bytes ({} MiB)",
            self.state_limit,
            self.ipv6_count,
            slots * u64::from(SLOT_BYTES),
            (slots * u64::from(SLOT_BYTES)) >> 20,
        )?;
        let Followed { fragment_limit, source_limit } = self.followed;
        let fragment_bytes = self.followed.fragment_bytes(self.cpu_count);
        if fragment_bytes > 0 {
            let mib = fragment_bytes >> 20;
            write!(
                formatter,
                "; {fragment_limit} packets in fragments need {fragment_bytes} bytes ({mib} MiB)"
            )?;
        }
        let source_bytes = self.followed.source_bytes();
        if source_bytes > 0 {
            let mib = source_bytes >> 20;
            write!(formatter, "; {source_limit} sources need {source_bytes} bytes ({mib} MiB)")?;
        }
        Ok(())
    }
}

/// Why a limit is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitError {
    /// No index of that size.
    #[error(
        "set hashsize {0}: the number of buckets must be a power of two from {BUCKET_COUNT_MIN} to \
         {BUCKET_COUNT_MAX}"
    )]
    HashSize(u32),
    /// Too few buckets for the limit.
    #[error(
        "set hashsize {bucket_count} with set limit states {state_limit}: a bucket would have {} \
         states on average, and {LOAD_MAX} is the most: at least {} buckets are needed",
        state_limit / bucket_count,
        (state_limit / LOAD_MAX).next_power_of_two()
    )]
    Chains {
        /// `set hashsize`.
        bucket_count: u32,
        /// `set limit states`.
        state_limit: u32,
    },
    /// There would be no room for a single state.
    #[error("set limit states 0: nothing could keep state; leave it out for 100000")]
    NoStates,
    /// More than an arena holds.
    #[error(
        "{arithmetic}, and a BPF arena holds {ARENA_BYTES} bytes (4096 MiB), rules and counters \
         included: lower `set limit states` or `set hashsize`"
    )]
    Arena {
        /// What is wanted.
        arithmetic: Arithmetic,
    },
    /// More than the machine has.
    #[error(
        "{arithmetic}; with counters and page tables {needed_bytes} bytes ({} MiB) are needed, and \
         {available_bytes} bytes ({} MiB) are available: lower these limits or `set hashsize`, or \
         free memory",
        needed_bytes >> 20,
        available_bytes >> 20
    )]
    Memory {
        /// What is wanted.
        arithmetic: Arithmetic,
        /// All that is needed when it is full, and not there yet.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
}

/// How many buckets a full table has without `set hashsize`: the smallest power of two that is at
/// least 0.8 of its limit, as far as an index grows.
#[must_use]
pub(crate) fn default_bucket_count(state_limit: u32) -> u32 {
    let filled_count = u64::from(state_limit) * 4 / 5;
    let count = u32::try_from(filled_count.next_power_of_two()).unwrap_or(BUCKET_COUNT_MAX);
    count.clamp(BUCKET_COUNT_MIN, BUCKET_COUNT_FOLLOWING_MAX)
}

/// Places of the table of sources for `set limit src-nodes`: those nodes, and one for each rule
/// that limits their number, with room for a reload that asks for some more.
#[must_use]
pub(crate) const fn source_places(source_limit: u32) -> u32 {
    match source_limit.saturating_add(SOURCE_RULE_COUNT).checked_next_power_of_two() {
        Some(places) if places < SOURCE_PLACES_MIN => SOURCE_PLACES_MIN,
        Some(places) if places <= SOURCE_PLACES_MAX => places,
        _ => SOURCE_PLACES_MAX,
    }
}

/// Slots that the records of a full table need beside its buckets, without those for IPv6
/// addresses, and for aliases.
fn overflow_count(state_limit: u32, bucket_count: u32, alias_count: u32) -> f64 {
    let (records, buckets) = (f64::from(state_limit), f64::from(bucket_count));
    let load = records / buckets;
    let empty = (-load).exp();
    let first = (1.0 - empty) * (-f64::from(alias_count) / buckets).exp();
    let expected = records - buckets * first;
    let variance = if alias_count == 0 {
        buckets * (empty - (1.0 + load) * empty * empty)
    } else {
        // That of so many independent buckets, which is more.
        buckets * first * (1.0 - first)
    };
    // Every record beside the first one of the table may need one.
    (expected + DEVIATIONS * variance.max(0.0).sqrt()).ceil().min(records)
}

/// Plans the memory for a limit of states, of which so many may be translated, with `set hashsize`
/// or without.
///
/// # Errors
/// [`LimitError`] if the index has no possible size, or if an arena cannot hold it all.
pub(crate) fn plan(
    state_limit: u32,
    hash_size: Option<u32>,
    cpu_count: u32,
    translated_count: u32,
) -> Result<Plan, LimitError> {
    if state_limit == 0 {
        return Err(LimitError::NoStates);
    }
    let bucket_count = hash_size.unwrap_or_else(|| default_bucket_count(state_limit));
    if !bucket_count.is_power_of_two()
        || !(BUCKET_COUNT_MIN..=BUCKET_COUNT_MAX).contains(&bucket_count)
    {
        return Err(LimitError::HashSize(bucket_count));
    }
    if state_limit.saturating_add(translated_count) / bucket_count > LOAD_MAX {
        return Err(LimitError::Chains { bucket_count, state_limit });
    }
    let ipv6_count = state_limit.min(IPV6_COUNT_MIN.max(state_limit / IPV6_SHARE));
    let overflow = overflow_count(state_limit, bucket_count, translated_count)
        + f64::from(ipv6_count)
        + f64::from(translated_count)
        + f64::from(ipv6_count.min(translated_count));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number that is not negative; what is too large becomes the largest"
    )]
    let overflow_count = overflow as u32;
    let slots = Slots { bucket_count, overflow_count };
    let is_fixed = hash_size.is_some();
    // What there are addresses for: all that fits, so that a reload can raise the limit.
    let bucket_count = if is_fixed { bucket_count } else { BUCKET_COUNT_FOLLOWING_MAX };
    let mut heap_bytes = HEAP_BYTES_DEFAULT;
    // A large table leaves less room for rules, but never less than an eighth of the default.
    loop {
        let left = Regions::slot_count_max(heap_bytes, cpu_count).checked_sub(bucket_count);
        let left = left.filter(|left| *left >= slots.overflow_count);
        let sizes = left.map(|overflow_count| Sizes {
            bucket_count,
            overflow_count,
            heap_bytes,
            cpu_count,
        });
        if let Some(sizes) = sizes
            && let Some(regions) = Regions::plan(sizes)
        {
            let followed = Followed::default();
            return Ok(Plan { state_limit, ipv6_count, is_fixed, sizes, slots, regions, followed });
        }
        if heap_bytes <= HEAP_BYTES_DEFAULT / 8 {
            let arithmetic = Arithmetic::of(state_limit, ipv6_count, slots);
            return Err(LimitError::Arena { arithmetic });
        }
        heap_bytes /= 2;
    }
}
