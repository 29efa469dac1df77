//! A command that stays on a machine, until it ends or is told to.
//!
//! Its process group on the machine ends with it: told so, or because the connection broke, or
//! because this process is gone. This module never ends anything else.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::Channel;
use super::shared::Shared;
use crate::host::{Ended, HostError, Process};

/// How long a stopped process may take on top of its patience until its end is known here.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How often an end is looked for.
const TICK: Duration = Duration::from_millis(5);
/// No exit code yet.
const NO_CODE: i32 = i32::MIN;
/// What of the output is noted in the log when it has ended.
const LAST_BYTES: usize = 1_000;

/// What the thread that reads the output knows.
#[derive(Debug)]
pub(super) struct Watched {
    finished: AtomicBool,
    code: AtomicI32,
    last: Mutex<String>,
}

impl Watched {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            finished: AtomicBool::new(false),
            code: AtomicI32::new(NO_CODE),
            last: Mutex::default(),
        })
    }

    /// A line of the output.
    pub(super) fn line(&self, line: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_str(line);
        last.push('\n');
        let over = last.len().saturating_sub(LAST_BYTES);
        if over > 0 {
            let cut = (over..=last.len()).find(|&i| last.is_char_boundary(i)).unwrap_or(0);
            last.drain(..cut);
        }
    }

    /// The mark with the exit code.
    pub(super) fn ended(&self, code: i32) {
        self.code.store(code, Ordering::SeqCst);
    }

    /// The output is at its end.
    pub(super) fn finished(&self) {
        self.finished.store(true, Ordering::SeqCst);
    }

    fn code(&self) -> Option<i32> {
        Some(self.code.load(Ordering::SeqCst)).filter(|&code| code != NO_CODE)
    }

    fn last(&self) -> String {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A process on a machine.
#[derive(Debug)]
pub(super) struct SshProcess {
    shared: Arc<Shared>,
    shell: String,
    started: Instant,
    watched: Arc<Watched>,
    channel: Option<Channel>,
    end: Option<Result<Ended, String>>,
    was_stopped: bool,
}

impl SshProcess {
    pub(super) fn new(
        shared: Arc<Shared>,
        shell: &str,
        started: Instant,
        watched: Arc<Watched>,
        channel: Channel,
    ) -> Self {
        Self {
            shared,
            shell: shell.to_owned(),
            started,
            watched,
            channel: Some(channel),
            end: None,
            was_stopped: false,
        }
    }

    /// Writes a line to the watcher on the far side. Whether it came there shows in what follows.
    fn tell(&mut self, line: &str) {
        if let Some(stdin) = self.channel.as_mut().and_then(|c| c.stdin.as_mut()) {
            drop(stdin.write_all(line.as_bytes()));
        }
    }

    /// Takes note of the end, if it has come. What the command left behind may still run then.
    fn look(&mut self) -> Result<Option<Ended>, HostError> {
        match &self.end {
            Some(Ok(ended)) => return Ok(Some(ended.clone())),
            Some(Err(what)) => return Err(self.shared.gone(what)),
            None => {}
        }
        // The mark comes before the end of the output.
        let finished = self.watched.finished.load(Ordering::SeqCst);
        let end = match self.watched.code() {
            Some(code) => Ok(Ended { success: code == 0, how: describe(code) }),
            None if !finished => return Ok(None),
            None => {
                self.release();
                let lost = self.shared.lost(&self.shell, &self.watched.last());
                match (lost.is_gone(), self.was_stopped) {
                    (true, _) => Err(lost.what),
                    (false, true) => Ok(Ended { success: false, how: describe(128 + 9) }),
                    (false, false) => Ok(Ended { success: false, how: lost.what }),
                }
            }
        };
        let how = end.as_ref().map_or_else(String::as_str, |ended| &ended.how);
        self.shared.note(self.started, &self.shell, how, &self.watched.last());
        self.end = Some(end);
        self.look()
    }

    /// Lets go of the program here.
    fn release(&mut self) {
        if let Some(mut channel) = self.channel.take() {
            if self.watched.finished.load(Ordering::SeqCst) {
                self.shared.connection().end(channel);
            } else {
                self.shared.connection().abandon(&mut channel);
            }
        }
    }
}

impl Process for SshProcess {
    fn ended(&mut self) -> Result<Option<Ended>, HostError> {
        self.look()
    }

    fn signal(&mut self, signal: &str) -> Result<(), HostError> {
        if signal.is_empty() || !signal.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(self.shared.error(format!("`{signal}` is not the name of a signal")));
        }
        self.tell(&format!("signal {signal}\n"));
        Ok(())
    }

    fn stop(&mut self, patience: Duration) -> Result<(), HostError> {
        if self.channel.is_none() {
            return Ok(());
        }
        self.was_stopped = true;
        self.tell(&format!("stop {}\n", patience.as_millis().div_ceil(100)));
        let deadline = Instant::now() + patience + END_PATIENCE;
        while !self.watched.finished.load(Ordering::SeqCst) {
            if let Some(channel) = &mut self.channel {
                channel.reap();
            }
            if Instant::now() >= deadline {
                self.release();
                return Err(self.shared.error(format!(
                    "`{}` did not end within {:?} although it was killed: look for it on the \
                     machine (`ps`), it may hang in a driver",
                    self.shell,
                    patience + END_PATIENCE
                )));
            }
            thread::sleep(TICK);
        }
        let ended = self.look();
        self.release();
        ended.map(drop)
    }
}

impl Drop for SshProcess {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.tell("stop 20\n");
            let last = self.watched.last();
            self.shared.note(self.started, &self.shell, "abandoned, and told to stop", &last);
        }
        self.release();
    }
}

/// An exit code of `sh` in words: above 128 it stands for a signal.
pub(super) fn describe(code: i32) -> String {
    if (129..=192).contains(&code) {
        format!("killed by signal {}", code - 128)
    } else {
        format!("exit code {code}")
    }
}
