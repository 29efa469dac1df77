//! The testbed kind `netns`: generator, DUT and sink in three network namespaces of this host.
//!
//! ```text
//!   weir-<id>-gen         weir-<id>-dut             weir-<id>-sink
//!   gen0 ───────────────► dut0   (DUT)   dut1 ────► sink0        with a DUT
//!   gen0 ─────────────────────────────────────────► sink0        calibration
//! ```
//!
//! Traffic in both directions has a generator and a sink at either end. Further links (`gen1`,
//! `dut2`, `dut3`, `sink1`) lie beside the first, in the same three namespaces. Where the traffic
//! has VLAN tags, the DUT's ports have VLAN devices (`dut0.100`, `dut1.100`), which the addresses
//! are on; what it sends has the same tags.
//!
//! A DUT may be two firewalls, which then are beside each other ([`boxes`]).
//!
//! Addresses are out of the benchmarking ranges (RFC 2544 and RFC 5180): the links take the first
//! network of each side, the streams may use the rest. Neighbours are static, so that no ARP or
//! neighbour discovery mixes with the traffic. The DUT's interfaces have threaded NAPI, pinned to
//! the DUT's CPUs; the generator has its own. With receive side scaling, a program where packets
//! leave for the DUT chooses the queue that they arrive on, as a card would; generators then send
//! through the stack, because what XDP sends comes by no such program. Everything is made anew for
//! each trial, is recorded before it is made, and is removed with its namespaces.
//!
//! This module changes nothing outside the namespaces that it made, but for the settings that the
//! specification asks for and that only the whole host has; those are put back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_machine::cancel::Cancel;
use weir_net::CpuList;
use weir_results::dut::Backup;
use weir_results::matrix::Series;
use weir_wire::vlan::Tag;

use super::{Rig, Testbed, TestbedError, Topology};
use crate::model::{NetnsSpec, TestbedSpec};

mod accounts;
mod boxes;
mod ends;
mod exclusive;
mod host;
mod host_wide;
mod http;
pub(super) mod layout;
mod nearness;
mod pair;
pub(super) mod parts;
pub(super) mod placement;
pub(super) mod rig;
pub(super) mod sink;
pub(super) mod source;
pub(super) mod watch;
pub(super) mod wiring;

use exclusive::Exclusive;
use host_wide::HostWide;
pub(crate) use http::CONNECT_RATE_CPS;
use nearness::Nearness;
use parts::Parts;
use placement::Placement;
use rig::NetnsRig;

/// The testbed: where its parts are placed.
#[derive(Debug)]
pub struct NetnsTestbed {
    /// Every way in which it was to be built so far, and which of them is the next rig's.
    setups: RefCell<Vec<Rc<Setup>>>,
    next: Cell<usize>,
    /// VLAN tags of the next rig's traffic.
    tags: RefCell<Vec<Tag>>,
    /// The second firewall of the next rig's DUT.
    backup: Cell<Option<Backup>>,
    /// Whether trials wait for CPUs that are near each other.
    waits: bool,
    cancel: Cancel,
    // Put back before another lab may begin.
    _host_wide: HostWide,
    _exclusive: Exclusive,
}

/// One way to build it.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) spec: NetnsSpec,
    pub(super) placement: Placement,
    nearness: Rc<Nearness>,
}

impl Setup {
    fn new(spec: &NetnsSpec, waits: bool) -> Result<Self, TestbedError> {
        let placement = Placement::choose(spec)?;
        let cpus = [placement.generator.first(), placement.napi.first()];
        let nearness = Rc::new(Nearness::new(cpus, waits));
        Ok(Self { spec: spec.clone(), placement, nearness })
    }

    fn environment(&self) -> Value {
        let Placement { generator, dut, sink, napi, rps, .. } = &self.placement;
        json!({
            "kind": "netns",
            "generator_cpus": generator.to_string(),
            "dut_cpus": dut.to_string(),
            "sink_cpus": sink.as_ref().map(ToString::to_string),
            "napi_cpus": napi.to_string(),
            "rps_cpus": rps.as_ref().map(ToString::to_string),
            "sink_placement": match sink {
                Some(_) => "NAPI threads of its own",
                None => "on the CPU that delivers: the sink's work is part of the DUT's CPU time",
            },
            "cpu_siblings": self.placement.siblings(),
            "queues": self.spec.queues,
            "rss": self.spec.rss,
            "links": self.spec.links,
            "mtu_bytes": self.spec.mtu_bytes,
        })
    }
}

