//! Packets that change their family (`af-to`), byte by byte (RFC 7915).

use std::net::{IpAddr, Ipv6Addr};

use super::dissect::{Dissected, Inner, header_bytes};
use super::key::Key;
use super::key::icmp_id;
use crate::frame::checksum_at;
use weir_rules::evaluate::packet::is_martian;
use weir_wire::checksum;
use weir_wire::protocol::{ICMP, ICMP6, TCP, UDP, other_family};

/// By how much IPv6's header is longer.
const GROWTH_BYTES: u32 = 20;
/// The smallest MTU of IPv6, and the largest size of its errors.
const MTU_MIN_BYTES: u32 = 1280;
/// What is longer must not be fragmented.
pub(super) const WHOLE_BYTES: usize = 1260;
/// Header of ICMP.
const ICMP_BYTES: usize = 8;

/// The type of an echo message in the other family.
pub(super) fn echo(protocol: u8, kind: u8) -> Option<u8> {
    match (protocol, kind) {
        (ICMP, 8) => Some(128),
        (ICMP, 0) => Some(129),
        (ICMP6, 128) => Some(8),
        (ICMP6, 129) => Some(0),
        _ => None,
    }
}

/// A packet that changes.
pub(super) struct Changing<'a> {
    /// The frame as it would leave in its family.
    pub(super) frame: &'a [u8],
    pub(super) dissected: &'a Dissected,
    /// Its ends in the other one.
    pub(super) flow: Key,
    /// It goes to who began its flow.
    pub(super) is_answer: bool,
    /// The identification of what may be fragmented.
    pub(super) id: [u8; 2],
}

/// What an error becomes: type, code, and the word behind the checksum.
fn error6(kind: u8, code: u8, word: u32) -> Option<(u8, u8, u32)> {
    let pointer = |at: u32| match at {
        0 | 1 => Some(at),
        2 | 3 => Some(4),
        8 => Some(7),
        9 => Some(6),
        12..=15 => Some(8),
        16..=19 => Some(24),
        _ => None,
    };
    Some(match (kind, code) {
        (3, 0 | 1 | 5..=8 | 11 | 12) => (1, 0, 0),
        (3, 2) => (4, 1, 6),
        (3, 3) => (1, 4, 0),
        (3, 4) => (2, 0, ((word & 0xffff) + GROWTH_BYTES).max(MTU_MIN_BYTES)),
        (3, 9 | 10 | 13 | 15) => (1, 1, 0),
        (11, _) => (3, code, 0),
        (12, 0 | 2) => (4, 0, pointer(word >> 24)?),
        _ => return None,
    })
}

