//! The stream model: what packets a stream has, and the reference frame of each.
//!
//! A [`StreamSpec`] is plain data; [`StreamFrames`] is a specification that was checked, and builds
//! frame after frame by sequence number. [`StreamSet`] sends several streams in exact ratios. Rates
//! and devices are not known here; a backend may have a smaller largest frame.

mod set;

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::encap::{Encap, Tunnel};
use crate::ethernet;
use crate::flow::{Flow, FlowSpace, FlowSpaceError};
use crate::frame::{Headers, Protocol, headers_bytes};
use crate::mac::MacAddr;
use crate::range::{AddrRange, Span};
use crate::signature::{self, Signature};
use crate::sizes::{SizePattern, Sizes};
use crate::vlan::{self, Tag, TagError};
use crate::walk::{Share, ShareError, Walk};

pub use set::{StreamSet, StreamSetError};

/// Smallest Ethernet frame, bytes without FCS.
pub const ETHERNET_BYTES_MIN: u16 = 60;

/// Most VLAN tags of a frame.
pub const TAG_COUNT_MAX: usize = 2;

/// Highest DSCP: it has six bits.
pub(crate) const DSCP_MAX: u8 = 63;

/// What a stream is. [`StreamSpec::new`] has the defaults.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamSpec {
    /// Destination address on the wire: the DUT's, usually.
    pub dst_mac: MacAddr,
    /// Source address on the wire.
    pub src_mac: MacAddr,
    /// VLAN tags, from the outermost to the innermost; two at most.
    pub tags: Vec<Tag>,
    /// What the packets travel in; then there are no tags, and all frames have one size.
    pub encap: Option<Tunnel>,
    /// Source addresses and ports. The families of source and destination are the same.
    pub src: AddrRange,
    /// Destination addresses and ports.
    pub dst: AddrRange,
    /// What the packets are.
    pub protocol: Protocol,
    /// Time to live or hop limit, hops.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63. ECN is 0.
    pub dscp: u8,
    /// IPv4's "don't fragment". Without it, a packet's identification is its sequence number modulo
    /// 2^16 (RFC 6864 §4 asks for different ones); with it, 0. IPv6 packets are never fragmented on
    /// the way, so there it must be set.
    pub dont_fragment: bool,
    /// Order of the flows.
    pub walk: Walk,
    /// Frame sizes.
    pub sizes: Sizes,
    /// Seed of uniformly drawn frame sizes.
    pub size_seed: u64,
    /// Stream number, for the signature.
    pub stream: u8,
    /// Number of threads that share the stream, 1 to 256. Packet `s` is sent, and signed, by thread
    /// `s` modulo this.
    pub thread_count: u16,
}

impl StreamSpec {
    /// A stream of UDP in the smallest frames that can carry it, sent by one thread: time to live
    /// 64, DSCP 0, not to be fragmented, walked as an odometer, untagged, stream number 0.
    #[must_use]
    pub fn new(src_mac: MacAddr, dst_mac: MacAddr, src: AddrRange, dst: AddrRange) -> Self {
        let smallest_bytes = size_bytes_min(0, src.is_ipv6(), Protocol::Udp);
        Self {
            dst_mac,
            src_mac,
            tags: Vec::new(),
            encap: None,
            src,
            dst,
            protocol: Protocol::Udp,
            ttl: 64,
            dscp: 0,
            dont_fragment: true,
            walk: Walk::Odometer,
            sizes: Sizes::Fixed(smallest_bytes),
            size_seed: 0,
            stream: 0,
            thread_count: 1,
        }
    }

    /// Bytes that the tunnel adds to a frame; 0 without one.
    #[must_use]
    pub fn tunnel_bytes(&self) -> u16 {
        self.encap.map_or(0, |tunnel| tunnel.overhead_bytes(self.src.is_ipv6()))
    }
}

/// The smallest frame that holds headers and signature, bytes without FCS: never under Ethernet's
/// own minimum.
#[must_use]
pub fn size_bytes_min(tag_count: usize, over_ipv6: bool, protocol: Protocol) -> u16 {
    let needed = headers_bytes(tag_count, over_ipv6, protocol) + signature::SIZE_BYTES;
    u16::try_from(needed).unwrap_or(u16::MAX).max(ETHERNET_BYTES_MIN)
}

