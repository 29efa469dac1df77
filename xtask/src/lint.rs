//! `xtask lint`: everything that judges the sources without running them.

use anyhow::Result;

use crate::{layers, purity, steps, tidy};

/// Runs all steps, also after one has failed; true if all passed.
pub(crate) fn run() -> Result<bool> {
    Ok(run_steps()?.is_empty())
}

/// Runs all steps and returns the names of those that failed. Cheap ones come first.
fn run_steps() -> Result<Vec<String>> {
    let mut failed = source_steps()?;
    let builds = [
        ("purity (wasm)", wasm_builds()?),
        ("clippy", steps::run_cargo("clippy", CLIPPY, &[])?),
        ("doc", steps::run_cargo("doc", DOC, &[("RUSTDOCFLAGS", steps::RUSTDOC_FLAGS)])?),
    ];
    failed.extend(failures(&builds));
    Ok(failed)
}

/// Runs the steps that build nothing; true if all passed.
pub(crate) fn sources() -> Result<bool> {
    Ok(source_steps()?.is_empty())
}

/// Runs the steps that build nothing and returns the names of those that failed.
pub(crate) fn source_steps() -> Result<Vec<String>> {
    let results = [
        ("fmt", steps::run_cargo("fmt", &["fmt", "--all", "--check"], &[])?),
        ("tidy", steps::report("tidy", &tidy::check()?)?),
        ("layers", steps::report("layers", &layers::check()?)?),
        ("purity", steps::report("purity", &purity::check_sources()?)?),
    ];
    Ok(failures(&results).collect())
}

/// Builds the pure crates for a target that has nothing outside; true if they do.
pub(crate) fn wasm_builds() -> Result<bool> {
    steps::report("purity (wasm)", &purity::check_builds()?)
}

fn failures(results: &[(&'static str, bool)]) -> impl Iterator<Item = String> {
    results.iter().filter(|(_, passed)| !passed).map(|(name, _)| (*name).to_owned())
}

/// The arguments with which cargo runs clippy.
pub(crate) const CLIPPY: &[&str] =
    &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
/// The arguments with which cargo builds the documentation.
pub(crate) const DOC: &[&str] =
    &["doc", "--workspace", "--no-deps", "--document-private-items", "--locked", "--quiet"];
