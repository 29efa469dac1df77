//! Random rulesets, of values so few that rules and packets often meet.

use weir_rules::dialect::Dialect;

use super::Features;
use super::draw::Draw;
use super::translation;

const PORTS: &[&str] = &[
    "port 80",
    "port 53",
    "port { 22, 80 }",
    "port != 80",
    "port 50:90",
    "port > 60",
    "port < 80",
    "port 40 >< 90",
    "port 50 <> 70",
    "port >= 443",
    "port <= 53",
];
const HOSTS4: &[&str] = &[
    "10.0.0.5",
    "10.0.0.0/24",
    "203.0.113.9",
    "203.0.113.0/28",
    "192.0.2.0/24",
    "10.0.0.0/29",
    "! 10.0.0.6",
    "10.2.0.0/24",
    "10.0.0.5 - 10.0.0.6",
    "! 203.0.113.0/24",
    "10.0.0.1",
    "em1",
];
const HOSTS6: &[&str] = &[
    "2001:db8::5",
    "2001:db8::/64",
    "2001:db8:2::9",
    "2001:db8:2::/64",
    "! 2001:db8::6",
    "2001:db8::1",
    "2001:db8::5 - 2001:db8::6",
];
/// What fingerprints of `systems.rs` name.
const SYSTEMS: &[&str] = &[
    "os unknown",
    "os Bare",
    "os \"Bare 3.1\"",
    "os { \"Bare 1\", \"Bare 2\" }",
    "os Scaled",
    "os \"Scaled 7 large\"",
    "os \"Scaled any\"",
    "os Full",
    "os { \"Full 2 eight\", \"Full 2 two\" }",
    "os \"Full 4\"",
    "os { Scaled, Full, unknown }",
];
/// What is changed in packets.
const CHANGES: &[&str] = &[
    "set tos 0x20",
    "set tos 0x48",
    "scrub (min-ttl 32)",
    "scrub (min-ttl 255)",
    "scrub (no-df)",
    "scrub (no-df, random-id)",
    "scrub (max-mss 1200)",
    "scrub (max-mss 536, min-ttl 70)",
];
/// The same of FreeBSD's list.
const LISTED_CHANGES: &[&str] = &[
    "",
    "fragment reassemble",
    "no-df",
    "no-df random-id",
    "max-mss 1200",
    "max-mss 536 set-tos 0x10",
    "min-ttl 66",
    "min-ttl 2 set-tos 0x28",
];
/// Gateways on each of the interfaces; in OpenBSD's rules the address alone says which.
const GATEWAYS4: &[(&str, &str)] =
    &[("em0", "10.0.0.77"), ("em1", "192.0.2.77"), ("em2", "10.2.0.77")];
const GATEWAYS6: &[(&str, &str)] =
    &[("em0", "2001:db8::77"), ("em1", "2001:db8:1::77"), ("em2", "2001:db8:22::77")];
/// Limiters of rulesets that have some, and how rules name them.
const LIMITERS: &str = "\
state limiter few id 1 limit 2
state limiter paced id 2 limit 30 rate 2/10
source limiter each id 1 entries 2 limit 2 inet mask 29 inet6 mask 125
source limiter slow id 2 entries 3 limit 20 rate 2/20
";
const LIMITED: &[&str] = &[
    "state limiter few",
    "state limiter few (no-match)",
    "state limiter id 2 (block)",
    "state limiter id 9 (block)",
    "source limiter each",
    "source limiter each (no-match)",
    "source limiter slow (block)",
    "state limiter paced (no-match) source limiter slow (no-match)",
    "state limiter few (block) source limiter each (no-match)",
];
const TABLES: &[&str] = &["<one>", "<two>", "! <one>", "<three>"];

/// A rule as it grows.
struct Words {
    text: String,
}

impl Words {
    fn put(&mut self, word: &str) {
        if !word.is_empty() {
            self.text.push(' ');
            self.text.push_str(word);
        }
    }
}

/// Tables that rules ask.
const FILLED: &str = "\
table <one> { 10.0.0.0/29, !10.0.0.6, 2001:db8::/64, !2001:db8::6 }
table <two> counters { 203.0.113.9, 203.0.113.10, 2001:db8:2::9 }
table <three> persist
";

