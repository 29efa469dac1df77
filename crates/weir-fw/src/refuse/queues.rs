//! What of queues is refused.

use weir_rules::ast::{Queue, Scheduler};
use weir_rules::ir::AltqOn;

use super::Refusal;

/// The flags that mean something to the kernel's classes and queues.
const FLAGS: [&str; 5] = ["borrow", "default", "red", "ecn", "codel"];
/// The same of numbers.
const NUMBERS: [&str; 3] = ["buckets", "target", "interval"];

/// The first thing of a discipline that the kernel has not.
fn of_scheduler(scheduler: &Scheduler) -> Option<Refusal> {
    let has_odd = scheduler.flags.iter().any(|flag| !FLAGS.contains(flag))
        || scheduler.numbers.iter().any(|(name, _)| !NUMBERS.contains(name))
        || (scheduler.name == "fairq" && !scheduler.curves.is_empty());
    has_odd.then_some(Refusal::QueueFlags)
}

/// The same of `altq`.
pub(super) fn of_altq(altq: &AltqOn) -> Option<Refusal> {
    altq.altq.scheduler.as_ref().and_then(of_scheduler)
}

/// The same of a queue.
pub(super) fn of_queue(queue: &Queue) -> Option<Refusal> {
    queue.scheduler.as_ref().and_then(of_scheduler)
}
