//! Statements that are no rules: macros, includes, tables, anchors, `antispoof`.

use super::{Parsed, Parser};
use crate::ast::{
    Anchor, AnchorKind, Antispoof, Filter, StatementKind, Table, TableSource, Translation,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::limits::{ANCHOR_SIZE_MAX, TABLE_NAME_SIZE_MAX};
use crate::names;
use crate::value::{Spanned, Text};

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Parsed<StatementKind> {
        let Some(word) = self.word_at(0) else {
            if self.peek().kind == TokenKind::Broken {
                return Err(super::Reported);
            }
            return self.expected(&["a statement"]);
        };
        match &*word {
            "set" => self.setting().map(StatementKind::Set),
            "table" => self.table().map(StatementKind::Table),
            "include" => self.include(),
            "load" => self.load_anchor(),
            "antispoof" => self.antispoof(),
            "anchor" => self.anchor(AnchorKind::Filter),
            "nat-anchor" => self.anchor(AnchorKind::Translate(Translation::Nat)),
            "rdr-anchor" => self.anchor(AnchorKind::Translate(Translation::Rdr)),
            "binat-anchor" => self.anchor(AnchorKind::Translate(Translation::Binat)),
            "pass" | "block" | "match" => self.filter_rule(),
            "scrub" | "nat" | "rdr" | "binat" | "no" => self.old_rule(),
            "ether" => self.ether(),
            "altq" => self.altq(),
            "queue" => self.queue(),
            "state" | "source" if self.word_at(1).as_deref() == Some("limiter") => self.limiter(),
            _ => self.macro_definition(),
        }
    }

    /// `name = value`, or what is no statement at all.
    fn macro_definition(&mut self) -> Parsed<StatementKind> {
        if self.peek_at(1).kind != TokenKind::Punct('=') {
            let token = self.peek().clone();
            let TokenKind::Word(word) = &token.kind else {
                return self.expected(&["a statement"]);
            };
            let message = format!("syntax error: no statement begins with `{word}`");
            let words = super::cursor::STATEMENTS;
            let problem = Diagnostic::error(Code::Syntax, token.span, message)
                .nearest(word, words.iter().copied())
                .expected(words.iter().copied());
            return self.fail(problem);
        }
        let name = self.name("a macro's name")?;
        self.expect_punct('=')?;
        let mut value = String::new();
        let start = self.peek().span;
        loop {
            let token = self.peek().clone();
            let piece = match token.kind {
                TokenKind::Newline | TokenKind::End => break,
                TokenKind::Quoted(text) => text.to_string(),
                TokenKind::Word(word) if !names::is_reserved(&word) => word.to_string(),
                TokenKind::Number(number) => number.to_string(),
                TokenKind::Broken => return Err(super::Reported),
                TokenKind::Punct(c) if token.origin.is_some() && matches!(c, '/' | '!') => {
                    return self.macro_piece(c);
                }
                _ => {
                    let message = format!("{} cannot be in a macro without quotes", {
                        super::cursor::describe(&token.kind)
                    });
                    let problem = Diagnostic::error(Code::Syntax, token.span, message);
                    return self.fail(problem.help("put the value into quotes"));
                }
            };
            self.bump();
            if !value.is_empty() {
                value.push(' ');
            }
            value.push_str(&piece);
        }
        if value.is_empty() && self.last_kind == TokenKind::Punct('=') {
            return self.expected(&["a value"]);
        }
        let value = Spanned { value: self.lexer.intern(&value), span: start.to(self.last) };
        Ok(StatementKind::Macro(self.lexer.macros.define(name, value, false)))
    }

    fn macro_piece<T>(&mut self, c: char) -> Parsed<T> {
        let span = self.peek().span;
        let message = format!("the macro's value holds `{c}`, which ends a word");
        let problem = Diagnostic::error(Code::Syntax, span, message);
        self.fail(problem.help("a macro in another's value must be plain words; write it out"))
    }

    fn include(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let path = self.name_with_slashes("a file's name")?;
        if !matches!(self.peek().kind, TokenKind::Newline | TokenKind::End) {
            return self.expected(&["the end of the line"]);
        }
        self.lexer.include(&path.value, path.span);
        Ok(StatementKind::Include(path))
    }

    /// A file's name, which without quotes breaks at each `/`.
    fn name_with_slashes(&mut self, what: &str) -> Parsed<Spanned<Text>> {
        if !self.at_punct('/') {
            return self.name(what);
        }
        let span = self.peek().span;
        let problem = Diagnostic::error(Code::Syntax, span, format!("expected {what}, found `/`"));
        self.fail(problem.help("a path with `/` has to be quoted"))
    }

    fn load_anchor(&mut self) -> Parsed<StatementKind> {
        self.bump();
        self.expect("anchor")?;
        let name = self.name("an anchor's name")?;
        self.expect("from")?;
        let file = self.name_with_slashes("a file's name")?;
        Ok(StatementKind::LoadAnchor { name, file })
    }

    fn table(&mut self) -> Parsed<Table> {
        self.bump();
        let name = self.table_name()?;
        let mut table = Table {
            name,
            is_const: false,
            is_persist: false,
            has_counters: false,
            sources: Vec::new(),
        };
        loop {
            if self.eat("const") {
                table.is_const = true;
            } else if self.eat("persist") {
                table.is_persist = true;
            } else if self.eat("counters") {
                table.has_counters = true;
            } else if self.eat("file") {
                table.sources.push(TableSource::File(self.name_with_slashes("a file's name")?));
            } else if self.at_punct('{') {
                if matches!(self.peek_at(1).kind, TokenKind::Punct('}')) {
                    self.bump();
                    self.bump();
                    table.sources.push(TableSource::List(Vec::new()));
                } else {
                    table.sources.push(TableSource::List(self.list(Self::table_host)?));
                }
            } else if self.at_punct('}')
                || matches!(self.peek().kind, TokenKind::Newline | TokenKind::End)
            {
                return Ok(table);
            } else {
                return self.expected(&["`const`", "`persist`", "`counters`", "`file`", "`{`"]);
            }
        }
    }

    /// `<name>`
    pub(super) fn table_name(&mut self) -> Parsed<Spanned<Text>> {
        self.expect_punct('<')?;
        let name = self.name("a table's name")?;
        self.expect_punct('>')?;
        if name.value.len() > TABLE_NAME_SIZE_MAX {
            let message =
                format!("a table's name may have {TABLE_NAME_SIZE_MAX} characters at most");
            return self.fail(Diagnostic::error(Code::BadValue, name.span, message));
        }
        Ok(name)
    }

    fn antispoof(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let (log, quick) = self.log_and_quick()?;
        self.expect("for")?;
        let interfaces = self.list(Self::antispoof_interface)?;
        let af = self.family().map(|af| af.value);
        let mut antispoof = Antispoof {
            log,
            quick,
            interfaces,
            af,
            labels: Vec::new(),
            ridentifier: None,
            rtable: None,
        };
        loop {
            if self.eat("label") {
                antispoof.labels.push(self.label()?);
            } else if self.eat("ridentifier") {
                antispoof.ridentifier = Some(self.number32("an identifier")?);
            } else if self.eat("rtable") {
                antispoof.rtable = Some(self.number32("a routing table")?);
            } else {
                return Ok(StatementKind::Antispoof(Box::new(antispoof)));
            }
        }
    }

    pub(super) fn anchor(&mut self, kind: AnchorKind) -> Parsed<StatementKind> {
        if let AnchorKind::Translate(translation) = kind {
            let word = format!("{}-anchor", translation.as_str());
            self.only_in(Dialect::FreeBsd, &word, "OpenBSD has `anchor` alone")?;
        }
        self.bump();
        let has_name = match &self.peek().kind {
            TokenKind::Quoted(_) => true,
            TokenKind::Word(word) => !names::is_reserved(word),
            _ => false,
        };
        let name = if has_name { Some(self.name("an anchor's name")?) } else { None };
        if let Some(name) = &name {
            self.check_anchor_name(name)?;
        }
        let mut filter = Filter::default();
        let mut ether = None;
        if kind == AnchorKind::Ether {
            ether = Some(self.ether_filter()?);
        } else {
            self.filter_head(&mut filter)?;
            self.filter_options(&mut filter)?;
        }
        let mut body = None;
        if self.at_punct('{') {
            let open = self.bump().span;
            self.enter(open)?;
            let statements = self.statements(true);
            self.depth -= 1;
            self.expect_punct('}')?;
            body = Some(statements);
        } else if name.is_none() {
            return self.expected(&["an anchor's name", "`{`"]);
        }
        Ok(StatementKind::Anchor(Box::new(Anchor { kind, name, filter, ether, body })))
    }

    fn check_anchor_name(&mut self, name: &Spanned<Text>) -> Parsed<()> {
        let text = &*name.value;
        let problem = if text.is_empty() {
            "an anchor's name cannot be empty"
        } else if text.len() > ANCHOR_SIZE_MAX {
            "the anchor's name is too long"
        } else if text.split('/').any(|part| part.starts_with('_') && part.len() > 1) {
            "anchors that begin with `_` are reserved for those without a name"
        } else {
            return Ok(());
        };
        self.fail(Diagnostic::error(Code::BadValue, name.span, problem))
    }
}
