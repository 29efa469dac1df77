//! Finding the results in a tree: folders of results, series, runs and their files.
//!
//! A folder of results is one that holds files of bench-lab.sh; the raw ones may lie in `RAW`,
//! `raw` or `PMC` below it. Symbolic links to directories are not followed, so no link makes a
//! loop; depth and number of files are bounded. Nothing is opened here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::name::{self, FileName, Role};
use super::store::is_archive;
use super::{ArchiveError, Problem, ProblemKind};

/// The deepest folder that is looked into, below the source.
const DEPTH_MAX: usize = 32;

/// The most files and folders of a tree.
const ENTRIES_MAX: usize = 1_000_000;

/// What a tree holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Folders of results, by their path below the source.
    pub(super) folders: BTreeMap<String, Folder>,
    /// What is not followed or cannot be placed.
    pub(super) problems: Vec<Problem>,
    entry_count: usize,
}

/// A folder of results. Paths are relative to the source.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// Series by their name in the files.
    pub(super) series: BTreeMap<String, SeriesFiles>,
    /// `gnuplot.data`.
    pub(super) gnuplot: Option<String>,
    /// `gnuplot.data.max`.
    pub(super) gnuplot_max: Option<String>,
}

/// The files of a series.
#[derive(Debug, Default)]
pub(super) struct SeriesFiles {
    pub(super) info: Option<Place>,
    pub(super) pps: Option<Place>,
    pub(super) equilibrium: Option<Place>,
    pub(super) equilibrium_max: Option<Place>,
    /// Files of each iteration, by their ending.
    pub(super) runs: BTreeMap<u32, BTreeMap<&'static str, RunFile>>,
}

/// A file and how good its place is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Path below the source.
    pub(super) path: String,
    /// In the folder itself, in `RAW` or `raw`, in `PMC`: the smallest counts.
    pub(super) rank: u8,
}

/// A file of a run.
#[derive(Debug)]
pub(super) struct RunFile {
    pub(super) place: Place,
    pub(super) role: Role,
}

/// Rank of profiled results.
pub(super) const RANK_PROFILED: u8 = 2;

/// A folder that is still to be listed.
struct Pending {
    path: String,
    depth: usize,
}

/// Looks through a tree.
///
/// # Errors
/// When the source cannot be listed, holds too many files, or nothing of bench-lab.sh.
pub(super) fn scan(source: &Path) -> Result<Found, ArchiveError> {
    let mut found = Found::default();
    let mut pending = vec![Pending { path: String::new(), depth: 0 }];
    while let Some(folder) = pending.pop() {
        let path = source.join(&folder.path);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if folder.depth == 0 => return Err(ArchiveError::io("list", &path)(error)),
            Err(error) => {
                found.skip(&folder.path, format!("cannot be listed: {error}"));
                continue;
            }
        };
        if folder.depth > 0 && is_archive(&path) {
            found.note(&folder.path, "a store of an earlier import: it is not searched");
            continue;
        }
        let mut entries = found.readable(&folder.path, entries);
        found.entry_count += entries.len();
        if found.entry_count > ENTRIES_MAX {
            let (path, what) = (source.to_owned(), "files and directories");
            return Err(ArchiveError::TooMuch { path, limit: ENTRIES_MAX, what });
        }
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in &entries {
            pending.extend(found.entry(&folder, entry));
        }
    }
    if found.folders.is_empty() {
        return Err(ArchiveError::NoResults { path: source.to_owned() });
    }
    Ok(found)
}

impl Found {
    fn skip(&mut self, file: &str, text: impl Into<String>) {
        let (file, text) = (file.to_owned(), text.into());
        self.problems.push(Problem { file, line: None, kind: ProblemKind::Skipped, text });
    }

    fn note(&mut self, file: &str, text: &str) {
        let (file, text) = (file.to_owned(), text.to_owned());
        self.problems.push(Problem { file, line: None, kind: ProblemKind::Note, text });
    }

