//! The client of `weir http`: has workers send requests, shows it, and says what limited it.
//!
//! It measures nothing itself.

use anyhow::{Context as _, bail};
use weir_load::client::manager;
use weir_net::counters;

use super::plan::Plan;
use super::show::{self, Lines, Network, RunResult};
use super::source::Sources;
use crate::cli::http::ClientArgs;
use crate::exit::Outcome;
use crate::{progress, signals};

/// What a second signal leaves behind.
const LEFT: &str = "stopped before the addresses of --source were given back: `weir lab clean` \
                    does that (so does the next `weir http --source`)";

pub(super) fn command(args: &ClientArgs) -> anyhow::Result<Outcome> {
    let plan = Plan::new(args)?;
    let job = plan.job()?;
    let networks = plan.networks();
    if args.yes && networks.is_empty() {
        bail!("--yes applies only to --source");
    }
    // Whatever is made local from here on is so no longer when this is dropped.
    let (cancel, sources) = if networks.is_empty() {
        (signals::listen_alone(), None)
    } else {
        (signals::listen_and_say(Some(LEFT)), Some(Sources::make(&networks, args.yes)?))
    };
    let cancel = cancel.context("cannot listen to signals")?;
    for pool in &plan.pools {
        pool.check_route()?;
        pool.note().iter().for_each(|note| progress::warn(note));
    }
    show::start(&plan);
    let before = network()?;
    let mut lines = Lines::new(args.json.json, plan.connections());
    let mut shown = Ok(());
    let mut tell = |now: &manager::Progress| {
        if (args.progress || lines.is_in_place()) && shown.is_ok() {
            shown = lines.show(now);
        }
    };
    let measured = manager::run(&job, &|| cancel.signal().is_some(), &mut tell)?;
    shown?;
    let network = network()?.since(before);
    if let Some(sources) = sources {
        sources.take_back()?;
    }
    let result = RunResult::new(&plan, &measured, network);
    result.show(args.json.json)?;
    Ok(match cancel.signal() {
        Some(signal) => Outcome::Signal(signal),
        None if result.is_void() => Outcome::No,
        None => Outcome::Done,
    })
}

/// What this network namespace has counted.
fn network() -> anyhow::Result<Network> {
    let counted = counters::netstat()?;
    let of = |name: &str| counted.get(name).copied().unwrap_or(0);
    Ok(Network {
        listen_overflows: of(counters::LISTEN_OVERFLOWS),
        syn_retransmits: of("TcpExt.TCPSynRetrans"),
    })
}
