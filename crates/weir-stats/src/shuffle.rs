//! Orders that look random and can be computed again from their seed.
//!
//! The order of a campaign must not favour a DUT, and must be known afterwards. It is
//! reproducible by anybody, in any language:
//!
//! 1. *Numbers* come from splitmix64 (Steele, Lea and Flood, 2014). The state starts as the seed.
//!    Each number adds `0x9e3779b97f4a7c15` to the state, then mixes a copy `z` of it:
//!    `z = (z ^ z >> 30) × 0xbf58476d1ce4e5b9`, `z = (z ^ z >> 27) × 0x94d049bb133111eb`,
//!    `z ^ z >> 31`, all modulo 2^64.
//! 2. *A number below `bound`*, every one equally likely: draw `x`; if `x` is not under the
//!    largest multiple of `bound` that 64 bits hold, draw again; the result is `x` modulo `bound`.
//! 3. *The shuffle* is Fisher–Yates from the end: for `i` from `count − 1` down to 1, exchange
//!    item `i` with item number *below `i + 1`*.
//!
//! This is no source of secrets.

use weir_wire::random::splitmix64;

/// The splitmix64 generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMix64 {
    seed: u64,
    position: u64,
}

impl SplitMix64 {
    /// A generator that starts from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, position: 0 }
    }

    /// The next number; all 2^64 are equally likely.
    pub const fn next_u64(&mut self) -> u64 {
        let number = splitmix64(self.seed, self.position);
        self.position = self.position.wrapping_add(1);
        number
    }

    /// A number under `bound`, all equally likely. It draws again with a probability under one
    /// half, so that the loop ends.
    ///
    /// # Panics
    ///
    /// If `bound` is zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        // 2^64 modulo `bound`: how many of the highest numbers would favour the low results.
        let excess = (u64::MAX % bound + 1) % bound;
        loop {
            let number = self.next_u64();
            if number <= u64::MAX - excess {
                return number % bound;
            }
        }
    }

    /// Puts `items` into random order; all orders are equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            #[expect(clippy::cast_possible_truncation, reason = "the number is at most `last`")]
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

/// The numbers from 0 to `count − 1` in the order that `seed` gives.
#[must_use]
pub fn permutation(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    SplitMix64::new(seed).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_splitmix64_numbers() {
        let mut random = SplitMix64::new(1_234_567);
        let numbers: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(numbers, expected);
        assert_eq!(SplitMix64::new(0).next_u64(), 0xe220_a839_7b1d_cdaf);
    }

    /// Computed by a separate program from the description above.
    #[test]
    fn golden_permutations() {
        assert_eq!(permutation(10, 1), GOLDEN_SEED_1);
        assert_eq!(permutation(10, 42), GOLDEN_SEED_42);
    }

    const GOLDEN_SEED_1: [usize; 10] = [4, 2, 8, 1, 9, 3, 0, 6, 7, 5];
    const GOLDEN_SEED_42: [usize; 10] = [0, 9, 5, 8, 6, 4, 7, 2, 1, 3];

    #[test]
    fn small_and_empty() {
        assert!(permutation(0, 7).is_empty());
        assert_eq!(permutation(1, 7), [0]);
    }

    #[test]
    fn every_order_is_about_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..24_000 {
            *counts.entry(permutation(4, seed)).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        // 1,000 each; the standard deviation is 31.
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn bounds_that_do_not_divide_2_to_64_stay_fair() {
        // With a bound of 3 × 2^62 plain modulo would give the lowest third twice as often.
        let bound = 3 << 62;
        let mut random = SplitMix64::new(5);
        let low = (0..30_000).filter(|_| random.below(bound) < bound / 3).count();
        assert!((9_500..10_500).contains(&low), "{low}");
    }

    #[test]
    #[should_panic(expected = "no number below zero")]
    fn nothing_is_below_zero() {
        let _ = SplitMix64::new(0).below(0);
    }

    proptest! {
        #[test]
        fn numbers_stay_below_the_bound(seed: u64, bound in 1_u64..) {
            let mut random = SplitMix64::new(seed);
            prop_assert!((0..20).all(|_| random.below(bound) < bound));
        }

        #[test]
        fn a_permutation_holds_every_number_once(count in 0_usize..200, seed: u64) {
            let order = permutation(count, seed);
            prop_assert_eq!(&order, &permutation(count, seed));
            let mut sorted = order;
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..count));
        }
    }
}
