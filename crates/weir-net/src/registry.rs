//! The write-ahead record of what a run makes on the host, and the removal of what a killed run
//! left behind.
//!
//! A record names its owner (process id and start time, which together name one process) and the
//! network namespaces it is about to make. It is written *before* they are made and removed after
//! they are gone, so that whatever exists is on record. Interfaces, XDP programs and their links
//! go with the namespaces and the owner. A record may have a directory for files of the run, which
//! goes with it, and settings of the host with the values that they had before: they are put back.
//! Networks that a run made local in a namespace that is not its, are no longer so afterwards.
//!
//! This module never touches a record of an owner that lives, nor a namespace that a living
//! owner's record names, and never a namespace that is on no record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::address::Prefix;
use crate::error::describe;
use crate::netlink::NetlinkError;
use crate::netns::{self, NETNS_DIR, Netns, NetnsError};
use crate::process::{self, ProcessError};
use crate::procfs;
use crate::sysctl::{self, SysctlError};
use local_route::LocalRoute;

/// Where the records are.
pub const REGISTRY_DIR: &str = "/run/weir/lab";

/// The extension of a record, and of one that is being written.
const RECORD: &str = "json";
const UNWRITTEN: &str = "tmp";
/// How long leftover processes may take after SIGTERM.
const PROCESS_GRACE: Duration = Duration::from_secs(2);

/// Why a record could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A namespace's name is bad.
    #[error(transparent)]
    Name(#[from] NetnsError),
    /// The record is to be removed, but namespaces on it are still there.
    #[error(
        "record {} cannot be closed: network namespaces {} still exist; delete them first",
        path.display(),
        names.join(", ")
    )]
    StillThere {
        /// The record.
        path: PathBuf,
        /// The namespaces.
        names: Vec<String>,
    },
    /// A setting of the host could not be read, changed or put back.
    #[error("{0}; settings of the host can only be changed from its first network namespace")]
    Setting(#[from] SysctlError),
    /// A network could not be made local, or is still.
    #[error(transparent)]
    LocalRoute(#[from] NetlinkError),
    /// Another run has made the network local here, and takes that back when it ends.
    #[error(
        "{network} is in use by another run (process {pid}), which takes it back at its end: give \
         another network, or wait"
    )]
    LocalElsewhere {
        /// All of whose addresses are local for the other run.
        network: Prefix,
        /// The process whose record has it.
        pid: i32,
    },
    /// The system refused.
    #[error("cannot {action} {}: {}", path.display(), describe(source))]
    System {
        /// The file or directory.
        path: PathBuf,
        /// What was to be done.
        action: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// What a record says, as it is in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    pid: i32,
    start_time_ticks: u64,
    namespaces: Vec<String>,
    /// Settings that belong to no namespace alone, as they were before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<String, String>,
    /// Networks that the run makes local.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    local_routes: Vec<LocalRoute>,
}

impl Content {
    /// A record's owner is dead if its process is gone, has ended without being waited for, or is
    /// another one with the same number.
    fn owner_lives(&self) -> bool {
        procfs::stat(self.pid)
            .is_some_and(|stat| !stat.has_ended() && stat.start_time_ticks == self.start_time_ticks)
    }
}

/// The directory with the records.
#[derive(Debug, Clone)]
pub struct Registry {
    directory: PathBuf,
}

impl Default for Registry {
    fn default() -> Self {
        Self::at(REGISTRY_DIR)
    }
}

/// What a clean-up removed.
#[derive(Debug, Default)]
pub struct CleanReport {
    /// The names of the namespaces that were deleted.
    pub namespaces: Vec<String>,
    /// How many processes in them were ended.
    pub processes_ended: usize,
    /// The files of the records that were removed.
    pub records: Vec<PathBuf>,
    /// What could not be cleaned up. The records in question are kept.
    pub problems: Vec<CleanProblem>,
}

impl CleanReport {
    /// Whether there was nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.problems.is_empty()
    }
}

