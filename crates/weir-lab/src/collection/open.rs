//! A collection from a directory: a campaign's store, or an imported one.

use std::path::{Path, PathBuf};

use super::{CollectedPoint, CollectedSeries, Collection, Origin};
use crate::archive::{Archive, ArchiveError, ImportedTrial, is_archive};
use crate::derive::{self, StoredPlanError};
use crate::store::{Store, StoreError};

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoCampaign { path } => Self::Neither { path },
            error => Self::Store(error),
        }
    }
}

/// A collection, and what of its store could not be read.
#[derive(Debug)]
pub struct Opened {
    /// The series.
    pub collection: Collection,
    /// Cells that are damaged, and left out therefore: the file, why, what to do.
    pub damaged: Vec<String>,
}

/// Why a directory gives no collection.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory is no store.
    #[error(
        "{path} holds neither a campaign (campaign.toml) nor an archive (archive.json)",
        path = .path.display()
    )]
    Neither {
        /// The directory.
        path: PathBuf,
    },
    /// The campaign's store cannot be read.
    #[error(transparent)]
    Store(StoreError),
    /// The campaign's specification is refused.
    #[error(transparent)]
    Plan(#[from] StoredPlanError),
    /// The imported store cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Reads the series of a campaign's store or of an imported one, whichever `root` holds.
///
/// # Errors
/// When it is neither, or cannot be read. Damaged cells are no error.
pub fn open(root: &Path) -> Result<Opened, OpenError> {
    if is_archive(root) {
        return Ok(of_archive(&Archive::open(root)?));
    }
    let store = Store::open_to_read(root)?;
    let plan = derive::stored_plan(&store, None)?;
    let (data, damaged) = derive::campaign_data(&store, &plan)?;
    let damaged = damaged.iter().map(ToString::to_string).collect();
    Ok(Opened { collection: Collection::of_campaign(&data), damaged })
}

/// The series of an imported store, in the order of `archive.json`.
#[must_use]
pub fn of_archive(archive: &Archive) -> Opened {
    let record = archive.record();
    let mut damaged = Vec::new();
    let mut series = Vec::with_capacity(record.series.len());
    for imported in &record.series {
        let mut points = Vec::with_capacity(imported.iterations.len());
        for &iteration in &imported.iterations {
            match archive.read_trial(&imported.name, iteration) {
                Ok(trial) => points.push(point(&trial)),
                Err(error) => damaged.push(error.to_string()),
            }
        }
        series.push(CollectedSeries {
            name: imported.name.clone(),
            levels: imported.levels.clone(),
            unit: imported.unit,
            points,
        });
    }
    let collection = Collection {
        name: record.name.clone(),
        origin: Origin::Archive,
        environment: environment(archive),
        series,
    };
    Opened { collection, damaged }
}

/// A run without a figure is there with 0 and the verdict that says why.
fn point(trial: &ImportedTrial) -> CollectedPoint {
    CollectedPoint {
        iteration: trial.iteration,
        value: trial.figure.map_or(0.0, |figure| figure.median),
        has_figure: trial.figure.is_some(),
        offered: trial.offered,
        verdict: trial.verdict.clone(),
        cell: Archive::cell(&trial.series, trial.iteration),
    }
}

/// What the archive says of its machines: the DUT's `uname -a`, one or all that occur.
fn environment(archive: &Archive) -> serde_json::Value {
    let record = archive.record();
    let mut unames: Vec<&str> = record.series.iter().filter_map(|s| s.uname.as_deref()).collect();
    unames.sort_unstable();
    unames.dedup();
    let uname = match unames.as_slice() {
        [] => serde_json::Value::Null,
        [one] => (*one).into(),
        all => all.into(),
    };
    serde_json::json!({
        "archive": { "format": record.format, "source": record.source, "weir": record.weir },
        "dut": { "uname": uname },
    })
}
