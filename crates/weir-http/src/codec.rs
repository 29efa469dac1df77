//! Messages of HTTP/1.1 from bytes, without I/O.
//!
//! A decoder takes bytes as they arrive, cut anywhere, and says what they were: the head of a
//! message, part of its body, its end. Whatever the cuts, heads, bytes of the body and errors are
//! the same. Bytes of the body are told by their number, and stand at the end of those that a step
//! has used; nothing of them is copied. A head is copied only if it arrives in pieces.
//!
//! Lengths are RFC 9112's (section 6.3). It never writes a message: [`crate::request`] does.

mod body;
mod chunked;
mod fields;
mod head;
mod request;
mod response;

pub use request::{Method, RequestDecoder, RequestHead};
pub use response::{Ending, ResponseDecoder, ResponseHead};

/// Longest head of a message in bytes, from its first line to the empty one.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most header fields of a message.
pub const FIELD_COUNT_MAX: usize = 128;
/// Most bytes of chunk extensions in one body, and most bytes of trailers behind it.
pub const CHUNK_TEXT_BYTES_MAX: u32 = 16 * 1024;
/// Most interim responses (status 1xx) to one request.
pub const INTERIM_COUNT_MAX: u8 = 100;

/// What a decoder has made of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<H> {
    /// The first so many of the bytes given are dealt with: do not give them again.
    pub used_bytes: usize,
    pub event: Event<H>,
}

/// What has arrived. The events of a message are one head, any number of body parts, one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<H> {
    /// The head is complete.
    Head(H),
    /// So many bytes of the body (after chunked coding is taken off), at least one: the last ones
    /// of those used.
    Body(usize),
    /// The message is complete; the next byte begins another.
    Done,
    /// Nothing more can be said without more bytes.
    More,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// It has so many bytes.
    Length(u64),
    /// By the chunk of size 0.
    Chunked,
    /// By the end of the connection; responses only.
    UntilClose,
}

/// Bytes that are no message, or none that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The head breaks the grammar.
    #[error("the head is malformed: {0}")]
    Head(httparse::Error),
    /// Longer than [`HEAD_BYTES_MAX`], or more fields than [`FIELD_COUNT_MAX`].
    #[error(
        "the head is too large: at most {HEAD_BYTES_MAX} bytes and {FIELD_COUNT_MAX} header fields"
    )]
    HeadTooLarge,
    /// Content-Length is no number of 64 bits, or there are several that differ.
    #[error("Content-Length is not one number")]
    Length,
    /// A transfer coding where none may be: in HTTP/1.0, beside Content-Length, or not `chunked`.
    #[error("Transfer-Encoding is not understood here")]
    Coding,
    /// The coding of a chunk is broken.
    #[error("the chunked coding is malformed")]
    Chunk,
    /// Extensions or trailers longer than [`CHUNK_TEXT_BYTES_MAX`].
    #[error("chunk extensions or trailers have more than {CHUNK_TEXT_BYTES_MAX} bytes")]
    ChunkTextTooLarge,
    /// More than [`INTERIM_COUNT_MAX`] interim responses (status 1xx) before the final one.
    #[error("more than {INTERIM_COUNT_MAX} interim responses (status 1xx) before the final one")]
    TooManyInterim,
    /// The server has switched to another protocol, which nobody has asked for.
    #[error("the server has switched protocols (status 101) without being asked to")]
    Upgrade,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    #[error("the version is neither HTTP/1.0 nor HTTP/1.1")]
    Version,
    /// A request without Host, or with several.
    #[error("a request of HTTP/1.1 needs exactly one Host")]
    Host,
    /// A method other than those of [`Method`].
    #[error("the method is none of GET, HEAD, POST, PUT")]
    Method,
    /// The connection ended within a message.
    #[error("the connection ended within a message")]
    Short,
}

impl From<httparse::Error> for DecodeError {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Self::HeadTooLarge,
            httparse::Error::Version => Self::Version,
            other => Self::Head(other),
        }
    }
}
