//! Worker processes, and the messages between them and the process that started them.
//!
//! A worker is another process of this program, whose standard input is one end of a pair of
//! connected Unix sockets. Both sides send JSON, one message a line: the first to a worker is its
//! configuration. A worker ends when it sees the end of its socket, so that none outlives the
//! process that started it, however that ended. It is in a process group of its own: a Ctrl-C at
//! the terminal reaches only the process that can stop all of them in order.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::marker::PhantomData;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long a worker may take to end once its socket is closed, before it is killed.
const END_GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether a worker has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Longest message, bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Why workers cannot be started or went away.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrewError {
    /// The program cannot be run, or its socket not be made.
    #[error("cannot start worker {worker}: {source}")]
    Start { worker: usize, source: io::Error },
    /// Its socket is closed.
    #[error("cannot send to worker {worker}: {source}")]
    Send { worker: usize, source: io::Error },
    /// It ended before it was asked to; its own message is on standard error.
    #[error("worker {worker} ended before its time ({how})")]
    Ended { worker: usize, how: String },
    /// Its message is none.
    #[error("worker {worker} sent an invalid message: {reason}")]
    Message { worker: usize, reason: String },
}

/// The first word of a command line that makes a process of this program a worker. People have no
/// use for it, so that help, manual pages and completions do not have it.
pub const WORKER: &str = "http-worker";

/// What a worker is; its name is the second word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

impl Role {
    /// The role of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::Client, Self::Server].into_iter().find(|role| role.name() == name)
    }

    /// As command lines have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "serve",
        }
    }
}

/// What runs a worker.
#[derive(Debug, Clone)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<String>,
}

impl Program {
    /// This program as a worker.
    ///
    /// # Errors
    ///
    /// If its file cannot be found.
    pub fn worker(role: Role) -> io::Result<Self> {
        let arguments = [WORKER, role.name()].map(str::to_owned).into();
        Ok(Self { path: std::env::current_exe()?, arguments })
    }
}

/// Workers, numbered from 0, that send messages of one type.
#[derive(Debug)]
pub struct Crew<Said> {
    workers: Vec<Worker>,
    heard: Receiver<(usize, Heard)>,
    said: PhantomData<Said>,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    /// `None` once it was told to end.
    socket: Option<UnixStream>,
}

/// What the thread that listens to a worker passes on.
#[derive(Debug)]
enum Heard {
    Line(String),
    End,
}

impl<Said: DeserializeOwned> Crew<Said> {
    /// Starts one worker for each configuration.
    ///
    /// # Errors
    ///
    /// If one cannot be started; those that were are ended.
    pub fn start(program: &Program, configs: &[impl Serialize]) -> Result<Self, CrewError> {
        Self::start_with(program, configs, Vec::new())
    }

    /// The same; the first workers get a descriptor each, as their standard output, which they take
    /// with [`inherited`].
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(
        program: &Program,
        configs: &[impl Serialize],
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, CrewError> {
        let (sender, heard) = mpsc::channel();
        let mut crew = Self { workers: Vec::new(), heard, said: PhantomData };
        let mut descriptors = descriptors.into_iter();
        for (worker, config) in configs.iter().enumerate() {
            let output = descriptors.next().map_or_else(Stdio::null, Stdio::from);
            let started = start(program, worker, output, &sender);
            crew.workers.push(started.map_err(|source| CrewError::Start { worker, source })?);
            crew.send(worker, config)?;
        }
        Ok(crew)
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.workers.len()
    }

    /// Their process ids, in order.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.workers.iter().map(|worker| worker.child.id()).collect()
    }

    /// Sends a message to one.
    ///
    /// # Errors
    ///
    /// If it is no longer there.
    pub fn send(&self, worker: usize, message: &impl Serialize) -> Result<(), CrewError> {
        let socket = self.workers.get(worker).and_then(|worker| worker.socket.as_ref());
        let sent = socket.ok_or_else(|| io::ErrorKind::NotConnected.into());
        let sent = sent.and_then(|mut socket| socket.write_all(&line(message)?));
        sent.map_err(|source| CrewError::Send { worker, source })
    }

    /// Sends a message to all.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_all(&self, message: &impl Serialize) -> Result<(), CrewError> {
        (0..self.size()).try_for_each(|worker| self.send(worker, message))
    }

    /// Waits up to so long for a message of any of them, which comes with its number.
    ///
    /// # Errors
    ///
    /// If one ended that was not told to, or sent an invalid message.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<(usize, Said)>, CrewError> {
        match self.heard.recv_timeout(timeout) {
            Ok((worker, Heard::Line(text))) => match serde_json::from_str(&text) {
                Ok(said) => Ok(Some((worker, said))),
                Err(error) => Err(CrewError::Message { worker, reason: error.to_string() }),
            },
            Ok((worker, Heard::End)) if self.workers[worker].socket.is_some() => {
                let how = self.workers[worker].end().map_or_else(|error| error.to_string(), ending);
                Err(CrewError::Ended { worker, how })
            }
            // It ended as it was told to, or no worker is left.
            Ok((_, Heard::End)) | Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }

    /// Ends all of them: closes their sockets, and kills whoever has not ended seconds later.
    pub fn end(self) {
        drop(self);
    }
}

