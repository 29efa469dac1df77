//! A generator or receiver that runs on its machine.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::feed::{Arrived, Feed};
use super::line;
use super::lines::{Count, Lines};
use crate::cancel::Cancel;
use crate::host::{Command, Host, HostError, Process, Program as Run};
use crate::model::{DriverKind, EndSpec};
use crate::testbed::TestbedError;

/// How long a program may take to sum up once it is asked to end.
const SUM_UP_PATIENCE: Duration = Duration::from_secs(10);
/// How long it is given between SIGTERM and SIGKILL.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// How long its total may be under way.
const TOTAL_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long a line that stops a program may take.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);

/// A running program.
pub(super) struct Program {
    host: Rc<dyn Host>,
    /// `generator gen1`, for messages.
    who: String,
    line: String,
    stop_line: Option<String>,
    /// The artefact with its output.
    log: String,
    process: Box<dyn Process>,
    pub(super) feed: Feed,
    pub(super) started: Instant,
    /// Whether its last line is a total.
    sums_up: bool,
    /// How it ended, once it did.
    ended: Option<(bool, String)>,
}

impl Program {
    /// Starts `line` for a driver, with its output in the artefact `log`.
    pub(super) fn start(
        host: &Rc<dyn Host>,
        (role, end): (&str, &EndSpec),
        line: String,
        stop_line: Option<String>,
        log: &str,
    ) -> Result<Self, TestbedError> {
        let who = format!("{role} {}", host.name());
        let lines = Lines::new(end.driver.kind, end.driver.packets.as_deref()).map_err(|e| {
            TestbedError::new(format!(
                "{who}: `packets` is not a regular expression: {e}; correct it in the specification"
            ))
        })?;
        let (feed, sink) = Feed::open(lines);
        let started = Instant::now();
        let process = host.spawn_lines(&line, log, sink);
        let process = process.map_err(|error| cannot(&who, "start", &line, &error))?;
        Ok(Self {
            host: Rc::clone(host),
            who,
            line,
            stop_line,
            log: log.to_owned(),
            process,
            feed,
            started,
            sums_up: end.driver.kind != DriverKind::Command,
            ended: None,
        })
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool, TestbedError> {
        if self.ended.is_some() {
            return Ok(true);
        }
        let ended = self.process.ended();
        let ended = ended.map_err(|error| cannot(&self.who, "look at", &self.line, &error))?;
        self.ended = ended.map(|ended| (ended.success, ended.how));
        Ok(self.ended.is_some())
    }

    /// Waits until its last count is enough. Fails if it ends before, or takes longer.
    pub(super) fn wait(
        &mut self,
        patience: Duration,
        cancel: &Cancel,
        what: &str,
        is_enough: impl Fn(Option<Arrived>) -> bool,
    ) -> Result<(), TestbedError> {
        let deadline = Instant::now() + patience;
        loop {
            let step = (Instant::now() + Duration::from_millis(200)).min(deadline);
            if self.feed.wait(step, &is_enough) {
                return Ok(());
            }
            if cancel.signal().is_some() {
                return Err(TestbedError::voids_trial(format!(
                    "{}: cancelled while `{}` was waited for, because weir was told to stop; \
                     finished iterations are kept, and `weir lab resume` goes on",
                    self.who, self.line
                )));
            }
            if self.has_ended()? {
                return Err(self.died());
            }
            if Instant::now() >= deadline {
                let said = self.said();
                return Err(TestbedError::voids_trial(format!(
                    "{}: `{}` {what} within {patience:?}{said}; run the line there by hand, and see \
                     {} among the artefacts of this trial",
                    self.who, self.line, self.log
                )));
            }
        }
    }

    /// Ends it and returns its last count. It is an error if it had ended before that by itself,
    /// unless it was to (`is_limited`).
    pub(super) fn stop(&mut self, is_limited: bool) -> Result<Option<Count>, TestbedError> {
        let early = self.has_ended()?;
        if early && (!is_limited || self.ended.as_ref().is_some_and(|(success, _)| !success)) {
            return Err(self.died());
        }
        if !early {
            self.ask_to_end()?;
        }
        // The last lines may still be under way when the end is known.
        if self.sums_up && !self.feed.wait_total(Instant::now() + TOTAL_PATIENCE) {
            let said = self.said();
            return Err(TestbedError::voids_trial(format!(
                "{}: `{}` has ended without its total, so nobody knows how many packets it sent\
                 {said}; {} among the artefacts of this trial has all of it",
                self.who, self.line, self.log
            )));
        }
        if let Some(why) = self.feed.unusable() {
            return Err(TestbedError::voids_trial(format!("{}: {why}", self.who)));
        }
        Ok(self.feed.last().map(|last| last.count))
    }

    fn ask_to_end(&mut self) -> Result<(), TestbedError> {
        let asked = match &self.stop_line {
            Some(line) => {
                let command = Command {
                    program: Run::Shell(line),
                    stdin: "",
                    timeout: LINE_TIMEOUT,
                    cancellable: false,
                };
                self.host.run(&command).map(drop)
            }
            None => self.process.signal("INT"),
        };
        asked.map_err(|error| cannot(&self.who, "stop", &self.line, &error))?;
        let deadline = Instant::now() + SUM_UP_PATIENCE;
        while !self.has_ended()? && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        let stopped = self.process.stop(STOP_PATIENCE);
        stopped.map_err(|error| cannot(&self.who, "stop", &self.line, &error))
    }

    /// Ends it, whatever it says.
    pub(super) fn end(mut self) -> Result<(), TestbedError> {
        if self.has_ended()? {
            return Ok(());
        }
        self.ask_to_end()
    }

    /// The error that it has ended.
    pub(super) fn died(&self) -> TestbedError {
        let how = self.ended.as_ref().map_or("nobody knows how", |(_, how)| how.as_str());
        let said = self.said();
        TestbedError::voids_trial(format!(
            "{}: `{}` ended before it was to ({how}){said}; {} among the artefacts of this trial \
             has all of it",
            self.who, self.line, self.log
        ))
    }

    /// What it has said beside figures.
    fn said(&self) -> String {
        match self.feed.words() {
            words if words.is_empty() => "; it said nothing".to_owned(),
            words => format!("; it said: {words}"),
        }
    }

    /// Whether it shows counts while it runs.
    pub(super) fn is_live(end: &EndSpec) -> bool {
        end.driver.kind != DriverKind::Trafgen
    }
}

/// A command on a far machine failed. What it means for the campaign is the next trial's to see: it
/// begins by asking every machine.
fn cannot(who: &str, what: &str, line: &str, error: &HostError) -> TestbedError {
    let next = match error.is_gone() {
        true => {
            "if it is still gone when the next trial begins, the campaign ends: bring it back then, \
             and go on with `weir lab resume`"
        }
        false => "run the line there by hand to see what it lacks",
    };
    TestbedError::voids_trial(format!("{who}: cannot {what} `{line}`: {}; {next}", error.what))
}

/// The receiver's and generators' artefacts are named by these.
pub(super) fn log_name(role: &str, name: &str, run: u32) -> String {
    format!("{role}-{name}-{run}.log")
}

/// The line that stops a driver's program, if it has one.
pub(super) fn stop_line(end: &EndSpec, traffic: &str, sample: Duration) -> Option<String> {
    line::stop(end, traffic, sample)
}
