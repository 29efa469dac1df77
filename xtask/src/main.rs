//! weir's own checks: `cargo xtask lint`, `cargo xtask test` and the parts they consist of.
//!
//! What a compiler lint cannot say is checked here: purity of the pure crates, the direction of
//! dependencies, sizes, names and links. Never changes a file, never runs anything as root itself
//! (test binaries do, through the runner that `scripts/test.sh` sets), never touches the network
//! except where cargo downloads what it builds.

#![forbid(unsafe_code)]

mod layers;
mod lint;
mod mask;
mod modules;
mod paths;
mod problem;
mod purity;
#[cfg(test)]
mod setup;
mod steps;
mod testrun;
mod tidy;
mod workspace;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};

use testrun::Scope;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test     all checks but the documentation, and all tests; the last line is
           `N passed, N failed[, N skipped]`
  check    the same without machines (virtual ones, booted ones, SSH), random runs cut short
  ci       test, and the documentation
  test-labs
           the tests of machines alone, counted in the same way
  lint     fmt, clippy, documentation, purity, layers, tidy
  sources  those steps of lint that build nothing
  purity   the pure crates use no files, clock, threads, environment, network; nor do their
           dependencies
  layers   which crate may depend on which, no circles of modules, no crate too large
  tidy     sizes, headers, words, links, lists in documents
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let mut stderr = std::io::stderr();
            // If standard error is gone, the exit code still says it.
            let _ = writeln!(stderr, "xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command; `Ok(false)` means that it ran and found something.
fn dispatch(arguments: &[String]) -> Result<bool> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["test"] => testrun::run(Scope::All),
        ["check"] => testrun::run(Scope::Quick),
        ["ci"] => testrun::run(Scope::Documented),
        ["test-labs"] => testrun::run(Scope::Labs),
        ["lint"] => lint::run(),
        ["sources"] => lint::sources(),
        ["purity"] => steps::report("purity", &purity::check()?),
        ["layers"] => steps::report("layers", &layers::check()?),
        ["tidy"] => steps::report("tidy", &tidy::check()?),
        ["help" | "--help" | "-h"] => {
            std::io::stdout().write_all(USAGE.as_bytes())?;
            Ok(true)
        }
        other => bail!("unknown command {other:?}\n{USAGE}"),
    }
}
