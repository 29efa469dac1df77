//! Rules: their action, and what comes in a fixed order in front of the options.

use super::{Parsed, Parser, Reported};
use crate::ast::{Action, Filter, Interface, Oddity, Rule, StatementKind, Translation};
use crate::diagnostic::{Code, Diagnostic, Suggestion};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::limits::INTERFACE_NAME_SIZE_MAX;
use crate::names;
use crate::value::{Af, BlockReturn, Direction, Log, Spanned};

/// Codes that `return-icmp` has without being told: port unreachable.
const PORT_UNREACHABLE: (u8, u8) = (3, 4);

impl Parser<'_> {
    /// `pass`, `block`, `match`.
    pub(super) fn filter_rule(&mut self) -> Parsed<StatementKind> {
        let token = self.bump();
        let word = match &token.kind {
            TokenKind::Word(word) => word.clone(),
            _ => return self.expected(&["`pass`", "`block`", "`match`"]),
        };
        let action = match &*word {
            "pass" => Action::Pass,
            "match" => Action::Match,
            _ => Action::Block(self.block_return()?),
        };
        let action = Spanned { value: action, span: token.span };
        let mut filter = Filter::default();
        self.filter_head(&mut filter)?;
        self.filter_options(&mut filter)?;
        Ok(StatementKind::Rule(Box::new(Rule { action, filter, target: None })))
    }

    fn block_return(&mut self) -> Parsed<Option<BlockReturn>> {
        let (code, code6) = PORT_UNREACHABLE;
        if self.eat("drop") {
            return Ok(Some(BlockReturn::Drop));
        }
        if self.eat("return") {
            return Ok(Some(BlockReturn::Return));
        }
        if self.eat("return-rst") {
            let mut ttl = 0;
            if self.eat_punct('(') {
                self.expect("ttl")?;
                ttl = self.number8("a TTL", 0, u8::MAX)?;
                self.expect_punct(')')?;
            }
            return Ok(Some(BlockReturn::Rst { ttl }));
        }
        if self.eat("return-icmp") {
            let mut codes = (code, code6);
            if self.eat_punct('(') {
                codes.0 = self.return_code(false)?;
                self.skip_commas();
                if !self.at_punct(')') {
                    codes.1 = self.return_code(true)?;
                }
                self.expect_punct(')')?;
            }
            return Ok(Some(BlockReturn::Icmp { code: codes.0, code6: codes.1 }));
        }
        if self.eat("return-icmp6") {
            let mut code6 = code6;
            if self.eat_punct('(') {
                code6 = self.return_code(true)?;
                self.expect_punct(')')?;
            }
            return Ok(Some(BlockReturn::Icmp { code, code6 }));
        }
        Ok(None)
    }

    /// A code of ICMP unreachable.
    fn return_code(&mut self, is_icmp6: bool) -> Parsed<u8> {
        if matches!(self.peek().kind, TokenKind::Number(_)) {
            return self.number8("an ICMP code", 0, u8::MAX);
        }
        let kind = if is_icmp6 { 1 } else { 3 };
        let name = self.name("an ICMP code")?;
        if let Some(code) = names::icmp_code(kind, &name.value, is_icmp6) {
            return Ok(code);
        }
        let list = if is_icmp6 { names::ICMP6_CODES } else { names::ICMP_CODES };
        let known = list.iter().filter(|(_, of, _)| *of == kind).map(|(name, _, _)| *name);
        let message = format!("unknown ICMP code `{}` of unreachable", name.value);
        let problem = Diagnostic::error(Code::UnknownIcmp, name.span, message);
        self.fail(super::hint::icmp_name(problem, &name.value, known))
    }

    /// `scrub`, `nat`, `rdr`, `binat` and their `no` forms.
    pub(super) fn old_rule(&mut self) -> Parsed<StatementKind> {
        let start = self.peek().span;
        let no = self.at("no");
        let Some(word) = self.word_at(usize::from(no)) else {
            return self.expected(&["`nat`", "`rdr`", "`binat`", "`scrub`"]);
        };
        let instead = match &*word {
            "nat" => "write `match out … nat-to …`",
            "rdr" => "write `match in … rdr-to …`",
            "binat" => "write `match … binat-to …`",
            "scrub" => "write `match … scrub (…)`, and `set reassemble yes`",
            _ => {
                self.bump();
                return self.expected(&["`nat`", "`rdr`", "`binat`", "`scrub`"]);
            }
        };
        self.only_in(Dialect::FreeBsd, &word, instead)?;
        if no {
            self.bump();
        }
        self.bump();
        let span = start.to(self.last);
        let kind = match &*word {
            "nat" => Translation::Nat,
            "rdr" => Translation::Rdr,
            "binat" => Translation::Binat,
            _ => return self.scrub_rule(no, span),
        };
        let pass = self.eat("pass");
        let action = Spanned { value: Action::Translate { kind, no, pass }, span };
        let mut filter = Filter::default();
        self.filter_head(&mut filter)?;
        self.filter_options(&mut filter)?;
        let mut target = None;
        if self.peek().kind == TokenKind::Arrow {
            self.bump();
            target = Some(self.pool(false)?);
        }
        let rule = Rule { action, filter, target };
        self.check_old_rule(&rule, kind)?;
        Ok(StatementKind::Rule(Box::new(rule)))
    }

    fn check_old_rule(&mut self, rule: &Rule, kind: Translation) -> Parsed<()> {
        let Action::Translate { no, pass, .. } = rule.action.value else {
            return Ok(());
        };
        let word = kind.as_str();
        let span = rule.action.span;
        let problem = if rule.filter.direction.is_some() {
            format!("`{word}` rules have no direction")
        } else if rule.filter.quick {
            format!("`{word}` rules have no `quick`: the first that matches applies")
        } else if no && pass {
            format!("`pass` is not valid with `no {word}`")
        } else if no && rule.target.is_some() {
            format!("`no {word}` rules do not need `->`")
        } else if let Some(to) = rule.filter.translations.first() {
            let span = to.kind.span;
            let message = format!("`{word}` rules translate to what follows `->`");
            let problem = Diagnostic::error(Code::Inconsistent, span, message);
            return self.fail(problem.help("write `->`, or make it a `match` or `pass` rule"));
        } else if let Some((other, at)) = rule
            .filter
            .option_spans
            .iter()
            .find(|(name, _)| !matches!(*name, "tag" | "tagged" | "rtable" | "label"))
        {
            let message = format!("`{other}` cannot be in a `{word}` rule");
            return self.fail(Diagnostic::error(Code::Inconsistent, *at, message));
        } else if !no && rule.target.is_none() {
            return self.no_target();
        } else {
            return Ok(());
        };
        self.fail(Diagnostic::error(Code::Inconsistent, span, problem))
    }

    /// A translation without `->`, at the word that stands in its place.
    fn no_target<T>(&mut self) -> Parsed<T> {
        let kind = self.peek().kind.clone();
        let span = self.peek().span;
        if kind == TokenKind::Broken {
            return Err(Reported);
        }
        let message = format!("expected `->`, found {}", super::cursor::describe(&kind));
        let problem = Diagnostic::error(Code::Syntax, span, message).expected(["`->`"]);
        let problem = match kind {
            TokenKind::Newline | TokenKind::End => problem.help("write `-> address` at its end"),
            TokenKind::Word(word) if super::host::address(&word).is_some() => {
                let suggestion = Suggestion { span, replacement: format!("-> {word}") };
                Diagnostic { suggestion: Some(suggestion), ..problem }
            }
            kind => self.hint(problem, &kind),
        };
        self.fail(problem)
    }

    fn scrub_rule(&mut self, no: bool, span: crate::source::Span) -> Parsed<StatementKind> {
        let action = Spanned { value: Action::Scrub { no }, span };
        let mut filter = Filter::default();
        self.filter_head(&mut filter)?;
        self.scrub_options(&mut filter)?;
        let puts_together = filter.options.scrub.is_some_and(|scrub| scrub.reassemble_tcp);
        let problem = if filter.quick {
            "`scrub` rules have no `quick`: the first that matches applies"
        } else if puts_together && filter.direction.is_some() {
            "`scrub … reassemble tcp` has no direction: it needs both"
        } else {
            return Ok(StatementKind::Rule(Box::new(Rule { action, filter, target: None })));
        };
        self.fail(Diagnostic::error(Code::Inconsistent, span, problem))
    }

    /// Direction, `log`, `quick`, interface, route, family, protocol, hosts.
    pub(super) fn filter_head(&mut self, filter: &mut Filter) -> Parsed<()> {
        if self.eat("in") {
            filter.direction = Some(Direction::In);
        } else if self.eat("out") {
            filter.direction = Some(Direction::Out);
        }
        (filter.log, filter.quick) = self.log_and_quick()?;
        if self.eat("on") {
            self.on(filter)?;
        }
        let route = self.peek().span;
        if self.at_any(&["route-to", "reply-to", "dup-to"]) || self.is_any(&["fastroute"]) {
            self.route(filter)?;
        }
        let before = self.last;
        filter.af = self.family();
        if self.eat("proto") {
            filter.protocols = self.list(|parser, list| {
                list.push(parser.name_or_number("a protocol")?);
                Ok(())
            })?;
        }
        self.hosts(filter)?;
        if filter.route.is_some() && self.last != before {
            self.odd(route, Oddity::RouteFirst);
        }
        Ok(())
    }

    fn on(&mut self, filter: &mut Filter) -> Parsed<()> {
        let not = self.at_punct('!');
        if self.word_at(usize::from(not)).as_deref() != Some("rdomain") {
            filter.interfaces = self.list(Self::interface)?;
            return Ok(());
        }
        if not {
            self.bump();
        }
        self.only_in(Dialect::OpenBsd, "rdomain", "")?;
        self.bump();
        filter.rdomain = Some((not, self.number8("a routing domain", 0, u8::MAX)?.into()));
        Ok(())
    }

    pub(super) fn log_and_quick(&mut self) -> Parsed<(Option<Log>, bool)> {
        let (mut log, mut quick) = (None, false);
        loop {
            let span = self.peek().span;
            let twice = if self.eat("log") {
                let twice = log.is_some();
                log = Some(self.log_options()?);
                twice
            } else if self.eat("quick") {
                std::mem::replace(&mut quick, true)
            } else {
                return Ok((log, quick));
            };
            if twice {
                self.odd(span, Oddity::LogTwice);
                let message = "the word is given twice here";
                self.report(Diagnostic::warning(Code::Duplicate, span, message));
            }
        }
    }

    fn log_options(&mut self) -> Parsed<Log> {
        let mut log = Log::default();
        if !self.eat_punct('(') {
            return Ok(log);
        }
        loop {
            if self.eat("all") {
                log.all = true;
            } else if self.eat("matches") {
                log.matches = true;
            } else if self.eat("user") || self.eat("group") {
                log.user = true;
            } else if self.eat("to") {
                let name = self.name("a pflog interface")?;
                let number = name.value.strip_prefix("pflog").and_then(|n| n.parse().ok());
                let Some(number) = number else {
                    let message = format!("`{}` is not a pflog interface", name.value);
                    let problem = Diagnostic::error(Code::BadValue, name.span, message);
                    return self.fail(problem.help("they are called pflog0 to pflog255"));
                };
                log.interface = number;
            } else {
                return self.expected(&["`all`", "`matches`", "`user`", "`to`"]);
            }
            self.skip_commas();
            if self.eat_punct(')') {
                return Ok(log);
            }
        }
    }

    pub(super) fn family(&mut self) -> Option<Spanned<Af>> {
        let span = self.peek().span;
        for af in [Af::Inet, Af::Inet6] {
            if self.eat(af.as_str()) {
                return Some(Spanned { value: af, span });
            }
        }
        None
    }

    /// `[!] interface`
    pub(super) fn interface(&mut self, list: &mut Vec<Interface>) -> Parsed<()> {
        let not = self.eat_punct('!');
        let name = if self.at("any") {
            let span = self.bump().span;
            Spanned { value: "any".into(), span }
        } else {
            self.name("an interface")?
        };
        if name.value.len() > INTERFACE_NAME_SIZE_MAX {
            let message = format!(
                "an interface's name may have at most {INTERFACE_NAME_SIZE_MAX} characters"
            );
            return self.fail(Diagnostic::error(Code::BadValue, name.span, message));
        }
        if let Some((before, _)) = name.value.split_once(':') {
            let message = format!("`{}` is not an interface: `:` is for addresses", name.value);
            let problem = Diagnostic::error(Code::BadValue, name.span, message);
            return self.fail(problem.help(format!("write `{before}`")));
        }
        let is_number = name.value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_number || super::host::address(&name.value).is_some() {
            let message = format!("`{}` is an address, not an interface", name.value);
            return self.fail(Diagnostic::error(Code::BadValue, name.span, message));
        }
        list.push(Interface { not, name, is_dynamic: false });
        Ok(())
    }

    /// `interface` or `(interface)`, in `antispoof`.
    pub(super) fn antispoof_interface(&mut self, list: &mut Vec<Interface>) -> Parsed<()> {
        let is_dynamic = self.eat_punct('(');
        self.interface(list)?;
        if is_dynamic {
            self.expect_punct(')')?;
        }
        if let Some(last) = list.last_mut() {
            last.is_dynamic = is_dynamic;
            if last.not {
                let span = last.name.span;
                let message = "`antispoof` takes no `!`";
                return self.fail(Diagnostic::error(Code::Syntax, span, message));
            }
        }
        Ok(())
    }
}
