//! By what states are found: protocol and both ends, in the direction of who opened them.

use std::net::IpAddr;

use weir_rules::evaluate::Packet;
use weir_wire::protocol::{ICMP, ICMP6};

/// A flow in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) protocol: u8,
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
}

impl Key {
    /// The key of a packet. An ICMP query has its identifier where others have the source port
    /// and its type where they have the destination port; its answer has them turned round.
    pub(crate) fn of(packet: &Packet) -> Self {
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

    /// Gives a packet these ends: addresses, ports, the identifier of an echo message.
    pub(super) fn put(self, packet: &mut Packet) {
        (packet.source, packet.destination) = (self.source.0, self.destination.0);
        let ports = (self.source.1, self.destination.1);
        if packet.is_icmp() {
            if let Some(id) = icmp_id(packet.protocol, packet.icmp.kind, ports) {
                packet.icmp.id = id;
            }
        } else if packet.has_ports() {
            (packet.source_port, packet.destination_port) = ports;
        }
    }

    pub(crate) fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }
}

/// The message that an ICMP message of this type answers (`pf_icmp_mapping` of pf.c).
fn icmp_query(protocol: u8, kind: u8) -> Option<u8> {
    match (protocol, kind) {
        (ICMP, 0) => Some(8),
        (ICMP, 9) => Some(10),
        (ICMP, 14 | 16 | 18 | 34 | 36) => Some(kind - 1),
        (ICMP6, 129 | 136) => Some(kind - 1),
        (ICMP6, 134) => Some(133),
        (ICMP6, 140) => Some(139),
        (ICMP6, 200) => Some(201),
        _ => None,
    }
}

fn has_icmp_id(protocol: u8, kind: u8) -> bool {
    matches!((protocol, kind), (ICMP, 0 | 8 | 13..=18) | (ICMP6, 128 | 129))
}

/// The ends of an ICMP message that is not an error: a query has its identifier where others have
/// the source port.
pub(super) fn icmp_ends(protocol: u8, kind: u8, id: u16) -> (u16, u16) {
    let id = if has_icmp_id(protocol, kind) { id } else { 0 };
    match icmp_query(protocol, kind) {
        Some(query) => (query.into(), id),
        None => (id, kind.into()),
    }
}

/// The identifier of an ICMP message with these ends, if its type has one.
pub(super) fn icmp_id(protocol: u8, kind: u8, ends: (u16, u16)) -> Option<u16> {
    let id = if icmp_query(protocol, kind).is_some() { ends.1 } else { ends.0 };
    has_icmp_id(protocol, kind).then_some(id)
}
