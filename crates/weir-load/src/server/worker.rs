//! One worker: its listeners, its connections and the event loop that drives them.

use std::io;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant, SystemTime};

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use weir_http::served::Stats;
use weir_net::CpuList;
use weir_net::cpu::pin_current_thread;

use super::connection::{Closing, Connection, Fate};
use super::shared::Shared;
use super::tls::Acceptor;
use super::{Config, Order, Said, listener};
use crate::crew::{self, Line};
use crate::descriptors;
use crate::wire::Wire;

/// Events taken at once.
const EVENT_COUNT: usize = 1024;
/// Connections accepted in a row; then it is the turn of others.
const ACCEPTS_MAX: usize = 256;
/// When it is tried again to accept what had to wait.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

const CONTROL: Token = Token(0);
/// Tokens of listeners begin here; those of connections follow.
const FIRST_LISTENER: usize = 1;

/// Runs a worker in this process, until the process that started it lets it end.
///
/// # Errors
///
/// If this process is no worker, or the event loop fails. What the process that started it has to
/// know, it is told.
pub fn work() -> io::Result<()> {
    let (mut line, config) = Line::open::<Config>()?;
    let mut worker = match Worker::new(&line, &config) {
        Ok(worker) => worker,
        Err(error) => return line.send(&Said::Failed(error.to_string())),
    };
    line.send(&Said::Listening)?;
    worker.run(&mut line)
}

/// What there may be to accept at a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    /// Nothing before the next event.
    Empty,
    /// More, for which it was not the turn.
    More,
    /// More, for which there was no room.
    Stalled,
}

/// CPU time of this process.
fn cpu_ns() -> io::Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let used_us = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok(u64::try_from(used_us).unwrap_or(0) * 1000)
}

struct Worker {
    poll: Poll,
    listeners: Vec<(TcpListener, Queue)>,
    connections: Vec<Option<Connection>>,
    free_keys: Vec<usize>,
    /// Most connections at a time.
    room: u64,
    acceptor: Option<Acceptor>,
    shared: Shared,
    is_stopped: bool,
}

impl Worker {
    fn new(line: &Line, config: &Config) -> io::Result<Self> {
        if let Some(cpus) = config.cpu.and_then(|cpu| CpuList::new([cpu])) {
            pin_current_thread(&cpus).map_err(io::Error::other)?;
        }
        let room = descriptors::for_connections()?;
        let acceptor = config.tls.as_ref().map(Acceptor::new).transpose();
        let acceptor = acceptor.map_err(io::Error::other)?;
        let poll = Poll::new()?;
        let control = line.socket().as_raw_fd();
        poll.registry().register(&mut SourceFd(&control), CONTROL, Interest::READABLE)?;
        let mut listeners = Vec::new();
        let inherited = config.inherits.then(crew::inherited);
        let inherited = inherited.map(|socket| socket.map(std::net::TcpListener::from));
        let made = config.listen.iter().map(|address| listener(*address));
        for (index, listener) in inherited.into_iter().chain(made).enumerate() {
            let mut listener = TcpListener::from_std(listener?);
            let token = Token(FIRST_LISTENER + index);
            poll.registry().register(&mut listener, token, Interest::READABLE)?;
            listeners.push((listener, Queue::Empty));
        }
        Ok(Self {
            poll,
            listeners,
            connections: Vec::new(),
            free_keys: Vec::new(),
            room,
            acceptor,
            shared: Shared::new(config.seed),
            is_stopped: false,
        })
    }

