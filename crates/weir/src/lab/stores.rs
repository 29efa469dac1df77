//! Stores that are read to be compared or plotted.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use weir_lab::collection::{self, Collection, OpenError, SeriesPattern};
use weir_lab::derive::StoredPlanError;

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
        let opened = match collection::open(dir) {
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

/// Writes a file for the user.
pub(super) fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
