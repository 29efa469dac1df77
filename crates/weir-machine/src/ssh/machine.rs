//! A machine under test: it takes configurations, is started afresh before each run and waited for,
//! and shows what its system counts.
//!
//! A reboot counts when the machine is up again *and* says that this is another start than the last
//! one that was seen, whenever that was; a machine that has no words for it must have been out of
//! reach in between. One that does not come back in its time has its power switched off and on,
//! once, if that can be done. This module never decides when any of this happens.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_results::counters::{Counters, DropRule};
use weir_results::dut::{System, Tree};
use weir_wire::units::format_duration;

use super::boot::{self, Boot, Proof};
use super::host::SshHost;
use super::script::quote;
use super::secrets::Secrets;
use super::{system, upload};
use crate::access::{BoxSpec, Reset};
use crate::cancel::Cancel;
use crate::host::{Command, Fault, Host, HostError, LineSink, Output, Process, Program};

/// How long a command that reboots may take to return, if it does.
const REBOOT_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a power switch may take.
const POWER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a command that says whether the machine is online may take each time.
const ONLINE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at a machine that is starting.
const POLL: Duration = Duration::from_millis(250);

/// A machine under test.
#[derive(Debug)]
pub struct Machine {
    spec: BoxSpec,
    host: SshHost,
    /// Where weir runs: power switches are reached from there.
    manager: SshHost,
    cancel: Cancel,
    /// The last start that was seen.
    last: Mutex<Option<Boot>>,
}

/// A start that is waited for.
struct Awaited {
    /// The last one that was seen before; absent: none was.
    before: Option<Boot>,
    /// When it was asked for.
    asked: Instant,
    /// The machine was out of reach since.
    was_down: Cell<bool>,
    /// It is this start.
    is_proved: Cell<bool>,
}

/// What is missing until a machine is back.
enum Missing {
    /// Something that may come.
    NotYet(String),
    /// It is up, but it has not been down.
    SameStart,
}

impl Machine {
    /// A machine, not connected yet.
    #[must_use]
    pub fn new(spec: &BoxSpec, secrets: &Secrets, cancel: &Cancel) -> Self {
        Self {
            spec: spec.clone(),
            host: SshHost::new(&spec.remote, secrets, cancel),
            manager: SshHost::manager(secrets, cancel),
            cancel: cancel.clone(),
            last: Mutex::default(),
        }
    }

    /// Connects to it, and sees that it runs what the specification says.
    ///
    /// # Errors
    /// As [`SshHost::connect`]; and when it runs another system.
    pub fn connect(&self) -> Result<(), HostError> {
        self.host.connect()?;
        let seen = self.host.system_now()?;
        if self.spec.system != System::Generic && self.spec.system != seen {
            return Err(self.error(format!(
                "it runs {}, not {}: correct `system` of the DUT in the specification",
                seen.name(),
                self.spec.system.name()
            )));
        }
        // So that a reboot can be told from none although nobody answers when it is asked for.
        self.boot().map(drop)
    }

    /// The machine as a host without its reboots and uploads.
    #[must_use]
    pub fn host(&self) -> &SshHost {
        &self.host
    }

    /// What the specification says of it.
    #[must_use]
    pub fn spec(&self) -> &BoxSpec {
        &self.spec
    }

    /// The machine that weir runs on, as a host: what it ran is in this machine's log.
    #[must_use]
    pub fn manager(&self) -> &SshHost {
        &self.manager
    }

    fn error(&self, what: impl std::fmt::Display) -> HostError {
        self.host.shared().error(what)
    }

    /// Waits until it is online: SSH answers, and what the specification asks for holds.
    ///
    /// # Errors
    /// [`Fault::Gone`] when that is not so in the time a start may take.
    pub fn online(&self) -> Result<(), HostError> {
        let waited = self.wait(Instant::now() + self.spec.boot_timeout, None);
        match waited? {
            Ok(()) => Ok(()),
            Err(Missing::NotYet(what)) => Err(self.not_back("waiting until it is online", &what)),
            Err(Missing::SameStart) => Ok(()),
        }
    }