fn error4(kind: u8, code: u8, word: u32) -> Option<(u8, u8, u32)> {
    let pointer = |at: u32| match at {
        0 | 1 => Some(at),
        4 | 5 => Some(2),
        6 => Some(9),
        7 => Some(8),
        8..=23 => Some(12),
        24..=39 => Some(16),
        _ => None,
    };
    Some(match (kind, code) {
        (1, 0 | 2 | 3) => (3, 1, 0),
        (1, 1) => (3, 10, 0),
        (1, 4) => (3, 3, 0),
        (2, _) if word >= MTU_MIN_BYTES => (3, 4, (word - GROWTH_BYTES).min(0xffff)),
        (3, _) => (11, code, 0),
        (4, 0) => (12, 0, pointer(word)? << 24),
        (4, 1) => (3, 2, 0),
        _ => return None,
    })
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An IP header: of a packet, or of one that is quoted, which has no identification.
fn header(
    (source, destination): (IpAddr, IpAddr),
    (protocol, tos, ttl): (u8, u8, u8),
    message_bytes: u16,
    id: [u8; 2],
) -> Vec<u8> {
    let mut bytes;
    if source.is_ipv4() {
        let size = message_bytes.wrapping_add(20);
        let size_bytes = u32::from(message_bytes) + 20;
        let is_whole = size_bytes as usize > WHOLE_BYTES;
        let [size_high, size_low] = size.to_be_bytes();
        let (id, flags) = if is_whole { ([0; 2], 0x40) } else { (id, 0) };
        bytes = vec![0x45, tos, size_high, size_low, id[0], id[1], flags, 0, ttl, protocol, 0, 0];
        bytes.extend([octets(source), octets(destination)].concat());
        let sum = checksum::ipv4_header(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        let [size_high, size_low] = message_bytes.to_be_bytes();
        bytes = vec![0x60 | tos >> 4, tos << 4, 0, 0, size_high, size_low, protocol, ttl];
        bytes.extend([octets(source), octets(destination)].concat());
    }
    bytes
}

/// TOS, TTL, and how much follows, of an IP header.
fn read(ip: &[u8]) -> ((u8, u8), u16) {
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    if ip[0] >> 4 == 4 {
        ((ip[1], ip[8]), word(2).wrapping_sub(20))
    } else {
        ((ip[0] << 4 | ip[1] >> 4, ip[7]), word(4))
    }
}

/// What a message's checksum covers of addresses, in the order of words.
fn pseudo(protocol: u8, ends: (IpAddr, IpAddr), message_bytes: usize) -> Vec<u8> {
    let ends_bytes = [octets(ends.0), octets(ends.1)].concat();
    match protocol {
        ICMP => Vec::new(),
        ICMP6 => {
            let size = u16::try_from(message_bytes).unwrap_or(u16::MAX);
            [ends_bytes, size.to_be_bytes().to_vec(), vec![0, ICMP6]].concat()
        }
        _ => ends_bytes,
    }
}

fn sum_of(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<2>().0.iter();
    words.map(|pair| u64::from(u16::from_be_bytes(*pair))).sum()
}

/// A checksum after bytes that it covers have become others; what follows them stays.
fn adjusted(sum: u16, old: &[u8], new: &[u8]) -> u16 {
    let old = old.as_chunks::<2>().0.iter().map(|pair| u64::from(!u16::from_be_bytes(*pair)));
    let mut total = u64::from(!sum) + old.sum::<u64>() + sum_of(new);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !u16::try_from(total).unwrap_or(0)
}

impl Changing<'_> {
    fn ends(&self) -> (IpAddr, IpAddr) {
        (self.flow.source.0, self.flow.destination.0)
    }

    /// The source that the packet gets: a router on the way that has sent an error stands in the
    /// last 32 bits of the end that it speaks of.
    fn source(&self, inner: Option<Inner>) -> IpAddr {
        let sender = self.dissected.packet.source;
        match (self.flow.source.0, sender, inner) {
            (IpAddr::V6(end), IpAddr::V4(router), Some(inner))
                if self.is_answer && sender != inner.destination =>
            {
                let high = end.to_bits() >> 32 << 32;
                IpAddr::V6(Ipv6Addr::from_bits(high | u128::from(router.to_bits())))
            }
            (end, ..) => end,
        }
    }

    /// The frame in the other family; nothing if there is none.
    pub(super) fn changed(&self) -> Option<Vec<u8>> {
        let dissected = self.dissected;
        let packet = &dissected.packet;
        let is_plain = packet.extensions == weir_rules::evaluate::Extensions::default();
        if packet.fragment || !is_plain || is_martian(packet.source, packet.destination) {
            return None;
        }
        let body = dissected.body_at..dissected.body_at + dissected.body_bytes;
        let old = &self.frame[body];
        let inner = dissected.inner.and_then(Result::ok);
        let ((tos, ttl), _) = read(&self.frame[dissected.ip_at..]);
        let mut message = match (inner, dissected.inner) {
            (Some(inner), _) => self.error(old, inner)?,
            (None, Some(_)) => return None,
            (None, None) => self.message(old)?,
        };
        let ends = (self.source(inner), self.flow.destination.0);
        let new_protocol = other_family(packet.protocol);
        if let Some(at) = checksum_at(new_protocol).filter(|at| at + 2 <= message.len()) {
            let was = u16::from_be_bytes([old[at], old[at + 1]]);
            let sum = self.sum(was, old, &message, (ends, at));
            message[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let size = u16::try_from(message.len()).ok()?;
        let mut frame = self.frame[..dissected.ip_at].to_vec();
        let kind: [u8; 2] = if ends.0.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
        let kind_at = frame.len() - 2;
        frame[kind_at..].copy_from_slice(&kind);
        frame.extend(header(ends, (new_protocol, tos, ttl), size, self.id));
        frame.extend(message);
        let is_long = frame.len() - dissected.ip_at > MTU_MIN_BYTES as usize;
        // What the link has padded stays.
        frame.extend(&self.frame[dissected.ip_at + dissected.ip_bytes..]);
        (inner.is_none() || !is_long).then_some(frame)
    }

    /// The checksum of a message.
    fn sum(&self, was: u16, old: &[u8], new: &[u8], (ends, at): ((IpAddr, IpAddr), usize)) -> u16 {
        let packet = &self.dissected.packet;
        let new_protocol = other_family(packet.protocol);
        let is_udp = packet.protocol == UDP;
        let mut sum = 0;
        if is_udp && was == 0 {
            if let (IpAddr::V6(source), IpAddr::V6(destination)) = ends {
                sum = checksum::udp(source, destination, new);
            }
            return sum;
        }
        // Neither the checksum itself nor an odd last byte.
        let covered = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[at..at + 2].fill(0);
            bytes
        };
        let before = pseudo(packet.protocol, (packet.source, packet.destination), old.len());
        let after = pseudo(new_protocol, ends, new.len());
        let old = [before, covered(old)].concat();
        let new = [after, covered(new)].concat();
        sum = adjusted(was, &old, &new);
        if is_udp && sum == 0 { 0xffff } else { sum }
    }

    /// A message that is no error.
    fn message(&self, old: &[u8]) -> Option<Vec<u8>> {
        let packet = &self.dissected.packet;
        let mut message = old.to_vec();
        let ports = (self.flow.source.1, self.flow.destination.1);
        match packet.protocol {
            TCP | UDP => {
                message[..2].copy_from_slice(&ports.0.to_be_bytes());
                message[2..4].copy_from_slice(&ports.1.to_be_bytes());
            }
            ICMP | ICMP6 => {
                message[0] = echo(packet.protocol, packet.icmp.kind)?;
                let id = icmp_id(other_family(packet.protocol), message[0], ports)?;
                message[4..6].copy_from_slice(&id.to_be_bytes());
            }
            _ => return None,
        }
        Some(message)
    }

    /// An error with what it quotes, which went the other way.
    fn error(&self, old: &[u8], inner: Inner) -> Option<Vec<u8>> {
        let word = u32::from_be_bytes(old[4..8].try_into().ok()?);
        let is_v4 = inner.source.is_ipv4();
        let (kind, code, word) =
            if is_v4 { error6(old[0], old[1], word) } else { error4(old[0], old[1], word) }?;
        if inner.body_at != header_bytes(inner.source) {
            return None;
        }
        let quoted = &old[ICMP_BYTES..];
        let ((tos, ttl), size) = read(quoted);
        let ends = self.ends();
        let mut message = vec![kind, code, old[2], old[3]];
        message.extend(word.to_be_bytes());
        message.extend(header(
            (ends.1, ends.0),
            (other_family(inner.protocol), tos, ttl),
            size,
            [0; 2],
        ));
        let at = message.len();
        message.extend(&quoted[inner.body_at..]);
        let ports = (self.flow.destination.1, self.flow.source.1);
        match inner.protocol {
            TCP | UDP => {
                message[at..at + 2].copy_from_slice(&ports.0.to_be_bytes());
                message[at + 2..at + 4].copy_from_slice(&ports.1.to_be_bytes());
            }
            _ => {
                message[at] = echo(inner.protocol, inner.kind)?;
                let id = icmp_id(other_family(inner.protocol), message[at], ports)?;
                message[at + 4..at + 6].copy_from_slice(&id.to_be_bytes());
            }
        }
        Some(message)
    }
}
