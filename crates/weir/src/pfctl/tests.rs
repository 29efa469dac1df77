//! pfctl's command line.

use std::ffi::{OsStr, OsString};

use super::arguments::{Level, Parsed, Plan, Refusal, parse};
use super::is_own_name;

fn parsed(line: &str) -> Result<Parsed, Refusal> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    parse(&words)
}

fn plan(line: &str) -> Plan {
    match parsed(line) {
        Ok(Parsed::Plan(plan)) => *plan,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_name_is_the_last_part_of_the_path() {
    for (name, is) in [("pfctl", true), ("/sbin/pfctl", true), ("weir", false), ("pfctl2", false)] {
        assert_eq!(is_own_name(OsStr::new(name)), is, "{name}");
    }
}

#[test]
fn letters_stand_together() {
    let own = plan("-o none -nvvf pf.conf");
    assert_eq!((own.verbosity, own.level), (2, Some(Level::None)));
    assert_eq!(own.file.to_str(), Some("pf.conf"));
    let own = plan("-onone -nPqf- -Da=1 -D b=2=3");
    assert!(own.numeric_ports && own.is_quiet);
    assert_eq!(own.file.to_str(), Some("-"));
    let macros = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2=3".to_owned())];
    assert_eq!(own.macros, macros);
    // As pfctl, the beginning of a word is enough.
    assert_eq!(plan("-o b -nf x").level, Some(Level::Basic));
    let own = plan("-o p -gnf x --profile=y");
    assert_eq!((own.level, own.skip_steps), (Some(Level::Profile), true));
    assert_eq!(own.profile.as_deref().and_then(|path| path.to_str()), Some("y"));
    assert_eq!(plan("-nf x").level, None);
}

#[test]
fn parts_are_chosen() {
    let all = plan("-nf x").parts;
    assert!(all.queues && all.translation && all.options && all.filter && all.tables && all.ether);
    let own = plan("-nNRf x").parts;
    assert!(own.translation && own.filter && !own.options && !own.queues && !own.tables);
    let own = plan("-n -a ftp-proxy/x -f x").parts;
    assert!(own.translation && own.filter && own.tables && !own.options && !own.queues);
}

#[test]
fn what_pfctl_refuses_is_refused_in_its_words() {
    for (line, text) in [
        ("-nf", "option requires an argument -- f"),
        ("-nf x y", "unknown command line argument: y ..."),
        ("-o fast -nf x", "Unknown optimization 'fast'"),
        ("-w", "illegal option -- w"),
        ("-n -a _x -f x", "anchor names beginning with '_' cannot be modified"),
        ("-n -a x", "anchors apply to -f, -F, -s, and -T only"),
        ("-D 1=2 -nf x", "could not parse macro definition 1=2"),
        ("-n", "no file to read"),
        ("--dialect=netbsd -nf x", "--dialect=freebsd or --dialect=openbsd"),
    ] {
        match parsed(line) {
            Err(Refusal::Usage(told)) => assert!(told.contains(text), "{line}: {told}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn what_needs_a_firewall_is_refused_by_name() {
    for (line, text) in [
        ("-e", "-e enables"),
        ("-sr", "-s shows what is loaded"),
        ("-s rules -nf x", "-s shows"),
        ("-t bad -T show", "-t names a table"),
        ("-Fa", "-F flushes"),
        ("-f x", "-f without -n loads rules"),
    ] {
        match parsed(line) {
            Err(Refusal::NotHere(told)) => assert!(told.starts_with(text), "{line}: {told}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}