    /// Starts it afresh and waits until it is online again; its power is switched once if it does
    /// not come back. Nothing where the specification says that it is not reset.
    ///
    /// # Errors
    /// [`Fault::Gone`] when it does not come back; [`Fault::Other`] when the command does not make
    /// it start again.
    pub fn reboot(&self) -> Result<(), HostError> {
        if self.spec.reboot == Reset::None {
            return self.online();
        }
        let answers = match self.boot() {
            Ok(_) => true,
            // It may have died in the last run.
            Err(error) if error.is_gone() => false,
            Err(error) => return Err(error),
        };
        let before = self.last_start();
        let first = match self.deliver("rebooting", &self.spec.reboot) {
            Ok(Ok(asked)) => self.wait_for_start(before.clone(), asked)?,
            Ok(Err(why)) => Some(Missing::NotYet(why)),
            Err(error) if answers || error.is_gone() => return Err(error),
            Err(error) => Some(Missing::NotYet(error.what)),
        };
        let Some(missing) = first else {
            return Ok(());
        };
        if self.spec.power == Reset::None {
            return Err(self.not_rebooted("rebooting", &self.spec.reboot, missing));
        }
        let asked = Instant::now();
        if let Err(refused) = self.power_cycle() {
            let hung = self.not_rebooted("rebooting", &self.spec.reboot, missing);
            return Err(HostError { what: format!("{}. And {}", hung.what, refused.what), ..hung });
        }
        match self.wait_for_start(before, asked)? {
            None => Ok(()),
            Some(missing @ Missing::NotYet(_)) => {
                let step = "rebooting, and switching its power";
                Err(self.not_rebooted(step, &self.spec.power, missing))
            }
            Some(Missing::SameStart) => {
                let step = "switching its power";
                Err(self.not_rebooted(step, &self.spec.power, Missing::SameStart))
            }
        }
    }

    /// Waits until it is online after somebody else has started it afresh, at `asked`.
    ///
    /// # Errors
    /// As [`Machine::reboot`].
    pub fn started(&self, step: &str, asked: Instant) -> Result<(), HostError> {
        match self.wait_for_start(self.last_start(), asked)? {
            None => Ok(()),
            Some(missing) => Err(self.not_rebooted(step, &Reset::None, missing)),
        }
    }

    fn last_start(&self) -> Option<Boot> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn not_rebooted(&self, step: &str, reset: &Reset, missing: Missing) -> HostError {
        let field = match (step, reset) {
            (_, Reset::None) => "see on its console what it does",
            ("rebooting", _) => {
                "see whether that command reboots it, and correct `reboot` in the specification"
            }
            _ => "correct `power` in the specification",
        };
        match missing {
            Missing::NotYet(what) => self.not_back(step, &what),
            Missing::SameStart => {
                let timeout = format_duration(self.spec.boot_timeout);
                let when = match reset {
                    Reset::None => format!("after {timeout}"),
                    _ => format!("{timeout} after `{}`", self.shown(reset)),
                };
                self.error(format!("{step}: {when} it is still up and has not been down; {field}"))
            }
        }
    }

    /// Switches its power off and on, and does not wait for it. Returns whether that can be done.
    ///
    /// # Errors
    /// When the switch cannot be reached or refuses.
    pub fn power_cycle(&self) -> Result<bool, HostError> {
        if self.spec.power == Reset::None {
            return Ok(false);
        }
        self.ask("switching its power", &self.spec.power)?;
        self.host.disconnect();
        Ok(true)
    }

    /// Runs a shell line on it with a file of the manager as its standard input.
    ///
    /// # Errors
    /// As [`SshHost::feed`].
    pub fn feed(
        &self,
        shell: &str,
        file: &std::path::Path,
        timeout: Duration,
    ) -> Result<Output, HostError> {
        self.host.feed(shell, file, timeout)
    }

    /// Counters of its interfaces, each a source of its own, and how often what interrupted.
    ///
    /// # Errors
    /// When it cannot be asked, or has no such interface.
    pub fn interface_counters(&self, names: &[String]) -> Result<Counters, HostError> {
        let mut counters = system::interfaces(&self.host, self.spec.system, names)?;
        counters.extend(system::interrupts(&self.host, self.spec.system)?);
        Ok(counters)
    }

    /// Losses that its interfaces count.
    #[must_use]
    pub fn interface_drops(&self) -> Vec<DropRule> {
        system::interface_drops(self.spec.system, &self.spec.receives, &self.spec.sends)
    }

