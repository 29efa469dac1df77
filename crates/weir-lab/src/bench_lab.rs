//! Campaigns of bench-lab.sh: its configuration, its sets of configurations, traffics and images,
//! as the text of a lab.toml.
//!
//! A bench-lab.config is a shell fragment, and so is each of its pkt-gen sets: they are evaluated
//! by a shell, never by a parser of our own. What they set becomes a specification for the testbed
//! of kind `hosts`, a text that is read, checked and run as any other. Nothing here connects to a
//! machine, and nothing is written.

use std::path::{Path, PathBuf};

mod evaluate;
mod sets;
#[cfg(test)]
mod tests;
mod write;

pub use evaluate::Variables;

/// What bench-lab.sh is given on its command line, as far as it says what to run.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The configuration (`-f`).
    pub config: PathBuf,
    /// Folder of pkt-gen sets (`-p`): each file sets variables before the configuration does.
    pub pktgen_dir: Option<PathBuf>,
    /// Folder of configuration sets (`-c`): each folder in it is laid over the DUT's root.
    pub config_dir: Option<PathBuf>,
    /// Folder of nanobsd upgrade images (`-i`).
    pub images_dir: Option<PathBuf>,
    /// Iterations of every series (`-n`).
    pub iterations: u32,
    /// Profile every series (`-P`).
    pub profile: bool,
    /// Configuration file for ssh(1); absent: the user's own.
    pub ssh_config: Option<PathBuf>,
    /// What the DUT runs: `freebsd`, `openbsd`, `linux`, `generic`.
    pub system: String,
}

/// A specification that stands for what bench-lab.sh would have run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specification {
    /// The text of the lab.toml.
    pub text: String,
    /// What is different there, or was left out, in words.
    pub notes: Vec<String>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum BenchLabError {
    /// A folder or file of the request cannot be read.
    #[error("{path}: {what}")]
    Path {
        /// Which.
        path: PathBuf,
        /// Why not, and what to do.
        what: String,
    },
    /// A fragment does not run to its end.
    #[error("{path}: the shell says: {said}")]
    Shell {
        /// The fragments, as they were read one after the other.
        path: String,
        /// Its last words.
        said: String,
    },
    /// A variable that weir needs.
    #[error("{path}: {name} is not set: {why}")]
    Missing {
        /// The fragments.
        path: String,
        /// The variable.
        name: &'static str,
        /// What it is for.
        why: &'static str,
    },
    /// A variable whose value weir cannot use.
    #[error("{path}: {name}=\"{value}\": {why}")]
    Value {
        /// The fragments.
        path: String,
        /// The variable.
        name: String,
        /// Its value.
        value: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Sets of traffic that differ in what a testbed has once.
    #[error(
        "{path}: {name} differs from that of {other}: a testbed is the same for all traffics; run \
         them as two campaigns"
    )]
    Differs {
        /// The set.
        path: String,
        /// The variable.
        name: &'static str,
        /// The set that came first.
        other: String,
    },
}

/// The specification that stands for a request.
///
/// # Errors
/// [`BenchLabError`], which names the file and the variable.
pub fn specification(request: &Request) -> Result<Specification, BenchLabError> {
    let traffics = sets::traffics(request)?;
    let configurations = sets::configurations(request.config_dir.as_deref())?;
    let images = sets::images(request.images_dir.as_deref())?;
    write::specification(request, &traffics, &configurations, &images)
}

/// Where the DUT is reached, as its configuration says: for those who want to ask it what it runs.
///
/// # Errors
/// As [`specification`].
pub fn dut_address(request: &Request) -> Result<String, BenchLabError> {
    let variables = evaluate::evaluate(None, &request.config, &[])?;
    variables.required("DUT_ADMIN", "the DUT's address").map(destination)
}

/// bench-lab.sh logs in as root.
fn destination(address: &str) -> String {
    if address.contains('@') { address.to_owned() } else { format!("root@{address}") }
}

/// A path that stays what it is wherever the specification lies.
fn absolute(path: &Path) -> Result<PathBuf, BenchLabError> {
    std::path::absolute(path)
        .map_err(|error| BenchLabError::Path { path: path.to_owned(), what: error.to_string() })
}
