//! The testbed kind `netns`: generator, DUT and sink in three network namespaces of this host.
//!
//! ```text
//!   weir-<id>-gen         weir-<id>-dut             weir-<id>-sink
//!   gen0 ───────────────► dut0   (DUT)   dut1 ────► sink0        with a DUT
//!   gen0 ─────────────────────────────────────────► sink0        calibration
//! ```
//!
//! Addresses are out of the benchmarking ranges (RFC 2544 and RFC 5180): the links take the first
//! network of each side, the streams may use the rest. Neighbours are static, so that no ARP or
//! neighbour discovery mixes with the traffic. The DUT's interfaces have threaded NAPI, pinned to
//! the DUT's CPUs; the generator has its own. Everything is made anew for each trial, is recorded
//! before it is made, and is removed with its namespaces.
//!
//! This module never changes anything outside the namespaces that it made.

use serde_json::{Value, json};

use super::{Rig, Testbed, TestbedError, Topology};
use crate::model::NetnsSpec;

mod host;
mod layout;
mod parts;
mod placement;
mod rig;

use parts::Parts;
use placement::Placement;

/// The testbed: where its parts are placed.
#[derive(Debug, Clone)]
pub struct NetnsTestbed {
    placement: Placement,
    queues: u32,
}

impl NetnsTestbed {
    /// A testbed on this host's CPUs.
    ///
    /// # Errors
    /// When the CPUs that were asked for are not there, or there are too few.
    pub fn new(spec: &NetnsSpec) -> Result<Self, TestbedError> {
        Ok(Self { placement: Placement::choose(spec)?, queues: spec.queues })
    }
}

impl Testbed for NetnsTestbed {
    fn environment(&self) -> Value {
        json!({
            "kind": "netns",
            "generator_cpus": self.placement.generator.to_string(),
            "dut_cpus": self.placement.dut.to_string(),
            "sink_cpus": self.placement.sink.as_ref().map(ToString::to_string),
            "sink_placement": match self.placement.sink {
                Some(_) => "NAPI threads of its own",
                None => "on the CPU that delivers: the sink's work is part of the DUT's CPU time",
            },
            "device": {
                "driver": "veth",
                "queues": self.queues,
                "mtu_bytes": layout::MTU_BYTES,
                "napi": "threaded, pinned to the CPUs above",
                "offloads": "generic receive offload on at the DUT: it gives a veth its NAPI",
            },
        })
    }

    fn build(&self, topology: Topology) -> Result<Box<dyn Rig>, TestbedError> {
        let parts = Parts::create(topology, self.queues)?;
        Ok(Box::new(rig::NetnsRig::new(parts, &self.placement)?))
    }
}
