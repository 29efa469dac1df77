//! Where in the state table something is to be sent: slots with a mark, and, for a bulk, all of
//! them. It reads control words and times, and changes nothing.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{self, Slots, state};

/// Everything is looked at so often, whatever hints say, but while a bulk is under way.
const FULL: Duration = Duration::from_secs(10);
/// States that nobody has answered wait for so long.
const YOUNG_TICKS: u32 = 60;
/// And then so many of them are sent in one look.
const OLD_COUNT_MAX: u32 = 512;

const PIECE_SLOTS: u32 = 1 << layout::DIRTY_SHIFT;

/// What a slot has for another firewall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// A state that is marked, or not.
    State {
        is_dirty: bool,
    },
    /// The same without an answer, for a while or for longer.
    Unanswered {
        is_dirty: bool,
        is_young: bool,
    },
    Nothing,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) slots: Vec<u32>,
    /// Marked states that wait.
    pub(super) waiting_count: u64,
}

/// Which slots can be records.
#[derive(Debug, Clone, Copy)]
struct Table {
    ready: Slots,
    behind: u32,
    states_at: u32,
}

impl Table {
    fn of(firewall: &Firewall) -> Self {
        let regions = firewall.regions();
        let (behind, states_at) = (regions.sizes.bucket_count, regions.states.at);
        Self { ready: firewall.ready(), behind, states_at }
    }

    fn has(&self, slot: u32) -> bool {
        slot < self.ready.bucket_count || slot.wrapping_sub(self.behind) < self.ready.overflow_count
    }

    fn find(&self, firewall: &Firewall, slot: u32, now: u32) -> Found {
        let at = self.states_at + slot * state::SIZE_BYTES;
        let word = |field: u32| firewall.arena().word32(at + field).load(Ordering::Relaxed);
        let control = word(state::CONTROL);
        if control & layout::STATE_LIVE == 0 || control & layout::STATE_ALIAS != 0 {
            return Found::Nothing;
        }
        let is_dirty = control & layout::STATE_DIRTY != 0;
        if control & layout::STATE_FIRST == 0 {
            return Found::State { is_dirty };
        }
        let age = now.wrapping_sub(word(state::LAST_TICK)).cast_signed();
        let is_young = age < YOUNG_TICKS.cast_signed();
        Found::Unanswered { is_dirty, is_young }
    }
}

/// Looks for marks.
#[derive(Debug)]
pub(super) struct Scanner {
    /// Pieces of the table that are to be looked at.
    pieces: BTreeSet<u32>,
    /// When everything was looked at; `None`: a bulk does it.
    full_at: Option<Instant>,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self { pieces: BTreeSet::new(), full_at: Some(Instant::now()) }
    }

    /// A bulk begins, which passes what is marked so far: only what changes from now on is found
    /// until it ends.
    pub(super) fn begin_bulk(&mut self, firewall: &Firewall) {
        firewall.take_hints(|_| {});
        self.pieces.clear();
        self.full_at = None;
    }

    /// A bulk has ended. What it left out is to be found: everything is looked at once.
    pub(super) fn end_bulk(&mut self, firewall: &Firewall) {
        self.look_everywhere(firewall);
    }

    fn look_everywhere(&mut self, firewall: &Firewall) {
        self.full_at = Some(Instant::now());
        let last = firewall.regions().dirty.bytes;
        self.pieces.extend(0..u32::try_from(last).unwrap_or(u32::MAX));
    }

    /// The slots that are marked and due at a tick, at most about so many.
    pub(super) fn look(&mut self, firewall: &Firewall, now: u32, count_max: usize) -> Due {
        firewall.take_hints(|piece| {
            self.pieces.insert(piece);
        });
        if self.full_at.is_some_and(|at| at.elapsed() >= FULL) {
            self.look_everywhere(firewall);
        }
        let (table, mut due, mut old_count) = (Table::of(firewall), Due::default(), 0);
        let mut again = BTreeSet::new();
        for piece in std::mem::take(&mut self.pieces) {
            if due.slots.len() >= count_max {
                again.insert(piece);
                continue;
            }
            let first = piece * PIECE_SLOTS;
            let slots = (first..first.saturating_add(PIECE_SLOTS)).filter(|slot| table.has(*slot));
            for slot in slots {
                match table.find(firewall, slot, now) {
                    Found::State { is_dirty: true } => due.slots.push(slot),
                    Found::Unanswered { is_dirty: true, is_young: false }
                        if old_count < OLD_COUNT_MAX =>
                    {
                        old_count += 1;
                        due.slots.push(slot);
                    }
                    Found::Unanswered { is_dirty: true, .. } => {
                        due.waiting_count += 1;
                        again.insert(piece);
                    }
                    _ => {}
                }
            }
        }
        self.pieces = again;
        due
    }

    /// What was due and was not copied, is due again.
    pub(super) fn put_back(&mut self, slots: &[u32]) {
        self.pieces.extend(slots.iter().map(|slot| slot / PIECE_SLOTS));
    }
}

/// Goes once through all slots.
#[derive(Debug)]
pub(super) struct Bulk {
    at: u32,
}

impl Bulk {
    pub(super) const fn new() -> Self {
        Self { at: 0 }
    }

    /// States of the next slots, about so many; none at the end.
    pub(super) fn look(&mut self, firewall: &Firewall, now: u32, count_max: usize) -> Vec<u32> {
        let table = Table::of(firewall);
        let mut slots = Vec::with_capacity(count_max);
        while slots.len() < count_max {
            if self.at >= table.ready.bucket_count && self.at < table.behind {
                self.at = table.behind;
            }
            if !table.has(self.at) {
                break;
            }
            match table.find(firewall, self.at, now) {
                // It is marked, and waits as any other.
                Found::Unanswered { is_young: true, .. } | Found::Nothing => {}
                _ => slots.push(self.at),
            }
            self.at += 1;
        }
        slots
    }

    /// How much of the table is passed.
    pub(super) fn percent(&self, firewall: &Firewall) -> u8 {
        let table = Table::of(firewall);
        let passed = match self.at.checked_sub(table.behind) {
            Some(overflow) => table.ready.bucket_count.saturating_add(overflow),
            None => self.at,
        };
        let all = u64::from(table.ready.bucket_count) + u64::from(table.ready.overflow_count);
        u8::try_from(u64::from(passed) * 100 / all.max(1)).unwrap_or(100).min(100)
    }
}