impl NetnsTestbed {
    /// A testbed on this host's CPUs, which are its own as long as it lives. Commands of the DUT
    /// are killed when `cancel` asks to stop. For another lab to end it waits as long as `wait`;
    /// with any such time, trials wait for CPUs that are near each other.
    ///
    /// # Errors
    /// When the CPUs that were asked for are not there, there are too few, another lab measures on
    /// this host, or one of its settings cannot be changed.
    pub fn new(spec: &NetnsSpec, wait: Duration, cancel: Cancel) -> Result<Self, TestbedError> {
        let waits = !wait.is_zero();
        let setup = Setup::new(spec, waits)?;
        let exclusive = Exclusive::take(wait, &cancel)?;
        let host_wide = HostWide::set(spec)?;
        Ok(Self {
            setups: RefCell::new(vec![Rc::new(setup)]),
            next: Cell::new(0),
            tags: RefCell::default(),
            backup: Cell::new(None),
            waits,
            cancel,
            _host_wide: host_wide,
            _exclusive: exclusive,
        })
    }
}

/// Which of this host's CPUs do what, as the environment of a store has it.
///
/// # Errors
/// As [`NetnsTestbed::new`]: the CPUs that are asked for are not there, or there are too few.
pub fn placement(spec: &NetnsSpec) -> Result<Value, TestbedError> {
    Ok(Setup::new(spec, false)?.environment())
}

impl NetnsTestbed {
    /// How the next rig is built.
    pub(super) fn setup(&self) -> Rc<Setup> {
        Rc::clone(&self.setups.borrow()[self.next.get()])
    }

    /// Builds the next rigs in this way.
    pub(super) fn place_as(&self, spec: &NetnsSpec) -> Result<(), TestbedError> {
        let mut setups = self.setups.borrow_mut();
        let known = setups.iter().position(|setup| setup.spec == *spec);
        self.next.set(match known {
            Some(index) => index,
            None => {
                setups.push(Rc::new(Setup::new(spec, self.waits)?));
                setups.len() - 1
            }
        });
        Ok(())
    }

    fn rig(&self, topology: Topology) -> Result<NetnsRig, TestbedError> {
        let setup = self.setup();
        let tags = self.tags.borrow().clone();
        let parts = Parts::create(topology, &setup.spec, tags, self.backup.get())?;
        NetnsRig::new(parts, (&setup.placement, &setup.nearness), &self.cancel)
    }
}

impl Testbed for NetnsTestbed {
    fn environment(&self) -> Value {
        // What the devices really are set to is only seen once they are there.
        let devices = match self.rig(Topology::Dut) {
            Ok(rig) => {
                let settings = rig.settings();
                match Box::new(rig).teardown() {
                    Ok(()) => settings,
                    Err(error) => error.what.into(),
                }
            }
            Err(error) => error.what.into(),
        };
        let mut environment = self.setup().environment();
        environment["devices"] = devices;
        let setups = self.setups.borrow();
        if setups.len() > 1 {
            environment["places"] = setups.iter().map(|setup| setup.environment()).collect();
        }
        environment
    }

    fn cpus(&self) -> Option<(usize, CpuList)> {
        let setups = self.setups.borrow();
        let placements = setups.iter().map(|setup| &setup.placement);
        let cpus = placements.flat_map(|Placement { generator, dut, sink, .. }| {
            generator.iter().chain(dut.iter()).chain(sink.iter().flat_map(CpuList::iter))
        });
        Some((setups.first()?.placement.dut.first(), CpuList::new(cpus)?))
    }

    fn warnings(&self) -> Vec<String> {
        let setups = self.setups.borrow();
        setups.iter().filter_map(|setup| setup.placement.warning()).collect()
    }

    fn prepare(&self, series: &Series, spec: &TestbedSpec) -> Result<(), TestbedError> {
        // All streams of a traffic have the same.
        let streams = series.traffic.streams.specs();
        self.backup.set(series.dut.kind.backup());
        *self.tags.borrow_mut() = streams.first().map_or_else(Vec::new, |(s, _)| s.tags.clone());
        match spec {
            TestbedSpec::Netns(spec) => self.place_as(spec),
            other => Err(TestbedError::new(format!("it is not of the kind {}", other.kind()))),
        }
    }

    fn build(&self, topology: Topology) -> Result<Box<dyn Rig>, TestbedError> {
        Ok(Box::new(self.rig(topology)?))
    }
}
