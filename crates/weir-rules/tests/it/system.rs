//! What the pfctl of one system refuses and this crate takes: each line with its nearest neighbour
//! that is accepted there (`fixtures/system/lines.txt`).

use weir_rules::diagnostic::{Diagnostic, Severity};
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;
use weir_rules::{Compiled, Dialect, compile, system};

const LINES: &str = include_str!("../fixtures/system/lines.txt");

fn compiled(text: &str, dialect: Dialect) -> Compiled {
    let facts = "interface em0 192.0.2.1/24\ninterface em1 10.0.0.1/24\nuser root 0\n\
                 usergroup wheel 0\n";
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(dialect),
        macros: &[],
        provider: &MemorySources::default(),
        limits: Limits::default(),
    };
    let compiled = compile(input, &Facts::parse(facts).unwrap());
    let is_error = |one: &&Diagnostic| one.severity == Severity::Error;
    let errors: Vec<_> = compiled.diagnostics.iter().filter(is_error).collect();
    assert!(errors.is_empty(), "every reader refuses {text}: {errors:?}");
    compiled
}

#[test]
fn each_system_refuses_what_its_pfctl_refuses() {
    let mut count = 0;
    for line in LINES.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(" || ").collect();
        let [systems, refused, accepted, part] = fields[..] else { panic!("{line}") };
        let of_line = |text: &str| text.replace('~', "\n").replace("\\r", "\r") + "\n";
        let (refused, accepted) = (of_line(refused), of_line(accepted));
        for system in [Dialect::FreeBsd, Dialect::OpenBsd] {
            if systems != "both" && systems != system.as_str() {
                continue;
            }
            count += 1;
            let ruleset = compiled(&refused, system);
            let found = system::refusals(&ruleset, system);
            assert!(found.iter().any(|one| one.message.contains(part)), "{line}: {found:?}");
            assert!(found.iter().all(|one| one.severity == Severity::Error), "{line}");
            let place = ruleset.sources.text(found[0].span);
            assert!(!place.is_empty(), "{line} has no place");
            let neighbour = compiled(&accepted, system);
            assert_eq!(system::refusals(&neighbour, system), [], "{accepted}");
        }
    }
    assert!(count > 40, "{count} lines");
}

/// What OpenBSD alone refuses is FreeBSD's to take.
#[test]
fn the_other_system_goes_on_taking_it() {
    for text in [
        "pass in on em0 route-to (em1 10.0.0.9) inet proto tcp\n",
        "block in on em0 route-to (em1 10.0.0.9) inet\n",
        "pass in proto sctp to port 5\n",
        "pass out user root\n",
    ] {
        assert_eq!(system::refusals(&compiled(text, Dialect::FreeBsd), Dialect::FreeBsd), []);
    }
}
