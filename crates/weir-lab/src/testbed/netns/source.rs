//! A generator of a testbed on this host: threads that send from a device of its namespace.
//!
//! It reports what all of its runs have offered, never what was accepted: devices count that.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_bpf::generator::GeneratorCounters;
use weir_gen::backend::{Backend, RunOptions};
use weir_gen::live::LiveGenerator;
use weir_gen::packet::PacketGenerator;
use weir_gen::window::Window;
use weir_net::Netns;
use weir_results::traffic::Streams;
use weir_wire::describe::Macs;
use weir_wire::mac::MacAddr;
use weir_wire::units::Rate;

use super::layout::{Leaving, PARK_DEVICES, Port};
use super::wiring::{ifindex, inside};
use crate::testbed::{Burst, TestbedError};

/// A generator at a port.
pub(in crate::testbed) struct Source {
    generator: Option<Box<dyn Backend>>,
    leaving: Leaving,
    thread_count: usize,
    device: &'static str,
    mac: MacAddr,
    /// The device in its namespace that keeps its program attached; absent: it makes one itself.
    park_device: Option<&'static str>,
    /// What finished runs have offered; the generator counts each run from zero.
    offered_before: Offered,
    /// Whether a run is under way whose packets are not in `offered_before` yet.
    running: bool,
}

/// What was handed to the device.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::testbed) struct Offered {
    pub(in crate::testbed) packets: u64,
    bytes: u64,
    /// Times that the pacer fell behind its catch-up limit, and what it gave up then.
    stalls: u64,
    stall_lost_ns: u64,
}

impl Offered {
    fn add(&mut self, run: &GeneratorCounters) {
        self.packets += run.offered_packets;
        self.bytes += run.offered_bytes;
        self.stalls += run.stalls;
        self.stall_lost_ns += run.stall_lost_ns;
    }

    /// The counts by name.
    pub(in crate::testbed) fn named(&self) -> BTreeMap<String, u64> {
        [
            ("offered_packets", self.packets),
            ("offered_bytes", self.bytes),
            ("stalls", self.stalls),
            ("stall_lost_ns", self.stall_lost_ns),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

impl Source {
    /// The generator opposite a port, without traffic. The first port's has the parking device of
    /// its namespace.
    pub(in crate::testbed) fn new(number: u16, port: &Port, leaving: Leaving) -> Self {
        Self {
            generator: None,
            leaving,
            thread_count: 0,
            device: port.device,
            mac: MacAddr(port.mac),
            park_device: (number == 0).then_some(PARK_DEVICES[0]),
            offered_before: Offered::default(),
            running: false,
        }
    }

    /// Gets ready to send streams from the namespace's device to `next_hop`, by a thread on each of
    /// `cpus`.
    pub(in crate::testbed) fn load(
        &mut self,
        netns: &Netns,
        streams: &Streams,
        next_hop: [u8; 6],
        cpus: &[u32],
    ) -> Result<(), TestbedError> {
        let macs = Macs { src: self.mac, dst: MacAddr(next_hop) };
        let stream = streams.with_macs(macs).map_err(TestbedError::new)?;
        // The one before has the parking device.
        self.generator = None;
        self.thread_count = cpus.len();
        let (device, park_device) = (self.device, self.park_device);
        self.generator = Some(match self.leaving {
            Leaving::Xdp => Box::new(inside(netns, || {
                let out = ifindex(device)?;
                match park_device {
                    Some(park) => LiveGenerator::new(&stream, out, ifindex(park)?, cpus),
                    None => LiveGenerator::with_private_park(&stream, out, cpus),
                }
                .map_err(|e| e.to_string())
            })?),
            Leaving::Stack => Box::new(inside(netns, || {
                PacketGenerator::through_stack(&stream, ifindex(device)?, cpus)
                    .map_err(|e| e.to_string())
            })?),
        });
        Ok(())
    }

    /// Whether its packets can be kept within a window.
    pub(in crate::testbed) fn has_window(&self) -> bool {
        self.thread_count == 1 && matches!(self.leaving, Leaving::Xdp)
    }

    /// Starts a run, at the rate of the generator at a port, or within a window.
    pub(in crate::testbed) fn start(
        &mut self,
        burst: &Burst,
        port: u16,
        window: Option<Window>,
    ) -> Result<(), TestbedError> {
        let rate = if window.is_some() { Rate::Max } else { burst.rate_of(port) };
        let options = RunOptions {
            rate,
            ramp: Duration::ZERO,
            packet_limit: burst.packet_limit,
            first_sequence: burst.first_packet,
            timestamps: true,
        };
        let generator = self.generator()?;
        match window {
            Some(window) => generator.start_within(options, &window),
            None => generator.start(options),
        }
        .map_err(TestbedError::new)?;
        self.running = true;
        Ok(())
    }

    /// Whether nothing is being sent any more.
    pub(in crate::testbed) fn finished(&self) -> bool {
        !self.generator.as_ref().is_some_and(|generator| generator.is_running())
    }

    /// Ends a run, if one is under way.
    pub(in crate::testbed) fn stop(&mut self) -> Result<(), TestbedError> {
        if !self.running {
            return Ok(());
        }
        let report = self.generator()?.stop().map_err(TestbedError::new)?;
        self.running = false;
        self.offered_before.add(&report.counters);
        Ok(())
    }

    /// What all runs have offered so far.
    pub(in crate::testbed) fn offered(&self) -> Result<Offered, TestbedError> {
        let mut offered = self.offered_before;
        if let Some(generator) = self.generator.as_ref().filter(|_| self.running) {
            let now = generator.counters().map_err(TestbedError::new)?;
            offered.add(&now);
        }
        Ok(offered)
    }

    fn generator(&mut self) -> Result<&mut (dyn Backend + 'static), TestbedError> {
        self.generator.as_deref_mut().ok_or_else(|| TestbedError::new("no traffic is loaded"))
    }
}
