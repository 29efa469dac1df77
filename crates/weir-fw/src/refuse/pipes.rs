//! Rules that name pipes or queues of dummynet which are not configured: they would never hold
//! anything back, and nobody would know.

use weir_rules::diagnostic::Diagnostic;
use weir_rules::facts::Facts;
use weir_rules::ir::{Rule, Rules, Ruleset};

use crate::pipes::unconfigured;

/// Finds them in a file, also in the anchors that stand in it.
#[must_use]
pub(crate) fn diagnostics(ruleset: &Ruleset, facts: &Facts) -> Vec<Diagnostic> {
    let mut rules = Vec::new();
    collect(&ruleset.main, &mut rules);
    unconfigured(rules.into_iter(), facts)
}

fn collect<'a>(rules: &'a Rules, all: &mut Vec<&'a Rule>) {
    for rule in &rules.filter {
        all.push(rule);
        if let Some(body) = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_ref()) {
            collect(body, all);
        }
    }
}
