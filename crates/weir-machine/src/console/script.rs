//! Scripts that drive a console: wait for words, answer, go on, or say which step failed.
//!
//! ```toml
//! timeout = "2m"                       # of each wait, unless it has its own
//! fail = ["panic:", "No space left"]   # whenever one appears, the script has failed
//!
//! [[step]]
//! expect = 'login:'                    # a regular expression; ^ and $ are those of a line
//! send_line = "root"
//!
//! [[step]]
//! expect = 'Password:'
//! secret = "DUT_PASSWORD"              # the variable's value, masked in log and messages
//! ```
//!
//! A script holds no values of secrets, and a step that never matches ends it: nothing is skipped.

use std::thread;
use std::time::{Duration, Instant};

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer};
use weir_wire::units::parse_duration;

use super::redact::SECRET_BYTES_MIN;
use super::{Console, ConsoleError};
use crate::cancel::Cancel;

/// How long a wait may take unless the script says otherwise.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// How often a question may be answered while a step waits: more is a loop.
const ANSWERS_MAX: u32 = 100;
/// How long the line may be silent before a nudge is sent again.
const NUDGE_DEFAULT: Duration = Duration::from_secs(2);

/// A script that was read and checked.
#[derive(Debug)]
pub struct Script {
    name: String,
    steps: Vec<Step>,
    character_delay: Duration,
}

/// One step.
#[derive(Debug)]
struct Step {
    name: String,
    expect: Option<Regex>,
    timeout: Duration,
    fail: Vec<Regex>,
    answers: Vec<(Regex, String)>,
    nudge: Option<(String, Duration)>,
    pause: Duration,
    action: Action,
}

/// What a step does after its wait.
#[derive(Debug)]
enum Action {
    Nothing,
    Send(String),
    Secret { variable: String },
    Break,
}

/// Progress of a script, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The step's number, from 1.
    pub step: usize,
    pub name: &'a str,
    /// What it waited for and got, without secrets; `None` if it did not wait.
    pub matched: Option<String>,
    /// How long it waited.
    pub waited: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, deserialize_with = "duration")]
    timeout: Option<Duration>,
    #[serde(default)]
    fail: Vec<String>,
    /// Boot loaders lose characters that come too fast.
    #[serde(default, deserialize_with = "duration")]
    character_delay: Option<Duration>,
    #[serde(default)]
    step: Vec<StepText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    name: Option<String>,
    expect: Option<String>,
    #[serde(default, deserialize_with = "duration")]
    timeout: Option<Duration>,
    #[serde(default)]
    fail: Vec<String>,
    #[serde(default)]
    answer: Vec<AnswerText>,
    nudge: Option<String>,
    #[serde(default, deserialize_with = "duration")]
    nudge_every: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pause: Option<Duration>,
    send: Option<String>,
    send_line: Option<String>,
    secret: Option<String>,
    #[serde(default, rename = "break")]
    send_break: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerText {
    expect: String,
    send: String,
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map(Some).map_err(serde::de::Error::custom)
}

impl Script {
    /// Reads a script. `name` stands in messages.
    ///
    /// # Errors
    /// In words: what is wrong, with line or step.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        if file.step.is_empty() {
            return Err(format!("{name}: there is no [[step]], so there is nothing to do"));
        }
        let of_all = regexes(&file.fail).map_err(|error| format!("{name}: fail: {error}"))?;
        let timeout = file.timeout.unwrap_or(TIMEOUT_DEFAULT);
        let steps = (1..).zip(file.step).map(|(number, step)| {
            step.check(timeout, &of_all).map_err(|error| format!("{name}, step {number}: {error}"))
        });
        Ok(Self {
            name: name.to_owned(),
            steps: steps.collect::<Result<_, _>>()?,
            character_delay: file.character_delay.unwrap_or_default(),
        })
    }

    /// The values of all its secrets, which are known and can be masked.
    ///
    /// # Errors
    /// The variable that is not set, or whose value is too short.
    pub fn secret_values(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<String>, ConsoleError> {
        let mut values = Vec::new();
        for variable in self.secrets() {
            let value = environment(variable).unwrap_or_default();
            let why = match value.len() {
                0 => "is not in the environment: export it first".to_owned(),
                length if length < SECRET_BYTES_MIN => format!(
                    "has a value of fewer than {SECRET_BYTES_MIN} bytes: use a longer one, or \
                     put it into the script with send_line, if anyone may read it"
                ),
                _ => {
                    values.push(value);
                    continue;
                }
            };
            return Err(ConsoleError::Refused(format!(
                "{}: the secret `{variable}` {why} (its value is masked in logs and messages)",
                self.name
            )));
        }
        Ok(values)
    }

    /// The environment variables that hold its secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Secret { variable } => Some(variable.as_str()),
            _ => None,
        })
    }
}

