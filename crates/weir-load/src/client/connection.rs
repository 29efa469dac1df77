//! One connection: its socket, where its request stands, and what arrives on it.
//!
//! It never decides what comes next: the worker does.

use std::io::{self, Read as _, Write as _};

use mio::net::TcpStream;
use socket2::SockRef;
use weir_http::codec::{Ending, Event, ResponseDecoder, ResponseHead};
use weir_http::figures::Failure;

use super::socket;

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of a body that are thrown away at once.
const SKIP_BYTES: usize = 1 << 20;
/// A body with at least so many bytes left is thrown away in the kernel, not copied.
const SKIP_FROM_BYTES: u64 = 16 * 1024;

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
    /// It is open and has no request.
    Idle,
    /// A request is being sent.
    Sending,
    /// A request was sent.
    Waiting,
}

/// One of a worker's connections, whether it is open or not.
#[derive(Debug, Default)]
pub(super) struct Connection {
    stream: Option<TcpStream>,
    decoder: ResponseDecoder,
    pub(super) state: State,
    /// What is known of the answer.
    head: Option<ResponseHead>,
    /// The request that was chosen.
    pub(super) request: u32,
    /// Bytes of the request that were sent.
    written: usize,
    /// Requests that were answered on it.
    pub(super) served: u32,
    /// Its request was sent again, on a new connection.
    pub(super) is_retry: bool,
    /// When its request was due, nanoseconds.
    pub(super) due_ns: u64,
    /// When that was begun; without a request, when the SYN was sent.
    pub(super) begun_ns: u64,
    /// When the SYN was sent.
    pub(super) opened_ns: u64,
}

// Of an idle connection the worker keeps this and a number in a list.
const _: () = assert!(size_of::<Connection>() + size_of::<u32>() <= 256);

/// What came of looking at a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing yet.
    Pending,
    /// The answer is complete; whether the connection can be used again.
    Answered {
        status: u16,
        keep_alive: bool,
    },
    /// The server had closed the connection before it saw the request.
    Gone,
    Failed(Failure),
}

impl Connection {
    /// Takes a new socket.
    pub(super) fn open(&mut self, stream: TcpStream, has_request: bool, now_ns: u64) {
        self.stream = Some(stream);
        self.decoder = ResponseDecoder::new();
        self.state = State::Opening { has_request };
        self.served = 0;
        self.opened_ns = now_ns;
    }

    /// Whether there is a socket.
    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Ends it; with a RST, or as it is.
    pub(super) fn close(&mut self, with_reset: bool) {
        if let Some(stream) = self.stream.take()
            && with_reset
        {
            socket::reset(&stream);
        }
        self.state = State::Closed;
    }

    /// Why it could not be established, if it could not.
    pub(super) fn refusal(&mut self) -> Option<Failure> {
        let error = self.stream.as_mut()?.take_error().ok().flatten()?;
        Some(socket::failure(&error))
    }

    /// Begins a request.
    pub(super) fn begin(&mut self, is_head_request: bool) {
        self.decoder.begin(is_head_request);
        self.written = 0;
        self.head = None;
        self.state = State::Sending;
    }

    /// Sends what is left of a request; how many bytes were sent.
    pub(super) fn send(&mut self, bytes: &[u8]) -> (u64, Outcome) {
        let Some(stream) = &mut self.stream else { return (0, Outcome::Gone) };
        let before = self.written;
        let outcome = loop {
            match stream.write(&bytes[self.written..]) {
                Ok(size) => self.written += size,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Outcome::Pending,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break broken(&error, self.served),
            }
            if self.written == bytes.len() {
                self.state = State::Waiting;
                break Outcome::Pending;
            }
        };
        ((self.written - before) as u64, outcome)
    }

    /// Reads what has arrived; how many bytes that were. With `to_end`, the other end is known to
    /// have closed its side.
    pub(super) fn receive(&mut self, buffers: &mut Buffers, to_end: bool) -> (u64, Outcome) {
        let mut received = 0;
        let Some(stream) = &mut self.stream else { return (0, Outcome::Gone) };
        loop {
            let due = self.decoder.due_bytes();
            let skips = due >= SKIP_FROM_BYTES;
            let result = if skips {
                let size = usize::try_from(due).map_or(SKIP_BYTES, |due| due.min(SKIP_BYTES));
                let room = &mut buffers.skipped.spare_capacity_mut()[..size];
                SockRef::from(&*stream).recv_with_flags(room, nix::libc::MSG_TRUNC)
            } else {
                stream.read(&mut buffers.read)
            };
            let size = match result {
                Ok(0) => return (received, ended(&mut self.decoder, self.head, self.served)),
                Ok(size) => size,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let is_fresh = received == 0 && self.head.is_none();
                    let served = if is_fresh { self.served } else { 0 };
                    return (received, broken(&error, served));
                }
            };
            received += size as u64;
            let bytes = if skips {
                self.decoder.skip(size as u64);
                &[][..]
            } else {
                &buffers.read[..size]
            };
            match decode(&mut self.decoder, &mut self.head, bytes) {
                // One more read would tell of the end, which is known.
                Outcome::Answered { status, .. } if to_end => {
                    return (received, Outcome::Answered { status, keep_alive: false });
                }
                Outcome::Pending => {}
                outcome => return (received, outcome),
            }
            // Less than there was room for: nothing is left (epoll(7)).
            if !skips && size < buffers.read.len() && !to_end {
                break;
            }
        }
        (received, Outcome::Pending)
    }
}

/// What an error of a connection means; one that has served a request may have been closed by the
/// server while it was idle.
fn broken(error: &io::Error, served: u32) -> Outcome {
    match socket::failure(error) {
        Failure::Reset if served > 0 => Outcome::Gone,
        failure => Outcome::Failed(failure),
    }
}

/// What the end of a connection means for its request.
fn ended(decoder: &mut ResponseDecoder, head: Option<ResponseHead>, served: u32) -> Outcome {
    match (decoder.end(), head) {
        (Ok(Ending::Done), Some(head)) => {
            Outcome::Answered { status: head.status, keep_alive: false }
        }
        (Ok(Ending::Idle), _) if served > 0 => Outcome::Gone,
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
                return Outcome::Answered { status: head.status, keep_alive };
            }
            Event::More => return Outcome::Pending,
        }
    }
}
