//! Random packets: a few flows, each with both ends at work, so that states are hit, closed,
//! reopened and contradicted.

use std::net::IpAddr;

use super::Features;
use super::draw::Draw;
use weir_rules::evaluate::end_text;
use weir_wire::protocol::{TCP, UDP};

/// Where a host is: behind an interface, or the box itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Behind(&'static str),
    Firewall,
}

const HOSTS: &[(&str, &str, Side)] = &[
    ("10.0.0.5", "2001:db8::5", Side::Behind("em0")),
    ("10.0.0.6", "2001:db8::6", Side::Behind("em0")),
    ("10.0.0.200", "2001:db8::c8", Side::Behind("em0")),
    ("203.0.113.9", "2001:db8:2::9", Side::Behind("em1")),
    ("203.0.113.10", "2001:db8:2::a", Side::Behind("em1")),
    ("203.0.113.99", "2001:db8:3::9", Side::Behind("em1")),
    ("10.2.0.5", "2001:db8:22::5", Side::Behind("em2")),
    ("10.0.0.1", "2001:db8::1", Side::Firewall),
    ("192.0.2.1", "2001:db8:1::1", Side::Firewall),
    // Nobody's but by translation.
    ("192.0.2.77", "2001:db8:1::77", Side::Firewall),
    ("192.0.2.20", "2001:db8:1::14", Side::Firewall),
];
/// Hosts of the other family, as those behind em0 see them.
const MAPPED: &[(&str, &str, Side)] = &[
    ("198.51.100.9", "64:ff9b::203.0.113.9", Side::Behind("em1")),
    ("198.51.100.10", "64:ff9b::203.0.113.10", Side::Behind("em1")),
    ("198.51.100.5", "64:ff9b::10.2.0.5", Side::Behind("em2")),
];
/// How many of the others there are without translation.
const HOST_COUNT: usize = 9;

/// Addresses that a packet may have which few have.
const SPECIALS4: &[&str] = &[
    "0.0.0.0",
    "0.1.2.3",
    "127.0.0.1",
    "224.0.0.251",
    "239.1.2.3",
    "255.255.255.255",
    "10.0.0.255",
    "192.0.2.1",
];
const SPECIALS6: &[&str] =
    &["::", "::1", "::ffff:10.0.0.5", "fe80::7", "ff02::fb", "ff0e::5", "2001:db8:1::1"];

struct End {
    address: IpAddr,
    port: u16,
    side: Side,
    /// Next sequence number.
    sequence: u32,
    window: u16,
    scale: Option<u8>,
}

impl End {
    fn text(&self, protocol: u8) -> String {
        end_text(matches!(protocol, TCP | UDP), self.address, self.port)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
    Echo,
    Esp,
}

struct Flow {
    kind: Kind,
    ends: [End; 2],
    /// How far a TCP connection is.
    phase: u32,
    ident: u32,
    id: u16,
}

/// Flows that send packets.
pub(super) struct Traffic {
    flows: Vec<Flow>,
}

impl Traffic {
    pub(super) fn new(draw: &mut Draw, features: &Features, flow_count: u32) -> Self {
        let flows = (0..flow_count.max(1)).map(|_| Flow::new(draw, features)).collect();
        Self { flows }
    }

