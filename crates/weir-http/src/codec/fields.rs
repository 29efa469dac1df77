//! What the header fields of a message say about its body and its connection (RFC 9110, RFC 9112).
//!
//! It reads the few that matter here, and never judges whether they may stand together.

use httparse::Header;

/// What stands in the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) length: Length,
    pub(super) coding: Coding,
    /// `Connection: close`.
    pub(super) closes: bool,
    /// `Connection: keep-alive`.
    pub(super) keeps_alive: bool,
    /// `Expect: 100-continue`.
    pub(super) expects_continue: bool,
    pub(super) host_count: usize,
}

/// Content-Length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Absent,
    Bytes(u64),
    /// No number, too large, or several that differ.
    Invalid,
}

/// Transfer-Encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Absent,
    /// `chunked` and nothing else.
    Chunked,
    /// `chunked` behind others.
    LastChunked,
    /// Others only, or `chunked` before one of them; or a field without any.
    Other,
}

impl Fields {
    pub(super) fn read(headers: &[Header<'_>]) -> Self {
        let mut fields = Self {
            length: Length::Absent,
            coding: Coding::Absent,
            closes: false,
            keeps_alive: false,
            expects_continue: false,
            host_count: 0,
        };
        for header in headers {
            fields.add(header.name, header.value);
        }
        fields
    }

    fn add(&mut self, name: &str, value: &[u8]) {
        // By length first: most fields are none of these.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => self.host_count += 1,
            6 if name.eq_ignore_ascii_case("expect") => {
                self.expects_continue |= value.trim_ascii().eq_ignore_ascii_case(b"100-continue");
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in items(value) {
                    self.closes |= option.eq_ignore_ascii_case(b"close");
                    self.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                // It is no list: an empty part is no number (RFC 9112, section 6.3).
                for item in parts(value) {
                    self.length = self.length.and(item);
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                let mut codings = items(value).peekable();
                if codings.peek().is_none() {
                    self.coding = Coding::Other;
                }
                for coding in codings {
                    self.coding = self.coding.and(coding);
                }
            }
            _ => {}
        }
    }

    /// Whether the connection is to stay open behind the message (RFC 9112, section 9.3).
    pub(super) fn persists(self, minor_version: u8) -> bool {
        !self.closes && (minor_version >= 1 || self.keeps_alive)
    }
}

impl Length {
    /// With one more number.
    fn and(self, text: &[u8]) -> Self {
        match (self, number(text)) {
            (Self::Absent, Some(bytes)) => Self::Bytes(bytes),
            (Self::Bytes(bytes), Some(again)) if bytes == again => self,
            _ => Self::Invalid,
        }
    }
}

impl Coding {
    /// With one more coding on top.
    fn and(self, coding: &[u8]) -> Self {
        match (self, coding.eq_ignore_ascii_case(b"chunked")) {
            (Self::Absent, true) => Self::Chunked,
            (_, true) => Self::LastChunked,
            (_, false) => Self::Other,
        }
    }
}

/// The items of a list; those that are empty mean nothing (RFC 9110, section 5.6.1.2).
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    parts(value).filter(|item| !item.is_empty())
}

/// What stands between the commas.
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Fields {
        let headers: Vec<Header<'_>> =
            headers.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        Fields::read(&headers)
    }

    #[test]
    fn lengths() {
        for (values, length) in [
            (&["5"][..], Length::Bytes(5)),
            (&["5", "5"], Length::Bytes(5)),
            (&["5, 5"], Length::Bytes(5)),
            (&["18446744073709551615"], Length::Bytes(u64::MAX)),
            (&["18446744073709551616"], Length::Invalid),
            (&["5", "6"], Length::Invalid),
            (&["5, 6"], Length::Invalid),
            (&[""], Length::Invalid),
            (&["+5"], Length::Invalid),
            (&["5x"], Length::Invalid),
            (&["5,"], Length::Invalid),
            (&["x", "5"], Length::Invalid),
            (&[], Length::Absent),
        ] {
            let headers: Vec<_> = values.iter().map(|value| ("content-LENGTH", *value)).collect();
            assert_eq!(read(&headers).length, length, "{values:?}");
        }
    }

    #[test]
    fn codings() {
        for (values, coding) in [
            (&["chunked"][..], Coding::Chunked),
            (&[" Chunked "], Coding::Chunked),
            (&["chunked,"], Coding::Chunked),
            (&[", ,chunked"], Coding::Chunked),
            (&["", "chunked"], Coding::LastChunked),
            (&["gzip,, chunked ,"], Coding::LastChunked),
            (&[","], Coding::Other),
            (&["gzip, chunked"], Coding::LastChunked),
            (&["gzip", "chunked"], Coding::LastChunked),
            (&["chunked, chunked"], Coding::LastChunked),
            (&["chunked, gzip"], Coding::Other),
            (&["gzip"], Coding::Other),
            (&[], Coding::Absent),
        ] {
            let name = "Transfer-Encoding";
            let headers: Vec<_> = values.iter().map(|value| (name, *value)).collect();
            assert_eq!(read(&headers).coding, coding, "{values:?}");
        }
    }

    #[test]
    fn connections() {
        let persists = |value: &str, minor| read(&[("Connection", value)]).persists(minor);
        assert!(persists("x", 1) && !persists("x", 0));
        assert!(persists("Keep-Alive", 0) && !persists("TE, close", 1));
        assert!(!persists("keep-alive, close", 1));
        assert!(!persists(", close,", 1) && persists(",keep-alive", 0));
    }
}
