//! Exit codes, and how a failure is told.

use std::io::Write as _;
use std::process::ExitCode;

use anstyle::AnsiColor;
use anyhow::Context as _;
use weir_machine::cancel::Cancel;

/// What ends a program whose output nobody reads (signal(7)).
const SIGPIPE: i32 = 13;

/// Done, but the answer is no.
pub(crate) const NO: u8 = 1;
/// The request cannot be honoured.
pub(crate) const REFUSED: u8 = 2;

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Done, but the answer is no.
    No,
    /// The request was refused, and the reasons have been shown.
    Refused,
    /// Stopped by a signal.
    Signal(i32),
}

/// The exit code; an error is told on standard error.
pub(crate) fn code(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::No) => NO.into(),
        Ok(Outcome::Refused) => REFUSED.into(),
        Ok(Outcome::Signal(signal)) => crate::signals::exit_code(signal).into(),
        Err(error) if reader_has_gone(&error) => crate::signals::exit_code(SIGPIPE).into(),
        Err(error) => {
            let red = AnsiColor::Red.on_default().bold();
            // Nobody is left to tell if standard error is closed.
            drop(writeln!(anstream::stderr(), "{red}error:{red:#} {}", message(&error)));
            failure_code(&error).into()
        }
    }
}

/// What everything that cannot write its result says.
pub(crate) const NO_OUTPUT: &str = "cannot write to standard output";

/// Writes a result to standard output.
pub(crate) fn put(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context(NO_OUTPUT)
}

/// A result as JSON, with the line's end.
pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    let text =
        serde_json::to_string_pretty(value).context("the result cannot be written as JSON")?;
    Ok(text + "\n")
}

/// Whether this is no failure but a reader of standard output that has seen enough, as `head` has.
pub(crate) fn reader_has_gone(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
    };
    error.to_string() == NO_OUTPUT && error.chain().any(is_pipe)
}

/// The exit code of an error.
fn failure_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<Stopped>() {
        Some(Stopped { signal, .. }) => crate::signals::exit_code(*signal),
        None => REFUSED,
    }
}

/// A signal ended what is done before anything is run.
#[derive(Debug)]
pub(crate) struct Stopped {
    signal: i32,
    what: String,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; nothing was run", self.what)
    }
}

impl std::error::Error for Stopped {}

/// An error of what a signal may have ended, which is none of its own then.
pub(crate) fn or_stopped(cancel: &Cancel, error: anyhow::Error) -> anyhow::Error {
    match cancel.signal() {
        Some(signal) => Stopped { signal, what: message(&error) }.into(),
        None => error,
    }
}

/// An error with its causes, on one line. A cause that the text before it holds already is left
/// out: the libraries' messages are complete without their sources.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use anyhow::Context as _;
    use weir_net::process::ProcessError;

    use super::*;

    fn full() -> Error {
        Error::new(ErrorKind::StorageFull, "disk full")
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = ProcessError::Start { command: "nft".into(), source: full() };
        assert_eq!(error.to_string(), "cannot start `nft`: disk full");
        assert_eq!(message(&error.into()), "cannot start `nft`: disk full");
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure_and_a_broken_connection_is_one() {
        let broken = || Error::from(ErrorKind::BrokenPipe);
        let written: Result<(), Error> = Err(broken());
        assert!(reader_has_gone(&written.context(NO_OUTPUT).unwrap_err()));
        let full: Result<(), Error> = Err(full());
        assert!(!reader_has_gone(&full.context(NO_OUTPUT).unwrap_err()));
        assert!(!reader_has_gone(&broken().into()));
    }

    #[test]
    fn what_a_signal_has_ended_has_the_signals_code() {
        let cancel = Cancel::default();
        assert_eq!(failure_code(&or_stopped(&cancel, full().into())), REFUSED);
        cancel.request(15);
        let error = or_stopped(&cancel, full().into());
        assert_eq!(failure_code(&error), 143);
        assert_eq!(message(&error), "disk full; nothing was run");
    }

    #[test]
    fn a_cause_that_no_message_names_is_told() {
        let result: Result<(), Error> = Err(full());
        let error = result.context("cannot keep").context("the campaign stopped").unwrap_err();
        assert_eq!(message(&error), "the campaign stopped: cannot keep: disk full");
    }
}