/// Something that a clean-up could not remove.
#[derive(Debug, thiserror::Error)]
pub enum CleanProblem {
    /// A record is not readable as one.
    #[error(
        "{} is not a record of weir ({reason}); inspect it, delete the network namespaces it \
         names with `ip netns delete`, and then the file",
        path.display()
    )]
    Corrupt {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Processes in a namespace could not be ended.
    #[error("network namespace `{name}` of a dead run: {source}")]
    Processes {
        /// The namespace.
        name: String,
        /// Why.
        source: ProcessError,
    },
    /// A namespace could not be deleted.
    #[error(transparent)]
    Namespace(NetnsError),
    /// A network is still local.
    #[error("what a dead run made local is still so: {0}")]
    LocalRoute(NetlinkError),
    /// A setting of the host could not be put back.
    #[error("a dead run's change of the host is not undone: {0}")]
    Setting(SysctlError),
    /// A record could not be removed.
    #[error(transparent)]
    Record(RegistryError),
}

/// The record of this process's run. Dropping it leaves the record in place, for the next start
/// to clean up: only [`Record::close`] removes it.
#[derive(Debug)]
pub struct Record {
    registry: Registry,
    path: PathBuf,
    content: Content,
}

impl Registry {
    /// A registry in that directory, made when first needed. [`Registry::default`] is the host's,
    /// [`REGISTRY_DIR`].
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Writes a record that this process is about to make namespaces of these names.
    ///
    /// # Errors
    ///
    /// If a name is bad, or the record cannot be written.
    pub fn record<S: AsRef<str>>(&self, namespaces: &[S]) -> Result<Record, RegistryError> {
        let content = content_of(namespaces)?;
        let _lock = self.lock()?;
        let mut counter = 0_u32;
        let path = loop {
            let path = self.directory.join(format!("{}-{counter}.{RECORD}", content.pid));
            if !path.exists() {
                break path;
            }
            counter += 1;
        };
        write_atomically(&path, &content)?;
        Ok(Record { registry: self.clone(), path, content })
    }

    /// Removes what dead owners left: ends the processes in their namespaces, deletes the
    /// namespaces (which takes their interfaces with them), and removes the records. Safe to call
    /// at any time, also by several processes at once.
    ///
    /// What cannot be removed is in the report, not an error.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read or locked. That there is none is fine.
    pub fn clean_leftovers(&self) -> Result<CleanReport, RegistryError> {
        let mut report = CleanReport::default();
        if !self.directory.exists() {
            return Ok(report);
        }
        let _lock = self.lock()?;
        // Whoever writes has the lock: what is unwritten now is of a writer that was killed, and
        // names nothing that was made.
        for path in self.paths(UNWRITTEN)? {
            let removed = fs::remove_file(&path).map_err(system(&path, "remove"));
            report.problems.extend(removed.err().map(CleanProblem::Record));
        }
        let mut dead = Vec::new();
        let mut in_use = BTreeSet::new();
        let mut routes_in_use = Vec::new();
        for path in self.paths(RECORD)? {
            match read_content(&path) {
                Ok(content) if content.owner_lives() => {
                    in_use.extend(content.namespaces);
                    routes_in_use.extend(content.local_routes);
                }
                Ok(content) => dead.push((path, content)),
                Err(problem) => report.problems.push(problem),
            }
        }
        for (path, content) in dead {
            let problem_count = report.problems.len();
            for name in content.namespaces.iter().filter(|name| !in_use.contains(*name)) {
                if let Err(problem) = remove_namespace(name, &mut report) {
                    report.problems.push(problem);
                }
            }
            for route in content.local_routes.iter().filter(|one| !routes_in_use.contains(one)) {
                let failed = route.remove().err();
                report.problems.extend(failed.map(CleanProblem::LocalRoute));
            }
            let failed = put_back(&content.settings).err();
            report.problems.extend(failed.map(CleanProblem::Setting));
            if report.problems.len() > problem_count {
                continue;
            }
            match remove_record(&path) {
                Ok(()) => report.records.push(path),
                Err(error) => report.problems.push(CleanProblem::Record(error)),
            }
        }
        Ok(report)
    }

