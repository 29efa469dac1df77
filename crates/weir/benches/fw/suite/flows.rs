//! What is sent: walks over so many flows, and draws of flows that nobody has seen.

use std::net::Ipv4Addr;

use weir_results::traffic::{Senders, Streams, Traffic, TrafficKind};
use weir_wire::describe::Described;
use weir_wire::mac::MacAddr;
use weir_wire::stream::StreamSpec;
use weir_wire::units::Rate;
use weir_wire::walk::Walk;

use super::Result;

/// First source and first destination of a walk, and the port of all.
pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(198, 18, 10, 1);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(198, 19, 10, 1);
const PORT: u16 = 2000;

/// 2³² flows.
const NEW: [&str; 2] =
    ["198.18.10.0:2000-198.18.10.255:2255", "198.19.10.0:2000-198.19.10.255:2255"];

/// One flow after the other, over and over: all pairs of as many sources and destinations as make
/// `flow_count`, about as many of the ones as of the others.
pub(crate) fn walk(flow_count: u64) -> Result<Traffic> {
    let sources = (1..=flow_count.isqrt()).rev().find(|n| flow_count.is_multiple_of(*n));
    let sources = u32::try_from(sources.unwrap_or(1))?;
    let destinations = u32::try_from(flow_count)? / sources;
    let range = |first: Ipv4Addr, count: u32| {
        format!("{first}:{PORT}-{}", Ipv4Addr::from_bits(first.to_bits() + count - 1))
    };
    traffic(spec([&range(SOURCE, sources), &range(DESTINATION, destinations)])?)
}

/// Each packet of a flow that is drawn out of four billion.
pub(crate) fn new(seed: u64) -> Result<Traffic> {
    traffic(StreamSpec { walk: Walk::Random { seed }, ..spec(NEW)? })
}

/// UDP over IPv4 in frames of 60 bytes.
fn spec(ranges: [&str; 2]) -> Result<StreamSpec> {
    let none = MacAddr([0; 6]);
    Ok(StreamSpec::new(none, none, ranges[0].parse()?, ranges[1].parse()?))
}

fn traffic(spec: StreamSpec) -> Result<Traffic> {
    let described = Described { spec, weight: 1, name: None, notes: Vec::new() };
    let streams = Streams::new(vec![described])?;
    let senders = Senders::default();
    let (name, id, kind) = (String::new(), String::new(), TrafficKind::Packets);
    Ok(Traffic { name, id, streams, rate: Rate::Max, senders, kind })
}
