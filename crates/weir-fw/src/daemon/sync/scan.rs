//! Where in the state table something is to be sent: slots with a mark, and, for a bulk, all of
//! them. It reads control words and times, and changes nothing.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{self, Slots, state};

/// Everything is looked at so often, whatever hints say, but while a bulk is under way.
const FULL: Duration = Duration::from_secs(10);
/// So many slots of it in one look: what has changed does not wait for the rest.
const FULL_SLOTS: u32 = 1 << 16;
/// States that nobody has answered wait for so long.
const YOUNG_TICKS: u32 = 60;
/// Where such wait is looked at so often, in parts.
const WAITING: Duration = Duration::from_secs(1);
const WAITING_PIECES: usize = 1 << 12;
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
    /// What the look cost whether something has changed or not.
    pub(super) cost: Duration,
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

/// Pieces of the table: a bit for each.
#[derive(Debug, Default)]
struct Pieces(Vec<u64>);

impl Pieces {
    /// Whether it was not there.
    fn insert(&mut self, piece: u32) -> bool {
        let (word, bit) = (piece as usize / 64, 1 << (piece % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    fn extend(&mut self, pieces: impl Iterator<Item = u32>) {
        pieces.for_each(|piece| {
            self.insert(piece);
        });
    }

    /// In ascending order.
    fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).step_by(64).zip(&self.0).flat_map(|(first, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(first + bit)
            })
        })
    }
}

/// Pieces with states that wait. They are looked at again in turn, so few at a time that nothing
/// else is late for them.
#[derive(Debug, Default)]
struct Waiting {
    /// Those of this turn, from the next one on, and those of the turn after.
    turn: std::vec::IntoIter<u32>,
    next: Pieces,
    began: Option<Instant>,
    /// About so many states, also some that wait no more.
    state_count: u64,
    next_count: u64,
}

impl Waiting {
    /// States of a piece are looked at in the next turn.
    fn add(&mut self, piece: u32, state_count: u64) {
        if self.next.insert(piece) {
            self.next_count += state_count;
        }
        self.state_count = self.state_count.max(self.next_count);
    }

    /// Adds the pieces to `pieces` whose turn it is.
    fn due(&mut self, now: Instant, pieces: &mut Pieces) {
        let is_over = self.turn.len() == 0;
        if is_over && self.began.is_none_or(|began| now - began >= WAITING) {
            let next: Vec<u32> = std::mem::take(&mut self.next).iter().collect();
            (self.turn, self.began) = (next.into_iter(), Some(now));
            self.state_count = std::mem::take(&mut self.next_count);
        }
        pieces.extend(self.turn.by_ref().take(WAITING_PIECES));
    }
}

/// Looks for marks.
#[derive(Debug)]
pub(super) struct Scanner {
    /// States that nobody has answered are due at once.
    defers: bool,
    /// Pieces of the table that are to be looked at.
    pieces: Pieces,
    /// Pieces with states that wait: in a flood, most of the table.
    waiting: Waiting,
    /// The next piece while everything is looked at, in parts; all before it are in `pieces`.
    everywhere: Option<u32>,
    /// When that began; `None`: a bulk does it.
    full_at: Option<Instant>,
}

impl Scanner {
    pub(super) fn new(defers: bool) -> Self {
        let (pieces, full_at) = (Pieces::default(), Some(Instant::now()));
        Self { defers, pieces, waiting: Waiting::default(), everywhere: None, full_at }
    }

    /// A bulk begins, which passes what is marked so far: only what changes from now on, and what
    /// it leaves out ([`Self::put_back`]), is found until it ends.
    pub(super) fn begin_bulk(&mut self, firewall: &Firewall) {
        firewall.take_hints(|_| {});
        (self.pieces, self.waiting) = (Pieces::default(), Waiting::default());
        (self.everywhere, self.full_at) = (None, None);
    }

    pub(super) fn end_bulk(&mut self) {
        self.full_at = Some(Instant::now());
    }

