//! The store of a campaign: one directory, files only.
//!
//! ```text
//! campaign.toml  plan.json  env.json  host.log  files/
//! calibration/<traffic>/{trial.json,samples.csv}
//! cells/<series>/<iteration>/{trial.json,samples.csv,artefacts/}
//! summary.json  summary.md  gnuplot.data  plots/*.svg  report.html      derived
//! ```
//!
//! Raw results are append-only: a cell's directory is written beside its place, synchronised and
//! renamed into it as a whole, and never touched again. Derived files are replaced atomically.
//! The store never interprets a result; a reader finds either a whole cell or none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::record::{Sample, TrialRecord};

mod csv;
mod files;

pub use files::StoredFiles;

/// Version of the layout of a store.
pub const STORE_SCHEMA: u32 = 1;

/// What went wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the file system failed.
    #[error("cannot {action} {path}: {source}{hint}", path = .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// A file of the store does not hold what it should.
    #[error("{path} is damaged: {cause}", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: String,
    },
    /// There is a campaign already.
    #[error(
        "{path} holds a campaign already; continue it with `weir lab resume {path}`, or choose \
         another directory with --out",
        path = .path.display()
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// There is something else.
    #[error(
        "{path} is not empty and holds no campaign; choose another directory with --out",
        path = .path.display()
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// There is no campaign.
    #[error("{path} holds no campaign: it has no campaign.toml", path = .path.display())]
    NoCampaign {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody else writes to it.
    #[error("{path} is in use by another weir lab", path = .path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A finished cell was taken under other conditions than the plan's.
    #[error(
        "{path} was taken with another configuration than the specification now describes; \
         results of different configurations are not mixed: use another --out",
        path = .path.display()
    )]
    Conflict {
        /// The cell.
        path: PathBuf,
    },
}

impl StoreError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            let hint = match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "; finished iterations are kept: free some space, then `weir lab resume`"
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "; choose another directory with --out"
                }
                _ => "",
            };
            Self::Io { action, path, source, hint }
        }
    }
}

/// What `resume` needs beside the specification: `plan.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// [`STORE_SCHEMA`].
    pub schema: u32,
    /// Where the specification was read from.
    pub spec_path: String,
    /// Iterations, where the command line overrode the specification's.
    pub iterations: Option<u32>,
    /// The `--only` filter in force.
    pub only: Option<String>,
    /// Version and revision of the weir that made the store.
    pub weir: String,
}

/// An open store, locked against other writers as long as it lives.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    _lock: Option<File>,
}

impl Store {
    /// Makes a new store for a specification.
    ///
    /// # Errors
    /// When the directory holds anything already, or cannot be written.
    pub fn create(
        root: &Path,
        spec: &crate::model::SpecSource,
        plan: &PlanRecord,
    ) -> Result<Self, StoreError> {
        if root.join("campaign.toml").exists() {
            return Err(StoreError::Exists { path: root.to_owned() });
        }
        fs::create_dir_all(root).map_err(StoreError::io("create", root))?;
        let mut entries = fs::read_dir(root).map_err(StoreError::io("list", root))?;
        if entries.any(|e| e.is_ok_and(|e| e.file_name() != ".lock")) {
            return Err(StoreError::NotEmpty { path: root.to_owned() });
        }
        let store = Self { root: root.to_owned(), _lock: Some(lock(root)?) };
        files::write(&store, &spec.files)?;
        store.write_json("plan.json", plan)?;
        // Last, because its presence is what makes a directory a campaign.
        store.write("campaign.toml", spec.text.as_bytes())?;
        Ok(store)
    }