/// Why a stream cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The ranges span no countable flows.
    #[error(transparent)]
    Flows(#[from] FlowSpaceError),
    /// A frame is too small for headers and signature.
    #[error(
        "frames of {size_bytes} bytes cannot be sent: {protocol} over {} with {tag_count} VLAN \
         tag{} and the signature of {} bytes needs at least {smallest_bytes} bytes, without the 4 \
         bytes of FCS",
        if *over_ipv6 { "IPv6" } else { "IPv4" },
        if *tag_count == 1 { "" } else { "s" },
        signature::SIZE_BYTES
    )]
    Size {
        size_bytes: u16,
        /// The smallest size of this combination, bytes.
        smallest_bytes: u16,
        /// Number of VLAN tags.
        tag_count: usize,
        /// Whether over IPv6.
        over_ipv6: bool,
        protocol: Protocol,
    },
    /// There is no frame size.
    #[error("the list of frame sizes is empty")]
    SizesEmpty,
    /// Both would be in front of the packet.
    #[error("frames with VLAN tags cannot be sent in a tunnel as well: leave one of them out")]
    TagsInTunnel,
    /// The lengths in the outer headers are the same in all frames.
    #[error("frames in a tunnel have one size: give a number, not a range or a list")]
    SizesInTunnel,
    /// There are too many VLAN tags.
    #[error("{0} VLAN tags cannot be sent: at most two")]
    TagCount(usize),
    /// A tag is out of range.
    #[error(transparent)]
    Tag(#[from] TagError),
    /// A packet with time to live zero is not forwarded, nor even valid.
    #[error("a time to live of 0 cannot be sent: routers need at least 2")]
    Ttl,
    /// The code point has over six bits.
    #[error("DSCP {0} cannot be sent: code points run from 0 to {DSCP_MAX}")]
    Dscp(u8),
    /// IPv6 has no flag that forbids fragmenting, because routers never do.
    #[error("IPv6 packets are never fragmented on the way: fragmenting cannot be allowed")]
    FragmentV6,
    /// Port 0 is reserved.
    #[error("port 0 of {0} cannot be used: ports run from 1 to 65535")]
    PortZero(AddrRange),
    /// No interface has a group address as its source.
    #[error("{0} cannot be a source: it is a multicast or broadcast address")]
    SourceMac(MacAddr),
    /// The signature has eight bits for threads.
    #[error(
        "{0} threads cannot share a stream: from 1 to {max} can",
        max = Share::THREAD_COUNT_MAX
    )]
    ThreadCount(u16),
}

/// A stream that can be sent, and its frames.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamFrames {
    spec: StreamSpec,
    flows: FlowSpace<AddrRange>,
    sizes: SizePattern,
}

impl StreamFrames {
    /// Checks a stream.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what cannot be sent.
    pub fn new(spec: StreamSpec) -> Result<Self, StreamError> {
        check(&spec)?;
        let flows = FlowSpace::new(spec.src, spec.dst)?;
        let (tag_count, over_ipv6, protocol) = (spec.tags.len(), spec.src.is_ipv6(), spec.protocol);
        let smallest_bytes = size_bytes_min(tag_count, over_ipv6, protocol) + spec.tunnel_bytes();
        let link_bytes = ethernet::HEADER_BYTES + vlan::TAG_BYTES * tag_count;
        let link_bytes = u16::try_from(link_bytes).unwrap_or(u16::MAX);
        let sizes = spec.sizes.pattern(link_bytes, smallest_bytes, spec.size_seed);
        if sizes.mean_fraction().1 == 0 {
            return Err(StreamError::SizesEmpty);
        }
        let size_bytes = sizes.min_bytes();
        if size_bytes < smallest_bytes {
            return Err(StreamError::Size {
                size_bytes,
                smallest_bytes,
                tag_count,
                over_ipv6,
                protocol,
            });
        }
        Ok(Self { spec, flows, sizes })
    }

    /// The specification that was checked.
    #[must_use]
    pub const fn spec(&self) -> &StreamSpec {
        &self.spec
    }

    /// All flows.
    #[must_use]
    pub const fn flows(&self) -> &FlowSpace<AddrRange> {
        &self.flows
    }

    /// The frame sizes, as numbers.
    #[must_use]
    pub const fn sizes(&self) -> &SizePattern {
        &self.sizes
    }

    /// The tunnel that the packets travel in.
    #[must_use]
    pub fn encap(&self) -> Option<Encap> {
        let (src, dst) = (self.spec.src.addr(0), self.spec.dst.addr(0));
        self.spec.encap.map(|tunnel| tunnel.between(src, dst))
    }

