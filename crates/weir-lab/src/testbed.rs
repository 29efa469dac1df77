//! Where a trial runs: generator, DUT host, sink and the links between them.
//!
//! A [`Testbed`] builds a fresh [`Rig`] for every trial, as a lab reboots its box between runs. A
//! rig offers traffic, reads counters and says which of them are the counting points of a
//! packet's way; it never knows what kind of DUT it carries, and never judges.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_machine::digest::Reader;
use weir_machine::host::Host;
use weir_net::CpuList;
use weir_results::counters::Counters;
use weir_results::machine_use::{DutTime, MachineUse};
use weir_results::matrix::Series;
use weir_results::record::{Check, Delays, Ledger};
use weir_results::traffic::Traffic;
use weir_wire::units::Rate;

use crate::material::Material;
use crate::model::{Image, TestbedSpec};

pub use weir_results::accounting::{Accounting, DirectionRules, Gap};
pub use weir_results::samples::Reading;

mod connections;
pub mod hosts;
pub mod netns;
pub mod qemu;
mod requests;

/// A kind of place where trials run.
pub trait Testbed {
    /// What belongs into `env.json`: placement, queues, devices, offloads.
    fn environment(&self) -> serde_json::Value;

    /// The CPUs of this host that are measured on, and which of them is the DUT's first; `None`
    /// where other machines are measured.
    fn cpus(&self) -> Option<(usize, CpuList)> {
        None
    }

    /// What is worth knowing of its placement before anything is measured.
    fn warnings(&self) -> Vec<String>;

    /// What its machine under test is made of, as it is now; `images` are those that trials will
    /// need. Rigs that are built afterwards are refused where that has changed.
    ///
    /// # Errors
    /// When a file cannot be read.
    fn material(&self, _images: &[&Image], _reader: &Reader<'_>) -> Result<Material, TestbedError> {
        Ok(Material::default())
    }

    /// Makes the next rig one for this series, as `spec` has the testbed for it: what is different
    /// from series to series is placement, the DUT's image, VLAN tags.
    ///
    /// # Errors
    /// When it was made for another kind, or this machine lacks what is asked for.
    fn prepare(&self, _series: &Series, _spec: &TestbedSpec) -> Result<(), TestbedError> {
        Ok(())
    }

    /// Makes the next rig take a profile of the DUT while it measures, on testbeds that can.
    fn profile_next(&self) {}

    /// Whether one trial may fail on it and the next one succeed: its parts are machines of their
    /// own. A trial that fails is then `invalid`, and the campaign goes on.
    fn outlives_failures(&self) -> bool {
        false
    }

    /// Whether this machine was awake since the last rig was built, where that is not certain: one
    /// that was suspended has missed what the others did.
    fn awake(&self) -> Option<Check> {
        None
    }

    /// Builds a rig from nothing.
    ///
    /// # Errors
    /// When a part of it cannot be made; what was made is removed again.
    fn build(&self, topology: Topology) -> Result<Box<dyn Rig>, TestbedError>;

    /// What a build that failed has left to be read. To be called after every failure.
    fn take_traces(&self) -> Traces {
        Traces::default()
    }
}

/// What a trial leaves to be read, whether it succeeded or not.
#[derive(Debug, Default)]
pub struct Traces {
    /// Commands that ran on hosts, one in a line.
    pub host_log: String,
    /// Files to keep.
    pub artefacts: Vec<(String, Vec<u8>)>,
}

impl Traces {
    /// Removes and returns those of a host.
    fn take_from(host: &dyn Host) -> Self {
        Self { host_log: host.take_log(), artefacts: host.take_artefacts() }
    }

    /// Adds those that came later.
    pub fn append(&mut self, later: Self) {
        self.host_log.push_str(&later.host_log);
        self.artefacts.extend(later.artefacts);
    }
}

/// What machines did while packets were sent.
#[derive(Debug, Default)]
pub struct Machines {
    /// The DUT's machine, or the one that carries all; `None` where nobody looks.
    pub dut: Option<MachineUse>,
    /// The others, by their names.
    pub others: BTreeMap<String, MachineUse>,
    /// CPU time of the DUT; `None` where its system does not tell, and without a DUT.
    pub dut_time: Option<DutTime>,
}

