//! Whether two collections are from hosts that were equally fast, by their yardsticks.
//!
//! A host that was not takes the proof out of every difference: it may be the host's.

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

/// Whether the host of that collection differs from the baseline's.
pub(super) fn differs(hosts: &[HostChange], other_index: usize) -> bool {
    hosts.iter().any(|host| host.other_index == other_index && host.change.is_another_machine())
}

impl HostChange {
    /// The change in words, with what follows from it.
    pub(super) fn line(&self, collections: &[Collection]) -> String {
        let name = |index: usize| collections.get(index).map_or("", |c| c.name.as_str());
        let pace = |ratio: f64, place: &str| {
            let size = number::share(ratio.abs());
            let way = if ratio < 0.0 { "faster" } else { "slower" };
            if ratio == 0.0 { format!("as fast {place}") } else { format!("{size} {way} {place}") }
        };
        let Change { xdp_ratio, memory_ratio } = self.change;
        let (other, baseline) = (name(self.other_index), name(0));
        if xdp_ratio == 0.0 && memory_ratio == 0.0 {
            return format!(
                "By their yardsticks, the hosts of {other} and {baseline} were equally fast."
            );
        }
        let what = format!(
            "compared with that of {baseline}, the host of {other} was {} and {}",
            pace(xdp_ratio, "in a CPU's cache"),
            pace(memory_ratio, "in memory"),
        );
        if !self.change.is_another_machine() {
            return format!("By their yardsticks, {what}.");
        }
        format!(
            "The host differs: {what}, which is more than {}. A difference between series may be \
             the host's, so that none is judged; measure both again on one quiet host.",
            number::percent(HOST_DIFFERS_MIN)
        )
    }
}
