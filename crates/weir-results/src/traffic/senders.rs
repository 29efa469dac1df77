//! Who sends a traffic: the generators of a testbed, one at each port that sends, and what each of
//! them sends.
//!
//! Ports are those of the DUT, `dut0`, `dut1`, …: link k is the pair 2k and 2k + 1, whose first
//! port has the sources of a traffic behind it and whose second port its destinations. A traffic is
//! written for the first link; what the others send differs in its networks alone: the blocks of
//! both sides are cut into as many equal parts as there are links (rounded up to a power of two),
//! and a range of the first part stands for those at the same place in the others. Arithmetic only.

use weir_wire::describe::Described;
use weir_wire::frame::Protocol;
use weir_wire::range::AddrRange;
use weir_wire::stream::StreamSpec;
use weir_wire::units::Rate;

use super::{Streams, Traffic};

/// The most links of a testbed.
pub const LINKS_MAX: u16 = 4;

/// Who sends a traffic beside the one generator that every traffic has.
#[derive(Debug, Clone, PartialEq)]
pub struct Senders {
    /// What is sent the other way at the same time; absent: nothing.
    pub reverse: Option<Reverse>,
    /// Threads of each generator, from 1.
    pub threads: u16,
    /// Links that carry it, 1 to [`LINKS_MAX`].
    pub links: u16,
    /// Whether each port sends to every other one, and not to its partner alone.
    pub is_mesh: bool,
    /// The port that sends where there is one sender: 0, but for a part of a traffic.
    pub first_port: u16,
}

impl Default for Senders {
    fn default() -> Self {
        Self { reverse: None, threads: 1, links: 1, is_mesh: false, first_port: 0 }
    }
}

/// What is sent against the direction of a traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Reverse {
    pub streams: Streams,
    /// Rate of each generator that sends it.
    pub rate: Rate,
}

/// A generator.
#[derive(Debug, Clone, PartialEq)]
pub struct Sender {
    /// The port that it sends to; its packets leave the DUT by others.
    pub port: u16,
    pub streams: Streams,
    /// Its rate, total over its threads and streams.
    pub rate: Rate,
}

/// The other port of a link.
#[must_use]
pub fn partner(port: u16) -> u16 {
    port ^ 1
}

/// Into how many parts the networks of both sides are cut.
#[must_use]
pub fn parts(links: u16) -> u16 {
    links.next_power_of_two()
}

/// A range of the first link's part, in that of another link.
fn moved(range: AddrRange, link: u16, links: u16) -> AddrRange {
    // A /16 of IPv4 has 2^8 networks of 24 bits, a /49 of IPv6 2^15 of 64 bits.
    let (v4, v6) = (0x100 / parts(links) * link, 0x8000 / parts(links) * link);
    match range {
        AddrRange::V4(mut range) => {
            let moved = |addr: std::net::Ipv4Addr| (addr.to_bits() + (u32::from(v4) << 8)).into();
            range.addr_first = moved(range.addr_first);
            range.addr_last = moved(range.addr_last);
            AddrRange::V4(range)
        }
        AddrRange::V6(mut range) => {
            let moved = |addr: std::net::Ipv6Addr| (addr.to_bits() + (u128::from(v6) << 64)).into();
            range.addr_first = moved(range.addr_first);
            range.addr_last = moved(range.addr_last);
            AddrRange::V6(range)
        }
    }
}

/// Whether the packets of one stream look like answers to those of the other: what tracks
/// connections has one for both. Echo requests are answered by something else.
#[must_use]
pub fn mirrors(one: &StreamSpec, other: &StreamSpec) -> bool {
    one.src == other.dst
        && one.dst == other.src
        && std::mem::discriminant(&one.protocol) == std::mem::discriminant(&other.protocol)
        && one.protocol != Protocol::IcmpEcho
}

impl Streams {
    /// The streams with their ends replaced: `ends` tells the new source and destinations of each.
    fn with_ends(
        &self,
        ends: impl Fn(&StreamSpec) -> Vec<(AddrRange, AddrRange)>,
    ) -> Vec<Described> {
        let mut described = Vec::new();
        for ((spec, weight), name) in self.specs().iter().zip(&self.names) {
            for (src, dst) in ends(spec) {
                let stream = u8::try_from(described.len()).unwrap_or(u8::MAX);
                let spec = StreamSpec { src, dst, stream, ..spec.clone() };
                let (weight, name) = (*weight, name.clone());
                described.push(Described { spec, weight, name, notes: Vec::new() });
            }
        }
        described
    }
}

