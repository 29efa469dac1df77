//! The flows of a client: those that reach given buckets, or any.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use anyhow::{Context as _, bail, ensure};
use weir_results::number::counted;
use weir_wire::flow::FlowSpace;
use weir_wire::range::AddrRange;
use weir_wire::rss::pick::{Wish, pick};
use weir_wire::rss::{FlowKind, Settings};

use crate::buckets;
use crate::cli::echo::ClientArgs;

/// Most flows that are tried: a few seconds' work.
const TRIES_MAX: u64 = 1 << 28;
/// Most flows: each takes an open file and 10 kB.
const FLOW_COUNT_MAX: u64 = 16_384;
/// Flows without buckets, if none says how many.
const FLOW_COUNT: u64 = 16;

/// A flow, and where the settings say that it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientFlow {
    pub(super) source: SocketAddr,
    /// Bucket and queue, if they are known.
    pub(super) place: Option<(usize, u16)>,
}

/// The flows that are asked for.
pub(super) fn flows(
    args: &ClientArgs,
    settings: Option<&Settings>,
) -> anyhow::Result<Vec<ClientFlow>> {
    let range = match args.source {
        Some(range) => range,
        None => default_range(args.server)?,
    };
    ensure!(
        range.is_ipv6() == args.server.is_ipv6(),
        "--source {range} and the server {} are of different address families",
        args.server
    );
    let space = FlowSpace::new(range, one(args.server)?)?;
    let kind = FlowKind::of(true, range.is_ipv6());
    let Some(list) = &args.buckets else {
        let count = args.flows.unwrap_or(FLOW_COUNT);
        check_count(count)?;
        ensure!(
            count <= space.flow_count(),
            "--source {range} has {}, and {count} are asked for",
            counted(space.flow_count(), "flow")
        );
        let steering = settings.map(|settings| settings.steering(kind));
        let flow = |flow: weir_wire::flow::Flow<IpAddr>| ClientFlow {
            source: (flow.src, flow.src_port).into(),
            place: steering.as_ref().map(|steering| {
                let place = steering.place(steering.hash(flow));
                (place.bucket, place.queue)
            }),
        };
        return Ok(space.iter().take(usize::try_from(count)?).map(flow).collect());
    };
    let Some(settings) = settings else {
        bail!(
            "--buckets: the server does not announce how it spreads datagrams (`weir echo serve \
             --announce`): start it so, or give --table, --key and --fields"
        );
    };
    let steering = settings.steering(kind);
    let buckets = buckets::parse(list, steering.table.bucket_count())?;
    let each = args.flows.unwrap_or(1);
    check_count(each.saturating_mul(buckets.len() as u64))?;
    let wish = Wish { buckets, flows_per_bucket: usize::try_from(each)?, answers: None };
    let found = pick(&steering, &space, &wish, TRIES_MAX);
    ensure!(
        found.missing.is_empty(),
        "no flow from {range} reaches {} of {} buckets: give --source more addresses or ports \
         (ports make no difference where only addresses are hashed)",
        found.missing.len(),
        wish.buckets.len()
    );
    let flow = |picked: &weir_wire::rss::pick::Picked| ClientFlow {
        source: (picked.flow.src, picked.flow.src_port).into(),
        place: Some((picked.place.bucket, picked.place.queue)),
    };
    Ok(found.picked.iter().map(flow).collect())
}

fn check_count(count: u64) -> anyhow::Result<()> {
    ensure!(
        count <= FLOW_COUNT_MAX,
        "--flows: {count} flows are more than {FLOW_COUNT_MAX}, each of which takes a socket"
    );
    Ok(())
}

/// Of one address and port.
fn one(address: SocketAddr) -> anyhow::Result<AddrRange> {
    Ok(AddrRange::parse(&address.to_string(), address.port())?.0)
}

/// The address that the kernel would send from, and ports that nobody else is given.
fn default_range(server: SocketAddr) -> anyhow::Result<AddrRange> {
    let any: SocketAddr = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }.parse()?;
    let socket = UdpSocket::bind(any).context("cannot open a socket")?;
    socket.connect(server).with_context(|| format!("cannot reach {server}"))?;
    let ip = socket.local_addr().context("cannot read a socket's address")?.ip();
    let [first, last] = [1024, 30_000].map(|port| SocketAddr::new(ip, port));
    Ok(AddrRange::parse(&format!("{first}-{last}"), 1024)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_one_and_of_this_host() {
        for text in ["127.0.0.1:7", "[::1]:7"] {
            let server: SocketAddr = text.parse().expect("an address");
            let range = default_range(server).expect("loopback");
            let space = FlowSpace::new(range, one(server).expect("an address")).expect("flows");
            assert_eq!(space.flow_count(), 30_000 - 1024 + 1);
            let first = space.iter().next().expect("a flow");
            assert_eq!((first.dst, first.dst_port), (server.ip(), 7));
            assert_eq!((first.src, first.src_port), (server.ip(), 1024));
        }
    }
}
