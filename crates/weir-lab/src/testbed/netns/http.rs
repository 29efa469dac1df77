//! Both ends of HTTP requests: the client where generators send from, the server where sinks count.
//!
//! Each is `weir http`'s, in worker processes of this program, over the kernel's TCP. A frame is
//! what a wire would carry: the ends and the DUT's ports have no segmentation offload, and what the
//! ends send has its checksums. The client's account is the ledger: every request that was due was
//! answered or has one reason why not; what the server has answered is held against it. Packets
//! that are lost are sent again by TCP, and are no requests. Nothing here decides what a figure is
//! worth.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_bpf::ethtool::{self, EthtoolError};
use weir_http::figures::{Counts, Times};
use weir_http::pacing::{Arrivals, Pace, Share};
use weir_http::verdict::{self, Evidence};
use weir_load::client::config::{BodyConfig, Close, Load, RequestConfig, Sources, WorkerConfig};
use weir_load::client::manager::{Pool, PoolMeasured};
use weir_load::client::running::Running;
use weir_load::crew::{Program, Role};
use weir_load::descriptors;
use weir_load::server::{Server, ServerOptions};
use weir_machine::cancel::Cancel;
use weir_net::{Netlink, Netns, Prefix, sysctl};
use weir_results::accounting::Accounting;
use weir_results::counters::{Counters, Place};
use weir_results::record::{Check, Delays};
use weir_results::traffic::{Http, Traffic, connect};
use weir_wire::range::{AddrRange, Span as _};
use weir_wire::units::whole_ns;

use super::layout::Port;
use super::pair::{Pair, Site};
use super::wiring::inside;
use crate::testbed::requests::Asked;
use crate::testbed::{Burst, Observed, Reading, TestbedError, Topology, requests};

/// The client says so often where it stands.
const REPORT: Duration = Duration::from_millis(20);
/// How long a request may take, and one of a probe.
const TIMEOUT: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections opened per second, before the first request.
pub(crate) const CONNECT_RATE_CPS: f64 = 10_000.0;
/// Settings of the client's namespace and of the server's: ports of each address, and room for
/// connections that arrive faster than they are accepted.
const SYSCTLS: [(&str, &str); 3] = [
    ("net.ipv4.ip_local_port_range", "1024 65535"),
    ("net.core.somaxconn", "65535"),
    ("net.ipv4.tcp_max_syn_backlog", "65535"),
];

/// A client and its server.
pub(super) struct HttpEnds {
    client: Netns,
    cancel: Cancel,
    program: Program,
    pool: Pool,
    server: RefCell<Server>,
    running: Option<RefCell<Running>>,
    /// What all runs before have counted; each client counts from zero.
    before: Counts,
    /// How long the good answers of the last run took, from when their requests were due.
    latency: Times,
    /// Of the last run.
    checks: Vec<Check>,
    /// Of the run: its rate, if it has one, and what the server had answered before, and how many
    /// connections it had had no room for.
    rate_rps: Option<f64>,
    before_run: (u64, u64),
    /// When that was last read, ns.
    last_ns: Cell<u64>,
    /// Why a worker has ended, where that was seen first.
    failed: RefCell<Option<TestbedError>>,
}

impl HttpEnds {
    /// Starts the server on `server_cpus`, and gets a client ready that will have a worker on each
    /// of `cpus`.
    pub(super) fn start(
        (here, there): (Site<'_>, Site<'_>),
        (traffic, http): (&Traffic, &Http),
        (cpus, server_cpus): (&[u32], &[usize]),
        cancel: &Cancel,
    ) -> Result<Self, TestbedError> {
        let [(spec, _)] = traffic.streams.specs() else {
            return Err(TestbedError::new("requests have one client and one server"));
        };
        let server = SocketAddr::new(spec.dst.addr(0), spec.dst.port_first());
        for site in [here, there] {
            as_a_wire(site)?;
            inside(site.netns, || {
                SYSCTLS.iter().try_for_each(|(name, value)| sysctl::write(name, value))
            })?;
        }
        // What one of its processes may have open.
        let of_worker = descriptors::for_connections().map_err(TestbedError::new)?.max(1);
        let needed = usize::try_from(http.connections.div_ceil(of_worker)).unwrap_or(usize::MAX);
        inside(here.netns, || make_local(networks(&spec.src)))?;
        inside(there.netns, || make_local(vec![whole(server.ip())?]))?;
        let options = ServerOptions {
            program: Program::worker(Role::Server).map_err(TestbedError::new)?,
            listen: vec![server],
            listeners: Vec::new(),
            worker_count: server_cpus.len().max(needed),
            cpus: server_cpus.to_vec(),
            certificate: None,
        };
        let serving = inside(there.netns, || Server::start(&options))?;
        let sources = Sources { first: spec.src.addr(0), count: spec.src.addr_count() };
        Ok(Self {
            client: Netns::open(here.netns.name()).map_err(TestbedError::new)?,
            cancel: cancel.clone(),
            program: Program::worker(Role::Client).map_err(TestbedError::new)?,
            pool: pool((server, sources), http, (cpus, needed)),
            server: RefCell::new(serving),
            running: None,
            before: Counts::default(),
            latency: Times::default(),
            checks: Vec::new(),
            rate_rps: None,
            before_run: (0, 0),
            last_ns: Cell::new(0),
            failed: RefCell::new(None),
        })
    }

