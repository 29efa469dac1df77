//! Loads the programs, lays out the arena and fills in its first page.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use libbpf_rs::{MapCore as _, MapHandle, OpenObject};
use weir_wire::random::splitmix64;

use super::index::Moving;
use super::layout::{Regions, Sizes, Slots, control, image};
use super::{
    ARENA_MAP, Arena, ArenaError, CHANGES_MAP, COUNTED_MAP, DEFERRED, DEFERRED_MAP, EVENTS_MAP,
    EXITS_MAP, FRAGMENTS_MAP, Firewall, INGRESS, LOG_MAP, OBJECT, OBJECT_NAME, OVERLOADS_MAP,
    REHEARSAL, SECOND, SOURCES_MAP, SWEEP, USES_MAP, layout, tcx,
};
use crate::object::{LoadError, Loaded};
use crate::sys;

/// What is decided when programs are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The key of the state table's hash: eight random words. Who knows it can make flows that
    /// share a bucket.
    pub hash_seed: [u64; 8],
    /// How many fragmented packets are followed at a time.
    pub fragment_count_max: u32,
    /// Sources that are tracked at a time, and one for each rule that limits their number.
    pub source_count_max: u32,
    /// Room for log records that were not read yet, bytes: a power of two, at least a page.
    pub log_bytes: u32,
    /// Room for ends of states that were not read yet, bytes: as of log records.
    pub event_bytes: u32,
    /// Room for copies of states, and their ends, that were not read yet, bytes: as of log records.
    pub change_bytes: u32,
}

/// Why the firewall could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// The kernel refused a program or map.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The arena could not be mapped or has no memory.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The arena cannot hold what was asked for.
    #[error(
        "{bucket_count} buckets, {overflow_count} further slots and {heap_bytes} bytes for rules \
         do not fit into the 4 GiB that a BPF arena can have"
    )]
    TooLarge {
        /// Buckets of the state table.
        bucket_count: u32,
        /// Slots for further records.
        overflow_count: u32,
        /// Room for rules and tables.
        heap_bytes: u32,
    },
    /// What the kernel knows of a loaded program could not be read.
    #[error("cannot ask the kernel about a loaded program: {0}")]
    Query(io::Error),
    /// A table could not be emptied.
    #[error("cannot empty the firewall's tables: {0}")]
    Renew(io::Error),
}

/// As many arenas as one process may have at a time.
const ADDRESS_COUNT: u64 = 1024;

/// libbpf maps an arena where it is told, whatever stands there: one load at a time.
pub(super) static LOADING: Mutex<()> = Mutex::new(());

/// An address where nothing is mapped yet.
pub(super) fn free_address() -> u64 {
    (0..ADDRESS_COUNT)
        .map(|index| layout::ARENA_USER_AT + index * layout::ARENA_BYTES)
        .find(|address| sys::arena_address_is_free(*address))
        .unwrap_or(layout::ARENA_USER_AT)
}

impl Firewall {
    /// Loads the programs, gives memory to all regions but the heap, of states and accounts only to
    /// `slots`, and describes them in the control page. The index has `slots.bucket_count` buckets.
    /// Nothing is attached yet, and no filtering is enabled.
    ///
    /// # Errors
    /// [`FirewallError`] without privileges, kernel support (Linux 6.12) or memory.
    pub fn load(options: &Options, sizes: Sizes, slots: Slots) -> Result<Self, FirewallError> {
        Self::load_object(OBJECT, options, sizes, slots)
    }

    /// As [`Self::load`], with programs of the same names from another object file.
    pub(super) fn load_object(
        object: &[u8],
        options: &Options,
        sizes: Sizes,
        slots: Slots,
    ) -> Result<Self, FirewallError> {
        let regions = plan(sizes)?;
        let (programs, arena) = {
            let _alone = LOADING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let address = free_address();
            let loaded = Loaded::load_prepared(OBJECT_NAME, object, |opened| {
                prepare(opened, options, address)
            })?;
            let (programs, map) = (Programs::of(&loaded)?, loaded.map(ARENA_MAP, 0)?);
            // libbpf's own mapping goes with the object, and makes room for ours.
            drop(loaded);
            (programs, Arena::new(&map)?)
        };
        lay_out(&arena, &regions, slots)?;
        programs.with(arena, regions)
    }

