//! Finds programs of a firewall that runs already, and their memory: a restarted daemon, and every
//! command that only looks, go this way. A program on an interface leads to its maps, and the
//! arena's first page says the rest.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::OnceLock;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore as _, MapHandle, MapType};

use super::index::Moving;
use super::layout::{Regions, Sizes, control};
use super::{
    ARENA_MAP, Arena, ArenaError, CHANGES_MAP, COUNTED_MAP, DEFERRED_MAP, EVENTS_MAP, EXITS_MAP,
    FRAGMENTS_MAP, Firewall, INGRESS, LOG_MAP, OVERLOADS_MAP, SECOND, SOURCES_MAP, SWEEP, USES_MAP,
    attached_names,
};
use super::{attach, layout, load, tcx};
use crate::object::LoadError;
use crate::sys;

/// Why a running firewall could not be adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The kernel could not be asked about interfaces, programs or maps.
    #[error("cannot inspect the programs of the running firewall: {0}")]
    Query(io::Error),
    /// The programs are of another version of weir.
    #[error(
        "the running firewall has layout {found}, and this weir knows {known}: use the weir that \
         started it, or stop it (`weir fw stop`) and start it again"
    )]
    Version {
        /// Version of the running programs' layout; 0: none at all.
        found: u32,
        /// The version that this crate knows.
        known: u32,
    },
    /// The programs are there, but not the maps that belong to them.
    #[error("the running firewall is damaged ({0}): stop it (`weir fw stop`) and start it again")]
    Damaged(&'static str),
    /// The arena could not be mapped.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The sweeping program could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

pub(super) const MISSING: AdoptError = AdoptError::Damaged("a program is missing");

/// What the kernel says of a program.
struct Found {
    id: u32,
    name: String,
    map_ids: Vec<u32>,
}

fn programs() -> Vec<Found> {
    ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true))
        .map(|info| Found {
            id: info.id,
            name: info.name.to_string_lossy().into_owned(),
            map_ids: info.map_ids,
        })
        .collect()
}

/// The kernel's name of a program or map has at most 15 bytes.
fn named(found: &str, ours: &str) -> bool {
    load::same_map(ours, found)
}

/// Maps of a program, by name.
fn maps(ids: &[u32]) -> Result<Vec<(String, MapHandle)>, AdoptError> {
    ids.iter()
        .map(|id| {
            let map = MapHandle::from_map_id(*id)
                .map_err(|error| AdoptError::Query(io::Error::other(error.to_string())))?;
            Ok((map.name().to_string_lossy().into_owned(), map))
        })
        .collect()
}

fn take(maps: &[(String, MapHandle)], map_name: &str) -> Result<Option<MapHandle>, AdoptError> {
    let found = maps.iter().find(|(name, _)| load::same_map(map_name, name));
    found
        .map(|(_, map)| MapHandle::try_from(map))
        .transpose()
        .map_err(|error| AdoptError::Query(io::Error::other(error.to_string())))
}

impl Firewall {
    /// The firewall of which a program is on one of these interfaces of the calling thread's
    /// network namespace; `None` if there is none. Interfaces that have gone are passed over.
    ///
    /// # Errors
    /// [`AdoptError`] if there is one, but it cannot be looked at.
    pub fn adopt(ifindexes: &[u32]) -> Result<Option<Self>, AdoptError> {
        let all = programs();
        let is_ours = |found: &&Found| attached_names().any(|name| named(&found.name, name));
        for &ifindex in ifindexes {
            let ids = match attach::program_ids(ifindex) {
                Ok(ids) => ids,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(AdoptError::Query(error)),
            };
            let ours = all.iter().filter(is_ours).find(|found| ids.contains(&found.id));
            if let Some(found) = ours {
                return Self::adopt_program(found, &all).map(Some);
            }
        }
        Ok(None)
    }

    /// On which of these interfaces of the calling thread's network namespace there is a program of
    /// a firewall, whichever version of weir put it there.
    ///
    /// # Errors
    /// [`AdoptError`] if the kernel cannot be asked.
    pub fn filtered(ifindexes: &[u32]) -> Result<Vec<u32>, AdoptError> {
        let all = programs();
        let is_ours = |id: u32, name: &str| {
            all.iter().any(|program| program.id == id && named(&program.name, name))
        };
        let mut filtered = Vec::new();
        for &ifindex in ifindexes {
            match attach::has(ifindex, &is_ours) {
                Ok(true) => filtered.push(ifindex),
                Ok(false) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(AdoptError::Query(error)),
            }
        }
        Ok(filtered)
    }

    /// Takes a firewall's programs off these interfaces of the calling thread's network namespace,
    /// whichever version of weir put them there: their names are all that is looked at, and memory
    /// that is damaged or foreign is no hindrance. Interfaces that have gone are passed over. Tells
    /// whether any program was there.
    ///
    /// # Errors
    /// [`AdoptError`] if the kernel cannot be asked, or refuses.
    pub fn remove(ifindexes: &[u32]) -> Result<bool, AdoptError> {
        let all = programs();
        let is_ours = |id: u32, name: &str| {
            all.iter().any(|program| program.id == id && named(&program.name, name))
        };
        let mut was_there = false;
        for &ifindex in ifindexes {
            match attach::remove(ifindex, &is_ours) {
                Ok(was_here) => was_there |= was_here,
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(AdoptError::Query(error)),
            }
        }
        Ok(was_there)
    }

