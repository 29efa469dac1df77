//! Random translation: rules of FreeBSD's lists, and filter rules of OpenBSD's that translate. Few
//! addresses and ports, so that packets meet them; what is chosen at random is mostly one port, so
//! that a case can be run again.

use super::Features;
use super::draw::Draw;

const PLACES: &[&str] = &["em1", "em1", "em1", "em1", "em1", "em0", "em2", "lan"];
/// Who is translated as it leaves.
const SOURCES4: &[&str] =
    &["10.0.0.0/24", "10.0.0.0/24", "10.0.0.5", "10.0.0.0/8", "10.2.0.0/24", "any", "em1"];
const SOURCES6: &[&str] = &["2001:db8::/64", "2001:db8::/64", "2001:db8::5", "any"];
/// What it becomes.
const POOLS4: &[&str] = &[
    "(em1)",
    "(em1)",
    "192.0.2.1",
    "192.0.2.9",
    "(em1:0)",
    "192.0.2.8/30 random",
    "192.0.2.8/30 source-hash",
    "10.0.0.0/29 bitmask",
    "{ 192.0.2.1, 192.0.2.9 }",
    "{ 192.0.2.1, 192.0.2.9 } round-robin",
];
const POOLS6: &[&str] = &["(em1)", "2001:db8:1::1", "2001:db8:1::9", "2001:db8:1::8/126 random"];
const PORTS: &[&str] = &["", "", " port 6000", " port 6000", " port 6000:6003", " static-port"];
/// What FreeBSD's lists may have besides.
const LIST_PORTS: &[&str] = &[
    " map-e-portset 2/12/0x342",
    " map-e-portset 4/12/0x34",
    " endpoint-independent",
    " endpoint-independent",
    " port 6000:6003 endpoint-independent",
    " static-port endpoint-independent",
];
/// Where somebody wants to go who is sent elsewhere.
const GOALS4: &[&str] = &["192.0.2.1", "192.0.2.1", "(em1)", "10.0.0.1", "any", "203.0.113.9"];
const GOALS6: &[&str] = &["2001:db8:1::1", "2001:db8::1", "any"];
const SERVERS4: &[&str] = &[
    "10.0.0.5",
    "10.0.0.5",
    "10.0.0.6",
    "10.2.0.5",
    "203.0.113.10",
    "10.0.0.1",
    "{ 10.0.0.5, 10.0.0.6 } round-robin",
    "10.0.0.4/30 random",
    "10.0.0.4/30 source-hash abc",
    "10.2.0.0/24 bitmask",
];
const SERVERS6: &[&str] = &["2001:db8::5", "2001:db8:22::5", "2001:db8:2::a", "2001:db8::1"];

/// The family, its word, and lists of its addresses.
struct Family {
    word: &'static str,
    sources: &'static [&'static str],
    pools: &'static [&'static str],
    goals: &'static [&'static str],
    servers: &'static [&'static str],
}

fn family(draw: &mut Draw, features: &Features) -> Family {
    if features.ipv6 && draw.happens(30) {
        let (sources, pools, goals, servers) = (SOURCES6, POOLS6, GOALS6, SERVERS6);
        return Family { word: "inet6", sources, pools, goals, servers };
    }
    let (sources, pools, goals, servers) = (SOURCES4, POOLS4, GOALS4, SERVERS4);
    Family { word: "inet", sources, pools, goals, servers }
}

/// What sources become, with ports.
fn sources(draw: &mut Draw, family: &Family) -> String {
    let (pool, ports) = (draw.pick(family.pools), draw.pick(PORTS));
    with_port(pool, if pool.ends_with("bitmask") { "" } else { ports })
}

/// The same of FreeBSD's lists.
fn list_sources(draw: &mut Draw, family: &Family) -> String {
    let (pool, ports) = (draw.pick(family.pools), draw.pick(LIST_PORTS));
    if pool.ends_with("bitmask") || draw.happens(65) {
        return sources(draw, family);
    }
    with_port(pool, ports)
}

/// A protocol, the port that a redirection is from, and the one that it leads to.
fn redirected(draw: &mut Draw) -> (&'static str, &'static str, &'static str) {
    let proto = draw.pick(&["tcp", "tcp", "udp"]);
    let (from, to) = draw.pick(&[
        ("port 80", " port 80"),
        ("port 80", " port 8080"),
        ("port 53", ""),
        ("port 50:90", " port 1050:*"),
        ("port 50:90", " port 60:62"),
        ("port 22", " port 443"),
    ]);
    (proto, from, to)
}

