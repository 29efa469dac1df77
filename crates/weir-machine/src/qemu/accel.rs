//! What runs the machine's instructions: the processor (KVM), or QEMU (TCG).
//!
//! That `/dev/kvm` is there says little: inside some virtual machines QEMU ends with it, or stands
//! still, or KVM itself translates the machine's instructions, a hundred times slower than QEMU
//! does. So a machine with a few instructions of its own is run first: it counts to some millions
//! and asks QEMU to end with an exit code that nothing else gives.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_net::process::{self, Invocation, ProcessError};

use super::{PROGRAM, QemuError};

const DEVICE: &str = "/dev/kvm";
/// A processor takes a tenth of a second for the probe, QEMU a few tenths.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How far the probe counts.
const PROBE_COUNT: u32 = 1 << 25;
const PORT: u8 = 0xf4;
const VALUE: u8 = 0x2a;
/// What isa-debug-exit makes of the value.
const EXIT_CODE: i32 = (VALUE as i32) << 1 | 1;
const ROM_BYTES: usize = 64 << 10;
/// Where a processor begins, from the end of the ROM.
const RESET_VECTOR_BYTES: usize = 16;

/// What runs the machine's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// The processor where that works, otherwise QEMU.
    Auto,
    /// The processor.
    Kvm,
    /// QEMU, which translates them: slow, and works everywhere.
    Tcg,
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// The processor runs them.
    Kvm,
    /// QEMU does: with the reason why KVM is not used; none where the specification asks for TCG.
    Tcg(Option<String>),
}

impl Chosen {
    /// Tries KVM, where it may be used.
    ///
    /// # Errors
    /// When KVM is asked for and does not work.
    pub fn choose(asked: Accel) -> Result<Self, QemuError> {
        if asked == Accel::Tcg {
            return Ok(Self::Tcg(None));
        }
        match (probe(), asked) {
            (Ok(()), _) => Ok(Self::Kvm),
            (Err(why), Accel::Kvm) => Err(QemuError::new(format!(
                "accel = \"kvm\": {why}; \"auto\" or \"tcg\" runs without it, about ten times \
                 slower"
            ))),
            (Err(why), _) => Ok(Self::Tcg(Some(why))),
        }
    }

    /// As QEMU names it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg(_) => "tcg",
        }
    }

    /// Why KVM is not used, where it might have been.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Tcg(Some(why)) => Some(why),
            _ => None,
        }
    }

    /// What is worth knowing before anything is measured.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
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
    let dir = tempfile::tempdir().map_err(|e| format!("cannot make a directory: {e}"))?;
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
        Err(ProcessError::TimedOut { .. }) => {
            Err(format!("a machine hangs with {accel}, or is slower than an emulated one"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Counts in protected mode, where an operating system spends its time, and ends QEMU. It lies at
/// 0xf0000; the processor begins 16 bytes before its end, in real mode.
fn rom() -> Vec<u8> {
    let [c0, c1, c2, c3] = PROBE_COUNT.to_le_bytes();
    let code: [&[u8]; 13] = [
        &[0xfa],                                           // cli
        &[0x2e, 0x66, 0x0f, 0x01, 0x16, 0x38, 0x00],       // lgdt cs:[0x38]
        &[0x0f, 0x20, 0xc0],                               // mov eax, cr0
        &[0x0c, 0x01],                                     // or al, 1
        &[0x0f, 0x22, 0xc0],                               // mov cr0, eax
        &[0x66, 0xea, 0x18, 0x00, 0x0f, 0x00, 0x08, 0x00], // jmp 8:0xf0018
        &[0xb9, c0, c1, c2, c3],                           // mov ecx, PROBE_COUNT
        &[0x49, 0x75, 0xfd],                               // dec ecx; jnz to it
        &[0xb0, VALUE, 0xe6, PORT, 0xf4],                  // mov al, VALUE; out PORT, al; hlt
        &[0; 3],
        &[0; 8],                                           // the table of segments
        &[0xff, 0xff, 0x00, 0x00, 0x00, 0x9b, 0xcf, 0x00], // 8: code, 32 bits, from 0
        &[0x0f, 0x00, 0x28, 0x00, 0x0f, 0x00],             // its size and address, 0xf0028
    ];
    let mut rom = code.concat();
    rom.resize(ROM_BYTES, 0);
    // jmp to the first byte, 16 bits.
    let vector = ROM_BYTES - RESET_VECTOR_BYTES;
    rom[vector..vector + 3].copy_from_slice(&[0xe9, 0x0d, 0x00]);
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