    /// Loads a program that was not needed so far, over the memory of the others.
    pub(super) fn load_late(&self, name: &str) -> Result<OwnedFd, AdoptError> {
        Ok(load::load_again(name, &self.maps()?)?)
    }

    /// The maps of the ingress program, by name.
    fn maps(&self) -> Result<Vec<(String, MapHandle)>, AdoptError> {
        let all = programs();
        let ingress = all.iter().find(|found| found.id == self.ingress_id);
        maps(&ingress.ok_or(MISSING)?.map_ids)
    }

    fn adopt_program(found: &Found, all: &[Found]) -> Result<Self, AdoptError> {
        let maps = maps(&found.map_ids)?;
        let arena = take(&maps, ARENA_MAP)?.ok_or(AdoptError::Damaged("no arena"))?;
        let arena_id =
            arena.info().map_err(|error| AdoptError::Query(io::Error::other(error.to_string())))?;
        let arena_id = arena_id.info.id;
        if arena.map_type() != MapType::Arena {
            return Err(AdoptError::Damaged("its memory is not an arena"));
        }
        let running = |name: &str| {
            all.iter().find(|found| named(&found.name, name) && found.map_ids.contains(&arena_id))
        };
        let arena = Arena::new(&arena)?;
        // Before the other maps, of which another version may have others.
        let regions = regions(&arena)?;
        let (ingress, maps) = match running(INGRESS) {
            Some(found) => (fd_of(found)?, self::maps(&found.map_ids)?),
            None => ingress_again(&maps)?,
        };
        let ingress_id = sys::program_id(ingress.as_fd()).map_err(AdoptError::Query)?;
        let exits = take(&maps, EXITS_MAP)?.ok_or(AdoptError::Damaged("no exits"))?;
        let log = take(&maps, LOG_MAP)?.ok_or(AdoptError::Damaged("no ring buffer"))?;
        let overloads = take(&maps, OVERLOADS_MAP)?.ok_or(AdoptError::Damaged("no overloads"))?;
        let events = take(&maps, EVENTS_MAP)?.ok_or(AdoptError::Damaged("no ring of events"))?;
        let changes = take(&maps, CHANGES_MAP)?.ok_or(AdoptError::Damaged("no ring of changes"))?;
        let deferred =
            take(&maps, DEFERRED_MAP)?.ok_or(AdoptError::Damaged("no ring of what waits"))?;
        let sources = take(&maps, SOURCES_MAP)?.ok_or(AdoptError::Damaged("no sources"))?;
        let counted = take(&maps, COUNTED_MAP)?.ok_or(AdoptError::Damaged("no counters"))?;
        let fragments = take(&maps, FRAGMENTS_MAP)?.ok_or(AdoptError::Damaged("no fragments"))?;
        let uses = take(&maps, USES_MAP)?.ok_or(AdoptError::Damaged("no uses of addresses"))?;
        // What is attached nowhere, and at no exit, went with the process that loaded it.
        let sweep = load::load_again(SWEEP, &maps)?;
        let second = match running(SECOND) {
            Some(found) => OnceLock::from(fd_of(found)?),
            None => OnceLock::new(),
        };
        let programs = tcx::Programs::default();
        for name in tcx::names() {
            if let Some(found) = running(name) {
                programs.add(name, fd_of(found)?).map_err(AdoptError::Query)?;
            }
        }
        Ok(Self {
            ingress,
            ingress_id,
            tcx: programs,
            second,
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

/// The ingress program with its maps, where no interface has XDP: it went with the process that
/// loaded it, and so did those of its maps that no other program has.
fn ingress_again(
    theirs: &[(String, MapHandle)],
) -> Result<(OwnedFd, Vec<(String, MapHandle)>), AdoptError> {
    let ingress = load::load_again(INGRESS, theirs)?;
    let id = sys::program_id(ingress.as_fd()).map_err(AdoptError::Query)?;
    let found = programs().into_iter().find(|found| found.id == id).ok_or(MISSING)?;
    Ok((ingress, maps(&found.map_ids)?))
}

/// A handle to a program.
fn fd_of(found: &Found) -> Result<OwnedFd, AdoptError> {
    attach::program(found.id).map_err(AdoptError::Query)
}

/// Whether an interface has gone since its index was read.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO | libc::ENOENT))
}

/// The regions as the control page describes them.
fn regions(arena: &Arena) -> Result<Regions, AdoptError> {
    let known = layout::LAYOUT_VERSION;
    if arena.read32(control::MAGIC) != layout::MAGIC {
        return Err(AdoptError::Version { found: 0, known });
    }
    let found = arena.read32(control::VERSION);
    if found != known {
        return Err(AdoptError::Version { found, known });
    }
    let regions = Regions::plan(Sizes {
        bucket_count: arena.read32(control::BUCKET_COUNT),
        overflow_count: arena.read32(control::OVERFLOW_COUNT),
        heap_bytes: arena.read32(control::HEAP_BYTES),
        cpu_count: arena.read32(control::CPU_COUNT),
    });
    let regions = regions.ok_or(AdoptError::Damaged("its regions do not fit its memory"))?;
    let same = regions.states.at == arena.read32(control::STATES_AT)
        && regions.dirty.at == arena.read32(control::DIRTY_AT)
        && regions.accounts.at == arena.read32(control::ACCOUNTS_AT)
        && regions.heap.at == arena.read32(control::HEAP_AT);
    if same { Ok(regions) } else { Err(AdoptError::Damaged("its regions are elsewhere")) }
}
