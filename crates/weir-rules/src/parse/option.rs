//! Options of a rule, in any order.

use super::{Parsed, Parser, Reported, hint};
use crate::ast::{Filter, HostKind, IcmpType, Oddity};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::limits::{LABEL_COUNT_MAX, LABEL_SIZE_MAX, RATE_MAX, TAG_SIZE_MAX};
use crate::names;
use crate::source::Span;
use crate::value::{
    Divert, Dummynet, KeepState, QueueName, Rate, Scrub, TCP_FLAG_LETTERS, TcpFlags, Text,
};

/// Reserved words that no list holds, so that a list before them was not closed.
pub(super) const ENDS_LIST: &[&str] = &[
    "from",
    "to",
    "port",
    "proto",
    "on",
    "in",
    "out",
    "quick",
    "log",
    "inet",
    "inet6",
    "keep",
    "no",
    "modulate",
    "synproxy",
    "flags",
    "icmp-type",
    "icmp6-type",
    "label",
    "tag",
    "tagged",
    "queue",
    "user",
    "group",
    "rtable",
    "probability",
    "allow-opts",
    "nat-to",
    "rdr-to",
    "binat-to",
    "af-to",
    "route-to",
    "reply-to",
    "dup-to",
    "os",
    "set",
    "scrub",
    "all",
    "round-robin",
    "sticky-address",
    "source-hash",
    "bitmask",
    "static-port",
];

