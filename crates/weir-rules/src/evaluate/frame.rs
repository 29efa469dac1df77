//! A packet from the bytes of an Ethernet frame, as captures hold them.

use std::net::IpAddr;

use weir_wire::ethernet::{self, EtherType};
use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP, UDP};
use weir_wire::{ParseError, icmp, ipv4, ipv6, tcp, udp, vlan};

use super::packet::{ACK, Icmp, IcmpRole, Packet, Quoted, SYN};
use crate::fingerprint::Syn;
use crate::value::Direction;

/// Headers that IPv6 puts before the protocol's (RFC 8200 §4.1).
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    /// How many are read, as pf does.
    pub(super) const COUNT_MAX: usize = 19;
}

const IPV6_HEADER_BYTES: u16 = 40;

/// Why a frame is no packet for the rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Neither IPv4 nor IPv6: pf's rules do not see it.
    #[error("the frame is of ether type {0:#06x}, neither IPv4 nor IPv6")]
    NotIp(u16),
    /// A header cannot be read.
    #[error("{0}")]
    Header(#[from] ParseError),
    /// Extension headers that end before they are complete, are too many, or do not go together.
    #[error("the extension headers cannot be read")]
    Extensions,
    /// SCTP without ports.
    #[error("the SCTP header is cut off")]
    Sctp,
}

impl Packet {
    /// A packet from an Ethernet frame without its check sequence. VLAN tags are stepped over;
    /// the outer one gives the priority. Checksums are not looked at, as pf does not before rules.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if the frame holds no IP packet, or not all of it.
    pub fn from_frame(
        frame: &[u8],
        direction: Direction,
        interface: &str,
    ) -> Result<Self, FrameError> {
        let ethernet = ethernet::Packet::new_checked(frame)?;
        let (mut kind, mut payload) = (ethernet.ethertype(), ethernet.payload());
        let mut prio = None;
        while vlan::is_tag(kind) {
            let tag = vlan::Packet::new_checked(payload)?;
            prio = prio.or(Some(tag.pcp()));
            kind = tag.ethertype();
            payload = &payload[vlan::TAG_BYTES..];
        }
        let mut packet = match kind {
            EtherType::IPV4 => v4(payload, direction, interface)?,
            EtherType::IPV6 => v6(payload, direction, interface)?,
            EtherType(other) => return Err(FrameError::NotIp(other)),
        };
        packet.prio = prio;
        Ok(packet)
    }
}

fn v4(bytes: &[u8], direction: Direction, interface: &str) -> Result<Packet, FrameError> {
    let ip = ipv4::Packet::new_checked(bytes)?;
    let ends = (IpAddr::V4(ip.src()), IpAddr::V4(ip.dst()));
    let mut packet = Packet::new(direction, interface, ends, ip.protocol());
    packet.tos = ip.tos();
    packet.extensions.ipv4_options = usize::from(ip.header_bytes()) > ipv4::HEADER_BYTES;
    packet.fragment = ip.more_fragments() || ip.fragment_offset_bytes() != 0;
    let size_bytes = ip.total_bytes();
    let syn = Syn { ttl: ip.ttl(), df: ip.dont_fragment(), size_bytes, ..Syn::default() };
    let mut rest = ip.payload();
    let mut count = 0;
    // Later fragments have only the bytes of one.
    while packet.protocol == extension::AUTHENTICATION && ip.fragment_offset_bytes() == 0 {
        count += 1;
        if count > extension::COUNT_MAX {
            return Err(FrameError::Extensions);
        }
        let size_bytes = length(rest, 4)?;
        packet.protocol = *rest.first().ok_or(FrameError::Extensions)?;
        rest = rest.get(size_bytes..).ok_or(FrameError::Extensions)?;
    }
    protocol(&mut packet, rest, syn)?;
    Ok(packet)
}

/// Whether pf lets a header stand behind those before it: hop-by-hop options come first, and
/// routing and fragment headers once (`pf_walk_header6` of pf.c).
fn goes_behind(protocol: u8, before: &[u8]) -> bool {
    match protocol {
        extension::HOP_BY_HOP => before.is_empty(),
        extension::ROUTING | extension::FRAGMENT => !before.contains(&protocol),
        _ => true,
    }
}

fn v6(bytes: &[u8], direction: Direction, interface: &str) -> Result<Packet, FrameError> {
    let ip = ipv6::Packet::new_checked(bytes)?;
    let ends = (IpAddr::V6(ip.src()), IpAddr::V6(ip.dst()));
    let mut packet = Packet::new(direction, interface, ends, ip.next_header());
    packet.tos = ip.traffic_class();
    let size_bytes = ip.payload_bytes().saturating_add(IPV6_HEADER_BYTES);
    let syn = Syn { ttl: ip.hop_limit(), df: true, size_bytes, ..Syn::default() };
    let mut rest = ip.payload();
    let mut before = Vec::new();
    for _ in 0..=extension::COUNT_MAX {
        if !goes_behind(packet.protocol, &before) {
            return Err(FrameError::Extensions);
        }
        before.push(packet.protocol);
        let size_bytes = match packet.protocol {
            extension::HOP_BY_HOP | extension::DESTINATION => {
                packet.extensions.ipv6_options = true;
                length(rest, 8)?
            }
            extension::ROUTING => {
                packet.extensions.routing_header = true;
                length(rest, 8)?
            }
            // RFC 4302 §2.2 counts in words of four bytes, less two.
            extension::AUTHENTICATION => length(rest, 4)?,
            extension::FRAGMENT => {
                let header = rest.first_chunk::<8>().ok_or(FrameError::Extensions)?;
                let offset_and_more = u16::from_be_bytes([header[2], header[3]]) & 0xfff9;
                // A fragment that is all of its packet is none (RFC 6946).
                packet.fragment |= offset_and_more != 0;
                if offset_and_more & 0xfff8 != 0 {
                    packet.protocol = header[0];
                    return Ok(packet);
                }
                8
            }
            _ => {
                protocol(&mut packet, rest, syn)?;
                return Ok(packet);
            }
        };
        packet.protocol = *rest.first().ok_or(FrameError::Extensions)?;
        rest = rest.get(size_bytes..).ok_or(FrameError::Extensions)?;
    }
    Err(FrameError::Extensions)
}

