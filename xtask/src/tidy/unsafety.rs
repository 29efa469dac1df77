//! `unsafe` lives in one crate; every other crate forbids it in its root.

use crate::mask;
use crate::problem::Problem;
use crate::workspace::SourceFile;

/// The only place for `unsafe`.
const UNSAFE_HOME: &str = "crates/weir-bpf/";

pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    if file.kind() != "rs" || file.path.starts_with(UNSAFE_HOME) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let code = file.code();
    for (index, line) in code.lines().enumerate() {
        if mask::words(line).any(|(_, word)| word == "unsafe") {
            let message = format!("`unsafe` outside {UNSAFE_HOME}");
            problems.push(Problem::line(&file.path, index + 1, message));
        }
    }
    let is_root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    if is_root && !code.contains("#![forbid(unsafe_code)]") {
        problems.push(Problem::file(&file.path, "#![forbid(unsafe_code)] is missing"));
    }
    problems
}