impl<Said> Drop for Crew<Said> {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.hang_up();
        }
        for worker in &mut self.workers {
            // It has ended, or was killed: nothing is left to do about it.
            drop(worker.end());
        }
    }
}

impl Worker {
    /// Closes the socket; the thread that listens holds another descriptor of it.
    fn hang_up(&mut self) {
        if let Some(socket) = self.socket.take() {
            // Fails if the worker has closed its end.
            drop(socket.shutdown(std::net::Shutdown::Write));
        }
    }

    /// Waits until the process has ended, and kills it when it takes too long.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.hang_up();
        let deadline = Instant::now() + END_GRACE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(LOOK_AGAIN);
        }
        self.child.kill()?;
        self.child.wait()
    }
}

/// How a process ended, in words.
fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}

fn start(
    program: &Program,
    worker: usize,
    output: Stdio,
    sender: &Sender<(usize, Heard)>,
) -> io::Result<Worker> {
    let (ours, theirs) = UnixStream::pair()?;
    let listening = ours.try_clone()?;
    let child = Command::new(&program.path)
        .args(&program.arguments)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(output)
        .process_group(0)
        .spawn()?;
    let mut worker_process = Worker { child, socket: Some(ours) };
    let sender = sender.clone();
    let listener = thread::Builder::new()
        .name(format!("worker {worker}"))
        .spawn(move || listen(worker, listening, &sender));
    if let Err(error) = listener {
        drop(worker_process.end());
        return Err(error);
    }
    Ok(worker_process)
}

/// Passes on what a worker sends, until its socket ends.
fn listen(worker: usize, socket: UnixStream, sender: &Sender<(usize, Heard)>) {
    for text in BufReader::new(socket).lines() {
        let Ok(text) = text else { break };
        if sender.send((worker, Heard::Line(text))).is_err() {
            return;
        }
    }
    // Fails if nobody wants to know any more.
    drop(sender.send((worker, Heard::End)));
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The descriptor that a worker was started with, in the worker.
///
/// # Errors
///
/// If this process has no more room for descriptors.
pub fn inherited() -> io::Result<OwnedFd> {
    io::stdout().as_fd().try_clone_to_owned()
}

/// A worker's end of the socket. It does not block once the configuration has been read.
#[derive(Debug)]
pub struct Line {
    socket: UnixStream,
    /// Bytes of a message that is not complete.
    partial: Vec<u8>,
}

/// What has come from the process that started this one.
#[derive(Debug, PartialEq, Eq)]
pub enum Order<M> {
    Message(M),
    /// Nothing yet.
    Nothing,
    /// To end: there will be no more messages.
    End,
}

impl Line {
    /// Takes standard input, and reads the configuration from it. What has come with it is
    /// received before the socket is waited on.
    ///
    /// # Errors
    ///
    /// If standard input is no socket, or the first line on it is no configuration.
    pub fn open<Config: DeserializeOwned>() -> io::Result<(Self, Config)> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        // Standard input may be anything if somebody else starts a worker.
        socket.peer_addr()?;
        Self::on(socket)
    }

    /// The same with another socket.
    pub(crate) fn on<Config: DeserializeOwned>(socket: UnixStream) -> io::Result<(Self, Config)> {
        let mut line = Self { socket, partial: Vec::new() };
        let config = match line.receive()? {
            Order::Message(config) => config,
            Order::Nothing | Order::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        line.socket.set_nonblocking(true)?;
        Ok((line, config))
    }

    /// The socket, for an event loop to wait on.
    #[must_use]
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Sends a message, and waits until the other side has room for it.
    ///
    /// # Errors
    ///
    /// If the other side is gone.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        let sent = self.socket.write_all(&line(message)?);
        self.socket.set_nonblocking(true)?;
        sent
    }

    /// The next message, if it has come.
    ///
    /// # Errors
    ///
    /// If what came is no message.
    pub fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Order<M>> {
        loop {
            if let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                return Ok(Order::Message(serde_json::from_slice(&line)?));
            }
            if self.partial.len() > MESSAGE_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut bytes = [0; 4096];
            match io::Read::read(&mut self.socket, &mut bytes) {
                Ok(0) => return Ok(Order::End),
                Ok(size) => self.partial.extend_from_slice(&bytes[..size]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Order::Nothing);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The process that started this one was killed.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(Order::End);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
