//! One line about a frame, in tcpdump's manner: Ethernet, VLAN tags, IPv4 or IPv6, UDP, TCP or
//! ICMP, and weir's signature.
//!
//! It prints as far as it understands and says why it stops. Whatever the bytes, it never panics.
//! Checksums are checked, and only wrong ones are mentioned; addresses are never resolved. The line
//! is for people and may change.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use crate::checksum::IpAddress;
use crate::error::ParseError;
use crate::ethernet::{self, EtherType};
use crate::signature::Signature;
use crate::vlan;
use crate::{icmp, ipv4, ipv6, protocol, tcp, udp};

/// Most VLAN tags that are stepped over: more than any switch adds.
const TAG_COUNT_MAX: usize = 4;

/// A frame, without FCS, to be displayed.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a>(pub &'a [u8]);

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = match ethernet::Packet::new_checked(self.0) {
            Ok(link) => link,
            Err(error) => return write!(f, "[{error}]"),
        };
        write!(f, "{} > {}, ", link.src(), link.dst())?;
        let (mut ethertype, mut rest) = (link.ethertype(), &self.0[ethernet::HEADER_BYTES..]);
        for _ in 0..TAG_COUNT_MAX {
            if !vlan::is_tag(ethertype) {
                break;
            }
            let tag = match vlan::Packet::new_checked(rest) {
                Ok(packet) => vlan::Repr::parse(&packet),
                Err(error) => return write!(f, "[{error}]"),
            };
            let name = if ethertype == EtherType::VLAN { "802.1Q" } else { "802.1ad" };
            write!(f, "{name} {tag}, ")?;
            (ethertype, rest) = (tag.ethertype, &rest[vlan::TAG_BYTES..]);
        }
        match ethertype {
            EtherType::IPV4 => fmt_v4(f, rest)?,
            EtherType::IPV6 => fmt_v6(f, rest)?,
            EtherType::ARP => f.write_str("ARP")?,
            EtherType(other) => write!(f, "ethertype {other:#06x}")?,
        }
        write!(f, ", frame {}", self.0.len())
    }
}

fn fmt_v4(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let packet = match ipv4::Packet::new_checked(bytes) {
        Ok(packet) => packet,
        Err(error) => return write!(f, "IP [{error}]"),
    };
    f.write_str("IP ")?;
    let addrs = (packet.src(), packet.dst());
    let (fragment, more) = (packet.fragment_offset_bytes(), packet.more_fragments());
    if fragment != 0 || more {
        // Only the first fragment has a transport header, and none has its checksum.
        write!(f, "{} > {}: fragment at {fragment}", addrs.0, addrs.1)?;
        f.write_str(if more { " and more" } else { ", the last" })?;
    } else {
        fmt_payload(f, packet.protocol(), protocol::ICMP, addrs, packet.payload())?;
    }
    write!(f, ", ttl {}", packet.ttl())?;
    fmt_tos(f, packet.tos())?;
    if !packet.checksum_is_valid() {
        f.write_str(", bad IP checksum")?;
    }
    Ok(())
}

fn fmt_v6(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let packet = match ipv6::Packet::new_checked(bytes) {
        Ok(packet) => packet,
        Err(error) => return write!(f, "IP6 [{error}]"),
    };
    f.write_str("IP6 ")?;
    let addrs = (packet.src(), packet.dst());
    fmt_payload(f, packet.next_header(), protocol::ICMP6, addrs, packet.payload())?;
    write!(f, ", hlim {}", packet.hop_limit())?;
    fmt_tos(f, packet.traffic_class())
}

/// DSCP and ECN where they are not zero.
fn fmt_tos(f: &mut fmt::Formatter<'_>, tos: u8) -> fmt::Result {
    if tos == 0 { Ok(()) } else { write!(f, ", tos {tos:#04x}") }
}

