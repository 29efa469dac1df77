//! One line of pf.conf for each refusal, and the document that lists them.

use weir_rules::Dialect;
use weir_rules::facts::Facts;

use super::*;
use crate::testing::ruleset;

fn diagnostics_of(text: &str, dialect: Dialect) -> Vec<Diagnostic> {
    let facts = Facts::parse("interface em0 192.0.2.1/24\ninterface em1 198.51.100.1/24").unwrap();
    diagnostics(&ruleset(text, dialect, &facts))
}

/// A text for each refusal.
fn cases() -> Vec<(Refusal, Dialect, &'static str)> {
    use Dialect::{FreeBsd, OpenBsd};
    use Refusal::*;
    vec![
        (AfTo, OpenBsd, "pass in inet6 af-to inet from 192.0.2.1 route-to 198.51.100.2"),
        (AfTo, OpenBsd, "pass in inet6 af-to inet from 192.0.2.1 set prio 3"),
        (AfTo, FreeBsd, "pass in inet6 dnpipe 1 af-to inet from 192.0.2.1"),
        (AfToPool, OpenBsd, "pass in inet6 af-to inet from 192.0.2.0/28 bitmask"),
        (
            AfToPool,
            OpenBsd,
            "pass in inet6 af-to inet from 192.0.2.1 to { 198.51.100.1 198.51.100.2 }",
        ),
        (AfToNothing, OpenBsd, "pass in inet af-to inet6 from 2001:db8::1"),
        (NatIn, OpenBsd, "pass in on em0 inet nat-to 192.0.2.1"),
        (NatIn, OpenBsd, "pass out on em0 inet proto tcp to port 80 rdr-to 192.0.2.1"),
        (Gateway, FreeBsd, "pass in on em0 reply-to (em1 198.51.100.2) no state"),
        (Gateway, OpenBsd, "pass in on em0 inet route-to 192.0.2.0/30 least-states"),
        (Gateway, FreeBsd, "pass in on em0 route-to { em1, (em2 198.51.100.2) }"),
        (Ether, FreeBsd, "ether block in on em0"),
        (ScrubTag, FreeBsd, "scrub out all no-df tagged seen"),
        (ScrubTag, FreeBsd, "scrub in from urpf-failed min-ttl 9"),
        (
            QueueFlags,
            FreeBsd,
            "altq on em0 fairq bandwidth 1Mb queue { a }\nqueue a fairq(default hogs 10)",
        ),
        (
            QueueFlags,
            FreeBsd,
            "altq on em0 cbq bandwidth 1Mb queue { a }\nqueue a cbq(default rio)",
        ),
        (Limiter, OpenBsd, "state limiter \"x\" id 1 limit 100 rate 1/40000000\npass"),
        (Os, FreeBsd, "pass in proto tcp from any os Linux"),
        (Os, FreeBsd, "rdr on em0 inet proto tcp from any os Linux to (em0) port 80 -> 192.0.2.9"),
        (Os, FreeBsd, "nat on em0 inet proto tcp from any os Linux -> (em0)"),
        (Os, FreeBsd, "rdr-anchor a from any os Linux"),
        (OsProxy, FreeBsd, "pass in proto tcp from any os Linux\npass in synproxy state"),
        (OsProxy, FreeBsd, "set syncookies always\nanchor {\npass in from any os Linux\n}"),
        (ScrubOs, FreeBsd, "scrub in proto tcp from any os Linux no-df"),
        (Rdomain, OpenBsd, "pass on rdomain 1"),
        (Rdomain, OpenBsd, "pass on ! rdomain 0"),
        (RoutingTable, FreeBsd, "pass in rtable 1"),
        (RouteLabel, FreeBsd, "pass in from route \"uplink\""),
        (SetDelay, OpenBsd, "match out set delay 16"),
        (Divert, OpenBsd, "pass in proto tcp divert-packet port 700"),
        (Divert, FreeBsd, "pass in proto tcp to port 80 divert-to 127.0.0.1 port 3128"),
        (DivertElse, OpenBsd, "pass out inet proto tcp divert-to 127.0.0.1 port 3128"),
        (DivertElse, OpenBsd, "pass in inet proto tcp divert-to 127.0.0.1 port 8021 no state"),
        (DivertElse, OpenBsd, "pass in inet proto tcp divert-reply"),
        (AllowRelated, FreeBsd, "pass in proto sctp keep state (allow-related)"),
        (RuleTimeout, FreeBsd, "pass in keep state (adaptive.start 1, adaptive.end 2)"),
        (RoutingTable, FreeBsd, "nat on em0 inet from any to any rtable 2 -> (em0)"),
        (UnresolvedHost, FreeBsd, "pass in from nowhere.example"),
        (UnresolvedHost, FreeBsd, "pass in from nowhere.example:0"),
        (UnresolvedInterface, FreeBsd, "pass in from em7:network"),
        (UnresolvedHost, FreeBsd, "rdr on em0 proto tcp to port 80 -> nowhere.example"),
        (IncompleteTable, FreeBsd, "table <t> file \"/missing\"\npass in from <t>"),
    ]
}

