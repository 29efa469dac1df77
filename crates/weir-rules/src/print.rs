//! The text of a compiled ruleset, as `pfctl -nvf` prints it in either dialect.
//!
//! Reading the text again and printing that gives the same text.

mod address;
mod ether;
mod queue;
mod rule;
mod setting;

use std::fmt::Write as _;

use crate::ast::AnchorKind;
use crate::dialect::Dialect;
use crate::ir::{AnchorCall, Prelude, Rule, Rules, Ruleset, Table, TableSource};
use crate::resolve::Resolver;
use crate::skip::{SkipSteps, skip_steps};

pub use address::{address, ip};

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrintOptions {
    /// `@N` in front of each rule (`-vv`), N counting from 0 in each list of rules.
    pub numbered: bool,
    /// Ports as numbers (`-P`).
    pub numeric_ports: bool,
    /// Below each rule but those of layer 2 the line of its skip steps (`-g`).
    pub skip_steps: bool,
}

/// Prints rulesets and rules.
#[derive(Clone, Copy)]
pub struct Printer<'a> {
    /// Whose form.
    pub dialect: Dialect,
    /// For the names of ports and protocols.
    pub resolver: &'a dyn Resolver,
    /// How.
    pub options: PrintOptions,
}

impl Printer<'_> {
    /// Macros, settings, tables and queues in the order of the file, and then all rules: layer 2,
    /// scrub, nat, rdr, binat, filter. Each line ends in a newline.
    #[must_use]
    pub fn ruleset(&self, ruleset: &Ruleset) -> String {
        let mut out = String::new();
        for prelude in &ruleset.prelude {
            self.prelude(&mut out, ruleset, prelude);
        }
        self.rules(&mut out, &ruleset.main, 0);
        for load in &ruleset.loads {
            let _ = writeln!(out, "load anchor {} from {}", quoted(&load.name), quoted(&load.file));
        }
        out
    }

    /// A statement that stands before the rules; a line, or several, each with its newline.
    pub fn prelude(&self, out: &mut String, ruleset: &Ruleset, prelude: &Prelude) {
        match prelude {
            Prelude::Macro(name, value) => {
                let _ = writeln!(out, "{name} = {}", quoted(value));
            }
            Prelude::Set(setting, _) => setting::print(out, setting),
            Prelude::Table(index) => {
                if let Some(table) = ruleset.tables.get(*index) {
                    print_table(out, table);
                }
            }
            Prelude::Altq(altq) => queue::altq(out, altq),
            Prelude::Queue(queue) => queue::queue(out, queue, self.dialect),
            Prelude::Limiter(limiter) => queue::limiter(out, limiter),
        }
    }

    /// The rules of a ruleset or anchor, each line indented by `depth` steps.
    pub fn rules(&self, out: &mut String, rules: &Rules, depth: usize) {
        for (number, rule) in rules.ether.iter().enumerate() {
            self.start(out, number, depth);
            ether::print(out, self, rule);
            self.body(out, rule.anchor.as_ref(), None, depth);
        }
        for list in rules.lists() {
            let steps = if self.options.skip_steps { skip_steps(list) } else { Vec::new() };
            for (number, rule) in list.iter().enumerate() {
                self.start(out, number, depth);
                rule::print(out, self, rule);
                self.body(out, rule.anchor.as_ref(), steps.get(number), depth);
            }
        }
    }

    fn start(&self, out: &mut String, number: usize, depth: usize) {
        let _ = write!(out, "{:1$}", "", depth * 2);
        if self.options.numbered {
            let _ = write!(out, "@{number} ");
        }
    }

    /// The end of a rule's line, with its skip steps and the body of an anchor.
    fn body(
        &self,
        out: &mut String,
        anchor: Option<&AnchorCall>,
        steps: Option<&SkipSteps>,
        depth: usize,
    ) {
        let body = anchor.and_then(|anchor| anchor.body.as_ref());
        out.push_str(if body.is_some() { " {\n" } else { "\n" });
        if let Some(steps) = steps {
            let _ = writeln!(out, "{}", steps.line(self.dialect));
        }
        let Some(body) = body else { return };
        self.rules(out, body, depth + 1);
        let _ = writeln!(out, "{:1$}}}", "", depth * 2);
    }

    /// One rule, without its number, without the body of an anchor, and without a newline.
    #[must_use]
    pub fn rule(&self, rule: &Rule) -> String {
        let mut out = String::new();
        rule::print(&mut out, self, rule);
        out
    }
}

/// The words for an anchor's rule.
fn anchor_words(anchor: &AnchorCall) -> String {
    let mut words = match anchor.kind {
        AnchorKind::Filter => "anchor".to_owned(),
        AnchorKind::Ether => "ether anchor".to_owned(),
        AnchorKind::Translate(kind) => format!("{}-anchor", kind.as_str()),
    };
    if let Some(name) = &anchor.name {
        words.push(' ');
        words.push_str(&quoted(name));
    }
    words
}

/// A string in quotes, such that the lexer reads it back: quotes that it holds are escaped, and a
/// backslash before a blank is written twice.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    let mut before = ' ';
    out.push('"');
    for character in text.chars() {
        let is_escape = before == '\\' && matches!(character, ' ' | '\t');
        if character == '"' || is_escape {
            out.push('\\');
        }
        out.push(character);
        before = character;
    }
    out.push('"');
    out
}

/// A name as pfctl prints it, without quotes, unless it could not be read back without them.
pub(crate) fn bare(text: &str) -> String {
    let first = text.bytes().next();
    let starts = first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'-' | b'.' | b':' | b'@' | b'+' | b'%' | b'$' | b'*' | b'~')
    };
    if starts && text.bytes().all(plain) && !crate::names::is_reserved(text) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

fn print_table(out: &mut String, table: &Table) {
    let _ = write!(out, "table <{}>", bare(&table.name));
    for (is_set, word) in [
        (table.is_const, " const"),
        (table.is_persist, " persist"),
        (table.has_counters, " counters"),
    ] {
        if is_set {
            out.push_str(word);
        }
    }
    if let Some(typed) = &table.typed {
        let _ = write!(out, " {}", typed.shape);
        if let Some(limit) = typed.limit {
            let _ = write!(out, " limit {limit}");
        }
    }
    for source in &table.sources {
        match source {
            TableSource::File(path, _) => {
                let _ = write!(out, " file {}", quoted(path));
            }
            TableSource::List(entries) => {
                out.push_str(" {");
                for entry in entries {
                    out.push_str(if entry.not { " !" } else { " " });
                    address::network(out, entry.address, entry.bits);
                }
                out.push_str(" }");
            }
        }
    }
    out.push('\n');
}
