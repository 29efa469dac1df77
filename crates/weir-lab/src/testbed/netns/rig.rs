//! A built `netns` testbed that carries traffic: generators, sinks, NAPI placement, counters.
//!
//! On a veth pair the sender's transmit queue and the receiver's ring are the same ring: a frame
//! that the generator's device refuses was refused because whoever stands behind it did not empty
//! its ring. That loss therefore belongs to the DUT (or, in a calibration, to the sink), as
//! `rx_missed` does on a network card. This module never decides anything else about losses.
//!
//! A generator and a sink at the first port of a link stand there only if a traffic needs them. For
//! connections and requests, a client and a server stand in the place of generator and sink.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use weir_bpf::ethtool;
use weir_gen::window::Window;
use weir_machine::cancel::Cancel;
use weir_machine::environment::{self, tasks, workers};
use weir_machine::host::Host;
use weir_net::process::{cpumap_threads, processes_in_netns};
use weir_net::{CpuList, Netlink, Netns, cpu, napi, steering, sysctl};
use weir_results::counters::Counters;
use weir_results::machine_use::DutTime;
use weir_results::record::Check;
use weir_results::traffic::{Connect, Http, Traffic, partner};

use super::accounts;
use super::boxes::Boxes;
use super::ends::Ends;
use super::host::NetnsHost;
use super::http::{HttpEnds, without_tso};
use super::layout::Port;
use super::nearness::Nearness;
use super::pair::{Pair, Site};
use super::parts::{Parts, SETTLE};
use super::placement::Placement;
use super::sink::{Sink, together};
use super::source::Source;
use super::watch::{DUT, Watch};
use super::wiring::inside;
use crate::testbed::{
    Accounting, Burst, DutMoment, Machines, Observed, Reading, Rig, TestbedError, Topology,
};

/// Of the 256 that a veth's ring has room for.
const WINDOW_PACKETS: u32 = 192;

/// How long the kernel may take to start a NAPI thread for each queue.
const NAPI_PATIENCE: Duration = Duration::from_secs(2);

/// How long the kernel may take to clear away what the testbed before has left: a namespace with
/// five million tracked connections takes it five seconds.
const CLEARING_PATIENCE: Duration = Duration::from_secs(10);
/// A worker of the kernel frees the memory of each run of a generator a second later
/// (`page_pool_release_retry()` of `net/core/page_pool.c`): so long do workers rest that are
/// through, in four steps.
const REST: Duration = Duration::from_millis(300);
/// How many connections the kernel tracks in a namespace (nf_conntrack-sysctl.rst).
const TRACKED: &str = "net.netfilter.nf_conntrack_count";

/// A NAPI thread and where it was put.
#[derive(Debug, Clone)]
struct PlacedNapi {
    device: &'static str,
    pid: i32,
    cpu: usize,
}

/// A running testbed.
pub(super) struct NetnsRig {
    // Generators and sinks go before the namespaces that their programs are attached in. Both are
    // by the port that they are opposite.
    sources: BTreeMap<u16, Source>,
    sinks: BTreeMap<u16, Sink>,
    /// In their places while the traffic is of connections or requests.
    ends: Option<Box<dyn Pair>>,
    /// The ports that the traffic is sent to, in the order of its senders.
    senders: Vec<u16>,
    is_mesh: bool,
    host: Option<NetnsHost>,
    parts: Parts,
    napi: Vec<PlacedNapi>,
    placement: Placement,
    watch: Watch,
    nearness: Rc<Nearness>,
    cancel: Cancel,
    /// Carrier changes of each device when the testbed was ready.
    carrier_changes: BTreeMap<&'static str, u32>,
}

