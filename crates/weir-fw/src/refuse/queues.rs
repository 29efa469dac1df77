//! What of queues is refused, and names of queues that FreeBSD takes although nothing defines them.

use std::collections::HashSet;

use weir_rules::Dialect;
use weir_rules::ast::{Queue, Scheduler};
use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::ir::{AltqOn, Prelude, Rules, Ruleset};
use weir_rules::value::{QueueName, Text};

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

/// Warnings of rules of FreeBSD's dialect that name a queue without a `queue` statement. OpenBSD's
/// are refused where queues are laid out.
pub(super) fn undefined(ruleset: &Ruleset) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if ruleset.dialect == Dialect::FreeBsd {
        let defined = ruleset.prelude.iter().filter_map(|prelude| match prelude {
            Prelude::Queue(queue) => Some(&queue.name.value),
            _ => None,
        });
        undefined_in(&ruleset.main, &defined.collect(), &mut found);
    }
    found
}

fn undefined_in(rules: &Rules, defined: &HashSet<&Text>, found: &mut Vec<Diagnostic>) {
    for rule in &rules.filter {
        let queue = rule.options.queue.iter();
        let names = queue.flat_map(|QueueName { name, priority }| [Some(name), priority.as_ref()]);
        for name in names.flatten().filter(|name| !defined.contains(name)) {
            let message = format!("no `altq` has the queue `{name}`");
            let warning = Diagnostic::warning(Code::CannotRun, rule.span, message);
            let label = "its packets go by the default queue of where they leave";
            found.push(warning.label(label).help("define it, or leave `queue` out of the rule"));
        }
        let body = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_ref());
        if let Some(body) = body {
            undefined_in(body, defined, found);
        }
    }
}
