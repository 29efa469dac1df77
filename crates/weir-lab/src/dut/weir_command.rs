//! The command `weir` on the hosts of a DUT of the kind `weir-fw`: run, and what it says. It never
//! knows what it is run for.

use std::time::Duration;

use weir_machine::host::{Command, Host, HostError, Output, Program};

use super::DutError;

/// The command `weir` on the hosts of a DUT.
pub(super) struct Weir {
    /// The DUT's name, for messages.
    pub(super) dut: String,
    pub(super) program: Option<String>,
}

impl Weir {
    /// The path of the command: the one that was asked for, or this program.
    pub(super) fn path(&self) -> Result<String, DutError> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let program = std::env::current_exe().map_err(|e| self.wrong(format!("{e}")))?;
        let program = program.into_os_string().into_string();
        program.map_err(|path| {
            self.wrong(format!("the path of weir, {}, is not UTF-8", path.display()))
        })
    }

    /// Runs it to an end of any kind.
    pub(super) fn ask(
        &self,
        host: &dyn Host,
        question: &[&str],
        patience: Duration,
    ) -> Result<Output, DutError> {
        self.weir(host, question, patience, true)
    }

    /// The same of a command that puts something back: a request to stop does not end it.
    pub(super) fn put_back(
        &self,
        host: &dyn Host,
        words: &[&str],
        patience: Duration,
    ) -> Result<Output, DutError> {
        self.weir(host, words, patience, false)
    }

    fn weir(
        &self,
        host: &dyn Host,
        words: &[&str],
        patience: Duration,
        cancellable: bool,
    ) -> Result<Output, DutError> {
        let program = self.path()?;
        let argv: Vec<&str> =
            std::iter::once(program.as_str()).chain(words.iter().copied()).collect();
        self.execute(host, Program::Arguments(&argv), patience, cancellable)
    }

    /// Runs it to a good end; what it prints.
    pub(super) fn run(
        &self,
        host: &dyn Host,
        question: &[&str],
        patience: Duration,
    ) -> Result<String, DutError> {
        let output = self.ask(host, question, patience)?;
        self.good(&format!("weir {}", question.join(" ")), output)
    }

    /// Runs a line of a shell to a good end; what it prints.
    pub(super) fn shell(
        &self,
        host: &dyn Host,
        line: &str,
        patience: Duration,
    ) -> Result<String, DutError> {
        let output = self.execute(host, Program::Shell(line), patience, true)?;
        self.good(line, output)
    }

    fn good(&self, what: &str, output: Output) -> Result<String, DutError> {
        if output.success() {
            return Ok(output.stdout);
        }
        Err(self.wrong(format!("`{what}` failed: {}", output.said())))
    }

    fn execute(
        &self,
        host: &dyn Host,
        program: Program<'_>,
        timeout: Duration,
        cancellable: bool,
    ) -> Result<Output, DutError> {
        let command = Command { program, stdin: "", timeout, cancellable };
        host.run(&command).map_err(DutError::host(&self.dut))
    }

    /// An error of the configuration.
    pub(super) fn wrong(&self, what: String) -> DutError {
        DutError::Configuration { dut: self.dut.clone(), what }
    }

    pub(super) fn not_ready(&self, what: String) -> DutError {
        DutError::NotReady { dut: self.dut.clone(), what }
    }

    /// An error of a host.
    pub(super) fn failed(&self, error: HostError) -> DutError {
        DutError::host(&self.dut)(error)
    }
}
