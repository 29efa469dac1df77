//! A worker of the client: one process, one event loop, its part of the connections.
//!
//! It opens its connections, says so, waits until it is told to begin, sends what is due, and says
//! what it has measured. Times at which requests are due never move: a request that finds no free
//! connection waits, and the wait is part of its latency.

mod queues;
mod still;

use std::io;
use std::os::fd::AsRawFd as _;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use weir_http::figures::{Failure, Figures, Times};
use weir_http::pacing::{Draws, Pace, Schedule, unit};
use weir_net::CpuList;

use super::config::{Close, Command, Done, Frame, Load, Stand, WorkerConfig};
use super::connection::{Buffers, Connection, Outcome, State};
use super::requests::{Requests, RequestsError};
use super::socket;
use super::timer::Timer;
use super::tls::{Connector, TlsError};
use crate::clock::now_ns;
use crate::crew::{Line, Order};
use crate::tls::Handshake;
use crate::wire::Wire;
use crate::{descriptors, limits};
use queues::Queues;
use still::Still;

/// Requests that are due within this time are sent together: to set a timer for each of them would
/// take longer.
const GRAIN_NS: u64 = 50_000;
/// How often is looked for requests that take too long.
const SWEEP_NS: u64 = 100_000_000;
/// A server that was asked to close a connection has so long; then the client closes it.
const CLOSING_NS: u64 = 1_000_000_000;
/// A connection that failed is used again after this time.
const PAUSE_NS: u64 = 100_000_000;
/// Events that are dealt with before it is looked for what is due.
const EVENTS: usize = 64;
/// Connections that are opened before it is looked for events: with more, those that are
/// established would wait for the rest when the rate is more than the machine can do, and time out.
const OPENED_AT_ONCE: usize = EVENTS;

const TIMER: Token = Token(usize::MAX);
const LINE: Token = Token(usize::MAX - 1);

