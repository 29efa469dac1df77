//! What of queues is refused.

use weir_rules::ast::{Queue, Scheduler};
use weir_rules::ir::AltqOn;

use super::Refusal;

/// The disciplines that the kernel's classes and queues can be.
const DISCIPLINES: [&str; 4] = ["cbq", "priq", "hfsc", "codel"];
/// The flags that mean something to them.
const FLAGS: [&str; 5] = ["borrow", "default", "red", "ecn", "codel"];
/// The same of numbers.
const NUMBERS: [&str; 2] = ["target", "interval"];

/// The first thing of a discipline that the kernel has not.
fn of_scheduler(scheduler: &Scheduler) -> Option<Refusal> {
    if !DISCIPLINES.contains(&scheduler.name) {
        return Some(Refusal::AltqKind);
    }
    let has_odd = scheduler.flags.iter().any(|flag| !FLAGS.contains(flag))
        || scheduler.numbers.iter().any(|(name, _)| !NUMBERS.contains(name));
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
