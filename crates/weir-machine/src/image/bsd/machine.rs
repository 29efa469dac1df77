//! The virtual machine in which a BSD is installed, and its console: QEMU with a disk, perhaps a
//! medium, and a serial port on a socket. It has a network card that leads nowhere.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_net::process::{self, Invocation, Process};

use super::super::{DiskFormat, ImageError};
use super::Stage;
use crate::cancel::Cancel;
use crate::capped_log::CappedLog;
use crate::console::{Console, ConsoleError, Options, Progress, Script, Target};
use crate::qemu::{Chosen, PROGRAM};

/// How long QEMU may take to open its socket.
const SOCKET_PATIENCE: Duration = Duration::from_secs(30);
/// How long a machine may take to switch itself off.
const OFF_PATIENCE: Duration = Duration::from_secs(600);
/// How long QEMU may take to end when it is asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);
const MEMORY_MIB: u32 = 1024;

/// What a machine is started with.
pub(super) struct Machine<'a> {
    pub(super) accel: &'a Chosen,
    /// The disk, in QEMU's own format.
    pub(super) disk: &'a Path,
    pub(super) log: Option<&'a Path>,
    pub(super) cancel: &'a Cancel,
}

impl Machine<'_> {
    /// Boots it, drives its console by the stage's script, and waits until it is off.
    pub(super) fn run(
        &self,
        stage: &Stage<'_>,
        environment: &dyn Fn(&str) -> Option<String>,
        watch: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), ImageError> {
        // Beside the image its name might be too long for a socket.
        let dir = tempfile::tempdir()
            .map_err(|error| ImageError::new(format!("cannot make a directory: {error}")))?;
        let socket = dir.path().join("console");
        let script = Script::parse(stage.name, &stage.script).map_err(ImageError::new)?;
        let (log, out, err) = CappedLog::open()
            .map_err(|error| ImageError::new(format!("cannot open a pipe: {error}")))?;
        let command = Invocation::program(self.arguments(stage.medium.as_ref(), &socket));
        let running = process::spawn(&command, out, err).map_err(ImageError::new)?;
        let target = Target::Unix(socket);
        let driven = drive(&target, &script, (self.log, self.cancel), environment, watch);
        let ended = match &driven {
            Ok(()) if stage.switches_off => self.wait_off(&running),
            _ => Ok(()),
        };
        let status = running.try_wait().ok().flatten();
        running.stop(STOP_PATIENCE).map_err(ImageError::new)?;
        if let Some(signal) = self.cancel.signal() {
            return Err(ImageError::Cancelled(signal));
        }
        driven.map_err(|error| {
            let said = String::from_utf8_lossy(&log.take()).trim().to_owned();
            let qemu = match status {
                Some(status) => format!("; QEMU ended ({status}): {said}"),
                None => String::new(),
            };
            ImageError::new(format!("{}: {error}{qemu}", stage.name))
        })?;
        ended
    }

    fn wait_off(&self, running: &Process) -> Result<(), ImageError> {
        let deadline = Instant::now() + OFF_PATIENCE;
        while running.try_wait().map_err(ImageError::new)?.is_none() {
            if Instant::now() >= deadline {
                return Err(ImageError::new(format!(
                    "the machine did not switch itself off within {OFF_PATIENCE:?}"
                )));
            }
            if !self.cancel.sleep(POLL) {
                break;
            }
        }
        Ok(())
    }

    fn arguments(&self, medium: Option<&(PathBuf, bool)>, socket: &Path) -> Vec<String> {
        let file = |path: &Path| path.to_string_lossy().replace(',', ",,");
        let mut all: Vec<String> = vec![PROGRAM.to_owned()];
        let mut add = |name: &str, value: String| all.extend([name.to_owned(), value]);
        // Without graphics the BIOS, and boot loaders that use it, speak on the serial port.
        add("-machine", format!("pc,graphics=off,accel={}", self.accel.name()));
        if *self.accel == Chosen::Kvm {
            add("-cpu", "host".to_owned());
        }
        add("-m", format!("{MEMORY_MIB}M"));
        add("-display", "none".to_owned());
        let format = DiskFormat::Qcow2.name();
        add("-drive", format!("file={},format={format},if=none,id=disk", file(self.disk)));
        add("-device", "virtio-blk-pci,drive=disk,bootindex=2".to_owned());
        if let Some((path, is_cd)) = medium {
            let kind = if *is_cd { "media=cdrom," } else { "" };
            // What an installer may write to its medium is not written to the user's file.
            let kept = if *is_cd { "readonly=on" } else { "snapshot=on" };
            let drive = format!("file={},format=raw,{kind}if=none,id=medium", file(path));
            add("-drive", format!("{drive},{kept}"));
            let device = if *is_cd { "ide-cd" } else { "virtio-blk-pci" };
            add("-device", format!("{device},drive=medium,bootindex=1"));
        }
        add("-device", "virtio-rng-pci".to_owned());
        add("-netdev", "user,id=management,restrict=on,ipv6=off".to_owned());
        add("-device", "virtio-net-pci,netdev=management,romfile=".to_owned());
        let socket = file(socket);
        add("-chardev", format!("socket,id=console,path={socket},server=on,wait=off"));
        add("-serial", "chardev:console".to_owned());
        all.extend(["-no-reboot", "-no-user-config", "-nodefaults"].map(str::to_owned));
        all
    }
}

/// Runs a script on a console that is about to be there.
pub(super) fn drive(
    target: &Target,
    script: &Script,
    (log, cancel): (Option<&Path>, &Cancel),
    environment: &dyn Fn(&str) -> Option<String>,
    watch: &mut dyn FnMut(&Progress<'_>),
) -> Result<(), ConsoleError> {
    let options = Options {
        log: log.map(Path::to_owned),
        patience: SOCKET_PATIENCE,
        cancel: cancel.clone(),
        ..Options::default()
    };
    let console = Console::open(target, options)?;
    console.run(script, environment, cancel, watch)
}
