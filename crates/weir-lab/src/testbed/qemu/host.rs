//! The machine as a host: SSH, and what only its owner can do: look at its console, reboot it,
//! switch it off and on.
//!
//! It is fresh when its trial begins, because QEMU has just started it. What is laid over its root
//! directory is in force after the next start, which [`Host::fresh`] makes: a real reboot, on the
//! same overlay. This module never repeats a command that may have run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_machine::access::{BoxSpec, Online, RemoteSpec, Reset, Upload, UploadMethod};
use weir_machine::cancel::Cancel;
use weir_machine::host::{Command, Host, HostError, LineSink, Output, Process, Program};
use weir_machine::qemu::{Login, Vm};
use weir_machine::ssh::Secrets;
use weir_machine::ssh::machine::Machine;
use weir_net::Netns;
use weir_results::counters::Counters;
use weir_results::dut::{System, Tree};

use super::files::Files;
use super::guest;
use super::ports::Ports;
use crate::model::qemu::{QemuSpec, Setup};
use crate::testbed::TestbedError;

/// How often the console is looked at.
const POLL: Duration = Duration::from_millis(100);
/// Least pause between two questions for the machine's key.
const ASK_PAUSE: Duration = Duration::from_secs(2);
/// How long SSH is waited for before QEMU is looked at again.
const SSH_SLICE: Duration = Duration::from_secs(10);
/// How long a script of the lab may take inside.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(120);

/// The machine.
pub(super) struct QemuHost {
    machine: Machine,
    vm: RefCell<Vm>,
    netns: Netns,
    login: RefCell<Login>,
    console_ready: Option<String>,
    setup: Setup,
    boot_timeout: Duration,
    cancel: Cancel,
    /// Whether something is in force only after the next start.
    needs_boot: Cell<bool>,
    /// How long its starts took.
    boots: RefCell<Vec<Duration>>,
    look: RefCell<String>,
}

impl QemuHost {
    /// A machine that was just started.
    pub(super) fn new(
        spec: &QemuSpec,
        files: &Files,
        login: Login,
        vm: Vm,
        ports: &Ports,
        cancel: &Cancel,
    ) -> Result<Self, TestbedError> {
        let secrets = Secrets::new(Vec::new()).map_err(TestbedError::new)?;
        let machine = Machine::new(&box_spec(spec, &login), &secrets, cancel);
        Ok(Self {
            machine,
            vm: RefCell::new(vm),
            netns: Netns::open(ports.dut.name()).map_err(TestbedError::new)?,
            login: RefCell::new(login),
            console_ready: files.console_ready.clone(),
            setup: spec.setup,
            boot_timeout: spec.boot_timeout,
            cancel: cancel.clone(),
            needs_boot: Cell::new(false),
            boots: RefCell::default(),
            look: RefCell::default(),
        })
    }

    /// Waits until it can be logged in to, and sets it up.
    pub(super) fn boot(&self, deadline: Instant) -> Result<(), TestbedError> {
        self.wait(0, deadline)?;
        self.machine.connect().and_then(|()| self.set_up()).map_err(|error| {
            match error.is_passing() {
                true => TestbedError::voids_trial(error),
                false => TestbedError::new(error),
            }
        })
    }

    /// Fails if QEMU has ended.
    pub(super) fn alive(&self) -> Result<(), TestbedError> {
        Ok(self.vm.borrow_mut().alive()?)
    }

    /// Fails if QEMU ends now.
    pub(super) fn stays_alive(&self) -> Result<(), TestbedError> {
        Ok(self.vm.borrow_mut().stays_alive()?)
    }

    /// How long its starts took, in seconds.
    pub(super) fn boot_seconds(&self) -> Vec<f64> {
        self.boots.borrow().iter().map(Duration::as_secs_f64).collect()
    }