/// What lies between generator and sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    Dut,
    /// Nothing: the calibration.
    Direct,
}

/// One freshly built testbed.
pub trait Rig {
    /// The DUT's host; `None` in [`Topology::Direct`].
    fn dut_host(&self) -> Option<&dyn Host>;

    /// Gets generator and sink ready for a traffic.
    ///
    /// # Errors
    /// When they cannot make or count it.
    fn load(&mut self, traffic: &Traffic) -> Result<(), TestbedError>;

    /// Waits until the kernel has cleared away what many short runs have left, which would take the
    /// CPUs of the next one.
    fn settle(&self) {}

    /// Waits until its host has put the CPUs of a virtual machine where they are to be, in a run
    /// that is to wait for a quiet host.
    fn wait_for_host(&self) {}

    /// Starts the generators, or the one that is asked for.
    ///
    /// # Errors
    /// When one cannot run.
    fn start(&mut self, burst: Burst) -> Result<(), TestbedError>;

    /// The measurement begins, and takes so long.
    ///
    /// # Errors
    /// When what is to accompany it cannot be started.
    fn measuring(&mut self, _duration: Duration) -> Result<(), TestbedError> {
        Ok(())
    }

    /// Whether it can begin a run with any packet of the traffic, and [`Rig::arrived_packets`] are
    /// those of the moment.
    fn sends_parts(&self) -> bool {
        false
    }

    /// Whether it can send as fast as packets arrive, with no more under way than fit into a ring
    /// ([`Burst::in_window`]).
    fn has_window(&self) -> bool {
        false
    }

    /// Packets of the traffic that have arrived, whichever port they left the DUT by.
    ///
    /// # Errors
    /// When they cannot be read.
    fn arrived_packets(&self) -> Result<u64, TestbedError> {
        Ok(self.reading()?.rx_packets)
    }

    /// Whether the generator has sent all that the burst's limit allows.
    fn finished(&self) -> bool;

    /// Stops the generator and waits until it stands still.
    ///
    /// # Errors
    /// When it failed while it ran.
    fn stop(&mut self) -> Result<(), TestbedError>;

    /// A quick reading for samples.
    ///
    /// # Errors
    /// When a counter cannot be read.
    fn reading(&self) -> Result<Reading, TestbedError>;

    /// The same for each direction, in the order of [`Accounting::directions`]; a single one where
    /// that names none.
    ///
    /// # Errors
    /// As [`Rig::reading`].
    fn readings(&self) -> Result<Vec<Reading>, TestbedError> {
        Ok(vec![self.reading()?])
    }

    /// What the DUT has done, read quickly while packets are sent.
    ///
    /// # Errors
    /// When it cannot be read, or the testbed does not see the DUT's threads.
    fn dut_moment(&self) -> Result<DutMoment, TestbedError> {
        Err(TestbedError::new("this kind does not see the threads of its DUT"))
    }

    /// Every counter of the testbed: generator, devices, sink.
    ///
    /// # Errors
    /// When one cannot be read.
    fn counters(&self) -> Result<Counters, TestbedError>;

    /// How its counters account for a packet's way.
    fn accounting(&self) -> Accounting;

    /// What the sink has received by its own clock between two moments of this one; none where the
    /// readings of [`Rig::reading`] are as good.
    fn recorded(&self, _from: Instant, _to: Instant) -> Option<Vec<Reading>> {
        None
    }

    /// Removes and returns what its hosts have left to be read so far.
    fn take_traces(&self) -> Traces {
        self.dut_host().map(Traces::take_from).unwrap_or_default()
    }

    /// What to look at when no packet got through, from how far they came.
    fn advice(&self, _ledger: &Ledger) -> Option<String> {
        None
    }

    /// Makes the sink measure the one-way latency of every packet, instead of counting them only:
    /// until [`Rig::observed`] there are neither readings nor counters.
    ///
    /// # Errors
    /// When it cannot.
    fn observe(&mut self) -> Result<(), TestbedError>;

