//! Words that mark unfinished work. What is not done is refused with an error, or not there.

use crate::mask;
use crate::problem::Problem;
use crate::workspace::SourceFile;

/// Spelled in pieces, so that this file passes its own check.
const BANNED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    if !matches!(file.kind(), "rs" | "c" | "h" | "sh" | "toml" | "nft" | "Makefile") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (number, line) in file.lines() {
        for (_, word) in mask::words(line).filter(|(_, word)| BANNED.contains(word)) {
            let message = format!("`{word}`: do it now, or open an issue");
            problems.push(Problem::line(&file.path, number, message));
        }
    }
    if file.kind() == "rs" {
        let code = file.code();
        for (index, line) in code.lines().enumerate() {
            let called = mask::words(line)
                .any(|(at, word)| word == "dbg" && line[at + word.len()..].starts_with('!'));
            if called {
                problems.push(Problem::line(&file.path, index + 1, "a debugging macro is left in"));
            }
        }
    }
    problems
}
