//! Flows as packets of NetFlow version 5 and of IPFIX (RFC 7011), with the fields, templates and
//! numbers that `pflow(4)` of OpenBSD gives them. Nothing is sent from here.

use std::net::IpAddr;

use super::flow::{Flow, Now};

/// How flows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// NetFlow version 5, IPv4 only.
    #[default]
    V5,
    /// Both families, with counts of 64 bits, by templates.
    Ipfix,
}

/// Records wait at most this long for others to be sent with.
const WAIT_MS: u64 = 1000;
/// Templates are sent again after this long.
const TEMPLATE_INTERVAL_MS: u64 = 30_000;
/// The largest payload that fits into 1500 bytes behind headers of IPv6 and UDP.
const PAYLOAD_BYTES_MAX: usize = 1500 - 40 - 8;

const V5_HEADER_BYTES: usize = 24;
const V5_RECORD_BYTES: usize = 48;
/// As many as NetFlow version 5 allows.
const V5_COUNT_MAX: usize = 30;
/// `PFLOW_ENGINE_TYPE` and `PFLOW_ENGINE_ID`; the former is the observation domain, too.
const ENGINE_TYPE: u8 = 42;
const ENGINE_ID: u8 = 21;

const MESSAGE_HEADER_BYTES: usize = 16;
const SET_HEADER_BYTES: usize = 4;
const TEMPLATE_SET: u16 = 2;
/// Templates of IPv4 and IPv6, by [`family`].
const TEMPLATE_IDS: [u16; 2] = [256, 257];
const RECORD_BYTES: [usize; 2] = [54, 78];
/// Information elements and their sizes, behind the addresses.
const ELEMENTS: [(u16, u16); 10] = [
    (10, 4),  // ingressInterface
    (14, 4),  // egressInterface
    (2, 8),   // packetDeltaCount
    (1, 8),   // octetDeltaCount
    (152, 8), // flowStartMilliseconds
    (153, 8), // flowEndMilliseconds
    (7, 2),   // sourceTransportPort
    (11, 2),  // destinationTransportPort
    (5, 1),   // ipClassOfService
    (4, 1),   // protocolIdentifier
];
/// Source and destination address.
const ADDRESSES: [[(u16, u16); 2]; 2] = [[(8, 4), (12, 4)], [(27, 16), (28, 16)]];

/// What is to be sent in one datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// Records of flows in it.
    pub(crate) record_count: u32,
}

/// Gathers records until a packet is full or they have waited long enough.
#[derive(Debug, Default)]
pub(crate) struct Exporter {
    protocol: Protocol,
    /// Records so far.
    sequence: u32,
    /// Records that wait, of IPv4 and IPv6.
    waiting: [Vec<u8>; 2],
    /// Since when.
    since_ms: Option<u64>,
    /// When the templates were sent last.
    templates_ms: Option<u64>,
}

const fn family(flow: &Flow) -> usize {
    if flow.source.0.is_ipv4() { 0 } else { 1 }
}

#[expect(clippy::cast_possible_truncation, reason = "a counter of 32 bits that goes round")]
const fn low(value: u64) -> u32 {
    value as u32
}

