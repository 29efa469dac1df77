//! One connection: reads requests, answers them in order, says when it is over.
//!
//! It reads no request while the answer to the last one is not sent, so that a client that sends
//! and never reads costs no memory. It knows nothing of the event loop.

use std::io::{self, IoSlice};
use std::mem;
use std::net::Shutdown;
use std::time::Duration;

use weir_http::ask::{self, Ask, Content, USAGE};
use weir_http::codec::{DecodeError, Event, Framing, Method, RequestDecoder, RequestHead};
use weir_http::reply::{Reply, ReplyHead};
use weir_http::served::Stats;

use super::shared::Shared;
use crate::tls::{Handshake, SessionError};
use crate::wire::Wire;

/// How long is read on behind the answer to a request that is none, so that the client gets it
/// before a reset (RFC 9112, section 9.6).
const DRAIN: Duration = Duration::from_secs(1);
/// Reads of one connection in a row; then it is the turn of others.
const READS_MAX: u32 = 64;
/// So many writing calls in a row; then it is the turn of others.
const WRITES_MAX: usize = 64;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    Closed(Closing),
}

/// Who ended it, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// Where a request may end.
    Client,
    Server,
    /// The client, within a request.
    Early,
    Reset,
}

/// Whether there is more to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Again,
    Wait,
    Close(Closing),
}

#[derive(Debug)]
enum Stage {
    /// TLS is being agreed on.
    Securing,
    /// Reads requests.
    Reading,
    /// The answer is due later.
    Waiting,
    /// The kernel has no room for the rest of the answer, or it is the turn of others.
    Writing(Box<Reply>),
    /// Everything was said: reads what the client still sends, and throws it away.
    Draining,
}

/// A request that is not answered yet.
#[derive(Debug)]
struct Current {
    answer: Answer,
    is_head_request: bool,
    is_http_1_0: bool,
    then: Then,
}

#[derive(Debug)]
enum Answer {
    Content(Content),
    Text {
        status: u16,
        text: String,
    },
    /// The counters, once they have come.
    Stats(Option<Box<Stats>>),
}

/// What comes behind an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Read,
    Close,
    Drain,
}

pub(super) struct Connection {
    pub(super) wire: Wire,
    key: usize,
    decoder: RequestDecoder,
    stage: Stage,
    current: Option<Current>,
    /// What follows the answer that is being written.
    then: Then,
    /// That answer is none of those that are counted.
    is_stats: bool,
    /// Bytes that came behind a request that is not answered yet.
    rest: Vec<u8>,
    /// The wait in which it can be woken.
    wait: u64,
    /// The client sends no more: there will be no event when the end can be read.
    client_is_done: bool,
    /// The event loop tells when there is room to write.
    pub(super) awaits_room: bool,
}

impl Connection {
    pub(super) fn new(wire: Wire, key: usize) -> Self {
        let stage = if wire.has_tls() { Stage::Securing } else { Stage::Reading };
        Self {
            wire,
            key,
            decoder: RequestDecoder::new(),
            stage,
            current: None,
            then: Then::Read,
            is_stats: false,
            rest: Vec::new(),
            wait: 0,
            client_is_done: false,
            awaits_room: false,
        }
    }

    /// Whether it cannot go on before there is room to write.
    pub(super) fn needs_room(&self) -> bool {
        match self.stage {
            Stage::Writing(_) => true,
            Stage::Securing => self.wire.wants_write(),
            Stage::Reading | Stage::Waiting | Stage::Draining => false,
        }
    }

    /// The client has closed its side.
    pub(super) fn set_client_done(&mut self) {
        self.client_is_done = true;
    }

    /// Does all that can be done now.
    pub(super) fn drive(&mut self, shared: &mut Shared) -> Fate {
        let mut reads = 0;
        loop {
            let turn = match self.stage {
                Stage::Securing => self.secure(shared),
                Stage::Waiting => Turn::Wait,
                Stage::Writing(_) => self.go_on_writing(shared),
                // Others have their turn. What is left is thrown away with what comes next, or when
                // its time is over.
                Stage::Draining if reads >= READS_MAX => Turn::Wait,
                Stage::Reading if reads >= READS_MAX => {
                    // The kernel may have more, so that no event would follow.
                    self.wait = shared.wake_after(Duration::ZERO, self.key);
                    Turn::Wait
                }
                Stage::Reading | Stage::Draining => {
                    reads += 1;
                    self.read(shared)
                }
            };
            match turn {
                Turn::Again => {}
                Turn::Wait => return Fate::Open,
                Turn::Close(closing) => return Fate::Closed(closing),
            }
        }
    }