    /// What the console says, what QEMU says, and what the machine is.
    pub(super) fn artefacts(&self) -> Vec<(String, Vec<u8>)> {
        let mut vm = self.vm.borrow_mut();
        let mut qemu = format!("{}\n", vm.command()).into_bytes();
        qemu.extend(vm.said());
        vec![
            ("console.log".to_owned(), vm.console()),
            ("qemu.log".to_owned(), qemu),
            ("machine.txt".to_owned(), self.look.borrow().clone().into_bytes()),
        ]
    }

    /// Ends the connection and QEMU.
    pub(super) fn stop(self) -> Result<(), TestbedError> {
        self.machine.host().disconnect();
        drop(self.machine);
        Ok(self.vm.into_inner().stop()?)
    }

    /// Waits for the console's text behind `console_start`, the machine's key, and SSH.
    fn wait(&self, console_start: u64, deadline: Instant) -> Result<(), TestbedError> {
        let began = Instant::now();
        if let Some(text) = &self.console_ready {
            self.wait_while("its serial console to say that it is up", deadline, || {
                let vm = self.vm.borrow();
                let behind = vm.console_bytes().saturating_sub(console_start);
                let console = vm.console();
                let behind = usize::try_from(behind).unwrap_or(usize::MAX).min(console.len());
                let seen = String::from_utf8_lossy(&console[console.len() - behind..]).into_owned();
                Ok(seen.contains(text.as_str()))
            })?;
        }
        if !self.login.borrow().is_known() {
            let mut asked = None::<Instant>;
            self.wait_while("its SSH server to show its key", deadline, || {
                if asked.is_none_or(|at| at.elapsed() >= ASK_PAUSE) {
                    self.login.borrow_mut().ask(&self.netns)?;
                    asked = Some(Instant::now());
                }
                Ok(self.login.borrow().is_known())
            })?;
        }
        self.wait_for_ssh(deadline)?;
        self.vm.borrow_mut().is_up();
        self.boots.borrow_mut().push(began.elapsed());
        Ok(())
    }

    fn wait_for_ssh(&self, deadline: Instant) -> Result<(), TestbedError> {
        loop {
            self.alive()?;
            let slice = deadline.min(Instant::now() + SSH_SLICE);
            let Err(error) = self.machine.host().wait_online(slice) else { return Ok(()) };
            if self.cancel.signal().is_some() {
                return Err(TestbedError::new(error));
            }
            // Before its time is over, waiting longer would be no use: a wrong key.
            let now = Instant::now();
            if now < slice || now >= deadline {
                self.alive()?;
                return Err(self.not_up(&error.to_string()));
            }
        }
    }

    fn wait_while(
        &self,
        what: &str,
        deadline: Instant,
        mut is_done: impl FnMut() -> Result<bool, TestbedError>,
    ) -> Result<(), TestbedError> {
        loop {
            if is_done()? {
                return Ok(());
            }
            self.alive()?;
            if Instant::now() >= deadline {
                return Err(self.not_up(&format!("waiting for {what}")));
            }
            if !self.cancel.sleep(POLL) {
                return Err(TestbedError::new("cancelled while the machine was waited for"));
            }
        }
    }

    fn not_up(&self, why: &str) -> TestbedError {
        TestbedError::voids_trial(format!(
            "the machine did not come up in {:?} (boot_timeout): {why}; {}",
            self.boot_timeout,
            self.vm.borrow().console_end()
        ))
    }

    /// Sets its cards up, and looks at what it is.
    fn set_up(&self) -> Result<(), HostError> {
        if self.setup == Setup::None {
            return Ok(());
        }
        let refused = |error: TestbedError| HostError::new(self.name(), error.what);
        let script = guest::set_up().map_err(refused)?;
        let output = self.shell(&script)?;
        if !output.success() {
            return Err(HostError::new(
                self.name(),
                format!(
                    "cannot set up the machine's network cards: {}; setup = \"none\" leaves that \
                     to the image",
                    output.said()
                ),
            ));
        }
        let look = self.shell(guest::LOOK)?;
        *self.look.borrow_mut() = look.stdout;
        Ok(())
    }

    fn shell(&self, script: &str) -> Result<Output, HostError> {
        self.run(&Command {
            program: Program::Shell(script),
            stdin: "",
            timeout: SCRIPT_TIMEOUT,
            cancellable: true,
        })
    }

