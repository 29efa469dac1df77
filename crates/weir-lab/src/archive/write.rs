//! Writing an imported store: beside its place, and moved into it as a whole.
//!
//! Nothing is synchronised file by file, because nothing of an unfinished store is of use: when all
//! of it is written, one syncfs(2) brings it to the disk, and a rename puts it in its place. An
//! import that is interrupted or fails removes what it has written; after a loss of power, what is
//! left is `.unfinished-<name>` beside the place, which the next import to there removes.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use weir_results::report::DerivedFile;

use super::store::{ARCHIVE_FILE, Archive};
use super::{ArchiveError, ArchiveRecord, Derived, ImportedTrial};

/// A directory that is being written; removed when dropped before it is published.
#[derive(Debug)]
pub(super) struct Staged {
    /// Where it will stand.
    place: PathBuf,
    /// Where it is written.
    unfinished: PathBuf,
    /// Held against others that write to the same place.
    _lock: File,
    is_published: bool,
}

impl Staged {
    /// Begins a directory for `place`, which must not exist, or be an empty directory.
    pub(super) fn begin(place: &Path) -> Result<Self, ArchiveError> {
        let place = std::path::absolute(place).map_err(ArchiveError::io("resolve", place))?;
        refuse_occupied(&place)?;
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(ArchiveError::Exists { path: place });
        };
        fs::create_dir_all(parent).map_err(ArchiveError::io("create", parent))?;
        let name = name.to_string_lossy();
        let unfinished = parent.join(format!(".unfinished-{name}"));
        fs::create_dir_all(&unfinished).map_err(ArchiveError::io("create", &unfinished))?;
        let lock = lock(&unfinished, &place)?;
        // Whatever was left there when the last one was killed.
        let entries = fs::read_dir(&unfinished).map_err(ArchiveError::io("list", &unfinished))?;
        for entry in entries.flatten().map(|entry| entry.path()) {
            let removed = match entry.is_dir() {
                true => fs::remove_dir_all(&entry),
                false => fs::remove_file(&entry),
            };
            removed.map_err(ArchiveError::io("remove", &entry))?;
        }
        Ok(Self { place, unfinished, _lock: lock, is_published: false })
    }

    /// Writes a file below the directory.
    pub(super) fn file(&self, path: &str, bytes: &[u8]) -> Result<(), ArchiveError> {
        let path = self.unfinished.join(path);
        let folder = path.parent().unwrap_or(&self.unfinished);
        fs::create_dir_all(folder).map_err(ArchiveError::io("create", folder))?;
        write(&path, bytes)
    }

    /// Puts all of it in its place, on the disk.
    pub(super) fn publish(mut self) -> Result<PathBuf, ArchiveError> {
        let folder =
            File::open(&self.unfinished).map_err(ArchiveError::io("open", &self.unfinished))?;
        nix::unistd::syncfs(&folder)
            .map_err(|errno| ArchiveError::io("synchronise", &self.unfinished)(errno.into()))?;
        refuse_occupied(&self.place)?;
        fs::rename(&self.unfinished, &self.place)
            .map_err(ArchiveError::io("rename to", &self.place))?;
        self.is_published = true;
        let parent = self.place.parent().unwrap_or(Path::new("/"));
        File::open(parent)
            .and_then(|folder| folder.sync_all())
            .map_err(ArchiveError::io("synchronise", parent))?;
        Ok(self.place.clone())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_published {
            // If this fails too, the next to write to this place does it.
            drop(fs::remove_dir_all(&self.unfinished));
        }
    }
}

/// An imported store that is being written.
#[derive(Debug)]
pub(super) struct Writer(Staged);

impl Writer {
    /// Begins a store for `place`, which must not exist, or be an empty directory.
    pub(super) fn begin(place: &Path) -> Result<Self, ArchiveError> {
        Staged::begin(place).map(Self)
    }

    /// Writes a run.
    pub(super) fn cell(&self, trial: &ImportedTrial, samples: &str) -> Result<(), ArchiveError> {
        let cell = self.0.unfinished.join(Archive::cell(&trial.series, trial.iteration));
        fs::create_dir_all(&cell).map_err(ArchiveError::io("create", &cell))?;
        write_json(&cell.join("trial.json"), trial)?;
        write(&cell.join("samples.csv"), samples.as_bytes())
    }

    /// Writes what the whole store is, and puts it in its place.
    pub(super) fn finish(self, record: &ArchiveRecord) -> Result<(Archive, Derived), ArchiveError> {
        write_json(&self.0.unfinished.join(ARCHIVE_FILE), record)?;
        let archive = Archive::open(&self.0.unfinished)?;
        let derived = super::summary::files(&archive);
        for DerivedFile { path, text } in &derived.files {
            self.0.file(path, text.as_bytes())?;
        }
        Ok((Archive::open(&self.0.publish()?)?, derived))
    }
}

/// Writes every derived file again.
///
/// # Errors
/// When one cannot be written.
pub fn derive(archive: &Archive) -> Result<Derived, ArchiveError> {
    let derived = super::summary::files(archive);
    for DerivedFile { path, text } in &derived.files {
        replace(&archive.root().join(path), text.as_bytes())?;
    }
    Ok(derived)
}

/// Refuses a place where something stands.
fn refuse_occupied(place: &Path) -> Result<(), ArchiveError> {
    match fs::read_dir(place).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ArchiveError::Exists { path: place.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ArchiveError::io("list", place)(error)),
    }
}

fn lock(unfinished: &Path, place: &Path) -> Result<File, ArchiveError> {
    let file = File::open(unfinished).map_err(ArchiveError::io("open", unfinished))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(ArchiveError::Locked { path: place.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(ArchiveError::io("lock", unfinished)(error)),
    }
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ArchiveError> {
    let cause = |error: serde_json::Error| ArchiveError::io("write", path)(error.into());
    let mut bytes = serde_json::to_vec_pretty(value).map_err(cause)?;
    bytes.push(b'\n');
    write(path, &bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ArchiveError> {
    fs::write(path, bytes).map_err(ArchiveError::io("write", path))
}

/// Replaces a file of a finished store atomically and durably: its content is on the disk before
/// it has its name. Two that write at once do not meet, because each writes to a name of its own.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), ArchiveError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let unfinished =
        path.with_file_name(format!(".unfinished-{name}.{}.{count}", std::process::id()));
    let replaced = File::create_new(&unfinished)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(ArchiveError::io("write", &unfinished))
        .and_then(|()| fs::rename(&unfinished, path).map_err(ArchiveError::io("rename to", path)));
    if replaced.is_err() {
        // The first failure is the one to be told.
        drop(fs::remove_file(&unfinished));
    }
    replaced
}
