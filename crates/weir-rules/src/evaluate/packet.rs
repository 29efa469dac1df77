//! A packet as the rules see it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP, UDP};

use crate::fingerprint::Syn;
use crate::value::{Af, Direction, Text};

/// TCP's FIN, as a bit of its header.
pub const FIN: u8 = 0x01;
/// TCP's SYN.
pub const SYN: u8 = 0x02;
/// TCP's RST.
pub const RST: u8 = 0x04;
/// TCP's PSH.
pub const PSH: u8 = 0x08;
/// TCP's ACK.
pub const ACK: u8 = 0x10;
/// TCP's URG.
pub const URG: u8 = 0x20;

/// The identifying fields of an ICMP message of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Icmp {
    /// The type.
    pub kind: u8,
    pub code: u8,
    /// Identifier of an echo message; 0 elsewhere.
    pub id: u16,
}

/// The packet that an ICMP error is about, as far as the error quotes it. States look at it, rules
/// do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quoted {
    pub protocol: u8,
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Source port of TCP, UDP and SCTP; the identifier of an ICMP echo; 0 elsewhere.
    pub source_port: u16,
    /// Destination port of TCP, UDP and SCTP; 0 elsewhere.
    pub destination_port: u16,
}

/// What a packet carries between the fixed IP header and its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Extensions {
    pub ipv4_options: bool,
    /// An IPv6 hop-by-hop or destination options header.
    pub ipv6_options: bool,
    /// An IPv6 routing header.
    pub routing_header: bool,
    /// Any other header between, or it is the first fragment of a packet.
    pub others: bool,
}

/// Whether no router forwards packets between these (RFC 1122, section 3.2.1.3; RFC 4291, section
/// 2.5): groups, and addresses that only hold on a link, on a host, or not at all.
#[must_use]
pub fn is_martian(source: IpAddr, destination: IpAddr) -> bool {
    let v6 = |address: Ipv6Addr| {
        address.is_unicast_link_local() || address.is_multicast() || address.to_bits() >> 96 == 0
    };
    match (source, destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let either = |address: &Ipv4Addr| {
                address.is_loopback() || address.is_multicast() || address.is_broadcast()
            };
            from.octets()[0] == 0 || to.is_unspecified() || either(&from) || either(&to)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => v6(from) || v6(to),
        _ => false,
    }
}

/// A packet at one interface. What a fragment other than the first does not carry (ports, flags,
/// ICMP fields) is zero, and no rule looks at it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Which way it crosses the interface.
    pub direction: Direction,
    pub interface: Text,
    /// The interface that it came in on, of a packet that goes out; `None` for one of the host's.
    pub received_on: Option<Text>,
    /// The routing domain of the interface.
    pub rdomain: u32,
    pub source: IpAddr,
    /// The destination, of the same family.
    pub destination: IpAddr,
    /// The IP protocol, behind IPv6 extension headers.
    pub protocol: u8,
    /// Source port of TCP, UDP and SCTP.
    pub source_port: u16,
    /// Destination port of TCP, UDP and SCTP.
    pub destination_port: u16,
    /// TCP flags, as bits of the header.
    pub tcp_flags: u8,
    /// ICMP or ICMPv6.
    pub icmp: Icmp,
    /// What an ICMP error is about.
    pub quoted: Option<Quoted>,
    /// The TOS byte or traffic class, ECN bits included.
    pub tos: u8,
    /// The 802.1p priority, if the packet has one.
    pub prio: Option<u8>,
    /// It is a fragment that has not been put together.
    pub fragment: bool,
    /// Options and extension headers.
    pub extensions: Extensions,
    /// The tag that it has already.
    pub tag: Option<Text>,
    /// The user of its socket; `None` where there is none, as for every forwarded packet.
    pub user: Option<u32>,
    /// The group of its socket.
    pub group: Option<u32>,
    /// The operating system that sent a SYN, as somebody says it; `None`: see `syn`.
    pub os: Option<Text>,
    /// Of a SYN that was read from a frame, what fingerprints look at; `None` where they cannot.
    pub syn: Option<Syn>,
}

impl Packet {
    /// A packet with no more than addresses and a protocol. If the addresses are of two families,
    /// the source's is the packet's.
    #[must_use]
    pub fn new(direction: Direction, interface: &str, ends: (IpAddr, IpAddr), proto: u8) -> Self {
        Self {
            direction,
            interface: interface.into(),
            received_on: None,
            rdomain: 0,
            source: ends.0,
            destination: ends.1,
            protocol: proto,
            source_port: 0,
            destination_port: 0,
            tcp_flags: 0,
            icmp: Icmp::default(),
            quoted: None,
            tos: 0,
            prio: None,
            fragment: false,
            extensions: Extensions::default(),
            tag: None,
            user: None,
            group: None,
            os: None,
            syn: None,
        }
    }

    /// The family.
    #[must_use]
    pub fn af(&self) -> Af {
        if self.source.is_ipv4() { Af::Inet } else { Af::Inet6 }
    }

    /// Whether it has ports that can be seen.
    #[must_use]
    pub fn has_ports(&self) -> bool {
        !self.fragment && matches!(self.protocol, TCP | UDP | SCTP)
    }

    /// Whether it is an ICMP message of either family whose type can be seen.
    #[must_use]
    pub fn is_icmp(&self) -> bool {
        !self.fragment && matches!(self.protocol, ICMP | ICMP6)
    }

    /// What pf makes of an ICMP message (`pf_icmp_mapping` of pf.c).
    #[must_use]
    pub fn icmp_role(&self) -> IcmpRole {
        match (self.protocol, self.icmp.kind) {
            (ICMP, 3 | 4 | 5 | 11 | 12) | (ICMP6, 1..=4) => IcmpRole::Error,
            (ICMP, 0 | 9 | 14 | 16 | 18 | 34 | 36) | (ICMP6, 129 | 136 | 200) => IcmpRole::Reply,
            _ => IcmpRole::Query,
        }
    }
}

/// What an ICMP message is to the state table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpRole {
    /// It may begin a state: requests, and types that nothing answers.
    Query,
    /// It answers a query, whose state it needs.
    Reply,
    /// It reports on another connection, whose state it needs; it never begins one.
    Error,
}
