//! `weir rss send`: a packet of each flow, for a probe at the other end of the cable.
//!
//! Packets carry weir's signature and the number of their flow, by which [`super::probe`] knows
//! them again. They leave through the interface's queueing discipline, because that is where a
//! wire that spreads packets as a card would has its program.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use weir_bpf::rss::FLOW_COUNT_MAX;
use weir_gen::backend::{Backend as _, RunOptions};
use weir_gen::packet::PacketGenerator;
use weir_machine::cancel::Cancel;
use weir_net::{Netlink, cpu};
use weir_results::number::counted;
use weir_wire::flow::FlowSpace;
use weir_wire::frame::Protocol as Payload;
use weir_wire::mac::MacAddr;
use weir_wire::range::AddrRange;
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamSpec, size_bytes_min};
use weir_wire::traffic::Traffic;

use super::answer;
use crate::cli::rss::{Protocol, SendArgs, SentFlows};
use crate::exit::Outcome;
use crate::{lab, signals};

/// How often is looked whether all were sent.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, Serialize)]
struct Sent {
    interface: String,
    sent_packets: u64,
}

pub(super) fn command(args: &SendArgs) -> anyhow::Result<Outcome> {
    lab::require_root("weir rss send", "opens packet sockets (CAP_NET_RAW)")?;
    let cancel = signals::listen_alone()?;
    let sent_packets = send(&args.sent, &args.interface, args.dst_mac, &cancel)?;
    if let Some(signal) = cancel.signal() {
        return Ok(Outcome::Signal(signal));
    }
    let sent = Sent { interface: args.interface.clone(), sent_packets };
    answer(args.json.json, &sent, || {
        format!("{}: {} sent\n", sent.interface, counted(sent_packets, "packet"))
    })?;
    Ok(Outcome::Done)
}

/// All flows that the ranges have.
pub(super) fn space(flows: &SentFlows) -> anyhow::Result<FlowSpace<AddrRange>> {
    Ok(FlowSpace::new(flows.src, flows.dst)?)
}

/// How many of them are sent.
pub(super) fn flow_count(flows: &SentFlows, space: &FlowSpace<AddrRange>) -> u32 {
    let count = space.flow_count().min(flows.flows.into());
    u32::try_from(count).unwrap_or(FLOW_COUNT_MAX)
}

/// Sends them from an interface of the calling thread's network namespace, and says how many the
/// interface took.
pub(super) fn send(
    flows: &SentFlows,
    interface: &str,
    dst_mac: MacAddr,
    cancel: &Cancel,
) -> anyhow::Result<u64> {
    let space = space(flows)?;
    let link = Netlink::open()?.link(interface)?;
    ensure!(link.is_up, "interface `{interface}` is down: `ip link set {interface} up`");
    let src_mac = link.mac.with_context(|| format!("`{interface}` has no MAC address"))?;
    let traffic = Traffic::one(stream(flows, &space, [MacAddr(src_mac), dst_mac]))?;
    let cpu = u32::try_from(cpu::online()?.first())?;
    let mut sender = PacketGenerator::through_stack(&traffic, link.ifindex, &[cpu])?;
    sender.start(RunOptions {
        rate: flows.rate,
        ramp: Duration::ZERO,
        packet_limit: Some(flow_count(flows, &space).into()),
        first_sequence: 0,
        timestamps: false,
    })?;
    while sender.is_running() && cancel.sleep(LOOK_AGAIN) {}
    Ok(sender.stop()?.next_sequence)
}

fn stream(flows: &SentFlows, space: &FlowSpace<AddrRange>, macs: [MacAddr; 2]) -> StreamSpec {
    let protocol = match flows.proto {
        Protocol::Udp => Payload::Udp,
        Protocol::Tcp => Payload::TCP_SYN,
    };
    let spec = StreamSpec::new(macs[0], macs[1], space.src(), space.dst());
    let size_bytes = size_bytes_min(0, spec.src.is_ipv6(), protocol);
    StreamSpec { protocol, sizes: Sizes::Fixed(size_bytes), ..spec }
}