fn size_of(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

impl Exporter {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self { protocol, ..Self::default() }
    }

    const fn record_bytes(&self, family: usize) -> usize {
        match self.protocol {
            Protocol::V5 => V5_RECORD_BYTES,
            Protocol::Ipfix => RECORD_BYTES[family],
        }
    }

    const fn count_max(&self, family: usize) -> usize {
        match self.protocol {
            Protocol::V5 => V5_COUNT_MAX,
            Protocol::Ipfix => {
                (PAYLOAD_BYTES_MAX - MESSAGE_HEADER_BYTES - SET_HEADER_BYTES) / RECORD_BYTES[family]
            }
        }
    }

    /// Takes a flow in; gives what is full. IPv6 has no place in version 5.
    pub(crate) fn add(&mut self, flow: &Flow, now: &Now) -> Vec<Packet> {
        let mut packets = Vec::new();
        let family = family(flow);
        let pieces = match self.protocol {
            Protocol::V5 if family == 1 => return packets,
            Protocol::V5 => pieces(flow),
            Protocol::Ipfix => vec![*flow],
        };
        for flow in pieces {
            self.since_ms.get_or_insert(now.uptime_ms);
            match self.protocol {
                Protocol::V5 => put_v5(&mut self.waiting[family], &flow),
                Protocol::Ipfix => put_ipfix(&mut self.waiting[family], &flow, now),
            }
            if self.waiting[family].len() >= self.count_max(family) * self.record_bytes(family) {
                packets.extend(self.templates_due(now));
                packets.extend(self.take(family, now));
            }
        }
        packets
    }

    /// What is due: templates, and records that have waited for long, or all of them.
    pub(crate) fn due(&mut self, now: &Now, all: bool) -> Vec<Packet> {
        let mut packets: Vec<Packet> = self.templates_due(now).into_iter().collect();
        let is_late =
            self.since_ms.is_some_and(|since| now.uptime_ms.saturating_sub(since) >= WAIT_MS);
        if is_late || all {
            self.since_ms = None;
            packets.extend([0, 1].into_iter().filter_map(|family| self.take(family, now)));
        }
        packets
    }

    /// What waits of a family, as a packet.
    fn take(&mut self, family: usize, now: &Now) -> Option<Packet> {
        let records = std::mem::take(&mut self.waiting[family]);
        if self.waiting.iter().all(Vec::is_empty) {
            self.since_ms = None;
        }
        let count = records.len() / self.record_bytes(family);
        let record_count = u32::try_from(count).ok().filter(|count| *count > 0)?;
        let mut bytes = match self.protocol {
            Protocol::V5 => v5_header(count, self.sequence, now).to_vec(),
            Protocol::Ipfix => self.message(TEMPLATE_IDS[family], records.len(), now),
        };
        bytes.extend(records);
        self.sequence = self.sequence.wrapping_add(record_count);
        Some(Packet { bytes, record_count })
    }

    /// Header of a message with one set of so many bytes, and the set's.
    fn message(&self, set: u16, byte_count: usize, now: &Now) -> Vec<u8> {
        let size = MESSAGE_HEADER_BYTES + SET_HEADER_BYTES + byte_count;
        let mut out = Vec::with_capacity(size);
        out.extend(10_u16.to_be_bytes());
        out.extend(size_of(size));
        out.extend(low(now.unix_ns / 1_000_000_000).to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend(u32::from(ENGINE_TYPE).to_be_bytes());
        out.extend(set.to_be_bytes());
        out.extend(size_of(SET_HEADER_BYTES + byte_count));
        out
    }

    /// Both templates, if it is time for them.
    fn templates_due(&mut self, now: &Now) -> Option<Packet> {
        let is_new = |sent: u64| now.uptime_ms.saturating_sub(sent) < TEMPLATE_INTERVAL_MS;
        if self.protocol == Protocol::V5 || self.templates_ms.is_some_and(is_new) {
            return None;
        }
        self.templates_ms = Some(now.uptime_ms);
        let mut templates = Vec::new();
        for (id, addresses) in TEMPLATE_IDS.into_iter().zip(ADDRESSES) {
            templates.extend(id.to_be_bytes());
            templates.extend(size_of(addresses.len() + ELEMENTS.len()));
            for (element, size) in addresses.into_iter().chain(ELEMENTS) {
                templates.extend(element.to_be_bytes());
                templates.extend(size.to_be_bytes());
            }
        }
        let mut bytes = self.message(TEMPLATE_SET, templates.len(), now);
        bytes.extend(templates);
        Some(Packet { bytes, record_count: 0 })
    }
}

/// A flow whose counts do not fit into 32 bits, as several whose do.
fn pieces(flow: &Flow) -> Vec<Flow> {
    let max = u64::from(u32::MAX);
    let count = flow.octets.div_ceil(max).max(flow.packets.div_ceil(max)).max(1);
    // The first pieces get what cannot be shared out evenly.
    let share = |all: u64, index: u64| all / count + u64::from(index < all % count);
    let piece = |index: u64| Flow {
        packets: share(flow.packets, index),
        octets: share(flow.octets, index),
        ..*flow
    };
    (0..count).map(piece).collect()
}

fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend(address.octets()),
        IpAddr::V6(address) => out.extend(address.octets()),
    }
}

fn v5_header(count: usize, sequence: u32, now: &Now) -> [u8; V5_HEADER_BYTES] {
    let mut out = [0; V5_HEADER_BYTES];
    let second_ns = 1_000_000_000;
    out[0..2].copy_from_slice(&5_u16.to_be_bytes());
    out[2..4].copy_from_slice(&size_of(count));
    out[4..8].copy_from_slice(&low(now.uptime_ms).to_be_bytes());
    out[8..12].copy_from_slice(&low(now.unix_ns / second_ns).to_be_bytes());
    out[12..16].copy_from_slice(&low(now.unix_ns % second_ns).to_be_bytes());
    out[16..20].copy_from_slice(&sequence.to_be_bytes());
    out[20..22].copy_from_slice(&[ENGINE_TYPE, ENGINE_ID]);
    out
}

/// Next hop, TCP flags, TOS, numbers of autonomous systems and masks are 0.
fn put_v5(out: &mut Vec<u8>, flow: &Flow) {
    put_address(out, flow.source.0);
    put_address(out, flow.destination.0);
    out.extend([0; 4]);
    for ifindex in flow.interfaces {
        out.extend(u16::try_from(ifindex).unwrap_or(0).to_be_bytes());
    }
    for value in [flow.packets, flow.octets, flow.start_ms, flow.finish_ms] {
        out.extend(low(value).to_be_bytes());
    }
    out.extend(flow.source.1.to_be_bytes());
    out.extend(flow.destination.1.to_be_bytes());
    out.extend([0, 0, flow.protocol, 0]);
    out.extend([0; 8]);
}

fn put_ipfix(out: &mut Vec<u8>, flow: &Flow, now: &Now) {
    let boot_ms = (now.unix_ns / 1_000_000).saturating_sub(now.uptime_ms);
    put_address(out, flow.source.0);
    put_address(out, flow.destination.0);
    for ifindex in flow.interfaces {
        out.extend(ifindex.to_be_bytes());
    }
    let times = [flow.start_ms, flow.finish_ms].map(|time| boot_ms + time);
    for value in [flow.packets, flow.octets].into_iter().chain(times) {
        out.extend(value.to_be_bytes());
    }
    out.extend(flow.source.1.to_be_bytes());
    out.extend(flow.destination.1.to_be_bytes());
    out.extend([0, flow.protocol]);
}

#[cfg(test)]
mod tests;
