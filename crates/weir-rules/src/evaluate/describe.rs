//! A packet in words, as `weir fw explain --packet` takes it:
//!
//! ```text
//! in on em0 tcp 10.0.0.5:51234 > 1.2.3.4:443 S
//! out on em1 received-on em0 udp [2001:db8::5]:5353 > [2001:db8::1]:domain tos 0x10
//! in on em0 icmp 10.0.0.5 > 1.2.3.4 echoreq id 7
//! in on em0 icmp6 2001:db8::5 > 2001:db8::1 unreach/port-unr
//! in on em0 icmp 10.0.0.5 > 1.2.3.4 timex about udp 1.2.3.4:5353 > 10.0.9.9:53
//! in on em0 fragment udp 10.0.0.5 > 1.2.3.4
//! in on vlan20 esp 10.0.0.5 > 1.2.3.4 prio 5 tag LAN
//! ```
//!
//! TCP flags are letters of `FSRPAUEW`, with `.` for ACK as tcpdump writes it, or `none`; without
//! them the packet is a SYN. An ICMP type is a name or a number, its code follows a slash; without
//! them it is an echo request. Words after the addresses, in any order: `tos`, `prio`, `tag`,
//! `received-on`, `user`, `group`, `os`, `id`, `rdomain`, each with its value, `fragment`,
//! `options` (IPv4 options, or IPv6 hop-by-hop or destination options), `routing-header`, and
//! `about` with the packet that an ICMP error quotes.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

use weir_wire::protocol::{self, ICMP, ICMP6, SCTP, TCP, UDP};

use super::packet::{ACK, Icmp, IcmpRole, Packet, Quoted, SYN};
use crate::names;
use crate::print::ip;
use crate::resolve::Resolver;
use crate::value::{Af, Direction, TCP_FLAG_LETTERS};

/// What is wrong with a packet's description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DescribeError {
    /// What, and what was expected.
    pub message: String,
    /// The bytes of the description that it is about; at the end of it where something lacks.
    pub at: Range<usize>,
}

type Read<T> = Result<T, DescribeError>;

struct Reader<'a> {
    words: Vec<(Range<usize>, &'a str)>,
    next: usize,
    end: usize,
    resolver: &'a dyn Resolver,
}

impl Packet {
    /// Reads a description (see the module). The resolver knows protocols, services, users, and
    /// which names are groups of interfaces.
    ///
    /// # Errors
    ///
    /// [`DescribeError`] says what is wrong, where, and what was expected there.
    pub fn parse(text: &str, resolver: &dyn Resolver) -> Result<Self, DescribeError> {
        let mut reader = Reader::new(text, resolver);
        let direction = match reader.word("`in` or `out`")? {
            (_, "in") => Direction::In,
            (_, "out") => Direction::Out,
            (at, other) => {
                return fail(
                    at,
                    &format!("`{other}` is not a direction: begin with `in` or `out`"),
                );
            }
        };
        reader.keyword("on")?;
        let interface = reader.interface()?;
        let mut packet = Self::new(direction, &interface, NOWHERE, 0);
        let mut af = None;
        while let Some((_, word)) = reader.peek() {
            match word {
                "inet" => af = Some(Af::Inet),
                "inet6" => af = Some(Af::Inet6),
                "fragment" => packet.fragment = true,
                "received-on" => {
                    reader.next += 1;
                    packet.received_on = Some(reader.interface()?.into());
                    continue;
                }
                _ => break,
            }
            reader.next += 1;
        }
        reader.protocol(&mut packet)?;
        reader.ends(&mut packet, af)?;
        if packet.protocol == TCP && !packet.fragment {
            packet.tcp_flags = SYN;
        }
        if packet.protocol == ICMP {
            packet.icmp.kind = 8;
        } else if packet.protocol == ICMP6 {
            packet.icmp.kind = 128;
        }
        while reader.peek().is_some() {
            reader.option(&mut packet)?;
        }
        if packet.fragment {
            packet.icmp = Icmp::default();
            packet.tcp_flags = 0;
        }
        Ok(packet)
    }
}

/// Addresses until the real ones are read.
const NOWHERE: (IpAddr, IpAddr) =
    (IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));

