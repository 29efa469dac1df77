//! Archives: results that bench-lab.sh left behind, as a store of weir's own.
//!
//! ```text
//! archive.json                               what was imported, from where, and what was not
//! cells/<series>/<iteration>/{trial.json,samples.csv}
//! summary.json  summary.md  gnuplot.data     derived
//! ```
//!
//! An imported store is written once, as a whole, and never changed; derived files can be rebuilt.
//! It keeps every sample with the file and line that it was read from, and the size and digest of
//! every file, but no copies of them. Nothing here guesses: what a file does not show (what limited
//! a rate, how many flows there were) is absent, and what could not be read is named.
//!
//! The formats are those of BSDRP's netbenches: bench-lab.sh, bench-lab-ministat.sh and
//! bench-equilibrium-ministat.sh there, pkt-gen and equilibrium of netmap.

mod collection;
mod command;
mod error;
mod export;
mod import;
mod info;
mod job;
mod judge;
mod log;
mod name;
mod publish;
mod published;
mod record;
mod scan;
mod series;
mod store;
mod summary;
mod write;

pub(crate) use collection::of_archive;
pub use error::ArchiveError;
pub use export::{ExportError, Exported, export, refresh};
pub use import::Import;
pub(crate) use record::ARCHIVE_SCHEMA;
pub use record::{
    ArchiveRecord, Basis, Figure, Flag, Format, GnuplotRow, ImportedSeries, ImportedTrial, Problem,
    ProblemKind, ResultsFolder, Source,
};
pub use store::{ARCHIVE_FILE, Archive, is_archive};
pub use summary::{ArchiveSummary, Counts, Derived, SeriesFigures};
pub use write::derive;

#[cfg(test)]
mod tests;
