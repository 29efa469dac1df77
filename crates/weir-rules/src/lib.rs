//! The language of pf.conf(5), FreeBSD's and OpenBSD's: text to syntax tree, syntax tree to
//! expanded rules, and rules to the text that `pfctl -nvf` prints.
//!
//! This crate is pure: it reads no clock, opens no file, starts no thread and looks at no
//! environment. Files come from a [`source::SourceProvider`], what is known of the machine from a
//! [`resolve::Resolver`].

#![forbid(unsafe_code)]

pub mod ast;
pub mod diagnostic;
pub mod dialect;
pub mod expand;
pub mod facts;
pub mod ir;
mod lex;
pub mod limits;
pub mod names;
pub mod parse;
pub mod print;
pub mod resolve;
pub mod source;
pub mod value;

pub use dialect::Dialect;

use diagnostic::{Diagnostic, Diagnostics};
use ir::Ruleset;
use resolve::Resolver;
use source::SourceMap;

/// What compiling gives: the tree, the rules, the files, and what was found wrong.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The syntax tree.
    pub ast: ast::Ast,
    /// The expanded rules; those that are wrong are left out.
    pub ruleset: Ruleset,
    /// The files, for drawing diagnostics.
    pub sources: SourceMap,
    /// Sorted by place.
    pub diagnostics: Vec<Diagnostic>,
    /// Errors; a ruleset with any is refused.
    pub error_count: usize,
    /// Diagnostics that came after the limit.
    pub dropped_count: usize,
}

/// Parses and expands a file.
#[must_use]
pub fn compile(input: parse::ParseInput<'_>, resolver: &dyn Resolver) -> Compiled {
    let mut sources = SourceMap::default();
    let mut diagnostics = Diagnostics::new(&input.limits);
    let ast = parse::parse(input, &mut sources, &mut diagnostics);
    let expansion =
        expand::ExpandInput { resolver, provider: input.provider, limits: input.limits };
    let ruleset = expand::expand(&ast, &expansion, &sources, &mut diagnostics);
    let (error_count, dropped_count) = (diagnostics.error_count(), diagnostics.dropped_count());
    let diagnostics = diagnostics.into_sorted();
    Compiled { ast, ruleset, sources, diagnostics, error_count, dropped_count }
}