/// What an IP header carries; `icmp_number` is the family's ICMP.
fn fmt_payload<A: IpAddress + Into<IpAddr> + fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    protocol: u8,
    icmp_number: u8,
    (src, dst): (A, A),
    bytes: &[u8],
) -> fmt::Result {
    let result = match protocol {
        protocol::UDP => udp::Packet::new_checked(bytes).map(|packet| {
            fmt_ends(f, (src, dst), (packet.src_port(), packet.dst_port()))?;
            write!(f, "UDP, length {}", packet.payload().len())?;
            let wrong = udp::Repr::parse(&packet, src, dst).err();
            fmt_rest(f, wrong, packet.payload())
        }),
        protocol::TCP => tcp::Packet::new_checked(bytes).map(|packet| {
            fmt_ends(f, (src, dst), (packet.src_port(), packet.dst_port()))?;
            write!(f, "Flags [{}], seq {}", packet.flags(), packet.sequence())?;
            if packet.flags().contains(tcp::Flags::ACK) {
                write!(f, ", ack {}", packet.acknowledgement())?;
            }
            write!(f, ", win {}, length {}", packet.window(), packet.payload().len())?;
            let wrong = tcp::Repr::parse(&packet, src, dst).err();
            // Options are not wrong, only not held by the value.
            let wrong = wrong.filter(|error| matches!(error, ParseError::TcpChecksum { .. }));
            fmt_rest(f, wrong, packet.payload())
        }),
        number if number == icmp_number => icmp::Packet::new_checked(bytes).map(|packet| {
            write!(f, "{src} > {dst}: ")?;
            fmt_icmp(f, (src.into(), dst.into()), &packet)
        }),
        other => {
            return write!(f, "{src} > {dst}: protocol {other}, length {}", bytes.len());
        }
    };
    match result {
        Ok(result) => result,
        Err(error) => write!(f, "{src} > {dst}: [{error}]"),
    }
}

fn fmt_ends<A: Into<IpAddr>>(
    f: &mut fmt::Formatter<'_>,
    (src, dst): (A, A),
    (src_port, dst_port): (u16, u16),
) -> fmt::Result {
    let (src, dst) = (SocketAddr::new(src.into(), src_port), SocketAddr::new(dst.into(), dst_port));
    write!(f, "{src} > {dst}: ")
}

fn fmt_icmp(
    f: &mut fmt::Formatter<'_>,
    addrs: (IpAddr, IpAddr),
    packet: &icmp::Packet<&[u8]>,
) -> fmt::Result {
    let (name, echo) = match addrs {
        (IpAddr::V6(src), IpAddr::V6(dst)) => ("ICMP6", icmp::Echo::parse_v6(packet, src, dst)),
        _ => ("ICMP", icmp::Echo::parse_v4(packet)),
    };
    let size_bytes = packet.payload().len() + icmp::HEADER_BYTES;
    match echo {
        Ok(icmp::Echo { reply, ident, sequence }) => {
            let kind = if reply { "reply" } else { "request" };
            write!(f, "{name} echo {kind}, id {ident}, seq {sequence}, length {size_bytes}")?;
            fmt_rest(f, None, packet.payload())
        }
        Err(error) => {
            let (kind, code) = (packet.kind(), packet.code());
            write!(f, "{name} type {kind} code {code}, length {size_bytes}")?;
            match error {
                ParseError::IcmpNotEcho { .. } => Ok(()),
                wrong => write!(f, ", [{wrong}]"),
            }
        }
    }
}

/// A wrong checksum, and the signature if the payload is weir's.
fn fmt_rest(f: &mut fmt::Formatter<'_>, wrong: Option<ParseError>, payload: &[u8]) -> fmt::Result {
    if let Some(error) = wrong {
        write!(f, ", [{error}]")?;
    }
    let Ok(Signature { stream, thread, sequence, timestamp_ns }) = Signature::parse(payload) else {
        return Ok(());
    };
    write!(f, ", weir stream {stream} thread {thread} sequence {sequence}")?;
    if timestamp_ns == 0 { Ok(()) } else { write!(f, " at {timestamp_ns} ns") }
}

#[cfg(test)]
mod tests;
