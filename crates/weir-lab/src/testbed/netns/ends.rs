//! Both ends of connections: the client where generators send from, the server where sinks count.
//!
//! Each is `weir connect`'s, and answers where packets come in. What they count is the ledger: the
//! steps of a connection, and between two of them what was lost on one of the two ways. Nothing is
//! sent again, so that each packet that is lost is one connection; counters of devices and of the
//! DUT name them. Nothing here decides what a figure is worth.

use std::time::Duration;

use weir_bpf::attach::{Link, Mode};
use weir_bpf::histogram::Histogram;
use weir_gen::backend::RunOptions;
use weir_gen::connect::ledger::{Counts, Course, End};
use weir_gen::connect::{self, Client, ClientConfig, ConnectServer, ServerConfig};
use weir_results::accounting::{Accounting, NamedLoss};
use weir_results::counters::{Counters, DropRule, Place, Selection};
use weir_results::traffic::{Connect, Traffic};
use weir_wire::describe::Macs;
use weir_wire::mac::MacAddr;

use super::layout::Port;
use super::pair::{CLIENT, Pair, SERVER, Site};
use super::sink::delays;
use super::wiring::{ifindex, inside};
use crate::testbed::connections::{self, BACK, THERE, named};
use crate::testbed::{Burst, Observed, Reading, TestbedError, Topology};

/// A client and its server.
#[derive(Debug)]
pub(super) struct Ends {
    client: Client,
    server: ConnectServer,
    course: Course,
    /// What all runs before have opened; the client counts each from zero.
    opened_before: u64,
    /// From SYN to SYN-ACK, when the last run began.
    handshakes_before: Histogram,
    is_running: bool,
    _link: Link,
}

impl Ends {
    /// Attaches both ends. The client's first frames go to `next_hop`, from a thread on each of
    /// `cpus`.
    pub(super) fn attach(
        (here, there): (Site<'_>, Site<'_>),
        (traffic, connect): (&Traffic, &Connect),
        next_hop: [u8; 6],
        cpus: &[u32],
    ) -> Result<Self, TestbedError> {
        let macs = Macs { src: MacAddr(here.port.mac), dst: MacAddr(next_hop) };
        let flows = traffic.streams.with_macs(macs).map_err(TestbedError::new)?;
        let close = connections::close(connect.close);
        let config = ClientConfig {
            set: flows.set(cpus.len()).map_err(TestbedError::new)?,
            close,
            hold: Duration::ZERO,
            request_bytes: connect.request_bytes,
            reply_bytes: connect.reply_bytes,
            retries: 0,
            retry_after: connect::RETRY_AFTER,
        };
        let listen = traffic.streams.specs().first().map(|(spec, _)| spec.dst);
        let serving = ServerConfig { listen, reply_bytes: connect.reply_bytes };
        let (server, link) = inside(there.netns, || {
            let server = ConnectServer::load(&serving).map_err(|e| e.to_string())?;
            let link = server.attach(ifindex(there.port.device)?, Mode::Native);
            Ok::<_, String>((server, link.map_err(|e| e.to_string())?))
        })?;
        let client = inside(here.netns, || {
            Client::attach(&config, ifindex(here.port.device)?, cpus).map_err(|e| e.to_string())
        })?;
        let course = connections::course(connect);
        Ok(Self {
            client,
            server,
            course,
            opened_before: 0,
            handshakes_before: Histogram::default(),
            is_running: false,
            _link: link,
        })
    }

    /// From SYN to SYN-ACK, of all runs.
    fn handshakes(&self) -> Result<Histogram, TestbedError> {
        let [handshakes, _] = self.client.latency_ns().map_err(TestbedError::new)?;
        Ok(handshakes)
    }

    /// What both ends have counted, and when.
    fn counts(&self) -> Result<(u64, Counts, Counts), TestbedError> {
        let (t_ns, counters, sent) = self.client.reading().map_err(TestbedError::new)?;
        let running = if self.is_running { sent.syns.offered_packets } else { 0 };
        let client = Counts { syn: self.opened_before + running, ..counters.into() };
        let server = self.server.counters().map_err(TestbedError::new)?;
        Ok((t_ns, client, server.into()))
    }
}

impl Pair for Ends {
    fn start(&mut self, burst: &Burst) -> Result<(), TestbedError> {
        let options = RunOptions {
            rate: burst.rate,
            ramp: Duration::ZERO,
            packet_limit: burst.packet_limit,
            first_sequence: self.opened_before,
            timestamps: true,
        };
        self.handshakes_before = self.handshakes()?;
        self.client.start(&options).map_err(TestbedError::new)?;
        self.is_running = true;
        Ok(())
    }

    fn finished(&self) -> bool {
        !self.client.is_running()
    }

    fn stop(&mut self) -> Result<(), TestbedError> {
        if !self.is_running {
            return Ok(());
        }
        let report = self.client.stop().map_err(TestbedError::new)?;
        self.is_running = false;
        self.opened_before += report.sent.syns.offered_packets;
        Ok(())
    }

    fn reading(&self) -> Result<Reading, TestbedError> {
        let (t_ns, client, server) = self.counts()?;
        let (end, counter) = connections::last_step(&self.course);
        let counts = named(match end {
            End::Client => &client,
            End::Server => &server,
        });
        let through = counts.get(counter).copied();
        let rx_packets = through.ok_or_else(|| TestbedError::new("a step has no counter"))?;
        Ok(Reading { t_ns, rx_packets, rx_bytes: 0, tx_packets: client.syn })
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        let (_, client, server) = self.counts()?;
        Ok([(CLIENT, client), (SERVER, server)]
            .map(|(end, counts)| (end.to_owned(), named(&counts)))
            .into())
    }

    fn accounting(&self, topology: Topology, (left, right): (&Port, &Port)) -> Accounting {
        accounting(&self.course, topology, (left, right))
    }

    fn observed(&self) -> Result<Observed, TestbedError> {
        let times = self.handshakes()?.since(&self.handshakes_before);
        Ok(Observed { packets: times.count(), delays: delays(&times), directions: Vec::new() })
    }
}

fn accounting(course: &Course, topology: Topology, ports: (&Port, &Port)) -> Accounting {
    let on_devices = match topology {
        Topology::Dut => on_devices(ports),
        Topology::Direct => Vec::new(),
    };
    connections::accounting(course, topology, on_devices)
}

/// What the devices on both ways lose: those before the DUT and those behind it.
fn on_devices((left, right): (&Port, &Port)) -> Vec<NamedLoss> {
    const SENT_TO_FULL_RING: [&str; 2] = ["tx_queue_*_xdp_xmit_errors", "tx_dropped"];
    let rings = |way, from: &Port, to: &Port, (end, place): (&str, Place)| {
        let loss = |name: &str, place, device: &str, counters: &[&str]| NamedLoss {
            way,
            rule: DropRule::new(name, "", place, Selection::new(device, counters)),
        };
        [
            loss("dut_rx_ring_full", Place::Dut, from.device, &SENT_TO_FULL_RING),
            loss("dut_rx_drops", Place::Dut, from.dut_device, &["rx_queue_*_drops"]),
            loss(&format!("{end}_ring_full"), place, to.dut_device, &SENT_TO_FULL_RING),
            loss(&format!("{end}_rx_drops"), place, to.device, &["rx_queue_*_drops"]),
        ]
    };
    let there = rings(THERE, left, right, (SERVER, Place::Sink));
    let back = rings(BACK, right, left, (CLIENT, Place::Generator));
    there.into_iter().chain(back).collect()
}

#[cfg(test)]
mod tests;
