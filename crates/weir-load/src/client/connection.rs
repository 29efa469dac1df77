//! One connection: its socket, where its request stands, and what arrives on it.
//!
//! It never decides what comes next: the worker does.

use std::io;

use mio::net::TcpStream;
use socket2::SockRef;
use weir_http::codec::{Ending, Event, ResponseDecoder, ResponseHead};
use weir_http::figures::Failure;

use super::socket;
use crate::tls::Handshake;
use crate::wire::Wire;

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of a body that are thrown away at once.
const SKIP_BYTES: usize = 1 << 20;
/// A body with at least so many bytes left is thrown away in the kernel, not copied.
const SKIP_FROM_BYTES: u64 = 16 * 1024;

/// Reads of one connection in a row; then it is the turn of others.
const READS_MAX: u32 = 64;

/// Memory that all connections of a worker share.
pub(super) struct Buffers {
    read: Vec<u8>,
    /// Nothing is ever written to its room, so that it takes no memory: the kernel is told its size
    /// alone.
    skipped: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { read: vec![0; READ_BYTES], skipped: Vec::with_capacity(SKIP_BYTES) }
    }
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// There is none.
    #[default]
    Closed,
    /// A SYN was sent; whether a request waits for it.
    Opening { has_request: bool },
    /// It is open, and TLS is being agreed on.
    Securing { has_request: bool },
    /// It is open and has no request.
    Idle,
    /// Its last request was answered, and the server has yet to close it.
    Closing,
    /// A request is being sent.
    Sending,
    /// A request was sent.
    Waiting,
}

/// One of a worker's connections, whether it is open or not.
#[derive(Default)]
pub(super) struct Connection {
    wire: Option<Wire>,
    decoder: ResponseDecoder,
    pub(super) state: State,
    /// The head of the answer, once it is complete.
    head: Option<ResponseHead>,
    /// The request that was chosen.
    pub(super) request: u32,
    /// Bytes of the request that were sent.
    written: usize,
    /// Requests that were answered on it.
    pub(super) served: u32,
    /// It was open before its request was begun, so that the server may have closed it meanwhile.
    pub(super) was_idle: bool,
    /// It is among those on which there may be more to read.
    pub(super) is_unread: bool,
    /// Its request was sent again, on a new connection.
    pub(super) is_retry: bool,
    /// When its request was due, nanoseconds.
    pub(super) due_ns: u64,
    /// When that was begun; without a request, when the SYN was sent.
    pub(super) begun_ns: u64,
    /// When the SYN was sent.
    pub(super) opened_ns: u64,
    /// When TLS was begun.
    pub(super) secured_ns: u64,
}

// Of an idle connection without TLS the worker keeps this and a number in a list.
const _: () = assert!(size_of::<Connection>() + size_of::<u32>() <= 256);

/// What came of looking at a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing yet.
    Pending,
    /// Nothing yet, and there may be more to read, for which no event will come.
    More,
    /// The answer is complete: whether the connection can be used again, and whether the server
    /// has closed its side.
    Answered {
        status: u16,
        keep_alive: bool,
        is_closed: bool,
    },
    /// The server had closed the connection before it saw the request.
    Gone,
    Failed(Failure),
}

impl Connection {
    /// Takes a new socket.
    pub(super) fn open(&mut self, wire: Wire, has_request: bool, now_ns: u64) {
        self.wire = Some(wire);
        self.decoder = ResponseDecoder::new();
        self.state = State::Opening { has_request };
        self.served = 0;
        self.opened_ns = now_ns;
    }

    /// Whether there is a socket.
    pub(super) fn is_open(&self) -> bool {
        self.wire.is_some()
    }

    /// Ends it; with a RST, or as it is.
    pub(super) fn close(&mut self, with_reset: bool) {
        if let Some(mut wire) = self.wire.take() {
            if with_reset {
                socket::reset(&wire.stream);
            } else {
                wire.end_tls();
            }
        }
        self.state = State::Closed;
    }

    /// Why it could not be established, if it could not.
    pub(super) fn refusal(&mut self) -> Option<Failure> {
        let error = self.wire.as_mut()?.stream.take_error().ok().flatten()?;
        Some(socket::failure(&error))
    }

    /// The connection is established; whether TLS has to be agreed on first.
    pub(super) fn begin_securing(&mut self, has_request: bool, now_ns: u64) -> bool {
        let has_tls = self.wire.as_ref().is_some_and(Wire::has_tls);
        if has_tls {
            self.state = State::Securing { has_request };
            self.secured_ns = now_ns;
        }
        has_tls
    }

