//! A pf.conf rewritten for the other dialect.
//!
//! The text stays as it is, with its comments, macros and lists; only statements that the other
//! system writes otherwise change. FreeBSD's `nat`, `rdr`, `binat` and `scrub` become `match` with
//! `nat-to`, `rdr-to`, `binat-to` and `scrub (…)`, and back.
//!
//! The two systems do not evaluate them alike. FreeBSD takes the first translation rule that
//! matches, before it looks at any filter rule; OpenBSD changes the packet at each rule that
//! matches, in the order of the file. A statement is rewritten only where that makes no difference
//! that can be seen from the rules: translation rules exclude each other, and no rule before them
//! decides or looks at what they change. Everything else is refused with the statement named; and
//! the result is compiled in the other dialect, so that whatever that does not have is refused too.

mod disjoint;
mod route;
#[cfg(test)]
mod tests;
mod to_freebsd;
mod to_openbsd;

use std::collections::HashMap;

use crate::Compiled;
use crate::ast::{Statement, StatementKind};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::dialect::Dialect;
use crate::ir::{Address, PoolHost, Prelude, Rule, Rules, Ruleset};
use crate::resolve::Resolver;
use crate::source::{FileId, Span, index, offset};
use crate::value::Setting;

/// A ruleset in the other dialect.
#[derive(Debug, Clone, Default)]
pub struct Conversion {
    /// The whole text.
    pub text: String,
    /// What changed, in the order of the file.
    pub changes: Vec<Change>,
    /// What is worth knowing about the result; about places of the original.
    pub notes: Vec<Diagnostic>,
}

/// Words of the original that were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where they stand in the original; empty for what was added.
    pub span: Span,
    /// What stands there now; empty for what was moved away.
    pub text: String,
}

/// Rewrites the first file of a ruleset that was compiled without errors. `recompile` compiles the
/// new text in the dialect `to`, with the same macros and facts.
///
/// # Errors
///
/// One diagnostic for each statement that cannot be said in the other dialect with the same
/// meaning.
pub fn convert(
    compiled: &Compiled,
    to: Dialect,
    resolver: &dyn Resolver,
    recompile: &dyn Fn(&str) -> Compiled,
) -> Result<Conversion, Vec<Diagnostic>> {
    let text = compiled.sources.files().first().map_or("", |file| &file.text);
    if compiled.ast.dialect == to {
        return Ok(Conversion { text: text.to_owned(), ..Conversion::default() });
    }
    let mut work = Work {
        compiled,
        resolver,
        rules: by_statement(&compiled.ruleset.main),
        edits: Vec::new(),
        problems: Vec::new(),
        notes: Vec::new(),
    };
    match to {
        Dialect::OpenBsd => to_openbsd::statements(&mut work),
        Dialect::FreeBsd => to_freebsd::statements(&mut work),
    }
    refuse_weir_words(&mut work);
    let Work { mut edits, mut problems, notes, .. } = work;
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let (new, pieces) = applied(text, &edits);
    // A statement that was refused stands there unchanged, and is refused again.
    let others = refused_by_other(&recompile(&new), compiled, &pieces, to);
    let is_reported = |problems: &[Diagnostic], other: Span| {
        problems.iter().any(|problem| {
            problem.span.file == other.file
                && problem.span.start <= other.end
                && other.start <= problem.span.end
        })
    };
    let others: Vec<_> =
        others.into_iter().filter(|other| !is_reported(&problems, other.span)).collect();
    problems.extend(others);
    problems.sort_by_key(|problem| (problem.span.file, problem.span.start));
    if !problems.is_empty() {
        return Err(problems);
    }
    let changes = edits.into_iter().map(|edit| Change { span: edit.span, text: edit.text });
    Ok(Conversion { text: new, changes: changes.collect(), notes })
}

/// What is weir's own, and no pf has: left out, the file would mean something else.
fn refuse_weir_words(work: &mut Work<'_>) {
    for (span, message) in weir_words(&work.compiled.ruleset) {
        work.refuse(span, message, "take it out of the file to be converted");
    }
}

