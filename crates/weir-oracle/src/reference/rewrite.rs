//! The bytes of a packet that goes on: its TTL and TOS, and what translation has changed in it,
//! with every checksum that covers it.
//!
//! Checksums follow what changes by increment (RFC 1624, equation 3), so that a wrong one stays
//! wrong by as much. Of the packet that an ICMP error quotes, the checksum of the IPv4 header alone
//! follows, as in pf.

use std::net::IpAddr;

use super::dissect::{Dissected, Inner};
use super::key::icmp_id;
use crate::frame::checksum_at;
use weir_rules::evaluate::Packet;
use weir_rules::evaluate::packet::{FIN, SYN};
use weir_wire::checksum;
use weir_wire::protocol::{ICMP, ICMP6, TCP, UDP};

/// A packet that goes on.
pub(super) struct Leaving<'a> {
    /// As it came.
    pub(super) dissected: &'a Dissected,
    /// With the ends that it has now.
    pub(super) packet: &'a Packet,
    /// What it quotes, with the ends that this has now.
    pub(super) inner: Option<Inner>,
    pub(super) ttl: u8,
    pub(super) tos: u8,
    pub(super) clears_df: bool,
    /// A SYN loses its FIN (`pf_normalize_tcp` of pf_norm.c).
    pub(super) clears_fin: bool,
}

/// A checksum after `old` has become `new`; both begin at an even offset. A last odd byte never
/// changes.
fn adjusted(sum: u16, old: &[u8], new: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> Vec<u16> {
        bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair)).collect()
    };
    let changed = words(old).into_iter().zip(words(new)).filter(|(old, new)| old != new);
    changed.fold(sum, |sum, (old, new)| {
        !checksum::fold(u32::from(!sum) + u32::from(!old) + u32::from(new))
    })
}

fn word(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

fn put_word(frame: &mut [u8], at: usize, word: u16) {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Puts both addresses into an IP header and corrects its checksum, if it has one.
fn put_addresses(frame: &mut [u8], ip_at: usize, source: IpAddr, destination: IpAddr) {
    let new = [octets(source), octets(destination)].concat();
    let at = ip_at + if source.is_ipv4() { 12 } else { 8 };
    let old = frame[at..at + new.len()].to_vec();
    frame[at..at + new.len()].copy_from_slice(&new);
    if source.is_ipv4() && old != new {
        let sum = adjusted(word(frame, ip_at + 10), &old, &new);
        put_word(frame, ip_at + 10, sum);
    }
}

/// The frame as it goes on.
pub(super) fn rewrite(frame: &[u8], leaving: &Leaving<'_>) -> Vec<u8> {
    let (dissected, packet) = (leaving.dissected, leaving.packet);
    let mut frame = frame.to_vec();
    leaving.put_message(&mut frame);
    let at = dissected.ip_at;
    put_addresses(&mut frame, at, packet.source, packet.destination);
    if packet.source.is_ipv4() {
        let header_bytes = usize::from(frame[at] & 15) * 4;
        let before = frame[at..at + header_bytes].to_vec();
        frame[at + 1] = leaving.tos;
        frame[at + 8] = leaving.ttl;
        if leaving.clears_df {
            frame[at + 6] &= !0x40;
        }
        if frame[at..at + header_bytes] != before {
            let sum = checksum::ipv4_header(&frame[at..at + header_bytes]);
            put_word(&mut frame, at + 10, sum);
        }
    } else {
        frame[at] = 0x60 | leaving.tos >> 4;
        frame[at + 1] = leaving.tos << 4 | frame[at + 1] & 15;
        frame[at + 7] = leaving.ttl;
    }
    frame
}

impl Leaving<'_> {
    /// Ports or identifier, what is quoted, and the checksum of the message.
    fn put_message(&self, frame: &mut [u8]) {
        let (before, packet) = (&self.dissected.packet, self.packet);
        if packet.fragment {
            return;
        }
        let body = self.dissected.body_at..self.dissected.body_at + self.dissected.body_bytes;
        let old = frame[body.clone()].to_vec();
        let message = &mut frame[body];
        if packet.has_ports() {
            put_word(message, 0, packet.source_port);
            put_word(message, 2, packet.destination_port);
        } else if packet.is_icmp() && packet.icmp.id != before.icmp.id {
            put_word(message, 4, packet.icmp.id);
        }
        if let (Some(inner), Some(Ok(was))) = (self.inner, self.dissected.inner)
            && inner != was
        {
            put_inner(&mut message[8..], &inner);
        }
        let Some(at) = checksum_at(packet.protocol).filter(|at| at + 2 <= message.len()) else {
            return;
        };
        let mut sum = word(message, at);
        if packet.protocol == UDP && sum == 0 {
            return;
        }
        sum = adjusted(sum, &old, message);
        if matches!(packet.protocol, TCP | UDP | ICMP6) {
            let ends = |packet: &Packet| [octets(packet.source), octets(packet.destination)];
            sum = adjusted(sum, &ends(before).concat(), &ends(packet).concat());
        }
        if packet.protocol == UDP && sum == 0 {
            sum = 0xffff;
        }
        put_word(message, at, sum);
        if self.clears_fin
            && self.dissected.segment.is_some()
            && before.tcp_flags & (SYN | FIN) == SYN | FIN
        {
            clear_fin(message);
        }
    }
}

/// Takes the FIN out of a SYN with FIN (`pf_normalize_tcp` of pf_norm.c), and corrects the
/// checksum by it (RFC 1624).
fn clear_fin(message: &mut [u8]) {
    message[13] &= !FIN;
    let (sum, carries) = word(message, 16).overflowing_add(FIN.into());
    put_word(message, 16, sum + u16::from(carries));
}

/// Gives the packet that an ICMP error quotes its ends, as far as it has them.
fn put_inner(quoted: &mut [u8], inner: &Inner) {
    put_addresses(quoted, 0, inner.source, inner.destination);
    let ports = (inner.source_port, inner.destination_port);
    let Some(header) = quoted.get_mut(inner.body_at..).filter(|header| header.len() >= 8) else {
        return;
    };
    match inner.protocol {
        TCP | UDP => {
            put_word(header, 0, ports.0);
            put_word(header, 2, ports.1);
        }
        ICMP | ICMP6 => {
            if let Some(id) = icmp_id(inner.protocol, inner.kind, ports) {
                put_word(header, 4, id);
            }
        }
        _ => {}
    }
}
