//! Copies of the files that a specification names, so that a store can be resumed by itself.
//!
//! `files/<name>` holds each file under its path as the specification writes it, with `/` and a
//! leading `.` escaped; the mapping is reversible, so no index is needed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Store, StoreError};

/// Reads the files of a specification back from its store.
#[derive(Debug, Clone)]
pub struct StoredFiles {
    folder: PathBuf,
}

impl StoredFiles {
    /// The files kept in `store`.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self { folder: store.root().join("files") }
    }

    /// Where the copy of `path`, as the specification writes it, is kept.
    #[must_use]
    pub fn location(&self, path: &str) -> PathBuf {
        self.folder.join(escape(path))
    }
}

/// Writes the copies.
pub(super) fn write(store: &Store, files: &BTreeMap<String, String>) -> Result<(), StoreError> {
    for (path, text) in files {
        store.write(&format!("files/{}", escape(path)), text.as_bytes())?;
    }
    Ok(())
}

/// A path as a single file name.
fn escape(path: &str) -> String {
    let mut name = String::with_capacity(path.len());
    for (index, c) in path.chars().enumerate() {
        match c {
            '%' => name.push_str("%25"),
            '/' => name.push_str("%2F"),
            '.' if index == 0 => name.push_str("%2E"),
            _ => name.push(c),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_are_single_components_and_distinct() {
        let paths = ["a.nft", "../a.nft", "d/a.nft", "d%2Fa.nft", "./a.nft"];
        let names: std::collections::BTreeSet<String> = paths.iter().map(|p| escape(p)).collect();
        assert_eq!(names.len(), paths.len());
        assert!(names.iter().all(|n| !n.contains('/') && !n.starts_with('.')));
        assert_eq!(escape("a.nft"), "a.nft");
    }
}