    /// Goes on to agree on TLS; how that was done, once it is.
    pub(super) fn secure(&mut self) -> io::Result<Option<Handshake>> {
        let Some(wire) = &mut self.wire else { return Ok(None) };
        wire.handshake()
    }

    /// Why TLS failed, if it did.
    pub(super) fn tls_failure(&self) -> Option<String> {
        Some(self.wire.as_ref()?.tls_failure()?.to_string())
    }

    /// Begins a request.
    pub(super) fn begin(&mut self, is_head_request: bool) {
        self.decoder.begin(is_head_request);
        self.written = 0;
        self.head = None;
        self.state = State::Sending;
    }

    /// Whether its end may mean that the server has closed it before it saw the request.
    fn may_be_gone(&self) -> bool {
        self.was_idle && !self.decoder.has_begun()
    }

    /// Sends what is left of a request; how many bytes were sent.
    pub(super) fn send(&mut self, bytes: &[u8]) -> (u64, Outcome) {
        let may_be_gone = self.may_be_gone();
        let Some(wire) = &mut self.wire else { return (0, Outcome::Gone) };
        let before = self.written;
        let outcome = loop {
            if self.written == bytes.len() {
                match wire.flush() {
                    Ok(true) => self.state = State::Waiting,
                    Ok(false) => {}
                    Err(error) => break broken(&error, may_be_gone),
                }
                break Outcome::Pending;
            }
            match wire.write(&bytes[self.written..]) {
                Ok(size) => self.written += size,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Outcome::Pending,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break broken(&error, may_be_gone),
            }
        };
        ((self.written - before) as u64, outcome)
    }

    /// Reads what has arrived; how many bytes that were. With `to_end`, the other end is known to
    /// have closed its side.
    pub(super) fn receive(&mut self, buffers: &mut Buffers, to_end: bool) -> (u64, Outcome) {
        let mut received = 0;
        let mut reads = 0;
        loop {
            // What is left once the other end has closed its side has an end.
            if reads == READS_MAX && !to_end {
                return (received, Outcome::More);
            }
            reads += 1;
            let may_be_gone = self.may_be_gone();
            let Some(wire) = &mut self.wire else { return (received, Outcome::Gone) };
            let due = self.decoder.due_bytes();
            // The kernel cannot throw away what has to be decrypted.
            let skips = due >= SKIP_FROM_BYTES && !wire.has_tls();
            let result = if skips {
                skip(&wire.stream, due, buffers).map(|size| (size, false))
            } else {
                wire.read(&mut buffers.read, to_end)
            };
            let (size, is_drained) = match result {
                Ok((0, _)) => return (received, ended(&mut self.decoder, self.head, may_be_gone)),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return (received, truncated(&mut self.decoder, may_be_gone));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return (received, broken(&error, may_be_gone)),
            };
            received += size as u64;
            let bytes = if skips {
                self.decoder.skip(size as u64);
                &[][..]
            } else {
                &buffers.read[..size]
            };
            match decode(&mut self.decoder, &mut self.head, bytes) {
                Outcome::Answered { status, keep_alive, .. } => {
                    // What stands behind it, nobody has asked for; the end of the connection may.
                    let more = keep_alive && !to_end && !is_drained;
                    let (extra, is_over) = if more { leftover(wire, buffers) } else { (0, to_end) };
                    let keep_alive = keep_alive && !is_over;
                    let is_closed = is_over && extra == 0;
                    let answered = Outcome::Answered { status, keep_alive, is_closed };
                    return (received + extra, answered);
                }
                Outcome::Pending => {}
                outcome => return (received, outcome),
            }
            // Less than there was room for: nothing is left (epoll(7)).
            if is_drained && !to_end {
                break;
            }
        }
        (received, Outcome::Pending)
    }
}

/// Throws bytes of a body away, of which so many are due; how many there were.
fn skip(stream: &TcpStream, due: u64, buffers: &mut Buffers) -> io::Result<usize> {
    let size = usize::try_from(due).map_or(SKIP_BYTES, |due| due.min(SKIP_BYTES));
    let room = &mut buffers.skipped.spare_capacity_mut()[..size];
    SockRef::from(stream).recv_with_flags(room, nix::libc::MSG_TRUNC)
}

/// Bytes that stand behind an answer, and whether the connection is of no more use.
fn leftover(wire: &mut Wire, buffers: &mut Buffers) -> (u64, bool) {
    match wire.read(&mut buffers.read, false) {
        Ok((size, _)) => (size as u64, true),
        Err(error) => (0, error.kind() != io::ErrorKind::WouldBlock),
    }
}

