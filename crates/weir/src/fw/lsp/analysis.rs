//! What an editor asks about a ruleset, as functions of the compiled text and a place in it.

use std::net::IpAddr;

use weir_rules::Compiled;
use weir_rules::ast::{Statement, StatementKind, TableSource};
use weir_rules::ir::{AnchorCall, Rules, Table, TableEntry};
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::resolve::Resolver;
use weir_rules::source::{FileId, Span};
use weir_rules::value::{Spanned, Text};

/// Rules of one statement that are shown.
const RULE_COUNT_MAX: usize = 40;
/// Entries of a table that are shown.
const ENTRY_COUNT_MAX: usize = 12;

/// What is shown beside the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hover {
    /// The words that it is about.
    pub(super) span: Span,
    /// Lines of pf.conf.
    pub(super) code: String,
    /// A line below them; may be empty.
    pub(super) note: String,
}

/// Where something is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// In a file that the ruleset is read from.
    Words(Span),
    /// A file that the ruleset names, from the file that names it.
    File(Text, FileId),
}

/// A ruleset that was read.
pub(super) struct Analysis {
    pub(super) compiled: Compiled,
}

/// A statement, with the path of the anchor that it is in.
type Placed<'a> = (&'a Statement, String);

impl Analysis {
    /// What is at a place: a macro's value, a table, or the rules that the statement comes to.
    pub(super) fn hover(&self, file: FileId, at: u32, resolver: &dyn Resolver) -> Option<Hover> {
        if let Some((definition, span)) = self.macro_at(file, at) {
            let (name, value) = (&definition.name.value, &definition.value.value);
            let note = if definition.is_fixed { "from the command line" } else { "" };
            return Some(Hover { span, code: format!("{name} = \"{value}\""), note: note.into() });
        }
        let statements = self.statements();
        let inner = innermost(&statements, file, at);
        if let Some((name, span)) = self.table_at(file, at) {
            let anchor = inner.map_or("", |(_, anchor)| anchor);
            let table = self.table(name, anchor)?;
            return Some(Hover { span, code: table_text(table), note: table_note(table) });
        }
        let (statement, anchor) = inner?;
        if let StatementKind::Table(definition) = &statement.kind {
            let table = self.table(&definition.name.value, anchor)?;
            let (code, note) = (table_text(table), table_note(table));
            return Some(Hover { span: statement.span, code, note });
        }
        let dialect = self.compiled.ruleset.dialect;
        let printer = Printer { dialect, resolver, options: PrintOptions::default() };
        let mut lines = Vec::new();
        rules_of(&self.compiled.ruleset.main, statement.span, printer, &mut lines);
        if lines.is_empty() {
            return None;
        }
        let count = lines.len();
        lines.truncate(RULE_COUNT_MAX);
        let note = match count {
            1 => String::new(),
            _ if count > RULE_COUNT_MAX => format!("the first {RULE_COUNT_MAX} of {count} rules"),
            _ => format!("{count} rules"),
        };
        Some(Hover { span: statement.span, code: lines.join("\n"), note })
    }

