//! A connection to a machine: a master that OpenSSH keeps, and commands that share it.
//!
//! The `openssh` crate starts the system's own ssh, so the user's configuration, keys, agent and
//! jump hosts hold; it asks for host keys to be checked and for nothing to prompt. It is
//! asynchronous and stays behind this module: a runtime of the current thread is driven while
//! something is started or ended, and the programs run by themselves in between. The manager's own
//! machine is a connection too: to a `sh`.
//!
//! The master ends by itself when nobody has used it for [`IDLE`], also after this process was
//! killed. This module never decides what runs.

use std::fs::File;
use std::io::{self, PipeWriter, Write as _};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openssh::{ControlPersist, KnownHosts, Session, SessionBuilder};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::complaint::Complaint;
use super::script::BOOTSTRAP;
use crate::model::hosts::RemoteSpec;

/// How long a machine may take to answer the first packet.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often ssh asks a silent machine whether it lives; after three times it gives up. A DUT that
/// is flooded answers late, so this is not short.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// A master that nobody uses ends after this.
const IDLE: NonZeroUsize = NonZeroUsize::new(120).expect("not zero");
/// A master that was not used for this long is asked whether it lives before it is used.
const CHECK_AFTER: Duration = Duration::from_secs(20);
/// Sockets have short names (unix(7)), so a long temporary directory cannot hold them.
const CONTROL_PATH_BYTES_MAX: usize = 50;

/// Why there is no connection.
#[derive(Debug, Clone)]
pub(super) struct ConnectError {
    /// What is wrong, and what to do next.
    pub(super) what: String,
    /// Whether waiting may help.
    pub(super) may_pass: bool,
}

/// A connection, open or not.
#[derive(Debug)]
pub(super) struct Connection {
    remote: RemoteSpec,
    connect_timeout: Duration,
    alive_interval: Duration,
    // The session goes before the directory of its socket and the runtime.
    session: Option<Arc<Session>>,
    last_used: Instant,
    control: Option<TempDir>,
    runtime: Option<Runtime>,
}

/// A program that was started over a connection.
#[derive(Debug)]
pub(super) struct Channel {
    /// Its standard input, after the script; closing it ends what runs.
    pub(super) stdin: Option<PipeWriter>,
    child: Option<Child>,
}

#[derive(Debug)]
enum Child {
    Far(Box<openssh::Child<Arc<Session>>>),
    Near(process::Child),
}

impl Channel {
    /// Takes note if a program of this machine has ended: until then it is still seen.
    pub(super) fn reap(&mut self) {
        if let Some(Child::Near(child)) = &mut self.child {
            drop(child.try_wait());
        }
    }
}

impl Connection {
    pub(super) fn new(remote: &RemoteSpec) -> Self {
        Self {
            remote: remote.clone(),
            connect_timeout: CONNECT_TIMEOUT,
            alive_interval: ALIVE_INTERVAL,
            session: None,
            last_used: Instant::now(),
            control: None,
            runtime: None,
        }
    }

    /// Other times than the usual ones: until a machine answers, and between two questions whether
    /// it lives. In whole seconds, as ssh has them.
    pub(super) fn patience(&mut self, connect_timeout: Duration, alive_interval: Duration) {
        self.connect_timeout = connect_timeout;
        self.alive_interval = alive_interval;
    }

    /// Opens it, unless it is open.
    pub(super) fn open(&mut self) -> Result<(), ConnectError> {
        let Some(destination) = self.remote.ssh.clone() else {
            return Ok(());
        };
        if destination.starts_with('-') {
            let what = format!("`{destination}` cannot be a machine: it would be an option of ssh");
            return Err(ConnectError { what, may_pass: false });
        }
        if self.session.is_some() && self.last_used.elapsed() >= CHECK_AFTER && !self.is_alive() {
            self.close();
        }
        if self.session.is_some() {
            return Ok(());
        }
        let failed = |what: String| ConnectError { what, may_pass: false };
        if self.control.is_none() {
            let dir = control_directory().map_err(|e| {
                failed(format!("cannot make a directory for the sockets of ssh: {e}"))
            })?;
            self.control = Some(dir);
        }
        let mut builder = SessionBuilder::default();
        builder
            .known_hosts_check(KnownHosts::Strict)
            .connect_timeout(self.connect_timeout)
            .server_alive_interval(self.alive_interval)
            .control_persist(ControlPersist::IdleFor(IDLE));
        if let Some(dir) = &self.control {
            builder.control_directory(dir.path());
        }
        if let Some(config) = &self.remote.config {
            builder.config_file(config);
        }
        let runtime = self.runtime().map_err(|e| failed(e.to_string()))?;
        let session = runtime.block_on(builder.connect(&destination)).map_err(|error| {
            let said = chain(&error);
            let complaint = Complaint::read(&said);
            ConnectError {
                what: complaint.explain(&destination, &self.by_hand(), &said),
                may_pass: complaint.may_pass(),
            }
        })?;
        self.session = Some(Arc::new(session));
        self.last_used = Instant::now();
        Ok(())
    }