    /// What of it can move a packet rate.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn environment(&self) -> Result<serde_json::Value, HostError> {
        let names: Vec<String> =
            self.spec.receives.iter().chain(&self.spec.sends).cloned().collect();
        system::environment(&self.host, self.spec.system, &names)
    }

    /// Which start this is.
    fn boot(&self) -> Result<Boot, HostError> {
        let boot = Boot::read(&self.host.answer("checking when it was started", boot::QUESTION)?);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(boot.clone());
        Ok(boot)
    }

    /// Asks for a reset until the machine was reached with it, as long as a start may take. When
    /// that was, or why it was not.
    fn deliver(&self, step: &str, reset: &Reset) -> Result<Result<Instant, String>, HostError> {
        let by_ssh = matches!(reset, Reset::Ssh { .. });
        let deadline = Instant::now() + self.spec.boot_timeout;
        loop {
            let reached = if by_ssh { self.host.try_connect()? } else { Ok(()) };
            let asked = Instant::now();
            let why = match reached.map(|()| self.ask(step, reset)) {
                Ok(Ok(())) => return Ok(Ok(asked)),
                Ok(Err(error)) if error.fault == Fault::Unreached => error.what,
                Ok(Err(error)) => return Err(error),
                Err(why) => why,
            };
            if Instant::now() >= deadline {
                let line = self.shown(reset);
                return Ok(Err(format!("`{line}` could not be delivered: {}", why.trim())));
            }
            if !self.cancel.sleep(POLL) {
                return Err(self.host.shared().cancelled(step));
            }
        }
    }

    /// Asks for a reset.
    fn ask(&self, step: &str, reset: &Reset) -> Result<(), HostError> {
        let line = self.shown(reset);
        let (host, timeout) = match reset {
            Reset::None => return Ok(()),
            Reset::Ssh { .. } => (&self.host, REBOOT_COMMAND_TIMEOUT),
            Reset::Command { .. } | Reset::Ipmi { .. } => (&self.manager, POWER_TIMEOUT),
        };
        let command =
            Command { program: Program::Shell(&line), stdin: "", timeout, cancellable: false };
        let by_ssh = matches!(reset, Reset::Ssh { .. });
        let output = match host.run(&command) {
            Ok(output) => output,
            // The connection went down with the machine, or its network did so without a word.
            // Whether it starts afresh is seen by its next start.
            Err(error) if by_ssh && matches!(error.fault, Fault::Gone | Fault::Slow) => {
                self.host.disconnect();
                return Ok(());
            }
            Err(error) => {
                return Err(HostError { what: format!("{step}: {}", error.what), ..error });
            }
        };
        // A shell that a reboot kills has no success either.
        if output.success() || (by_ssh && output.exit_code.is_none_or(|code| code > 128)) {
            return Ok(());
        }
        if output.exit_code == Some(127) && matches!(reset, Reset::Ipmi { .. }) {
            return Err(self.error(format!(
                "{step}: there is no ipmitool here: install it (Debian: `apt-get install \
                 ipmitool`)"
            )));
        }
        Err(host.failed(&format!("{step} by `{line}`"), &output))
    }

    /// The shell line of a reset.
    fn shown(&self, reset: &Reset) -> String {
        match reset {
            Reset::None => String::new(),
            Reset::Ssh { command: Some(command) } | Reset::Command { command } => command.clone(),
            Reset::Ssh { command: None } => match self.spec.system {
                System::Freebsd => "shutdown -r now".to_owned(),
                System::Openbsd | System::Linux | System::Generic => "reboot".to_owned(),
            },
            Reset::Ipmi { host, user, password, interface } => {
                let user = user.as_ref().map_or_else(String::new, |u| format!(" -U {}", quote(u)));
                // ipmitool reads the password from this variable; a command line can be read by
                // everybody.
                let (set, ask) = match password {
                    Some(name) => (format!("export IPMI_PASSWORD=\"${name}\"; "), " -E"),
                    None => (String::new(), ""),
                };
                let tool =
                    format!("ipmitool -I {} -H {}{user}{ask}", quote(interface), quote(host));
                // What is off cannot be cycled.
                format!("{set}{tool} chassis power cycle || {tool} chassis power on")
            }
        }
    }

    /// Waits for another start than `before`, as long as a start may take; what is missing at the
    /// end of that time.
    fn wait_for_start(
        &self,
        before: Option<Boot>,
        asked: Instant,
    ) -> Result<Option<Missing>, HostError> {
        self.host.disconnect();
        let (was_down, is_proved) = (Cell::new(false), Cell::new(false));
        let start = Awaited { before, asked, was_down, is_proved };
        let waited = self.wait(Instant::now() + self.spec.boot_timeout, Some(&start));
        Ok(waited?.err())
    }

    /// Waits until it is online.
    fn wait(
        &self,
        deadline: Instant,
        start: Option<&Awaited>,
    ) -> Result<Result<(), Missing>, HostError> {
        loop {
            let missing = match self.look(start)? {
                None => return Ok(Ok(())),
                Some(missing) => missing,
            };
            if Instant::now() >= deadline {
                return Ok(Err(missing));
            }
            if !self.cancel.sleep(POLL) {
                return Err(self.host.shared().cancelled("waiting until it is online"));
            }
        }
    }

    /// What is missing until it has proved that this is the start that is waited for.
    fn prove(&self, start: &Awaited) -> Option<Missing> {
        if start.is_proved.get() {
            return None;
        }
        let now = match self.boot() {
            Ok(now) => now,
            // It is going down, or has just come up.
            Err(error) => {
                start.was_down.set(start.was_down.get() || error.is_gone());
                return Some(Missing::NotYet(error.what));
            }
        };
        let how = match now.proof(start.before.as_ref(), start.asked.elapsed()) {
            Proof::Another(how) => how,
            Proof::Unknown if start.was_down.get() => "this system tells neither a boot id nor \
                how long it is up: counted as a restart, because it was unreachable in between"
                .to_owned(),
            Proof::Same | Proof::Unknown => {
                // The next look shall see whether it still answers.
                self.host.disconnect();
                return Some(Missing::SameStart);
            }
        };
        self.host.shared().note(start.asked, "(rebooted)", "online", &how);
        start.is_proved.set(true);
        None
    }

    /// Looks once what is missing.
    fn look(&self, start: Option<&Awaited>) -> Result<Option<Missing>, HostError> {
        let not_yet = |what: String| Ok(Some(Missing::NotYet(what)));
        if let Some(address) = &self.spec.online.ping {
            let line = format!("ping -c 1 -W 2 {}", quote(address));
            let output = self.manager.question(&line)?;
            if output.exit_code == Some(127) {
                return Err(self.error(
                    "waiting until it is online: there is no `ping` here: install it (Debian: \
                     iputils-ping), or leave `ping` out of `online`",
                ));
            }
            if !output.success() {
                return not_yet(format!("{address} does not answer to ping"));
            }
        }
        if let Err(what) = self.host.try_connect()? {
            if let Some(start) = start {
                start.was_down.set(true);
            }
            return not_yet(what);
        }
        if let Some(missing) = start.and_then(|start| self.prove(start)) {
            return Ok(Some(missing));
        }
        let Some(line) = &self.spec.online.command else {
            return match self.host.question("true") {
                Ok(_) => Ok(None),
                Err(error) => not_yet(error.what),
            };
        };
        let command = Command {
            program: Program::Shell(line),
            stdin: "",
            timeout: ONLINE_TIMEOUT,
            cancellable: true,
        };
        match self.host.run(&command) {
            Ok(output) if output.success() => Ok(None),
            Ok(output) => not_yet(format!("`{line}` fails there; it says: {}", output.said())),
            Err(error) => not_yet(error.what),
        }
    }

    fn not_back(&self, step: &str, what: &str) -> HostError {
        let (timeout, what) = (format_duration(self.spec.boot_timeout), what.trim());
        self.host.shared().gone(format!(
            "{step}: it is not online after {timeout} ({what}); look at its console, fix it, and \
             resume; raise `boot_timeout` if it only needs longer"
        ))
    }
}