    /// What the server has answered below status 300, and how many connections it had no room for.
    fn served(&self) -> Result<(u64, u64), TestbedError> {
        let stats = self.server.borrow_mut().stats().map_err(TestbedError::new)?;
        Ok((stats.served.responses_2xx, stats.listen_overflows))
    }

    /// What the client has counted in all runs, and when.
    fn counts(&self) -> Result<(u64, Counts), TestbedError> {
        let mut all = self.before;
        if let Some(running) = &self.running {
            let (at_ns, counts) = running.borrow_mut().counts().map_err(TestbedError::new)?;
            all.add(&counts);
            self.last_ns.set(at_ns);
        }
        Ok((self.last_ns.get(), all))
    }
}

/// What each worker does, but for the rate: at least `needed`, one on each CPU, and none without a
/// connection.
fn pool(
    (server, sources): (SocketAddr, Sources),
    http: &Http,
    (cpus, needed): (&[u32], usize),
) -> Pool {
    let &Http { connections, keepalive, close, reply_bytes, proxy } = http;
    let target = proxy.unwrap_or(server);
    let config = WorkerConfig {
        share: Share::ALL,
        cpu: None,
        server: target,
        tls: None,
        sources: Some(sources),
        connections,
        connect_rate_cps: CONNECT_RATE_CPS,
        load: Load::Closed,
        keepalive,
        close: match close {
            connect::Close::Rst => Close::Rst,
            connect::Close::Fin | connect::Close::None => Close::Fin,
        },
        abort_ratio: 0.0,
        think_ns: 0,
        timeout_ns: whole_ns(TIMEOUT),
        request: RequestConfig {
            method: "GET".to_owned(),
            target: format!("/b/{reply_bytes}"),
            host: target.to_string(),
            headers: Vec::new(),
            body: BodyConfig::None,
            sizes: Vec::new(),
        },
        report_ns: whole_ns(REPORT),
        seed: 1,
    };
    let most = usize::try_from(connections).unwrap_or(usize::MAX);
    let workers = cpus.len().max(needed).min(most).max(1);
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    Pool { config, workers, cpus: cpus.iter().map(|cpu| *cpu as usize).collect() }
}

/// Has a device send frames as a wire has them, and take them as a card does.
fn as_a_wire(site: Site<'_>) -> Result<(), TestbedError> {
    let device = site.port.device;
    inside(site.netns, || {
        without_tso(device)?;
        ethtool::set_tx_checksums(device, false)?;
        ethtool::set_gro(device, true)
    })
}

/// Has a device send each segment of TCP as a frame. A veth whose peer has an XDP program does so
/// already, and refuses to be asked.
pub(super) fn without_tso(device: &str) -> Result<(), EthtoolError> {
    let features = ethtool::features(device)?;
    let has_some = features.iter().any(|(name, is_on)| *is_on && name.starts_with("tx-tcp"));
    if has_some { ethtool::set_tso(device, false) } else { Ok(()) }
}