fn fail<T>(at: Range<usize>, message: &str) -> Read<T> {
    Err(DescribeError { message: message.to_owned(), at })
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, resolver: &'a dyn Resolver) -> Self {
        let mut words = Vec::new();
        let mut rest = 0;
        while let Some(start) = text[rest..].find(|c: char| !c.is_whitespace()) {
            let start = rest + start;
            let quoted = text[start..].strip_prefix('"');
            let (from, to, after) = match quoted {
                Some(inside) => {
                    let size = inside.find('"').unwrap_or(inside.len());
                    let to = start + 1 + size;
                    (start + 1, to, (to + 1).min(text.len()))
                }
                None => {
                    // A quote begins a word of its own, so that no word holds one.
                    let size = text[start..].find(|c: char| c.is_whitespace() || c == '"');
                    let to = size.map_or(text.len(), |size| start + size);
                    (start, to, to)
                }
            };
            words.push((from..to, &text[from..to]));
            rest = after;
        }
        Self { words, next: 0, end: text.len(), resolver }
    }

    fn peek(&self) -> Option<(Range<usize>, &'a str)> {
        self.words.get(self.next).cloned()
    }

    fn word(&mut self, expected: &str) -> Read<(Range<usize>, &'a str)> {
        match self.peek() {
            Some(word) => {
                self.next += 1;
                Ok(word)
            }
            None => {
                fail(self.end..self.end, &format!("the packet ends where {expected} is expected"))
            }
        }
    }

    fn keyword(&mut self, word: &str) -> Read<()> {
        match self.word(&format!("`{word}`"))? {
            (_, found) if found == word => Ok(()),
            (at, found) => fail(at, &format!("expected `{word}`, found `{found}`")),
        }
    }

    fn interface(&mut self) -> Read<String> {
        let (at, name) = self.word("an interface")?;
        let interfaces = self.resolver.interfaces();
        let is_interface = interfaces.iter().any(|interface| interface.name == name);
        if !is_interface && self.resolver.is_group(name) {
            let has = |interface: &&crate::resolve::InterfaceFacts| {
                interface.groups.iter().any(|group| group == name)
            };
            let members: Vec<_> =
                interfaces.iter().filter(has).map(|interface| interface.name.as_str()).collect();
            let members = if members.is_empty() { "none".into() } else { members.join(", ") };
            let message = format!(
                "`{name}` is a group, and a packet crosses one interface; its members: {members}"
            );
            return fail(at, &message);
        }
        Ok(name.to_owned())
    }

    fn protocol(&mut self, packet: &mut Packet) -> Read<()> {
        let (at, name) = self.word("a protocol")?;
        let name = name.strip_prefix("proto=").unwrap_or(name);
        let (at, name) = if name == "proto" { self.word("a protocol")? } else { (at, name) };
        let known = match name {
            "icmp6" => Some(ICMP6),
            _ => self.resolver.protocol_number(name),
        };
        packet.protocol = match known.or_else(|| name.parse().ok()) {
            Some(number) => number,
            None => {
                let message = format!(
                    "`{name}` is not a protocol: tcp, udp, icmp, icmp6, another name, or 0 to 255"
                );
                return fail(at, &message);
            }
        };
        Ok(())
    }

    fn ends(&mut self, packet: &mut Packet, af: Option<Af>) -> Read<()> {
        let (at, source, port) = self.end(packet, "the source")?;
        (packet.source, packet.source_port) = (source, port);
        if !matches!(self.word("`>`")?, (_, ">" | "->" | "to")) {
            let at = self.words[self.next - 1].0.clone();
            return fail(at, "`>` is expected between the source and the destination");
        }
        let (at_to, destination, port) = self.end(packet, "the destination")?;
        (packet.destination, packet.destination_port) = (destination, port);
        if source.is_ipv4() != destination.is_ipv4() {
            return fail(at_to, "the destination is of a different address family from the source");
        }
        if af.is_some_and(|af| af != packet.af()) {
            let message = format!("the source is not of the family {}", af.map_or("", Af::as_str));
            return fail(at, &message);
        }
        let other = if packet.af() == Af::Inet { ICMP6 } else { ICMP };
        if packet.protocol == other {
            let right = if other == ICMP { "icmp6" } else { "icmp" };
            return fail(at, &format!("over {} it is `{right}`", packet.af().as_str()));
        }
        Ok(())
    }

    fn end(&mut self, packet: &Packet, what: &str) -> Read<(Range<usize>, IpAddr, u16)> {
        let (at, word) = self.word(what)?;
        let has_ports = packet.has_ports();
        let (address, port) = split(word);
        let Ok(address) = address.parse::<IpAddr>() else {
            let ports = if has_ports { ", as 192.0.2.1:80 or [2001:db8::1]:80" } else { "" };
            return fail(at, &format!("`{word}` is not an address{ports}"));
        };
        match (port, has_ports) {
            (None, false) => Ok((at, address, 0)),
            (Some(_), false) => {
                let why = if packet.fragment { "a fragment shows" } else { "this protocol has" };
                fail(at, &format!("`{word}` has a port, but {why} none"))
            }
            (None, true) => {
                let shown = if address.is_ipv4() {
                    format!("{address}:80")
                } else {
                    format!("[{address}]:80")
                };
                fail(at, &format!("{what} has no port: write it as {shown}"))
            }
            (Some(port), true) => {
                let number = port.parse().ok().or_else(|| self.resolver.service_port(port));
                match number {
                    Some(number) => Ok((at, address, number)),
                    None => fail(at, &format!("`{port}` is not a port: 0 to 65535 or a service")),
                }
            }
        }
    }

    fn number<N: std::str::FromStr + TryFrom<u64>>(&mut self, what: &str) -> Read<N> {
        let (at, word) = self.word(what)?;
        let hex = word.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        match hex.and_then(|hex| N::try_from(hex).ok()).or_else(|| word.parse().ok()) {
            Some(number) => Ok(number),
            None => fail(at, &format!("`{word}` is not {what}")),
        }
    }

    fn option(&mut self, packet: &mut Packet) -> Read<()> {
        let (at, word) = self.word("an option")?;
        match word {
            "tos" => packet.tos = self.tos()?,
            "prio" => {
                let prio: u8 = self.number("a priority of 0 to 7")?;
                if prio > 7 {
                    return fail(self.words[self.next - 1].0.clone(), "priorities are 0 to 7");
                }
                packet.prio = Some(prio);
            }
            "tag" => packet.tag = Some(self.word("a tag")?.1.into()),
            "received-on" => packet.received_on = Some(self.interface()?.into()),
            "rdomain" => packet.rdomain = self.number("the number of a routing domain")?,
            "user" => {
                let (at, name) = self.word("a user")?;
                packet.user = Some(self.identity(at, name, self.resolver.user(name))?);
            }
            "group" => {
                let (at, name) = self.word("a group of users")?;
                packet.group = Some(self.identity(at, name, self.resolver.group(name))?);
            }
            "os" => packet.os = Some(self.word("an operating system")?.1.into()),
            "id" if matches!(packet.protocol, ICMP | ICMP6) => {
                packet.icmp.id = self.number("an ICMP identifier")?;
            }
            "about" if packet.icmp_role() == IcmpRole::Error && packet.is_icmp() => {
                let mut about = Packet::new(packet.direction, "", NOWHERE, 0);
                self.protocol(&mut about)?;
                self.ends(&mut about, Some(packet.af()))?;
                packet.quoted = Some(Quoted {
                    protocol: about.protocol,
                    source: about.source,
                    destination: about.destination,
                    source_port: about.source_port,
                    destination_port: about.destination_port,
                });
            }
            "about" => return fail(at, "only an ICMP error is about another packet"),
            "fragment" => {
                if packet.has_ports() {
                    let message = "a fragment shows no ports: put `fragment` before the protocol";
                    return fail(at, message);
                }
                packet.fragment = true;
            }
            "options" if packet.af() == Af::Inet => packet.extensions.ipv4_options = true,
            "options" => packet.extensions.ipv6_options = true,
            "routing-header" if packet.af() == Af::Inet6 => packet.extensions.routing_header = true,
            _ if packet.fragment => return unknown(at, word, ""),
            _ => match packet.protocol {
                TCP => packet.tcp_flags = flags(at, word)?,
                ICMP | ICMP6 => icmp(packet, at, word)?,
                _ => return unknown(at, word, ""),
            },
        }
        Ok(())
    }

    fn identity(&self, at: Range<usize>, name: &str, known: Option<u32>) -> Read<u32> {
        match known.or_else(|| name.parse().ok()) {
            Some(number) => Ok(number),
            None => fail(at, &format!("`{name}` is neither a known name nor a number")),
        }
    }

    fn tos(&mut self) -> Read<u8> {
        let named = self.peek().and_then(|(_, word)| {
            names::TOS.iter().find(|(name, _)| *name == word).map(|(_, tos)| *tos)
        });
        match named {
            Some(tos) => {
                self.next += 1;
                Ok(tos)
            }
            None => self.number("a TOS byte: a name, or 0 to 255"),
        }
    }
}

