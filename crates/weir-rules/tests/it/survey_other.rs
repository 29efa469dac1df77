//! The files of the survey in the other dialect (`survey/other`): what the converter makes of them,
//! or, where it refuses statements (`.refused` has them, with their lines), the same policy as an
//! administrator writes it there. They are read without errors, print to what prints itself, and
//! the packets of `packets.txt` meet the same fate as under the original, as their `.explained`
//! says. `WEIR_BLESS=1` writes what is not written by hand.

use std::fs;
use std::path::{Path, PathBuf};

use weir_rules::convert::convert;
use weir_rules::evaluate::{AllRouted, Decision, Evaluator, Moment, NoStates, Packet, Verdict};
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

/// A file of the survey, and where it stands in the other dialect.
struct Pair {
    /// `01-home-router`
    title: String,
    from: Dialect,
    to: Dialect,
    /// The original.
    text: String,
    /// The machine: of all interfaces those that the file names, as others would make next hops
    /// ambiguous.
    facts: Facts,
    /// `other/01-home-router.openbsd.conf`
    other: PathBuf,
}

fn pairs() -> Vec<Pair> {
    let machine = fs::read_to_string(directory().join("machine.facts")).unwrap();
    let mut pairs = Vec::new();
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some((title, dialect)) =
            name.strip_suffix(".conf").and_then(|rest| rest.split_once('.'))
        else {
            continue;
        };
        let from = Dialect::parse(dialect).unwrap();
        let to = match from {
            Dialect::FreeBsd => Dialect::OpenBsd,
            Dialect::OpenBsd => Dialect::FreeBsd,
        };
        let text = fs::read_to_string(&path).unwrap();
        let is_named = |line: &&str| {
            let interface = line.strip_prefix("interface ").and_then(|rest| rest.split(' ').next());
            interface.is_none_or(|interface| interface == "lo0" || text.contains(interface))
        };
        let facts: Vec<&str> = machine.lines().filter(is_named).collect();
        let facts = Facts::parse(&facts.join("\n")).unwrap();
        let other = directory().join("other").join(format!("{title}.{to}.conf"));
        pairs.push(Pair { title: title.to_owned(), from, to, text, facts, other });
    }
    pairs.sort_by(|a, b| a.title.cmp(&b.title));
    assert_eq!(pairs.len(), 20);
    pairs
}

fn run(name: &str, text: &str, dialect: Dialect, facts: &Facts) -> Compiled {
    let (provider, limits) = (Directory(directory()), Limits::default());
    let (bytes, dialect) = (text.as_bytes(), Some(dialect));
    compile(ParseInput { name, bytes, dialect, macros: &[], provider: &provider, limits }, facts)
}

fn printed(compiled: &Compiled, facts: &Facts) -> String {
    let (dialect, options) = (compiled.ruleset.dialect, PrintOptions::default());
    Printer { dialect, resolver: facts, options }.ruleset(&compiled.ruleset)
}

/// Compares with a file, or writes it.
#[track_caller]
fn compare(path: &Path, found: &str) {
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(path, found).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(expected, found, "{} (WEIR_BLESS=1 writes it)", path.display());
}

#[test]
fn what_cannot_be_converted_is_told_with_its_line() {
    let (mut converted_count, mut missing) = (0, Vec::new());
    for pair in pairs() {
        let old = run("pf.conf", &pair.text, pair.from, &pair.facts);
        let recompile = |text: &str| run("pf.conf", text, pair.to, &pair.facts);
        let refused = pair.other.with_extension("refused");
        match convert(&old, pair.to, &pair.facts, &recompile) {
            Ok(conversion) => {
                compare(&pair.other, &conversion.text);
                assert!(!refused.exists(), "{} is converted", refused.display());
                converted_count += 1;
            }
            Err(problems) => {
                let lines = problems.iter().map(|problem| problem.line(&old.sources) + "\n");
                compare(&refused, &lines.collect::<String>());
                missing.extend(Some(pair.other).filter(|path| !path.exists()));
            }
        }
    }
    assert_eq!(missing, Vec::<PathBuf>::new(), "to be written by hand");
    assert_eq!(converted_count, 12);
}

#[test]
fn files_are_right_in_the_other_dialect_too() {
    for pair in pairs() {
        let name = pair.other.display().to_string();
        let text = fs::read_to_string(&pair.other).unwrap();
        let result = run(&name, &text, pair.to, &pair.facts);
        assert_eq!(result.error_count, 0, "{:#?}", result.diagnostics);
        let once = printed(&result, &pair.facts);
        let again = run(&name, &once, pair.to, &pair.facts);
        assert_eq!(again.error_count, 0, "{name}: {:#?}\n{once}", again.diagnostics);
        assert_eq!(printed(&again, &pair.facts), once, "{name}");
    }
}

/// What becomes of a packet, as far as both dialects can say it.
fn fate(verdict: &Verdict<'_>) -> String {
    let passes = verdict.decision == Decision::Pass;
    let ends = verdict.translation.as_ref().filter(|_| passes).map(|translation| {
        let ports = (translation.source_port, translation.destination_port);
        format!(" {}:{} > {}:{}", translation.source, ports.0, translation.destination, ports.1)
    });
    let route =
        verdict.route.as_ref().map(|route| format!(" {:?} {:?}", route.kind, route.gateway));
    let (state, answer) = (verdict.state.is_some(), verdict.response);
    format!(
        "{} state {state} {answer:?}{}{} tag {:?}",
        verdict.decision.as_str(),
        ends.unwrap_or_default(),
        route.unwrap_or_default(),
        verdict.actions.tag
    )
}

#[test]
fn packets_meet_the_same_fate() {
    let packets = fs::read_to_string(directory().join("packets.txt")).unwrap();
    for pair in pairs() {
        let text = fs::read_to_string(&pair.other).unwrap();
        let name = pair.other.file_name().unwrap().to_str().unwrap();
        let facts = &pair.facts;
        let old = run("pf.conf", &pair.text, pair.from, facts);
        let new = run(name, &text, pair.to, facts);
        let before = Evaluator::new(&old.ruleset, &[], facts).unwrap();
        let after = Evaluator::new(&new.ruleset, &[], facts).unwrap();
        let printer =
            Printer { dialect: pair.to, resolver: facts, options: PrintOptions::default() };
        let head = format!("{}: ", pair.title);
        let mut explained = String::new();
        for words in packets.lines().filter_map(|line| line.strip_prefix(&head)) {
            let packet = Packet::parse(words, facts).unwrap();
            let (mut states, mut random) = (NoStates, || 0);
            let mut moment =
                Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
            let fate_before = fate(&before.evaluate(&packet, &mut moment));
            let sources = Some(&new.sources);
            let trace = explain(&after, &printer, sources, &packet, &mut moment);
            assert_eq!(fate(&trace.verdict), fate_before, "{name}: {words}\n{}", trace.text());
            explained.push_str(&trace.text());
            explained.push('\n');
        }
        assert!(!explained.is_empty(), "no packet for {name}");
        compare(&pair.other.with_extension("explained"), explained.trim_end());
    }
}
