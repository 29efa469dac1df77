//! Moving buckets from busy queues to idle ones, few at a time.
//!
//! A bucket that moves takes its flows to another CPU, where their packets may overtake those
//! still queued on the old one, and caches are cold. So only as many move as are needed for a
//! bound on the busiest queue, the best move first. A bucket that is alone too heavy for the bound
//! cannot be helped by moving it: its flows would have to be split.

use alloc::vec;
use alloc::vec::Vec;

use super::table::{Move, Table};

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The load of the busiest queue divided by the mean, at which nothing needs to move: above 1.
    pub heaviest_ratio: f64,
    /// Most buckets that may move.
    pub moves_max: usize,
}

/// The load of the busiest queue divided by the mean of all `queue_count` queues; 1 without load.
#[must_use]
pub fn heaviest_ratio(loads: &[u64], table: &Table, queue_count: u16) -> f64 {
    let queues = queue_loads(loads, table, queue_count);
    ratio(queues.iter().copied().max().unwrap_or(0), &queues)
}

/// The moves that bring the busiest queue below the bound, or as near as moves can: the fewest if
/// [`SEARCHED_MOVES`] are enough and the table is not too large to try them all; else the best move
/// first, and two buckets change places where no single one helps. `loads` has one value for each
/// bucket of the table, in any unit.
///
/// # Panics
///
/// If there are not as many loads as buckets, or the table names a queue that does not exist.
#[must_use]
pub fn moves(loads: &[u64], table: &Table, queue_count: u16, bounds: Bounds) -> Vec<Move> {
    assert_eq!(loads.len(), table.bucket_count(), "one load for each bucket");
    let mut plan = Plan {
        loads,
        table: table.clone(),
        queue_count,
        queues: queue_loads(loads, table, queue_count),
        moves: Vec::new(),
        bounds,
        tries_left: TRIES_MAX,
    };
    for count in 0..=bounds.moves_max.min(SEARCHED_MOVES) {
        if plan.search(count) {
            return plan.moves;
        }
    }
    while plan.moves.len() < bounds.moves_max && !plan.is_done() {
        if !plan.shift() && !plan.swap() {
            break;
        }
    }
    plan.moves
}

/// All ways to move so few buckets are tried, as long as these are no more than [`TRIES_MAX`].
pub const SEARCHED_MOVES: usize = 3;
const TRIES_MAX: u32 = 200_000;

/// Moves, and how the queues are after them.
struct Plan<'a> {
    loads: &'a [u64],
    table: Table,
    queue_count: u16,
    queues: Vec<u64>,
    moves: Vec<Move>,
    bounds: Bounds,
    tries_left: u32,
}

