//! `weir fw run`: reads the ruleset, and becomes the daemon or starts it.
//!
//! In the background the command starts itself once more, waits until that one says READY (the
//! words are sd_notify(3)'s), and returns; if it fails instead, its messages and exit code are the
//! command's. A signal meanwhile ends both, and nothing is left behind.

use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_fw::daemon::{Daemon, Messages, Stop};
use weir_fw::engine::{Machine, Options};
use weir_fw::socket;
use weir_rules::Dialect;
use weir_rules::facts::Facts;

use super::load::Language;
use super::machine::MoreNames;
use super::names::Names;
use super::{files, remote, show};
use crate::cli::fw::Target;
use crate::cli::fw_run::RunArgs;
use crate::exit::{self, Outcome};

/// How often the waiting command looks whether the daemon is still there.
const POLL: Duration = Duration::from_millis(100);
/// Where messages go once there is no terminal (syslog(3)): daemon.warning.
const SYSLOG: &str = "/dev/log";
const SYSLOG_PRIORITY: u8 = 3 * 8 + 4;

/// Runs the command.
pub(super) fn command(args: &RunArgs) -> anyhow::Result<Outcome> {
    // Without root there is nothing to wait for: what is missing is said at once.
    if args.foreground || !nix::unistd::geteuid().is_root() {
        foreground(args)
    } else {
        background()
    }
}

/// This machine, asked anew each time, and what else its rulesets may name.
struct Host(MoreNames);

impl Machine for Host {
    fn facts(&self) -> Result<Facts, String> {
        self.0.with_host().map_err(|error| exit::message(&error))
    }
}

/// Standard error, or the system's log when there is nobody at it any more.
#[derive(Default)]
struct Voice {
    syslog: Mutex<Option<UnixDatagram>>,
    is_detached: AtomicBool,
}

impl Messages for Voice {
    fn tell(&self, text: &str) {
        if !self.is_detached.load(Ordering::Acquire) {
            // Nobody is left to tell if standard error is closed.
            drop(writeln!(io::stderr(), "weir fw: {text}"));
            return;
        }
        let mut syslog = self.syslog.lock().unwrap_or_else(PoisonError::into_inner);
        if syslog.is_none() {
            let socket = UnixDatagram::unbound();
            *syslog = socket.and_then(|socket| socket.connect(SYSLOG).map(|()| socket)).ok();
        }
        let line = format!("<{SYSLOG_PRIORITY}>weir[{}]: {text}", std::process::id());
        // A system log that is gone is looked for again with the next message.
        if syslog.as_ref().is_some_and(|socket| socket.send(line.as_bytes()).is_err()) {
            *syslog = None;
        }
    }
}

fn foreground(args: &RunArgs) -> anyhow::Result<Outcome> {
    if args.detached {
        nix::unistd::setsid().context("cannot detach from the terminal")?;
    }
    let more_names = MoreNames::read(args.facts.as_deref())?;
    if let Some(note) = &more_names.note {
        // Nobody is left to tell if standard error is closed.
        drop(writeln!(io::stderr(), "{note}"));
    }
    let facts = more_names.with_host()?;
    let dialect = args.dialect.map(Dialect::from);
    let (macros, disk) = (args.macros.clone(), files::Disk::default());
    let names = Some(Names::default());
    let is_strict = dialect.is_some();
    let language = Language { dialect, is_strict, macros, facts, disk, names };
    let (name, bytes) = files::first(&args.file)
        .map_err(|cause| anyhow::anyhow!("cannot read {}: {cause}", args.file.display()))?;
    let mut prepared = remote::prepare(&language, &name, &bytes, "");
    // What runs already is not ended by interfaces that cannot be filtered: the daemon decides.
    language.judge(&mut prepared.compiled, &mut prepared.anchors, Target::Weir, &[]);
    if prepared.error_count() > 0 {
        prepared.show_anchors();
        let compiled = &prepared.compiled;
        show::diagnostics(&compiled.diagnostics, &compiled.sources, compiled.dropped_count);
        return Ok(Outcome::Refused);
    }
    let voice = Arc::new(Voice::default());
    let messages: Arc<dyn Messages> = Arc::<Voice>::clone(&voice);
    let is_log_moved = Arc::new(AtomicBool::new(false));
    let daemon = Daemon {
        options: Options { is_generic: args.generic },
        load: prepared.load,
        machine: Arc::new(Host(more_names)),
        log_file: args.log.clone(),
        is_log_moved: Arc::clone(&is_log_moved),
        metrics: args.metrics,
        collector: args.pflow,
        messages,
    };
    let stop = Arc::new(Stop::default());
    let signal = listen(&stop, args.log.is_some().then_some(is_log_moved))?;
    let is_detached = args.detached;
    daemon.run(&stop, |status| {
        if is_detached {
            return detach(&voice);
        }
        voice.tell(status);
        Ok(())
    })?;
    Ok(match signal.load(Ordering::Acquire) {
        0 => Outcome::Done,
        signal => Outcome::Signal(signal),
    })
}

