//! What is suspicious in a ruleset that is right: rules that no packet reaches, that never match
//! or never decide, tables and macros that nothing uses, redirections that overlap.
//!
//! A finding must be certain from the file: a rule is called pointless only if one other rule
//! matches provably all that it does, in every combination of its lists. What several rules cover
//! together is not looked for, nor are layer 2 rules compared. The order of evaluation is that of
//! pf.conf(5): the last filter rule that matches wins unless one is `quick`; of scrub and of old
//! translation rules the first wins.

pub(crate) mod cover;
pub(crate) mod index;
mod names;
mod never;
mod order;

use std::collections::BTreeMap;

use crate::Compiled;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::ir::{Rule, Rules, Ruleset};
use crate::resolve::Resolver;
use crate::source::{FileId, Span};

/// Other places named in one finding.
const RELATED_COUNT_MAX: usize = 3;

/// Looks for what is suspicious, and gives it sorted by place. All findings are warnings or notes.
/// Where the file has errors, rules are missing: what they might use is then not asked about.
#[must_use]
pub fn check(compiled: &Compiled, resolver: &dyn Resolver) -> Vec<Diagnostic> {
    let ruleset = &compiled.ruleset;
    let mut found = Vec::new();
    names::macros(&compiled.ast, &mut found);
    names::tables(compiled, &mut found);
    let world = never::World::new(compiled, resolver);
    let mut checker = order::Checker::new(ruleset);
    for list in lists(ruleset) {
        checker.list(&list, &world, &mut found);
    }
    found.extend(checker.finish());
    found.sort_by_key(|found| (found.span.file, found.span.start, found.code));
    found
}

/// Which rule of a list decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decides {
    /// The first that matches.
    First,
    /// The last that matches, or one with `quick`.
    Last,
}

/// The rules of one kind in one ruleset or anchor.
struct List<'a> {
    rules: &'a [Rule],
    decides: Decides,
    /// Path of the anchor, as tables have it.
    anchor: String,
}

/// All lists of rules, those of anchors included.
fn lists(ruleset: &Ruleset) -> Vec<List<'_>> {
    let mut found = Vec::new();
    let mut open: Vec<(String, &Rules)> = vec![(String::new(), &ruleset.main)];
    while let Some((anchor, rules)) = open.pop() {
        let Rules { ether, scrub, nat, rdr, binat, filter } = rules;
        for (list, decides) in [
            (scrub, Decides::First),
            (nat, Decides::First),
            (rdr, Decides::First),
            (binat, Decides::First),
            (filter, Decides::Last),
        ] {
            let calls = list.iter().filter_map(|rule| rule.anchor.as_ref());
            open.extend(calls.filter_map(|call| below(&anchor, call)));
            found.push(List { rules: list, decides, anchor: anchor.clone() });
        }
        let calls = ether.iter().filter_map(|rule| rule.anchor.as_ref());
        open.extend(calls.filter_map(|call| below(&anchor, call)));
    }
    found
}

/// The body of an anchor with its path.
fn below<'a>(path: &str, call: &'a crate::ir::AnchorCall) -> Option<(String, &'a Rules)> {
    let name = call.name.as_deref().unwrap_or("_");
    let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    call.body.as_deref().map(|body| (path, body))
}

/// What is wrong with one rule.
struct Finding {
    code: Code,
    severity: Severity,
    message: String,
    label: String,
    help: String,
    /// The other place, and what it has to do with it.
    related: Option<(Span, String)>,
}

/// One diagnostic for each statement of which every rule has a finding. `rule_counts` says how
/// many rules a statement has; `findings` are in the order of the rules.
fn by_statement(
    rule_counts: &BTreeMap<Span, usize>,
    findings: Vec<(Span, Finding)>,
    found: &mut Vec<Diagnostic>,
) {
    let mut groups: BTreeMap<Span, Vec<Finding>> = BTreeMap::new();
    for (span, finding) in findings {
        groups.entry(span).or_default().push(finding);
    }
    for (span, group) in groups {
        if rule_counts.get(&span) != Some(&group.len()) {
            continue;
        }
        let Some(first) = group.first() else { continue };
        let mut problem = Diagnostic::warning(first.code, span, first.message.clone());
        problem.severity = first.severity;
        problem.label.clone_from(&first.label);
        if !first.help.is_empty() {
            problem.help = Some(first.help.clone());
        }
        let mut places: Vec<Span> = Vec::new();
        for (place, text) in group.iter().filter_map(|group| group.related.as_ref()) {
            if !places.contains(place) && places.len() < RELATED_COUNT_MAX {
                places.push(*place);
                problem = problem.related(*place, text.clone());
            }
        }
        found.push(problem);
    }
}

/// The file that was named; those that it includes have other numbers.
const MAIN_FILE: FileId = FileId(0);