/// What an error of a connection means, which the server may have closed while it was idle.
fn broken(error: &io::Error, may_be_gone: bool) -> Outcome {
    match socket::failure(error) {
        Failure::Reset if may_be_gone => Outcome::Gone,
        failure => Outcome::Failed(failure),
    }
}

/// What the end of a connection means for its request.
fn ended(decoder: &mut ResponseDecoder, head: Option<ResponseHead>, may_be_gone: bool) -> Outcome {
    match (decoder.end(), head) {
        (Ok(Ending::Done), Some(head)) => {
            Outcome::Answered { status: head.status, keep_alive: false, is_closed: true }
        }
        (Ok(Ending::Idle), _) if may_be_gone => Outcome::Gone,
        _ => Outcome::Failed(Failure::Short),
    }
}

/// The same of one with TLS that ended without saying so: somebody else may have ended it, so that
/// a body without a length is not whole (RFC 9112 section 9.8).
fn truncated(decoder: &mut ResponseDecoder, may_be_gone: bool) -> Outcome {
    match decoder.end() {
        Ok(Ending::Idle) if may_be_gone => Outcome::Gone,
        _ => Outcome::Failed(Failure::Short),
    }
}

fn decode(decoder: &mut ResponseDecoder, head: &mut Option<ResponseHead>, bytes: &[u8]) -> Outcome {
    let mut rest = bytes;
    loop {
        let Ok(step) = decoder.decode(rest) else { return Outcome::Failed(Failure::Protocol) };
        rest = &rest[step.used_bytes..];
        match step.event {
            Event::Head(found) => *head = Some(found),
            Event::Body(_) => {}
            Event::Done => {
                let Some(head) = *head else { return Outcome::Failed(Failure::Protocol) };
                // Bytes that nobody has asked for may stand behind it.
                let keep_alive = head.keep_alive && rest.is_empty();
                return Outcome::Answered { status: head.status, keep_alive, is_closed: false };
            }
            Event::More => return Outcome::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n";

    /// A connection with a request, and the server's end of it.
    fn pair() -> (Connection, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut connection = Connection::default();
        connection.open(Wire::new(TcpStream::from_std(stream), None), true, 0);
        connection.begin(false);
        (connection, listener.accept().unwrap().0)
    }

    /// Reads until something came of it.
    fn outcome(connection: &mut Connection) -> (u64, Outcome) {
        let (mut buffers, mut all) = (Buffers::default(), 0);
        loop {
            let (bytes, outcome) = connection.receive(&mut buffers, false);
            all += bytes;
            if !matches!(outcome, Outcome::Pending | Outcome::More) {
                return (all, outcome);
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn bytes_behind_a_body_that_is_not_copied_end_the_connection() {
        for (extra, keep_alive) in [("", true), ("HTTP/1.1 200 OK\r\n", false)] {
            let (mut connection, mut server) = pair();
            server.write_all(HEAD.as_bytes()).unwrap();
            let mut buffers = Buffers::default();
            while connection.head.is_none() {
                let (_, found) = connection.receive(&mut buffers, false);
                assert_eq!(found, Outcome::Pending);
            }
            let text = ["x".repeat(20_000).as_str(), extra].concat();
            server.write_all(text.as_bytes()).unwrap();
            // All of it is here before the first byte is read.
            let mut room = vec![std::mem::MaybeUninit::uninit(); text.len()];
            let stream = &connection.wire.as_ref().unwrap().stream;
            while SockRef::from(stream).peek(&mut room).unwrap_or(0) < text.len() {
                std::thread::yield_now();
            }
            let (bytes, found) = outcome(&mut connection);
            let answered = Outcome::Answered { status: 200, keep_alive, is_closed: false };
            assert_eq!(found, answered);
            assert_eq!(bytes, text.len() as u64);
        }
    }

    #[test]
    fn a_reset_within_a_head_is_no_connection_that_was_idle() {
        for (text, expected) in
            [("", Outcome::Gone), ("HTTP/1.1 200", Outcome::Failed(Failure::Reset))]
        {
            let (mut connection, mut server) = pair();
            connection.was_idle = true;
            server.write_all(text.as_bytes()).unwrap();
            let mut buffers = Buffers::default();
            while !text.is_empty() && connection.receive(&mut buffers, false).0 == 0 {
                std::thread::yield_now();
            }
            SockRef::from(&server).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            drop(server);
            assert_eq!(outcome(&mut connection).1, expected, "{text:?}");
        }
    }
}