/// The statements with words that are weir's own, and what is to be said of each.
#[must_use]
pub fn weir_words(ruleset: &Ruleset) -> Vec<(Span, String)> {
    let settings = ruleset.prelude.iter().filter_map(|prelude| match prelude {
        Prelude::Set(Setting::HashSize(_), span) => Some((*span, "`set hashsize`")),
        Prelude::Set(Setting::StateReserve(_), span) => Some((*span, "`set state-reserve`")),
        Prelude::Set(Setting::WeirStages(_), span) => Some((*span, "`set weir-stages`")),
        Prelude::Set(Setting::StateDefaults(state_defaults), span) if state_defaults.reserve => {
            Some((*span, "`reserve`"))
        }
        _ => None,
    });
    let mut found: Vec<(Span, &str)> = settings.collect();
    reserves(&ruleset.main, &mut found);
    // A statement may be many rules.
    found.dedup();
    let found = found.into_iter().map(|(span, what)| (span, no_pf_has(what)));
    found.chain(typed_words(ruleset)).collect()
}

fn no_pf_has(what: &str) -> String {
    format!("{what} is weir's own: no pf has it")
}

/// The same of typed tables: where they are declared, and where FreeBSD's rules would take none.
/// `--dialect` refuses these.
#[must_use]
pub fn typed_words(ruleset: &Ruleset) -> Vec<(Span, String)> {
    let tables = ruleset.tables.iter().filter(|table| table.typed.is_some());
    let mut found: Vec<(Span, &str)> =
        tables.map(|table| (table.span, "`table` with `type`")).collect();
    if ruleset.dialect == Dialect::FreeBsd {
        routes(&ruleset.main, &mut found);
    }
    found.dedup();
    found.into_iter().map(|(span, what)| (span, no_pf_has(what))).collect()
}

fn routes(rules: &Rules, found: &mut Vec<(Span, &'static str)>) {
    for rule in &rules.filter {
        let hosts = rule.route.iter().flat_map(|route| &route.pool.hosts);
        let is_table = |host: &PoolHost| {
            host.interface.is_none() && matches!(host.address, Some(Address::Table(_)))
        };
        if hosts.into_iter().any(is_table) {
            found.push((rule.span, "`route-to <table>`"));
        }
        if let Some(body) = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_ref()) {
            routes(body, found);
        }
    }
}

fn reserves(rules: &Rules, found: &mut Vec<(Span, &'static str)>) {
    for rule in &rules.filter {
        if rule.options.state.as_ref().is_some_and(|state| state.reserve) {
            found.push((rule.span, "`reserve`"));
        }
        if let Some(body) = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_ref()) {
            reserves(body, found);
        }
    }
}

/// A replacement in the first file.
#[derive(Debug, Clone)]
struct Edit {
    span: Span,
    text: String,
}

/// What the rewriting of statements reads and fills.
struct Work<'a> {
    compiled: &'a Compiled,
    resolver: &'a dyn Resolver,
    /// The expanded rules of each statement.
    rules: HashMap<Span, Vec<&'a Rule>>,
    edits: Vec<Edit>,
    problems: Vec<Diagnostic>,
    notes: Vec<Diagnostic>,
}

impl<'a> Work<'a> {
    /// All statements outside anchors.
    fn statements(&self) -> &'a [Statement] {
        &self.compiled.ast.statements
    }

    fn expanded(&self, span: Span) -> &[&'a Rule] {
        self.rules.get(&span).map_or(&[], Vec::as_slice)
    }

    fn refuse(&mut self, span: Span, message: impl Into<String>, help: &str) {
        let problem = Diagnostic::error(Code::WrongDialect, span, message);
        self.problems.push(if help.is_empty() { problem } else { problem.help(help) });
    }

    fn note(&mut self, span: Span, message: &str) {
        let note = Diagnostic::warning(Code::WrongDialect, span, message);
        self.notes.push(Diagnostic { severity: Severity::Note, ..note });
    }

    fn edit(&mut self, span: Span, text: impl Into<String>) {
        self.edits.push(Edit { span, text: text.into() });
    }

    /// Whether a statement that has to change can be: it is in the first file.
    fn is_here(&mut self, span: Span) -> bool {
        if span.file != FileId(0) {
            let message = "this is in an included file";
            self.refuse(span, message, "convert that file separately");
        }
        span.file == FileId(0)
    }

    /// The text between two places of the first file.
    fn text(&self, start: u32, end: u32) -> &'a str {
        let text = self.compiled.sources.files().first().map_or("", |file| &*file.text);
        text.get(index(start)..index(end)).unwrap_or("")
    }

    /// Whether some packet matches a rule of both statements, as far as rules tell.
    fn overlap(&self, a: Span, b: Span) -> bool {
        let (a, b) = (self.expanded(a), self.expanded(b));
        a.iter().any(|a| b.iter().any(|b| !disjoint::rules(a, b, self.resolver)))
    }
}