impl Traffic {
    /// Every generator, by its port.
    ///
    /// # Panics
    /// If the traffic was not checked by [`Traffic::stream_count_max`].
    #[must_use]
    pub fn each_sender(&self) -> Vec<Sender> {
        let Senders { reverse, links, is_mesh, first_port, .. } = &self.senders;
        if *links == 1 && !is_mesh {
            let first = (*first_port, &self.streams, self.rate);
            let second = reverse.iter().map(|r| (partner(*first_port), &r.streams, r.rate));
            return [first].into_iter().chain(second).map(Sender::new).collect();
        }
        let ports = 0..links * 2;
        if *is_mesh {
            return ports.map(|port| self.mesh_sender(port)).collect();
        }
        let sender = |port: u16| {
            let (streams, rate) = match (port % 2, reverse) {
                (0, _) => (&self.streams, self.rate),
                (_, Some(reverse)) => (&reverse.streams, reverse.rate),
                (_, None) => return None,
            };
            let to = |range| moved(range, port / 2, *links);
            let streams = streams.with_ends(|spec| vec![(to(spec.src), to(spec.dst))]);
            let streams = Streams::new(streams).expect("streams that were checked, elsewhere");
            Some(Sender { port, streams, rate })
        };
        ports.filter_map(sender).collect()
    }

    /// What a port sends to all others of a full mesh.
    fn mesh_sender(&self, port: u16) -> Sender {
        let links = self.senders.links;
        let behind = |port: u16, spec: &StreamSpec| {
            let range = if port.is_multiple_of(2) { spec.src } else { spec.dst };
            moved(range, port / 2, links)
        };
        let streams = self.streams.with_ends(|spec| {
            let others = (0..links * 2).filter(|other| *other != port);
            others.map(|other| (behind(port, spec), behind(other, spec))).collect()
        });
        let streams = Streams::new(streams).expect("no more streams than were checked");
        Sender { port, streams, rate: self.rate }
    }

    /// How many streams a generator has.
    #[must_use]
    pub fn stream_count_max(&self) -> usize {
        let others = usize::from(self.senders.links) * 2 - 1;
        self.streams.specs().len() * if self.senders.is_mesh { others } else { 1 }
    }

    /// The streams of all generators, by the indices of both; of two that [`mirrors`] finds alike,
    /// the first.
    #[must_use]
    pub fn distinct_streams(&self) -> Vec<(usize, usize)> {
        let senders = self.each_sender();
        let mut distinct: Vec<(usize, usize)> = Vec::new();
        for (sender, index) in senders.iter().enumerate().flat_map(|(at, sender)| {
            (0..sender.streams.specs().len()).map(move |index| (at, index))
        }) {
            let spec = |at: usize, index: usize| &senders[at].streams.specs()[index].0;
            let answers = |&(at, other): &(usize, usize)| {
                at != sender && mirrors(spec(at, other), spec(sender, index))
            };
            if !distinct.iter().any(answers) {
                distinct.push((sender, index));
            }
        }
        distinct
    }

    /// A single stream of a generator, as a traffic of its own.
    ///
    /// # Panics
    /// If there is no such generator or stream.
    #[must_use]
    pub fn alone(&self, sender: usize, stream: usize) -> Self {
        let Sender { port, streams, rate } = self.each_sender().swap_remove(sender);
        let (threads, first_port) = (self.senders.threads, port);
        Self {
            streams: streams.alone(stream),
            rate,
            senders: Senders { threads, first_port, ..Senders::default() },
            ..self.clone()
        }
    }
}

