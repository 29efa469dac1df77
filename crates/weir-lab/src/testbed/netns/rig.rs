//! A built `netns` testbed that carries traffic: generator, sink, NAPI placement, counters.
//!
//! On a veth pair the sender's transmit queue and the receiver's ring are the same ring: a frame
//! that the generator's device refuses was refused because whoever stands behind it did not empty
//! its ring. That loss therefore belongs to the DUT (or, in a calibration, to the sink), as
//! `rx_missed` does on a network card. This module never decides anything else about losses.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use weir_bpf::ethtool;
use weir_machine::cancel::Cancel;
use weir_machine::environment::{self, tasks};
use weir_machine::host::Host;
use weir_net::process::processes_in_netns;
use weir_net::{CpuList, Netlink, Netns, cpu, napi};
use weir_results::counters::{Counters, DropRule, Place, PointRule, Selection};
use weir_results::machine_use::DutTime;
use weir_results::record::Check;
use weir_results::traffic::Traffic;

use super::host::NetnsHost;
use super::layout::{
    DUT_IN_DEVICE, DUT_IN_MAC, DUT_OUT_DEVICE, GENERATOR_DEVICE, SINK_DEVICE, SINK_MAC,
};
use super::parts::{Parts, SETTLE, inside};
use super::placement::Placement;
use super::sink::Sink;
use super::source::Source;
use super::watch::Watch;
use crate::testbed::{Accounting, Burst, Machines, Observed, Reading, Rig, TestbedError, Topology};

/// How long the kernel may take to start a NAPI thread for each queue.
const NAPI_PATIENCE: Duration = Duration::from_secs(2);

/// A NAPI thread and where it was put.
#[derive(Debug, Clone)]
struct PlacedNapi {
    device: &'static str,
    pid: i32,
    cpu: usize,
}

/// A running testbed.
pub(super) struct NetnsRig {
    // Generator and sink go before the namespaces that their programs are attached in.
    generator: Source,
    sink: Sink,
    host: Option<NetnsHost>,
    parts: Parts,
    napi: Vec<PlacedNapi>,
    placement: Placement,
    watch: Watch,
    /// Carrier changes of each device when the testbed was ready.
    carrier_changes: BTreeMap<&'static str, u32>,
}

impl NetnsRig {
    pub(super) fn new(
        parts: Parts,
        placement: &Placement,
        cancel: &Cancel,
    ) -> Result<Self, TestbedError> {
        let sink = Sink::attach(&parts.sink)?;
        let sink_cpus = match parts.topology {
            Topology::Dut => placement.sink.as_ref(),
            // Without a DUT the sink receives what the DUT would, where the DUT would.
            Topology::Direct => placement.sink.as_ref().or(Some(&placement.dut)),
        };
        let mut napi = Vec::new();
        if let Some(cpus) = sink_cpus {
            napi.extend(place_napi(&parts.sink, SINK_DEVICE, parts.queues, cpus)?);
        }
        let mut host = None;
        if let Some(dut) = &parts.dut {
            for device in [DUT_IN_DEVICE, DUT_OUT_DEVICE] {
                inside(dut, || ethtool::set_gro(device, true))?;
                napi.extend(place_napi(dut, device, parts.queues, &placement.dut)?);
            }
            let netns = Netns::open(dut.name()).map_err(TestbedError::new)?;
            host = Some(NetnsHost::new(
                netns,
                &parts.directory,
                placement.dut.clone(),
                cancel.clone(),
            ));
        }
        thread::sleep(SETTLE);
        let mut rig = Self {
            generator: Source::new(placement.generator.first())?,
            sink,
            host,
            parts,
            napi,
            placement: placement.clone(),
            watch: Watch::default(),
            carrier_changes: BTreeMap::new(),
        };
        rig.carrier_changes = rig.read_carrier_changes()?;
        Ok(rig)
    }

