//! Macros and tables: what is defined and not used, and what is used and not defined.

use std::collections::{BTreeMap, BTreeSet};

use super::{MAIN_FILE, lists};
use crate::Compiled;
use crate::ast::Ast;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Address, Pool, Prelude, Rule, Rules, Ruleset};
use crate::source::{SourceMap, Span, offset};
use crate::value::Text;

/// Macros of the main file that nothing uses. Files of macros are often included by several.
/// What is used under a value of the command line is used.
pub(super) fn macros(ast: &Ast, found: &mut Vec<Diagnostic>) {
    let fixed =
        ast.macros.iter().filter(|definition| definition.is_fixed && !definition.uses.is_empty());
    let replaced: BTreeSet<&str> = fixed.map(|definition| &*definition.name.value).collect();
    for definition in &ast.macros {
        let is_used = !definition.uses.is_empty() || replaced.contains(&*definition.name.value);
        if !is_used && !definition.is_fixed && definition.name.span.file == MAIN_FILE {
            let name = &definition.name.value;
            let message = format!("nothing uses the macro `{name}`");
            found.push(Diagnostic::warning(Code::UnusedMacro, definition.name.span, message));
        }
    }
}

/// Tables without a use, and uses without a table.
pub(super) fn tables(compiled: &Compiled, found: &mut Vec<Diagnostic>) {
    let ruleset = &compiled.ruleset;
    let uses = Uses::of(ruleset);
    let is_open = has_outside_rules(ruleset);
    // A rule that is left out for an error may use any table.
    let tables = ruleset.tables.iter().filter(|_| compiled.error_count == 0);
    for table in tables {
        // A typed table stays whoever uses it.
        let is_used = uses.first_by_name.contains_key(&table.name) || table.typed.is_some();
        if is_used || uses.is_filled(&table.name) {
            continue;
        }
        let name = &table.name;
        let span = at_name(&compiled.sources, table.span, name);
        if !table.is_persist {
            let message = format!("no rule uses the table <{name}>");
            let help = "without `persist`, pf forgets a table that no rule uses";
            found.push(Diagnostic::warning(Code::UnusedTable, span, message).help(help));
        } else if !is_open {
            let message = format!("no rule here uses the table <{name}>");
            let mut problem = Diagnostic::warning(Code::UnusedTable, span, message);
            problem.severity = crate::diagnostic::Severity::Note;
            found.push(problem.help("`persist` keeps it for programs and anchors that fill it"));
        }
    }
    let defined: BTreeSet<&str> = ruleset.tables.iter().map(|table| &*table.name).collect();
    for (name, span) in &uses.first_by_name {
        if defined.contains(&**name) || uses.is_filled(name) {
            continue;
        }
        let span = at_name(&compiled.sources, *span, name);
        let message = format!("the table <{name}> is not defined in this file");
        let problem = Diagnostic::warning(Code::MissingTable, span, message)
            .label("empty until something else fills it")
            .help(format!("define it: `table <{name}> persist`"));
        found.push(problem.nearest(name, defined.iter().copied()));
    }
}

/// The name of a table within a statement; the whole statement where a macro hides it.
fn at_name(sources: &SourceMap, span: Span, name: &str) -> Span {
    let text = sources.text(span);
    let places = text.match_indices(name).map(|(at, _)| at);
    let mut in_brackets = places.filter(|at| {
        text[..*at].trim_end().ends_with('<')
            && text[at + name.len()..].trim_start().starts_with('>')
    });
    let Some(at) = in_brackets.next() else { return span };
    let start = span.start + offset(at);
    Span { start, end: start + offset(name.len()), ..span }
}

/// Whether rules come from elsewhere: anchors that something else fills, and files of anchors.
pub(super) fn has_outside_rules(ruleset: &Ruleset) -> bool {
    let is_outside = |rule: &Rule| rule.anchor.as_ref().is_some_and(|anchor| anchor.body.is_none());
    !ruleset.loads.is_empty() || lists(ruleset).iter().any(|list| list.rules.iter().any(is_outside))
}

/// Where tables are named.
struct Uses {
    /// By rules that look into them: the first statement.
    first_by_name: BTreeMap<Text, Span>,
    /// By rules and limiters that put addresses in.
    filled: BTreeSet<Text>,
}

impl Uses {
    fn of(ruleset: &Ruleset) -> Self {
        let mut uses = Self { first_by_name: BTreeMap::new(), filled: filled(ruleset) };
        for list in lists(ruleset) {
            for rule in list.rules {
                uses.rule(rule);
            }
        }
        let mut open: Vec<&Rules> = vec![&ruleset.main];
        while let Some(rules) = open.pop() {
            for rule in &rules.ether {
                uses.address(&rule.l3_from.address, rule.span);
                uses.address(&rule.l3_to.address, rule.span);
                open.extend(rule.anchor.as_ref().and_then(|anchor| anchor.body.as_deref()));
            }
        }
        uses
    }

    fn is_filled(&self, name: &Text) -> bool {
        self.filled.contains(name)
    }

    fn rule(&mut self, rule: &Rule) {
        self.address(&rule.from.address, rule.span);
        self.address(&rule.to.address, rule.span);
        let pools = [rule.nat.as_deref(), rule.rdr.as_deref()];
        let pools = pools.into_iter().chain([rule.route.as_deref().map(|route| &route.pool)]);
        for Pool { hosts, .. } in pools.flatten() {
            for address in hosts.iter().filter_map(|host| host.address.as_ref()) {
                self.address(address, rule.span);
            }
        }
    }

    fn address(&mut self, address: &Address, span: Span) {
        if let Address::Table(name) = address {
            let first = self.first_by_name.entry(name.clone()).or_insert(span);
            *first = (*first).min(span);
        }
    }
}

/// Tables that rules (`overload`) and limiters put addresses into.
pub(super) fn filled(ruleset: &Ruleset) -> BTreeSet<Text> {
    let mut names = BTreeSet::new();
    for list in lists(ruleset) {
        for rule in list.rules {
            let state = rule.options.state.as_ref();
            names.extend(
                state
                    .and_then(|overload| overload.overload.as_ref())
                    .map(|overload| overload.0.clone()),
            );
        }
    }
    for prelude in &ruleset.prelude {
        if let Prelude::Limiter(limiter) = prelude {
            names.extend(limiter.table.as_ref().map(|table| table.name.clone()));
        }
    }
    names
}
