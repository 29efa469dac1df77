//! The machine as the checks see it: files below a root, and the features that have to be tried.

use std::fs;
use std::path::{Path, PathBuf};

use super::probes::{Kernel, Probes};

/// Linux's numbers of the capabilities that a lab takes (capabilities(7)).
const CAPABILITIES: [(&str, u32); 3] =
    [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21), ("CAP_BPF", 39)];

/// A machine.
pub(super) struct Host {
    root: PathBuf,
    pub(super) probes: Box<dyn Probes>,
}

impl Host {
    /// The machine that this process runs on.
    pub(super) fn this_machine() -> Self {
        Self::new(Path::new("/"), Box::new(Kernel))
    }

    /// A machine whose `/proc` and `/sys` are below `root`.
    pub(super) fn new(root: &Path, probes: Box<dyn Probes>) -> Self {
        Self { root: root.to_owned(), probes }
    }

    /// A file's contents without the blanks around them; `path` is absolute.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Whether a file exists; `path` is absolute.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The sorted names in a directory; empty if there is none.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The value of a line `name: value` or `name value` of a file.
    pub(super) fn field(&self, path: &str, name: &str) -> Option<String> {
        let text = self.read(path)?;
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    }

    /// Names of the capabilities that a lab takes and this process lacks.
    pub(super) fn missing_capabilities(&self) -> Vec<&'static str> {
        let effective = self
            .field("/proc/self/status", "CapEff")
            .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
            .unwrap_or(0);
        let missing = CAPABILITIES.iter().filter(|(_, bit)| effective & (1 << bit) == 0);
        missing.map(|(name, _)| *name).collect()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}
