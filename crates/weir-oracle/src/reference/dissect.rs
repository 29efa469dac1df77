//! A frame taken apart: what the rules see of it, and what states, fragments and forwarding need
//! besides. What cannot be taken apart has a reason to be dropped.

use std::net::IpAddr;

use weir_wire::checksum;

use super::key::{Key, icmp_ends};
use crate::frame::{checksum_at, message_checksum};
use crate::outcome::DropReason;
use weir_rules::evaluate::packet::{ACK, FIN, RST, SYN};
use weir_rules::evaluate::{Icmp, IcmpRole, Packet, end_text};
use weir_rules::fingerprint::Syn;
use weir_rules::value::Direction;
use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP, UDP};

/// Extension headers that are read; a packet with more is dropped as `ip-option`.
pub(crate) const EXTENSION_COUNT_MAX: usize = 19;

const ETHERNET_BYTES: usize = 14;
const V4_BYTES: usize = 20;
const V6_BYTES: usize = 40;

/// What a frame is.
#[derive(Debug)]
pub(super) enum Frame {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// It is dropped unless its interface is skipped.
    Bad(DropReason),
    /// An IP packet.
    Packet(Box<Dissected>),
}

/// A fragment's place in its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) ident: u32,
    pub(super) offset_bytes: u32,
    pub(super) size_bytes: u32,
    pub(super) more: bool,
}

/// A TCP segment, as sequence tracking sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) window: u16,
    pub(super) flags: u8,
    /// The window scale option, at most 14 (RFC 7323 §2.3).
    pub(super) scale: Option<u8>,
    pub(super) payload_bytes: u32,
}

impl Segment {
    /// Whether it acknowledges anything: some stacks send a RST with zero.
    pub(super) fn acknowledges(&self) -> bool {
        self.flags & ACK != 0 && (self.acknowledgement != 0 || self.flags & RST == 0)
    }
}

/// The packet that an ICMP error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inner {
    pub(super) protocol: u8,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// Of TCP.
    pub(super) sequence: u32,
    /// Type of an ICMP message.
    pub(super) kind: u8,
    /// Where its protocol's header is, counted from its IP header.
    pub(super) body_at: usize,
}

/// A packet with everything that was read of it.
#[derive(Debug, Clone)]
pub(super) struct Dissected {
    /// As the rules see it. A first fragment is a whole packet here, a later one has no ports.
    pub(super) packet: Packet,
    /// Where the IP header is.
    pub(super) ip_at: usize,
    /// Size of the IP packet.
    pub(super) ip_bytes: usize,
    pub(super) ttl: u8,
    /// Where the protocol's header is, and how much is there with its payload.
    pub(super) body_at: usize,
    pub(super) body_bytes: usize,
    /// The protocol of IPv4's header, by which its fragments are told apart; 0 of IPv6.
    pub(super) ip_protocol: u8,
    pub(super) piece: Option<Piece>,
    pub(super) segment: Option<Segment>,
    /// Of an ICMP error; where it cannot be read, the reason to drop it.
    pub(super) inner: Option<Result<Inner, DropReason>>,
    /// Neighbour discovery, and a host that asks for routers (RFC 4861): no router forwards them.
    pub(super) is_discovery: bool,
}

impl Inner {
    /// The key of the packet that would answer the one that an ICMP error quotes: the error goes
    /// the same way.
    pub(super) fn against(&self) -> Key {
        Key {
            protocol: self.protocol,
            source: (self.destination, self.destination_port),
            destination: (self.source, self.source_port),
        }
    }
}

impl Dissected {
    /// Whether the protocol's checksum is right; of fragments it cannot be told.
    pub(super) fn has_right_checksum(&self, frame: &[u8]) -> bool {
        let packet = &self.packet;
        let body = &frame[self.body_at..self.body_at + self.body_bytes];
        let Some(at) = checksum_at(packet.protocol).filter(|_| self.piece.is_none()) else {
            return true;
        };
        let expected = message_checksum(body, packet.source, packet.destination, packet.protocol);
        body.get(at..at + 2) == Some(&expected.to_be_bytes()[..])
    }
}

/// What a frame says of where it comes from and goes to, in words.
pub(crate) struct Ends {
    /// Source and destination as states have them: with ports, or an identifier and a type.
    pub(crate) ends: [String; 2],
    /// Those of the packet that an ICMP error quotes.
    pub(crate) quoted: Option<[String; 2]>,
    /// The protocol's checksum is right, as far as it can be seen.
    pub(crate) is_sound: bool,
}