    /// Queues, offloads and NAPI of every device, read back from the kernel.
    pub(super) fn settings(&self) -> serde_json::Value {
        self.devices()
            .into_iter()
            .map(|(device, netns)| {
                let read = inside(netns, || Ok::<_, String>(environment::devices(&[device])));
                let value = match read {
                    Ok(mut all) => all[device].take(),
                    Err(error) => error.what.into(),
                };
                (device.to_owned(), value)
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn read_carrier_changes(&self) -> Result<BTreeMap<&'static str, u32>, TestbedError> {
        self.devices()
            .into_iter()
            .map(|(device, netns)| {
                let link = inside(netns, || Netlink::open()?.link(device))?;
                Ok((device, link.carrier_change_count))
            })
            .collect()
    }

    /// CPUs that are watched during a run, by what they are for.
    fn watched_cpus(&self) -> Vec<(&'static str, &CpuList)> {
        let mut cpus = vec![("generator", &self.placement.generator), ("DUT", &self.placement.dut)];
        cpus.extend(self.placement.sink.as_ref().map(|sink| ("sink", sink)));
        cpus
    }

    /// Processes and kernel threads that belong to the trial: this process, the testbed's NAPI
    /// threads, whatever runs in its namespaces.
    fn trial_parts(&self) -> tasks::Parts {
        let mut processes = vec![std::process::id().cast_signed()];
        let namespaces =
            [Some(&self.parts.generator), Some(&self.parts.sink), self.parts.dut.as_ref()];
        for namespace in namespaces.into_iter().flatten() {
            // Those that cannot be listed count as something else, and are named.
            processes.extend(processes_in_netns(namespace.inode()).unwrap_or_default());
        }
        let kernel_threads = self.napi.iter().map(|thread| thread.pid).collect();
        tasks::Parts { processes, kernel_threads }
    }

    /// CPU time of the DUT: of its NAPI threads and of what runs in its namespace.
    fn dut_time(&self) -> Option<DutTime> {
        let dut = self.parts.dut.as_ref()?;
        let devices = [DUT_IN_DEVICE, DUT_OUT_DEVICE];
        let threads = self.napi.iter().filter(|thread| devices.contains(&thread.device));
        let parts = tasks::Parts {
            processes: processes_in_netns(dut.inode()).ok()?,
            kernel_threads: threads.map(|thread| thread.pid).collect(),
        };
        self.watch.dut_time(&parts, &self.placement.dut, self.placement.sink.is_none())
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
        self.generator.load(&self.parts.generator, traffic, next_hop)
    }

    fn start(&mut self, burst: Burst) -> Result<(), TestbedError> {
        if burst.is_measured {
            self.watch.start();
        }
        self.generator.start(burst)
    }

    fn finished(&self) -> bool {
        self.generator.finished()
    }

    fn stop(&mut self) -> Result<(), TestbedError> {
        // The run time of a thread that has ended is nowhere: the generator's is read before.
        if self.watch.is_running() {
            self.watch.stop(Some(self.trial_parts()));
        }
        self.generator.stop()
    }

    fn reading(&self) -> Result<Reading, TestbedError> {
        self.sink.reading(self.generator.offered()?.packets)
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        let mut counters = Counters::new();
        for (device, netns) in self.devices() {
            let values = inside(netns, || {
                let mut values: BTreeMap<String, u64> =
                    ethtool::stats(device).map_err(|e| e.to_string())?.into_iter().collect();
                let netlink = Netlink::open().map_err(|e| e.to_string())?;
                let link = netlink.stats64(device).map_err(|e| e.to_string())?;
                values.extend(link.named().map(|(name, value)| (name.to_owned(), value)));
                Ok::<_, String>(values)
            })?;
            counters.insert(device.to_owned(), values);
        }
        counters.insert("generator".to_owned(), self.generator.offered()?.named());
        counters.insert("sink".to_owned(), self.sink.counters()?);
        Ok(counters)
    }

    fn accounting(&self) -> Accounting {
        let topology = self.parts.topology;
        Accounting { points: points(topology), drops: drops(topology), ..Accounting::default() }
    }

    fn observe(&mut self) -> Result<(), TestbedError> {
        self.sink.observe(&self.parts.sink)
    }

    fn observed(&mut self) -> Result<Observed, TestbedError> {
        self.sink.observed(&self.parts.sink)
    }

    fn checks(&self) -> Result<Vec<Check>, TestbedError> {
        let mut moved = Vec::new();
        for thread in &self.napi {
            let now = cpu::affinity(thread.pid).ok().flatten();
            let cpus = CpuList::new([thread.cpu]);
            if now.is_none() || now != cpus {
                let seen = now.map_or_else(|| "gone".to_owned(), |cpus| format!("on CPU {cpus}"));
                moved.push(format!("{}: NAPI thread {} is {seen}", thread.device, thread.pid));
            }
        }
        let detail = if moved.is_empty() {
            let placed = |t: &PlacedNapi| format!("{} on CPU {}", t.device, t.cpu);
            self.napi.iter().map(placed).collect::<Vec<_>>().join(", ")
        } else {
            moved.join("; ")
        };
        let placement =
            Check { name: "napi-placement".to_owned(), passed: moved.is_empty(), detail };
        let now = self.read_carrier_changes()?;
        let flapped: Vec<&str> = self
            .carrier_changes
            .iter()
            .filter(|&(device, count)| now.get(device) != Some(count))
            .map(|(device, _)| *device)
            .collect();
        let links = Check {
            name: "links-up".to_owned(),
            passed: flapped.is_empty(),
            detail: if flapped.is_empty() {
                format!("no carrier change of {} devices", now.len())
            } else {
                format!("the carrier of {} changed during the trial", flapped.join(", "))
            },
        };
        let mut checks = vec![placement, links];
        checks.extend(self.watch.checks(&self.watched_cpus()));
        Ok(checks)
    }

    fn machines(&self) -> Machines {
        let dut = Some(self.watch.machine(&self.watched_cpus()).clone());
        Machines { dut, dut_time: self.dut_time(), ..Machines::default() }
    }

    fn teardown(self: Box<Self>) -> Result<(), TestbedError> {
        let Self { generator, sink, host, parts, .. } = *self;
        drop((generator, sink, host));
        parts.remove()
    }
}

/// Counting points in the order of a packet's way.
fn points(topology: Topology) -> Vec<PointRule> {
    let point = |name, source, counters: &[&str]| PointRule {
        name,
        counters: Selection::new(source, counters),
    };
    let mut points = vec![
        point("offered", "generator", &["offered_packets"]),
        point("accepted", GENERATOR_DEVICE, &["tx_queue_*_xdp_xmit"]),
    ];
    if topology == Topology::Dut {
        points.push(point("dut_received", DUT_IN_DEVICE, &["rx_queue_*_xdp_packets"]));
        points.push(point("dut_forwarded", DUT_OUT_DEVICE, &["tx_packets", "tx_dropped"]));
    }
    points.push(point("delivered", "sink", &["packets"]));
    points
}

/// Losses that the devices and the sink count.
fn drops(topology: Topology) -> Vec<DropRule> {
    let refused = Selection::new(GENERATOR_DEVICE, &["tx_queue_*_xdp_xmit_errors"]);
    let device_drops = |device| Selection::new(device, &["rx_queue_*_drops"]);
    match topology {
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
            DropRule::new("sink_rx_drops", "dut_forwarded", Place::Sink, device_drops(SINK_DEVICE)),
            // Frames that the DUT made itself: its device counts them, the sink tells them
            // apart.
            DropRule::new(
                "foreign_packets",
                "dut_forwarded",
                Place::Dut,
                Selection::new("sink", &["foreign_packets"]),
            ),
        ],
    }
}

/// Switches a device to threaded NAPI and pins its threads, one for each queue.
fn place_napi(
    netns: &Netns,
    device: &'static str,
    queues: u32,
    cpus: &CpuList,
) -> Result<Vec<PlacedNapi>, TestbedError> {
    let placed = inside(netns, || {
        napi::set_threaded(device, true)?;
        napi::pin_expecting(device, queues, cpus, NAPI_PATIENCE)
    })?;
    Ok(placed.into_iter().map(|(pid, cpu)| PlacedNapi { device, pid, cpu }).collect())
}
