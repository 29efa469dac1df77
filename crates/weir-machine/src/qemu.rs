//! Virtual machines of QEMU: their start, their console, what runs their instructions, the way in.
//!
//! A [`Vm`] runs inside a network namespace and has no way out of it. What it is started with, and
//! what its network cards are connected to, is its user's to say.

use std::fmt::Display;
use std::time::Duration;

use weir_net::Netns;
use weir_net::process::{self, Invocation};

mod accel;
mod login;
mod vm;

pub use accel::{Accel, Chosen};
pub use login::{Access, Login, PORT};
pub use vm::{CONSOLE_LOG, MONITOR_SOCKET, Vm};

/// What runs an x86 machine, as it is found in the path.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// How long it may take to tell its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a virtual machine does not run, or not any more.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct QemuError {
    /// What was tried, and why it failed.
    pub what: String,
    /// Whether the next start may succeed: this machine ran, or was killed.
    pub is_passing: bool,
}

impl QemuError {
    fn new(what: impl Display) -> Self {
        Self { what: what.to_string(), is_passing: false }
    }
}

/// The first line of what QEMU says of its version.
///
/// # Errors
/// When it is not installed, or does not answer.
pub fn version() -> Result<String, QemuError> {
    let asked = Invocation::program([PROGRAM, "--version"]);
    let output = process::run(&asked, VERSION_TIMEOUT).map_err(|error| {
        QemuError::new(format!(
            "{error}; kind = \"qemu\" needs it: apt-get install qemu-system-x86"
        ))
    })?;
    Ok(output.text().lines().next().unwrap_or_default().to_owned())
}

/// Runs a closure inside a namespace and flattens its errors.
fn inside<R: Send, E: Display>(
    netns: &Netns,
    what: impl FnOnce() -> Result<R, E> + Send,
) -> Result<R, QemuError> {
    let result = netns.run(|| what().map_err(|e| e.to_string())).map_err(QemuError::new)?;
    result.map_err(|e| QemuError::new(format!("{}: {e}", netns.name())))
}
