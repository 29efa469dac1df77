//! Words that mark unfinished work, and names that say nothing. What is not done is refused with an
//! error, or not there; comments and texts may say "own" and "told" as they like.

use crate::mask;
use crate::problem::Problem;
use crate::workspace::SourceFile;

/// Spelled in pieces, so that this file passes its own check.
const BANNED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// They say of a thing that it belongs, was said or was asked for, and not what it is: neither a
/// name nor a part of one, except in the name of a test, which is a sentence.
const EMPTY_WORDS: &[&str] = &["own", "told", "wanted"];

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
        let mut is_test = false;
        for (index, line) in code.lines().enumerate() {
            let called = mask::words(line)
                .any(|(at, word)| word == "dbg" && line[at + word.len()..].starts_with('!'));
            if called {
                problems.push(Problem::line(&file.path, index + 1, "a debugging macro is left in"));
            }
            is_test |= line.contains("#[test]");
            let names: Vec<&str> = mask::words(line).map(|(_, name)| name).collect();
            let function = names.iter().position(|name| *name == "fn").map(|at| at + 1);
            let test = function.filter(|_| std::mem::take(&mut is_test));
            let mut checked = names.iter().enumerate().filter(|(at, _)| Some(*at) != test);
            if let Some((_, name)) = checked.find(|(_, name)| is_empty(name)) {
                let message = format!("`{name}` names nothing: use the noun for what it is");
                problems.push(Problem::line(&file.path, index + 1, message));
            }
        }
    }
    problems
}

/// Whether one of the words of a name, which end at `_` and before a capital, says nothing.
fn is_empty(name: &str) -> bool {
    let mut words = String::with_capacity(name.len() + 1);
    for character in name.chars() {
        if character.is_uppercase() && words.ends_with(char::is_lowercase) {
            words.push('_');
        }
        words.push(character);
    }
    words.to_lowercase().split('_').any(|word| EMPTY_WORDS.contains(&word))
}
