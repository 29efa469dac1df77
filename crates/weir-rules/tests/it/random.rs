//! Random input: never a panic, and what is accepted prints as a fixed point.

use proptest::prelude::*;

use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::source::MemorySources;
use weir_rules::{Compiled, Dialect, compile};

const FACTS: &str = include_str!("../fixtures/facts.txt");

fn run(bytes: &[u8], dialect: Option<Dialect>, facts: &Facts, limits: Limits) -> Compiled {
    let provider = MemorySources::default().with("loop", "include \"loop\"\npass in\n");
    let macros = [("fixed".to_owned(), "em0".to_owned())];
    let input =
        ParseInput { name: "random", bytes, dialect, macros: &macros, provider: &provider, limits };
    compile(input, facts)
}

fn printed(compiled: &Compiled, facts: &Facts) -> String {
    let dialect = compiled.ruleset.dialect;
    let options = PrintOptions::default();
    Printer { dialect, resolver: facts, options }.ruleset(&compiled.ruleset)
}

fn small() -> Limits {
    Limits { rule_count_max: 2000, nesting_depth_max: 16, ..Limits::default() }
}

/// Words that a rule file is made of, so that random ones get somewhere.
const WORDS: &[&str] = &[
    "pass",
    "block",
    "match",
    "in",
    "out",
    "log",
    "quick",
    "on",
    "em0",
    "inet",
    "inet6",
    "proto",
    "tcp",
    "udp",
    "icmp",
    "from",
    "to",
    "any",
    "all",
    "port",
    "80",
    "ssh",
    "1:2",
    "10.0.0.1",
    "10/8",
    "::1",
    "<t>",
    "(em0)",
    "{",
    "}",
    ",",
    "!",
    "/",
    "(",
    ")",
    "\n",
    "\n",
    "keep",
    "state",
    "flags",
    "S/SA",
    "label",
    "\"x\"",
    "$fixed",
    "$m",
    "m",
    "=",
    "\"$m\"",
    "table",
    "nat",
    "rdr",
    "->",
    "set",
    "skip",
    "limit",
    "anchor",
    "scrub",
    "no-df",
    "route-to",
    "nat-to",
    "rdr-to",
    "af-to",
    "binat-to",
    "tag",
    "queue",
    "\\\n",
    "#",
    "'",
    "include",
    "\"loop\"",
    "antispoof",
    "for",
    "><",
    "<>",
    "0x10",
    "5",
    "99999999999999999999",
    "é",
    "\u{c}",
    "-",
    "a - b",
    "max",
    "probability",
    "50%",
    "ether",
    "altq",
    "bandwidth",
    "state",
    "limiter",
    "id",
    "load",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 0..60).prop_map(|words| words.join(" "))
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_map(ToOwned::to_owned)
}

/// An address or a list of them.
fn host() -> impl Strategy<Value = String> {
    let single = prop_oneof![
        Just("any".to_owned()),
        one_of(&["<bad>", "! <bad>", "em0", "em0:network", "(em1)", "(em0:0)/24", "self", "lo0"]),
        one_of(&["no-route", "www.example.org", "10.0.0.1 - 10.0.0.9", "unknown.example"]),
        (any::<u32>(), 0..33_u8).prop_map(|(address, bits)| {
            format!("{}/{bits}", std::net::Ipv4Addr::from_bits(address))
        }),
        (any::<u128>(), 0..129_u8).prop_map(|(address, bits)| {
            format!("! {}/{bits}", std::net::Ipv6Addr::from_bits(address))
        }),
    ];
    prop_oneof![
        3 => single.clone().boxed(),
        1 => prop::collection::vec(single, 1..4)
            .prop_map(|hosts| format!("{{ {} }}", hosts.join(", ")))
            .boxed(),
    ]
}

fn port() -> impl Strategy<Value = String> {
    let single = prop_oneof![
        any::<u16>().prop_map(|port| port.to_string()),
        any::<u16>().prop_map(|port| format!("!= {port}")),
        any::<u16>().prop_map(|port| format!(">= {port}")),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| format!("{}:{}", a.min(b), a.max(b))),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| format!("{a} >< {b}")),
        one_of(&["ssh", "domain", "https", "proxy"]),
    ];
    prop::collection::vec(single, 1..3).prop_map(|ports| format!("{{ {} }}", ports.join(" ")))
}