    /// Ends that, and returns what was measured. Counters of the sink begin anew.
    ///
    /// # Errors
    /// When the sink did not measure latency, or cannot be read.
    fn observed(&mut self) -> Result<Observed, TestbedError>;

    /// Checks that the testbed still is as it was built.
    ///
    /// # Errors
    /// When it cannot be looked at.
    fn checks(&self) -> Result<Vec<Check>, TestbedError>;

    /// What its machines did during the last run of the generator.
    fn machines(&self) -> Machines {
        Machines::default()
    }

    /// Takes everything down and puts back what was changed.
    ///
    /// # Errors
    /// When something could not be removed.
    fn teardown(self: Box<Self>) -> Result<(), TestbedError>;
}

/// A run of the generators.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Rate of each generator, total over its threads.
    pub rate: Rate,
    /// Rate of each that sends against the traffic's direction.
    pub reverse_rate: Rate,
    /// Each stops after so many packets; absent: run until stopped.
    pub packet_limit: Option<u64>,
    /// The number of the first packet of each: runs that are parts of one go on with the traffic.
    pub first_packet: u64,
    /// The only one that sends, among the traffic's senders; absent: all of them.
    pub sender: Option<usize>,
    /// Whether no more packets are under way than fit into a ring, at whatever rate that gives.
    pub in_window: bool,
    /// Whether it is the measurement: what else the machine does meanwhile is looked at.
    pub is_measured: bool,
}

impl Burst {
    /// A run of all generators at one rate, which is not the measurement.
    #[must_use]
    pub fn new(rate: Rate, packet_limit: Option<u64>) -> Self {
        Self {
            rate,
            reverse_rate: rate,
            packet_limit,
            first_packet: 0,
            sender: None,
            in_window: false,
            is_measured: false,
        }
    }

    /// The measurement of a traffic, without end.
    #[must_use]
    pub(crate) fn of(traffic: &Traffic) -> Self {
        let reverse = traffic.senders.reverse.as_ref();
        let reverse_rate = reverse.map_or(traffic.rate, |reverse| reverse.rate);
        Self { reverse_rate, is_measured: true, ..Self::new(traffic.rate, None) }
    }

    /// The rate of the generator at a port.
    #[must_use]
    pub(crate) fn rate_of(&self, port: u16) -> Rate {
        if port.is_multiple_of(2) { self.rate } else { self.reverse_rate }
    }
}

/// What a DUT has done until a moment, while packets are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DutMoment {
    /// CPU time of its threads.
    pub run_ns: u64,
    /// Packets that it has received.
    pub received_packets: u64,
    /// The counts at generator and sink.
    pub reading: Reading,
}

/// What a sink has seen that looks at every packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Packets of the traffic that arrived.
    pub packets: u64,
    /// How long those took that were measured.
    pub delays: Delays,
    /// The same of each direction, where there are several.
    pub directions: Vec<Observed>,
}

/// What went wrong with a testbed.
#[derive(Debug, thiserror::Error)]
#[error("testbed: {what}")]
pub struct TestbedError {
    /// What was tried, why it failed, what to do.
    pub what: String,
    /// What it means for the campaign.
    pub scope: Scope,
    /// The field of `[testbed]` that asks for what cannot be had.
    pub field: Option<&'static str>,
}

/// How far an error reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// No trial can run.
    Campaign,
    /// The trial is void; the next one may run.
    Trial,
}

impl TestbedError {
    /// An error with its text.
    pub fn new(what: impl std::fmt::Display) -> Self {
        Self { what: what.to_string(), scope: Scope::Campaign, field: None }
    }

    /// An error about a field of `[testbed]`.
    pub(crate) fn of(field: &'static str, what: impl std::fmt::Display) -> Self {
        Self { field: Some(field), ..Self::new(what) }
    }

    /// An error that voids one trial: something ended that should not have, or did not answer.
    pub(crate) fn voids_trial(what: impl std::fmt::Display) -> Self {
        Self { scope: Scope::Trial, ..Self::new(what) }
    }
}
