//! Rows of a published `gnuplot.data`, and the series that they show.
//!
//! Authors rename the index of a row to a position on an axis (`32Ki`) and sort rows by hand. A row
//! belongs to the series of its name, or else to the only one of its figures, or else to the only
//! one whose names hold its number.

use std::collections::BTreeMap;
use std::path::Path;

use weir_results::collection::Unit;
use weir_results::label;
use weir_stats::number::g8;

use super::job::{BITS_PER_MEGABIT, Job, source_of};
use super::name::ls_order;
use super::published::{self, Noted, Row, clipped};
use super::scan::{self, Folder};
use super::{Figure, GnuplotRow, ImportedSeries, Problem, ProblemKind, ResultsFolder, Source};

/// What was read of a series.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) series: ImportedSeries,
    /// Figures of the runs that have one.
    pub(super) figures: BTreeMap<u32, Figure>,
    pub(super) problems: Vec<Problem>,
    pub(super) files_read: usize,
    pub(super) size_bytes: u64,
}

impl Read {
    /// Nothing yet.
    pub(super) fn new(job: &Job<'_>) -> Self {
        let series = ImportedSeries {
            name: job.name.clone(),
            results: job.results.to_owned(),
            file_name: job.file_name.to_owned(),
            unit: Unit::Pps,
            levels: Vec::new(),
            uname: None,
            started: None,
            ended: None,
            iterations: Vec::new(),
        };
        let (figures, problems) = (BTreeMap::new(), Vec::new());
        Self { series, figures, problems, files_read: 0, size_bytes: 0 }
    }

    /// Median, minimum and maximum over the runs, as a row has them.
    fn row(&self, of: fn(&Figure) -> f64) -> Option<[String; 3]> {
        let figures: Vec<(u32, f64)> = self.figures.iter().map(|(i, f)| (*i, of(f))).collect();
        published::row_figures(&in_files(&figures, self.series.unit))
    }
}

/// Figures of a series by iteration, as its published file has them: in the order of `ls`, and
/// bits in Mb/s.
pub(super) fn in_files(figures: &[(u32, f64)], unit: Unit) -> Vec<f64> {
    let mut iterations: Vec<u32> = figures.iter().map(|(iteration, _)| *iteration).collect();
    ls_order(&mut iterations);
    let scale = if unit == Unit::Bps { BITS_PER_MEGABIT } else { 1.0 };
    let of = |iteration: &u32| figures.iter().find(|(i, _)| i == iteration).map(|(_, f)| f / scale);
    iterations.iter().filter_map(of).collect()
}

/// Reads the rows that a folder of results publishes; also gives the files that were read.
pub(super) fn rows(
    source: &Path,
    path: &str,
    folder: &Folder,
    reads: &[&Read],
    problems: &mut Vec<Problem>,
) -> (ResultsFolder, Vec<Source>) {
    let mut files = Vec::new();
    let mut read = |file: Option<&String>, of: fn(&Figure) -> f64| {
        let file = file?;
        let mut bytes = Vec::new();
        if let Err(text) = scan::read(source, file, &mut bytes) {
            let kind = ProblemKind::Skipped;
            problems.push(Problem { file: file.clone(), line: None, kind, text });
            return None;
        }
        files.push(source_of(file, &bytes));
        Some(resolve(file, &bytes, reads, of, problems))
    };
    let gnuplot = read(folder.gnuplot.as_ref(), |figure| figure.median);
    let gnuplot_max = read(folder.gnuplot_max.as_ref(), |figure| figure.maximum);
    (ResultsFolder { path: path.to_owned(), gnuplot, gnuplot_max }, files)
}

fn resolve(
    file: &str,
    bytes: &[u8],
    reads: &[&Read],
    of: fn(&Figure) -> f64,
    problems: &mut Vec<Problem>,
) -> Vec<GnuplotRow> {
    let (rows, unreadable) = published::rows(bytes);
    let mut note = |line, kind, text| {
        problems.push(Problem { file: file.to_owned(), line, kind, text });
    };
    for (line, reason) in unreadable.listed() {
        note(line, ProblemKind::Skipped, reason);
    }
    let (mut unknown, mut differing) = (Noted::default(), Noted::default());
    let known: Vec<(&Read, Option<[String; 3]>)> =
        reads.iter().map(|read| (*read, read.row(of))).collect();
    let mut kept = Vec::new();
    for (line, row) in rows {
        let Some((read, figures)) = series_of(&row, &known) else {
            let label = clipped(&row.label);
            unknown.add(line, format!("no series is named `{label}`, or has these figures"));
            continue;
        };
        let theirs = row.figures.map(g8);
        match figures {
            Some(ours) if *ours == theirs => {}
            Some(ours) => {
                let (theirs, ours) = (theirs.join(" "), ours.join(" "));
                let text = format!("`{theirs}` is published, and the runs give `{ours}`");
                differing.add(line, text);
            }
            None => {
                let least = published::POINTS_MIN;
                let text = format!("a row of a series with fewer than {least} figures");
                differing.add(line, text);
            }
        }
        kept.push(GnuplotRow { label: row.label, series: read.series.name.clone() });
    }
    for (kind, noted) in [(ProblemKind::Skipped, unknown), (ProblemKind::Differs, differing)] {
        for (line, text) in noted.listed() {
            note(line, kind, text);
        }
    }
    kept
}

type Known<'a> = (&'a Read, Option<[String; 3]>);

fn series_of<'a>(row: &Row, known: &'a [Known<'a>]) -> Option<&'a Known<'a>> {
    if let Some(named) = known.iter().find(|(read, _)| read.series.file_name == row.label) {
        return Some(named);
    }
    let written = row.figures.map(g8);
    only(known, |(_, figures)| figures.as_ref() == Some(&written)).or_else(|| {
        let number = label::number(&row.label)?;
        only(known, |(read, _)| read.series.levels.iter().any(|l| l.number == Some(number)))
    })
}

/// The only one for which something holds.
fn only<'a>(known: &'a [Known<'a>], holds: impl Fn(&Known<'_>) -> bool) -> Option<&'a Known<'a>> {
    let mut fitting = known.iter().filter(|known| holds(known));
    fitting.next().filter(|_| fitting.next().is_none())
}
