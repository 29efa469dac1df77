//! Twenty files as they are written in practice: they are read in the dialect of their name
//! without errors, the dialect is seen without being told, they print as their `.ok` says,
//! and the packets of `packets.txt` are explained as their `.explained` says.
//! `WEIR_BLESS=1` writes the expected files.

use std::path::{Path, PathBuf};

use weir_rules::diagnostic::Severity;
use weir_rules::evaluate::{AllRouted, Evaluator, Moment, NoStates, Packet, Reason};
use weir_rules::explain::explain;
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::{Compiled, Dialect, compile};

use crate::support::Directory;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/survey")
}

fn facts() -> Facts {
    Facts::parse(&std::fs::read_to_string(directory().join("machine.facts")).unwrap()).unwrap()
}

/// The files with their dialects.
fn files() -> Vec<(PathBuf, Dialect)> {
    let entries = std::fs::read_dir(directory()).unwrap();
    let mut files: Vec<(PathBuf, Dialect)> = entries
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_suffix(".conf")?;
            let dialect = Dialect::parse(name.split('.').nth(1)?)?;
            Some((path, dialect))
        })
        .collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(files.len(), 20);
    files
}

fn compiled(name: &str, text: &str, dialect: Option<Dialect>, facts: &Facts) -> Compiled {
    let provider = Directory(directory());
    let (bytes, limits) = (text.as_bytes(), Limits::default());
    let input = ParseInput { name, bytes, dialect, macros: &[], provider: &provider, limits };
    compile(input, facts)
}

fn printed(compiled: &Compiled, facts: &Facts) -> String {
    let (dialect, options) = (compiled.ruleset.dialect, PrintOptions::default());
    Printer { dialect, resolver: facts, options }.ruleset(&compiled.ruleset)
}

fn read(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    (name, std::fs::read_to_string(path).unwrap())
}

/// Compares with a file, or writes it.
#[track_caller]
fn compare(path: &Path, found: &str) {
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    let path = path.display();
    for (number, (line, expected_line)) in (1..).zip(found.lines().zip(expected.lines())) {
        assert_eq!(line, expected_line, "{path}:{number} (WEIR_BLESS=1 writes it)");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "lines of {path}");
}

#[test]
fn every_file_is_read_and_printed() {
    let facts = facts();
    for (path, dialect) in files() {
        let (name, text) = read(&path);
        let compiled = compiled(&name, &text, Some(dialect), &facts);
        let lines: Vec<String> =
            compiled.diagnostics.iter().map(|found| found.line(&compiled.sources)).collect();
        assert_eq!(compiled.error_count, 0, "{lines:#?}");
        // What cannot run is part of what is expected.
        let warnings: String = lines.iter().map(|line| format!("# {line}\n")).collect();
        compare(&path.with_extension("ok"), &(printed(&compiled, &facts) + &warnings));
    }
}

#[test]
fn what_is_printed_prints_itself() {
    let facts = facts();
    for (path, dialect) in files() {
        let (name, text) = read(&path);
        let once = printed(&compiled(&name, &text, Some(dialect), &facts), &facts);
        let again = compiled(&name, &once, Some(dialect), &facts);
        assert_eq!(again.error_count, 0, "{name}: {:#?}\n{once}", again.diagnostics);
        assert_eq!(printed(&again, &facts), once, "{name}");
    }
}

#[test]
fn the_dialect_is_seen() {
    let facts = facts();
    for (path, dialect) in files() {
        let (name, text) = read(&path);
        let compiled = compiled(&name, &text, None, &facts);
        let messages: Vec<_> =
            compiled.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
        assert_eq!(
            (compiled.ast.dialect, compiled.error_count),
            (dialect, 0),
            "{name}: {messages:#?}"
        );
    }
}

/// Packets put to the files: `name: packet` a line, in `packets.txt`.
#[test]
fn packets_are_explained() {
    let facts = facts();
    let files = files();
    let packets = std::fs::read_to_string(directory().join("packets.txt")).unwrap();
    for (path, dialect) in &files {
        let (name, text) = read(path);
        let compiled = compiled(&name, &text, Some(*dialect), &facts);
        let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts).unwrap();
        let printer =
            Printer { dialect: *dialect, resolver: &facts, options: PrintOptions::default() };
        let head = format!("{}: ", name.split('.').next().unwrap());
        let mut explained = String::new();
        for words in packets.lines().filter_map(|line| line.strip_prefix(&head)) {
            let packet =
                Packet::parse(words, &facts).unwrap_or_else(|error| panic!("{words}: {error}"));
            let (mut states, mut random) = (NoStates, || 0);
            let mut moment =
                Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
            let sources = Some(&compiled.sources);
            let trace = explain(&evaluator, &printer, sources, &packet, &mut moment);
            // The winner is found from the steps alone: it must be the verdict's rule.
            let winner = trace.winner.map(|at| trace.steps[at].id);
            let rule = trace.verdict.rule.map(|rule| rule.id);
            let by_rules = matches!(trace.verdict.reason, Reason::Rule | Reason::Default);
            assert!(!by_rules || winner == rule, "{name}: {words}");
            explained.push_str(&trace.text());
            explained.push('\n');
        }
        assert!(!explained.is_empty(), "no packet for {name}");
        compare(&path.with_extension("explained"), explained.trim_end());
    }
}
