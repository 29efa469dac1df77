//! A worker of `weir http serve` for each receive queue or bucket: its listening socket is where
//! the connections go that receive side scaling would give to that queue.

use std::net::TcpListener;
use std::os::fd::AsFd as _;

use anyhow::{Context as _, bail, ensure};
use weir_bpf::steer::SocketSteering;
use weir_load::server::listeners;
use weir_rss::{Each, card, of_sockets};

use weir_wire::rss::{FlowKind, Settings};

use crate::cli::echo::EachName;
use crate::cli::http_serve::ServeArgs;
use crate::{echo, lab};

/// As of --workers.
const WORKERS_MAX: usize = 1024;

/// Listening sockets in the order of their queues or buckets, and the program that chooses among
/// them for as long as it is kept.
pub(super) struct Buckets {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) steering: SocketSteering,
}

impl Buckets {
    /// Those of the arguments; `None` if these ask for none.
    pub(super) fn new(args: &ServeArgs) -> anyhow::Result<Option<Self>> {
        let Some(settings) = settings(args)? else {
            ensure!(
                args.each.is_none(),
                "--each: of which queues? Give an interface (-i) or a --table"
            );
            return Ok(None);
        };
        lab::require_root("weir http serve by queues", "loads a BPF program (CAP_BPF)")?;
        let [address] = args.listen[..] else {
            bail!("--listen: workers for queues or buckets listen at one address");
        };
        let each = match args.each.unwrap_or_default() {
            EachName::Queue => Each::Queue,
            EachName::Bucket => Each::Bucket,
        };
        let settings = of_sockets(&settings, each)?;
        let count = settings.table.queue_count();
        ensure!(
            count <= WORKERS_MAX,
            "{count} workers: there may be {WORKERS_MAX}, one for each queue or bucket"
        );
        let listeners =
            listeners(address, count).with_context(|| format!("cannot listen at {address}"))?;
        let steering = SocketSteering::by_bucket(&settings, u32::try_from(count)?)?;
        for (place, listener) in (0..).zip(&listeners) {
            steering.add(place, listener.as_fd())?;
        }
        if let Some(first) = listeners.first() {
            steering.attach(first.as_fd())?;
        }
        Ok(Some(Self { listeners, steering }))
    }
}

/// How connections are hashed.
fn settings(args: &ServeArgs) -> anyhow::Result<Option<Settings>> {
    if let Some(table) = &args.table {
        return Ok(Some(echo::settings(table.clone(), None, None)));
    }
    let Some(interface) = &args.interface else { return Ok(None) };
    let is_ipv6 = args.listen.first().is_some_and(std::net::SocketAddr::is_ipv6);
    let kind = FlowKind::of(false, is_ipv6);
    let read = card::open(interface).and_then(|card| card.read()?.settings(interface, kind));
    read.map(Some).context("give --table equal:N for N workers nevertheless")
}
