//! The result as a table for people and as JSON.

use std::fmt::Write as _;

use super::{Machine, Outcome};
use crate::limits;

const HEAD: &str = "\
Each figure is of the command itself, on two CPUs: from its start to its end, with what it writes on
the disk.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    let Machine { cpu_model, kernel, cpu_count } = &outcome.machine;
    let mut text = format!("{cpu_model}, {cpu_count} CPUs, Linux {kernel}\n{HEAD}\n");
    let width = outcome.rows.iter().map(|row| row.spec.what.chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<width$} {:>12} {:>12} {:>7}", "", "median", "limit", "ratio");
    for row in &outcome.rows {
        let unit = row.spec.unit;
        let value =
            row.value.map_or("not measured".to_owned(), |value| format!("{value:.2} {unit}"));
        let limit = row.spec.limit.value();
        let limit = limit.map_or_else(String::new, |limit| format!("{limit} {unit}"));
        let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let judged = match (row.value, row.holds()) {
            (None, _) => "not judged",
            (_, true) => "kept",
            (_, false) => "PASSED",
        };
        let what = row.spec.what;
        let _ = writeln!(text, "{what:<width$} {value:>12} {limit:>12} {ratio:>7} {judged}");
    }
    text
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    limits::json(&outcome.machine, &outcome.rows)
}
