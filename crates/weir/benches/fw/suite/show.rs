//! The result as a table for people and as JSON.

use super::Outcome;
use crate::near;
use crate::support::table;

const HEAD: &str = "\
Two veth pairs with the device under test between them, frames of 60 bytes, UDP over IPv4. Its CPU
does nothing else (threaded NAPI); generator and sink share the other. Figures are packets delivered
to the sink per second that others left to the device's thread. `CPU time` is what one packet costs
that thread. Of the apparatus it holds one thing: waking the sink, which has the other CPU. XDP does
that once for 16 packets, Linux and nftables for nearly each, which is about half of their time; in
rows with a polled sink nobody has to, but the generator has less of its CPU, and fast devices idle.
Ratios of packets are ratios of CPU time, so that a device that had nothing to do for a part of the
time (`busy` is the smallest share in which it had) is not the slower one for it. `taken` is the
largest share of a sample that other programs took from it. Rows of a control are the same device
and load once more: what they differ by is noise.
A sample is taken while both CPUs share a cache, if they do so in time: hosts move those of virtual
machines.
New states: every packet is of a flow of its own, and makes a state; nftables has the same rules,
and a connection tracker with room for all flows.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    let rows = table::table(&outcome.machine, HEAD, &outcome.rows);
    rows + &near::note(outcome.far_count)
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    table::json(&outcome.machine, &outcome.rows)
}
