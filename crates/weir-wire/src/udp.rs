//! UDP datagrams (RFC 768), over IPv4 and IPv6.
//!
//! The checksum covers a pseudo header, so parsing and emitting take the addresses of the IP
//! header. A checksum of zero means that the sender made none, which is legal over IPv4 and
//! accepted there, and refused over IPv6 (RFC 8200 §8.1); weir itself always sends one.

use crate::checksum::{self, IpAddress};
use crate::error::ParseError;

/// Size of the header, bytes.
pub const HEADER_BYTES: usize = field::PAYLOAD;

mod field {
    use core::ops::Range;

    pub(super) const SRC_PORT: Range<usize> = 0..2;
    pub(super) const DST_PORT: Range<usize> = 2..4;
    pub(super) const LENGTH: Range<usize> = 4..6;
    pub(super) const CHECKSUM: Range<usize> = 6..8;
    pub(super) const PAYLOAD: usize = 8;
}

/// A view of a UDP datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Views `buffer` as a datagram after checking its length field. The checksum is checked by
    /// [`Repr::parse`], not here.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the length is under the header's or over the buffer's.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let bytes = buffer.as_ref();
        let truncated = |header, needed_bytes| {
            Err(ParseError::Truncated { header, needed_bytes, got_bytes: bytes.len() })
        };
        if bytes.len() < HEADER_BYTES {
            return truncated("the UDP header", HEADER_BYTES);
        }
        let size_bytes = u16_at(bytes, field::LENGTH);
        if usize::from(size_bytes) < HEADER_BYTES {
            return Err(ParseError::UdpLength(size_bytes));
        }
        if bytes.len() < usize::from(size_bytes) {
            return truncated("the UDP datagram", usize::from(size_bytes));
        }
        Ok(Self { buffer })
    }

    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        u16_at(self.buffer.as_ref(), field::SRC_PORT)
    }

    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        u16_at(self.buffer.as_ref(), field::DST_PORT)
    }

    /// Length of header and payload, bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u16 {
        u16_at(self.buffer.as_ref(), field::LENGTH)
    }

    /// The checksum as it stands in the datagram; 0 means that there is none.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.buffer.as_ref(), field::CHECKSUM)
    }

    /// The checksum that the datagram's bytes and the IP addresses ask for.
    #[must_use]
    pub fn computed_checksum<A: IpAddress>(&self, src: A, dst: A) -> u16 {
        checksum::udp(src, dst, self.datagram())
    }

    /// What the datagram carries.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.datagram()[field::PAYLOAD..]
    }

    /// Gives the buffer back.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn datagram(&self) -> &[u8] {
        &self.buffer.as_ref()[..usize::from(self.size_bytes())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Makes the checksum right again.
    pub fn fill_checksum<A: IpAddress>(&mut self, src: A, dst: A) {
        let checksum = self.computed_checksum(src, dst);
        self.buffer.as_mut()[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The value of a UDP header; the payload stays in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl Repr {
    /// Reads the header and checks the checksum, unless the sender made none.
    ///
    /// # Errors
    ///
    /// [`ParseError::UdpChecksum`] if the checksum is wrong, [`ParseError::UdpChecksumMissing`] if
    /// there is none over IPv6.
    pub fn parse<T, A>(packet: &Packet<T>, src: A, dst: A) -> Result<Self, ParseError>
    where
        T: AsRef<[u8]>,
        A: IpAddress,
    {
        let (got, expected) = (packet.checksum(), packet.computed_checksum(src, dst));
        if got == 0 && A::UDP_CHECKSUM_REQUIRED {
            return Err(ParseError::UdpChecksumMissing);
        }
        if got != 0 && got != expected {
            return Err(ParseError::UdpChecksum { got, expected });
        }
        Ok(Self { src_port: packet.src_port(), dst_port: packet.dst_port() })
    }

    /// Writes header, `payload` and checksum to the start of `buffer`.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if `buffer`, or a datagram's 65,535 bytes, cannot hold them.
    pub fn emit<T, A>(
        &self,
        mut buffer: T,
        payload: &[u8],
        src: A,
        dst: A,
    ) -> Result<Packet<T>, ParseError>
    where
        T: AsRef<[u8]> + AsMut<[u8]>,
        A: IpAddress,
    {
        let needed_bytes = HEADER_BYTES + payload.len();
        let got_bytes = buffer.as_ref().len().min(usize::from(u16::MAX));
        let truncated =
            ParseError::Truncated { header: "the UDP datagram", needed_bytes, got_bytes };
        let size_bytes = u16::try_from(needed_bytes).map_err(|_| truncated)?;
        if got_bytes < needed_bytes {
            return Err(truncated);
        }
        let bytes = buffer.as_mut();
        bytes[field::SRC_PORT].copy_from_slice(&self.src_port.to_be_bytes());
        bytes[field::DST_PORT].copy_from_slice(&self.dst_port.to_be_bytes());
        bytes[field::LENGTH].copy_from_slice(&size_bytes.to_be_bytes());
        bytes[field::PAYLOAD..needed_bytes].copy_from_slice(payload);
        let mut packet = Packet { buffer };
        packet.fill_checksum(src, dst);
        Ok(packet)
    }
}

fn u16_at(bytes: &[u8], at: core::ops::Range<usize>) -> u16 {
    u16::from_be_bytes([bytes[at.start], bytes[at.start + 1]])
}

#[cfg(test)]
mod tests;
