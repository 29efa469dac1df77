//! Places of the protocol: lines from 0, columns in units of UTF-16, and URIs. Rulesets have byte
//! offsets and paths.

use std::path::{Path, PathBuf};

use gen_lsp_types::{Position, Range, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use weir_rules::source::Span;

/// Bytes of a path that are written as `%XX` (RFC 3986, section 2.3 and 3.3).
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The lines of a text. A line ends with `\n`, `\r\n` or `\r`, as the protocol has it.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let is_end = |at: usize| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let ends = (0..bytes.len()).filter(|at| is_end(*at));
        Self { starts: std::iter::once(0).chain(ends.map(|at| at + 1)).collect() }
    }

    /// The place of a byte; one beyond the text is at its end, one within a character at its start.
    pub(super) fn position(&self, text: &str, at: usize) -> Position {
        let at = text.floor_char_boundary(at);
        let line = self.starts.partition_point(|start| *start <= at).saturating_sub(1);
        let before = &text[self.starts[line]..at];
        let units: usize = before.chars().map(char::len_utf16).sum();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Position { line: number(line), character: number(units) }
    }

    /// The byte at a place; a column beyond its line is at the line's end, a place within a
    /// character at its start.
    pub(super) fn offset(&self, text: &str, position: Position) -> usize {
        let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let Some(start) = self.starts.get(index(position.line)).copied() else {
            return text.len();
        };
        let end = self.starts.get(index(position.line).saturating_add(1)).copied();
        let line = text[start..end.unwrap_or(text.len())].trim_end_matches(['\r', '\n']);
        let mut left = index(position.character);
        for (at, character) in line.char_indices() {
            if left < character.len_utf16() {
                return start + at;
            }
            left -= character.len_utf16();
        }
        start + line.len()
    }

    pub(super) fn range(&self, text: &str, span: Span) -> Range {
        let at = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let (start, end) = (at(span.start), at(span.end));
        // A word that is missing at a line's end is not to be underlined on the next one.
        let words = text.get(start..end).map_or(end, |words| start + words.trim_end().len());
        Range { start: self.position(text, start), end: self.position(text, words.max(start)) }
    }
}

/// The path of a `file:` URI on this machine (RFC 8089).
pub(super) fn path(uri: &Uri) -> Option<PathBuf> {
    let rest = uri.0.strip_prefix("file://")?;
    let path = &rest[rest.find('/')?..];
    if !matches!(&rest[..rest.len() - path.len()], "" | "localhost") {
        return None;
    }
    let text = percent_decode_str(path).decode_utf8().ok()?;
    std::path::absolute(&*text).ok()
}

/// The URI of a path.
pub(super) fn uri(path: &Path) -> Uri {
    let bytes = path.as_os_str().as_encoded_bytes();
    Uri(format!("file://{}", percent_encode(bytes, ESCAPED)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_units_of_utf_16() {
        let text = "a é😀b\r\nc\rd\n\n";
        let lines = Lines::new(text);
        for (at, line, character) in [
            (0, 0, 0),
            (2, 0, 2),
            (4, 0, 3),
            (8, 0, 5),
            (9, 0, 6),
            (11, 1, 0),
            (13, 2, 0),
            (15, 3, 0),
            (16, 4, 0),
        ] {
            let place = Position { line, character };
            assert_eq!(lines.position(text, at), place, "{at}");
            assert_eq!(lines.offset(text, place), at, "{place:?}");
        }
        let at = |line, character| lines.offset(text, Position { line, character });
        assert_eq!(at(0, 4), 4, "the middle of a surrogate pair");
        assert_eq!(at(0, 99), 9, "beyond the line");
        assert_eq!(at(99, 0), text.len(), "beyond the text");
        assert_eq!(lines.position(text, 6), Position { line: 0, character: 3 });
    }

    #[test]
    fn uris_are_paths_and_back() {
        let path_of = |uri: &str| path(&Uri(uri.to_owned()));
        assert_eq!(path_of("file:///etc/pf.conf"), Some("/etc/pf.conf".into()));
        assert_eq!(path_of("file://localhost/a%20b"), Some("/a b".into()));
        assert_eq!(path_of("file://server/etc/pf.conf"), None);
        assert_eq!(path_of("untitled:Untitled-1"), None);
        let odd = Path::new("/tmp/a b/é#1.conf");
        assert_eq!(uri(odd).0, "file:///tmp/a%20b/%C3%A9%231.conf");
        assert_eq!(path(&uri(odd)).as_deref(), Some(odd));
    }
}
