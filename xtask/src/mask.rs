//! Rust sources with comments and literals blanked, so that checks by words and braces hold.
//!
//! Not a parser: it knows only where comments, strings and characters begin and end (the Rust
//! Reference, "Tokens" and "Comments"). Lines and columns stay where they were.

use std::collections::BTreeSet;
use std::ops::Range;

/// Blanks comments and the contents of string and character literals; newlines stay.
pub(crate) fn code(source: &str) -> String {
    blanked(source, |_| true)
}

/// Blanks comments alone.
pub(crate) fn without_comments(source: &str) -> String {
    blanked(source, |first| first == '/')
}

/// Blanks the comments and literals whose first character `goes`.
fn blanked(source: &str, goes: impl Fn(char) -> bool) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut output = String::with_capacity(source.len());
    let mut index = 0;
    while index < characters.len() {
        let end = token_end(&characters, index);
        let is_code = end == index + 1 || !goes(characters[index]);
        for &character in &characters[index..end] {
            output.push(if is_code || character == '\n' { character } else { ' ' });
        }
        index = end;
    }
    output
}

/// Blanks the bodies of `#[cfg(test)]` items, in a source that `code` has blanked already.
pub(crate) fn without_tests(code: &str) -> String {
    let mut output = String::with_capacity(code.len());
    let mut from = 0;
    for range in test_items(code) {
        output.push_str(&code[from..range.start]);
        from = range.end;
        output.extend(code[range].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
    }
    output.push_str(&code[from..]);
    output
}

/// The lines (from 0) of `#[cfg(test)]` items, in a source that `code` has blanked already.
pub(crate) fn test_lines(code: &str) -> BTreeSet<usize> {
    let line = |at: usize| code[..at].matches('\n').count();
    test_items(code).into_iter().flat_map(|range| line(range.start)..=line(range.end)).collect()
}

/// Where `#[cfg(test)]` items are, their attribute included.
fn test_items(code: &str) -> Vec<Range<usize>> {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut items = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find(ATTRIBUTE) {
        let start = from + found;
        from = item_end(code, start + ATTRIBUTE.len());
        items.push(start..from);
    }
    items
}

/// Where the item that begins at or after `start` ends: after its `;`, or its last brace.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, character) in code[start..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return start + offset + 1;
                }
            }
            ';' if depth == 0 => return start + offset + 1,
            _ => {}
        }
    }
    code.len()
}

/// The words of a line of code: runs of letters, digits and `_`, with the byte they begin at.
pub(crate) fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = line.char_indices().peekable();
    std::iter::from_fn(move || {
        while rest.next_if(|(_, character)| !is_word(*character)).is_some() {}
        let (start, _) = rest.next()?;
        let mut end = line.len();
        while let Some((position, character)) = rest.peek().copied() {
            if !is_word(character) {
                end = position;
                break;
            }
            rest.next();
        }
        Some((start, &line[start..end]))
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The end of the comment or literal that begins at `index`; `index + 1` if none does.
fn token_end(source: &[char], index: usize) -> usize {
    let previous = index.checked_sub(1).and_then(|i| source.get(i)).copied();
    let within_word = previous.is_some_and(is_word);
    match (source[index], source.get(index + 1)) {
        ('/', Some('/')) => line_comment_end(source, index),
        ('/', Some('*')) => block_comment_end(source, index),
        ('"', _) => string_end(source, index + 1),
        ('\'', _) => character_end(source, index),
        ('b' | 'c', Some('"')) if !within_word => string_end(source, index + 2),
        ('b', Some('\'')) if !within_word => character_end(source, index + 1),
        ('r', Some('"' | '#')) if !within_word => raw_string_end(source, index, index + 1),
        ('b' | 'c', Some('r')) if !within_word => raw_string_end(source, index, index + 2),
        _ => index + 1,
    }
}

fn line_comment_end(source: &[char], index: usize) -> usize {
    source[index..].iter().position(|&c| c == '\n').map_or(source.len(), |length| index + length)
}

fn block_comment_end(source: &[char], index: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = index;
    while at + 1 < source.len() {
        match (source[at], source[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    source.len()
}

fn string_end(source: &[char], start: usize) -> usize {
    let mut at = start;
    while at < source.len() {
        match source[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    source.len()
}

/// A character literal, or just the quote of a lifetime or loop label.
fn character_end(source: &[char], quote: usize) -> usize {
    let escaped = source.get(quote + 1) == Some(&'\\');
    if !escaped {
        let closed = source.get(quote + 2) == Some(&'\'');
        return if closed { quote + 3 } else { quote + 1 };
    }
    let from = quote + 3;
    let length = source.iter().skip(from).position(|&c| c == '\'');
    length.map_or(source.len(), |length| from + length + 1)
}

/// `r"…"`, `r#"…"#`; a raw identifier (`r#type`) is code.
fn raw_string_end(source: &[char], index: usize, hashes_from: usize) -> usize {
    let rest = &source[hashes_from..];
    let hash_count = rest.iter().take_while(|&&c| c == '#').count();
    if rest.get(hash_count) != Some(&'"') {
        return index + 1;
    }
    let mut at = hashes_from + hash_count + 1;
    while at < source.len() {
        let closes = source[at] == '"'
            && source[at + 1..].iter().take(hash_count).filter(|&&c| c == '#').count()
                == hash_count;
        if closes {
            return at + 1 + hash_count;
        }
        at += 1;
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        assert_eq!(code("a // {x}\nb"), "a       \nb");
        assert_eq!(code("a /* { /* } */ } */ b"), "a                   b");
        assert_eq!(code(r#"f("{ \" }") ;"#), "f(        ) ;");
        assert_eq!(code("'{' '\\'' '\\u{7d}' x"), "                  x");
        assert_eq!(code(r###"r#"a "{" b"# y"###), "             y");
        assert_eq!(code(r#"b"{" c"{" b'{' br"{" z"#), "                     z");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        for source in ["fn f<'a>(x: &'a str) {}", "'outer: loop {}", "r#type + bar\"\"[0..0]"] {
            assert_eq!(
                code(source).matches(['{', '}', '\'', '#']).count(),
                source.matches(['{', '}', '\'', '#']).count(),
                "{source}"
            );
        }
    }

    #[test]
    fn unfinished_tokens_end_with_the_source() {
        for source in ["/* a", "\"a", "r#\"a\"", "'\\", "'", "b'", "\"\\"] {
            assert_eq!(code(source).chars().count(), source.chars().count(), "{source}");
        }
    }

    #[test]
    fn test_items_are_blanked() {
        let source = "use a;\n#[cfg(test)]\nmod tests {\n fn f() { g() }\n}\nfn h() {}";
        assert_eq!(without_tests(source).replace(' ', ""), "usea;\n\n\n\n\nfnh(){}");
        let declared = "#[cfg(test)]\nmod tests;\nfn h() {}";
        assert_eq!(without_tests(declared).replace(' ', ""), "\n\nfnh(){}");
    }

    #[test]
    fn words_have_positions() {
        let found: Vec<_> = words("a::b_1(é) ").collect();
        assert_eq!(found, [(0, "a"), (3, "b_1"), (7, "é")]);
    }
}
