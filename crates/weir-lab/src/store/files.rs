//! Copies of the files that a specification names, so that a store can be resumed by itself.
//!
//! `files/<digest>-<name>` holds each file under the beginning of its SHA-256 and the last part of
//! its path. A copy is never changed: another edition of a file gets another name. `plan.json`
//! says which copy belongs to which path, as the specification writes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::{Store, StoreError};

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
        Ok(Self { folder: store.root().join("files"), names: store.plan_file()?.files })
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
    files: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, StoreError> {
    let mut names = BTreeMap::new();
    for (path, text) in files {
        let digest = sha256(text.as_bytes());
        let name = format!("{}-{}", &digest[..DIGEST_LENGTH], last_part(path));
        let there = fs::read(store.root().join("files").join(&name));
        if !there.is_ok_and(|bytes| bytes == text.as_bytes()) {
            store.write(&format!("files/{name}"), text.as_bytes())?;
        }
        names.insert(path.clone(), name);
    }
    Ok(names)
}

/// SHA-256 in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn last_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).chars().take(NAME_LENGTH_MAX).collect()
}
