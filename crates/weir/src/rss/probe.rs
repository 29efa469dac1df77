//! `weir rss probe`: sends flows to an interface, and looks where they arrive.
//!
//! Packets leave by an interface of another network namespace of this host, or of another machine
//! by ssh, which is where the other end of the cable, or of the veth pair, has to be. They end in a
//! program for traffic control at the interface that is probed, before anything else sees them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use weir_bpf::ethtool;
use weir_bpf::rss::{Arrival, Arrivals, QueueMark};
use weir_machine::cancel::Cancel;
use weir_machine::rss::card::{self, CardError, State};
use weir_machine::ssh::SshHost;
use weir_net::{Netlink, Netns};
use weir_wire::mac::MacAddr;
use weir_wire::rss::{FlowKind, Settings};
use weir_wire::traffic;

use super::answer;
use super::send::{self, LOOK_AGAIN};
use crate::cli::rss::{ProbeArgs, Protocol, SentFlows};
use crate::exit::Outcome;
use crate::{remote, signals};
use findings::{Findings, KeySource};

mod findings;

/// How long packets may take from the last that is sent to the last that arrives.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most streams of a file for `weir gen`.
const STREAMS_MAX: usize = 256;

pub(super) fn command(args: &ProbeArgs) -> anyhow::Result<Outcome> {
    let name = &args.interface;
    let cancel = signals::listen_alone()?;
    let space = send::space(&args.sent)?;
    let kind = FlowKind::of(args.sent.proto == Protocol::Udp, args.sent.src.is_ipv6());
    let state = match card::open(name).and_then(|card| card.read()) {
        Ok(state) => Some(state),
        Err(CardError::None { .. }) if args.learn => None,
        Err(error @ CardError::None { .. }) => {
            bail!("{error}; --learn looks where flows arrive all the same")
        }
        Err(error) => return Err(error.into()),
    };
    let known = settings(args, state, kind)?;
    let flow_count = send::flow_count(&args.sent, &space);
    let seen = send(args, flow_count, &cancel);
    if let Some(signal) = cancel.signal() {
        return Ok(Outcome::Signal(signal));
    }
    let seen = seen?;
    let flows: Vec<_> = space.iter().take(flow_count as usize).collect();
    let (settings, key_source) = known.unzip();
    let mut found = Findings::new(name, &flows, &seen, settings.as_ref(), kind);
    found.key_source = key_source;
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
    state: Option<State>,
    kind: FlowKind,
) -> anyhow::Result<Option<(Settings, KeySource)>> {
    let Some(mut state) = state else { return Ok(None) };
    let source = if state.assume_kernel_key() { KeySource::Kernel } else { KeySource::Card };
    match state.settings(&args.interface, kind) {
        Ok(settings) => Ok(Some((settings, source))),
        Err(_) if args.learn => Ok(None),
        Err(error) => bail!("{error}; --learn looks where flows arrive all the same"),
    }
}

/// Sends a packet of each of the first flows, and says where each arrived.
fn send(
    args: &ProbeArgs,
    flow_count: u32,
    cancel: &Cancel,
) -> anyhow::Result<Vec<Option<Arrival>>> {
    let name = &args.interface;
    let link = Netlink::open()?.link(name)?;
    ensure!(link.is_up, "interface `{name}` is down: `ip link set {name} up`");
    let dst_mac = link.mac.with_context(|| format!("interface `{name}` has no MAC address"))?;
    let sender = Sender::find(args, cancel)?;
    let arrivals = Arrivals::load(flow_count, QueueMark::of_driver(&ethtool::driver(name)?))?;
    let _link = arrivals.attach(link.ifindex)?;
    sender.send(args, MacAddr(dst_mac), cancel)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = arrivals.read()?;
        let is_all = seen.iter().all(Option::is_some);
        if is_all || Instant::now() > deadline || !cancel.sleep(LOOK_AGAIN) {
            return Ok(seen);
        }
    }
}

/// Who sends.
enum Sender {
    /// This process, in a network namespace of this host.
    Here(Netns),
    /// weir on another machine.
    There(Box<SshHost>),
}

impl Sender {
    /// A namespace of the name, or else a machine. What is said of how machines are reached makes
    /// it a machine.
    fn find(args: &ProbeArgs, cancel: &Cancel) -> anyhow::Result<Self> {
        let place = &args.from.place;
        let not_here = match Netns::open(place) {
            Ok(netns) if !args.remote.is_given() => return Ok(Self::Here(netns)),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        let host = remote::connect(&args.remote, place, cancel);
        Ok(Self::There(Box::new(match (host, not_here) {
            (Err(error), Some(not_here)) => bail!("{not_here}; and as a machine: {error:#}"),
            (host, _) => host?,
        })))
    }

    fn send(&self, args: &ProbeArgs, dst_mac: MacAddr, cancel: &Cancel) -> anyhow::Result<()> {
        let interface = &args.from.interface;
        match self {
            Self::Here(netns) => {
                netns.run(|| send::send(&args.sent, interface, dst_mac, cancel))??;
            }
            Self::There(host) => {
                let flows = &args.sent;
                let words = ["rss", "send", interface, "--json"].map(str::to_owned);
                let options = [
                    ("--dst-mac", dst_mac.to_string()),
                    ("--src", flows.src.to_string()),
                    ("--dst", flows.dst.to_string()),
                    ("--proto", flows.proto.name().to_owned()),
                    ("--flows", flows.flows.to_string()),
                    ("--rate", flows.rate.to_string()),
                ];
                let options = options.into_iter().flat_map(|(name, value)| [name.into(), value]);
                let words: Vec<String> = words.into_iter().chain(options).collect();
                remote::run(&**host, &args.remote, &words, duration(flows)?, true)?;
            }
        }
        Ok(())
    }
}

/// About how long it takes to send flows.
fn duration(flows: &SentFlows) -> anyhow::Result<Duration> {
    let rate_pps = traffic::rate_pps(flows.rate)?.unwrap_or(f64::INFINITY);
    Ok(Duration::try_from_secs_f64(f64::from(flows.flows) / rate_pps)?)
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
