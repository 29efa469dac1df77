//! `set` statements. One that sets several things (`set timeout { … }`) is several settings.

use super::{Parsed, Parser};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::lex::TokenKind;
use crate::names;
use crate::value::{BlockReturn, Setting, StateOptions, Syncookies, Text, WeirStages};

/// What can be set.
const SETTINGS: &[&str] = &[
    "timeout",
    "limit",
    "optimization",
    "ruleset-optimization",
    "block-policy",
    "fail-policy",
    "skip",
    "state-policy",
    "state-defaults",
    "loginterface",
    "fingerprints",
    "hostid",
    "debug",
    "reassemble",
    "syncookies",
    "require-order",
    "keepcounters",
    "hashsize",
    "state-reserve",
    "weir-stages",
];

impl Parser<'_> {
    pub(super) fn setting(&mut self) -> Parsed<Vec<Setting>> {
        self.bump();
        let Some(word) = self.word_at(0) else {
            return self.expected(SETTINGS);
        };
        if !SETTINGS.contains(&&*word) {
            let span = self.peek().span;
            let message = format!("`{word}` cannot be set");
            let problem = Diagnostic::error(Code::Syntax, span, message);
            let problem = problem.nearest(&word, SETTINGS.iter().copied());
            return self.fail(problem.expected(SETTINGS.iter().copied()));
        }
        if matches!(&*word, "require-order" | "keepcounters" | "fail-policy") {
            self.only_in(Dialect::FreeBsd, &format!("set {word}"), "")?;
        }
        self.bump();
        match &*word {
            "timeout" => self.list(Self::timeout_setting),
            "limit" => self.list(Self::limit_setting),
            _ => self.single_setting(&word).map(|setting| vec![setting]),
        }
    }

    fn single_setting(&mut self, word: &str) -> Parsed<Setting> {
        Ok(match word {
            "optimization" => Setting::Optimization(self.choice(names::OPTIMIZATIONS)?),
            "ruleset-optimization" => {
                Setting::RulesetOptimization(self.choice(&["none", "basic", "profile", "yes"])?)
            }
            "block-policy" => Setting::BlockPolicy(self.policy()?),
            "fail-policy" => Setting::FailPolicy(self.policy()?),
            "skip" => {
                self.expect("on")?;
                Setting::Skip(self.skip_list()?)
            }
            "state-policy" => {
                let policy = self.choice(&["if-bound", "floating"])?;
                Setting::StatePolicyIfBound(&*policy == "if-bound")
            }
            "state-defaults" => {
                let mut options = StateOptions::default();
                self.state_options(&mut options, false)?;
                Setting::StateDefaults(Box::new(options))
            }
            "loginterface" => {
                if self.eat("none") {
                    Setting::LogInterface(None)
                } else if self.eat("all") {
                    Setting::LogInterface(Some("all".into()))
                } else {
                    Setting::LogInterface(Some(self.name("an interface")?.value))
                }
            }
            "fingerprints" => Setting::Fingerprints(self.name("a file's name")?.value),
            "hostid" => Setting::HostId(self.host_id()?),
            "debug" => Setting::Debug(self.choice(names::DEBUG_LEVELS)?),
            "reassemble" => {
                let enabled = &*self.choice(&["yes", "no"])? == "yes";
                Setting::Reassemble { enabled, no_df: self.eat("no-df") }
            }
            "syncookies" => Setting::Syncookies(self.syncookies()?),
            "require-order" => Setting::RequireOrder(&*self.choice(&["yes", "no"])? == "yes"),
            "hashsize" => Setting::HashSize(self.hash_size()?),
            "state-reserve" => Setting::StateReserve(self.number32("a number of states")?),
            "weir-stages" => Setting::WeirStages(match &*self.choice(&WeirStages::WORDS)? {
                "one" => WeirStages::One,
                "two" => WeirStages::Two,
                _ => WeirStages::Auto,
            }),
            _ => Setting::KeepCounters,
        })
    }

    /// One of these words.
    pub(super) fn choice(&mut self, words: &[&'static str]) -> Parsed<Text> {
        let found = self.word_at(0).or_else(|| match &self.peek().kind {
            TokenKind::Quoted(text) => Some(text.clone()),
            _ => None,
        });
        if let Some(word) = found.filter(|word| words.contains(&&**word)) {
            self.bump();
            return Ok(word);
        }
        let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
        self.expected(&quoted)
    }

    fn policy(&mut self) -> Parsed<BlockReturn> {
        let word = self.choice(&["drop", "return"])?;
        Ok(if &*word == "drop" { BlockReturn::Drop } else { BlockReturn::Return })
    }

    fn skip_list(&mut self) -> Parsed<Vec<Text>> {
        let span = self.peek().span;
        let interfaces = self.list(Self::interface)?;
        if interfaces.iter().any(|interface| interface.not) {
            let message = "`set skip on ! interface` is not supported";
            return self.fail(Diagnostic::error(Code::BadValue, span, message));
        }
        let names: Vec<Text> =
            interfaces.into_iter().map(|interface| interface.name.value).collect();
        Ok(if names.len() == 1 && &*names[0] == "none" { Vec::new() } else { names })
    }

    fn timeout_setting(&mut self, settings: &mut Vec<Setting>) -> Parsed<()> {
        let index = self.timeout_name()?;
        let value = self.number32("a time in seconds")?;
        settings.push(Setting::Timeout(index, value));
        Ok(())
    }

    /// The name of a timeout, as its index.
    pub(super) fn timeout_name(&mut self) -> Parsed<u8> {
        let Some(word) = self.word_at(0) else {
            return self.expected(&["a timeout"]);
        };
        if let Some(index) = names::timeout(&word) {
            self.bump();
            return Ok(index);
        }
        let span = self.peek().span;
        let known: Vec<&str> = names::TIMEOUTS.iter().map(|(name, _)| *name).collect();
        let problem = Diagnostic::error(Code::BadValue, span, format!("unknown timeout `{word}`"));
        let problem = problem.nearest(&word, known.iter().copied());
        self.fail(problem.expected(known))
    }

    fn limit_setting(&mut self, settings: &mut Vec<Setting>) -> Parsed<()> {
        let Some(word) = self.word_at(0) else {
            return self.expected(&["a limit"]);
        };
        let known: Vec<&str> = names::LIMITS.iter().map(|(name, _)| *name).collect();
        let Some(index) = known.iter().position(|name| *name == &*word) else {
            let span = self.peek().span;
            let problem =
                Diagnostic::error(Code::BadValue, span, format!("unknown limit `{word}`"));
            let problem = problem.nearest(&word, known.iter().copied());
            return self.fail(problem.expected(known));
        };
        self.bump();
        let count = self.number32("a count")?;
        settings.push(Setting::Limit(u8::try_from(index).unwrap_or(u8::MAX), count));
        Ok(())
    }

    fn host_id(&mut self) -> Parsed<u32> {
        let hex = self.word_at(0).and_then(|word| {
            let digits = word.strip_prefix("0x")?;
            u32::from_str_radix(digits, 16).ok()
        });
        if let Some(id) = hex.filter(|id| *id != 0) {
            self.bump();
            return Ok(id);
        }
        let id = self.number("a host's identifier", 1, u64::from(u32::MAX))?;
        Ok(u32::try_from(id).unwrap_or(u32::MAX))
    }

    fn hash_size(&mut self) -> Parsed<u32> {
        let span = self.peek().span;
        let size = self.number32("a number of buckets")?;
        if size.is_power_of_two() {
            return Ok(size);
        }
        let message =
            format!("{size} buckets: the state table's number of buckets must be a power of two");
        let problem = Diagnostic::error(Code::BadValue, span, message);
        self.fail(problem.help(format!("for instance {}", size.max(1).next_power_of_two())))
    }

    fn syncookies(&mut self) -> Parsed<Syncookies> {
        let word = self.choice(&["never", "always", "adaptive"])?;
        match &*word {
            "never" => return Ok(Syncookies::Never),
            "always" => return Ok(Syncookies::Always),
            _ => {}
        }
        let (mut start, mut end) = (25, 12);
        if self.eat_punct('(') {
            loop {
                if self.eat("start") {
                    start = self.percent()?;
                } else if self.eat("end") {
                    end = self.percent()?;
                } else {
                    break;
                }
                self.skip_commas();
            }
            self.expect_punct(')')?;
        }
        if start > end {
            return Ok(Syncookies::Adaptive { start, end });
        }
        let span = self.last;
        let message = format!("syncookies start at {start}% and end at {end}%, which is not lower");
        self.fail(Diagnostic::error(Code::BadValue, span, message))
    }

    fn percent(&mut self) -> Parsed<u8> {
        let number = self.word_at(0).and_then(|word| word.strip_suffix('%')?.parse::<u8>().ok());
        if let Some(number) = number.filter(|number| *number <= 100) {
            self.bump();
            return Ok(number);
        }
        self.expected(&["a percentage"])
    }
}
