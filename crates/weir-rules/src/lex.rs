//! The lexer: bytes to tokens, as pf's own does it.
//!
//! A backslash before a newline joins lines, also within a comment; before anything else, outside
//! of quotes, it is dropped. A macro's value is lexed again where it is used, once: a `$` in it
//! begins no macro, and is refused in front of a word. Words may hold almost any punctuation, so
//! `80:90`, `em0:network` and `fe80::1%em0` are one word each; `/`, `!`, `=`, `<`, `>` and brackets
//! are tokens by themselves.

mod macros;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::limits::Limits;
use crate::source::{FileId, SourceMap, SourceProvider, Span, offset};
use crate::value::Text;

pub(crate) use macros::Macros;

/// Words that begin a line only where a statement does.
const SURE_STATEMENTS: &[&str] = &[
    "pass",
    "block",
    "include",
    "anchor",
    "nat",
    "rdr",
    "binat",
    "rdr-anchor",
    "nat-anchor",
    "altq",
];

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A word without quotes, reserved or not.
    Word(Text),
    /// A string in quotes.
    Quoted(Text),
    /// A whole number.
    Number(i64),
    /// `->`
    Arrow,
    /// `><`
    Inside,
    /// `<>`
    Outside,
    /// Any other character.
    Punct(char),
    /// The end of a line that is not continued.
    Newline,
    /// The end of everything.
    End,
    /// What was here has been reported.
    Broken,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// In the file: of a macro's tokens, the use of the macro.
    pub(crate) span: Span,
    /// The macro that it comes from.
    pub(crate) origin: Option<usize>,
}

/// A file that is being read.
#[derive(Debug)]
struct Input {
    file: FileId,
    name: String,
    text: std::sync::Arc<str>,
    at: usize,
}

/// The value of a macro that is being read.
#[derive(Debug)]
struct Expansion {
    text: Text,
    at: usize,
    is_open: bool,
    span: Span,
    origin: usize,
}

/// Where the lexer stands, to come back to.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: usize,
    in_expansion: Option<usize>,
}

