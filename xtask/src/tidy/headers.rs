//! What a file begins with: a module's documentation, a BPF file's licence.
//!
//! `tests.rs` and `build.rs` are documented by the module or the crate that they belong to.

use crate::problem::Problem;
use crate::workspace::SourceFile;

const BPF_LICENCE: &str = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause";

pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    let first = file.text().lines().next().unwrap_or("");
    let needs_purpose = !matches!(file.name(), "build.rs" | "tests.rs");
    if file.kind() == "rs" && needs_purpose && !first.starts_with("//!") {
        let message = "begins without `//!`: say what it does, and what it never does";
        problems.push(Problem::line(&file.path, 1, message));
    }
    let is_bpf = file.path.starts_with("bpf/") && matches!(file.kind(), "c" | "h");
    if is_bpf && !first.contains(BPF_LICENCE) {
        problems.push(Problem::line(&file.path, 1, format!("first line lacks `{BPF_LICENCE}`")));
    }
    problems
}
