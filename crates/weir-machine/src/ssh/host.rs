//! A machine behind SSH as a [`Host`].
//!
//! Each command runs in a working directory of this process's, which is made when it is needed (a
//! reboot may have emptied it) and removed at the end. The machine is connected to again when the
//! connection is gone, but a command that may have begun is never repeated.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_results::counters::Counters;
use weir_results::dut::System;

use super::capture::{Capture, OUTPUT_BYTES_MAX, Printed};
use super::connection::Channel;
use super::facts;
use super::feeder::{self, Source};
use super::process::{SshProcess, Watched, describe};
use super::script::{self, CANNOT_TRY, Script, quote, split_mark};
use super::secrets::Secrets;
use super::shared::{Shared, said_before};
use crate::access::RemoteSpec;
use crate::cancel::Cancel;
use crate::capped_log::{CappedLog, Heard, Kept};
use crate::host::{Command, Fault, Host, HostError, LineSink, Output, Process, Program};

/// How often the end of a command is looked for.
const TICK: Duration = Duration::from_millis(2);
/// How long a command may take to die that was told to.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);
/// How long a short question may take. A machine under load answers late.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a file may take, on top of what its size takes at [`SLOWEST_BYTES_PER_S`].
const FILE_TIMEOUT: Duration = Duration::from_secs(60);
/// A serial console's worth of network.
const SLOWEST_BYTES_PER_S: u64 = 10_000;

/// A machine behind SSH, or the manager itself.
#[derive(Debug)]
pub struct SshHost {
    shared: Arc<Shared>,
    cancel: Cancel,
    system: Mutex<Option<System>>,
    /// Whether anything ran, so that there is a directory.
    used: AtomicBool,
    logs: Mutex<Vec<(String, CappedLog)>>,
}

/// What a command's standard input is.
enum Input<'a> {
    /// A file on the machine.
    Far(&'a str),
    /// Bytes of this side.
    Near(Source<'a>),
}

/// A command that is to run to its end.
struct Job<'a> {
    shell: &'a str,
    input: Input<'a>,
    timeout: Duration,
    cancellable: bool,
}

impl SshHost {
    /// A machine that is connected to when it is first used.
    #[must_use]
    pub fn new(remote: &RemoteSpec, secrets: &Secrets, cancel: &Cancel) -> Self {
        let directory = facts::directory();
        Self {
            shared: Arc::new(Shared::new(remote, secrets, directory, cancel)),
            cancel: cancel.clone(),
            system: Mutex::default(),
            used: AtomicBool::new(false),
            logs: Mutex::default(),
        }
    }

    /// The machine that weir runs on: its commands have the secrets in their environment.
    #[must_use]
    pub fn manager(secrets: &Secrets, cancel: &Cancel) -> Self {
        let remote = RemoteSpec { name: "manager".to_owned(), ..RemoteSpec::default() };
        Self::new(&remote, secrets, cancel)
    }

    /// Other times than the usual ones: until a machine answers (10 s), and between two questions
    /// whether a silent one lives (15 s; after three it is gone). Whole seconds.
    #[must_use]
    pub fn patience(self, connect: Duration, alive: Duration) -> Self {
        self.shared.connection().patience(connect, alive);
        self
    }

    /// Connects, unless it is connected, sees what runs there, and removes what an earlier weir of
    /// this manager has left.
    ///
    /// # Errors
    /// When it cannot be reached, has another key than the known one, refuses the login, or has no
    /// place for files; the error says what to do.
    pub fn connect(&self) -> Result<(), HostError> {
        let opened = self.shared.connection().open();
        opened.map_err(|e| self.shared.not_connected("connecting", &e))?;
        self.system_now().map(drop)
    }

    /// Tries to connect once; what is wrong, if that may pass by itself.
    pub(super) fn try_connect(&self) -> Result<Result<(), String>, HostError> {
        let opened = self.shared.connection().open();
        match opened {
            Ok(()) => Ok(Ok(())),
            Err(error) if error.may_pass => Ok(Err(error.what)),
            Err(error) => Err(self.shared.not_connected("connecting", &error)),
        }
    }

    /// Closes the connection; the next command opens it again.
    pub fn disconnect(&self) {
        self.shared.connection().close();
    }

