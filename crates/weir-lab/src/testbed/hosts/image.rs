//! Installing an image: once for each block of the campaign that runs it.
//!
//! With `check`, an image that runs already is not installed again, and one that does not run after
//! its installation is refused: wrongly labelled kernels have been published before.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::parts::Parts;
use super::variables::quoted;
use crate::host::{Command, Host, Output, Program};
use crate::model::{Image, InstallOn};

/// How long a check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Installs an image and boots it; `folder` is where its file's path begins.
pub(super) fn install(image: &Image, folder: &Path, parts: &Parts) -> Result<(), String> {
    let name = &image.name;
    if runs(image, parts)? == Some(true) {
        return Ok(());
    }
    let Some(line) = &image.install else {
        return match image.check {
            Some(_) => Err(format!(
                "image {name} does not run, and there is no `install`: `{}` fails",
                image.check.as_deref().unwrap_or_default()
            )),
            None => Ok(()),
        };
    };
    let file = image.file.as_ref().map(|file| folder.join(file));
    if let (Some(file), Some(wanted)) = (&file, &image.sha256) {
        verify(file, wanted)?;
    }
    let output = match (image.on, &file) {
        (InstallOn::Dut, Some(file)) => parts.device.feed(line, file, image.timeout),
        (InstallOn::Dut, None) => run(parts.device.host(), line, image.timeout),
        (InstallOn::Manager, _) => {
            let shown = file.as_deref().map_or_else(String::new, |f| f.display().to_string());
            let dut = parts.spec.dut.remote.ssh.as_deref().unwrap_or_default();
            let line = format!(
                "WEIR_IMAGE={}; WEIR_DUT={}; export WEIR_IMAGE WEIR_DUT; {line}",
                quoted(&shown),
                quoted(dut)
            );
            run(parts.manager.as_ref(), &line, image.timeout)
        }
    };
    let output = output.map_err(|error| format!("image {name}: `{line}`: {error}"))?;
    if !output.success() {
        let code = output.exit_code.map_or("a signal".to_owned(), |code| code.to_string());
        return Err(format!("image {name}: `{line}` ended with {code}: {}", output.said()));
    }
    let booted = parts.device.host().fresh();
    booted.map_err(|error| format!("image {name} is installed, but does not boot: {error}"))?;
    match runs(image, parts)? {
        Some(false) => Err(format!(
            "image {name} was installed and the DUT booted, but `{}` says that it does not run",
            image.check.as_deref().unwrap_or_default()
        )),
        _ => Ok(()),
    }
}

fn run(host: &dyn Host, line: &str, timeout: Duration) -> Result<Output, crate::host::HostError> {
    let program = Program::Shell(line);
    host.run(&Command { program, stdin: "", timeout, cancellable: true })
}

/// Whether the image runs; `None` if nobody can tell.
fn runs(image: &Image, parts: &Parts) -> Result<Option<bool>, String> {
    let Some(check) = &image.check else {
        return Ok(None);
    };
    let output = run(parts.device.host(), check, CHECK_TIMEOUT);
    let output = output.map_err(|error| format!("image {}: `{check}`: {error}", image.name))?;
    Ok(Some(output.success()))
}

/// Holds a file against the digest that it must have.
fn verify(path: &Path, wanted: &str) -> Result<(), String> {
    let shown = path.display();
    let mut file = File::open(path).map_err(|e| format!("cannot open {shown}: {e}"))?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => digest.update(&chunk[..count]),
            Err(error) => return Err(format!("cannot read {shown}: {error}")),
        }
    }
    let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == wanted {
        return Ok(());
    }
    Err(format!("{shown} has the SHA-256 {found}, and `sha256` says {wanted}: fetch it again"))
}