#[test]
fn every_refusal_has_a_line_that_is_refused() {
    let cases = cases();
    for (refusal, dialect, text) in &cases {
        let found = diagnostics_of(&format!("{text}\n"), *dialect);
        let is_found = found.iter().any(|diagnostic| {
            diagnostic.severity == weir_rules::diagnostic::Severity::Error
                && *diagnostic.label == *refusal.reason()
        });
        assert!(is_found, "{text}: {found:?}");
    }
    for refusal in Refusal::ALL {
        assert!(cases.iter().any(|(case, ..)| case == refusal), "{refusal:?} has no line");
    }
}

#[test]
fn what_the_data_path_does_is_accepted() {
    let text = "set limit states 1000\nset timeout tcp.first 10\nset skip on em1\n\
         set block-policy return\nset state-policy if-bound\nset optimization aggressive\n\
         set hashsize 1024\nset reassemble yes\n\
         table <t> const { 10.0.0.0/8, !10.1.0.0/16 }\n\
         scrub in all\n\
         no scrub on em1 proto udp\n\
         scrub on em0 inet proto tcp from <t> to any port 80 no-df random-id min-ttl 64 \
         max-mss 1440 set-tos lowdelay fragment no reassemble\n\
         match in scrub (no-df max-mss 1440)\n\
         antispoof quick for em0\n\
         block in from urpf-failed\n\
         block return log all\n\
         pass in quick on em0 inet proto tcp from <t> to (em0) port { 22, 80:90 } \
         flags S/SA keep state (max 100, source-track rule, max-src-states 5, tcp.first 30) \
         label \"x\" tagged seen probability 50%\n\
         anchor \"a\" in quick on em0 {\npass proto icmp\n}\n\
         pass out on em1 inet6 proto icmp6 icmp6-type echoreq no state allow-opts prio 3\n";
    assert_eq!(diagnostics_of(text, Dialect::FreeBsd), []);
    let nat = "no nat on em0 from 10.0.0.1\nnat pass log on em0 inet from any to any -> (em0:0)\n\
         nat-anchor \"a\"\n\
         nat-anchor \"ftp-proxy/*\"\nrdr-anchor \"ftp-proxy/*\"\nbinat-anchor \"x\"\n\
         nat on em0 inet from any to any tag seen -> 192.0.2.8/30 source-hash static-port\n\
         rdr on em0 inet proto tcp to (em0) port 80:90 -> 10.0.0.1 port 8080:*\n\
         rdr on em0 inet proto tcp to (em0) port 25 -> <mail> round-robin sticky-address\n\
         binat on em0 from 10.0.0.5 to any -> 192.0.2.7\npass tagged seen\n\
         anchor \"a\" {\nnat on em0 inet from any to any -> (em0)\n}\n";
    assert_eq!(diagnostics_of(nat, Dialect::FreeBsd), []);
    let to = "match on em0 scrub (no-df random-id max-mss 1440 min-ttl 9) set tos 16\n\
         match out on em0 inet from 10.0.0.0/8 nat-to (em0) port 6000:7000\n\
         pass in on em0 inet proto tcp to port 80 rdr-to { 10.0.0.1, 10.0.0.2 } round-robin\n\
         anchor \"a\" {\npass on em0 inet from 10.0.0.5 binat-to 192.0.2.7\n}\n\
         pass on rdomain 0\npass in on em0 rtable 0\n";
    assert_eq!(diagnostics_of(to, Dialect::OpenBsd), []);
    let local = "rdr on em0 inet proto tcp to port 80 -> 127.0.0.1 port 8080\n";
    let warned = diagnostics_of(local, Dialect::FreeBsd);
    assert!(warned.len() == 1 && warned[0].label.contains("another interface"), "{warned:?}");
    for (text, dialect) in [
        ("scrub on em0 all reassemble tcp\n", Dialect::FreeBsd),
        ("match in scrub (reassemble tcp)\npass synproxy state\n", Dialect::OpenBsd),
    ] {
        let warned = diagnostics_of(text, dialect);
        assert!(warned.len() == 1 && warned[0].label.contains("TTLs may fall"), "{warned:?}");
    }
    let ignored = "scrub in log on em0 all label \"x\"\nscrub out on em0 no-df\n";
    let warned = diagnostics_of(ignored, Dialect::FreeBsd);
    assert!(warned.len() == 3 && warned[2].label.contains("too late"), "{warned:?}");
    let nested = "anchor \"a\" {\nscrub in all no-df\n}\n";
    let warned = diagnostics_of(nested, Dialect::FreeBsd);
    assert!(warned.len() == 1 && warned[0].label.contains("main ruleset alone"), "{warned:?}");
    let late = diagnostics_of("match out on em0 scrub (no-df)\n", Dialect::OpenBsd);
    assert!(late.len() == 1 && late[0].message.contains("longer than the MTU"), "{late:?}");
    let warned = diagnostics_of("set debug misc\nset timeout tcp.tsdiff 5\n", Dialect::FreeBsd);
    assert_eq!(warned.len(), 2);
}