    /// Waits until SSH answers, and what runs there can be asked.
    ///
    /// # Errors
    /// [`crate::host::Fault::Gone`] when it does not by `deadline`, or when waiting is no use: a
    /// wrong key, a refused login.
    pub fn wait_online(&self, deadline: Instant) -> Result<(), HostError> {
        let mut last = "it was not tried".to_owned();
        while Instant::now() < deadline {
            match self.try_connect()? {
                Ok(()) => match self.system_now() {
                    Ok(_) => return Ok(()),
                    Err(error) => last = error.what,
                },
                Err(what) => last = what,
            }
            if !self.cancel.sleep(Duration::from_millis(500)) {
                return Err(self.shared.cancelled("waiting for SSH"));
            }
        }
        Err(self.shared.gone(format!("waiting for SSH: {last}")))
    }

    /// The working directory of every command.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.shared.directory
    }

    /// How the machine is reached.
    #[must_use]
    pub fn remote(&self) -> &RemoteSpec {
        &self.shared.remote
    }

    /// Runs a shell line with a file of the manager as its standard input: an image to install. It
    /// may take no longer than `timeout`, whatever the size of the file. Unless all of the file
    /// arrives, the line is killed before it sees the end of its input.
    ///
    /// # Errors
    /// When the file cannot be read, or was cut off on its way; and as [`Host::run`].
    pub fn feed(&self, shell: &str, file: &Path, timeout: Duration) -> Result<Output, HostError> {
        let source = Source::file(file).map_err(|what| self.shared.error(what))?;
        self.feed_from(shell, source, timeout)
    }

    /// The same with any source.
    pub(super) fn feed_from(
        &self,
        shell: &str,
        source: Source<'_>,
        timeout: Duration,
    ) -> Result<Output, HostError> {
        self.execute(Job { shell, input: Input::Near(source), timeout, cancellable: true })
    }

    /// The same with what is in memory, which has more time the larger it is.
    pub(super) fn feed_bytes(
        &self,
        shell: &str,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<Output, HostError> {
        let more = Duration::from_secs(bytes.len() as u64 / SLOWEST_BYTES_PER_S);
        self.feed_from(shell, Source::bytes(bytes), timeout + more)
    }

    /// Puts bytes into a file of the working directory, and sees that all of them are there.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> Result<String, HostError> {
        let path = format!("{}/{name}", self.shared.directory);
        let quoted = quote(&path);
        let shell = format!("cat >{quoted} && wc -c <{quoted}");
        let size = content.len();
        let output = self.feed_bytes(&shell, content, FILE_TIMEOUT)?;
        let step = || format!("writing {path} ({size} bytes)");
        if !output.success() {
            return Err(self.failed(&step(), &output));
        }
        let there = output.stdout.trim();
        if there != size.to_string() {
            return Err(self.shared.error(format!(
                "{}: only {there} bytes arrived: the upload was cut off; try again",
                step()
            )));
        }
        Ok(path)
    }

    /// An error of a step whose command failed; a full disk is told as such.
    pub(super) fn failed(&self, step: &str, output: &Output) -> HostError {
        let said = output.said();
        // What tar says of a write that was short is the same thing.
        let full =
            ["No space left on device", "file system is full", "filesystem full", "Wrote only"];
        if full.iter().any(|phrase| said.contains(phrase)) {
            let room = self.question("df -k").map(|o| o.stdout).unwrap_or_default();
            return self.shared.error(format!(
                "{step}: the disk is full ({said}); make room there and resume. \
                 `df -k` says: {}",
                room.trim().replace('\n', "; ")
            ));
        }
        if said.contains("Read-only file system") {
            return self.shared.error(format!(
                "{step}: the file system is read-only ({said}); name the command that makes it \
                 writable (`before` of the upload, on nanobsd `mount -uw /`)"
            ));
        }
        let how = output.exit_code.map_or_else(|| "killed".to_owned(), describe);
        self.shared.error(format!("{step}: {how}{}", said_after(said)))
    }

    /// Asks something short.
    pub(super) fn question(&self, shell: &str) -> Result<Output, HostError> {
        self.execute(Job {
            shell,
            input: Input::Far("/dev/null"),
            timeout: QUESTION_TIMEOUT,
            cancellable: false,
        })
    }

    /// Asks something that must be answered, as the step `step`.
    pub(super) fn answer(&self, step: &str, shell: &str) -> Result<String, HostError> {
        let output = self.question(shell)?;
        if output.success() { Ok(output.stdout) } else { Err(self.failed(step, &output)) }
    }

    /// Whether the connection is there, as far as ssh knows.
    pub(super) fn is_connected(&self) -> bool {
        self.shared.connection().is_alive()
    }

    /// A command that reaches the machine over this connection, for programs that take one
    /// instead of ssh; `None` for the manager itself.
    pub(super) fn rsh(&self) -> Result<Option<String>, HostError> {
        let mut connection = self.shared.connection();
        connection.open().map_err(|e| self.shared.not_connected("connecting", &e))?;
        Ok(connection.control_socket().map(|socket| {
            // Port 9 discards: without the master there shall be no connection at all.
            format!("ssh -S {} -o BatchMode=yes -p 9", socket.display())
        }))
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What the machine runs; asked once, together with what an earlier weir has left.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn system_now(&self) -> Result<System, HostError> {
        let known = *self.system.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(system) = known {
            return Ok(system);
        }
        let hello = self.answer("checking what runs there", &facts::hello())?;
        let (system, left) = facts::read_hello(&hello);
        if !left.is_empty() {
            let words: Vec<String> = left.iter().map(|dir| quote(dir)).collect();
            self.question(&format!("rm -rf {}", words.join(" ")))?;
        }
        *self.system.lock().unwrap_or_else(PoisonError::into_inner) = Some(system);
        Ok(system)
    }

    pub(super) fn script<'a>(
        &'a self,
        mark: &'a str,
        input: &'a str,
        command: &'a str,
    ) -> Script<'a> {
        self.used.store(true, Ordering::Relaxed);
        Script {
            directory: &self.shared.directory,
            // An environment can be read by whoever is root on the machine.
            environment: match self.shared.remote.ssh {
                None => self.shared.secrets.variables(),
                Some(_) => &[],
            },
            mark,
            input,
            command,
        }
    }

    /// Runs a command to its end, and notes it.
    fn execute(&self, job: Job<'_>) -> Result<Output, HostError> {
        let (started, shell) = (Instant::now(), job.shell);
        let result = self.execute_unnoted(job);
        let result = result.map(|output| self.shared.secrets.redact_output(output));
        let (end, said) = match &result {
            Ok(output) => (
                output.exit_code.map_or_else(|| "killed".to_owned(), describe),
                format!("{}{}", output.stdout, output.stderr),
            ),
            Err(error) => (error.what.clone(), String::new()),
        };
        self.shared.note(started, shell, &end, &said);
        result
    }

    fn execute_unnoted(&self, mut job: Job<'_>) -> Result<Output, HostError> {
        let Input::Near(_) = job.input else {
            // A master that has just ended takes no command: that one did not begin.
            return match self.attempt(&mut job)? {
                Some(output) => Ok(output),
                None => self.attempt(&mut job)?.ok_or_else(|| self.shared.lost(job.shell, "")),
            };
        };
        self.attempt(&mut job)?.ok_or_else(|| self.shared.lost(job.shell, ""))
    }

    /// One attempt; `None` if the command certainly did not begin.
    fn attempt(&self, job: &mut Job<'_>) -> Result<Option<Output>, HostError> {
        let mark = self.shared.mark();
        let script = match &job.input {
            Input::Far(input) => self.script(&mark, input, job.shell).ends(),
            Input::Near(source) => self.script(&mark, "", job.shell).fed(source.size_bytes),
        };
        let (capture, stdout, stderr) = Capture::open()
            .map_err(|e| self.shared.error(cannot_follow("the output", job.shell, &e)))?;
        let channel = self.shared.connection().start(&script, stdout, stderr);
        let mut channel = channel.map_err(|e| self.shared.not_connected("connecting", &e))?;
        let wait =
            |channel: &mut Channel| self.wait(&capture, channel, job.timeout, job.cancellable);
        let (waited, fed) = match &mut job.input {
            Input::Far(_) => (wait(&mut channel), Ok(())),
            Input::Near(source) => {
                let stdin = channel.stdin.take();
                feeder::feed(source, stdin, || wait(&mut channel))
            }
        };
        if let Err((why, fault)) = waited {
            if let Input::Near(_) = job.input {
                let killed = self.question(&script::end_of_fed(&mark));
                // Its machine may be gone; then it is killed when it reads.
                drop(killed);
                await_end(&capture);
            }
            self.shared.connection().abandon(&mut channel);
            let printed = if capture.is_finished() { Some(capture.take()) } else { None };
            let said = printed.map_or_else(String::new, |p| split(&p, &mark).0.said().to_owned());
            let what = format!("`{}` {why}{}", job.shell, said_before(&said));
            return Err(HostError { fault, ..self.shared.error(what) });
        }
        if let Err(why) = fed {
            self.shared.connection().abandon(&mut channel);
            return Err(self.shared.error(format!(
                "feeding `{}`: {why}; what ran there was killed before the end of its input; fix \
                 that and resume",
                job.shell
            )));
        }
        let printed = capture.take();
        self.shared.connection().end(channel);
        let (output, ended) = split(&printed, &mark);
        if !ended {
            if output.stdout.is_empty() && output.stderr.contains("resolve hostname none") {
                self.shared.connection().close();
                return Ok(None);
            }
            return Err(self.shared.lost(job.shell, output.said()));
        }
        if printed.is_cut {
            let limit = OUTPUT_BYTES_MAX >> 20;
            return Err(self.shared.error(format!(
                "`{}` printed more than {limit} MiB, which weir does not keep: send what is not \
                 needed to /dev/null, or to a file there",
                job.shell
            )));
        }
        let is_unmade = ["mkdir:", "mkfifo:"].iter().any(|tool| output.stderr.contains(tool));
        if output.exit_code == Some(CANNOT_TRY) && is_unmade {
            return Err(self.failed(&format!("working in {}", self.shared.directory), &output));
        }
        Ok(Some(output))
    }

    /// Waits for the end of both outputs; why it was not waited for any longer, if so.
    fn wait(
        &self,
        capture: &Capture,
        channel: &mut Channel,
        timeout: Duration,
        cancellable: bool,
    ) -> Result<(), (String, Fault)> {
        let deadline = Instant::now() + timeout;
        loop {
            if capture.is_finished() {
                return Ok(());
            }
            let (why, fault) = if cancellable && self.cancel.signal().is_some() {
                let why = "was cancelled and ended, because weir was told to stop; finished \
                           iterations are kept, and `weir lab resume` continues";
                (why.to_owned(), Fault::Other)
            } else if Instant::now() >= deadline {
                let timeout = weir_wire::units::format_duration(timeout);
                let why = format!(
                    "did not end within {timeout} and was ended; see what it waits for by running \
                     it there by hand"
                );
                (why, Fault::Slow)
            } else {
                thread::sleep(TICK);
                continue;
            };
            if let Some(mut stdin) = channel.stdin.take() {
                drop(stdin.write_all(b"stop 10\n"));
                await_end(capture);
            }
            return Err((why, fault));
        }
    }

    fn spawn_followed(
        &self,
        shell: &str,
        log: &str,
        lines: Option<LineSink>,
    ) -> Result<Box<dyn Process>, HostError> {
        let started = Instant::now();
        let mark = self.shared.mark();
        let watched = Watched::new();
        let mut follower = Follower {
            watched: Arc::clone(&watched),
            secrets: self.shared.secrets.clone(),
            lead: format!("{mark} "),
            held_empty: false,
            lines,
        };
        let follow = move |heard: Heard<'_>, kept: &mut Kept| follower.take(heard, kept);
        let (output, stdout, stderr) = CappedLog::open_lines(follow)
            .map_err(|e| self.shared.error(cannot_follow(log, shell, &e)))?;
        let script = self.script(&mark, "/dev/null", shell).stays();
        let channel = self.shared.connection().start(&script, stdout, stderr);
        let channel = channel.map_err(|error| {
            let error = self.shared.not_connected("connecting", &error);
            self.shared.note(started, shell, &error.what, "");
            error
        })?;
        self.shared.note(started, shell, "started", "");
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.push((log.to_owned(), output));
        let process = SshProcess::new(Arc::clone(&self.shared), shell, started, watched, channel);
        Ok(Box::new(process))
    }
}

