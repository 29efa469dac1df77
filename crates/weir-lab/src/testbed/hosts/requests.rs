//! Requests between machines: `weir http` on the generator's, `weir http serve` on the receiver's.
//!
//! The client's account is the ledger, as in a testbed of namespaces: it knows what was due, what
//! was answered, and why the rest was not. Each client counts from zero, and those that are over
//! are added up; the server counts from its start to the teardown. Figures come as lines over SSH,
//! with the client's clock.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_http::figures::Counts;
use weir_http::served::Stats;
use weir_load::client::config::Sources;
use weir_machine::cancel::Cancel;
use weir_machine::ssh::quote;
use weir_net::Prefix;
use weir_results::accounting::Accounting;
use weir_results::counters::{Counters, Place};
use weir_results::record::{Check, Delays};
use weir_results::traffic::{Http, Traffic, connect};
use weir_wire::range::Span as _;
use weir_wire::stream::StreamSpec;
use weir_wire::units::Rate;

use super::feed::{Arrived, Feed};
use super::line;
use super::pair::{CLIENT, Pair, Quantiles, SERVER, parsed};
use super::parts::Parts;
use super::program::Program;
use crate::model::{DriverKind, EndSpec, HostsSpec};
use crate::testbed::netns::CONNECT_RATE_CPS;
use crate::testbed::requests::Asked;
use crate::testbed::{Burst, Observed, Reading, TestbedError, Topology, requests};

/// How long a program may take until it says where it stands, beside opening its connections.
const FIRST_COUNT_PATIENCE: Duration = Duration::from_secs(30);
/// How long an answering line of the server's may take: there is one a second.
const LINE_PATIENCE: Duration = Duration::from_secs(10);
/// A run that is ended by a signal is no longer than this.
const LONGEST: &str = "24h";
/// How long a request of a probe may take.
const PROBE_TIMEOUT: &str = "1s";

