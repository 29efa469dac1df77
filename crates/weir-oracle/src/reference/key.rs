//! By what states are found: protocol and both ends, in the direction of who opened them.

use std::net::IpAddr;

use super::dissect::{Inner, icmp_ends};
use weir_rules::evaluate::Packet;

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
