//! What of queues is refused.

use weir_rules::ast::Queue;
use weir_rules::ir::AltqOn;

use super::Refusal;

/// The disciplines that the kernel's classes can be.
const DISCIPLINES: [&str; 3] = ["cbq", "priq", "hfsc"];
/// The flags that mean something to them.
const FLAGS: [&str; 2] = ["borrow", "default"];

/// The first thing of a discipline that the data path has not.
pub(super) fn of_altq(altq: &AltqOn) -> Option<Refusal> {
    let scheduler = altq.altq.scheduler.as_ref()?;
    (!DISCIPLINES.contains(&scheduler.name)).then_some(Refusal::AltqKind)
}

/// The same of a queue.
pub(super) fn of_queue(queue: &Queue) -> Option<Refusal> {
    let bursts = [queue.min, queue.max];
    if bursts.into_iter().flatten().any(|rate| rate.burst.is_some()) {
        return Some(Refusal::QueueCurve);
    }
    let scheduler = queue.scheduler.as_ref()?;
    if !DISCIPLINES.contains(&scheduler.name) {
        return Some(Refusal::AltqKind);
    }
    if scheduler.curves.iter().any(|(_, curve)| curve.first.is_some()) {
        return Some(Refusal::QueueCurve);
    }
    let is_odd = |flag: &&str| !FLAGS.contains(flag);
    let has_odd = scheduler.flags.iter().any(is_odd) || !scheduler.numbers.is_empty();
    has_odd.then_some(Refusal::QueueFlags)
}
