//! What a file says, which SYN is whose, and what is refused.

use super::load::Known;
use super::read::read;
use super::syn::Kind;
use super::*;
use crate::diagnostic::{Diagnostics, Severity};
use crate::limits::Limits;
use crate::parse::{ParseInput, parse};
use crate::source::{MemorySources, SourceMap};

const FILE: &str = include_str!("../../tests/fixtures/pf.os");

fn fingerprints() -> Fingerprints {
    read(FILE).expect("the file is right")
}

/// `window TTL DF size`, and options as tcpdump would name them.
fn syn(words: &str, options: &[u8]) -> Option<Syn> {
    let mut numbers = words.split(' ').map(|word| word.parse::<u16>().expect("a number"));
    let mut next = || numbers.next().expect("one more");
    let (window, ttl, df, size_bytes) = (next(), next(), next(), next());
    let ttl = u8::try_from(ttl).expect("a TTL");
    Syn { window, ttl, df: df != 0, size_bytes, ..Syn::default() }.with_options(options)
}

fn mss(size: u16) -> Vec<u8> {
    [[2, 4], size.to_be_bytes()].concat()
}

/// The options of Linux.
fn usual(size: u16, scale: u8) -> Vec<u8> {
    [&mss(size)[..], &[4, 2], &[8, 10, 0, 0, 0, 9, 0, 0, 0, 0], &[1], &[3, 3, scale]].concat()
}

#[test]
fn a_syn_has_the_first_fingerprint_that_it_fits() {
    let known = fingerprints();
    let panes = |scale: u8| [&mss(1460)[..], &[1], &[3, 3, scale], &[1, 1], &[4, 2]].concat();
    let sunny = |scale: u8, stamp: [u8; 8]| {
        [&mss(9)[..], &[1], &[3, 3, scale], &[1, 1], &[8, 10], &stamp].concat()
    };
    for (words, options, name) in [
        ("5840 64 1 60", usual(1460, 7), "Quick 5 late"),
        // Over 40 routers, and over one more.
        ("5840 24 1 60", usual(1460, 7), "Quick 5 late"),
        ("5840 23 1 60", usual(1460, 7), "unknown"),
        ("5840 65 1 60", usual(1460, 7), "unknown"),
        ("5840 64 0 60", usual(1460, 7), "unknown"),
        ("5840 64 1 61", usual(1460, 7), "unknown"),
        ("5600 64 1 60", usual(1400, 7), "Quick 5 late"),
        // A router has changed the size of segments.
        ("5840 64 1 60", usual(1400, 7), "Quick 5 late"),
        ("5841 64 1 60", usual(1400, 7), "unknown"),
        ("0 64 1 60", usual(0, 7), "unknown"),
        ("5840 64 1 60", usual(1460, 8), "unknown"),
        ("6000 64 1 60", usual(1460, 6), "Quick 4.2.1-3"),
        ("5600 64 1 60", usual(1360, 6), "Quick 4.2.1-3"),
        // With the header of IPv6, which counts as not to be fragmented.
        ("5840 64 1 80", usual(1460, 7), "Quick 5 late"),
        ("16384 64 0 44", mss(512), "Plain 1.0-1.2 or Copied"),
        ("16384 64 1 44", mss(512), "Plain 2"),
        ("16384 64 0 64", mss(512), "unknown"),
        ("16384 64 1 64", mss(512), "Plain 1.0-1.2 or Plain 2 or Copied"),
        ("1 100 1 1500", panes(3), "Panes XP SP1"),
        ("16384 127 1 48", [&mss(1)[..], &[1, 1, 4, 2]].concat(), "Panes 98"),
        ("16385 127 1 48", [&mss(1)[..], &[1, 1, 4, 2]].concat(), "unknown"),
        ("65535 255 1 9", sunny(2, [0; 8]), "Sunny 8"),
        ("65535 255 1 9", sunny(2, [0, 0, 0, 0, 1, 1, 1, 1]), "Sunny 8"),
        ("65535 255 1 9", sunny(2, [0, 0, 0, 1, 0, 0, 0, 0]), "unknown"),
        ("65535 255 1 9", sunny(3, [0; 8]), "unknown"),
        ("8192 60 0 40", Vec::new(), "Scanner"),
        // What is behind the end does not count.
        ("8192 60 0 40", vec![0, 9, 9, 9], "Scanner"),
        ("8192 60 0 40", vec![1], "unknown"),
    ] {
        let found = syn(words, &options).and_then(|syn| known.find(&syn));
        assert_eq!(known.name_of(found), name, "{words} {options:?}");
    }
    for options in [&[2][..], &[2, 1], &[2, 0], &[2, 4, 5], &[19, 2], &[8, 11, 0, 0, 0, 0]] {
        assert_eq!(syn("8192 60 0 40", options), None, "{options:?}");
    }
    // Too short for a value: it is there all the same.
    let short = syn("1 1 0 40", &[2, 2, 3, 2, 8, 4, 0, 0]).expect("it can be read");
    assert_eq!((short.mss, short.wscale, short.zero_timestamp), (0, 0, false));
    assert_eq!(short.order.count, 3);
}

