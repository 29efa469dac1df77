//! `altq` and `queue`: FreeBSD's and OpenBSD's.

use super::{Parsed, Parser};
use crate::ast::{Altq, Queue, QueueRate, StatementKind};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::value::{Spanned, Text};

impl Parser<'_> {
    pub(super) fn altq(&mut self) -> Parsed<StatementKind> {
        self.only_in(
            Dialect::FreeBsd,
            "altq",
            "since 5.5, OpenBSD writes `queue name on interface …`",
        )?;
        self.bump();
        self.expect("on")?;
        let mut altq = Altq {
            interfaces: self.list(Self::interface)?,
            scheduler: None,
            bandwidth: None,
            queue_limit: None,
            token_bucket_size_bytes: None,
            queues: Vec::new(),
        };
        loop {
            if self.eat("bandwidth") {
                altq.bandwidth = Some(self.bandwidth()?);
            } else if self.eat("qlimit") {
                altq.queue_limit = Some(self.number32("a count of packets")?);
            } else if self.eat("tbrsize") {
                altq.token_bucket_size_bytes = Some(self.number32("a size in bytes")?);
            } else if self.eat("queue") {
                // A discipline without queues below it has the word alone.
                if !matches!(self.peek().kind, TokenKind::Newline | TokenKind::End) {
                    altq.queues = self.list(Self::queue_in_list)?;
                }
                return Ok(StatementKind::Altq(Box::new(altq)));
            } else if let Some(scheduler) = self.scheduler()? {
                altq.scheduler = Some(scheduler);
            } else if altq.scheduler.as_ref().is_some_and(|scheduler| scheduler.name == "codel") {
                return Ok(StatementKind::Altq(Box::new(altq)));
            } else {
                return self.expected(&["`bandwidth`", "`queue`", "a discipline", "`qlimit`"]);
            }
        }
    }

    fn queue_in_list(&mut self, list: &mut Vec<Spanned<Text>>) -> Parsed<()> {
        list.push(self.name("a queue")?);
        Ok(())
    }

    pub(super) fn queue(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let mut queue = Queue {
            name: self.name("a queue's name")?,
            interfaces: Vec::new(),
            parent: None,
            bandwidth: None,
            min: None,
            max: None,
            priority: None,
            queue_limit: None,
            is_default: false,
            flow_count: None,
            quantum_bytes: None,
            interval_ms: None,
            target_ms: None,
            scheduler: None,
            queues: Vec::new(),
        };
        if self.eat("on") {
            queue.interfaces = self.list(Self::interface)?;
        }
        loop {
            let known = self.queue_option(&mut queue)?
                || match self.dialect {
                    Dialect::FreeBsd => self.freebsd_queue_option(&mut queue)?,
                    Dialect::OpenBsd => self.openbsd_queue_option(&mut queue)?,
                };
            if !known {
                break;
            }
            self.skip_commas();
        }
        if self.dialect == Dialect::FreeBsd && self.at_punct('{') {
            queue.queues = self.list(Self::queue_in_list)?;
        }
        self.not_of_the_other_dialect()?;
        Ok(StatementKind::Queue(Box::new(queue)))
    }

    /// Names the dialect of a word that only the other one's queues have.
    fn not_of_the_other_dialect(&mut self) -> Parsed<()> {
        let Some(word) = self.word_at(0) else { return Ok(()) };
        match &*word {
            "cbq" | "priq" | "hfsc" | "fairq" | "codel" | "codelq" | "priority" => {
                self.only_in(Dialect::FreeBsd, &word, "OpenBSD writes `queue name parent other …`")
            }
            "parent" | "min" | "max" | "default" | "flows" | "quantum" | "burst" => {
                let help = "FreeBSD writes `altq on interface …` and `queue name …`";
                self.only_in(Dialect::OpenBsd, &word, help)
            }
            _ => Ok(()),
        }
    }

    fn queue_option(&mut self, queue: &mut Queue) -> Parsed<bool> {
        if self.eat("bandwidth") {
            queue.bandwidth = Some(self.queue_rate()?);
        } else if self.eat("qlimit") {
            queue.queue_limit = Some(self.number32("a count of packets")?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn freebsd_queue_option(&mut self, queue: &mut Queue) -> Parsed<bool> {
        if self.eat("priority") {
            queue.priority = Some(self.number32("a priority")?);
        } else if let Some(scheduler) = self.scheduler()? {
            queue.scheduler = Some(scheduler);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn openbsd_queue_option(&mut self, queue: &mut Queue) -> Parsed<bool> {
        if self.eat("parent") {
            queue.parent = Some(self.name("a queue")?);
        } else if self.eat("min") {
            queue.min = Some(self.queue_rate()?);
        } else if self.eat("max") {
            queue.max = Some(self.queue_rate()?);
        } else if self.eat("default") {
            queue.is_default = true;
        } else if self.eat("flows") {
            queue.flow_count = Some(self.number32("a count of flows")?);
        } else if self.eat("quantum") {
            queue.quantum_bytes = Some(self.number32("a size in bytes")?);
        } else if self.eat("interval") {
            queue.interval_ms = Some(self.milliseconds()?);
        } else if self.eat("target") {
            queue.target_ms = Some(self.milliseconds()?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn queue_rate(&mut self) -> Parsed<QueueRate> {
        let rate = self.bandwidth()?;
        let mut burst = None;
        if self.dialect == Dialect::OpenBsd && self.eat("burst") {
            let bandwidth = self.bandwidth()?;
            self.expect("for")?;
            burst = Some((bandwidth, self.milliseconds()?));
        }
        Ok(QueueRate { rate, burst })
    }

    /// `100ms`, or `100` and then `ms` is understood.
    fn milliseconds(&mut self) -> Parsed<u32> {
        let number = self.word_at(0).and_then(|word| word.strip_suffix("ms")?.parse().ok());
        if let Some(number) = number {
            self.bump();
            return Ok(number);
        }
        self.number32("a time, such as 100ms")
    }
}
