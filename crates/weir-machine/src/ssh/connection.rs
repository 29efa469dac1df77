//! A connection to a machine: a master that OpenSSH keeps, and commands that share it.
//!
//! It is the system's own ssh, so the user's configuration, keys, agent and jump hosts hold; host
//! keys are checked and nothing prompts. The master is started here, because whatever a login waits
//! for (a jump host, an agent, a key that wants to be touched) has to end with its time or with a
//! request to stop; the `openssh` crate does all that is done over it. That crate is asynchronous
//! and stays behind this module: a runtime of the current thread is driven while something is
//! started or ended, and the programs run by themselves in between. The manager's own machine is a
//! connection too: to a `sh`.
//!
//! The master ends by itself when nobody has used it for [`IDLE_S`], also after this process was
//! killed. This module never decides what runs.

use std::fs::File;
use std::io::{self, PipeWriter, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::pin::pin;
use std::process::{self, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use openssh::Session;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use weir_wire::units::format_duration;

use super::complaint::Complaint;
use super::script::BOOTSTRAP;
use crate::access::RemoteSpec;
use crate::cancel::Cancel;

/// How long a machine may take to answer the first packet.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often ssh asks a silent machine whether it lives; after three times it gives up. A DUT that
/// is flooded answers late, so this is not short.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How many such questions may stay unanswered: a machine that is gone without a word is missed
/// before what runs there is out of time.
const ALIVE_COUNT_MAX: u32 = 2;
/// How long a login may take beyond the first packet: keys, agents, jump hosts, a slow machine.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a master may take to answer, and a program whose outputs have ended to end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Files of a master.
const SOCKET: &str = "master";
const LOG: &str = "log";
/// How often what is waited for is looked at.
const POLL: Duration = Duration::from_millis(5);
/// A master that nobody uses ends after so many seconds.
const IDLE_S: u32 = 120;
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
    login_timeout: Duration,
    cancel: Cancel,
    /// It could not be opened after somebody had asked to stop: there is no further attempt.
    given_up: bool,
    // The session goes before the directory of its socket and the runtime.
    session: Option<Arc<Session>>,
    last_used: Instant,
    /// Where the master has its socket and its log.
    master: Option<TempDir>,
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
    pub(super) fn new(remote: &RemoteSpec, cancel: &Cancel) -> Self {
        Self {
            remote: remote.clone(),
            connect_timeout: CONNECT_TIMEOUT,
            alive_interval: ALIVE_INTERVAL,
            login_timeout: LOGIN_TIMEOUT,
            cancel: cancel.clone(),
            given_up: false,
            session: None,
            last_used: Instant::now(),
            master: None,
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

    /// Opens it, unless it is open. A request to stop ends an attempt that it finds under way;
    /// after one, what is still to be put back has one attempt more, and a short one.
    pub(super) fn open(&mut self) -> Result<(), ConnectError> {
        let Some(destination) = self.remote.ssh.clone() else {
            return Ok(());
        };
        let failed = |what: String| ConnectError { what, may_pass: false };
        if destination.starts_with('-') {
            return Err(failed(format!(
                "`{destination}` cannot be a machine: it would be an option of ssh; correct `ssh` \
                 in the specification"
            )));
        }
        if self.session.is_some() && self.last_used.elapsed() >= CHECK_AFTER && !self.is_alive() {
            self.close();
        }
        if self.session.is_some() {
            return Ok(());
        }
        let is_stopping = self.cancel.signal().is_some();
        if is_stopping && self.given_up {
            return Err(failed(format!(
                "{destination} could not be reached while weir was stopping, and is not tried \
                 again: what should have been restored there stays as it is; do it by hand \
                 (`{}`), or reboot it",
                self.by_hand()
            )));
        }
        let master = self.master_directory().map_err(|e| {
            failed(format!(
                "cannot make a directory for the sockets of ssh: {e}; make room in {}, or name \
                 another directory in TMPDIR",
                std::env::temp_dir().display()
            ))
        })?;
        if let Err(error) = self.launch(&destination, master.path(), is_stopping) {
            self.given_up = self.cancel.signal().is_some();
            return Err(error);
        }
        let [socket, log] = [SOCKET, LOG].map(|name| master.path().join(name).into_boxed_path());
        self.session = Some(Arc::new(Session::resume(socket, Some(log))));
        self.master = Some(master);
        self.last_used = Instant::now();
        Ok(())
    }

    fn master_directory(&mut self) -> io::Result<TempDir> {
        let control = match self.control.take() {
            Some(control) => control,
            None => control_directory()?,
        };
        let master = tempfile::Builder::new().prefix("").tempdir_in(control.path());
        self.control = Some(control);
        master
    }

    /// Starts a master, and waits until it is logged in.
    fn launch(&self, destination: &str, dir: &Path, is_stopping: bool) -> Result<(), ConnectError> {
        let log = dir.join(LOG);
        let mut ssh = process::Command::new("ssh");
        ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        ssh.arg("-E").arg(&log).arg("-S").arg(dir.join(SOCKET)).args(["-M", "-f", "-N"]);
        let options = [
            "BatchMode=yes".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            format!("ControlPersist={IDLE_S}"),
            format!("ConnectTimeout={}", self.connect_timeout.as_secs()),
            format!("ServerAliveInterval={}", self.alive_interval.as_secs()),
            format!("ServerAliveCountMax={ALIVE_COUNT_MAX}"),
        ];
        for option in options {
            ssh.arg("-o").arg(option);
        }
        if let Some(config) = &self.remote.config {
            ssh.arg("-F").arg(config);
        }
        // A group of its own, so that what it has started to get there ends with it.
        ssh.arg(destination).process_group(0);
        let refused = |said: &str| {
            let complaint = Complaint::read(said);
            ConnectError {
                what: complaint.explain(destination, &self.by_hand(), said),
                may_pass: complaint.may_pass(),
            }
        };
        let mut child = ssh.spawn().map_err(|e| refused(&e.to_string()))?;
        let patience = match is_stopping {
            true => self.connect_timeout,
            false => self.connect_timeout + self.login_timeout,
        };
        let deadline = Instant::now() + patience;
        let (what, may_pass) = loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(_)) => return Err(refused(&read_lossy(&log))),
                Ok(None) => {}
                Err(error) => break (format!("ssh cannot be waited for: {error}"), false),
            }
            if !is_stopping && self.cancel.signal().is_some() {
                break (format!("cancelled while {destination} was connected to"), false);
            }
            if Instant::now() >= deadline {
                break (self.no_login(destination, patience, &read_lossy(&log)), true);
            }
            thread::sleep(POLL);
        };
        if let Ok(group) = i32::try_from(child.id()) {
            // It may have ended meanwhile.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        drop(child.wait());
        Err(ConnectError { what, may_pass })
    }

    fn no_login(&self, destination: &str, patience: Duration, said: &str) -> String {
        let said = match said.trim() {
            "" => String::new(),
            said => format!(" (ssh says: {said})"),
        };
        format!(
            "{destination} did not let us in within {}, and ssh was ended{said}: a jump host, an \
             agent that asks, a key that wants to be touched or a server that hangs; see where \
             `{} -v true` stops",
            format_duration(patience),
            self.by_hand()
        )
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
            what: format!(
                "cannot start a program: {error}; see that this machine has memory, processes and \
                 open files left (`ulimit -a`)"
            ),
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
            // It is ended when it is not waited for any longer.
            Some(Child::Far(child)) => drop(self.bounded((*child).wait())),
            Some(Child::Near(mut child)) => {
                let deadline = Instant::now() + ANSWER_TIMEOUT;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    thread::sleep(POLL);
                }
                leave(child);
            }
            None => {}
        }
    }

    /// Lets go of a channel whose program does not end: what it runs ends by itself, because its
    /// standard input has ended.
    pub(super) fn abandon(&mut self, channel: &mut Channel) {
        drop(channel.stdin.take());
        match channel.child.take() {
            Some(Child::Far(child)) => drop(self.bounded((*child).disconnect())),
            // It leads the group that its watcher ends.
            Some(Child::Near(child)) => leave(child),
            None => {}
        }
    }

    /// Whether the master is there and connected.
    pub(super) fn is_alive(&mut self) -> bool {
        let Some(session) = self.session.clone() else {
            return self.remote.ssh.is_none();
        };
        let alive = self.bounded(session.check()).is_some_and(|answer| answer.is_ok());
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
        // Programs that still run keep the session: it ends when nobody uses it any longer.
        if let Ok(session) = Arc::try_unwrap(session) {
            drop(self.bounded(session.close()));
        }
        self.master = None;
    }

    /// Waits for what ends by itself on a machine that is well; `None` if it does not in its time,
    /// or if somebody asks to stop meanwhile.
    fn bounded<T>(&mut self, what: impl Future<Output = T>) -> Option<T> {
        let cancel = self.cancel.clone();
        let is_stopping = cancel.signal().is_some();
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let runtime = self.runtime().ok()?;
        runtime.block_on(async {
            let mut what = pin!(what);
            loop {
                if let Ok(done) = tokio::time::timeout(POLL, what.as_mut()).await {
                    return Some(done);
                }
                let is_asked = !is_stopping && cancel.signal().is_some();
                if is_asked || Instant::now() >= deadline {
                    return None;
                }
            }
        })
    }

    /// Socket of the master, for programs that use the connection by themselves.
    pub(super) fn control_socket(&self) -> Option<&Path> {
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

/// Lets a program end when it does, and takes note of it.
fn leave(mut child: process::Child) {
    if matches!(child.try_wait(), Ok(None)) {
        drop(thread::spawn(move || child.wait()));
    }
}

fn read_lossy(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A machine whose server says who it is, and nothing more; `None` without an ssh.
    fn stuck(test: &str, dir: &Path, cancel: &Cancel) -> Option<(Connection, PathBuf)> {
        if process::Command::new("ssh").arg("-V").output().is_err() {
            skipped(test);
            return None;
        }
        let (config, pid) = (dir.join("config"), dir.join("pid"));
        let hangs = format!("echo SSH-2.0-stuck; echo $$ >{0}.new; mv {0}.new {0}", pid.display());
        let lines = format!("Host stuck\n  ProxyCommand sh -c '{hangs}; exec sleep 1000'\n");
        std::fs::write(&config, lines).unwrap();
        let remote = RemoteSpec {
            name: "stuck".to_owned(),
            ssh: Some("stuck".to_owned()),
            config: Some(config.to_string_lossy().into_owned()),
            processes: Vec::new(),
        };
        Some((Connection::new(&remote, cancel), pid))
    }

    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    fn skipped(test: &str) {
        eprintln!("skipped: {test}: there is no ssh here");
    }

    fn is_gone(pid: &Path) -> bool {
        let pid = std::fs::read_to_string(pid).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|s| s.starts_with(" Z")))
    }

    #[track_caller]
    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + LONG;
        while !holds() {
            assert!(Instant::now() < deadline, "{what} did not come true");
            thread::sleep(POLL);
        }
    }

    /// Opens it on a thread of its own, so that one that never ends fails the test.
    fn opened(mut connection: Connection) -> mpsc::Receiver<ConnectError> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || drop(sender.send(connection.open().unwrap_err())));
        receiver
    }

    #[test]
    fn a_login_that_hangs_is_ended_after_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let name = "a_login_that_hangs_is_ended_after_its_time";
        let Some((mut connection, pid)) = stuck(name, dir.path(), &Cancel::default()) else {
            return;
        };
        // Ours has to be the first of the times that run out: ssh gives the server the one to say
        // who it is, which takes longer on a busy machine, and some of the other to say more.
        connection.patience(Duration::from_secs(5), LONG);
        connection.login_timeout = Duration::from_secs(1);
        let error = opened(connection).recv_timeout(LONG).expect("it is given up");
        assert!(error.may_pass, "a machine that is starting may hang: {}", error.what);
        for part in ["stuck did not let us in within 6s", "jump host", "-v true"] {
            assert!(error.what.contains(part), "{part:?} is not in: {}", error.what);
        }
        until("the end of what it had started", || is_gone(&pid));
    }

    #[test]
    fn a_login_that_hangs_ends_when_somebody_asks_to_stop() {
        let (dir, cancel) = (tempfile::tempdir().unwrap(), Cancel::default());
        let name = "a_login_that_hangs_ends_when_somebody_asks_to_stop";
        let Some((mut connection, pid)) = stuck(name, dir.path(), &cancel) else {
            return;
        };
        connection.login_timeout = 1000 * LONG;
        let error = opened(connection);
        until("its begin", || pid.exists());
        cancel.request(2);
        let error = error.recv_timeout(LONG).expect("it is ended");
        assert!(error.what.contains("cancelled while stuck was connected to"), "{}", error.what);
        assert!(!error.may_pass, "it is not tried again");
        until("the end of what it had started", || is_gone(&pid));
    }

    #[test]
    fn what_waits_for_a_master_is_ended_too() {
        let cancel = Cancel::default();
        let remote =
            RemoteSpec { name: "x".to_owned(), ssh: Some("x".to_owned()), ..RemoteSpec::default() };
        let mut connection = Connection::new(&remote, &cancel);
        assert_eq!(connection.bounded(async { 3 }), Some(3));
        let (waits, is_waited_for) = mpsc::channel();
        let asking = thread::spawn(move || {
            is_waited_for.recv().unwrap();
            cancel.request(2);
        });
        let endless = std::future::poll_fn(|_| {
            // It is polled more than once, and heard once.
            let _ = waits.send(());
            std::task::Poll::<()>::Pending
        });
        assert_eq!(connection.bounded(endless), None);
        asking.join().unwrap();
        // What is to be put back then still has its time.
        assert_eq!(connection.bounded(async { 4 }), Some(4));
    }
}
