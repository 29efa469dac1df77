//! What can go wrong with an imported store as a whole, in words. What is wrong with single files
//! of an archive is no error: it is a [`super::Problem`], and the rest is imported.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An operation of the file system failed.
    #[error("cannot {action} {path}: {cause}", path = .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        cause: io::Error,
    },
    /// A file of the store does not hold what it should.
    #[error(
        "{path} is damaged: {cause}; import the archive again into another directory",
        path = .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: String,
    },
    /// The place for the new store is taken.
    #[error(
        "{path} exists already and is not empty; choose another directory with --out",
        path = .path.display()
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Another import writes there.
    #[error("another weir is importing into {path}", path = .path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// There is nothing to import.
    #[error(
        "{path} holds no results of bench-lab.sh: there is no bench.*.receiver, bench.*.sender, \
         *.pps or *.equilibrium in it, nor below it",
        path = .path.display()
    )]
    NoResults {
        /// The directory.
        path: PathBuf,
    },
    /// The source is a store of weir's own.
    #[error(
        "{path} is a store of weir already, not a directory of bench-lab.sh: `weir lab report \
         {path}` \
         shows it, and `weir lab compare` and `weir lab plot` read it as it is",
        path = .path.display()
    )]
    IsStore {
        /// The directory.
        path: PathBuf,
    },
    /// Too much of something.
    #[error("{path} holds more than {limit} {what}; import a part of it", path = .path.display())]
    TooMuch {
        /// The directory.
        path: PathBuf,
        limit: usize,
        what: &'static str,
    },
    /// Somebody asked to stop.
    #[error("stopped by signal {signal}")]
    Cancelled { signal: i32 },
}

impl ArchiveError {
    /// A failed operation on a file.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io { action, path, cause }
    }
}
