//! Where a trial runs: generator, DUT host, sink and the links between them.
//!
//! A [`Testbed`] builds a fresh [`Rig`] for every trial, as a lab reboots its box between runs. A
//! rig offers traffic, reads counters and says which of them are the counting points of a
//! packet's way; it never knows what kind of DUT it carries, and never judges.

use std::time::Duration;

use weir_gen::units::Rate;

use crate::counters::{Counters, DropRule, PointRule};
use crate::host::Host;
use crate::model::Traffic;
use crate::record::{Check, Delays, MachineUse};

pub mod netns;

/// A kind of place where trials run.
pub trait Testbed {
    /// What belongs into `env.json`: placement, queues, devices, offloads.
    fn environment(&self) -> serde_json::Value;

    /// What is worth knowing of its placement before anything is measured.
    fn warnings(&self) -> Vec<String>;

    /// Builds a rig from nothing.
    ///
    /// # Errors
    /// When a part of it cannot be made; what was made is removed again.
    fn build(&self, topology: Topology) -> Result<Box<dyn Rig>, TestbedError>;
}

/// What lies between generator and sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A DUT.
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

    /// Starts the generator.
    ///
    /// # Errors
    /// When it cannot run.
    fn start(&mut self, burst: Burst) -> Result<(), TestbedError>;

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

    /// Every counter of the testbed: generator, devices, sink.
    ///
    /// # Errors
    /// When one cannot be read.
    fn counters(&self) -> Result<Counters, TestbedError>;

    /// Counting points in the order of a packet's way.
    fn points(&self) -> Vec<PointRule>;

    /// Named losses that the testbed's counters show.
    fn drops(&self) -> Vec<DropRule>;

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

    /// What the machine did during the last run of the generator; `None` where nobody looks.
    fn machine(&self) -> Option<MachineUse> {
        None
    }

    /// Takes everything down and puts back what was changed.
    ///
    /// # Errors
    /// When something could not be removed.
    fn teardown(self: Box<Self>) -> Result<(), TestbedError>;
}

/// A run of the generator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Rate, total.
    pub rate: Rate,
    /// Stop after so many packets; absent: run until stopped.
    pub packet_limit: Option<u64>,
}

/// Cumulative counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic clock.
    pub t_ns: u64,
    /// Packets of the traffic that arrived at the sink.
    pub rx_packets: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Packets that the generator has offered.
    pub tx_packets: u64,
}

/// What a sink has seen that looks at every packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observed {
    /// Packets of the traffic that arrived.
    pub packets: u64,
    /// How long those took that were measured.
    pub delays: Delays,
}

/// What went wrong with a testbed.
#[derive(Debug, thiserror::Error)]
#[error("testbed: {what}")]
pub struct TestbedError {
    /// What was tried, why it failed, what to do.
    pub what: String,
}

impl TestbedError {
    /// An error with its text.
    pub fn new(what: impl std::fmt::Display) -> Self {
        Self { what: what.to_string() }
    }
}

/// How long a process of the DUT is given to end before it is killed.
pub const STOP_PATIENCE: Duration = Duration::from_secs(2);
