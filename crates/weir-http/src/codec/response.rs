//! Responses, as a client reads them.

use std::mem::MaybeUninit;

use httparse::{ParserConfig, Response, Status};

use super::body::Body;
use super::fields::{Coding, Fields, Length};
use super::head::HeadBuffer;
use super::{DecodeError, Event, FIELD_COUNT_MAX, Framing, INTERIM_COUNT_MAX, Step};

/// What the head of a response says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// 200 to 999: interim responses are passed over.
    pub status: u16,
    /// Whether the connection can be used again behind the response.
    pub keep_alive: bool,
    pub framing: Framing,
}

/// What the end of a connection means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No byte of a response has come since the last one was complete: where a request is
    /// outstanding, the server has closed a connection that it held for idle.
    Idle,
    /// It ends the body of a response.
    Done,
}

/// Decodes the responses of one connection, one after the other.
///
/// Tell it with [`begin`](Self::begin) which request it has to do with, give it bytes until
/// [`Event::Done`], and tell it the end of the connection with [`end`](Self::end). After an error
/// it is of no more use.
#[derive(Debug, Default)]
pub struct ResponseDecoder {
    head: HeadBuffer,
    /// The head is complete, and this is what follows.
    body: Option<Body>,
    is_head_request: bool,
    /// Interim responses before the one that is waited for.
    interim_count: u8,
    /// A byte of the current response has come.
    has_begun: bool,
}

impl ResponseDecoder {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next response is that to a new request: with method HEAD it has no body.
    pub fn begin(&mut self, is_head_request: bool) {
        self.is_head_request = is_head_request;
        self.interim_count = 0;
        self.has_begun = false;
    }

    /// Takes the bytes that have arrived, and says what the first of them are. Call it again with
    /// the rest until it answers [`Event::More`]; without any bytes it may still answer
    /// [`Event::Done`].
    ///
    /// # Errors
    ///
    /// When the bytes are no response to a client of HTTP/1.1.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Step<ResponseHead>, DecodeError> {
        self.has_begun |= !bytes.is_empty();
        let Some(body) = &mut self.body else { return self.decode_head(bytes) };
        let step = body.step(bytes)?;
        if step.event == Event::Done {
            self.body = None;
            self.has_begun = false;
        }
        Ok(step)
    }

    fn decode_head(&mut self, bytes: &[u8]) -> Result<Step<ResponseHead>, DecodeError> {
        let mut used_bytes = 0;
        while used_bytes < bytes.len() {
            let is_head_request = self.is_head_request;
            let parse = |bytes: &[u8]| parse(bytes, is_head_request);
            let (used, head) = self.head.feed(&bytes[used_bytes..], parse)?;
            used_bytes += used;
            match head {
                Some(Parsed::Final(head)) => {
                    self.body = Some(Body::new(head.framing));
                    return Ok(Step { used_bytes, event: Event::Head(head) });
                }
                // The final one is still to come.
                Some(Parsed::Interim) if self.interim_count < INTERIM_COUNT_MAX => {
                    self.interim_count += 1;
                }
                Some(Parsed::Interim) => return Err(DecodeError::TooManyInterim),
                None => {}
            }
        }
        Ok(Step { used_bytes, event: Event::More })
    }

    /// Bytes of the body that are still to come, where its length is known and nothing else stands
    /// between them: so many may be thrown away unread ([`skip`](Self::skip)).
    #[must_use]
    pub fn due_bytes(&self) -> u64 {
        match self.body {
            Some(Body::Length(bytes)) => bytes,
            _ => 0,
        }
    }

    /// So many bytes of the body have arrived that nobody has looked at; no more than are due
    /// count. Whether the response is complete, [`decode`](Self::decode) says then.
    pub fn skip(&mut self, bytes: u64) {
        if let Some(Body::Length(left)) = &mut self.body {
            *left = left.saturating_sub(bytes);
        }
    }

    /// Whether a byte of a response has come that is not complete.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.has_begun || self.body.is_some() || !self.head.is_empty()
    }

    /// The server has closed the connection.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Short`] if that is within a response.
    pub fn end(&mut self) -> Result<Ending, DecodeError> {
        match self.body {
            Some(Body::UntilClose) => {
                self.body = None;
                Ok(Ending::Done)
            }
            _ if !self.has_begun() => Ok(Ending::Idle),
            _ => Err(DecodeError::Short),
        }
    }
}

enum Parsed {
    Interim,
    Final(ResponseHead),
}

fn parse(bytes: &[u8], is_head_request: bool) -> Result<Option<(Parsed, usize)>, DecodeError> {
    let mut headers = [const { MaybeUninit::uninit() }; FIELD_COUNT_MAX];
    let mut response = Response::new(&mut []);
    // A line that goes on with a blank is read as one (RFC 9112, section 5.2).
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let status = config.parse_response_with_uninit_headers(&mut response, bytes, &mut headers)?;
    let Status::Complete(size) = status else { return Ok(None) };
    let (code, minor_version) = (response.code.unwrap_or(0), response.version.unwrap_or(0));
    let parsed = match code {
        101 => return Err(DecodeError::Upgrade),
        100..200 => Parsed::Interim,
        200.. => {
            let fields = Fields::read(response.headers);
            let framing = if is_head_request || matches!(code, 204 | 304) {
                Framing::None
            } else {
                framing(fields, minor_version)?
            };
            // Of two lengths one is somebody's mistake: what follows may belong to neither.
            let is_ambiguous = fields.coding != Coding::Absent && fields.length != Length::Absent;
            let persists = fields.persists(minor_version) && framing != Framing::UntilClose;
            let keep_alive = persists && !is_ambiguous;
            Parsed::Final(ResponseHead { status: code, keep_alive, framing })
        }
        _ => return Err(DecodeError::Head(httparse::Error::Status)),
    };
    Ok(Some((parsed, size)))
}

/// RFC 9112, section 6.3, points 4 to 8. A transfer coding overrides a length.
fn framing(fields: Fields, minor_version: u8) -> Result<Framing, DecodeError> {
    match (fields.coding, fields.length) {
        (Coding::Absent, Length::Absent) => Ok(Framing::UntilClose),
        (Coding::Absent, Length::Bytes(0)) => Ok(Framing::None),
        (Coding::Absent, Length::Bytes(bytes)) => Ok(Framing::Length(bytes)),
        (Coding::Absent, Length::Invalid) => Err(DecodeError::Length),
        _ if minor_version == 0 => Err(DecodeError::Coding),
        (Coding::Chunked | Coding::LastChunked, _) => Ok(Framing::Chunked),
        (Coding::Other, _) => Ok(Framing::UntilClose),
    }
}
