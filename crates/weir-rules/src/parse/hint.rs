//! Hints at an unexpected word: slips, words of other firewalls, and words in the wrong place.

use strsim::osa_distance;

use super::Parser;
use crate::diagnostic::{Diagnostic, Suggestion, nearest};
use crate::lex::TokenKind;
use crate::names;

/// Every word that can follow the hosts of a rule, and those in front that are often forgotten.
pub(super) const OPTION_WORDS: &[&str] = &[
    "user",
    "group",
    "flags",
    "icmp-type",
    "icmp6-type",
    "tos",
    "prio",
    "keep",
    "modulate",
    "synproxy",
    "no",
    "fragment",
    "allow-opts",
    "label",
    "ridentifier",
    "once",
    "queue",
    "dnpipe",
    "dnqueue",
    "tag",
    "tagged",
    "rtable",
    "probability",
    "received-on",
    "divert-to",
    "divert-reply",
    "divert-packet",
    "max-pkt-rate",
    "set",
    "scrub",
    "nat-to",
    "rdr-to",
    "binat-to",
    "af-to",
    "route-to",
    "reply-to",
    "dup-to",
    "state",
    "source",
    "in",
    "out",
    "log",
    "quick",
    "on",
    "inet",
    "inet6",
    "proto",
    "from",
    "to",
    "port",
    "os",
    "all",
    "min-ttl",
    "max-mss",
    "no-df",
    "random-id",
    "reassemble",
    "set-tos",
];

/// What comes in a fixed order in front of a rule's options.
const HEAD_ORDER: &[&str] =
    &["in", "out", "log", "quick", "on", "inet", "inet6", "proto", "all", "from", "os", "to"];

/// Words that begin a rule elsewhere, and pf's words for them.
const STATEMENTS_ELSEWHERE: &[(&str, &str)] = &[
    ("accept", "pass"),
    ("allow", "pass"),
    ("permit", "pass"),
    ("deny", "block"),
    ("drop", "block drop"),
    ("discard", "block drop"),
    ("reject", "block return"),
    ("unreach", "block return"),
    ("redirect", "rdr"),
    ("masquerade", "nat"),
    ("load-anchor", "load anchor"),
    ("return", "block return"),
    ("return-rst", "block return-rst"),
    ("return-icmp", "block return-icmp"),
];

/// Words within a rule elsewhere, and pf's words for them.
const WORDS_ELSEWHERE: &[(&str, &str)] = &[
    ("dport", "to port"),
    ("sport", "from port"),
    ("dst-port", "to port"),
    ("src-port", "from port"),
    ("dst", "to"),
    ("dest", "to"),
    ("destination", "to"),
    ("src", "from"),
    ("via", "on"),
    ("iface", "on"),
    ("interface", "on"),
    ("protocol", "proto"),
    ("ip", "inet"),
    ("ip4", "inet"),
    ("ipv4", "inet"),
    ("inet4", "inet"),
    ("ip6", "inet6"),
    ("ipv6", "inet6"),
    ("keep-state", "keep state"),
    ("no-state", "no state"),
    ("modulate-state", "modulate state"),
    ("synproxy-state", "synproxy state"),
    ("setup", "flags S/SA"),
    ("logging", "log"),
    ("incoming", "in"),
    ("outgoing", "out"),
    ("reject", "return"),
    ("deny", "drop"),
    ("icmptype", "icmp-type"),
    ("icmp-types", "icmp-type"),
    ("icmptypes", "icmp-type"),
    ("icmp6type", "icmp6-type"),
    ("dscp", "tos"),
    ("priority", "prio"),
    ("comment", "label"),
    ("fib", "rtable"),
    ("dnat", "rdr-to"),
    ("snat", "nat-to"),
];

/// Names of ICMP's types elsewhere, and pf's.
const ICMP_ELSEWHERE: &[(&str, &str)] = &[
    ("echo", "echoreq"),
    ("ping", "echoreq"),
    ("echo-request", "echoreq"),
    ("echo_request", "echoreq"),
    ("echo-reply", "echorep"),
    ("echo_reply", "echorep"),
    ("pong", "echorep"),
    ("destination-unreachable", "unreach"),
    ("dest-unreachable", "unreach"),
    ("unreachable", "unreach"),
    ("source-quench", "squench"),
    ("redirect", "redir"),
    ("time-exceeded", "timex"),
    ("ttl-exceeded", "timex"),
    ("parameter-problem", "paramprob"),
    ("router-advertisement", "routeradv"),
    ("router-solicitation", "routersol"),
    ("neighbor-solicitation", "neighbrsol"),
    ("neighbour-solicitation", "neighbrsol"),
    ("neighbor-advertisement", "neighbradv"),
    ("neighbour-advertisement", "neighbradv"),
    ("packet-too-big", "toobig"),
    ("fragmentation-needed", "needfrag"),
    ("port-unreachable", "port-unr"),
    ("host-unreachable", "host-unr"),
    ("net-unreachable", "net-unr"),
    ("proto-unreachable", "proto-unr"),
    ("protocol-unreachable", "proto-unr"),
    ("admin-prohibited", "filter-prohib"),
];