    /// The living process whose record has that route.
    fn owner_of(&self, route: &LocalRoute) -> Result<Option<i32>, RegistryError> {
        // A record that cannot be read is reported by the clean-up.
        let mut contents =
            self.paths(RECORD)?.into_iter().filter_map(|path| read_content(&path).ok());
        let owner =
            contents.find(|content| content.local_routes.contains(route) && content.owner_lives());
        Ok(owner.map(|content| content.pid))
    }

    /// Files with this extension, sorted.
    fn paths(&self, extension: &str) -> Result<Vec<PathBuf>, RegistryError> {
        let list = system(&self.directory, "list");
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(&list)? {
            let path = entry.map_err(&list)?.path();
            if path.extension().is_some_and(|found| found == extension) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// Held while records are written, removed or judged; it goes with the file.
    fn lock(&self) -> Result<File, RegistryError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.directory)
            .map_err(system(&self.directory, "make"))?;
        let path = self.directory.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(system(&path, "open"))?;
        file.lock().map_err(system(&path, "lock"))?;
        Ok(file)
    }
}

impl Record {
    /// The record's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The namespaces on the record.
    #[must_use]
    pub fn namespaces(&self) -> &[String] {
        &self.content.namespaces
    }

    /// Puts further namespaces on the record, before they are made.
    ///
    /// # Errors
    ///
    /// If a name is bad, or the record cannot be written; it is as before then.
    pub fn add<S: AsRef<str>>(&mut self, namespaces: &[S]) -> Result<(), RegistryError> {
        let mut content = self.content.clone();
        for name in namespaces.iter().map(AsRef::as_ref) {
            netns::check_name(name)?;
            if !content.namespaces.iter().any(|known| known == name) {
                content.namespaces.push(name.to_owned());
            }
        }
        self.replace(content)
    }

    /// Changes a setting of the host: one that is the same for all namespaces, and belongs to the
    /// first. What it was before is on record first, and is put back when the record is closed.
    ///
    /// # Errors
    ///
    /// If there is no such setting, the calling thread is in another namespace than the first, or
    /// the record cannot be written.
    pub fn change_host(&mut self, name: &str, value: &str) -> Result<(), RegistryError> {
        let before = sysctl::read(name)?;
        if before == value {
            return Ok(());
        }
        let mut content = self.content.clone();
        content.settings.entry(name.to_owned()).or_insert(before);
        self.replace(content)?;
        Ok(sysctl::write(name, value)?)
    }

    /// Makes every address of a network local in the calling thread's namespace, until the record
    /// is closed. Returns whether it was not so before; what was so is left alone.
    ///
    /// # Errors
    ///
    /// If a living owner's record has the network in this namespace, the record cannot be written,
    /// or the kernel refuses.
    pub fn add_local_route(&mut self, network: Prefix) -> Result<bool, RegistryError> {
        let route = LocalRoute::here(network).map_err(system(&self.path, "name a route in"))?;
        if self.content.local_routes.contains(&route) {
            return Ok(false);
        }
        let lock = self.registry.lock()?;
        if let Some(pid) = self.registry.owner_of(&route)? {
            return Err(RegistryError::LocalElsewhere { network: network.network(), pid });
        }
        let mut content = self.content.clone();
        content.local_routes.push(route.clone());
        self.write(&lock, content)?;
        drop(lock);
        if route.add()? {
            return Ok(true);
        }
        let mut content = self.content.clone();
        content.local_routes.pop();
        self.replace(content)?;
        Ok(false)
    }

    fn replace(&mut self, content: Content) -> Result<(), RegistryError> {
        let lock = self.registry.lock()?;
        self.write(&lock, content)
    }

    /// Writes the record anew, while the registry is locked.
    fn write(&mut self, _lock: &File, content: Content) -> Result<(), RegistryError> {
        write_atomically(&self.path, &content)?;
        self.content = content;
        Ok(())
    }

    /// Removes the record, after its namespaces are gone, puts the host's settings back, and takes
    /// back what was made local.
    ///
    /// # Errors
    ///
    /// If one of them still exists, or a setting, a route or the record cannot be dealt with.
    pub fn close(self) -> Result<(), RegistryError> {
        let names: Vec<String> = self
            .content
            .namespaces
            .iter()
            .filter(|name| Path::new(NETNS_DIR).join(name).exists())
            .cloned()
            .collect();
        if !names.is_empty() {
            return Err(RegistryError::StillThere { path: self.path, names });
        }
        for route in &self.content.local_routes {
            route.remove()?;
        }
        put_back(&self.content.settings)?;
        let _lock = self.registry.lock()?;
        remove_record(&self.path)
    }

