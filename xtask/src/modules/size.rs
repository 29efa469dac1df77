//! How much of the product a crate holds: lines with code, without tests.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::Tree;
use crate::mask;
use crate::problem::Problem;
use crate::workspace::SourceFile;

/// A crate holds at most one part in this many.
const SHARE: usize = 5;
/// Crates that no part of the product links.
const NOT_SHIPPED: &[&str] = &["weir-oracle"];

/// The crates that hold more than their share.
pub(super) fn too_large(trees: &[(&str, Tree)], files: &[SourceFile]) -> Vec<Finding> {
    let product = trees.iter().filter(|(name, _)| !NOT_SHIPPED.contains(name));
    let counts: Vec<_> = product.map(|(name, tree)| (*name, line_count(tree, files))).collect();
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let over = counts.into_iter().filter(|(_, count)| count * SHARE > all);
    over.map(|(name, count)| {
        let message = format!("{count} of {all} lines of product code: over one in {SHARE}");
        Finding {
            key: format!("{name}: over a fifth"),
            problem: Problem::file(&format!("crates/{name}"), message),
        }
    })
    .collect()
}

/// Lines of a crate that are neither blank nor comment nor test.
pub(super) fn line_count(tree: &Tree, files: &[SourceFile]) -> usize {
    let names: BTreeSet<&str> = tree.files().collect();
    files.iter().filter(|file| names.contains(file.path.as_str())).map(lines_of_code).sum()
}

fn lines_of_code(file: &SourceFile) -> usize {
    let tests = mask::test_lines(&file.code());
    let text = mask::without_comments(file.text());
    let lines = text.lines().enumerate();
    lines.filter(|(index, line)| !line.trim().is_empty() && !tests.contains(index)).count()
}
