//! The result as a table for people and as JSON.

use weir_bpf::toeplitz::Method;

use super::Outcome;
use crate::limits;
use crate::near;

const HEAD: &str = "\
Hashes on one CPU. Flows over a veth pair whose sending end chooses the queue as a card would.
Echo servers with one CPU for receiving, working and sending; the best of several offered rates.
A router that receives on one CPU; the generator's CPU takes its part of what is handed on.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    let method = match outcome.method {
        Method::Multiplication => "by carry-less multiplication",
        Method::Tables => "from tables: this CPU has no carry-less multiplication",
    };
    let head = format!("{HEAD}Many hashes at once are computed {method}.\n");
    let rows = limits::table(&outcome.machine, &head, &outcome.rows, |unit, value| match unit {
        "hashes/s" => format!("{:.1} M/s", value / 1e6),
        "packets/s" => format!("{:.1} kpps", value / 1e3),
        "ns" => format!("{value:.1} ns"),
        "times" => format!("{value:.2}"),
        _ => format!("{:.4} %", value * 100.0),
    });
    rows + &near::note(outcome.far_count)
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    limits::json(&outcome.machine, &outcome.rows)
}
