//! A machine that carries traffic: generator and sink on its tap devices, and their counters.
//!
//! A tap device counts what QEMU takes from it (`tx_packets`) and gives to it, from outside the
//! machine: `rx_dropped` are the frames that the sink's program took, `rx_packets` all others. A
//! frame that found the device's queue full was refused because the machine did not empty it: that
//! loss is the DUT's, as `rx_missed` is on a network card. Nothing in the machine is asked, so this
//! holds for any system.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use weir_machine::host::Host;
use weir_machine::ssh::profile::Profiler;
use weir_machine::ssh::system::activity::Activity;
use weir_net::{CpuList, Netlink, Netns};
use weir_results::counters::{Counters, DropRule, Place, PointRule, Selection};
use weir_results::dut::System;
use weir_results::record::Check;
use weir_results::traffic::Traffic;

use super::host::QemuHost;
use super::ports::Ports;
use crate::testbed::netns::layout::{DUT_IN_MAC, GENERATOR_DEVICE, Leaving, Port, SINK_DEVICE};
use crate::testbed::netns::parts::SETTLE;
use crate::testbed::netns::placement::Placement;
use crate::testbed::netns::sink::{Sink, together};
use crate::testbed::netns::source::Source;
use crate::testbed::netns::watch::{DUT, Watch};
use crate::testbed::netns::wiring::inside;
use crate::testbed::{
    Accounting, Burst, Gap, Machines, Observed, Reading, Rig, Scope, TestbedError, Traces,
};

/// Frames that the namespaces' own stacks send now and then: answers to ARP.
const STRAY_RATIO_MAX: f64 = 0.001;

/// A running testbed.
pub(super) struct QemuRig {
    // Generator and sink go before the devices that their programs are attached to.
    generator: Source,
    sink: Sink,
    host: QemuHost,
    ports: Ports,
    placement: Placement,
    watch: Watch,
    /// The run under way has a limit of packets.
    is_limited: bool,
    /// The machine as it sees itself, in the last run that had no limit.
    guest: Option<Activity>,
    profiler: RefCell<Option<Profiler>>,
    /// Artefacts of the profile, once it is over.
    profile: RefCell<Vec<(String, Vec<u8>)>>,
    /// Carrier changes of each device when the testbed was ready.
    carrier_changes: BTreeMap<&'static str, u32>,
}

impl QemuRig {
    pub(super) fn new(
        ports: Ports,
        host: QemuHost,
        placement: &Placement,
        profiler: Option<Profiler>,
    ) -> Result<Self, TestbedError> {
        let sink = Sink::attach(&ports.sink, SINK_DEVICE)?;
        thread::sleep(SETTLE);
        let mut rig = Self {
            generator: Source::new(0, &Port::of(0, 1), Leaving::Xdp),
            sink,
            host,
            ports,
            placement: placement.clone(),
            watch: Watch::default(),
            is_limited: false,
            guest: None,
            profiler: RefCell::new(profiler),
            profile: RefCell::default(),
            carrier_changes: BTreeMap::new(),
        };
        rig.carrier_changes = rig.read_carrier_changes()?;
        Ok(rig)
    }

    /// CPUs that are watched during a run. On the DUT's, time in user mode is QEMU's own.
    fn watched_cpus(&self) -> [(&'static str, &CpuList); 2] {
        [("generator", &self.placement.generator), (DUT, &self.placement.dut)]
    }

    fn devices(&self) -> [(&'static str, &Netns); 2] {
        [(GENERATOR_DEVICE, &self.ports.generator), (SINK_DEVICE, &self.ports.sink)]
    }

    fn read_carrier_changes(&self) -> Result<BTreeMap<&'static str, u32>, TestbedError> {
        let read = |(device, netns)| {
            let link = inside(netns, || Netlink::open()?.link(device))?;
            Ok((device, link.carrier_change_count))
        };
        self.devices().into_iter().map(read).collect()
    }

    /// What failed because QEMU has ended, and its devices with it, is told as that.
    fn explained<T>(&self, result: Result<T, TestbedError>) -> Result<T, TestbedError> {
        let error = match result {
            Err(error) if error.scope == Scope::Campaign => error,
            other => return other,
        };
        self.host.stays_alive()?;
        Err(error)
    }

    fn read_counters(&self) -> Result<Counters, TestbedError> {
        let mut counters = Counters::new();
        for (device, netns) in self.devices() {
            let link = inside(netns, || Netlink::open()?.stats64(device))?;
            let named = link.named().map(|(name, value)| (name.to_owned(), value));
            counters.insert(device.to_owned(), named.into());
        }
        counters.insert("generator".to_owned(), self.generator.offered()?.named());
        counters.insert("sink".to_owned(), self.sink.counters()?);
        Ok(counters)
    }
}

impl Rig for QemuRig {
    fn dut_host(&self) -> Option<&dyn Host> {
        Some(&self.host)
    }

    fn load(&mut self, traffic: &Traffic) -> Result<(), TestbedError> {
        let cpus = self.placement.generator_cpus(0, 1)?;
        let (netns, streams) = (&self.ports.generator, &traffic.streams);
        let loaded = self.generator.load(netns, streams, DUT_IN_MAC, &cpus);
        self.explained(loaded)
    }

    fn start(&mut self, burst: Burst) -> Result<(), TestbedError> {
        if burst.packet_limit.is_none() {
            // It has no sensors, and a loop would cost an emulated machine too much.
            let system = self.host.system().unwrap_or(System::Generic);
            self.guest = Activity::begin(&self.host, system, false);
        }
        self.is_limited = burst.packet_limit.is_some();
        if burst.is_measured {
            self.watch.start(false);
        }
        let started = self.generator.start(&burst, 0, None);
        self.explained(started)
    }

