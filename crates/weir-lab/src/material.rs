//! What the machine under test is made of: image files by their SHA-256, and what runs a virtual
//! machine's instructions.
//!
//! A specification names an image; what is in it can change under the same name. The first run of a
//! campaign keeps its material with the results (`images.json`), and whoever goes on with it must
//! bring the same. What the specification itself says the SHA-256 of is not read here: the
//! installation verifies it. An image that is installed without a file cannot be told from another.
//!
//! This module reads and writes that record; the files of images are read by testbeds.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::{Cell, Image, Plan};
use crate::store::{Store, StoreError};

/// The record, below the root of a store.
pub const FILE: &str = "images.json";

/// Version of the record.
pub(crate) const MATERIAL_SCHEMA: u32 = 1;

/// What the trials of a campaign run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Material {
    /// [`MATERIAL_SCHEMA`].
    pub schema: u32,
    /// What runs the instructions of a virtual machine: `kvm` or `tcg`.
    pub accel: Option<String>,
    /// Files, by what they are: `image`, `kernel`, or `image NAME` of an `[[image]]`.
    pub files: BTreeMap<String, MaterialFile>,
}

/// One file of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaterialFile {
    /// Where it was read.
    pub path: String,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl Default for Material {
    fn default() -> Self {
        Self { schema: MATERIAL_SCHEMA, accel: None, files: BTreeMap::new() }
    }
}

/// Why a campaign does not go on with this material.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// The record cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another file has taken the place of one.
    #[error(
        "{what} is not the one that the campaign in {root} began with: {path} has the SHA-256 \
         {now}, and it began with {earlier} ({earlier_path}); results of different images are not \
         mixed: put the old one back, or start a new results directory",
        root = .root.display(),
        path = .files.0.path,
        now = .files.0.sha256,
        earlier = .files.1.sha256,
        earlier_path = .files.1.path
    )]
    OtherFile {
        /// The store.
        root: PathBuf,
        /// What the file is.
        what: String,
        /// The one of now, and the one that it began with.
        files: Box<(MaterialFile, MaterialFile)>,
    },
    /// Something else runs the instructions.
    #[error(
        "the campaign in {root} began with the accelerator {earlier}, and now the machine runs \
         with {now}; results of the two are not mixed: continue where {earlier} is available \
         (`weir doctor` says whether KVM works), or start a new results directory",
        root = .root.display()
    )]
    OtherAccel {
        /// The store.
        root: PathBuf,
        /// What runs it now.
        now: String,
        /// What ran it first.
        earlier: String,
    },
}

/// Images that these cells run.
#[must_use]
pub fn images_of<'p>(plan: &'p Plan, cells: &[Cell]) -> Vec<&'p Image> {
    let runs = |image: &&Image| {
        let is_its =
            |cell: &Cell| plan.series[cell.series_index].image.as_ref() == Some(&image.name);
        cells.iter().any(is_its)
    };
    plan.images.iter().filter(runs).collect()
}

/// The name of an `[[image]]` in the record.
#[must_use]
pub(crate) fn name_of(image: &Image) -> String {
    format!("image {}", image.name)
}

/// What the specification itself says of images.
#[must_use]
pub fn stated(plan: &Plan) -> Material {
    let stated = |image: &Image| {
        let (path, sha256) = (image.file.clone()?, image.sha256.clone()?);
        Some((name_of(image), MaterialFile { path, sha256 }))
    };
    Material { files: plan.images.iter().filter_map(stated).collect(), ..Material::default() }
}

