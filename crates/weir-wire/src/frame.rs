//! The reference frame: what a packet of a stream must look like, byte for byte.
//!
//! The generator in the kernel rewrites recycled pages at millions of packets per second; this is
//! the slow and plain construction of the same bytes, to compare with. It paces nothing and sends
//! nothing.
//!
//! Ethernet II, VLAN tags, IPv4 (no options) or IPv6 (no extension headers, flow label 0), UDP, TCP
//! (no options) or ICMP echo, then the [`Signature`] and zeros up to the frame's size. All
//! checksums are right. [`UdpStream`] is the simplest stream, of UDP over IPv4 in frames of one
//! size; [`crate::stream`] has the others, from the same construction.

use alloc::vec;
use alloc::vec::Vec;

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ethernet::EtherType;
use crate::flow::{Flow, FlowSpace};
use crate::mac::MacAddr;
use crate::signature::{self, Signature};
use crate::vlan::{self, Tag};
use crate::{ethernet, icmp, ipv4, ipv6, protocol, tcp, udp};

/// Bytes before the UDP payload.
pub(crate) const HEADERS_BYTES: usize =
    ethernet::HEADER_BYTES + ipv4::HEADER_BYTES + udp::HEADER_BYTES;

/// Smallest frame, bytes, without the frame check sequence: headers and signature, which is also
/// Ethernet's minimum.
pub const SIZE_BYTES_MIN: u16 = 60;

/// Largest frame, bytes, without the frame check sequence: that of a 1,500-byte MTU.
pub const SIZE_BYTES_MAX: u16 = 1514;

// The signature must fit the smallest frame exactly, or the generator's offsets are wrong.
const _: () = assert!(HEADERS_BYTES + signature::SIZE_BYTES == SIZE_BYTES_MIN as usize);

/// A stream of UDP packets of one size that walks over its flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdpStream {
    /// Destination address on the wire: the DUT's, usually.
    pub dst_mac: MacAddr,
    /// Source address on the wire.
    pub src_mac: MacAddr,
    /// Time to live, hops.
    pub ttl: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// The flows, walked in their order.
    pub flows: FlowSpace,
    /// Frame size without the frame check sequence: 60 to 1514 bytes.
    pub size_bytes: u16,
    /// Stream number, for the signature.
    pub stream: u8,
    /// Thread number, for the signature.
    pub thread: u8,
}

/// A frame size that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "frames of {0} bytes cannot be sent: sizes run from {SIZE_BYTES_MIN} to {SIZE_BYTES_MAX} \
     bytes, without the 4 bytes of FCS"
)]
pub struct SizeError(pub u16);

/// Checks that frames may have this size.
///
/// # Errors
///
/// [`SizeError`] under [`SIZE_BYTES_MIN`] or over [`SIZE_BYTES_MAX`].
pub const fn check_size(size_bytes: u16) -> Result<(), SizeError> {
    if size_bytes < SIZE_BYTES_MIN || size_bytes > SIZE_BYTES_MAX {
        return Err(SizeError(size_bytes));
    }
    Ok(())
}

impl UdpStream {
    /// The frame of packet number `sequence`, not stamped with a time: its flow is number
    /// `sequence % flow_count` of the walk.
    ///
    /// # Panics
    ///
    /// If `size_bytes` does not pass [`check_size`].
    #[must_use]
    pub fn build(&self, sequence: u64) -> Vec<u8> {
        self.build_stamped(sequence, 0)
    }

    /// As [`UdpStream::build`], with the time of sending in the signature (modulo 2^48).
    ///
    /// # Panics
    ///
    /// If `size_bytes` does not pass [`check_size`].
    #[must_use]
    pub fn build_stamped(&self, sequence: u64, timestamp_ns: u64) -> Vec<u8> {
        assert_eq!(check_size(self.size_bytes), Ok(()));
        let Self { stream, thread, .. } = *self;
        let Flow { src, dst, src_port, dst_port } = self.flows.flow(sequence);
        let headers = Headers {
            dst_mac: self.dst_mac,
            src_mac: self.src_mac,
            tags: &[],
            protocol: Protocol::Udp,
            ttl: self.ttl,
            tos: self.tos,
            ident: 0,
            dont_fragment: true,
        };
        let flow = Flow { src: src.into(), dst: dst.into(), src_port, dst_port };
        let signature = Signature { stream, thread, sequence, timestamp_ns };
        headers.build(flow, self.size_bytes, signature)
    }
}

