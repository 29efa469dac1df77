//! From a flow to its bucket and queue, for one interface's settings, and for all flows of a space.

use core::net::IpAddr;

use super::fields::{Fields, Symmetry};
use super::table::Table;
use super::toeplitz::Toeplitz;
use crate::flow::{Flow, FlowSpace, Flows};
use crate::range::Span;

/// How an interface spreads the packets of one kind of flow.
#[derive(Debug, Clone)]
pub struct Steering {
    /// Its hash.
    pub toeplitz: Toeplitz,
    /// What of a packet of this kind is hashed.
    pub fields: Fields,
    /// What is done to the fields before.
    pub symmetry: Symmetry,
    /// Its indirection table.
    pub table: Table,
}

/// Where a flow's packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The hash of the flow.
    pub hash: u32,
    /// The bucket, from 0.
    pub bucket: usize,
    /// The receive queue, from 0.
    pub queue: u16,
}

impl Steering {
    /// The hash of a flow's packets.
    #[must_use]
    pub fn hash<A: Into<IpAddr>>(&self, flow: Flow<A>) -> u32 {
        self.toeplitz.hash(flow, self.fields, self.symmetry)
    }

    /// Where packets with this hash go.
    #[must_use]
    pub fn place(&self, hash: u32) -> Place {
        let bucket = self.table.bucket(hash);
        Place { hash, bucket, queue: self.table.queue(bucket) }
    }

    /// Every flow of a space with its place, in the order of the walk.
    pub fn places<'a, R: Span>(&'a self, space: &FlowSpace<R>) -> Places<'a, R> {
        Places { steering: self, flows: space.iter(), addresses: None }
    }
}

/// The hash of the addresses of a flow, kept while they stay the same.
#[derive(Debug, Clone, Copy)]
struct Addresses<A> {
    src: A,
    dst: A,
    hash: u32,
}

/// Iterator over the flows of a space and their places. The source port turns fastest, and the
/// hash is linear: as long as the addresses stay, only the ports are hashed anew.
#[derive(Debug, Clone)]
pub struct Places<'a, R: Span> {
    steering: &'a Steering,
    flows: Flows<R>,
    addresses: Option<Addresses<R::Addr>>,
}

impl<R: Span> Places<'_, R> {
    fn hash(&mut self, flow: Flow<R::Addr>) -> u32 {
        let steering = self.steering;
        if steering.symmetry != Symmetry::None {
            return steering.hash(flow);
        }
        let of_addresses = match self.addresses {
            Some(kept) if kept.src == flow.src && kept.dst == flow.dst => kept.hash,
            _ => steering.toeplitz.hash(flow, Fields::TwoTuple, Symmetry::None),
        };
        self.addresses = Some(Addresses { src: flow.src, dst: flow.dst, hash: of_addresses });
        match steering.fields {
            Fields::TwoTuple => of_addresses,
            Fields::FourTuple => {
                let is_ipv6 = flow.src.into().is_ipv6();
                of_addresses ^ steering.toeplitz.ports(is_ipv6, [flow.src_port, flow.dst_port])
            }
        }
    }
}

impl<R: Span> Iterator for Places<'_, R> {
    type Item = (Flow<R::Addr>, Place);

    fn next(&mut self) -> Option<Self::Item> {
        let flow = self.flows.next()?;
        let hash = self.hash(flow);
        Some((flow, self.steering.place(hash)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.flows.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::Key;
    use super::*;
    use crate::range::AddrRange;

    fn space(src: &str, dst: &str) -> FlowSpace<AddrRange> {
        let range = |text| AddrRange::parse(text, 1234).unwrap().0;
        FlowSpace::new(range(src), range(dst)).unwrap()
    }

    #[test]
    fn a_walk_has_the_places_of_its_flows() {
        let spaces = [
            space("198.18.10.1:2000-198.18.10.9:2005", "198.19.10.1:80-198.19.10.4:81"),
            space("[2001:2:0:10::1]:2000-[2001:2:0:10::9]:2005", "[2001:2:0:8010::1]:80"),
        ];
        for space in spaces {
            for fields in [Fields::TwoTuple, Fields::FourTuple] {
                for symmetry in [Symmetry::None, Symmetry::Xor, Symmetry::OrXor] {
                    let toeplitz = Toeplitz::new(&Key::microsoft());
                    let table = Table::equal(3, 128).unwrap();
                    let steering = Steering { toeplitz, fields, symmetry, table };
                    let mut count = 0;
                    for (flow, place) in steering.places(&space) {
                        assert_eq!(place, steering.place(steering.hash(flow)), "{flow}");
                        assert_eq!(usize::from(place.queue), place.hash as usize % 128 % 3);
                        count += 1;
                    }
                    assert_eq!(count, space.flow_count());
                }
            }
        }
    }
}