    /// Where what is at a place is defined: a macro, a table, an anchor, a file.
    pub(super) fn definitions(&self, file: FileId, at: u32) -> Vec<Target> {
        if let Some((definition, _)) = self.macro_at(file, at) {
            let is_written = !definition.is_fixed;
            return is_written.then_some(Target::Words(definition.name.span)).into_iter().collect();
        }
        let statements = self.statements();
        let Some((statement, anchor)) = innermost(&statements, file, at) else {
            return Vec::new();
        };
        if let Some((name, _)) = self.table_at(file, at) {
            let Some(table) = self.table(name, anchor) else { return Vec::new() };
            let definition = statements.iter().find(|(statement, _)| statement.span == table.span);
            return match definition.map(|(statement, _)| &statement.kind) {
                Some(StatementKind::Table(definition)) => vec![Target::Words(definition.name.span)],
                _ => vec![Target::Words(table.span)],
            };
        }
        let under = |name: &Spanned<Text>| holds(name.span, file, at);
        let to_file = |path: &Spanned<Text>| vec![Target::File(path.value.clone(), path.span.file)];
        match &statement.kind {
            StatementKind::Include(path) if under(path) => to_file(path),
            StatementKind::LoadAnchor { file: path, .. } if under(path) => to_file(path),
            StatementKind::LoadAnchor { name, .. } if under(name) => {
                anchors(&statements, &joined("", &name.value))
            }
            StatementKind::Anchor(inner) => match &inner.name {
                Some(name) if under(name) => anchors(&statements, &joined(anchor, &name.value)),
                _ => Vec::new(),
            },
            StatementKind::Table(definition) => {
                let mut files = definition.sources.iter().filter_map(|source| match source {
                    TableSource::File(path) if under(path) => Some(to_file(path)),
                    _ => None,
                });
                files.next().unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// The macro that is used or defined at a place, with the words there.
    fn macro_at(&self, file: FileId, at: u32) -> Option<(&weir_rules::ast::Macro, Span)> {
        self.compiled.ast.macros.iter().find_map(|definition| {
            // One of the command line has no place of its own.
            let name = Some(definition.name.span).filter(|_| !definition.is_fixed);
            let mut spans = definition.uses.iter().copied().chain(name);
            spans.find(|span| holds(*span, file, at)).map(|span| (definition, span))
        })
    }

    /// The name between `<` and `>` at a place, with the words; not in a comment or a string.
    fn table_at(&self, file: FileId, at: u32) -> Option<(&str, Span)> {
        let text = &self.compiled.sources.file(file)?.text;
        let at = usize::try_from(at).ok().filter(|at| text.is_char_boundary(*at))?;
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let line = &text[line_start..line_end];
        let column = at - line_start;
        let open = line[..(column + 1).min(line.len())].rfind('<').filter(|open| {
            let between = line.get(open + 1..column).unwrap_or("");
            !between[..between.len().saturating_sub(1)].contains('>')
        })?;
        let close = open + line[open..].find('>')?;
        if close + 1 < column || is_in_comment(&line[..open]) {
            return None;
        }
        let name = line[open + 1..close].trim();
        let offset = |at: usize| u32::try_from(line_start + at).unwrap_or(u32::MAX);
        let span = Span::new(file, offset(open), offset(close + 1));
        (!name.is_empty()).then_some((name, span))
    }

    /// A table as rules of an anchor see it: the anchor's own, or the main ruleset's.
    fn table(&self, name: &str, anchor: &str) -> Option<&Table> {
        let mut named = self.compiled.ruleset.tables.iter().filter(|table| &*table.name == name);
        let first = named.clone().next();
        let exact = named.clone().find(|table| &*table.anchor == anchor);
        exact.or_else(|| named.find(|table| table.anchor.is_empty())).or(first)
    }

    fn statements(&self) -> Vec<Placed<'_>> {
        let mut list = Vec::new();
        collect(&self.compiled.ast.statements, "", &mut list);
        list
    }
}

/// All statements, those of an anchor behind it.
fn collect<'a>(statements: &'a [Statement], anchor: &str, list: &mut Vec<Placed<'a>>) {
    for statement in statements {
        list.push((statement, anchor.to_owned()));
        if let StatementKind::Anchor(inner) = &statement.kind
            && let Some(body) = &inner.body
        {
            let name = inner.name.as_ref().map_or("_", |name| &*name.value);
            collect(body, &joined(anchor, name), list);
        }
    }
}

/// The statement at a place, and its anchor's path: of anchors in anchors, the inner one's.
fn innermost<'a>(
    statements: &'a [Placed<'_>],
    file: FileId,
    at: u32,
) -> Option<(&'a Statement, &'a str)> {
    let mut found = statements.iter().filter(|(statement, _)| holds(statement.span, file, at));
    found.next_back().map(|(statement, anchor)| (*statement, anchor.as_str()))
}

fn holds(span: Span, file: FileId, at: u32) -> bool {
    span.file == file && span.start <= at && at <= span.end && span.start < span.end
}