/// FreeBSD's rules of translation, which stand before the filter rules.
pub(super) fn lists(draw: &mut Draw, features: &Features) -> String {
    let count = 1 + draw.below(4);
    let mut text: String = (0..count).map(|_| list_rule(draw, features) + "\n").collect();
    let is_anchored = features.anchors && draw.happens(30);
    if is_anchored {
        text.push_str(&anchor_calls(draw));
    }
    // Most of them have one for all that nothing else is for.
    if draw.happens(70) {
        let family = family(draw, features);
        let pool = list_sources(draw, &family);
        text.push_str(&format!("nat on em1 {} from any to any -> {pool}\n", family.word));
    }
    if is_anchored {
        let count = 1 + draw.below(4);
        let rules: String = (0..count).map(|_| list_rule(draw, features) + "\n").collect();
        text.push_str(&format!("anchor \"t\" {{\n{rules}}}\n"));
    }
    text
}

/// Calls of an anchor by the lists, for all packets or for few; one of them may be there twice.
fn anchor_calls(draw: &mut Draw) -> String {
    let mut text = String::new();
    for list in ["nat", "nat", "rdr", "rdr", "binat"] {
        if draw.happens(50) {
            let criteria = draw.pick(&[
                "",
                "",
                " on em1",
                " on em1 inet proto tcp",
                " inet from 10.0.0.0/24 to any",
                " inet6",
                " on lan proto { tcp, udp }",
            ]);
            // pfctl takes no hosts there, and one protocol.
            let is_refused = list == "binat" && criteria.contains(['f', '{']);
            let criteria = if is_refused { " inet" } else { criteria };
            text.push_str(&format!("{list}-anchor \"t\"{criteria}\n"));
        }
    }
    text
}

fn list_rule(draw: &mut Draw, features: &Features) -> String {
    let family = family(draw, features);
    let place = draw.pick(PLACES);
    let no = if draw.happens(8) { "no " } else { "" };
    let pass = if no.is_empty() && draw.happens(15) { " pass" } else { "" };
    // Only with `pass` may it log.
    let logs = features.log && !pass.is_empty() && draw.happens(40);
    let log = if logs { draw.pick(&[" log", " log (all)"]) } else { "" };
    let word = family.word;
    match draw.below(10) {
        0..=5 => {
            let source = draw.pick(family.sources);
            let proto = draw.pick(&["", "", "", " proto udp", " proto { tcp, udp }", " proto tcp"]);
            let to = draw.pick(&["any", "any", "any", "! 10.2.0.0/24"]);
            let to = if word == "inet6" { "any" } else { to };
            let head = format!("{no}nat{pass}{log} on {place} {word}{proto} from {source} to {to}");
            if !no.is_empty() {
                return head;
            }
            format!("{head} -> {}", list_sources(draw, &family))
        }
        6..=8 => {
            let (proto, from, to) = redirected(draw);
            let goal = draw.pick(family.goals);
            let head = format!(
                "{no}rdr{pass}{log} on {place} {word} proto {proto} from any to {goal} {from}"
            );
            if !no.is_empty() {
                return head;
            }
            format!("{head} -> {}", with_port(draw.pick(family.servers), to))
        }
        _ if word == "inet" => {
            let head = format!("{no}binat on {place} inet from 10.0.0.5 to any");
            if no.is_empty() { head + " -> 192.0.2.77" } else { head }
        }
        _ => format!("binat on {place} inet6 from 2001:db8::5 to any -> 2001:db8:1::77"),
    }
}

/// The same for a rule after which others translate further: nobody sees what that chose, so that
/// it may not choose an address at random.
fn sources_between(draw: &mut Draw, family: &Family) -> String {
    let pools: Vec<&str> =
        family.pools.iter().copied().filter(|pool| !pool.ends_with("random")).collect();
    let (pool, ports) = (draw.pick(&pools), draw.pick(PORTS));
    with_port(pool, if pool.ends_with("bitmask") { "" } else { ports })
}

/// A pool with a port, which stands before the way of choosing.
fn with_port(pool: &str, port: &str) -> String {
    let end = match pool.find('}') {
        Some(at) => at + 1,
        None => pool.find(' ').unwrap_or(pool.len()),
    };
    let (addresses, kind) = pool.split_at(end);
    format!("{addresses}{port}{kind}")
}

