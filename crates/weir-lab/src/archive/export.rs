//! Exporting under the file names of bench-lab-ministat.sh: `<series>.pps`, one median a line in
//! the order of `ls`, and `gnuplot.data`; of searches `<series>.equilibrium` and
//! `<series>.equilibrium.max`, in Mb/s, and `gnuplot.data.max`.
//!
//! An imported store gives the files of every folder of results that it was imported from, with the
//! rows and labels of its `gnuplot.data` in their order; the figures are those of the store. Runs
//! without a figure have no line, as in the originals. A campaign gives one folder; its invalid
//! iterations have no line.

use std::collections::BTreeMap;
use std::path::Path;

use weir_results::collection::{CollectedSeries, DUT, IMAGE, Opened, TRAFFIC, Unit};
use weir_stats::number::g8;

use super::publish::in_files;
use super::published::{POINTS_MIN, row_figures};
use super::store::{Archive, is_archive};
use super::write::{Staged, replace};
use super::{ArchiveError, Basis, Figure, Flag, GnuplotRow, ProblemKind, ResultsFolder};
use crate::derive::{self, StoredPlanError};

/// The name of a series without any part: what all of bench-lab.sh's files begin with.
const NAMELESS: &str = "bench";

/// The first line of a `gnuplot.data`.
const HEADER: &str = "#index median minimum maximum\n";

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The files, relative to the output directory, in the order in which they were written.
    pub files: Vec<String>,
    /// What is not in them, and why.
    pub left_out: Vec<String>,
}

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store cannot be read.
    #[error(transparent)]
    Open(#[from] StoredPlanError),
    /// An imported store cannot be read, or the files cannot be written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store holds no figure.
    #[error("{path} holds no figures that could be exported", path = .path.display())]
    Nothing {
        /// The store.
        path: std::path::PathBuf,
    },
}

/// A series to be written.
struct Series {
    file_name: String,
    unit: Unit,
    /// Whether it was a search.
    is_search: bool,
    /// Whether the largest rate of every search is known.
    has_maxima: bool,
    figures: Vec<(u32, Figure)>,
}

/// A folder to be written.
struct Folder {
    published: ResultsFolder,
    /// Whether a row of what it publishes could not be read.
    is_damaged: bool,
    /// By the name in the store, in the order of the store.
    series: Vec<(String, Series)>,
}

/// Writes the files of a store into `out`, which must not exist, or be an empty directory. All of
/// them are there afterwards, or none.
///
/// # Errors
/// When the store cannot be read, holds no figure, or the files cannot be written.
pub fn export(root: &Path, out: &Path) -> Result<Exported, ExportError> {
    let mut left_out = Vec::new();
    let folders = match is_archive(root) {
        true => of_archive(&Archive::open(root)?, &mut left_out),
        false => vec![of_campaign(root, &[], &mut left_out)?],
    };
    let files = all(root, &folders, &mut left_out)?;
    let staged = Staged::begin(out)?;
    for (path, text) in &files {
        staged.file(path, text.as_bytes())?;
    }
    staged.publish()?;
    Ok(Exported { files: files.into_iter().map(|(path, _)| path).collect(), left_out })
}

/// Writes the files of a campaign's store into `out`, each in the place of the one that is there
/// from an earlier time. Names of files have no part for the dimensions in `unnamed`.
///
/// # Errors
/// As [`export`].
pub fn refresh(root: &Path, unnamed: &[&str], out: &Path) -> Result<Exported, ExportError> {
    let mut left_out = Vec::new();
    let folder = of_campaign(root, unnamed, &mut left_out)?;
    let files = all(root, &[folder], &mut left_out)?;
    std::fs::create_dir_all(out).map_err(ArchiveError::io("create", out))?;
    for (path, text) in &files {
        replace(&out.join(path), text.as_bytes())?;
    }
    Ok(Exported { files: files.into_iter().map(|(path, _)| path).collect(), left_out })
}

/// Path and text of every file of all folders; there is one at least.
fn all(
    root: &Path,
    folders: &[Folder],
    left_out: &mut Vec<String>,
) -> Result<Vec<(String, String)>, ExportError> {
    let files: Vec<_> = folders.iter().flat_map(|folder| texts(folder, left_out)).collect();
    match files.is_empty() {
        true => Err(ExportError::Nothing { path: root.to_owned() }),
        false => Ok(files),
    }
}

fn of_archive(archive: &Archive, left_out: &mut Vec<String>) -> Vec<Folder> {
    let record = archive.record();
    let empty = |published: &ResultsFolder| {
        let is_damaged = record.problems.iter().any(|problem| {
            let below = Path::new(&problem.file).strip_prefix(&published.path);
            problem.kind == ProblemKind::Skipped
                && below.is_ok_and(|file| {
                    file == Path::new("gnuplot.data") || file == Path::new("gnuplot.data.max")
                })
        });
        let (published, series) = (published.clone(), Vec::new());
        (published.path.clone(), Folder { published, is_damaged, series })
    };
    let mut folders: BTreeMap<String, Folder> = record.results.iter().map(empty).collect();
    for imported in &record.series {
        let mut series = Series {
            file_name: imported.file_name.clone(),
            unit: imported.unit,
            is_search: imported.unit == Unit::Bps,
            has_maxima: true,
            figures: Vec::new(),
        };
        for &iteration in &imported.iterations {
            match archive.read_trial(&imported.name, iteration) {
                Ok(trial) => {
                    series.has_maxima &= !trial.flags.contains(&Flag::NoMaximum);
                    series.is_search |= trial.basis == Basis::Equilibrium;
                    series.figures.extend(trial.figure.map(|figure| (iteration, figure)));
                }
                Err(error) => left_out.push(error.to_string()),
            }
        }
        if let Some(folder) = folders.get_mut(&imported.results) {
            folder.series.push((imported.name.clone(), series));
        }
    }
    folders.into_values().collect()
}

