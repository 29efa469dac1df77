//! Confidence levels of any height, intervals, and what too few values cannot give.
//!
//! A *confidence interval* of level 95 % is made by a recipe that covers the true value in 95 of
//! 100 campaigns; it is no statement about where the next iteration falls.

use std::fmt;

use crate::number;
use crate::student_t::Confidence;

/// A confidence level: a share above 0.5 and below 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Level(f64);

impl Level {
    /// 95 %.
    pub const P95: Self = Self(0.95);

    /// Lowest level in percent: a coin's is not worth the name.
    pub const PERCENT_MIN: f64 = 50.0;

    /// Highest level in percent: beyond it the tails of no real measurement are known.
    pub const PERCENT_MAX: f64 = 99.99;

    /// The level of `percent`; `None` unless [`Self::PERCENT_MIN`] < `percent` ≤
    /// [`Self::PERCENT_MAX`].
    #[must_use]
    pub fn from_percent(percent: f64) -> Option<Self> {
        (percent > Self::PERCENT_MIN && percent <= Self::PERCENT_MAX)
            .then_some(Self(percent / 100.0))
    }

    /// The level in percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        number::percent(self.0)
    }

    /// The level as a share of 1.
    #[must_use]
    pub const fn share(self) -> f64 {
        self.0
    }

    /// The probability of an error that the level allows: 0.05 at 95 %.
    #[must_use]
    pub fn alpha(self) -> f64 {
        1.0 - self.0
    }

    /// The level that each of `count` intervals needs so that all of them together hold at this
    /// one, by Bonferroni's inequality.
    #[must_use]
    pub(crate) fn each_of(self, count: usize) -> Self {
        Self(1.0 - self.alpha() / count.max(1) as f64)
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::P95
    }
}

impl From<Confidence> for Level {
    /// The level by its name: ministat's 99.5 % is 99.5 % here, though its table is stricter.
    fn from(confidence: Confidence) -> Self {
        Self(confidence.percent() / 100.0)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.percent())
    }
}

/// A confidence interval; its ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end; infinite where the values set no upper limit, which only the interval of a ratio
    /// can be.
    pub high: f64,
}

impl Interval {
    /// Half of its width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether `value` lies in it.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Every end moved by `by`.
    #[must_use]
    pub fn shifted(&self, by: f64) -> Self {
        Self { low: self.low + by, high: self.high + by }
    }
}

/// Values that are too few for what is asked of them.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{have} values give no such interval at {level}: {need} are needed")]
pub struct TooFew {
    /// How many there are.
    pub have: usize,
    /// How many would do.
    pub need: usize,
    /// The level that was asked for.
    pub level: Level,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_above_a_coin_s_and_below_certainty() {
        for percent in [50.0, 100.0, 99.995, f64::NAN, -3.0] {
            assert_eq!(Level::from_percent(percent), None, "{percent}");
        }
        assert_eq!(Level::from_percent(95.0), Some(Level::P95));
        assert_eq!(Level::from(Confidence::P99_5).percent(), 99.5);
        assert_eq!(Level::from_percent(99.9).unwrap().to_string(), "99.9 %");
        assert!((Level::P95.each_of(5).percent() - 99.0).abs() < 1e-9);
        assert_eq!(Level::P95.each_of(0), Level::P95);
    }

    #[test]
    fn the_ends_belong_to_an_interval() {
        let interval = Interval { low: -1.0, high: 3.0 };
        assert!(interval.contains(-1.0) && interval.contains(3.0) && !interval.contains(3.1));
        assert_eq!(interval.half_width(), 2.0);
        assert_eq!(interval.shifted(1.0), Interval { low: 0.0, high: 4.0 });
    }
}
