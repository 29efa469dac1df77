//! `xtask lint`: everything that judges the sources without running them.

use anyhow::Result;

use crate::{layers, purity, steps, tidy};

/// Runs all steps, also after one has failed; true if all passed.
pub(crate) fn run() -> Result<bool> {
    Ok(run_steps()?.is_empty())
}

/// Runs all steps and returns the names of those that failed. Cheap ones come first.
pub(crate) fn run_steps() -> Result<Vec<&'static str>> {
    let results = [
        ("fmt", steps::run_cargo("fmt", &["fmt", "--all", "--check"], &[])?),
        ("tidy", steps::report("tidy", &tidy::check()?)?),
        ("layers", steps::report("layers", &layers::check()?)?),
        ("purity", steps::report("purity", &purity::check()?)?),
        ("clippy", clippy()?),
        ("doc", documentation()?),
    ];
    Ok(results.into_iter().filter(|(_, passed)| !passed).map(|(name, _)| name).collect())
}

fn clippy() -> Result<bool> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    steps::run_cargo("clippy", &arguments, &[])
}

fn documentation() -> Result<bool> {
    let arguments =
        ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked", "--quiet"];
    steps::run_cargo("doc", &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
}
