//! What rules name of dummynet (`dnpipe`, `dnqueue`): whether it is configured, and the names by
//! which its numbers are kept. What becomes of it is for the compiler.
//!
//! This module never talks to the kernel.

use std::fmt::{self, Display, Formatter};

use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::dummynet::Pipe;
use weir_rules::ir::Rule;
use weir_rules::resolve::Resolver;
use weir_rules::source::Span;
use weir_rules::value::Dummynet;

/// What a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Named {
    /// `dnpipe`
    Pipe(u16),
    /// `dnqueue`
    Queue(u16),
}

impl Display for Named {
    /// The name by which its number is kept.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pipe(number) => write!(f, "pipe {number}"),
            Self::Queue(number) => write!(f, "queue {number}"),
        }
    }
}

impl Named {
    /// What has this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (kind, number) = name.split_once(' ')?;
        let number = number.parse().ok()?;
        match kind {
            "pipe" => Some(Self::Pipe(number)),
            "queue" => Some(Self::Queue(number)),
            _ => None,
        }
    }

    /// All that a rule names.
    pub(crate) fn of_rule(rule: &Rule) -> impl Iterator<Item = Self> {
        rule.options.dummynet.map_or([None; 2], Self::of).into_iter().flatten()
    }

    /// What a rule names for packets in the direction of the first one, and for those back.
    pub(crate) fn of(dummynet: Dummynet) -> [Option<Self>; 2] {
        [dummynet.forward, dummynet.reverse].map(|number| match number {
            0 => None,
            _ if dummynet.is_pipe => Some(Self::Pipe(number)),
            _ => Some(Self::Queue(number)),
        })
    }

    /// The pipe that it is, or is in.
    pub(crate) fn pipe(self, resolver: &dyn Resolver) -> Option<&Pipe> {
        match self {
            Self::Pipe(number) => resolver.pipe(number),
            Self::Queue(number) => resolver.pipe(resolver.pipe_queue(number)?.pipe),
        }
    }

    /// What is wrong with a rule that names it.
    fn problem(self, span: Span, resolver: &dyn Resolver) -> Option<Diagnostic> {
        let (missing, line) = match self {
            Self::Pipe(number) if resolver.pipe(number).is_none() => {
                (format!("{self} is not configured"), format!("pipe {number} config bw 10Mbit/s"))
            }
            Self::Queue(number) => match resolver.pipe_queue(number).map(|queue| queue.pipe) {
                None => (
                    format!("{self} is not configured"),
                    format!("queue {number} config pipe 1 weight 1"),
                ),
                Some(pipe) if resolver.pipe(pipe).is_none() => (
                    format!("{self} is in pipe {pipe}, which is not configured"),
                    format!("pipe {pipe} config bw 10Mbit/s"),
                ),
                Some(_) => return None,
            },
            Self::Pipe(_) => return None,
        };
        let help = format!("add a line like `{line}` to the file of --facts");
        let problem = Diagnostic::error(Code::CannotRun, span, missing);
        Some(problem.label("no line of --facts is about it").help(help))
    }
}

/// What is wrong with rules that name what is not configured.
pub(crate) fn unconfigured<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    resolver: &dyn Resolver,
) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let problems = rules.flat_map(|rule| {
        Named::of_rule(rule).filter_map(move |named| named.problem(rule.span, resolver))
    });
    // A rule is expanded to several, which name the same.
    for problem in problems {
        if !found.contains(&problem) {
            found.push(problem);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_numbers() {
        for one in [Named::Pipe(1), Named::Queue(65_535)] {
            assert_eq!(Named::parse(&one.to_string()), Some(one));
        }
        assert_eq!((Named::parse("slow"), Named::parse("pipe x")), (None, None));
    }
}
