//! FreeBSD's own regression cases for pfctl, read in place: every `.in` prints as its `.ok`, every
//! `.ok` prints as itself, and every `.fail` is refused, at its line where it gives one.
//!
//! The cases are in `../shared/data/pf`, or where `WEIR_TEST_DATA` says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_rules::diagnostic::Severity;
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::{Compiled, Dialect, compile};

use crate::support::Directory;

/// The machine of the original tests, as far as their output shows it.
const FACTS: &str = "\
interface lo0 loopback ::1/128 fe80::1/64 127.0.0.1/8 group lo
interface vlan1058 203.0.113.5/24
interface vlan1062 203.0.113.5/24 2001:db8::cb00:7105/64
host localhost ::1 127.0.0.1
";

/// Cases that deviate, with the reason; the crate's documentation has the same list.
const DEVIATIONS: &[(&str, &str)] = &[];

fn directory() -> Option<PathBuf> {
    let data = std::env::var_os("WEIR_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let cases = data.join("pf/freebsd");
    cases.is_dir().then_some(cases)
}

fn run(directory: &Path, name: &str, facts: &Facts) -> Compiled {
    let bytes = std::fs::read(directory.join(name)).unwrap();
    let provider = Directory(directory.to_owned());
    let input = ParseInput {
        name,
        bytes: &bytes,
        dialect: Some(Dialect::FreeBsd),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    compile(input, facts)
}

fn printed(compiled: &Compiled, facts: &Facts) -> String {
    let options = PrintOptions::default();
    Printer { dialect: Dialect::FreeBsd, resolver: facts, options }.ruleset(&compiled.ruleset)
}

fn errors(compiled: &Compiled) -> String {
    let errors =
        compiled.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    errors.map(|error| error.line(&compiled.sources) + "\n").collect()
}

/// Case name to what is there of it.
fn cases(directory: &Path) -> BTreeMap<String, Vec<String>> {
    let mut cases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some((case, kind)) = name.split_once('.') {
            cases.entry(case.to_owned()).or_default().push(kind.to_owned());
        }
    }
    cases
}

fn compare(directory: &Path, input: &str, output: &str, facts: &Facts, wrong: &mut Vec<String>) {
    let compiled = run(directory, input, facts);
    let expected = std::fs::read_to_string(directory.join(output)).unwrap();
    let found = printed(&compiled, facts);
    if compiled.error_count > 0 || found != expected {
        let errors = errors(&compiled);
        let mut lines = Vec::new();
        let (mut left, mut right) = (expected.lines(), found.lines());
        loop {
            match (left.next(), right.next()) {
                (None, None) => break,
                (a, b) if a == b => {}
                (a, b) => lines.push(format!("-{}\n+{}", a.unwrap_or(""), b.unwrap_or(""))),
            }
        }
        wrong.push(format!("{input} is not {output}\n{errors}{}", lines.join("\n")));
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn cases_of_pfctl_print_as_they_should() {
    let Some(directory) = directory() else {
        eprintln!("skipped: there are no pf cases in ../shared/data or $WEIR_TEST_DATA");
        return;
    };
    let facts = Facts::parse(FACTS).unwrap();
    let mut wrong = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    for (case, kinds) in cases(&directory) {
        if DEVIATIONS.iter().any(|(name, _)| *name == case) {
            continue;
        }
        let has = |kind: &str| kinds.iter().any(|known| known == kind);
        let (input, ok, fail) =
            (format!("{case}.in"), format!("{case}.ok"), format!("{case}.fail"));
        if has("ok") {
            accepted += 1;
            compare(&directory, &ok, &ok, &facts, &mut wrong);
            if has("in") {
                compare(&directory, &input, &ok, &facts, &mut wrong);
            }
        } else if has("fail") {
            refused += 1;
            let compiled = run(&directory, &input, &facts);
            let expected = std::fs::read_to_string(directory.join(&fail)).unwrap();
            let found = errors(&compiled);
            let place = expected.split_once(": ").map(|(place, _)| place);
            let at = place.filter(|place| place.contains(':'));
            if compiled.error_count != 1 || !at.is_none_or(|at| found.starts_with(at)) {
                wrong.push(format!("{input} should fail:\n-{expected}+{found}"));
            }
        } else if has("in") {
            let compiled = run(&directory, &input, &facts);
            if compiled.error_count > 0 {
                wrong.push(format!("{input} should be accepted\n{}", errors(&compiled)));
            }
        }
    }
    // Other versions of the cases, which have no partner: they print as themselves, or are read.
    let others = directory.join("other-versions");
    for (case, kinds) in cases(&others) {
        for kind in kinds {
            let name = format!("{case}.{kind}");
            let errors = errors(&run(&others, &name, &facts));
            if kind == "ok" {
                compare(&others, &name, &name, &facts, &mut wrong);
            } else if !errors.is_empty() {
                wrong.push(format!("{name} should be accepted\n{errors}"));
            }
        }
    }
    assert!(accepted > 50 && refused > 5, "{accepted} accepted, {refused} refused");
    assert!(wrong.is_empty(), "{} cases are wrong\n\n{}", wrong.len(), wrong.join("\n\n"));
}
