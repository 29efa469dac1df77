//! The project's own cases: files that are accepted and printed (`accept`), that print as
//! themselves (`itself`), and that are refused with exact messages (`refuse`).
//!
//! The first line of a case names its dialect. `WEIR_BLESS=1` writes the expected files.

use std::path::{Path, PathBuf};

use weir_rules::diagnostic::{Diagnostic, Severity};
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::{Compiled, Dialect, compile};

use crate::support::Directory;

fn directory(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(family)
}

fn facts() -> Facts {
    Facts::parse(&std::fs::read_to_string(directory("facts.txt")).unwrap()).unwrap()
}

fn cases(family: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory(family)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "no cases in {family}");
    cases
}

fn run(path: &Path, text: &str, facts: &Facts) -> Compiled {
    let first = text.lines().next().unwrap_or("");
    let dialect = first.strip_prefix("# dialect: ").and_then(Dialect::parse);
    assert!(dialect.is_some(), "{} does not name its dialect", path.display());
    let provider = Directory(path.parent().unwrap().to_owned());
    let name = path.file_name().unwrap().to_str().unwrap();
    let input = ParseInput {
        name,
        bytes: text.as_bytes(),
        dialect,
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    compile(input, facts)
}

fn printed(compiled: &Compiled, facts: &Facts) -> String {
    let options = PrintOptions::default();
    let dialect = compiled.ruleset.dialect;
    Printer { dialect, resolver: facts, options }.ruleset(&compiled.ruleset)
}

fn errors(compiled: &Compiled) -> Vec<String> {
    let errors =
        compiled.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    errors.map(|error| error.line(&compiled.sources)).collect()
}

fn compare(path: &Path, extension: &str, found: &str) {
    let expected_path = path.with_extension(extension);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&expected_path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
    let pairs = expected.lines().zip(found.lines()).enumerate();
    for (index, (left, right)) in pairs {
        assert_eq!(left, right, "{}:{}", expected_path.display(), index + 1);
    }
    assert_eq!(expected, found, "{}", expected_path.display());
}

#[test]
fn accepted_files_print_as_expected_and_again() {
    let facts = facts();
    for path in cases("accept") {
        let text = std::fs::read_to_string(&path).unwrap();
        let compiled = run(&path, &text, &facts);
        assert_eq!(errors(&compiled), Vec::<String>::new(), "{}", path.display());
        let first = printed(&compiled, &facts);
        compare(&path, "out", &first);
        let head = text.lines().next().unwrap();
        let again = run(&path, &format!("{head}\n{first}"), &facts);
        assert_eq!(errors(&again), Vec::<String>::new(), "{} printed", path.display());
        assert_eq!(printed(&again, &facts), first, "{} printed twice", path.display());
        let warnings =
            compiled.diagnostics.iter().map(|diagnostic| diagnostic.line(&compiled.sources) + "\n");
        compare(&path, "warnings", &warnings.collect::<String>());
    }
}

#[test]
fn some_files_print_as_themselves() {
    let facts = facts();
    for path in cases("itself") {
        let text = std::fs::read_to_string(&path).unwrap();
        let compiled = run(&path, &text, &facts);
        assert_eq!(errors(&compiled), Vec::<String>::new(), "{}", path.display());
        let (_, rest) = text.split_once('\n').unwrap();
        assert_eq!(printed(&compiled, &facts), rest, "{}", path.display());
    }
}

/// The printed form of each accepted file is a file of `itself`.
#[test]
fn what_is_printed_is_kept_as_a_case_of_its_own() {
    for path in cases("accept") {
        let conf = std::fs::read_to_string(&path).unwrap();
        let (dialect, _) = conf.split_once('\n').unwrap();
        let out = std::fs::read_to_string(path.with_extension("out")).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let itself = directory("itself").join(format!("printed-{name}"));
        compare(&itself, "conf", &format!("{dialect}\n{out}"));
    }
}

/// The text of all files of a family that are in a dialect, without comments.
fn text_of(family: &str, dialect: &str) -> String {
    let mut all = String::new();
    for path in cases(family) {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.starts_with(&format!("# dialect: {dialect}\n")) {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            all.extend(lines.map(|line| line.to_owned() + "\n"));
        }
    }
    all
}

/// Each construct of both dialects is accepted, printed and refused somewhere.
#[test]
fn every_construct_has_its_cases() {
    let table = std::fs::read_to_string(directory("constructs.txt")).unwrap();
    let families = ["accept", "itself", "refuse"];
    for dialect in ["freebsd", "openbsd"] {
        let texts = families.map(|family| text_of(family, dialect));
        let mut count = 0;
        let mut lacking = Vec::new();
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.splitn(5, '|').map(str::trim).collect();
            let [whose, construct, messages @ ..] = &fields[..] else { panic!("{line}") };
            assert_eq!(messages.len(), families.len(), "{line}");
            if *whose != "both" && *whose != dialect {
                continue;
            }
            count += 1;
            for ((family, text), words) in families.iter().zip(&texts).zip(messages) {
                if *words != "-" && !text.contains(words) {
                    lacking.push(format!("{construct}: no `{words}` in {family}"));
                }
            }
        }
        assert!(lacking.is_empty(), "{dialect}:\n{}", lacking.join("\n"));
        assert!(count > 120, "{dialect}: {count} constructs");
    }
}

