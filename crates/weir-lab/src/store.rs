//! The store of a campaign, a bisection or a rate search: one directory, files only.
//!
//! ```text
//! campaign.toml  plan.json  env.json  yardsticks.json  host.log  files/<digest>-<name>
//! images.json                                                           where there are images
//! durations.json                         what runs of campaigns were to take, and what they took
//! bisect.json, search.json                              what is asked, if it is not a campaign
//! calibration/<traffic>/{trial.json,samples.csv}
//! cells/<series>/<iteration>/{trial.json,samples.csv,artefacts/}        campaigns, bisections
//! items/<item>/<test>/<number>/{trial.json,samples.csv,artefacts/}      searches
//! items/<item>/result.json                                              searches
//! profiles/<series>/{trial.json,samples.csv,artefacts/}                 runs that count nowhere
//! rejected/<series or item>/<attempt>/{trial.json,samples.csv}          disturbed, then repeated
//! rejected/<traffic>/<attempt>/{trial.json,samples.csv}                 unusable calibrations
//! rejected/profile.<series>/<attempt>/{trial.json,samples.csv}          profiles that failed
//! summary.json  summary.md  gnuplot.data  plots/*.svg  report.html      derived
//! ```
//!
//! Raw results are append-only: a cell's directory is written beside its place, synchronised and
//! renamed into it as a whole, and never touched again. Derived files are replaced atomically.
//! The store never interprets a result; a reader finds either a whole cell or none, also after a
//! loss of power. A cell without `trial.json` is none. A damaged one is named and left alone.
//!
//! `plan.json` says which `campaign.toml` and which files it belongs to, by their digests. Another
//! edition of the specification is written in this order: files, `campaign.toml`, `plan.json`. If
//! that is interrupted before the second step, the earlier edition stands; after it, the store says
//! so and asks for the specification again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_results::label::natural_order;
use weir_results::record::{Sample, TrialRecord};
use weir_results::summary::Rejected;
use weir_results::yardstick::Yardstick;

mod disk;
mod error;
mod files;
mod json;
mod kind;

use disk::{UNFINISHED, make_dirs, publish, subdirectories, sync_dir, unfinished, write_synced};
pub use error::StoreError;
pub use files::StoredFiles;
pub use kind::Kind;

/// The file of [`Store::yardsticks`].
const YARDSTICKS: &str = "yardsticks.json";

/// Version of the layout of a store.
pub const STORE_SCHEMA: u32 = 1;

/// Results of one kind that stand in a store.
#[derive(Debug, Default)]
pub struct Cells {
    /// Those that could be read.
    pub trials: Vec<(TrialRecord, Vec<Sample>)>,
    /// Those that could not: which file, why, and what to do about it.
    pub damaged: Vec<StoreError>,
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

/// The content of `plan.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PlanFile {
    #[serde(flatten)]
    record: PlanRecord,
    /// SHA-256 (hex) of the `campaign.toml` that belongs to it.
    spec_sha256: String,
    /// Every file that the specification names: the path as written there → name in `files/`.
    files: BTreeMap<String, String>,
}

/// Whether a file or folder of this name may stand in a store whose making was interrupted, which
/// holds no result and is made anew.
#[must_use]
pub fn is_begun(name: &str) -> bool {
    let is_question = Kind::ALL.into_iter().any(|kind| kind.file() == Some(name));
    is_question || [".lock", "plan.json", "files"].contains(&name) || name.starts_with(UNFINISHED)
}

/// An open store, locked against other writers as long as it lives.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    _lock: Option<File>,
}

impl Store {
    /// Makes a new store for the campaign of a specification.
    ///
    /// # Errors
    /// When the directory holds anything already, or cannot be written.
    pub fn create(
        root: &Path,
        spec: &crate::model::SpecSource,
        plan: &PlanRecord,
    ) -> Result<Self, StoreError> {
        Self::create_with(root, spec, plan, |_| Ok(()))
    }