/// With pf's name for a type or code of ICMP: that of a word used elsewhere, or the nearest.
pub(super) fn icmp_name<'n>(
    problem: Diagnostic,
    word: &str,
    known: impl Iterator<Item = &'n str>,
) -> Diagnostic {
    match elsewhere(ICMP_ELSEWHERE, word) {
        Some(meant) => suggest(problem, meant),
        None => problem.nearest(word, known),
    }
}

fn elsewhere(list: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    list.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant)
}

impl Parser<'_> {
    /// What a word that begins no statement was meant to be.
    pub(super) fn statement_hint(&self, problem: Diagnostic, word: &str) -> Diagnostic {
        if let Some(meant) = elsewhere(STATEMENTS_ELSEWHERE, word) {
            return suggest(problem, meant);
        }
        let help = match word {
            "nat-to" => "it is an option of a rule: `match out on … nat-to …`",
            "rdr-to" => "it is an option of a rule: `match in on … rdr-to …`",
            "binat-to" => "it is an option of a rule: `match on … binat-to …`",
            "af-to" => "it is an option of a rule: `pass in inet6 … af-to inet from …`",
            "route-to" | "reply-to" | "dup-to" => "it is part of a rule: `pass in … route-to …`",
            "in" | "out" | "quick" | "on" | "from" | "to" | "proto" | "all" | "inet" | "inet6" => {
                "a rule begins with `pass`, `block` or `match`; a line continues on the next one \
                 after a backslash at its very end"
            }
            "keep" | "flags" | "label" | "port" | "modulate" | "synproxy" | "tag" | "icmp-type" => {
                "a rule continues on the next line after a backslash at the very end of its line"
            }
            _ => {
                return problem.nearest(word, self.statement_words());
            }
        };
        problem.help(help)
    }

    /// What a word that cannot go on a rule was meant to be.
    pub(super) fn hint(&mut self, problem: Diagnostic, kind: &TokenKind) -> Diagnostic {
        let takes_hosts = self.tried.contains(&"to");
        match kind {
            TokenKind::Word(word) => self.word_hint(problem, word),
            TokenKind::Arrow => problem.help(
                "`->` is for `nat`, `rdr` and `binat`; in this rule, write `nat-to`, `rdr-to` or \
                 `binat-to`",
            ),
            TokenKind::Punct('<' | '{' | '(' | '!') | TokenKind::Number(_) if takes_hosts => {
                problem.help("addresses follow `from` or `to`, ports follow those and `port`")
            }
            TokenKind::Punct('=') => {
                problem.help("`=` is for macros, `name = value`, and in front of a port")
            }
            _ => problem,
        }
    }

    /// The words that are nearest to an unexpected one: of two as near, the one that fits here.
    fn near_words(&self, word: &str) -> Option<&'static str> {
        let options = OPTION_WORDS.iter().filter(|option| **option != word);
        let lists = [nearest(word, self.tried.iter().copied()), nearest(word, options.copied())];
        lists.into_iter().flatten().min_by_key(|known| osa_distance(word, known))
    }

    fn word_hint(&mut self, problem: Diagnostic, word: &str) -> Diagnostic {
        let tries = |parser: &Self, tried: &str| parser.tried.contains(&tried);
        if word == "port" {
            let place = if tries(self, "from") || tries(self, "to") { "to port" } else { "port" };
            let help = "`port` follows `from`, `to`, or their address";
            let problem = Diagnostic { message: format!("{}: {help}", problem.message), ..problem };
            return if place == "port" { problem } else { suggest(problem, place) };
        }
        if HEAD_ORDER.contains(&word) {
            let order = HEAD_ORDER.join(", ");
            return problem
                .help(format!("`{word}` is out of order or repeated; the order is {order}"));
        }
        if let Some(meant) = elsewhere(WORDS_ELSEWHERE, word) {
            return suggest(problem, meant);
        }
        if tries(self, "proto") && names::PROTOCOLS.iter().any(|(name, _)| *name == word) {
            return suggest(problem, &format!("proto {word}"));
        }
        if tries(self, "to") && super::host::address(word).is_some() {
            return suggest(problem, &format!("to {word}")).help("addresses follow `from` or `to`");
        }
        let problem = problem.nearest(word, self.near_words(word));
        if problem.suggestion.is_none() && tries(self, "on") && looks_like_interface(word) {
            return suggest(problem, &format!("on {word}"))
                .help("the name of an interface follows `on`");
        }
        problem
    }
}

fn suggest(problem: Diagnostic, replacement: &str) -> Diagnostic {
    let suggestion = Suggestion { span: problem.span, replacement: replacement.to_owned() };
    Diagnostic { suggestion: Some(suggestion), ..problem }
}

/// Letters and then digits, as `em0`.
fn looks_like_interface(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    letters.len() < word.len()
        && !letters.is_empty()
        && letters.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
}