impl StepText {
    fn check(self, timeout: Duration, fail_of_all: &[Regex]) -> Result<Step, String> {
        let actions = [
            self.send.map(Action::Send),
            self.send_line.map(|line| Action::Send(line + "\r")),
            self.secret.map(|variable| Action::Secret { variable }),
            self.send_break.then_some(Action::Break),
        ];
        let mut actions = actions.into_iter().flatten();
        let action = actions.next();
        if actions.next().is_some() {
            return Err("it has more than one of send, send_line, secret and break".to_owned());
        }
        if self.expect.is_none() && action.is_none() && self.pause.is_none() {
            return Err("it neither waits for anything nor sends anything".to_owned());
        }
        let waits = !self.answer.is_empty() || self.nudge.is_some() || self.timeout.is_some();
        if self.expect.is_none() && (waits || !self.fail.is_empty()) {
            return Err("timeout, fail, answer and nudge need an `expect`".to_owned());
        }
        if self.nudge_every.is_some() && self.nudge.is_none() {
            return Err("nudge_every needs a `nudge`".to_owned());
        }
        let expect = self.expect.as_deref().map(regex).transpose()?;
        let mut fail = regexes(&self.fail)?;
        fail.extend_from_slice(fail_of_all);
        let answers = self.answer.into_iter().map(|a| Ok::<_, String>((regex(&a.expect)?, a.send)));
        let every = self.nudge_every.unwrap_or(NUDGE_DEFAULT).max(Duration::from_millis(10));
        Ok(Step {
            name: self.name.or(self.expect).unwrap_or_else(|| "send".to_owned()),
            expect,
            timeout: self.timeout.unwrap_or(timeout),
            fail,
            answers: answers.collect::<Result<_, _>>()?,
            nudge: self.nudge.map(|keys| (keys, every)),
            pause: self.pause.unwrap_or_default(),
            action: action.unwrap_or(Action::Nothing),
        })
    }
}

fn regex(pattern: &str) -> Result<Regex, String> {
    let regex = RegexBuilder::new(pattern).multi_line(true).build();
    let regex =
        regex.map_err(|error| format!("`{pattern}` is not a regular expression: {error}"))?;
    if regex.is_match(b"") {
        return Err(format!("`{pattern}` matches nothing at all, so it would always match"));
    }
    Ok(regex)
}

fn regexes(patterns: &[String]) -> Result<Vec<Regex>, String> {
    patterns.iter().map(|pattern| regex(pattern)).collect()
}

impl Console {
    /// Runs a script to its end. `environment` gives the values of the variables that hold its
    /// secrets; all of them are asked for before anything is sent.
    ///
    /// # Errors
    /// The step that failed, and how.
    pub fn run(
        &self,
        script: &Script,
        environment: &dyn Fn(&str) -> Option<String>,
        cancel: &Cancel,
        watch: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), ConsoleError> {
        self.hide(&script.secret_values(environment)?);
        for (number, step) in (1..).zip(&script.steps) {
            let run = Run { console: self, script, step, cancel };
            let done = run.run(environment).map_err(|source| ConsoleError::Step {
                script: script.name.clone(),
                step: format!("{number} ({})", step.name),
                source: Box::new(source),
            });
            let (matched, waited) = done?;
            watch(&Progress { step: number, name: &step.name, matched, waited });
        }
        Ok(())
    }
}

/// A step that is being done.
struct Run<'a> {
    console: &'a Console,
    script: &'a Script,
    step: &'a Step,
    cancel: &'a Cancel,
}

impl Run<'_> {
    fn run(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Option<String>, Duration), ConsoleError> {
        let started = Instant::now();
        let matched = match &self.step.expect {
            Some(expect) => Some(self.console.redacted(&self.wait(expect)?)),
            None => None,
        };
        let waited = started.elapsed();
        if !self.cancel.sleep(self.step.pause) {
            return Err(ConsoleError::Cancelled);
        }
        match &self.step.action {
            Action::Nothing => {}
            Action::Send(keys) => self.keys(keys)?,
            Action::Secret { variable } => {
                let value = environment(variable).unwrap_or_default();
                self.console.send_secret(&value)?;
                self.console.send(b"\r")?;
            }
            Action::Break => self.console.send_break()?,
        }
        Ok((matched, waited))
    }

    /// Waits for the step's words, and meanwhile answers, nudges and looks for failures.
    fn wait(&self, expect: &Regex) -> Result<String, ConsoleError> {
        let step = self.step;
        let mut patterns = vec![expect];
        patterns.extend(&step.fail);
        patterns.extend(step.answers.iter().map(|(pattern, _)| pattern));
        let deadline = Instant::now() + step.timeout;
        let mut answered = 0;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = step.nudge.as_ref().map_or(left, |(_, every)| left.min(*every));
            let (index, text) = match self.console.expect_any(&patterns, patience, self.cancel) {
                Ok(found) => found,
                Err(ConsoleError::TimedOut { .. }) if patience < left => {
                    if let Some((keys, _)) = &step.nudge {
                        self.keys(keys)?;
                    }
                    continue;
                }
                Err(ConsoleError::TimedOut { recent, .. }) => {
                    return Err(ConsoleError::TimedOut {
                        pattern: expect.as_str().to_owned(),
                        timeout: step.timeout,
                        recent,
                    });
                }
                Err(error) => return Err(error),
            };
            if index == 0 {
                return Ok(text);
            }
            if let Some(pattern) = step.fail.get(index - 1) {
                return Err(ConsoleError::Failed {
                    pattern: pattern.as_str().to_owned(),
                    recent: self.console.recent(),
                });
            }
            answered += 1;
            let (pattern, keys) = &step.answers[index - 1 - step.fail.len()];
            if answered > ANSWERS_MAX {
                return Err(ConsoleError::Failed {
                    pattern: format!("{pattern} more than {ANSWERS_MAX} times"),
                    recent: self.console.recent(),
                });
            }
            self.keys(keys)?;
        }
    }

    /// Sends keys, one after the other if the script wants it so.
    fn keys(&self, keys: &str) -> Result<(), ConsoleError> {
        if self.script.character_delay.is_zero() {
            return self.console.send(keys.as_bytes());
        }
        for key in keys.chars() {
            self.console.send(key.encode_utf8(&mut [0; 4]).as_bytes())?;
            thread::sleep(self.script.character_delay);
        }
        Ok(())
    }
}