/// Every option of both dialects; those of the other one are refused, and that is fine.
const OPTIONS: &[&str] = &[
    "flags any",
    "flags S/SAFR",
    "tos 0x10",
    "tos ef",
    "prio 3",
    "set prio 2",
    "set (prio (1, 2), tos lowdelay)",
    "no state",
    "keep state",
    "keep state (max 5, no-sync, sloppy)",
    "keep state (max-src-conn-rate 3/4, overload <bad> flush global)",
    "keep state (source-track rule, max-src-nodes 3, tcp.first 10, udp.single 3)",
    "modulate state",
    "synproxy state (if-bound)",
    "probability 12.5%",
    "fragment",
    "allow-opts",
    "label \"$if:$srcaddr:$dstport\"",
    "label a_b-c",
    "once",
    "queue (a, b)",
    "tag X",
    "! tagged \"Y Z\"",
    "tagged Y",
    "rtable 3",
    "received-on em1",
    "max-pkt-rate 10/2",
    "scrub (no-df max-mss 1400)",
    "divert-reply",
    "user { root, > 1000 }",
    "group 5",
    "nat-to 198.51.100.2",
    "nat-to (em0) static-port",
    "nat-to { 198.51.100.2, 198.51.100.3 } round-robin sticky-address",
    "rdr-to 10.0.0.5 port 80",
    "rdr-to <pool>",
    "binat-to 198.51.100.9",
    "af-to inet from 198.51.100.2",
    "icmp-type { echoreq, unreach code 3 }",
    "icmp6-type { echoreq, neighbrsol code 0 }",
    "flags /SFRA",
    "set tos ef",
    "set queue a",
    "set (queue (a, b), delay 5)",
    "keep state (max 100)",
    "keep state (max 100, adaptive.start 5, tcp.tsdiff 3, sctp.first 4, src.track 6)",
    "keep state (pflow, floating, source-track global)",
    "keep state (allow-related)",
    "keep state (max-src-states 3, max-src-conn 5, overload <bad>)",
    "ridentifier 7",
    "label a label \"b c\"",
    "label 'a\\\\ b'",
    "dnpipe (1, 2)",
    "dnqueue 3",
    "received-on any",
    "! received-on lan",
    "divert-to 700",
    "divert-to 127.0.0.1 port http",
    "divert-packet port 5",
    "state limiter id 1 (no-match)",
    "source limiter id 2 (block)",
    "nat-to 198.51.100.0/28 source-hash 0x00112233445566778899aabbccddeeff",
    "nat-to 198.51.100.0/28 source-hash \"a key\" sticky-address",
    "nat-to 198.51.100.0/28 bitmask",
    "nat-to 198.51.100.0/28 random",
    "nat-to 198.51.100.2 port 1024:2000",
    "nat-to 198.51.100.2 map-e-portset 6/8/3",
    "nat-to 198.51.100.2 endpoint-independent",
    "rdr-to { 10.0.0.5 weight 2, 10.0.0.6 } least-states",
    "rdr-to 10.0.0.5 port 5000:*",
    "af-to inet6 from 2001:db8:1::2 to 2001:db8:2::9",
    "route-to 198.51.100.1@em0",
    "route-to { 198.51.100.1, 198.51.100.3 } round-robin",
    "reply-to 2001:db8:1::1",
    "dup-to (tun0)",
    "tagged X tag Y",
    "probability 0.0001",
    "scrub (random-id, min-ttl 3, reassemble tcp)",
    "scrub (set-tos 4)",
];

/// Options, few of them at once; a rule in which two collide is refused too.
fn options() -> impl Strategy<Value = String> {
    prop::collection::vec(one_of(OPTIONS), 0..4).prop_map(|options| options.join(" "))
}

fn rule() -> impl Strategy<Value = String> {
    let action = one_of(&[
        "pass",
        "block",
        "block return",
        "block return-rst",
        "block return-icmp (host-unr, admin-unr)",
        "match",
    ]);
    let head = (
        one_of(&["", "in", "out"]),
        one_of(&["", "log", "log (all, to pflog2)", "quick", "log quick"]),
        one_of(&["", "on em0", "on ! em1", "on { em0, tun0 }", "on lan", "on any", "on rdomain 3"]),
        one_of(&[
            "",
            "",
            "",
            "route-to (em0 198.51.100.1)",
            "reply-to tun0",
            "dup-to (em1 10.0.0.1)",
        ]),
        one_of(&["", "", "inet", "inet6"]),
        one_of(&["", "proto tcp", "proto { tcp, udp }", "proto icmp", "proto icmp6", "proto 253"]),
    );
    let hosts = (host(), prop::option::of(port()), host(), prop::option::of(port()));
    (action, head, hosts, options()).prop_map(|(action, head, hosts, options)| {
        let (direction, log, on, route, af, proto) = head;
        let (from, from_port, to, to_port) = hosts;
        let port = |port: Option<String>| port.map_or(String::new(), |port| format!("port {port}"));
        let (from_port, to_port) = (port(from_port), port(to_port));
        format!(
            "{action} {direction} {log} {on} {route} {af} {proto} \
             from {from} {from_port} to {to} {to_port} {options}\n"
        )
    })
}