/// What a stream's packets are, above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// UDP datagrams.
    #[default]
    Udp,
    /// TCP segments of no connection: sequence and acknowledgement number and urgent pointer 0,
    /// window 65,535.
    Tcp {
        /// Control bits.
        flags: tcp::Flags,
    },
    /// ICMP or ICMPv6 echo requests. The flow's source port is their identifier, its destination
    /// port their sequence number.
    IcmpEcho,
}

impl Protocol {
    /// TCP segments that open a connection.
    pub const TCP_SYN: Self = Self::Tcp { flags: tcp::Flags::SYN };

    /// Size of the header, bytes.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Udp => udp::HEADER_BYTES,
            Self::Tcp { .. } => tcp::HEADER_BYTES,
            Self::IcmpEcho => icmp::HEADER_BYTES,
        }
    }

    /// Number of the protocol in the IP header.
    #[must_use]
    pub const fn number(self, over_ipv6: bool) -> u8 {
        match self {
            Self::Udp => protocol::UDP,
            Self::Tcp { .. } => protocol::TCP,
            Self::IcmpEcho if over_ipv6 => protocol::ICMP6,
            Self::IcmpEcho => protocol::ICMP,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp { .. } => "TCP",
            Self::IcmpEcho => "ICMP echo",
        })
    }
}

/// What precedes the signature of a frame with `tag_count` VLAN tags, bytes.
#[must_use]
pub(crate) const fn headers_bytes(tag_count: usize, over_ipv6: bool, protocol: Protocol) -> usize {
    let ip_bytes = if over_ipv6 { ipv6::HEADER_BYTES } else { ipv4::HEADER_BYTES };
    ethernet::HEADER_BYTES + vlan::TAG_BYTES * tag_count + ip_bytes + protocol.header_bytes()
}

/// All of a packet's headers but what the flow and the size decide.
pub(crate) struct Headers<'a> {
    pub(crate) dst_mac: MacAddr,
    pub(crate) src_mac: MacAddr,
    /// From the outermost to the innermost.
    pub(crate) tags: &'a [Tag],
    pub(crate) protocol: Protocol,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    /// Of IPv4.
    pub(crate) ident: u16,
    /// Of IPv4.
    pub(crate) dont_fragment: bool,
}

/// Payloads up to this size, bytes, are made on the stack.
const SMALL_BYTES: usize = 64;

const FITS: &str = "the size was checked, so that every header fits";