    /// Starts a program with a script of [`super::script`] on its standard input.
    pub(super) fn start(
        &mut self,
        script: &str,
        stdout: File,
        stderr: File,
    ) -> Result<Channel, ConnectError> {
        self.open()?;
        let cannot = |error: String| ConnectError {
            what: format!("cannot start a program over SSH: {error}"),
            may_pass: false,
        };
        let (input, mut stdin) = io::pipe().map_err(|e| cannot(e.to_string()))?;
        let child = match self.session.clone() {
            Some(session) => {
                let mut command = session.arc_raw_command(BOOTSTRAP);
                command.stdin(OwnedFd::from(input)).stdout(stdout).stderr(stderr);
                let spawn = async { command.spawn().await };
                let runtime = self.runtime().map_err(|e| cannot(e.to_string()))?;
                Child::Far(Box::new(runtime.block_on(spawn).map_err(|e| cannot(chain(&e)))?))
            }
            None => Child::Near(
                process::Command::new("sh")
                    .args(["-c", BOOTSTRAP])
                    .stdin(input)
                    .stdout(Stdio::from(stdout))
                    .stderr(Stdio::from(stderr))
                    .process_group(0)
                    .spawn()
                    .map_err(|e| cannot(e.to_string()))?,
            ),
        };
        self.last_used = Instant::now();
        // What cannot be written is missing from what comes back, where it is looked for.
        drop(stdin.write_all(script.as_bytes()));
        Ok(Channel { stdin: Some(stdin), child: Some(child) })
    }

    /// Waits for the program that carried a channel, whose outputs are at their end already.
    pub(super) fn end(&mut self, mut channel: Channel) {
        drop(channel.stdin.take());
        match channel.child.take() {
            Some(Child::Far(child)) => {
                if let Ok(runtime) = self.runtime() {
                    drop(runtime.block_on((*child).wait()));
                }
            }
            Some(Child::Near(mut child)) => drop(child.wait()),
            None => {}
        }
    }

    /// Lets go of a channel whose program does not end: what it runs ends by itself, because its
    /// standard input has ended.
    pub(super) fn abandon(&mut self, channel: &mut Channel) {
        drop(channel.stdin.take());
        match channel.child.take() {
            Some(Child::Far(child)) => {
                if let Ok(runtime) = self.runtime() {
                    drop(runtime.block_on((*child).disconnect()));
                }
            }
            // It leads the group that its watcher ends.
            Some(Child::Near(mut child)) => drop(std::thread::spawn(move || child.wait())),
            None => {}
        }
    }

    /// Whether the master is there and connected.
    pub(super) fn is_alive(&mut self) -> bool {
        let Some(session) = self.session.clone() else {
            return self.remote.ssh.is_none();
        };
        let alive = self.runtime().is_ok_and(|runtime| runtime.block_on(session.check()).is_ok());
        if alive {
            self.last_used = Instant::now();
        }
        alive
    }

    /// Closes it. It is opened again when something is started.
    pub(super) fn close(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        // Programs that still run keep the session; the last of them takes it along.
        if let (Ok(session), Some(runtime)) = (Arc::try_unwrap(session), &self.runtime) {
            drop(runtime.block_on(session.close()));
        }
    }

    /// Socket of the master, for programs that use the connection by themselves.
    pub(super) fn control_socket(&self) -> Option<&std::path::Path> {
        self.session.as_ref().map(|session| session.control_socket())
    }

    /// How the user can try the connection by hand.
    pub(super) fn by_hand(&self) -> String {
        let destination = self.remote.ssh.as_deref().unwrap_or_default();
        match &self.remote.config {
            Some(config) => format!("ssh -F {config} {destination}"),
            None => format!("ssh {destination}"),
        }
    }

    fn runtime(&mut self) -> io::Result<&Runtime> {
        if self.runtime.is_none() {
            self.runtime = Some(Builder::new_current_thread().enable_io().enable_time().build()?);
        }
        self.runtime.as_ref().ok_or_else(|| io::Error::other("no runtime"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A directory for sockets, that only this user can enter.
fn control_directory() -> io::Result<TempDir> {
    let usual = std::env::temp_dir();
    let dir = if usual.as_os_str().len() > CONTROL_PATH_BYTES_MAX { "/tmp".into() } else { usual };
    super::leftovers::remove(&dir);
    tempfile::Builder::new()
        .prefix(&format!("{}{}-", super::CONTROL_PREFIX, process::id()))
        .tempdir_in(dir)
}
