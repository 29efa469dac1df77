//! weir on other machines: connecting to them, and running it there.
//!
//! What it prints there is its JSON; what it complains of is handed on. Nothing is installed: weir
//! has to be there, in the same version.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::anyhow;
use weir_machine::access::RemoteSpec;
use weir_machine::cancel::Cancel;
use weir_machine::host::{Command, Host, Process, Program};
use weir_machine::ssh::{self, Secrets, SshHost, quote};

use crate::cli::remote::RemoteArgs;

/// The exit code of a shell that finds no such program.
const NOT_FOUND: i32 = 127;
/// Ends that are no failure: the answer is no, or SIGINT.
const ENDED_WELL: [&str; 2] = ["exit code 1", "killed by signal 2"];
/// How long the last lines of what has ended may be on their way.
const LAST_LINES: Duration = Duration::from_secs(5);
/// Lines come in pieces of that many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Connecting again and starting a program, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects to a destination for ssh(1).
pub(crate) fn connect(
    args: &RemoteArgs,
    destination: &str,
    cancel: &Cancel,
) -> anyhow::Result<SshHost> {
    let remote = RemoteSpec {
        name: destination.to_owned(),
        ssh: Some(destination.to_owned()),
        config: args.ssh_config.as_ref().map(|path| path.display().to_string()),
        processes: Vec::new(),
    };
    Ok(ssh::connect(&remote, &Secrets::default(), cancel)?)
}

/// The shell line that runs weir there.
fn line(args: &RemoteArgs, words: &[String]) -> String {
    let words = [program(args)].into_iter().chain(words.iter().map(String::as_str));
    let words: Vec<String> = words.map(quote).collect();
    format!("exec {}", words.join(" "))
}

fn program(args: &RemoteArgs) -> &str {
    args.program.as_deref().unwrap_or("weir")
}

/// Runs weir there, which takes that long by itself, and returns what it printed. It may answer no.
/// A signal ends it if it is cancellable; what has to be known after a signal, too, is not.
pub(crate) fn run(
    host: &dyn Host,
    args: &RemoteArgs,
    words: &[String],
    duration: Duration,
    cancellable: bool,
) -> anyhow::Result<String> {
    let line = line(args, words);
    let timeout = duration.saturating_add(PATIENCE);
    let command = Command { program: Program::Shell(&line), stdin: "", timeout, cancellable };
    let output = host.run(&command)?;
    let code = output.exit_code.map_or_else(|| "killed".to_owned(), |code| format!("{code}"));
    match output.exit_code {
        Some(0 | 1) => Ok(output.stdout),
        Some(NOT_FOUND) => Err(missing(host.name(), args)),
        _ => Err(failed(host.name(), &line, &format!("exit code {code}"), output.said())),
    }
}

fn missing(name: &str, args: &RemoteArgs) -> anyhow::Error {
    anyhow!(
        "{name}: there is no `{}`: install weir there, or name its place with --program",
        program(args)
    )
}

fn failed(name: &str, line: &str, how: &str, said: &str) -> anyhow::Error {
    anyhow!(
        "{name}: `{line}` failed ({how}): {said}; is weir there of the same version ({})?",
        env!("CARGO_PKG_VERSION")
    )
}

/// weir that runs there, and prints JSON line by line. It ends with this.
pub(crate) struct Running<'a> {
    name: &'a str,
    args: &'a RemoteArgs,
    line: String,
    process: Box<dyn Process>,
    lines: Receiver<String>,
    /// A line that is too long to come in one piece.
    partial: String,
    complaint: String,
}

impl<'a> Running<'a> {
    pub(crate) fn start(
        host: &'a dyn Host,
        args: &'a RemoteArgs,
        words: &[String],
    ) -> anyhow::Result<Self> {
        let line = line(args, words);
        let (sender, lines) = mpsc::channel();
        // Whoever does not look any more wants no more lines.
        let sink = Box::new(move |line: &str| drop(sender.send(line.to_owned())));
        let process = host.spawn_lines(&line, "weir.log", sink)?;
        let (partial, complaint) = (String::new(), String::new());
        Ok(Self { name: host.name(), args, line, process, lines, partial, complaint })
    }

    /// Hands on the JSON lines since the last look, and says whether it has ended.
    pub(crate) fn look(&mut self, mut take: impl FnMut(&str)) -> anyhow::Result<bool> {
        let ended = self.process.ended()?;
        // That it has ended may be known before its last line.
        let patience = if ended.is_some() { LAST_LINES } else { Duration::ZERO };
        while let Ok(line) = self.lines.recv_timeout(patience) {
            if self.partial.is_empty() && !line.starts_with('{') {
                self.complaint = line;
                continue;
            }
            self.partial += &line;
            if line.len() < PIECE_BYTES {
                take(&std::mem::take(&mut self.partial));
            }
        }
        let Some(ended) = ended else { return Ok(false) };
        if ended.success || ENDED_WELL.contains(&ended.how.as_str()) {
            return Ok(true);
        }
        Err(if ended.how == format!("exit code {NOT_FOUND}") {
            missing(self.name, self.args)
        } else {
            failed(self.name, &self.line, &ended.how, &self.complaint)
        })
    }

    /// Asks it to sum up and end, as Ctrl-C does.
    pub(crate) fn interrupt(&mut self) -> anyhow::Result<()> {
        Ok(self.process.signal("INT")?)
    }
}