impl NetnsRig {
    pub(super) fn new(
        parts: Parts,
        (placement, nearness): (&Placement, &Rc<Nearness>),
        cancel: &Cancel,
    ) -> Result<Self, TestbedError> {
        let mut rig = Self {
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
            ends: None,
            senders: Vec::new(),
            is_mesh: false,
            host: None,
            parts,
            napi: Vec::new(),
            placement: placement.clone(),
            watch: Watch::default(),
            nearness: Rc::clone(nearness),
            cancel: cancel.clone(),
            carrier_changes: BTreeMap::new(),
        };
        for port in rig.parts.port_numbers().filter(|port| port % 2 == 1) {
            rig.count_at(port)?;
        }
        if let Some(dut) = &rig.parts.dut {
            let (queues, count) = (rig.parts.queues, rig.parts.port_numbers().end);
            for (number, port) in rig.parts.port_numbers().zip(&rig.parts.ports) {
                let device = port.dut_device;
                inside(dut, || ethtool::set_gro(device, true))?;
                // Those that every traffic comes in by first.
                let cpus = in_turn(&placement.napi, rank(number, count, 0), queues);
                rig.napi.extend(place_napi(dut, device, queues, &cpus)?);
                if let Some(cpus) = &placement.rps {
                    inside(dut, || steering::set_rps(device, queues, cpus))?;
                }
            }
            let netns = Netns::open(dut.name()).map_err(TestbedError::new)?;
            let (directory, cpus) = (&rig.parts.directory, placement.dut.clone());
            let host = NetnsHost::new(netns, directory, cpus.clone(), cancel.clone());
            rig.host = Some(match &rig.parts.boxes {
                None => host,
                Some(boxes) => {
                    boxes.hosts(host, directory, (&cpus, &placement.generator), cancel)?
                }
            });
        }
        // What the DUT before left to be cleared away would take the CPUs of this one.
        workers::wait(SETTLE, CLEARING_PATIENCE, cancel);
        rig.carrier_changes = rig.read_carrier_changes()?;
        Ok(rig)
    }

    /// Puts a sink opposite a port, if there is none.
    fn count_at(&mut self, port: u16) -> Result<(), TestbedError> {
        if self.sinks.contains_key(&port) {
            return Ok(());
        }
        let (netns, device) = self.end(port);
        let sink = Sink::attach(netns, device)?;
        self.receive_at(port)?;
        self.sinks.insert(port, sink);
        Ok(())
    }

    /// What a single generator thread can go by; of several, none knows what the others have under
    /// way.
    fn window(&self) -> Option<Window> {
        let [port] = self.senders[..] else { return None };
        if self.ends.is_some() || !self.sources.get(&port)?.has_window() {
            return None;
        }
        let receivers = self.sinks.values().map(Sink::receiver).collect::<Option<Vec<_>>>()?;
        Some(Window { packets: WINDOW_PACKETS, receivers })
    }

    /// Puts the work of what receives opposite a port where that of sinks is done.
    fn receive_at(&mut self, port: u16) -> Result<(), TestbedError> {
        let (netns, device) = self.end(port);
        let cpus = match self.parts.topology {
            Topology::Dut => self.placement.sink.as_ref(),
            // Without a DUT the sink receives what the DUT would, where the DUT would.
            Topology::Direct => self.placement.sink.as_ref().or(Some(&self.placement.dut)),
        };
        if let Some(cpus) = cpus {
            let count = self.parts.port_numbers().end;
            let cpus = in_turn(cpus, rank(port, count, 1), self.parts.queues);
            let placed = place_napi(netns, device, self.parts.queues, &cpus)?;
            self.napi.extend(placed);
        }
        Ok(())
    }

    /// Takes away what is at the two ends of the first link: its devices are needed.
    fn clear_ends(&mut self) {
        (self.ends, self.sinks, self.sources) = (None, BTreeMap::new(), BTreeMap::new());
        let devices = [0, 1].map(|port: usize| self.parts.ports[port].device);
        // A device has other threads once it has had another program.
        self.napi.retain(|thread| !devices.contains(&thread.device));
    }

