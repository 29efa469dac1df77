//! Exit codes, and how a failure is told.

use std::io::Write as _;
use std::process::ExitCode;

use anstyle::AnsiColor;

/// Done, but the answer is no.
pub(crate) const NO: u8 = 1;
/// The request cannot be honoured.
pub(crate) const REFUSED: u8 = 2;

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done.
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
        Err(error) => {
            let red = AnsiColor::Red.on_default().bold();
            // Nobody is left to tell if standard error is closed.
            drop(writeln!(anstream::stderr(), "{red}error:{red:#} {error:#}"));
            REFUSED.into()
        }
    }
}
