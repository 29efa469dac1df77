//! A built `netns` testbed that carries traffic: generator, sink, NAPI placement, counters.
//!
//! On a veth pair the sender's transmit queue and the receiver's ring are the same ring: a frame
//! that the generator's device refuses was refused because whoever stands behind it did not empty
//! its ring. That loss therefore belongs to the DUT (or, in a calibration, to the sink), as
//! `rx_missed` does on a network card. This module never decides anything else about losses.

use std::thread;

use weir_bpf::ethtool;
use weir_gen::live::{LiveGenerator, RunOptions};
use weir_gen::receiver::Receiver;
use weir_gen::stream::{Stream, TTL_DEFAULT};
use weir_net::{CpuList, Netlink, Netns, napi};
use weir_wire::mac::MacAddr;

use super::host::NetnsHost;
use super::layout::{
    DUT_IN_DEVICE, DUT_IN_MAC, DUT_OUT_DEVICE, GENERATOR_DEVICE, GENERATOR_MAC, PARK_DEVICES,
    SINK_DEVICE, SINK_MAC,
};
use super::parts::{Parts, SETTLE, inside};
use super::placement::Placement;
use crate::counters::{Counters, DropRule, PointRule, Selection};
use crate::host::Host;
use crate::model::Traffic;
use crate::record::Place;
use crate::testbed::{Burst, Reading, Rig, TestbedError, Topology};

/// A running testbed.
pub(super) struct NetnsRig {
    // Generator and receiver go before the namespaces that their programs are attached in.
    generator: Option<LiveGenerator>,
    receiver: Receiver,
    host: Option<NetnsHost>,
    parts: Parts,
    generator_cpu: u32,
    /// What finished runs of the generator offered; it counts each run from zero.
    offered_before: Offered,
    /// Whether a run is under way whose packets are not in `offered_before` yet.
    running: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Offered {
    packets: u64,
    bytes: u64,
}

impl NetnsRig {
    pub(super) fn new(parts: Parts, placement: &Placement) -> Result<Self, TestbedError> {
        let receiver = inside(&parts.sink, || {
            let ifindex = ifindex(SINK_DEVICE)?;
            Receiver::attach(ifindex).map_err(|e| e.to_string())
        })?;
        let sink_cpus = match parts.topology {
            Topology::Dut => placement.sink.as_ref(),
            // Without a DUT the sink receives what the DUT would, where the DUT would.
            Topology::Direct => placement.sink.as_ref().or(Some(&placement.dut)),
        };
        if let Some(cpus) = sink_cpus {
            place_napi(&parts.sink, SINK_DEVICE, cpus)?;
        }
        let mut host = None;
        if let Some(dut) = &parts.dut {
            for device in [DUT_IN_DEVICE, DUT_OUT_DEVICE] {
                inside(dut, || ethtool::set_gro(device, true))?;
                place_napi(dut, device, &placement.dut)?;
            }
            let netns = Netns::open(dut.name()).map_err(TestbedError::new)?;
            host = Some(NetnsHost::new(netns, &parts.directory));
        }
        thread::sleep(SETTLE);
        let generator_cpu = u32::try_from(placement.generator.first())
            .map_err(|_| TestbedError::new("the generator's CPU number is too large"))?;
        Ok(Self {
            generator: None,
            receiver,
            host,
            parts,
            generator_cpu,
            offered_before: Offered::default(),
            running: false,
        })
    }

    /// What all runs of the generator have offered so far.
    fn offered(&self) -> Result<Offered, TestbedError> {
        let mut offered = self.offered_before;
        if let Some(generator) = self.generator.as_ref().filter(|_| self.running) {
            let now = generator.counters().map_err(TestbedError::new)?;
            offered.packets += now.offered_packets;
            offered.bytes += now.offered_bytes;
        }
        Ok(offered)
    }

    fn generator(&mut self) -> Result<&mut LiveGenerator, TestbedError> {
        self.generator.as_mut().ok_or_else(|| TestbedError::new("no traffic is loaded"))
    }

    /// Devices whose counters are read: name and namespace.
    fn devices(&self) -> Vec<(&'static str, &Netns)> {
        let mut devices: Vec<(&'static str, &Netns)> =
            vec![(GENERATOR_DEVICE, &self.parts.generator), (SINK_DEVICE, &self.parts.sink)];
        if let Some(dut) = &self.parts.dut {
            devices.push((DUT_IN_DEVICE, dut));
            devices.push((DUT_OUT_DEVICE, dut));
        }
        devices
    }
}

impl Rig for NetnsRig {
    fn dut_host(&self) -> Option<&dyn Host> {
        self.host.as_ref().map(|h| h as &dyn Host)
    }

    fn load(&mut self, traffic: &Traffic) -> Result<(), TestbedError> {
        let next_hop = match self.parts.topology {
            Topology::Dut => DUT_IN_MAC,
            Topology::Direct => SINK_MAC,
        };
        let stream = Stream {
            src: traffic.src,
            dst: traffic.dst,
            size_bytes: traffic.size_bytes,
            rate: traffic.rate,
            src_mac: MacAddr(GENERATOR_MAC),
            dst_mac: MacAddr(next_hop),
            ttl: TTL_DEFAULT,
            tos: 0,
        };
        let cpus = [self.generator_cpu];
        let generator = inside(&self.parts.generator, || {
            let (out, park) = (ifindex(GENERATOR_DEVICE)?, ifindex(PARK_DEVICES[0])?);
            LiveGenerator::new(&stream, out, park, &cpus).map_err(|e| e.to_string())
        })?;
        self.generator = Some(generator);
        Ok(())
    }