    /// A machine whose QEMU has ended is gone for that reason.
    fn explained<T>(&self, result: Result<T, HostError>) -> Result<T, HostError> {
        let error = match result {
            Err(error) if error.is_gone() => error,
            other => return other,
        };
        Err(match self.stays_alive() {
            Err(ended) => HostError::gone(self.name(), format!("{}; {}", ended.what, error.what)),
            Ok(()) => error,
        })
    }

    /// Reboots it, and sets it up again.
    fn reboot(&self) -> Result<(), HostError> {
        let began = Instant::now();
        self.explained(self.restart())?;
        self.boots.borrow_mut().push(began.elapsed());
        self.set_up()
    }

    /// By its own command; switches it off and on if it does not come back.
    fn restart(&self) -> Result<(), HostError> {
        match self.machine.fresh() {
            Err(error) if error.is_gone() => {
                if self.alive().is_err() {
                    return Err(error);
                }
                let asked = Instant::now();
                let cycled = self.vm.borrow().power_cycle();
                cycled.map_err(|why| {
                    let what = format!("{}; it cannot be switched off: {why}", error.what);
                    HostError::gone(self.name(), what)
                })?;
                self.machine.started("switching it off and on", asked)
            }
            other => other,
        }
    }
}

/// The machine as one that is reached by SSH. Its power is switched by QEMU.
fn box_spec(spec: &QemuSpec, login: &Login) -> BoxSpec {
    BoxSpec {
        remote: RemoteSpec { processes: spec.processes.clone(), ..login.remote.clone() },
        system: spec.system,
        receives: Vec::new(),
        sends: Vec::new(),
        reboot: Reset::Ssh { command: None },
        power: Reset::None,
        boot_timeout: spec.boot_timeout,
        boot_time: Duration::ZERO,
        online: Online { ping: None, command: None },
        upload: Upload { method: UploadMethod::Auto, before: None, after: None },
    }
}

impl Host for QemuHost {
    fn name(&self) -> &str {
        self.machine.name()
    }

    fn run(&self, command: &Command<'_>) -> Result<Output, HostError> {
        self.explained(self.machine.run(command))
    }

    fn spawn(&self, shell: &str, log: &str) -> Result<Box<dyn Process>, HostError> {
        self.explained(self.machine.spawn(shell, log))
    }

    fn spawn_lines(
        &self,
        shell: &str,
        log: &str,
        lines: LineSink,
    ) -> Result<Box<dyn Process>, HostError> {
        self.explained(self.machine.spawn_lines(shell, log, lines))
    }

    fn write_file(&self, name: &str, content: &str) -> Result<String, HostError> {
        self.explained(self.machine.write_file(name, content))
    }

    fn set_sysctl(&self, name: &str, value: &str) -> Result<String, HostError> {
        self.explained(self.machine.set_sysctl(name, value))
    }

    fn sysctl(&self, name: &str) -> Result<String, HostError> {
        self.explained(self.machine.sysctl(name))
    }

    fn sysctls(&self) -> Result<BTreeMap<String, String>, HostError> {
        self.explained(self.machine.sysctls())
    }

    fn stack_counters(&self) -> Result<Counters, HostError> {
        self.explained(self.machine.stack_counters())
    }

    fn processes(&self) -> &[String] {
        self.machine.processes()
    }

    fn system(&self) -> Result<System, HostError> {
        self.explained(self.machine.system())
    }

    fn upload(&self, tree: &Tree) -> Result<(), HostError> {
        self.needs_boot.set(true);
        self.explained(self.machine.upload(tree))
    }

    fn fresh(&self) -> Result<(), HostError> {
        if !self.needs_boot.replace(false) {
            return Ok(());
        }
        self.reboot()
    }

    fn take_log(&self) -> String {
        self.machine.take_log()
    }

    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)> {
        let mut artefacts = self.artefacts();
        artefacts.extend(self.machine.take_artefacts());
        artefacts
    }
}
