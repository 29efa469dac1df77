//! A generator or receiver that runs on its machine, and how it is ended.
//!
//! A program that sums up is told by SIGINT, which it takes for the question for its total. A
//! stop line of the user's may say anything (`pkill pkt-gen`), to this program and to others of the
//! machine: it ends what SIGINT did not, and otherwise runs when nothing of the trial needs what it
//! may name ([`StopLine`]). A `command` has no total, and is ended by its line at once.

use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::host::{Command, Host, HostError, Process, Program as Run, STOP_PATIENCE};

use super::feed::{self, Arrived, Feed};
use super::line;
use super::lines::{Count, Lines};
use crate::model::{DriverKind, EndSpec};
use crate::testbed::TestbedError;

/// How long a program may take to sum up once it is asked to end.
const SUM_UP_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long a line that stops a program may take.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);

/// A user's line that stops a program.
#[derive(Clone)]
pub(super) struct StopLine {
    host: Rc<dyn Host>,
    /// Whose it is, for messages.
    who: String,
    line: String,
}

impl StopLine {
    /// Whether it says the same to the same machine.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.host, &other.host) && self.line == other.line
    }

    /// Runs it. A line that finds nothing to stop has failed by its own exit code only.
    pub(super) fn run(&self) -> Result<(), TestbedError> {
        let program = Run::Shell(&self.line);
        let command = Command { program, stdin: "", timeout: LINE_TIMEOUT, cancellable: false };
        let ran = self.host.run(&command);
        ran.map(drop).map_err(|error| cannot(&self.who, "run", &self.line, &error))
    }
}

/// A running program.
pub(super) struct Program {
    /// `generator gen1`, for messages.
    who: String,
    line: String,
    stop_line: Option<StopLine>,
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
    /// Starts `line` for a driver. It is called `label` among the programs of its role, and so is
    /// the artefact with the output of its run `run`.
    pub(super) fn start(
        host: &Rc<dyn Host>,
        (role, end): (&str, &EndSpec),
        (label, run): (&str, u32),
        line: String,
        stop_line: Option<String>,
    ) -> Result<Self, TestbedError> {
        let (who, log) = (format!("{role} {label}"), log_name(role, label, run));
        let lines = Lines::new(end.driver.kind, end.driver.packets.as_deref()).map_err(|e| {
            TestbedError::new(format!(
                "{who}: `packets` is not a regular expression: {e}; correct it in the specification"
            ))
        })?;
        let (feed, sink) = Feed::open(lines);
        let started = Instant::now();
        let process = host.spawn_lines(&line, &log, sink);
        let process = process.map_err(|error| cannot(&who, "start", &line, &error))?;
        let stop_line =
            stop_line.map(|line| StopLine { host: Rc::clone(host), who: who.clone(), line });
        Ok(Self {
            who,
            line,
            stop_line,
            log,
            process,
            feed,
            started,
            sums_up: end.driver.kind != DriverKind::Command,
            ended: None,
        })
    }

