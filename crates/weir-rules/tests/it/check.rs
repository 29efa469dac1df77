//! What the checker says: of the project's own cases (`checked`), exactly; of FreeBSD's cases for
//! pfctl, read in place, how often it says what.
//!
//! The first line of a case names its dialect. `WEIR_BLESS=1` writes the expected files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_rules::check::check;
use weir_rules::diagnostic::{Diagnostic, Severity};
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::{Compiled, Dialect, compile};

use crate::support::Directory;

fn directory(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(family)
}

fn facts() -> Facts {
    Facts::parse(&std::fs::read_to_string(directory("facts.txt")).unwrap()).unwrap()
}

fn run(path: &Path, dialect: Dialect, facts: &Facts) -> Compiled {
    let bytes = std::fs::read(path).unwrap();
    let provider = Directory(path.parent().unwrap().to_owned());
    let input = ParseInput {
        name: path.file_name().unwrap().to_str().unwrap(),
        bytes: &bytes,
        dialect: Some(dialect),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    compile(input, facts)
}

fn described(diagnostic: &Diagnostic, compiled: &Compiled) -> String {
    let mut text = diagnostic.line(&compiled.sources);
    text.push_str(&format!(" [{}]\n", diagnostic.code.as_str()));
    for label in &diagnostic.related {
        text.push_str(&format!("    {}: {}\n", compiled.sources.place(label.span), label.text));
    }
    if let Some(suggestion) = &diagnostic.suggestion {
        text.push_str(&format!("    nearest: {}\n", suggestion.replacement));
    }
    if let Some(help) = &diagnostic.help {
        text.push_str(&format!("    help: {help}\n"));
    }
    text
}

/// A line with `# ok` behind it has nothing wrong; every other rule of `checked/*.conf` has, or
/// is named as the other place. That is what the expected files show.
#[test]
fn findings_are_as_expected() {
    let facts = facts();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory("checked"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap_or("");
        let dialect = first.strip_prefix("# dialect: ").and_then(Dialect::parse).unwrap();
        let compiled = run(&path, dialect, &facts);
        let errors =
            compiled.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let errors: Vec<String> = errors.map(|error| error.line(&compiled.sources)).collect();
        assert_eq!(errors, Vec::<String>::new());
        let findings = check(&compiled, &facts);
        for finding in &findings {
            let line = compiled.sources.start(finding.span).line as usize;
            let said = text.lines().nth(line - 1).unwrap_or("");
            assert!(!said.ends_with("# ok"), "{said}: {}", finding.message);
        }
        let found: String = findings.iter().map(|finding| described(finding, &compiled)).collect();
        let expected_path = path.with_extension("findings");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&expected_path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
        assert_eq!(expected, found, "{}", path.display());
    }
}

/// A rule with an error might use the table and set the tag.
#[test]
fn errors_silence_what_they_might_answer() {
    let run = |text: &str| {
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: Some(Dialect::FreeBsd),
            macros: &[],
            provider: &Directory(directory("checked")),
            limits: Limits::default(),
        };
        let compiled = compile(input, &facts());
        let found: Vec<&str> =
            check(&compiled, &facts()).iter().map(|finding| finding.code.as_str()).collect();
        (compiled.error_count, found)
    };
    let text = "table <t> { 10.0.0.1 }\npass in tagged A\n";
    assert_eq!(run(text), (0, vec!["unused-table", "never-matches"]));
    assert_eq!(run(&format!("{text}pass in from <t> tag A port\n")), (1, vec![]));
}

/// A definition that the command line replaces is used where the other value is.
#[test]
fn macros_of_the_command_line_use_their_definitions() {
    let run = |text: &str| -> Vec<String> {
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: Some(Dialect::FreeBsd),
            macros: &[("ext".to_owned(), "em1".to_owned())],
            provider: &Directory(directory("checked")),
            limits: Limits::default(),
        };
        let compiled = compile(input, &facts());
        check(&compiled, &facts()).into_iter().map(|finding| finding.message).collect()
    };
    assert_eq!(run("ext = \"em0\"\npass in on $ext\n"), Vec::<String>::new());
    assert_eq!(run("ext = \"em0\"\npass in\n"), ["nothing uses the macro `ext`"]);
}

const FREEBSD_FACTS: &str = "\
interface lo0 loopback ::1/128 fe80::1/64 127.0.0.1/8 group lo
interface vlan1058 203.0.113.5/24
interface vlan1062 203.0.113.5/24 2001:db8::cb00:7105/64
host localhost ::1 127.0.0.1
";

/// What the checker says of FreeBSD's cases, each judged true: they repeat rules on purpose, end in
/// rules that match everything, and name tables, macros and tags that they do not use or define.
/// All other cases have no finding.
const JUDGED: &[(&str, usize)] = &[
    ("pf0002 shadowed", 1),
    ("pf0004 shadowed", 4),
    ("pf0010 shadowed", 29),
    ("pf0018 unused-macro", 2),
    ("pf0024 unused-macro", 2),
    ("pf0040 shadowed", 11),
    ("pf0048 missing-table", 1),
    ("pf0048 unused-table", 1),
    ("pf0050 unused-macro", 1),
    ("pf0060 shadowed", 1),
    ("pf0070 never-matches", 1),
    ("pf0072 never-matches", 1),
    ("pf0078 missing-table", 1),
    ("pf0088 shadowed", 17),
    ("pf0088 unreachable", 3),
    ("pf0090 shadowed", 4),
    ("pf0094 shadowed", 2),
    ("pf1004 shadowed", 1),
    ("pf1044 missing-table", 1),
    ("pf1050 missing-table", 1),
    ("pf1052 missing-table", 1),
];

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn freebsd_cases_have_only_the_findings_that_were_judged() {
    let data = std::env::var_os("WEIR_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let directory = data.join("pf/freebsd");
    if !directory.is_dir() {
        eprintln!("skipped: there are no pf cases in ../shared/data or $WEIR_TEST_DATA");
        return;
    }
    let facts = Facts::parse(FREEBSD_FACTS).unwrap();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in
        names.iter().filter(|name| name.extension().is_some_and(|extension| extension == "in"))
    {
        let compiled = run(path, Dialect::FreeBsd, &facts);
        if compiled.error_count > 0 {
            continue;
        }
        let case = path.file_stem().unwrap().to_str().unwrap();
        for finding in check(&compiled, &facts) {
            *found.entry(format!("{case} {}", finding.code.as_str())).or_default() += 1;
        }
    }
    let expected: BTreeMap<String, usize> =
        JUDGED.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
    assert_eq!(found, expected);
}