impl Sender {
    fn new((port, streams, rate): (u16, &Streams, Rate)) -> Self {
        Self { port, streams: streams.clone(), rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(more: &str) -> Traffic {
        let text = format!(
            r#"{{"name":"t","id":"i","rate":"1kpps","flow_count":1,"streams":[
            {{"src":"198.18.10.1:1-198.18.10.2","dst":"198.19.10.1:5","size":"60"}},
            {{"src":"[2001:2:0:10::1]:1","dst":"[2001:2:0:8010::1]:5","size":"80"}}]{more}}}"#
        );
        let traffic: Traffic = serde_json::from_str(&text).expect("a traffic");
        let back = serde_json::to_string(&traffic).expect("it is writable");
        assert_eq!(serde_json::from_str::<Traffic>(&back).expect("it is readable"), traffic);
        traffic
    }

    fn ends(sender: &Sender) -> Vec<String> {
        let specs = sender.streams.specs().iter();
        specs.map(|(spec, _)| format!("{} > {}", spec.src, spec.dst)).collect()
    }

    const REVERSE: &str = r#","reverse":{"rate":"2kpps","streams":[
        {"src":"198.19.10.1:5","dst":"198.18.10.1:1-198.18.10.2","size":"60"},
        {"src":"198.19.10.9:5","dst":"198.18.10.1:1","size":"60"}]}"#;

    #[test]
    fn one_generator_sends_all_of_a_plain_traffic() {
        let plain = traffic("");
        let senders = plain.each_sender();
        assert_eq!((senders.len(), senders[0].port), (1, 0));
        assert_eq!((&senders[0].streams, senders[0].rate), (&plain.streams, plain.rate));
        assert_eq!(plain.distinct_streams(), [(0, 0), (0, 1)]);
        assert_eq!(plain.flow_count(), 3);
    }

    #[test]
    fn answers_are_no_flows_of_their_own() {
        let both = traffic(REVERSE);
        let senders = both.each_sender();
        assert_eq!(senders.iter().map(|sender| sender.port).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(senders[1].rate, Rate::Pps(2e3));
        // The first stream of the way back mirrors that of the way there.
        assert_eq!(both.distinct_streams(), [(0, 0), (0, 1), (1, 1)]);
        assert_eq!(both.flow_count(), 4);
        let alone = both.alone(1, 1).each_sender();
        assert_eq!((alone.len(), alone[0].port), (1, 1));
        assert_eq!(ends(&alone[0]), ["198.19.10.9:5 > 198.18.10.1:1"]);
    }

    #[test]
    fn links_have_networks_of_their_own() {
        let pairs = traffic(&format!("{REVERSE},\"links\":3"));
        let senders = pairs.each_sender();
        let ports: Vec<u16> = senders.iter().map(|sender| sender.port).collect();
        assert_eq!(ports, [0, 1, 2, 3, 4, 5]);
        assert_eq!(ends(&senders[0])[0], "198.18.10.1:1-198.18.10.2 > 198.19.10.1:5");
        // Three links have four parts: 64 networks each, and 8,192 of IPv6.
        let (v4, v6) = ("198.18.138.1:1-198.18.138.2", "[2001:2:0:4010::1]:1");
        let there = [format!("{v4} > 198.19.138.1:5"), format!("{v6} > [2001:2:0:c010::1]:5")];
        assert_eq!(ends(&senders[4]), there);
        assert_eq!(ends(&senders[5])[0], format!("198.19.138.1:5 > {v4}"));
        assert_eq!(pairs.flow_count(), 12);
    }

    #[test]
    fn in_a_mesh_each_port_sends_to_all_others() {
        let mesh = traffic(",\"links\":2,\"mesh\":true,\"threads\":2");
        let senders = mesh.each_sender();
        assert_eq!((senders.len(), mesh.stream_count_max()), (4, 6));
        let v4: Vec<String> = ends(&senders[3]).into_iter().take(3).collect();
        assert_eq!(
            v4,
            [
                "198.19.138.1:5 > 198.18.10.1:1-198.18.10.2",
                "198.19.138.1:5 > 198.19.10.1:5",
                "198.19.138.1:5 > 198.18.138.1:1-198.18.138.2",
            ]
        );
        let numbers = senders[3].streams.specs().iter().map(|(spec, _)| spec.stream);
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        // Six pairs of ports: of one end with one or two addresses, and of one with one.
        assert_eq!(mesh.distinct_streams().len(), 12);
        assert_eq!(mesh.flow_count(), (2 + 4 + 2 + 2 + 1 + 2) + 6);
        assert_eq!(mesh.alone(3, 1).senders.threads, 2);
    }
}