    /// The two ends of the first link, which has no other traffic.
    fn sites(&self) -> [Site<'_>; 2] {
        [0, 1].map(|port: u16| Site {
            netns: self.parts.netns_of(port),
            port: &self.parts.ports[usize::from(port)],
        })
    }

    /// Puts a client and its server of connections there.
    fn connect(&mut self, traffic: &Traffic, connect: &Connect) -> Result<(), TestbedError> {
        self.clear_ends();
        let [here, there] = self.sites();
        let next_hop = match self.parts.topology {
            Topology::Dut => here.port.dut_mac,
            Topology::Direct => there.port.mac,
        };
        let cpus = self.placement.generator_cpus(0, traffic.senders.threads)?;
        let ends = Ends::attach((here, there), (traffic, connect), next_hop, &cpus)?;
        self.ends = Some(Box::new(ends));
        for port in [0, 1] {
            self.receive_at(port)?;
        }
        self.senders = vec![0];
        Ok(())
    }

    /// Puts a client and its server of requests there. What they receive is worked on where they
    /// are, never on the DUT's CPUs: that is most of what an end of TCP does.
    fn request(&mut self, traffic: &Traffic, http: &Http) -> Result<(), TestbedError> {
        self.clear_ends();
        self.parts.lead_to_ends()?;
        for port in &self.parts.ports {
            if let Some(dut) = &self.parts.dut {
                inside(dut, || without_tso(port.dut_device))?;
            }
        }
        let cpus = self.placement.generator_cpus(0, traffic.senders.threads)?;
        let ends_cpus = self.placement.sink.as_ref().unwrap_or(&self.placement.generator).clone();
        let server_cpus: Vec<usize> = ends_cpus.iter().collect();
        let [here, there] = self.sites();
        // Without a DUT there is no proxy: the client asks the server.
        let proxy = http.proxy.filter(|_| self.parts.topology == Topology::Dut);
        let http = Http { proxy, ..*http };
        let cpus = (&cpus[..], &server_cpus[..]);
        let ends = HttpEnds::start((here, there), (traffic, &http), cpus, &self.cancel)?;
        self.ends = Some(Box::new(ends));
        for (port, cpus) in [(0, &self.placement.generator.clone()), (1, &ends_cpus)] {
            let (netns, device) = self.end(port);
            let cpus = in_turn(cpus, 0, self.parts.queues);
            let placed = place_napi(netns, device, self.parts.queues, &cpus)?;
            self.napi.extend(placed);
        }
        self.senders = vec![0];
        Ok(())
    }

    /// The two ports of the first link.
    fn first_link(&self) -> (&Port, &Port) {
        (&self.parts.ports[0], &self.parts.ports[1])
    }

    /// The device opposite a port, and its namespace.
    fn end(&self, port: u16) -> (&Netns, &'static str) {
        (self.parts.netns_of(port), self.parts.ports[usize::from(port)].device)
    }

    /// The ports that the traffic's packets leave by.
    fn receivers(&self) -> impl Iterator<Item = u16> {
        self.senders.iter().map(|&port| partner(port))
    }

    fn source(&mut self, port: u16) -> Result<&mut Source, TestbedError> {
        let source = self.sources.get_mut(&port);
        source.ok_or_else(|| TestbedError::new("no traffic is loaded"))
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
        let mut cpus = vec![("generator", &self.placement.generator), (DUT, &self.placement.dut)];
        cpus.extend(self.placement.sink.as_ref().map(|sink| ("sink", sink)));
        cpus
    }

