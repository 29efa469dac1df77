//! What a load would refuse of a ruleset as a whole, as far as it can be said without a firewall:
//! sizes, interfaces that cannot be filtered, and what the compiler has no room for. `check` shows
//! it with what [`crate::refuse`] finds of single constructs; a load refuses it in the same words.
//!
//! Of memory nothing is said: what is free now is not what is free then.

use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::evaluate::{Evaluator, LoadedAnchor};
use weir_rules::facts::Facts;
use weir_rules::ir::{Prelude, Ruleset};
use weir_rules::resolve::Resolver as _;
use weir_rules::source::Span;

use super::source::{Size, limit_of};
use super::tables::{self, Tables};
use super::{interfaces, links, memory};
use crate::compile::known::Known;
use crate::compile::{self, CountedTables, Input, Slot, TableName};
use crate::refuse;

/// The interfaces of this network namespace that cannot be filtered; none if the kernel
/// does not say.
#[must_use]
pub fn unfilterable() -> Vec<String> {
    links().map(|links| interfaces::unfilterable(&links)).unwrap_or_default()
}

/// Finds it for a file with those that it loads into anchors, on a machine with interfaces that are
/// `unfilterable`. Of a ruleset in which single constructs are refused only interfaces and sizes
/// are looked at. What is said has its place in the file itself.
#[must_use]
pub fn refusals_of_whole(
    ruleset: &Ruleset,
    anchors: &[LoadedAnchor],
    facts: &Facts,
    unfilterable: &[String],
) -> Vec<Diagnostic> {
    let mut found = refuse::interfaces(ruleset, facts, unfilterable);
    found.extend(refuse::pipes(ruleset, facts));
    if let Err((sizes, message)) = memory::sizes_of(ruleset) {
        found.push(Diagnostic::error(Code::Limit, place(ruleset, &sizes), message));
    }
    let directory = directory(ruleset, &[], facts).and_then(|alone| {
        if anchors.is_empty() {
            return Ok(alone);
        }
        directory(ruleset, anchors, facts).map_err(|mut limits| {
            // A place in an anchor's file is none in this one.
            limits.iter_mut().for_each(|limit| limit.span = Span::default());
            limits
        })
    });
    match directory {
        Ok(directory) => {
            let mut tables = Tables::default().with_all("", ruleset, anchors);
            tables.drop_unused(&directory);
            let limit = limit_of(ruleset, "table-entries");
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            if tables.entry_count() > limit {
                let message = tables::too_many_entries(tables.entry_count(), limit);
                let at = place(ruleset, &[Size::Limit("table-entries")]);
                found.push(Diagnostic::error(Code::Limit, at, message));
            }
        }
        Err(limits) => found.extend(limits),
    }
    found
}

/// Finds it for a file that another one loads into an anchor: what counts beyond it is found with
/// the other one.
#[must_use]
pub fn refusals_of_anchor(
    ruleset: &Ruleset,
    facts: &Facts,
    unfilterable: &[String],
) -> Vec<Diagnostic> {
    let mut found = refuse::interfaces(ruleset, facts, unfilterable);
    found.extend(refuse::pipes(ruleset, facts));
    found.extend(refuse::of_anchor(ruleset));
    found
}

/// The tables that rules name; or what the compiler has no room for. What single constructs are
/// refused for is found elsewhere.
fn directory(
    ruleset: &Ruleset,
    anchors: &[LoadedAnchor],
    facts: &Facts,
) -> Result<Vec<TableName>, Vec<Diagnostic>> {
    let evaluator = Evaluator::new(ruleset, anchors, facts).map_err(|error| {
        vec![Diagnostic::error(Code::Limit, Span::default(), error.to_string())]
    })?;
    let names = facts.interfaces().iter().map(|interface| interface.name.clone());
    let slots = (1..64).zip(names).map(|(number, interface)| Slot { number, interface });
    let slots: Vec<Slot> = slots.collect();
    let known = Known::default();
    let counted = CountedTables::new();
    let (evaluator, slots, known) = (&evaluator, &slots, &known);
    let typed = &compile::declared_values(ruleset);
    let input = Input { evaluator, resolver: facts, slots, known, counted: &counted, typed };
    match compile::compile(&input) {
        Ok(compiled) => Ok(compiled.tables),
        Err(refused) => {
            let is_of_whole = |one: &Diagnostic| matches!(one.code, Code::Limit | Code::BadValue);
            Err(refused.0.into_iter().filter(is_of_whole).collect())
        }
    }
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

#[cfg(test)]
mod tests {
    use weir_rules::Dialect;

    use super::*;

    fn ruleset(text: &str) -> Ruleset {
        crate::testing::ruleset(text, Dialect::FreeBsd, &Facts::new())
    }

    #[test]
    fn what_the_compiler_finds_wrong_is_found() {
        for text in [
            "altq on em0 hfsc queue { a }\nqueue a hfsc(default)\npass\n",
            "altq on em0 cbq bandwidth 1Mb queue { a b }\nqueue a cbq(default)\npass queue a\n",
        ] {
            let found = refusals_of_whole(&ruleset(text), &[], &Facts::new(), &[]);
            assert_eq!(found.len(), 1, "{found:?}");
        }
    }

    #[test]
    fn what_anchors_hold_counts_with_the_file_that_loads_them() {
        let main = |limit: u32| {
            let text = "table <a> { 10.0.0.1 10.0.0.2 }\nblock from <a>\nanchor ftp\n";
            ruleset(&format!("{text}set limit table-entries {limit}\n"))
        };
        let table = "table <b> { 10.0.0.3 10.0.0.4 }\n";
        let tags = |range: std::ops::Range<u32>| -> String {
            range.map(|n| format!("pass in proto udp to port {} tag t{n}\n", n + 1)).collect()
        };
        let found = |main: &Ruleset, anchors: &[String]| {
            let anchors = anchors.iter().map(|text| ruleset(text));
            let anchors = anchors.map(|ruleset| LoadedAnchor { path: "ftp".into(), ruleset });
            let anchors: Vec<_> = anchors.collect();
            let found = refusals_of_whole(main, &anchors, &Facts::new(), &[]);
            found.into_iter().map(|one| one.message).collect::<Vec<_>>()
        };
        let used = format!("{table}block from <b>\n");
        assert_eq!(found(&main(3), &[]), [""; 0]);
        assert_eq!(found(&main(4), std::slice::from_ref(&used)), [""; 0]);
        assert_eq!(found(&main(3), &[used]), [tables::too_many_entries(4, 3)]);
        assert_eq!(found(&main(3), &[table.to_owned()]), [""; 0], "no rule names it");
        let most = ruleset(&(tags(0..10) + "anchor ftp\n"));
        assert_eq!(found(&most, &[tags(0..15)]), [""; 0]);
        let refused = found(&most, &[tags(5..16)]);
        assert!(refused[0].contains("rules give 16"), "{refused:?}");
        let calls_itself = found(&main(4), &["anchor \"../ftp\"\n".to_owned()]);
        assert_eq!(calls_itself, ["anchor `ftp` contains itself"]);
    }
}
