//! Files and directories that outlive a loss of power.
//!
//! A file's content is on the disk after fsync(2) of the file, and its name after fsync(2) of the
//! directory; rename(2) is atomic, and is only done when everything below is on the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use weir_results::label::natural_order;

use super::StoreError;

/// Prefix of what is being written.
pub(super) const UNFINISHED: &str = ".unfinished-";

/// Where something is written before it is moved to `place`: beside it.
pub(super) fn unfinished(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!("{UNFINISHED}{name}"))
}

/// Makes a directory and what is missing above it, each of them durably.
pub(super) fn make_dirs(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent(path);
    make_dirs(parent)?;
    match fs::create_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made.map_err(StoreError::io("create", path))?,
    }
    sync_dir(parent)
}

/// Moves a finished file or directory, whose content is on the disk, to its place.
pub(super) fn publish(unfinished: &Path, place: &Path) -> Result<(), StoreError> {
    #[cfg(test)]
    trace::note("rename", place);
    fs::rename(unfinished, place).map_err(StoreError::io("rename to", place))?;
    sync_dir(parent(place))
}

/// Writes a file and waits until its content is on the disk.
pub(super) fn write_synced(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    #[cfg(test)]
    trace::note("sync", path);
    let mut how = OpenOptions::new();
    how.write(true).create(true).truncate(true);
    how.open(path)
        .and_then(|mut f| f.write_all(content).and_then(|()| f.sync_all()))
        .map_err(StoreError::io("write", path))
}

/// Waits until the entries of a directory are on the disk.
pub(super) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    #[cfg(test)]
    trace::note("sync", path);
    match File::open(path).and_then(|f| f.sync_all()) {
        // fsync(2): the file system has nothing to synchronise for a directory.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced.map_err(StoreError::io("synchronise", path)),
    }
}

/// Finished subdirectories, 2 before 10; none if the directory itself is missing.
pub(super) fn subdirectories(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut result: Vec<PathBuf> = fs::read_dir(path)
        .map_err(StoreError::io("list", path))?
        .filter_map(Result::ok)
        .filter(|e| !e.file_name().to_string_lossy().starts_with('.'))
        .map(|e| e.path())
        .filter(|p| p.is_dir())
        .collect();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    result.sort_by(|a, b| natural_order(&name(a), &name(b)));
    Ok(result)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// What was synchronised and renamed on this thread, in order.
#[cfg(test)]
pub(super) mod trace {
    use std::cell::RefCell;
    use std::path::Path;

    thread_local! {
        static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn note(what: &str, path: &Path) {
        NOTES.with_borrow_mut(|notes| notes.push(format!("{what} {}", path.display())));
    }

    /// The notes since the last call, with `root` cut off.
    pub(in crate::store) fn take(root: &Path) -> Vec<String> {
        let root = format!("{}/", root.display());
        NOTES.take().into_iter().map(|note| note.replace(&root, "")).collect()
    }
}
