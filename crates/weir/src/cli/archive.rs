//! Arguments of `weir lab import` and `weir lab export`.

use std::path::PathBuf;

use clap::Args;

use super::JsonFlag;

/// What to read, and where to put it.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImportArgs {
    /// Directory of results, or a tree of such directories.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Directory for the store; it must not exist, or must be empty.
    #[arg(long, value_name = "STORE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What to write, and where to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExportArgs {
    /// As bench-lab-ministat.sh names its files: `SERIES.pps` and `gnuplot.data`.
    #[arg(long, required = true)]
    pub(crate) netbenches: bool,
    /// Store of a campaign, a bisection or a rate search, or imported store.
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
    /// Directory for the files; it must not exist, or must be empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// Help of `weir lab import`.
pub(crate) const IMPORT_HELP: &str = "\
Example: weir lab import netbenches/Atom_C2558_4Cores --out stores/c2558

Reads results of bench-lab.sh of any year. What cannot be read is named with its file and line, the
rest is imported, and the exit code is 1; it is also 1 if a run is invalid, or if the archive
publishes a figure that does not follow from its own files. docs/archives.md says how files are
read.";

/// Help of `weir lab export`.
pub(crate) const EXPORT_HELP: &str =
    "Example: weir lab export --netbenches stores/c2558 --out published";