/// Size of an extension header that counts in steps of so many bytes.
fn length(header: &[u8], step_bytes: usize) -> Result<usize, FrameError> {
    let steps = usize::from(*header.get(1).ok_or(FrameError::Extensions)?);
    Ok(if step_bytes == 4 { (steps + 2) * 4 } else { (steps + 1) * step_bytes })
}

/// Reads the protocol's header; `syn` has what the IP header says. Fragments are left without one:
/// pf looks at none there.
fn protocol(packet: &mut Packet, bytes: &[u8], syn: Syn) -> Result<(), FrameError> {
    if packet.fragment {
        return Ok(());
    }
    match packet.protocol {
        TCP => {
            let tcp = tcp::Packet::new_checked(bytes)?;
            (packet.source_port, packet.destination_port) = (tcp.src_port(), tcp.dst_port());
            packet.tcp_flags = tcp.flags().0;
            if packet.tcp_flags & (SYN | ACK) == SYN {
                let options = bytes.get(tcp::HEADER_BYTES..tcp.header_bytes().into());
                let syn = Syn { window: tcp.window(), ..syn };
                packet.syn = syn.with_options(options.unwrap_or(&[]));
            }
        }
        UDP => {
            let udp = udp::Packet::new_checked(bytes)?;
            (packet.source_port, packet.destination_port) = (udp.src_port(), udp.dst_port());
        }
        SCTP => {
            let ports = bytes.first_chunk::<4>().ok_or(FrameError::Sctp)?;
            packet.source_port = u16::from_be_bytes([ports[0], ports[1]]);
            packet.destination_port = u16::from_be_bytes([ports[2], ports[3]]);
        }
        ICMP | ICMP6 => {
            let icmp = icmp::Packet::new_checked(bytes)?;
            let is_echo = match packet.protocol {
                ICMP => matches!(icmp.kind(), 0 | 8),
                _ => matches!(icmp.kind(), 128 | 129),
            };
            let id = if is_echo { icmp.ident() } else { 0 };
            packet.icmp = Icmp { kind: icmp.kind(), code: icmp.code(), id };
            if packet.icmp_role() == IcmpRole::Error {
                packet.quoted = quoted(icmp.payload());
            }
        }
        _ => {}
    }
    Ok(())
}

/// The message behind IPv6 extension headers, and its protocol; `None` if it is not there.
fn message(mut protocol: u8, mut rest: &[u8]) -> Option<(u8, &[u8])> {
    for _ in 0..=extension::COUNT_MAX {
        let size_bytes = match protocol {
            extension::HOP_BY_HOP | extension::DESTINATION | extension::ROUTING => {
                length(rest, 8).ok()?
            }
            extension::AUTHENTICATION => length(rest, 4).ok()?,
            extension::FRAGMENT if u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]) < 8 => 8,
            extension::FRAGMENT => return None,
            _ => return Some((protocol, rest)),
        };
        protocol = *rest.first()?;
        rest = rest.get(size_bytes..)?;
    }
    None
}

/// The packet that an ICMP error quotes: its IP header and the first bytes behind it (RFC 792,
/// RFC 4443 §2.4). `None` if too little is there, or it is a later fragment of IPv6.
fn quoted(bytes: &[u8]) -> Option<Quoted> {
    let (protocol, source, destination, rest) = match bytes.first()? >> 4 {
        4 => {
            let header_bytes = usize::from(bytes[0] & 0x0f) * 4;
            let octets = |at: usize| bytes.get(at..at + 4)?.first_chunk::<4>().copied();
            let (source, destination) = (octets(12)?, octets(16)?);
            let rest = bytes.get(header_bytes.max(ipv4::HEADER_BYTES)..)?;
            (*bytes.get(9)?, IpAddr::from(source), IpAddr::from(destination), rest)
        }
        6 => {
            let octets = |at: usize| bytes.get(at..at + 16)?.first_chunk::<16>().copied();
            let (source, destination) = (octets(8)?, octets(24)?);
            let (protocol, rest) = message(*bytes.get(6)?, bytes.get(ipv6::HEADER_BYTES..)?)?;
            (protocol, IpAddr::from(source), IpAddr::from(destination), rest)
        }
        _ => return None,
    };
    let number = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
    let (source_port, destination_port) = match protocol {
        TCP | UDP | SCTP => (number(0)?, number(2)?),
        ICMP if matches!(rest.first(), Some(0 | 8)) => (number(4)?, 0),
        ICMP6 if matches!(rest.first(), Some(128 | 129)) => (number(4)?, 0),
        _ => (0, 0),
    };
    Some(Quoted { protocol, source, destination, source_port, destination_port })
}