    /// The slots that are marked and due at a tick, at most about so many.
    pub(super) fn look(&mut self, firewall: &Firewall, now: u32, count_max: usize) -> Due {
        let began = Instant::now();
        firewall.take_hints(|piece| {
            self.pieces.insert(piece);
        });
        let mut due = Due { cost: began.elapsed(), ..Due::default() };
        if self.full_at.is_some_and(|at| at.elapsed() >= FULL) {
            (self.everywhere, self.full_at) = (Some(0), Some(Instant::now()));
        }
        if let Some(first) = self.everywhere {
            let all = u32::try_from(firewall.regions().dirty.bytes).unwrap_or(u32::MAX);
            let end = first.saturating_add(FULL_SLOTS / PIECE_SLOTS).min(all);
            self.pieces.extend(first..end);
            self.everywhere = (end < all).then_some(end);
        }
        self.waiting.due(Instant::now(), &mut self.pieces);
        let (table, mut old_count) = (Table::of(firewall), 0);
        let mut again = Pieces::default();
        for piece in std::mem::take(&mut self.pieces).iter() {
            if due.slots.len() >= count_max {
                again.insert(piece);
                continue;
            }
            let mut waiting_count = 0;
            let first = piece * PIECE_SLOTS;
            let slots = (first..first.saturating_add(PIECE_SLOTS)).filter(|slot| table.has(*slot));
            for slot in slots {
                match table.find(firewall, slot, now) {
                    Found::State { is_dirty: true } => due.slots.push(slot),
                    Found::Unanswered { is_dirty: true, is_young }
                        if (self.defers || !is_young) && old_count < OLD_COUNT_MAX =>
                    {
                        old_count += 1;
                        due.slots.push(slot);
                    }
                    Found::Unanswered { is_dirty: true, .. } => waiting_count += 1,
                    _ => {}
                }
            }
            if waiting_count > 0 {
                self.waiting.add(piece, waiting_count);
            }
        }
        due.waiting_count = self.waiting.state_count;
        self.pieces = again;
        due
    }

    /// What stands there was not copied, and is looked at again.
    pub(super) fn put_back(&mut self, slots: &[u32]) {
        self.pieces.extend(slots.iter().map(|slot| slot / PIECE_SLOTS));
    }
}

/// Slots that a bulk looks at before changes have their turn again.
const BULK_LOOKED_MAX: u32 = 1 << 16;

/// Goes once through all slots.
#[derive(Debug)]
pub(super) struct Bulk {
    at: u32,
}

impl Bulk {
    pub(super) const fn new() -> Self {
        Self { at: 0 }
    }

    /// States of some of the next slots, about so many at most; `None` at the end. Those that wait
    /// are left to the scanner.
    pub(super) fn look(
        &mut self,
        firewall: &Firewall,
        now: u32,
        count_max: usize,
        scanner: &mut Scanner,
    ) -> Option<Vec<u32>> {
        let table = Table::of(firewall);
        let (mut slots, mut waiting) = (Vec::with_capacity(count_max), Vec::new());
        for _ in 0..BULK_LOOKED_MAX {
            if !self.is_at_slot(&table) || slots.len() >= count_max {
                break;
            }
            match table.find(firewall, self.at, now) {
                // It is marked, and waits as any other.
                Found::Unanswered { is_young: true, .. } => waiting.push(self.at),
                Found::Nothing => {}
                _ => slots.push(self.at),
            }
            self.at += 1;
        }
        scanner.put_back(&waiting);
        (!slots.is_empty() || self.is_at_slot(&table)).then_some(slots)
    }

    /// Whether there is a next slot: those behind follow the last bucket that is in use.
    fn is_at_slot(&mut self, table: &Table) -> bool {
        if self.at >= table.ready.bucket_count && self.at < table.behind {
            self.at = table.behind;
        }
        table.has(self.at)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_there_once_and_in_order() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.iter().next(), None);
        pieces.extend([700, 63, 0, 64, 63, 1].into_iter());
        assert_eq!(pieces.iter().collect::<Vec<_>>(), [0, 1, 63, 64, 700]);
    }

    #[test]
    fn pieces_that_wait_have_their_turn_in_parts_and_once_a_second() {
        let (mut waiting, begin) = (Waiting::default(), Instant::now());
        let count = u32::try_from(WAITING_PIECES).unwrap() + 10;
        let due = |waiting: &mut Waiting, after_ms| {
            let mut pieces = Pieces::default();
            waiting.due(begin + Duration::from_millis(after_ms), &mut pieces);
            pieces.iter().collect::<Vec<_>>()
        };
        (0..count).for_each(|piece| waiting.add(piece, 2));
        waiting.add(0, 2);
        assert_eq!(waiting.state_count, 2 * u64::from(count));
        assert_eq!(due(&mut waiting, 0).len(), WAITING_PIECES);
        waiting.add(7, 1);
        assert_eq!(due(&mut waiting, 1).len(), 10);
        assert_eq!(due(&mut waiting, 999), [0; 0]);
        assert_eq!((due(&mut waiting, 1000), waiting.state_count), (vec![7], 1));
        assert_eq!((due(&mut waiting, 2000), waiting.state_count), (vec![], 0));
    }
}
