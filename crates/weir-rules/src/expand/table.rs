//! Tables: their lists and files.

use std::net::IpAddr;

use super::{Expander, address};
use crate::ast;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Address, Prelude, Table, TableEntry, TableSource, TypedTable};
use crate::source::Span;
use crate::value::{Text, masked};

impl Expander<'_> {
    pub(super) fn table(&mut self, table: &ast::Table, span: Span) {
        let anchor: Text = self.anchor_path.join("/").into();
        let mut expanded = Table {
            name: table.name.value.clone(),
            anchor,
            span,
            is_const: table.is_const,
            is_persist: table.is_persist,
            has_counters: table.has_counters,
            sources: Vec::new(),
            lacks_file: false,
            unresolved: Vec::new(),
            typed: None,
        };
        if let Some(typed) = &table.typed {
            self.typed_table(table, typed, &mut expanded);
        }
        for source in table.sources.iter().filter(|_| table.typed.is_none()) {
            match source {
                ast::TableSource::List(hosts) => {
                    let entries = self.table_list(hosts, &mut expanded.unresolved);
                    self.count_entries(entries.len(), span);
                    // Lists in a row are one list; a file between them parts them.
                    match expanded.sources.last_mut() {
                        Some(TableSource::List(last)) => last.extend(entries),
                        _ => expanded.sources.push(TableSource::List(entries)),
                    }
                }
                ast::TableSource::File(path) => {
                    let entries = self.table_file(path, &mut expanded);
                    self.count_entries(entries.len(), span);
                    expanded.sources.push(TableSource::File(path.value.clone(), entries));
                }
            }
        }
        self.ruleset.prelude.push(Prelude::Table(self.ruleset.tables.len()));
        self.ruleset.tables.push(expanded);
    }

    /// A typed table: its files have an entry on each line.
    fn typed_table(&mut self, table: &ast::Table, typed: &ast::TypedTable, expanded: &mut Table) {
        let span = table.name.span;
        let name = &table.name.value;
        if !expanded.anchor.is_empty() {
            let message = "a typed table stands in the main ruleset, and rules of anchors see it";
            self.diagnostics.push(Diagnostic::error(Code::BadValue, span, message));
        }
        if self.ruleset.tables.iter().any(|other| {
            other.name == *name && other.anchor.is_empty() && expanded.anchor.is_empty()
        }) {
            let message = format!("the table <{name}> is declared twice");
            self.diagnostics.push(Diagnostic::error(Code::Duplicate, span, message));
        }
        let mut entries = None;
        for source in &table.sources {
            let ast::TableSource::File(path) = source else { continue };
            let from = self.sources.file(path.span.file).map_or("", |file| &file.name);
            let read = self.provider.read(&path.value, from);
            let text = read.and_then(|bytes| {
                String::from_utf8(bytes).map_err(|_| "it is no text in UTF-8".to_owned())
            });
            let found = match text {
                Ok(text) => typed.shape.entries(&text),
                Err(cause) => {
                    expanded.lacks_file = true;
                    let message = format!("cannot read `{}`: {cause}", path.value);
                    let problem = Diagnostic::warning(Code::FileMissing, path.span, message);
                    self.diagnostics.push(problem.help("the table is empty until it can be read"));
                    continue;
                }
            };
            match found {
                Ok(found) => {
                    self.count_entries(found.len(), path.span);
                    entries.get_or_insert_with(Vec::new).extend(found);
                }
                Err((line, why)) => {
                    let message = format!("{}:{line}: {why}", path.value);
                    let problem = Diagnostic::error(Code::BadTableEntry, path.span, message);
                    self.diagnostics.push(problem);
                }
            }
            expanded.sources.push(TableSource::File(path.value.clone(), Vec::new()));
        }
        let ast::TypedTable { shape, limit } = *typed;
        expanded.typed = Some(TypedTable { shape, limit, entries }.into());
    }

    fn count_entries(&mut self, count: usize, span: Span) {
        let before = self.entry_count;
        self.entry_count = self.entry_count.saturating_add(count);
        let max = self.limits.table_entry_count_max;
        if self.entry_count > max && before <= max {
            let message = format!("the tables have more than {max} entries");
            self.diagnostics.push(Diagnostic::error(Code::Limit, span, message));
        }
    }

    fn table_list(
        &mut self,
        hosts: &[ast::Host],
        unresolved: &mut Vec<(Text, Span)>,
    ) -> Vec<TableEntry> {
        let mut entries = Vec::with_capacity(hosts.len());
        let mut found = Vec::new();
        for host in hosts {
            found.clear();
            if self.host(host, &mut found).is_err() {
                continue;
            }
            for found in &found {
                match &found.address {
                    Address::Network(address, bits) => {
                        entries.push(TableEntry { address: *address, bits: *bits, not: found.not });
                    }
                    address => unresolved.push((written(address), host.span)),
                }
            }
        }
        entries
    }

    fn table_file(
        &mut self,
        path: &crate::value::Spanned<Text>,
        table: &mut Table,
    ) -> Vec<TableEntry> {
        let from = self.sources.file(path.span.file).map_or("", |file| &file.name);
        let bytes = match self.provider.read(&path.value, from) {
            Ok(bytes) => bytes,
            Err(cause) => {
                table.lacks_file = true;
                let message = format!("cannot read `{}`: {cause}", path.value);
                let problem = Diagnostic::warning(Code::FileMissing, path.span, message);
                self.diagnostics.push(problem.help("the table is empty until it can be read"));
                return Vec::new();
            }
        };
        let parsed = parse_table_file(&bytes);
        let mut entries = parsed.entries;
        for (line, not, name) in parsed.names {
            let span = path.span;
            let host = ast::Host {
                span,
                not,
                kind: ast::HostKind::Name(name.as_str().into(), crate::value::Modifiers::default()),
                bits: None,
                weight: None,
            };
            let mut found = Vec::new();
            if self.host(&host, &mut found).is_err() {
                continue;
            }
            for found in found {
                if let Address::Network(address, bits) = found.address {
                    entries.push(TableEntry { address, bits, not });
                } else {
                    table.unresolved.push((name.as_str().into(), span));
                    let message = format!("{}:{line}: `{name}` is not an address", path.value);
                    self.diagnostics.push(Diagnostic::warning(Code::BadTableEntry, span, message));
                }
            }
        }
        entries
    }
}

