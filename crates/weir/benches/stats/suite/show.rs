//! The result as a table for people and as JSON.

use super::Outcome;
use crate::limits;

const HEAD: &str = "\
Each figure is of the command itself, on two CPUs: from its start to its end, with what it writes on
the disk.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    let figure = |unit: &str, value: f64| format!("{value:.2} {unit}");
    limits::table(&outcome.machine, HEAD, &outcome.rows, figure)
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    limits::json(&outcome.machine, &outcome.rows)
}
