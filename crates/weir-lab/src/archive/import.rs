//! Importing: every series is read, reduced, judged and written by itself, several at a time.
//!
//! What is wrong with a file never stops the import: it is named, and the rest is imported.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use weir_machine::cancel::Cancel;

use super::job::Job;
use super::publish::{self, Read};
use super::scan::{self, Folder, Found, SeriesFiles};
use super::write::Writer;
use super::{
    ARCHIVE_SCHEMA, Archive, ArchiveError, ArchiveRecord, Derived, Format, Problem, ProblemKind,
    is_archive, series,
};

/// The most threads that read: more do not help, and each keeps a file in memory.
const THREADS_MAX: usize = 8;

/// What is to be imported.
pub struct Import<'a> {
    /// The archive: a folder of results, or a tree of them.
    pub source: &'a Path,
    /// Where the store is to stand; it must not exist, or be an empty directory.
    pub out: &'a Path,
    /// Version and revision of this weir.
    pub weir: &'a str,
    /// Asks to stop.
    pub cancel: &'a Cancel,
    /// Told after every series: series read, and series in all.
    pub progress: &'a mut dyn FnMut(usize, usize),
}

impl std::fmt::Debug for Import<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Import").field("source", &self.source).field("out", &self.out).finish()
    }
}

impl Import<'_> {
    /// Imports.
    ///
    /// # Errors
    /// When there is nothing to import, the store cannot be written, or somebody asked to stop.
    /// Nothing is left then. What is wrong with single files is no error, but a [`Problem`].
    pub fn run(self) -> Result<(Archive, Derived), ArchiveError> {
        let source =
            std::path::absolute(self.source).map_err(ArchiveError::io("resolve", self.source))?;
        if is_archive(&source) || source.join("campaign.toml").is_file() {
            return Err(ArchiveError::IsStore { path: self.source.to_owned() });
        }
        let found = scan::scan(&source)?;
        let writer = Writer::begin(self.out)?;
        let jobs = jobs(&found);
        let read = read_all(&source, &jobs, &writer, self.cancel, self.progress)?;
        let record = record(&source, self.weir, found, read);
        writer.finish(&record)
    }
}

/// One job for every series, in the order of the store.
fn jobs(found: &Found) -> Vec<Job<'_>> {
    let has_several = found.folders.len() > 1;
    let series = found.folders.iter().flat_map(|(path, folder)| {
        folder.series.iter().filter(|(_, files)| has_results(files)).map(
            move |(file_name, files)| {
                let name = match has_several && !path.is_empty() {
                    true => format!("{path}/{file_name}"),
                    false => file_name.clone(),
                };
                Job { name, results: path, file_name, files }
            },
        )
    });
    series.collect()
}

/// An `.info` alone is no series.
fn has_results(files: &SeriesFiles) -> bool {
    !files.runs.is_empty() || files.pps.is_some() || files.equilibrium.is_some()
}

/// Reads and writes every series; the results are in the order of the jobs.
fn read_all(
    source: &Path,
    jobs: &[Job<'_>],
    writer: &Writer,
    cancel: &Cancel,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Read>, ArchiveError> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..available.min(THREADS_MAX).min(jobs.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                let mut bytes = Vec::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { return };
                    let read = series::import(source, job, writer, cancel, &mut bytes);
                    let has_failed = read.is_err();
                    // Without a listener, another thread has failed.
                    if sender.send((index, read)).is_err() || has_failed {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut reads = BTreeMap::new();
        for (index, read) in receiver {
            match read {
                Ok(read) => reads.insert(index, read),
                Err(error) => {
                    next.store(jobs.len(), Ordering::Relaxed);
                    return Err(error);
                }
            };
            progress(reads.len(), jobs.len());
        }
        Ok(reads.into_values().collect())
    })
}

fn record(source: &Path, weir: &str, found: Found, reads: Vec<Read>) -> ArchiveRecord {
    let Found { folders, mut problems, .. } = found;
    let (mut files_read, mut size_bytes) = (0, 0);
    let mut results = Vec::new();
    for (path, folder) in &folders {
        note_lone_infos(folder, &mut problems);
        let of_folder: Vec<&Read> = reads.iter().filter(|r| r.series.results == *path).collect();
        let (published, files) = publish::rows(source, path, folder, &of_folder, &mut problems);
        results.push(published);
        files_read += files.len();
        size_bytes += files.iter().map(|file| file.size_bytes).sum::<u64>();
    }
    let mut series = Vec::with_capacity(reads.len());
    for read in reads {
        files_read += read.files_read;
        size_bytes += read.size_bytes;
        problems.extend(read.problems);
        if !read.series.iterations.is_empty() {
            series.push(read.series);
        }
    }
    problems.sort();
    let name = source.file_name().map_or_else(|| "archive".into(), |n| n.to_string_lossy().into());
    ArchiveRecord {
        schema: ARCHIVE_SCHEMA,
        format: Format::Netbenches,
        name,
        source: source.display().to_string(),
        weir: weir.to_owned(),
        imported_utc: jiff::Timestamp::now().to_string(),
        files_read,
        size_bytes,
        results,
        series,
        problems,
    }
}

fn note_lone_infos(folder: &Folder, problems: &mut Vec<Problem>) {
    for files in folder.series.values().filter(|files| !has_results(files)) {
        for place in files.info.iter().chain(&files.equilibrium_max) {
            let text = "there are no results of this series".to_owned();
            let kind = ProblemKind::Skipped;
            problems.push(Problem { file: place.path.clone(), line: None, kind, text });
        }
    }
}