/// A rule of FreeBSD's old forms.
fn old_rule() -> impl Strategy<Value = String> {
    let translation =
        one_of(&["nat", "nat pass", "rdr", "rdr pass log", "binat", "no nat", "no rdr"]);
    let on = one_of(&["", "on em0", "on { em0, lan }", "on ! em1 inet", "on em0 inet6 proto tcp"]);
    let pool = one_of(&[
        "",
        "-> 198.51.100.2",
        "-> (em0) static-port",
        "-> { 10.0.0.5, 10.0.0.6 } sticky-address",
        "-> 198.51.100.0/28 source-hash",
        "-> 10.0.0.5 port 5000:*",
        "-> 2001:db8:2::10 port http",
        "-> <pool> round-robin",
        "tag X -> 198.51.100.2 port 1024:2000",
    ]);
    let hosts = (host(), prop::option::of(port()), host(), prop::option::of(port()));
    let translated = (translation, on, hosts, pool).prop_map(|(action, on, hosts, pool)| {
        let (from, from_port, to, to_port) = hosts;
        let port = |port: Option<String>| port.map_or(String::new(), |port| format!("port {port}"));
        let (from_port, to_port) = (port(from_port), port(to_port));
        format!("{action} {on} from {from} {from_port} to {to} {to_port} {pool}\n")
    });
    let scrub = one_of(&[
        "no-df",
        "random-id min-ttl 5",
        "max-mss 1400 set-tos lowdelay",
        "reassemble tcp",
        "fragment reassemble",
        "fragment no reassemble",
        "rtable 1",
        "! tagged X",
    ]);
    let scrub = (one_of(&["scrub", "scrub in", "scrub out log on em0", "no scrub"]), host(), scrub)
        .prop_map(|(action, to, option)| format!("{action} from any to {to} {option}\n"));
    prop_oneof![3 => translated, 1 => scrub]
}

/// The statements of the accepted cases in a dialect; an anchor with its rules is one.
fn statements(dialect: Dialect) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/accept");
    let mut statements = Vec::new();
    let mut entries: Vec<_> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let text = std::fs::read_to_string(path).unwrap();
        if !text.starts_with(&format!("# dialect: {dialect}\n")) {
            continue;
        }
        let mut statement = String::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            statement.push_str(line);
            statement.push('\n');
            let is_open = statement.contains("{\n") && line != "}";
            if !is_open && !line.ends_with('\\') {
                statements.push(std::mem::take(&mut statement));
            }
        }
    }
    assert!(statements.len() > 150, "{dialect}: {} statements", statements.len());
    statements
}

/// The project's own cases, from which random ones are made.
fn corpus() -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    for family in ["accept", "itself", "refuse"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        for entry in std::fs::read_dir(path.join(family)).unwrap() {
            corpus.push(std::fs::read(entry.unwrap().path()).unwrap());
        }
    }
    corpus.sort();
    corpus
}

/// A change of a file: where, how much is taken away, and what comes instead.
fn edit() -> impl Strategy<Value = (prop::sample::Index, usize, Vec<u8>)> {
    let word = prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec());
    let bytes = prop::collection::vec(any::<u8>(), 0..4);
    (any::<prop::sample::Index>(), 0..40_usize, prop_oneof![word, bytes])
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(&[Dialect::FreeBsd, Dialect::OpenBsd][..])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        // The same cases each time; raise the count, or change the seed, to look further.
        rng_seed: proptest::test_runner::RngSeed::Fixed(4711),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let facts = Facts::parse(FACTS).unwrap();
        let compiled = run(&bytes, None, &facts, small());
        printed(&compiled, &facts);
    }

    #[test]
    fn any_change_of_a_case_is_read_or_refused(
        case in any::<prop::sample::Index>(),
        edits in prop::collection::vec(edit(), 1..12),
        dialect in dialect(),
    ) {
        let facts = Facts::parse(FACTS).unwrap();
        let mut bytes = case.get(&corpus()).clone();
        for (at, count, new) in edits {
            let start = at.index(bytes.len() + 1);
            let end = (start + count).min(bytes.len());
            bytes.splice(start..end, new);
        }
        let compiled = run(&bytes, Some(dialect), &facts, small());
        let first = printed(&compiled, &facts);
        let again = run(first.as_bytes(), Some(dialect), &facts, small());
        prop_assert_eq!(again.error_count, 0, "{}\n{:?}", first, again.diagnostics);
        prop_assert_eq!(printed(&again, &facts), first);
    }

    #[test]
    fn any_words_are_read_or_refused(text in soup(), dialect in dialect()) {
        let facts = Facts::parse(FACTS).unwrap();
        let compiled = run(text.as_bytes(), Some(dialect), &facts, small());
        for diagnostic in &compiled.diagnostics {
            prop_assert!(diagnostic.line(&compiled.sources).contains(&diagnostic.message));
        }
        let first = printed(&compiled, &facts);
        if compiled.error_count == 0 {
            let again = run(first.as_bytes(), Some(dialect), &facts, small());
            prop_assert_eq!(again.error_count, 0, "{}\n{}\n{:?}", text, first, again.diagnostics);
            prop_assert_eq!(printed(&again, &facts), first);
        }
    }

    #[test]
    fn any_statements_of_the_cases_print_as_a_fixed_point(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        dialect in dialect(),
    ) {
        let facts = Facts::parse(FACTS).unwrap();
        let statements = statements(dialect);
        let text: String = picks.iter().map(|pick| pick.get(&statements).as_str()).collect();
        let first = printed(&run(text.as_bytes(), Some(dialect), &facts, small()), &facts);
        let again = run(first.as_bytes(), Some(dialect), &facts, small());
        prop_assert_eq!(again.error_count, 0, "{}\n{}\n{:?}", text, first, again.diagnostics);
        prop_assert_eq!(printed(&again, &facts), first);
    }

    #[test]
    fn what_is_accepted_prints_as_a_fixed_point(
        rules in prop::collection::vec(prop_oneof![3 => rule(), 1 => old_rule()], 1..8),
        dialect in dialect(),
    ) {
        let facts = Facts::parse(FACTS).unwrap();
        let text = rules.concat();
        let compiled = run(text.as_bytes(), Some(dialect), &facts, Limits::default());
        let first = printed(&compiled, &facts);
        let again = run(first.as_bytes(), Some(dialect), &facts, Limits::default());
        prop_assert_eq!(again.error_count, 0, "{}\n{}\n{:?}", text, first, again.diagnostics);
        prop_assert_eq!(printed(&again, &facts), first);
    }
}

