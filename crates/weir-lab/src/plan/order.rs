//! In which order the cells run.
//!
//! Interleaved: blocks, one for each iteration, each holding every series once in a random order.
//! Slow changes of the host (temperature, other load) then fall on every series alike instead of
//! on the last ones. A block depends on the seed, its number and the number of series alone:
//! asking for more iterations leaves the earlier blocks as they were.
//!
//! Where there are images, all cells of one come before those of the next: installing one takes
//! minutes.

use weir_results::matrix::{Campaign, Order, Series};
use weir_stats::shuffle::{SplitMix64, permutation};

use crate::model::Cell;
use crate::plan::cell;

/// Every cell of the campaign, in the order in which they run.
pub(crate) fn cells(campaign: &Campaign, series: &[Series]) -> Vec<Cell> {
    let iterations = 1..=campaign.iterations;
    let mut cells = Vec::new();
    let mut first = 0;
    for same_image in series.chunk_by(|a, b| a.image == b.image) {
        let one = |index: usize, iteration| cell(first + index, &series[first + index], iteration);
        match campaign.order {
            Order::Sequential => {
                cells.extend((0..same_image.len()).flat_map(|index| {
                    iterations.clone().map(move |iteration| one(index, iteration))
                }));
            }
            Order::Interleaved => cells.extend(iterations.clone().flat_map(|iteration| {
                let block = block(campaign.seed, iteration, same_image.len());
                block.into_iter().map(move |index| one(index, iteration))
            })),
        }
        first += same_image.len();
    }
    cells
}

/// The series of one block, in the order in which they run.
fn block(seed: u64, iteration: u32, series_count: usize) -> Vec<usize> {
    permutation(series_count, block_seed(seed, iteration))
}

/// A seed of its own for every block. The shuffle's generator steps its state by a constant, so
/// that a plain sum of seed and block could make one block a shifted copy of another; its output
/// has no such structure.
fn block_seed(seed: u64, iteration: u32) -> u64 {
    let seed = SplitMix64::new(seed).next_u64();
    SplitMix64::new(seed ^ u64::from(iteration)).next_u64()
}
