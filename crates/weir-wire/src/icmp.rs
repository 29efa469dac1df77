//! ICMP echo messages: ICMPv4 (RFC 792) and ICMPv6 (RFC 4443), which share a layout.
//!
//! The view shows the eight bytes of any ICMP header; identifier and sequence number mean
//! something in echo messages only. The value [`Echo`] is an echo request or reply, and refuses
//! all other messages. ICMPv4 sums the message alone, ICMPv6 also a pseudo header, hence two
//! functions each to parse and to emit.

use core::net::Ipv6Addr;

use crate::bytes::{put_u16, u16_at};
use crate::checksum;
use crate::error::ParseError;

/// Size of an echo header, bytes.
pub const HEADER_BYTES: usize = 8;

/// Type of an ICMPv4 echo reply.
pub(crate) const V4_ECHO_REPLY: u8 = 0;
/// Type of an ICMPv4 echo request.
pub(crate) const V4_ECHO_REQUEST: u8 = 8;
/// Type of an ICMPv6 echo request.
pub(crate) const V6_ECHO_REQUEST: u8 = 128;
/// Type of an ICMPv6 echo reply.
pub(crate) const V6_ECHO_REPLY: u8 = 129;

mod field {
    pub(super) const TYPE: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const CHECKSUM: usize = 2;
    pub(super) const IDENT: usize = 4;
    pub(super) const SEQUENCE: usize = 6;
}

/// A view of an ICMP message of either family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Views `buffer`, which holds the message and nothing behind it (ICMP has no length of its
    /// own). The checksum is checked by [`Echo::parse_v4`] and [`Echo::parse_v6`].
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if the header does not fit.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        match buffer.as_ref().len() {
            HEADER_BYTES.. => Ok(Self { buffer }),
            got_bytes => {
                let header = "the ICMP header";
                Err(ParseError::Truncated { header, needed_bytes: HEADER_BYTES, got_bytes })
            }
        }
    }

    /// The type field.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.bytes()[field::TYPE]
    }

    /// The code field.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.bytes()[field::CODE]
    }

    /// The checksum as it stands in the message.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes(), field::CHECKSUM)
    }

    /// Identifier of an echo message.
    #[must_use]
    pub fn ident(&self) -> u16 {
        u16_at(self.bytes(), field::IDENT)
    }

    /// Sequence number of an echo message.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        u16_at(self.bytes(), field::SEQUENCE)
    }

    /// What follows the eight bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER_BYTES..]
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

/// The value of an echo message's header; the payload stays in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Echo {
    /// Whether it is a reply; otherwise it is a request.
    pub reply: bool,
    /// Identifier: which sender.
    pub ident: u16,
    /// Sequence number: which message of the sender.
    pub sequence: u16,
}

impl Echo {
    /// Reads an ICMPv4 echo message and checks its checksum.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the checksum is wrong or the message is no echo.
    pub fn parse_v4<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, ParseError> {
        let expected = checksum::icmp_v4(packet.bytes());
        Self::parse(packet, expected, V4_ECHO_REQUEST, V4_ECHO_REPLY)
    }

    /// Reads an ICMPv6 echo message and checks its checksum.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the checksum is wrong or the message is no echo.
    pub fn parse_v6<T>(packet: &Packet<T>, src: Ipv6Addr, dst: Ipv6Addr) -> Result<Self, ParseError>
    where
        T: AsRef<[u8]>,
    {
        let expected = checksum::icmp_v6(src, dst, packet.bytes());
        Self::parse(packet, expected, V6_ECHO_REQUEST, V6_ECHO_REPLY)
    }

    fn parse<T: AsRef<[u8]>>(
        packet: &Packet<T>,
        expected: u16,
        request: u8,
        reply: u8,
    ) -> Result<Self, ParseError> {
        let got = packet.checksum();
        // A computed zero may have been sent as ones: in one's complement both are zero.
        if got != expected && !(got == 0xffff && expected == 0) {
            return Err(ParseError::IcmpChecksum { got, expected });
        }
        let (kind, code) = (packet.kind(), packet.code());
        if (kind != request && kind != reply) || code != 0 {
            return Err(ParseError::IcmpNotEcho { kind, code });
        }
        Ok(Self { reply: kind == reply, ident: packet.ident(), sequence: packet.sequence() })
    }

    /// Writes an ICMPv4 header, `payload` and checksum to `buffer`, which has exactly their size.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if `buffer` has another size.
    pub fn emit_v4<T>(&self, mut buffer: T, payload: &[u8]) -> Result<Packet<T>, ParseError>
    where
        T: AsRef<[u8]> + AsMut<[u8]>,
    {
        let kind = if self.reply { V4_ECHO_REPLY } else { V4_ECHO_REQUEST };
        self.write(buffer.as_mut(), kind, payload)?;
        let checksum = checksum::icmp_v4(buffer.as_ref());
        put_u16(buffer.as_mut(), field::CHECKSUM, checksum);
        Ok(Packet { buffer })
    }

