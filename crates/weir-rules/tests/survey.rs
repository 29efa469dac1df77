//! Twenty files as they are written in practice: they are read in the dialect of their name
//! without errors, the dialect is seen without being told, and they print as their `.ok` says.
//! `WEIR_BLESS=1` writes the expected files.

use std::path::{Path, PathBuf};

use weir_rules::diagnostic::Severity;
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::source::SourceProvider;
use weir_rules::{Compiled, Dialect, compile};

struct Directory(PathBuf);

impl SourceProvider for Directory {
    fn read(&self, path: &str, _from: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.0.join(path)).map_err(|_| "no such file".to_owned())
    }
}

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
    assert_eq!(found, expected, "{} (WEIR_BLESS=1 writes it)", path.display());
}

#[test]
fn every_file_is_read_and_printed() {
    let facts = facts();
    for (path, dialect) in files() {
        let (name, text) = read(&path);
        let own = compiled(&name, &text, Some(dialect), &facts);
        let lines: Vec<String> =
            own.diagnostics.iter().map(|found| found.line(&own.sources)).collect();
        assert_eq!(own.error_count, 0, "{lines:#?}");
        // What cannot run is part of what is expected.
        let warnings: String = lines.iter().map(|line| format!("# {line}\n")).collect();
        compare(&path.with_extension("ok"), &(printed(&own, &facts) + &warnings));
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
        let own = compiled(&name, &text, None, &facts);
        let told: Vec<_> = own.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
        assert_eq!((own.ast.dialect, own.error_count), (dialect, 0), "{name}: {told:#?}");
    }
}
