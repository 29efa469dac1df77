//! Random rulesets of what the data path does, and random packets that meet them often.

use std::net::IpAddr;

use weir_fw::compile::Slot;
use weir_rules::evaluate::Packet;
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;
use weir_rules::value::Direction;
use weir_rules::{Compiled, Dialect};
use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP, UDP};

/// A generator that gives the same numbers for the same seed (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// The machine.
pub(crate) struct Scene {
    pub(crate) facts: Facts,
    pub(crate) slots: Vec<Slot>,
}

const FACTS: &str = "interface em0 10.0.0.1/24 10.0.1.1/24 2001:db8::1/64 group dmz\n\
     interface em1 192.0.2.1/24 2001:db8:1::1/48 group egress\n\
     interface tun0 10.8.0.1/32 peer 10.8.0.2\n\
     interface lo0 loopback 127.0.0.1/8 ::1/128\n";

const INTERFACES: [&str; 4] = ["em0", "em1", "tun0", "lo0"];

impl Scene {
    pub(crate) fn new() -> Self {
        let slot = |(at, name): (usize, &&str)| Slot {
            number: [1, 2, 40, 63][at],
            interface: (*name).to_owned(),
        };
        Self {
            facts: Facts::parse(FACTS).unwrap(),
            slots: INTERFACES.iter().enumerate().map(slot).collect(),
        }
    }

    pub(crate) fn compile(&self, text: &str, dialect: Dialect) -> Compiled {
        let compiled = self.read(text, dialect);
        let first =
            compiled.diagnostics.first().map(|diagnostic| diagnostic.line(&compiled.sources));
        assert_eq!(compiled.error_count, 0, "{first:?}\n{text}");
        compiled
    }

    fn read(&self, text: &str, dialect: Dialect) -> Compiled {
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: Some(dialect),
            macros: &[],
            provider: &MemorySources::default(),
            limits: Limits::default(),
        };
        weir_rules::compile(input, &self.facts)
    }
}

const V4: [&str; 12] = [
    "10.0.0.1",
    "10.0.0.5",
    "10.0.0.77",
    "10.0.1.1",
    "10.8.0.2",
    "192.0.2.1",
    "192.0.2.99",
    "203.0.113.9",
    "198.51.100.7",
    "255.255.255.255",
    "0.0.0.1",
    "127.0.0.1",
];
const V6: [&str; 8] = [
    "2001:db8::1",
    "2001:db8::77",
    "2001:db8:1::1",
    "2001:db8:1:2::3",
    "fe80::1",
    "::1",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "ff02::1",
];
const PORTS: [u16; 8] = [1, 22, 53, 80, 443, 1024, 8080, 65535];

fn network(random: &mut Random, is_v4: bool) -> String {
    if is_v4 {
        let bits = random.pick(&[0, 1, 8, 15, 16, 23, 24, 30, 31, 32, 32, 32]);
        format!("{}/{bits}", random.pick(&V4))
    } else {
        let bits = random.pick(&[0, 3, 16, 32, 48, 63, 64, 65, 96, 127, 128, 128]);
        format!("{}/{bits}", random.pick(&V6))
    }
}

fn range(random: &mut Random, is_v4: bool) -> String {
    let pick = |random: &mut Random| -> IpAddr {
        let list: &[&str] = if is_v4 { &V4 } else { &V6 };
        random.pick(list).parse().unwrap()
    };
    let (one, other) = (pick(random), pick(random));
    format!("{} - {}", one.min(other), one.max(other))
}

fn address(random: &mut Random, is_v4: Option<bool>) -> String {
    let v4 = is_v4.unwrap_or_else(|| random.one_in(2));
    let not = if random.one_in(5) { "! " } else { "" };
    match random.below(12) {
        0..=3 => "any".to_owned(),
        4..=6 => format!("{not}{}", network(random, v4)),
        7 => range(random, v4),
        8 | 9 => format!("{not}<{}>", random.pick(&["one", "two", "none", "many"])),
        10 => format!("{not}({})", random.pick(&["em0", "em1", "em0:network", "em1:0", "dmz"])),
        _ => "(self)".to_owned(),
    }
}

fn port(random: &mut Random) -> String {
    let (one, other) = (random.pick(&PORTS), random.pick(&PORTS));
    let (low, high) = (one.min(other), one.max(other));
    match random.below(9) {
        0..=2 => format!("port {one}"),
        3 => format!("port != {one}"),
        4 => format!("port {low}:{high}"),
        5 => format!("port < {one}"),
        6 => format!("port >= {one}"),
        7 => format!("port {low} >< {high}"),
        _ => format!("port {low} <> {high}"),
    }
}

fn action(random: &mut Random) -> &'static str {
    random.pick(&[
        "pass",
        "pass",
        "pass",
        "block",
        "block drop",
        "block return",
        "block return-rst",
        "block return-icmp",
        "match",
    ])
}

