//! Limiters of states and of sources: their definition and their use in a rule (pf.conf(5) of
//! OpenBSD 7.9, STATE LIMITERS and SOURCE LIMITERS).

use super::{Parsed, Parser};
use crate::ast::{Limiter, LimiterTable, StatementKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::value::{LimiterAction, LimiterKind, LimiterName, LimiterUse};

impl Parser<'_> {
    fn limiter_kind(&mut self) -> Parsed<LimiterKind> {
        let kind = if self.eat("state") { LimiterKind::State } else { LimiterKind::Source };
        if kind == LimiterKind::Source {
            self.expect("source")?;
        }
        self.expect("limiter")?;
        Ok(kind)
    }

    /// `state limiter "name" id n limit n rate n/s`,
    /// `source limiter "name" id n entries n limit n rate n/s inet mask n inet6 mask n table <t>
    /// above n below n`
    pub(super) fn limiter(&mut self) -> Parsed<StatementKind> {
        let kind = self.limiter_kind()?;
        let name = self.name("a limiter's name")?;
        let mut limiter = Limiter {
            kind,
            name,
            id: 0,
            entries: None,
            limit: None,
            rate: None,
            inet_bits: None,
            inet6_bits: None,
            table: None,
        };
        let is_source = kind == LimiterKind::Source;
        loop {
            if self.eat("id") {
                let id = self.number("an identifier", 1, 255)?;
                limiter.id = u32::try_from(id).unwrap_or(0);
            } else if is_source && self.eat("entries") {
                limiter.entries = Some(self.limiter_count()?);
            } else if self.eat("limit") {
                limiter.limit = Some(self.limiter_count()?);
            } else if self.eat("rate") {
                limiter.rate = Some(self.rate("a rate")?);
            } else if is_source && self.eat("inet") {
                self.expect("mask")?;
                limiter.inet_bits = Some(self.number8("a prefix length", 1, 32)?);
            } else if is_source && self.eat("inet6") {
                self.expect("mask")?;
                limiter.inet6_bits = Some(self.number8("a prefix length", 1, 128)?);
            } else if is_source && self.eat("table") {
                limiter.table = Some(self.limiter_table()?);
            } else {
                break;
            }
            self.skip_commas();
        }
        let span = limiter.name.span;
        let problem = if limiter.id == 0 {
            "the limiter has no `id`"
        } else if limiter.limit.is_none() {
            "the limiter has no `limit`"
        } else if is_source && limiter.entries.is_none() {
            "the source limiter has no `entries`"
        } else {
            return Ok(StatementKind::Limiter(Box::new(limiter)));
        };
        self.fail(Diagnostic::error(Code::Syntax, span, problem))
    }

    /// pf's kernel takes no more states (`PF_STATELIM_LIMIT_MAX`), and none for nothing.
    fn limiter_count(&mut self) -> Parsed<u32> {
        let count = self.number("a count", 1, 1 << 24)?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn limiter_table(&mut self) -> Parsed<LimiterTable> {
        let name = self.table_name()?.value;
        self.expect("above")?;
        // pf's kernel takes no others (`pfsourcelim_check` of pf_ioctl.c).
        let above = self.number("a count", 1, u64::from(u32::MAX))?;
        let mut below = None;
        if self.eat("below") {
            let count = self.number("a count that is not above the other one", 0, above)?;
            below = Some(u32::try_from(count).unwrap_or(u32::MAX));
        }
        let above = u32::try_from(above).unwrap_or(u32::MAX);
        Ok(LimiterTable { name, above, below })
    }

    /// `state limiter "name" (no-match)`, `state limiter id 1`
    pub(super) fn limiter_use(&mut self) -> Parsed<LimiterUse> {
        let kind = self.limiter_kind()?;
        let limiter = if self.at("id") {
            self.bump();
            let id = self.number("an identifier", 1, 255)?;
            LimiterName::Id(u32::try_from(id).unwrap_or(0))
        } else {
            LimiterName::Name(self.name("a limiter's name")?.value)
        };
        let mut action = None;
        if self.eat_punct('(') {
            action = Some(if self.eat("no-match") {
                LimiterAction::NoMatch
            } else if self.eat("block") {
                LimiterAction::Block
            } else {
                return self.expected(&["`no-match`", "`block`"]);
            });
            self.expect_punct(')')?;
        }
        Ok(LimiterUse { kind, limiter, action })
    }
}
