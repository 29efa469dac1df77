//! Doc tests run in the crates that have some, and nowhere else is an example that nobody runs.
//!
//! rustdoc takes seconds for a crate to find that it has none, so `doctest = false` stands in the
//! manifests of those.

use crate::problem::Problem;
use crate::workspace::SourceFile;

/// What a fenced block of Rust may say of itself; one that says nothing is Rust too.
const RUST: &[&str] = &["", "rust", "no_run", "ignore", "should_panic", "compile_fail"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let manifests = files.iter().filter_map(|file| {
        let package = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        let is_off = file.text().lines().any(|line| line == "doctest = false");
        Some((file, format!("crates/{package}/src/"), is_off))
    });
    for (manifest, source, is_off) in manifests {
        let mut has_examples = false;
        let is_library = files.iter().any(|file| file.path == format!("{source}lib.rs"));
        for file in files.iter().filter(|file| file.path.starts_with(&source)) {
            for line in examples(file) {
                has_examples = true;
                if is_off {
                    let message = "an example that no test runs: `doctest = false` in Cargo.toml";
                    problems.push(Problem::line(&file.path, line, message));
                }
            }
        }
        if is_library && !is_off && !has_examples {
            let message = "has no doc tests: `[lib] doctest = false` saves looking for them";
            problems.push(Problem::file(&manifest.path, message));
        }
    }
    problems
}

/// The lines where examples in Rust begin.
fn examples(file: &SourceFile) -> Vec<usize> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (number, line) in file.lines() {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(fence) = text.and_then(|text| text.trim_start().strip_prefix("```")) else {
            continue;
        };
        if !in_block && RUST.contains(&fence.trim_start().split([',', ' ']).next().unwrap_or("")) {
            found.push(number);
        }
        in_block = !in_block;
    }
    found
}
