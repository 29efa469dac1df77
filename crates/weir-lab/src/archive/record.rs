//! What an imported store keeps: `archive.json`, and a `trial.json` per run.
//!
//! These records are written once, by the import. They hold what the archive's files say and where
//! they say it, and nothing that could be derived from several runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_results::collection::{Level, Unit};
use weir_results::record::Verdict;

/// Version of the format of `archive.json` and of an imported `trial.json`.
pub(crate) const ARCHIVE_SCHEMA: u32 = 1;

/// Whose results they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// bench-lab.sh of BSDRP's netbenches.
    Netbenches,
}

/// The content of `archive.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveRecord {
    /// [`ARCHIVE_SCHEMA`].
    pub schema: u32,
    /// Whose format it was.
    pub format: Format,
    /// Name of the archive: the last part of its path.
    pub name: String,
    /// Absolute path of what was imported.
    pub source: String,
    /// Version and revision of the weir that imported it.
    pub weir: String,
    /// When, RFC 3339 in UTC.
    pub imported_utc: String,
    /// Files that were read.
    pub files_read: usize,
    /// Their size.
    pub size_bytes: u64,
    /// Folders of results, sorted by path.
    pub results: Vec<ResultsFolder>,
    /// Every series, sorted by folder and name.
    pub series: Vec<ImportedSeries>,
    /// What was skipped, what differs from what the archive publishes, what is doubtful.
    pub problems: Vec<Problem>,
}

/// A folder of results: what one call of bench-lab.sh left, with its `RAW` folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultsFolder {
    /// Path below the source; empty for the source itself.
    pub path: String,
    /// Rows of its `gnuplot.data`; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gnuplot: Option<Vec<GnuplotRow>>,
    /// Rows of its `gnuplot.data.max`; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gnuplot_max: Option<Vec<GnuplotRow>>,
}

/// A row of a published `gnuplot.data`: its figures are in the cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GnuplotRow {
    /// Its index as it is written there: the series' name, or a position on an axis.
    pub label: String,
    /// The series that it shows: [`ImportedSeries::name`].
    pub series: String,
}

/// One series: what the `.info` says, and the names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedSeries {
    /// Name, unique in the store, and folder below `cells`: [`ImportedSeries::file_name`], behind
    /// the path of its folder where there are several.
    pub name: String,
    /// Path of its folder of results below the source.
    pub results: String,
    /// Its name in the archive's files: `<file name>.pps`, `bench.<file name>.info`.
    pub file_name: String,
    /// What its figures count.
    pub unit: Unit,
    /// Its place in every dimension.
    pub levels: Vec<Level>,
    /// `uname -a` of the DUT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uname: Option<String>,
    /// When it began, in the archive's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended, in the archive's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The iterations that have a cell, in their order as numbers.
    pub iterations: Vec<u32>,
}

/// Something about a file that a reader should know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Path below the source.
    pub file: String,
    /// Line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What kind of problem.
    pub kind: ProblemKind,
    /// What is wrong, and what was done about it.
    pub text: String,
}

impl Problem {
    /// `FILE:LINE: TEXT`.
    #[must_use]
    pub fn message(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}: {}", self.file, self.text),
            None => format!("{}: {}", self.file, self.text),
        }
    }
}

/// What kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemKind {
    /// A file, or a part of one, was not imported.
    Skipped,
    /// The archive publishes another figure than its own files give.
    Differs,
    /// A run is there, and its figure is void.
    Invalid,
    /// It was imported, and there is something to know about it.
    Note,
}

/// The content of an imported run's `trial.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedTrial {
    /// [`ARCHIVE_SCHEMA`].
    pub schema: u32,
    /// Name of the series.
    pub series: String,
    /// Iteration, from 1.
    pub iteration: u32,
    /// What the figures count.
    pub unit: Unit,
    /// What the figure was taken from.
    pub basis: Basis,
    /// The figure; absent if the files give none.
    pub figure: Option<Figure>,
    /// What was sent, in the same unit: the same reduction of the sender's log, or the sum over
    /// several generators; absent if that is not known.
    pub offered: Option<f64>,
    /// What the figure is worth; absent where the files do not say.
    pub verdict: Option<Verdict>,
    /// What was found in the files.
    pub flags: Vec<Flag>,
    /// The commands that were run, by the ending of the file that names them.
    pub commands: BTreeMap<String, String>,
    /// The files of this run.
    pub sources: Vec<Source>,
}

/// What a figure was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The median of the samples in the receiver's log.
    Samples,
    /// A median that the archive publishes without the samples.
    Median,
    /// The result of a search by equilibrium.
    Equilibrium,
}

/// The figure of an imported run, in the unit of its series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The figure: the median of the samples that count.
    pub median: f64,
    /// Smallest sample that counts.
    pub minimum: f64,
    /// Largest sample that counts; of a search, the largest rate that was seen in it.
    pub maximum: f64,
    /// Samples that count; 0 where there are none.
    pub sample_count: usize,
}

/// What was found in the files of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flag {
    /// Rates in thousands or millions, with three or four digits: pkt-gen without `-N`.
    ScaledUnits,
    /// Scaled rates and plain ones in one file; only the plain ones are read.
    MixedUnits,
    /// Escape sequences of a terminal, which were taken out.
    EscapeCodes,
    /// Trace lines of the shell.
    ShellTrace,
    /// The file ends inside a line.
    CutShort,
    /// Bytes that are no UTF-8.
    NotUtf8,
    /// A line longer than what is read.
    LongLine,
    /// More than one generator.
    SeveralGenerators,
    /// It was profiled, which slows it down.
    Profiled,
    /// A search of which the files do not give the largest rate seen; the figure's maximum is its
    /// median.
    NoMaximum,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Path below the source of the archive.
    pub path: String,
    pub size_bytes: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
}
