//! Running a step: a cargo command or a check of our own, announced and judged the same way.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::problem::Problem;
use crate::workspace;

/// For rustdoc. The pages are for those who change weir and show private items, so links to those
/// lead somewhere.
pub(crate) const RUSTDOC_FLAGS: &str = "-D warnings -A rustdoc::private_intra_doc_links";

/// The cargo that started xtask, or the one in `PATH`.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    command
}

/// The triple of the platform that builds and runs weir.
pub(crate) fn host() -> Result<String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let output = Command::new(program).arg("-vV").output().context("cannot run rustc -vV")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV does not name its host")
}

/// Writes a line to standard error, where the tools that run as steps write theirs.
pub(crate) fn say(line: &str) -> Result<()> {
    writeln!(std::io::stderr(), "{line}").context("standard error is closed")
}

/// Runs `cargo ARGUMENTS` with `environment` added; true if it succeeded.
pub(crate) fn run_cargo(
    name: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<bool> {
    say(&format!("==> {name}: cargo {}", arguments.join(" ")))?;
    let status = cargo()
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .with_context(|| format!("cannot run cargo {}", arguments.join(" ")))?;
    if !status.success() {
        say(&format!("==> {name} failed ({status})"))?;
    }
    Ok(status.success())
}

/// Prints the findings of a check; true if there are none.
pub(crate) fn report(name: &str, problems: &[Problem]) -> Result<bool> {
    say(&format!("==> {name}"))?;
    for problem in problems {
        say(&problem.to_string())?;
    }
    if !problems.is_empty() {
        say(&format!("==> {name} failed: {} found", problems.len()))?;
    }
    Ok(problems.is_empty())
}