#[test]
fn what_is_not_there_is_named() {
    let text = "table <t> { nowhere.example, em7:network, 10/8 }\npass in from <t>\n\
         pass in from em7:network to nobody.example\n\
         load anchor x from \"/missing\"\n";
    let found = diagnostics_of(text, Dialect::FreeBsd);
    let said: Vec<(u32, &str)> =
        found.iter().map(|one| (one.span.start, one.message.as_str())).collect();
    let (rule, load) = (text.find("pass in from em7"), text.find("load"));
    let at = |found: Option<usize>| u32::try_from(found.unwrap()).unwrap();
    assert_eq!(
        said,
        [
            (12, "no address is known for `nowhere.example`"),
            (29, "no address is known for `em7:network`"),
            (at(rule), "no address is known for `em7:network`"),
            (at(rule), "no address is known for `nobody.example`"),
            (at(load), "cannot read `/missing`: no such file"),
        ]
    );
}

/// FreeBSD's pf takes such a name, OpenBSD's does not.
#[test]
fn a_queue_that_nothing_defines_is_warned_of() {
    let altq = "altq on em0 cbq bandwidth 1Mb queue { a }\nqueue a cbq(default)\n";
    let text = format!("{altq}pass out queue a\nanchor x {{\npass out queue (a, IMAP)\n}}\n");
    let found = diagnostics_of(&text, Dialect::FreeBsd);
    let said: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(said, ["no `altq` has the queue `IMAP`"]);
    assert_eq!(found[0].severity, weir_rules::diagnostic::Severity::Warning);
    let text = "queue a on em0 bandwidth 1M default\npass out set queue b\n";
    assert_eq!(diagnostics_of(text, Dialect::OpenBsd), [], "it is refused with its tree");
}

