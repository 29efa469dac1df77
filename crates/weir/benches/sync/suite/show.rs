//! The result as a table for people and as JSON.

use super::Outcome;
use crate::limits;
use crate::near;

const HEAD: &str = "\
Two firewalls of one machine, and `weir fw sync to` and `serve` between them, by TLS over a veth.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    let rows = limits::table(&outcome.machine, HEAD, &outcome.rows, |unit, value| match unit {
        "states/s" | "flows/s" => format!("{:.1} k/s", value / 1e3),
        "ms" => format!("{value:.0} ms"),
        "ratio" => format!("{value:.3}"),
        "s" => format!("{value:.2} s"),
        _ => format!("{:.4} %", value * 100.0),
    });
    rows + &near::note(outcome.far_count)
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    limits::json(&outcome.machine, &outcome.rows)
}