    /// Makes memory and tables what they are after a load, for these sizes: for tests, which cannot
    /// have the verifier look at the programs for a few tenths of a second each time. No packet may
    /// meet the programs meanwhile.
    ///
    /// # Errors
    /// [`FirewallError`] if there is not enough memory, or the kernel refuses to empty a table.
    pub fn renew(&mut self, sizes: Sizes, slots: Slots) -> Result<(), FirewallError> {
        let regions = plan(sizes)?;
        let used_bytes = u64::from(self.regions.heap.at) + self.regions.heap.bytes;
        self.arena.clear(0, used_bytes);
        self.regions = regions;
        lay_out(&self.arena, &self.regions, slots)?;
        for map in [&self.sources, &self.counted, &self.fragments, &self.uses] {
            for key in map.keys().collect::<Vec<_>>() {
                let deleted = map.delete(&key);
                deleted.map_err(|error| FirewallError::Renew(io::Error::other(error)))?;
            }
        }
        let log = self.log_reader().and_then(|mut log| log.read(Duration::ZERO));
        log.map_err(FirewallError::Renew)?;
        let overloads = self.overload_reader().and_then(|mut ring| ring.read(Duration::ZERO));
        overloads.map_err(FirewallError::Renew)?;
        let events = self.event_reader().and_then(|mut ring| ring.read(Duration::ZERO));
        events.map_err(FirewallError::Renew)?;
        let changes = self.change_reader().and_then(|mut ring| ring.read(Duration::ZERO));
        changes.map_err(FirewallError::Renew)?;
        let deferred = self.deferred_reader().and_then(|mut ring| ring.read(Duration::ZERO));
        deferred.map_err(FirewallError::Renew)?;
        Ok(())
    }
}

fn plan(sizes: Sizes) -> Result<Regions, FirewallError> {
    Regions::plan(sizes).ok_or(FirewallError::TooLarge {
        bucket_count: sizes.bucket_count,
        overflow_count: sizes.overflow_count,
        heap_bytes: sizes.heap_bytes,
    })
}

/// Gives memory to all regions but the heap, and to some slots, and describes them.
fn lay_out(arena: &Arena, regions: &Regions, slots: Slots) -> Result<(), ArenaError> {
    arena.populate(0, regions.states.at.into())?;
    super::index::populate(arena, regions, Slots::default(), slots)?;
    describe(arena, regions, slots);
    Ok(())
}

/// Handles of a loaded object.
struct Programs {
    ingress: OwnedFd,
    egress: OwnedFd,
    sweep: OwnedFd,
    exits: MapHandle,
    log: MapHandle,
    overloads: MapHandle,
    events: MapHandle,
    changes: MapHandle,
    deferred: MapHandle,
    sources: MapHandle,
    counted: MapHandle,
    fragments: MapHandle,
    uses: MapHandle,
}

impl Programs {
    fn of(object: &Loaded) -> Result<Self, LoadError> {
        Ok(Self {
            ingress: object.program(INGRESS)?,
            egress: object.program(tcx::EGRESS)?,
            sweep: object.program(SWEEP)?,
            exits: object.map_of_any_size(EXITS_MAP)?,
            log: object.map(LOG_MAP, 0)?,
            overloads: object.map(OVERLOADS_MAP, 0)?,
            events: object.map(EVENTS_MAP, 0)?,
            changes: object.map(CHANGES_MAP, 0)?,
            deferred: object.map(DEFERRED_MAP, 0)?,
            sources: object.map(SOURCES_MAP, super::sources::VALUE_BYTES)?,
            counted: object.map(COUNTED_MAP, super::counted::VALUE_BYTES)?,
            fragments: object.map_of_any_size(FRAGMENTS_MAP)?,
            uses: object.map_of_any_size(USES_MAP)?,
        })
    }

    fn with(self, arena: Arena, regions: Regions) -> Result<Firewall, FirewallError> {
        let Self {
            ingress,
            egress,
            sweep,
            exits,
            log,
            overloads,
            events,
            changes,
            deferred,
            sources,
            counted,
            fragments,
            uses,
        } = self;
        let ingress_id = sys::program_id(ingress.as_fd()).map_err(FirewallError::Query)?;
        let programs = tcx::Programs::default();
        programs.add(tcx::EGRESS, egress).map_err(FirewallError::Query)?;
        Ok(Firewall {
            ingress,
            ingress_id,
            tcx: programs,
            second: OnceLock::new(),
            sweep,
            exits,
            log,
            overloads,
            events,
            changes,
            deferred,
            sources,
            counted,
            fragments,
            uses,
            arena,
            regions,
            moving: Moving::default(),
        })
    }
}

