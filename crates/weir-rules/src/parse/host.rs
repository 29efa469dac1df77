//! Hosts and ports: `from … port … os … to … port …`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Parsed, Parser};
use crate::ast::{Filter, Host, HostKind, IdComparison, Name, PortComparison};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::source::Span;
use crate::value::{Modifiers, Operator, Spanned, Text};

impl Parser<'_> {
    pub(super) fn hosts(&mut self, filter: &mut Filter) -> Parsed<()> {
        if self.eat("all") {
            return Ok(());
        }
        if self.eat("from") {
            if !self.at("port") && !self.at("os") {
                filter.from.hosts = self.list(Self::host_item)?;
            }
            if self.eat("port") {
                filter.from.ports = self.list(Self::port)?;
            }
        }
        if self.eat("os") {
            filter.os = self.list(|parser, list| {
                list.push(parser.name("an operating system")?);
                Ok(())
            })?;
        }
        if self.eat("to") {
            if !self.at("port") {
                filter.to.hosts = self.list(Self::host_item)?;
            }
            if let Some(host) =
                filter.to.hosts.iter().find(|host| host.kind == HostKind::UrpfFailed)
            {
                let message = "`urpf-failed` is about a source, and cannot be a destination";
                return self.fail(Diagnostic::error(Code::BadAddress, host.span, message));
            }
            if self.eat("port") {
                filter.to.ports = self.list(Self::port)?;
            }
        }
        Ok(())
    }

    pub(super) fn host_item(&mut self, list: &mut Vec<Host>) -> Parsed<()> {
        list.push(self.host()?);
        Ok(())
    }

    /// An entry of a table, which may be no table and nothing dynamic.
    pub(super) fn table_host(&mut self, list: &mut Vec<Host>) -> Parsed<()> {
        let host = self.host()?;
        let what = match host.kind {
            HostKind::Address(..) | HostKind::Name(..) => {
                list.push(host);
                return Ok(());
            }
            HostKind::Any => "`any`",
            HostKind::NoRoute | HostKind::UrpfFailed | HostKind::RouteLabel(_) => "a route",
            HostKind::Range(..) => "a range",
            HostKind::Table(_) => "a table",
            HostKind::Dynamic(..) => "`(interface)`",
        };
        let message = format!("{what} cannot be in a table");
        self.fail(Diagnostic::error(Code::BadAddress, host.span, message))
    }

    pub(super) fn host(&mut self) -> Parsed<Host> {
        let start = self.peek().span;
        let not = self.eat_punct('!');
        let kind = self.host_kind()?;
        let mut host = Host { span: start, not, kind, bits: None, weight: None };
        if self.at_punct('/') {
            self.bump();
            let max =
                if matches!(host.kind, HostKind::Address(IpAddr::V4(_), _)) { 32 } else { 128 };
            let takes_bits = matches!(
                host.kind,
                HostKind::Address(..) | HostKind::Name(..) | HostKind::Dynamic(..)
            );
            let bits = self.number8("a prefix length", 0, max)?;
            if !takes_bits {
                let message = "a prefix length is not allowed here";
                return self.fail(Diagnostic::error(Code::BadAddress, self.last, message));
            }
            host.bits = Some(bits);
        }
        self.partial_address(&mut host)?;
        if self.at_punct('-') {
            self.bump();
            self.range_end(&mut host)?;
        }
        let is_open = self.dialect == Dialect::OpenBsd;
        if (is_open && self.at("weight")) || self.is_any(&["weight"]) {
            self.only_in(Dialect::OpenBsd, "weight", "")?;
            self.bump();
            let weight = self.number("a weight", 1, u64::from(u16::MAX))?;
            host.weight = u16::try_from(weight).ok();
        }
        host.span = start.to(self.last);
        Ok(host)
    }

    fn host_kind(&mut self) -> Parsed<HostKind> {
        let token = self.peek().clone();
        match token.kind {
            TokenKind::Punct('<') => Ok(HostKind::Table(self.used_table_name()?.value)),
            TokenKind::Punct('(') => {
                self.bump();
                let name = self.name("an interface")?;
                self.expect_punct(')')?;
                if !name.value.starts_with(|c: char| c.is_ascii_alphabetic()) {
                    let message =
                        format!("`{}` is not an interface: `(…)` takes its name", name.value);
                    return self.fail(Diagnostic::error(Code::BadAddress, name.span, message));
                }
                let (name, modifiers) = self.modifiers(&name)?;
                Ok(HostKind::Dynamic(name, modifiers))
            }
            TokenKind::Number(number) => {
                self.bump();
                Ok(HostKind::Name(number.to_string().into(), Modifiers::default()))
            }
            TokenKind::Word(word) => match &*word {
                "any" => self.host_word(HostKind::Any),
                "no-route" => self.host_word(HostKind::NoRoute),
                "urpf-failed" => self.host_word(HostKind::UrpfFailed),
                "route" => {
                    self.bump();
                    Ok(HostKind::RouteLabel(self.name("a route's label")?.value))
                }
                _ => self.host_name(),
            },
            TokenKind::Quoted(_) => self.host_name(),
            _ => self.expected(&["an address"]),
        }
    }

    fn host_word(&mut self, kind: HostKind) -> Parsed<HostKind> {
        self.bump();
        Ok(kind)
    }

    fn host_name(&mut self) -> Parsed<HostKind> {
        let name = self.name("an address")?;
        if let Some((address, scope)) = address(&name.value) {
            return Ok(HostKind::Address(address, scope.map(Into::into)));
        }
        if let Some((first, last)) = name.value.split_once('-')
            && address(first).is_some()
            && address(last).is_some()
        {
            let message = format!("`{}` is one word", name.value);
            let problem = Diagnostic::error(Code::BadAddress, name.span, message);
            return self.fail(problem.help(format!("write the range as `{first} - {last}`")));
        }
        let looks_like_address = name.value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let dots = name.value.bytes().filter(|b| *b == b'.').count();
        if looks_like_address && dots >= 3 {
            let message = format!("`{}` is not an IPv4 address", name.value);
            return self.fail(Diagnostic::error(Code::BadAddress, name.span, message));
        }
        let (name, modifiers) = self.modifiers(&name)?;
        Ok(HostKind::Name(name, modifiers))
    }

    /// `10/8` and `10.1/16`: the missing parts are zero.
    fn partial_address(&mut self, host: &mut Host) -> Parsed<()> {
        let HostKind::Name(name, _) = &host.kind else {
            return Ok(());
        };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Ok(());
        }
        let parts: Vec<Option<u8>> = name.split('.').map(|part| part.parse().ok()).collect();
        let fits = host.bits.is_some_and(|bits| bits <= 32) && parts.len() <= 4;
        let octets: Option<Vec<u8>> = parts.into_iter().collect();
        if let Some(octets) = octets.filter(|_| fits) {
            let mut whole = [0; 4];
            whole[..octets.len()].copy_from_slice(&octets);
            host.kind = HostKind::Address(IpAddr::V4(Ipv4Addr::from(whole)), None);
            return Ok(());
        }
        let message =
            format!("`{name}` is not an address unless a prefix length of at most 32 follows");
        self.fail(Diagnostic::error(Code::BadAddress, host.span, message))
    }

    fn range_end(&mut self, host: &mut Host) -> Parsed<()> {
        let end = self.host_kind()?;
        let kinds = (&host.kind, &end, host.bits);
        let (HostKind::Address(first, None), HostKind::Address(last, None), None) = kinds else {
            let span = host.span.to(self.last);
            let message = "a range goes from one address to another";
            return self.fail(Diagnostic::error(Code::BadAddress, span, message));
        };
        let problem = if first.is_ipv4() != last.is_ipv4() {
            "both ends of a range must be of the same address family"
        } else if first > last {
            "the range ends before it begins"
        } else {
            host.kind = HostKind::Range(*first, *last);
            return Ok(());
        };
        let span = host.span.to(self.last);
        self.fail(Diagnostic::error(Code::BadAddress, span, problem))
    }

    /// Takes `:network` and the like off a name.
    pub(super) fn modifiers(&mut self, name: &Spanned<Text>) -> Parsed<(Text, Modifiers)> {
        let mut modifiers = Modifiers::default();
        let mut rest = &*name.value;
        while let Some((before, word)) = rest.rsplit_once(':') {
            match word {
                "network" => modifiers.network = true,
                "broadcast" => modifiers.broadcast = true,
                "peer" => modifiers.peer = true,
                "0" => modifiers.no_alias = true,
                _ => {
                    let message = format!("`{word}` is not a property of an interface");
                    let problem = Diagnostic::error(Code::BadAddress, name.span, message);
                    let known = ["network", "broadcast", "peer", "0"];
                    let mut problem = problem.nearest(word, known).expected(known);
                    if let Some(suggestion) = &mut problem.suggestion {
                        suggestion.replacement = format!("{before}:{}", suggestion.replacement);
                    }
                    return self.fail(problem);
                }
            }
            rest = before;
        }
        let modes = [modifiers.network, modifiers.broadcast, modifiers.peer];
        if modes.iter().filter(|mode| **mode).count() > 1 {
            let message = "illegal combination of interface modifiers";
            return self.fail(Diagnostic::error(Code::BadAddress, name.span, message));
        }
        Ok((self.lexer.intern(rest), modifiers))
    }

    pub(super) fn port(&mut self, list: &mut Vec<PortComparison>) -> Parsed<()> {
        let start = self.peek().span;
        let (operator, first, second) = self.comparison("a port")?;
        list.push(PortComparison { span: start.to(self.last), operator, first, second });
        Ok(())
    }

    pub(super) fn user(&mut self, list: &mut Vec<IdComparison>) -> Parsed<()> {
        let start = self.peek().span;
        let (operator, first, second) = self.comparison("a user or group")?;
        list.push(IdComparison { span: start.to(self.last), operator, first, second });
        Ok(())
    }

    /// An operator with one value or two.
    fn comparison(&mut self, what: &str) -> Parsed<(Operator, Name, Name)> {
        let unary = if self.eat_punct('=') {
            Some(Operator::Equal)
        } else if self.eat_punct('!') {
            self.expect_punct('=')?;
            Some(Operator::NotEqual)
        } else if self.eat_punct('<') {
            let equal = self.eat_punct('=');
            Some(if equal { Operator::LessEqual } else { Operator::Less })
        } else if self.eat_punct('>') {
            let equal = self.eat_punct('=');
            Some(if equal { Operator::GreaterEqual } else { Operator::Greater })
        } else {
            None
        };
        let first = self.name_or_number(what)?;
        if let Some(operator) = unary {
            if matches!(&first.value, Name::Name(name) if name.contains(':')) {
                let message = "a range takes no operator";
                return self.fail(Diagnostic::error(Code::BadValue, first.span, message));
            }
            return Ok((operator, first.value.clone(), first.value));
        }
        let binary = match self.peek().kind {
            TokenKind::Inside => Some(Operator::Inside),
            TokenKind::Outside => Some(Operator::Outside),
            _ => None,
        };
        if let Some(operator) = binary {
            self.bump();
            let second = self.name_or_number(what)?;
            return Ok((operator, first.value, second.value));
        }
        if let Name::Name(name) = &first.value
            && let Some((low, high)) = name.split_once(':')
        {
            let low = self.range_part(low, first.span)?;
            let high = self.range_part(high, first.span)?;
            return Ok((Operator::Range, low, high));
        }
        Ok((Operator::Equal, first.value.clone(), first.value))
    }

    /// One end of `a:b`.
    pub(super) fn range_part(&mut self, text: &str, span: Span) -> Parsed<Name> {
        if text.is_empty() || text.contains(':') {
            let message = "a range is written `first:last`";
            return self.fail(Diagnostic::error(Code::BadPort, span, message));
        }
        Ok(match text.parse() {
            Ok(number) => Name::Number(number),
            Err(_) => Name::Name(self.lexer.intern(text)),
        })
    }
}

/// An address, and the scope after `%` of an IPv6 one.
pub(crate) fn address(text: &str) -> Option<(IpAddr, Option<&str>)> {
    if let Ok(v4) = text.parse::<Ipv4Addr>() {
        return Some((IpAddr::V4(v4), None));
    }
    let (text, scope) = match text.split_once('%') {
        Some((text, scope)) if !scope.is_empty() => (text, Some(scope)),
        Some(_) => return None,
        None => (text, None),
    };
    Some((IpAddr::V6(text.parse::<Ipv6Addr>().ok()?), scope))
}
