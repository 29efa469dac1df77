//! The paths that a source names: `a::b::c` wherever it stands, and every leaf of a `use` tree.
//!
//! Works on sources whose comments and literals `mask` has blanked. Not a parser: a path is words
//! with `::` between them, and braces behind a `::` multiply it out (the Rust Reference, "Use
//! declarations").

/// A word, `::` or any other single character, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A path, as it is written and multiplied out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// From 1: where its first word stands.
    pub(crate) line: usize,
    /// Its words; the last one may be `*`.
    pub(crate) words: Vec<String>,
    /// The name that `as` gives it.
    pub(crate) alias: Option<String>,
}

impl Path {
    /// The path as text.
    pub(crate) fn text(&self) -> String {
        self.words.join("::")
    }

    /// The name by which a `use` of this path makes its end known.
    pub(crate) fn name(&self) -> Option<&str> {
        self.alias.as_deref().or_else(|| self.words.last().map(String::as_str))
    }
}

/// The tokens of a source.
pub(crate) fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (index, text) in code.lines().enumerate() {
        let line = index + 1;
        let mut word = String::new();
        let mut push = |text: String| tokens.push(Token { line, text });
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            if is_word_character(character) {
                word.push(character);
                continue;
            }
            if !word.is_empty() {
                push(std::mem::take(&mut word));
            }
            if character == ':' && characters.next_if_eq(&':').is_some() {
                push("::".to_owned());
            } else if !character.is_whitespace() {
                push(character.to_string());
            }
        }
        if !word.is_empty() {
            push(word);
        }
    }
    tokens
}

/// Whether a path begins at `index`: at a word that follows no other path (`::std` begins one).
pub(crate) fn begins(tokens: &[Token], index: usize) -> bool {
    let is_word_at = |index: usize| tokens.get(index).is_some_and(|token| is_word(&token.text));
    let after = index.checked_sub(1).and_then(|before| tokens.get(before));
    let goes_on = after.is_some_and(|before| before.text == "::");
    is_word_at(index) && (!goes_on || index < 2 || !is_word_at(index - 2))
}

/// The paths that begin with the word at `index`: one, or the leaves of a `use` tree.
pub(crate) fn at(tokens: &[Token], index: usize) -> Vec<Path> {
    let mut paths = Vec::new();
    if let Some(first) = tokens.get(index) {
        let prefix = vec![first.text.clone()];
        expand(tokens, index + 1, first.line, prefix, &mut paths);
    }
    paths
}

/// Collects the paths that go on at `index` with `prefix`; returns where they end.
fn expand(
    tokens: &[Token],
    mut index: usize,
    line: usize,
    prefix: Vec<String>,
    paths: &mut Vec<Path>,
) -> usize {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text.as_str());
    let follows = |index: usize| matches!(text(index), "{" | "*") || is_word(text(index));
    if text(index) != "::" || !follows(index + 1) {
        let (alias, end) = alias(tokens, index);
        paths.push(Path { line, words: prefix, alias });
        return end;
    }
    index += 1;
    if text(index) != "{" {
        let mut words = prefix;
        words.push(text(index).to_owned());
        return expand(tokens, index + 1, line, words, paths);
    }
    index += 1;
    while !matches!(text(index), "}" | "") {
        let line = tokens[index].line;
        match text(index) {
            "self" => {
                let (alias, end) = alias(tokens, index + 1);
                paths.push(Path { line, words: prefix.clone(), alias });
                index = end;
            }
            name if is_word(name) || name == "*" => {
                let mut words = prefix.clone();
                words.push(name.to_owned());
                index = expand(tokens, index + 1, line, words, paths);
            }
            _ => index += 1,
        }
    }
    index + 1
}

/// The name behind an `as` at `index`, and where the path ends.
fn alias(tokens: &[Token], index: usize) -> (Option<String>, usize) {
    match (tokens.get(index), tokens.get(index + 1)) {
        (Some(word), Some(name)) if word.text == "as" && is_word(&name.text) => {
            (Some(name.text.clone()), index + 2)
        }
        _ => (None, index),
    }
}

/// Whether a token is a word.
pub(crate) fn is_word(token: &str) -> bool {
    token.starts_with(is_word_character)
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