    /// The same for whatever is asked of the specification, which `ask` writes down.
    pub(crate) fn create_with(
        root: &Path,
        spec: &crate::model::SpecSource,
        plan: &PlanRecord,
        ask: impl FnOnce(&Self) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        if root.join("campaign.toml").exists() {
            return Err(StoreError::Exists { path: root.to_owned() });
        }
        let store = Self::start(root).map_err(StoreError::of_new_store)?;
        store.write_plan_file(spec, plan, files::write(&store, &spec.files)?)?;
        for question in Kind::ALL.into_iter().filter_map(Kind::file) {
            // Of a store whose making was interrupted.
            store.remove(question)?;
        }
        ask(&store)?;
        // Last, because its presence is what makes a directory a store.
        store.write("campaign.toml", spec.text.as_bytes())?;
        Ok(store)
    }

    /// Locks an empty directory, and makes no store of it.
    #[cfg(test)]
    pub(crate) fn bare(root: &Path) -> Result<Self, StoreError> {
        Self::start(root)
    }

    /// Removes a file below the root, if it is there.
    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.root.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Locks an empty directory, which is made if it is not there. What was left of a store whose
    /// making was interrupted counts as nothing: it holds no result.
    fn start(root: &Path) -> Result<Self, StoreError> {
        kind::refuse_earlier(root)?;
        make_dirs(root)?;
        let mut entries = fs::read_dir(root).map_err(StoreError::io("list", root))?;
        if entries.any(|e| e.is_ok_and(|e| !is_begun(&e.file_name().to_string_lossy()))) {
            return Err(StoreError::NotEmpty { path: root.to_owned() });
        }
        let store = Self { root: root.to_owned(), _lock: Some(lock(root)?) };
        store.remove_unfinished()?;
        Ok(store)
    }

    /// Puts a newer edition of the specification in place of the one in the store. Finished
    /// cells are held against it when the campaign goes on.
    ///
    /// # Errors
    /// When it cannot be written. If `campaign.toml` was written by then and `plan.json` was not,
    /// [`Store::plan_record`] refuses the store until this is done again.
    pub(crate) fn replace_specification(
        &self,
        spec: &crate::model::SpecSource,
        plan: &PlanRecord,
    ) -> Result<(), StoreError> {
        let files = files::write(self, &spec.files)?;
        self.write("campaign.toml", spec.text.as_bytes())?;
        self.write_plan_file(spec, plan, files)
    }

    /// Replaces the record of the plan; the specification and its files stay.
    ///
    /// # Errors
    /// When the one in the store cannot be read, or the new one cannot be written.
    pub fn replace_plan_record(&self, plan: &PlanRecord) -> Result<(), StoreError> {
        let kept = self.plan_file()?;
        self.write_checked("plan.json", &PlanFile { record: plan.clone(), ..kept })
    }

    fn write_plan_file(
        &self,
        spec: &crate::model::SpecSource,
        plan: &PlanRecord,
        files: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let spec_sha256 = files::sha256(spec.text.as_bytes());
        let record = plan.clone();
        self.write_checked("plan.json", &PlanFile { record, spec_sha256, files })
    }