#[test]
fn macros_that_double_each_other_meet_their_limit() {
    let facts = Facts::parse(FACTS).unwrap();
    let text = format!("a = {}\n{}", "x".repeat(800), "a = $a $a\n".repeat(100));
    let limits = Limits { macro_size_bytes_max: 1 << 20, ..Limits::default() };
    let compiled = run(text.as_bytes(), Some(Dialect::FreeBsd), &facts, limits);
    let messages: Vec<&str> =
        compiled.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    assert_eq!(messages, ["macros expand to more than 1048576 bytes"]);
}

#[test]
fn deep_and_wide_input_meets_its_limits() {
    let facts = Facts::parse(FACTS).unwrap();
    let hosts: Vec<String> =
        (0..1100).map(|host| format!("10.0.{}.{}", host / 256, host % 256)).collect();
    let list = format!("{{ {} }}", hosts.join(" "));
    for (text, part) in [
        (format!("pass from {}", "{ ".repeat(100_000)), "nested deeper than 64"),
        ("anchor { \n".repeat(100_000), "nested deeper than 64"),
        (
            format!("pass from {list} to {list}\n"),
            "1100 sources × 1100 destinations = 1210000 rules",
        ),
        ("include \"loop\"\n".to_owned(), "`loop` includes itself: random -> loop -> loop"),
        (format!("pass label \"{}\"\n", "x".repeat(10_000)), "longer than 8096 bytes"),
    ] {
        let compiled = run(text.as_bytes(), Some(Dialect::FreeBsd), &facts, Limits::default());
        let found = compiled.diagnostics.iter().any(|diagnostic| diagnostic.message.contains(part));
        assert!(found, "{part}: {:?}", compiled.diagnostics.first());
    }
}

/// A hundred broken statements give a hundred errors, each at its own line, and what is right
/// between them is read.
#[test]
fn what_is_wrong_in_one_statement_does_not_reach_the_next() {
    let facts = Facts::parse(FACTS).unwrap();
    for broken in [
        "pass proto tcp to port { 22, ! }",
        "pass from { 10.0.0.1, { 10.0.0.300 } }",
        "pass label \"never closed",
        "pass in quikc",
        "anchor \"a\" quikc {\n}",
        "pass proto { tcp, udp to any",
        "m = \"never closed",
    ] {
        let text = format!("{broken}\nblock in on em0\n").repeat(100);
        let limits = Limits { nesting_depth_max: 16, ..Limits::default() };
        let compiled = run(text.as_bytes(), Some(Dialect::FreeBsd), &facts, limits);
        let step = broken.lines().count() + 1;
        let lines: Vec<usize> = compiled
            .diagnostics
            .iter()
            .map(|diagnostic| compiled.sources.start(diagnostic.span).line as usize)
            .collect();
        let expected: Vec<usize> = (0..100).map(|nth| nth * step + 1).collect();
        assert_eq!(lines, expected, "{broken}: {:?}", compiled.diagnostics.first());
        assert_eq!(compiled.ruleset.main.filter.len(), 100, "{broken}");
    }
}
