//! Documentation where a name does not say it all, and none that only repeats a name.
//!
//! What needs a comment: a public constant, trait or macro, and a public function with arguments
//! beyond itself. A field, a variant, a type or a getter may do without: it is documented if there
//! is a unit, a range or a meaning to tell. A comment of up to three words, all of them in the name
//! already, goes; one in backticks names the item in another language, and stays.

use crate::mask;
use crate::problem::Problem;
use crate::workspace::SourceFile;

/// A comment of more words says something.
const WORDS_MAX: usize = 3;
/// They say nothing by themselves.
const FILLERS: &[&str] = &["a", "an", "the", "its", "of", "this", "is", "in", "to", "for"];
/// What a name can follow.
const KEYWORDS: &[&str] =
    &["async", "const", "enum", "fn", "mod", "static", "struct", "trait", "type", "unsafe"];

pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    let is_product = file.path.starts_with("crates/") && file.path.contains("/src/");
    if file.kind() != "rs" || !is_product || file.path.contains("/tests") {
        return Vec::new();
    }
    let code = mask::without_tests(&file.code());
    let code: Vec<&str> = code.lines().collect();
    let text: Vec<&str> = file.text().lines().map(str::trim).collect();
    let mut problems = Vec::new();
    for (index, line) in code.iter().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("#[") || line.starts_with("#![") {
            continue;
        }
        let comment = comment_above(&text, index);
        if comment.is_none() && needs_comment(code[index]) {
            let message = "has no documentation: say what it means, with units and ranges";
            problems.push(Problem::line(&file.path, index + 1, message));
        }
        if let Some([(only, text)]) = comment.as_deref()
            && repeats(text, name(line))
        {
            let message = format!("`{text}` repeats the name: say more, or nothing");
            problems.push(Problem::line(&file.path, only + 1, message));
        }
    }
    problems
}

/// The documentation above a line, past its attributes: indices and texts.
fn comment_above<'t>(text: &[&'t str], index: usize) -> Option<Vec<(usize, &'t str)>> {
    let mut at = index;
    let mut in_attribute = false;
    while let Some(above) = at.checked_sub(1) {
        let line = text[above];
        let closes = line.ends_with(")]") && !line.starts_with("#[");
        if !(in_attribute || closes || line.starts_with("#[")) {
            break;
        }
        in_attribute = !line.starts_with("#[");
        at = above;
    }
    let above = text[..at].iter().enumerate().rev();
    let lines: Vec<_> =
        above.map_while(|(at, line)| Some((at, line.strip_prefix("///")?.trim()))).collect();
    (!lines.is_empty()).then_some(lines)
}

/// Whether what is declared on this line has to be documented.
fn needs_comment(line: &str) -> bool {
    // A list of constants in a module of braces is described with the module.
    let is_inner = line.starts_with(' ');
    let Some(rest) = line.trim_start().strip_prefix("pub ") else { return false };
    let rest = rest.trim_start_matches("unsafe ").trim_start_matches("async ");
    if let Some(function) = rest.trim_start_matches("const ").strip_prefix("fn ") {
        let arguments = function.split_once('(').map_or("", |(_, arguments)| arguments);
        let first = arguments.split([',', ')']).next().unwrap_or("");
        let is_getter = arguments.starts_with(')')
            || (first.ends_with("self") && !arguments.starts_with(&format!("{first},")));
        return !is_getter;
    }
    !is_inner && ["const ", "static ", "trait "].iter().any(|keyword| rest.starts_with(keyword))
}

/// The name that is declared on this line.
fn name(line: &str) -> &str {
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let mut words = mask::words(line).map(|(_, word)| word);
    words.find(|word| !KEYWORDS.contains(word)).unwrap_or("")
}

/// Whether a comment has no word that the name has not.
fn repeats(comment: &str, name: &str) -> bool {
    let said = parts(comment);
    if comment.contains('`') || said.len() > WORDS_MAX {
        return false;
    }
    let named = parts(name);
    let mut said = said.iter().filter(|word| !FILLERS.contains(&word.as_str())).peekable();
    said.peek().is_some() && said.all(|word| named.contains(word))
}

/// Words in small letters, without a plural's `s`: `FlowCount`, `flow_counts` alike.
fn parts(text: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(text.len());
    let mut was_small = false;
    for character in text.chars() {
        if !character.is_alphanumeric() || (was_small && character.is_uppercase()) {
            spaced.push(' ');
        }
        was_small = character.is_lowercase();
        if character.is_alphanumeric() {
            spaced.extend(character.to_lowercase());
        }
    }
    let singular = |word: &str| match word.strip_suffix('s') {
        Some(stem) if word.len() > 3 => stem.to_owned(),
        _ => word.to_owned(),
    };
    spaced.split_whitespace().map(singular).collect()
}