    /// Reads `plan.json` and holds it against `campaign.toml`.
    fn plan_file(&self) -> Result<PlanFile, StoreError> {
        let file: PlanFile = self.read_json(&self.root.join("plan.json"))?;
        let path = self.spec_path();
        let spec = fs::read(&path).map_err(StoreError::io("read", &path))?;
        if files::sha256(&spec) == file.spec_sha256 {
            Ok(file)
        } else {
            Err(StoreError::OtherSpecification { path: self.root.clone() })
        }
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
    pub(crate) fn open_to_read(root: &Path) -> Result<Self, StoreError> {
        if !root.try_exists().unwrap_or(true) {
            return Err(StoreError::Missing { path: root.to_owned() });
        }
        if !root.join("campaign.toml").is_file() {
            kind::refuse_earlier(root)?;
            return Err(StoreError::NoCampaign { path: root.to_owned() });
        }
        Ok(Self { root: root.to_owned(), _lock: None })
    }

    /// Refuses a store without a trial: whoever reads it has nothing to say of it.
    ///
    /// # Errors
    /// [`StoreError::Empty`], or when a directory cannot be listed.
    pub fn check_begun(&self) -> Result<(), StoreError> {
        for trials in ["cells", "items", "profiles", "rejected"] {
            if !subdirectories(&self.root.join(trials))?.is_empty() {
                return Ok(());
            }
        }
        Err(StoreError::Empty { path: self.root.clone() })
    }

    /// What it was made for.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::of(&self.root)
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
    /// When it cannot be read, or does not belong to the specification in the store.
    pub fn plan_record(&self) -> Result<PlanRecord, StoreError> {
        Ok(self.plan_file()?.record)
    }

    /// Directory of a cell.
    #[must_use]
    pub fn cell_dir(&self, series: &str, iteration: u32) -> PathBuf {
        self.root.join("cells").join(series).join(iteration.to_string())
    }

    /// Directory of a calibration.
    #[must_use]
    pub(crate) fn calibration_dir(&self, traffic: &str) -> PathBuf {
        self.root.join("calibration").join(traffic)
    }

    /// Whether a result stands in `dir`, taken under the conditions that `id` names.
    ///
    /// # Errors
    /// When a result stands there that was taken under other conditions, or is damaged.
    pub fn holds(&self, dir: &Path, id: &str) -> Result<bool, StoreError> {
        if !is_finished(dir)? {
            return Ok(false);
        }
        let (record, _) = self.read_trial(dir)?;
        if record.cell_id == id {
            Ok(true)
        } else {
            Err(StoreError::Conflict { path: dir.to_owned() })
        }
    }

    /// Writes a result as a whole. A finished result is never replaced.
    ///
    /// # Errors
    /// When it cannot be written, or could not be read back; a reader finds all of it or nothing.
    pub(crate) fn write_trial(
        &self,
        dir: &Path,
        record: &TrialRecord,
        samples: &[Sample],
        artefacts: &[(String, Vec<u8>)],
    ) -> Result<(), StoreError> {
        let path = dir.join("trial.json");
        let json = json::render(&path, record)?;
        whole(record, samples).map_err(|cause| StoreError::Unreadable { path, cause })?;
        make_dirs(dir.parent().unwrap_or(&self.root))?;
        let unfinished = unfinished(dir);
        let written = fill(&unfinished, &json, samples, artefacts).and_then(|()| {
            if dir.exists() && !is_finished(dir)? {
                fs::remove_dir_all(dir).map_err(StoreError::io("remove", dir))?;
            }
            publish(&unfinished, dir)
        });
        if written.is_err() {
            // The disk may be full: what was half written must not stay. A failure here changes
            // nothing for the reader, who never looks at unfinished directories.
            drop(fs::remove_dir_all(&unfinished));
        }
        written
    }

    /// Reads a result back.
    ///
    /// # Errors
    /// When a file is missing or damaged.
    pub(crate) fn read_trial(&self, dir: &Path) -> Result<(TrialRecord, Vec<Sample>), StoreError> {
        let read = || {
            let record = self.read_json(&dir.join("trial.json"))?;
            let path = dir.join("samples.csv");
            let text = fs::read_to_string(&path).map_err(StoreError::io("read", &path))?;
            let samples = weir_results::samples::parse(&text)
                .and_then(|samples| whole(&record, &samples).map(|()| samples))
                .map_err(|cause| StoreError::Damaged { path, cause })?;
            Ok((record, samples))
        };
        read().map_err(|e: StoreError| e.of_cell(dir))
    }

    /// Every finished cell, by series name and iteration.
    ///
    /// # Errors
    /// When a directory cannot be listed. Damaged cells are no error.
    pub fn read_cells(&self) -> Result<Cells, StoreError> {
        let mut dirs = Vec::new();
        for series in subdirectories(&self.root.join("cells"))? {
            dirs.extend(subdirectories(&series)?);
        }
        let mut cells = self.read_all(&dirs);
        cells.trials.sort_by(|(a, _), (b, _)| {
            natural_order(&a.series, &b.series).then(a.iteration.cmp(&b.iteration))
        });
        Ok(cells)
    }

    /// Every calibration, by the name of its traffic.
    ///
    /// # Errors
    /// When the directory cannot be listed. Damaged calibrations are no error.
    pub(crate) fn read_calibrations(&self) -> Result<Cells, StoreError> {
        Ok(self.read_all(&subdirectories(&self.root.join("calibration"))?))
    }

    /// Every run that was rejected, each with its folder inside the store.
    ///
    /// # Errors
    /// When a directory cannot be listed. Damaged runs are no error.
    pub(crate) fn read_rejected(&self) -> Result<(Vec<Rejected>, Vec<StoreError>), StoreError> {
        let (mut rejected, mut damaged) = (Vec::new(), Vec::new());
        for name in subdirectories(&self.root.join("rejected"))? {
            for dir in subdirectories(&name)? {
                let folder = dir.strip_prefix(&self.root).unwrap_or(&dir).display().to_string();
                let read = self.read_all(&[dir]);
                let trial = read.trials.into_iter();
                rejected.extend(trial.map(|trial| Rejected { folder: folder.clone(), trial }));
                damaged.extend(read.damaged);
            }
        }
        Ok((rejected, damaged))
    }

    /// Every run that was made for a profile, by the name of its series.
    ///
    /// # Errors
    /// When the directory cannot be listed. Damaged runs are no error.
    pub(crate) fn read_profiles(&self) -> Result<Cells, StoreError> {
        Ok(self.read_all(&subdirectories(&self.root.join("profiles"))?))
    }

    /// The artefacts of a profile, as paths inside the store, in the order of their names.
    #[must_use]
    pub(crate) fn profile_files(&self, series: &str) -> Vec<String> {
        let folder = format!("profiles/{series}/artefacts");
        let entries = fs::read_dir(self.root.join(&folder)).into_iter().flatten().flatten();
        let path = |entry: fs::DirEntry| format!("{folder}/{}", entry.file_name().display());
        let mut paths: Vec<String> = entries.map(path).collect();
        paths.sort();
        paths
    }

    fn read_all(&self, dirs: &[PathBuf]) -> Cells {
        let mut cells = Cells::default();
        for dir in dirs {
            match is_finished(dir).and_then(|yes| yes.then(|| self.read_trial(dir)).transpose()) {
                Ok(trial) => cells.trials.extend(trial),
                Err(error) => cells.damaged.push(error),
            }
        }
        cells
    }

    /// Writes a file below the root, replacing it atomically.
    ///
    /// # Errors
    /// When it cannot be written; the earlier content stands then.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.root.join(name);
        make_dirs(path.parent().unwrap_or(&self.root))?;
        let unfinished = unfinished(&path);
        let written = write_synced(&unfinished, content).and_then(|()| publish(&unfinished, &path));
        if written.is_err() {
            drop(fs::remove_file(&unfinished));
        }
        written
    }

