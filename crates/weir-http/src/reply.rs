//! Replies as the test server sends them: bytes of a function of their position, so that a body of
//! any size takes no memory. It never sends: [`Reply::slices`] is what a writing call is given.

use std::fmt::Write as _;

/// The body repeats this.
const FILL: u8 = b'w';
/// Bytes of a plain body that are given to one writing call.
const BLOCK_BYTES: usize = 64 * 1024;
/// The size of a chunk before its bytes, hexadecimal.
const CHUNK_SIZE: [u8; 7] = *b"10000\r\n";
const CHUNK_BYTES: usize = 0x10000;
const CHUNK_WIRE_BYTES: usize = CHUNK_SIZE.len() + CHUNK_BYTES + 2;

static BLOCK: [u8; BLOCK_BYTES] = [FILL; BLOCK_BYTES];

static CHUNK: [u8; CHUNK_WIRE_BYTES] = {
    let mut chunk = [FILL; CHUNK_WIRE_BYTES];
    let mut at = 0;
    while at < CHUNK_SIZE.len() {
        chunk[at] = CHUNK_SIZE[at];
        at += 1;
    }
    chunk[CHUNK_WIRE_BYTES - 2] = b'\r';
    chunk[CHUNK_WIRE_BYTES - 1] = b'\n';
    chunk
};

/// What the head of a reply says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead<'a> {
    pub status: u16,
    /// The value of Date: RFC 9110, section 5.6.7.
    pub date: &'a str,
    /// The value of Content-Type.
    pub content_type: &'a str,
    /// Whether the connection stays open behind the reply.
    pub keep_alive: bool,
    /// The client has to be told that it stays open.
    pub is_http_1_0: bool,
    /// It answers HEAD: the body is left out.
    pub is_head_request: bool,
}

/// A reply, and how much of it has been sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    head: String,
    /// Behind the head come so many bytes of [`BLOCK`] or [`CHUNK`], over and over again.
    middle_bytes: u64,
    is_chunked: bool,
    /// What follows them.
    tail: Vec<u8>,
    sent_bytes: u64,
    status: u16,
}

impl Reply {
    /// A reply with a body of so many bytes that mean nothing. One with chunked coding has it in
    /// chunks of 64 KiB; a client of HTTP/1.0 gets none.
    pub fn set_content(&mut self, head: &ReplyHead<'_>, size_bytes: u64, is_chunked: bool) {
        let is_chunked = is_chunked && !head.is_http_1_0;
        self.begin(head);
        if has_body(head.status) {
            if is_chunked {
                self.head.push_str("Transfer-Encoding: chunked\r\n\r\n");
            } else {
                // Writing to a string cannot fail.
                let _ = write!(self.head, "Content-Length: {size_bytes}\r\n\r\n");
            }
        } else {
            self.head.push_str("\r\n");
        }
        if head.is_head_request || !has_body(head.status) {
            return;
        }
        if is_chunked {
            let chunk_count = size_bytes / CHUNK_BYTES as u64;
            self.is_chunked = true;
            self.middle_bytes = chunk_count * CHUNK_WIRE_BYTES as u64;
            self.end_chunks(size_bytes % CHUNK_BYTES as u64);
        } else {
            self.middle_bytes = size_bytes;
        }
    }

    /// A reply with this text.
    pub fn set_text(&mut self, head: &ReplyHead<'_>, text: &str) {
        self.begin(head);
        let _ = write!(self.head, "Content-Length: {}\r\n\r\n", text.len());
        if !head.is_head_request {
            self.tail.extend_from_slice(text.as_bytes());
        }
    }

    fn begin(&mut self, head: &ReplyHead<'_>) {
        let ReplyHead { status, date, content_type, .. } = *head;
        self.head.clear();
        self.tail.clear();
        (self.middle_bytes, self.is_chunked, self.sent_bytes) = (0, false, 0);
        self.status = status;
        let reason = reason(status);
        let _ = write!(
            self.head,
            "HTTP/1.1 {status} {reason}\r\nDate: {date}\r\nContent-Type: {content_type}\r\n"
        );
        if !head.keep_alive {
            self.head.push_str("Connection: close\r\n");
        } else if head.is_http_1_0 {
            self.head.push_str("Connection: keep-alive\r\n");
        }
    }

    /// The last chunk with bytes, if there is one, and the one without.
    fn end_chunks(&mut self, size_bytes: u64) {
        if size_bytes > 0 {
            let size = usize::try_from(size_bytes).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            self.tail.extend_from_slice(format!("{size:x}\r\n").as_bytes());
            self.tail.extend_from_slice(&BLOCK[..size]);
            self.tail.extend_from_slice(b"\r\n");
        }
        self.tail.extend_from_slice(b"0\r\n\r\n");
    }

    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// What is to be sent next, in this order; all of it is empty when the reply has been sent.
    #[must_use]
    pub fn slices(&self) -> [&[u8]; 3] {
        let head = self.head.as_bytes();
        let in_head = usize::try_from(self.sent_bytes).unwrap_or(usize::MAX).min(head.len());
        let in_middle = (self.sent_bytes - in_head as u64).min(self.middle_bytes);
        let in_tail = self.sent_bytes - in_head as u64 - in_middle;
        let block: &[u8] = if self.is_chunked { &CHUNK } else { &BLOCK };
        let start = usize::try_from(in_middle % block.len() as u64).unwrap_or(0);
        let left = self.middle_bytes - in_middle;
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(block.len() - start);
        let tail = if here as u64 == left {
            &self.tail[usize::try_from(in_tail).unwrap_or(usize::MAX).min(self.tail.len())..]
        } else {
            &[]
        };
        [&head[in_head..], &block[start..start + here], tail]
    }