/// The state of the lexer.
pub(crate) struct Lexer<'a> {
    pub(crate) sources: &'a mut SourceMap,
    pub(crate) diagnostics: &'a mut Diagnostics,
    pub(crate) macros: Macros,
    provider: &'a dyn SourceProvider,
    limits: Limits,
    inputs: Vec<Input>,
    expansion: Option<Expansion>,
    words: HashSet<Text>,
    size_bytes: usize,
    macro_size_bytes: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(
        sources: &'a mut SourceMap,
        diagnostics: &'a mut Diagnostics,
        provider: &'a dyn SourceProvider,
        limits: Limits,
    ) -> Self {
        Self {
            sources,
            diagnostics,
            macros: Macros::default(),
            provider,
            limits,
            inputs: Vec::new(),
            expansion: None,
            words: HashSet::new(),
            size_bytes: 0,
            macro_size_bytes: 0,
        }
    }

    /// Goes on with these bytes; what is left of the present file comes after them.
    pub(crate) fn push_bytes(&mut self, name: &str, bytes: &[u8], span: Span) {
        self.size_bytes = self.size_bytes.saturating_add(bytes.len());
        if self.size_bytes > self.limits.source_size_bytes_max {
            let message = format!(
                "`{name}` makes the sources larger than {} bytes",
                self.limits.source_size_bytes_max
            );
            self.diagnostics.push(Diagnostic::error(Code::Limit, span, message));
            return;
        }
        let file = self.sources.add(name, bytes);
        let Some(source) = self.sources.file(file) else { return };
        let text = source.text.clone();
        self.inputs.push(Input { file, name: name.to_owned(), text, at: 0 });
    }

    /// Goes on with the file that an `include` names.
    pub(crate) fn include(&mut self, path: &str, span: Span) {
        let problem = if self.inputs.iter().any(|input| input.name == path) {
            let mut names: Vec<&str> = self.inputs.iter().map(|input| &*input.name).collect();
            names.push(path);
            let circle = names.join(" -> ");
            let message = format!("`{path}` includes itself: {circle}");
            Some(Diagnostic::error(Code::RecursiveInclude, span, message))
        } else if self.inputs.len() > self.limits.include_depth_max {
            let message =
                format!("`include` is nested deeper than {}", self.limits.include_depth_max);
            Some(Diagnostic::error(Code::Limit, span, message))
        } else if self.sources.files().len() >= self.limits.file_count_max {
            let message = format!("more than {} files are read", self.limits.file_count_max);
            Some(Diagnostic::error(Code::Limit, span, message))
        } else {
            None
        };
        if let Some(problem) = problem {
            self.diagnostics.push(problem);
            return;
        }
        let from = self.inputs.last().map_or("", |input| &input.name);
        match self.provider.read(path, from) {
            Ok(bytes) => self.push_bytes(path, &bytes, span),
            Err(cause) => {
                let message = format!("cannot read `{path}`: {cause}");
                let problem = Diagnostic::error(Code::IncludeFailed, span, message);
                let help = "give a path that exists; relative ones start at the working directory";
                self.diagnostics.push(problem.help(help));
            }
        }
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Token {
        loop {
            self.skip_blanks();
            let start = self.mark();
            let Some(byte) = self.byte() else {
                return self.end_of_file();
            };
            if byte == b'#' {
                self.skip_comment();
                continue;
            }
            if byte == b'$' && start.in_expansion.is_none() {
                if let Some(token) = self.expand(start) {
                    return token;
                }
                continue;
            }
            let kind = self.scan(byte, start);
            return self.token(kind, start);
        }
    }

    /// A file's end is a line's end too; after the last one there is nothing.
    fn end_of_file(&mut self) -> Token {
        let Some(input) = self.inputs.pop() else {
            let span = Span::default();
            return Token { kind: TokenKind::End, span, origin: None };
        };
        let end = offset(input.text.len());
        let span = Span::new(input.file, end, end);
        let kind = if self.inputs.is_empty() { TokenKind::End } else { TokenKind::Newline };
        Token { kind, span, origin: None }
    }

    fn token(&mut self, kind: TokenKind, start: Mark) -> Token {
        let file = self.inputs.last().map_or(FileId(0), |input| input.file);
        let now = self.mark();
        let (span, origin) = match (start.in_expansion, &self.expansion) {
            (Some(_), Some(expansion)) => {
                // It may go on behind the macro: `$ext_if:network`.
                let end = if now.in_expansion.is_none() { offset(now.at) } else { 0 };
                let span = expansion.span;
                (Span { end: span.end.max(end), ..span }, Some(expansion.origin))
            }
            _ => (Span::new(file, offset(start.at), offset(now.at)), None),
        };
        if origin.is_some() {
            let before = self.macro_size_bytes;
            let size = match &kind {
                TokenKind::Word(text) | TokenKind::Quoted(text) => text.len(),
                _ => 0,
            };
            self.macro_size_bytes = before.saturating_add(size + 1);
            let max = self.limits.macro_size_bytes_max;
            if self.macro_size_bytes > max {
                if before <= max {
                    let message = format!("macros expand to more than {max} bytes");
                    self.diagnostics.push(Diagnostic::error(Code::Limit, span, message));
                }
                self.inputs.clear();
                self.expansion = None;
                return Token { kind: TokenKind::End, span, origin };
            }
        }
        Token { kind, span, origin }
    }

    fn mark(&self) -> Mark {
        // Where a macro's value has ended, the next byte is the file's.
        let open = self
            .expansion
            .as_ref()
            .filter(|expansion| expansion.is_open && expansion.at < expansion.text.len());
        Mark {
            at: self.inputs.last().map_or(0, |input| input.at),
            in_expansion: open.map(|expansion| expansion.at),
        }
    }

    fn reset(&mut self, mark: Mark) {
        if let Some(input) = self.inputs.last_mut() {
            input.at = mark.at;
        }
        if let Some(expansion) = &mut self.expansion {
            expansion.is_open = mark.in_expansion.is_some();
            expansion.at = mark.in_expansion.unwrap_or(expansion.at);
        }
    }

    /// The next byte: of the macro's value, then of the file, with continued lines joined.
    fn byte(&mut self) -> Option<u8> {
        if let Some(expansion) = self.expansion.as_mut().filter(|expansion| expansion.is_open) {
            if let Some(byte) = expansion.text.as_bytes().get(expansion.at) {
                expansion.at += 1;
                return Some(*byte);
            }
            expansion.is_open = false;
        }
        let input = self.inputs.last_mut()?;
        let bytes = input.text.as_bytes();
        loop {
            match bytes.get(input.at..)? {
                [b'\\', b'\n', ..] => input.at += 2,
                [b'\\', b'\r', b'\n', ..] => input.at += 3,
                // As pfctl reads files: the byte counts as if it stood there alone.
                [b'\\', byte @ 0..=127, ..] => {
                    input.at += 2;
                    return Some(*byte);
                }
                [byte, ..] => {
                    input.at += 1;
                    return Some(*byte);
                }
                [] => return None,
            }
        }
    }

    fn peek(&mut self) -> Option<u8> {
        let mark = self.mark();
        let byte = self.byte();
        self.reset(mark);
        byte
    }

    fn skip_blanks(&mut self) {
        loop {
            let mark = self.mark();
            if !self.byte().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0x0c)) {
                self.reset(mark);
                return;
            }
        }
    }

    fn skip_comment(&mut self) {
        loop {
            let mark = self.mark();
            match self.byte() {
                Some(b'\n') => {
                    self.reset(mark);
                    return;
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    fn scan(&mut self, byte: u8, start: Mark) -> TokenKind {
        match byte {
            b'\n' => TokenKind::Newline,
            b'"' | b'\'' => self.quoted(byte, start),
            b'<' if self.eat(b'>') => TokenKind::Outside,
            b'>' if self.eat(b'<') => TokenKind::Inside,
            b'-' if self.eat(b'>') => TokenKind::Arrow,
            b'-' | b'0'..=b'9' => self.number_or_word(byte, start),
            b'$' => self.macro_of_macro(start),
            b'a'..=b'z' | b'A'..=b'Z' | b':' | b'_' => self.word(start),
            0..=127 => TokenKind::Punct(char::from(byte)),
            _ => self.foreign(start),
        }
    }

    /// A `$` in front of a word of a macro's value: pfctl has no token for it there.
    fn macro_of_macro(&mut self, start: Mark) -> TokenKind {
        let word = self.word(start);
        let TokenKind::Word(word) = &word else { return word };
        let Token { span, origin, .. } = self.token(TokenKind::Broken, start);
        let message = format!("`{word}` comes from within quotes, where no macro is expanded");
        let problem = Diagnostic::error(Code::Syntax, span, message);
        let help = "a macro of macros is written without quotes around their names, as `a = $b`, \
                    or with quotes around the rest alone, as `a = $b \", \" $c`";
        let problem = match origin.and_then(|origin| self.macros.list.get(origin)) {
            Some(definition) => {
                let name = &definition.name.value;
                problem.related(definition.value.span, format!("from the macro `{name}`"))
            }
            None => problem,
        };
        self.diagnostics.push(problem.help(help));
        TokenKind::Broken
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.byte();
        }
        found
    }

    /// A character beyond ASCII, whole.
    fn foreign(&mut self, start: Mark) -> TokenKind {
        let text = match (start.in_expansion, &self.expansion, self.inputs.last()) {
            (Some(at), Some(expansion), _) => expansion.text.get(at..),
            (_, _, Some(input)) => input.text.get(start.at..),
            _ => None,
        };
        let Some(character) = text.and_then(|text| text.chars().next()) else {
            return TokenKind::Punct(char::REPLACEMENT_CHARACTER);
        };
        for _ in 1..character.len_utf8() {
            self.byte();
        }
        TokenKind::Punct(character)
    }

    fn number_or_word(&mut self, first: u8, start: Mark) -> TokenKind {
        let mut digits = String::from(char::from(first));
        while let Some(byte) = self.peek().filter(u8::is_ascii_digit) {
            self.byte();
            digits.push(char::from(byte));
        }
        let ends = self.peek().is_none_or(|byte| {
            byte.is_ascii_whitespace() || matches!(byte, b')' | b',' | b'/' | b'}' | b'=' | 0x0c)
        });
        if ends
            && digits != "-"
            && let Ok(number) = digits.parse()
        {
            return TokenKind::Number(number);
        }
        if first == b'-' {
            self.reset(start);
            self.byte();
            return TokenKind::Punct('-');
        }
        self.word(start)
    }

    fn word(&mut self, start: Mark) -> TokenKind {
        self.reset(start);
        let mut bytes = Vec::new();
        while let Some(byte) = self.peek().filter(|byte| is_in_word(*byte)) {
            self.byte();
            bytes.push(byte);
        }
        if bytes.len() > self.limits.word_size_bytes_max {
            return self.too_long(start);
        }
        let text = String::from_utf8_lossy(&bytes);
        if text.ends_with('\\') {
            let span = self.token(TokenKind::Broken, start).span;
            let message = format!("`{text}` ends in a backslash");
            let problem = Diagnostic::error(Code::Syntax, span, message);
            let help = "a backslash joins lines only at the very end of a line, and a name cannot \
                        end in one";
            self.diagnostics.push(problem.help(help));
            return TokenKind::Broken;
        }
        TokenKind::Word(self.intern(&text))
    }

    fn quoted(&mut self, quote: u8, start: Mark) -> TokenKind {
        let mut bytes = Vec::new();
        let mut count = 0;
        loop {
            let Some(byte) = self.quoted_byte() else {
                return self.unclosed(start, quote);
            };
            count += 1;
            match byte {
                b'\n' if self.at_new_statement() => return self.unclosed(start, quote),
                b'\n' => {}
                b'\\' => match self.peek_quoted() {
                    Some(next) if next == quote || matches!(next, b' ' | b'\t') => {
                        self.quoted_byte();
                        bytes.push(next);
                    }
                    Some(b'\n') => {
                        self.quoted_byte();
                    }
                    _ => bytes.push(byte),
                },
                byte if byte == quote => break,
                byte => bytes.push(byte),
            }
            let max = self.limits.word_size_bytes_max;
            if bytes.len() > max || count > max.saturating_mul(2) {
                return self.too_long(start);
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        TokenKind::Quoted(self.intern(&text))
    }

    /// Reports a string without an end, and goes on after the line in which it begins: a string may
    /// hold newlines, so that the rest of the file would be its text.
    fn unclosed(&mut self, start: Mark, quote: u8) -> TokenKind {
        let mut span = self.token(TokenKind::Broken, start).span;
        if start.in_expansion.is_none() {
            self.end_of_line(start);
            span.end = offset(self.mark().at).max(span.start + 1);
        }
        let quote = char::from(quote);
        let message = "the string has no closing quote";
        let problem = Diagnostic::error(Code::UnterminatedString, span, message)
            .label("it begins here")
            .help(format!("close it with `{quote}`; the rest of its line was not read"));
        self.diagnostics.push(problem);
        TokenKind::Broken
    }

    /// To the newline, or to the end of the file, after the place where a token began.
    fn end_of_line(&mut self, start: Mark) {
        if let Some(input) = self.inputs.last_mut() {
            let rest = input.text.get(start.at..).unwrap_or("");
            input.at = start.at + rest.find('\n').unwrap_or(rest.len());
        }
    }

    /// Whether the file goes on with a line that can only be a statement. Lines that could belong
    /// to a string as well (`queue`, `no state`, `set`) do not count.
    fn at_new_statement(&self) -> bool {
        let Some(input) = self.inputs.last() else { return false };
        let rest = input.text.get(input.at..).unwrap_or("");
        let line = rest.split('\n').next().unwrap_or("").trim_start();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let (word, rest) = line.split_at(line.find(|c| !is_name(c)).unwrap_or(line.len()));
        let rest = rest.trim_start();
        let is_macro = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && rest.starts_with('=');
        is_macro
            || SURE_STATEMENTS.contains(&word)
            || (word == "table" && rest.starts_with('<'))
            || (word == "antispoof" && !rest.is_empty())
    }

    /// A byte within quotes, where lines are not joined by the reader below, and where a macro's
    /// value ends the string.
    fn quoted_byte(&mut self) -> Option<u8> {
        if let Some(expansion) = self.expansion.as_mut().filter(|expansion| expansion.is_open) {
            let byte = *expansion.text.as_bytes().get(expansion.at)?;
            expansion.at += 1;
            return Some(byte);
        }
        let input = self.inputs.last_mut()?;
        let byte = *input.text.as_bytes().get(input.at)?;
        input.at += 1;
        Some(byte)
    }

    fn peek_quoted(&mut self) -> Option<u8> {
        let mark = self.mark();
        let byte = self.quoted_byte();
        self.reset(mark);
        byte
    }

    fn too_long(&mut self, start: Mark) -> TokenKind {
        let mut span = self.token(TokenKind::Broken, start).span;
        if start.in_expansion.is_none() {
            self.end_of_line(start);
            span.end = offset(self.mark().at).max(span.start + 1);
        }
        let message = format!("the word is longer than {} bytes", self.limits.word_size_bytes_max);
        self.diagnostics.push(Diagnostic::error(Code::Limit, span, message));
        TokenKind::Broken
    }

    /// Shares equal words.
    pub(crate) fn intern(&mut self, text: &str) -> Text {
        if let Some(word) = self.words.get(text) {
            return word.clone();
        }
        let name: Text = text.into();
        self.words.insert(name.clone());
        name
    }

    /// Replaces `$name`; a token comes back if there is nothing to replace it by.
    fn expand(&mut self, start: Mark) -> Option<Token> {
        let mut name = String::new();
        while let Some(byte) =
            self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        {
            self.byte();
            name.push(char::from(byte));
        }
        let span = self.token(TokenKind::Broken, start).span;
        let broken = Some(Token { kind: TokenKind::Broken, span, origin: None });
        if name.is_empty() {
            let message = "`$` is not followed by a macro's name";
            self.diagnostics.push(Diagnostic::error(Code::Syntax, span, message));
            return broken;
        }
        match self.macros.used(&name, span) {
            Ok((origin, text)) => {
                self.expansion = Some(Expansion { text, at: 0, is_open: true, span, origin });
                None
            }
            Err(problem) => {
                if let Some(problem) = problem {
                    self.diagnostics.push(*problem);
                }
                broken
            }
        }
    }
}

/// Characters that a word may hold after its first.
fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || (byte.is_ascii_punctuation()
            && !matches!(
                byte,
                b'(' | b')' | b'{' | b'}' | b'<' | b'>' | b'!' | b'=' | b'/' | b'#' | b','
            ))
}
