//! Ethernet II frames, without the frame check sequence (IEEE 802.3).
//!
//! The view knows the fourteen bytes of the untagged header. It does not step over VLAN tags: a
//! tagged frame shows the tag's type as its [`EtherType`], and [`crate::vlan`] goes on from there.

use crate::error::ParseError;
use crate::mac::MacAddr;

/// Size of the untagged header, bytes.
pub const HEADER_BYTES: usize = field::PAYLOAD.start;

/// Size of the frame check sequence, which frame sizes leave out, bytes (IEEE 802.3 §3.2.9).
pub const FCS_BYTES: u16 = 4;

/// Preamble and start frame delimiter before every frame, bytes (IEEE 802.3 §3.2.1, §3.2.2).
pub(crate) const PREAMBLE_BYTES: u16 = 8;

/// The least gap between two frames, bytes: 96 bit times (IEEE 802.3 §4.4.2, `interPacketGap`).
pub(crate) const GAP_BYTES: u16 = 12;

/// What a frame takes on a line beyond its size, bytes: FCS, preamble and gap.
pub const LINE_OVERHEAD_BYTES: u16 = FCS_BYTES + PREAMBLE_BYTES + GAP_BYTES;

mod field {
    use core::ops::{Range, RangeFrom};

    pub(super) const DST: Range<usize> = 0..6;
    pub(super) const SRC: Range<usize> = 6..12;
    pub(super) const TYPE: Range<usize> = 12..14;
    pub(super) const PAYLOAD: RangeFrom<usize> = 14..;
}

/// What the payload of a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    pub const IPV4: Self = Self(0x0800);
    pub const ARP: Self = Self(0x0806);
    /// An IEEE 802.1Q tag.
    pub const VLAN: Self = Self(0x8100);
    /// An IEEE 802.1ad service tag, the outer one of QinQ.
    pub(crate) const SERVICE_VLAN: Self = Self(0x88a8);
    pub const IPV6: Self = Self(0x86dd);
}

/// A view of an Ethernet frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Views `buffer` as a frame after checking that the header fits.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if it does not.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        match buffer.as_ref().len() {
            HEADER_BYTES.. => Ok(Self { buffer }),
            got_bytes => Err(ParseError::Truncated {
                header: "the Ethernet header",
                needed_bytes: HEADER_BYTES,
                got_bytes,
            }),
        }
    }

    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> MacAddr {
        mac(&self.buffer.as_ref()[field::DST])
    }

    /// Source address.
    #[must_use]
    pub fn src(&self) -> MacAddr {
        mac(&self.buffer.as_ref()[field::SRC])
    }

    /// Type of the payload.
    #[must_use]
    pub fn ethertype(&self) -> EtherType {
        let bytes = &self.buffer.as_ref()[field::TYPE];
        EtherType(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Everything after the header, padding included.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[field::PAYLOAD]
    }

    /// Gives the buffer back.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the destination address.
    pub(crate) fn set_dst(&mut self, mac: MacAddr) {
        self.buffer.as_mut()[field::DST].copy_from_slice(&mac.0);
    }

    /// Sets the source address.
    pub(crate) fn set_src(&mut self, mac: MacAddr) {
        self.buffer.as_mut()[field::SRC].copy_from_slice(&mac.0);
    }

    /// Sets the type of the payload.
    pub(crate) fn set_ethertype(&mut self, ethertype: EtherType) {
        self.buffer.as_mut()[field::TYPE].copy_from_slice(&ethertype.0.to_be_bytes());
    }
}

/// The value of an untagged Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// Type of the payload.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the header. Every fourteen bytes are a header, so this cannot fail.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self { dst: packet.dst(), src: packet.src(), ethertype: packet.ethertype() }
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_dst(self.dst);
        packet.set_src(self.src);
        packet.set_ethertype(self.ethertype);
    }
}

fn mac(bytes: &[u8]) -> MacAddr {
    let mut octets = [0; 6];
    octets.copy_from_slice(bytes);
    MacAddr(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: [u8; 16] =
        [0x02, 0, 0, 0, 0, 0x02, 0x02, 0, 0, 0, 0, 0x01, 0x08, 0x00, 0xaa, 0xbb];

    #[test]
    fn deconstruct() {
        let packet = Packet::new_checked(FRAME).unwrap();
        assert_eq!(packet.dst(), MacAddr([2, 0, 0, 0, 0, 2]));
        assert_eq!(packet.src(), MacAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(packet.ethertype(), EtherType::IPV4);
        assert_eq!(packet.payload(), [0xaa, 0xbb]);
    }

    #[test]
    fn construct() {
        let mut packet = Packet::new_checked([0xa5; 16]).unwrap();
        Repr::parse(&Packet::new_checked(FRAME).unwrap()).emit(&mut packet);
        packet.buffer[field::PAYLOAD].copy_from_slice(&[0xaa, 0xbb]);
        assert_eq!(packet.into_inner(), FRAME);
    }

    #[test]
    fn bad_length() {
        let error = Packet::new_checked(&FRAME[..13]).unwrap_err();
        let text = "the Ethernet header needs 14 bytes, but the buffer holds 13";
        assert_eq!(error.to_string(), text);
    }

    proptest! {
        #[test]
        fn emitted_is_parsed_back(dst: [u8; 6], src: [u8; 6], ethertype: u16) {
            let (dst, src) = (MacAddr(dst), MacAddr(src));
            let repr = Repr { dst, src, ethertype: EtherType(ethertype) };
            let mut packet = Packet::new_checked([0xa5; 20]).unwrap();
            repr.emit(&mut packet);
            prop_assert_eq!(Repr::parse(&packet), repr);
            prop_assert_eq!(packet.payload(), [0xa5; 6]);
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..32)) {
            if let Ok(packet) = Packet::new_checked(&bytes) {
                prop_assert_eq!(packet.payload().len(), bytes.len() - HEADER_BYTES);
                let _ = Repr::parse(&packet);
            }
        }
    }
}
