//! IPv4 packets (RFC 791).
//!
//! The view accepts every well-formed header, options and fragments included. The value [`Repr`]
//! is what weir sends: no options, no fragment; a header that has them is refused rather than
//! shortened. Bytes after the total length (Ethernet padding) are never part of the packet.

use core::net::Ipv4Addr;

use crate::checksum;
use crate::error::ParseError;

/// Size of a header without options, bytes.
pub const HEADER_BYTES: usize = field::DST.end;

mod field {
    use core::ops::Range;

    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TOS: usize = 1;
    pub(super) const TOTAL_LENGTH: Range<usize> = 2..4;
    pub(super) const IDENT: Range<usize> = 4..6;
    pub(super) const FLAGS_OFFSET: Range<usize> = 6..8;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: Range<usize> = 10..12;
    pub(super) const SRC: Range<usize> = 12..16;
    pub(super) const DST: Range<usize> = 16..20;
}

const FLAG_RESERVED: u16 = 0x8000;
const FLAG_DONT_FRAGMENT: u16 = 0x4000;
const FLAG_MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// A view of an IPv4 packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Views `buffer` as a packet after checking its version and lengths. Checksums are checked
    /// by [`Repr::parse`], not here.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the version is not 4, or a length is impossible or over the buffer's.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let bytes = buffer.as_ref();
        let truncated = |header, needed_bytes| {
            Err(ParseError::Truncated { header, needed_bytes, got_bytes: bytes.len() })
        };
        if bytes.len() < HEADER_BYTES {
            return truncated("the IPv4 header", HEADER_BYTES);
        }
        let version = bytes[field::VERSION_IHL] >> 4;
        if version != 4 {
            return Err(ParseError::IpVersion(version));
        }
        let ihl = bytes[field::VERSION_IHL] & 0x0f;
        if ihl < 5 {
            return Err(ParseError::Ipv4HeaderLength(ihl));
        }
        let header_bytes = ihl * 4;
        let total_bytes = u16_at(bytes, field::TOTAL_LENGTH);
        if total_bytes < u16::from(header_bytes) {
            return Err(ParseError::Ipv4TotalLength { total_bytes, header_bytes });
        }
        if bytes.len() < usize::from(total_bytes) {
            return truncated("the IPv4 packet", usize::from(total_bytes));
        }
        Ok(Self { buffer })
    }

    /// Header length, bytes: 20 to 60.
    #[must_use]
    pub fn header_bytes(&self) -> u8 {
        (self.bytes()[field::VERSION_IHL] & 0x0f) * 4
    }

    /// Type of service: DSCP and ECN (RFC 2474, RFC 3168).
    #[must_use]
    pub fn tos(&self) -> u8 {
        self.bytes()[field::TOS]
    }

    /// Length of header and payload, bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u16 {
        u16_at(self.bytes(), field::TOTAL_LENGTH)
    }

    /// Identification.
    #[must_use]
    pub fn ident(&self) -> u16 {
        u16_at(self.bytes(), field::IDENT)
    }

    /// The "don't fragment" flag.
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        u16_at(self.bytes(), field::FLAGS_OFFSET) & FLAG_DONT_FRAGMENT != 0
    }

    /// The "more fragments" flag.
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        u16_at(self.bytes(), field::FLAGS_OFFSET) & FLAG_MORE_FRAGMENTS != 0
    }

    /// Place of this fragment in the whole packet, bytes.
    #[must_use]
    pub fn fragment_offset_bytes(&self) -> u16 {
        (u16_at(self.bytes(), field::FLAGS_OFFSET) & OFFSET_MASK) << 3
    }

    /// Time to live, hops.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.bytes()[field::TTL]
    }

    /// Protocol number of the payload.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.bytes()[field::PROTOCOL]
    }

    /// The header checksum as it stands in the packet.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes(), field::CHECKSUM)
    }

    /// The header checksum that the header's bytes ask for.
    #[must_use]
    pub fn computed_checksum(&self) -> u16 {
        checksum::ipv4_header(&self.bytes()[..usize::from(self.header_bytes())])
    }

    /// True if the header with its checksum sums to ones. This takes `0xffff` for `0x0000`, as
    /// every router does: routers that update checksums incrementally send it (RFC 1624 §3).
    #[must_use]
    pub fn checksum_is_valid(&self) -> bool {
        checksum::fold(checksum::sum(&self.bytes()[..usize::from(self.header_bytes())])) == 0xffff
    }

    /// Source address.
    #[must_use]
    pub fn src(&self) -> Ipv4Addr {
        addr_at(self.bytes(), field::SRC)
    }

    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> Ipv4Addr {
        addr_at(self.bytes(), field::DST)
    }

    /// What the header carries; padding after the packet is left out.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[usize::from(self.header_bytes())..usize::from(self.total_bytes())]
    }

    /// Gives the buffer back.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Makes the header checksum right again.
    pub fn fill_checksum(&mut self) {
        let checksum = self.computed_checksum();
        self.buffer.as_mut()[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The value of an IPv4 header without options, of a packet that is no fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub ident: u16,
    /// The "don't fragment" flag.
    pub dont_fragment: bool,
    /// Time to live, hops.
    pub ttl: u8,
    /// Size of the payload, bytes; at most 65,515.
    pub payload_bytes: u16,
}

impl Repr {
    /// Largest payload of a packet without options, bytes.
    #[expect(clippy::cast_possible_truncation, reason = "20 fits")]
    pub const PAYLOAD_BYTES_MAX: u16 = u16::MAX - HEADER_BYTES as u16;

    /// Reads the header and checks its checksum.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the checksum is wrong, the reserved flag is set, the header has options
    /// or the packet is a fragment.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, ParseError> {
        let options_bytes = usize::from(packet.header_bytes()) - HEADER_BYTES;
        if let Ok(bytes @ 1..) = u8::try_from(options_bytes) {
            return Err(ParseError::Ipv4Options(bytes));
        }
        if !packet.checksum_is_valid() {
            let (got, expected) = (packet.checksum(), packet.computed_checksum());
            return Err(ParseError::Ipv4Checksum { got, expected });
        }
        if u16_at(packet.bytes(), field::FLAGS_OFFSET) & FLAG_RESERVED != 0 {
            return Err(ParseError::Ipv4ReservedBit);
        }
        if packet.more_fragments() || packet.fragment_offset_bytes() != 0 {
            return Err(ParseError::Ipv4Fragment);
        }
        Ok(Self {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            tos: packet.tos(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            ttl: packet.ttl(),
            payload_bytes: packet.total_bytes() - u16::from(packet.header_bytes()),
        })
    }

    /// Writes header and checksum to the start of `buffer`; the payload behind it is not touched.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if `buffer` cannot hold header and payload, or the payload is over
    /// [`Repr::PAYLOAD_BYTES_MAX`].
    pub fn emit<T>(&self, mut buffer: T) -> Result<Packet<T>, ParseError>
    where
        T: AsRef<[u8]> + AsMut<[u8]>,
    {
        let needed_bytes = HEADER_BYTES + usize::from(self.payload_bytes);
        let got_bytes = buffer.as_ref().len().min(usize::from(u16::MAX));
        let truncated =
            ParseError::Truncated { header: "the IPv4 packet", needed_bytes, got_bytes };
        let total_bytes = u16::try_from(needed_bytes).map_err(|_| truncated)?;
        if got_bytes < needed_bytes {
            return Err(truncated);
        }
        let flags = if self.dont_fragment { FLAG_DONT_FRAGMENT } else { 0 };
        let bytes = buffer.as_mut();
        bytes[field::VERSION_IHL] = 0x45;
        bytes[field::TOS] = self.tos;
        bytes[field::TOTAL_LENGTH].copy_from_slice(&total_bytes.to_be_bytes());
        bytes[field::IDENT].copy_from_slice(&self.ident.to_be_bytes());
        bytes[field::FLAGS_OFFSET].copy_from_slice(&flags.to_be_bytes());
        bytes[field::TTL] = self.ttl;
        bytes[field::PROTOCOL] = self.protocol;
        bytes[field::SRC].copy_from_slice(&self.src.octets());
        bytes[field::DST].copy_from_slice(&self.dst.octets());
        let mut packet = Packet { buffer };
        packet.fill_checksum();
        Ok(packet)
    }
}

fn u16_at(bytes: &[u8], at: core::ops::Range<usize>) -> u16 {
    u16::from_be_bytes([bytes[at.start], bytes[at.start + 1]])
}

fn addr_at(bytes: &[u8], at: core::ops::Range<usize>) -> Ipv4Addr {
    let mut octets = [0; 4];
    octets.copy_from_slice(&bytes[at]);
    octets.into()
}

#[cfg(test)]
mod tests;
