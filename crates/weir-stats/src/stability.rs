//! Did the rate hold still during a trial? Drift and jumps, relative to the median.
//!
//! Both measures are built from medians, so that a few stray samples (a delayed timer, one slow
//! interval) move neither. They say how large a movement is; whether it is too large is the
//! caller's threshold. Samples must be evenly spaced in time.
//!
//! - [`trend`] is the Theil–Sen slope (Sen, 1968: the median of the slopes between all pairs of
//!   samples) times the length of the trial, over the median: +0.05 says that the rate rose by
//!   5 % from the first sample to the last.
//! - [`level_shift`] is the largest difference between the medians of what lies before and after
//!   a point of the trial, over the median: 0.05 says that the rate jumped (or drifted) by 5 %.
//!
//! Both grow with the square of the number of samples, so that longer series than
//! [`SAMPLES_MAX`] are first cut into that many blocks, each replaced by its median.

use crate::summary::{self, median_of_sorted};

/// Fewest samples of which anything is said.
pub const SAMPLES_MIN: usize = 5;

/// Longest series that is looked at sample by sample.
pub(crate) const SAMPLES_MAX: usize = 1000;

/// Fewest samples on each side of a level shift.
pub(crate) const SIDE_SAMPLES_MIN: usize = 3;

/// Smallest share of the samples on each side of a level shift.
pub(crate) const SIDE_SHARE_MIN: f64 = 0.2;

/// Theil–Sen trend over the whole series, relative to its median; negative for a falling rate.
///
/// 0 for a constant series. Infinite if the series has a trend but its median is zero. `None`
/// for fewer than [`SAMPLES_MIN`] samples, or one that is not finite.
#[must_use]
pub fn trend(samples: &[f64]) -> Option<f64> {
    let median = median_of_enough(samples)?;
    let series = condensed(samples);
    let mut slopes = Vec::with_capacity(series.len() * (series.len() - 1) / 2);
    for (first, start) in series.iter().enumerate() {
        for (distance, end) in series[first + 1..].iter().enumerate() {
            slopes.push((end - start) / (distance as f64 + 1.0));
        }
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let span = series.len() as f64 - 1.0;
    Some(relative(median_of_sorted(&slopes) * span, median))
}

/// Largest difference between the medians before and after a point of the series, relative to
/// the median of all; never negative.
///
/// Each side of the point has at least [`SIDE_SAMPLES_MIN`] samples and [`SIDE_SHARE_MIN`] of all.
/// 0 for a constant series. Infinite if there is a shift but the median is zero. `None` for fewer
/// than six samples (twice three), or one that is not finite.
#[must_use]
pub fn level_shift(samples: &[f64]) -> Option<f64> {
    let median = median_of_enough(samples)?;
    let series = condensed(samples);
    let side = side_samples(series.len());
    let splits = side..=series.len().checked_sub(side)?;
    let before = running_medians(series.iter());
    let after = running_medians(series.iter().rev());
    // `before[n - 1]` is the median of the first n samples, `after[n - 1]` that of the last n.
    let largest = splits
        .map(|split| (after[series.len() - split - 1] - before[split - 1]).abs())
        .reduce(f64::max)?;
    Some(relative(largest, median.abs()))
}

/// How many samples each side of a split must have.
fn side_samples(count: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fifth of a count is a count"
    )]
    let share = (count as f64 * SIDE_SHARE_MIN).ceil() as usize;
    share.max(SIDE_SAMPLES_MIN)
}

/// The median, unless there are too few samples to say anything.
fn median_of_enough(samples: &[f64]) -> Option<f64> {
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    summary::median(samples)
}

/// `amount / median`, where nothing of zero is nothing.
fn relative(amount: f64, median: f64) -> f64 {
    if amount == 0.0 { 0.0 } else { amount / median }
}

/// The series itself, or the medians of [`SAMPLES_MAX`] consecutive blocks of nearly equal size.
fn condensed(samples: &[f64]) -> Vec<f64> {
    if samples.len() <= SAMPLES_MAX {
        return samples.to_vec();
    }
    let edge = |block: usize| block * samples.len() / SAMPLES_MAX;
    (0..SAMPLES_MAX)
        .filter_map(|block| summary::median(&samples[edge(block)..edge(block + 1)]))
        .collect()
}

/// The median of the first sample, of the first two, of the first three, …
fn running_medians<'a>(samples: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = Vec::new();
    samples
        .map(|sample| {
            let place = sorted.partition_point(|other| other.total_cmp(sample).is_lt());
            sorted.insert(place, *sample);
            median_of_sorted(&sorted)
        })
        .collect()
}

#[cfg(test)]
mod tests;
