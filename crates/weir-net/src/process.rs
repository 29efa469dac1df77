//! Programs inside network namespaces: run one to its end within a time limit, keep one running,
//! and end whatever runs in a namespace.
//!
//! A program started here is in the namespace of the thread that starts it, on that thread's
//! CPUs, and in a process group of its own: a signal to the terminal does not reach it, and it
//! is ended together with all that it started. Its environment is this process's.
//!
//! This module never signals a process outside of the group or the namespace it was given, nor
//! this process itself.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::procfs;

mod namespace;
mod pipes;

pub use namespace::{cpumap_threads, end_processes_in, processes_in_netns};
use pipes::Pipes;

/// How much of each output stream of [`run`] is kept unless told otherwise.
pub(crate) const OUTPUT_SIZE_BYTES_DEFAULT: usize = 1 << 20;

/// How often a process is looked at while waiting for it.
const TICK_MS: u8 = 2;

/// Why a program could not be run or ended.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Nothing to run.
    #[error("an empty command cannot be run")]
    Empty,
    /// It could not be started.
    #[error("cannot start `{command}`: {source}{}", start_advice(source))]
    Start {
        command: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// It was killed because it did not end in time.
    #[error("`{command}` did not end within {timeout:?} and was killed{}", last_line(output))]
    TimedOut {
        command: String,
        /// The limit.
        timeout: Duration,
        /// What it had written until then.
        output: Box<Output>,
    },
    /// It was killed because it was no longer wanted ([`run_while`]).
    #[error("`{command}` was cancelled")]
    Cancelled { command: String },
    /// It ended, but not with success ([`Output::check`]).
    #[error("`{command}` failed ({status}){}", last_line(output))]
    Failed {
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote.
        output: Box<Output>,
    },
    /// Waiting for it, or talking to it, failed.
    #[error("cannot {action} `{command}`: {source}")]
    System {
        command: String,
        /// What was to be done.
        action: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The namespace is not one whose processes may be ended.
    #[error(
        "processes in network namespace {inode} are not ended: they are the host's or this one's"
    )]
    Protected {
        /// The namespace's inode number.
        inode: u64,
    },
    /// Killed processes did not go.
    #[error("processes {pids:?} in network namespace {inode} did not end, even when killed")]
    Remaining {
        /// The namespace's inode number.
        inode: u64,
        /// The processes.
        pids: Vec<i32>,
    },
    /// `/proc` could not be read.
    #[error("cannot list the processes: {source}")]
    List {
        /// The operating system's answer.
        source: io::Error,
    },
}

/// Where programs are looked up: this process's `PATH`, then the directories of the system's
/// tools (`nft`), which a root shell that `su` has started need not have in it.
#[must_use]
pub fn search_path() -> OsString {
    let path = std::env::var_os("PATH").filter(|path| !path.is_empty());
    let mut path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}

fn start_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; is it installed, and in PATH?",
        _ => "",
    }
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .map_or_else(String::new, |line| format!(": {}", line.trim()))
}

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Invocation {
    argv: Vec<String>,
    shown: String,
    stdin: Vec<u8>,
    environment: Vec<(String, String)>,
    directory: Option<PathBuf>,
    output_size_bytes_max: usize,
}

