//! The rooms inside the crates: modules form no circle, and no crate holds over a fifth of all.
//!
//! Modules with the same parent must not name each other in a circle, at any level: neither by
//! `use` nor by a path in the code, and a name that a module re-exports is followed to where it
//! comes from. What is not flagged: a file and the modules below it (one room, see `circles`), and
//! tests. Names that macros make are not seen.
//!
//! What is known and not yet mended stands in `xtask/rooms.txt`, which can only shrink.

mod circles;
mod size;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;

use anyhow::Result;

use crate::problem::Problem;
use crate::workspace::{self, SourceFile};
use tree::Tree;

/// What is known: a finding's key, one a line.
const KNOWN: &str = "xtask/rooms.txt";

/// A finding, and the key by which the list of known ones names it.
#[derive(Debug)]
struct Finding {
    key: String,
    problem: Problem,
}

/// Checks all crates of the repository.
pub(crate) fn check() -> Result<Vec<Problem>> {
    let files = workspace::files()?;
    if std::env::var_os("WEIR_BLESS").is_some() {
        return shrink(&files);
    }
    Ok(check_files(&files))
}

fn check_files(files: &[SourceFile]) -> Vec<Problem> {
    let mut known: BTreeMap<&str, usize> = known_keys(files).collect();
    let mut problems = Vec::new();
    for finding in findings(files) {
        if known.remove(finding.key.as_str()).is_none() {
            problems.push(finding.problem);
        }
    }
    for (key, line) in known {
        let message = format!("`{key}` is fixed: remove this line (WEIR_BLESS=1 does it)");
        problems.push(Problem::line(KNOWN, line, message));
    }
    problems
}

/// The keys that are known, with their lines.
fn known_keys(files: &[SourceFile]) -> impl Iterator<Item = (&str, usize)> {
    let list = files.iter().find(|file| file.path == KNOWN);
    let lines = list.into_iter().flat_map(SourceFile::lines);
    lines.filter(|(_, line)| is_key(line)).map(|(number, line)| (line, number))
}

fn is_key(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// Takes out of the list what is mended, and adds nothing to it; what is new is still found.
fn shrink(files: &[SourceFile]) -> Result<Vec<Problem>> {
    let found = findings(files);
    if let Some(list) = files.iter().find(|file| file.path == KNOWN) {
        let stays = |line: &&str| !is_key(line) || found.iter().any(|f| f.key == *line);
        let lines: Vec<_> = list.text().lines().filter(stays).collect();
        std::fs::write(workspace::root().join(KNOWN), lines.join("\n") + "\n")?;
    }
    let known: Vec<_> = known_keys(files).map(|(key, _)| key).collect();
    let new = found.into_iter().filter(|finding| !known.contains(&finding.key.as_str()));
    Ok(new.map(|finding| finding.problem).collect())
}

fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let trees = crates(files);
    let mut findings = Vec::new();
    for (name, tree) in &trees {
        for arrow in circles::arrows(&tree.references()) {
            let path = [&[(*name).to_owned()], arrow.parent.as_slice()].concat().join("::");
            let (from, to) = (&arrow.from, &arrow.to);
            let message = format!(
                "{path}: `{from}` names `{to}`, which leads back to it: modules form no circle"
            );
            findings.push(Finding {
                key: format!("{path}: {from} -> {to}"),
                problem: Problem::line(&arrow.reference.file, arrow.reference.line, message),
            });
        }
    }
    findings.extend(size::too_large(&trees, files));
    findings
}

/// The crates of the product, by name.
fn crates(files: &[SourceFile]) -> Vec<(&str, Tree)> {
    let manifests = files.iter().filter_map(|file| {
        let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!name.contains('/')).then_some(name)
    });
    manifests.map(|name| (name, Tree::read(&format!("crates/{name}/src"), files))).collect()
}