/// A filter rule of OpenBSD's that translates.
pub(super) fn option(draw: &mut Draw, features: &Features) -> String {
    let family = family(draw, features);
    if draw.happens(30) {
        let pool = sources_between(draw, &family);
        return format!("match out on em1 {} from any to any nat-to {pool}\n", family.word);
    }
    let (word, place) = (family.word, draw.pick(PLACES));
    let action = draw.pick(&["match", "match", "pass"]);
    let quick = if action == "pass" && features.quick && draw.happens(30) { " quick" } else { "" };
    match draw.below(10) {
        0..=5 => {
            let source = draw.pick(family.sources);
            let proto = draw.pick(&["", "", " proto udp", " proto tcp"]);
            let pool = match action {
                "match" => sources_between(draw, &family),
                _ if word == "inet" && draw.happens(15) => {
                    with_port("{ 192.0.2.1, 192.0.2.9 } least-states", draw.pick(PORTS))
                }
                _ => sources(draw, &family),
            };
            format!(
                "{action} out{quick} on {place} {word}{proto} from {source} to any nat-to {pool}\n"
            )
        }
        6..=8 => {
            let (proto, from, to) = redirected(draw);
            let goal = draw.pick(family.goals);
            // As of sources: a packet that a later rule blocks shows no choice.
            let server = match draw.pick(family.servers) {
                server if action == "match" && server.ends_with("random") => family.servers[0],
                _ if action == "pass" && word == "inet" && draw.happens(15) => {
                    "{ 10.0.0.5, 10.0.0.6 } least-states"
                }
                server => server,
            };
            let server = with_port(server, to);
            format!(
                "{action} in{quick} on {place} {word} proto {proto} from any to {goal} {from} \
                 rdr-to {server}\n"
            )
        }
        _ if word == "inet" => {
            format!("{action} on {place} inet from 10.0.0.5 to any binat-to 192.0.2.77\n")
        }
        _ => format!("{action} on {place} inet6 from 2001:db8::5 to any binat-to 2001:db8:1::77\n"),
    }
}

/// One that changes the family of what it passes.
pub(super) fn family_change(draw: &mut Draw, features: &Features) -> String {
    let quick = if features.quick && draw.happens(30) { " quick" } else { "" };
    let log = if features.log && draw.happens(15) { " log" } else { "" };
    let place = draw.pick(&["", "", " on em0", " on em0", " on lan", " on em1"]);
    let proto = draw.pick(&["", "", "", " proto udp", " proto tcp", " proto { tcp, udp }"]);
    let options = draw.pick(&["", "", "", " keep state (max 2)", " allow-opts", " flags any"]);
    // State options belong to the protocols that they are for.
    let options = if proto != " proto tcp" && options == " flags any" { "" } else { options };
    if draw.happens(50) {
        let source = draw.pick(SOURCES6);
        let source = if source == "2001:db8::/64" { "any" } else { source };
        let goal = draw.pick(&["64:ff9b::/96", "64:ff9b::/96", "64:ff9b::/96", "any"]);
        let pool = draw.pick(&[
            "(em1)",
            "192.0.2.1",
            "192.0.2.9 port 6000",
            "192.0.2.9 port 6000:6003",
            "192.0.2.8/30 random",
            "192.0.2.8/30 source-hash",
            "{ 192.0.2.1, 192.0.2.9 } round-robin",
            "192.0.2.1 static-port",
        ]);
        let to =
            draw.pick(&["", "", "", "", " to 203.0.113.9", " to 203.0.113.0/28", " to 10.2.0.5"]);
        return format!(
            "pass in{log}{quick}{place} inet6{proto} from {source} to {goal}{options} af-to inet \
             from {pool}{to}\n"
        );
    }
    let goal = draw.pick(&["198.51.100.0/24", "198.51.100.0/24", "198.51.100.9", "any"]);
    let pool = draw.pick(&[
        "(em1)",
        "2001:db8:1::1",
        "2001:db8:1::9 port 6000",
        "2001:db8:1::8/126 random",
        "2001:db8:1::1 static-port",
    ]);
    let to = draw.pick(&["2001:db8:2::/120", "2001:db8:2::/120", "2001:db8:2::9", "2001:db8::/32"]);
    format!(
        "pass in{log}{quick}{place} inet{proto} from any to {goal}{options} af-to inet6 from \
         {pool} to {to}\n"
    )
}
