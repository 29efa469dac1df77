//! What a DUT needs from the machine it runs on, whatever that machine is.
//!
//! A namespace of this host, a virtual machine and a box behind SSH all implement [`Host`]; a DUT
//! driver uses nothing else, which is why any DUT runs on any testbed. Every command that a host
//! runs is written to its log. This module never decides what to run.

use std::collections::BTreeMap;
use std::time::Duration;

/// A machine that commands can be run on.
pub trait Host {
    /// Name for messages and logs.
    fn name(&self) -> &str;

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it cannot be started or does not end in time. A non-zero exit is not an error here.
    fn run(&self, command: &Command<'_>) -> Result<Output, HostError>;

    /// Starts a shell command that stays, with its output going to the artefact `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    fn spawn(&self, shell: &str, log: &str) -> Result<Box<dyn Process>, HostError>;

    /// Puts a file into the DUT's working directory, which is the current directory of every
    /// command, and returns its full path.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write_file(&self, name: &str, content: &str) -> Result<String, HostError>;

    /// Sets a kernel setting, by its sysctl(8) name, and returns what it was before.
    ///
    /// # Errors
    /// When there is no such setting, or it cannot be written on this host.
    fn set_sysctl(&self, name: &str, value: &str) -> Result<String, HostError>;

    /// Reads a kernel setting.
    ///
    /// # Errors
    /// When there is no such setting.
    fn sysctl(&self, name: &str) -> Result<String, HostError>;

    /// Every `net.*` setting that belongs to the DUT alone.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn sysctls(&self) -> Result<BTreeMap<String, String>, HostError>;

    /// Counters of the network stack: `ip`, `ip6`, `conntrack` → name → value.
    ///
    /// # Errors
    /// When they cannot be read.
    fn stack_counters(&self) -> Result<crate::counters::Counters, HostError>;

    /// Removes and returns the log so far: one line a command.
    fn take_log(&self) -> String;

    /// Removes and returns the artefacts that commands have left: name and content.
    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)>;
}

/// A command to run to its end.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// What to run.
    pub program: Program<'a>,
    /// Its standard input.
    pub stdin: &'a str,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether it is killed when the campaign is asked to stop. A command that puts something
    /// back is not.
    pub cancellable: bool,
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub enum Program<'a> {
    /// A program and its arguments.
    Arguments(&'a [&'a str]),
    /// A line for `sh -c`.
    Shell(&'a str),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit code; absent if a signal ended it.
    pub exit_code: Option<i32>,
    /// Standard output, as text.
    pub stdout: String,
    /// Standard error, as text.
    pub stderr: String,
}

impl Output {
    /// Whether it ended with 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// What it said, for a message: standard error, or else standard output, without the ends.
    #[must_use]
    pub fn said(&self) -> &str {
        let error = self.stderr.trim();
        if error.is_empty() { self.stdout.trim() } else { error }
    }
}

/// A command that stays.
pub trait Process {
    /// How it ended, or `None` while it runs.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn ended(&mut self) -> Result<Option<Ended>, HostError>;

    /// Ends it: SIGTERM to its group, SIGKILL after `patience`.
    ///
    /// # Errors
    /// When it cannot be ended.
    fn stop(&mut self, patience: Duration) -> Result<(), HostError>;
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Whether its exit code was 0.
    pub success: bool,
    /// In words: `exit code 3`, `killed by signal 9`.
    pub how: String,
}

/// What went wrong on a host.
#[derive(Debug, thiserror::Error)]
#[error("{host}: {what}")]
pub struct HostError {
    /// The host.
    pub host: String,
    /// What was tried and why it failed.
    pub what: String,
}

impl HostError {
    /// An error of `host`.
    pub fn new(host: &str, what: impl std::fmt::Display) -> Self {
        Self { host: host.to_owned(), what: what.to_string() }
    }
}
