//! The result as a table for people and as JSON.

use super::Outcome;
use crate::support::table;

const HEAD: &str = "\
One veth pair (two queues for two threads), frames of 60 bytes, into an XDP program that counts and
drops.
One CPU: it sends, and receives too (NAPI not threaded), so that nothing is lost on the way and the
packets delivered per second are those that one CPU makes, hands over and ends. Both sides of a
ratio pay for the same receiver. Floors of the generator are judged here.
Two CPUs: the receiver has the other one (threaded NAPI). What is offered beyond its speed is lost,
so that `offered` is the sender's speed, and `delivered` the receiver's. The floor of the sink is
judged here, where nothing else shares its CPU.
Time that other programs took from the senders (or the receiver) is not counted; `taken` is the
largest share of it in a sample.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    table::table(&outcome.machine, HEAD, &outcome.rows)
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    table::json(&outcome.machine, &outcome.rows)
}
