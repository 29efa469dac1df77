//! VLAN tags: IEEE 802.1Q customer tags and 802.1ad service tags (QinQ).
//!
//! A tag is four bytes: its type, in the place of the frame's [`EtherType`], and the tag control
//! information. The view [`Packet`] starts behind the type, because that is where the payload of
//! [`crate::ethernet::Packet`] starts; its own payload starts behind the next type.

use core::fmt;

use crate::bytes::{put_u16, u16_at};
use crate::error::ParseError;
use crate::ethernet::EtherType;

/// What a tag adds to a frame, bytes.
pub const TAG_BYTES: usize = 4;

/// Highest VLAN identifier: 4095 is reserved (IEEE 802.1Q table 9-2). 0 tags a priority alone.
pub(crate) const ID_MAX: u16 = 4094;

/// Highest priority code point.
pub(crate) const PCP_MAX: u8 = 7;

const DEI: u16 = 0x1000;
const ID_MASK: u16 = 0x0fff;

/// True for the types that announce a tag.
#[must_use]
pub fn is_tag(ethertype: EtherType) -> bool {
    matches!(ethertype, EtherType::VLAN | EtherType::SERVICE_VLAN)
}

/// Which standard's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TagKind {
    /// IEEE 802.1Q, type 0x8100.
    #[default]
    Customer,
    /// IEEE 802.1ad, type 0x88a8.
    Service,
}

impl TagKind {
    /// The type that announces the tag.
    #[must_use]
    pub const fn ethertype(self) -> EtherType {
        match self {
            Self::Customer => EtherType::VLAN,
            Self::Service => EtherType::SERVICE_VLAN,
        }
    }
}

/// A tag to put on frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tag {
    /// The standard.
    pub kind: TagKind,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 0 to 4094.
    pub id: u16,
}

/// A tag that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// The identifier is over 4094.
    #[error("VLAN {0} cannot be sent: identifiers run from 0 to {ID_MAX}")]
    Id(u16),
    /// The priority is over 7.
    #[error("VLAN priority {0} cannot be sent: priorities run from 0 to {PCP_MAX}")]
    Pcp(u8),
}

impl Tag {
    /// Checks identifier and priority.
    ///
    /// # Errors
    ///
    /// [`TagError`] if one of them is out of range.
    pub const fn check(&self) -> Result<(), TagError> {
        if self.id > ID_MAX {
            return Err(TagError::Id(self.id));
        }
        if self.pcp > PCP_MAX {
            return Err(TagError::Pcp(self.pcp));
        }
        Ok(())
    }
}

/// A view of a tag from its control information on, and of what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Views `buffer`, which starts behind the tag's type.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if control information and next type do not fit.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        match buffer.as_ref().len() {
            TAG_BYTES.. => Ok(Self { buffer }),
            got_bytes => {
                let header = "the VLAN tag";
                Err(ParseError::Truncated { header, needed_bytes: TAG_BYTES, got_bytes })
            }
        }
    }

    /// Priority code point, 0 to 7.
    #[must_use]
    pub fn pcp(&self) -> u8 {
        self.buffer.as_ref()[0] >> 5
    }

    /// Drop eligible indicator.
    #[must_use]
    pub fn dei(&self) -> bool {
        u16_at(self.buffer.as_ref(), 0) & DEI != 0
    }

    /// VLAN identifier, 0 to 4095.
    #[must_use]
    pub fn id(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 0) & ID_MASK
    }

    /// Type of what follows.
    #[must_use]
    pub fn ethertype(&self) -> EtherType {
        EtherType(u16_at(self.buffer.as_ref(), 2))
    }

    /// Everything after the tag and the next type.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[TAG_BYTES..]
    }
}

/// The value of a tag and of the type that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Priority code point; only its low 3 bits travel.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier; only its low 12 bits travel.
    pub id: u16,
    /// Type of what follows.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the tag. Every four bytes are one, so this cannot fail.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            pcp: packet.pcp(),
            dei: packet.dei(),
            id: packet.id(),
            ethertype: packet.ethertype(),
        }
    }

    /// Writes the tag's control information and the next type.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        let dei = if self.dei { DEI } else { 0 };
        let bytes = packet.buffer.as_mut();
        put_u16(bytes, 0, u16::from(self.pcp & PCP_MAX) << 13 | dei | (self.id & ID_MASK));
        put_u16(bytes, 2, self.ethertype.0);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dei = if self.dei { ", DEI" } else { "" };
        write!(f, "vlan {}, p {}{dei}", self.id, self.pcp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden() {
        let repr = Repr { pcp: 5, dei: true, id: 0x123, ethertype: EtherType::IPV6 };
        let mut packet = Packet::new_checked([0; 5]).unwrap();
        repr.emit(&mut packet);
        assert_eq!(packet.buffer, [0xb1, 0x23, 0x86, 0xdd, 0]);
        assert_eq!(repr.to_string(), "vlan 291, p 5, DEI");
        let error = Packet::new_checked([0; 3]).unwrap_err();
        assert_eq!(error.to_string(), "the VLAN tag needs 4 bytes, but the buffer holds 3");
    }

    #[test]
    fn tags_are_checked() {
        assert_eq!(Tag { id: 4094, pcp: 7, ..<_>::default() }.check(), Ok(()));
        let error = Tag { id: 4095, ..<_>::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "VLAN 4095 cannot be sent: identifiers run from 0 to 4094");
        assert_eq!(Tag { pcp: 8, ..<_>::default() }.check(), Err(TagError::Pcp(8)));
        assert!(is_tag(TagKind::Customer.ethertype()) && is_tag(TagKind::Service.ethertype()));
        assert!(!is_tag(EtherType::IPV4));
    }

    proptest! {
        #[test]
        fn emitted_is_parsed_back(pcp in 0..=PCP_MAX, dei: bool, id in 0_u16..4096, next: u16) {
            let repr = Repr { pcp, dei, id, ethertype: EtherType(next) };
            let mut packet = Packet::new_checked([0xa5; 6]).unwrap();
            repr.emit(&mut packet);
            prop_assert_eq!(Repr::parse(&packet), repr);
            prop_assert_eq!(packet.payload(), [0xa5; 2]);
        }
    }
}