    /// The next packet in the words of a packet test, without what becomes of it.
    pub(super) fn next(&mut self, draw: &mut Draw, features: &Features) -> String {
        if features.specials && draw.happens(2) {
            return special(draw, features);
        }
        let count = u32::try_from(self.flows.len()).unwrap_or(1);
        let at = draw.below(count) as usize;
        let flow = &mut self.flows[at];
        if features.icmp && draw.happens(7) {
            return flow.error(draw);
        }
        if features.fragments && flow.kind == Kind::Udp && draw.happens(30) {
            return flow.fragment(draw);
        }
        let mut text = match flow.kind {
            Kind::Tcp => flow.segment(draw, features),
            Kind::Udp => {
                let from = usize::from(draw.happens(40));
                let size = draw.pick(&[0, 5, 100, 1000]);
                format!("{} payload {size}", flow.head(from, "udp"))
            }
            Kind::Echo => {
                let from = usize::from(draw.happens(45));
                let turned = draw.happens(5);
                let word = if (from == 0) == turned { "echorep" } else { "echoreq" };
                format!("{} {word} id {}", flow.head(from, flow.icmp()), flow.id)
            }
            Kind::Esp => {
                let from = usize::from(draw.happens(40));
                format!("{} payload 16", flow.head(from, "esp"))
            }
        };
        flow.decorate(draw, features, &mut text);
        text
    }
}

/// A packet of no flow, with such an address at an end.
fn special(draw: &mut Draw, features: &Features) -> String {
    let is_v6 = features.ipv6 && draw.happens(40);
    let one = draw.pick(if is_v6 { SPECIALS6 } else { SPECIALS4 });
    let host = draw.pick(&HOSTS[..HOST_COUNT]);
    let ends = [one, if is_v6 { host.1 } else { host.0 }].map(str::parse::<IpAddr>);
    let [Ok(one), Ok(other)] = ends else {
        unreachable!("the addresses are part of the program");
    };
    let (from, to) = if draw.happens(50) { (one, other) } else { (other, one) };
    let port = draw.pick(&[80, 53, 22]);
    let (from, to) = (end_text(true, from, 1000), end_text(true, to, port));
    let interface = draw.pick(&["em0", "em1", "em2"]);
    let words = draw.pick(&["tcp", "udp"]);
    let flags = if words == "tcp" { " S" } else { "" };
    format!("in on {interface} {words} {from} > {to}{flags}")
}

impl Flow {
    fn new(draw: &mut Draw, features: &Features) -> Self {
        let is_mapped = features.family_percent > 0 && draw.happens(75);
        let is_v6 = features.ipv6 && draw.happens(if is_mapped { 60 } else { 30 });
        let (clients, servers) = match draw.below(4) {
            _ if is_mapped => (&HOSTS[..3], MAPPED),
            // From within to the world, and from the world to whom it sees of what is within.
            0 | 1 if features.translation_percent > 0 => (&HOSTS[..3], &HOSTS[3..6]),
            2 if features.translation_percent > 0 => (&HOSTS[3..6], &HOSTS[8..]),
            _ => (&HOSTS[..HOST_COUNT], &HOSTS[..HOST_COUNT]),
        };
        let (client, mut server) = (draw.pick(clients), draw.pick(servers));
        while server.2 == client.2 {
            server = draw.pick(servers);
        }
        let mut end = |host: (&str, &str, Side), ports: &[u16]| {
            let text = if is_v6 { host.1 } else { host.0 };
            End {
                address: text.parse().unwrap_or(IpAddr::from([0, 0, 0, 0])),
                port: draw.pick(ports),
                side: host.2,
                sequence: draw.pick(&[1000, 77_777, 4_294_966_000, 2_147_483_000]),
                window: draw.pick(&[1000, 8192, 65_535]),
                scale: draw.pick(&[None, Some(0), Some(3), Some(7)]),
            }
        };
        let ends = [end(client, &[1000, 1001, 5000, 53]), end(server, &[80, 80, 53, 22, 443, 55])];
        let kind = match draw.below(20) {
            0..=8 => Kind::Tcp,
            9..=14 => Kind::Udp,
            15..=17 if features.icmp => Kind::Echo,
            18 if features.other_protocols => Kind::Esp,
            _ => Kind::Udp,
        };
        let id = draw.pick(&[1, 7, 80]);
        Self { kind, ends, phase: 0, ident: 100, id }
    }

    fn is_v4(&self) -> bool {
        self.ends[0].address.is_ipv4()
    }