fn of_campaign(
    root: &Path,
    unnamed: &[&str],
    left_out: &mut Vec<String>,
) -> Result<Folder, StoredPlanError> {
    let Opened { collection, damaged } = derive::collection(root)?;
    left_out.extend(damaged);
    let mut series = Vec::new();
    for collected in collection.series {
        let mut figures = Vec::new();
        for point in &collected.points {
            if !point.is_valid() {
                left_out.push(format!("{}: an invalid iteration has no line", point.cell));
                continue;
            }
            let (median, minimum, maximum) = (point.value, point.value, point.value);
            let figure = Figure { median, minimum, maximum, sample_count: 0 };
            figures.push((point.iteration, figure));
        }
        let file_name = file_name(&collected, unnamed);
        let (name, unit) = (collected.name, collected.unit);
        let written = Series { file_name, unit, is_search: false, has_maxima: false, figures };
        series.push((name, written));
    }
    let published = ResultsFolder { path: String::new(), gnuplot: None, gnuplot_max: None };
    Ok(Folder { published, is_damaged: false, series })
}

/// The name of a series' files: its own, without the parts of dimensions that have no name.
fn file_name(series: &CollectedSeries, unnamed: &[&str]) -> String {
    if unnamed.is_empty() {
        return series.name.clone();
    }
    let named = |dimension: &&str| !unnamed.contains(dimension);
    let parts = [IMAGE, DUT, TRAFFIC].into_iter().filter(named);
    let labels: Vec<&str> =
        parts.filter_map(|part| series.level(part)).map(|level| level.label.as_str()).collect();
    if labels.is_empty() { NAMELESS.to_owned() } else { labels.join(".") }
}

/// Path and text of every file of a folder.
fn texts(folder: &Folder, left_out: &mut Vec<String>) -> Vec<(String, String)> {
    let path = |name: &str| match folder.published.path.as_str() {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    };
    let mut files = Vec::new();
    for (name, series) in &folder.series {
        if series.figures.is_empty() {
            left_out.push(format!("{name}: no run of it has a figure"));
            continue;
        }
        let ending = if series.is_search { "equilibrium" } else { "pps" };
        let stem = path(&series.file_name);
        files.push((format!("{stem}.{ending}"), series.lines(|figure| figure.median)));
        if series.gives_maxima() {
            let maxima = series.lines(|figure| figure.maximum);
            files.push((format!("{stem}.{ending}.max"), maxima));
        }
    }
    if files.is_empty() {
        return files;
    }
    let rows = folder.rows(folder.published.gnuplot.as_deref(), |_| true);
    files.push((path("gnuplot.data"), folder.gnuplot(&rows, |f| f.median, left_out)));
    if folder.series.iter().any(|(_, series)| series.gives_maxima()) {
        let rows = folder.rows(folder.published.gnuplot_max.as_deref(), Series::gives_maxima);
        let text = folder.gnuplot(&rows, |f| f.maximum, left_out);
        files.push((path("gnuplot.data.max"), text));
    }
    files
}

impl Series {
    /// Whether it has a file of maxima, and a row in theirs.
    fn gives_maxima(&self) -> bool {
        self.is_search && self.has_maxima && !self.figures.is_empty()
    }

    fn values(&self, of: fn(&Figure) -> f64) -> Vec<f64> {
        let figures: Vec<(u32, f64)> = self.figures.iter().map(|(i, f)| (*i, of(f))).collect();
        in_files(&figures, self.unit)
    }

    fn lines(&self, of: fn(&Figure) -> f64) -> String {
        self.values(of).into_iter().map(|value| g8(value) + "\n").collect()
    }
}

impl Folder {
    /// The published rows of wanted series, in their order. Those that no row names follow by
    /// their own names if nothing is published, or a part of it could not be read.
    fn rows(
        &self,
        published: Option<&[GnuplotRow]>,
        is_exported: impl Fn(&Series) -> bool,
    ) -> Vec<GnuplotRow> {
        let mut rows = published.map(<[_]>::to_vec).unwrap_or_default();
        let of = |name: &str| self.series.iter().find(|(n, _)| n == name);
        rows.retain(|row| of(&row.series).is_none_or(|(_, series)| is_exported(series)));
        if published.is_some() && !self.is_damaged {
            return rows;
        }
        for (name, series) in self.series.iter().filter(|(_, series)| is_exported(series)) {
            if !rows.iter().any(|row| row.series == *name) {
                let label = series.file_name.clone();
                rows.push(GnuplotRow { label, series: name.clone() });
            }
        }
        rows
    }

    fn gnuplot(
        &self,
        rows: &[GnuplotRow],
        of: fn(&Figure) -> f64,
        left_out: &mut Vec<String>,
    ) -> String {
        let mut text = HEADER.to_owned();
        for GnuplotRow { label, series } in rows {
            let found = self.series.iter().find(|(name, _)| name == series);
            let values = found.map_or_else(Vec::new, |(_, series)| series.values(of));
            match row_figures(&values) {
                Some(figures) => text += &format!("{label} {}\n", figures.join(" ")),
                None => left_out.push(format!(
                    "{series}: gnuplot.data has no row of it: it has {} figures, and statistics \
                     need {POINTS_MIN}",
                    values.len()
                )),
            }
        }
        text
    }
}