/// A message with everything that is drawn beside it.
fn described(diagnostic: &Diagnostic, compiled: &Compiled) -> String {
    let mut text = diagnostic.line(&compiled.sources);
    text.push_str(&format!(" [{}]", diagnostic.code.as_str()));
    // A span over lines is shown to the end of its first one.
    let words = compiled.sources.text(diagnostic.span).lines().next().unwrap_or("");
    text.push_str(&format!("\n    at: `{words}` {}", diagnostic.label));
    text.truncate(text.trim_end().len());
    if !diagnostic.expected.is_empty() {
        text.push_str(&format!("\n    expected: {}", diagnostic.expected.join(" ")));
    }
    if let Some(suggestion) = &diagnostic.suggestion {
        text.push_str(&format!("\n    nearest: {}", suggestion.replacement));
    }
    for label in &diagnostic.related {
        text.push_str(&format!("\n    {}: {}", compiled.sources.place(label.span), label.text));
    }
    if let Some(help) = &diagnostic.help {
        text.push_str(&format!("\n    help: {help}"));
    }
    text.push('\n');
    text
}

#[test]
fn refused_files_say_exactly_why() {
    let facts = facts();
    for path in cases("refuse") {
        let text = std::fs::read_to_string(&path).unwrap();
        let compiled = run(&path, &text, &facts);
        assert!(compiled.error_count > 0, "{} is accepted", path.display());
        let found: String = compiled
            .diagnostics
            .iter()
            .map(|diagnostic| described(diagnostic, &compiled))
            .collect();
        compare(&path, "messages", &found);
    }
}

/// Every statement of `refuse` is refused: none of its lines is read as if it were right.
#[test]
fn every_line_of_a_refused_file_is_wrong() {
    let facts = facts();
    // A whole file that was broken here and there has right lines too.
    let is_list = |path: &PathBuf| !path.ends_with("ten-ways.conf");
    for path in cases("refuse").into_iter().filter(is_list) {
        let text = std::fs::read_to_string(&path).unwrap();
        let compiled = run(&path, &text, &facts);
        for (index, line) in text.lines().enumerate() {
            let right = [
                "#",
                "\t",
                "}",
                "exterior",
                "one",
                "two",
                "loop",
                "first",
                "second",
                "third",
                "net =",
                "anchor \"x\" {",
                "bad",
                "pass user",
                "include \"loop",
            ];
            if right.iter().any(|start| line.starts_with(start)) || line.contains("(sloppy) label")
            {
                continue;
            }
            let errors = compiled
                .diagnostics
                .iter()
                .filter(|diagnostic| diagnostic.severity == Severity::Error);
            let mut lines = errors.map(|error| compiled.sources.start(error.span).line as usize);
            let is_wrong = lines.any(|line| line == index + 1);
            assert!(is_wrong, "{}:{}: {line}", path.display(), index + 1);
        }
    }
}
