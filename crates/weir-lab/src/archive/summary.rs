//! What is derived from an imported store: `summary.json`, `summary.md`, `gnuplot.data`,
//! `report.html`.
//!
//! A pure function of the store; the files can be rebuilt at any time. Figures of runs that are
//! `invalid` are left out, and counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use weir_results::collection::{self, CollectedSeries, Collection, Level, Opened, Unit};
use weir_results::document::{Line, printable};
use weir_results::number::counted_len;
use weir_results::report::{self, DerivedFile};
use weir_results::summary::Spread;
use weir_results::summary::analysis::SeriesWarning;
use weir_results::verdict::{IMPORTED_GENERATOR_BOUND_MIN, OVERLOADED_MAX};
use weir_stats::Threshold;
use weir_stats::number::g8;

use super::collection::of_archive;
use super::store::Archive;
use super::{ARCHIVE_SCHEMA, ProblemKind};

/// The content of an imported store's `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArchiveSummary {
    /// [`ARCHIVE_SCHEMA`].
    pub schema: u32,
    /// Name of the archive.
    pub name: String,
    /// What was imported.
    pub source: String,
    /// When, RFC 3339 in UTC.
    pub imported_utc: String,
    /// Overall counts.
    pub counts: Counts,
    /// The dimension whose numbers tell all series apart, if one does.
    pub axis: Option<String>,
    /// Every series, in the order of the store.
    pub series: Vec<SeriesFigures>,
    /// The thresholds of the verdicts.
    pub thresholds: Vec<Threshold>,
}

/// Overall counts of an imported store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Files that were read.
    pub files_read: usize,
    pub series: usize,
    pub runs: usize,
    /// Runs whose figure is void.
    pub invalid_runs: usize,
    /// Runs of which the files do not say what limited them.
    pub runs_without_verdict: usize,
    /// Runs by verdict.
    pub verdicts: BTreeMap<String, usize>,
    /// Files, or parts of them, that were not imported.
    pub skipped: usize,
    /// Published figures that the archive's own files do not give.
    pub differing: usize,
    /// Damaged cells of the store.
    pub damaged: usize,
}

/// The figures of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesFigures {
    pub name: String,
    /// Its place in every dimension.
    pub levels: Vec<Level>,
    /// What the figures count.
    pub unit: Unit,
    pub runs: usize,
    /// Over the runs that are not invalid, in `unit`; absent without any.
    pub figures: Option<Spread>,
    /// Runs by verdict.
    pub verdicts: BTreeMap<String, usize>,
    /// What its runs show beside the median: clusters, a trend, outliers, no spread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<SeriesWarning>,
}

/// What a terminal shows of an imported store.
#[derive(Debug)]
pub struct Derived {
    /// The content of `summary.json`.
    pub summary: ArchiveSummary,
    /// The derived files.
    pub files: Vec<DerivedFile>,
    /// Cells that cannot be read, and are left out therefore.
    pub damaged: Vec<String>,
}

/// Everything that is derived.
pub(super) fn files(archive: &Archive) -> Derived {
    let Opened { collection, damaged } = of_archive(archive);
    let axis = axis(&collection);
    let summary = summarise(archive, &collection, axis.clone(), damaged.len());
    // Its maps have strings as keys and its writer is memory: the two things that can fail.
    let mut json = serde_json::to_string_pretty(&summary).unwrap_or_default();
    json.push('\n');
    let document = report::of_collection(&collection, &notes(&summary), problems(archive));
    let file = |path: &str, text: String| DerivedFile { path: path.to_owned(), text };
    let files = vec![
        file("summary.json", json),
        file("summary.md", document.markdown()),
        file("gnuplot.data", gnuplot(&summary, axis.as_deref())),
        file("report.html", document.html()),
    ];
    Derived { summary, files, damaged }
}

/// What a reader of the page must know of the import.
fn notes(summary: &ArchiveSummary) -> Vec<String> {
    let counts = &summary.counts;
    let mut notes = vec![format!(
        "Imported from {}: {} of {} series, {}.",
        code(&summary.source),
        counted_len(counts.runs, "run"),
        counts.series,
        counted_len(counts.files_read, "file")
    )];
    for (count, what) in [
        (counts.invalid_runs, "runs are invalid, and left out of the figures"),
        (counts.skipped, "files or parts of them were skipped: summary.md lists them"),
        (counts.differing, "published figures differ from what the files give: see summary.md"),
        (counts.damaged, "cells of the store cannot be read"),
    ] {
        if count > 0 {
            notes.push(format!("{count} {what}."));
        }
    }
    notes
}