    /// Makes a folder below the root that nobody but its owner can look into, or makes one so.
    fn make_private(&self, name: &str) -> Result<(), StoreError> {
        let path = self.root.join(name);
        make_dirs(&path)?;
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&path, mode).map_err(StoreError::io("set the permissions of", &path))
    }

    /// Writes a file of JSON below the root, replacing it atomically.
    ///
    /// # Errors
    /// When it cannot be written, or could not be read back; the earlier content stands then.
    ///
    /// # Panics
    /// For `plan.json`, which is [`Store::replace_plan_record`]'s.
    pub fn write_json<T>(&self, name: &str, value: &T) -> Result<(), StoreError>
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        assert_ne!(name, "plan.json", "plan.json also names the files of the specification");
        self.write_checked(name, value)
    }

    fn write_checked<T>(&self, name: &str, value: &T) -> Result<(), StoreError>
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        self.write(name, json::render(&self.root.join(name), value)?.as_bytes())
    }

    /// Reads a JSON file.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn read_json<T: DeserializeOwned>(&self, path: &Path) -> Result<T, StoreError> {
        let text = fs::read_to_string(path).map_err(StoreError::io("read", path))?;
        serde_json::from_str(&text)
            .map_err(|e| StoreError::Damaged { path: path.to_owned(), cause: e.to_string() })
    }

    /// How fast this host was before and after each run of the store, in their order.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(crate) fn yardsticks(&self) -> Result<Vec<Yardstick>, StoreError> {
        let path = self.root.join(YARDSTICKS);
        if path.exists() { self.read_json(&path) } else { Ok(Vec::new()) }
    }

    /// Adds one.
    ///
    /// # Errors
    /// When the file is damaged, or cannot be written.
    pub(crate) fn keep_yardstick(&self, reading: Yardstick) -> Result<(), StoreError> {
        let mut all = self.yardsticks()?;
        all.push(reading);
        self.write_json(YARDSTICKS, &all)
    }

    /// Appends to `host.log`: every command that was run on a host.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn append_host_log(&self, lines: &str) -> Result<(), StoreError> {
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
        let mut folders = vec![self.root.clone()];
        folders
            .extend(["calibration", "files", "plots", "profiles"].map(|name| self.root.join(name)));
        for name in ["cells", "rejected"] {
            folders.extend(subdirectories(&self.root.join(name))?);
        }
        for item in subdirectories(&self.root.join("items"))? {
            folders.extend(subdirectories(&item)?);
            folders.push(item);
        }
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