    /// Processes and kernel threads that belong to the trial: this process, the testbed's NAPI
    /// threads, whatever runs in its namespaces.
    fn trial_parts(&self) -> tasks::Parts {
        let mut processes = vec![std::process::id().cast_signed()];
        let namespaces =
            [Some(&self.parts.generator), Some(&self.parts.sink), self.parts.dut.as_ref()];
        let boxes = self.parts.boxes.iter().flat_map(Boxes::namespaces);
        for namespace in namespaces.into_iter().flatten().chain(boxes) {
            // Those that cannot be listed count as something else, and are named.
            processes.extend(processes_in_netns(namespace.inode()).unwrap_or_default());
        }
        let handed_to = handed_to();
        let mut kernel_threads: Vec<i32> = handed_to.iter().map(|(thread, _)| *thread).collect();
        kernel_threads.extend(self.napi.iter().map(|thread| thread.pid));
        // Commands that weir ran in the DUT and that have ended: those that switch a toggle.
        let ended_on: Vec<usize> = self.placement.dut.iter().collect();
        // A sink without threads, and what the DUT says to the generator or to itself.
        let mut receives_on = if self.parts.dut.is_some() { ended_on.clone() } else { Vec::new() };
        receives_on.extend(handed_to.iter().map(|(_, cpu)| *cpu));
        receives_on.extend(self.steered_to().iter().flat_map(CpuList::iter));
        if self.ends.as_ref().is_some_and(|ends| ends.has_sockets()) {
            receives_on.extend(self.watched_cpus().iter().flat_map(|(_, cpus)| cpus.iter()));
        }
        let (has_workers, rest) = (self.tracks_connections(), tasks::Parts::default());
        tasks::Parts { processes, kernel_threads, ended_on, receives_on, has_workers, ..rest }
    }

    /// Whether the kernel tracks connections for the DUT.
    fn tracks_connections(&self) -> bool {
        let count = || sysctl::read(TRACKED).map_err(|error| error.to_string());
        let count = self.parts.dut.as_ref().and_then(|dut| inside(dut, count).ok());
        count.is_some_and(|count| count.trim() != "0")
    }

    /// The DUT's threads: its NAPI threads, those that take what its programs hand to CPUs, and all
    /// that runs in its namespace. `None` where packets are steered to other CPUs, whose softirqs
    /// have no thread.
    fn dut_parts(&self) -> Option<tasks::Parts> {
        if self.steered_to().is_some() {
            return None;
        }
        let dut = self.parts.dut.as_ref()?;
        let is_dut = |device: &str| self.parts.ports.iter().any(|port| port.dut_device == device);
        let threads = self.napi.iter().filter(|thread| is_dut(thread.device));
        let mut kernel_threads: Vec<i32> = handed_to().iter().map(|(thread, _)| *thread).collect();
        kernel_threads.extend(threads.map(|thread| thread.pid));
        Some(tasks::Parts {
            processes: processes_in_netns(dut.inode()).ok()?,
            kernel_threads,
            ..tasks::Parts::default()
        })
    }

    /// The CPUs that packets are steered to where they come in, whoever has set that.
    fn steered_to(&self) -> Option<CpuList> {
        let device = self.parts.ports[0].dut_device;
        let read = || steering::rps(device).map_err(|error| error.to_string());
        inside(self.parts.dut.as_ref()?, read).ok().flatten()
    }

    /// CPU time of the DUT.
    fn dut_time(&self) -> Option<DutTime> {
        let parts = self.dut_parts()?;
        self.watch.dut_time(&parts, &self.placement.dut, self.placement.sink.is_none())
    }

    /// Devices whose counters are read: name and namespace.
    fn devices(&self) -> Vec<(&'static str, &Netns)> {
        let mut devices = Vec::new();
        for (number, port) in (0..).zip(&self.parts.ports) {
            let (netns, device) = self.end(number);
            devices.push((device, netns));
            devices.extend(self.parts.dut.as_ref().map(|dut| (port.dut_device, dut)));
        }
        devices
    }
}

/// Threads that take what is handed to CPUs, and those: only the DUT has a program that does, on a
/// host that is the lab's.
fn handed_to() -> Vec<(i32, usize)> {
    cpumap_threads().unwrap_or_default()
}

impl Rig for NetnsRig {
    fn dut_host(&self) -> Option<&dyn Host> {
        self.host.as_ref().map(|h| h as &dyn Host)
    }