    /// Writes an ICMPv6 header, `payload` and checksum to `buffer`, which has exactly their size.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if `buffer` has another size.
    pub fn emit_v6<T>(
        &self,
        mut buffer: T,
        payload: &[u8],
        src: Ipv6Addr,
        dst: Ipv6Addr,
    ) -> Result<Packet<T>, ParseError>
    where
        T: AsRef<[u8]> + AsMut<[u8]>,
    {
        let kind = if self.reply { V6_ECHO_REPLY } else { V6_ECHO_REQUEST };
        self.write(buffer.as_mut(), kind, payload)?;
        let checksum = checksum::icmp_v6(src, dst, buffer.as_ref());
        put_u16(buffer.as_mut(), field::CHECKSUM, checksum);
        Ok(Packet { buffer })
    }

    fn write(&self, bytes: &mut [u8], kind: u8, payload: &[u8]) -> Result<(), ParseError> {
        let (needed_bytes, got_bytes) = (HEADER_BYTES + payload.len(), bytes.len());
        if got_bytes != needed_bytes {
            let header = "the ICMP message";
            return Err(ParseError::Truncated { header, needed_bytes, got_bytes });
        }
        bytes[field::TYPE] = kind;
        bytes[field::CODE] = 0;
        put_u16(bytes, field::IDENT, self.ident);
        put_u16(bytes, field::SEQUENCE, self.sequence);
        bytes[HEADER_BYTES..].copy_from_slice(payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ECHO: Echo = Echo { reply: false, ident: 0x1234, sequence: 5 };

    /// 0800 + 1234 + 0005 + 6162 is 7b9b, whose complement is 8464.
    #[test]
    fn golden_v4() {
        let packet = ECHO.emit_v4([0xa5; 10], b"ab").unwrap();
        let expected = [8, 0, 0x84, 0x64, 0x12, 0x34, 0, 5, b'a', b'b'];
        assert_eq!(packet.into_inner(), expected);
    }

    /// 0001 + 0002 + 003a + 000a + 8000 + 1234 + 0005 + 6162 is f3e2, whose complement is 0c1d.
    #[test]
    fn golden_v6() {
        let (src, dst) = (Ipv6Addr::from(1), Ipv6Addr::from(2));
        let packet = ECHO.emit_v6([0xa5; 10], b"ab", src, dst).unwrap();
        let expected = [128, 0, 0x0c, 0x1d, 0x12, 0x34, 0, 5, b'a', b'b'];
        assert_eq!(packet.into_inner(), expected);
    }

    #[test]
    fn what_is_no_echo_is_refused() {
        let error = Packet::new_checked([0; 7]).unwrap_err().to_string();
        assert_eq!(error, "the ICMP header needs 8 bytes, but the buffer holds 7");
        let mut bytes = ECHO.emit_v4([0; 10], b"ab").unwrap().into_inner();
        bytes[0] = 3;
        let error = Echo::parse_v4(&Packet::new_checked(bytes).unwrap()).unwrap_err().to_string();
        assert_eq!(error, "ICMP checksum is 0x8464, but the message sums to 0x8964");
        bytes[2..4].copy_from_slice(&[0x89, 0x64]);
        let error = Echo::parse_v4(&Packet::new_checked(bytes).unwrap()).unwrap_err().to_string();
        assert_eq!(error, "ICMP type 3 code 0 is neither an echo request nor an echo reply");
        assert!(ECHO.emit_v4([0; 9], b"ab").is_err() && ECHO.emit_v4([0; 11], b"ab").is_err());
    }

    proptest! {
        #[test]
        fn emitted_is_parsed_back(
            src: u128, dst: u128, reply: bool, ident: u16, sequence: u16,
            payload in prop::collection::vec(any::<u8>(), 0..80)
        ) {
            let echo = Echo { reply, ident, sequence };
            let room = vec![0xa5; HEADER_BYTES + payload.len()];
            let packet = echo.emit_v4(room.clone(), &payload).unwrap();
            prop_assert_eq!(Echo::parse_v4(&packet), Ok(echo));
            let (src, dst) = (src.into(), dst.into());
            let packet = echo.emit_v6(room, &payload, src, dst).unwrap();
            prop_assert_eq!(Echo::parse_v6(&packet, src, dst), Ok(echo));
            prop_assert_eq!(packet.payload(), &payload);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (packet.payload(), packet.code(), Echo::parse_v4(&packet));
                let _ = Echo::parse_v6(&packet, Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
            }
        }
    }
}