    /// Bytes in front of the IP packet that the flow is in: Ethernet, tags, the tunnel.
    #[must_use]
    pub fn link_bytes(&self) -> usize {
        let tags_bytes = vlan::TAG_BYTES * self.spec.tags.len();
        ethernet::HEADER_BYTES + tags_bytes + usize::from(self.spec.tunnel_bytes())
    }

    /// The flow of packet number `sequence`.
    #[must_use]
    pub fn flow(&self, sequence: u64) -> Flow<IpAddr> {
        self.spec.walk.flow(&self.flows, sequence)
    }

    /// The thread that sends packet number `sequence`.
    #[must_use]
    pub fn thread(&self, sequence: u64) -> u8 {
        // The number of threads was checked: the remainder fits.
        u8::try_from(sequence % u64::from(self.spec.thread_count)).unwrap_or_default()
    }

    /// The share of a thread.
    ///
    /// # Errors
    ///
    /// [`ShareError`] if the stream has no such thread.
    pub fn share(&self, thread: u8) -> Result<Share, ShareError> {
        Share::new(thread, self.spec.thread_count)
    }

    /// The frame of packet number `sequence`, not stamped with a time.
    #[must_use]
    pub fn build(&self, sequence: u64) -> Vec<u8> {
        self.build_stamped(sequence, 0)
    }

    /// As [`StreamFrames::build`], with the time of sending in the signature (modulo 2^48).
    #[must_use]
    pub fn build_stamped(&self, sequence: u64, timestamp_ns: u64) -> Vec<u8> {
        let mut frame = vec![0; usize::from(self.sizes.size_bytes(sequence))];
        self.build_into(sequence, timestamp_ns, &mut frame);
        frame
    }

    /// As [`StreamFrames::build_stamped`], into `frame`, whatever it holds.
    ///
    /// # Panics
    ///
    /// If `frame` has not the size that [`StreamFrames::sizes`] says.
    pub fn build_into(&self, sequence: u64, timestamp_ns: u64, frame: &mut [u8]) {
        assert_eq!(frame.len(), usize::from(self.sizes.size_bytes(sequence)));
        let spec = &self.spec;
        #[expect(clippy::cast_possible_truncation, reason = "identifications wrap at 16 bits")]
        let ident = if spec.dont_fragment { 0 } else { sequence as u16 };
        let headers = Headers {
            dst_mac: spec.dst_mac,
            src_mac: spec.src_mac,
            tags: &spec.tags,
            protocol: spec.protocol,
            ttl: spec.ttl,
            tos: spec.dscp << 2,
            ident,
            dont_fragment: spec.dont_fragment,
        };
        let signature = Signature {
            stream: spec.stream,
            thread: self.thread(sequence),
            sequence,
            timestamp_ns,
        };
        let flow = self.flow(sequence);
        let Some(encap) = self.encap() else { return headers.build_into(flow, frame, signature) };
        let mut carried = vec![0; frame.len() - usize::from(spec.tunnel_bytes())];
        headers.build_into(flow, &mut carried, signature);
        let wrapped = encap.wrap(&carried).expect("an IP packet of a checked size is carried");
        frame.copy_from_slice(&wrapped);
    }
}

/// All checks that need no flows and no sizes.
fn check(spec: &StreamSpec) -> Result<(), StreamError> {
    if spec.tags.len() > TAG_COUNT_MAX {
        return Err(StreamError::TagCount(spec.tags.len()));
    }
    for tag in &spec.tags {
        tag.check()?;
    }
    if spec.encap.is_some() {
        if !spec.tags.is_empty() {
            return Err(StreamError::TagsInTunnel);
        }
        if !matches!(spec.sizes, Sizes::Fixed(_)) {
            return Err(StreamError::SizesInTunnel);
        }
    }
    if spec.src_mac.is_multicast() {
        return Err(StreamError::SourceMac(spec.src_mac));
    }
    if spec.ttl == 0 {
        return Err(StreamError::Ttl);
    }
    if spec.dscp > DSCP_MAX {
        return Err(StreamError::Dscp(spec.dscp));
    }
    if !spec.dont_fragment && spec.src.is_ipv6() {
        return Err(StreamError::FragmentV6);
    }
    if let Some(range) = [spec.src, spec.dst].into_iter().find(|range| range.port_first() == 0) {
        return Err(StreamError::PortZero(range));
    }
    if !(1..=Share::THREAD_COUNT_MAX).contains(&spec.thread_count) {
        return Err(StreamError::ThreadCount(spec.thread_count));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