/// The text between `<!-- name -->` and the next `<!-- end -->`.
fn between<'t>(text: &'t str, name: &str) -> (&'t str, &'t str, &'t str) {
    let start = format!("<!-- {name} -->\n");
    let (before, rest) = text.split_once(&start).unwrap();
    let (found, after) = rest.split_once("<!-- end -->").unwrap();
    (before, found, after)
}

/// A table of two columns.
fn table(head: [&str; 2], rows: impl Iterator<Item = (String, String)>) -> String {
    let mut out = format!("\n| {} | {} |\n|---|---|\n", head[0], head[1]);
    for (construct, reason) in rows {
        out += &format!("| {} | {reason} |\n", construct.replace('|', "\\|"));
    }
    out + "\n"
}

/// What is refused as pf does it, too.
const AS_PF: &[Refusal] =
    &[Refusal::Os, Refusal::UnresolvedHost, Refusal::UnresolvedInterface, Refusal::IncompleteTable];

/// Lines of the document with more than one refusal: what is refused for like reasons.
const TOGETHER: &[&[Refusal]] = &[
    &[Refusal::AfTo, Refusal::AfToPool, Refusal::AfToNothing],
    &[Refusal::ScrubTag, Refusal::ScrubOs, Refusal::OsProxy],
    &[Refusal::Rdomain, Refusal::RoutingTable, Refusal::RouteLabel],
    &[Refusal::Divert, Refusal::DivertElse],
    &[Refusal::AllowRelated, Refusal::RuleTimeout, Refusal::Limiter],
];

/// Lines of the document, at most.
const LINE_COUNT_MAX: usize = 10;

/// The lines of the document: each refusal in one of them.
fn lines() -> Vec<Vec<Refusal>> {
    let mut lines: Vec<Vec<Refusal>> = Vec::new();
    for refusal in Refusal::ALL.iter().filter(|refusal| !AS_PF.contains(refusal)) {
        let together = TOGETHER.iter().find(|together| together.contains(refusal));
        match together.map(|together| together.to_vec()).unwrap_or_else(|| vec![*refusal]) {
            line if lines.contains(&line) => {}
            line => lines.push(line),
        }
    }
    lines
}

#[test]
fn the_document_lists_what_is_refused() {
    assert!(lines().len() <= LINE_COUNT_MAX, "{:?}", lines());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fw-rules.md");
    let text = std::fs::read_to_string(path).unwrap();
    let joined = |line: &[Refusal], cell: fn(Refusal) -> &'static str| {
        let mut cells: Vec<&str> = line.iter().map(|refusal| cell(*refusal)).collect();
        cells.dedup();
        cells.join("; ")
    };
    let cells =
        |line: &Vec<Refusal>| (joined(line, Refusal::construct), joined(line, Refusal::reason));
    let texts = |(left, right): &(&str, &str)| (left.to_string(), right.to_string());
    let as_pf = AS_PF.iter().map(|refusal| (refusal.construct().into(), refusal.reason().into()));
    let tables = [
        ("refusals", table(["refused", "because"], lines().iter().map(cells))),
        ("as-pf", table(["refused", "because"], as_pf)),
        ("meaningless", table(["accepted", "but"], MEANINGLESS.iter().map(texts))),
    ];
    let mut blessed = text.clone();
    for (name, table) in &tables {
        let (before, _, after) = between(&blessed, name);
        blessed = format!("{before}<!-- {name} -->\n{table}<!-- end -->{after}");
    }
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, &blessed).unwrap();
        return;
    }
    assert!(text == blessed, "docs/fw-rules.md is old: WEIR_BLESS=1 cargo test -p weir-fw refuse");
}
