//! The pure crates (weir-wire, weir-stats, weir-rules) take time and bytes as arguments and nothing
//! else.
//!
//! Three proofs: their sources name nothing of `std` that reaches outside; all that they link is on
//! a short list; and, where rustup has the target, they build for `wasm32-unknown-unknown`.
//! The model is quinn-proto, whose purity its continuous integration proves the same way.

mod paths;
#[cfg(test)]
mod tests;

use std::process::Command;

use anyhow::Result;

use crate::mask;
use crate::problem::Problem;
use crate::steps;
use crate::workspace::{self, Packages, SourceFile};

/// The crates that promise purity.
const PURE_CRATES: &[&str] = &["weir-wire", "weir-stats", "weir-rules"];

/// What they may link. Derive macros run in the compiler; everything else here is `no_std` at
/// heart or pure itself. A new entry needs that argument.
const PURE_DEPENDENCIES: &[&str] = &[
    "weir-wire",
    "weir-stats",
    "weir-rules",
    "thiserror",
    "thiserror-impl",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
];

const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Runs the three proofs.
pub(crate) fn check() -> Result<Vec<Problem>> {
    let files = workspace::files()?;
    let packages = Packages::read()?;
    let mut problems = Vec::new();
    for name in PURE_CRATES {
        problems.extend(check_sources(name, &files));
        problems.extend(check_dependencies(name, &packages));
    }
    if wasm_is_installed() {
        for name in PURE_CRATES {
            let arguments = ["build", "--locked", "--target", WASM_TARGET, "--package", name];
            if !steps::run_cargo("purity", &arguments, &[])? {
                let message = format!("{name} does not build for {WASM_TARGET}");
                problems.push(Problem::file(&format!("crates/{name}"), message));
            }
        }
    } else {
        steps::say(&format!(
            "    ({WASM_TARGET} is not installed: sources and dependencies are checked only)"
        ))?;
    }
    Ok(problems)
}

fn wasm_is_installed() -> bool {
    let output = Command::new("rustup").args(["target", "list", "--installed"]).output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == WASM_TARGET)
    })
}

fn check_sources(name: &str, files: &[SourceFile]) -> Vec<Problem> {
    let prefix = format!("crates/{name}/src/");
    let mut problems = Vec::new();
    let sources = files.iter().filter(|file| file.path.starts_with(&prefix));
    for file in sources.filter(|file| file.kind() == "rs" && file.name() != "tests.rs") {
        let code = mask::without_tests(&file.code());
        if file.path == format!("{prefix}lib.rs") && !code.contains("#![forbid(unsafe_code)]") {
            problems.push(Problem::file(&file.path, "#![forbid(unsafe_code)] is missing"));
        }
        for (line, path) in paths::impure(&code) {
            let message = format!("{name} is pure, and {path} is not: take it as an argument");
            problems.push(Problem::line(&file.path, line, message));
        }
    }
    problems
}

fn check_dependencies(name: &str, packages: &Packages) -> Vec<Problem> {
    let closure = packages.closure(name);
    let foreign = closure.iter().filter(|used| !PURE_DEPENDENCIES.contains(&used.as_str()));
    foreign
        .map(|used| {
            let message = format!("{name} is pure and must not link {used}");
            Problem::file(&format!("crates/{name}/Cargo.toml"), message)
        })
        .collect()
}
