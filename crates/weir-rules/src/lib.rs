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
pub mod facts;
pub mod ir;
mod lex;
pub mod limits;
pub mod names;
pub mod parse;
pub mod resolve;
pub mod source;
pub mod value;

pub use dialect::Dialect;
