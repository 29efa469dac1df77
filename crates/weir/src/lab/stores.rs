//! Stores that are read to be compared or plotted.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use weir_lab::derive::StoredPlanError;
use weir_lab::open::{self, OpenError};
use weir_results::collection::{Collection, SeriesPattern};

use crate::{draw, progress};

/// Collections, and whether all of their cells could be read.
pub(super) struct Stores {
    pub(super) collections: Vec<Collection>,
    pub(super) is_whole: bool,
}

/// Reads the stores; only series that match `pattern`, if there is one. `None` if a specification
/// is refused, which has been shown then.
pub(super) fn read(dirs: &[PathBuf], pattern: Option<&str>) -> anyhow::Result<Option<Stores>> {
    let pattern = pattern.map(SeriesPattern::new).transpose()?;
    let mut stores = Stores { collections: Vec::new(), is_whole: true };
    for dir in dirs {
        let opened = match open::open(dir) {
            Ok(opened) => opened,
            Err(OpenError::Plan(StoredPlanError::Refused(diagnostics))) => {
                draw::diagnostics(&diagnostics);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        for problem in &opened.damaged {
            progress::warn(&format!("{problem}; it is left out of the figures"));
            stores.is_whole = false;
        }
        let mut collection = opened.collection;
        if let Some(pattern) = &pattern {
            collection.series.retain(|series| pattern.matches(&series.name));
        }
        if collection.series.is_empty() {
            let which =
                if pattern.is_some() { "no series that matches --series" } else { "no series" };
            bail!("{} has {which}", dir.display());
        }
        stores.collections.push(collection);
    }
    name_apart(&mut stores.collections, dirs);
    Ok(Some(stores))
}

/// Gives collections of one name the names of their directories, and numbers where these are equal
/// as well.
fn name_apart(collections: &mut [Collection], dirs: &[PathBuf]) {
    let names: Vec<String> = collections.iter().map(|c| c.name.clone()).collect();
    let is_unique = |name: &String| names.iter().filter(|n| *n == name).count() == 1;
    if names.iter().all(is_unique) {
        return;
    }
    let folder = |dir: &Path| {
        let full = std::path::absolute(dir).ok();
        let last = full.as_deref().and_then(Path::file_name).map(|n| n.to_string_lossy());
        last.map_or_else(|| dir.display().to_string(), std::borrow::Cow::into_owned)
    };
    let folders: Vec<String> = dirs.iter().map(|dir| folder(dir)).collect();
    for (index, collection) in collections.iter_mut().enumerate() {
        let is_again = folders[..index].contains(&folders[index]);
        collection.name = if is_again {
            format!("{} ({})", folders[index], index + 1)
        } else {
            folders[index].clone()
        };
    }
}

/// Writes a file for the user: beside its place, and renamed to it when all of it is on the disk.
/// What is no regular file, as `/dev/stdout`, is written to.
pub(super) fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let written = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => fs::write(path, content),
        // A link stays one, and what it leads to is replaced.
        Ok(_) => fs::canonicalize(path).and_then(|place| replace(&place, content)),
        Err(_) => replace(path, content),
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn replace(place: &Path, content: &[u8]) -> io::Result<()> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = place.with_file_name(format!(".unfinished-{name}.{}", std::process::id()));
    let replaced = File::create_new(&unfinished)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, place));
    // A name that was taken is not ours.
    let is_ours = |error: &io::Error| error.kind() != io::ErrorKind::AlreadyExists;
    if replaced.as_ref().is_err_and(is_ours) {
        // The first failure is the one to be told.
        drop(fs::remove_file(&unfinished));
    }
    replaced
}

/// Refuses to write data to where a store has figures of its own.
pub(super) fn refuse_derived(data: &Path) -> anyhow::Result<()> {
    let parent = data.parent().unwrap_or(Path::new(""));
    let is_store = ["archive.json", "plan.json"].iter().any(|file| parent.join(file).is_file());
    if is_store && data.file_name().is_some_and(|name| name == "gnuplot.data") {
        bail!(
            "{} belongs to the store, and the figure's data would replace it; choose another name \
             with --out",
            data.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a.svg"), dir.path().join("b.svg"));
        write(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let before = File::open(&file).unwrap();
        write(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(io::read_to_string(before).unwrap(), "old", "it was written over in place");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(write(dir.path(), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_data_of_a_figure_do_not_replace_those_of_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("gnuplot.data");
        assert!(refuse_derived(&data).is_ok());
        write(&dir.path().join("archive.json"), b"{}").unwrap();
        assert!(refuse_derived(&data).is_err());
        assert!(refuse_derived(&dir.path().join("mine.data")).is_ok());
    }
}
