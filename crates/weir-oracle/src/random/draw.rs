//! Chance that a seed repeats.

use weir_wire::random::{below, halves, splitmix64};

/// Numbers drawn one after the other.
#[derive(Debug, Clone)]
pub(super) struct Draw {
    seed: u64,
    position: u64,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, position: 0 }
    }

    /// A number below `count`, which is not 0.
    pub(super) fn below(&mut self, count: u32) -> u32 {
        let drawn = halves(splitmix64(self.seed, self.position)).0;
        self.position += 1;
        u32::try_from(below(count.into(), drawn)).unwrap_or(0)
    }

    /// Whether something happens that does in `percent` of a hundred cases.
    pub(super) fn happens(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of a list, which is not empty.
    pub(super) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        let count = u32::try_from(list.len()).unwrap_or(u32::MAX);
        list[self.below(count) as usize]
    }
}