/// A ruleset of up to `rule_count` rules and what they need.
pub(super) fn ruleset(draw: &mut Draw, features: &Features, rule_count: u32) -> String {
    let mut text = String::new();
    let gateways = features.gateway_percent > 0 && draw.happens(features.gateway_percent);
    let modulates = features.modulate_percent > 0 && draw.happens(features.modulate_percent);
    let diverts = features.divert_percent > 0 && draw.happens(features.divert_percent);
    let gateways = gateways && !diverts;
    // A bound half that moves to another interface leaves its gateway behind, in the reference.
    let is_limited = features.limiter_percent > 0 && draw.happens(features.limiter_percent);
    let features = &Features {
        if_bound: features.if_bound && !gateways && !diverts,
        limiter_percent: if is_limited { 100 } else { 0 },
        modulate_percent: if modulates { 100 } else { 0 },
        ..*features
    };
    settings(draw, features, &mut text);
    if is_limited {
        text.push_str(LIMITERS);
    }
    if features.tables {
        text.push_str(FILLED);
    }
    let translates = features.translation_percent > 0 && draw.happens(features.translation_percent);
    let changes_family = features.family_percent > 0 && draw.happens(features.family_percent);
    let dialect = match translates {
        _ if changes_family => Some(Dialect::OpenBsd),
        true => Some(draw.pick(&[Dialect::FreeBsd, Dialect::OpenBsd])),
        false => None,
    };
    if features.rewrites && dialect != Some(Dialect::OpenBsd) && !diverts && draw.happens(30) {
        scrub_list(draw, features, &mut text);
    }
    if dialect == Some(Dialect::FreeBsd) {
        if features.limits && draw.happens(40) {
            text.insert_str(0, "set fail-policy return\n");
        }
        text.push_str(&translation::lists(draw, features));
    }
    if gateways {
        text.push_str(match dialect {
            Some(Dialect::OpenBsd) => "table <gates> { 192.0.2.77, 10.2.0.77, 2001:db8:22::77 }\n",
            _ => "table <gates> { 10.2.0.77, 10.2.0.78, 2001:db8:22::77 }\n",
        });
    }
    // What is blocked is not translated.
    match draw.below(4) {
        0 => {}
        _ if dialect.is_some() && draw.happens(60) => {}
        1 => text.push_str("block in\n"),
        2 => text.push_str("block return\n"),
        _ => text.push_str("block\n"),
    }
    if draw.happens(65) {
        text.push_str(draw.pick(&["pass out\n", "pass out\n", "pass out no state\n"]));
    }
    let options = dialect == Some(Dialect::OpenBsd);
    if options {
        // One at least, by which the dialect is known.
        text.push_str(&match changes_family {
            true => translation::family_change(draw, features),
            false => translation::option(draw, features),
        });
    }
    let count = 1 + draw.below(rule_count.max(1));
    if diverts {
        // By this it is known.
        text.push_str("match in inet6 proto esp scrub (min-ttl 1)\n");
    }
    rules(draw, features, &mut text, Body { count, depth: 0, options, gateways, diverts });
    text
}

/// FreeBSD's `scrub` rules, of which the first that takes a packet counts.
fn scrub_list(draw: &mut Draw, features: &Features, text: &mut String) {
    for _ in 0..1 + draw.below(3) {
        let no = if draw.happens(15) { "no " } else { "" };
        let mut words = Words { text: format!("{no}scrub") };
        words.put(draw.pick(&["in", "out", "", ""]));
        if draw.happens(50) {
            words.put(draw.pick(&["on em0", "on em1", "on lan", "on ! em1"]));
        }
        // Most of them ask for no more.
        if draw.happens(60) {
            words.put("all");
        } else {
            let family = family(draw, features, &mut words);
            let proto = protocol(draw, features, family, &mut words);
            let has_ports = matches!(proto, "proto tcp" | "proto udp" | "proto { tcp, udp }");
            words.put("from");
            words.put(host(draw, features, family));
            words.put("to");
            words.put(host(draw, features, family));
            if has_ports && draw.happens(45) {
                words.put(draw.pick(PORTS));
            }
        }
        if no.is_empty() {
            words.put(draw.pick(LISTED_CHANGES));
        }
        text.push_str(&words.text);
        text.push('\n');
    }
}

