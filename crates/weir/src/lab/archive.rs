//! `weir lab import`, `weir lab export`, and `weir lab report` of an imported store.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::json;
use weir_lab::archive::{
    self, Archive, ArchiveError, ArchiveSummary, Derived, Import, Problem, ProblemKind,
    SeriesFigures,
};
use weir_results::document::{Column, Row, Table, Terminal, printable};
use weir_results::label::natural_order;
use weir_results::number::{counted_len, or_dash};

use super::{absolute, check_place};
use crate::cli::archive::{ExportArgs, ImportArgs};
use crate::exit::{self, Outcome};
use crate::{progress, signals};

/// Problems of a kind that are listed in a terminal; `archive.json` has all.
const PROBLEMS_SHOWN: usize = 200;

/// How often a line says how far it is, where there is no bar.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// `weir lab import`.
pub(super) fn import(arguments: &ImportArgs) -> anyhow::Result<Outcome> {
    check_place(&arguments.out)?;
    let cancel = signals::listen().context("cannot listen to signals")?;
    let bar = progress::Steps::new("series read", LINE_EVERY, Instant::now());
    let import = Import {
        source: &arguments.dir,
        out: &arguments.out,
        weir: crate::VERSION,
        cancel: &cancel,
        progress: &mut |done, all| bar.show(done, all, Instant::now()),
    };
    let imported = import.run();
    bar.finish();
    let (archive, derived) = match imported {
        Err(ArchiveError::Cancelled { signal }) => {
            progress::warn("interrupted; the import left nothing behind");
            return Ok(Outcome::Signal(signal));
        }
        imported => imported?,
    };
    show_import(&archive, &derived, arguments.json.json)?;
    Ok(outcome(&derived.summary))
}

/// A part that is missing, a figure that does not fit, or an invalid run make the answer a no.
fn outcome(summary: &ArchiveSummary) -> Outcome {
    let counts = &summary.counts;
    let faults = counts.skipped + counts.differing + counts.invalid_runs + counts.damaged;
    if faults == 0 { Outcome::Done } else { Outcome::No }
}

fn show_import(archive: &Archive, derived: &Derived, json: bool) -> anyhow::Result<()> {
    let record = archive.record();
    let store = absolute(archive.root())?.display().to_string();
    let of = |kind| record.problems.iter().filter(move |p| p.kind == kind);
    if json {
        let list = |kind| of(kind).map(|p| json!(p)).collect::<Vec<_>>();
        return print_json(&json!({
            "store": store,
            "source": record.source,
            "files_read": record.files_read,
            "size_bytes": record.size_bytes,
            "counts": derived.summary.counts,
            "skipped": list(ProblemKind::Skipped),
            "differing": list(ProblemKind::Differs),
            "invalid": list(ProblemKind::Invalid),
            "notes": list(ProblemKind::Note),
        }));
    }
    let counts = &derived.summary.counts;
    let mut text = format!(
        "{} series, {} from {} ({:.1} MB)\n{}",
        counts.series,
        counted_len(counts.runs, "run"),
        counted_len(record.files_read, "file"),
        megabytes(record.size_bytes),
        verdicts(&derived.summary),
    );
    for (title, kind) in [
        ("notes", ProblemKind::Note),
        ("published with figures other than the files give", ProblemKind::Differs),
        ("invalid runs", ProblemKind::Invalid),
        ("skipped", ProblemKind::Skipped),
    ] {
        text += &problems(title, &of(kind).collect::<Vec<_>>());
    }
    text += &format!("\nstore: {store}\n");
    exit::put(&text)
}

#[expect(clippy::cast_precision_loss, reason = "sizes stay far below 2^53")]
fn megabytes(size_bytes: u64) -> f64 {
    size_bytes as f64 / 1e6
}

/// How many runs have which verdict.
fn verdicts(summary: &ArchiveSummary) -> String {
    let counts = &summary.counts;
    let mut parts: Vec<String> =
        counts.verdicts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    parts.push(format!("{} without a verdict", counts.runs_without_verdict));
    format!("verdicts: {}\n", parts.join(", "))
}

/// A list of problems; empty without any.
fn problems(title: &str, problems: &[&Problem]) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title} ({}):\n", problems.len());
    for problem in problems.iter().take(PROBLEMS_SHOWN) {
        text += &format!("  {}\n", printable(&problem.message()));
    }
    if problems.len() > PROBLEMS_SHOWN {
        let more = problems.len() - PROBLEMS_SHOWN;
        text += &format!("  … and {more} more in {}\n", archive::ARCHIVE_FILE);
    }
    text
}

/// `weir lab report` of an imported store.
pub(super) fn report(dir: &Path, json: bool) -> anyhow::Result<Outcome> {
    let archive = Archive::open(dir)?;
    let derived = archive::derive(&archive)?;
    for problem in &derived.damaged {
        progress::warn(&format!("{problem}; it is left out of the figures"));
    }
    let summary = &derived.summary;
    let path = absolute(&dir.join("report.html"))?.display().to_string();
    if json {
        let mut value = serde_json::to_value(summary)?;
        value["report"] = path.into();
        print_json(&value)?;
    } else {
        let text = format!("{}{}\nreport: {path}\n", table(summary), verdicts(summary));
        exit::put(&text)?;
    }
    Ok(outcome(summary))
}

/// The table of the series.
fn table(summary: &ArchiveSummary) -> String {
    let columns = vec![
        Column::words("series"),
        Column::numbers("n"),
        Column::numbers("median"),
        Column::numbers("minimum"),
        Column::numbers("maximum"),
        Column::words("verdict"),
    ];
    let mut series: Vec<&SeriesFigures> = summary.series.iter().collect();
    series.sort_by(|a, b| natural_order(&a.name, &b.name));
    Table::new(columns, series.into_iter().map(row)).text(Terminal::default())
}

fn row(series: &SeriesFigures) -> Row {
    // As in report.html.
    let rate = |value: f64| series.unit.written(value);
    let figures = series.figures;
    let verdicts: Vec<String> =
        series.verdicts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    Row::from_iter([
        series.name.clone(),
        figures.map_or(0, |f| f.count).to_string(),
        or_dash(figures.map(|f| rate(f.median))),
        or_dash(figures.map(|f| rate(f.min))),
        or_dash(figures.map(|f| rate(f.max))),
        or_dash((!verdicts.is_empty()).then(|| verdicts.join(", "))),
    ])
}

/// What `weir lab export --json` prints.
#[derive(Serialize)]
struct Exported {
    out: String,
    files: Vec<String>,
    left_out: Vec<String>,
}

/// `weir lab export`.
pub(super) fn export(arguments: &ExportArgs) -> anyhow::Result<Outcome> {
    debug_assert!(arguments.netbenches, "the only format, and required");
    check_place(&arguments.out)?;
    let archive::Exported { files, left_out } =
        archive::export(&arguments.store, &arguments.out).map_err(anyhow::Error::from)?;
    let outcome = if left_out.is_empty() { Outcome::Done } else { Outcome::No };
    let out = absolute(&arguments.out)?.display().to_string();
    if arguments.json.json {
        print_json(&json!(Exported { out, files, left_out }))?;
        return Ok(outcome);
    }
    let mut text = format!("{} in {out}\n", counted_len(files.len(), "file"));
    if !left_out.is_empty() {
        text += &format!("\nleft out ({}):\n", left_out.len());
    }
    for reason in &left_out {
        text += &format!("  {}\n", printable(reason));
    }
    exit::put(&text)?;
    Ok(outcome)
}

fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    exit::put(&format!("{value:#}\n"))
}
