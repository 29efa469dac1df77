//! What can go wrong with a store, in words: the object, the cause, the next step.
//!
//! A cause is part of the text and is not the error's source, so that whoever prints the chain of
//! sources does not say it twice.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What went wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the file system failed.
    #[error("cannot {action} {path}: {cause}{hint}", path = .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        cause: io::Error,
        /// What to do about it; empty, or begins with `; `.
        hint: String,
    },
    /// A file of the store does not hold what it should.
    #[error("{path} is damaged: {cause}", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: String,
    },
    /// A file of a cell or calibration is missing or does not hold what it should.
    #[error(
        "{path} is damaged: {cause}; move {dir} away, then `weir lab resume` measures it again",
        path = .path.display(),
        dir = .dir.display()
    )]
    DamagedCell {
        /// The directory of the cell.
        dir: PathBuf,
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: String,
    },
    /// A record was not written, because what is in it cannot be read back.
    #[error(
        "{path} was not written, because it could not be read back: {cause}; this is a fault of \
         weir: report it, and try `weir lab resume`, which measures again",
        path = .path.display()
    )]
    Unreadable {
        /// The file that was to be written.
        path: PathBuf,
        /// The field and what is wrong with it.
        cause: String,
    },
    /// There is a store already.
    #[error(
        "{path} holds results already; continue it with `weir lab resume {path}`, or choose \
         another directory with --out",
        path = .path.display()
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Nothing was measured yet.
    #[error(
        "{path} holds no finished trial, so there is nothing to report or compare: go on with \
         `weir lab resume {path}` until one has finished",
        path = .path.display()
    )]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// There is something else.
    #[error(
        "{path} is not empty and holds no results of weir; choose another directory with --out",
        path = .path.display()
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// There is nothing.
    #[error("{path} does not exist", path = .path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// There is no store.
    #[error("{path} holds no campaign: it has no campaign.toml", path = .path.display())]
    NoCampaign {
        /// The directory.
        path: PathBuf,
    },
    /// There is a search in a layout of its own.
    #[error(
        "{path} holds a rate search that an earlier version of weir wrote (search.toml), which \
         this one cannot continue; its results are in summary.md and summary.json: search \
         again with another --out",
        path = .path.display()
    )]
    EarlierSearch {
        /// The directory.
        path: PathBuf,
    },
    /// `campaign.toml` and `plan.json` do not belong together.
    #[error(
        "{path}/campaign.toml is not the specification that plan.json was written for: a change \
         of the specification was interrupted, or the file was edited; give the specification \
         again with `weir lab run SPEC --out {path} --resume`",
        path = .path.display()
    )]
    OtherSpecification {
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
        "{path} was measured with another configuration than the specification now describes; \
         results of different configurations are not mixed: use another --out",
        path = .path.display()
    )]
    Conflict {
        /// The cell.
        path: PathBuf,
    },
}

impl StoreError {
    /// A failed operation on a file of a store that exists.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| {
            let hint = match cause.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "; finished iterations are kept: free some space, then `weir lab resume`".into()
                }
                io::ErrorKind::PermissionDenied => {
                    format!("; {}use sudo, or work on a copy of the store", belongs_to(&path))
                }
                io::ErrorKind::ReadOnlyFilesystem => {
                    "; work on a copy of the store, where it can be written".into()
                }
                _ => String::new(),
            };
            Self::Io { action, path, cause, hint }
        }
    }

    /// The same error where the store is still to be made, so that another place can be had.
    pub(super) fn of_new_store(self) -> Self {
        match self {
            Self::Io { action, path, cause, .. }
                if matches!(
                    cause.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Self::Io {
                    action,
                    path,
                    cause,
                    hint: "; choose another directory with --out".into(),
                }
            }
            other => other,
        }
    }

    /// The same error where the file belongs to the cell in `dir`.
    pub(super) fn of_cell(self, dir: &Path) -> Self {
        let dir = dir.to_owned();
        match self {
            Self::Damaged { path, cause } => Self::DamagedCell { dir, path, cause },
            Self::Io { path, cause, .. }
                if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) =>
            {
                Self::DamagedCell { dir, path, cause: cause.to_string() }
            }
            other => other,
        }
    }
}

/// Whose the file is, or the closest directory above it that can be seen; empty if none can.
fn belongs_to(path: &Path) -> String {
    let found = path.ancestors().find_map(|p| fs::metadata(p).ok().map(|m| (p, m.uid())));
    match found {
        Some((path, 0)) => format!("{} belongs to root: ", path.display()),
        Some((path, uid)) => format!("{} belongs to user {uid}: ", path.display()),
        None => String::new(),
    }
}
