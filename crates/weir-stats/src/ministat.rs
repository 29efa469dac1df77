//! ministat: does one set of measurements differ from another, and a picture of both.
//!
//! Prints what FreeBSD's `ministat(1)` prints today, character for character: the sets' names, a
//! plot, a table of vitals, and for every set after the first the result of Student's t test
//! against the first, which is the reference. [`Version::Of2015`] prints what the version of 2015
//! does, which Debian carries.
//!
//! It opens no files and decides no colours; [`dataset`] takes the values out of a file's bytes,
//! [`compare`] gives the test's numbers without the text. The test assumes equal variances (it
//! pools them), as ministat does.

use std::fmt;

use crate::number::{g, g8};
use crate::student_t::{Confidence, ministat_t};
use crate::summary::{self, Summary};

pub mod dataset;
mod plot;

/// Most sets in one picture: there are seven symbols.
pub const SETS_MAX: usize = SYMBOLS.len() - 1;

/// Fewest values in a set.
pub const VALUES_MIN: usize = 3;

/// Widest plot, columns.
pub(crate) const WIDTH_MAX: usize = 10_000;

/// Symbols by bits: sets that share a cell show the symbol of their numbers or-ed together.
const SYMBOLS: [char; 8] = [' ', 'x', '+', '*', '%', '#', '@', 'O'];

/// A named set of measurements, in the order in which they were taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Set<'a> {
    /// What the picture calls it: ministat uses the file's name.
    pub name: &'a str,
    /// At least [`VALUES_MIN`] finite values.
    pub values: &'a [f64],
}

/// Which ministat's figures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// FreeBSD's of today.
    #[default]
    Current,
    /// That of 2015: the variance from sums of values and of squares, which may come out negative
    /// where values hardly differ (the deviation is then printed as `-nan`, as glibc does), and a
    /// relative error that leaves out that of the reference's mean.
    Of2015,
}

/// What the median of an even number of values is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EvenMedian {
    /// The mean of the middle pair.
    #[default]
    Mean,
    /// The larger of the middle pair, as in 2015.
    Upper,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Confidence of the test (`-c`).
    pub confidence: Confidence,
    /// Draw the plot (no `-A`).
    pub plot: bool,
    /// Columns inside the plot's frame (`-w`): 0, which leaves the frame's ends, or 2 to
    /// [`WIDTH_MAX`]; 74 when not on a terminal. Not looked at without a plot.
    pub width: usize,
    /// One line of bars per set instead of one shared line (`-s`).
    pub separate_bars: bool,
    /// The table of vitals alone: neither plot nor test (`-n`).
    pub vitals_only: bool,
    /// Neither names nor the table's header (`-q`).
    pub quiet: bool,
    /// How the figures are computed.
    pub version: Version,
    /// The median of an even number of values; [`Version::Of2015`] does not imply it.
    pub even_median: EvenMedian,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            confidence: Confidence::default(),
            plot: true,
            width: 74,
            separate_bars: false,
            vitals_only: false,
            quiet: false,
            version: Version::Current,
            even_median: EvenMedian::Mean,
        }
    }
}

/// Why sets cannot be compared or drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MinistatError {
    /// The number of sets is zero or over [`SETS_MAX`].
    #[error("{0} datasets were given: ministat takes 1 to {SETS_MAX}")]
    SetCount(usize),
    /// A set has fewer than [`VALUES_MIN`] values.
    #[error("Dataset {0} must contain at least 3 data points")]
    TooFewValues(String),
    /// A set holds an infinity or a NaN, or its squares cannot be added.
    #[error("Dataset {0} holds a value that is not a finite number, or is too large to square")]
    NotFinite(String),
    /// The plot's width is 1, which has no scale, or over [`WIDTH_MAX`].
    #[error("a plot cannot be {0} columns wide: give 2 to {WIDTH_MAX}")]
    Width(usize),
}

/// The result of Student's t test of a candidate against a reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The confidence that was asked for.
    pub confidence: Confidence,
    /// True if the means differ at that confidence: the difference is over its half width.
    pub proven: bool,
    /// Mean of the candidate minus mean of the reference, in the values' unit.
    pub difference: f64,
    /// Half the width of the difference's confidence interval, in the values' unit.
    pub half_width: f64,
    /// The difference in percent of the reference's mean; not finite if that mean is zero.
    pub percent: f64,
    /// Half the width of the percentage's confidence interval, which also counts the error of the
    /// reference's mean; not finite if that mean is zero.
    pub percent_half_width: f64,
    /// Pooled standard deviation of both sets, in the values' unit.
    pub pooled_stddev: f64,
    /// The quantile of Student's t that the half widths use.
    pub t: f64,
}

/// Tests whether `candidate` differs from `reference`.
///
/// `None` if either has fewer than [`VALUES_MIN`] values or cannot be summarised ([`Summary::of`]).
#[must_use]
pub fn compare(reference: &[f64], candidate: &[f64], confidence: Confidence) -> Option<Comparison> {
    if reference.len().min(candidate.len()) < VALUES_MIN {
        return None;
    }
    let reference = Summary::of(reference)?;
    let candidate = Summary::of(candidate)?;
    Some(compare_summaries(&reference, &candidate, confidence, Version::Current))
}

