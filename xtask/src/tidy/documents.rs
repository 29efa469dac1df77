//! Documents: relative links resolve, and the lists in them are the lists in the repository.

use std::collections::BTreeSet;

use crate::problem::Problem;
use crate::workspace::SourceFile;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const README: &str = "README.md";
const PACKAGES: &str = "scripts/packages.txt";

pub(super) fn check(files: &[SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.kind() == "md" && !file.is_foreign()) {
        problems.extend(links(file, files));
    }
    problems.extend(crates(files));
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

/// The code map names every crate, and no other.
fn crates(files: &[SourceFile]) -> Vec<Problem> {
    let Some(document) = files.iter().find(|file| file.path == ARCHITECTURE) else {
        return vec![Problem::file(ARCHITECTURE, "is missing")];
    };
    let existing: BTreeSet<String> = files
        .iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml"))
        .map(str::to_owned)
        .collect();
    let named: BTreeSet<String> =
        document.lines().filter_map(|(_, line)| line.strip_prefix("### `")).map(heading).collect();
    let mut problems = Vec::new();
    for missing in existing.difference(&named) {
        problems.push(Problem::file(ARCHITECTURE, format!("has no section `{missing}`")));
    }
    for gone in named.difference(&existing).filter(|name| name.starts_with("crates/")) {
        problems.push(Problem::file(ARCHITECTURE, format!("describes `{gone}`: no such crate")));
    }
    problems
}

fn heading(rest: &str) -> String {
    rest.split('`').next().unwrap_or("").trim_end_matches('/').to_owned()
}

/// README's requirements name every Debian package that the scripts would install.
fn packages(files: &[SourceFile]) -> Vec<Problem> {
    let Some(list) = files.iter().find(|file| file.path == PACKAGES) else {
        return vec![Problem::file(PACKAGES, "is missing")];
    };
    let readme = files.iter().find(|file| file.path == README).map_or("", SourceFile::text);
    let lines = list.lines().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|(number, line)| {
            let name = line.split('|').next().unwrap_or("").trim();
            let missing = !readme.contains(&format!("`{name}`"));
            let message = || format!("README.md does not name the package `{name}`");
            missing.then(|| Problem::line(PACKAGES, number, message()))
        })
        .collect()
}
