//! Function length, with a ratchet: exceptions are listed, and the list can only shrink.
//!
//! Functions are found by the word `fn` and matching braces in the blanked source; that needs no
//! parser, and the tests show what it holds for.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::workspace::SourceFile;

/// Longest function, in lines, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Exceptions: `path function lines`, one a line.
const EXCEPTIONS: &str = "xtask/function-length.txt";

/// A function and where it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// From 1.
    pub(super) line: usize,
    pub(super) line_count: usize,
}

pub(super) fn check(files: &[SourceFile]) -> Vec<Problem> {
    let mut exceptions = BTreeMap::new();
    let mut problems = Vec::new();
    let list = files.iter().find(|file| file.path == EXCEPTIONS);
    for (number, line) in list.iter().flat_map(|file| file.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [path, name, count] if count.parse::<usize>().is_ok() => {
                let count = count.parse::<usize>().unwrap_or(0);
                exceptions.insert(((*path).to_owned(), (*name).to_owned()), (number, count));
            }
            _ => problems.push(Problem::line(EXCEPTIONS, number, "not `path function lines`")),
        }
    }
    for file in files.iter().filter(|file| file.kind() == "rs" && !file.is_foreign()) {
        for function in functions(&file.code()) {
            if function.line_count <= FUNCTION_LINES_MAX {
                continue;
            }
            let key = (file.path.clone(), function.name.clone());
            match exceptions.remove(&key) {
                Some((_, count)) if count == function.line_count => {}
                Some((number, count)) => {
                    let message = format!(
                        "{} has {} lines now, not {count}: the number may only go down",
                        function.name, function.line_count
                    );
                    problems.push(Problem::line(EXCEPTIONS, number, message));
                }
                None => {
                    let message = format!(
                        "{} has {} lines, of {FUNCTION_LINES_MAX} at most",
                        function.name, function.line_count
                    );
                    problems.push(Problem::line(&file.path, function.line, message));
                }
            }
        }
    }
    for ((path, name), (number, _)) in exceptions {
        let message = format!("{path} {name} is short or gone: remove this line");
        problems.push(Problem::line(EXCEPTIONS, number, message));
    }
    problems
}

/// The functions with a body in a blanked source.
pub(super) fn functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    // Functions whose closing brace is still to come, with the depth of their opening one.
    let mut open: Vec<(Function, usize)> = Vec::new();
    let mut scanner = Scanner::default();
    for (index, line) in code.lines().enumerate() {
        let number = index + 1;
        let mut previous = ' ';
        for (at, character) in line.char_indices() {
            if let Some(name) = function_at(line, at, previous) {
                scanner.declared = Some((name, number));
                scanner.brackets = 0;
            }
            previous = character;
            match character {
                '(' | '[' => scanner.brackets += 1,
                ')' | ']' => scanner.brackets = scanner.brackets.saturating_sub(1),
                ';' if scanner.brackets == 0 => scanner.declared = None,
                '{' => {
                    scanner.depth += 1;
                    if scanner.brackets > 0 {
                        continue;
                    }
                    if let Some((name, line)) = scanner.declared.take() {
                        open.push((Function { name, line, line_count: 0 }, scanner.depth));
                    }
                }
                '}' => {
                    if open.last().is_some_and(|(_, depth)| *depth == scanner.depth)
                        && let Some((mut function, _)) = open.pop()
                    {
                        function.line_count = number - function.line + 1;
                        functions.push(function);
                    }
                    scanner.depth = scanner.depth.saturating_sub(1);
                }
                _ => {}
            }
        }
    }
    functions
}

/// Where the scan is.
#[derive(Debug, Default)]
struct Scanner {
    /// Open braces.
    depth: usize,
    /// Open parentheses and square brackets since the last `fn`.
    brackets: usize,
    /// A function whose body has not begun: name and line.
    declared: Option<(String, usize)>,
}

/// The name of the function whose `fn` begins at byte `at`; not that of a pointer type `fn(…)`.
fn function_at(line: &str, at: usize, previous: char) -> Option<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '#';
    let rest = line[at..].strip_prefix("fn")?;
    if is_word(previous) || !rest.starts_with(' ') {
        return None;
    }
    let name: String = rest.trim_start().chars().take_while(|&c| is_word(c)).collect();
    (!name.is_empty()).then_some(name)
}
