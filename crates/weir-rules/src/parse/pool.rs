//! Pools of addresses: after `->`, `nat-to` and its like, and routes.

use super::{Parsed, Parser};
use crate::ast::{
    Filter, Name, Pool, PoolHost, PoolPortEnd, PoolPorts, Route, TranslateTo, TranslateToKind,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::value::{MapEPortSet, PoolKind, RouteKind, Spanned, Text};

impl Parser<'_> {
    /// A pool; of a route (`is_route`), its addresses stand beside interfaces and have no ports.
    pub(super) fn pool(&mut self, is_route: bool) -> Parsed<Pool> {
        let start = self.peek().span;
        let hosts =
            if is_route { self.list(Self::route_host)? } else { self.list(Self::pool_host)? };
        let mut pool = Pool {
            span: start,
            hosts,
            ports: None,
            kind: None,
            sticky: false,
            static_port: None,
            map_e: None,
            endpoint_independent: false,
        };
        if !is_route && self.at("port") {
            self.bump();
            pool.ports = Some(self.pool_ports()?);
        }
        self.pool_options(&mut pool, is_route)?;
        pool.span = start.to(self.last);
        Ok(pool)
    }

    fn pool_host(&mut self, list: &mut Vec<PoolHost>) -> Parsed<()> {
        list.push(PoolHost { interface: None, host: Some(self.host()?) });
        Ok(())
    }

    /// `(if address)`, `(if)`, `if`, and OpenBSD's bare address, `address@if` and `(if)`.
    fn route_host(&mut self, list: &mut Vec<PoolHost>) -> Parsed<()> {
        let is_open = self.dialect == Dialect::OpenBsd;
        if self.at_punct('(') {
            let after = self.peek_at(2).kind.clone();
            if is_open && after == TokenKind::Punct(')') {
                list.push(PoolHost { interface: None, host: Some(self.host()?) });
                return Ok(());
            }
            self.bump();
            let interface = self.name("an interface")?;
            self.no_address(&interface)?;
            let interface = Some(interface);
            let host = if self.at_punct(')') { None } else { Some(self.host()?) };
            self.expect_punct(')')?;
            list.push(PoolHost { interface, host });
            return Ok(());
        }
        if is_open {
            let at = self.word_at(0).filter(|word| word.contains('@'));
            if let Some(word) = at {
                let span = self.bump().span;
                let (address, interface) = word.split_once('@').unwrap_or((&word, ""));
                let interface = Some(Spanned { value: self.lexer.intern(interface), span });
                let Some((address, scope)) = super::host::address(address) else {
                    let message = format!("`{address}` is not an address");
                    return self.fail(Diagnostic::error(Code::BadAddress, span, message));
                };
                let kind = crate::ast::HostKind::Address(address, scope.map(Into::into));
                let host = crate::ast::Host { span, not: false, kind, bits: None, weight: None };
                list.push(PoolHost { interface, host: Some(host) });
                return Ok(());
            }
            list.push(PoolHost { interface: None, host: Some(self.host()?) });
            return Ok(());
        }
        // A typed table, weir's own.
        if self.at_punct('<') {
            list.push(PoolHost { interface: None, host: Some(self.host()?) });
            return Ok(());
        }
        let interface = self.name("an interface")?;
        self.no_address(&interface)?;
        list.push(PoolHost { interface: Some(interface), host: None });
        Ok(())
    }

    /// Refuses an address in the place of an interface.
    fn no_address(&mut self, interface: &Spanned<Text>) -> Parsed<()> {
        if super::host::address(&interface.value).is_none() {
            return Ok(());
        }
        let message = format!("`{}` is an address, not an interface", interface.value);
        let problem = Diagnostic::error(Code::BadAddress, interface.span, message);
        let help = format!("write `(interface {})`", interface.value);
        self.fail(problem.help(help))
    }

    fn pool_ports(&mut self) -> Parsed<PoolPorts> {
        let start = self.peek().span;
        let first = self.name_or_number("a port")?;
        let mut ports = PoolPorts { span: first.span, first: first.value, last: PoolPortEnd::None };
        if let Name::Name(text) = &ports.first.clone()
            && let Some((low, high)) = text.split_once(':')
        {
            ports.first = self.range_part(low, first.span)?;
            ports.last = if high == "*" {
                PoolPortEnd::Star
            } else {
                PoolPortEnd::Port(self.range_part(high, first.span)?)
            };
        }
        ports.span = start.to(self.last);
        Ok(ports)
    }

    fn pool_options(&mut self, pool: &mut Pool, is_route: bool) -> Parsed<()> {
        loop {
            let span = self.peek().span;
            let kind = if self.eat("bitmask") {
                Some(PoolKind::Bitmask)
            } else if self.eat("random") {
                Some(PoolKind::Random)
            } else if self.eat("round-robin") {
                Some(PoolKind::RoundRobin)
            } else if self.at("least-states") {
                self.only_in(Dialect::OpenBsd, "least-states", "")?;
                self.bump();
                Some(PoolKind::LeastStates)
            } else if self.eat("source-hash") {
                Some(PoolKind::SourceHash(self.hash_key()))
            } else {
                None
            };
            if let Some(kind) = kind {
                if pool.kind.is_some() {
                    let message = "the pool has two types";
                    return self.fail(Diagnostic::error(Code::Duplicate, span, message));
                }
                pool.kind = Some(Spanned { value: kind, span });
            } else if self.eat("sticky-address") {
                pool.sticky = true;
            } else if !is_route && self.eat("static-port") {
                pool.static_port = Some(span);
            } else if !is_route && self.at("map-e-portset") {
                self.only_in(Dialect::FreeBsd, "map-e-portset", "")?;
                self.bump();
                let value = self.map_e()?;
                pool.map_e = Some(Spanned { value, span: span.to(self.last) });
            } else if !is_route && self.at("endpoint-independent") {
                self.only_in(Dialect::FreeBsd, "endpoint-independent", "")?;
                self.bump();
                pool.endpoint_independent = true;
            } else {
                return Ok(());
            }
        }
    }

    /// A key in hexadecimal or any other string.
    fn hash_key(&mut self) -> Option<Text> {
        let kind = self.peek().kind.clone();
        let text = match kind {
            TokenKind::Quoted(text) => text,
            TokenKind::Word(word) if !self.is_reserved(&word) => word,
            _ => return None,
        };
        self.bump();
        Some(text)
    }

    fn map_e(&mut self) -> Parsed<MapEPortSet> {
        let offset = self.number8("an offset in bits", 1, 16)?;
        self.expect_punct('/')?;
        let length = self.number8("a length in bits", 1, 16)?;
        self.expect_punct('/')?;
        let hex =
            self.word_at(0).and_then(|word| u16::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let id = match hex {
            Some(id) => {
                self.bump();
                id
            }
            None => self.number16("a port set's identifier")?,
        };
        let span = self.last;
        if offset + length > 16 || u32::from(id) >= 1 << length {
            let message = "the port set does not fit: offset and length together are at most 16 \
                           bits, and the identifier fits in the length";
            return self.fail(Diagnostic::error(Code::BadValue, span, message));
        }
        Ok(MapEPortSet { offset, length, id })
    }

    pub(super) fn route(&mut self, filter: &mut Filter) -> Parsed<()> {
        let token = self.bump();
        let kind = match &token.kind {
            TokenKind::Word(word) if &**word == "route-to" => RouteKind::RouteTo,
            TokenKind::Word(word) if &**word == "reply-to" => RouteKind::ReplyTo,
            TokenKind::Word(word) if &**word == "dup-to" => RouteKind::DupTo,
            _ => {
                let message = "`fastroute` was removed in FreeBSD 11 and OpenBSD 5.5";
                let problem = Diagnostic::error(Code::Deprecated, token.span, message);
                return self.fail(problem.help("leave it out"));
            }
        };
        if filter.route.is_some() {
            let message = "a rule has one of route-to, reply-to and dup-to";
            return self.fail(Diagnostic::error(Code::Duplicate, token.span, message));
        }
        let kind = Spanned { value: kind, span: token.span };
        let pool = self.pool(true)?;
        filter.route = Some(Route { kind, pool });
        Ok(())
    }

    pub(super) fn translate_to(&mut self, filter: &mut Filter, word: &str) -> Parsed<()> {
        let span = self.bump().span;
        let kind = match word {
            "nat-to" => TranslateToKind::Nat,
            "rdr-to" => TranslateToKind::Rdr,
            "binat-to" => TranslateToKind::Binat,
            _ => match self.family() {
                Some(af) => TranslateToKind::Af(af.value),
                None => return self.expected(&["`inet`", "`inet6`"]),
            },
        };
        let mut to = None;
        let pool = if let TranslateToKind::Af(_) = kind {
            self.expect("from")?;
            let pool = self.pool(false)?;
            if self.eat("to") {
                to = Some(self.pool(false)?);
            }
            pool
        } else {
            self.pool(false)?
        };
        let same = |translate_to: &TranslateTo| {
            std::mem::discriminant(&translate_to.kind.value) == std::mem::discriminant(&kind)
        };
        if filter.translations.iter().any(same) {
            let message = format!("`{word}` is given twice in the rule");
            return self.fail(Diagnostic::error(Code::Duplicate, span, message));
        }
        let kind = Spanned { value: kind, span };
        filter.translations.push(TranslateTo { kind, pool, to });
        Ok(())
    }
}
