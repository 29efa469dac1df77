//! The flows that a source and a destination range span, in pkt-gen's order.
//!
//! pkt-gen walks its ranges as an odometer: the first packet has every field at its first value,
//! then the source port moves fastest, then the source address, the destination port, and the
//! destination address slowest. A flow's *index* is its place in that walk. Source and
//! destination do not move together: 70 sources × 70 destinations are 4,900 flows.

use core::fmt;
use core::net::Ipv4Addr;

use crate::range::Range;

/// One flow: what a router or a firewall sees of it, the protocol aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} > {}:{}", self.src, self.src_port, self.dst, self.dst_port)
    }
}

/// All flows from a source range to a destination range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowSpace {
    src: Range,
    dst: Range,
    flow_count: u64,
}

/// The two ranges span more flows than can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{src} to {dst} are 2^64 flows or more, which cannot be counted: use smaller ranges")]
pub struct FlowSpaceError {
    src: Range,
    dst: Range,
}

impl FlowSpace {
    /// The flows from `src` to `dst`.
    ///
    /// # Errors
    ///
    /// [`FlowSpaceError`] if there are 2^64 flows or more.
    pub fn new(src: Range, dst: Range) -> Result<Self, FlowSpaceError> {
        let flow_count = src.pair_count().checked_mul(dst.pair_count());
        let flow_count = flow_count.ok_or(FlowSpaceError { src, dst })?;
        Ok(Self { src, dst, flow_count })
    }

    /// The source range.
    #[must_use]
    pub const fn src(&self) -> Range {
        self.src
    }

    /// The destination range.
    #[must_use]
    pub const fn dst(&self) -> Range {
        self.dst
    }

    /// Number of distinct flows, 1 or more.
    #[must_use]
    pub const fn flow_count(&self) -> u64 {
        self.flow_count
    }

    /// The flow at place `index % flow_count` of the walk.
    #[must_use]
    pub fn flow(&self, index: u64) -> Flow {
        let (src_port, rest) = digit(index % self.flow_count, u64::from(self.src.port_count()));
        let (src, rest) = digit(rest, self.src.addr_count());
        let (dst_port, dst) = digit(rest, u64::from(self.dst.port_count()));
        Flow {
            src: addr_at(self.src, src),
            dst: addr_at(self.dst, dst),
            src_port: port_at(self.src, src_port),
            dst_port: port_at(self.dst, dst_port),
        }
    }

    /// The place of `flow` in the walk, if it belongs to this space: the inverse of
    /// [`FlowSpace::flow`].
    #[must_use]
    pub fn index_of(&self, flow: &Flow) -> Option<u64> {
        if !self.src.contains(flow.src, flow.src_port)
            || !self.dst.contains(flow.dst, flow.dst_port)
        {
            return None;
        }
        let src_port = u64::from(flow.src_port - self.src.port_first);
        let src = u64::from(flow.src.to_bits() - self.src.addr_first.to_bits());
        let dst_port = u64::from(flow.dst_port - self.dst.port_first);
        let dst = u64::from(flow.dst.to_bits() - self.dst.addr_first.to_bits());
        let index = dst * u64::from(self.dst.port_count()) + dst_port;
        let index = index * self.src.addr_count() + src;
        Some(index * u64::from(self.src.port_count()) + src_port)
    }

    /// Every flow once, in the order of the walk.
    #[must_use]
    pub fn iter(&self) -> Flows {
        Flows { space: *self, next: self.flow(0), left: self.flow_count }
    }
}

impl IntoIterator for &FlowSpace {
    type Item = Flow;
    type IntoIter = Flows;

    fn into_iter(self) -> Flows {
        self.iter()
    }
}

/// Iterator over the flows of a [`FlowSpace`]: turns the odometer by one, without divisions.
#[derive(Debug, Clone)]
pub struct Flows {
    space: FlowSpace,
    next: Flow,
    left: u64,
}

impl Iterator for Flows {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        self.left = self.left.checked_sub(1)?;
        let flow = self.next;
        self.turn();
        Some(flow)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.left) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }
}

impl Flows {
    /// Moves to the following flow; after the last one comes the first again.
    fn turn(&mut self) {
        let Self { space: FlowSpace { src, dst, .. }, next, .. } = self;
        if next.src_port < src.port_last {
            next.src_port += 1;
            return;
        }
        next.src_port = src.port_first;
        if next.src < src.addr_last {
            next.src = Ipv4Addr::from_bits(next.src.to_bits() + 1);
            return;
        }
        next.src = src.addr_first;
        if next.dst_port < dst.port_last {
            next.dst_port += 1;
            return;
        }
        next.dst_port = dst.port_first;
        if next.dst < dst.addr_last {
            next.dst = Ipv4Addr::from_bits(next.dst.to_bits() + 1);
            return;
        }
        next.dst = dst.addr_first;
    }
}

/// The lowest digit of `index` in base `count`, and what is left of it.
fn digit(index: u64, count: u64) -> (u64, u64) {
    (index % count, index / count)
}

#[expect(clippy::cast_possible_truncation, reason = "offsets stay under the range's count")]
fn addr_at(range: Range, offset: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(range.addr_first.to_bits() + offset as u32)
}

#[expect(clippy::cast_possible_truncation, reason = "offsets stay under the range's count")]
fn port_at(range: Range, offset: u64) -> u16 {
    range.port_first + offset as u16
}

#[cfg(test)]
mod tests;
