//! What changes, what stays, and what is refused.

use super::*;
use crate::facts::Facts;
use crate::limits::Limits;
use crate::parse::ParseInput;
use crate::source::MemorySources;

const FACTS: &str = "\
    interface em0 192.0.2.1/24 group egress\n\
    interface em1 10.0.0.1/24\n\
    interface lo0 loopback 127.0.0.1/8 ::1/128\n";

fn compiled(text: &str, dialect: Dialect, facts: &Facts) -> Compiled {
    let provider = MemorySources::default();
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(dialect),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    crate::compile(input, facts)
}

fn converted(text: &str, to: Dialect) -> Result<Conversion, Vec<String>> {
    let from = match to {
        Dialect::OpenBsd => Dialect::FreeBsd,
        Dialect::FreeBsd => Dialect::OpenBsd,
    };
    let facts = Facts::parse(FACTS).unwrap();
    let old = compiled(text, from, &facts);
    assert_eq!(old.error_count, 0, "{text}: {:?}", old.diagnostics);
    let result = convert(&old, to, &facts, &|text| compiled(text, to, &facts));
    result.map_err(|list| list.iter().map(|problem| problem.line(&old.sources)).collect())
}

/// The new text without the line about fragments.
fn to_openbsd(text: &str) -> String {
    let text = format!("set reassemble yes\n{text}");
    let result = converted(&text, Dialect::OpenBsd)
        .unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    result.text["set reassemble yes\n".len()..].to_owned()
}

fn to_freebsd(text: &str) -> String {
    let text = format!("set reassemble yes\n{text}");
    let result = converted(&text, Dialect::FreeBsd)
        .unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    result.text["set reassemble yes\n".len()..].to_owned()
}

#[track_caller]
fn refused(text: &str, to: Dialect, line: u32, words: &str) {
    let problems = converted(text, to).expect_err(text);
    let start = format!("pf.conf:{line}:");
    assert!(problems.iter().any(|p| p.starts_with(&start) && p.contains(words)), "{problems:?}");
}

#[test]
fn translation_becomes_match() {
    for (old, new) in [
        (
            "nat on em0 inet from em1:network to any -> (em0)\n",
            "match out on em0 inet from em1:network to any nat-to (em0)\n",
        ),
        (
            "ext = \"em0\" # outside\nnat on $ext from 10.0.0.0/8 -> { 192.0.2.5, \
             192.0.2.6 } \\\n  round-robin sticky-address\n",
            "ext = \"em0\" # outside\nmatch out on $ext from 10.0.0.0/8 nat-to { 192.0.2.5, \
             192.0.2.6 } \\\n  round-robin sticky-address\n",
        ),
        (
            "rdr on em0 proto tcp from any to em0 port 80 -> 10.0.0.80 port 8080\n",
            "match in on em0 proto tcp from any to em0 port 80 rdr-to 10.0.0.80 port 8080\n",
        ),
        (
            "rdr pass on em0 proto tcp to port 25 -> 10.0.0.25\n",
            "pass in quick on em0 proto tcp to port 25 rdr-to 10.0.0.25 flags any\n",
        ),
        (
            "binat on em0 from 10.0.0.7 to any -> 192.0.2.7\n",
            "match on em0 from 10.0.0.7 to any binat-to 192.0.2.7\n",
        ),
        (
            "scrub in on em0 all no-df max-mss 1440\n",
            "match in on em0 all scrub (no-df max-mss 1440)\n",
        ),
        ("scrub in all\n", "# OpenBSD reassembles fragments by itself: scrub in all\n"),
        ("pass in on em0 # nothing to do\n", "pass in on em0 # nothing to do\n"),
    ] {
        assert_eq!(to_openbsd(old), new);
    }
}

#[test]
fn match_becomes_translation() {
    for (old, new) in [
        (
            "match out on egress inet from !(egress:network) to any nat-to (egress:0)\npass\n",
            "nat on egress inet from !(egress:network) to any -> (egress:0)\npass\n",
        ),
        (
            "match in on em0 proto tcp to em0 port 80 rdr-to 10.0.0.80 port 8080 tag WEB\n",
            "rdr on em0 proto tcp to em0 port 80 tag WEB -> 10.0.0.80 port 8080\n",
        ),
        (
            "block all\nmatch out on em0 from 10.0.0.0/8 nat-to (em0)\npass out\n",
            "nat on em0 from 10.0.0.0/8 -> (em0)\nblock all\n\
             # The translation that stood here is above the first rule.\npass out\n",
        ),
        ("match in all scrub (no-df)\n", "match in all scrub (no-df)\n"),
    ] {
        assert_eq!(to_freebsd(old), new);
    }
}