    /// What it waited for in this wait has come.
    pub(super) fn wake(&mut self, wait: u64, stats: Option<Stats>, shared: &mut Shared) -> Fate {
        if wait != self.wait {
            return Fate::Open;
        }
        if let Some(Current { answer: Answer::Stats(of_all), .. }) = &mut self.current {
            *of_all = stats.map(Box::new);
        }
        match self.stage {
            Stage::Draining => return Fate::Closed(Closing::Server),
            Stage::Waiting => {
                self.stage = Stage::Reading;
                if let Turn::Close(closing) = self.reply(shared) {
                    return Fate::Closed(closing);
                }
            }
            Stage::Securing | Stage::Reading | Stage::Writing(_) => {}
        }
        self.drive(shared)
    }

    fn secure(&mut self, shared: &mut Shared) -> Turn {
        match self.wire.handshake() {
            Ok(None) => return Turn::Wait,
            Ok(Some(Handshake::Full)) => shared.counts.handshakes_full += 1,
            Ok(Some(Handshake::Resumed)) => shared.counts.handshakes_resumed += 1,
            Err(error) => {
                shared.counts.handshakes_failed += 1;
                return Turn::Close(match SessionError::of(&error) {
                    Some(SessionError::Ended) => Closing::Early,
                    Some(SessionError::Tls(_)) => Closing::Server,
                    None => Closing::Reset,
                });
            }
        }
        self.stage = Stage::Reading;
        Turn::Again
    }

    fn read(&mut self, shared: &mut Shared) -> Turn {
        if !self.rest.is_empty() {
            let rest = mem::take(&mut self.rest);
            return self.digest(&rest, shared);
        }
        let mut buffer = mem::take(&mut shared.buffer);
        let turn = match self.wire.read(&mut buffer, self.client_is_done) {
            Ok((0, _)) => Turn::Close(self.end()),
            Ok((size, is_drained)) => {
                shared.counts.received_bytes += size as u64;
                let turn = self.digest(&buffer[..size], shared);
                // There was room for more, so nothing is left; what comes later is another event.
                let is_all = is_drained && !self.client_is_done;
                let reads = matches!(self.stage, Stage::Reading | Stage::Draining);
                if turn == Turn::Again && is_all && reads { Turn::Wait } else { turn }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Turn::Wait,
                io::ErrorKind::Interrupted => Turn::Again,
                // TLS that ended without saying so; requests say how long they are.
                io::ErrorKind::UnexpectedEof => Turn::Close(self.end()),
                _ => Turn::Close(Closing::Reset),
            },
        };
        shared.buffer = buffer;
        turn
    }

    /// What the client's end of the connection means now.
    fn end(&self) -> Closing {
        match self.stage {
            Stage::Draining => Closing::Server,
            _ if self.decoder.is_idle() && self.current.is_none() => Closing::Client,
            _ => Closing::Early,
        }
    }

    /// Deals with bytes until they are used up or an answer has to wait.
    fn digest(&mut self, bytes: &[u8], shared: &mut Shared) -> Turn {
        if matches!(self.stage, Stage::Draining) {
            return Turn::Again;
        }
        let mut at = 0;
        loop {
            let step = match self.decoder.decode(&bytes[at..]) {
                Ok(step) => step,
                Err(error) => return self.refuse(error, shared),
            };
            at += step.used_bytes;
            match step.event {
                Event::More => return Turn::Again,
                Event::Body(size) => shared.counts.body_received_bytes += size as u64,
                Event::Head(head) => {
                    if let Err(closing) = self.begin(&head, shared) {
                        return Turn::Close(closing);
                    }
                }
                Event::Done => {
                    let turn = self.answer(shared);
                    if turn != Turn::Again || !matches!(self.stage, Stage::Reading) {
                        self.rest = bytes[at..].to_vec();
                        return turn;
                    }
                }
            }
        }
    }

    /// A request begins.
    fn begin(&mut self, head: &RequestHead, shared: &mut Shared) -> Result<(), Closing> {
        let answer = match ask::read(&head.target, || shared.draw()) {
            Ok(Ask::Content(content)) => Answer::Content(content),
            Ok(Ask::Usage) => Answer::Text { status: 200, text: USAGE.to_owned() },
            Ok(Ask::Stats) => Answer::Stats(None),
            Err(error) => Answer::Text { status: error.status(), text: format!("{error}\n") },
        };
        match answer {
            Answer::Stats(_) => shared.counts.stats_requests += 1,
            _ => shared.counts.requests += 1,
        }
        self.current = Some(Current {
            answer,
            is_head_request: head.method == Method::Head,
            is_http_1_0: head.is_http_1_0,
            then: if head.keep_alive { Then::Read } else { Then::Close },
        });
        if head.expects_continue && head.framing != Framing::None {
            let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
            // Nothing else is on its way, so there is room for it.
            match self.wire.write(interim) {
                Ok(size) if size == interim.len() => shared.counts.sent_bytes += size as u64,
                _ => return Err(Closing::Reset),
            }
        }
        Ok(())
    }