/// Direction, log, quick, interface.
fn head(random: &mut Random, out: &mut String, is_anchor: bool) {
    out.push_str(random.pick(&["", " in", " out"]));
    if !is_anchor && random.one_in(6) {
        out.push_str(random.pick(&[" log", " log (all)", " log (matches)"]));
    }
    if random.one_in(if is_anchor { 2 } else { 5 }) {
        out.push_str(" quick");
    }
    if random.one_in(2) {
        let names = ["em0", "em1", "tun", "dmz", "egress", "! em0", "! dmz", "em9", "em"];
        out.push_str(" on ");
        out.push_str(random.pick(&names));
    }
}

fn state(random: &mut Random) -> &'static str {
    random.pick(&[
        " keep state",
        " no state",
        " keep state (max 10)",
        " keep state (sloppy)",
        " keep state (if-bound, tcp.first 5)",
        " keep state (source-track rule, max-src-states 3)",
    ])
}

fn rule(random: &mut Random, dialect: Dialect) -> String {
    let action = action(random);
    let mut out = action.to_owned();
    head(random, &mut out, false);
    let rst = action == "block return-rst";
    let family = random.pick(&[None, None, Some(true), Some(false)]);
    let protocol = if rst {
        "tcp"
    } else {
        random.pick(&["", "tcp", "udp", "icmp", "icmp6", "sctp", "gre", "tcp"])
    };
    let family = match protocol {
        "icmp" => Some(true),
        "icmp6" => Some(false),
        _ => family,
    };
    match family {
        Some(true) => out.push_str(" inet"),
        Some(false) => out.push_str(" inet6"),
        None => {}
    }
    if !protocol.is_empty() {
        out.push_str(" proto ");
        out.push_str(protocol);
    }
    let has_ports =
        matches!(protocol, "tcp" | "udp") || protocol == "sctp" && dialect == Dialect::FreeBsd;
    // Addresses of one family: a rule with two is refused.
    let v4 = family.unwrap_or_else(|| random.one_in(2));
    for end in [" from ", " to "] {
        out.push_str(end);
        out.push_str(&address(random, Some(v4)));
        if has_ports && random.one_in(3) {
            out.push(' ');
            out.push_str(&port(random));
        }
    }
    if protocol == "tcp" && random.one_in(3) {
        out.push_str(random.pick(&[
            " flags S/SA",
            " flags any",
            " flags A/A",
            " flags FS/FSRPAUEW",
            " flags /R",
        ]));
    }
    if protocol == "icmp" && random.one_in(2) {
        out.push_str(random.pick(&[
            " icmp-type echoreq",
            " icmp-type echorep",
            " icmp-type unreach code 3",
        ]));
    }
    if protocol == "icmp6" && random.one_in(2) {
        out.push_str(random.pick(&[
            " icmp6-type echoreq",
            " icmp6-type 136",
            " icmp6-type toobig",
        ]));
    }
    options(random, &mut out, action == "pass");
    out
}

fn options(random: &mut Random, out: &mut String, is_pass: bool) {
    if random.one_in(10) {
        out.push_str(random.pick(&[" tos 0x10", " tos 0x00", " tos lowdelay"]));
    }
    if random.one_in(10) {
        out.push_str(random.pick(&[" prio 0", " prio 3", " prio 5"]));
    }
    if is_pass && random.one_in(3) {
        out.push_str(state(random));
    }
    if random.one_in(12) {
        out.push_str(random.pick(&[" probability 100%", " probability 0.00000001%"]));
    }
    if random.one_in(8) {
        out.push_str(random.pick(&[
            " user root",
            " user != 80",
            " user { 80, unknown }",
            " user 80 <> 1000",
            " user > 79 group 80",
            " group != unknown",
            " group < 80",
        ]));
    }
    if random.one_in(8) {
        out.push_str(" allow-opts");
    }
    if random.one_in(15) {
        out.push_str(" fragment");
    }
    if random.one_in(8) {
        out.push_str(random.pick(&[
            " set tos 0x28",
            " scrub (no-df max-mss 1400)",
            " scrub (min-ttl 70, random-id)",
            " scrub (max-mss 536 min-ttl 9)",
        ]));
    }
    if random.one_in(6) {
        out.push_str(random.pick(&[" tagged RED", " tagged BLUE", " ! tagged RED"]));
    }
    if random.one_in(10) {
        out.push_str(random.pick(&[
            " received-on em0",
            " received-on egress",
            " ! received-on em1",
        ]));
    }
}

/// A rule that pfctl takes: random words do not always go together.
fn valid(scene: &Scene, dialect: Dialect, mut make: impl FnMut() -> String) -> String {
    loop {
        let line = make() + "\n";
        if scene.read(&line, dialect).error_count == 0 {
            return line;
        }
    }
}

