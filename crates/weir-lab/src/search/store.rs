//! The store of searches: a directory of its own kind, which no campaign can be resumed in.
//!
//! ```text
//! search.toml  search.json  env.json  host.log
//! calibration/<traffic>/{trial.json,samples.csv}
//! items/<item>/<test>/<number>/{trial.json,samples.csv,artefacts/}
//! items/<item>/result.json
//! rejected/<traffic>/<attempt>/…
//! summary.json  summary.md                                              derived
//! ```
//!
//! A trial is written when it is finished, and never touched again. A search that was interrupted
//! is played again from its trials, in their order, before it goes on: it decides as it did, so
//! that nothing but the trial that was running is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::item::Item;
use super::record::ItemResult;
use super::wanted::Wanted;
use crate::identity;
use crate::model::{SpecSource, Test};
use crate::store::{Store, StoreError};
use crate::trial;

/// Version of the layout.
pub const SEARCH_STORE_SCHEMA: u32 = 1;

/// The file that makes a directory a store of searches.
const MARKER: &str = "search.toml";

/// The content of `search.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchFile {
    /// [`SEARCH_STORE_SCHEMA`].
    pub schema: u32,
    /// Where the specification was read from.
    pub spec_path: String,
    /// Version and revision of the weir that made the store.
    pub weir: String,
    /// What was asked for.
    pub wanted: Wanted,
    /// Every file that the specification names, with its content. Configurations hold keys and
    /// passwords: so the file is its owner's alone.
    pub files: BTreeMap<String, String>,
}

/// What can be wrong with a store of searches beside the file system.
#[derive(Debug, thiserror::Error)]
pub enum SearchStoreError {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It holds searches.
    #[error(
        "{path} holds searches already; continue them with --resume, or choose another directory \
         with --out",
        path = .path.display()
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// It holds something else.
    #[error(
        "{path} holds no searches: it has no {MARKER}; choose another directory with --out",
        path = .path.display()
    )]
    NoSearches {
        /// The directory.
        path: PathBuf,
    },
}

/// An open store of searches, locked against other writers as long as it lives.
#[derive(Debug)]
pub struct SearchStore {
    files: Store,
}

impl SearchStore {
    /// Makes a new one.
    ///
    /// # Errors
    /// When the directory holds anything already, or cannot be written.
    pub fn create(
        root: &Path,
        spec: &SpecSource,
        file: &SearchFile,
    ) -> Result<Self, SearchStoreError> {
        if root.join(MARKER).exists() {
            return Err(SearchStoreError::Exists { path: root.to_owned() });
        }
        let store = Self { files: Store::of_other_kind(root)? };
        store.files.write_private_json("search.json", file)?;
        // Last, because its presence is what makes the directory a store.
        store.files.write(MARKER, spec.text.as_bytes())?;
        Ok(store)
    }

    /// Opens one to go on with it. What is asked for now replaces what was asked for, unless one of
    /// `items` has a result, or trials without one yet, that were taken under other conditions.
    ///
    /// # Errors
    /// When there is none, another weir writes to it, results do not fit, or it cannot be written.
    pub fn resume(
        root: &Path,
        spec: &SpecSource,
        file: &SearchFile,
        items: &[Item],
    ) -> Result<Self, SearchStoreError> {
        if !root.join(MARKER).is_file() {
            return Err(SearchStoreError::NoSearches { path: root.to_owned() });
        }
        let store = Self { files: Store::open_other_kind(root)? };
        store.remove_unfinished();
        // A conflict must show before what was asked for is replaced.
        for item in items {
            if store.result(&item.name, &item.id)?.is_none() {
                store.check_unfinished(item, &file.wanted)?;
            }
        }
        store.files.write_private_json("search.json", file)?;
        store.files.write(MARKER, spec.text.as_bytes())?;
        Ok(store)
    }

    /// Whether a directory is a store of searches.
    #[must_use]
    pub fn is_at(root: &Path) -> bool {
        root.join(MARKER).is_file()
    }

    /// The files below.
    #[must_use]
    pub fn files(&self) -> &Store {
        &self.files
    }

    /// Directory of a trial.
    #[must_use]
    pub fn trial_dir(&self, item: &str, test: Test, number: u32) -> PathBuf {
        self.item_dir(item).join(test.name()).join(format!("{number:04}"))
    }

    fn item_dir(&self, item: &str) -> PathBuf {
        self.files.root().join("items").join(item)
    }

    /// The finished result of an item; `None` while it has none.
    ///
    /// # Errors
    /// When it is damaged, or was taken under other conditions.
    pub fn result(&self, item: &str, item_id: &str) -> Result<Option<ItemResult>, StoreError> {
        let dir = self.item_dir(item);
        let path = dir.join("result.json");
        if !path.is_file() {
            return Ok(None);
        }
        let result: ItemResult = self.files.read_json(&path)?;
        if result.item_id == item_id {
            Ok(Some(result))
        } else {
            Err(StoreError::Conflict { path: dir })
        }
    }

    /// Checks that an item without a result can go on from the trials that it has. The first of a
    /// test speaks for the rest: nothing goes on in a store that it does not fit. Bursts, whose
    /// length no record holds, come after a test that is checked.
    fn check_unfinished(&self, item: &Item, wanted: &Wanted) -> Result<(), StoreError> {
        let traffic = &item.series.traffic;
        self.files.holds(&self.files.calibration_dir(&traffic.name), &traffic.id)?;
        let latency = Duration::from_secs_f64(wanted.latency_trial_s);
        for (test, latency) in
            [(Test::Throughput, None), (Test::LossCurve, None), (Test::Latency, Some(latency))]
        {
            let dir = self.trial_dir(&item.name, test, 1);
            if !dir.join("trial.json").is_file() {
                continue;
            }
            let (record, _) = self.files.read_trial(&dir)?;
            let id = identity::trial_id(
                &item.id,
                test.name(),
                1,
                &record.traffic.rate.to_string(),
                record.times.duration_ns,
                latency.map(trial::nanos),
                None,
            );
            if record.cell_id != id {
                return Err(StoreError::Conflict { path: dir });
            }
        }
        Ok(())
    }

    /// Writes the result of an item.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_result(&self, result: &ItemResult) -> Result<(), StoreError> {
        self.files.write_json(&format!("items/{}/result.json", result.name), result)
    }

    /// Removes trials that were being written when the last writer ended. What cannot be removed
    /// stays: nobody reads it.
    fn remove_unfinished(&self) {
        let children = |dir: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        let items = children(&self.files.root().join("items"));
        for path in items.iter().flat_map(|item| children(item)).flat_map(|test| children(&test)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') {
                drop(fs::remove_dir_all(&path));
            }
        }
    }
}
