//! IPv6 packets (RFC 8200): the fixed header of forty bytes.
//!
//! Extension headers are payload here, and show as the next header's number. There is no header
//! checksum. Bytes after the payload length (Ethernet padding) are never part of the packet.

use core::net::Ipv6Addr;

use crate::bytes::{put_u16, put_u32, u16_at, u32_at};
use crate::error::ParseError;

/// Size of the fixed header, bytes.
pub const HEADER_BYTES: usize = 40;

/// Largest flow label: it has 20 bits.
pub(crate) const FLOW_LABEL_MAX: u32 = 0xf_ffff;

mod field {
    use core::ops::Range;

    pub(super) const VERSION_CLASS_LABEL: usize = 0;
    pub(super) const PAYLOAD_LENGTH: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SRC: Range<usize> = 8..24;
    pub(super) const DST: Range<usize> = 24..40;
}

/// A view of an IPv6 packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Views `buffer` as a packet after checking its version and length.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the version is not 6, or the buffer ends before the header or the payload.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let bytes = buffer.as_ref();
        let truncated = |header, needed_bytes| {
            Err(ParseError::Truncated { header, needed_bytes, got_bytes: bytes.len() })
        };
        if bytes.len() < HEADER_BYTES {
            return truncated("the IPv6 header", HEADER_BYTES);
        }
        let version = bytes[0] >> 4;
        if version != 6 {
            return Err(ParseError::Ipv6Version(version));
        }
        let needed_bytes = HEADER_BYTES + usize::from(u16_at(bytes, field::PAYLOAD_LENGTH));
        if bytes.len() < needed_bytes {
            return truncated("the IPv6 packet", needed_bytes);
        }
        Ok(Self { buffer })
    }

    /// Traffic class: DSCP and ECN (RFC 2474, RFC 3168).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the class is these eight bits")]
    pub fn traffic_class(&self) -> u8 {
        (u32_at(self.bytes(), field::VERSION_CLASS_LABEL) >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        u32_at(self.bytes(), field::VERSION_CLASS_LABEL) & FLOW_LABEL_MAX
    }

    /// Length of what follows the fixed header, bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> u16 {
        u16_at(self.bytes(), field::PAYLOAD_LENGTH)
    }

    /// Protocol number of the payload, or number of the first extension header.
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.bytes()[field::NEXT_HEADER]
    }

    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.bytes()[field::HOP_LIMIT]
    }

    /// Source address.
    #[must_use]
    pub fn src(&self) -> Ipv6Addr {
        addr_at(self.bytes(), field::SRC)
    }

    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> Ipv6Addr {
        addr_at(self.bytes(), field::DST)
    }

    /// What the header carries; padding after the packet is left out.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER_BYTES..HEADER_BYTES + usize::from(self.payload_bytes())]
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

/// The value of an IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Protocol number of the payload.
    pub next_header: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label; only its low 20 bits travel.
    pub flow_label: u32,
    pub hop_limit: u8,
    /// Size of the payload, bytes.
    pub payload_bytes: u16,
}

impl Repr {
    /// Reads the header. Every header that can be viewed has a value, so this cannot fail.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            src: packet.src(),
            dst: packet.dst(),
            next_header: packet.next_header(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            hop_limit: packet.hop_limit(),
            payload_bytes: packet.payload_bytes(),
        }
    }

    /// Writes the header to the start of `buffer`; the payload behind it is not touched.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if `buffer` cannot hold header and payload.
    pub fn emit<T>(&self, mut buffer: T) -> Result<Packet<T>, ParseError>
    where
        T: AsRef<[u8]> + AsMut<[u8]>,
    {
        let needed_bytes = HEADER_BYTES + usize::from(self.payload_bytes);
        let got_bytes = buffer.as_ref().len();
        if got_bytes < needed_bytes {
            let header = "the IPv6 packet";
            return Err(ParseError::Truncated { header, needed_bytes, got_bytes });
        }
        let class = u32::from(self.traffic_class) << 20;
        let first = 6 << 28 | class | (self.flow_label & FLOW_LABEL_MAX);
        let bytes = buffer.as_mut();
        put_u32(bytes, field::VERSION_CLASS_LABEL, first);
        put_u16(bytes, field::PAYLOAD_LENGTH, self.payload_bytes);
        bytes[field::NEXT_HEADER] = self.next_header;
        bytes[field::HOP_LIMIT] = self.hop_limit;
        bytes[field::SRC].copy_from_slice(&self.src.octets());
        bytes[field::DST].copy_from_slice(&self.dst.octets());
        Ok(Packet { buffer })
    }
}

fn addr_at(bytes: &[u8], at: core::ops::Range<usize>) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at]);
    octets.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header, two bytes of payload, one of padding.
    const PACKET: [u8; 43] = [
        0x6b, 0x81, 0x23, 0x45, 0x00, 0x02, 0x11, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 1, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0xaa, 0xbb,
        0x00,
    ];

    const REPR: Repr = Repr {
        src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        next_header: crate::protocol::UDP,
        traffic_class: 0xb8,
        flow_label: 0x1_2345,
        hop_limit: 64,
        payload_bytes: 2,
    };

    #[test]
    fn golden() {
        let packet = Packet::new_checked(PACKET).unwrap();
        assert_eq!(Repr::parse(&packet), REPR);
        assert_eq!(packet.payload(), [0xaa, 0xbb]);
        let mut bytes = [0xa5; 43];
        bytes[40..].copy_from_slice(&PACKET[40..]);
        assert_eq!(REPR.emit(bytes).unwrap().into_inner(), PACKET);
    }

    #[test]
    fn impossible_lengths_and_versions() {
        let view = |bytes: &[u8]| Packet::new_checked(bytes.to_vec()).unwrap_err().to_string();
        assert_eq!(view(&PACKET[..39]), "the IPv6 header needs 40 bytes, but the buffer holds 39");
        assert_eq!(view(&PACKET[..41]), "the IPv6 packet needs 42 bytes, but the buffer holds 41");
        assert_eq!(view(&[0x45; 40]), "IP version is 4, not 6");
        let error = REPR.emit([0; 41]).unwrap_err().to_string();
        assert_eq!(error, "the IPv6 packet needs 42 bytes, but the buffer holds 41");
    }

    #[test]
    fn changed_fields_are_read() {
        let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let mut packet = Packet::new_checked(PACKET).unwrap();
        packet.buffer[field::HOP_LIMIT] = 1;
        packet.buffer[field::SRC].copy_from_slice(&src.octets());
        packet.buffer[field::DST].copy_from_slice(&dst.octets());
        assert_eq!(Repr::parse(&packet), Repr { src, dst, hop_limit: 1, ..REPR });
    }

    proptest! {
        #[test]
        fn emitted_is_parsed_back(
            src: u128, dst: u128, next_header: u8, traffic_class: u8,
            flow_label in 0..=FLOW_LABEL_MAX, hop_limit: u8, payload_bytes in 0_u16..100
        ) {
            let (src, dst) = (src.into(), dst.into());
            let repr = Repr {
                src, dst, next_header, traffic_class, flow_label, hop_limit, payload_bytes,
            };
            let packet = repr.emit([0xa5; 150]).unwrap();
            prop_assert_eq!(Repr::parse(&packet), repr);
            prop_assert!(packet.payload().iter().all(|byte| *byte == 0xa5));
            prop_assert!(Packet::new_checked(packet.into_inner()).is_ok());
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120), six: bool
        ) {
            if let (true, Some(first)) = (six, bytes.first_mut()) {
                *first = 0x60;
            }
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (packet.payload(), Repr::parse(&packet));
            }
        }
    }
}