/// Hands on what a command says that stays, and finds its mark in it.
struct Follower {
    watched: Arc<Watched>,
    secrets: Secrets,
    /// How the mark's line begins.
    lead: String,
    /// The last line of standard error was empty: the mark begins with one of its own.
    held_empty: bool,
    lines: Option<LineSink>,
}

impl Follower {
    fn take(&mut self, heard: Heard<'_>, kept: &mut Kept) {
        match heard {
            Heard::Output(line) => self.hand(line, kept),
            Heard::Error(line) => {
                if let Some(code) = line.strip_prefix(&self.lead) {
                    self.held_empty = false;
                    self.watched.ended(code.trim().parse().unwrap_or(-1));
                    return;
                }
                if std::mem::replace(&mut self.held_empty, line.is_empty()) {
                    self.hand("", kept);
                }
                if !line.is_empty() {
                    self.hand(line, kept);
                }
            }
            Heard::End => self.watched.finished(),
        }
    }

    fn hand(&mut self, line: &str, kept: &mut Kept) {
        let line = self.secrets.redact(line);
        kept.line(&line);
        self.watched.line(&line);
        if let Some(sink) = &mut self.lines {
            sink(&line);
        }
    }
}

impl Host for SshHost {
    fn name(&self) -> &str {
        &self.shared.remote.name
    }

