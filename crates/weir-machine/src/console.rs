//! Consoles of machines: serial lines, serial over LAN, sockets of virtual machines.
//!
//! A [`Console`] has a thread that takes what the machine says, so that the machine never waits for
//! a reader, writes it to a log, and keeps it for whoever waits for words ([`Console::expect`]).
//! The screen has another one: where it stands still, the log does not.
//! A [`Script`] is a list of such waits and answers, which drives boot menus and installers.
//! Values that were sent as secrets are masked in the log, in what is mirrored, and in messages.
//!
//! Nothing here interprets what a terminal would draw: escape sequences are taken out before words
//! are looked for, and are left in the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anstream::adapter::StripBytes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use regex::bytes::Regex;

use crate::cancel::Cancel;

mod line;
mod mirror;
mod redact;
pub mod script;
mod target;
mod telnet;
#[cfg(test)]
mod tests;

pub use line::IPMI_PASSWORD;
pub use script::{Progress, Script};
pub use target::Target;

use line::Line;
use mirror::Mirror;
use redact::Redactor;

/// How often the reading thread looks whether it is still wanted.
const TICK_MS: u16 = 100;
/// How often a waiting caller looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(50);
/// How long a machine may refuse bytes before that is an error.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// What is kept for a caller that waits for words; older text is given up.
const TEXT_SIZE_BYTES_MAX: usize = 1 << 20;
/// Lines of the end of what was said, for messages.
const RECENT_LINES: usize = 5;
/// And the most of them, bytes.
const RECENT_SIZE_BYTES: usize = 2_000;

/// Why a console could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// It could not be opened.
    #[error("cannot open the console {target}: {source}")]
    Open {
        /// The console.
        target: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Something was asked for that cannot be.
    #[error("{0}")]
    Refused(String),
    /// The log could not be opened.
    #[error("cannot write the log {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The line went away, or failed.
    #[error("the console {target} ended: {what}{}", showed(recent))]
    Ended {
        /// The console.
        target: String,
        /// How.
        what: String,
        /// What was on it last.
        recent: String,
    },
    /// What was waited for did not come.
    #[error("`{pattern}` did not come within {timeout:?}{}", showed(recent))]
    TimedOut {
        /// What was waited for.
        pattern: String,
        /// For how long.
        timeout: Duration,
        /// What was on the console last.
        recent: String,
    },
    /// Something was said that a script takes for a failure.
    #[error("`{pattern}` came, which means a failure{}", showed(recent))]
    Failed {
        /// The pattern that it matched.
        pattern: String,
        /// What was on the console last.
        recent: String,
    },
    /// Somebody asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// A step of a script.
    #[error("{script}, step {step}: {source}")]
    Step {
        /// The script's name.
        script: String,
        /// The step's number, from 1, and its name.
        step: String,
        /// What went wrong.
        source: Box<ConsoleError>,
    },
}

impl ConsoleError {
    /// Whether the machine behaved in another way than was expected of it, as opposed to a request
    /// that could not be honoured.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Ended { .. } | Self::TimedOut { .. } | Self::Failed { .. } => true,
            Self::Step { source, .. } => source.is_answer(),
            _ => false,
        }
    }

    /// Whether somebody asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled => true,
            Self::Step { source, .. } => source.is_cancelled(),
            _ => false,
        }
    }
}

fn showed(recent: &str) -> String {
    match recent {
        "" => "; the console showed nothing".to_owned(),
        recent => format!("; the console showed last:\n{recent}"),
    }
}

/// How a console is opened.
#[derive(Default)]
pub struct Options {
    /// Everything that the machine says is appended to this file.
    pub log: Option<PathBuf>,
    /// And written here; what is not taken in time is left out.
    pub mirror: Option<Box<dyn Write + Send>>,
    /// What is masked from the first byte on; scripts add theirs.
    pub secrets: Vec<String>,
    /// How long the console may take to be there: the socket of a virtual machine that is just
    /// being started.
    pub patience: Duration,
    /// Who ends that wait.
    pub cancel: Cancel,
}

/// What the reading thread and its console share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    /// What nobody has matched yet, without escape sequences.
    text: Vec<u8>,
    strip: StripBytes,
    redactor: Redactor,
    /// The end of everything that may be shown, for messages.
    recent: Vec<u8>,
    strip_recent: StripBytes,
    ended: Option<String>,
    /// Why the log or the mirror is no longer written.
    trouble: Option<String>,
}

/// An open console.
pub struct Console {
    target: String,
    shared: Arc<Shared>,
    line: Arc<Mutex<Line>>,
    /// Where keys go, as a whole: what else is sent never comes between.
    output: Arc<Mutex<File>>,
    reader: Option<JoinHandle<()>>,
}