/// The first dimension in which every series has a number of its own.
fn axis(collection: &Collection) -> Option<String> {
    let is_axis = |dimension: &&str| {
        let number = |series: &CollectedSeries| series.level(dimension)?.number;
        let numbers: Option<Vec<f64>> = collection.series.iter().map(number).collect();
        numbers.is_some_and(|mut numbers| {
            numbers.sort_by(f64::total_cmp);
            numbers.len() > 1 && numbers.windows(2).all(|pair| pair[0] < pair[1])
        })
    };
    collection.dimensions().into_iter().find(is_axis).map(str::to_owned)
}

fn summarise(
    archive: &Archive,
    collection: &Collection,
    axis: Option<String>,
    damaged: usize,
) -> ArchiveSummary {
    let record = archive.record();
    let series: Vec<SeriesFigures> = collection.series.iter().map(figures).collect();
    let mut verdicts = BTreeMap::new();
    for (name, count) in series.iter().flat_map(|s| &s.verdicts) {
        *verdicts.entry(name.clone()).or_insert(0) += count;
    }
    let points = || collection.series.iter().flat_map(|s| &s.points);
    let problems = |kind| record.problems.iter().filter(|p| p.kind == kind).count();
    ArchiveSummary {
        schema: ARCHIVE_SCHEMA,
        name: record.name.clone(),
        source: record.source.clone(),
        imported_utc: record.imported_utc.clone(),
        counts: Counts {
            files_read: record.files_read,
            series: series.len(),
            runs: points().count(),
            invalid_runs: points().filter(|p| !p.is_valid()).count(),
            runs_without_verdict: points().filter(|p| p.verdict.is_none()).count(),
            verdicts,
            skipped: problems(ProblemKind::Skipped),
            differing: problems(ProblemKind::Differs),
            damaged,
        },
        axis,
        series,
        thresholds: vec![IMPORTED_GENERATOR_BOUND_MIN, OVERLOADED_MAX],
    }
}

fn figures(series: &CollectedSeries) -> SeriesFigures {
    let mut verdicts = BTreeMap::new();
    for verdict in series.points.iter().filter_map(|p| p.verdict.as_ref()) {
        *verdicts.entry(verdict.kind.name().to_owned()).or_insert(0) += 1;
    }
    SeriesFigures {
        name: series.name.clone(),
        levels: series.levels.clone(),
        unit: series.unit,
        runs: series.points.len(),
        figures: Spread::of(&series.values()),
        verdicts,
        warnings: collection::collected_warnings(series),
    }
}

fn number_on(series: &SeriesFigures, axis: Option<&str>) -> Option<f64> {
    series.levels.iter().find(|level| Some(level.dimension.as_str()) == axis)?.number
}

/// Rows of all series: by their number on the axis, or by name.
fn gnuplot(summary: &ArchiveSummary, axis: Option<&str>) -> String {
    let mut text = "#index median minimum maximum\n".to_owned();
    let mut series: Vec<&SeriesFigures> = summary.series.iter().collect();
    let place = |series: &SeriesFigures| number_on(series, axis).unwrap_or_default();
    series.sort_by(|a, b| place(a).total_cmp(&place(b)));
    for series in series {
        let index = number_on(series, axis).map_or_else(|| quoted(&series.name), g8);
        // Writing to a String cannot fail.
        let _ = match series.figures {
            Some(f) => writeln!(text, "{index} {} {} {}", g8(f.median), g8(f.min), g8(f.max)),
            None => writeln!(text, "# {}: no valid iteration", printable(&series.name)),
        };
    }
    text
}

/// A name as one column of gnuplot.
fn quoted(name: &str) -> String {
    match name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#' || c == '"') {
        true => format!("\"{}\"", printable(name).replace('"', "'")),
        false => name.to_owned(),
    }
}

/// What an import met with, kind by kind.
fn problems(archive: &Archive) -> Vec<(&'static str, Vec<Line>)> {
    let of = |kind| archive.record().problems.iter().filter(move |p| p.kind == kind);
    [
        ("Skipped", ProblemKind::Skipped),
        ("Published otherwise", ProblemKind::Differs),
        ("Invalid runs", ProblemKind::Invalid),
        ("Notes", ProblemKind::Note),
    ]
    .map(|(title, kind)| (title, of(kind).map(|problem| problem.message().into()).collect()))
    .into()
}

/// A path as code, which nothing but a backtick ends.
fn code(text: &str) -> String {
    format!("`{}`", printable(text).replace('`', "'"))
}