    fn load(&mut self, traffic: &Traffic) -> Result<(), TestbedError> {
        if let Some(connect) = traffic.connect() {
            return self.connect(traffic, connect);
        }
        if let Some(http) = traffic.http() {
            return self.request(traffic, http);
        }
        let senders = traffic.each_sender();
        for (index, sender) in senders.iter().enumerate() {
            let (port, opposite) = (sender.port, partner(sender.port));
            self.count_at(opposite)?;
            let next_hop = match self.parts.topology {
                Topology::Dut => self.parts.ports[usize::from(port)].dut_mac,
                Topology::Direct => self.parts.ports[usize::from(opposite)].mac,
            };
            let cpus = self.placement.generator_cpus(index, traffic.senders.threads)?;
            let place = &self.parts.ports[usize::from(port)];
            let leaving = self.parts.leaving;
            let source =
                self.sources.entry(port).or_insert_with(|| Source::new(port, place, leaving));
            source.load(self.parts.netns_of(port), &sender.streams, next_hop, &cpus)?;
        }
        self.senders = senders.iter().map(|sender| sender.port).collect();
        self.is_mesh = traffic.senders.is_mesh;
        Ok(())
    }

    fn wait_for_host(&self) {
        self.nearness.wait(&self.cancel);
    }

    fn settle(&self) {
        workers::wait(REST, CLEARING_PATIENCE, &self.cancel);
    }

    fn start(&mut self, burst: Burst) -> Result<(), TestbedError> {
        if burst.is_measured {
            // Before the CPUs' time is read, which it takes some of.
            let distance_ns = self.nearness.look();
            self.watch.start(true);
            self.watch.distance(distance_ns, self.nearness.nearest_ns());
        }
        if let Some(ends) = &mut self.ends {
            return ends.start(&burst);
        }
        for (index, port) in self.senders.clone().into_iter().enumerate() {
            if burst.sender.is_none_or(|only| only == index) {
                let window = burst.in_window.then(|| self.window()).flatten();
                self.source(port)?.start(&burst, port, window)?;
            }
        }
        Ok(())
    }

    fn has_window(&self) -> bool {
        self.window().is_some()
    }

    fn sends_parts(&self) -> bool {
        true
    }

    fn finished(&self) -> bool {
        if let Some(ends) = &self.ends {
            return ends.finished();
        }
        self.sources.values().all(Source::finished)
    }

    fn stop(&mut self) -> Result<(), TestbedError> {
        // The run time of a thread that has ended is nowhere: the generators' is read before.
        let was_measured = self.watch.is_running();
        if was_measured {
            self.watch.stop(Some(self.trial_parts()));
        }
        if let Some(ends) = &mut self.ends {
            ends.stop()?;
        } else {
            for port in self.senders.clone() {
                self.source(port)?.stop()?;
            }
        }
        // The CPUs are free again.
        if was_measured {
            self.watch.distance(self.nearness.look(), self.nearness.nearest_ns());
        }
        Ok(())
    }

    fn reading(&self) -> Result<Reading, TestbedError> {
        Ok(Reading::total(&self.readings()?))
    }

    fn readings(&self) -> Result<Vec<Reading>, TestbedError> {
        if let Some(ends) = &self.ends {
            return Ok(vec![ends.reading()?]);
        }
        let reading = |&port: &u16| {
            let source = self.sources.get(&port);
            let offered = source.map_or(Ok(0), |source| source.offered().map(|all| all.packets))?;
            let sink = self.sinks.get(&partner(port));
            let sink = sink.ok_or_else(|| TestbedError::new("nothing counts there"))?;
            sink.reading(offered)
        };
        self.senders.iter().map(reading).collect()
    }

