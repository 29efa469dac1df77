//! The options of a state: after `keep state`, and of `set state-defaults`.

use super::{Parsed, Parser};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::names;
use crate::value::{Flush, SourceTrack, StateOptions};

/// Words of state options.
const WORDS: &[&str] = &[
    "max",
    "no-sync",
    "source-track",
    "max-src-states",
    "max-src-conn",
    "max-src-conn-rate",
    "max-src-nodes",
    "overload",
    "if-bound",
    "floating",
    "sloppy",
    "reserve",
    "pflow",
    "allow-related",
];

impl Parser<'_> {
    /// Options, in parentheses or to the end of the line.
    pub(super) fn state_options(
        &mut self,
        options: &mut StateOptions,
        in_parentheses: bool,
    ) -> Parsed<()> {
        let in_parentheses = in_parentheses || self.at_punct('(');
        if in_parentheses {
            self.expect_punct('(')?;
        }
        loop {
            self.state_option(options)?;
            self.skip_commas();
            let ends = if in_parentheses { self.eat_punct(')') } else { self.word_at(0).is_none() };
            if ends {
                return Ok(());
            }
        }
    }

    fn state_option(&mut self, options: &mut StateOptions) -> Parsed<()> {
        let Some(word) = self.word_at(0) else {
            return self.expected(&["an option of a state", "`)`"]);
        };
        if names::timeout(&word).is_some() {
            return self.state_timeout(options, &word);
        }
        if !WORDS.contains(&&*word) {
            let span = self.peek().span;
            let message = format!("`{word}` is not a state option");
            let problem = Diagnostic::error(Code::Syntax, span, message);
            let timeouts = names::TIMEOUTS.iter().map(|(name, _)| *name);
            let known: Vec<&str> = WORDS.iter().copied().chain(timeouts).collect();
            return self.fail(problem.nearest(&word, known.iter().copied()).expected(known));
        }
        if &*word == "allow-related" {
            self.only_in(Dialect::FreeBsd, &word, "")?;
        }
        self.bump();
        match &*word {
            "max" => {
                let count = self.count()?;
                self.set_count(&mut options.max_states, count, &word)
            }
            "max-src-states" => {
                let count = self.count()?;
                self.set_count(&mut options.max_src_states, count, &word)
            }
            "max-src-conn" => {
                let count = self.count()?;
                self.set_count(&mut options.max_src_conn, count, &word)
            }
            "max-src-nodes" => {
                let count = self.count()?;
                self.set_count(&mut options.max_src_nodes, count, &word)
            }
            "max-src-conn-rate" => {
                if options.max_src_conn_rate.is_some() {
                    return self.twice(&word);
                }
                options.max_src_conn_rate = Some(self.rate("a connection rate")?);
                Ok(())
            }
            "source-track" => {
                if options.source_track.is_some() {
                    return self.twice(&word);
                }
                options.source_track = Some(if self.eat("rule") {
                    SourceTrack::Rule
                } else if self.eat("global") {
                    SourceTrack::Global
                } else {
                    SourceTrack::Default
                });
                Ok(())
            }
            "overload" => self.overload(options),
            "if-bound" | "floating" => {
                if options.if_bound.is_some() {
                    return self.twice("state-policy");
                }
                options.if_bound = Some(&*word == "if-bound");
                Ok(())
            }
            _ => self.state_flag(options, &word),
        }
    }

    fn state_flag(&mut self, options: &mut StateOptions, word: &str) -> Parsed<()> {
        let flag = match word {
            "no-sync" => &mut options.no_sync,
            "sloppy" => &mut options.sloppy,
            "reserve" => &mut options.reserve,
            "pflow" => &mut options.pflow,
            _ => &mut options.allow_related,
        };
        if std::mem::replace(flag, true) { self.twice(word) } else { Ok(()) }
    }

    fn state_timeout(&mut self, options: &mut StateOptions, word: &str) -> Parsed<()> {
        let index = self.timeout_name()?;
        if !word.contains('.') {
            let message = format!("`{word}` is a global timeout, not a state's");
            let problem = Diagnostic::error(Code::BadValue, self.last, message);
            return self.fail(problem.help(format!("write `set timeout {word} …`")));
        }
        let seconds = self.number32("a time in seconds")?;
        if options.timeouts.iter().any(|(timeout, _)| *timeout == index) {
            return self.twice(word);
        }
        options.timeouts.push((index, seconds));
        options.timeouts.sort_unstable();
        Ok(())
    }

    fn count(&mut self) -> Parsed<u32> {
        let count = self.number("a count", 1, u64::from(u32::MAX))?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn set_count(&mut self, slot: &mut Option<u32>, count: u32, word: &str) -> Parsed<()> {
        if slot.is_some() {
            return self.twice(word);
        }
        *slot = Some(count);
        Ok(())
    }

    fn twice<T>(&mut self, word: &str) -> Parsed<T> {
        let message = format!("state option `{word}` is given twice here");
        self.fail(Diagnostic::error(Code::Duplicate, self.last, message))
    }

    fn overload(&mut self, options: &mut StateOptions) -> Parsed<()> {
        if options.overload.is_some() {
            return self.twice("overload");
        }
        let table = self.table_name()?.value;
        let mut flush = Flush::No;
        if self.eat("flush") {
            flush = if self.eat("global") { Flush::Global } else { Flush::Rule };
        }
        options.overload = Some((table, flush));
        Ok(())
    }
}
