//! Copies of the files that a specification names, so that a store can be resumed by itself.
//!
//! `files/<digest>-<name>` holds each file under the beginning of its SHA-256 and the last part of
//! its path. A copy is never changed: another edition of a file gets another name. `plan.json`
//! says which copy belongs to which path, as the specification writes it. Configurations hold keys
//! and passwords, and to go on a campaign needs them: so the folder is its owner's alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::{Store, StoreError};
pub(super) use weir_results::content::sha256;

/// The folder of the copies.
const FOLDER: &str = "files";

/// Characters of a digest in the name of a copy: enough that no two files share them.
const DIGEST_LENGTH: usize = 16;

/// Characters of a file's own name in the name of its copy, which has at most 255 bytes.
const NAME_LENGTH_MAX: usize = 48;

/// Reads the files of a specification back from its store.
#[derive(Debug, Clone)]
pub struct StoredFiles {
    folder: PathBuf,
    names: BTreeMap<String, String>,
}

impl StoredFiles {
    /// The files kept in `store`.
    ///
    /// # Errors
    /// When `plan.json` cannot be read, or does not belong to the specification in the store.
    pub fn new(store: &Store) -> Result<Self, StoreError> {
        Ok(Self { folder: store.root().join(FOLDER), names: store.plan_file()?.files })
    }

    /// Where the copy of `path`, as the specification writes it, is kept; for a path that the
    /// specification does not name, where nothing is.
    #[must_use]
    pub fn location(&self, path: &str) -> PathBuf {
        self.folder.join(self.names.get(path).map_or_else(|| last_part(path), String::clone))
    }
}

/// Writes the copies that are not there yet. Gives their names by path.
pub(super) fn write(
    store: &Store,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<BTreeMap<String, String>, StoreError> {
    let mut names = BTreeMap::new();
    if !files.is_empty() {
        store.make_private(FOLDER)?;
    }
    for (path, bytes) in files {
        let digest = sha256(bytes);
        let name = format!("{}-{}", &digest[..DIGEST_LENGTH], last_part(path));
        let there = fs::read(store.root().join(FOLDER).join(&name));
        if !there.is_ok_and(|there| there == *bytes) {
            store.write(&format!("{FOLDER}/{name}"), bytes)?;
        }
        names.insert(path.clone(), name);
    }
    Ok(names)
}

fn last_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).chars().take(NAME_LENGTH_MAX).collect()
}
