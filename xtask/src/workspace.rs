//! What the workspace consists of: its files (as git sees them) and its packages (as cargo does).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::mask;
use crate::steps;

/// The repository's top directory.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// A file of the repository.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceFile {
    /// Relative to the repository, with `/`.
    pub(crate) path: String,
    /// Size in bytes.
    pub(crate) size_bytes: u64,
    /// The text, unless the file is not UTF-8.
    pub(crate) text: Option<String>,
}

impl SourceFile {
    /// A file that exists in a test only.
    #[cfg(test)]
    pub(crate) fn of(path: &str, text: &str) -> Self {
        let size_bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Self { path: path.to_owned(), size_bytes, text: Some(text.to_owned()) }
    }

    /// The extension, or the name where there is none (`Makefile`).
    pub(crate) fn kind(&self) -> &str {
        let name = self.name();
        name.rsplit_once('.').map_or(name, |(_, extension)| extension)
    }

    /// The last component of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The text, empty for a binary file.
    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or("")
    }

    /// Numbered lines, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text().lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// A Rust file with comments and the contents of literals blanked.
    pub(crate) fn code(&self) -> String {
        mask::code(self.text())
    }

    /// Not written by hand, or input of a test: house rules do not apply.
    pub(crate) fn is_foreign(&self) -> bool {
        ["fixtures", "generated"].iter().any(|part| self.path.split('/').any(|p| p == *part))
    }
}

/// All files that are committed or could be: what `.gitignore` names is left out.
pub(crate) fn files() -> Result<Vec<SourceFile>> {
    let root = root();
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .context("cannot run git, which lists the repository's files")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let names: BTreeSet<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
    let mut files = Vec::new();
    for name in names {
        let path = root.join(name);
        // Deleted but not yet committed, or a symbolic link to nowhere.
        if !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read {name}"))?;
        files.push(SourceFile {
            path: name.to_owned(),
            size_bytes: u64::try_from(bytes.len())?,
            text: String::from_utf8(bytes).ok(),
        });
    }
    Ok(files)
}

/// The packages of the workspace and of everything that it depends on.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    /// Names of the workspace's own packages.
    pub(crate) members: BTreeSet<String>,
    /// Package id to name.
    names: BTreeMap<String, String>,
    /// Package id to the ids that it links or expands (development dependencies left out).
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Packages {
    /// Asks `cargo metadata`, for this platform alone: a build never downloads the crates of
    /// others. What this platform lacks so far is downloaded, as a build would.
    pub(crate) fn read() -> Result<Self> {
        let host = steps::host()?;
        let output = steps::cargo()
            .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host])
            .output()
            .context("cannot run cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Self::parse(&output.stdout)
    }

    /// Reads what `cargo metadata --format-version 1` prints.
    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        let metadata: Value = serde_json::from_slice(json).context("cargo metadata: not JSON")?;
        let mut packages = Self::default();
        for package in array(&metadata["packages"]) {
            packages.names.insert(string(&package["id"]), string(&package["name"]));
        }
        for id in array(&metadata["workspace_members"]) {
            if let Some(name) = packages.names.get(&string(id)) {
                packages.members.insert(name.clone());
            }
        }
        for node in array(&metadata["resolve"]["nodes"]) {
            let dependencies = array(&node["deps"]).iter().filter(|dependency| {
                array(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
            });
            let ids = dependencies.map(|dependency| string(&dependency["pkg"])).collect();
            packages.edges.insert(string(&node["id"]), ids);
        }
        Ok(packages)
    }

    /// Names of the packages that `name` depends on directly; not those of its tests and build.
    pub(crate) fn direct(&self, name: &str) -> BTreeSet<String> {
        self.ids_of(name)
            .filter_map(|id| self.edges.get(id))
            .flatten()
            .filter_map(|id| self.names.get(id).cloned())
            .collect()
    }

    /// Names of all packages that `name` depends on, directly or not; without itself.
    pub(crate) fn closure(&self, name: &str) -> BTreeSet<String> {
        let mut open: Vec<&String> = self.ids_of(name).collect();
        let mut seen: BTreeSet<&String> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            for next in self.edges.get(id).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        let names = seen.into_iter().filter_map(|id| self.names.get(id));
        names.filter(|other| *other != name).cloned().collect()
    }

    fn ids_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a String> {
        self.names.iter().filter(move |(_, other)| *other == name).map(|(id, _)| id)
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    //! A small hand-made `cargo metadata`.

    use super::*;

    /// Two members (`pure`, `top`) and two foreign crates (`derive`, `libc`); `pure` tests with
    /// `libc` and is used by `top`.
    pub(crate) const METADATA: &str = r#"{
        "packages": [
            {"id": "p1", "name": "pure"}, {"id": "p2", "name": "top"},
            {"id": "p3", "name": "derive"}, {"id": "p4", "name": "libc"}
        ],
        "workspace_members": ["p1", "p2"],
        "resolve": {"nodes": [
            {"id": "p1", "deps": [
                {"pkg": "p3", "dep_kinds": [{"kind": null}]},
                {"pkg": "p4", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "p2", "deps": [{"pkg": "p1", "dep_kinds": [{"kind": "build"}, {"kind": null}]}]},
            {"id": "p3", "deps": []},
            {"id": "p4", "deps": []}
        ]}
    }"#;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn development_dependencies_do_not_count() {
        let packages = Packages::parse(METADATA.as_bytes()).unwrap();
        assert_eq!(packages.members, set(&["pure", "top"]));
        assert_eq!(packages.direct("pure"), set(&["derive"]));
        assert_eq!(packages.direct("top"), set(&["pure"]));
        assert_eq!(packages.closure("top"), set(&["pure", "derive"]));
    }

    #[test]
    fn file_kinds() {
        assert_eq!(SourceFile::of("a/b/Makefile", "").kind(), "Makefile");
        assert_eq!(SourceFile::of("a/gen.bpf.c", "").kind(), "c");
        assert!(SourceFile::of("crates/x/tests/fixtures/a.rs", "").is_foreign());
        assert!(!SourceFile::of("crates/x/src/fixtures.rs", "").is_foreign());
    }
}