/// The address and the port of `a.b.c.d:port`, `[v6]:port`, or one without.
fn split(word: &str) -> (&str, Option<&str>) {
    if let Some(inside) = word.strip_prefix('[') {
        return match inside.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, rest)) => match rest.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None => (word, None),
            },
            None => (word, None),
        };
    }
    match word.split_once(':') {
        Some((address, port)) if !port.contains(':') => (address, Some(port)),
        _ => (word, None),
    }
}

fn unknown<T>(at: Range<usize>, word: &str, more: &str) -> Read<T> {
    let message = format!(
        "`{word}` does not describe a packet{more}; expected are tos, prio, tag, received-on, \
         user, group, os, id, rdomain, fragment, options and routing-header"
    );
    fail(at, &message)
}

fn flags(at: Range<usize>, word: &str) -> Read<u8> {
    if word == "none" {
        return Ok(0);
    }
    let mut flags = 0;
    for letter in word.chars() {
        let bit = match letter {
            '.' => ACK,
            other => match TCP_FLAG_LETTERS.find(other) {
                Some(bit) => 1 << bit,
                None => {
                    let more = format!(" and is not TCP flags: letters of {TCP_FLAG_LETTERS}");
                    return unknown(at, word, &more);
                }
            },
        };
        flags |= bit;
    }
    Ok(flags)
}

