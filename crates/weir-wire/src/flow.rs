//! The flows that a source and a destination range span, in pkt-gen's order.
//!
//! pkt-gen walks its ranges as an odometer: the first packet has every field at its first value,
//! then the source port moves fastest, then the source address, the destination port, and the
//! destination address slowest. A flow's *index* is its place in that walk. Source and
//! destination do not move together: 70 sources × 70 destinations are 4,900 flows.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::range::{AddrRange, Range, Span};

/// One flow: what a router or a firewall sees of it, the protocol aside. `A` is the address type:
/// [`Ipv4Addr`], `Ipv6Addr`, or [`IpAddr`] where the family is not known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow<A = Ipv4Addr> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl<A: Copy + Into<IpAddr>> fmt::Display for Flow<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let src = SocketAddr::new(self.src.into(), self.src_port);
        let dst = SocketAddr::new(self.dst.into(), self.dst_port);
        write!(f, "{src} > {dst}")
    }
}

/// The place of a flow, one digit per field, the fastest first: offsets of the source port, the
/// source address, the destination port and the destination address in their ranges.
pub type Digits = [u64; 4];

/// All flows from a source range to a destination range: of IPv4 by default, of either family with
/// `R = AddrRange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowSpace<R = Range> {
    src: R,
    dst: R,
    flow_count: u64,
}

/// Two ranges that do not span flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FlowSpaceError {
    /// The ranges span more flows than can be counted.
    #[error("{src} to {dst} make 2^64 flows or more, which cannot be counted: use smaller ranges")]
    TooMany {
        /// The source range.
        src: AddrRange,
        /// The destination range.
        dst: AddrRange,
    },
    /// One range is IPv4, the other IPv6.
    #[error("{src} to {dst} are of different address families: give two IPv4 or two IPv6 ranges")]
    Families {
        /// The source range.
        src: AddrRange,
        /// The destination range.
        dst: AddrRange,
    },
}

impl<R: Copy> FlowSpace<R> {
    /// The source range.
    #[must_use]
    pub const fn src(&self) -> R {
        self.src
    }

    /// The destination range.
    #[must_use]
    pub const fn dst(&self) -> R {
        self.dst
    }

    /// Number of distinct flows, 1 or more.
    #[must_use]
    pub const fn flow_count(&self) -> u64 {
        self.flow_count
    }
}

impl<R: Span> FlowSpace<R> {
    /// The flows from `src` to `dst`.
    ///
    /// # Errors
    ///
    /// [`FlowSpaceError`] if there are 2^64 flows or more, or the ranges' families differ.
    pub fn new(src: R, dst: R) -> Result<Self, FlowSpaceError> {
        let either: (AddrRange, AddrRange) = (src.into(), dst.into());
        if either.0.is_ipv6() != either.1.is_ipv6() {
            return Err(FlowSpaceError::Families { src: either.0, dst: either.1 });
        }
        let flow_count = src.pair_count().checked_mul(dst.pair_count());
        let error = FlowSpaceError::TooMany { src: either.0, dst: either.1 };
        Ok(Self { src, dst, flow_count: flow_count.ok_or(error)? })
    }

    /// The flow at place `index % flow_count` of the walk.
    #[must_use]
    pub fn flow(&self, index: u64) -> Flow<R::Addr> {
        self.flow_at(self.digits(index))
    }

    /// Number of values of each digit.
    #[must_use]
    pub(crate) fn radices(&self) -> Digits {
        [
            u64::from(self.src.port_count()),
            self.src.addr_count(),
            u64::from(self.dst.port_count()),
            self.dst.addr_count(),
        ]
    }

    /// The digits of place `index % flow_count`.
    #[must_use]
    pub fn digits(&self, index: u64) -> Digits {
        let mut rest = index % self.flow_count;
        self.radices().map(|radix| {
            let digit = rest % radix;
            rest /= radix;
            digit
        })
    }

    /// The flow with these digits, each of which must be below its radix.
    #[must_use]
    pub(crate) fn flow_at(&self, digits: Digits) -> Flow<R::Addr> {
        let [src_port, src, dst_port, dst] = digits;
        Flow {
            src: self.src.addr(src),
            dst: self.dst.addr(dst),
            src_port: self.src.port(src_port),
            dst_port: self.dst.port(dst_port),
        }
    }

    /// The place that these digits, each below its radix, stand for.
    #[must_use]
    pub(crate) fn index_at(&self, digits: Digits) -> u64 {
        let pairs = digits.into_iter().zip(self.radices());
        pairs.rev().fold(0, |index, (digit, radix)| index * radix + digit)
    }

    /// The place of `flow` in the walk, if it belongs to this space: the inverse of
    /// [`FlowSpace::flow`].
    #[cfg(test)]
    pub(crate) fn index_of(&self, flow: &Flow<R::Addr>) -> Option<u64> {
        Some(self.index_at([
            self.src.port_offset(flow.src_port)?,
            self.src.addr_offset(flow.src)?,
            self.dst.port_offset(flow.dst_port)?,
            self.dst.addr_offset(flow.dst)?,
        ]))
    }

    /// Every flow once, in the order of the walk.
    #[must_use]
    pub fn iter(&self) -> Flows<R> {
        Flows { space: *self, next: [0; 4], left: self.flow_count }
    }
}

impl<R: Span> IntoIterator for &FlowSpace<R> {
    type Item = Flow<R::Addr>;
    type IntoIter = Flows<R>;

    fn into_iter(self) -> Flows<R> {
        self.iter()
    }
}

/// Iterator over the flows of a [`FlowSpace`]: turns the odometer by one, without divisions.
#[derive(Debug, Clone)]
pub struct Flows<R = Range> {
    space: FlowSpace<R>,
    next: Digits,
    left: u64,
}

impl<R: Span> Iterator for Flows<R> {
    type Item = Flow<R::Addr>;

    fn next(&mut self) -> Option<Flow<R::Addr>> {
        self.left = self.left.checked_sub(1)?;
        let flow = self.space.flow_at(self.next);
        for (digit, radix) in self.next.iter_mut().zip(self.space.radices()) {
            *digit += 1;
            if *digit < radix {
                break;
            }
            *digit = 0;
        }
        Some(flow)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.left) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }
}

#[cfg(test)]
mod tests;
