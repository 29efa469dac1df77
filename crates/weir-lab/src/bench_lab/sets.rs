//! The folders of sets: traffics, configurations, images, in the order of their names.

use std::fs;
use std::path::{Path, PathBuf};

use weir_machine::digest::Reader;

use super::evaluate::{Variables, evaluate};
use super::{BenchLabError, ONLY_TRAFFIC, Request, absolute};

/// What stands for a value in a line while it is evaluated: variable, sign, what a lab.toml has.
pub(super) const SIGNS: [(&str, &str, &str); 4] = [
    ("SENDER_LAB_NET", "@weir-src@", "\"${src}\""),
    ("RECEIVER_LAB_NET", "@weir-dst@", "\"${dst}\""),
    ("PKT_SIZE", "@weir-size@", "${size}"),
    ("PKT_TO_SEND", "@weir-count@", "${count}"),
];

/// Numbers for those of them that are numbers, where a fragment cannot go on with signs: a sum of
/// one would end its shell. Nobody has these in a line.
const NUMBERS: [(&str, &str); 2] = [("PKT_SIZE", "961748927"), ("PKT_TO_SEND", "982451653")];

/// A traffic: a pkt-gen set with the configuration behind it.
#[derive(Debug)]
pub(super) struct TrafficSet {
    pub(super) name: String,
    /// As it is.
    pub(super) values: Variables,
    /// With [`SIGNS`] for what changes from traffic to traffic.
    pub(super) signs: Variables,
}

/// A folder that is laid over the DUT's root.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConfigurationSet {
    pub(super) name: String,
    pub(super) tree: PathBuf,
}

/// An upgrade image.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ImageSet {
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// What is in it, so that no other file is taken for it later.
    pub(super) sha256: String,
    pub(super) is_compressed: bool,
}

/// The traffics of a request; one without a set, if there is no folder of them.
pub(super) fn traffics(request: &Request) -> Result<Vec<TrafficSet>, BenchLabError> {
    let read = |name: String, set: Option<&Path>| {
        Ok(TrafficSet {
            name,
            values: evaluate(set, &request.config, &[])?,
            signs: with_signs(set, &request.config)?,
        })
    };
    let Some(dir) = &request.pktgen_dir else {
        return Ok(vec![read(ONLY_TRAFFIC.to_owned(), None)?]);
    };
    let files: Vec<PathBuf> = entries(dir)?.into_iter().filter(|path| path.is_file()).collect();
    if files.is_empty() {
        return Err(nothing(dir, "no file in it: each is a set of pkt-gen variables"));
    }
    files.iter().map(|file| read(name_of(file)?, Some(file))).collect()
}

/// The variables with [`SIGNS`]. Their fragments have run to the end with the values themselves.
fn with_signs(set: Option<&Path>, config: &Path) -> Result<Variables, BenchLabError> {
    let signs = SIGNS.map(|(name, sign, _)| (name, sign));
    let refused = match evaluate(set, config, &signs) {
        Err(error @ BenchLabError::Shell { .. }) => error,
        other => return other,
    };
    let number = |name: &str| NUMBERS.iter().find(|(known, _)| *known == name).map(|(_, n)| *n);
    let numbers = signs.map(|(name, sign)| (name, number(name).unwrap_or(sign)));
    if let Ok(mut variables) = evaluate(set, config, &numbers) {
        for ((_, number), (_, sign)) in numbers.into_iter().zip(signs) {
            variables.replace(number, sign);
        }
        return Ok(variables);
    }
    let BenchLabError::Shell { path, said } = refused else { return Err(refused) };
    let names = signs.map(|(name, _)| name).join(", ");
    Err(BenchLabError::Changed { path, names, said })
}

/// The configurations of a folder.
pub(super) fn configurations(dir: Option<&Path>) -> Result<Vec<ConfigurationSet>, BenchLabError> {
    let Some(dir) = dir else { return Ok(Vec::new()) };
    let folders: Vec<PathBuf> = entries(dir)?.into_iter().filter(|path| path.is_dir()).collect();
    if folders.is_empty() {
        return Err(nothing(dir, "no directory in it: each is a set of configuration files"));
    }
    let set = |folder: &PathBuf| {
        let name = name_of(folder)?;
        let (dut, reference) = (folder.join("dut"), folder.join("refendpoint"));
        if ["dut", "refendpoint"].contains(&name.as_str()) {
            return Err(nothing(dir, "that is one set; name the directory above it"));
        }
        if dut.is_dir() && reference.is_dir() {
            let what = "the machine beside the path is not configured by weir: configure it by \
                        hand for one set, and give a directory with what is in that set's `dut`";
            return Err(nothing(&reference, what));
        }
        Ok(ConfigurationSet { name, tree: folder.clone() })
    };
    folders.iter().map(set).collect()
}

/// The upgrade images of a folder.
pub(super) fn images(
    dir: Option<&Path>,
    reader: &Reader<'_>,
) -> Result<Vec<ImageSet>, BenchLabError> {
    let Some(dir) = dir else { return Ok(Vec::new()) };
    let mut images: Vec<ImageSet> = Vec::new();
    for file in entries(dir)? {
        let Some(base) = file.file_name().and_then(|name| name.to_str()) else { continue };
        let is_compressed = base.ends_with(".img.xz");
        let is_image = base.contains("upgrade") && (is_compressed || base.ends_with(".img"));
        if !(base.starts_with("BSDRP-") && is_image && file.is_file()) {
            continue;
        }
        let revision = base.split('-').nth(1).filter(|part| !part.is_empty());
        let name = revision.unwrap_or(base).to_owned();
        if let Some(other) = images.iter().find(|other| other.name == name) {
            let what = format!("its revision is that of {}: keep one", other.file.display());
            return Err(BenchLabError::Path { path: file, what });
        }
        let cannot = |error: std::io::Error| nothing(&file, &format!("cannot be read: {error}"));
        let sha256 = reader.sha256(&file).map_err(cannot)?;
        images.push(ImageSet { name, file, sha256, is_compressed });
    }
    if images.is_empty() {
        return Err(nothing(
            dir,
            "no image in it: they are named BSDRP-REVISION-upgrade-….img[.xz]",
        ));
    }
    Ok(images)
}

fn nothing(dir: &Path, what: &str) -> BenchLabError {
    BenchLabError::Path { path: dir.to_owned(), what: what.to_owned() }
}

/// What a folder holds, without hidden files, in the order of `ls`.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, BenchLabError> {
    let error = |error: std::io::Error| nothing(dir, &error.to_string());
    let mut paths = Vec::new();
    for entry in fs::read_dir(absolute(dir)?).map_err(error)? {
        let entry = entry.map_err(error)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// The name of a series' part, which a lab.toml accepts.
fn name_of(path: &Path) -> Result<String, BenchLabError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if good {
        return Ok(name);
    }
    let what = "a set's name becomes a directory's: letters, digits, `-`, `_` and `.`; rename it";
    Err(BenchLabError::Path { path: path.to_owned(), what: what.to_owned() })
}