    fn run(&self, command: &Command<'_>) -> Result<Output, HostError> {
        let shell = match command.program {
            Program::Shell(line) => line.to_owned(),
            Program::Arguments(argv) => {
                argv.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
            }
        };
        let mut input = "/dev/null".to_owned();
        if !command.stdin.is_empty() {
            input = self.put("stdin", command.stdin.as_bytes())?;
        }
        self.execute(Job {
            shell: &shell,
            input: Input::Far(&input),
            timeout: command.timeout,
            cancellable: command.cancellable,
        })
    }

    fn spawn(&self, shell: &str, log: &str) -> Result<Box<dyn Process>, HostError> {
        self.spawn_followed(shell, log, None)
    }

    fn spawn_lines(
        &self,
        shell: &str,
        log: &str,
        lines: LineSink,
    ) -> Result<Box<dyn Process>, HostError> {
        self.spawn_followed(shell, log, Some(lines))
    }

    fn write_file(&self, name: &str, content: &str) -> Result<String, HostError> {
        self.put(name, content.as_bytes())
    }

    fn set_sysctl(&self, name: &str, value: &str) -> Result<String, HostError> {
        let question = facts::set_sysctl(self.system_now()?, name, value);
        let question = question.map_err(|what| self.shared.error(what))?;
        let before = self.answer(&format!("setting {name} to {value}"), &question)?;
        Ok(before.trim_end().to_owned())
    }