/// What a client says at its end (docs/http.md).
#[derive(Debug, Deserialize)]
struct Said {
    counts: Counts,
    latency_ns: Option<Quantiles>,
    lag_ns: Option<Quantiles>,
    verdict: Judged,
    workers: Vec<Worker>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Worker {
    still_ratio: f64,
}

#[derive(Debug, Deserialize)]
struct Judged {
    kind: String,
    reason: String,
}

/// A client and its server.
pub(super) struct Requests {
    parts: Rc<Parts>,
    sample: Duration,
    cancel: Cancel,
    traffic: Traffic,
    http: Http,
    server: Program,
    client: Option<Program>,
    /// The lines of the last run, and what all before it had counted.
    last: Option<(Feed, Counts)>,
    is_limited: bool,
    has_rate: bool,
    runs: u32,
    /// What all runs before have counted.
    before: Counts,
    /// What the server had answered when the last run was over, and how many connections it had had
    /// no room for.
    served: (u64, u64),
    /// How long the good answers of the last run took.
    delays: Delays,
    /// Of the last run.
    checks: Vec<Check>,
    /// When the client was last read, by its clock.
    last_ns: Cell<u64>,
}

/// Why machines cannot make requests; `None` if they can.
pub(super) fn refusal(spec: &HostsSpec, traffic: &Traffic) -> Option<String> {
    let [(stream, _)] = traffic.streams.specs() else { return None };
    let is_weir = |end: &EndSpec| end.driver.kind == DriverKind::Weir && end.driver.start.is_none();
    let why = if spec.generators.len() > 1 {
        "requests have one client, and there are several generators"
    } else if !spec.generators.iter().chain([&spec.receiver]).all(is_weir) {
        "requests are made and answered by `driver = \"weir\"` without `start`"
    } else if sources(stream).is_none() {
        "on machines, `src` of requests is one address, or all hosts of a network as \
         198.18.10.1-198.18.10.254"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// The network whose hosts are these addresses.
fn sources(stream: &StreamSpec) -> Option<Prefix> {
    let sources = Sources { first: stream.src.addr(0), count: stream.src.addr_count() };
    let bits = if sources.first.is_ipv4() { 32 } else { 128 };
    (bits - 16..=bits).rev().find_map(|length| {
        let prefix = Prefix::new(sources.first, length).ok()?.network();
        (Sources::of(prefix) == sources).then_some(prefix)
    })
}

/// What is listened at.
fn server(stream: &StreamSpec) -> SocketAddr {
    SocketAddr::new(stream.dst.addr(0), stream.dst.port_first())
}

impl Requests {
    /// Starts the server.
    pub(super) fn start(
        parts: &Rc<Parts>,
        (traffic, http): (&Traffic, &Http),
        sample: Duration,
        cancel: &Cancel,
    ) -> Result<Self, TestbedError> {
        let (host, end) = (&parts.receiver, &parts.spec.receiver);
        let (stream, _) = &traffic.streams.specs()[0];
        let mut words = vec![
            format!("exec {} http serve --json --progress", line::program(end)),
            format!("--listen {}", server(stream)),
        ];
        words.extend(end.driver.options.clone());
        let name = (host.name(), 0);
        let mut program = Program::start(host, (SERVER, end), name, words.join(" "), None)?;
        program.wait(FIRST_COUNT_PATIENCE, cancel, "showed no count", |last| last.is_some())?;
        Ok(Self {
            parts: Rc::clone(parts),
            sample,
            cancel: cancel.clone(),
            traffic: traffic.clone(),
            http: *http,
            server: program,
            client: None,
            last: None,
            is_limited: false,
            has_rate: false,
            runs: 0,
            before: Counts::default(),
            served: (0, 0),
            delays: Delays::default(),
            checks: Vec::new(),
            last_ns: Cell::new(0),
        })
    }

    /// The line of a run.
    fn client_line(&self, burst: &Burst) -> Result<String, TestbedError> {
        let Http { connections, keepalive, close, reply_bytes, proxy } = self.http;
        let (stream, _) = &self.traffic.streams.specs()[0];
        let target = proxy.unwrap_or_else(|| server(stream));
        let end = &self.parts.spec.generators[0];
        let mut words = vec![
            format!("exec {} http", line::program(end)),
            quote(&format!("http://{target}/b/{reply_bytes}")),
            "--json --progress --yes".to_owned(),
            format!("--interval {}ms", self.sample.as_millis()),
        ];
        words.extend(sources(stream).map(|network| format!("--source {network}")));
        if close == connect::Close::Rst {
            words.push("--close rst".to_owned());
        }
        let Asked { rate_rps, limit } = Asked::of(burst)?;
        words.extend(rate_rps.map(|rate_rps| format!("--rate {rate_rps:.3}")));
        match limit {
            None => {
                words.push(format!("--connections {connections} --duration {LONGEST}"));
                if !self.opens_with_requests() {
                    words.push(format!("--connect-rate {CONNECT_RATE_CPS}"));
                }
                // It takes --close alone for one request on each connection.
                let keepalive = keepalive.or((close == connect::Close::Rst).then_some(u64::MAX));
                words.extend(keepalive.map(|most| format!("--keepalive {most}")));
                words.extend(end.driver.options.clone());
            }
            // No connection is opened that no request needs.
            Some((count, duration)) => {
                let (connections, duration_us) = (count.min(connections), duration.as_micros());
                words.push(format!("--connections {connections} --duration {duration_us}us"));
                words.push(format!("--keepalive 1 --workers 1 --timeout {PROBE_TIMEOUT}"));
            }
        }
        Ok(words.join(" "))
    }

    /// Whether each request opens its connection, so that none is opened before.
    fn opens_with_requests(&self) -> bool {
        self.http.keepalive == Some(1)
    }

    /// What the server has answered below status 300 by now, and how many connections it had no
    /// room for.
    fn answered_by_server(&mut self) -> Result<(u64, u64), TestbedError> {
        self.server.wait_for_line(LINE_PATIENCE, &self.cancel)?;
        let stats = parsed::<Stats>(&self.server)?;
        Ok((stats.served.responses_2xx, stats.listen_overflows))
    }

    fn reading_of(&self, Arrived { count, .. }: Arrived, before: &Counts) -> Reading {
        // The total of a client has no moment.
        let t_ns = count.t_ns.unwrap_or(self.last_ns.get());
        self.last_ns.set(t_ns);
        Reading {
            t_ns,
            rx_packets: before.answered + count.accepted.unwrap_or(0),
            rx_bytes: before.received_bytes + count.bytes.unwrap_or(0),
            tx_packets: before.due + count.packets,
        }
    }
}

impl Pair for Requests {
    fn begin(&mut self, burst: &Burst) -> Result<(), TestbedError> {
        let (host, end) = (&self.parts.generators[0], &self.parts.spec.generators[0]);
        let line = self.client_line(burst)?;
        self.runs += 1;
        self.is_limited = burst.packet_limit.is_some();
        self.has_rate = matches!(burst.rate, Rate::Pps(_));
        let name = (host.name(), self.runs);
        let mut client = Program::start(host, (CLIENT, end), name, line, None)?;
        if !self.is_limited {
            // The run begins when requests do, not when a program is started.
            let opening_s = match self.opens_with_requests() {
                true => 0.0,
                false => self.http.connections as f64 / CONNECT_RATE_CPS,
            };
            let opening = Duration::from_secs_f64(opening_s);
            let sends = |last: Option<Arrived>| last.is_some_and(|last| last.count.packets > 0);
            let patience = FIRST_COUNT_PATIENCE + opening;
            if let Err(error) = client.wait(patience, &self.cancel, "sent no request", sends) {
                drop(client.end());
                return Err(error);
            }
        }
        self.last = Some((client.feed.clone(), self.before));
        self.client = Some(client);
        Ok(())
    }

    fn finished(&mut self) -> bool {
        self.client.as_mut().is_none_or(|client| client.has_ended().unwrap_or(true))
    }

    fn end_client(&mut self) -> Result<(), TestbedError> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let over = if self.is_limited { Ok(true) } else { client.is_over(false) };
        let ended = over.and_then(|_| client.end());
        if ended.is_err()
            && let Some(client) = self.client.take()
        {
            // What it had counted until then stays, so that a sum never goes back.
            let last = client.feed.last().map(|last| last.count).unwrap_or_default();
            self.before.due += last.packets;
            self.before.answered += last.accepted.unwrap_or(0);
        }
        ended
    }

    fn account(&mut self) -> Result<(), TestbedError> {
        let Some(client) = self.client.take() else { return Ok(()) };
        client.total(self.parts.total_patience)?;
        let said: Said = parsed(&client)?;
        let served = self.answered_by_server()?;
        let answered = said.counts.answered;
        let before = std::mem::replace(&mut self.served, served);
        self.checks = vec![
            requests::both_ends(answered, served.0 - before.0),
            requests::had_room(served.1 - before.1),
            match self.has_rate {
                true => {
                    let lag_ns = said.lag_ns.as_ref().map_or(0, |lag| lag.p99);
                    let Judged { kind, reason } = &said.verdict;
                    requests::kept_rate(kind, reason, lag_ns)
                }
                false => {
                    let ratios = said.workers.iter().map(|worker| worker.still_ratio);
                    requests::kept_going(ratios.fold(0.0, f64::max))
                }
            },
        ];
        self.before.add(&said.counts);
        self.before.open = 0;
        self.delays = said.latency_ns.map(Quantiles::delays).unwrap_or_default();
        Ok(())
    }

    fn reading(&self) -> Reading {
        let last = self.client.as_ref().and_then(|client| client.feed.last());
        match last {
            Some(last) => self.reading_of(last, &self.before),
            None => Reading {
                t_ns: self.last_ns.get(),
                rx_packets: self.before.answered,
                rx_bytes: self.before.received_bytes,
                tx_packets: self.before.due,
            },
        }
    }

    fn recorded(&self, from: Instant, to: Instant) -> Option<Vec<Reading>> {
        let (feed, before) = self.last.as_ref()?;
        let counts = feed.between(from, to).into_iter();
        Some(counts.map(|count| self.reading_of(count, before)).collect())
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        let Stats { served, .. } = parsed(&self.server)?;
        Ok(requests::counters(&self.before, &served))
    }

    fn accounting(&self) -> Accounting {
        // A client that is ended waits a second for answers: it is the DUT that is late.
        requests::accounting(Topology::Dut, Place::Dut)
    }

    fn checks(&self) -> Vec<Check> {
        self.checks.clone()
    }

    /// Nothing of a client that was late itself.
    fn observed(&self) -> Result<Observed, TestbedError> {
        if self.checks.iter().any(|check| !check.passed) {
            return Ok(Observed::default());
        }
        let delays = self.delays;
        Ok(Observed { packets: delays.sample_count, delays, directions: Vec::new() })
    }

    fn advice(&self) -> String {
        let (stream, _) = &self.traffic.streams.specs()[0];
        let target = self.http.proxy.unwrap_or_else(|| server(stream));
        let network = sources(stream).map(|network| format!("--source {network} "));
        format!(
            "no request was answered: on {}, try `weir http {}http://{target}/b/1`; the DUT needs \
             a route back to these addresses, and the server one by way of the DUT",
            self.parts.generators[0].name(),
            network.unwrap_or_default(),
        )
    }

    fn teardown(mut self: Box<Self>) -> Result<(), TestbedError> {
        let client = self.client.as_mut().map_or(Ok(()), Program::end);
        self.server.end().and(client)
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::mac::MacAddr;

    use super::*;

    fn stream(src: &str) -> StreamSpec {
        let [src, dst] = [src, "198.19.10.1:80"].map(|range| range.parse().expect("a range"));
        StreamSpec::new(MacAddr::default(), MacAddr::default(), src, dst)
    }

    #[test]
    fn sources_are_one_address_or_a_network() {
        let network = |src: &str| {
            sources(&stream(src)).map(|network| network.to_string()).unwrap_or_default()
        };
        assert_eq!(network("198.18.10.1-198.18.10.254"), "198.18.10.0/24");
        assert_eq!(network("198.18.10.7"), "198.18.10.7/32");
        assert_eq!(network("198.18.10.1-198.18.10.9"), "");
    }
}