/// Reads the ends of a frame; `None` if it is not IP, or broken.
pub(crate) fn ends(frame: &[u8]) -> Option<Ends> {
    let Frame::Packet(dissected) = dissect(frame, Direction::Out, "") else {
        return None;
    };
    let text = |protocol, (address, port)| {
        end_text(matches!(protocol, TCP | UDP | SCTP | ICMP | ICMP6), address, port)
    };
    let packet = &dissected.packet;
    let key = Key::of(packet);
    let quoted = match dissected.inner {
        Some(Ok(inner)) => {
            let key = inner.against();
            Some([key.destination, key.source].map(|end| text(inner.protocol, end)))
        }
        _ => None,
    };
    // Without ports an end is an address.
    let protocol = if packet.fragment || quoted.is_some() { 0 } else { packet.protocol };
    let ends = [key.source, key.destination].map(|end| text(protocol, end));
    Some(Ends { ends, quoted, is_sound: dissected.has_right_checksum(frame) })
}

/// The identification of an IPv4 packet.
pub(super) fn ipv4_id(frame: &[u8]) -> Option<[u8; 2]> {
    let Frame::Packet(dissected) = dissect(frame, Direction::Out, "") else {
        return None;
    };
    let at = dissected.ip_at + 4;
    dissected.packet.source.is_ipv4().then(|| [frame[at], frame[at + 1]])
}

/// The flow of a frame.
pub(super) fn flow(frame: &[u8]) -> Option<Key> {
    match dissect(frame, Direction::Out, "") {
        Frame::Packet(dissected) => Some(Key::of(&dissected.packet)),
        _ => None,
    }
}

type Read<T> = Result<T, DropReason>;

fn number(bytes: &[u8], at: usize) -> Read<u16> {
    match bytes.get(at..at + 2) {
        Some(pair) => Ok(u16::from_be_bytes([pair[0], pair[1]])),
        None => Err(DropReason::Short),
    }
}

fn number32(bytes: &[u8], at: usize) -> Read<u32> {
    Ok(u32::from(number(bytes, at)?) << 16 | u32::from(number(bytes, at + 2)?))
}

/// The size of an IP header without anything behind it, of an address's family.
pub(super) fn header_bytes(address: IpAddr) -> usize {
    if address.is_ipv4() { V4_BYTES } else { V6_BYTES }
}

/// Takes a frame apart.
pub(super) fn dissect(frame: &[u8], direction: Direction, interface: &str) -> Frame {
    let Ok(mut kind) = number(frame, ETHERNET_BYTES - 2) else {
        return Frame::NotIp;
    };
    let (mut at, mut prio) = (ETHERNET_BYTES, None);
    while matches!(kind, 0x8100 | 0x88a8) {
        let (Ok(tag), Ok(next)) = (number(frame, at), number(frame, at + 2)) else {
            return Frame::Bad(DropReason::Short);
        };
        prio = prio.or(u8::try_from(tag >> 13).ok());
        kind = next;
        at += 4;
    }
    let read = match kind {
        0x0800 => v4(frame, at, direction, interface),
        0x86dd => v6(frame, at, direction, interface),
        _ => return Frame::NotIp,
    };
    match read {
        Ok(mut dissected) => {
            dissected.packet.prio = prio;
            let is_plain = dissected.piece.is_none()
                && dissected.body_at - dissected.ip_at == header_bytes(dissected.packet.source);
            dissected.packet.extensions.others = !is_plain;
            Frame::Packet(Box::new(dissected))
        }
        Err(reason) => Frame::Bad(reason),
    }
}

