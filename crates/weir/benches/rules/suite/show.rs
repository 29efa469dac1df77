//! The result as a table for people and as JSON.

use super::Outcome;
use crate::limits;

const HEAD: &str = "\
One CPU. Checks are of the command itself, from its start to its end; the evaluator is called in a
loop. The time for which they waited for the CPU is not counted.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    limits::table(&outcome.machine, HEAD, &outcome.rows, |unit, value| match unit {
        "pps" => format!("{value:.0} pps"),
        unit => format!("{value:.2} {unit}"),
    })
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    limits::json(&outcome.machine, &outcome.rows)
}
