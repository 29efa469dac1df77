//! Tidiness: house rules that can be counted (CONTRIBUTING.md says them in words).
//!
//! Every rule is a function from files to findings, tested on files that exist in the test only.
//! The model is TigerBeetle's `tidy.zig`, with rust-analyzer's `tidy.rs` for the documents.

mod docs;
mod doctests;
mod documents;
mod functions;
mod headers;
mod lines;
#[cfg(test)]
mod tests;
mod unsafety;
mod words;

use anyhow::Result;

use crate::problem::Problem;
use crate::workspace::{self, SourceFile};

/// Largest file in the repository.
const FILE_SIZE_BYTES_MAX: u64 = 200 * 1024;

/// Checks all files of the repository.
pub(crate) fn check() -> Result<Vec<Problem>> {
    let files = workspace::files()?;
    let mut problems = check_files(&files);
    problems.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(problems)
}

fn check_files(files: &[SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| !file.is_foreign()) {
        problems.extend(size(file));
        problems.extend(lines::check(file));
        problems.extend(headers::check(file));
        problems.extend(words::check(file));
        problems.extend(unsafety::check(file));
        problems.extend(docs::check(file));
    }
    problems.extend(functions::check(files));
    problems.extend(documents::check(files));
    problems.extend(doctests::check(files));
    problems
}

fn size(file: &SourceFile) -> Option<Problem> {
    (file.size_bytes > FILE_SIZE_BYTES_MAX).then(|| {
        let message =
            format!("{} bytes, of {FILE_SIZE_BYTES_MAX} at most: make it smaller", file.size_bytes);
        Problem::file(&file.path, message)
    })
}