fn lock(root: &Path) -> Result<File, StoreError> {
    let path = root.join(".lock");
    let file = File::create(&path).map_err(StoreError::io("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::Locked { path: root.to_owned() }),
        Err(fs::TryLockError::Error(e)) => Err(StoreError::io("lock", &path)(e)),
    }
}

/// Whether a whole result stands in `dir`: `trial.json` is in every one.
fn is_finished(dir: &Path) -> Result<bool, StoreError> {
    let path = dir.join("trial.json");
    path.try_exists().map_err(StoreError::io("read", &path))
}

/// Whether the samples reach to the end of the measurement.
fn whole(record: &TrialRecord, samples: &[Sample]) -> Result<(), String> {
    let (end_ns, measured_ns) = (samples.last().map_or(0, |s| s.t_ns), record.times.measured_ns);
    if end_ns == measured_ns {
        return Ok(());
    }
    Err(format!("the samples end at {end_ns} ns, and times.measured_ns is {measured_ns}"))
}

/// Makes the directory of a result, with everything in it on the disk.
fn fill(
    dir: &Path,
    json: &str,
    samples: &[Sample],
    artefacts: &[(String, Vec<u8>)],
) -> Result<(), StoreError> {
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(StoreError::io("remove", dir))?;
    }
    fs::create_dir(dir).map_err(StoreError::io("create", dir))?;
    write_synced(&dir.join("samples.csv"), weir_results::samples::render(samples).as_bytes())?;
    if !artefacts.is_empty() {
        let folder = dir.join("artefacts");
        fs::create_dir(&folder).map_err(StoreError::io("create", &folder))?;
        for (name, content) in artefacts {
            write_synced(&folder.join(name), content)?;
        }
        sync_dir(&folder)?;
    }
    write_synced(&dir.join("trial.json"), json.as_bytes())?;
    sync_dir(dir)
}

#[cfg(test)]
mod tests;