/// Signals ask the daemon to stop; the programs stay. Gives where the signal's number will stand.
/// SIGHUP says that the log's file was moved away, where there is one.
fn listen(
    stop: &Arc<Stop>,
    is_log_moved: Option<Arc<AtomicBool>>,
) -> anyhow::Result<Arc<AtomicI32>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot handle signals")?;
    let (stop, seen) = (Arc::clone(stop), Arc::new(AtomicI32::new(0)));
    let latest = Arc::clone(&seen);
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || {
        for signal in signals.forever() {
            if let Some(is_log_moved) = is_log_moved.as_ref().filter(|_| signal == SIGHUP) {
                is_log_moved.store(true, Ordering::Release);
                continue;
            }
            latest.store(signal, Ordering::Release);
            stop.request();
        }
    })?;
    Ok(seen)
}

/// Lets go of the terminal and of the directory it was started in.
fn detach(voice: &Voice) -> io::Result<()> {
    voice.is_detached.store(true, Ordering::Release);
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    nix::unistd::chdir("/")?;
    Ok(())
}

/// A file that goes when it is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // It may not have been made.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Starts the daemon, and waits until it filters. Nobody else can say that it does: the socket is
/// where only root can send to it.
fn background() -> anyhow::Result<Outcome> {
    let directory = socket::directory().context("cannot make a socket")?;
    let path = Removed(directory.join(format!("start-{}", std::process::id())));
    // What a process of this number has left that was killed.
    drop(std::fs::remove_file(&path.0));
    let socket = UnixDatagram::bind(&path.0).context("cannot make a socket")?;
    socket.set_read_timeout(Some(POLL)).context("cannot make a socket")?;
    let signal = listen(&Arc::new(Stop::default()), None)?;
    // The words of the command line behind `weir fw run`; what the daemon is told besides comes
    // last, so that none of them is mistaken for another one's value.
    let mut child = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .args(["--foreground", "--detached"])
        .env("NOTIFY_SOCKET", &path.0)
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the daemon")?;
    wait_ready(&socket, &mut child, &signal)
}

fn wait_ready(
    socket: &UnixDatagram,
    child: &mut Child,
    signal: &AtomicI32,
) -> anyhow::Result<Outcome> {
    let mut message = [0; 4096];
    let mut is_stopping = false;
    loop {
        let seen = signal.load(Ordering::Acquire);
        if seen != 0 && !std::mem::replace(&mut is_stopping, true) {
            let pid = i32::try_from(child.id()).context("cannot end the daemon")?;
            kill(Pid::from_raw(pid), Signal::SIGTERM).context("cannot end the daemon")?;
        }
        match socket.recv(&mut message) {
            Ok(size) => {
                let text = String::from_utf8_lossy(&message[..size]);
                if text.lines().any(|line| line == "READY=1") {
                    return Ok(Outcome::Done);
                }
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error).context("cannot hear from the daemon"),
        }
        if let Some(status) = child.try_wait().context("cannot wait for the daemon")? {
            return match status.code() {
                _ if is_stopping => Ok(Outcome::Signal(seen)),
                // It has said why.
                Some(2) => Ok(Outcome::Refused),
                _ => bail!("the daemon ended before it filtered packets ({status})"),
            };
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