impl Invocation {
    /// A program and its arguments, looked up in `PATH`.
    pub fn program<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        let argv: Vec<String> = argv.into_iter().map(Into::into).collect();
        let shown = argv.join(" ");
        Self::new(argv, shown)
    }

    /// A command line for `/bin/sh -c`.
    #[must_use]
    pub fn shell(line: &str) -> Self {
        Self::new(vec!["/bin/sh".to_owned(), "-c".to_owned(), line.to_owned()], line.to_owned())
    }

    fn new(argv: Vec<String>, shown: String) -> Self {
        Self {
            argv,
            shown,
            stdin: Vec::new(),
            environment: Vec::new(),
            directory: None,
            output_size_bytes_max: OUTPUT_SIZE_BYTES_DEFAULT,
        }
    }

    /// With this standard input, instead of none. ([`run`] only.)
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// With this environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// In this directory.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Keep at most this much of each output stream; the rest is read and dropped. ([`run`] only.)
    #[must_use]
    pub fn output_size_bytes_max(mut self, size: usize) -> Self {
        self.output_size_bytes_max = size;
        self
    }

    fn command(&self) -> Result<Command, ProcessError> {
        let (program, arguments) = self.argv.split_first().ok_or(ProcessError::Empty)?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).env("PATH", search_path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }

    fn start(&self, command: &mut Command) -> Result<Child, ProcessError> {
        command
            .spawn()
            .map_err(|source| ProcessError::Start { command: self.shown.clone(), source })
    }

    fn system(&self, action: &'static str) -> impl FnOnce(io::Error) -> ProcessError + '_ {
        move |source| ProcessError::System { command: self.shown.clone(), action, source }
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// How a program ended and what it wrote.
#[derive(Debug, Clone)]
pub struct Output {
    /// The command as it was given.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, up to the limit.
    pub stdout: Vec<u8>,
    /// Its standard error, up to the limit.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than the limit to one of them.
    pub is_truncated: bool,
}

impl Output {
    /// The output if the program was successful.
    ///
    /// # Errors
    ///
    /// If its exit code was not 0, with the last line of its standard error.
    pub fn check(self) -> Result<Self, ProcessError> {
        if self.status.success() {
            return Ok(self);
        }
        Err(ProcessError::Failed {
            command: self.command.clone(),
            status: self.status,
            output: Box::new(self),
        })
    }

    /// The standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Runs a program to its end and captures its output. Whatever it leaves running in the
/// background is left alone, but its output is not waited for.
///
/// # Errors
///
/// If it cannot be started, or does not end in time: then it is killed with its whole process
/// group. An exit code other than 0 is no error here, see [`Output::check`].
pub fn run(invocation: &Invocation, timeout: Duration) -> Result<Output, ProcessError> {
    run_while(invocation, timeout, &|| true)
}

/// As [`run`], but also killed as soon as `go_on` says no; it is asked every few milliseconds.
///
/// # Errors
///
/// As [`run`]; [`ProcessError::Cancelled`] if it was killed because `go_on` said no.
pub fn run_while(
    invocation: &Invocation,
    timeout: Duration,
    go_on: &dyn Fn() -> bool,
) -> Result<Output, ProcessError> {
    let mut command = invocation.command()?;
    let stdin = if invocation.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let deadline = Instant::now() + timeout;
    let mut child = GroupLeader::new(invocation.start(&mut command)?);
    let mut pipes =
        Pipes::new(&mut child.child, invocation).map_err(invocation.system("talk to"))?;
    let finished = loop {
        pipes.transfer(TICK_MS).map_err(invocation.system("talk to"))?;
        if let Some(status) = child.peek().map_err(invocation.system("wait for"))? {
            break Some(status);
        }
        if Instant::now() >= deadline || !go_on() {
            break None;
        }
    };
    let status = match finished {
        Some(_) => child.reap(),
        None => child.kill_group(),
    };
    let status = status.map_err(invocation.system("wait for"))?;
    // What is in the pipes now was written before the end.
    pipes.transfer(0).map_err(invocation.system("talk to"))?;
    let output = pipes.into_output(invocation, status);
    match finished {
        Some(_) => Ok(output),
        None if Instant::now() < deadline => {
            Err(ProcessError::Cancelled { command: invocation.shown.clone() })
        }
        None => Err(ProcessError::TimedOut {
            command: invocation.shown.clone(),
            timeout,
            output: Box::new(output),
        }),
    }
}

/// Starts a program that keeps running, with its output going to the files.
///
/// # Errors
///
/// If it cannot be started.
pub fn spawn(invocation: &Invocation, stdout: File, stderr: File) -> Result<Process, ProcessError> {
    let mut command = invocation.command()?;
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let child = invocation.start(&mut command)?;
    Ok(Process { leader: GroupLeader::new(child), shown: invocation.shown.clone() })
}

/// A running program with its process group. Dropping it kills the group.
#[derive(Debug)]
pub struct Process {
    leader: GroupLeader,
    shown: String,
}

/// How [`Process::stop`] went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// How the program ended.
    pub status: ExitStatus,
    /// Whether it, or something it had started, had to be killed.
    pub was_killed: bool,
}

impl Process {
    /// The process id, which is also that of its group.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.leader.pid()
    }

    /// How the program ended, or `None` while it runs.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn try_wait(&self) -> Result<Option<ExitStatus>, ProcessError> {
        self.leader.peek().map_err(|source| ProcessError::System {
            command: self.shown.clone(),
            action: "look at",
            source,
        })
    }

    /// Ends the program and all of its group: SIGTERM, then SIGKILL for what is left after the
    /// time-out. Also if the program itself has ended already.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn stop(mut self, timeout: Duration) -> Result<Stopped, ProcessError> {
        let group = self.pid();
        let deadline = Instant::now() + timeout;
        let mut is_alive = group_is_alive(group);
        if is_alive {
            // Gone in between is what was wanted.
            let _ = killpg(Pid::from_raw(group), Signal::SIGTERM);
        }
        while is_alive && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(TICK_MS.into()));
            is_alive = group_is_alive(group);
        }
        let status = self.leader.kill_group().map_err(|source| ProcessError::System {
            command: self.shown.clone(),
            action: "stop",
            source,
        })?;
        Ok(Stopped { status, was_killed: is_alive })
    }
}

/// A child that leads a process group. Until it is reaped its process id, and so the group's,
/// cannot be given to another process: signals reach nobody else.
#[derive(Debug)]
struct GroupLeader {
    child: Child,
    is_reaped: bool,
}

impl GroupLeader {
    fn new(child: Child) -> Self {
        Self { child, is_reaped: false }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// How it ended, without reaping it.
    fn peek(&self) -> io::Result<Option<ExitStatus>> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(Pid::from_raw(self.pid())), flags)? {
            WaitStatus::Exited(_, code) => Ok(Some(ExitStatus::from_raw(code << 8))),
            WaitStatus::Signaled(_, signal, has_core) => {
                let core = if has_core { 0x80 } else { 0 };
                Ok(Some(ExitStatus::from_raw(signal as i32 | core)))
            }
            _ => Ok(None),
        }
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.is_reaped = true;
        Ok(status)
    }

    fn kill_group(&mut self) -> io::Result<ExitStatus> {
        match killpg(Pid::from_raw(self.pid()), Signal::SIGKILL) {
            Ok(()) | Err(nix::Error::ESRCH) => self.reap(),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for GroupLeader {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.kill_group();
        }
    }
}

fn group_is_alive(group: i32) -> bool {
    let pids = procfs::pids().unwrap_or_default();
    pids.into_iter().filter_map(procfs::stat).any(|stat| stat.group == group && !stat.has_ended())
}

#[cfg(test)]
mod tests;