/// Compares material with what the campaign in `root` began with, where that is recorded; a new
/// folder has begun with nothing.
///
/// # Errors
/// When something is another, or the record cannot be read.
pub fn compare(root: &Path, now: &Material) -> Result<(), MaterialError> {
    let Some(earlier) = recorded(root)? else { return Ok(()) };
    if let (Some(now), Some(earlier)) = (&now.accel, &earlier.accel)
        && now != earlier
    {
        let (now, earlier) = (now.clone(), earlier.clone());
        return Err(MaterialError::OtherAccel { root: root.to_owned(), now, earlier });
    }
    for (what, file) in &now.files {
        if let Some(first) = earlier.files.get(what)
            && first.sha256 != file.sha256
        {
            return Err(MaterialError::OtherFile {
                root: root.to_owned(),
                what: what.clone(),
                files: Box::new((file.clone(), first.clone())),
            });
        }
    }
    Ok(())
}

/// Keeps material with the results; what is recorded already stays as it is. Gives whether there
/// was a record.
///
/// # Errors
/// As [`compare`]; or when the record cannot be written.
pub fn keep(store: &Store, now: &Material) -> Result<bool, MaterialError> {
    compare(store.root(), now)?;
    let earlier = recorded(store.root())?;
    let was_there = earlier.is_some();
    let mut kept = earlier.clone().unwrap_or_default();
    kept.accel = kept.accel.or_else(|| now.accel.clone());
    for (what, file) in &now.files {
        kept.files.entry(what.clone()).or_insert_with(|| file.clone());
    }
    if earlier.unwrap_or_default() != kept {
        store.write_json(FILE, &kept)?;
    }
    Ok(was_there)
}

fn recorded(root: &Path) -> Result<Option<Material>, StoreError> {
    let path = root.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => {
            return Err(StoreError::Io { action: "read", path, cause, hint: String::new() });
        }
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| StoreError::Damaged { path, cause: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn material(accel: Option<&str>, files: &[(&str, &str)]) -> Material {
        let file = |(what, sha256): &(&str, &str)| {
            let path = format!("/images/{what}.img");
            ((*what).to_owned(), MaterialFile { path, sha256: (*sha256).to_owned() })
        };
        Material {
            accel: accel.map(str::to_owned),
            files: files.iter().map(file).collect(),
            ..Material::default()
        }
    }

    #[test]
    fn what_a_campaign_began_with_stays_and_another_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::bare(dir.path()).unwrap();
        let root = store.root();
        let first = material(Some("kvm"), &[("image a", "11")]);
        assert!(!keep(&store, &first).unwrap());
        assert!(keep(&store, &first).unwrap());
        // Another image comes in, and one that is not needed now stays known.
        assert!(keep(&store, &material(Some("kvm"), &[("image b", "22")])).unwrap());
        compare(root, &material(None, &[("image a", "11"), ("image b", "22")])).unwrap();
        let other = material(Some("kvm"), &[("image a", "11"), ("image b", "33")]);
        for message in [compare(root, &other).unwrap_err(), keep(&store, &other).unwrap_err()] {
            let message = message.to_string();
            for part in
                ["image b is not", "SHA-256 33", "began with 22", "/images/image b.img", "put the"]
            {
                assert!(message.contains(part), "{part:?} is not in: {message}");
            }
        }
        let message = compare(root, &material(Some("tcg"), &[])).unwrap_err().to_string();
        assert!(
            message.contains("accelerator kvm") && message.contains("runs with tcg"),
            "{message}"
        );
        // What was refused has changed nothing.
        compare(root, &material(Some("kvm"), &[("image b", "22")])).unwrap();
    }

    #[test]
    fn a_record_that_cannot_be_read_is_no_leave_to_go_on() {
        let dir = tempfile::tempdir().unwrap();
        assert!(recorded(dir.path()).unwrap().is_none());
        let nothing = Store::bare(dir.path()).unwrap();
        assert!(!keep(&nothing, &Material::default()).unwrap());
        assert!(!dir.path().join(FILE).exists(), "nothing is made of files here");
        fs::write(dir.path().join(FILE), "{").unwrap();
        let message = compare(dir.path(), &Material::default()).unwrap_err().to_string();
        assert!(message.contains("images.json is damaged"), "{message}");
    }
}