fn v4(frame: &[u8], ip_at: usize, direction: Direction, interface: &str) -> Read<Dissected> {
    let ip = frame.get(ip_at..).filter(|ip| ip.len() >= 20).ok_or(DropReason::Short)?;
    let header_bytes = usize::from(ip[0] & 15) * 4;
    let ip_bytes = usize::from(number(ip, 2)?);
    if ip[0] >> 4 != 4 || header_bytes < 20 || ip_bytes < header_bytes || ip_bytes > ip.len() {
        return Err(DropReason::Short);
    }
    // What leaves is the box's own work, and may get its checksum later.
    let is_wrong = checksum::ipv4_header(&ip[..header_bytes]) != number(ip, 10)?;
    if is_wrong && direction == Direction::In {
        return Err(DropReason::ProtoCksum);
    }
    let address = |at: usize| IpAddr::from([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let mut packet = Packet::new(direction, interface, (address(12), address(16)), ip[9]);
    packet.tos = ip[1];
    packet.extensions.ipv4_options = header_bytes > 20;
    let flags = number(ip, 6)?;
    packet.syn = Some(syn(ip[8], flags & 0x4000 != 0, ip_bytes));
    let size_bytes = u32::try_from(ip_bytes - header_bytes).unwrap_or(u32::MAX);
    let piece = Piece {
        ident: number(ip, 4)?.into(),
        offset_bytes: u32::from(flags & 0x1fff) * 8,
        size_bytes,
        more: flags & 0x2000 != 0,
    };
    let mut at = header_bytes;
    if piece.offset_bytes == 0 {
        (packet.protocol, at) = authentications(&ip[..ip_bytes], ip[9], at)?;
    }
    let (body_at, body_bytes) = (ip_at + at, ip_bytes - at);
    let mut dissected = Dissected::new(packet, (ip_at, ip_bytes), ip[8], (body_at, body_bytes));
    dissected.ip_protocol = ip[9];
    dissected.finish(frame, Some(piece))
}

/// What of an IP header fingerprints look at.
fn syn(ttl: u8, df: bool, ip_bytes: usize) -> Syn {
    let size_bytes = u16::try_from(ip_bytes).unwrap_or(u16::MAX);
    Syn { ttl, df, size_bytes, ..Syn::default() }
}

/// Steps over IPv4's authentication headers (RFC 4302); gives the protocol and where it begins.
fn authentications(ip: &[u8], mut protocol: u8, mut at: usize) -> Read<(u8, usize)> {
    for _ in 0..EXTENSION_COUNT_MAX {
        if protocol != 51 {
            break;
        }
        let header = ip.get(at..at + 8).ok_or(DropReason::Short)?;
        protocol = header[0];
        at += (usize::from(header[1]) + 2) * 4;
        if at > ip.len() {
            return Err(DropReason::Short);
        }
    }
    if protocol == 51 { Err(DropReason::IpOption) } else { Ok((protocol, at)) }
}

/// Whether pf has nothing against an extension header behind those before it.
fn fits(protocol: u8, before: &[u8]) -> Read<()> {
    match protocol {
        44 if before.contains(&44) => Err(DropReason::Fragment),
        43 if before.contains(&43) => Err(DropReason::IpOption),
        0 if !before.is_empty() => Err(DropReason::IpOption),
        _ => Ok(()),
    }
}

fn v6(frame: &[u8], ip_at: usize, direction: Direction, interface: &str) -> Read<Dissected> {
    let ip = frame.get(ip_at..).filter(|ip| ip.len() >= V6_BYTES).ok_or(DropReason::Short)?;
    let ip_bytes = V6_BYTES + usize::from(number(ip, 4)?);
    if ip[0] >> 4 != 6 || ip_bytes > ip.len() {
        return Err(DropReason::Short);
    }
    let ip = &ip[..ip_bytes];
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&ip[at..at + 16]);
        IpAddr::from(octets)
    };
    let mut packet = Packet::new(direction, interface, (address(8), address(24)), ip[6]);
    packet.tos = ip[0] << 4 | ip[1] >> 4;
    packet.syn = Some(syn(ip[7], true, ip_bytes));
    let (mut at, mut piece, mut before) = (V6_BYTES, None, Vec::new());
    for _ in 0..EXTENSION_COUNT_MAX {
        if matches!(packet.protocol, 0 | 43 | 44 | 51 | 60) {
            if at + 8 > ip.len() {
                return Err(DropReason::Short);
            }
            fits(packet.protocol, &before)?;
            before.push(packet.protocol);
        }
        let header_bytes = match packet.protocol {
            0 | 60 => {
                packet.extensions.ipv6_options = true;
                (usize::from(*ip.get(at + 1).ok_or(DropReason::Short)?) + 1) * 8
            }
            43 => {
                packet.extensions.routing_header = true;
                if *ip.get(at + 2).ok_or(DropReason::Short)? == 0 {
                    // Type 0 is forbidden (RFC 5095).
                    return Err(DropReason::IpOption);
                }
                (usize::from(ip[at + 1]) + 1) * 8
            }
            51 => (usize::from(*ip.get(at + 1).ok_or(DropReason::Short)?) + 2) * 4,
            44 => {
                let flags = number(ip, at + 2)?;
                let ident = number32(ip, at + 4)?;
                let size_bytes = u32::try_from(ip_bytes - at - 8).unwrap_or(u32::MAX);
                let (offset_bytes, more) = (u32::from(flags & 0xfff8), flags & 1 != 0);
                piece = Some(Piece { ident, offset_bytes, size_bytes, more });
                if offset_bytes != 0 {
                    packet.protocol = ip[at];
                    at += 8;
                    break;
                }
                8
            }
            _ => break,
        };
        packet.protocol = ip[at];
        at += header_bytes;
        if at > ip.len() {
            return Err(DropReason::Short);
        }
    }
    if matches!(packet.protocol, 0 | 43 | 44 | 51 | 60)
        && piece.is_none_or(|piece| piece.offset_bytes == 0)
    {
        return Err(DropReason::IpOption);
    }
    let dissected = Dissected::new(packet, (ip_at, ip_bytes), ip[7], (ip_at + at, ip_bytes - at));
    dissected.finish(frame, piece)
}