impl Parser<'_> {
    /// Options to the end of the rule, or to what is none.
    pub(super) fn filter_options(&mut self, filter: &mut Filter) -> Parsed<()> {
        loop {
            if self.at_punct('!') {
                let next = self.word_at(1);
                match next.as_deref() {
                    Some("tagged") => self.tagged(filter, true)?,
                    Some("received-on") => self.received_on(filter)?,
                    _ => return Ok(()),
                }
                continue;
            }
            let Some(word) = self.word_at(0) else {
                return Ok(());
            };
            let span = self.peek().span;
            match self.filter_option(filter, &word, span)? {
                Some(name) => self.note(filter, name, span)?,
                None => return Ok(()),
            }
        }
    }

    /// Remembers where an option stands, and refuses its second time.
    fn note(&mut self, filter: &mut Filter, name: &'static str, span: Span) -> Parsed<()> {
        let may_repeat = matches!(
            name,
            "label" | "limiter" | "translation" | "set" | "route" | "user" | "group"
        );
        if let Some(first) = filter.option_span(name).filter(|_| !may_repeat) {
            let message = format!("`{name}` is given twice in the rule");
            let problem = Diagnostic::error(Code::Duplicate, span, message);
            return self.fail(problem.related(first, "the first one"));
        }
        filter.option_spans.push((name, span.to(self.last)));
        Ok(())
    }

    /// One option; its name for [`Self::note`], or `None` if the word is none.
    fn filter_option(
        &mut self,
        filter: &mut Filter,
        word: &str,
        span: Span,
    ) -> Parsed<Option<&'static str>> {
        if word == "set-tos" {
            let problem = Diagnostic::error(Code::Syntax, span, "`set-tos` is for `scrub` rules");
            return self.fail(problem.help("write `set tos …`"));
        }
        if let Some(name) = self.matching_option(filter, word)? {
            return Ok(Some(name));
        }
        if let Some(name) = self.changing_option(filter, word, span)? {
            return Ok(Some(name));
        }
        Ok(Some(match word {
            "nat-to" | "rdr-to" | "binat-to" | "af-to" => {
                self.translate_to(filter, word)?;
                "translation"
            }
            "route-to" | "reply-to" | "dup-to" => {
                self.route(filter)?;
                "route"
            }
            "divert-to" | "divert-reply" | "divert-packet" => {
                self.divert(filter, word)?;
                "divert"
            }
            "no" | "keep" | "modulate" | "synproxy" => {
                self.keep_state(filter, word)?;
                "state"
            }
            "state" | "source" => {
                let limiter = self.limiter_use()?;
                filter.options.limiters.push(limiter);
                "limiter"
            }
            "no-df" | "min-ttl" | "max-mss" | "random-id" | "reassemble" => {
                let message = format!("`{word}` is outside `scrub (…)`");
                let problem = Diagnostic::error(Code::Syntax, span, message);
                return self.fail(problem.help(format!("write `scrub ({word} …)`")));
            }
            _ => return Ok(None),
        }))
    }

    /// Options that a packet must satisfy.
    fn matching_option(&mut self, filter: &mut Filter, word: &str) -> Parsed<Option<&'static str>> {
        let name = match word {
            "user" => "user",
            "group" => "group",
            "flags" => "flags",
            "icmp-type" => "icmp-type",
            "icmp6-type" => "icmp6-type",
            "tos" => "tos",
            "prio" => "prio",
            "fragment" => "fragment",
            "tagged" => "tagged",
            "probability" => "probability",
            "received-on" => "received-on",
            "max-pkt-rate" => "max-pkt-rate",
            _ => return Ok(None),
        };
        if !matches!(word, "tagged" | "received-on") {
            self.bump();
        }
        match word {
            "user" => filter.users.append(&mut self.list(Self::user)?),
            "group" => filter.groups.append(&mut self.list(Self::user)?),
            "flags" => filter.options.flags = Some(self.flags()?),
            "icmp-type" => {
                let mut types = self.list(|parser, list| parser.icmp_type(list, false))?;
                filter.icmp.append(&mut types);
            }
            "icmp6-type" => {
                let mut types = self.list(|parser, list| parser.icmp_type(list, true))?;
                filter.icmp.append(&mut types);
            }
            "tos" => filter.options.tos = Some(self.tos()?),
            "prio" => filter.options.prio = Some(self.number8("a priority", 0, 7)?),
            "fragment" => filter.options.fragment = true,
            "tagged" => {
                self.tagged(filter, false)?;
                return Ok(Some("tagged"));
            }
            "probability" => {
                filter.options.probability = Some(self.probability()?);
                self.late_state_options(filter)?;
            }
            "received-on" => self.received_on(filter)?,
            _ => filter.options.max_pkt_rate = Some(self.rate("a packet rate")?),
        }
        Ok(Some(name))
    }

    /// Options that change the packet or the rule.
    fn changing_option(
        &mut self,
        filter: &mut Filter,
        word: &str,
        span: Span,
    ) -> Parsed<Option<&'static str>> {
        let options = &mut filter.options;
        Ok(Some(match word {
            "label" => {
                self.bump();
                self.another_label(filter, span)?;
                "label"
            }
            "ridentifier" => {
                self.only_in(Dialect::FreeBsd, word, "")?;
                self.bump();
                options.ridentifier = Some(self.number32("an identifier")?);
                "ridentifier"
            }
            "once" => {
                self.bump();
                options.once = true;
                "once"
            }
            "allow-opts" => {
                self.bump();
                options.allow_opts = true;
                "allow-opts"
            }
            "queue" => {
                self.bump();
                options.queue = Some(self.queue_name()?);
                "queue"
            }
            "dnpipe" | "dnqueue" => {
                self.only_in(Dialect::FreeBsd, word, "")?;
                self.bump();
                options.dummynet = Some(self.dummynet(word == "dnpipe")?);
                "dnpipe"
            }
            "tag" => {
                self.bump();
                options.tag = Some(self.tag_name()?);
                "tag"
            }
            "rtable" => {
                self.bump();
                options.rtable = Some(self.number8("a routing table", 0, u8::MAX)?.into());
                "rtable"
            }
            "set" => {
                self.bump();
                self.set_fields(filter)?;
                "set"
            }
            "set-tos" => {
                self.bump();
                options.set.tos = Some(self.tos()?);
                "set-tos"
            }
            "scrub" => {
                self.bump();
                filter.options.scrub = Some(self.scrub_list(filter)?);
                "scrub"
            }
            _ => return Ok(None),
        }))
    }

    pub(super) fn another_label(&mut self, filter: &mut Filter, span: Span) -> Parsed<()> {
        let label = self.label()?;
        let count_max = if self.dialect == Dialect::FreeBsd { LABEL_COUNT_MAX } else { 1 };
        if filter.options.labels.len() >= count_max {
            let message = match count_max {
                1 => "a rule has one label".to_owned(),
                _ => format!("a rule has at most {count_max} labels"),
            };
            return self.fail(Diagnostic::error(Code::Limit, span, message));
        }
        filter.options.labels.push(label);
        Ok(())
    }

    /// `all [no-df] …` of the old `scrub` rule.
    pub(super) fn scrub_options(&mut self, filter: &mut Filter) -> Parsed<()> {
        let mut scrub = Scrub::default();
        loop {
            self.skip_commas();
            if self.at_punct('!') && self.word_at(1).as_deref() == Some("tagged") {
                self.tagged(filter, true)?;
            }
            let Some(word) = self.word_at(0) else { break };
            let span = self.peek().span;
            if self.scrub_word(&mut scrub, &word)? {
                self.note(filter, static_scrub_word(&word), span)?;
                continue;
            }
            if word.as_ref() == "fragment" {
                self.bump();
                if self.at_any(&["crop", "drop-ovl"]) {
                    let message = "`fragment crop` and `fragment drop-ovl` were removed in \
                                   FreeBSD 10: fragments are reassembled";
                    self.report(Diagnostic::warning(Code::Deprecated, span, message));
                    self.bump();
                } else {
                    scrub.no_reassemble = self.eat("no");
                    self.expect("reassemble")?;
                }
                self.note(filter, "fragment", span)?;
                continue;
            }
            match self.changing_option(filter, &word, span)? {
                Some(name @ ("set-tos" | "rtable" | "label" | "ridentifier" | "tag")) => {
                    self.note(filter, name, span)?;
                }
                Some(name) => {
                    let message = format!("`{name}` cannot be in a `scrub` rule");
                    return self.fail(Diagnostic::error(Code::Inconsistent, span, message));
                }
                None if word.as_ref() == "tagged" => self.tagged(filter, false)?,
                None => break,
            }
        }
        filter.options.scrub = Some(scrub);
        Ok(())
    }

    /// `( no-df random-id … )`
    fn scrub_list(&mut self, filter: &mut Filter) -> Parsed<Scrub> {
        let mut scrub = Scrub::default();
        self.expect_punct('(')?;
        loop {
            self.skip_commas();
            if self.eat_punct(')') {
                return Ok(scrub);
            }
            let word = self.word_at(0);
            if word.as_deref() == Some("set-tos") {
                self.only_in(Dialect::FreeBsd, "scrub (set-tos …)", "write `set tos …`")?;
                self.bump();
                filter.options.set.tos = Some(self.tos()?);
                continue;
            }
            if !word.is_some_and(|word| self.scrub_word(&mut scrub, &word).is_ok_and(|known| known))
            {
                return self.expected(&[
                    "`no-df`",
                    "`random-id`",
                    "`min-ttl`",
                    "`max-mss`",
                    "`reassemble`",
                    "`)`",
                ]);
            }
        }
    }

    fn scrub_word(&mut self, scrub: &mut Scrub, word: &str) -> Parsed<bool> {
        match word {
            "no-df" => {
                self.bump();
                scrub.no_df = true;
            }
            "random-id" => {
                self.bump();
                scrub.random_id = true;
            }
            "min-ttl" => {
                self.bump();
                scrub.min_ttl = self.number8("a TTL", 1, u8::MAX)?;
            }
            "max-mss" => {
                self.bump();
                let mss = self.number("a segment size in bytes", 1, u64::from(u16::MAX))?;
                scrub.max_mss = u16::try_from(mss).unwrap_or(u16::MAX);
            }
            "reassemble" => {
                self.bump();
                self.expect("tcp")?;
                scrub.reassemble_tcp = true;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn flags(&mut self) -> Parsed<TcpFlags> {
        if self.eat("any") {
            return Ok(TcpFlags::ANY);
        }
        let set = if self.at_punct('/') { 0 } else { self.flag_letters()? };
        self.expect_punct('/')?;
        let mask = self.flag_letters()?;
        if set & mask != set {
            let message = "the flags never match: some that must be set are not in the mask";
            return self.fail(Diagnostic::error(Code::Inconsistent, self.last, message));
        }
        Ok(TcpFlags { set, mask })
    }

    fn flag_letters(&mut self) -> Parsed<u8> {
        let Some(word) = self.word_at(0) else {
            return self.expected(&["TCP flags", "`any`"]);
        };
        let mut flags = 0;
        for letter in word.chars() {
            let Some(bit) = TCP_FLAG_LETTERS.find(letter) else {
                let span = self.peek().span;
                let message = format!("`{letter}` is not a TCP flag");
                let problem = Diagnostic::error(Code::BadValue, span, message);
                return self.fail(problem.help(format!("flags are {TCP_FLAG_LETTERS}")));
            };
            flags |= 1 << bit;
        }
        self.bump();
        Ok(flags)
    }

    fn icmp_type(&mut self, list: &mut Vec<IcmpType>, is_icmp6: bool) -> Parsed<()> {
        let start = self.peek().span;
        let types = if is_icmp6 { names::ICMP6_TYPES } else { names::ICMP_TYPES };
        let known = types.iter().map(|(name, _)| *name);
        let kind =
            self.icmp_number("an ICMP type", known, |name| names::icmp_type(name, is_icmp6))?;
        let mut code = None;
        if self.eat("code") {
            let codes = if is_icmp6 { names::ICMP6_CODES } else { names::ICMP_CODES };
            let known = codes.iter().filter(|(_, of, _)| *of == kind).map(|(name, _, _)| *name);
            code = Some(self.icmp_number("an ICMP code", known, |name| {
                names::icmp_code(kind, name, is_icmp6)
            })?);
        }
        list.push(IcmpType { span: start.to(self.last), is_icmp6, kind, code });
        Ok(())
    }

    fn icmp_number<'n>(
        &mut self,
        what: &str,
        known: impl Iterator<Item = &'n str>,
        number: impl Fn(&str) -> Option<u8>,
    ) -> Parsed<u8> {
        if matches!(self.peek().kind, TokenKind::Number(_)) {
            return self.number8(what, 0, u8::MAX);
        }
        // `skip` is a type of ICMP's and a word of `set`'s.
        let name = match self.word_at(0).filter(|word| number(word).is_some()) {
            Some(word) => crate::value::Spanned { value: word, span: self.bump().span },
            None => self.name(what)?,
        };
        if let Some(number) = number(&name.value) {
            return Ok(number);
        }
        let message = format!("`{}` is not {what}", name.value);
        let problem = Diagnostic::error(Code::UnknownIcmp, name.span, message);
        self.fail(hint::icmp_name(problem, &name.value, known))
    }

    pub(super) fn tos(&mut self) -> Parsed<u8> {
        if matches!(self.peek().kind, TokenKind::Number(_)) {
            return self.number8("a TOS byte", 0, u8::MAX);
        }
        let Some(word) = self.word_at(0) else {
            return self.expected(&["a TOS byte"]);
        };
        let named = names::TOS.iter().find(|(name, _)| *name == &*word).map(|(_, tos)| *tos);
        let hex = word.strip_prefix("0x").and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(tos) = named.or(hex) {
            self.bump();
            return Ok(tos);
        }
        let span = self.peek().span;
        let problem =
            Diagnostic::error(Code::BadValue, span, format!("`{word}` is not a TOS value"));
        self.fail(problem.nearest(&word, names::TOS.iter().map(|(name, _)| *name)))
    }

    /// A chance as a fraction or in percent.
    fn probability(&mut self) -> Parsed<u32> {
        let token = self.peek().clone();
        let text = match &token.kind {
            TokenKind::Number(number) => number.to_string(),
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Quoted(word) => word.to_string(),
            _ => return self.expected(&["a probability"]),
        };
        let (number, scale) = match text.strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text.as_str(), 1.0),
        };
        let chance = number.parse::<f64>().ok().map(|number| number / scale);
        let Some(chance) = chance.filter(|chance| (0.0..=1.0).contains(chance)) else {
            let message = format!("`{text}` is not a probability: 0 to 1, or 0% to 100%");
            return self.fail(Diagnostic::error(Code::BadValue, token.span, message));
        };
        self.bump();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and u32::MAX by the check above"
        )]
        // A chance of 0 is the smallest one, as in pfctl, where 0 is no chance given.
        Ok(((chance * f64::from(u32::MAX) + 0.5).floor() as u32).max(1))
    }

    /// `number/seconds`
    pub(super) fn rate(&mut self, what: &str) -> Parsed<Rate> {
        let limit = self.number(what, 1, u64::from(RATE_MAX))?;
        let limit = u32::try_from(limit).unwrap_or(RATE_MAX);
        self.expect_punct('/')?;
        let seconds = self.number("seconds", 1, u64::from(u32::MAX))?;
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        Ok(Rate { limit, seconds })
    }

    pub(super) fn label(&mut self) -> Parsed<Text> {
        let label = self.name("a label")?;
        if label.value.len() > LABEL_SIZE_MAX {
            let message = format!("a label may have at most {LABEL_SIZE_MAX} characters");
            return self.fail(Diagnostic::error(Code::BadValue, label.span, message));
        }
        Ok(label.value)
    }

    fn tag_name(&mut self) -> Parsed<Text> {
        let tag = self.name("a tag")?;
        if tag.value.len() > TAG_SIZE_MAX {
            let message = format!("a tag may have at most {TAG_SIZE_MAX} characters");
            return self.fail(Diagnostic::error(Code::BadValue, tag.span, message));
        }
        Ok(tag.value)
    }

    pub(super) fn tagged(&mut self, filter: &mut Filter, not: bool) -> Parsed<()> {
        if not {
            self.bump();
        }
        self.bump();
        let tag = self.tag_name()?;
        if filter.options.tagged.is_some() && not {
            let message = "`tagged` is given twice in the rule";
            return self.fail(Diagnostic::error(Code::Duplicate, self.last, message));
        }
        filter.options.tagged = Some((not, tag));
        Ok(())
    }

    fn received_on(&mut self, filter: &mut Filter) -> Parsed<()> {
        let not = self.eat_punct('!');
        self.bump();
        let mut list = Vec::new();
        self.interface(&mut list)?;
        filter.received_on = list.pop().map(|mut interface| {
            interface.not |= not;
            interface
        });
        Ok(())
    }

    fn divert(&mut self, filter: &mut Filter, word: &str) -> Parsed<()> {
        match word {
            "divert-packet" => {
                self.only_in(Dialect::OpenBsd, word, "FreeBSD writes `divert-to port`")?;
            }
            "divert-reply" => {
                self.only_in(Dialect::OpenBsd, word, "it has no meaning in FreeBSD's pf")?;
            }
            _ => {}
        }
        self.bump();
        let divert = match word {
            "divert-reply" => Divert::Reply,
            "divert-packet" => {
                self.expect("port")?;
                Divert::Packet(self.divert_port(filter)?)
            }
            _ if self.dialect == Dialect::FreeBsd => self.freebsd_divert(filter)?,
            _ => {
                let host = self.host()?;
                self.expect("port")?;
                let port = self.divert_port(filter)?;
                match host.kind {
                    HostKind::Address(address, _) => Divert::To(Some(address), port),
                    _ => {
                        filter.divert_host = Some(host);
                        Divert::To(None, port)
                    }
                }
            }
        };
        filter.options.divert = Some(divert);
        Ok(())
    }

    /// `divert-to port`; in the form of OpenBSD, FreeBSD does not look at the address.
    fn freebsd_divert(&mut self, filter: &mut Filter) -> Parsed<Divert> {
        let is_port = matches!(self.peek().kind, TokenKind::Number(_));
        if !is_port && !self.at("port") && self.word_at(1).as_deref() == Some("port") {
            let host = self.host()?;
            let message = "FreeBSD's pf does not look at the address of `divert-to`";
            let problem = Diagnostic::warning(Code::Deprecated, host.span, message);
            self.report(problem.help("leave it and `port` out"));
        }
        self.eat("port");
        Ok(Divert::To(None, self.divert_port(filter)?))
    }

    fn divert_port(&mut self, filter: &mut Filter) -> Parsed<u16> {
        if matches!(self.peek().kind, TokenKind::Word(_) | TokenKind::Quoted(_)) {
            filter.divert_port = Some(self.name_or_number("a port")?);
            return Ok(0);
        }
        let port = self.number("a port", 1, u64::from(u16::MAX))?;
        u16::try_from(port).map_err(|_| Reported)
    }

    /// `name`, `(name)`, `(name, name)`
    pub(super) fn queue_name(&mut self) -> Parsed<QueueName> {
        if !self.eat_punct('(') {
            return Ok(QueueName { name: self.name("a queue")?.value, priority: None });
        }
        let name = self.name("a queue")?.value;
        self.skip_commas();
        let mut priority = None;
        if !self.at_punct(')') {
            priority = Some(self.name("a queue")?.value);
        }
        self.expect_punct(')')?;
        Ok(QueueName { name, priority })
    }

    fn dummynet(&mut self, is_pipe: bool) -> Parsed<Dummynet> {
        if !self.eat_punct('(') {
            let forward = self.number16("a pipe or queue")?;
            return Ok(Dummynet { is_pipe, forward, reverse: 0 });
        }
        let forward = self.number16("a pipe or queue")?;
        self.skip_commas();
        let mut reverse = 0;
        if !self.at_punct(')') {
            reverse = self.number16("a pipe or queue")?;
        }
        self.expect_punct(')')?;
        Ok(Dummynet { is_pipe, forward, reverse })
    }

    /// `set prio n`, `set (prio n, queue q, tos t, delay ms)`
    fn set_fields(&mut self, filter: &mut Filter) -> Parsed<()> {
        if !self.eat_punct('(') {
            return self.set_field(filter);
        }
        loop {
            self.set_field(filter)?;
            self.skip_commas();
            if self.eat_punct(')') {
                return Ok(());
            }
        }
    }

    fn set_field(&mut self, filter: &mut Filter) -> Parsed<()> {
        let span = self.peek().span;
        let before = &filter.options;
        let is_again = match self.word_at(0).as_deref() {
            Some("prio") => before.set.prio.is_some(),
            Some("tos") => before.set.tos.is_some(),
            Some("queue") => before.queue.is_some(),
            Some("delay") => before.set.delay_ms.is_some(),
            _ => false,
        };
        if is_again {
            self.odd(span, Oddity::SetTwice);
        }
        let options = &mut filter.options;
        if self.eat("prio") {
            let pair = if self.eat_punct('(') {
                let first = self.number8("a priority", 0, 7)?;
                self.skip_commas();
                let second =
                    if self.at_punct(')') { first } else { self.number8("a priority", 0, 7)? };
                self.expect_punct(')')?;
                (first, second)
            } else {
                let prio = self.number8("a priority", 0, 7)?;
                (prio, prio)
            };
            options.set.prio = Some(pair);
        } else if self.eat("tos") {
            options.set.tos = Some(self.tos()?);
        } else if self.eat("queue") {
            options.queue = Some(self.queue_name()?);
        } else if self.at("delay") {
            self.only_in(Dialect::OpenBsd, "set delay", "")?;
            self.bump();
            options.set.delay_ms = Some(self.number16("a delay in milliseconds")?);
        } else {
            return self.expected(&["`prio`", "`queue`", "`tos`", "`delay`"]);
        }
        Ok(())
    }

    /// The options of a state after `probability`, where pfctl prints them.
    fn late_state_options(&mut self, filter: &mut Filter) -> Parsed<()> {
        let options = &filter.options;
        let is_stateful = options.keep_state.is_some_and(|keep| keep != KeepState::No);
        if !is_stateful || options.state.is_some() || !self.at_punct('(') {
            return Ok(());
        }
        let mut state = crate::value::StateOptions::default();
        self.state_options(&mut state, true)?;
        filter.options.state = Some(Box::new(state));
        Ok(())
    }

    fn keep_state(&mut self, filter: &mut Filter, word: &str) -> Parsed<()> {
        self.bump();
        self.expect("state")?;
        let keep = match word {
            "no" => KeepState::No,
            "keep" => KeepState::Keep,
            "modulate" => KeepState::Modulate,
            _ => KeepState::Synproxy,
        };
        filter.options.keep_state = Some(keep);
        if keep != KeepState::No && self.at_punct('(') {
            let mut options = crate::value::StateOptions::default();
            self.state_options(&mut options, true)?;
            filter.options.state = Some(Box::new(options));
        }
        Ok(())
    }
}

fn static_scrub_word(word: &str) -> &'static str {
    hint::OPTION_WORDS.iter().copied().find(|known| *known == word).unwrap_or("scrub")
}
