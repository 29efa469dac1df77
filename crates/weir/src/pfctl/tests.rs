//! pfctl's command line.

use std::ffi::{OsStr, OsString};

use weir_fw::protocol::{Flushed, Shown, TableAction};

use super::is_called_by;
use crate::cli::pfctl::{Level, Parsed, Plan, Refusal, TableCommand, parse};

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
        assert_eq!(is_called_by(OsStr::new(name)), is, "{name}");
    }
}

#[test]
fn letters_stand_together() {
    let given = plan("-o none -nvvf pf.conf");
    assert_eq!((given.verbosity, given.level), (2, Some(Level::None)));
    assert_eq!(given.file.as_deref().and_then(|path| path.to_str()), Some("pf.conf"));
    let given = plan("-onone -nPqf- -Da=1 -D b=2=3");
    assert!(given.numeric_ports && given.is_quiet);
    assert_eq!(given.file.as_deref().and_then(|path| path.to_str()), Some("-"));
    let macros = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2=3".to_owned())];
    assert_eq!(given.macros, macros);
    // As pfctl, the beginning of a word is enough.
    assert_eq!(plan("-o b -nf x").level, Some(Level::Basic));
    let given = plan("-o p -gnf x --profile=y");
    assert_eq!((given.level, given.skip_steps), (Some(Level::Profile), true));
    assert_eq!(given.profile.as_deref().and_then(|path| path.to_str()), Some("y"));
    assert_eq!(plan("-nf x").level, None);
}

#[test]
fn parts_are_chosen() {
    let all = plan("-nf x").parts;
    assert!(all.queues && all.translation && all.options && all.filter && all.tables && all.ether);
    let parts = plan("-nNRf x").parts;
    assert!(parts.translation && parts.filter && !parts.options && !parts.queues && !parts.tables);
    let parts = plan("-n -a ftp-proxy/x -f x").parts;
    assert!(parts.translation && parts.filter && parts.tables && !parts.options && !parts.queues);
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
        ("-v", "nothing to do"),
        ("-s nothing", "Unknown show modifier 'nothing'"),
        ("-t bad", "-t needs a command"),
        ("-T add 10.0.0.1", "-T needs a table"),
        ("-T load", "-T load needs a file"),
        ("-k a -k b -k c", "can only specify -k twice"),
        ("-ed", "-e and -d contradict"),
        ("-mf x", "-m merges only settings"),
        ("--dialect=netbsd -nf x", "--dialect=freebsd or --dialect=openbsd"),
    ] {
        match parsed(line) {
            Err(Refusal::Usage(message)) => assert!(message.contains(text), "{line}: {message}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    for (line, text) in [
        ("-n -e -f x", "-e is for a running firewall, which -n does not talk to"),
        ("-s rules -nf x", "-s is for a running firewall"),
        ("-z", "-z clears counters"),
        ("-Mk label", "-M kills matching states"),
        ("-s creatorids", "-s creatorids: weir has none"),
        ("-F q", "-F queue: weir has none"),
        ("-Af x", "-A loads queues"),
    ] {
        match parsed(line) {
            Err(Refusal::NotHere(message)) => {
                assert!(message.starts_with(text), "{line}: {message}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn a_firewall_is_asked() {
    let given = plan("-e -f pf.conf");
    assert!(given.enable && !given.is_dry && given.file.is_some());
    assert_eq!(plan("-sr").show, Some(Shown::Rules));
    assert_eq!(plan("-s m").show, Some(Shown::Memory));
    assert_eq!(plan("-sI").show, Some(Shown::Interfaces));
    assert_eq!(plan("-sT").show, Some(Shown::Tables));
    assert_eq!(plan("-Fa").flush, Some(Flushed::All));
    assert_eq!(plan("-FT").flush, Some(Flushed::Tables));
    assert_eq!(plan("-k 10.0.0.1 -k 10.0.0.2").kill, ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(plan("-xm").debug, Some("misc"));
    let given = plan("-qt bad -T add 10.0.0.1 !10.0.0.2");
    let words = vec!["10.0.0.1".to_owned(), "!10.0.0.2".to_owned()];
    let command = TableCommand::Do(TableAction::Add);
    assert_eq!(given.table, Some((Some("bad".to_owned()), command, words)));
    assert_eq!(plan("-T load -f x").table, Some((None, TableCommand::Load, Vec::new())));
    let parts = plan("-T load -f x").parts;
    assert!(parts.tables && !parts.filter && !parts.options);
    assert!(plan("-mOf x").is_merged);
}