impl Headers<'_> {
    /// The frame of `size_bytes`.
    ///
    /// # Panics
    ///
    /// If headers and signature do not fit, or the flow's families differ.
    pub(crate) fn build(
        &self,
        flow: Flow<IpAddr>,
        size_bytes: u16,
        signature: Signature,
    ) -> Vec<u8> {
        let mut frame = vec![0; usize::from(size_bytes)];
        self.build_into(flow, &mut frame, signature);
        frame
    }

    /// As [`Headers::build`], over all bytes of `frame`, whatever they hold.
    ///
    /// # Panics
    ///
    /// If headers and signature do not fit, or the flow's families differ.
    pub(crate) fn build_into(&self, flow: Flow<IpAddr>, frame: &mut [u8], signature: Signature) {
        let header_bytes = headers_bytes(self.tags.len(), flow.src.is_ipv6(), self.protocol);
        let payload_bytes = frame.len() - header_bytes;
        // Small payloads need no memory but the stack's.
        let (mut small, mut large) = ([0; SMALL_BYTES], Vec::new());
        let payload = match small.get_mut(..payload_bytes) {
            Some(payload) => payload,
            None => {
                large.resize(payload_bytes, 0);
                large.as_mut_slice()
            }
        };
        payload[..signature::SIZE_BYTES].copy_from_slice(&signature.emit());
        let payload = &*payload;
        let ip_type = if flow.src.is_ipv6() { EtherType::IPV6 } else { EtherType::IPV4 };
        let packet = self.write_link(frame, ip_type);
        match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                self.write_v4(packet, &flow, (src, dst), payload);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                self.write_v6(packet, &flow, (src, dst), payload);
            }
            (src, dst) => panic!("a flow from {src} to {dst} mixes two address families"),
        }
    }

    /// Writes the Ethernet header and the tags; returns the room for the packet.
    fn write_link<'f>(&self, frame: &'f mut [u8], ip_type: EtherType) -> &'f mut [u8] {
        let mut types = self.tags.iter().map(|tag| tag.kind.ethertype());
        let mut next_type = || types.next().unwrap_or(ip_type);
        let (head, mut rest) = frame.split_at_mut(ethernet::HEADER_BYTES);
        let mut link = ethernet::Packet::new_checked(head).expect(FITS);
        ethernet::Repr { dst: self.dst_mac, src: self.src_mac, ethertype: next_type() }
            .emit(&mut link);
        for tag in self.tags {
            let (head, behind) = rest.split_at_mut(vlan::TAG_BYTES);
            let Tag { pcp, dei, id, .. } = *tag;
            let mut packet = vlan::Packet::new_checked(head).expect(FITS);
            vlan::Repr { pcp, dei, id, ethertype: next_type() }.emit(&mut packet);
            rest = behind;
        }
        rest
    }

    fn write_v4(
        &self,
        packet: &mut [u8],
        flow: &Flow<IpAddr>,
        (src, dst): (Ipv4Addr, Ipv4Addr),
        payload: &[u8],
    ) {
        let size_bytes = packet.len() - ipv4::HEADER_BYTES;
        let repr = ipv4::Repr {
            src,
            dst,
            protocol: self.protocol.number(false),
            tos: self.tos,
            ident: self.ident,
            dont_fragment: self.dont_fragment,
            ttl: self.ttl,
            payload_bytes: u16::try_from(size_bytes).expect(FITS),
        };
        repr.emit(&mut *packet).expect(FITS);
        let message = &mut packet[ipv4::HEADER_BYTES..];
        let written = match self.protocol {
            Protocol::Udp => udp_repr(flow).emit(message, payload, src, dst).map(|_| ()),
            Protocol::Tcp { flags } => {
                tcp_repr(flow, flags).emit(message, payload, src, dst).map(|_| ())
            }
            Protocol::IcmpEcho => echo(flow).emit_v4(message, payload).map(|_| ()),
        };
        written.expect(FITS);
    }

    fn write_v6(
        &self,
        packet: &mut [u8],
        flow: &Flow<IpAddr>,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        payload: &[u8],
    ) {
        let size_bytes = packet.len() - ipv6::HEADER_BYTES;
        let repr = ipv6::Repr {
            src,
            dst,
            next_header: self.protocol.number(true),
            traffic_class: self.tos,
            flow_label: 0,
            hop_limit: self.ttl,
            payload_bytes: u16::try_from(size_bytes).expect(FITS),
        };
        repr.emit(&mut *packet).expect(FITS);
        let message = &mut packet[ipv6::HEADER_BYTES..];
        let written = match self.protocol {
            Protocol::Udp => udp_repr(flow).emit(message, payload, src, dst).map(|_| ()),
            Protocol::Tcp { flags } => {
                tcp_repr(flow, flags).emit(message, payload, src, dst).map(|_| ())
            }
            Protocol::IcmpEcho => echo(flow).emit_v6(message, payload, src, dst).map(|_| ()),
        };
        written.expect(FITS);
    }
}

fn udp_repr(flow: &Flow<IpAddr>) -> udp::Repr {
    udp::Repr { src_port: flow.src_port, dst_port: flow.dst_port }
}

fn tcp_repr(flow: &Flow<IpAddr>, flags: tcp::Flags) -> tcp::Repr {
    tcp::Repr {
        src_port: flow.src_port,
        dst_port: flow.dst_port,
        sequence: 0,
        acknowledgement: 0,
        flags,
        window: u16::MAX,
        urgent: 0,
    }
}

fn echo(flow: &Flow<IpAddr>) -> icmp::Echo {
    icmp::Echo { reply: false, ident: flow.src_port, sequence: flow.dst_port }
}

#[cfg(test)]
mod tests;
