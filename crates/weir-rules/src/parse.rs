//! The parser: tokens to a syntax tree, by recursive descent.
//!
//! A statement that cannot be read is reported once and skipped, so that one run reports all of
//! them. Nothing is looked up here: names stay names.

mod cursor;
mod ether;
mod hint;
mod host;
mod limiter;
mod option;
mod pool;
mod queue;
mod rule;
mod scheduler;
mod setting;
mod state;
mod statement;

use std::collections::VecDeque;

use crate::ast::{Ast, Oddity, Statement};
use crate::diagnostic::Diagnostics;
use crate::dialect::Dialect;
use crate::lex::{Lexer, Token, TokenKind};
use crate::limits::Limits;
use crate::source::{SourceMap, SourceProvider, Span};
use crate::value::Spanned;

/// What was wrong has been reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported;

pub(crate) type Parsed<T> = Result<T, Reported>;

/// What the parser is given besides the text.
#[derive(Clone, Copy)]
pub struct ParseInput<'a> {
    /// The name of the file, for messages.
    pub name: &'a str,
    pub bytes: &'a [u8],
    /// The dialect; `None` guesses it from the text.
    pub dialect: Option<Dialect>,
    /// Macros given on the command line, which hold whatever the file says.
    pub macros: &'a [(String, String)],
    /// Where `include` reads.
    pub provider: &'a dyn SourceProvider,
    pub limits: Limits,
}

/// Reads a file and what it includes.
pub fn parse(input: ParseInput<'_>, sources: &mut SourceMap, diagnostics: &mut Diagnostics) -> Ast {
    let dialect =
        input.dialect.unwrap_or_else(|| Dialect::detect(&String::from_utf8_lossy(input.bytes)));
    let mut lexer = Lexer::new(sources, diagnostics, input.provider, input.limits);
    for (name, value) in input.macros {
        let span = Span::default();
        let name = Spanned { value: lexer.intern(name), span };
        let value = Spanned { value: lexer.intern(value), span };
        lexer.macros.define(name, value, true);
    }
    lexer.push_bytes(input.name, input.bytes, Span::default());
    let mut parser = Parser {
        lexer,
        dialect,
        limits: input.limits,
        lookahead: VecDeque::new(),
        tried: Vec::new(),
        last: Span::default(),
        last_kind: TokenKind::Newline,
        has_moved: false,
        brace_depth: 0,
        depth: 0,
        long_tables: std::collections::BTreeSet::new(),
        oddities: Vec::new(),
    };
    let statements = parser.statements(None);
    Ast { dialect, statements, macros: parser.lexer.macros.list, oddities: parser.oddities }
}

/// The state of the parser.
struct Parser<'a> {
    lexer: Lexer<'a>,
    dialect: Dialect,
    limits: Limits,
    lookahead: VecDeque<Token>,
    /// Words that the next token was compared with, in order: what would have been right.
    tried: Vec<&'static str>,
    /// Where the token before the next one is.
    last: Span,
    last_kind: TokenKind,
    /// Whether the present statement has taken a token: recovery must not stand still.
    has_moved: bool,
    /// Braces that the present statement has opened.
    brace_depth: usize,
    /// Lists and anchors around the next token.
    depth: usize,
    /// Typed tables so far.
    long_tables: std::collections::BTreeSet<crate::value::Text>,
    /// What was read although a system's grammar has it otherwise.
    oddities: Vec<(Span, Oddity)>,
}

impl Parser<'_> {
    /// Statements to the end, or to the brace that closes the anchor that `open` opened.
    fn statements(&mut self, open: Option<Span>) -> Vec<Statement> {
        let mut statements = Vec::new();
        let depth = self.depth;
        let in_anchor = open.is_some();
        loop {
            // A list that broke off has not come back to the level where it began.
            self.depth = depth;
            match &self.peek().kind {
                TokenKind::End => {
                    if let Some(open) = open {
                        self.report_unclosed("anchor", open);
                    }
                    return statements;
                }
                TokenKind::Newline => {
                    self.bump();
                    continue;
                }
                TokenKind::Punct('}') if in_anchor => return statements,
                _ => {}
            }
            self.brace_depth = 0;
            self.has_moved = false;
            let start = self.peek().span;
            let is_anchor = self.at_anchor();
            match self.statement() {
                Ok(kind) => {
                    let span = start.to(self.last);
                    // One that goes on with what it cannot is not what was meant.
                    match self.end_of_statement(in_anchor) {
                        Ok(()) => statements.push(Statement { span, kind }),
                        Err(Reported) => self.recover(is_anchor),
                    }
                }
                Err(Reported) => self.recover(is_anchor),
            }
        }
    }

    fn end_of_statement(&mut self, in_anchor: bool) -> Parsed<()> {
        match &self.peek().kind {
            TokenKind::Newline | TokenKind::End => Ok(()),
            TokenKind::Punct('}') if in_anchor => Ok(()),
            _ => self.unknown_word(),
        }
    }

    /// Skips to where the next statement can begin.
    fn recover(&mut self, is_anchor: bool) {
        if self.last_kind == TokenKind::Newline && self.has_moved && self.at_statement() {
            return;
        }
        loop {
            match self.peek().kind {
                TokenKind::End => return,
                TokenKind::Newline => {
                    let opens = self.last_kind == TokenKind::Punct('{');
                    let open = self.last;
                    let depth = self.brace_depth;
                    self.bump();
                    if is_anchor && opens && self.depth < self.limits.nesting_depth_max {
                        self.depth += 1;
                        self.statements(Some(open));
                        self.depth -= 1;
                        if self.at_punct('}') {
                            self.bump();
                        }
                        return;
                    }
                    if depth == 0 || self.at_statement() {
                        return;
                    }
                }
                _ => {
                    self.bump();
                }
            }
        }
    }
}