    fn run(&mut self, line: &mut Line) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENT_COUNT);
        let first_connection = FIRST_LISTENER + self.listeners.len();
        // What came together with the configuration is no event any more.
        if self.obey(line)? {
            return Ok(());
        }
        loop {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            self.shared.set_date(SystemTime::now());
            for event in &events {
                let Token(token) = event.token();
                if token == CONTROL.0 {
                    if self.obey(line)? {
                        return Ok(());
                    }
                } else if self.is_stopped {
                    // What happens now is in no counter that anybody reads.
                } else if let Some(key) = token.checked_sub(first_connection) {
                    self.drive(key, event.is_read_closed());
                } else {
                    self.accept(token - FIRST_LISTENER);
                }
            }
            if self.is_stopped {
                continue;
            }
            self.wake_due();
            for index in 0..self.listeners.len() {
                if self.listeners[index].1 != Queue::Empty {
                    self.accept(index);
                }
            }
            for _ in 0..std::mem::take(&mut self.shared.new_asks) {
                line.send(&Said::Ask)?;
            }
        }
    }

    /// How long to wait for events.
    fn timeout(&self) -> Option<Duration> {
        if self.is_stopped {
            return None;
        }
        let accept = self.listeners.iter().filter_map(|(_, queue)| match queue {
            Queue::Empty => None,
            Queue::More => Some(Duration::ZERO),
            Queue::Stalled => Some(ACCEPT_AGAIN),
        });
        accept.chain(self.shared.until_alarm()).min()
    }

    /// Does what the process says that started this one; whether it is to end.
    fn obey(&mut self, line: &mut Line) -> io::Result<bool> {
        loop {
            match line.receive()? {
                crew::Order::Nothing => return Ok(false),
                crew::Order::End => return Ok(true),
                crew::Order::Message(Order::Count) => self.say_counts(line)?,
                crew::Order::Message(Order::Stop) => {
                    self.is_stopped = true;
                    self.say_counts(line)?;
                }
                crew::Order::Message(Order::Tell(stats)) => self.tell(*stats),
            }
        }
    }

    fn say_counts(&mut self, line: &mut Line) -> io::Result<()> {
        self.shared.counts.cpu_ns = cpu_ns()?;
        line.send(&Said::Counts(self.shared.counts))
    }

    /// Answers the connection that has asked first for the counters of all.
    fn tell(&mut self, stats: Stats) {
        if let Some((key, wait)) = self.shared.asking.pop_front() {
            self.wake(key, wait, Some(stats));
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            if self.shared.counts.open >= self.room {
                self.stall(index);
                return;
            }
            match self.listeners[index].0.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.listeners[index].1 = Queue::Empty;
                        return;
                    }
                    // The client has thought better of it.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    // No memory, or no more descriptors in the whole system.
                    _ => {
                        self.stall(index);
                        return;
                    }
                },
            }
        }
        self.listeners[index].1 = Queue::More;
    }

    fn stall(&mut self, index: usize) {
        if self.listeners[index].1 != Queue::Stalled {
            self.shared.counts.accept_stalls += 1;
            self.listeners[index].1 = Queue::Stalled;
        }
    }

    /// Begins with a new connection. Its request is often there already, and it may be over before
    /// the event loop has to know of it.
    fn admit(&mut self, stream: TcpStream) {
        self.shared.counts.connections += 1;
        self.shared.counts.open += 1;
        let key = self.free_keys.pop().unwrap_or(self.connections.len());
        let session = self.acceptor.as_ref().map(Acceptor::begin).transpose();
        let has_session = session.is_ok();
        let mut connection = Connection::new(Wire::new(stream, session.unwrap_or(None)), key);
        let fate = if has_session {
            connection.drive(&mut self.shared)
        } else {
            // No memory for it.
            self.shared.counts.handshakes_failed += 1;
            Fate::Closed(Closing::Reset)
        };
        if key == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[key] = Some(connection);
        self.settle(key, fate, true);
    }

    fn drive(&mut self, key: usize, client_is_done: bool) {
        let Some(Some(connection)) = self.connections.get_mut(key) else { return };
        if client_is_done {
            connection.set_client_done();
        }
        let fate = connection.drive(&mut self.shared);
        self.settle(key, fate, false);
    }

    fn wake(&mut self, key: usize, wait: u64, stats: Option<Stats>) {
        let Some(Some(connection)) = self.connections.get_mut(key) else { return };
        let fate = connection.wake(wait, stats, &mut self.shared);
        self.settle(key, fate, false);
    }

    fn wake_due(&mut self) {
        let now = Instant::now();
        while let Some(alarm) = self.shared.next_due(now) {
            self.wake(alarm.key, alarm.wait, None);
        }
    }

    /// Has the event loop watch a connection, or ends it.
    fn settle(&mut self, key: usize, fate: Fate, is_new: bool) {
        let Some(Some(connection)) = self.connections.get_mut(key) else { return };
        let closing = match fate {
            Fate::Closed(closing) => closing,
            Fate::Open => {
                let needs_room = connection.needs_room();
                if !is_new && (!needs_room || connection.awaits_room) {
                    return;
                }
                let token = Token(FIRST_LISTENER + self.listeners.len() + key);
                let mut interest = Interest::READABLE;
                if needs_room {
                    connection.awaits_room = true;
                    interest |= Interest::WRITABLE;
                }
                let registry = self.poll.registry();
                let watched = if is_new {
                    registry.register(&mut connection.wire.stream, token, interest)
                } else {
                    registry.reregister(&mut connection.wire.stream, token, interest)
                };
                match watched {
                    Ok(()) => return,
                    // The kernel has no memory for it.
                    Err(_) => Closing::Reset,
                }
            }
        };
        self.connections[key] = None;
        self.free_keys.push(key);
        let counts = &mut self.shared.counts;
        counts.open -= 1;
        match closing {
            Closing::Client => counts.closed_by_client += 1,
            Closing::Server => counts.closed_by_server += 1,
            Closing::Early => counts.closed_early += 1,
            Closing::Reset => counts.reset += 1,
        }
    }
}