    /// Puts a newer edition of the specification in place of the one in the store. Finished
    /// cells are held against it when the campaign goes on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn replace_specification(
        &self,
        spec: &crate::model::SpecSource,
        plan: &PlanRecord,
    ) -> Result<(), StoreError> {
        files::write(self, &spec.files)?;
        self.write_json("plan.json", plan)?;
        self.write("campaign.toml", spec.text.as_bytes())
    }

    /// Opens a store to write to it.
    ///
    /// # Errors
    /// When there is none, or another weir writes to it.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let mut store = Self::open_to_read(root)?;
        store._lock = Some(lock(root)?);
        store.remove_unfinished()?;
        Ok(store)
    }

    /// Opens a store without locking it.
    ///
    /// # Errors
    /// When there is none.
    pub fn open_to_read(root: &Path) -> Result<Self, StoreError> {
        if !root.join("campaign.toml").is_file() {
            return Err(StoreError::NoCampaign { path: root.to_owned() });
        }
        Ok(Self { root: root.to_owned(), _lock: None })
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Path of the specification.
    #[must_use]
    pub fn spec_path(&self) -> PathBuf {
        self.root.join("campaign.toml")
    }

    /// The record of the plan.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn plan_record(&self) -> Result<PlanRecord, StoreError> {
        self.read_json(&self.root.join("plan.json"))
    }

    /// Directory of a cell.
    #[must_use]
    pub fn cell_dir(&self, series: &str, iteration: u32) -> PathBuf {
        self.root.join("cells").join(series).join(iteration.to_string())
    }

    /// Directory of a calibration.
    #[must_use]
    pub fn calibration_dir(&self, traffic: &str) -> PathBuf {
        self.root.join("calibration").join(traffic)
    }

    /// Whether a result stands in `dir`, taken under the conditions that `id` names.
    ///
    /// # Errors
    /// When a result stands there that was taken under other conditions, or cannot be read.
    pub fn holds(&self, dir: &Path, id: &str) -> Result<bool, StoreError> {
        let path = dir.join("trial.json");
        if !path.exists() {
            return Ok(false);
        }
        let record: TrialRecord = self.read_json(&path)?;
        if record.cell_id == id {
            Ok(true)
        } else {
            Err(StoreError::Conflict { path: dir.to_owned() })
        }
    }

    /// Writes a result as a whole.
    ///
    /// # Errors
    /// When it cannot be written; nothing is left of it then.
    pub fn write_trial(
        &self,
        dir: &Path,
        record: &TrialRecord,
        samples: &[Sample],
        artefacts: &[(String, Vec<u8>)],
    ) -> Result<(), StoreError> {
        let parent = dir.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = parent.join(format!("{UNFINISHED}{name}"));
        let written = self
            .fill(&unfinished, record, samples, artefacts)
            .and_then(|()| fs::rename(&unfinished, dir).map_err(StoreError::io("rename to", dir)));
        if written.is_err() {
            // The disk may be full: what was half written must not stay. A failure here changes
            // nothing for the reader, who never looks at unfinished directories.
            drop(fs::remove_dir_all(&unfinished));
        }
        written?;
        sync_dir(parent)
    }

    fn fill(
        &self,
        dir: &Path,
        record: &TrialRecord,
        samples: &[Sample],
        artefacts: &[(String, Vec<u8>)],
    ) -> Result<(), StoreError> {
        if dir.exists() {
            fs::remove_dir_all(dir).map_err(StoreError::io("remove", dir))?;
        }
        fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
        write_synced(&dir.join("samples.csv"), csv::render(samples).as_bytes())?;
        if !artefacts.is_empty() {
            let folder = dir.join("artefacts");
            fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
            for (name, content) in artefacts {
                write_synced(&folder.join(name), content)?;
            }
        }
        write_synced(&dir.join("trial.json"), &to_json(record))
    }

    /// Reads a result back.
    ///
    /// # Errors
    /// When a file is missing or damaged.
    pub fn read_trial(&self, dir: &Path) -> Result<(TrialRecord, Vec<Sample>), StoreError> {
        let record = self.read_json(&dir.join("trial.json"))?;
        let path = dir.join("samples.csv");
        let text = fs::read_to_string(&path).map_err(StoreError::io("read", &path))?;
        let samples = csv::parse(&text).map_err(|cause| StoreError::Damaged { path, cause })?;
        Ok((record, samples))
    }

    /// Every finished cell, by series name and iteration.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn read_cells(&self) -> Result<Vec<(TrialRecord, Vec<Sample>)>, StoreError> {
        let mut cells = Vec::new();
        for series in subdirectories(&self.root.join("cells"))? {
            for iteration in subdirectories(&series)? {
                cells.push(self.read_trial(&iteration)?);
            }
        }
        cells.sort_by(|(a, _), (b, _)| (&a.series, a.iteration).cmp(&(&b.series, b.iteration)));
        Ok(cells)
    }

    /// Every calibration, by the name of its traffic.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn read_calibrations(&self) -> Result<Vec<(TrialRecord, Vec<Sample>)>, StoreError> {
        subdirectories(&self.root.join("calibration"))?
            .iter()
            .map(|dir| self.read_trial(dir))
            .collect()
    }

    /// Writes a file below the root, replacing it atomically.
    ///
    /// # Errors
    /// When it cannot be written; the earlier content stands then.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.root.join(name);
        let parent = path.parent().unwrap_or(&self.root).to_owned();
        fs::create_dir_all(&parent).map_err(StoreError::io("create", &parent))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = parent.join(format!("{UNFINISHED}{file}"));
        let written = write_synced(&unfinished, content).and_then(|()| {
            fs::rename(&unfinished, &path).map_err(StoreError::io("rename to", &path))
        });
        if written.is_err() {
            drop(fs::remove_file(&unfinished));
        }
        written
    }

    /// Writes a file of JSON below the root, replacing it atomically.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StoreError> {
        self.write(name, &to_json(value))
    }

    /// Reads a JSON file.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn read_json<T: for<'de> Deserialize<'de>>(&self, path: &Path) -> Result<T, StoreError> {
        let text = fs::read_to_string(path).map_err(StoreError::io("read", path))?;
        serde_json::from_str(&text)
            .map_err(|e| StoreError::Damaged { path: path.to_owned(), cause: e.to_string() })
    }

    /// Appends to `host.log`: every command that was run on a host.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append_host_log(&self, lines: &str) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let path = self.root.join("host.log");
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(lines.as_bytes()))
            .map_err(StoreError::io("append to", &path))
    }

    /// Removes what an interrupted writer left behind. Only unfinished names are touched.
    fn remove_unfinished(&self) -> Result<(), StoreError> {
        let mut folders =
            vec![self.root.clone(), self.root.join("calibration"), self.root.join("plots")];
        folders.extend(subdirectories(&self.root.join("cells"))?);
        for folder in folders.iter().filter(|f| f.is_dir()) {
            for entry in fs::read_dir(folder).map_err(StoreError::io("list", folder))?.flatten() {
                if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                    continue;
                }
                let path = entry.path();
                let removed =
                    if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(StoreError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// Prefix of what is being written.
const UNFINISHED: &str = ".unfinished-";

fn lock(root: &Path) -> Result<File, StoreError> {
    let path = root.join(".lock");
    let file = File::create(&path).map_err(StoreError::io("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::Locked { path: root.to_owned() }),
        Err(fs::TryLockError::Error(e)) => Err(StoreError::io("lock", &path)(e)),
    }
}

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value)
        .expect("records are maps with text keys and finite numbers, which JSON can hold");
    text.push(b'\n');
    text
}

fn write_synced(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    File::create(path)
        .and_then(|mut f| f.write_all(content).and_then(|()| f.sync_all()))
        .map_err(StoreError::io("write", path))
}

fn sync_dir(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|f| f.sync_all()).map_err(StoreError::io("synchronise", path))
}

/// Finished subdirectories, sorted by name; none if the directory itself is missing.
fn subdirectories(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
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
    result.sort();
    Ok(result)
}

#[cfg(test)]
mod tests;