fn compare_summaries(
    reference: &Summary,
    candidate: &Summary,
    confidence: Confidence,
    version: Version,
) -> Comparison {
    let (n0, n1) = (reference.count as f64, candidate.count as f64);
    let degrees = n0 + n1 - 2.0;
    let t = ministat_t(confidence, reference.count + candidate.count - 2);
    let squares_0 = (n0 - 1.0) * reference.variance;
    let squares_1 = (n1 - 1.0) * candidate.variance;
    let pooled_stddev = ((squares_1 + squares_0) / degrees).sqrt();
    let difference = candidate.mean - reference.mean;
    let half_width = t * (pooled_stddev * (1.0 / n1 + 1.0 / n0).sqrt());
    let (mean_0, mean_1) = (reference.mean, candidate.mean);
    let relative = match version {
        // The error of the reference's mean, which is the divisor, is added.
        Version::Current => {
            let relative = squares_1 + squares_0 * (mean_1 * mean_1) / (mean_0 * mean_0);
            t * (relative * ((n1 + n0) / (n1 * n0 * degrees))).sqrt()
        }
        Version::Of2015 => half_width,
    };
    Comparison {
        confidence,
        proven: difference.abs() > half_width,
        difference,
        half_width,
        percent: difference * 100.0 / mean_0,
        percent_half_width: relative * 100.0 / mean_0,
        pooled_stddev,
        t,
    }
}

/// ministat's block of the test, without a final line break.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.confidence.percent();
        if !self.proven {
            return write!(f, "No difference proven at {level:.1}% confidence");
        }
        writeln!(f, "Difference at {level:.1}% confidence")?;
        writeln!(f, "\t{} +/- {}", g(self.difference), g(self.half_width))?;
        writeln!(f, "\t{}% +/- {}%", g(self.percent), g(self.percent_half_width))?;
        write!(f, "\t(Student's t, pooled s = {})", g(self.pooled_stddev))
    }
}

/// Prints sets as ministat does; every line ends with a line break.
///
/// # Errors
///
/// [`MinistatError`] if there are no sets or too many, one has too few values or one that is not
/// finite, or the plot's width is impossible.
pub fn render(sets: &[Set<'_>], options: &Options) -> Result<String, MinistatError> {
    if sets.is_empty() || sets.len() > SETS_MAX {
        return Err(MinistatError::SetCount(sets.len()));
    }
    let plot = options.plot && !options.vitals_only;
    if plot && (options.width == 1 || options.width > WIDTH_MAX) {
        return Err(MinistatError::Width(options.width));
    }
    let summaries =
        sets.iter().map(|set| summarise(set, options)).collect::<Result<Vec<_>, _>>()?;

    let mut text = String::new();
    if !options.quiet {
        for (set, symbol) in sets.iter().zip(&SYMBOLS[1..]) {
            text.push_str(&format!("{symbol} {}\n", set.name));
        }
    }
    if plot {
        text.push_str(&plot::draw(sets, &summaries, options));
    }
    if !options.quiet {
        text.push_str(
            "    N           Min           Max        Median           Avg        Stddev\n",
        );
    }
    for (index, (summary, symbol)) in summaries.iter().zip(&SYMBOLS[1..]).enumerate() {
        text.push_str(&vitals(*symbol, summary));
        if index > 0 && !options.vitals_only {
            let Options { confidence, version, .. } = *options;
            let comparison = compare_summaries(&summaries[0], summary, confidence, version);
            text.push_str(&format!("{comparison}\n"));
        }
    }
    Ok(text)
}

fn summarise(set: &Set<'_>, options: &Options) -> Result<Summary, MinistatError> {
    if set.values.len() < VALUES_MIN {
        return Err(MinistatError::TooFewValues(set.name.to_owned()));
    }
    let not_finite = || MinistatError::NotFinite(set.name.to_owned());
    let mut summary = Summary::of(set.values).ok_or_else(not_finite)?;
    if options.even_median == EvenMedian::Upper {
        let sorted = summary::sorted(set.values).ok_or_else(not_finite)?;
        summary.median = sorted[sorted.len() / 2];
    }
    if options.version == Version::Of2015 {
        let count = summary.count as f64;
        let sum = summary::sum(set.values.iter().copied());
        let squares = summary::sum(set.values.iter().map(|value| value * value));
        summary.variance = (squares - sum * sum / count) / (count - 1.0);
        if !summary.variance.is_finite() {
            return Err(not_finite());
        }
        summary.stddev = summary.variance.sqrt();
    }
    Ok(summary)
}

fn vitals(symbol: char, summary: &Summary) -> String {
    let Summary { count, min, max, median, mean, stddev, .. } = *summary;
    let mut line = format!("{symbol} {count:>3}");
    for value in [min, max, median, mean, stddev] {
        // The only one that can be no number is the root of a negative variance.
        let text = if value.is_nan() { "-nan".to_owned() } else { g8(value) };
        line.push_str(&format!(" {text:>13}"));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests;