impl Plan<'_> {
    fn is_done(&self) -> bool {
        let heaviest = self.queues.iter().copied().max().unwrap_or(0);
        ratio(heaviest, &self.queues) <= self.bounds.heaviest_ratio
    }

    fn assign(&mut self, bucket: usize, to: u16) {
        let from = self.table.queue(bucket);
        self.queues[usize::from(from)] -= self.loads[bucket];
        self.queues[usize::from(to)] += self.loads[bucket];
        self.table.assign(bucket, to);
        self.moves.push(Move { bucket, from, to });
    }

    fn take_back(&mut self) {
        if let Some(Move { bucket, from, .. }) = self.moves.last().copied() {
            self.assign(bucket, from);
            self.moves.truncate(self.moves.len() - 2);
        }
    }

    /// Buckets of a queue that have a load and were not moved yet.
    fn buckets(&self, queue: u16) -> Vec<usize> {
        let is_moved = |bucket| self.moves.iter().any(|one: &Move| one.bucket == bucket);
        (0..self.loads.len())
            .filter(|bucket| self.table.queue(*bucket) == queue && self.loads[*bucket] > 0)
            .filter(|bucket| !is_moved(*bucket))
            .collect()
    }

    /// Whether so many moves more are enough; then they are made. The busiest queue has to lose a
    /// bucket in any way that is enough, and each bucket moves once at most.
    fn search(&mut self, count: usize) -> bool {
        if self.is_done() {
            return true;
        }
        let Some((from, _)) = extreme(&self.queues, |a, b| a > b) else { return true };
        if count == 0 {
            return false;
        }
        for bucket in self.buckets(from) {
            for to in (0..self.queue_count).filter(|to| *to != from) {
                if self.tries_left == 0 {
                    return false;
                }
                self.tries_left -= 1;
                self.assign(bucket, to);
                if self.search(count - 1) {
                    return true;
                }
                self.take_back();
            }
        }
        false
    }

    /// Moves one bucket from the busiest queue to the idlest one; false if that helps nothing.
    fn shift(&mut self) -> bool {
        let Some((from, heaviest)) = extreme(&self.queues, |a, b| a > b) else { return false };
        let Some((to, lightest)) = extreme(&self.queues, |a, b| a < b) else { return false };
        let gap = heaviest - lightest;
        // What leaves the two queues as equal as it can, the lighter of two; a bucket as heavy as
        // the gap changes nothing but names.
        let lighter = self.buckets(from).into_iter().filter(|bucket| self.loads[*bucket] < gap);
        let best =
            lighter.min_by_key(|one| ((2 * self.loads[*one]).abs_diff(gap), self.loads[*one]));
        if let Some(bucket) = best {
            self.assign(bucket, to);
        }
        best.is_some()
    }

    /// Has a bucket of the busiest queue and a lighter one of another queue change places; false if
    /// no two make the busier of both queues less busy, or two moves are too many.
    fn swap(&mut self) -> bool {
        let Some((from, heaviest)) = extreme(&self.queues, |a, b| a > b) else { return false };
        if self.moves.len() + 2 > self.bounds.moves_max {
            return false;
        }
        let mut best: Option<(u64, usize, usize)> = None;
        let leaving = self.buckets(from);
        for (other, load) in (0_u16..).zip(self.queues.iter().copied()) {
            if other == from {
                continue;
            }
            for coming in self.buckets(other) {
                for bucket in &leaving {
                    let (out, back) = (self.loads[*bucket], self.loads[coming]);
                    if out <= back {
                        continue;
                    }
                    let busier = (heaviest - out + back).max(load - back + out);
                    let is_better = best.is_none_or(|(least, ..)| busier < least);
                    if busier < heaviest && is_better {
                        best = Some((busier, *bucket, coming));
                    }
                }
            }
        }
        if let Some((_, bucket, coming)) = best {
            let to = self.table.queue(coming);
            self.assign(bucket, to);
            self.assign(coming, from);
        }
        best.is_some()
    }
}

fn queue_loads(loads: &[u64], table: &Table, queue_count: u16) -> Vec<u64> {
    let mut queues = vec![0; usize::from(queue_count)];
    for (load, queue) in loads.iter().zip(table.queues()) {
        queues[usize::from(*queue)] += load;
    }
    queues
}

/// The first queue whose load comes before all others.
fn extreme(queues: &[u64], before: impl Fn(u64, u64) -> bool) -> Option<(u16, u64)> {
    let numbered = (0_u16..).zip(queues.iter().copied());
    numbered.reduce(|best, next| if before(next.1, best.1) { next } else { best })
}

