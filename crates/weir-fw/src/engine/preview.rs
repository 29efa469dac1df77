//! What a load would refuse of a ruleset as a whole, as far as it can be said without a firewall:
//! sizes, interfaces that cannot be filtered, and what the compiler has no room for. `check` shows
//! it with what [`crate::refuse`] finds of single constructs; a load refuses it in the same words.
//!
//! Of memory nothing is said: what is free now is not what is free then.

use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::evaluate::Evaluator;
use weir_rules::facts::Facts;
use weir_rules::ir::{Prelude, Ruleset};
use weir_rules::resolve::Resolver as _;
use weir_rules::source::Span;

use super::source::{Size, limit_of};
use super::tables::{self, Tables};
use super::{interfaces, links, memory};
use crate::compile::known::Known;
use crate::compile::{self, Input, Slot};
use crate::refuse;

/// The interfaces of this network namespace whose frames are not Ethernet's; none if the kernel
/// does not say.
#[must_use]
pub fn not_ethernet() -> Vec<String> {
    links().map(|links| interfaces::not_ethernet(&links)).unwrap_or_default()
}

/// Finds it, on a machine with interfaces that are `not_ethernet`. Of a ruleset in which single
/// constructs are refused only interfaces and sizes are looked at.
#[must_use]
pub fn refusals_of_whole(
    ruleset: &Ruleset,
    facts: &Facts,
    not_ethernet: &[String],
) -> Vec<Diagnostic> {
    let mut found = refuse::interfaces(ruleset, facts, not_ethernet);
    if let Err((sizes, message)) = memory::sizes_of(ruleset) {
        found.push(Diagnostic::error(Code::Limit, place(ruleset, &sizes), message));
    }
    let Ok(evaluator) = Evaluator::new(ruleset, &[], facts) else { return found };
    let names = facts.interfaces().iter().map(|interface| interface.name.clone());
    let slots = (1..64).zip(names).map(|(number, interface)| Slot { number, interface });
    let slots: Vec<Slot> = slots.collect();
    let known = Known::default();
    let input = Input { evaluator: &evaluator, resolver: facts, slots: &slots, known: &known };
    match compile::compile(&input) {
        Ok(compiled) => {
            let mut tables = Tables::default().with("", ruleset);
            tables.drop_unused(&compiled.tables);
            let limit = limit_of(ruleset, "table-entries");
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            if tables.entry_count() > limit {
                let message = tables::too_many_entries(tables.entry_count(), limit);
                let at = place(ruleset, &[Size::Limit("table-entries")]);
                found.push(Diagnostic::error(Code::Limit, at, message));
            }
        }
        // What single constructs are refused for is found elsewhere.
        Err(refused) => found.extend(refused.0.into_iter().filter(|one| one.code == Code::Limit)),
    }
    found
}

/// The first of some sizes that the file sets.
fn place(ruleset: &Ruleset, sizes: &[Size]) -> Span {
    let found = sizes.iter().find_map(|size| {
        ruleset.prelude.iter().rev().find_map(|statement| match statement {
            Prelude::Set(setting, span) if size.is(setting) => Some(*span),
            _ => None,
        })
    });
    found.unwrap_or_default()
}
