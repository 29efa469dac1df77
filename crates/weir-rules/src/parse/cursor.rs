//! Looking at tokens and taking them, and saying what was expected.

use super::{Parsed, Parser, Reported};
use crate::ast::{Name, Oddity};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::lex::{Token, TokenKind};
use crate::names;
use crate::source::Span;
use crate::value::{Spanned, Text};

/// Words that begin a statement in both dialects.
const STATEMENTS: &[&str] = &[
    "pass",
    "block",
    "match",
    "set",
    "table",
    "anchor",
    "include",
    "load",
    "antispoof",
    "queue",
    "state",
    "source",
];

/// Words that begin a statement on FreeBSD alone.
const FREEBSD_STATEMENTS: &[&str] = &[
    "scrub",
    "nat",
    "rdr",
    "binat",
    "no",
    "nat-anchor",
    "rdr-anchor",
    "binat-anchor",
    "altq",
    "ether",
];

/// Names that a user makes up, which may be reserved words in quotes.
const QUOTABLE: &[&str] = &[
    "a label",
    "a limiter's name",
    "a macro's name",
    "a queue",
    "a queue's name",
    "a route's label",
    "a table's name",
    "a tag",
    "an anchor's name",
];

impl Parser<'_> {
    pub(super) fn peek(&mut self) -> &Token {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&mut self, at: usize) -> &Token {
        while self.lookahead.len() <= at {
            let token = self.lexer.next();
            self.lookahead.push_back(token);
        }
        &self.lookahead[at]
    }

    pub(super) fn bump(&mut self) -> Token {
        self.peek();
        let Some(token) = self.lookahead.pop_front() else {
            return self.lexer.next();
        };
        match token.kind {
            TokenKind::Punct('{') => self.brace_depth += 1,
            TokenKind::Punct('}') => self.brace_depth = self.brace_depth.saturating_sub(1),
            _ => {}
        }
        if !matches!(token.kind, TokenKind::Newline | TokenKind::End) {
            self.last = token.span;
        }
        self.last_kind = token.kind.clone();
        self.has_moved = true;
        self.tried.clear();
        token
    }

    /// Whether the next token is this word, which is noted as one that would have been right.
    pub(super) fn at(&mut self, word: &'static str) -> bool {
        self.at_any(&[word])
    }

    pub(super) fn at_any(&mut self, words: &[&'static str]) -> bool {
        let found = self.is_any(words);
        if !found {
            for word in words {
                if !self.tried.contains(word) {
                    self.tried.push(word);
                }
            }
        }
        found
    }

    /// Whether the next token is one of these words, without a note.
    pub(super) fn is_any(&mut self, words: &[&str]) -> bool {
        matches!(&self.peek().kind, TokenKind::Word(word) if words.contains(&&**word))
    }

    /// Whether an anchor begins at the next token.
    pub(super) fn at_anchor(&mut self) -> bool {
        let is_anchor = |word: &str| word == "anchor" || word.ends_with("-anchor");
        let is_ether = self.is_any(&["ether"]);
        self.word_at(usize::from(is_ether)).is_some_and(|word| is_anchor(&word))
    }

    pub(super) fn word_at(&mut self, at: usize) -> Option<Text> {
        match &self.peek_at(at).kind {
            TokenKind::Word(word) => Some(word.clone()),
            _ => None,
        }
    }

    pub(super) fn eat(&mut self, word: &'static str) -> bool {
        let found = self.at(word);
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn expect(&mut self, word: &'static str) -> Parsed<()> {
        if self.eat(word) { Ok(()) } else { self.expected(&[&format!("`{word}`")]) }
    }

    pub(super) fn at_punct(&mut self, punct: char) -> bool {
        self.peek().kind == TokenKind::Punct(punct)
    }

    pub(super) fn eat_punct(&mut self, punct: char) -> bool {
        let found = self.at_punct(punct);
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn expect_punct(&mut self, punct: char) -> Parsed<()> {
        if self.eat_punct(punct) { Ok(()) } else { self.expected(&[&format!("`{punct}`")]) }
    }

    /// Commas, which most lists may leave out. One that parts no two items is noted.
    pub(super) fn skip_commas(&mut self) {
        let mut is_odd = matches!(self.last_kind, TokenKind::Punct('{' | '('));
        while self.at_punct(',') {
            let span = self.bump().span;
            is_odd |= self.at_punct('}') || self.at_punct(')') || self.at_punct(',');
            if std::mem::take(&mut is_odd) {
                self.odd(span, Oddity::Comma);
            }
        }
    }

    /// Notes what a system's grammar has otherwise. As many are kept as diagnostics at most.
    pub(super) fn odd(&mut self, span: Span, oddity: Oddity) {
        if self.oddities.len() < self.limits.diagnostic_count_max {
            self.oddities.push((span, oddity));
        }
    }

    pub(super) fn skip_newlines(&mut self) {
        while self.peek().kind == TokenKind::Newline {
            self.bump();
        }
    }

    /// Words that begin a statement in the file's dialect.
    pub(super) fn statement_words(&self) -> Vec<&'static str> {
        let statements = if self.dialect == Dialect::FreeBsd { FREEBSD_STATEMENTS } else { &[] };
        STATEMENTS.iter().chain(statements).copied().collect()
    }

    /// Whether a statement begins at the next token.
    pub(super) fn at_statement(&mut self) -> bool {
        if self.is_any(STATEMENTS) || self.is_any(FREEBSD_STATEMENTS) {
            return true;
        }
        matches!(self.peek().kind, TokenKind::Word(_))
            && self.peek_at(1).kind == TokenKind::Punct('=')
    }

    /// A name: a string, or a word that is not reserved.
    pub(super) fn name(&mut self, what: &str) -> Parsed<Spanned<Text>> {
        let token = self.peek().clone();
        match token.kind {
            TokenKind::Quoted(text) => {
                self.bump();
                Ok(Spanned { value: text, span: token.span })
            }
            TokenKind::Word(word) if !self.is_reserved(&word) => {
                self.bump();
                Ok(Spanned { value: word, span: token.span })
            }
            TokenKind::Word(word) => {
                let message = format!("expected {what}, found the reserved word `{word}`");
                let mut problem = Diagnostic::error(Code::Syntax, token.span, message);
                if QUOTABLE.contains(&what) {
                    problem = problem.help(format!("to use it as {what}, quote it"));
                }
                self.fail(problem.expected([what]))
            }
            _ => self.expected(&[what]),
        }
    }

    /// Whether a word cannot be a name in this dialect.
    pub(super) fn is_reserved(&self, word: &str) -> bool {
        let is_foreign =
            self.dialect == Dialect::OpenBsd && names::RESERVED_BY_FREEBSD.contains(&word);
        names::is_reserved(word) && !is_foreign
    }

    pub(super) fn number(&mut self, what: &str, min: u64, max: u64) -> Parsed<u64> {
        let token = self.peek().clone();
        let TokenKind::Number(number) = token.kind else {
            return self.expected(&[what]);
        };
        match u64::try_from(number) {
            Ok(number) if number >= min && number <= max => {
                self.bump();
                Ok(number)
            }
            _ => {
                let message = format!("{number} is out of range for {what}: {min} to {max}");
                self.fail(Diagnostic::error(Code::BadValue, token.span, message))
            }
        }
    }

    pub(super) fn number32(&mut self, what: &str) -> Parsed<u32> {
        let number = self.number(what, 0, u64::from(u32::MAX))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(super) fn number16(&mut self, what: &str) -> Parsed<u16> {
        let number = self.number(what, 0, u64::from(u16::MAX))?;
        Ok(u16::try_from(number).unwrap_or(u16::MAX))
    }

    pub(super) fn number8(&mut self, what: &str, min: u8, max: u8) -> Parsed<u8> {
        let number = self.number(what, u64::from(min), u64::from(max))?;
        Ok(u8::try_from(number).unwrap_or(u8::MAX))
    }

    /// A number or a name that stands for one.
    pub(super) fn name_or_number(&mut self, what: &str) -> Parsed<Spanned<Name>> {
        let token = self.peek().clone();
        if let TokenKind::Number(number) = token.kind {
            let Ok(number) = u64::try_from(number) else {
                let message = format!("{number} is out of range for {what}");
                return self.fail(Diagnostic::error(Code::BadValue, token.span, message));
            };
            self.bump();
            return Ok(Spanned { value: Name::Number(number), span: token.span });
        }
        let name = self.name(what)?;
        Ok(Spanned { value: Name::Name(name.value), span: name.span })
    }

    /// One item, or a list of them in braces. Commas and newlines between items are optional, and
    /// lists within lists are flattened, as they come from macros.
    pub(super) fn list<T>(
        &mut self,
        item: fn(&mut Self, &mut Vec<T>) -> Parsed<()>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        self.list_into(item, &mut items)?;
        Ok(items)
    }

    fn list_into<T>(
        &mut self,
        item: fn(&mut Self, &mut Vec<T>) -> Parsed<()>,
        items: &mut Vec<T>,
    ) -> Parsed<()> {
        if !self.at_punct('{') {
            return item(self, items);
        }
        let open = self.bump().span;
        self.enter(open)?;
        let before = items.len();
        loop {
            self.skip_newlines();
            self.skip_commas();
            self.skip_newlines();
            if self.at_punct('}') {
                break;
            }
            let at_end = matches!(self.peek().kind, TokenKind::End) || self.at_lost_statement();
            if at_end || self.at_option() {
                self.report_unclosed("list", open);
                return Err(Reported);
            }
            self.list_into(item, items)?;
        }
        self.bump();
        self.depth -= 1;
        if items.len() == before {
            let span = open.to(self.last);
            return self.fail(Diagnostic::error(Code::Syntax, span, "the list is empty"));
        }
        Ok(())
    }

    /// Whether an open list has run into the rest of its rule.
    fn at_option(&mut self) -> bool {
        let word = self.word_at(0).filter(|word| names::is_reserved(word));
        word.is_some_and(|word| super::option::ENDS_LIST.contains(&&*word))
    }

    /// Says that a brace has no partner, at the brace, and where that showed.
    pub(super) fn report_unclosed(&mut self, what: &str, open: Span) {
        let token = self.peek().clone();
        let message = format!("the {what} is not closed");
        let mut problem = Diagnostic::error(Code::Syntax, open, message)
            .label("this brace has no counterpart")
            .expected(["`}`"]);
        if !matches!(token.kind, TokenKind::End | TokenKind::Broken) {
            let before = format!("a `}}` is missing before {}", describe(&token.kind));
            problem = problem.related(token.span, before);
        }
        self.report(problem);
    }

    /// Whether an open list has run into the next statement.
    pub(super) fn at_lost_statement(&mut self) -> bool {
        self.last_kind == TokenKind::Newline && self.at_statement()
    }

    /// One level deeper.
    pub(super) fn enter(&mut self, span: Span) -> Parsed<()> {
        if self.depth >= self.limits.nesting_depth_max {
            let message = format!("nested deeper than {}", self.limits.nesting_depth_max);
            return self.fail(Diagnostic::error(Code::Limit, span, message));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn fail<T>(&mut self, problem: Diagnostic) -> Parsed<T> {
        self.report(problem);
        Err(Reported)
    }

    pub(super) fn report(&mut self, mut problem: Diagnostic) {
        let origin = self.lookahead.front().filter(|token| token.span == problem.span);
        if let Some(origin) = origin.and_then(|token| token.origin) {
            let definition = &self.lexer.macros.list[origin];
            let name = &definition.name.value;
            problem = problem.related(definition.value.span, format!("from the macro `{name}`"));
        }
        self.lexer.diagnostics.push(problem);
    }

    /// The next token is none of these.
    pub(super) fn expected<T>(&mut self, expected: &[&str]) -> Parsed<T> {
        self.fail_expected(expected);
        Err(Reported)
    }

    pub(super) fn fail_expected(&mut self, expected: &[&str]) {
        let token = self.peek().clone();
        if token.kind == TokenKind::Broken {
            return;
        }
        let found = describe(&token.kind);
        let message = match expected {
            [one] => format!("expected {one}, found {found}"),
            [first, second] => format!("expected {first} or {second}, found {found}"),
            _ => unexpected(&token.kind),
        };
        let mut problem = Diagnostic::error(Code::Syntax, token.span, message);
        if let TokenKind::Word(word) = &token.kind {
            let words = expected.iter().map(|word| word.trim_matches('`'));
            let tried = self.tried.iter().copied();
            problem = problem.nearest(word, words.chain(tried).filter(|near| *near != &**word));
        }
        self.report(problem.expected(expected.iter().copied()));
    }

    /// The next token is none of the words that could go on here.
    pub(super) fn unknown_word<T>(&mut self) -> Parsed<T> {
        let token = self.peek().clone();
        if token.kind == TokenKind::Broken {
            return Err(Reported);
        }
        let message = unexpected(&token.kind);
        let problem = Diagnostic::error(Code::Syntax, token.span, message)
            .label("the rule could have ended before this");
        if self.lexer.diagnostics.is_full() {
            return self.fail(problem);
        }
        let problem = self.hint(problem, &token.kind);
        let tried = self.tried.iter().map(|word| format!("`{word}`"));
        let rest = ["an option of the rule", "the end of the line"].map(ToOwned::to_owned);
        let expected: Vec<String> = tried.chain(rest).collect();
        self.fail(problem.expected(expected))
    }

    /// Refuses a word that the dialect does not have.
    pub(super) fn only_in(&mut self, dialect: Dialect, word: &str, help: &str) -> Parsed<()> {
        if self.dialect == dialect {
            return Ok(());
        }
        let name = match dialect {
            Dialect::FreeBsd => "FreeBSD",
            Dialect::OpenBsd => "OpenBSD",
        };
        let span = self.peek().span;
        let message = format!("`{word}` belongs to {name}'s dialect");
        let mut problem = Diagnostic::error(Code::WrongDialect, span, message);
        let here = self.dialect;
        problem = problem.label(format!("the file is read with --dialect {here}"));
        problem = problem.help(if help.is_empty() {
            format!("read the file with --dialect {dialect}")
        } else {
            format!("{help}; or read the file with --dialect {dialect}")
        });
        self.fail(problem)
    }
}

/// That a token cannot be here.
fn unexpected(kind: &TokenKind) -> String {
    match kind {
        TokenKind::Newline => "the line ends where more is expected".to_owned(),
        TokenKind::End => "the file ends where more is expected".to_owned(),
        TokenKind::Quoted(text) => format!("unexpected string \"{text}\""),
        kind => format!("unexpected {}", describe(kind)),
    }
}

/// A token in a message.
pub(super) fn describe(kind: &TokenKind) -> String {
    match kind {
        TokenKind::Word(word) => format!("`{word}`"),
        TokenKind::Quoted(text) => format!("the string \"{text}\""),
        TokenKind::Number(number) => format!("`{number}`"),
        TokenKind::Arrow => "`->`".to_owned(),
        TokenKind::Inside => "`><`".to_owned(),
        TokenKind::Outside => "`<>`".to_owned(),
        TokenKind::Punct(character) => format!("`{}`", character.escape_default()),
        TokenKind::Newline => "the end of the line".to_owned(),
        TokenKind::End => "the end of the file".to_owned(),
        TokenKind::Broken => "what was reported".to_owned(),
    }
}