    /// A directory for files of the run, made when first asked for. It is removed with the record.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn directory(&self) -> Result<PathBuf, RegistryError> {
        let path = directory_of(&self.path);
        fs::create_dir_all(&path).map_err(system(&path, "create"))?;
        Ok(path)
    }
}

/// Writes settings of the host, and goes on when one fails; the first failure is returned.
fn put_back(settings: &BTreeMap<String, String>) -> Result<(), SysctlError> {
    settings.iter().map(|(name, before)| sysctl::write(name, before)).fold(Ok(()), Result::and)
}

/// The directory that belongs to a record's file.
fn directory_of(record: &Path) -> PathBuf {
    record.with_extension("d")
}

/// Removes a record and its directory; the record last, so that what is left stays on record.
fn remove_record(path: &Path) -> Result<(), RegistryError> {
    let directory = directory_of(path);
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(system(&directory, "remove")(error));
        }
        _ => {}
    }
    fs::remove_file(path).map_err(system(path, "remove"))
}

/// [`Registry::clean_leftovers`] for the host's registry.
///
/// # Errors
///
/// As there.
pub fn clean_leftovers() -> Result<CleanReport, RegistryError> {
    Registry::default().clean_leftovers()
}

fn content_of<S: AsRef<str>>(namespaces: &[S]) -> Result<Content, RegistryError> {
    let pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let stat = procfs::stat(pid).ok_or_else(|| {
        let path = PathBuf::from(format!("/proc/{pid}/stat"));
        system(&path, "read")(io::ErrorKind::InvalidData.into())
    })?;
    let mut names = Vec::new();
    for name in namespaces {
        netns::check_name(name.as_ref())?;
        names.push(name.as_ref().to_owned());
    }
    Ok(Content {
        pid,
        start_time_ticks: stat.start_time_ticks,
        namespaces: names,
        settings: BTreeMap::new(),
        local_routes: Vec::new(),
    })
}

fn system<'a>(path: &'a Path, action: &'static str) -> impl Fn(io::Error) -> RegistryError + 'a {
    move |source| RegistryError::System { path: path.to_owned(), action, source }
}

fn read_content(path: &Path) -> Result<Content, CleanProblem> {
    let corrupt = |reason: String| CleanProblem::Corrupt { path: path.to_owned(), reason };
    let text = fs::read_to_string(path).map_err(|error| corrupt(error.to_string()))?;
    let content: Content =
        serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()))?;
    for name in &content.namespaces {
        netns::check_name(name).map_err(|error| corrupt(error.to_string()))?;
    }
    if content.pid <= 0 {
        return Err(corrupt(format!("{} is not a process id", content.pid)));
    }
    Ok(content)
}

fn write_atomically(path: &Path, content: &Content) -> Result<(), RegistryError> {
    let temporary = path.with_extension(UNWRITTEN);
    let write = || -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(content)?;
        text.push('\n');
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        system(path, "write")(error)
    })
}

/// Removes one namespace of a dead owner, if it was made at all.
fn remove_namespace(name: &str, report: &mut CleanReport) -> Result<(), CleanProblem> {
    let path = Path::new(NETNS_DIR).join(name);
    if !path.exists() {
        return Ok(());
    }
    // A file that is no namespace is what a creation that was cut off leaves: nobody is inside.
    if netns::is_namespace(&path) {
        let inode = Netns::open(name).map_err(CleanProblem::Namespace)?.inode();
        report.processes_ended += process::end_processes_in(inode, PROCESS_GRACE)
            .map_err(|source| CleanProblem::Processes { name: name.to_owned(), source })?;
    }
    netns::delete(name).map_err(CleanProblem::Namespace)?;
    report.namespaces.push(name.to_owned());
    Ok(())
}

mod local_route;
#[cfg(test)]
mod tests;
