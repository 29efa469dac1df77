//! A QEMU process: its start, its console, its reset, its end.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use weir_net::process::{self, Invocation, Process};
use weir_net::{CpuList, Netns, cpu};

use super::{QemuError, inside};
use crate::capped_log::CappedLog;
use crate::host::STOP_PATIENCE;

/// File in a machine's directory: what was written on its serial console.
pub const CONSOLE_LOG: &str = "console.log";
/// Socket in a machine's directory: QEMU's monitor, which speaks QMP.
pub const MONITOR_SOCKET: &str = "qmp.sock";
/// How much of the end of the console's log is kept.
const CONSOLE_BYTES_MAX: u64 = 1 << 20;
/// How much of it a message shows.
const CONSOLE_LINES_SHOWN: usize = 8;
/// How long QEMU may take to answer.
const MONITOR_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a QEMU that ends takes to be gone after its connections and devices.
const DEATH_PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// A machine that runs.
#[derive(Debug)]
pub struct Vm {
    process: Option<Process>,
    log: Option<CappedLog>,
    /// What it wrote itself, once that was taken out of the log.
    said: Vec<u8>,
    /// The machine has answered: QEMU understood what it was asked for.
    was_up: bool,
    directory: PathBuf,
    command: String,
}

impl Vm {
    /// Starts QEMU inside a namespace, on these CPUs; its directory is where it runs.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        netns: &Netns,
        directory: &Path,
        cpus: &CpuList,
        arguments: Vec<String>,
    ) -> Result<Self, QemuError> {
        let invocation = Invocation::program(arguments).directory(directory);
        let (log, out, err) = CappedLog::open()
            .map_err(|e| QemuError::new(format!("cannot open a pipe for QEMU: {e}")))?;
        let process = inside(netns, || {
            cpu::pin_current_thread(cpus).map_err(|e| e.to_string())?;
            process::spawn(&invocation, out, err).map_err(|e| e.to_string())
        })?;
        Ok(Self {
            process: Some(process),
            log: Some(log),
            said: Vec::new(),
            was_up: false,
            directory: directory.to_owned(),
            command: invocation.to_string(),
        })
    }

    /// The command line, for the log.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The machine has answered.
    pub fn is_up(&mut self) {
        self.was_up = true;
    }

    /// Fails if it has ended, with what it said. One that never ran a machine would not run the
    /// next one either; the error of one that did, or that was killed, is passing.
    ///
    /// # Errors
    /// When it has ended.
    pub fn alive(&mut self) -> Result<(), QemuError> {
        let Some(process) = &self.process else {
            return Err(QemuError::new("QEMU was stopped"));
        };
        let Some(status) = process.try_wait().map_err(QemuError::new)? else {
            return Ok(());
        };
        let said = String::from_utf8_lossy(self.said()).into_owned();
        let what = format!(
            "QEMU ended ({status}): {}; it was started as `{}`",
            said.trim().lines().last().unwrap_or("it said nothing"),
            self.command
        );
        Err(QemuError { what, is_passing: self.was_up || status.signal().is_some() })
    }

    /// As [`alive`](Self::alive), for a QEMU that may be ending: its connections and devices are
    /// gone a moment before it is.
    ///
    /// # Errors
    /// When it ends.
    pub fn stays_alive(&mut self) -> Result<(), QemuError> {
        let deadline = Instant::now() + DEATH_PATIENCE;
        loop {
            self.alive()?;
            if Instant::now() >= deadline {
                return Ok(());
            }
            thread::sleep(POLL);
        }
    }

    /// What it wrote itself until this was first asked.
    pub fn said(&mut self) -> &[u8] {
        if let Some(log) = self.log.take() {
            self.said = log.take();
        }
        &self.said
    }

    /// What the machine has written on its serial console, or the end of it.
    #[must_use]
    pub fn console(&self) -> Vec<u8> {
        tail(&self.directory.join(CONSOLE_LOG)).unwrap_or_default()
    }

    /// How much that is.
    #[must_use]
    pub fn console_bytes(&self) -> u64 {
        fs::metadata(self.directory.join(CONSOLE_LOG)).map_or(0, |m| m.len())
    }

    /// The last lines of that, for a message.
    #[must_use]
    pub fn console_end(&self) -> String {
        let text = String::from_utf8_lossy(&self.console()).into_owned();
        let text: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
        if lines.is_empty() {
            return "nothing was written on its serial console".to_owned();
        }
        let last = &lines[lines.len().saturating_sub(CONSOLE_LINES_SHOWN)..];
        format!("last on its serial console: {}", last.join(" / "))
    }

    /// As if its power was switched off and on.
    ///
    /// # Errors
    /// When its monitor does not answer.
    pub fn power_cycle(&self) -> Result<(), String> {
        let path = self.directory.join(MONITOR_SOCKET);
        let reset = || {
            let mut stream = UnixStream::connect(&path)?;
            stream.set_read_timeout(Some(MONITOR_TIMEOUT))?;
            let mut lines = BufReader::new(stream.try_clone()?).lines();
            // A greeting, and an answer to each command; events may come between.
            lines.next().transpose()?;
            for command in ["qmp_capabilities", "system_reset"] {
                writeln!(stream, "{{\"execute\": \"{command}\"}}")?;
                let answered = |line: &std::io::Result<String>| {
                    line.as_ref().map_or(true, |line| line.contains("\"return\""))
                };
                match lines.find(answered) {
                    Some(answer) => drop(answer?),
                    None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                }
            }
            Ok(())
        };
        reset().map_err(|e: std::io::Error| format!("{}: {e}", path.display()))
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(&mut self) -> Result<(), QemuError> {
        match self.process.take() {
            Some(process) => process.stop(STOP_PATIENCE).map(drop).map_err(QemuError::new),
            None => Ok(()),
        }
    }
}

/// The end of a file that grows.
fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(CONSOLE_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(CONSOLE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
