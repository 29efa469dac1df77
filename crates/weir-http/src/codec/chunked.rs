//! The chunked transfer coding (RFC 9112, section 7.1), byte by byte.
//!
//! Extensions and trailers are passed over. It never looks at the bytes of a chunk.

use super::{CHUNK_TEXT_BYTES_MAX, DecodeError};

/// Where in the coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunked {
    place: Place,
    /// Bytes of extensions so far; of trailers, once they begin.
    text_bytes: u32,
    /// Blanks, and zeros before a digit, of the size that is being read.
    padding_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first digit of a chunk's size.
    Size,
    /// Within its digits.
    Digits(u64),
    /// In the blanks behind them.
    Blanks(u64),
    Extension(u64),
    /// Before the line feed behind a size.
    SizeFeed(u64),
    /// So many bytes of the chunk are left.
    Data(u64),
    DataReturn,
    DataFeed,
    /// At the start of a line behind the last chunk.
    Line,
    Trailer,
    TrailerFeed,
    /// Before the line feed that ends all.
    LastFeed,
    Done,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { place: Place::Size, text_bytes: 0, padding_bytes: 0 }
    }

    pub(super) fn is_done(self) -> bool {
        self.place == Place::Done
    }

    /// Goes on up to the end of one chunk's bytes: how many bytes are used, and how many of them,
    /// the last ones, are of the body.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Result<(usize, usize), DecodeError> {
        for (at, &byte) in bytes.iter().enumerate() {
            match self.place {
                Place::Done => return Ok((at, 0)),
                Place::Data(left) => {
                    let here = &bytes[at..];
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    let size = most.min(here.len());
                    let left = left - size as u64;
                    self.place = if left == 0 { Place::DataReturn } else { Place::Data(left) };
                    return Ok((at + size, size));
                }
                _ => self.place = self.next(byte)?,
            }
        }
        Ok((bytes.len(), 0))
    }

    fn next(&mut self, byte: u8) -> Result<Place, DecodeError> {
        Ok(match (self.place, byte) {
            (Place::Size, _) => {
                self.padding_bytes = 0;
                Place::Digits(with_digit(0, byte)?)
            }
            (Place::Digits(size) | Place::Blanks(size), b' ' | b'\t') => {
                count(&mut self.padding_bytes)?;
                Place::Blanks(size)
            }
            (Place::Digits(0), b'0') => {
                count(&mut self.padding_bytes)?;
                Place::Digits(0)
            }
            (Place::Digits(size) | Place::Blanks(size), b';') => Place::Extension(size),
            (Place::Digits(size) | Place::Blanks(size) | Place::Extension(size), b'\r') => {
                Place::SizeFeed(size)
            }
            (Place::Digits(size), _) => Place::Digits(with_digit(size, byte)?),
            (Place::Extension(size), byte) if byte != b'\n' => {
                count(&mut self.text_bytes)?;
                Place::Extension(size)
            }
            (Place::SizeFeed(0), b'\n') => {
                self.text_bytes = 0;
                Place::Line
            }
            (Place::SizeFeed(size), b'\n') => Place::Data(size),
            (Place::DataReturn, b'\r') => Place::DataFeed,
            (Place::DataFeed, b'\n') => Place::Size,
            (Place::Line, b'\r') => Place::LastFeed,
            (Place::Trailer, b'\r') => Place::TrailerFeed,
            (Place::Line | Place::Trailer, byte) if byte != b'\n' => {
                count(&mut self.text_bytes)?;
                Place::Trailer
            }
            (Place::TrailerFeed, b'\n') => Place::Line,
            (Place::LastFeed, b'\n') => Place::Done,
            _ => return Err(DecodeError::Chunk),
        })
    }
}

/// One more byte of what has a limit.
fn count(bytes: &mut u32) -> Result<(), DecodeError> {
    *bytes += 1;
    if *bytes > CHUNK_TEXT_BYTES_MAX { Err(DecodeError::ChunkTextTooLarge) } else { Ok(()) }
}

/// A size with one more hexadecimal digit.
fn with_digit(size: u64, byte: u8) -> Result<u64, DecodeError> {
    let digit = char::from(byte).to_digit(16).ok_or(DecodeError::Chunk)?;
    let size = size.checked_mul(16).ok_or(DecodeError::Chunk)?;
    Ok(size + u64::from(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Payload and what follows the body.
    fn decode(bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), DecodeError> {
        let (mut chunked, mut at, mut payload) = (Chunked::new(), 0, Vec::new());
        while !chunked.is_done() {
            let (used, size) = chunked.step(&bytes[at..])?;
            if used == 0 {
                return Err(DecodeError::Short);
            }
            at += used;
            payload.extend_from_slice(&bytes[at - size..at]);
        }
        Ok((payload, bytes[at..].to_vec()))
    }

    #[test]
    fn chunks_extensions_and_trailers() {
        for (text, payload, rest) in [
            ("0\r\n\r\n", "", ""),
            ("5\r\nhello\r\n0\r\n\r\nnext", "hello", "next"),
            ("00A ;x=\"y\"\r\n0123456789\r\n1\r\n!\r\n0;z\r\n\r\n", "0123456789!", ""),
            ("1\t\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\nHTTP", "x", "HTTP"),
        ] {
            let decoded = decode(text.as_bytes());
            assert_eq!(decoded, Ok((payload.into(), rest.into())), "{text:?}");
        }
    }

    #[test]
    fn what_is_malformed() {
        for text in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "5 5\r\n",
            "5\n",
            "5\rx",
            "1\r\nxy",
            "1\r\nx\rx",
            "0\r\nA\n",
            "0\r\nA\rB",
            "0\r\n\rx",
            "5;a\n",
            "10000000000000000\r\n",
        ] {
            assert_eq!(decode(text.as_bytes()), Err(DecodeError::Chunk), "{text:?}");
        }
        let long = "x".repeat(usize::try_from(CHUNK_TEXT_BYTES_MAX).unwrap());
        let text = |extension: &str| format!("0;{extension}\r\n\r\n");
        assert!(decode(text(&long).as_bytes()).is_ok());
        let error = decode(text(&(long.clone() + "x")).as_bytes());
        assert_eq!(error, Err(DecodeError::ChunkTextTooLarge));
        for more in ["0", " "] {
            let size = format!("0{}\r\n\r\n", more.repeat(long.len() + 1));
            assert_eq!(decode(size.as_bytes()), Err(DecodeError::ChunkTextTooLarge), "{more:?}");
        }
        // Servers may pad each size, however many there are.
        let padded = "1  \r\nx\r\n".repeat(long.len()) + "0\r\n\r\n";
        assert!(decode(padded.as_bytes()).is_ok());
        let trailer = format!("0\r\n{long}x\r\n\r\n");
        assert_eq!(decode(trailer.as_bytes()), Err(DecodeError::ChunkTextTooLarge));
    }
}
