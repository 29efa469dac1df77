//! An imported store on the disk: reading one, and writing one as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{ARCHIVE_SCHEMA, ArchiveError, ArchiveRecord, ImportedTrial};

/// The file whose presence makes a directory an imported store.
pub const ARCHIVE_FILE: &str = "archive.json";

/// Whether `root` is an imported store.
#[must_use]
pub fn is_archive(root: &Path) -> bool {
    root.join(ARCHIVE_FILE).is_file()
}

/// An imported store, open for reading.
#[derive(Debug)]
pub struct Archive {
    root: PathBuf,
    record: ArchiveRecord,
}

impl Archive {
    /// Opens an imported store.
    ///
    /// # Errors
    /// When there is none, or its `archive.json` is damaged or of another version.
    pub fn open(root: &Path) -> Result<Self, ArchiveError> {
        let path = root.join(ARCHIVE_FILE);
        let bytes = fs::read(&path).map_err(ArchiveError::io("read", &path))?;
        let damaged = |cause: String| ArchiveError::Damaged { path: path.clone(), cause };
        let record: ArchiveRecord =
            serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        if record.schema != ARCHIVE_SCHEMA {
            let schema = record.schema;
            return Err(damaged(format!(
                "its schema is {schema}, and this weir reads {ARCHIVE_SCHEMA}"
            )));
        }
        if let Some(series) = record.series.iter().find(|s| !is_folder(&s.name)) {
            return Err(damaged(format!("the series `{}` names no directory", series.name)));
        }
        if let Some(cause) = stray_path(&record) {
            return Err(damaged(cause));
        }
        Ok(Self { root: root.to_owned(), record })
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The content of `archive.json`.
    #[must_use]
    pub fn record(&self) -> &ArchiveRecord {
        &self.record
    }

    /// Folder of a cell, relative to the store.
    #[must_use]
    pub fn cell(series: &str, iteration: u32) -> String {
        format!("cells/{series}/{iteration}")
    }

    /// Reads the record of a run.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub(crate) fn read_trial(
        &self,
        series: &str,
        iteration: u32,
    ) -> Result<ImportedTrial, ArchiveError> {
        let path = self.root.join(Self::cell(series, iteration)).join("trial.json");
        let damaged = |cause: String| ArchiveError::Damaged { path: path.clone(), cause };
        let bytes = fs::read(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => damaged("it is missing".to_owned()),
            _ => ArchiveError::io("read", &path)(cause),
        })?;
        let trial: ImportedTrial =
            serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        if trial.series == series && trial.iteration == iteration {
            Ok(trial)
        } else {
            let (series, iteration) = (&trial.series, trial.iteration);
            Err(damaged(format!("it is that of `{series}`, iteration {iteration}")))
        }
    }
}

/// A path of the record that would lead an export out of its directory, in words.
fn stray_path(record: &ArchiveRecord) -> Option<String> {
    let folders = record.results.iter().map(|folder| &folder.path);
    let mut paths = folders.chain(record.series.iter().map(|series| &series.results));
    if let Some(path) = paths.find(|path| !path.is_empty() && !is_folder(path)) {
        return Some(format!("the directory of results `{path}` is not a path below the archive"));
    }
    let is_name = |name: &str| is_folder(name) && !name.contains('/');
    let stray = record.series.iter().find(|series| !is_name(&series.file_name))?;
    Some(format!("`{}`, given for `{}`, is not a file name", stray.file_name, stray.name))
}

/// Whether a series' name is a path below the store that leaves it nowhere.
fn is_folder(name: &str) -> bool {
    name.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains('\0'))
}