impl Dissected {
    fn new(packet: Packet, ip: (usize, usize), ttl: u8, body: (usize, usize)) -> Self {
        Self {
            packet,
            ip_at: ip.0,
            ip_bytes: ip.1,
            ttl,
            body_at: body.0,
            body_bytes: body.1,
            ip_protocol: 0,
            piece: None,
            segment: None,
            inner: None,
            is_discovery: false,
        }
    }

    /// Reads the protocol's header, if there is one here.
    fn finish(mut self, frame: &[u8], piece: Option<Piece>) -> Read<Self> {
        self.piece = piece.filter(|piece| piece.more || piece.offset_bytes != 0);
        // Of a packet in pieces the length is not known.
        let syn = self.packet.syn.take().filter(|_| self.piece.is_none());
        if let Some(piece) = self.piece {
            let is_cut = piece.more && piece.size_bytes % 8 != 0;
            if piece.size_bytes == 0 || is_cut || piece.offset_bytes + piece.size_bytes > 65535 {
                return Err(DropReason::Fragment);
            }
            if piece.offset_bytes != 0 {
                self.packet.fragment = true;
                return Ok(self);
            }
        }
        let body = &frame[self.body_at..self.body_at + self.body_bytes];
        let is_whole = self.piece.is_none();
        match self.packet.protocol {
            TCP => self.tcp(body, syn)?,
            UDP => {
                self.ports(body, 8)?;
                let size_bytes = usize::from(number(body, 4)?);
                let is_over = is_whole && size_bytes > body.len();
                if size_bytes < 8 || is_over || self.packet.destination_port == 0 {
                    return Err(DropReason::Short);
                }
            }
            SCTP => self.ports(body, 12)?,
            ICMP | ICMP6 => self.icmp(body)?,
            _ => {}
        }
        Ok(self)
    }

    fn ports(&mut self, body: &[u8], header_bytes: usize) -> Read<()> {
        if body.len() < header_bytes {
            return Err(DropReason::Short);
        }
        self.packet.source_port = number(body, 0)?;
        self.packet.destination_port = number(body, 2)?;
        Ok(())
    }

    fn tcp(&mut self, body: &[u8], syn: Option<Syn>) -> Read<()> {
        self.ports(body, 20)?;
        let header_bytes = usize::from(body[12] >> 4) * 4;
        if header_bytes < 20 {
            return Err(DropReason::Normalize);
        }
        let options = body.get(20..header_bytes).ok_or(DropReason::Short)?;
        self.packet.tcp_flags = body[13];
        if body[13] & (SYN | ACK) == SYN {
            let window = number(body, 14)?;
            self.packet.syn = syn.and_then(|syn| Syn { window, ..syn }.with_options(options));
        }
        // A SYN ends nothing (`pf_normalize_tcp` of pf_norm.c).
        let flags = if body[13] & SYN != 0 { body[13] & !FIN } else { body[13] };
        self.segment = Some(Segment {
            sequence: number32(body, 4)?,
            acknowledgement: number32(body, 8)?,
            window: number(body, 14)?,
            flags,
            scale: window_scale(options),
            payload_bytes: u32::try_from(body.len() - header_bytes).unwrap_or(u32::MAX),
        });
        Ok(())
    }

    fn icmp(&mut self, body: &[u8]) -> Read<()> {
        let is_v4 = self.packet.source.is_ipv4();
        // The rules refuse it as malformed.
        if (self.packet.protocol == ICMP) != is_v4 {
            return Ok(());
        }
        if body.len() < 8 {
            return Err(DropReason::Short);
        }
        let kind = body[0];
        let has_id =
            if is_v4 { matches!(kind, 0 | 8 | 13..=18) } else { matches!(kind, 128 | 129) };
        let id = if has_id { number(body, 4)? } else { 0 };
        self.packet.icmp = Icmp { kind, code: body[1], id };
        if self.packet.icmp_role() == IcmpRole::Error {
            self.inner = Some(inner(&body[8..], is_v4));
        }
        self.is_discovery = !is_v4 && matches!(kind, 133 | 135 | 136) && self.ttl == 255;
        Ok(())
    }
}