#[test]
fn names_are_looked_up_as_pfctl_does() {
    let known = fingerprints();
    let plain = syn("16384 64 0 44", &mss(512)).and_then(|syn| known.find(&syn));
    let quick = syn("6000 64 1 60", &usual(1460, 6)).and_then(|syn| known.find(&syn));
    for (name, is_plain, is_quick, is_none) in [
        ("Plain", true, false, false),
        ("pLAIN", true, false, false),
        ("Plain 1.0", true, false, false),
        ("Plain 1.1", true, false, false),
        ("Plain 1.0-1.2", true, false, false),
        ("Plain 2", false, false, false),
        ("Copied", true, false, false),
        ("Quick", false, true, false),
        ("Quick 4.2", false, true, false),
        ("quick 4.2.1", false, true, false),
        ("Quick 4.2 3", false, true, false),
        ("Quick 4.2-3", false, true, false),
        ("Quick 4.2 1-3", false, true, false),
        ("Quick 5 late", false, false, false),
        ("Panes", false, false, false),
        ("Scanner", false, false, false),
        ("UNKNOWN", false, false, true),
    ] {
        let asked = known.asked(name).unwrap_or_else(|| panic!("{name}"));
        let holds = [plain, quick, None].map(|found| known.holds(found, asked));
        assert_eq!(holds, [is_plain, is_quick, is_none], "{name}");
    }
    for name in ["", "Plain 3", "Plain 1.3", "Quick 4.2.4", "Quick 4.2.", "5 late", "Plain  1.0"] {
        assert_eq!(known.asked(name), None, "{name}");
    }
    for name in known.all_names() {
        assert!(known.asked(&name).is_some(), "{name}");
    }
}

#[test]
fn fingerprints_are_listed_as_pfctl_lists_them() {
    let known = fingerprints();
    let listing = "Class\tVersion\tSubtype(subversion)\n-----\t-------\t-------------------\n\
        Copied\t\nPanes\t\nPanes\t98\t\nPanes\tXP\t\nPanes\tXP\tSP1\t\n\
        Plain\t\nPlain\t1.0\t\nPlain\t1.0-1.2\t\nPlain\t1.1\t\nPlain\t1.2\t\nPlain\t2\t\n\
        Quick\t\nQuick\t4.2\t\nQuick\t4.2\t1\t\nQuick\t4.2\t1-3\t\nQuick\t4.2\t2\t\n\
        Quick\t4.2\t3\t\nQuick\t5\t\nQuick\t5\tlate\t\nQuick\t5\ttunnel\t\n\
        Scanner\t\nSunny\t\nSunny\t8\t\n";
    assert_eq!(known.listing(), listing);
    // Ten lines, of which two have three versions more each, for both families.
    assert_eq!(known.count(), 2 * (10 + 3 + 3));
    // One line says the same as another, and two do for IPv6.
    assert_eq!(known.list().len(), 2 * 9 - 1);
    assert_eq!(Fingerprints::default().listing(), "");
}

