//! The language of pf.conf(5), FreeBSD's and OpenBSD's: text to syntax tree, syntax tree to
//! expanded rules, and rules to the text that `pfctl -nvf` prints.
//!
//! This crate is pure: it reads no clock, opens no file, starts no thread and looks at no
//! environment. Files come from a [`source::SourceProvider`], what is known of the machine from a
//! [`resolve::Resolver`].
//!
//! ```
//! use weir_rules::{compile, facts::Facts, limits::Limits, parse::ParseInput};
//! use weir_rules::print::{PrintOptions, Printer};
//! use weir_rules::source::MemorySources;
//!
//! let facts = Facts::parse("interface em0 192.0.2.1/24").unwrap();
//! let input = ParseInput {
//!     name: "pf.conf",
//!     bytes: b"pass in on em0 proto tcp to em0 port { ssh, 8081 }\n",
//!     dialect: None,
//!     macros: &[],
//!     provider: &MemorySources::default(),
//!     limits: Limits::default(),
//! };
//! let compiled = compile(input, &facts);
//! let options = PrintOptions::default();
//! let printer = Printer { dialect: compiled.ruleset.dialect, resolver: &facts, options };
//! assert_eq!(
//!     printer.ruleset(&compiled.ruleset),
//!     "pass in on em0 inet proto tcp from any to 192.0.2.1 port = ssh flags S/SA keep state\n\
//!      pass in on em0 inet proto tcp from any to 192.0.2.1 port = 8081 flags S/SA keep state\n"
//! );
//! ```
//!
//! # What the words follow
//!
//! The grammar is that of pf.conf(5), FreeBSD 15's and OpenBSD 7.8's; what is printed, and what is
//! refused, was compared with FreeBSD's regression cases for pfctl (`tests/it/pfctl.rs`): no case
//! deviates. Where weir differs from pfctl on purpose:
//!
//! - An interface, host name or table file that is not there is a warning; the rule stays, with
//!   [`ir::Address::Unresolved`], which nothing matches. pfctl refuses. So is a missing file of
//!   fingerprints that rules with `os` need, or that is named.
//! - Names that could not be read back are printed in quotes, `set state-defaults` and
//!   `load anchor` are printed, and `floating` is where `set state-policy if-bound` would say
//!   otherwise: what is printed means what was read.
//! - The key of `source-hash` is printed as it was given; pfctl prints its hash, or a random one.
//! - A name that ends in a backslash is refused: pf's quotes have no way to write it.
//! - A string may hold newlines, but ends where a line begins that can only be a statement: it is
//!   reported there, and the rest of the file is read.
//! - An option that stands in a rule twice is refused; of some, pfctl takes the last one.
//! - One run reports all errors, where pfctl stops at a hundred or at the first kind.
//!
//! `tests/fixtures/constructs.txt` lists the constructs of both dialects with the project's own
//! cases that accept, print and refuse them.

#![forbid(unsafe_code)]

pub mod ast;
pub mod check;
pub mod convert;
pub mod diagnostic;
pub mod dialect;
pub mod dummynet;
pub mod evaluate;
pub mod expand;
pub mod explain;
pub mod facts;
mod fields;
pub mod fingerprint;
pub mod ir;
mod lex;
pub mod limits;
mod named;
pub mod names;
pub mod optimise;
pub mod parse;
pub mod print;
pub mod resolve;
pub mod skip;
pub mod source;
pub mod system;
pub mod typed;
pub mod value;

pub use dialect::Dialect;

use std::sync::Arc;

use diagnostic::{Diagnostic, Diagnostics};
use fingerprint::{Fingerprints, Known};
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
    compile_with(input, resolver, None)
}

/// The same for rules that are loaded into an anchor, with the fingerprints of the ruleset that
/// the anchor is in: settings of the file do not count.
#[must_use]
pub fn compile_anchor(
    input: parse::ParseInput<'_>,
    resolver: &dyn Resolver,
    fingerprints: Option<Arc<Fingerprints>>,
) -> Compiled {
    compile_with(input, resolver, Some(Known::of_ruleset(fingerprints)))
}

fn compile_with(
    input: parse::ParseInput<'_>,
    resolver: &dyn Resolver,
    known: Option<Known>,
) -> Compiled {
    let mut sources = SourceMap::default();
    let mut diagnostics = Diagnostics::new(&input.limits);
    let ast = parse::parse(input, &mut sources, &mut diagnostics);
    let of_file = |sources| Known::of_file(&ast, input.name, input.provider, sources);
    let fingerprints = known.unwrap_or_else(|| of_file(&mut sources));
    let (provider, limits) = (input.provider, input.limits);
    let expansion = expand::ExpandInput { resolver, provider, limits, fingerprints };
    let ruleset = expand::expand(&ast, &expansion, &sources, &mut diagnostics);
    let (error_count, dropped_count) = (diagnostics.error_count(), diagnostics.dropped_count());
    let diagnostics = diagnostics.into_sorted();
    Compiled { ast, ruleset, sources, diagnostics, error_count, dropped_count }
}
