//! Statements that are no rules: macros, includes, tables, anchors, `antispoof`.

use super::{Parsed, Parser};
use crate::ast::{
    Anchor, AnchorKind, Antispoof, Filter, StatementKind, Table, TableSource, Translation,
    TypedTable,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::limits::{ANCHOR_SIZE_MAX, TABLE_NAME_SIZE_MAX};
use crate::source::Span;
use crate::typed::{KeyType, Kinds, Shape, check_name};
use crate::value::{Operator, Spanned, Text};

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Parsed<StatementKind> {
        let Some(word) = self.word_at(0) else {
            if self.peek().kind == TokenKind::Broken {
                return Err(super::Reported);
            }
            if self.at_punct('}') {
                let span = self.peek().span;
                let message = "expected a statement, found `}`";
                let problem = Diagnostic::error(Code::Syntax, span, message);
                return self.fail(problem.help("no anchor or list is open here"));
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
            let problem = Diagnostic::error(Code::Syntax, token.span, message)
                .expected(self.statement_words());
            let problem = self.statement_hint(problem, word);
            return self.fail(problem);
        }
        let name = self.name("a macro's name")?;
        self.expect_punct('=')?;
        match self.macro_value() {
            Ok(value) => Ok(StatementKind::Macro(self.lexer.macros.define(name, value, false))),
            Err(reported) => {
                self.lexer.macros.define_broken(name.value);
                Err(reported)
            }
        }
    }

    /// Names, numbers and strings to the end of the line, with blanks between them.
    fn macro_value(&mut self) -> Parsed<Spanned<Text>> {
        let mut value = String::new();
        let start = self.peek().span;
        loop {
            let token = self.peek().clone();
            let piece = match token.kind {
                TokenKind::Newline | TokenKind::End => break,
                TokenKind::Quoted(text) => text.to_string(),
                TokenKind::Word(word) if !self.is_reserved(&word) => word.to_string(),
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
        Ok(Spanned { value: self.lexer.intern(&value), span: start.to(self.last) })
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
        self.fail(problem.help("a path with `/` must be quoted"))
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
        let name = self.typed_table_name()?;
        let mut table = Table {
            name,
            typed: None,
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
            } else if self.eat("type") {
                table.typed = Some(self.typed_table()?);
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
                self.check_table(&table)?;
                return Ok(table);
            } else {
                return self.expected(&["`const`", "`persist`", "`counters`", "`file`", "`{`"]);
            }
        }
    }

    /// Behind `type`: `addr values tag,nexthop limit 1000`, weir's own.
    fn typed_table(&mut self) -> Parsed<TypedTable> {
        let (key, span) = self.words_between_commas("a type of keys, such as `addr`")?;
        let key = KeyType::parse(&key).or_else(|why| self.bad_value(span, why))?;
        let mut values = Kinds::default();
        if self.eat("values") {
            let (words, span) = self.words_between_commas("`tag`")?;
            values = Kinds::parse(&words).or_else(|why| self.bad_value(span, why))?;
        }
        let limit =
            if self.eat("limit") { Some(self.number32("a number of entries")?) } else { None };
        Ok(TypedTable { shape: Shape { key, values }, limit })
    }

    /// They may be reserved elsewhere, as `tag` is.
    fn words_between_commas(&mut self, what: &'static str) -> Parsed<(String, Span)> {
        let (mut text, mut span) = (String::new(), self.peek().span);
        loop {
            let Some(word) = self.word_at(0) else { return self.expected(&[what]) };
            text.push_str(&word);
            span = span.to(self.bump().span);
            if !self.at_punct(',') {
                return Ok((text, span));
            }
            self.bump();
            text.push(',');
        }
    }

    fn bad_value<T>(&mut self, span: Span, why: String) -> Parsed<T> {
        self.fail(Diagnostic::error(Code::BadValue, span, why))
    }

    /// What a typed table has not, and how long names of others are.
    fn check_table(&mut self, table: &Table) -> Parsed<()> {
        let span = table.name.span;
        if table.typed.is_none() {
            return self.check_table_name(&table.name);
        }
        if table.is_const || table.is_persist || table.has_counters {
            let why = "a typed table is neither const nor persist, and has no counters";
            return self.bad_value(span, why.to_owned());
        }
        if table.sources.iter().any(|source| matches!(source, TableSource::List(_))) {
            let why = "the entries of a typed table are in a `file`, or come by `weir fw table`";
            return self.bad_value(span, why.to_owned());
        }
        check_name(&table.name.value).or_else(|why| self.bad_value(span, why))?;
        self.long_tables.insert(table.name.value.clone());
        Ok(())
    }

    fn check_table_name(&mut self, name: &Spanned<Text>) -> Parsed<()> {
        if name.value.len() <= TABLE_NAME_SIZE_MAX {
            return Ok(());
        }
        let message = format!("a table's name may have at most {TABLE_NAME_SIZE_MAX} characters");
        self.fail(Diagnostic::error(Code::BadValue, name.span, message))
    }

    /// `<name>`
    pub(super) fn table_name(&mut self) -> Parsed<Spanned<Text>> {
        let name = self.typed_table_name()?;
        self.check_table_name(&name)?;
        Ok(name)
    }

    /// `<name>` of a table that may be a typed one, which may have a longer name.
    fn typed_table_name(&mut self) -> Parsed<Spanned<Text>> {
        self.expect_punct('<')?;
        let name = self.name("a table's name")?;
        self.expect_punct('>')?;
        Ok(name)
    }

    /// The same, in a rule: a name that is too long for other tables is that of a typed one, which
    /// stands before.
    pub(super) fn used_table_name(&mut self) -> Parsed<Spanned<Text>> {
        let name = self.typed_table_name()?;
        if !self.long_tables.contains(&name.value) {
            self.check_table_name(&name)?;
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
                let span = self.last;
                let mut default = Filter::default();
                default.options.labels = std::mem::take(&mut antispoof.labels);
                self.another_label(&mut default, span)?;
                antispoof.labels = default.options.labels;
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
            self.only_in(Dialect::FreeBsd, &word, "OpenBSD has only `anchor`")?;
        }
        self.bump();
        let has_name = match self.peek().kind.clone() {
            TokenKind::Quoted(_) => true,
            TokenKind::Word(word) => !self.is_reserved(&word),
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
            self.check_anchor_filter(kind, &filter)?;
        }
        let mut body = None;
        if self.at_punct('{') {
            let open = self.bump().span;
            self.enter(open)?;
            let statements = self.statements(Some(open));
            self.depth -= 1;
            // Where it is the end instead, that has been reported.
            self.eat_punct('}');
            if let Some(name) = name.as_ref().filter(|name| name.value.contains('/')) {
                let message = "an anchor with its rules in braces takes no path with `/`";
                let problem = Diagnostic::error(Code::BadValue, name.span, message);
                return self.fail(problem.help("put an anchor into the other's braces"));
            }
            body = Some(statements);
        } else if name.is_none() {
            return self.expected(&["an anchor's name", "`{`"]);
        }
        Ok(StatementKind::Anchor(Box::new(Anchor { kind, name, filter, ether, body })))
    }

    /// What pf's grammar leaves out of an anchor's rule.
    fn check_anchor_filter(&mut self, kind: AnchorKind, filter: &Filter) -> Parsed<()> {
        let (word, is_translation) = match kind {
            AnchorKind::Translate(kind) => (format!("`{}-anchor`", kind.as_str()), true),
            _ => ("an anchor".to_owned(), false),
        };
        let span = self.last;
        let other =
            filter.option_spans.iter().find(|(name, _)| is_translation && *name != "rtable");
        let message = if filter.log.is_some() {
            format!("{word} takes no `log`: its rules log")
        } else if is_translation && (filter.direction.is_some() || filter.quick) {
            format!("{word} takes no direction and no `quick`")
        } else if let Some((name, at)) = other {
            let message = format!("{word} takes no `{name}`");
            return self.fail(Diagnostic::error(Code::Inconsistent, *at, message));
        } else if let AnchorKind::Translate(kind) = kind {
            return self.check_anchor_hosts(kind, filter);
        } else {
            return Ok(());
        };
        self.fail(Diagnostic::error(Code::Inconsistent, span, message))
    }

    fn check_anchor_hosts(&mut self, kind: Translation, filter: &Filter) -> Parsed<()> {
        let (from, to) = (&filter.from, &filter.to);
        let fail = |parser: &mut Self, span, message| {
            parser.fail(Diagnostic::error(Code::Inconsistent, span, message))
        };
        let hosts = from.hosts.first().or(to.hosts.first()).map(|host| host.span);
        let ports = from.ports.first().or(to.ports.first()).map(|port| port.span);
        match kind {
            Translation::Binat => {
                if let Some(span) = hosts.or(ports) {
                    return fail(self, span, "`binat-anchor` takes no `from` and no `to`");
                }
                if let Some(second) = filter.protocols.get(1) {
                    return fail(self, second.span, "`binat-anchor` takes one protocol");
                }
            }
            Translation::Rdr => {
                if let Some(port) = from.ports.first() {
                    return fail(self, port.span, "`rdr-anchor` takes no source port");
                }
                if let Some(port) = to.ports.get(1) {
                    return fail(self, port.span, "`rdr-anchor` takes one destination port");
                }
                if let Some(port) = to.ports.iter().find(|port| port.operator != Operator::Equal) {
                    return fail(
                        self,
                        port.span,
                        "`rdr-anchor` takes one port, without an operator",
                    );
                }
            }
            Translation::Nat => {}
        }
        Ok(())
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
