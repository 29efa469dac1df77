//! Installing an image: once for each block of the campaign that runs it.
//!
//! With `check`, an image that runs already is not installed again, and one that does not run after
//! its installation is refused: wrongly labelled kernels have been published before.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use weir_machine::cancel::Cancel;
use weir_machine::digest;
use weir_machine::host::{Command, Host, HostError, Output, Program};
use weir_machine::ssh::quote;
use weir_wire::units::format_duration;

use super::parts::Parts;
use crate::model::{Image, InstallOn};

/// How long a check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// What the file of an image must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) sha256: &'a str,
    pub(super) by: By,
}

/// Who asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Specification,
    /// The file that it began with.
    Campaign,
}

/// Why an image does not run.
#[derive(Debug)]
pub(super) enum Failure {
    /// It could not be installed, or does not run: another attempt may succeed.
    Installation(String),
    /// Its file is not the one that the campaign began with.
    Replaced(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Installation(why)
    }
}

/// Installs an image and boots it; `folder` is where its file's path begins.
pub(super) fn install(
    image: &Image,
    folder: &Path,
    parts: &Parts,
    expected: Option<Expected<'_>>,
    cancel: &Cancel,
) -> Result<(), Failure> {
    let (name, dut) = (&image.name, &parts.spec.dut.remote.name);
    if runs(image, parts)? == Some(true) {
        return Ok(());
    }
    let Some(line) = &image.install else {
        let Some(check) = &image.check else { return Ok(()) };
        let why = format!(
            "image {name} does not run on DUT {dut}: `{check}` fails, and there is no `install`: \
             put it there by hand, or say in `install` how weir installs it"
        );
        return Err(why.into());
    };
    let file = image.file.as_ref().map(|file| folder.join(file));
    if let (Some(file), Some(expected)) = (&file, expected) {
        verify(file, expected, cancel)?;
    }
    let output = match (image.on, &file) {
        (InstallOn::Dut, Some(file)) => parts.device.feed(line, file, image.timeout),
        (InstallOn::Dut, None) => run(parts.device.host(), line, image.timeout),
        (InstallOn::Manager, _) => {
            let shown = file.as_deref().map_or_else(String::new, |f| f.display().to_string());
            let destination = parts.spec.dut.remote.ssh.as_deref().unwrap_or_default();
            let line = format!(
                "WEIR_IMAGE={}; WEIR_DUT={}; export WEIR_IMAGE WEIR_DUT; {line}",
                quote(&shown),
                quote(destination)
            );
            run(parts.manager.as_ref(), &line, image.timeout)
        }
    };
    succeeded(image, line, dut, output)?;
    let booted = parts.device.host().fresh();
    booted.map_err(|error| {
        format!(
            "booting image {name}, which is installed: {error}; check that it is an image for {dut}"
        )
    })?;
    match runs(image, parts)? {
        Some(false) => {
            let why = format!(
                "image {name} was installed on DUT {dut}, which has booted, but `{}` says that it \
                 does not run: another image is booted, or `check` asks for something else; see \
                 what runs there",
                image.check.as_deref().unwrap_or_default()
            );
            Err(why.into())
        }
        _ => Ok(()),
    }
}

/// Whether an installation has succeeded; what went wrong and what to do, if not.
fn succeeded(
    image: &Image,
    line: &str,
    dut: &str,
    output: Result<Output, HostError>,
) -> Result<(), String> {
    let name = &image.name;
    let place = match image.on {
        InstallOn::Dut => format!("on DUT {dut}"),
        InstallOn::Manager => "on the manager".to_owned(),
    };
    let output = output.map_err(|error| {
        let limit = format_duration(image.timeout);
        format!(
            "installing image {name} {place}: {error}; raise its `timeout` ({limit}) if it only \
             needs longer"
        )
    })?;
    if output.success() {
        return Ok(());
    }
    let how = output.exit_code.map_or_else(|| "killed".to_owned(), |c| format!("exit code {c}"));
    let said = match output.said() {
        "" => "it says nothing".to_owned(),
        said => format!("it says: {said}"),
    };
    Err(format!(
        "installing image {name} {place}: `{line}`: {how}; {said}; run it there by hand to see \
         what it lacks, and correct `install`"
    ))
}

fn run(host: &dyn Host, line: &str, timeout: Duration) -> Result<Output, HostError> {
    let program = Program::Shell(line);
    host.run(&Command { program, stdin: "", timeout, cancellable: true })
}

/// Whether the image runs; `None` if nobody can tell.
fn runs(image: &Image, parts: &Parts) -> Result<Option<bool>, String> {
    let Some(check) = &image.check else {
        return Ok(None);
    };
    let output = run(parts.device.host(), check, CHECK_TIMEOUT);
    let output = output.map_err(|error| {
        format!("asking whether image {} runs, by its `check` `{check}`: {error}", image.name)
    })?;
    Ok(Some(output.success()))
}

/// Holds a file against the digest that it must have.
fn verify(path: &Path, expected: Expected<'_>, cancel: &Cancel) -> Result<(), Failure> {
    let shown = path.display();
    let Expected { sha256, by } = expected;
    let whose = match by {
        By::Specification => "`sha256`",
        By::Campaign => "what the campaign began with",
    };
    let found = File::open(path).and_then(|file| digest::sha256(file, cancel)).map_err(|error| {
        format!(
            "comparing {shown} here with {whose}: {error}; put the file there, or correct `file`"
        )
    })?;
    if found == sha256 {
        return Ok(());
    }
    Err(match by {
        By::Specification => Failure::Installation(format!(
            "{shown} has the SHA-256 {found}, and `sha256` says {sha256}: fetch it again"
        )),
        By::Campaign => Failure::Replaced(format!(
            "{shown} was replaced while the campaign ran: it has the SHA-256 {found}, and the \
             campaign began with {sha256}; finished iterations are kept: put the old one back, \
             then `weir lab resume`, or start a new results directory"
        )),
    })
}