/// Rules of a ruleset or of an anchor.
#[derive(Clone, Copy)]
struct Body {
    count: u32,
    depth: u32,
    /// Some of them translate (OpenBSD).
    options: bool,
    /// Some of them choose gateways.
    gateways: bool,
    /// Some of them hand packets to sockets (OpenBSD).
    diverts: bool,
}

fn settings(draw: &mut Draw, features: &Features, text: &mut String) {
    if features.limits && draw.happens(25) {
        text.push_str(draw.pick(&[
            "set limit states 4\n",
            "set limit states 30\n",
            "set limit states 5\nset state-reserve 2\n",
        ]));
    }
    if features.timeouts && draw.happens(30) {
        text.push_str(draw.pick(&[
            "set timeout { udp.first 5, udp.single 3, tcp.opening 4 }\n",
            "set timeout { adaptive.start 3, adaptive.end 12 }\n",
            "set optimization aggressive\n",
            "set timeout { frag 2, icmp.first 4, tcp.closed 3 }\n",
        ]));
    }
    if features.if_bound && draw.happens(30) {
        text.push_str("set state-policy if-bound\n");
    }
    if features.returns && draw.happens(30) {
        text.push_str("set block-policy return\n");
    }
    if features.rewrites && draw.happens(15) {
        text.push_str("set reassemble yes no-df\n");
    }
    if features.skip && draw.happens(8) {
        text.push_str("set skip on em2\n");
    }
}

fn rules(draw: &mut Draw, features: &Features, text: &mut String, body: Body) {
    for _ in 0..body.count {
        if body.options && features.family_percent > 0 && draw.happens(30) {
            text.push_str(&translation::family_change(draw, features));
        } else if body.options && draw.happens(20) {
            text.push_str(&translation::option(draw, features));
        } else if features.anchors && body.depth < 2 && draw.happens(8) {
            let head = draw.pick(&[
                "anchor",
                "anchor in",
                "anchor out on em1",
                "anchor in quick",
                "anchor quick proto tcp",
                "anchor on lan",
            ]);
            text.push_str(head);
            text.push_str(" {\n");
            let count = 1 + draw.below(3);
            rules(draw, features, text, Body { count, depth: body.depth + 1, ..body });
            text.push_str("}\n");
        } else {
            text.push_str(&rule(draw, features, body));
            text.push('\n');
        }
    }
}

fn rule(draw: &mut Draw, features: &Features, body: Body) -> String {
    let action = draw.pick(&["pass", "pass", "pass", "pass", "block", "block", "match"]);
    let mut words = Words { text: action.to_owned() };
    if action == "block" && features.returns && draw.happens(40) {
        words.put(draw.pick(&["return", "drop", "return-icmp (host-unr, admin-unr)"]));
    }
    let direction = draw.pick(&["in", "in", "in", "out", "out", ""]);
    words.put(direction);
    if features.log && draw.happens(12) {
        words.put(draw.pick(&["log", "log (all)"]));
    }
    if features.quick && draw.happens(20) && action != "match" {
        words.put("quick");
    }
    if draw.happens(50) {
        words.put(draw.pick(&["on em0", "on em1", "on em2", "on lan", "on ! em1", "on ! lan"]));
    }
    let mut of_family = Words { text: String::new() };
    let family = family(draw, features, &mut of_family);
    let has_gateway =
        body.gateways && action == "pass" && !direction.is_empty() && draw.happens(40);
    let gateway = if has_gateway { gateway(draw, family, body.options) } else { String::new() };
    // FreeBSD's stands before the family, OpenBSD's is an option.
    if !body.options {
        words.put(&gateway);
    }
    words.text.push_str(&of_family.text);
    let proto = protocol(draw, features, family, &mut words);
    let has_ports = matches!(proto, "proto tcp" | "proto udp" | "proto { tcp, udp }");
    let has_os = matches!(proto, "" | "proto tcp");
    ends(draw, features, family, (has_ports, has_os), &mut words);
    let has_socket = body.diverts
        && action == "pass"
        && family != 0
        && !direction.is_empty()
        && draw.happens(40);
    // Answers to a gateway, what keeps to one, and what goes to a socket, make a state.
    let is_kept = gateway.starts_with("reply-to") || gateway.ends_with("sticky-address");
    let no_state = features.no_state && !is_kept && !has_socket;
    let features = Features { no_state, ..*features };
    let criteria = Criteria { action, direction, proto };
    options(draw, &features, criteria, &mut words);
    if body.options {
        words.put(&gateway);
    }
    if has_socket {
        words.put(match (direction, family) {
            ("out", _) => "divert-reply",
            (_, 6) => "divert-to ::1 port 3128",
            _ => "divert-to 127.0.0.1 port 3128",
        });
    }
    words.text
}

