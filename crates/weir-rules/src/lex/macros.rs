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
    /// Macros whose definition was refused: their uses are not reported too.
    broken: HashSet<Text>,
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

    /// Notes that a definition was refused.
    pub(crate) fn define_broken(&mut self, name: Text) {
        self.broken.insert(name);
    }

    /// The macro `name` and its value; the use is noted. Of one whose definition was refused, there
    /// is nothing more to say.
    pub(crate) fn used(
        &mut self,
        name: &str,
        span: Span,
    ) -> Result<(usize, Text), Option<Box<Diagnostic>>> {
        let Some(at) = self.current.get(name).copied() else {
            if self.broken.contains(name) {
                return Err(None);
            }
            let message = format!("macro `{name}` is not defined");
            let names: Vec<&str> = self.current.keys().map(|name| &**name).collect();
            let problem = Diagnostic::error(Code::UndefinedMacro, span, message)
                .label("not defined above this line")
                .nearest(name, names);
            let suggestion = problem.suggestion.clone().map(|mut suggestion| {
                suggestion.replacement.insert(0, '$');
                suggestion
            });
            return Err(Some(Box::new(Diagnostic { suggestion, ..problem })));
        };
        if let Some(path) = self.circle(at) {
            let definition = &self.list[at];
            let message = format!("macro `{name}` refers to itself: {}", path.join(" -> "));
            let problem = Diagnostic::error(Code::RecursiveMacro, span, message)
                .related(definition.name.span, "defined here")
                .help("macros are not expanded within quotes: write the value without them");
            return Err(Some(Box::new(problem)));
        }
        self.list[at].uses.push(span);
        Ok((at, self.list[at].value.value.clone()))
    }

    /// The names from a macro back to itself, over values that name macros within quotes. Nothing
    /// is expanded twice, so a circle is a slip and no danger: long ones are not looked for.
    fn circle(&self, start: usize) -> Option<Vec<String>> {
        if !head(&self.list[start].value.value).contains('$') {
            return None;
        }
        // Each macro that was reached, with the one before it.
        let mut before: HashMap<usize, usize> = HashMap::new();
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            for name in names_in(head(&self.list[at].value.value)) {
                let Some(next) = self.current.get(name).copied() else { continue };
                if next == start {
                    return Some(self.path(start, at, &before));
                }
                if before.len() < CIRCLE_COUNT_MAX && !before.contains_key(&next) {
                    before.insert(next, at);
                    open.push(next);
                }
            }
        }
        None
    }

    /// From `start` to `last` and back to `start`.
    fn path(&self, start: usize, last: usize, before: &HashMap<usize, usize>) -> Vec<String> {
        let mut path = vec![start];
        let mut at = last;
        while at != start {
            path.push(at);
            let Some(next) = before.get(&at) else { break };
            at = *next;
        }
        path.push(start);
        path.reverse();
        path.into_iter().map(|index| self.list[index].name.value.to_string()).collect()
    }
}

/// Macros of a circle at most.
const CIRCLE_COUNT_MAX: usize = 64;
/// Bytes of a value in which names are looked for.
const CIRCLE_VALUE_SIZE_MAX: usize = 4096;

fn head(value: &str) -> &str {
    let mut end = value.len().min(CIRCLE_VALUE_SIZE_MAX);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

/// The names after each `$` of a value.
fn names_in(value: &str) -> impl Iterator<Item = &str> {
    value.split('$').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}