    /// The entries of a folder up to the first that cannot be read, which is named.
    fn readable<T>(
        &mut self,
        folder: &str,
        entries: impl Iterator<Item = std::io::Result<T>>,
    ) -> Vec<T> {
        let mut readable = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => readable.push(entry),
                Err(error) => {
                    self.skip(folder, format!("cannot be listed to its end: {error}"));
                    break;
                }
            }
        }
        readable
    }

    /// Files an entry away; a folder is given back, to be listed.
    fn entry(&mut self, folder: &Pending, entry: &fs::DirEntry) -> Option<Pending> {
        let lossy = entry.file_name().to_string_lossy().into_owned();
        if lossy.starts_with('.') {
            return None;
        }
        let path = below(&folder.path, &lossy);
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => {
                self.skip(&path, format!("cannot be examined: {error}"));
                return None;
            }
        };
        let is_utf8 = entry.file_name().to_str().is_some();
        if kind.is_dir() {
            return self.folder(path, folder.depth + 1, is_utf8);
        }
        let target = kind.is_symlink().then(|| fs::metadata(entry.path()));
        if target.as_ref().is_some_and(|t| t.as_ref().is_ok_and(fs::Metadata::is_dir)) {
            self.skip(&path, "a symbolic link to a directory: it is not followed");
            return None;
        }
        let name = match name::parse(&lossy)? {
            Ok(name) => name,
            Err(reason) => {
                self.skip(&path, reason);
                return None;
            }
        };
        let is_file = target.map_or(kind.is_file(), |t| t.is_ok_and(|t| t.is_file()));
        if !is_utf8 {
            self.skip(&path, "its name is not UTF-8");
        } else if !is_file {
            self.skip(&path, "not a regular file");
        } else {
            self.file(&folder.path, name, path);
        }
        None
    }

    fn folder(&mut self, path: String, depth: usize, is_utf8: bool) -> Option<Pending> {
        if !is_utf8 {
            self.skip(&path, "its name is not UTF-8: it is not searched");
        } else if depth > DEPTH_MAX {
            self.skip(&path, format!("deeper than {DEPTH_MAX} directories: it is not searched"));
        } else {
            return Some(Pending { path, depth });
        }
        None
    }

    fn file(&mut self, folder: &str, name: FileName, path: String) {
        let (results, rank) = results_of(folder);
        let place = Place { path, rank };
        let results = self.folders.entry(results.to_owned()).or_default();
        let FileName { series, iteration, ending, role } = name;
        let lost = if role == Role::Gnuplot {
            results.gnuplot.replace(place.path.clone()).map(|path| (path, place.path))
        } else if role == Role::GnuplotMax {
            results.gnuplot_max.replace(place.path.clone()).map(|path| (path, place.path))
        } else {
            let series = results.series.entry(series).or_default();
            match (role, iteration) {
                (Role::Info, _) => keep(&mut series.info, place),
                (Role::Pps, _) => keep(&mut series.pps, place),
                (Role::Equilibrium, _) => keep(&mut series.equilibrium, place),
                (Role::EquilibriumMax, _) => keep(&mut series.equilibrium_max, place),
                (_, iteration) => {
                    let run = series.runs.entry(iteration.unwrap_or(1)).or_default();
                    let mut kept = run.remove(ending).map(|file| file.place);
                    let lost = keep(&mut kept, place);
                    run.extend(kept.map(|place| (ending, RunFile { place, role })));
                    lost
                }
            }
        };
        if let Some((lost, kept)) = lost {
            self.skip(&lost, format!("a duplicate of {kept}, which was imported"));
        }
    }
}

/// Keeps the better of two files in a place; gives the path of the other, and of the kept one.
fn keep(slot: &mut Option<Place>, new: Place) -> Option<(String, String)> {
    let Some(old) = slot.take() else {
        *slot = Some(new);
        return None;
    };
    let (kept, lost) = if new.rank < old.rank { (new, old) } else { (old, new) };
    let pair = (lost.path, kept.path.clone());
    *slot = Some(kept);
    Some(pair)
}

/// The folder of results that a folder belongs to, and how good a place it is for a file.
fn results_of(folder: &str) -> (&str, u8) {
    let (parent, last) = folder.rsplit_once('/').unwrap_or(("", folder));
    match last {
        "RAW" | "raw" => (parent, 1),
        "PMC" | "pmc" => (parent, RANK_PROFILED),
        _ => (folder, 0),
    }
}

/// A path below a folder; the source's own path is empty.
fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Reads a file of the source.
///
/// # Errors
/// In words: what cannot be read, or is too large.
pub(super) fn read(source: &Path, path: &str, bytes: &mut Vec<u8>) -> Result<(), String> {
    /// The largest file that is read.
    const FILE_BYTES_MAX: u64 = 64 << 20;
    let full: PathBuf = source.join(path);
    bytes.clear();
    let file = fs::File::open(full).map_err(|e| format!("cannot be opened: {e}"))?;
    let mut limited = std::io::Read::take(file, FILE_BYTES_MAX + 1);
    std::io::Read::read_to_end(&mut limited, bytes).map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("larger than {} MiB, the most that is read", FILE_BYTES_MAX >> 20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_breaks_off_is_named() {
        let mut found = Found::default();
        let entries = [Ok(1), Err(std::io::Error::other("bad disk"))];
        assert_eq!(found.readable("a", entries.into_iter()), [1]);
        assert_eq!(found.problems.len(), 1);
        assert_eq!(found.problems[0].message(), "a: cannot be listed to its end: bad disk");
    }
}
