//! ministat: does one set of measurements differ from another, and a picture of both.
//!
//! Prints what FreeBSD's `ministat(1)` prints today, character for character: the sets' names, a
//! plot, a table of vitals, and for every set after the first the result of Student's t test
//! against the first, which is the reference. The older version that Debian carries computes an
//! even median and the relative error differently.
//!
//! It reads no files and decides no colours; [`compare`] gives the test's numbers without the
//! text. The test assumes equal variances (it pools them), as ministat does.

use std::fmt;

use crate::number::{g, g8};
use crate::student_t::{Confidence, ministat_t};
use crate::summary::Summary;

mod plot;

/// Most sets in one picture: there are seven symbols.
pub const SETS_MAX: usize = SYMBOLS.len() - 1;

/// Fewest values in a set.
pub const VALUES_MIN: usize = 3;

/// Widest plot, columns.
pub const WIDTH_MAX: usize = 10_000;

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

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Confidence of the test (`-c`).
    pub confidence: Confidence,
    /// Draw the plot (no `-A`).
    pub plot: bool,
    /// Columns inside the plot's frame (`-w`): 2 to [`WIDTH_MAX`]; 74 when not on a terminal.
    pub width: usize,
    /// One line of bars per set instead of one shared line (`-s`).
    pub separate_bars: bool,
    /// The table of vitals alone: neither plot nor test (`-n`).
    pub vitals_only: bool,
    /// Neither names nor the table's header (`-q`).
    pub quiet: bool,
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
    /// The plot's width is under 2 or over [`WIDTH_MAX`].
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
    Some(compare_summaries(&reference, &candidate, confidence))
}

fn compare_summaries(
    reference: &Summary,
    candidate: &Summary,
    confidence: Confidence,
) -> Comparison {
    let (n0, n1) = (reference.count as f64, candidate.count as f64);
    let degrees = n0 + n1 - 2.0;
    let t = ministat_t(confidence, reference.count + candidate.count - 2);
    let squares_0 = (n0 - 1.0) * reference.variance();
    let squares_1 = (n1 - 1.0) * candidate.variance();
    let pooled_stddev = ((squares_1 + squares_0) / degrees).sqrt();
    let difference = candidate.mean - reference.mean;
    let half_width = t * (pooled_stddev * (1.0 / n1 + 1.0 / n0).sqrt());
    // The relative error adds that of the reference's mean, which is the divisor.
    let (mean_0, mean_1) = (reference.mean, candidate.mean);
    let relative = squares_1 + squares_0 * (mean_1 * mean_1) / (mean_0 * mean_0);
    let relative = t * (relative * ((n1 + n0) / (n1 * n0 * degrees))).sqrt();
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
    if !(2..=WIDTH_MAX).contains(&options.width) {
        return Err(MinistatError::Width(options.width));
    }
    let summaries = sets.iter().map(summarise).collect::<Result<Vec<_>, _>>()?;

    let mut text = String::new();
    if !options.quiet {
        for (set, symbol) in sets.iter().zip(&SYMBOLS[1..]) {
            text.push_str(&format!("{symbol} {}\n", set.name));
        }
    }
    if options.plot && !options.vitals_only {
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
            let comparison = compare_summaries(&summaries[0], summary, options.confidence);
            text.push_str(&format!("{comparison}\n"));
        }
    }
    Ok(text)
}

fn summarise(set: &Set<'_>) -> Result<Summary, MinistatError> {
    if set.values.len() < VALUES_MIN {
        return Err(MinistatError::TooFewValues(set.name.to_owned()));
    }
    Summary::of(set.values).ok_or_else(|| MinistatError::NotFinite(set.name.to_owned()))
}

fn vitals(symbol: char, summary: &Summary) -> String {
    let Summary { count, min, max, median, mean, stddev } = *summary;
    let mut line = format!("{symbol} {count:>3}");
    for value in [min, max, median, mean, stddev] {
        line.push_str(&format!(" {:>13}", g8(value)));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests;
