//! Rules about interfaces that are there and cannot be filtered, because their frames are neither
//! Ethernet's nor IP packets alone (InfiniBand, GRE without a remote end): they would never hold,
//! and nobody would know.

use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::evaluate::Evaluator;
use weir_rules::facts::Facts;
use weir_rules::ir::{Interface, Rule, Rules, Ruleset};
use weir_rules::resolve::interfaces_named;

/// Finds the rules that name one of `unfilterable`, but for those that `set skip` names too. What
/// is not there yet may be named: rules wait for it, and whoever starts it is told.
#[must_use]
pub(crate) fn diagnostics(
    ruleset: &Ruleset,
    facts: &Facts,
    unfilterable: &[String],
) -> Vec<Diagnostic> {
    if unfilterable.is_empty() {
        return Vec::new();
    }
    let evaluator = Evaluator::new(ruleset, &[], facts).ok();
    let is_skipped = |name: &str| evaluator.as_ref().is_some_and(|evaluator| evaluator.skips(name));
    let names: Vec<&str> = unfilterable.iter().map(String::as_str).collect();
    let names = names.into_iter().filter(|name| !is_skipped(name)).collect();
    let mut found = Found { facts, names, list: Vec::new() };
    found.rules(&ruleset.main);
    found.list
}

struct Found<'a> {
    facts: &'a Facts,
    names: Vec<&'a str>,
    list: Vec<Diagnostic>,
}

impl Found<'_> {
    fn rules(&mut self, rules: &Rules) {
        for rule in &rules.filter {
            self.rule(rule);
            if let Some(body) = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_ref()) {
                self.rules(body);
            }
        }
    }

    fn rule(&mut self, rule: &Rule) {
        let named = [rule.interface.as_ref(), rule.received_on.as_ref()];
        let found = named.into_iter().flatten().find_map(|name| self.unfilterable(name));
        let Some(name) = found else { return };
        let message = format!("weir's data path cannot filter on `{name}`");
        let diagnostic = Diagnostic::error(Code::CannotRun, rule.span, message)
            .label("its frames are neither Ethernet's nor IP packets alone");
        self.list
            .push(diagnostic.help(format!("take the rule out, and write `set skip on {name}`")));
    }

    /// The name of an interface that a rule means and that cannot be filtered.
    fn unfilterable(&self, interface: &Interface) -> Option<String> {
        if interface.not {
            return None;
        }
        interfaces_named(self.facts, &interface.name)
            .find(|facts| self.names.contains(&facts.name.as_str()))
            .map(|facts| facts.name.clone())
    }
}
