//! Macros: their definitions and uses, those of the command line, and circles among them.

use std::collections::{HashMap, HashSet};

use crate::ast::Macro;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::value::{Spanned, Text};

/// The macros of a compilation.
#[derive(Debug, Default)]
pub(crate) struct Macros {
    pub(crate) list: Vec<Macro>,
    /// The definition that holds now, by name.
    current: HashMap<Text, usize>,
}

impl Macros {
    /// Defines a macro. One of the command line (`is_fixed`) stays as it is, as with `pfctl -D`.
    pub(crate) fn define(
        &mut self,
        name: Spanned<Text>,
        value: Spanned<Text>,
        is_fixed: bool,
    ) -> usize {
        let at = self.list.len();
        let holds = self.current.get(&name.value).is_some_and(|at| self.list[*at].is_fixed);
        if !holds {
            self.current.insert(name.value.clone(), at);
        }
        self.list.push(Macro { name, value, uses: Vec::new(), is_fixed });
        at
    }

    /// The macro `name` and its value; the use is noted.
    pub(crate) fn used(
        &mut self,
        name: &str,
        span: Span,
    ) -> Result<(usize, Text), Box<Diagnostic>> {
        let Some(at) = self.current.get(name).copied() else {
            let message = format!("macro `{name}` is not defined");
            let names: Vec<&str> = self.current.keys().map(|name| &**name).collect();
            let problem = Diagnostic::error(Code::UndefinedMacro, span, message)
                .label("not defined above this line")
                .nearest(name, names);
            let suggestion = problem.suggestion.clone().map(|mut suggestion| {
                suggestion.replacement.insert(0, '$');
                suggestion
            });
            return Err(Box::new(Diagnostic { suggestion, ..problem }));
        };
        if let Some(path) = self.circle(at) {
            let definition = &self.list[at];
            let message = format!("macro `{name}` leads back to itself: {}", path.join(" -> "));
            let problem = Diagnostic::error(Code::RecursiveMacro, span, message)
                .related(definition.name.span, "defined here")
                .help("macros are not expanded within quotes: write the value without them");
            return Err(Box::new(problem));
        }
        self.list[at].uses.push(span);
        Ok((at, self.list[at].value.value.clone()))
    }

    /// The names from a macro back to itself, over values that name macros within quotes.
    fn circle(&self, start: usize) -> Option<Vec<String>> {
        if !self.list[start].value.value.contains('$') {
            return None;
        }
        let mut seen = HashSet::new();
        let mut open = vec![(start, vec![self.list[start].name.value.to_string()])];
        while let Some((at, path)) = open.pop() {
            for name in names_in(&self.list[at].value.value) {
                let Some(next) = self.current.get(name).copied() else { continue };
                let mut path = path.clone();
                path.push(name.to_owned());
                if next == start {
                    return Some(path);
                }
                if seen.insert(next) {
                    open.push((next, path));
                }
            }
        }
        None
    }
}

/// The names after each `$` of a value.
fn names_in(value: &str) -> impl Iterator<Item = &str> {
    value.split('$').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}
