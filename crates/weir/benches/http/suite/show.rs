//! The result as a table for people and as JSON.

use super::Outcome;
use crate::limits;
use crate::near;

const HEAD: &str = "\
Connections per second of CPU time: SYN, SYN-ACK, request, reply with FIN, FIN, ACK. Without sockets
it is the time of both ends and of what stands between them, with sockets that of the client alone.
Requests per second of the client's CPU time: over HTTP, 128 bytes.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    let rows = limits::table(&outcome.machine, HEAD, &outcome.rows, |unit, value| match unit {
        "connections/s" | "requests/s" => format!("{:.1} k/s", value / 1e3),
        "times" => format!("{value:.2}"),
        "B" | "s" => format!("{value:.1} {unit}"),
        _ => format!("{:.4} %", value * 100.0),
    });
    rows + &near::note(outcome.far_count)
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    limits::json(&outcome.machine, &outcome.rows)
}
