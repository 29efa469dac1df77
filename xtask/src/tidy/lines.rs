//! Line width, file length, blanks and tabs.

use crate::problem::Problem;
use crate::workspace::SourceFile;

/// Widest line, in characters.
const LINE_WIDTH_MAX: usize = 100;
/// Longest Rust or C file, in lines.
const FILE_LINES_MAX: usize = 800;

pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_code = matches!(file.kind(), "rs" | "c" | "h" | "sh");
    let is_prose = file.kind() == "md";
    let is_text = is_code || is_prose || matches!(file.kind(), "toml" | "txt" | "nft" | "Makefile");
    if !is_text {
        return problems;
    }
    for (number, line) in file.lines() {
        let width = display_width(line);
        if width > LINE_WIDTH_MAX && (is_code || (is_prose && !may_be_wide(line))) {
            let message = format!("{width} characters wide, of {LINE_WIDTH_MAX} at most");
            problems.push(Problem::line(&file.path, number, message));
        }
        if line.ends_with([' ', '\t', '\r']) {
            problems.push(Problem::line(&file.path, number, "blank at the end of the line"));
        }
        if file.kind() == "rs" && line.contains('\t') {
            problems.push(Problem::line(&file.path, number, "tab: Rust is indented with blanks"));
        }
    }
    if !file.text().is_empty() && !file.text().ends_with('\n') {
        problems.push(Problem::file(&file.path, "no newline at the end of the file"));
    }
    let count = file.text().lines().count();
    if is_code && count > FILE_LINES_MAX {
        let message = format!("{count} lines, of {FILE_LINES_MAX} at most: split it by question");
        problems.push(Problem::file(&file.path, message));
    }
    problems
}

/// Characters, a tab counting as the columns to the next multiple of eight.
fn display_width(line: &str) -> usize {
    line.chars().fold(0, |width, c| if c == '\t' { (width / 8 + 1) * 8 } else { width + 1 })
}

/// Table rows and lines with an address cannot be wrapped.
fn may_be_wide(line: &str) -> bool {
    line.trim_start().starts_with('|') || line.contains("](") || line.contains("://")
}