/// An address that is no network, in words. The grammar of tables has only names without an
/// address.
fn written(address: &Address) -> Text {
    match address {
        Address::Unresolved(name) => name.clone(),
        other => format!("{other:?}").into(),
    }
}

/// What a table's file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableFile {
    /// Addresses and networks, in order.
    pub entries: Vec<TableEntry>,
    /// What is neither: line (from 1), `!`, and the word. These may be host names.
    pub names: Vec<(usize, bool, String)>,
}

/// Reads a table's file: addresses and networks between blanks, newlines and commas, `!` in
/// front, comments after `#` or `;` (pf.conf(5), "TABLES").
#[must_use]
pub(crate) fn parse_table_file(bytes: &[u8]) -> TableFile {
    let mut file = TableFile::default();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let end = line.iter().position(|byte| matches!(byte, b'#' | b';')).unwrap_or(line.len());
        let mut negated = false;
        let words = line[..end].split(|byte| byte.is_ascii_whitespace() || *byte == b',');
        for word in words.filter(|word| !word.is_empty()) {
            let (not, word) = match word.strip_prefix(b"!") {
                Some(rest) => (true, rest),
                None => (false, word),
            };
            if word.is_empty() {
                negated = true;
                continue;
            }
            let not = not || std::mem::take(&mut negated);
            match entry(word, not) {
                Some(entry) => file.entries.push(entry),
                None => {
                    let text = String::from_utf8_lossy(word).into_owned();
                    file.names.push((index + 1, not, text));
                }
            }
        }
    }
    file.entries.shrink_to_fit();
    file
}

fn entry(word: &[u8], not: bool) -> Option<TableEntry> {
    let text = std::str::from_utf8(word).ok()?;
    let (text, bits) = match text.split_once('/') {
        Some((text, bits)) => (text, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = text.parse().ok()?;
    let width = address::width(address);
    let bits = bits.unwrap_or(width);
    (bits <= width).then(|| TableEntry { address: masked(address, bits), bits, not })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_comments_and_negations() {
        let file = parse_table_file(
            b"; a\n1.0.0.1/32 ; b\n2.0.0.2/24 # c\n!10.0.0.1, ! ::1\nexample.org\n1.2.3.4/33\n",
        );
        let shown: Vec<String> = file
            .entries
            .iter()
            .map(|entry| {
                format!("{}{}/{}", if entry.not { "!" } else { "" }, entry.address, entry.bits)
            })
            .collect();
        assert_eq!(shown, ["1.0.0.1/32", "2.0.0.0/24", "!10.0.0.1/32", "!::1/128"]);
        let names: Vec<(usize, &str)> =
            file.names.iter().map(|(line, _, name)| (*line, name.as_str())).collect();
        assert_eq!(names, [(5, "example.org"), (6, "1.2.3.4/33")]);
    }
}