    /// Its role and its machine, for messages.
    pub(super) fn who(&self) -> &str {
        &self.who
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
                     finished iterations are kept, and `weir lab resume` continues",
                    self.who, self.line
                )));
            }
            if self.has_ended()? {
                return Err(self.died());
            }
            if Instant::now() >= deadline {
                let said = self.said();
                return Err(TestbedError::voids_trial(format!(
                    "{}: `{}` {what} within {patience:?}{said}; run the line there by hand, and \
                     see {} among the artefacts of this trial",
                    self.who, self.line, self.log
                )));
            }
        }
    }

    /// Waits for a line that it wrote after now. Fails as [`Self::wait`], and if its figures cannot
    /// be used.
    pub(super) fn wait_for_line(
        &mut self,
        patience: Duration,
        cancel: &Cancel,
    ) -> Result<(), TestbedError> {
        let asked = feed::asked_now();
        let answers = |last: Option<Arrived>| last.is_some_and(|last| last.at >= asked);
        let waited = self.wait(patience, cancel, "said nothing more", answers);
        if let Some(why) = self.feed.unusable() {
            return Err(TestbedError::voids_trial(format!("{}: {why}", self.who)));
        }
        waited
    }

    /// Whether it has ended. It is an error if it did so by itself, unless it was to
    /// (`is_limited`).
    pub(super) fn is_over(&mut self, is_limited: bool) -> Result<bool, TestbedError> {
        let early = self.has_ended()?;
        if early && (!is_limited || self.ended.as_ref().is_some_and(|(success, _)| !success)) {
            return Err(self.died());
        }
        Ok(early)
    }

    /// Whether it is told to end by a signal, and not by a line that others may hear.
    pub(super) fn takes_signal(&self) -> bool {
        self.sums_up || self.stop_line.is_none()
    }

    /// Tells it to end. A line that does so is not run again.
    pub(super) fn ask_to_end(&mut self) -> Result<(), TestbedError> {
        if self.takes_signal() {
            let asked = self.process.signal("INT");
            return asked.map_err(|error| cannot(&self.who, "stop", &self.line, &error));
        }
        self.stop_line.take().map_or(Ok(()), |line| line.run())
    }

    /// Waits until it has ended after it was told to; what takes no signal is stopped by its line.
    pub(super) fn await_end(&mut self) -> Result<(), TestbedError> {
        if !self.ends_within(SUM_UP_PATIENCE)?
            && let Some(line) = self.stop_line.take()
        {
            line.run()?;
            self.ends_within(SUM_UP_PATIENCE)?;
        }
        let stopped = self.process.stop(STOP_PATIENCE);
        stopped.map_err(|error| cannot(&self.who, "stop", &self.line, &error))
    }

    fn ends_within(&mut self, patience: Duration) -> Result<bool, TestbedError> {
        let deadline = Instant::now() + patience;
        while !self.has_ended()? {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(POLL);
        }
        Ok(true)
    }

    /// The last count of one that has ended, which may be under way for as long as `patience`.
    pub(super) fn total(&self, patience: Duration) -> Result<Option<Count>, TestbedError> {
        // The last lines may still be under way when the end is known.
        if self.sums_up && !self.feed.wait_total(Instant::now() + patience) {
            let said = self.said();
            return Err(TestbedError::voids_trial(format!(
                "{}: `{}` has ended without its total, so its packets cannot be counted\
                 {said}; {} among the artefacts of this trial has all of it",
                self.who, self.line, self.log
            )));
        }
        if let Some(why) = self.feed.unusable() {
            return Err(TestbedError::voids_trial(format!("{}: {why}", self.who)));
        }
        Ok(self.feed.last().map(|last| last.count))
    }

    /// Ends it, whatever it says.
    pub(super) fn end(&mut self) -> Result<(), TestbedError> {
        if self.has_ended()? {
            return Ok(());
        }
        self.ask_to_end()?;
        self.await_end()
    }

    /// The user's line that is still to be run, when all programs of the trial have ended.
    pub(super) fn stop_line(&self) -> Option<&StopLine> {
        self.stop_line.as_ref()
    }

    /// The error that it has ended.
    pub(super) fn died(&self) -> TestbedError {
        let how = self.ended.as_ref().map_or("it is not known how", |(_, how)| how.as_str());
        let said = self.said();
        TestbedError::voids_trial(format!(
            "{}: `{}` ended too early ({how}){said}; {} among the artefacts of this trial \
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
            "if it is still gone when the next trial begins, the campaign ends: bring it back, \
             and continue with `weir lab resume`"
        }
        false => "run the line there by hand to see what it lacks",
    };
    TestbedError::voids_trial(format!("{who}: cannot {what} `{line}`: {}; {next}", error.what))
}

/// The receiver's and generators' artefacts are named by these.
fn log_name(role: &str, label: &str, run: u32) -> String {
    format!("{role}-{label}-{run}.log")
}

/// What the programs of one role are called: as their machines, with a number for each but the
/// first on its machine. No name of a machine has this sign in it.
pub(super) fn labels(hosts: &[Rc<dyn Host>]) -> Vec<String> {
    let label = |index: usize| {
        let name = hosts[index].name();
        match hosts[..index].iter().filter(|other| other.name() == name).count() {
            0 => name.to_owned(),
            before => format!("{name}+{}", before + 1),
        }
    };
    (0..hosts.len()).map(label).collect()
}

/// The line that stops a driver's program, if it has one.
pub(super) fn stop_line(end: &EndSpec, traffic: &str, sample: Duration) -> Option<String> {
    line::stop(end, traffic, sample)
}