impl Host for Machine {
    fn name(&self) -> &str {
        self.host.name()
    }

    fn run(&self, command: &Command<'_>) -> Result<Output, HostError> {
        self.host.run(command)
    }

    fn spawn(&self, shell: &str, log: &str) -> Result<Box<dyn Process>, HostError> {
        self.host.spawn(shell, log)
    }

    fn spawn_lines(
        &self,
        shell: &str,
        log: &str,
        lines: LineSink,
    ) -> Result<Box<dyn Process>, HostError> {
        self.host.spawn_lines(shell, log, lines)
    }

    fn write_file(&self, name: &str, content: &str) -> Result<String, HostError> {
        self.host.write_file(name, content)
    }

    fn set_sysctl(&self, name: &str, value: &str) -> Result<String, HostError> {
        self.host.set_sysctl(name, value)
    }

    fn sysctl(&self, name: &str) -> Result<String, HostError> {
        self.host.sysctl(name)
    }

    fn sysctls(&self) -> Result<BTreeMap<String, String>, HostError> {
        self.host.sysctls()
    }

    fn stack_counters(&self) -> Result<Counters, HostError> {
        self.host.stack_counters()
    }

    fn processes(&self) -> &[String] {
        self.host.processes()
    }

    fn system(&self) -> Result<System, HostError> {
        Ok(self.spec.system)
    }

    fn upload(&self, tree: &Tree) -> Result<(), HostError> {
        upload::upload(&self.host, &self.manager, self.spec.system, &self.spec.upload, tree)
    }

    fn fresh(&self) -> Result<(), HostError> {
        match self.reboot() {
            Err(error) if self.cancel.signal().is_some() => {
                Err(HostError { fault: Fault::Other, ..error })
            }
            other => other,
        }
    }

    fn take_log(&self) -> String {
        // Both in the order of time: lines begin with it.
        let log = format!("{}{}", self.manager.take_log(), self.host.take_log());
        let mut lines: Vec<&str> = log.lines().collect();
        lines.sort_by_key(|line| line.split('\t').next());
        lines.into_iter().map(|line| format!("{line}\n")).collect()
    }

    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)> {
        self.host.take_artefacts()
    }
}