fn icmp(packet: &mut Packet, at: Range<usize>, word: &str) -> Read<()> {
    let is_icmp6 = packet.protocol == ICMP6;
    let (kind, code) = word.split_once('/').map_or((word, None), |(kind, code)| (kind, Some(code)));
    let number = kind.parse().ok().or_else(|| names::icmp_type(kind, is_icmp6));
    let Some(kind) = number else {
        return unknown(at, word, " and is not an ICMP type");
    };
    let code = match code {
        None => 0,
        Some(code) => match code.parse().ok().or_else(|| names::icmp_code(kind, code, is_icmp6)) {
            Some(code) => code,
            None => return fail(at, &format!("`{code}` is not a code of ICMP type {kind}")),
        },
    };
    packet.icmp.kind = kind;
    packet.icmp.code = code;
    Ok(())
}

/// As it is read again: numbers, no names but the protocol's.
impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.direction == Direction::In { "in" } else { "out" };
        write!(f, "{direction} on {}", self.interface)?;
        if let Some(interface) = &self.received_on {
            write!(f, " received-on {interface}")?;
        }
        if self.fragment {
            f.write_str(" fragment")?;
        }
        write!(f, " {}", protocol_word(self.protocol))?;
        let end = |address, port| end_text(self.has_ports(), address, port);
        let source = end(self.source, self.source_port);
        write!(f, " {source} > {}", end(self.destination, self.destination_port))?;
        if self.protocol == TCP && !self.fragment {
            write!(f, " {}", flag_letters(self.tcp_flags))?;
        }
        if self.is_icmp() {
            write!(f, " {}/{}", self.icmp.kind, self.icmp.code)?;
            if self.icmp.id != 0 {
                write!(f, " id {}", self.icmp.id)?;
            }
        }
        self.write_options(f)
    }
}

impl Packet {
    fn write_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tos != 0 {
            write!(f, " tos {:#04x}", self.tos)?;
        }
        if let Some(prio) = self.prio {
            write!(f, " prio {prio}")?;
        }
        if let Some(tag) = &self.tag {
            write!(f, " tag \"{tag}\"")?;
        }
        if self.rdomain != 0 {
            write!(f, " rdomain {}", self.rdomain)?;
        }
        if let Some(user) = self.user {
            write!(f, " user {user}")?;
        }
        if let Some(group) = self.group {
            write!(f, " group {group}")?;
        }
        if let Some(os) = &self.os {
            write!(f, " os \"{os}\"")?;
        }
        let extensions = self.extensions;
        if extensions.ipv4_options || extensions.ipv6_options {
            f.write_str(" options")?;
        }
        if extensions.routing_header {
            f.write_str(" routing-header")?;
        }
        if let Some(quoted) = &self.quoted {
            let has_ports = matches!(quoted.protocol, TCP | UDP | SCTP);
            let source = end_text(has_ports, quoted.source, quoted.source_port);
            let destination = end_text(has_ports, quoted.destination, quoted.destination_port);
            write!(f, " about {} {source} > {destination}", protocol_word(quoted.protocol))?;
        }
        Ok(())
    }
}

fn protocol_word(protocol: u8) -> String {
    protocol::word(protocol).map_or_else(|| protocol.to_string(), str::to_owned)
}

/// An address, with its port where there is one.
#[must_use]
pub fn end_text(has_ports: bool, address: IpAddr, port: u16) -> String {
    match (has_ports, address) {
        (false, address) => ip(address),
        (true, IpAddr::V4(address)) => format!("{address}:{port}"),
        (true, address) => format!("[{}]:{port}", ip(address)),
    }
}

/// The letters of TCP flags, or `none`.
pub(crate) fn flag_letters(flags: u8) -> String {
    if flags == 0 {
        return "none".to_owned();
    }
    let letters = TCP_FLAG_LETTERS.chars().enumerate();
    letters.filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, letter)| letter).collect()
}