    /// A request is complete.
    fn answer(&mut self, shared: &mut Shared) -> Turn {
        let answer = self.current.as_ref().map(|current| &current.answer);
        self.wait = match answer {
            Some(Answer::Stats(None)) => {
                let wait = shared.new_wait();
                shared.asking.push_back((self.key, wait));
                shared.new_asks += 1;
                wait
            }
            Some(Answer::Content(content)) if !content.delay.is_zero() => {
                shared.wake_after(content.delay, self.key)
            }
            _ => return self.reply(shared),
        };
        self.stage = Stage::Waiting;
        Turn::Wait
    }

    /// Answers bytes that are no request; nothing behind them can be understood.
    fn refuse(&mut self, error: DecodeError, shared: &mut Shared) -> Turn {
        shared.counts.bad_requests += 1;
        self.current = Some(Current {
            answer: Answer::Text { status: error.status(), text: format!("{error}\n") },
            is_head_request: false,
            is_http_1_0: false,
            then: Then::Drain,
        });
        self.reply(shared)
    }

    /// Makes the answer to the current request, and sends what the kernel takes of it.
    fn reply(&mut self, shared: &mut Shared) -> Turn {
        let Some(current) = self.current.take() else { return Turn::Again };
        let mut reply = mem::take(&mut shared.reply);
        current.write(&mut reply, shared.date());
        self.then = current.then;
        self.is_stats = matches!(current.answer, Answer::Stats(_));
        match self.write(&mut reply, shared) {
            Ok(true) => {
                let status = reply.status();
                shared.reply = reply;
                self.sent(status, shared)
            }
            Ok(false) => {
                self.stage = Stage::Writing(Box::new(reply));
                Turn::Wait
            }
            Err(_) => Turn::Close(Closing::Reset),
        }
    }

    fn go_on_writing(&mut self, shared: &mut Shared) -> Turn {
        let mut reply = match mem::replace(&mut self.stage, Stage::Reading) {
            Stage::Writing(reply) => reply,
            other => {
                self.stage = other;
                return Turn::Again;
            }
        };
        match self.write(&mut reply, shared) {
            Ok(true) => self.sent(reply.status(), shared),
            Ok(false) => {
                self.stage = Stage::Writing(reply);
                Turn::Wait
            }
            Err(_) => Turn::Close(Closing::Reset),
        }
    }

    /// An answer has been sent.
    fn sent(&mut self, status: u16, shared: &mut Shared) -> Turn {
        if !self.is_stats {
            shared.counts.count_response(status);
        }
        match self.then {
            Then::Read => {
                self.stage = Stage::Reading;
                Turn::Again
            }
            Then::Close => {
                self.wire.end_tls();
                Turn::Close(Closing::Server)
            }
            Then::Drain => {
                self.wire.end_tls();
                if self.wire.stream.shutdown(Shutdown::Write).is_err() {
                    return Turn::Close(Closing::Reset);
                }
                self.rest = Vec::new();
                self.wait = shared.wake_after(DRAIN, self.key);
                self.stage = Stage::Draining;
                Turn::Again
            }
        }
    }

    /// Sends what the kernel takes; whether that is all.
    fn write(&mut self, reply: &mut Reply, shared: &mut Shared) -> io::Result<bool> {
        for _ in 0..WRITES_MAX {
            if reply.is_sent() {
                return self.wire.flush();
            }
            let slices = reply.slices().map(IoSlice::new);
            match self.wire.write_vectored(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => {
                    reply.advance(size);
                    shared.counts.sent_bytes += size as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // The kernel may have room, so that no event would follow.
        self.wait = shared.wake_after(Duration::ZERO, self.key);
        Ok(false)
    }
}

impl Current {
    fn write(&self, reply: &mut Reply, date: &str) {
        let (status, content_type) = match &self.answer {
            Answer::Content(content) => (content.status, BYTES),
            Answer::Text { status, .. } => (*status, TEXT),
            Answer::Stats(_) => (200, JSON),
        };
        let head = ReplyHead {
            status,
            date,
            content_type,
            keep_alive: self.then == Then::Read,
            is_http_1_0: self.is_http_1_0,
            is_head_request: self.is_head_request,
        };
        match &self.answer {
            Answer::Content(content) => {
                reply.set_content(&head, content.size_bytes, content.is_chunked);
            }
            Answer::Text { text, .. } => reply.set_text(&head, text),
            Answer::Stats(stats) => {
                // Numbers by name: it can always be written.
                let text = serde_json::to_string_pretty(stats).unwrap_or_default();
                reply.set_text(&head, &(text + "\n"));
            }
        }
    }
}