/// The key of the hash: the seed spread over all bits, because keys with many zeros hash badly.
pub(super) fn hash_key(seed: [u64; 8]) -> [u64; 8] {
    let mut key = seed;
    for (position, word) in (0..).zip(&mut key) {
        *word = splitmix64(*word, position);
    }
    key
}

/// The section of the object file that has the hash's key.
const SEED_MAP: &str = ".rodata.seed";

pub(super) fn prepare(
    opened: &mut OpenObject,
    options: &Options,
    address: u64,
) -> libbpf_rs::Result<()> {
    for mut program in opened.progs_mut() {
        let mut late = tcx::LATE.iter().chain(&[SECOND, DEFERRED, REHEARSAL]);
        if late.any(|name| program.name() == *name) {
            program.set_autoload(false);
        }
    }
    for mut map in opened.maps_mut() {
        match map.name().to_str() {
            Some(ARENA_MAP) => map.set_map_extra(address)?,
            Some(FRAGMENTS_MAP) => map.set_max_entries(options.fragment_count_max)?,
            Some(SOURCES_MAP) => map.set_max_entries(options.source_count_max)?,
            Some(LOG_MAP) => map.set_max_entries(options.log_bytes)?,
            Some(EVENTS_MAP) => map.set_max_entries(options.event_bytes)?,
            Some(CHANGES_MAP) => map.set_max_entries(options.change_bytes)?,
            Some(SEED_MAP) => {
                let key = hash_key(options.hash_seed);
                let seed: Vec<u8> = key.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let value = map.initial_value_mut().filter(|value| value.len() == seed.len());
                value
                    .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?
                    .copy_from_slice(&seed);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes where the regions are, and an image without rules; the magic number comes last.
fn describe(arena: &Arena, regions: &Regions, slots: Slots) {
    let sizes = regions.sizes;
    arena.write64(control::INDEX, super::index::word_of(slots.bucket_count));
    let words = [
        (control::VERSION, layout::LAYOUT_VERSION),
        (control::GENERATION, 1),
        (control::COUNTERS_AT, regions.counters.at),
        (control::INTERFACES_AT, regions.interfaces.at),
        (control::IFSLOTS_AT, regions.ifslots.at),
        (control::NEXT_HOPS_AT, regions.next_hops.at),
        (control::KEPT_AT, regions.kept.at),
        (control::DIRTY_AT, regions.dirty.at),
        (control::STATES_AT, regions.states.at),
        (control::ACCOUNTS_AT, regions.accounts.at),
        (control::HEAP_AT, regions.heap.at),
        (control::HEAP_BYTES, sizes.heap_bytes),
        (control::BUCKET_COUNT, sizes.bucket_count),
        (control::OVERFLOW_COUNT, sizes.overflow_count),
        (control::CPU_COUNT, sizes.cpu_count),
        (control::BUCKET_READY, slots.bucket_count),
        (control::OVERFLOW_READY, slots.overflow_count),
        (control::BUCKET_FLOOR, slots.bucket_count),
        (control::BUCKET_LIMIT, slots.bucket_count),
        (control::OVERFLOW_LIMIT, slots.overflow_count),
        (layout::BLANK_AT + image::PROFILES_AT, image::SIZE_BYTES),
        (layout::BLANK_AT + image::PROFILE_COUNT, 1),
        (control::ACTIVE, layout::BLANK_AT),
        (control::MAGIC, layout::MAGIC),
    ];
    for (at, value) in words {
        arena.write32(at, value);
    }
}

/// Loads one of the programs on maps that run already.
pub(super) fn load_again(name: &str, maps: &[(String, MapHandle)]) -> Result<OwnedFd, LoadError> {
    let object = Loaded::load_prepared(OBJECT_NAME, OBJECT, |opened| {
        for mut program in opened.progs_mut() {
            let is_it = program.name() == name;
            program.set_autoload(is_it);
        }
        for mut map in opened.maps_mut() {
            let ours = map.name().to_string_lossy().into_owned();
            if let Some((_, handle)) = maps.iter().find(|(theirs, _)| same_map(&ours, theirs)) {
                map.reuse_fd(handle.as_fd())?;
            }
        }
        Ok(())
    })?;
    object.program(name)
}

/// Whether the kernel's name of a map, which has at most 15 bytes, is that of an object file's.
pub(super) fn same_map(ours: &str, theirs: &str) -> bool {
    /// `BPF_OBJ_NAME_LEN` without the NUL.
    const NAME_BYTES_MAX: usize = 15;
    ours == theirs || (theirs.len() == NAME_BYTES_MAX && ours.starts_with(theirs))
}