/// The expanded rules of each statement, those in anchors included.
fn by_statement(rules: &Rules) -> HashMap<Span, Vec<&Rule>> {
    let mut map: HashMap<Span, Vec<&Rule>> = HashMap::new();
    let mut open = vec![rules];
    while let Some(rules) = open.pop() {
        for rule in rules.lists().into_iter().flatten() {
            map.entry(rule.span).or_default().push(rule);
            open.extend(rule.anchor.as_ref().and_then(|anchor| anchor.body.as_deref()));
        }
    }
    map
}

/// A statement within an anchor's braces that `is_match`, if there is one.
fn within_anchors<'a>(
    statements: &'a [Statement],
    is_match: &dyn Fn(&Statement) -> bool,
) -> Vec<&'a Statement> {
    let mut found = Vec::new();
    let mut open: Vec<&[Statement]> = bodies(statements).collect();
    while let Some(inner) = open.pop() {
        found.extend(inner.iter().filter(|inner| is_match(inner)));
        open.extend(bodies(inner));
    }
    found
}

fn bodies(statements: &[Statement]) -> impl Iterator<Item = &[Statement]> {
    statements.iter().filter_map(|statement| match &statement.kind {
        StatementKind::Anchor(anchor) => anchor.body.as_deref(),
        _ => None,
    })
}

/// A stretch of the new text, with where it comes from.
#[derive(Debug, Clone, Copy)]
struct Piece {
    new_start: u32,
    old_start: u32,
    /// It was copied, so that places in it correspond.
    is_copy: bool,
}

/// The text with its edits, which are sorted and do not overlap.
fn applied(text: &str, edits: &[Edit]) -> (String, Vec<Piece>) {
    let mut new = String::with_capacity(text.len());
    let mut pieces = Vec::new();
    let mut at = 0;
    for edit in edits {
        let (start, end) = (index(edit.span.start), index(edit.span.end));
        pieces.push(Piece { new_start: offset(new.len()), old_start: offset(at), is_copy: true });
        new.push_str(text.get(at..start).unwrap_or(""));
        pieces.push(Piece {
            new_start: offset(new.len()),
            old_start: edit.span.start,
            is_copy: false,
        });
        new.push_str(&edit.text);
        at = end.max(at);
    }
    pieces.push(Piece { new_start: offset(new.len()), old_start: offset(at), is_copy: true });
    new.push_str(text.get(at..).unwrap_or(""));
    (new, pieces)
}

/// Where a place of the new text was in the old one.
fn old_place(pieces: &[Piece], at: u32) -> u32 {
    let before = pieces.partition_point(|piece| piece.new_start <= at);
    let Some(piece) = before.checked_sub(1).and_then(|last| pieces.get(last)) else { return 0 };
    if piece.is_copy { piece.old_start + (at - piece.new_start) } else { piece.old_start }
}

/// What the other dialect finds wrong with the new text, at the old places.
fn refused_by_other(
    new: &Compiled,
    old: &Compiled,
    pieces: &[Piece],
    to: Dialect,
) -> Vec<Diagnostic> {
    let errors = new.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let mut problems = Vec::new();
    for error in errors {
        let is_first = error.span.file == FileId(0);
        let at = if is_first { old_place(pieces, error.span.start) } else { 0 };
        let statement = old.ast.statements.iter().find(|statement| {
            is_first
                && statement.span.file == FileId(0)
                && (statement.span.start..=statement.span.end).contains(&at)
        });
        let span = statement.map_or(Span::new(FileId(0), at, at), |statement| statement.span);
        let message = format!("{to}'s pf.conf cannot express this: {}", error.message);
        let mut problem = Diagnostic::error(Code::WrongDialect, span, message);
        problem.help.clone_from(&error.help);
        problems.push(problem);
    }
    problems
}
