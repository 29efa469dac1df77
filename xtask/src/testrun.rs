//! `xtask test` and `xtask check`: the checks, then every test, with one line at the end that
//! counts them. `xtask test-labs` runs the tests of real machines alone, counted alike.
//!
//! Cargo builds the test binaries; this module runs them, several at a time (`jobs` says what
//! beside what), through the same runner as cargo would, and shows the output of each in one piece.

mod executables;
mod jobs;
mod pool;
mod tally;

use anyhow::Result;

pub(crate) use jobs::Scope;
use tally::Tally;

use crate::lint;

/// Runs the checks and the tests of `scope`; true if everything passed.
pub(crate) fn run(scope: Scope) -> Result<bool> {
    let mut out = std::io::stdout();
    let mut failed = if scope == Scope::Labs { Vec::new() } else { lint::source_steps()? };
    let only = (scope == Scope::Labs).then_some(jobs::E2E);
    let Some(executables) = executables::build(only)? else {
        return Ok(Tally::one_failed().conclude(&mut out, &failed)?);
    };
    if scope != Scope::Labs && !lint::wasm_builds()? {
        failed.push("purity (wasm)".to_owned());
    }
    // One more than there are CPUs: the longest of them wait most of the time.
    let slots = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    let outcome = pool::run(jobs::all(scope, &executables)?, slots, &mut out)?;
    failed.extend(outcome.failed_checks);
    Ok(outcome.tally.conclude(&mut out, &failed)?)
}
