//! The log-linear histogram of `bpf/include/weir/histogram.h`, read and asked for quantiles.
//!
//! 32 buckets for each power of two: values below 64 are exact, any other is within 1/64 of the
//! middle of its bucket. Smallest value, largest value and sum are exact. Values of 2^40 and more
//! are in the last bucket. Nothing here touches the system.

use crate::words::{
    HISTOGRAM_BUCKETS, HISTOGRAM_LINEAR, HISTOGRAM_LINEAR_BITS as LINEAR_BITS,
    HISTOGRAM_VALUE_BITS as VALUE_BITS, histogram,
};

/// Buckets for each power of two.
const LINEAR: u64 = HISTOGRAM_LINEAR as u64;

/// Number of buckets.
pub const BUCKET_COUNT: usize = HISTOGRAM_BUCKETS as usize;

/// How often which values were seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    sum: u64,
    max: u64,
    min: u64,
    buckets: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { sum: 0, max: 0, min: u64::MAX, buckets: vec![0; BUCKET_COUNT] }
    }
}

impl Histogram {
    /// Adds what another CPU has seen, in the words of its map.
    ///
    /// # Panics
    /// If there are fewer words than a histogram has.
    pub(crate) fn add_words(&mut self, words: &[u64]) {
        self.sum = self.sum.wrapping_add(words[histogram::SUM]);
        self.max = self.max.max(words[histogram::MAX]);
        self.min = self.min.min(!words[histogram::COMPLEMENT_MAX]);
        let buckets = &words[histogram::BUCKET..histogram::BUCKET + BUCKET_COUNT];
        for (mine, theirs) in self.buckets.iter_mut().zip(buckets) {
            *mine += theirs;
        }
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.sum = self.sum.wrapping_add(value);
        self.max = self.max.max(value);
        self.min = self.min.min(value);
        self.buckets[index(value)] += 1;
    }

    /// Adds all values of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    /// The values that came after an earlier reading of the same histogram. The smallest and the
    /// largest of them are known as closely as their buckets are narrow.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let buckets = self.buckets.iter().zip(&before.buckets);
        Self {
            sum: self.sum.wrapping_sub(before.sum),
            buckets: buckets.map(|(now, before)| now.saturating_sub(*before)).collect(),
            ..Self::default()
        }
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all values, exactly, modulo 2^64.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The smallest value, exactly; `None` if there is no value.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        let lowest = || self.buckets().next().map(|(first, _, _)| first);
        if self.min <= self.max { (self.count() > 0).then_some(self.min) } else { lowest() }
    }

    /// The largest value, exactly; `None` if there is no value.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        let highest = || self.buckets().last().map(|(_, last, _)| last);
        if self.min <= self.max { (self.count() > 0).then_some(self.max) } else { highest() }
    }

    /// The mean of all values, exactly; `None` if there is no value.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The value that `per_mille` thousandths of all values do not exceed (nearest rank): the
    /// middle of its bucket, within the smallest and the largest value. `None` without values.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Option<u64> {
        let count = self.count();
        let rank = (count.saturating_mul(per_mille)).div_ceil(1000).clamp(1, count.max(1));
        let mut below = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            below += bucket;
            if below >= rank {
                let (first, last) = bounds(index);
                let middle = first + (last - first) / 2;
                // Read while a CPU adds its first value, the buckets may be ahead of the ends.
                let ends_known = self.min <= self.max;
                return Some(if ends_known { middle.clamp(self.min, self.max) } else { middle });
            }
        }
        None
    }

    /// The buckets that hold something, in order: lowest value, highest value, number of values.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| {
            let (first, last) = bounds(index);
            (first, last, *count)
        })
    }
}

/// The bucket of a value: `weir_histogram_index()`.
fn index(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    let shift = value.checked_ilog2().map_or(0, |log| log.saturating_sub(LINEAR_BITS));
    let index = if value < LINEAR {
        value
    } else {
        u64::from(shift + 1) * LINEAR + ((value >> shift) & (LINEAR - 1))
    };
    usize::try_from(index).unwrap_or(BUCKET_COUNT - 1)
}

/// Lowest and highest value of a bucket.
fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < 2 * LINEAR {
        return (index, index);
    }
    let shift = index / LINEAR - 1;
    let first = (LINEAR + index % LINEAR) << shift;
    (first, first + (1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_adjacent_and_narrow() {
        let mut next = 0;
        for index in 0..BUCKET_COUNT {
            let (first, last) = bounds(index);
            assert_eq!(first, next, "bucket {index}");
            let middle = first + (last - first) / 2;
            assert!((middle - first) * 64 <= first && (last - middle) * 64 <= first, "{index}");
            next = last + 1;
        }
        assert_eq!(next, 1 << VALUE_BITS);
    }

    #[test]
    fn a_value_goes_into_the_bucket_that_holds_it() {
        let mut both = Histogram::default();
        for power in 0..VALUE_BITS {
            for value in [(1 << power) - 1, 1 << power, (1 << power) + (1 << power) / 3] {
                let (first, last) = bounds(index(value));
                assert!((first..=last).contains(&value), "{value} in {first}..={last}");
                let mut one = Histogram::default();
                one.record(value);
                both.add(&one);
            }
        }
        assert_eq!(index(u64::MAX), BUCKET_COUNT - 1);
        assert_eq!(both.count(), 3 * u64::from(VALUE_BITS));
        assert_eq!(both.min(), Some(0));
    }

    /// The kernel copies the head of a histogram before its buckets.
    #[test]
    fn a_histogram_that_is_being_written_has_figures() {
        let mut words = vec![0; histogram::WORDS];
        words[histogram::BUCKET + 40] = 1;
        let mut histogram = Histogram::default();
        histogram.add_words(&words);
        assert_eq!((histogram.min(), histogram.quantile(500)), (Some(40), Some(40)));
        assert_eq!(histogram.max(), Some(40));
    }

    #[test]
    fn values_since_an_earlier_reading_are_those_that_came_after_it() {
        let mut histogram = Histogram::default();
        histogram.record(5);
        let before = histogram.clone();
        assert_eq!(histogram.since(&before).quantile(500), None);
        histogram.record(40);
        histogram.record(1_000);
        let since = histogram.since(&before);
        assert_eq!((since.count(), since.sum()), (2, 1_040));
        assert_eq!(
            (since.min(), since.quantile(500), since.max()),
            (Some(40), Some(40), Some(1_007))
        );
    }

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.min(), histogram.quantile(500), histogram.max()), (None, None, None));
        assert_eq!(histogram.mean(), None);
        let mut words = vec![0; histogram::WORDS];
        words[histogram::SUM] = 10 * 5 + 1_000;
        (words[histogram::MAX], words[histogram::COMPLEMENT_MAX]) = (1_000, !5);
        words[histogram::BUCKET + 5] = 10;
        let thousand = (0..BUCKET_COUNT).find(|index| bounds(*index).1 >= 1_000).expect("one");
        words[histogram::BUCKET + thousand] = 1;
        histogram.add_words(&words);
        assert_eq!(histogram.count(), 11);
        assert_eq!(histogram.quantile(0), Some(5));
        assert_eq!(histogram.quantile(500), Some(5));
        assert_eq!(histogram.quantile(909), Some(5));
        assert_eq!(histogram.quantile(910), Some(999), "the middle of 992 to 1007");
        assert_eq!((histogram.min(), histogram.max()), (Some(5), Some(1_000)));
        histogram.add_words(&words);
        assert_eq!(histogram.mean(), Some(1_050.0 / 11.0));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(5, 5, 20), (992, 1007, 2)]);
    }
}
