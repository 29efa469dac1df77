//! What an archive publishes: medians of a series, one a line, and rows of `gnuplot.data`.
//!
//! bench-lab-ministat.sh writes the median of each run to `<series>.pps`, in the order of `ls`, and
//! a row `INDEX MEDIAN MINIMUM MAXIMUM` of those to `gnuplot.data`; all numbers are ministat's
//! `%.8g`. bench-equilibrium-ministat.sh does the same with rates in Mb/s.

use super::log::PROBLEMS_MAX;
use weir_stats::number::g8;
use weir_stats::summary::Summary;

/// Figures of which statistics are made, at least: ministat refuses fewer.
pub(crate) const POINTS_MIN: usize = 3;

/// A figure on its line.
pub(super) type OnLine<T> = (u64, T);

/// The most runs that a published file may give a series: more come of no
/// measurement, and each would become a cell of the store.
pub(super) const RUNS_MAX: usize = 10_000;

/// Figures and what could not be read, each with its line.
pub(super) type Read<T> = (Vec<OnLine<T>>, Noted);

/// What is wrong with the lines of a file: the first few, and the number of the others.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) first: Vec<OnLine<String>>,
    more: u64,
}

impl Noted {
    pub(super) fn add(&mut self, line: u64, reason: String) {
        if self.first.len() < PROBLEMS_MAX {
            self.first.push((line, reason));
        } else {
            self.more += 1;
        }
    }

    /// What is listed: the first few with their lines, and one sentence for the others.
    pub(super) fn listed(self) -> impl Iterator<Item = (Option<u64>, String)> {
        let more = (self.more > 0).then(|| (None, format!("{} more lines like these", self.more)));
        self.first.into_iter().map(|(line, reason)| (Some(line), reason)).chain(more)
    }
}

/// A word of a file as it is quoted: 40 characters of it at most.
pub(super) fn clipped(word: &str) -> String {
    /// Characters that are quoted.
    const SHOWN_MAX: usize = 40;
    match word.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

/// Reads a file of medians. Blank lines, which a run without a figure leaves, are none.
pub(super) fn medians(bytes: &[u8]) -> Read<f64> {
    let mut read = (Vec::new(), Noted::default());
    for (number, line) in lines(bytes) {
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        match figure(text) {
            Ok(value) => read.0.push((number, value)),
            Err(reason) => read.1.add(number, reason),
        }
    }
    read
}

/// A row of `gnuplot.data`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) label: String,
    /// Median, minimum, maximum.
    pub(super) figures: [f64; 3],
}

/// Reads a `gnuplot.data`; comments and blank lines are no rows.
pub(super) fn rows(bytes: &[u8]) -> Read<Row> {
    let mut read = (Vec::new(), Noted::default());
    for (number, line) in lines(bytes) {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match row(text) {
            Ok(row) => read.0.push((number, row)),
            Err(reason) => read.1.add(number, reason),
        }
    }
    read
}

fn row(text: &str) -> Result<Row, String> {
    let mut words = text.split_whitespace();
    let label = words.next().unwrap_or_default().to_owned();
    let mut next = || words.next().ok_or("a row has an index and three figures".to_owned());
    let mut take = || figure(next()?);
    let figures = [take()?, take()?, take()?];
    match words.next() {
        None => Ok(Row { label, figures }),
        Some(more) => Err(format!("`{}` follows the three figures of a row", clipped(more))),
    }
}

/// A finite number, 0 or more.
fn figure(text: &str) -> Result<f64, String> {
    let shown = clipped(text);
    match weir_stats::number::parse(text.as_bytes()) {
        Some(value) if value.is_finite() && value >= 0.0 => Ok(value),
        Some(_) => Err(format!("`{shown}` is not a finite rate")),
        None => Err(format!("`{shown}` is not a number")),
    }
}

/// The lines of a file, with their numbers; bytes that are no UTF-8 make them unreadable later.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, String)> + '_ {
    let lines = bytes.split(|byte| *byte == b'\n').map(|l| String::from_utf8_lossy(l).into_owned());
    (1..).zip(lines)
}

/// What bench-lab-ministat.sh makes of a series' medians: median, minimum and maximum as they
/// stand in a row; `None` with fewer than [`POINTS_MIN`] of them.
pub(super) fn row_figures(medians: &[f64]) -> Option<[String; 3]> {
    // The script reads what it has written, which has eight digits.
    let written: Vec<f64> = medians.iter().map(|median| as_written(*median)).collect();
    let summary = Summary::of(&written).filter(|s| s.count >= POINTS_MIN)?;
    Some([summary.median, summary.min, summary.max].map(g8))
}

/// A figure as it is read back from its file.
pub(super) fn as_written(value: f64) -> f64 {
    g8(value).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_read_and_others_named() {
        let (values, problems) = medians(b"1\r\n\n2.5\nnan\ninf\n-1\nx y\n\xff\n1e3");
        assert_eq!(values, [(1, 1.0), (3, 2.5), (9, 1000.0)]);
        let lines: Vec<u64> = problems.first.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [4, 5, 6, 7, 8]);
        assert_eq!(problems.first[0].1, "`nan` is not a finite rate");
    }

    #[test]
    fn rows_are_read_and_others_named() {
        let text = b"#index median minimum maximum\r\n32KiB 2 1 3\r\n\na 1 2\nb 1 2 3 4\nc 1 x 3";
        let (rows, problems) = rows(text);
        let expected = Row { label: "32KiB".to_owned(), figures: [2.0, 1.0, 3.0] };
        assert_eq!(rows, [(2, expected)]);
        let lines: Vec<u64> = problems.first.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [4, 5, 6]);
    }

    #[test]
    fn statistics_need_three_figures_of_eight_digits() {
        let row = |values: &[f64]| row_figures(values).map(|row| row.join(" "));
        assert_eq!(row(&[1.0, 2.0]), None);
        assert_eq!(row(&[5.0, 2.5, 1.0, 2.0]).as_deref(), Some("2.25 1 5"));
        // 100 Mpps and a half loses the half.
        assert_eq!(row(&[100_000_000.5; 3]).as_deref(), Some("1e+08 1e+08 1e+08"));
    }
}