/// Why a worker cannot work.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error(transparent)]
    Requests(#[from] RequestsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot pin a worker: {0}")]
    Pin(#[from] weir_net::cpu::CpuError),
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Works as it is told on standard input, to the end.
///
/// # Errors
///
/// If it cannot be set up, or whoever started it has gone.
pub fn run() -> Result<(), WorkerError> {
    let (line, config) = Line::open::<WorkerConfig>()?;
    if let Some(list) = config.cpu.and_then(|cpu| CpuList::new([cpu])) {
        weir_net::cpu::pin_current_thread(&list)?;
    }
    descriptors::raise_limit()?;
    Worker::new(config, line)?.work()
}

/// What a worker is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It opens connections.
    Opening,
    /// They are open.
    Ready,
    /// It was told when to begin.
    Set {
        begin_ns: u64,
        end_ns: u64,
    },
    /// It sends requests.
    Running {
        begin_ns: u64,
        end_ns: u64,
    },
    /// It waits for the last answers, no longer than this.
    Draining {
        until_ns: u64,
    },
    /// It has said all, and keeps its connections until nobody listens any more.
    Said,
    Over,
}

struct Worker {
    config: WorkerConfig,
    requests: Requests,
    connector: Option<Connector>,
    is_idempotent: bool,
    line: Line,
    poll: Poll,
    timer: Timer,
    buffers: Buffers,
    connections: Vec<Connection>,
    queues: Queues,
    phase: Phase,
    /// When connections are opened, counted from `start_ns`.
    opening: Schedule,
    start_ns: u64,
    /// How many were begun.
    begun: u32,
    /// How many of them have neither been established nor failed.
    pending: u32,
    /// When requests are due; `None` in a closed loop.
    sending: Option<Schedule>,
    in_flight: u64,
    /// The run is ended by a message.
    is_asked_to_end: bool,
    next_source: u64,
    draws: Draws,
    next_sweep_ns: u64,
    next_report_ns: u64,
    done: Done,
    /// Latencies since the last report.
    recent: Times,
    scheduled_ns: (u64, u64),
    still: Still,
}

impl Worker {
    fn new(config: WorkerConfig, line: Line) -> Result<Self, WorkerError> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let descriptor = line.socket().as_raw_fd();
        poll.registry().register(&mut SourceFd(&descriptor), LINE, Interest::READABLE)?;
        let share = config.share;
        let count = share.of_count(config.connections);
        let connections: Vec<Connection> = (0..count).map(|_| Connection::default()).collect();
        let sending = match config.load {
            Load::Open(pace) => Some(Schedule::new(pace, share, config.seed)),
            Load::Closed => None,
        };
        let connector = |tls| Connector::new(tls, connections.len());
        let start_ns = now_ns();
        Ok(Self {
            requests: Requests::new(&config.request)?,
            connector: config.tls.as_ref().map(connector).transpose()?,
            is_idempotent: Requests::is_idempotent(&config.request),
            opening: Schedule::new(Pace::constant(config.connect_rate_cps), share, 0),
            line,
            poll,
            timer,
            buffers: Buffers::default(),
            connections,
            queues: Queues::default(),
            phase: Phase::Opening,
            start_ns,
            begun: 0,
            pending: 0,
            sending,
            in_flight: 0,
            is_asked_to_end: false,
            next_source: share.index.into(),
            draws: Draws::new(share, config.seed),
            next_sweep_ns: start_ns + SWEEP_NS,
            next_report_ns: start_ns + config.report_ns,
            done: Done::default(),
            recent: Times::default(),
            scheduled_ns: (0, 0),
            still: Still::default(),
            config,
        })
    }

    /// Works until nobody listens any more.
    fn work(mut self) -> Result<(), WorkerError> {
        let mut events = Events::with_capacity(EVENTS);
        // What came together with the configuration is no event any more.
        self.listen()?;
        while self.phase != Phase::Over {
            self.turn(&mut events)?;
        }
        self.close_all();
        Ok(())
    }

    /// Waits for what happens next, and deals with it.
    fn turn(&mut self, events: &mut Events) -> io::Result<()> {
        let now = now_ns();
        let wake_ns = self.wake_ns();
        let timeout = if wake_ns <= now {
            Some(std::time::Duration::ZERO)
        } else {
            if wake_ns < u64::MAX {
                self.timer.set(wake_ns.max(now + GRAIN_NS))?;
            }
            None
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            match event.token() {
                TIMER => {}
                LINE => self.listen()?,
                // Nothing is counted behind the account.
                Token(_) if self.has_said() => {}
                Token(id) => self.event(id, event),
            }
        }
        self.tick()
    }

    /// Whether it has said what it measured.
    const fn has_said(&self) -> bool {
        matches!(self.phase, Phase::Said | Phase::Over)
    }

    /// When something is to be done even if nothing happens.
    fn wake_ns(&self) -> u64 {
        let by_phase = match self.phase {
            Phase::Opening if self.begun as usize == self.connections.len() => u64::MAX,
            Phase::Opening => self.start_ns + self.opening.next_ns(),
            Phase::Set { begin_ns, .. } => begin_ns,
            Phase::Running { begin_ns, end_ns } => {
                let due_ns = self.sending.as_ref().map(|sending| begin_ns + sending.next_ns());
                due_ns.unwrap_or(u64::MAX).min(end_ns)
            }
            Phase::Draining { until_ns } => until_ns,
            Phase::Ready => u64::MAX,
            Phase::Said | Phase::Over => return u64::MAX,
        };
        let regular = self.next_sweep_ns.min(self.next_report_ns);
        by_phase.min(regular).min(self.queues.wake_ns())
    }

    /// Hears what it is told.
    fn listen(&mut self) -> io::Result<()> {
        loop {
            match self.line.receive()? {
                Order::Message(Command::Begin { at_ns, end_ns }) => {
                    self.phase = Phase::Set { begin_ns: at_ns, end_ns };
                }
                Order::Message(Command::End) => self.end()?,
                Order::Message(Command::Stop) => self.finish()?,
                Order::Nothing => return Ok(()),
                Order::End => {
                    self.phase = Phase::Over;
                    return Ok(());
                }
            }
        }
    }

    /// Sends nothing more that is not due yet. One that has not begun has nothing to wait for.
    fn end(&mut self) -> io::Result<()> {
        let now = now_ns();
        match self.phase {
            Phase::Set { begin_ns, .. } | Phase::Running { begin_ns, .. } => {
                self.is_asked_to_end = true;
                let end_ns = now.max(begin_ns);
                self.phase = match self.phase {
                    Phase::Set { .. } => Phase::Set { begin_ns, end_ns },
                    _ => Phase::Running { begin_ns, end_ns },
                };
                Ok(())
            }
            Phase::Opening | Phase::Ready => self.finish(),
            Phase::Draining { .. } | Phase::Said | Phase::Over => Ok(()),
        }
    }

    /// Does what is due.
    fn tick(&mut self) -> io::Result<()> {
        let now = now_ns();
        self.queues.wake(now);
        match self.phase {
            Phase::Opening => self.open_due(now)?,
            Phase::Set { begin_ns, end_ns } if now >= begin_ns => {
                self.phase = Phase::Running { begin_ns, end_ns };
                // From here on all workers report at the same times.
                self.next_report_ns = begin_ns.saturating_add(self.config.report_ns);
                self.scheduled_ns = limits::scheduled_ns()?;
                if self.sending.is_none() {
                    self.queues.free_all();
                }
            }
            Phase::Running { begin_ns, end_ns } if now >= end_ns => {
                self.send_due(begin_ns, end_ns);
                self.end_sending(begin_ns, end_ns)?;
            }
            Phase::Running { begin_ns, end_ns } => self.send_due(begin_ns, end_ns),
            Phase::Draining { until_ns }
                if self.in_flight == 0 && self.queues.backlog.is_empty() || now >= until_ns =>
            {
                self.sweep(now);
                self.finish()?;
            }
            _ => {}
        }
        if self.has_said() {
            return Ok(());
        }
        for id in std::mem::take(&mut self.queues.unread) {
            self.connections[id as usize].is_unread = false;
            self.arrived(id, false);
        }
        self.use_freed();
        if now >= self.next_sweep_ns {
            let is_running = matches!(self.phase, Phase::Running { .. });
            self.still.look(now, self.next_sweep_ns, is_running)?;
            self.next_sweep_ns = now + SWEEP_NS;
            self.sweep(now);
        }
        if now >= self.next_report_ns {
            let every_ns = self.config.report_ns;
            self.next_report_ns += every_ns * (1 + (now - self.next_report_ns) / every_ns);
            self.report(now)?;
        }
        Ok(())
    }

    /// Says where it stands.
    fn report(&mut self, now: u64) -> io::Result<()> {
        let latency = std::mem::take(&mut self.recent);
        let stand = Stand { at_ns: now, counts: self.done.figures.counts, latency };
        self.line.send(&Frame::Stand(Box::new(stand)))
    }

    /// Opens the connections that are due; says so when all are open.
    fn open_due(&mut self, now: u64) -> io::Result<()> {
        if !self.config.is_kept() {
            // Each request opens its connection.
            self.queues.idle.extend(0..u32::try_from(self.connections.len()).unwrap_or(u32::MAX));
            self.begun = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        }
        for _ in 0..OPENED_AT_ONCE {
            let is_over = self.begun as usize == self.connections.len();
            if is_over || self.opening.take_due(now - self.start_ns).is_none() {
                break;
            }
            let id = self.begun;
            self.begun += 1;
            self.pending += 1;
            self.open(id, false);
        }
        if self.begun as usize == self.connections.len() && self.pending == 0 {
            self.phase = Phase::Ready;
            let open = self.done.figures.counts.open;
            self.line.send(&Frame::Opened { open })?;
        }
        Ok(())
    }

    /// Begins every request that is due.
    fn send_due(&mut self, begin_ns: u64, end_ns: u64) {
        // What is due meanwhile has to wait until answers were looked at.
        let until_ns = now_ns().min(end_ns - 1).saturating_sub(begin_ns);
        loop {
            let Some(sending) = &mut self.sending else { return };
            let Some(due_ns) = sending.take_due(until_ns) else { return };
            let (now, due_ns) = (now_ns(), begin_ns + due_ns);
            let figures = &mut self.done.figures;
            figures.counts.due += 1;
            figures.lag.record(now.saturating_sub(due_ns));
            if let Some(id) = self.queues.idle.pop_front() {
                self.start(id, due_ns, now);
            } else if !self.queues.wait(due_ns) {
                figures.counts.unsent += 1;
            }
        }
    }

    /// Gives connections that have become free what is to be done.
    fn use_freed(&mut self) {
        let is_running = match self.phase {
            Phase::Running { .. } => true,
            Phase::Draining { .. } => !self.queues.backlog.is_empty(),
            _ => false,
        };
        // Those that become free meanwhile have their turn next time.
        for _ in 0..self.queues.freed.len() {
            let Some(id) = self.queues.freed.pop_front() else { return };
            if !is_running {
                self.queues.idle.push_back(id);
            } else if self.sending.is_none() {
                let now = now_ns();
                self.done.figures.counts.due += 1;
                self.start(id, now, now);
            } else if let Some(due_ns) = self.queues.backlog.pop_front() {
                self.start(id, due_ns, now_ns());
            } else {
                self.queues.idle.push_back(id);
            }
        }
    }

    /// The run is over; answers to what was sent may still come.
    fn end_sending(&mut self, begin_ns: u64, end_ns: u64) -> io::Result<()> {
        let counts = &mut self.done.figures.counts;
        // Whoever ends a run at some moment has the requests that wait at that moment sent.
        if !self.is_asked_to_end {
            counts.unsent += self.queues.backlog.len() as u64;
            self.queues.backlog.clear();
        }
        self.done.answered_in_time = counts.answered;
        self.done.received_in_time_bytes = counts.received_bytes;
        self.done.service_in_time = self.done.figures.service.clone();
        self.measure(begin_ns)?;
        // What comes behind the end belongs to no step of the run.
        self.report(now_ns())?;
        // The last of them may have been begun a moment after the end.
        self.phase = Phase::Draining { until_ns: end_ns + self.config.timeout_ns + SWEEP_NS };
        Ok(())
    }

    /// Takes the CPU time since the beginning.
    fn measure(&mut self, begin_ns: u64) -> io::Result<()> {
        let (ran_ns, waited_ns) = limits::scheduled_ns()?;
        self.done.run_ns = now_ns().saturating_sub(begin_ns);
        self.done.ran_ns = ran_ns.saturating_sub(self.scheduled_ns.0);
        self.done.waited_ns = waited_ns.saturating_sub(self.scheduled_ns.1);
        self.done.still_ns = self.still.sum_ns();
        Ok(())
    }

    /// Says what was measured, once.
    fn finish(&mut self) -> io::Result<()> {
        if self.has_said() {
            return Ok(());
        }
        if let Phase::Running { begin_ns, .. } = self.phase {
            self.end_sending(begin_ns, now_ns())?;
        }
        self.done.figures.counts.unsent += self.queues.backlog.len() as u64;
        self.queues.backlog.clear();
        self.done.figures.counts.unfinished += self.in_flight;
        self.in_flight = 0;
        self.phase = Phase::Said;
        let done = Box::new(std::mem::take(&mut self.done));
        self.line.send(&Frame::Done(done))
    }

    /// Ends connections as they are to be ended.
    fn close_all(&mut self) {
        for connection in &mut self.connections {
            connection.close(self.config.close == Close::Rst);
        }
    }

    /// Begins a request that was due at a time.
    fn start(&mut self, id: u32, due_ns: u64, now: u64) {
        let draw = if self.requests.is_mixed() { self.draws.take() } else { 0 };
        let request = u32::try_from(self.requests.choose(draw)).unwrap_or(0);
        self.in_flight += 1;
        let connection = &mut self.connections[id as usize];
        connection.request = request;
        connection.was_idle = connection.is_open();
        connection.is_retry = false;
        connection.due_ns = due_ns;
        connection.begun_ns = now;
        if connection.is_open() {
            self.begin_sending(id);
        } else {
            self.open(id, true);
        }
    }

    /// Opens a connection, for a request or for later.
    fn open(&mut self, id: u32, has_request: bool) {
        let source = self.config.sources.map(|sources| sources.nth(self.next_source));
        self.next_source += u64::from(self.config.share.of);
        // Between namespaces a connection may be established before the call returns.
        let now = now_ns();
        let opened = socket::connect(source, self.config.server).and_then(|mut stream| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let watched = self.poll.registry().register(&mut stream, Token(id as usize), interest);
            watched.map(|()| stream).map_err(|error| socket::failure(&error))
        });
        let session = self.connector.as_ref().map(Connector::begin).transpose();
        let opened = opened
            .and_then(|stream| session.map(|tls| Wire::new(stream, tls)).map_err(|_| Failure::Tls));
        match opened {
            Ok(wire) => {
                self.done.figures.counts.opened += 1;
                self.connections[id as usize].open(wire, has_request, now);
            }
            Err(failure) => self.not_opened(id, has_request, failure),
        }
    }

    fn not_opened(&mut self, id: u32, has_request: bool, failure: Failure) {
        if has_request {
            return self.failed(id, failure);
        }
        self.done.figures.counts.not_opened.add(failure);
        self.pending -= 1;
        self.close(id, true);
        // The first request that comes to it tries once more.
        self.queues.idle.push_back(id);
    }

    fn established(&mut self, id: u32, has_request: bool) {
        let figures = &mut self.done.figures;
        let connection = &mut self.connections[id as usize];
        figures.counts.established += 1;
        figures.counts.open += 1;
        self.done.open_max = self.done.open_max.max(figures.counts.open);
        let now = now_ns();
        figures.connect.record(now.saturating_sub(connection.opened_ns));
        if !connection.begin_securing(has_request, now) {
            self.ready(id, has_request);
        }
    }

    /// Goes on to agree on TLS.
    fn secure(&mut self, id: u32, has_request: bool) {
        let figures = &mut self.done.figures;
        let connection = &mut self.connections[id as usize];
        match connection.secure() {
            Ok(None) => {}
            Ok(Some(handshake)) => {
                match handshake {
                    Handshake::Full => figures.counts.handshakes_full += 1,
                    Handshake::Resumed => figures.counts.handshakes_resumed += 1,
                }
                figures.handshake.record(now_ns().saturating_sub(connection.secured_ns));
                self.ready(id, has_request);
            }
            Err(error) => self.not_opened(id, has_request, socket::failure(&error)),
        }
    }

    /// Requests can be sent on a connection.
    fn ready(&mut self, id: u32, has_request: bool) {
        if has_request {
            return self.begin_sending(id);
        }
        self.connections[id as usize].state = State::Idle;
        self.pending -= 1;
        self.queues.idle.push_back(id);
    }

    fn close(&mut self, id: u32, with_reset: bool) {
        let connection = &mut self.connections[id as usize];
        if self.done.tls_failure.is_none() {
            self.done.tls_failure = connection.tls_failure();
        }
        if !matches!(connection.state, State::Closed | State::Opening { .. }) {
            self.done.figures.counts.open -= 1;
        }
        connection.close(with_reset);
    }

    fn begin_sending(&mut self, id: u32) {
        let connection = &mut self.connections[id as usize];
        let request = self.requests.get(connection.request as usize, false);
        connection.begin(request.is_head_request());
        self.send(id);
    }

    /// Sends what is left of a request.
    fn send(&mut self, id: u32) {
        let connection = &mut self.connections[id as usize];
        let is_last = is_last(&self.config, connection.served);
        let closes = is_last && self.config.close == Close::Fin;
        let request = self.requests.get(connection.request as usize, closes);
        let (sent_bytes, outcome) = connection.send(request.bytes());
        let is_sent = connection.state == State::Waiting;
        self.done.figures.counts.sent_bytes += sent_bytes;
        let abort_ratio = self.config.abort_ratio;
        if is_sent && abort_ratio > 0.0 && unit(self.draws.take()) < abort_ratio {
            self.done.figures.counts.aborted += 1;
            self.in_flight -= 1;
            self.close(id, true);
            return self.release(id);
        }
        if outcome == Outcome::Pending {
            return;
        }
        // Before the other end broke off, it may have answered (RFC 9112 section 9.5).
        let connection = &mut self.connections[id as usize];
        let (received_bytes, found) = connection.receive(&mut self.buffers, true);
        self.done.figures.counts.received_bytes += received_bytes;
        let is_answered = matches!(found, Outcome::Answered { .. });
        self.conclude(id, if is_answered { found } else { outcome });
    }

    /// What has happened to a connection.
    fn event(&mut self, id: usize, event: &Event) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let number = u32::try_from(id).unwrap_or(u32::MAX);
        if let State::Opening { has_request } = connection.state {
            if event.is_error() {
                let failure = connection.refusal().unwrap_or(Failure::Reset);
                return self.not_opened(number, has_request, failure);
            }
            if !event.is_writable() {
                return;
            }
            self.established(number, has_request);
        }
        if let State::Securing { has_request } = self.connections[id].state {
            self.secure(number, has_request);
        }
        // What came with the connection is no event of its own.
        let has_ended = event.is_read_closed() || event.is_error();
        if event.is_readable() || has_ended {
            self.arrived(number, has_ended);
        }
        if self.connections[id].state == State::Sending && event.is_writable() {
            self.send(number);
        }
    }

    /// Something has arrived, or the other end has closed its side.
    fn arrived(&mut self, id: u32, has_ended: bool) {
        let connection = &mut self.connections[id as usize];
        match connection.state {
            State::Closed | State::Opening { .. } | State::Securing { .. } => {}
            State::Closing => {
                let (received_bytes, outcome) = connection.receive(&mut self.buffers, has_ended);
                self.done.figures.counts.received_bytes += received_bytes;
                if has_ended || outcome != Outcome::Pending {
                    self.close(id, false);
                    self.release(id);
                }
            }
            State::Idle => {
                let (received_bytes, outcome) = connection.receive(&mut self.buffers, has_ended);
                let counts = &mut self.done.figures.counts;
                counts.received_bytes += received_bytes;
                if received_bytes > 0 || outcome != Outcome::Pending {
                    counts.closed_idle += 1;
                    self.close(id, false);
                }
            }
            State::Sending | State::Waiting => self.receive(id, has_ended),
        }
    }

    /// Reads what has arrived for a request.
    fn receive(&mut self, id: u32, has_ended: bool) {
        let connection = &mut self.connections[id as usize];
        let (received_bytes, outcome) = connection.receive(&mut self.buffers, has_ended);
        self.done.figures.counts.received_bytes += received_bytes;
        self.conclude(id, outcome);
    }

    fn conclude(&mut self, id: u32, outcome: Outcome) {
        match outcome {
            Outcome::Pending => {}
            Outcome::More => {
                let connection = &mut self.connections[id as usize];
                if !std::mem::replace(&mut connection.is_unread, true) {
                    self.queues.unread.push(id);
                }
            }
            Outcome::Answered { status, keep_alive, is_closed } => {
                self.answered(id, status, keep_alive, is_closed);
            }
            Outcome::Gone => self.gone(id),
            Outcome::Failed(failure) => self.failed(id, failure),
        }
    }

    fn answered(&mut self, id: u32, status: u16, keep_alive: bool, is_closed: bool) {
        let now = now_ns();
        let connection = &mut self.connections[id as usize];
        let Figures { counts, latency, service, .. } = &mut self.done.figures;
        match status {
            ..400 => {
                counts.answered += 1;
                let latency_ns = now.saturating_sub(connection.due_ns);
                latency.record(latency_ns);
                self.recent.record(latency_ns);
                service.record(now.saturating_sub(connection.begun_ns));
            }
            400..500 => counts.failures.add(Failure::ClientError),
            _ => counts.failures.add(Failure::ServerError),
        }
        self.in_flight -= 1;
        let is_last = is_last(&self.config, connection.served);
        // An answer to a request that is not sent yet: the server does not want the rest of it.
        let is_early = connection.state == State::Sending;
        connection.served = connection.served.saturating_add(1);
        if keep_alive && !is_last && !is_early {
            connection.state = State::Idle;
        } else if is_last && !is_early && !is_closed && self.config.close == Close::Fin {
            // Whoever closes first keeps the port for a minute (TIME-WAIT): it was asked to.
            connection.state = State::Closing;
            connection.begun_ns = now;
            return;
        } else {
            self.close(id, self.config.close == Close::Rst);
        }
        self.release(id);
    }

    /// The server had closed the connection before it saw the request.
    fn gone(&mut self, id: u32) {
        let is_retry = self.connections[id as usize].is_retry;
        if is_retry || !self.is_idempotent {
            return self.failed(id, Failure::Short);
        }
        self.close(id, false);
        let connection = &mut self.connections[id as usize];
        (connection.is_retry, connection.was_idle) = (true, false);
        self.done.figures.counts.retried += 1;
        self.open(id, true);
    }

    fn failed(&mut self, id: u32, failure: Failure) {
        self.done.figures.counts.failures.add(failure);
        self.in_flight -= 1;
        self.close(id, true);
        self.queues.paused.push_back((now_ns() + PAUSE_NS, id));
    }

    /// A connection has done its request.
    fn release(&mut self, id: u32) {
        if self.config.think_ns > 0 {
            self.queues.thinking.push_back((now_ns() + self.config.think_ns, id));
        } else {
            self.queues.freed.push_back(id);
        }
    }

    /// Ends what takes too long.
    fn sweep(&mut self, now: u64) {
        let timeout_ns = self.config.timeout_ns;
        for id in 0..self.connections.len() {
            let connection = &self.connections[id];
            let since_ns = match connection.state {
                State::Closed | State::Idle => continue,
                State::Closing => {
                    if now.saturating_sub(connection.begun_ns) >= CLOSING_NS {
                        let number = u32::try_from(id).unwrap_or(u32::MAX);
                        self.close(number, false);
                        self.release(number);
                    }
                    continue;
                }
                State::Opening { has_request } | State::Securing { has_request }
                    if !has_request =>
                {
                    connection.opened_ns
                }
                _ => connection.begun_ns,
            };
            if now.saturating_sub(since_ns) < timeout_ns {
                continue;
            }
            let has_request = !matches!(
                connection.state,
                State::Opening { has_request: false } | State::Securing { has_request: false }
            );
            let number = u32::try_from(id).unwrap_or(u32::MAX);
            self.not_opened(number, has_request, Failure::Timeout);
        }
    }
}

/// Whether the next request on a connection, on which some were answered, is its last.
fn is_last(config: &WorkerConfig, served: u32) -> bool {
    config.keepalive.is_some_and(|most| u64::from(served) + 1 >= most)
}

#[cfg(test)]
mod tests;