/// Makes networks this namespace's.
fn make_local(networks: Vec<Prefix>) -> Result<(), String> {
    let netlink = Netlink::open().map_err(|e| e.to_string())?;
    for network in networks {
        netlink.add_local_route(network).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The network that is one address.
fn whole(address: IpAddr) -> Result<Prefix, String> {
    let length = if address.is_ipv4() { 32 } else { 128 };
    Prefix::new(address, length).map_err(|e| e.to_string())
}

/// The networks of 24 or 120 bits that the addresses of a range are in.
fn networks(range: &AddrRange) -> Vec<Prefix> {
    let of = |address: IpAddr| {
        let length = if address.is_ipv4() { 24 } else { 120 };
        Prefix::new(address, length).ok().map(|prefix| prefix.network())
    };
    let last = range.addr_count() - 1;
    // Steps of a network's size meet all of them but the last.
    let offsets = (0..last).step_by(256).chain([last]);
    let mut networks: Vec<Prefix> = offsets.filter_map(|offset| of(range.addr(offset))).collect();
    networks.dedup();
    networks
}

impl Pair for HttpEnds {
    fn start(&mut self, burst: &Burst) -> Result<(), TestbedError> {
        let mut pool = self.pool.clone();
        let Asked { rate_rps, limit } = Asked::of(burst)?;
        if let Some(rate_per_s) = rate_rps {
            pool.config.load =
                Load::Open(Pace { arrivals: Arrivals::Constant, rate_per_s, ramp_ns: 0 });
        }
        let duration = limit.map(|(_, duration)| duration);
        if let Some((count, _)) = limit {
            // A probe: no connection is opened that no request needs.
            pool.config.connections = count.min(pool.config.connections);
            pool.config.keepalive = Some(1);
            pool.config.timeout_ns = whole_ns(PROBE_TIMEOUT);
            pool.workers = 1;
        }
        self.before_run = self.served()?;
        let (program, cancel) = (&self.program, &self.cancel);
        let is_stopped = || cancel.signal().is_some();
        let start = || Running::start(program, &pool, duration, &is_stopped);
        let running = inside(&self.client, start)?;
        self.rate_rps = rate_rps;
        self.running = Some(RefCell::new(running));
        Ok(())
    }

    fn finished(&self) -> bool {
        self.running.as_ref().is_none_or(|running| {
            running.borrow_mut().is_over().unwrap_or_else(|error| {
                // It is said where it is stopped.
                *self.failed.borrow_mut() = Some(TestbedError::new(error));
                true
            })
        })
    }

    fn stop(&mut self) -> Result<(), TestbedError> {
        let Some(running) = self.running.take() else { return Ok(()) };
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let measured = running.into_inner().end().map_err(TestbedError::new)?;
        let (served, overflows) = self.served()?;
        let (served_before, overflows_before) = self.before_run;
        let answered = measured.figures.counts.answered;
        self.checks = vec![
            requests::both_ends(answered, served.saturating_sub(served_before)),
            requests::had_room(overflows.saturating_sub(overflows_before)),
            match self.rate_rps {
                Some(rate_rps) => kept_rate(&measured, rate_rps),
                None => requests::kept_going(measured.still_ratios().fold(0.0, f64::max)),
            },
        ];
        self.before.add(&measured.figures.counts);
        self.latency = measured.figures.latency;
        Ok(())
    }

    fn reading(&self) -> Result<Reading, TestbedError> {
        let (t_ns, counts) = self.counts()?;
        Ok(Reading {
            t_ns,
            rx_packets: counts.answered,
            rx_bytes: counts.received_bytes,
            tx_packets: counts.due,
        })
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        let (_, counts) = self.counts()?;
        let served = self.server.borrow_mut().stats().map_err(TestbedError::new)?.served;
        Ok(requests::counters(&counts, &served))
    }

    fn accounting(&self, topology: Topology, _ports: (&Port, &Port)) -> Accounting {
        // It waits for the answers as long as each may take.
        requests::accounting(topology, Place::Generator)
    }

    fn checks(&self) -> Vec<Check> {
        self.checks.clone()
    }

    fn has_sockets(&self) -> bool {
        true
    }

    /// Nothing of a client that was late itself: what it timed is not the DUT's.
    fn observed(&self) -> Result<Observed, TestbedError> {
        if self.checks.iter().any(|check| !check.passed) {
            return Ok(Observed::default());
        }
        let times = &self.latency;
        let quantile = |share| times.quantile_ns(share).unwrap_or(0);
        let delays = Delays {
            sample_count: times.count(),
            min_ns: times.min_ns().unwrap_or(0),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: times.max_ns().unwrap_or(0),
        };
        Ok(Observed { packets: times.count(), delays, directions: Vec::new() })
    }
}

/// Whether the client was on time.
fn kept_rate(measured: &PoolMeasured, rate_rps: f64) -> Check {
    let verdict = verdict::judge(&Evidence {
        figures: &measured.figures,
        rate_rps: Some(rate_rps),
        answered_in_time: measured.answered_in_time(),
        service_in_time_ns: measured.service_in_time_ns(),
        think_ns: 0,
        busy_ratio: measured.busy_ratios().fold(0.0, f64::max),
        still_ratio: measured.still_ratios().fold(0.0, f64::max),
        // Those of the server's, which is elsewhere, are a check of their own.
        listen_overflows: 0,
    });
    let lag_ns = measured.figures.lag.quantile_ns(0.99).unwrap_or(0);
    requests::kept_rate(verdict.kind.name(), &verdict.reason, lag_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddrRange {
        weir_gen::connect::source_range(text).expect("a range").0
    }

    #[test]
    fn the_networks_of_a_range_are_all_met() {
        let networks = |text: &str| -> Vec<String> {
            networks(&range(text)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(networks("198.18.10.1"), ["198.18.10.0/24"]);
        let three = ["198.18.10.0/24", "198.18.11.0/24", "198.18.12.0/24"];
        assert_eq!(networks("198.18.10.200-198.18.12.1"), three);
        assert_eq!(networks("2001:2:0:10::1"), ["2001:2:0:10::/120"]);
    }

    #[test]
    fn a_client_has_a_worker_on_each_cpu_and_descriptors_for_all_connections() {
        let ends = (
            "198.19.10.1:80".parse().expect("an address"),
            Sources { first: [198, 18, 10, 1].into(), count: 4 },
        );
        let http = |connections| Http {
            connections,
            keepalive: None,
            close: connect::Close::Fin,
            reply_bytes: 5,
            proxy: "198.18.0.1:81".parse().ok(),
        };
        let pool = |connections, needed| pool(ends, &http(connections), (&[0, 2], needed));
        assert_eq!([pool(64, 1), pool(1, 1), pool(100_000, 7)].map(|pool| pool.workers), [2, 1, 7]);
        let config = pool(64, 1).config;
        assert_eq!((config.server.port(), config.request.target.as_str()), (81, "/b/5"));
    }
}
