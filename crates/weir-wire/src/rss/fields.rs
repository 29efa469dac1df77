//! What of a packet is hashed: addresses, or addresses and ports, and in which order.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use crate::flow::Flow;

/// The longest input: the addresses and ports of an IPv6 packet.
pub(super) const INPUT_BYTES_MAX: usize = 36;

/// The fields of a packet that are hashed.
///
/// Fragments, and protocols without ports, are hashed by their addresses whatever a card is set
/// to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fields {
    /// Source and destination address: `sd` in ethtool's letters. All flows between two hosts
    /// share a bucket.
    TwoTuple,
    /// Addresses and ports: `sdfn` in ethtool's letters.
    FourTuple,
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TwoTuple => "2-tuple",
            Self::FourTuple => "4-tuple",
        })
    }
}

/// A text that names no fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hash is over the 2-tuple (addresses) or the 4-tuple (addresses and ports)")]
pub struct FieldsError;

/// `2-tuple` or `4-tuple`, or ethtool's letters `sd` or `sdfn`.
impl FromStr for Fields {
    type Err = FieldsError;

    fn from_str(text: &str) -> Result<Self, FieldsError> {
        match text {
            "2-tuple" | "sd" => Ok(Self::TwoTuple),
            "4-tuple" | "sdfn" => Ok(Self::FourTuple),
            _ => Err(FieldsError),
        }
    }
}

/// Whether both directions of a connection have one hash, by what is done to the fields before
/// they are hashed (`RXH_XFRM_…` of ethtool.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Symmetry {
    /// Fields are hashed as they are.
    #[default]
    None,
    /// Each field and its counterpart are both replaced by their exclusive or.
    Xor,
    /// The source's field is replaced by the two joined by or, the destination's by exclusive or.
    OrXor,
}

impl fmt::Display for Symmetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Xor => "symmetric-xor",
            Self::OrXor => "symmetric-or-xor",
        })
    }
}

/// A text that names no symmetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the input of the hash is transformed by symmetric-xor, symmetric-or-xor, or none")]
pub struct SymmetryError;

impl FromStr for Symmetry {
    type Err = SymmetryError;

    fn from_str(text: &str) -> Result<Self, SymmetryError> {
        match text {
            "none" => Ok(Self::None),
            "symmetric-xor" => Ok(Self::Xor),
            "symmetric-or-xor" => Ok(Self::OrXor),
            _ => Err(SymmetryError),
        }
    }
}

/// The bytes that are hashed: source address, destination address, and with the 4-tuple source
/// port and destination port, as they are on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    bytes: [u8; INPUT_BYTES_MAX],
    length: usize,
}

impl Input {
    /// Of a flow, whose addresses are of one family; the source's decides which.
    pub(super) fn of<A: Into<IpAddr>>(flow: Flow<A>, fields: Fields, symmetry: Symmetry) -> Self {
        let mut input = Self { bytes: [0; INPUT_BYTES_MAX], length: 0 };
        match (flow.src.into(), flow.dst.into()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                input.push_pair(src.octets(), dst.octets(), symmetry);
            }
            (src, dst) => input.push_pair(octets(src), octets(dst), symmetry),
        }
        if fields == Fields::FourTuple {
            let ports = [flow.src_port, flow.dst_port].map(u16::to_be_bytes);
            input.push_pair(ports[0], ports[1], symmetry);
        }
        input
    }

    fn push_pair<const N: usize>(&mut self, src: [u8; N], dst: [u8; N], symmetry: Symmetry) {
        for index in 0..N {
            let (s, d) = (src[index], dst[index]);
            let (s, d) = match symmetry {
                Symmetry::None => (s, d),
                Symmetry::Xor => (s ^ d, s ^ d),
                Symmetry::OrXor => (s | d, s ^ d),
            };
            self.bytes[self.length + index] = s;
            self.bytes[self.length + N + index] = d;
        }
        self.length += 2 * N;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use core::net::Ipv4Addr;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for fields in [Fields::TwoTuple, Fields::FourTuple] {
            assert_eq!(fields.to_string().parse(), Ok(fields));
        }
        assert_eq!("sdfn".parse(), Ok(Fields::FourTuple));
        assert!("3-tuple".parse::<Fields>().unwrap_err().to_string().contains("the 4-tuple"));
        for symmetry in [Symmetry::None, Symmetry::Xor, Symmetry::OrXor] {
            assert_eq!(symmetry.to_string().parse(), Ok(symmetry));
        }
        assert!("xor".parse::<Symmetry>().is_err());
    }

    #[test]
    fn fields_are_in_the_order_of_the_packet() {
        let (src, dst) = (Ipv4Addr::new(1, 2, 3, 4), Ipv4Addr::new(5, 6, 7, 8));
        let flow = Flow { src, dst, src_port: 0x0102, dst_port: 0x0304 };
        let bytes = |fields, symmetry| Input::of(flow, fields, symmetry).bytes().to_vec();
        assert_eq!(bytes(Fields::TwoTuple, Symmetry::None), [1, 2, 3, 4, 5, 6, 7, 8]);
        let all = bytes(Fields::FourTuple, Symmetry::None);
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4]);
        let xor = bytes(Fields::FourTuple, Symmetry::Xor);
        assert_eq!(xor, [4, 4, 4, 12, 4, 4, 4, 12, 2, 6, 2, 6]);
        let or_xor = bytes(Fields::FourTuple, Symmetry::OrXor);
        assert_eq!(or_xor, [5, 6, 7, 12, 4, 4, 4, 12, 3, 6, 2, 6]);
    }
}
