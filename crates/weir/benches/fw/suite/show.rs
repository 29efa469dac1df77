//! The result as a table for people and as JSON.

use super::Outcome;
use crate::support::table;

const HEAD: &str = "\
Two veth pairs with the device under test between them, frames of 60 bytes, UDP over IPv4. Its CPU
does nothing else (threaded NAPI); generator and sink share the other. Figures are packets delivered
to the sink per second for which the device's thread ran. `taken` is the largest share of a sample
that other programs took from it.
New states: every packet is of a flow of its own, and makes a state; nftables has the same rules,
and a connection tracker with room for all flows.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    table::table(&outcome.machine, HEAD, &outcome.rows)
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    table::json(&outcome.machine, &outcome.rows)
}