    fn start(&mut self, burst: Burst) -> Result<(), TestbedError> {
        let options =
            RunOptions { rate: burst.rate, packet_limit: burst.packet_limit, first_sequence: 0 };
        self.generator()?.start(options).map_err(TestbedError::new)?;
        self.running = true;
        Ok(())
    }

    fn finished(&self) -> bool {
        !self.generator.as_ref().is_some_and(LiveGenerator::is_running)
    }

    fn stop(&mut self) -> Result<(), TestbedError> {
        let report = self.generator()?.stop().map_err(TestbedError::new)?;
        self.running = false;
        self.offered_before.packets += report.counters.offered_packets;
        self.offered_before.bytes += report.counters.offered_bytes;
        Ok(())
    }

    fn reading(&self) -> Result<Reading, TestbedError> {
        let snapshot = self.receiver.snapshot().map_err(TestbedError::new)?;
        let total = snapshot.total();
        Ok(Reading {
            t_ns: snapshot.t_ns,
            rx_packets: total.packets,
            rx_bytes: total.bytes,
            tx_packets: self.offered()?.packets,
        })
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        let mut counters = Counters::new();
        for (device, netns) in self.devices() {
            let values = inside(netns, || {
                let mut values: std::collections::BTreeMap<String, u64> =
                    ethtool::stats(device).map_err(|e| e.to_string())?.into_iter().collect();
                let netlink = Netlink::open().map_err(|e| e.to_string())?;
                let link = netlink.stats64(device).map_err(|e| e.to_string())?;
                values.extend(link.named().map(|(name, value)| (name.to_owned(), value)));
                Ok::<_, String>(values)
            })?;
            counters.insert(device.to_owned(), values);
        }
        let offered = self.offered()?;
        counters.insert(
            "generator".to_owned(),
            [("offered_packets", offered.packets), ("offered_bytes", offered.bytes)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
        );
        let snapshot = self.receiver.snapshot().map_err(TestbedError::new)?;
        let total = snapshot.total();
        let mut sink: std::collections::BTreeMap<String, u64> = [
            ("packets", total.packets),
            ("bytes", total.bytes),
            ("foreign_packets", total.foreign_packets),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for (index, queue) in snapshot.counters.queues.iter().enumerate() {
            sink.insert(format!("queue_{index}_packets"), queue.packets);
        }
        counters.insert("sink".to_owned(), sink);
        Ok(counters)
    }

    fn points(&self) -> Vec<PointRule> {
        let point = |name, source, counters: &[&str]| PointRule {
            name,
            counters: Selection::new(source, counters),
        };
        let mut points = vec![
            point("offered", "generator", &["offered_packets"]),
            point("accepted", GENERATOR_DEVICE, &["tx_queue_*_xdp_xmit"]),
        ];
        if self.parts.topology == Topology::Dut {
            points.push(point("dut_received", DUT_IN_DEVICE, &["rx_queue_*_xdp_packets"]));
            points.push(point("dut_forwarded", DUT_OUT_DEVICE, &["tx_packets", "tx_dropped"]));
        }
        points.push(point("delivered", "sink", &["packets"]));
        points
    }

    fn drops(&self) -> Vec<DropRule> {
        let refused = Selection::new(GENERATOR_DEVICE, &["tx_queue_*_xdp_xmit_errors"]);
        let device_drops = |device| Selection::new(device, &["rx_queue_*_drops"]);
        match self.parts.topology {
            Topology::Direct => vec![
                DropRule::new("sink_rx_ring_full", "offered", Place::Sink, refused),
                DropRule::new("sink_rx_drops", "accepted", Place::Sink, device_drops(SINK_DEVICE)),
            ],
            Topology::Dut => vec![
                DropRule::new("dut_rx_ring_full", "offered", Place::Dut, refused),
                DropRule::new("dut_rx_drops", "accepted", Place::Dut, device_drops(DUT_IN_DEVICE)),
                DropRule::new(
                    "dut_xdp_drops",
                    "dut_received",
                    Place::Dut,
                    Selection::new(DUT_IN_DEVICE, &["rx_queue_*_xdp_drops"]),
                ),
                DropRule::new(
                    "sink_rx_ring_full",
                    "dut_forwarded",
                    Place::Sink,
                    Selection::new(DUT_OUT_DEVICE, &["tx_dropped"]),
                ),
                DropRule::new(
                    "sink_rx_drops",
                    "dut_forwarded",
                    Place::Sink,
                    device_drops(SINK_DEVICE),
                ),
            ],
        }
    }

    fn egress_drops(&self) -> Vec<DropRule> {
        vec![DropRule::new(
            "foreign_packets",
            "dut_forwarded",
            Place::Dut,
            Selection::new("sink", &["foreign_packets"]),
        )]
    }

    fn teardown(self: Box<Self>) -> Result<(), TestbedError> {
        let Self { generator, receiver, host, parts, .. } = *self;
        drop((generator, receiver, host));
        parts.remove()
    }
}

fn ifindex(device: &str) -> Result<u32, String> {
    Netlink::open().and_then(|n| n.ifindex(device)).map_err(|e| e.to_string())
}

/// Switches a device to threaded NAPI and pins its threads.
fn place_napi(netns: &Netns, device: &str, cpus: &CpuList) -> Result<(), TestbedError> {
    inside(netns, || {
        napi::set_threaded(device, true)?;
        let pids: Vec<i32> = napi::threads(device)?.iter().map(|thread| thread.pid).collect();
        napi::pin(&pids, cpus).map(drop)
    })
}
