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

/// The moves that bring the busiest queue below the bound, or as near as moves can. `loads` has
/// one value for each bucket of the table, in any unit.
///
/// # Panics
///
/// If there are not as many loads as buckets, or the table names a queue that does not exist.
#[must_use]
pub fn moves(loads: &[u64], table: &Table, queue_count: u16, bounds: Bounds) -> Vec<Move> {
    assert_eq!(loads.len(), table.bucket_count(), "one load for each bucket");
    let mut table = table.clone();
    let mut queues = queue_loads(loads, &table, queue_count);
    let mut moves = Vec::new();
    while moves.len() < bounds.moves_max {
        let Some((from, heaviest)) = extreme(&queues, |a, b| a > b) else { break };
        let Some((to, lightest)) = extreme(&queues, |a, b| a < b) else { break };
        if ratio(heaviest, &queues) <= bounds.heaviest_ratio {
            break;
        }
        let gap = heaviest - lightest;
        // What leaves the two queues as equal as it can, the lighter of two; a bucket as heavy as
        // the gap changes nothing but names.
        let candidates = (0..loads.len()).filter(|bucket| {
            table.queue(*bucket) == from && loads[*bucket] > 0 && loads[*bucket] < gap
        });
        let Some(bucket) =
            candidates.min_by_key(|bucket| ((2 * loads[*bucket]).abs_diff(gap), loads[*bucket]))
        else {
            break;
        };
        table.assign(bucket, to);
        queues[usize::from(from)] -= loads[bucket];
        queues[usize::from(to)] += loads[bucket];
        moves.push(Move { bucket, from, to });
    }
    moves
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