fn window_scale(options: &[u8]) -> Option<u8> {
    let mut at = 0;
    while at < options.len() {
        match (options[at], options.get(at + 1)) {
            (0, _) | (_, None) => return None,
            (1, _) => at += 1,
            (3, Some(3)) => return options.get(at + 2).map(|scale| (*scale).min(14)),
            (_, Some(0 | 1)) => return None,
            (_, Some(size)) => at += usize::from(*size),
        }
    }
    None
}

/// What a quoted IPv6 packet has behind its extension headers; later fragments have no message.
fn behind_extensions(bytes: &[u8]) -> Read<(u8, &[u8])> {
    let mut protocol = bytes.get(..V6_BYTES).ok_or(DropReason::Short)?[6];
    let mut at = V6_BYTES;
    for _ in 0..EXTENSION_COUNT_MAX {
        if !matches!(protocol, 0 | 43 | 44 | 51 | 60) {
            break;
        }
        let header = bytes.get(at..at + 8).ok_or(DropReason::Short)?;
        at += match protocol {
            44 if number(header, 2)? & 0xfff8 != 0 => return Err(DropReason::Fragment),
            44 => 8,
            51 => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        protocol = header[0];
    }
    if matches!(protocol, 0 | 43 | 44 | 51 | 60) {
        return Err(DropReason::IpOption);
    }
    Ok((protocol, bytes.get(at..).unwrap_or_default()))
}

/// What a quoted IPv4 packet has behind its authentication headers, and where it begins.
fn quoted_authentications(bytes: &[u8], mut at: usize) -> Read<(u8, usize)> {
    let mut protocol = *bytes.get(9).ok_or(DropReason::Short)?;
    for _ in 0..EXTENSION_COUNT_MAX {
        if protocol != 51 {
            break;
        }
        let header = bytes.get(at..at + 8).ok_or(DropReason::Short)?;
        protocol = header[0];
        at += (usize::from(header[1]) + 2) * 4;
    }
    if protocol == 51 { Err(DropReason::IpOption) } else { Ok((protocol, at)) }
}

/// The header of a quoted packet, and the first bytes behind it (RFC 792, RFC 4443 §2.4). It is of
/// the error's own family.
fn inner(bytes: &[u8], is_v4: bool) -> Read<Inner> {
    let version = bytes.first().map(|first| first >> 4);
    let (protocol, source, destination, rest) = match (version, is_v4) {
        (Some(4), true) => {
            let header_bytes = (usize::from(bytes[0] & 15) * 4).max(20);
            if bytes.len() < header_bytes {
                return Err(DropReason::Short);
            }
            if number(bytes, 6)? & 0x1fff != 0 {
                return Err(DropReason::Fragment);
            }
            let (protocol, at) = quoted_authentications(bytes, header_bytes)?;
            // As of IPv6: what goes beyond the end is short only of a header that is looked at.
            let rest = bytes.get(at..).unwrap_or_default();
            let address =
                |at: usize| IpAddr::from([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            (protocol, address(12), address(16), rest)
        }
        (Some(6), false) => {
            let (protocol, rest) = behind_extensions(bytes)?;
            let address = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[at..at + 16]);
                IpAddr::from(octets)
            };
            (protocol, address(8), address(24), rest)
        }
        _ => return Err(DropReason::Short),
    };
    let mut inner = Inner {
        protocol,
        source,
        destination,
        source_port: 0,
        destination_port: 0,
        sequence: 0,
        kind: 0,
        body_at: bytes.len() - rest.len(),
    };
    match protocol {
        TCP | UDP | SCTP => {
            if rest.len() < 8 {
                return Err(DropReason::Short);
            }
            (inner.source_port, inner.destination_port) = (number(rest, 0)?, number(rest, 2)?);
            inner.sequence = number32(rest, 4)?;
        }
        ICMP | ICMP6 => {
            if rest.len() < 8 {
                return Err(DropReason::Short);
            }
            inner.kind = rest[0];
            let ends = icmp_ends(protocol, inner.kind, number(rest, 4)?);
            (inner.source_port, inner.destination_port) = ends;
        }
        _ => {}
    }
    Ok(inner)
}
