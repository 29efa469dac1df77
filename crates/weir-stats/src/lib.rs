//! What the numbers of a trial and of a campaign say: summaries, intervals, tests and comparisons,
//! warnings about a series, when to stop measuring it; Student's t, ministat's comparison,
//! stability within a trial, line rates and packet rates in bits, the search for the rate that a
//! device still forwards, how fast it is shown its flows, and the shuffled order of a campaign.
//!
//! Values come in as `f64` slices, in the order in which they were measured; nothing is sampled,
//! weighted or dropped here. No values, too few of them, or one that is not finite, give `None` or
//! an error; the few figures that may themselves be infinite say so.
//!
//! This crate is pure: it reads no clock, opens no file, starts no thread and looks at no
//! environment. Equal input gives equal output, also the shuffles, which depend on their seed
//! alone.

#![forbid(unsafe_code)]

pub mod bisect;
pub mod comparison;
pub mod equivalence;
pub mod holm;
pub mod interval;
pub mod median;
pub mod ministat;
pub mod number;
pub mod paired;
pub mod power;
pub mod priming;
pub mod rank;
pub mod rates;
pub mod search;
pub mod shuffle;
pub mod stability;
pub mod stopping;
pub mod student_t;
pub mod summary;
mod threshold;
pub mod warning;
pub mod welch;

#[cfg(test)]
mod simulated;

pub use interval::{Interval, Level};
pub use student_t::Confidence;
pub use summary::Summary;
pub use threshold::Threshold;
