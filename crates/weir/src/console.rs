//! `weir console`: a machine's console on this terminal, in a log, and driven by scripts.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Read as _, Write};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, SetArg, Termios};
use serde_json::json;
use weir_machine::cancel::Cancel;
use weir_machine::console::{Console, ConsoleError, Options, Script, Target};

use crate::cli::console::ConsoleArgs;
use crate::exit::Outcome;
use crate::progress;
use crate::signals::{self, Registered};

mod keys;

use keys::{Action, Keys};

/// How often is looked whether the line still stands.
const TICK_MS: u16 = 50;

/// Runs the command.
pub(crate) fn command(args: &ConsoleArgs) -> anyhow::Result<Outcome> {
    if args.json.json && args.script.is_empty() {
        bail!("--json reports the steps of a script: give one with --script");
    }
    let cancel = signals::listen_alone()?;
    let deadline = Instant::now() + args.wait.unwrap_or_default();
    let Some(mut target) = target(&args.target, deadline, &cancel)? else {
        return Ok(Outcome::Signal(cancel.signal().unwrap_or_default()));
    };
    if let Some(speed_bps) = args.speed {
        target = target
            .with_speed(speed_bps)
            .with_context(|| format!("--speed: `{}` is not a serial device", args.target))?;
    }
    let scripts: Vec<Script> =
        args.script.iter().map(|path| script(path)).collect::<anyhow::Result<_>>()?;
    // Of all scripts, from the first byte on: a machine may show a password too early.
    let mut secrets = Vec::new();
    for script in &scripts {
        secrets.extend(script.secret_values(&environment)?);
    }
    // With --json, standard output is for the steps.
    let mirror: Box<dyn Write + Send> =
        if args.json.json { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
    let options = Options {
        log: args.log.clone(),
        mirror: Some(mirror),
        secrets,
        patience: deadline.saturating_duration_since(Instant::now()),
        cancel: cancel.clone(),
    };
    // Goes after the console, whose line it gives back when there is no time for the rest.
    let _line;
    let console = match Console::open(&target, options) {
        Err(error) if error.is_cancelled() => {
            return Ok(Outcome::Signal(cancel.signal().unwrap_or_default()));
        }
        opened => opened?,
    };
    let closer = console.closer();
    _line = signals::before_the_end(move || closer.close());
    let outcome = use_it(&console, &target, &scripts, args, &cancel);
    if let Some(trouble) = console.close() {
        progress::warn(&format!("the log, or the output, is not complete: {trouble}"));
    }
    outcome
}

/// Reads the target; waits for a file without a prefix, which has to say what it is. `None` if a
/// signal came first.
fn target(text: &str, deadline: Instant, cancel: &Cancel) -> anyhow::Result<Option<Target>> {
    loop {
        let parsed = Target::parse(text);
        // What has a prefix needs no file to be understood.
        let is_missing = parsed.is_err() && text.contains('/') && !Path::new(text).exists();
        if !is_missing || Instant::now() >= deadline {
            return parsed.map(Some).map_err(|error| anyhow!("{error}"));
        }
        if !cancel.sleep(Duration::from_millis(TICK_MS.into())) {
            return Ok(None);
        }
    }
}

fn use_it(
    console: &Console,
    target: &Target,
    scripts: &[Script],
    args: &ConsoleArgs,
    cancel: &Cancel,
) -> anyhow::Result<Outcome> {
    for script in scripts {
        if let Some(outcome) = drive(console, script, args.json.json, cancel)? {
            return Ok(outcome);
        }
    }
    match scripts.is_empty() || args.stay {
        true => attend(console, target, args, cancel),
        false => Ok(Outcome::Done),
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn script(path: &Path) -> anyhow::Result<Script> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {} (--script)", path.display()))?;
    Script::parse(&path.display().to_string(), &text).map_err(|error| anyhow!("{error}"))
}

/// Runs a script; an outcome if that is the end.
fn drive(
    console: &Console,
    script: &Script,
    json: bool,
    cancel: &Cancel,
) -> anyhow::Result<Option<Outcome>> {
    let mut lost = Ok(());
    let ran = console.run(script, &environment, cancel, &mut |step| {
        if json {
            let waited_ns = u64::try_from(step.waited.as_nanos()).unwrap_or(u64::MAX);
            let line = json!({
                "kind": "step", "step": step.step, "name": step.name, "matched": step.matched,
                "waited_ns": waited_ns,
            });
            lost = writeln!(io::stdout(), "{line}");
        }
    });
    lost.context(crate::exit::NO_OUTPUT)?;
    let error = match ran {
        Ok(()) => return Ok(None),
        Err(error) => error,
    };
    if error.is_cancelled() {
        return Ok(Some(Outcome::Signal(cancel.signal().unwrap_or_default())));
    }
    if !error.is_answer() {
        return Err(error.into());
    }
    if json {
        let line = json!({ "kind": "failure", "message": error.to_string() });
        writeln!(io::stdout(), "{line}").context(crate::exit::NO_OUTPUT)?;
    }
    progress::note("");
    progress::warn(&error.to_string());
    Ok(Some(Outcome::No))
}

/// Carries keys to the machine until somebody leaves or the line ends.
fn attend(
    console: &Console,
    target: &Target,
    args: &ConsoleArgs,
    cancel: &Cancel,
) -> anyhow::Result<Outcome> {
    let stdin = io::stdin();
    let escape = args.escape.0;
    if stdin.is_terminal() {
        let leave = escape.map_or_else(
            || "SIGTERM ends this".to_owned(),
            |c| format!("`{0}.` at the beginning of a line leaves, `{0}?` shows more", c as char),
        );
        progress::note(&format!("connected to {target}; {leave}"));
    }
    let raw = if stdin.is_terminal() { Some(Raw::set()?) } else { None };
    // Not the buffered one: what it holds, poll(2) does not know.
    let keys: File = stdin.as_fd().try_clone_to_owned().context("standard input is closed")?.into();
    let outcome = carry(console, &keys, &mut Keys::new(escape), cancel);
    drop(raw);
    if stdin.is_terminal() {
        progress::note("\ndisconnected");
    }
    match outcome {
        Ok(outcome) => Ok(outcome),
        Err(error) if error.is_answer() => {
            progress::warn(&error.to_string());
            Ok(Outcome::No)
        }
        Err(error) => Err(error.into()),
    }
}

fn carry(
    console: &Console,
    mut stdin: &File,
    keys: &mut Keys,
    cancel: &Cancel,
) -> Result<Outcome, ConsoleError> {
    let mut bytes = [0; 4096];
    let mut open = true;
    loop {
        if let Some(signal) = cancel.signal() {
            return Ok(Outcome::Signal(signal));
        }
        console.check()?;
        if !open {
            let _ = cancel.sleep(Duration::from_millis(TICK_MS.into()));
            continue;
        }
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(TICK_MS)).unwrap_or(0) == 0 {
            continue;
        }
        let count = stdin.read(&mut bytes).unwrap_or(0);
        // A file that was piped in is at its end; what the machine says is still of interest.
        open = count > 0;
        for action in keys.feed(&bytes[..count]) {
            match action {
                Action::Send(bytes) => console.send(&bytes)?,
                Action::Leave => return Ok(Outcome::Done),
                Action::Break => {
                    if let Err(error) = console.send_break() {
                        progress::warn(&error.to_string());
                    }
                }
                Action::Help(text) => progress::note(&text.replace('\n', "\r\n")),
            }
        }
    }
}

/// The terminal in raw mode, until this is dropped, or a second signal ends the process.
struct Raw {
    before: Termios,
    _last: Registered,
}

impl Raw {
    fn set() -> anyhow::Result<Self> {
        let stdin = io::stdin();
        let before =
            termios::tcgetattr(stdin.as_fd()).context("cannot read the terminal's mode")?;
        let cooked = before.clone();
        let last = signals::before_the_end(move || set_terminal(&cooked));
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(stdin.as_fd(), SetArg::TCSANOW, &raw)
            .context("cannot set the terminal to raw mode")?;
        Ok(Self { before, _last: last })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        set_terminal(&self.before);
    }
}

fn set_terminal(mode: &Termios) {
    // A terminal that is gone cannot be set, and needs not.
    let _ = termios::tcsetattr(io::stdin().as_fd(), SetArg::TCSANOW, mode);
}