#[test]
fn routes_lose_and_find_their_interfaces() {
    for (free, open) in [
        (
            "pass in on em1 route-to (em0 192.0.2.9) inet proto tcp from any to any\n",
            "pass in on em1 inet proto tcp from any to any route-to 192.0.2.9\n",
        ),
        (
            "pass in log quick on { em1 em0 } dup-to (em0 192.0.2.9) inet # a copy\n",
            "pass in log quick on { em1 em0 } inet dup-to 192.0.2.9 # a copy\n",
        ),
        (
            "pass in reply-to { (em0 192.0.2.9), (em1 10.0.0.9) } round-robin inet\n",
            "pass in inet reply-to { 192.0.2.9, 10.0.0.9 } round-robin\n",
        ),
        (
            "gw = \"192.0.2.9\"\nanchor in {\n\tpass in route-to (em0 $gw) inet\n}\n",
            "gw = \"192.0.2.9\"\nanchor in {\n\tpass in inet route-to $gw\n}\n",
        ),
    ] {
        assert_eq!(to_openbsd(free), open);
        assert_eq!(to_freebsd(open), free);
    }
    let macros = "if = \"em0\"\ngw = \"192.0.2.9\"\n";
    assert_eq!(
        to_openbsd(&format!("{macros}pass in route-to ( $if $gw ) \\\n\tinet keep state\n")),
        format!("{macros}pass in \\\n\tinet keep state route-to $gw\n")
    );
    assert_eq!(
        to_freebsd(&format!("{macros}pass in on em1 route-to ($if $gw)\n")),
        format!("{macros}pass in on em1 route-to ($if $gw)\n"),
        "the interface stands there"
    );
    assert_eq!(
        to_freebsd("pass in on em1 inet route-to { (em0 192.0.2.9) (em0 198.51.100.8) }\n"),
        "pass in on em1 route-to { (em0 192.0.2.9) (em0 198.51.100.8) } inet\n"
    );
    assert_eq!(
        to_freebsd("pass out on em1 inet route-to 192.0.2.9@em0 label \"x\"\n"),
        "pass out on em1 route-to (em0 192.0.2.9) inet label \"x\"\n"
    );
}

#[test]
fn fragments_are_treated_as_before() {
    let result = converted("pass\n", Dialect::OpenBsd).unwrap();
    assert_eq!(result.text, "# As on FreeBSD without scrub.\nset reassemble no\npass\n");
    assert_eq!(result.changes.len(), 1);
    let result = converted("pass\n", Dialect::FreeBsd).unwrap();
    assert_eq!(result.text, "# As on OpenBSD by default.\nset reassemble yes\npass\n");
    let result = converted("scrub in on em0 all\npass\n", Dialect::OpenBsd).unwrap();
    assert_eq!(result.notes.len(), 1);
}

#[test]
fn there_and_back_is_the_same() {
    let text = "nat on em0 inet from 10.0.0.0/8 to any -> (em0)\n\
                rdr on em0 proto tcp from any to em0 port 80 -> 10.0.0.80\npass\n";
    assert_eq!(to_freebsd(&to_openbsd(text)), text);
}

#[test]
fn weirs_own_words_are_refused() {
    for to in [Dialect::OpenBsd, Dialect::FreeBsd] {
        refused("pass\nset hashsize 64\n", to, 2, "`set hashsize` is weir's own");
        let rules = "set state-reserve 9\nanchor a {\n pass keep state (reserve)\n}\n";
        refused(rules, to, 1, "`set state-reserve` is weir's own");
        refused(rules, to, 3, "`reserve` is weir's own");
    }
}

#[test]
fn what_would_mean_something_else_is_refused() {
    for (text, line, words) in [
        ("no nat on em0 to 10.0.0.0/8\nnat on em0 -> (em0)\n", 1, "makes an exception"),
        ("pass\nnat on em0 -> (em0)\n", 2, "evaluates this before the rules above it"),
        ("nat on em0 from 10.0.0.0/8 -> (em0)\nnat on em0 -> 192.0.2.9\n", 2, "of line 1"),
        ("pass in route-to (em1 192.0.2.9) inet\n", 1, "do not say that this is em1"),
        ("pass in route-to (em0 198.51.100.9) inet\n", 1, "do not say that this is em0"),
        ("pass in route-to em0\n", 1, "need the address of a next hop"),
        ("gw = \"(em0 192.0.2.9)\"\npass in route-to $gw inet\n", 2, "comes from a macro"),
        ("pass in inet6 reply-to (em0 fe80::9)\n", 1, "do not say that this is em0"),
        ("anchor a {\n pass in route-to (em1 192.0.2.9) inet\n}\n", 2, "do not say"),
        ("nat-anchor \"ftp-proxy/*\"\n", 1, "no `nat-anchor`"),
        ("binat pass on em0 from 10.0.0.7 to any -> 192.0.2.7\n", 1, "both directions"),
        (
            "altq on em0 cbq bandwidth 10Mb queue { q }\nqueue q cbq(default)\n",
            1,
            "cannot express this",
        ),
        ("scrub in all fragment no reassemble\n", 1, "all fragments or none"),
    ] {
        refused(text, Dialect::OpenBsd, line, words);
    }
    for (text, line, words) in [
        ("match out on em0 nat-to (em0)\nmatch out on em0 nat-to 192.0.2.9\n", 2, "of line 1"),
        ("pass out quick on em0\nmatch out on em0 nat-to (em0)\n", 2, "of line 1"),
        ("block out from 10.0.0.9\nmatch out on em0 nat-to (em0)\n", 2, "look at their addresses"),
        ("match out on em0 nat-to (em0) label \"x\"\n", 1, "no `label`"),
        ("pass in on rdomain 1\n", 1, "freebsd's pf.conf cannot express this"),
        ("pass in inet route-to 198.51.100.9\n", 1, "do not say which leads there"),
        ("pass in inet route-to (em0)\n", 1, "do not say which leads there"),
    ] {
        refused(text, Dialect::FreeBsd, line, words);
    }
}

#[test]
fn rules_that_exclude_each_other_are_converted() {
    let text = "rdr on em0 proto tcp to em0 port 80 -> 10.0.0.80\n\
                rdr on em0 proto tcp to em0 port { 81, 90:99 } -> 10.0.0.81\n\
                rdr on em0 proto udp to em0 port 80 -> 10.0.0.82\n\
                rdr on em1 -> 10.0.0.83\n\
                nat on em0 from 10.0.0.0/25 -> (em0)\n\
                nat on em0 from 10.0.0.128/25 -> 192.0.2.9\n";
    assert_eq!(to_openbsd(text).matches("match").count(), 6);
}
