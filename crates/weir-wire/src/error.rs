//! Why bytes are not the header they were taken for.
//!
//! One enum for all header views, because a caller walks several headers in one go. Every variant
//! says which header failed and with what numbers; none is reused for two causes.

/// Why a header could not be viewed or parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The buffer ends before the header, or before what the header announces.
    #[error("{header} needs {needed_bytes} bytes, but the buffer holds {got_bytes}")]
    Truncated {
        /// Name of the header, for people.
        header: &'static str,
        /// Bytes that the header needs.
        needed_bytes: usize,
        /// Bytes in the buffer.
        got_bytes: usize,
    },
    /// The version field of an IPv4 header is not 4.
    #[error("IP version is {0}, not 4")]
    IpVersion(u8),
    /// The IPv4 header length field is under 5 words.
    #[error("IPv4 header length is {0} words, the smallest is 5")]
    Ipv4HeaderLength(u8),
    /// The IPv4 total length does not cover its own header.
    #[error("IPv4 total length {total_bytes} is less than its header's {header_bytes} bytes")]
    Ipv4TotalLength {
        /// The total length field, bytes.
        total_bytes: u16,
        /// The header length field, in bytes.
        header_bytes: u8,
    },
    /// The header carries IP options, which the compact value does not hold.
    #[error("the IPv4 header carries {0} bytes of options, which are not supported here")]
    Ipv4Options(u8),
    /// The packet is a fragment, which the compact value does not hold.
    #[error("the IPv4 packet is a fragment, which is not supported here")]
    Ipv4Fragment,
    /// The reserved bit of the IPv4 flags is set (RFC 791 §3.1: must be zero).
    #[error("the reserved bit of the IPv4 flags is set")]
    Ipv4ReservedBit,
    /// The IPv4 header checksum is wrong.
    #[error("IPv4 header checksum is {got:#06x}, but the header sums to {expected:#06x}")]
    Ipv4Checksum {
        /// The checksum in the header.
        got: u16,
        /// The checksum that the header's bytes ask for.
        expected: u16,
    },
    /// The UDP length field does not cover the UDP header.
    #[error("UDP length {0} is less than the header's 8 bytes")]
    UdpLength(u16),
    /// The UDP checksum is wrong.
    #[error("UDP checksum is {got:#06x}, but the datagram sums to {expected:#06x}")]
    UdpChecksum {
        /// The checksum in the header.
        got: u16,
        /// The checksum that the datagram's bytes ask for.
        expected: u16,
    },
    /// There is no UDP checksum over IPv6 (RFC 8200 §8.1).
    #[error("the UDP datagram has no checksum, which IPv6 requires")]
    UdpChecksumMissing,
    /// The version field of an IPv6 header is not 6.
    #[error("IP version is {0}, not 6")]
    Ipv6Version(u8),
    /// The TCP data offset is under 5 words.
    #[error("TCP header length is {0} words, the smallest is 5")]
    TcpHeaderLength(u8),
    /// The header carries TCP options, which the compact value does not hold.
    #[error("the TCP header carries {0} bytes of options, which are not supported here")]
    TcpOptions(u8),
    /// Reserved bits of the TCP header are set.
    #[error("the reserved bits of the TCP header are {0:#x}, not zero")]
    TcpReservedBits(u8),
    /// The TCP checksum is wrong.
    #[error("TCP checksum is {got:#06x}, but the segment sums to {expected:#06x}")]
    TcpChecksum {
        /// The checksum in the header.
        got: u16,
        /// The checksum that the segment's bytes ask for.
        expected: u16,
    },
    /// The ICMP message is neither an echo request nor an echo reply.
    #[error("ICMP type {kind} code {code} is neither an echo request nor an echo reply")]
    IcmpNotEcho {
        /// The type field.
        kind: u8,
        /// The code field.
        code: u8,
    },
    /// The ICMP checksum is wrong.
    #[error("ICMP checksum is {got:#06x}, but the message sums to {expected:#06x}")]
    IcmpChecksum {
        /// The checksum in the header.
        got: u16,
        /// The checksum that the message's bytes ask for.
        expected: u16,
    },
}
