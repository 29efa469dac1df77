//! Completion scripts and manual pages, from the definitions of the command line.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap_complete::Shell;

use crate::exit::Outcome;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell, command: &mut clap::Command) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "weir", &mut script);
    std::io::stdout().write_all(&script).context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

/// Writes a manual page for every command.
pub(crate) fn manual(dir: &Path, command: clap::Command) -> anyhow::Result<Outcome> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
    Ok(Outcome::Done)
}
