//! Small files of a machine, by their paths from its root: this machine's own, or copies that
//! another one has printed.
//!
//! What reads sysfs and proc(5) reads through this, so that a sensor has one name wherever the
//! machine is. Nothing is ever written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Files {
    /// Below this directory.
    Below(PathBuf),
    /// From copies: text by path, without the leading slash.
    Copies(BTreeMap<String, String>),
}

impl Files {
    /// What `grep -sH '' FILE…` prints: `/path:line`, file by file.
    pub(crate) fn printed(text: &str) -> Self {
        let mut copies: BTreeMap<String, String> = BTreeMap::new();
        for line in text.lines() {
            let Some((path, rest)) = line.strip_prefix('/').and_then(|l| l.split_once(':')) else {
                continue;
            };
            let copy = copies.entry(path.to_owned()).or_default();
            copy.push_str(rest);
            copy.push('\n');
        }
        Self::Copies(copies)
    }

    /// A file's text without the ends; `None` if it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        match self {
            Self::Below(root) => super::text(&root.join(path)),
            Self::Copies(copies) => copies.get(path).map(|text| text.trim().to_owned()),
        }
    }

    /// A file's number; `None` if it cannot be read or has none.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory; none if it cannot be listed.
    pub(super) fn names(&self, dir: &str) -> BTreeSet<String> {
        match self {
            Self::Below(root) => super::entries(&root.join(dir)).into_keys().collect(),
            Self::Copies(copies) => {
                let below = copies.keys().filter_map(|path| {
                    let rest = path.strip_prefix(dir)?.strip_prefix('/')?;
                    rest.split('/').next().map(str::to_owned)
                });
                below.collect()
            }
        }
    }

    /// The paths of the entries `<prefix><number>` of a directory.
    pub(super) fn numbered(&self, dir: &str, prefix: &str) -> BTreeMap<usize, String> {
        let number = |name: String| {
            Some((name.strip_prefix(prefix)?.parse().ok()?, format!("{dir}/{name}")))
        };
        self.names(dir).into_iter().filter_map(number).collect()
    }
}

impl From<&Path> for Files {
    fn from(root: &Path) -> Self {
        Self::Below(root.to_owned())
    }
}
