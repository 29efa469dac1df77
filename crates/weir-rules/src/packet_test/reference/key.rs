//! By what states are found: protocol and both ends, in the direction of who opened them.

use std::net::IpAddr;

use super::dissect::Inner;
use crate::evaluate::Packet;
use crate::evaluate::packet::{ICMP, ICMP6};

/// A flow in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) protocol: u8,
    pub(super) source: (IpAddr, u16),
    pub(super) destination: (IpAddr, u16),
}

impl Key {
    /// The key of a packet. An ICMP query has its identifier where others have the source port
    /// and its type where they have the destination port; its answer has them turned round.
    pub(super) fn of(packet: &Packet) -> Self {
        let (source_port, destination_port) = if packet.is_icmp() {
            icmp_ends(packet.protocol, packet.icmp.kind, packet.icmp.id)
        } else {
            (packet.source_port, packet.destination_port)
        };
        Self {
            protocol: packet.protocol,
            source: (packet.source, source_port),
            destination: (packet.destination, destination_port),
        }
    }

    /// The key of the packet that would answer the one that an ICMP error quotes: the error goes
    /// the same way.
    pub(super) fn against(inner: &Inner) -> Self {
        Self {
            protocol: inner.protocol,
            source: (inner.destination, inner.destination_port),
            destination: (inner.source, inner.source_port),
        }
    }

    pub(super) fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }
}

/// The ends of an ICMP message that is no error (`pf_icmp_mapping` of pf.c).
pub(super) fn icmp_ends(protocol: u8, kind: u8, id: u16) -> (u16, u16) {
    let query = match (protocol, kind) {
        (ICMP, 0) => Some(8),
        (ICMP, 9) => Some(10),
        (ICMP, 14 | 16 | 18 | 34 | 36) => Some(kind - 1),
        (ICMP6, 129 | 136) => Some(kind - 1),
        (ICMP6, 134) => Some(133),
        (ICMP6, 140) => Some(139),
        (ICMP6, 200) => Some(201),
        _ => None,
    };
    let has_id = matches!((protocol, kind), (ICMP, 0 | 8 | 13..=18) | (ICMP6, 128 | 129));
    let id = if has_id { id } else { 0 };
    match query {
        Some(query) => (query.into(), id),
        None => (id, kind.into()),
    }
}
