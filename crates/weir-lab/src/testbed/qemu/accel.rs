//! What runs the machine's instructions: the processor (KVM), or QEMU (TCG).
//!
//! That `/dev/kvm` is there says little: inside some virtual machines QEMU ends, or stands still,
//! with it. So a machine with a few instructions of its own is run first: it asks QEMU to end with
//! an exit code that nothing else gives.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Duration;

use weir_net::process::{self, Invocation, ProcessError};

use super::PROGRAM;
use crate::model::qemu::Accel;
use crate::testbed::TestbedError;

const DEVICE: &str = "/dev/kvm";
/// The probe takes some milliseconds.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u8 = 0xf4;
const VALUE: u8 = 0x2a;
/// What isa-debug-exit makes of the value.
const EXIT_CODE: i32 = (VALUE as i32) << 1 | 1;
const ROM_BYTES: usize = 64 << 10;
/// Where a processor begins, from the end of the ROM.
const RESET_VECTOR_BYTES: usize = 16;

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chosen {
    Kvm,
    /// With the reason why KVM is not used; none where the specification asks for TCG.
    Tcg(Option<String>),
}

impl Chosen {
    pub(super) fn choose(asked: Accel) -> Result<Self, TestbedError> {
        if asked == Accel::Tcg {
            return Ok(Self::Tcg(None));
        }
        match (probe(), asked) {
            (Ok(()), _) => Ok(Self::Kvm),
            (Err(why), Accel::Kvm) => Err(TestbedError::new(format!(
                "accel = \"kvm\": {why}; \"auto\" or \"tcg\" runs without it, about ten times \
                 slower"
            ))),
            (Err(why), _) => Ok(Self::Tcg(Some(why))),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg(_) => "tcg",
        }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Tcg(Some(why)) => Some(why),
            _ => None,
        }
    }

    /// What is worth knowing before anything is measured.
    pub(super) fn warning(&self) -> Option<String> {
        let Self::Tcg(why) = self else { return None };
        let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        Some(format!(
            "the machine is emulated (TCG), not run by the processor{why}: its figures say how \
             configurations compare, not what the DUT can do"
        ))
    }
}

/// Whether KVM runs instructions; why not.
fn probe() -> Result<(), String> {
    if !Path::new(DEVICE).exists() {
        return Err(format!("there is no {DEVICE}"));
    }
    OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|e| format!("{DEVICE}: {e}"))?;
    run_rom("kvm", "host")
}

/// Runs a machine that consists of the ROM.
fn run_rom(accel: &str, cpu: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| format!("cannot make a folder: {e}"))?;
    let path = dir.path().join("probe.rom");
    fs::write(&path, rom()).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    let path = path.to_string_lossy().into_owned();
    let machine = format!("pc,accel={accel}");
    let exit = format!("isa-debug-exit,iobase={PORT:#x},iosize=1");
    let arguments = [
        PROGRAM,
        "-no-user-config",
        "-nodefaults",
        "-display",
        "none",
        "-machine",
        &machine,
        "-cpu",
        cpu,
        "-m",
        "16",
        "-bios",
        &path,
        "-device",
        &exit,
    ];
    match process::run(&Invocation::program(arguments), PROBE_TIMEOUT) {
        Ok(output) if output.status.code() == Some(EXIT_CODE) => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let said = said.lines().find(|line| line.contains("error") || line.contains("failed"));
            let said = said.map(|line| format!(": {}", line.trim())).unwrap_or_default();
            Err(format!("QEMU ends with {accel} ({}){said}", output.status))
        }
        Err(ProcessError::TimedOut { .. }) => Err(format!("a machine stands still with {accel}")),
        Err(error) => Err(error.to_string()),
    }
}

/// `mov al, VALUE; out PORT, al; hlt` at the reset vector.
fn rom() -> Vec<u8> {
    let mut rom = vec![0; ROM_BYTES];
    let code = [0xb0, VALUE, 0xe6, PORT, 0xf4];
    let start = ROM_BYTES - RESET_VECTOR_BYTES;
    rom[start..start + code.len()].copy_from_slice(&code);
    rom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_kvm_is_not_used_is_told() {
        let chosen = Chosen::Tcg(Some("there is no /dev/kvm".to_owned()));
        let warning = chosen.warning().unwrap();
        assert!(warning.contains("emulated (TCG)") && warning.contains("no /dev/kvm"), "{warning}");
        assert_eq!((chosen.name(), chosen.reason()), ("tcg", Some("there is no /dev/kvm")));
        assert_eq!((Chosen::Kvm.warning(), Chosen::Kvm.name()), (None, "kvm"));
        assert_eq!(Chosen::choose(Accel::Tcg).unwrap(), Chosen::Tcg(None));
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    fn the_probe_tells_a_machine_that_runs_from_one_that_does_not() {
        if super::super::version().is_err() {
            eprintln!("skipped: the_probe_tells_a_machine…: qemu-system-x86 is not installed");
            return;
        }
        assert_eq!(run_rom("tcg", "qemu64"), Ok(()));
        let error = run_rom("tcg", "no-such-cpu").unwrap_err();
        assert!(error.contains("QEMU ends with tcg"), "{error}");
    }
}
