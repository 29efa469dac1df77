//! The pure crates (weir-wire, weir-stats, weir-rules, weir-results, weir-http) take time and bytes
//! as arguments and nothing else.
//!
//! Three proofs: their sources name nothing of `std` that reaches outside; all that they link is on
//! a short list; and, where rustup has the target, they build for `wasm32-unknown-unknown`.
//! The model is quinn-proto, whose purity its continuous integration proves the same way.

mod impure;
#[cfg(test)]
mod tests;

use std::process::Command;

use anyhow::Result;

use crate::mask;
use crate::problem::Problem;
use crate::steps;
use crate::workspace::{self, Packages, SourceFile};

/// The crates that promise purity.
const PURE_CRATES: &[&str] =
    &["weir-wire", "weir-stats", "weir-rules", "weir-results", "weir-http"];

/// What they may link, and why each may: derive macros run in the compiler; everything else is
/// `no_std` at heart or computes only. A new entry needs that argument.
const PURE_DEPENDENCIES: &[&[&str]] = &[
    &["weir-wire", "weir-stats", "weir-rules"],
    // Derive macros, and the trait that they implement.
    &["thiserror", "thiserror-impl", "proc-macro2", "proc-macro2-diagnostics"],
    &["quote", "syn", "unicode-ident"],
    // HTML into a String: a derive macro, and itoa for numbers.
    &["maud", "maud_macros", "itoa"],
    // Records as JSON: bytes to values and back, with zmij for numbers, memchr for searching in
    // bytes, and indexmap for the order of keys.
    &["serde", "serde_core", "serde_derive", "serde_json", "zmij", "memchr"],
    &["indexmap", "equivalent", "hashbrown", "foldhash"],
    // The order of a specification's tables: text to values.
    &["toml", "toml_datetime", "toml_parser", "toml_writer", "serde_spanned", "winnow"],
    // Patterns for the names of series: matched against text, never against a directory.
    &["globset", "aho-corasick", "bstr", "log", "regex-automata", "regex-syntax"],
    // SHA-256 of bytes in memory; cpufeatures asks the processor which instructions it has.
    &["sha2", "digest", "block-buffer", "crypto-common", "hybrid-array", "typenum", "const-oid"],
    &["cpufeatures", "cfg-if"],
    // Figures as SVG and pixels, with a font that is part of the program: plotters without the
    // features that read system fonts or write files.
    &["plotters", "plotters-backend", "plotters-svg", "plotters-bitmap", "num-traits"],
    &["ab_glyph", "ab_glyph_rasterizer", "owned_ttf_parser", "ttf-parser", "once_cell"],
    // Pixels as a PNG file's bytes.
    &["png", "flate2", "fdeflate", "miniz_oxide", "adler2", "simd-adler32", "crc32fast"],
    &["bitflags"],
    // Heads of HTTP/1.1: bytes to slices; %XX in a URL.
    &["httparse", "percent-encoding"],
    // Histograms of times, without the feature that writes them to files.
    &["hdrhistogram", "byteorder"],
    // Edits between two words, for what was meant by one of them.
    &["strsim"],
];

const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Runs the three proofs.
pub(crate) fn check() -> Result<Vec<Problem>> {
    let mut problems = check_sources()?;
    problems.extend(check_builds()?);
    Ok(problems)
}

/// The two proofs that build nothing: what is named, and what is linked.
pub(crate) fn check_sources() -> Result<Vec<Problem>> {
    let files = workspace::files()?;
    let packages = Packages::read()?;
    let mut problems = Vec::new();
    for name in PURE_CRATES {
        problems.extend(impure_paths(name, &files));
        problems.extend(impure_dependencies(name, &packages));
    }
    Ok(problems)
}

/// The third: each builds for a target that has nothing outside, if that is installed.
pub(crate) fn check_builds() -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    if !wasm_is_installed() {
        steps::say(&format!(
            "    ({WASM_TARGET} is not installed: sources and dependencies are checked only)"
        ))?;
        return Ok(problems);
    }
    for name in PURE_CRATES {
        let arguments = ["check", "--locked", "--target", WASM_TARGET, "--package", name];
        if !steps::run_cargo("purity", &arguments, &[])? {
            let message = format!("{name} does not build for {WASM_TARGET}");
            problems.push(Problem::file(&format!("crates/{name}"), message));
        }
    }
    Ok(problems)
}

fn wasm_is_installed() -> bool {
    let output = Command::new("rustup").args(["target", "list", "--installed"]).output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == WASM_TARGET)
    })
}

fn impure_paths(name: &str, files: &[SourceFile]) -> Vec<Problem> {
    let prefix = format!("crates/{name}/src/");
    let mut problems = Vec::new();
    let sources = files.iter().filter(|file| file.path.starts_with(&prefix));
    for file in sources.filter(|file| file.kind() == "rs" && file.name() != "tests.rs") {
        let code = mask::without_tests(&file.code());
        if file.path == format!("{prefix}lib.rs") && !code.contains("#![forbid(unsafe_code)]") {
            problems.push(Problem::file(&file.path, "#![forbid(unsafe_code)] is missing"));
        }
        for (line, path) in impure::impure(&code) {
            let message = format!("{name} is pure, and {path} is not: take it as an argument");
            problems.push(Problem::line(&file.path, line, message));
        }
    }
    problems
}

fn may_link(name: &str) -> bool {
    PURE_DEPENDENCIES.iter().any(|group| group.contains(&name))
}

fn impure_dependencies(name: &str, packages: &Packages) -> Vec<Problem> {
    let closure = packages.closure(name);
    let foreign = closure.iter().filter(|used| !may_link(used));
    foreign
        .map(|used| {
            let message = format!("{name} is pure and must not link {used}");
            Problem::file(&format!("crates/{name}/Cargo.toml"), message)
        })
        .collect()
}
