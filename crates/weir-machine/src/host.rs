//! What a DUT needs from the machine it runs on, whatever that machine is.
//!
//! A namespace of this host, a virtual machine and a box behind SSH all implement [`Host`]; a DUT
//! driver uses nothing else, which is why any DUT runs on any testbed. Every command that a host
//! runs is written to its log. This module never decides what to run.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_results::dut::{System, Tree};

/// How long a process of the DUT is given to end before it is killed.
pub const STOP_PATIENCE: Duration = Duration::from_secs(2);

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

    /// As [`Host::spawn`], and hands every line of its output to `lines` as it comes, on a thread
    /// of its own: without the line's end, standard output and standard error as they mix.
    ///
    /// # Errors
    /// As [`Host::spawn`]; or when this host cannot hand on lines.
    fn spawn_lines(
        &self,
        shell: &str,
        _log: &str,
        _lines: LineSink,
    ) -> Result<Box<dyn Process>, HostError> {
        let what =
            format!("cannot follow the output of `{shell}`: this kind of host has no way to");
        Err(HostError::new(self.name(), what))
    }

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
    fn stack_counters(&self) -> Result<weir_results::counters::Counters, HostError>;

    /// Names of programs that belong to a measurement although nobody starts them from here.
    fn processes(&self) -> &[String] {
        &[]
    }

    /// The machines that it consists of, where it is several: firewalls beside each other. The one
    /// that forwards first stands first.
    fn boxes(&self) -> Vec<&dyn Host> {
        Vec::new()
    }

    /// What kind of system it runs.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn system(&self) -> Result<System, HostError> {
        Ok(System::Linux)
    }

    /// Puts a tree of files over the machine's root, and makes it keep them.
    ///
    /// # Errors
    /// When it is not there afterwards, byte for byte; or when this host takes no trees.
    fn upload(&self, tree: &Tree) -> Result<(), HostError> {
        let what = format!(
            "cannot upload the {} files of a configuration tree: that takes a separate machine \
             (testbed kinds \"hosts\" and \"qemu\")",
            tree.files.len()
        );
        Err(HostError::new(self.name(), what))
    }

    /// Makes the machine as after its start: reboots it and waits until it is online. Nothing
    /// where the machine was just made anew.
    ///
    /// # Errors
    /// When it does not come back in its time ([`Fault::Gone`]), or did not reboot.
    fn fresh(&self) -> Result<(), HostError> {
        Ok(())
    }

    /// Removes and returns the log so far: one line a command.
    fn take_log(&self) -> String;

    /// Removes and returns the artefacts that commands have left: name and content.
    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)>;
}

/// Takes the lines of a process as they come, without their ends, on a thread of the host's.
pub type LineSink = Box<dyn FnMut(&str) + Send>;

/// A command to run to its end.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// What to run.
    pub program: Program<'a>,
    /// Its standard input.
    pub stdin: &'a str,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether it is killed when weir is asked to stop. A command that puts something
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

    /// Sends a signal, by its name without `SIG`, to its group.
    ///
    /// # Errors
    /// When it cannot be sent.
    fn signal(&mut self, signal: &str) -> Result<(), HostError> {
        let what = format!("cannot send SIG{signal}: this kind of host only ends processes");
        Err(HostError::new("process", what))
    }

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
    pub host: String,
    /// What was tried and why it failed.
    pub what: String,
    /// What that means for the host.
    pub fault: Fault,
}

/// What an error means for its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// It can be asked something else.
    #[default]
    Other,
    /// It cannot be reached any more: nothing that needs it works, and what was asked last may
    /// have been done.
    Gone,
    /// The same, and what was asked did not begin.
    Unreached,
    /// What was asked did not end in its time, and may have been done.
    Slow,
}

impl HostError {
    /// An error of `host`.
    pub fn new(host: &str, what: impl std::fmt::Display) -> Self {
        Self { host: host.to_owned(), what: what.to_string(), fault: Fault::Other }
    }

    /// An error of `host` that cannot be reached.
    pub fn gone(host: &str, what: impl std::fmt::Display) -> Self {
        Self { fault: Fault::Gone, ..Self::new(host, what) }
    }

    /// An error of `host` that could not be reached with what was asked.
    pub fn unreached(host: &str, what: impl std::fmt::Display) -> Self {
        Self { fault: Fault::Unreached, ..Self::new(host, what) }
    }

    /// Whether the host is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.fault, Fault::Gone | Fault::Unreached)
    }

    /// Whether that is the host's state, which may pass, and no mistake that would be met again:
    /// it is gone, or too slow to answer.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.is_gone() || self.fault == Fault::Slow
    }

    /// What is said of a device under test in that state.
    #[must_use]
    pub fn says_of_dut(&self) -> &'static str {
        if self.fault == Fault::Slow { "DUT too slow" } else { "DUT gone" }
    }
}