/// The path of an anchor that is named within another.
fn joined(anchor: &str, name: &str) -> String {
    match (anchor, name.strip_prefix('/')) {
        (_, Some(name)) => name.to_owned(),
        ("", None) => name.to_owned(),
        (anchor, None) => format!("{anchor}/{name}"),
    }
}

/// Where an anchor gets its rules: in braces, or by `load anchor`. A path that ends in `*` has
/// those of all anchors below it.
fn anchors(statements: &[Placed<'_>], path: &str) -> Vec<Target> {
    let is_meant = |name: &str| match path.strip_suffix('*') {
        Some(start) => name.starts_with(start) && !name.ends_with('*'),
        None => name == path,
    };
    let targets = statements.iter().filter_map(|(statement, anchor)| match &statement.kind {
        StatementKind::Anchor(inner) if inner.body.is_some() => {
            inner.name.as_ref().filter(|name| is_meant(&joined(anchor, &name.value)))
        }
        StatementKind::LoadAnchor { name, .. } => {
            Some(name).filter(|name| is_meant(&joined("", &name.value)))
        }
        _ => None,
    });
    targets.map(|name| Target::Words(name.span)).collect()
}

/// Whether a line is in a comment where this part of it ends.
fn is_in_comment(before: &str) -> bool {
    let mut quote = None;
    for character in before.chars() {
        match (quote, character) {
            (None, '#') => return true,
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    quote.is_some()
}

/// The rules that come from the statement at a span.
fn rules_of(rules: &Rules, span: Span, printer: Printer<'_>, lines: &mut Vec<String>) {
    let inner = |anchor: Option<&AnchorCall>, lines: &mut Vec<String>| {
        if let Some(body) = anchor.and_then(|anchor| anchor.body.as_deref()) {
            rules_of(body, span, printer, lines);
        }
    };
    for rule in &rules.ether {
        if rule.span == span {
            let mut copy = rule.clone();
            if let Some(anchor) = &mut copy.anchor {
                anchor.body = None;
            }
            let mut text = String::new();
            printer.rules(&mut text, &Rules { ether: vec![copy], ..Rules::default() }, 0);
            lines.push(text.trim_end().to_owned());
        }
        inner(rule.anchor.as_ref(), lines);
    }
    for rule in rules.lists().into_iter().flatten() {
        if rule.span == span {
            lines.push(printer.rule(rule));
        }
        inner(rule.anchor.as_ref(), lines);
    }
}

fn table_text(table: &Table) -> String {
    let mut text = format!("table <{}>", table.name);
    for (is_set, word) in [
        (table.is_const, " const"),
        (table.is_persist, " persist"),
        (table.has_counters, " counters"),
    ] {
        text.push_str(if is_set { word } else { "" });
    }
    for source in &table.sources {
        if let weir_rules::ir::TableSource::File(path, _) = source {
            text.push_str(&format!(" file \"{path}\""));
        }
    }
    let shown: Vec<String> = table.entries().take(ENTRY_COUNT_MAX).map(entry_text).collect();
    if !shown.is_empty() {
        text.push_str(&format!(" {{ {} }}", shown.join(", ")));
    }
    text
}

fn entry_text(entry: &TableEntry) -> String {
    let not = if entry.not { "! " } else { "" };
    let width = if matches!(entry.address, IpAddr::V4(_)) { 32 } else { 128 };
    match entry.bits {
        bits if bits == width => format!("{not}{}", entry.address),
        bits => format!("{not}{}/{bits}", entry.address),
    }
}

fn table_note(table: &Table) -> String {
    let mut note = match table.entries().count() {
        1 => "1 entry".to_owned(),
        count if count > ENTRY_COUNT_MAX => {
            format!("the first {ENTRY_COUNT_MAX} of {count} entries")
        }
        count => format!("{count} entries"),
    };
    if table.is_incomplete() {
        note.push_str("; some of it could not be read or looked up");
    }
    note
}

#[cfg(test)]
mod tests;