impl Console {
    /// Opens a console and begins to read it.
    ///
    /// # Errors
    /// When it, or the log, cannot be opened, or somebody asked to stop while it was waited for.
    pub fn open(target: &Target, options: Options) -> Result<Self, ConsoleError> {
        let log = options.log.map(open_log).transpose()?;
        let deadline = Instant::now() + options.patience;
        let line = loop {
            match Line::open(target) {
                Err(ConsoleError::Open { .. }) if Instant::now() < deadline => {
                    if !options.cancel.sleep(LOOK) {
                        return Err(ConsoleError::Cancelled);
                    }
                }
                other => break other?,
            }
        };
        let failed = |source| ConsoleError::Open { target: target.to_string(), source };
        let input = line.input.try_clone().map_err(failed)?;
        let output = Arc::new(Mutex::new(line.output.try_clone().map_err(failed)?));
        let shared = Arc::new(Shared::default());
        hide(&shared, &options.secrets);
        let line = Arc::new(Mutex::new(line));
        let mirror = options.mirror.map(Mirror::start).transpose().map_err(failed)?;
        let mut sinks = Sinks { log, mirror };
        let (for_reader, ended) = (Arc::clone(&shared), Arc::clone(&line));
        let answers = Arc::clone(&output);
        let reader = thread::Builder::new()
            .name("console".into())
            .spawn(move || {
                let mut what = read(&input, (&ended, &answers), &for_reader, &mut sinks);
                if let Some(ended) = lock(&ended).ended() {
                    what = ended;
                }
                lock(&for_reader.state).ended = Some(what);
                for_reader.news.notify_all();
                // What is under way to the screen may arrive; nobody waits for one that stands.
                if let Some(trouble) = sinks.mirror.and_then(Mirror::finish) {
                    lock(&for_reader.state).trouble.get_or_insert(trouble);
                }
            })
            .map_err(failed)?;
        Ok(Self { target: target.to_string(), shared, line, output, reader: Some(reader) })
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// When the machine does not take them.
    pub fn send(&self, bytes: &[u8]) -> Result<(), ConsoleError> {
        let deadline = Instant::now() + WRITE_PATIENCE;
        let output = lock(&self.output);
        let mut encoded = lock(&self.line).take_replies();
        encoded.extend_from_slice(&lock(&self.line).encode(bytes));
        let mut rest = encoded.as_slice();
        while !rest.is_empty() {
            match (&*output).write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        let what = format!("nothing was accepted for {WRITE_PATIENCE:?}");
                        return Err(self.end(what));
                    }
                    let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
                    let _ = poll(&mut fds, PollTimeout::from(TICK_MS));
                }
                Err(error) => return Err(self.end(error.to_string())),
            }
        }
        Ok(())
    }

    /// Sends a secret, which is masked wherever it is shown from now on.
    ///
    /// # Errors
    /// As for [`Console::send`].
    pub(crate) fn send_secret(&self, secret: &str) -> Result<(), ConsoleError> {
        self.hide(&[secret.to_owned()]);
        self.send(secret.as_bytes())
    }

    /// Masks these from now on.
    fn hide(&self, secrets: &[String]) {
        hide(&self.shared, secrets);
    }

    /// What gives the line back, also when this is not dropped: for whoever ends the process.
    #[must_use]
    pub fn closer(&self) -> Closer {
        Closer(Arc::clone(&self.line))
    }

    /// Sends a break.
    ///
    /// # Errors
    /// When the line has none, or fails.
    pub fn send_break(&self) -> Result<(), ConsoleError> {
        let _alone = lock(&self.output);
        lock(&self.line).send_break().map_err(ConsoleError::Refused)
    }

    /// Waits until the machine has said something that matches, and returns that. What came before
    /// it is given up; what comes after it is left for the next call.
    ///
    /// # Errors
    /// When it does not come in time, the line ends, or somebody asked to stop.
    pub fn expect(
        &self,
        pattern: &Regex,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<String, ConsoleError> {
        self.expect_any(&[pattern], timeout, cancel).map(|(_, text)| text)
    }

    /// As [`Console::expect`], for the first of several patterns that matches: of those that do,
    /// the one that begins first, and of these the first in the list. Returns its index too.
    ///
    /// # Errors
    /// As for [`Console::expect`].
    pub(crate) fn expect_any(
        &self,
        patterns: &[&Regex],
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<(usize, String), ConsoleError> {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.shared.state);
        loop {
            let found = patterns
                .iter()
                .enumerate()
                .filter_map(|(index, pattern)| Some((index, pattern.find(&state.text)?.range())))
                .min_by_key(|(index, range)| (range.start, *index));
            if let Some((index, range)) = found {
                let text = String::from_utf8_lossy(&state.text[range.clone()]).into_owned();
                state.text.drain(..range.end);
                return Ok((index, text));
            }
            if let Some(what) = state.ended.clone() {
                drop(state);
                return Err(self.end(what));
            }
            if cancel.signal().is_some() {
                return Err(ConsoleError::Cancelled);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let names: Vec<&str> = patterns.iter().map(|p| p.as_str()).collect();
                drop(state);
                return Err(ConsoleError::TimedOut {
                    pattern: names.join("` or `"),
                    timeout,
                    recent: self.recent(),
                });
            }
            let waited = self.shared.news.wait_timeout(state, left.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The last lines that the machine has shown, without secrets and escape sequences.
    #[must_use]
    pub fn recent(&self) -> String {
        let state = lock(&self.shared.state);
        let text = String::from_utf8_lossy(&state.recent);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        lines[lines.len().saturating_sub(RECENT_LINES)..].join("\n")
    }

    /// How the line ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        lock(&self.shared.state).ended.clone()
    }

    /// Whether the line still stands.
    ///
    /// # Errors
    /// When it ended.
    pub fn check(&self) -> Result<(), ConsoleError> {
        self.ended().map_or(Ok(()), |what| Err(self.end(what)))
    }

    /// Ends it. Returns why the log, or the mirror, does not have everything, if that is so.
    #[must_use]
    pub fn close(self) -> Option<String> {
        let shared = Arc::clone(&self.shared);
        drop(self);
        lock(&shared.state).trouble.take()
    }

    /// A text without the secrets that were sent so far.
    #[must_use]
    pub(crate) fn redacted(&self, text: &str) -> String {
        let shown = lock(&self.shared.state).redactor.redacted(text.as_bytes());
        String::from_utf8_lossy(&shown).into_owned()
    }

    fn end(&self, what: String) -> ConsoleError {
        ConsoleError::Ended { target: self.target.clone(), what, recent: self.recent() }
    }
}

/// Gives a console's line back as it was, and ends a session of serial over LAN.
#[derive(Clone)]
pub struct Closer(Arc<Mutex<Line>>);

impl Closer {
    /// Does it, unless it is done; waits for whoever is doing it.
    pub fn close(&self) {
        lock(&self.0).close();
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // It only fails if it panicked, and then there is nothing left to do for it.
            let _ = reader.join();
        }
        lock(&self.line).close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hide(shared: &Shared, secrets: &[String]) {
    let mut state = lock(&shared.state);
    for secret in secrets {
        state.redactor.add(secret.as_bytes());
    }
}

fn open_log(path: PathBuf) -> Result<File, ConsoleError> {
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    opened.map_err(|source| ConsoleError::Log { path, source })
}

/// Where everything that may be shown goes.
struct Sinks {
    log: Option<File>,
    mirror: Option<Mirror>,
}

/// Reads until the line ends, or nobody wants it any more. Returns how it ended.
fn read(
    mut input: &File,
    (line, output): (&Mutex<Line>, &Mutex<File>),
    shared: &Shared,
    sinks: &mut Sinks,
) -> String {
    let mut buffer = vec![0; 64 * 1024];
    let how = loop {
        if shared.stop.load(Ordering::Relaxed) {
            break "it was closed".to_owned();
        }
        let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(TICK_MS)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
        match input.read(&mut buffer) {
            Ok(0) => break "the other end closed it".to_owned(),
            Ok(count) => {
                let said = lock(line).decode(&buffer[..count]).into_owned();
                take(shared, &said, sinks);
                answer(line, output);
            }
            Err(error) if is_passing(error.kind()) => {}
            Err(error) => break error.to_string(),
        }
    };
    let rest = lock(&shared.state).redactor.finish();
    put(shared, &rest, sinks);
    how
}

/// Answers the other end of the line, unless keys are being sent: they take the answer along. The
/// few bytes of one find room where nothing else is under way, or the line is as good as gone.
fn answer(line: &Mutex<Line>, output: &Mutex<File>) {
    if let Ok(mut output) = output.try_lock() {
        drop(output.write_all(&lock(line).take_replies()));
    }
}

fn is_passing(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn take(shared: &Shared, bytes: &[u8], sinks: &mut Sinks) {
    let mut state = lock(&shared.state);
    let shown = state.redactor.feed(bytes);
    let plain: Vec<u8> = state.strip.strip_next(bytes).flatten().copied().collect();
    state.text.extend_from_slice(&plain);
    let plain: Vec<u8> = state.strip_recent.strip_next(&shown).flatten().copied().collect();
    state.recent.extend_from_slice(&plain);
    let too_many = state.text.len().saturating_sub(TEXT_SIZE_BYTES_MAX);
    state.text.drain(..too_many);
    let too_many = state.recent.len().saturating_sub(RECENT_SIZE_BYTES);
    state.recent.drain(..too_many);
    drop(state);
    shared.news.notify_all();
    put(shared, &shown, sinks);
}

/// Writes to the log and hands to the screen; a log that fails (a full disk) is given up and noted,
/// because the machine has to go on.
fn put(shared: &Shared, bytes: &[u8], sinks: &mut Sinks) {
    if let Some(mirror) = &mut sinks.mirror {
        mirror.show(bytes);
    }
    let Some(log) = &mut sinks.log else { return };
    if let Err(error) = log.write_all(bytes) {
        lock(&shared.state).trouble.get_or_insert_with(|| error.to_string());
        sinks.log = None;
    }
}
