//! The bytes of a packet that goes on: what rules have changed in its headers, and what translation
//! has, with every checksum that covers it.
//!
//! Checksums follow what changes by increment (RFC 1624, equation 3), so that a wrong one stays
//! wrong by as much; also those of the packet that an ICMP error quotes, as far as it has them.

use std::net::IpAddr;

use super::dissect::{Dissected, Inner};
use super::key::icmp_id;
use super::view::Change;
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
    /// IPv4's identification, if it is another one; never that of a fragment.
    pub(super) id: Option<[u8; 2]>,
    /// The largest segment size that a SYN may ask for.
    pub(super) max_mss: Option<u16>,
    /// A SYN loses its FIN (`pf_normalize_tcp` of pf_norm.c).
    pub(super) clears_fin: bool,
    /// How its sequence numbers change.
    pub(super) modulation: Option<Change>,
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
        let is_whole = word(&frame, at + 6) & 0x3fff == 0;
        if let Some(id) = leaving.id.filter(|_| is_whole) {
            frame[at + 4..at + 6].copy_from_slice(&id);
        }
        let sum = adjusted(word(&frame, at + 10), &before, &frame[at..at + header_bytes]);
        put_word(&mut frame, at + 10, sum);
    } else {
        frame[at] = 0x60 | leaving.tos >> 4;
        frame[at + 1] = leaving.tos << 4 | frame[at + 1] & 15;
        frame[at + 7] = leaving.ttl;
    }
    frame
}

impl Leaving<'_> {
    /// Sequence numbers of a segment, also where it acknowledges selectively (RFC 2018); or that
    /// which an error quotes.
    fn modulate(&self, message: &mut [u8], change: Change) {
        const SACK: u8 = 5;
        const ICMP_HEADER_BYTES: usize = 8;
        let Some(segment) = self.dissected.segment else {
            let inner = self.inner.map(|inner| inner.body_at).unwrap_or_default();
            shift(message, ICMP_HEADER_BYTES + inner + 4, change.sequence);
            return;
        };
        let back = change.acknowledged.wrapping_neg();
        shift(message, 4, change.sequence);
        if segment.acknowledges() {
            shift(message, 8, back);
        }
        for (at, size) in options(message, SACK) {
            for number in 0..(size - 2) / 4 {
                shift(message, at + 2 + 4 * number, back);
            }
        }
    }

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
        if let Some(change) = self.modulation {
            self.modulate(message, change);
        }
        let is_syn = self.dissected.segment.is_some() && before.tcp_flags & SYN != 0;
        if let Some(max) = self.max_mss.filter(|_| is_syn) {
            lower_mss(message, max);
        }
        let ends = |packet: &Packet| [octets(packet.source), octets(packet.destination)].concat();
        if !correct(message, packet.protocol, &old, (&ends(before), &ends(packet))) {
            return;
        }
        if self.clears_fin
            && self.dissected.segment.is_some()
            && before.tcp_flags & (SYN | FIN) == SYN | FIN
        {
            clear_fin(message);
        }
    }
}

/// Adds to a sequence number.
fn shift(message: &mut [u8], at: usize, difference: u32) {
    let Some(number) = message.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) else {
        return;
    };
    *number = u32::from_be_bytes(*number).wrapping_add(difference).to_be_bytes();
}

/// Where the options of a segment begin that are of a kind, and how many bytes they have
/// (RFC 9293, section 3.2).
fn options(message: &[u8], asked: u8) -> Vec<(usize, usize)> {
    const END: u8 = 0;
    const NOP: u8 = 1;
    let end = usize::from(message[12] >> 4) * 4;
    let (mut at, mut found) = (20, Vec::new());
    while at + 1 < end.min(message.len()) {
        let (kind, size) = (message[at], usize::from(message[at + 1]));
        match kind {
            END => break,
            NOP => at += 1,
            _ if size < 2 || at + size > end => break,
            _ => {
                if kind == asked {
                    found.push((at, size));
                }
                at += size;
            }
        }
    }
    found
}

/// Lowers the segment sizes among a segment's options.
fn lower_mss(message: &mut [u8], max: u16) {
    const MSS: u8 = 2;
    for (at, size) in options(message, MSS) {
        if size == 4 && word(message, at + 2) > max {
            put_word(message, at + 2, max);
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
    let addresses = if inner.source.is_ipv4() { 12..20 } else { 8..40 };
    let old_addresses = quoted[addresses.clone()].to_vec();
    put_addresses(quoted, 0, inner.source, inner.destination);
    let addresses = quoted[addresses].to_vec();
    let ports = (inner.source_port, inner.destination_port);
    let Some(header) = quoted.get_mut(inner.body_at..).filter(|header| header.len() >= 8) else {
        return;
    };
    let old = header.to_vec();
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
    correct(header, inner.protocol, &old, (&old_addresses, &addresses));
}

/// Corrects the checksum of a message that was `old`, and whose addresses were `from` and are `to`;
/// false if it has none.
fn correct(message: &mut [u8], protocol: u8, old: &[u8], (from, to): (&[u8], &[u8])) -> bool {
    let Some(at) = checksum_at(protocol).filter(|at| at + 2 <= message.len()) else {
        return false;
    };
    let mut sum = word(message, at);
    if protocol == UDP && sum == 0 {
        return false;
    }
    sum = adjusted(sum, old, message);
    // That of ICMP covers no addresses.
    if protocol != ICMP {
        sum = adjusted(sum, from, to);
    }
    if protocol == UDP && sum == 0 {
        sum = 0xffff;
    }
    put_word(message, at, sum);
    true
}
