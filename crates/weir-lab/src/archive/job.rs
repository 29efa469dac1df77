//! What is to be imported for one series, and how a file that was read is named.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::Source;
use super::scan::SeriesFiles;

/// A rate of a search is published in these.
pub(super) const BITS_PER_MEGABIT: f64 = 1e6;

/// What is to be done for a series.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// Its name in the store.
    pub(super) name: String,
    /// Path of its folder of results.
    pub(super) results: &'a str,
    /// Its name in the archive's files.
    pub(super) file_name: &'a str,
    pub(super) files: &'a SeriesFiles,
}

/// A file with its digest.
pub(super) fn source_of(path: &str, bytes: &[u8]) -> Source {
    let sha256 = Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Source { path: path.to_owned(), size_bytes: bytes.len() as u64, sha256 }
}