#[test]
fn ranges_are_those_of_pfctl() {
    let names = |version: &str| {
        let line = format!("1:64:0:40:.:A:{version}::about it\n");
        let known = read(&line).expect("it is right");
        let names = known.all_names();
        names[1..].iter().rev().map(|name| name[2..].to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (version, all) in [
        ("8-11", "8 9 10 11 8-11"),
        ("2.9-2.11", "2.9 2.10 2.11 2.9-2.11"),
        ("2.0-3.0", "2.0-3.0"),
        ("4.3-5-2", "4.3-5-2"),
        ("10.1-10.2", "10.1-10.2"),
        ("3-1", "3-1"),
        ("3-3", "3 3-3"),
        ("1-a", "1-a"),
        ("-2", "-2"),
        ("2.4/2.6", "2.4/2.6"),
        ("99-101", "99 100 101 99-101"),
        ("100-101", "100-101"),
    ] {
        assert_eq!(names(version), all, "{version}");
    }
    let whole = read("1:64:0:40:.:A:1-2:3-4:about it").expect("it is right");
    assert_eq!(whole.count(), 2 * 9);
    assert!(whole.asked("A 2.4").is_some() && whole.asked("A 1-2 3").is_some());
    assert_eq!(whole.name_of(Some(0)), "A 1-2 3-4");
}

#[test]
fn what_is_no_fingerprint_is_refused_with_its_place() {
    for (line, at, part) in [
        ("1:64:0:40:.:A:1:", "1:64:0:40:.:A:1:", "9 fields, and not 8"),
        ("1:64:0:40:.:A:1::what: for", "1:64:0:40:.:A:1::what: for", "9 fields, and not 10"),
        ("65536:64:0:40:.:A:1::about", "65536", "size of a window 65536 is above 65535"),
        ("x:64:0:40:.:A:1::about", "x", "`x` is not a size of a window"),
        ("%:64:0:40:.:A:1::about", "", "`` is not a size of a window"),
        ("Sx:64:0:40:.:A:1::about", "x", "`x` is not a number of segments"),
        ("1:*:0:40:.:A:1::about", "*", "`*` is not a TTL"),
        ("1:256:0:40:.:A:1::about", "256", "TTL 256 is above 255"),
        ("1:64:2:40:.:A:1::about", "2", "bit 2 is above 1"),
        ("1:64:0:9000:.:A:1::about", "9000", "is above 8192"),
        ("1:64:0:S4:.:A:1::about", "S4", "`S4` is not a size of a packet"),
        ("1:64:0:40::A:1::about", "", "`` is not a TCP option"),
        ("1:64:0:40:N,Q:A:1::about", "Q", "`Q` is not a TCP option"),
        ("1:64:0:40:N, S:A:1::about", " S", "` S` is not a TCP option"),
        ("1:64:0:40:T1:A:1::about", "T1", "`T1` is not a TCP option"),
        ("1:64:0:40:N,M:A:1::about", "", "`` is not a size of a segment"),
        ("1:64:0:40:W256:A:1::about", "256", "scale of a window 256 is above"),
        ("1:64:0:40:.:@:1::about", "@", "the class is missing"),
        ("1:64:0:40:.:NoMatch:1::about", "NoMatch", "is reserved"),
        ("1:64:0:40:.:A:1::x", "x", "the description is missing"),
    ] {
        // A comment and blanks are no part of it.
        let text = format!("# first\n\n  \t{line}\t # more: of it\r\n");
        let problems = read(&text).expect_err(line);
        assert_eq!(problems.len(), 1, "{line}: {problems:?}");
        assert_eq!(&text[problems[0].at.clone()], at, "{line}: {problems:?}");
        assert!(problems[0].message.contains(part), "{line}: {problems:?}");
    }
    let long = format!("1:64:0:40:.:{}:1::about", "A".repeat(32));
    assert!(read(&long).expect_err("too long")[0].message.contains("at most 31 bytes"));
    let order = format!("1:64:0:40:N{}:A:1::about", ",N".repeat(21));
    assert!(read(&order).expect_err("too many")[0].message.contains("at most 21 options"));
    let kinds = [Kind::Nop; 21];
    let mut most = Order::default();
    kinds.into_iter().for_each(|kind| most.push(kind));
    let order = format!("1:64:0:40:N{}:A:1::about", ",N".repeat(20));
    assert_eq!(read(&order).expect("as many as fit").list()[0].signature.order, most);
    // Each bad line is named.
    assert_eq!(read("a\nb\n1:64:0:40:.:A:1::about\nc\n").expect_err("three").len(), 3);
}

#[test]
fn too_much_is_refused() {
    let lines = |count: usize| {
        let line = |window: usize| format!("{window}:64:0:40:.:A:1::about it\n");
        (0..count).map(line).collect::<String>()
    };
    assert_eq!(read(&lines(2048)).map(|known| known.list().len()), Ok(4096));
    assert!(read(&lines(2049)).expect_err("one more")[0].message.contains("more than 4096"));
    let wide = "1:64:0:40:.:A:0-999:0-999:a million names, for each family\n";
    assert!(read(wide).expect_err("too many names")[0].message.contains("65536 systems"));
}

/// Where the file is, and when it matters that it is not.
#[test]
fn the_file_is_that_of_the_ruleset() {
    let other = "1:64:0:40:.:Other:1::about it\n";
    let bad = "1:64:0:40:.:Other:1:\n";
    let (with, files) = (MemorySources::default(), ["/etc/pf.os", "mine"]);
    let both = with.clone().with(files[0], other).with(files[1], FILE);
    let broken = with.clone().with(files[0], bad).with(files[1], bad);
    let set = "set fingerprints \"mine\"\npass\n";
    for (text, provider, class, used, severities) in [
        ("pass\n", &both, Some("Other"), false, &[][..]),
        (set, &both, Some("Plain"), false, &[]),
        ("pass\n", &with, None, false, &[]),
        ("pass\n", &with, None, true, &[Severity::Warning]),
        (set, &with, None, false, &[Severity::Warning]),
        ("pass\n", &broken, None, false, &[Severity::Warning]),
        ("pass\n", &broken, None, true, &[Severity::Error]),
        (set, &broken, None, false, &[Severity::Error]),
    ] {
        let mut sources = SourceMap::default();
        let mut diagnostics = Diagnostics::new(&Limits::default());
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: None,
            macros: &[],
            provider,
            limits: Limits::default(),
        };
        let ast = parse(input, &mut sources, &mut diagnostics);
        let known = Known::of_file(&ast, "pf.conf", provider, &mut sources);
        known.report(used.then(|| ast.statements[0].span), &mut diagnostics);
        let found = known.found.as_ref();
        let has = |class: &str| found.is_some_and(|known| known.asked(class).is_some());
        assert_eq!(found.is_some(), class.is_some(), "{text}");
        assert!(class.is_none_or(has), "{text}");
        let said: Vec<Severity> =
            diagnostics.list().iter().map(|diagnostic| diagnostic.severity).collect();
        assert_eq!(said, severities, "{text} {used}");
        if let Some(place) = diagnostics.list().first().map(|found| found.line(&sources)) {
            let is_missing = diagnostics.list()[0].code == crate::diagnostic::Code::FileMissing;
            let at = if is_missing { "pf.conf:1:1: " } else { ":1:1: " };
            assert!(place.contains(at), "{place}");
        }
    }
}
