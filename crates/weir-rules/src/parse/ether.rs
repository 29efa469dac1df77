//! Layer 2 rules (FreeBSD): `ether pass in on … from … to … l3 …`.

use super::{Parsed, Parser};
use crate::ast::{AnchorKind, EtherAction, EtherFilter, EtherRule, Filter, MacHost, StatementKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::value::Direction;

impl Parser<'_> {
    pub(super) fn ether(&mut self) -> Parsed<StatementKind> {
        self.only_in(Dialect::FreeBsd, "ether", "OpenBSD has `rule` of ifconfig(8) for bridges")?;
        self.bump();
        if self.at("anchor") {
            return self.anchor(AnchorKind::Ether);
        }
        let action = if self.eat("pass") {
            EtherAction::Pass
        } else if self.eat("block") {
            EtherAction::Block
        } else if self.eat("match") {
            EtherAction::Match
        } else {
            return self.expected(&["`pass`", "`block`", "`match`", "`anchor`"]);
        };
        let filter = self.ether_filter()?;
        Ok(StatementKind::Ether(Box::new(EtherRule { action, filter })))
    }

    pub(super) fn ether_filter(&mut self) -> Parsed<EtherFilter> {
        let mut filter = EtherFilter::default();
        if self.eat("in") {
            filter.direction = Some(Direction::In);
        } else if self.eat("out") {
            filter.direction = Some(Direction::Out);
        }
        filter.quick = self.eat("quick");
        if self.eat("on") {
            filter.interfaces = self.list(Self::interface)?;
        }
        if self.eat("bridge-to") {
            filter.bridge_to = Some(self.name("an interface")?.value);
        }
        if self.eat("proto") {
            filter.protocols = self.list(Self::ether_type)?;
        }
        if self.eat("from") {
            filter.from = self.list(Self::mac)?;
        }
        if self.eat("to") {
            filter.to = self.list(Self::mac)?;
        }
        if self.eat("l3") {
            let mut hosts = Filter::default();
            self.hosts(&mut hosts)?;
            if !hosts.from.ports.is_empty() || !hosts.to.ports.is_empty() || !hosts.os.is_empty() {
                let message = "`l3` takes only addresses";
                return self.fail(Diagnostic::error(Code::Syntax, self.last, message));
            }
            filter.l3_from = hosts.from.hosts;
            filter.l3_to = hosts.to.hosts;
        }
        self.ether_options(&mut filter)?;
        Ok(filter)
    }

    fn ether_options(&mut self, filter: &mut EtherFilter) -> Parsed<()> {
        let mut default = Filter::default();
        self.filter_options(&mut default)?;
        let allowed = ["label", "ridentifier", "queue", "tag", "tagged", "dnpipe"];
        let wrong = default.option_spans.iter().find(|(name, _)| !allowed.contains(name));
        if let Some((name, span)) = wrong {
            let message = format!("`{name}` cannot be in an `ether` rule");
            return self.fail(Diagnostic::error(Code::Inconsistent, *span, message));
        }
        filter.options = default.options;
        Ok(())
    }

    fn ether_type(&mut self, list: &mut Vec<u16>) -> Parsed<()> {
        let hex =
            self.word_at(0).and_then(|word| u16::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        list.push(match hex {
            Some(number) => {
                self.bump();
                number
            }
            None => self.number16("an ether type")?,
        });
        Ok(())
    }

    /// `[!] aa:bb:cc:dd:ee:ff [/bits | & mask]`
    fn mac(&mut self, list: &mut Vec<MacHost>) -> Parsed<()> {
        let not = self.eat_punct('!');
        let address = self.mac_address()?;
        let mut mask = [0xff; 6];
        if self.at_punct('/') {
            self.bump();
            let bits = self.number8("a prefix length", 0, 48)?;
            let ones = u64::MAX.checked_shl(u32::from(48 - bits)).unwrap_or(0);
            mask.copy_from_slice(&ones.to_be_bytes()[2..]);
        } else if self.at_punct('&') || self.at("&") {
            self.bump();
            mask = self.mac_address()?;
        }
        list.push(MacHost { not, address, mask });
        Ok(())
    }

    fn mac_address(&mut self) -> Parsed<[u8; 6]> {
        let token = self.peek().clone();
        if let TokenKind::Word(word) | TokenKind::Quoted(word) = &token.kind {
            let octets: Option<Vec<u8>> = word
                .split(':')
                .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2))
                .collect();
            let address = octets.and_then(|octets| <[u8; 6]>::try_from(octets).ok());
            if let Some(address) = address {
                self.bump();
                return Ok(address);
            }
            let message = format!("`{word}` is not a MAC address");
            return self.fail(Diagnostic::error(Code::BadAddress, token.span, message));
        }
        self.expected(&["a MAC address"])
    }
}
