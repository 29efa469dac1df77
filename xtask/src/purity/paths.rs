//! Finds the paths of a source that reach outside: `std::fs`, and `use std::{fs, …}` alike.

/// Paths that a pure crate must not name, with everything below them.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::time::UNIX_EPOCH",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
];

/// A wildcard import of these would bring an impure name in unseen.
const NO_WILDCARD: &[&str] = &["std", "std::time", "std::net"];

/// Lines (from 1) and impure paths in a source whose comments and literals are blanked.
pub(super) fn impure(code: &str) -> Vec<(usize, String)> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    for (index, (line, token)) in tokens.iter().enumerate() {
        let after_path = index > 0 && tokens[index - 1].1 == "::";
        let absolute = after_path && (index < 2 || !is_word(&tokens[index - 2].1));
        if token != "std" || (after_path && !absolute) {
            continue;
        }
        let mut paths = Vec::new();
        expand(&tokens, index + 1, "std", &mut paths);
        found.extend(paths.into_iter().filter(|path| is_impure(path)).map(|path| (*line, path)));
    }
    found
}

fn is_impure(path: &str) -> bool {
    let below = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let wildcard = path.strip_suffix("::*").is_some_and(|root| NO_WILDCARD.contains(&root));
    wildcard || IMPURE.iter().any(|root| below(root))
}

/// Collects the full paths of the use tree that goes on at `index`; returns where it ends.
fn expand(
    tokens: &[(usize, String)],
    mut index: usize,
    prefix: &str,
    paths: &mut Vec<String>,
) -> usize {
    let text = |index: usize| tokens.get(index).map_or("", |(_, token)| token.as_str());
    if text(index) != "::" {
        paths.push(prefix.to_owned());
        return index;
    }
    index += 1;
    if text(index) == "{" {
        index += 1;
        while !matches!(text(index), "}" | "") {
            match text(index) {
                "self" => {
                    paths.push(prefix.to_owned());
                    index += 1;
                }
                "," => index += 1,
                "as" => index += 2,
                name => {
                    let next = format!("{prefix}::{name}");
                    index = expand(tokens, index + 1, &next, paths);
                }
            }
        }
        return index + 1;
    }
    let next = format!("{prefix}::{}", text(index));
    expand(tokens, index + 1, &next, paths)
}

/// Words, `::` and single other characters, with their lines.
fn tokens(code: &str) -> Vec<(usize, String)> {
    let mut tokens: Vec<(usize, String)> = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut word = String::new();
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            if character.is_alphanumeric() || character == '_' {
                word.push(character);
                continue;
            }
            if !word.is_empty() {
                tokens.push((index + 1, std::mem::take(&mut word)));
            }
            if character == ':' && characters.next_if_eq(&':').is_some() {
                tokens.push((index + 1, "::".to_owned()));
            } else if !character.is_whitespace() {
                tokens.push((index + 1, character.to_string()));
            }
        }
        if !word.is_empty() {
            tokens.push((index + 1, word));
        }
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}
