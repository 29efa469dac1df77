//! `weir rss probe`: sends flows to an interface, and looks where they arrive.
//!
//! Packets leave by an interface of another network namespace of this host, which is where the
//! other end of the cable, or of the veth pair, has to be. They end in a program for traffic
//! control at the interface that is probed, before anything else sees them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use weir_bpf::ethtool;
use weir_bpf::rss::{Arrival, Arrivals, FLOW_COUNT_MAX, QueueMark};
use weir_gen::backend::{Backend as _, RunOptions};
use weir_gen::packet::PacketGenerator;
use weir_machine::cancel::Cancel;
use weir_machine::rss::card::{self, CardError, State};
use weir_net::{Netlink, Netns, cpu};
use weir_wire::flow::FlowSpace;
use weir_wire::frame::Protocol as Payload;
use weir_wire::mac::MacAddr;
use weir_wire::range::AddrRange;
use weir_wire::rss::FlowKind;
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamSpec, size_bytes_min};
use weir_wire::traffic::Traffic;

use super::answer;
use crate::cli::rss::{ProbeArgs, Protocol};
use crate::exit::Outcome;
use crate::signals;
use findings::Findings;

mod findings;

/// How long packets may take from the last that is sent to the last that arrives.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often is looked whether they have.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Most streams of a file for `weir gen`.
const STREAMS_MAX: usize = 256;

pub(super) fn command(args: &ProbeArgs) -> anyhow::Result<Outcome> {
    let name = &args.interface;
    let cancel = signals::listen_alone()?;
    let space = FlowSpace::new(args.src, args.dst)?;
    let kind = FlowKind::of(args.proto == Protocol::Udp, args.src.is_ipv6());
    let state = match card::open(name).and_then(|card| card.read()) {
        Ok(state) => Some(state),
        Err(CardError::None { .. }) if args.learn => None,
        Err(error @ CardError::None { .. }) => {
            bail!("{error}; --learn looks where flows arrive all the same")
        }
        Err(error) => return Err(error.into()),
    };
    let settings = settings(args, state.as_ref(), kind)?;
    let flow_count = space.flow_count().min(args.flows.into());
    let flow_count = u32::try_from(flow_count).unwrap_or(FLOW_COUNT_MAX);
    let seen = send(args, &space, flow_count, &cancel)?;
    if let Some(signal) = cancel.signal() {
        return Ok(Outcome::Signal(signal));
    }
    let flows: Vec<_> = space.iter().take(flow_count as usize).collect();
    let found = Findings::new(name, &flows, &seen, settings.as_ref(), kind);
    if let Some(file) = &args.stream {
        std::fs::write(file, streams(&found))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    answer(args.json.json, &found, || found.text())?;
    Ok(if found.is_good(args.learn) { Outcome::Done } else { Outcome::No })
}

/// What is compared with; nothing where it is only looked.
fn settings(
    args: &ProbeArgs,
    state: Option<&State>,
    kind: FlowKind,
) -> anyhow::Result<Option<weir_wire::rss::Settings>> {
    match state.map(|state| state.settings(&args.interface, kind)) {
        Some(Ok(settings)) => Ok(Some(settings)),
        Some(Err(error)) if !args.learn => {
            bail!("{error}; --learn looks where flows arrive all the same")
        }
        _ => Ok(None),
    }
}

/// Sends a packet of each of the first flows, and says where each arrived.
fn send(
    args: &ProbeArgs,
    space: &FlowSpace<AddrRange>,
    flow_count: u32,
    cancel: &Cancel,
) -> anyhow::Result<Vec<Option<Arrival>>> {
    let name = &args.interface;
    let link = Netlink::open()?.link(name)?;
    ensure!(link.is_up, "interface `{name}` is down: `ip link set {name} up`");
    let arrivals = Arrivals::load(flow_count, QueueMark::of_driver(&ethtool::driver(name)?))?;
    let _link = arrivals.attach(link.ifindex)?;
    let peer = Netns::open(&args.from.namespace)?;
    let cpu = u32::try_from(cpu::online()?.first())?;
    let dst_mac = link.mac.with_context(|| format!("interface `{name}` has no MAC address"))?;
    let mut sender = peer.run(|| -> anyhow::Result<PacketGenerator> {
        let from = &args.from.interface;
        let link = Netlink::open()?.link(from)?;
        ensure!(link.is_up, "interface `{from}` of namespace `{}` is down", args.from.namespace);
        let src_mac = link.mac.with_context(|| format!("`{from}` has no MAC address"))?;
        let traffic = Traffic::one(stream(args, space, [src_mac, dst_mac]))?;
        Ok(PacketGenerator::through_stack(&traffic, link.ifindex, &[cpu])?)
    })??;
    sender.start(RunOptions {
        rate: args.rate,
        ramp: Duration::ZERO,
        packet_limit: Some(flow_count.into()),
        first_sequence: 0,
        timestamps: false,
    })?;
    while sender.is_running() && cancel.sleep(LOOK_AGAIN) {}
    sender.stop()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = arrivals.read()?;
        let is_all = seen.iter().all(Option::is_some);
        if is_all || Instant::now() > deadline || !cancel.sleep(LOOK_AGAIN) {
            return Ok(seen);
        }
    }
}

fn stream(args: &ProbeArgs, space: &FlowSpace<AddrRange>, macs: [[u8; 6]; 2]) -> StreamSpec {
    let [src_mac, dst_mac] = macs.map(MacAddr);
    let protocol = match args.proto {
        Protocol::Udp => Payload::Udp,
        Protocol::Tcp => Payload::TCP_SYN,
    };
    let spec = StreamSpec::new(src_mac, dst_mac, space.src(), space.dst());
    let size_bytes = size_bytes_min(0, spec.src.is_ipv6(), protocol);
    StreamSpec { protocol, sizes: Sizes::Fixed(size_bytes), ..spec }
}

/// As many flows for each queue as the one with the fewest has, as streams for `weir gen --stream`.
fn streams(found: &Findings) -> String {
    let mut by_queue = std::collections::BTreeMap::<u32, Vec<_>>::new();
    for flow in &found.flows {
        if let Some(queue) = flow.seen_queue {
            by_queue.entry(queue).or_default().push(flow);
        }
    }
    let least = by_queue.values().map(Vec::len).min().unwrap_or(0);
    let each = least.min(STREAMS_MAX / by_queue.len().max(1)).max(1);
    let mut text = String::new();
    for (queue, flow) in
        by_queue.iter().flat_map(|(queue, flows)| flows.iter().take(each).map(move |f| (queue, f)))
    {
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "[[stream]]\nname = \"queue {queue}: {}\"\nsrc = \"{}\"\ndst = \"{}\"\n\n",
            flow.src, flow.src, flow.dst
        );
    }
    text
}