/// `route-to`, `reply-to` or `dup-to`, as one of the dialects has it.
fn gateway(draw: &mut Draw, family: u8, is_openbsd: bool) -> String {
    let word = draw.pick(&["route-to", "route-to", "reply-to", "dup-to"]);
    if word != "dup-to" && draw.happens(30) {
        return format!("{word} {}", gateways(draw, family, is_openbsd));
    }
    let (interface, address) = draw.pick(if family == 6 { GATEWAYS6 } else { GATEWAYS4 });
    if is_openbsd {
        return format!("{word} {address}");
    }
    format!("{word} ({interface} {address})")
}

/// A pool of them. What is drawn at random no two devices draw alike.
fn gateways(draw: &mut Draw, family: u8, is_openbsd: bool) -> &'static str {
    draw.pick(match (family, is_openbsd) {
        (6, false) => &[
            "{ (em1 2001:db8:1::77), (em2 2001:db8:22::77) } round-robin",
            "(em2 <gates>)",
            "(em1 2001:db8:1::76/127) source-hash",
        ],
        (_, false) => &[
            "{ (em1 192.0.2.76/31), (em2 10.2.0.77) } round-robin",
            "{ (em1 192.0.2.77), (em2 10.2.0.77) } round-robin sticky-address",
            "(em2 <gates>)",
            "(em1 192.0.2.76/31) bitmask",
        ],
        (6, true) => &[
            "{ 2001:db8:1::77 weight 2, 2001:db8:22::77 } round-robin",
            "<gates> source-hash",
            "<gates> round-robin",
        ],
        (_, true) => &[
            "{ 192.0.2.77 weight 2, 10.2.0.77 weight 3 } round-robin",
            "<gates> source-hash",
            "<gates> round-robin sticky-address",
            "<gates>",
        ],
    })
}

#[derive(Clone, Copy)]
struct Criteria {
    action: &'static str,
    direction: &'static str,
    proto: &'static str,
}

fn family(draw: &mut Draw, features: &Features, words: &mut Words) -> u8 {
    let family = match draw.below(10) {
        0..=4 => 0,
        5..=7 => 4,
        _ if features.ipv6 => 6,
        _ => 4,
    };
    words.put(match family {
        4 => "inet",
        6 => "inet6",
        _ => "",
    });
    family
}

fn protocol(draw: &mut Draw, features: &Features, family: u8, words: &mut Words) -> &'static str {
    let icmp = match family {
        4 => "proto icmp",
        6 => "proto icmp6",
        _ => "proto udp",
    };
    let list = ["", "", "proto tcp", "proto tcp", "proto tcp", "proto udp", "proto udp"];
    let proto = match draw.below(10) {
        0 if features.icmp => icmp,
        1 => "proto { tcp, udp }",
        2 if features.other_protocols => "proto esp",
        _ => draw.pick(&list),
    };
    words.put(proto);
    proto
}

fn host(draw: &mut Draw, features: &Features, family: u8) -> &'static str {
    match draw.below(10) {
        0..=3 => "any",
        4 | 5 if features.tables => draw.pick(TABLES),
        6 if features.interface_addresses && family != 0 => {
            draw.pick(&["(em0)", "(em0:network)", "(em1)"])
        }
        _ if family == 4 => draw.pick(HOSTS4),
        _ if family == 6 => draw.pick(HOSTS6),
        _ => "any",
    }
}

/// What of ends may be in a rule: ports, and `os`.
type May = (bool, bool);

