//! A collection from a directory: a store of weir, or an imported one.

use std::path::{Path, PathBuf};

use weir_results::collection::Opened;

use crate::archive::{Archive, ArchiveError, is_archive, of_archive};
use crate::derive::{self, StoredPlanError};
use crate::store::StoreError;

impl From<StoredPlanError> for OpenError {
    fn from(error: StoredPlanError) -> Self {
        match error {
            StoredPlanError::Store(error) => error.into(),
            error => Self::Plan(error),
        }
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoCampaign { path } => Self::Neither { path },
            error => Self::Store(error),
        }
    }
}

/// Why a directory gives no collection.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory is no store.
    #[error(
        "{path} holds neither results of weir (campaign.toml) nor an archive (archive.json)",
        path = .path.display()
    )]
    Neither {
        /// The directory.
        path: PathBuf,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(StoreError),
    /// Its specification is refused.
    #[error(transparent)]
    Plan(StoredPlanError),
    /// The imported store cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Reads the series of a store, whichever kind `root` holds: of a campaign, a bisection, a search,
/// or an imported one.
///
/// # Errors
/// When it is neither, or cannot be read. Damaged cells are no error.
pub fn open(root: &Path) -> Result<Opened, OpenError> {
    if is_archive(root) {
        return Ok(of_archive(&Archive::open(root)?));
    }
    Ok(derive::collection(root)?)
}