    /// So many bytes of them have been sent.
    pub fn advance(&mut self, sent_bytes: usize) {
        self.sent_bytes += sent_bytes as u64;
    }

    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.sent_bytes >= self.head.len() as u64 + self.middle_bytes + self.tail.len() as u64
    }
}

/// RFC 9110, sections 15.3.5 and 15.4.5.
fn has_body(status: u16) -> bool {
    !matches!(status, 204 | 304)
}

/// The words behind a status, of those that are common; nobody needs them (RFC 9112, section 4).
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Event, Framing, ResponseDecoder};

    const HEAD: ReplyHead<'_> = ReplyHead {
        status: 200,
        date: "Sun, 06 Nov 1994 08:49:37 GMT",
        content_type: "text/plain",
        keep_alive: true,
        is_http_1_0: false,
        is_head_request: false,
    };

    /// All of a reply, sent in pieces of at most `piece` bytes.
    fn sent(mut reply: Reply, piece: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !reply.is_sent() {
            let slices = reply.slices().concat();
            let size = slices.len().min(piece);
            assert!(size > 0, "nothing to send of what is not sent");
            bytes.extend_from_slice(&slices[..size]);
            reply.advance(size);
        }
        assert!(reply.slices().iter().all(|slice| slice.is_empty()));
        bytes
    }

    /// What the client's decoder makes of a reply: framing and bytes of the body.
    fn received(bytes: &[u8], is_head_request: bool) -> (u16, Framing, usize) {
        let mut decoder = ResponseDecoder::new();
        decoder.begin(is_head_request);
        let (mut at, mut body, mut head) = (0, 0, None);
        loop {
            let step = decoder.decode(&bytes[at..]).unwrap();
            at += step.used_bytes;
            match step.event {
                Event::Head(seen) => head = Some(seen),
                Event::Body(size) => {
                    assert!(bytes[at - size..at].iter().all(|&byte| byte == FILL));
                    body += size;
                }
                Event::Done => break,
                Event::More => panic!("not complete"),
            }
        }
        assert_eq!(at, bytes.len());
        let head = head.unwrap();
        (head.status, head.framing, body)
    }

    #[test]
    fn the_decoder_reads_every_size_however_it_was_sent() {
        for size in [0, 1, 128, 65_535, 65_536, 65_537, 200_000] {
            for (is_chunked, piece) in [(false, 70_000), (true, 70_000), (false, 99), (true, 99)] {
                let mut reply = Reply::default();
                reply.set_content(&HEAD, size, is_chunked);
                let (status, framing, body) = received(&sent(reply, piece), false);
                assert_eq!((status, body as u64), (200, size));
                let expected = match (is_chunked, size) {
                    (true, _) => Framing::Chunked,
                    (false, 0) => Framing::None,
                    (false, _) => Framing::Length(size),
                };
                assert_eq!(framing, expected);
            }
        }
    }

    #[test]
    fn replies_without_a_body() {
        let mut reply = Reply::default();
        for (head, length) in [
            (ReplyHead { is_head_request: true, ..HEAD }, "Content-Length: 1000\r\n"),
            (ReplyHead { status: 204, ..HEAD }, ""),
            (ReplyHead { status: 304, ..HEAD }, ""),
        ] {
            reply.set_content(&head, 1000, false);
            let bytes = sent(reply.clone(), 10);
            assert_eq!(received(&bytes, head.is_head_request), (head.status, Framing::None, 0));
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.ends_with(&format!("text/plain\r\n{length}\r\n")), "{text}");
        }
    }

    #[test]
    fn heads() {
        let text = |head: &ReplyHead<'_>| {
            let mut reply = Reply::default();
            reply.set_text(head, "hello\n");
            String::from_utf8(sent(reply, 7)).unwrap()
        };
        assert_eq!(
            text(&ReplyHead { status: 404, keep_alive: false, ..HEAD }),
            "HTTP/1.1 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/plain\r\nConnection: close\r\nContent-Length: 6\r\n\r\nhello\n"
        );
        assert!(text(&ReplyHead { is_http_1_0: true, ..HEAD }).contains("Connection: keep-alive"));
        assert!(text(&ReplyHead { status: 299, ..HEAD }).starts_with("HTTP/1.1 299 \r\n"));
        let mut reply = Reply::default();
        reply.set_content(&ReplyHead { is_http_1_0: true, ..HEAD }, 5, true);
        assert!(String::from_utf8(sent(reply, 99)).unwrap().contains("Content-Length: 5\r\n"));
    }
}
