//! Whether two collections are from hosts that were equally fast, by their yardsticks.
//!
//! A host that was not takes the proof out of every loss: it may be the host's.

use crate::collection::Collection;
use crate::number;
use crate::yardstick::{Change, HOST_DIFFERS_MIN};

/// How the host of a collection differs from the baseline's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostChange {
    /// Number of the collection, from 1.
    pub other_index: usize,
    /// By how much.
    pub change: Change,
}

/// Those that are known.
pub(super) fn changes(collections: &[Collection]) -> Vec<HostChange> {
    let Some((baseline, others)) = collections.split_first() else { return Vec::new() };
    let change = |(index, other): (usize, &Collection)| {
        let change = Change::between(&baseline.yardsticks, &other.yardsticks)?;
        Some(HostChange { other_index: index + 1, change })
    };
    others.iter().enumerate().filter_map(change).collect()
}

impl HostChange {
    /// The change in words, with what follows from it.
    pub(super) fn line(&self, collections: &[Collection]) -> String {
        let name = |index: usize| collections.get(index).map_or("", |c| c.name.as_str());
        let pace = |ratio: f64, place: &str| {
            let way = if ratio < 0.0 { "faster" } else { "slower" };
            format!("{} {way} {place}", number::share(ratio.abs()))
        };
        let Change { xdp_ratio, memory_ratio } = self.change;
        let what = format!(
            "the host of {} was {} and {} than that of {}",
            name(self.other_index),
            pace(xdp_ratio, "in a CPU's cache"),
            pace(memory_ratio, "in memory"),
            name(0),
        );
        if !self.change.is_another_machine() {
            return format!("By their yardsticks, {what}.");
        }
        format!(
            "The host differs: {what}, which is more than {}. A difference between series may be \
             the host's, and no regression is proven; measure both again on one quiet host.",
            number::percent(HOST_DIFFERS_MIN)
        )
    }
}