    fn dut_moment(&self) -> Result<DutMoment, TestbedError> {
        // The plan has refused `rps_cpus`, which puts its work into softirqs of other CPUs.
        let (Some(parts), Some(dut)) = (self.dut_parts(), self.parts.dut.as_ref()) else {
            let why = "the DUT's threads cannot be timed: the processes in its namespace cannot \
                       be listed; is /proc mounted, and readable for root?";
            return Err(TestbedError::new(why));
        };
        let run_ns = tasks::run_ns(&parts);
        // A toggle's traffic has a single sender, whose packets come in here.
        let device = self.parts.ports[0].dut_device;
        let counted = inside(dut, || {
            let stats = ethtool::stats(device).map_err(|e| e.to_string())?;
            let stats = stats.into_iter().collect::<BTreeMap<_, _>>();
            Ok::<_, String>(BTreeMap::from([(device.to_owned(), stats)]))
        })?;
        let received_packets = accounts::received(device)
            .sum(&counted)
            .ok_or_else(|| TestbedError::new(format!("{device} counts nothing")))?;
        Ok(DutMoment { run_ns, received_packets, reading: self.reading()? })
    }

    fn arrived_packets(&self) -> Result<u64, TestbedError> {
        self.sinks.values().map(|sink| Ok(sink.reading(0)?.rx_packets)).sum()
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
        for (port, source) in &self.sources {
            counters.insert(accounts::generator(*port), source.offered()?.named());
        }
        for (port, sink) in &self.sinks {
            counters.insert(accounts::sink(*port), sink.counters()?);
        }
        if let Some(ends) = &self.ends {
            counters.extend(ends.counters()?);
        }
        Ok(counters)
    }

    fn accounting(&self) -> Accounting {
        if let Some(ends) = &self.ends {
            return ends.accounting(self.parts.topology, self.first_link());
        }
        accounts::accounting(&self.parts, &self.senders, self.is_mesh)
    }

    fn observe(&mut self) -> Result<(), TestbedError> {
        if self.ends.is_some() {
            // The client times what it does, always.
            return Ok(());
        }
        for port in self.receivers().collect::<Vec<_>>() {
            let (netns, device) =
                (self.parts.netns_of(port), self.parts.ports[usize::from(port)].device);
            self.sinks.get_mut(&port).map_or(Ok(()), |sink| sink.observe(netns, device))?;
        }
        Ok(())
    }

    fn observed(&mut self) -> Result<Observed, TestbedError> {
        if let Some(ends) = &self.ends {
            return ends.observed();
        }
        let ports: Vec<u16> = self.receivers().collect();
        let Self { sinks, parts, .. } = self;
        together(ports.into_iter().filter_map(|port| {
            let device = parts.ports[usize::from(port)].device;
            Some(sinks.get_mut(&port)?.observed(parts.netns_of(port), device))
        }))
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
        checks.extend(self.ends.iter().flat_map(|ends| ends.checks()));
        Ok(checks)
    }

    fn machines(&self) -> Machines {
        let dut = Some(self.watch.machine(&self.watched_cpus()).clone());
        Machines { dut, dut_time: self.dut_time(), ..Machines::default() }
    }

    fn teardown(self: Box<Self>) -> Result<(), TestbedError> {
        let Self { sources, sinks, ends, host, parts, .. } = *self;
        drop((sources, sinks, ends, host));
        parts.remove()
    }
}

/// The place of a port among `count`, with those of one side (0: first ports of links) first.
fn rank(port: u16, count: u16, side: u16) -> usize {
    let others = if port % 2 == side { 0 } else { count / 2 };
    usize::from(others + port / 2)
}

/// The CPUs for the queues of the device at a place: devices take those there are in turn.
fn in_turn(cpus: &CpuList, rank: usize, queues: u32) -> CpuList {
    let queues = usize::try_from(queues).unwrap_or(usize::MAX);
    let first = rank.saturating_mul(queues) % cpus.count();
    CpuList::new(cpus.iter().cycle().skip(first).take(queues)).unwrap_or_else(|| cpus.clone())
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

#[cfg(test)]
mod tests;