    fn sends_parts(&self) -> bool {
        true
    }

    fn finished(&self) -> bool {
        self.generator.finished()
    }

    fn stop(&mut self) -> Result<(), TestbedError> {
        let stopped = self.generator.stop();
        // QEMU's threads are many, and which CPU each is on is the kernel's choice.
        if self.watch.is_running() {
            self.watch.stop(None);
        }
        if let Some(guest) = self.guest.as_mut().filter(|_| !self.is_limited) {
            guest.end(&self.host);
        }
        self.explained(stopped)
    }

    fn reading(&self) -> Result<Reading, TestbedError> {
        self.sink.reading(self.generator.offered()?.packets)
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        self.host.alive()?;
        self.explained(self.read_counters())
    }

    fn accounting(&self) -> Accounting {
        let point = |name, source, counters: &[&str]| PointRule {
            name,
            counters: Selection::new(source, counters),
        };
        Accounting {
            points: vec![
                point("offered", "generator", &["offered_packets"]),
                point("accepted", GENERATOR_DEVICE, &["tx_packets"]),
                point("dut_received", GENERATOR_DEVICE, &["tx_packets"]),
                point("dut_forwarded", SINK_DEVICE, &["rx_packets", "rx_dropped"]),
                point("delivered", "sink", &["packets"]),
            ],
            drops: vec![
                DropRule::new(
                    "dut_rx_ring_full",
                    "offered",
                    Place::Dut,
                    Selection::new(GENERATOR_DEVICE, &["tx_dropped"]),
                ),
                // Frames that the DUT made itself: its device counts them, the sink tells them
                // apart.
                DropRule::new(
                    "foreign_packets",
                    "dut_forwarded",
                    Place::Dut,
                    Selection::new("sink", &["foreign_packets"]),
                ),
            ],
            // From card to card: what goes in and does not come out was lost inside.
            gaps: vec![Gap::new("dut_received", "inside_the_dut", Place::Dut)],
            stray_ratio_max: STRAY_RATIO_MAX,
            shares_stack: true,
            ..Accounting::default()
        }
    }

    fn take_traces(&self) -> Traces {
        let mut traces = Traces::take_from(&self.host);
        traces.artefacts.append(&mut self.profile.borrow_mut());
        traces
    }

    fn measuring(&mut self, duration: Duration) -> Result<(), TestbedError> {
        let Some(profiler) = self.profiler.get_mut() else { return Ok(()) };
        let started = profiler.start(&self.host, duration);
        started.map_err(|error| TestbedError::voids_trial(format!("no profile: {error}")))
    }

    fn observe(&mut self) -> Result<(), TestbedError> {
        let observed = self.sink.observe(&self.ports.sink, SINK_DEVICE);
        self.explained(observed)
    }

    fn observed(&mut self) -> Result<Observed, TestbedError> {
        let observed = together([self.sink.observed(&self.ports.sink, SINK_DEVICE)]);
        self.explained(observed)
    }

    fn checks(&self) -> Result<Vec<Check>, TestbedError> {
        let check = |name: &str, passed, detail| Check { name: name.to_owned(), passed, detail };
        let now = self.explained(self.read_carrier_changes())?;
        let flapped: Vec<&str> = self
            .carrier_changes
            .iter()
            .filter(|&(device, count)| now.get(device) != Some(count))
            .map(|(device, _)| *device)
            .collect();
        let links = match flapped.is_empty() {
            true => format!("no carrier change of {} devices", now.len()),
            false => format!("the carrier of {} changed during the trial", flapped.join(", ")),
        };
        let boots: Vec<String> =
            self.host.boot_seconds().iter().map(|seconds| format!("{seconds:.1} s")).collect();
        let alive = self.host.alive();
        let machine = match &alive {
            Ok(()) => format!("QEMU runs; the machine started in {}", boots.join(", then ")),
            Err(error) => error.what.clone(),
        };
        let mut checks = vec![
            check("machine-running", alive.is_ok(), machine),
            check("links-up", flapped.is_empty(), links),
        ];
        checks.extend(self.watch.checks(&self.watched_cpus()));
        if let Some(profiler) = self.profiler.borrow_mut().as_mut() {
            let collected = profiler.collect(&self.host, "the machine under load");
            let (passed, detail) = match collected {
                Ok(files) => {
                    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
                    let detail = format!("in artefacts: {}", names.join(", "));
                    *self.profile.borrow_mut() = files;
                    (true, detail)
                }
                Err(error) => (false, error.to_string()),
            };
            checks.push(check("profile", passed, detail));
        }
        Ok(checks)
    }

    fn machines(&self) -> Machines {
        let guest = self.guest.as_ref().map(Activity::machine);
        Machines {
            dut: Some(self.watch.machine(&self.watched_cpus()).clone()),
            others: guest.map(|used| ("dut".to_owned(), used)).into_iter().collect(),
            dut_time: self.guest.as_ref().and_then(Activity::dut_time),
        }
    }

    fn teardown(self: Box<Self>) -> Result<(), TestbedError> {
        let Self { generator, sink, host, ports, .. } = *self;
        drop((generator, sink));
        let stopped = host.stop();
        // Whatever became of QEMU, nothing stays behind.
        let removed = ports.remove();
        stopped.and(removed)
    }
}