    fn sysctl(&self, name: &str) -> Result<String, HostError> {
        let question = facts::sysctl(self.system_now()?, name);
        let question = question.map_err(|what| self.shared.error(what))?;
        let value = self.answer(&format!("reading the setting {name}"), &question)?;
        Ok(value.trim_end().to_owned())
    }

    fn sysctls(&self) -> Result<BTreeMap<String, String>, HostError> {
        let system = self.system_now()?;
        let Some(question) = facts::sysctls(system) else {
            return Ok(BTreeMap::new());
        };
        // Some settings cannot be read; that makes the command fail, and matters not.
        Ok(facts::read_sysctls(system, &self.question(question)?.stdout))
    }

    fn stack_counters(&self) -> Result<Counters, HostError> {
        let system = self.system_now()?;
        let Some(question) = facts::stack_counters(system) else {
            return Ok(Counters::new());
        };
        let text = self.answer("reading the counters of the network stack", &question)?;
        facts::read_stack_counters(system, &text).map_err(|what| self.shared.error(what))
    }

    fn processes(&self) -> &[String] {
        &self.shared.remote.processes
    }

    fn system(&self) -> Result<System, HostError> {
        self.system_now()
    }

    fn take_log(&self) -> String {
        self.shared.take_log()
    }

    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)> {
        let logs = std::mem::take(&mut *self.logs.lock().unwrap_or_else(PoisonError::into_inner));
        // Secrets were taken out of each line when it came.
        logs.into_iter().map(|(name, log)| (name, log.take())).collect()
    }
}

impl Drop for SshHost {
    fn drop(&mut self) {
        if self.used.load(Ordering::Relaxed) && self.shared.connection().is_alive() {
            // The directory is the current one of the command that removes it.
            let shell = format!("cd / && rm -rf {}", quote(&self.shared.directory));
            drop(self.question(&shell));
        }
        self.disconnect();
    }
}

/// Waits for what was told to die.
fn await_end(capture: &Capture) {
    let end = Instant::now() + DEATH_PATIENCE;
    while !capture.is_finished() && Instant::now() < end {
        thread::sleep(TICK);
    }
}

fn cannot_follow(what: &str, shell: &str, error: &std::io::Error) -> String {
    format!(
        "cannot follow {what} of `{shell}`, which was not started: {error}; see that this machine \
         has processes and open files left (`ulimit -a`), and resume"
    )
}

/// The output of a command without the mark, and whether there was one.
fn split(printed: &Printed, mark: &str) -> (Output, bool) {
    let (stderr, code) = split_mark(&String::from_utf8_lossy(&printed.stderr), mark);
    let stdout = String::from_utf8_lossy(&printed.stdout).into_owned();
    (Output { exit_code: code, stdout, stderr }, code.is_some())
}

/// What a command said, after what is wrong with it.
fn said_after(said: &str) -> String {
    if said.is_empty() { "; it says nothing".to_owned() } else { format!("; it says: {said}") }
}
