//! Machines that are reached by SSH: commands, files, settings, counters, reboots.
//!
//! [`SshHost`] is a [`crate::host::Host`] over the system's OpenSSH, with the user's own
//! configuration, keys, agent and jump hosts; host keys are checked and nothing prompts. What ran
//! where, when, and what it said is in the log; secrets are not.
//!
//! This module never decides what runs on a machine, and never repeats a command that may have run.

use crate::access::RemoteSpec;
use crate::cancel::Cancel;
use crate::host::HostError;

mod boot;
mod bsd;
mod capture;
mod cksum;
mod complaint;
mod connection;
mod facts;
mod feeder;
mod host;
mod leftovers;
pub mod machine;
mod process;
pub mod profile;
mod script;
mod secrets;
mod sections;
mod shared;
pub mod system;
#[cfg(test)]
mod tests;
mod upload;

pub use host::SshHost;
pub use script::quote;
pub use secrets::Secrets;

/// Directories with the sockets of masters are named so, with the process id behind it.
const CONTROL_PREFIX: &str = "weir-ssh-";
/// Working directories on machines are named so, with the manager's name and the process id.
const DIRECTORY_PREFIX: &str = "weir-lab-";

/// A machine that is connected.
///
/// # Errors
/// When it cannot be reached, has another key than the known one, or refuses the login; the error
/// says what to do.
pub fn connect(
    remote: &RemoteSpec,
    secrets: &Secrets,
    cancel: &Cancel,
) -> Result<SshHost, HostError> {
    let host = SshHost::new(remote, secrets, cancel);
    host.connect()?;
    Ok(host)
}