    fn icmp(&self) -> &'static str {
        if self.is_v4() { "icmp" } else { "icmp6" }
    }

    fn protocol(&self) -> u8 {
        match self.kind {
            Kind::Tcp => TCP,
            Kind::Udp => UDP,
            Kind::Echo | Kind::Esp => 0,
        }
    }

    /// Where a packet of an end enters: the interface that its host is behind, or, of the box's
    /// own, the one that it leaves by.
    fn place(&self, from: usize) -> String {
        match (self.ends[from].side, self.ends[1 - from].side) {
            (Side::Behind(interface), _) => format!("in on {interface}"),
            (Side::Firewall, Side::Behind(interface)) => format!("out on {interface}"),
            (Side::Firewall, Side::Firewall) => "out on em0".to_owned(),
        }
    }

    fn head(&self, from: usize, protocol: &str) -> String {
        let number = self.protocol();
        let (sender, other) = (&self.ends[from], &self.ends[1 - from]);
        let place = self.place(from);
        format!("{place} {protocol} {} > {}", sender.text(number), other.text(number))
    }

    /// The next segment of the connection, or one that does not belong to it.
    fn segment(&mut self, draw: &mut Draw, features: &Features) -> String {
        let (from, flags, size) = self.script(draw);
        let (mut flags, mut shift) = (flags, 0_u32);
        match draw.below(40) {
            0 => flags = "R",
            1 => flags = "RA",
            2 => flags = draw.pick(&["S", "SA", "A", "FA", "PA", "none", "SR", "F", "SF"]),
            3 => shift = draw.pick(&[1, 500, 70_000, 1_000_000, u32::MAX, u32::MAX - 70_000]),
            4 => self.phase = 0,
            _ => {}
        }
        let (sender, other) = (&self.ends[from], &self.ends[1 - from]);
        let mut text = self.head(from, "tcp");
        let sequence = sender.sequence.wrapping_add(shift);
        let ack = if flags.contains('A') { other.sequence } else { 0 };
        text.push_str(&format!(" {flags} seq {sequence} ack {ack} win {}", sender.window));
        if flags.starts_with('S')
            && let Some(scale) = sender.scale
        {
            let mss = match features {
                Features { rewrites: true, .. } => draw.pick(&[1460, 1460, 1201, 500]),
                Features { systems: true, .. } => draw.pick(&[1460, 1024, 460, 500]),
                _ => 1460,
            };
            text.push_str(&format!(" wscale {scale} mss {mss}"));
        }
        if features.systems && flags.contains('S') {
            text.push_str(draw.pick(&[
                "",
                "",
                " df",
                " sack-ok ts 5",
                " sack-ok ts 0",
                " sack-ok ts 7 df",
                " sack-ok ts 0 df",
                " ts 0",
            ]));
        }
        if features.modulate_percent > 0 && flags.contains('A') && draw.happens(15) {
            text.push_str(&format!(" sack {}", ack.wrapping_add(3000)));
        }
        if size > 0 {
            text.push_str(&format!(" payload {size}"));
        }
        let ends = u32::from(flags.contains('S')) + u32::from(flags.contains('F'));
        if shift == 0 && !flags.contains('R') && draw.happens(93) {
            let end = &mut self.ends[from];
            end.sequence = end.sequence.wrapping_add(size + ends);
        }
        text
    }

    /// Who sends what next, if all goes well.
    fn script(&mut self, draw: &mut Draw) -> (usize, &'static str, u32) {
        let phase = self.phase;
        if draw.happens(90) {
            self.phase += 1;
        }
        match phase {
            0 => (0, "S", 0),
            1 => (1, "SA", 0),
            2 => (0, "A", 0),
            3..=5 => (draw.below(2) as usize, "PA", draw.pick(&[0, 1, 500, 1400])),
            6 => (0, "FA", 0),
            7 => (1, "A", draw.pick(&[0, 0, 100])),
            8 => (1, "FA", 0),
            9 => (0, "A", 0),
            _ => {
                self.phase = 1;
                self.ends[0].sequence = self.ends[0].sequence.wrapping_add(100_000);
                (0, "S", 0)
            }
        }
    }

