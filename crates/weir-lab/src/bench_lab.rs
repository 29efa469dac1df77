//! Campaigns of bench-lab.sh: its configuration, its sets of configurations, traffics and images,
//! as the text of a lab.toml.
//!
//! A bench-lab.config is a shell fragment, and so is each of its pkt-gen sets: they are evaluated
//! by a shell, never by a parser of our own. What they set becomes a specification for the testbed
//! of kind `hosts`, a text that is read, checked and run as any other. Nothing here connects to a
//! machine, and nothing is written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_machine::digest::Reader;
use weir_results::collection::{DUT, TRAFFIC};

mod evaluate;
mod line;
mod sent;
mod sets;
#[cfg(test)]
mod tests;
mod words;
mod write;

pub use evaluate::{NAMES as VARIABLES, Variables};

/// Traffic runs so long before it counts: there, the first 15 lines are dropped, one a second.
pub(crate) const WARMUP_DEFAULT: Duration = Duration::from_secs(15);

/// A trial measures so long.
pub(crate) const DURATION_DEFAULT: Duration = Duration::from_secs(30);

/// The traffic of a campaign without a folder of pkt-gen sets.
const ONLY_TRAFFIC: &str = "pkt-gen";

/// The DUT of a campaign without a folder of configuration sets.
const ONLY_DUT: &str = "dut";

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
    /// How long traffic runs before it counts; absent: [`WARMUP_DEFAULT`].
    pub warmup: Option<Duration>,
    /// How long a trial measures; absent: [`DURATION_DEFAULT`].
    pub duration: Option<Duration>,
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
    /// Who is told that it is over, if the configuration says so (`MAIL`).
    pub mail: Option<String>,
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
    /// Fragments that run to their end as they are, and not with other values.
    #[error(
        "{path}: a condition or a sum depends on {names}, for which weir puts other values, and \
         fails with them (the shell says: {said}): write the fragment without it, one set for each \
         case"
    )]
    Changed {
        /// The fragments, as they were read one after the other.
        path: String,
        /// The variables that get other values.
        names: String,
        /// The shell's last words.
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

/// What the files of a request say, once they were evaluated.
#[derive(Debug)]
pub struct Sets {
    traffics: Vec<sets::TrafficSet>,
    configurations: Vec<sets::ConfigurationSet>,
    images: Vec<sets::ImageSet>,
}

impl Sets {
    /// Evaluates the files of a request, and reads its images for their SHA-256. A fragment is a
    /// program: each is run here, and never again.
    ///
    /// # Errors
    /// [`BenchLabError`], which names the file and the variable.
    pub fn read(request: &Request, reader: &Reader<'_>) -> Result<Self, BenchLabError> {
        Ok(Self {
            traffics: sets::traffics(request)?,
            configurations: sets::configurations(request.config_dir.as_deref())?,
            images: sets::images(request.images_dir.as_deref(), reader)?,
        })
    }

    /// The specification that stands for a request with these files.
    ///
    /// # Errors
    /// [`BenchLabError`], which names the file and the variable.
    pub fn specification(&self, request: &Request) -> Result<Specification, BenchLabError> {
        write::specification(request, &self.traffics, &self.configurations, &self.images)
    }

    /// Where the DUT is reached: for those who want to ask it what it runs.
    ///
    /// # Errors
    /// When the configuration does not say it.
    pub fn dut_address(&self) -> Result<String, BenchLabError> {
        let values = self.traffics.first().map(|set| &set.values);
        let address = values.map(|values| values.required("DUT_ADMIN", write::DUT_ADMIN_IS));
        address.transpose().map(|address| destination(address.unwrap_or_default()))
    }
}

/// The dimensions that a request has no folder of: they have no place in bench-lab.sh's names of
/// files.
#[must_use]
pub fn unnamed(request: &Request) -> Vec<&'static str> {
    let folders = [(DUT, &request.config_dir), (TRAFFIC, &request.pktgen_dir)];
    folders.into_iter().filter(|(_, dir)| dir.is_none()).map(|(dimension, _)| dimension).collect()
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
