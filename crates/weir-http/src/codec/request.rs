//! Requests, as a server reads them.

use std::mem::MaybeUninit;

use httparse::{ParserConfig, Request, Status};

use super::body::Body;
use super::fields::{Coding, Fields, Length};
use super::head::HeadBuffer;
use super::{DecodeError, Event, FIELD_COUNT_MAX, Framing, Step};

/// The methods that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
}

/// What the head of a request says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    pub method: Method,
    /// What is asked for, as the client has written it: `/path?query`, or a whole URL.
    pub target: String,
    /// Whether the client will use the connection again.
    pub keep_alive: bool,
    /// Never [`Framing::UntilClose`].
    pub framing: Framing,
    /// The client waits for an interim response with status 100 before it sends the body.
    pub expects_continue: bool,
    /// HTTP/1.0: no chunked coding in the answer, and no interim response.
    pub is_http_1_0: bool,
}

impl DecodeError {
    /// The status that a server answers a request with that it cannot read; the connection is to be
    /// closed behind it.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::HeadTooLarge => 431,
            Self::Method => 501,
            Self::Version => 505,
            _ => 400,
        }
    }
}

/// Decodes the requests of one connection, one after the other; the client may send the next one
/// before the last is answered. After an error it is of no more use.
#[derive(Debug, Default)]
pub struct RequestDecoder {
    head: HeadBuffer,
    /// The head is complete, and this is what follows.
    body: Option<Body>,
}

impl RequestDecoder {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no byte of a request has come since the last one was complete: the client may close
    /// the connection.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.body.is_none() && self.head.is_empty()
    }

    /// Takes the bytes that have arrived, and says what the first of them are. Call it again with
    /// the rest until it answers [`Event::More`]; without any bytes it may still answer
    /// [`Event::Done`].
    ///
    /// # Errors
    ///
    /// When the bytes are no request of HTTP/1.1 that a server should answer: see
    /// [`DecodeError::status`].
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Step<RequestHead>, DecodeError> {
        if let Some(body) = &mut self.body {
            let step = body.step(bytes)?;
            if step.event == Event::Done {
                self.body = None;
            }
            return Ok(step);
        }
        if bytes.is_empty() {
            return Ok(Step { used_bytes: 0, event: Event::More });
        }
        let (used_bytes, head) = self.head.feed(bytes, parse)?;
        let Some(head) = head else { return Ok(Step { used_bytes, event: Event::More }) };
        self.body = Some(Body::new(head.framing));
        Ok(Step { used_bytes, event: Event::Head(head) })
    }
}

fn parse(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, DecodeError> {
    let mut headers = [const { MaybeUninit::uninit() }; FIELD_COUNT_MAX];
    let mut request = Request::new(&mut []);
    let status = ParserConfig::default().parse_request_with_uninit_headers(
        &mut request,
        bytes,
        &mut headers,
    )?;
    let Status::Complete(size) = status else { return Ok(None) };
    let is_http_1_0 = request.version == Some(0);
    let fields = Fields::read(request.headers);
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST") => Method::Post,
        Some("PUT") => Method::Put,
        _ => return Err(DecodeError::Method),
    };
    // RFC 9112, section 3.2.
    if fields.host_count > 1 || (fields.host_count == 0 && !is_http_1_0) {
        return Err(DecodeError::Host);
    }
    let head = RequestHead {
        method,
        target: request.path.unwrap_or_default().to_owned(),
        keep_alive: fields.persists(u8::from(!is_http_1_0)),
        framing: framing(fields, is_http_1_0)?,
        expects_continue: fields.expects_continue && !is_http_1_0,
        is_http_1_0,
    };
    Ok(Some((head, size)))
}

/// RFC 9112, section 6.3, points 3 to 7. What a server and a proxy before it might understand
/// differently (section 11.2) is refused.
fn framing(fields: Fields, is_http_1_0: bool) -> Result<Framing, DecodeError> {
    match (fields.coding, fields.length) {
        (Coding::Absent, Length::Absent | Length::Bytes(0)) => Ok(Framing::None),
        (Coding::Absent, Length::Bytes(bytes)) => Ok(Framing::Length(bytes)),
        (_, Length::Invalid) => Err(DecodeError::Length),
        (Coding::Chunked, Length::Absent) if !is_http_1_0 => Ok(Framing::Chunked),
        _ => Err(DecodeError::Coding),
    }
}