    /// An ICMP error about the flow, from its end or a router on the way.
    fn error(&self, draw: &mut Draw) -> String {
        let from = usize::from(draw.happens(70));
        let (reporter, sender) = (&self.ends[from], &self.ends[1 - from]);
        let number = self.protocol();
        let is_remote = reporter.side == Side::Behind("em1") && draw.happens(60);
        let reporter_text = match (is_remote, self.is_v4()) {
            (true, true) => "203.0.113.250".to_owned(),
            (true, false) => "2001:db8:9::1".to_owned(),
            _ => end_text(false, reporter.address, 0),
        };
        let kind = match self.is_v4() {
            true => draw.pick(&["unreach/port-unr", "timex", "unreach/needfrag"]),
            false => draw.pick(&["unreach/port-unr", "timex", "toobig"]),
        };
        let protocol = match self.kind {
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
            Kind::Echo => self.icmp(),
            Kind::Esp => "esp",
        };
        let to = end_text(false, sender.address, 0);
        let place = self.place(from);
        let sequence = sender.sequence.wrapping_add(draw.pick(&[0, 0, 0, 1_000_000]));
        let mut text = format!(
            "{place} {} {reporter_text} > {to} {kind} about {protocol} {} > {}",
            self.icmp(),
            sender.text(number),
            reporter.text(number)
        );
        text.push_str(&format!(" inner-seq {sequence} inner-id {}", self.id));
        if draw.happens(6) {
            text.push_str(" inner-truncate 24");
        }
        text
    }

    /// A fragment: mostly the next one, sometimes one that overlaps or comes alone.
    fn fragment(&mut self, draw: &mut Draw) -> String {
        let from = usize::from(draw.happens(30));
        if draw.happens(45) {
            if draw.happens(70) {
                self.ident += 1;
            }
            return format!("{} ident {} more payload 1000", self.head(from, "udp"), self.ident);
        }
        let (sender, other) = (&self.ends[from], &self.ends[1 - from]);
        let source = end_text(false, sender.address, 0);
        let other = end_text(false, other.address, 0);
        let offset = draw.pick(&[1008, 1008, 1008, 1000, 2016]);
        let more = if draw.happens(40) { " more" } else { "" };
        let place = self.place(from);
        let ident = self.ident;
        format!(
            "{place} fragment udp {source} > {other} ident {ident} offset {offset}{more} \
             payload 1008"
        )
    }

    fn decorate(&self, draw: &mut Draw, features: &Features, text: &mut String) {
        if draw.happens(4) {
            text.push_str(draw.pick(&[" ttl 1", " ttl 2", " ttl 255"]));
        }
        if features.rewrites && self.is_v4() && draw.happens(30) {
            text.push_str(draw.pick(&[" df", " df ident 4660", " ident 65535"]));
        }
        if features.tos && draw.happens(15) {
            text.push_str(draw.pick(&[" tos 0x10", " tos 0x12", " tos 0xff"]));
        }
        if features.vlan && draw.happens(6) {
            text.push_str(draw.pick(&[" vlan 20", " vlan 20 prio 5", " vlan 5 vlan 6"]));
        }
        if features.options && draw.happens(5) {
            text.push_str(" options");
        }
        if features.options && !self.is_v4() && draw.happens(6) {
            text.push_str(draw.pick(&[
                " destination-options",
                " authentication",
                " routing-header",
            ]));
        }
        if features.malformed && draw.happens(3) {
            text.push_str(draw.pick(&[
                " truncate 20",
                " truncate 40",
                " body 3",
                " body 9",
                " bad-checksum",
                " bad-ip-checksum",
                " as 58",
                " as 1",
                " as 6",
            ]));
        }
    }
}
