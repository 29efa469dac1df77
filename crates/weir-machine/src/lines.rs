//! An output cut into lines, as it comes.
//!
//! Bytes that are no UTF-8 are replaced. A line that never ends is handed on in pieces. This module
//! never waits.

/// How long a line may be before it is handed on without its end: that with every bucket of a
/// histogram has some 100,000 bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// What of an output is not a whole line yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes a piece of the output and hands on every line that ends in it. An empty piece is the
    /// end of the output: what is left is a line then.
    pub(crate) fn take(&mut self, piece: &[u8], mut line: impl FnMut(&str)) {
        if piece.is_empty() && !self.partial.is_empty() {
            line(&text(&std::mem::take(&mut self.partial)));
        }
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend(part);
            if part.ends_with(b"\n") || self.partial.len() >= LINE_BYTES_MAX {
                line(&text(&self.partial));
                self.partial.clear();
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.take(piece, |line| found.push(line.to_owned()));
        }
        found
    }

    #[test]
    fn lines_come_whole_however_they_were_written() {
        assert_eq!(cut(&[b"a", b"b\nc\r\n\nd"]), ["ab", "c", ""]);
        assert_eq!(cut(&[b"a\nrest", b""]), ["a", "rest"]);
        assert_eq!(cut(&[b"\xff\n"]), ["\u{fffd}"]);
    }

    #[test]
    fn a_line_without_an_end_is_handed_on_in_pieces() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let found = cut(&[&long[..LINE_BYTES_MAX], b"y\n"]);
        assert_eq!(found.iter().map(String::len).collect::<Vec<_>>(), [LINE_BYTES_MAX, 1]);
    }
}
