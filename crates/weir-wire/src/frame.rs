//! The reference frame of a UDP stream: what packet number *n* must look like, byte for byte.
//!
//! The generator in the kernel rewrites recycled pages at millions of packets per second; this is
//! the slow and plain construction of the same bytes, to compare with. It paces nothing and sends
//! nothing.
//!
//! Ethernet II, IPv4 (no options, identification 0, "don't fragment"), UDP, then the
//! [`Signature`] and zeros up to the frame's size. Both checksums are right.

use alloc::vec;
use alloc::vec::Vec;

use crate::flow::FlowSpace;
use crate::mac::MacAddr;
use crate::signature::{self, Signature};
use crate::{ethernet, ipv4, udp};

/// Bytes before the UDP payload.
pub const HEADERS_BYTES: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES + udp::HEADER_BYTES;

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
        let flow = self.flows.flow(sequence);
        let mut frame = vec![0; usize::from(self.size_bytes)];

        let mut payload = vec![0; frame.len() - HEADERS_BYTES];
        let signature = Signature { stream, thread, sequence, timestamp_ns };
        payload[..signature::SIZE_BYTES].copy_from_slice(&signature.emit());

        let fits = "the size was checked, so that every header fits";
        let mut link = ethernet::Packet::new_checked(&mut frame).expect(fits);
        let link_repr = ethernet::Repr {
            dst: self.dst_mac,
            src: self.src_mac,
            ethertype: ethernet::EtherType::IPV4,
        };
        link_repr.emit(&mut link);
        let net_repr = ipv4::Repr {
            src: flow.src,
            dst: flow.dst,
            protocol: ipv4::PROTOCOL_UDP,
            tos: self.tos,
            ident: 0,
            dont_fragment: true,
            ttl: self.ttl,
            payload_bytes: self.size_bytes - SIZE_BYTES_BEFORE_UDP,
        };
        net_repr.emit(link.payload_mut()).expect(fits);
        let datagram = &mut link.payload_mut()[ipv4::HEADER_BYTES..];
        udp::Repr { src_port: flow.src_port, dst_port: flow.dst_port }
            .emit(datagram, &payload, flow.src, flow.dst)
            .expect(fits);
        frame
    }
}

#[expect(clippy::cast_possible_truncation, reason = "34 fits")]
const SIZE_BYTES_BEFORE_UDP: u16 = (ethernet::HEADER_BYTES + ipv4::HEADER_BYTES) as u16;

#[cfg(test)]
mod tests;