fn anchor(random: &mut Random) -> String {
    let mut out = "anchor".to_owned();
    head(random, &mut out, true);
    if random.one_in(3) {
        out.push_str(random.pick(&[" proto tcp", " proto udp", " inet proto icmp"]));
    }
    if random.one_in(4) {
        out.push_str(" from ");
        out.push_str(&address(random, Some(true)));
    }
    if random.one_in(5) {
        out.push_str(random.pick(&[" tagged RED", " ! tagged BLUE"]));
    }
    out.push_str(" {\n}");
    out
}

type Place<'a> = (&'a Scene, Dialect, usize);

fn rules(random: &mut Random, (scene, dialect, depth): Place<'_>, count: usize, out: &mut String) {
    let mut left = count;
    while left > 0 {
        left -= 1;
        if depth < 3 && random.one_in(8) {
            let line = valid(scene, dialect, || anchor(random));
            out.push_str(line.trim_end_matches("}\n"));
            let inner = random.below(left.min(20) + 1);
            rules(random, (scene, dialect, depth + 1), inner, out);
            left -= inner;
            out.push_str("}\n");
            continue;
        }
        out.push_str(&valid(scene, dialect, || rule(random, dialect)));
    }
}

/// A ruleset of about that many rules.
pub(crate) fn ruleset(
    random: &mut Random,
    scene: &Scene,
    dialect: Dialect,
    count: usize,
) -> String {
    let mut out = String::new();
    if random.one_in(4) {
        out.push_str("set block-policy return\n");
    }
    if random.one_in(4) {
        out.push_str("set state-policy if-bound\n");
    }
    if random.one_in(2) {
        out.push_str(random.pick(&["set reassemble no\n", "set reassemble yes\n"]));
    }
    for name in ["one", "two", "many"] {
        let counters = if name == "many" { " counters" } else { "" };
        out.push_str(&format!("table <{name}> persist{counters} {{"));
        let count = if name == "many" { 60 } else { random.below(5) };
        let mut seen = std::collections::HashSet::new();
        for _ in 0..count {
            let is_v4 = random.one_in(2);
            let network = network(random, is_v4);
            if seen.insert(network.clone()) {
                let not = if random.one_in(4) { "!" } else { "" };
                out.push_str(&format!(" {not}{network}"));
            }
        }
        out.push_str(" }\n");
    }
    rules(random, (scene, dialect, 0), count, &mut out);
    out
}

/// A packet that no sanity check drops.
pub(crate) fn packet(random: &mut Random) -> Packet {
    let is_v4 = !random.one_in(3);
    let pick = |random: &mut Random| -> IpAddr {
        let list: &[&str] = if is_v4 { &V4 } else { &V6 };
        random.pick(list).parse().unwrap()
    };
    let ends = (pick(random), pick(random));
    let direction = random.pick(&[Direction::In, Direction::Out]);
    let icmp = if is_v4 { ICMP } else { ICMP6 };
    let protocol = random.pick(&[TCP, TCP, TCP, UDP, UDP, icmp, icmp, 47, SCTP]);
    let interface = random.pick(&INTERFACES);
    let mut packet = Packet::new(direction, interface, ends, protocol);
    packet.received_on = match direction {
        Direction::In => Some(interface.into()),
        Direction::Out => (!random.one_in(3)).then(|| (random.pick(&INTERFACES)).into()),
    };
    if matches!(protocol, TCP | UDP | SCTP) {
        let around = |random: &mut Random| {
            let port = random.pick(&PORTS);
            match random.below(4) {
                0 => port.saturating_add(1),
                1 => port.saturating_sub(1).max(1),
                _ => port,
            }
        };
        packet.source_port = around(random);
        packet.destination_port = around(random);
    }
    if protocol == TCP {
        packet.tcp_flags = random.pick(&[0x02, 0x02, 0x12, 0x10, 0x18, 0x04, 0x14, 0x11, 0xc2]);
    }
    if protocol == icmp {
        let kinds: &[u8] =
            if is_v4 { &[0, 3, 5, 8, 11, 13, 14, 40] } else { &[1, 2, 128, 129, 135, 136, 200] };
        packet.icmp.kind = random.pick(kinds);
        packet.icmp.code = random.pick(&[0, 3, 4]);
    }
    // Others have no sockets.
    if matches!(protocol, TCP | UDP) {
        packet.user = random.pick(&[None, Some(0), Some(80), Some(1000)]);
        packet.group = random.pick(&[None, Some(0), Some(80)]);
    }
    packet.tos = random.pick(&[0, 0, 0x10, 0x11, 0xb8]);
    packet.prio = random.pick(&[None, None, Some(0), Some(3), Some(5)]);
    packet.fragment = random.one_in(8);
    if packet.fragment {
        (packet.source_port, packet.destination_port, packet.tcp_flags) = (0, 0, 0);
        packet.icmp = weir_rules::evaluate::Icmp::default();
    }
    packet.extensions.ipv4_options = is_v4 && random.one_in(10);
    packet.extensions.ipv6_options = !is_v4 && random.one_in(10);
    packet.extensions.routing_header = !is_v4 && random.one_in(10);
    packet
}
