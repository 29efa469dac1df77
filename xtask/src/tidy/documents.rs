//! Documents: relative links resolve, and the lists in them are the lists in the repository.

use std::collections::{BTreeMap, BTreeSet};

use crate::layers::MAY_USE;
use crate::problem::Problem;
use crate::workspace::SourceFile;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const INSTALL: &str = "docs/install.md";
const PACKAGES: &str = "scripts/packages.txt";

pub(super) fn check(files: &[SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.kind() == "md" && !file.is_foreign()) {
        problems.extend(links(file, files));
    }
    problems.extend(crates(files, MAY_USE));
    problems.extend(packages(files));
    problems
}

/// Every relative link of a Markdown file names a file or a directory of the repository.
fn links(file: &SourceFile, files: &[SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut in_block = false;
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        for target in targets(line) {
            let path = target.split('#').next().unwrap_or("");
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            let resolved = resolve(&file.path, path);
            let directory = format!("{resolved}/");
            let exists = files
                .iter()
                .any(|other| other.path == resolved || other.path.starts_with(&directory));
            if !exists {
                let message = format!("the link to {target} leads nowhere");
                problems.push(Problem::line(&file.path, number, message));
            }
        }
    }
    problems
}

/// What stands in `](…)` on a line, outside code spans.
fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (index, part) in line.split('`').enumerate() {
        // A link's text may be a code span; its target then begins the part after it.
        let outside = index % 2 == 0;
        let mut rest = if outside { part } else { "" };
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let end = rest.find(')').unwrap_or(rest.len());
            targets.push(rest[..end].split_whitespace().next().unwrap_or(""));
            rest = &rest[end..];
        }
    }
    targets
}

/// `path` relative to the directory of `from`, with `.` and `..` worked out.
fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// The table of crates names every crate, and no other, and what each may use.
fn crates(files: &[SourceFile], layers: &[(&str, &[&str])]) -> Vec<Problem> {
    let Some(document) = files.iter().find(|file| file.path == ARCHITECTURE) else {
        return vec![Problem::file(ARCHITECTURE, "is missing")];
    };
    let existing: BTreeSet<&str> =
        files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml")).collect();
    let rows: BTreeMap<&str, (usize, Vec<&str>)> = document
        .lines()
        .filter_map(|(number, line)| {
            let (path, rest) = line.strip_prefix("| `")?.split_once('`')?;
            Some((path, (number, rest.split(" | ").skip(1).collect())))
        })
        .collect();
    let mut problems = Vec::new();
    for missing in existing.iter().filter(|name| !rows.contains_key(*name)) {
        let message = format!("the table of crates has no row `{missing}`");
        problems.push(Problem::file(ARCHITECTURE, message));
    }
    for (path, (number, cells)) in &rows {
        if !existing.contains(path) {
            let message = format!("describes `{path}`: no such crate");
            problems.push(Problem::line(ARCHITECTURE, *number, message));
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let Some((_, allowed)) = layers.iter().find(|(layer, _)| *layer == name) else { continue };
        // The column has the names without the prefix that they share.
        let used = cells.get(1).copied().unwrap_or_default();
        let used: BTreeSet<&str> = used.split(", ").filter(|name| *name != "—").collect();
        let allowed: BTreeSet<&str> =
            allowed.iter().map(|name| name.strip_prefix("weir-").unwrap_or(name)).collect();
        if used != allowed {
            let allowed = Vec::from_iter(allowed).join(", ");
            let message =
                format!("`{path}` may use {allowed} (cargo xtask layers), not what it says");
            problems.push(Problem::line(ARCHITECTURE, *number, message));
        }
    }
    problems
}

/// The document about installing names every Debian package that the scripts would install.
fn packages(files: &[SourceFile]) -> Vec<Problem> {
    let Some(list) = files.iter().find(|file| file.path == PACKAGES) else {
        return vec![Problem::file(PACKAGES, "is missing")];
    };
    let document = files.iter().find(|file| file.path == INSTALL).map_or("", SourceFile::text);
    let lines = list.lines().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|(number, line)| {
            let name = line.split('|').next().unwrap_or("").trim();
            let missing = !document.contains(&format!("`{name}`"));
            let message = || format!("{INSTALL} does not name the package `{name}`");
            missing.then(|| Problem::line(PACKAGES, number, message()))
        })
        .collect()
}
