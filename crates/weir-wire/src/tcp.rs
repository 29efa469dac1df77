//! TCP segments (RFC 9293), over IPv4 and IPv6.
//!
//! The view accepts every well-formed header, options included. The value [`Repr`] is what weir
//! sends: the fixed header of twenty bytes; a header with options or reserved bits is refused
//! rather than shortened. There is no connection here, only single segments.

use core::fmt;
use core::ops::BitOr;
use core::str::FromStr;

use alloc::string::String;

use crate::bytes::{put_u16, put_u32, u16_at, u32_at};
use crate::checksum::{self, IpAddress};
use crate::error::ParseError;

/// Size of a header without options, bytes.
pub const HEADER_BYTES: usize = 20;

mod field {
    pub(super) const SRC_PORT: usize = 0;
    pub(super) const DST_PORT: usize = 2;
    pub(super) const SEQUENCE: usize = 4;
    pub(super) const ACKNOWLEDGEMENT: usize = 8;
    pub(super) const OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const WINDOW: usize = 14;
    pub(super) const CHECKSUM: usize = 16;
    pub(super) const URGENT: usize = 18;
}

/// The control bits of a segment. Text is as tcpdump prints it: the letters of `FSRP.UEW` in that
/// order, `.` for ACK, or `none`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// No more data.
    pub const FIN: Self = Self(0x01);
    /// Open a connection.
    pub const SYN: Self = Self(0x02);
    /// Reset.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Letters, from bit 0 on.
    const LETTERS: &str = "FSRP.UEW";

    /// True if all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let set = |bit: usize| self.0 & (1 << bit) != 0;
        Self::LETTERS
            .chars()
            .enumerate()
            .filter(|(bit, _)| set(*bit))
            .try_for_each(|(_, letter)| f.write_str(letter.encode_utf8(&mut [0; 4])))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({self})")
    }
}

/// Text that names no TCP flags.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` are not TCP flags: write letters of `FSRP.UEW`, `.` for ACK, as in `S.`, or `none`")]
pub struct FlagsError(String);

impl FromStr for Flags {
    type Err = FlagsError;

    /// Reads the letters in any order, each at most once, or `none`.
    ///
    /// # Errors
    ///
    /// [`FlagsError`] for anything else, the empty text included.
    fn from_str(text: &str) -> Result<Self, FlagsError> {
        let error = || FlagsError(text.into());
        if text == "none" {
            return Ok(Self::NONE);
        }
        let mut flags = Self::NONE;
        for letter in text.chars() {
            let flag = Self(1 << Self::LETTERS.find(letter).ok_or_else(error)?);
            if flags.contains(flag) {
                return Err(error());
            }
            flags = flags | flag;
        }
        if flags == Self::NONE { Err(error()) } else { Ok(flags) }
    }
}

/// A view of a TCP segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Views `buffer`, which holds the segment and nothing behind it (TCP has no length of its
    /// own), after checking its header length. The checksum is checked by [`Repr::parse`].
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the header length is under five words or over the buffer's.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let bytes = buffer.as_ref();
        let truncated = |needed_bytes| {
            let header = "the TCP header";
            Err(ParseError::Truncated { header, needed_bytes, got_bytes: bytes.len() })
        };
        if bytes.len() < HEADER_BYTES {
            return truncated(HEADER_BYTES);
        }
        let words = bytes[field::OFFSET] >> 4;
        if words < 5 {
            return Err(ParseError::TcpHeaderLength(words));
        }
        if bytes.len() < usize::from(words) * 4 {
            return truncated(usize::from(words) * 4);
        }
        Ok(Self { buffer })
    }

    /// Header length, bytes: 20 to 60.
    #[must_use]
    pub fn header_bytes(&self) -> u8 {
        (self.bytes()[field::OFFSET] >> 4) * 4
    }

    /// The four reserved bits.
    #[must_use]
    pub(crate) fn reserved_bits(&self) -> u8 {
        self.bytes()[field::OFFSET] & 0x0f
    }

    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        u16_at(self.bytes(), field::SRC_PORT)
    }

    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        u16_at(self.bytes(), field::DST_PORT)
    }

    /// Sequence number.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        u32_at(self.bytes(), field::SEQUENCE)
    }

    /// Acknowledgement number.
    #[must_use]
    pub fn acknowledgement(&self) -> u32 {
        u32_at(self.bytes(), field::ACKNOWLEDGEMENT)
    }

    /// Control bits.
    #[must_use]
    pub fn flags(&self) -> Flags {
        Flags(self.bytes()[field::FLAGS])
    }

    /// Window, as it stands in the header (not scaled).
    #[must_use]
    pub fn window(&self) -> u16 {
        u16_at(self.bytes(), field::WINDOW)
    }

    /// Urgent pointer.
    #[must_use]
    pub fn urgent(&self) -> u16 {
        u16_at(self.bytes(), field::URGENT)
    }

    /// The checksum as it stands in the segment.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes(), field::CHECKSUM)
    }

    /// The checksum that the segment's bytes and the IP addresses ask for.
    #[must_use]
    pub fn computed_checksum<A: IpAddress>(&self, src: A, dst: A) -> u16 {
        checksum::tcp(src, dst, self.bytes())
    }

    /// What the segment carries.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[usize::from(self.header_bytes())..]
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

/// The value of a TCP header without options; the payload stays in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
}

impl Repr {
    /// Reads the header and checks the checksum.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the checksum is wrong, or the header has options or reserved bits.
    pub fn parse<T, A>(packet: &Packet<T>, src: A, dst: A) -> Result<Self, ParseError>
    where
        T: AsRef<[u8]>,
        A: IpAddress,
    {
        let (got, expected) = (packet.checksum(), packet.computed_checksum(src, dst));
        // A computed zero may have been sent as ones: in one's complement both are zero.
        if got != expected && !(got == 0xffff && expected == 0) {
            return Err(ParseError::TcpChecksum { got, expected });
        }
        match packet.header_bytes() {
            20 => {}
            bytes => return Err(ParseError::TcpOptions(bytes - 20)),
        }
        match packet.reserved_bits() {
            0 => {}
            bits => return Err(ParseError::TcpReservedBits(bits)),
        }
        Ok(Self {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            sequence: packet.sequence(),
            acknowledgement: packet.acknowledgement(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
        })
    }

    /// Writes header, `payload` and checksum to the start of `buffer`, and views them: the view
    /// must not reach further, so `buffer` has exactly their size.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if `buffer` has another size or is over 65,535 bytes.
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
        let got_bytes = buffer.as_ref().len();
        if got_bytes != needed_bytes || got_bytes > usize::from(u16::MAX) {
            let header = "the TCP segment";
            return Err(ParseError::Truncated { header, needed_bytes, got_bytes });
        }
        let bytes = buffer.as_mut();
        put_u16(bytes, field::SRC_PORT, self.src_port);
        put_u16(bytes, field::DST_PORT, self.dst_port);
        put_u32(bytes, field::SEQUENCE, self.sequence);
        put_u32(bytes, field::ACKNOWLEDGEMENT, self.acknowledgement);
        bytes[field::OFFSET] = 5 << 4;
        bytes[field::FLAGS] = self.flags.0;
        put_u16(bytes, field::WINDOW, self.window);
        put_u16(bytes, field::URGENT, self.urgent);
        bytes[HEADER_BYTES..].copy_from_slice(payload);
        let checksum = checksum::tcp(src, dst, bytes);
        put_u16(bytes, field::CHECKSUM, checksum);
        Ok(Packet { buffer })
    }
}

#[cfg(test)]
mod tests;