fn ends(draw: &mut Draw, features: &Features, family: u8, may: May, words: &mut Words) {
    let (has_ports, has_os) = may;
    words.put("from");
    words.put(match draw.below(20) {
        0 if features.routes => "no-route",
        1 if features.routes => "urpf-failed",
        _ => host(draw, features, family),
    });
    if has_ports && draw.happens(8) {
        words.put(draw.pick(PORTS));
    }
    if features.systems && has_os && draw.happens(60) {
        words.put(draw.pick(SYSTEMS));
    }
    words.put("to");
    words.put(host(draw, features, family));
    if has_ports && draw.happens(45) {
        words.put(draw.pick(PORTS));
    }
}

fn options(draw: &mut Draw, features: &Features, criteria: Criteria, words: &mut Words) {
    if criteria.proto == "proto tcp" && draw.happens(30) {
        words.put(draw.pick(&["flags any", "flags any", "flags S/SAFR", "flags A/A", "flags /R"]));
    }
    if criteria.proto == "proto icmp" && draw.happens(60) {
        words.put(draw.pick(&["icmp-type echoreq", "icmp-type unreach", "icmp-type echorep"]));
    }
    if criteria.proto == "proto icmp6" && draw.happens(60) {
        words.put(draw.pick(&["icmp6-type echoreq", "icmp6-type toobig", "icmp6-type echorep"]));
    }
    if features.tos && draw.happens(6) {
        words.put("tos 0x10");
    }
    if features.vlan && draw.happens(4) {
        words.put("prio 5");
    }
    if criteria.action != "block" && features.rewrites && draw.happens(6) {
        words.put(draw.pick(CHANGES));
    }
    if criteria.action == "pass"
        && state(draw, features, words)
        && features.limiter_percent > 0
        && draw.happens(25)
    {
        words.put(draw.pick(LIMITED));
    }
    if features.fragments && criteria.proto.is_empty() && draw.happens(5) {
        words.put("fragment");
    }
    if features.options && criteria.action == "pass" && draw.happens(20) {
        words.put("allow-opts");
    }
    if features.tags && draw.happens(10) {
        words.put(draw.pick(&["tag A", "tag B"]));
    }
    if features.tags && draw.happens(8) {
        words.put(draw.pick(&["tagged A", "! tagged A", "tagged B"]));
    }
    if features.received_on && criteria.direction == "out" && draw.happens(12) {
        words.put(draw.pick(&["received-on em0", "received-on lan", "! received-on em1"]));
    }
    // So long that hardly anything fades while packets come.
    if features.limits && draw.happens(5) {
        words.put(draw.pick(&["once", "max-pkt-rate 2/3600", "max-pkt-rate 5/3600"]));
    }
    if features.owners && draw.happens(4) {
        words.put(draw.pick(&["user root", "user != root", "group unknown", "user > 0"]));
    }
}

/// What follows of the rule's states; whether it makes some.
fn state(draw: &mut Draw, features: &Features, words: &mut Words) -> bool {
    let mut options = Vec::new();
    if features.no_state && draw.happens(18) {
        words.put("no state");
        return false;
    }
    let modulates = features.modulate_percent > 0 && draw.happens(33);
    if features.sloppy && !modulates && draw.happens(8) {
        options.push("sloppy");
    }
    if features.if_bound && draw.happens(12) {
        options.push(draw.pick(&["if-bound", "floating"]));
    }
    if features.limits && draw.happens(8) {
        options.push(draw.pick(&["max 1", "max 3"]));
    }
    if features.limits && draw.happens(20) {
        options.push("reserve");
    }
    if features.sources && draw.happens(30) {
        options.push(draw.pick(&[
            "max-src-states 1",
            "source-track rule, max-src-nodes 1",
            "source-track global, max-src-states 2",
            "max-src-conn 1",
            "max-src-conn 1, overload <three> flush",
            "max-src-conn-rate 2/10, overload <three> flush global",
        ]));
    }
    if features.timeouts && draw.happens(8) {
        options.push(draw.pick(&["udp.first 7", "tcp.established 9", "icmp.first 3"]));
    }
    let kind = if modulates { "modulate" } else { "keep" };
    if !options.is_empty() {
        words.put(&format!("{kind} state ({})", options.join(", ")));
    } else if modulates {
        words.put("modulate state");
    }
    true
}