#[expect(clippy::cast_precision_loss, reason = "a ratio needs no more than 53 bits")]
fn ratio(heaviest: u64, queues: &[u64]) -> f64 {
    let sum: u64 = queues.iter().sum();
    if sum == 0 { 1.0 } else { heaviest as f64 * queues.len() as f64 / sum as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::splitmix64;

    const BOUNDS: Bounds = Bounds { heaviest_ratio: 1.05, moves_max: 64 };

    fn applied(table: &Table, moves: &[Move]) -> Table {
        let mut table = table.clone();
        for one in moves {
            assert_eq!(table.queue(one.bucket), one.from);
            table.assign(one.bucket, one.to);
        }
        table
    }

    /// Flows with loads as Zipf's law has them, spread over buckets at random.
    fn zipf(flow_count: u64, seed: u64) -> Vec<u64> {
        let mut loads = vec![0; 128];
        for flow in 0..flow_count {
            let bucket = usize::try_from(splitmix64(seed, flow) % 128).unwrap();
            loads[bucket] += 1_000_000 / (flow + 1);
        }
        loads
    }

    #[test]
    fn a_skewed_load_is_evened_out_by_few_moves() {
        let table = Table::equal(8, 128).unwrap();
        for seed in 0..20 {
            let loads = zipf(10_000, seed);
            let before = heaviest_ratio(&loads, &table, 8);
            let moves = moves(&loads, &table, 8, BOUNDS);
            let after = heaviest_ratio(&loads, &applied(&table, &moves), 8);
            assert!(after <= before && moves.len() <= 40, "{before} {after} {}", moves.len());
            // The heaviest flow is a tenth of all: its queue has no less than 0.8 of the mean.
            assert!(after <= 1.05, "seed {seed}: {before} -> {after}, {moves:?}");
        }
    }

    /// The fewest moves of all ways to place eight buckets.
    fn fewest(loads: &[u64], table: &Table, queue_count: u16) -> Option<usize> {
        let ways = usize::from(queue_count).pow(8);
        let changed = |way: usize| {
            let mut placed = table.clone();
            let mut rest = way;
            for bucket in 0..8 {
                let queue = u16::try_from(rest % usize::from(queue_count)).unwrap();
                placed.assign(bucket, queue);
                rest /= usize::from(queue_count);
            }
            let is_good = heaviest_ratio(loads, &placed, queue_count) <= BOUNDS.heaviest_ratio;
            let differs = |bucket: &usize| placed.queue(*bucket) != table.queue(*bucket);
            is_good.then(|| (0..8).filter(differs).count())
        };
        (0..ways).filter_map(changed).min()
    }

    #[test]
    fn as_few_move_as_can() {
        let mut searched = 0;
        for seed in 0..200_u64 {
            let queue_count = 2 + u16::try_from(seed % 2).unwrap();
            let table = Table::equal(queue_count, 8).unwrap();
            let load = |bucket| splitmix64(seed, bucket) % 20 * 10;
            let loads: Vec<u64> = (0..8).map(load).collect();
            let moves = moves(&loads, &table, queue_count, BOUNDS);
            let after = heaviest_ratio(&loads, &applied(&table, &moves), queue_count);
            let Some(count) = fewest(&loads, &table, queue_count) else { continue };
            if count <= SEARCHED_MOVES {
                searched += 1;
                assert!(after <= BOUNDS.heaviest_ratio, "{loads:?}: {after}, {moves:?}");
                assert_eq!(moves.len(), count, "{loads:?}");
            }
        }
        assert!(searched > 100, "{searched}");
    }

    #[test]
    fn buckets_change_places_where_none_can_go_alone() {
        let table = Table::equal(2, 8).unwrap();
        let loads = [80, 30, 100, 50, 200, 20, 80, 80];
        let bounds = Bounds { heaviest_ratio: 1.1, ..BOUNDS };
        let moves = moves(&loads, &table, 2, bounds);
        assert!(heaviest_ratio(&loads, &applied(&table, &moves), 2) <= 1.1, "{moves:?}");
        assert_eq!(moves.len(), 2);
    }

    #[test]
    fn what_is_even_or_cannot_be_helped_stays() {
        let table = Table::equal(4, 8).unwrap();
        assert!(moves(&[5; 8], &table, 4, BOUNDS).is_empty());
        assert!(moves(&[0; 8], &table, 4, BOUNDS).is_empty());
        // One elephant: moving it only moves the problem.
        assert!(moves(&[900, 0, 0, 0, 0, 0, 0, 0], &table, 4, BOUNDS).is_empty());
        // Its companion goes.
        let moved = moves(&[900, 0, 0, 0, 30, 0, 0, 0], &table, 4, BOUNDS);
        assert_eq!(moved, [Move { bucket: 4, from: 0, to: 1 }]);
    }

    #[test]
    fn no_more_move_than_allowed_and_idle_queues_take_part() {
        let table = Table::equal(1, 128).unwrap();
        let few = moves(&[10; 128], &table, 4, Bounds { moves_max: 5, ..BOUNDS });
        assert_eq!(few.len(), 5);
        let all = moves(&[10; 128], &table, 4, Bounds { moves_max: 128, ..BOUNDS });
        assert!(heaviest_ratio(&[10; 128], &applied(&table, &all), 4) <= 1.05);
        assert!(all.len() <= 96, "{} moves", all.len());
    }
}
