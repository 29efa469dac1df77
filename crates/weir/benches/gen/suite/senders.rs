//! Who sends: weir's generator, and a program that redirects one fixed frame.
//!
//! [`stream`], [`generator`] and [`options`] are what the benchmark knows of weir-gen's streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_gen::backend::{Backend, RunOptions};
use weir_gen::live::LiveGenerator;
use weir_net::private::PrivateNetns;
use weir_net::{Netlink, VethEnd, cpu};
use weir_oracle::bench::FixedSender;
use weir_wire::mac::MacAddr;
use weir_wire::stream::{StreamFrames, StreamSpec};
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

use super::Result;
use super::bed::{Bed, SENDER_CPU, one_cpu};

/// Sources and destinations of the streams.
pub(crate) const RANGES_4900: [&str; 2] =
    ["198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.70"];
pub(crate) const RANGES_5M: [&str; 2] =
    ["198.18.0.1:2000-198.18.7.208", "198.19.0.1:2000-198.19.9.196"];

pub(crate) const SOURCE_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
pub(crate) const DESTINATION_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// Name of the threads that send here.
pub(crate) const THREAD_NAME: &str = "bench-sender";

/// Packets of a call and of a batch: as the generator's own, so that all pay the same for calls.
const CALL_PACKETS: u32 = 1 << 16;
const BATCH_PACKETS: u32 = 64;

/// Something that sends until it is stopped.
pub(crate) trait Sender {
    /// Starts to send.
    fn start(&mut self) -> Result<()>;

    /// Stops, and says what went wrong while it sent.
    fn stop(&mut self) -> Result<()>;
}

/// UDP over IPv4 in frames of 60 bytes, over all combinations of two ranges.
pub(crate) fn stream(ranges: [&str; 2]) -> Result<StreamSpec> {
    let [src, dst] = [ranges[0].parse()?, ranges[1].parse()?];
    Ok(StreamSpec::new(SOURCE_MAC, DESTINATION_MAC, src, dst))
}

/// weir's generator for a stream, with a thread on each of the CPUs.
pub(crate) fn generator(bed: &Bed, spec: &StreamSpec, cpus: &[u32]) -> Result<LiveGenerator> {
    let traffic = Traffic::one(spec.clone())?;
    let ifindex = bed.out_ifindex()?;
    Ok(bed.sender().run(|| LiveGenerator::with_private_park(&traffic, ifindex, cpus))??)
}

/// A run until it is stopped.
pub(crate) fn options(rate: Rate) -> RunOptions {
    RunOptions {
        rate,
        ramp: Duration::ZERO,
        packet_limit: None,
        first_sequence: 0,
        timestamps: true,
    }
}

/// The first frame of a stream.
pub(crate) fn first_frame(ranges: [&str; 2]) -> Result<Vec<u8>> {
    Ok(StreamFrames::new(stream(ranges)?)?.build(0))
}

impl Sender for LiveGenerator {
    fn start(&mut self) -> Result<()> {
        Ok(Backend::start(self, options(Rate::Max))?)
    }

    fn stop(&mut self) -> Result<()> {
        Backend::stop(self)?;
        Ok(())
    }
}

/// A thread on [`SENDER_CPU`] that does one thing over and over.
#[derive(Debug)]
struct Loop {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Loop {
    fn start(job: impl Fn() -> Result<()> + Send + 'static) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(THREAD_NAME.into()).spawn(move || {
            cpu::pin_current_thread(&one_cpu(SENDER_CPU)?)?;
            while !stopped.load(Ordering::Relaxed) {
                job()?;
            }
            Ok(())
        })?;
        Ok(Self { stop, thread })
    }

    fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the thread of a sender panicked")?
    }
}

/// The least that can be sent: one frame, never written to.
#[derive(Debug)]
pub(crate) struct Fixed {
    sender: Arc<FixedSender>,
    frame: Vec<u8>,
    running: Option<Loop>,
    _park: PrivateNetns,
}

impl Fixed {
    pub(crate) fn new(bed: &Bed) -> Result<Self> {
        let park = PrivateNetns::create()?;
        let sender =
            park.run(|| -> Result<FixedSender> { Ok(FixedSender::load(park_link()?)?) })??;
        let ifindex = bed.out_ifindex()?;
        bed.sender().run(|| sender.connect(ifindex))??;
        let frame = first_frame(RANGES_4900)?;
        Ok(Self { sender: Arc::new(sender), frame, running: None, _park: park })
    }
}

impl Sender for Fixed {
    fn start(&mut self) -> Result<()> {
        let (sender, frame) = (Arc::clone(&self.sender), self.frame.clone());
        self.running =
            Some(Loop::start(move || Ok(sender.run(&frame, CALL_PACKETS, BATCH_PACKETS)?))?);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.running.take().map_or(Ok(()), Loop::stop)
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.stop();
    }
}

/// Makes the idle pair on which a program is parked, and returns the index of one end.
fn park_link() -> Result<u32> {
    let netlink = Netlink::open()?;
    netlink.create_veth(&VethEnd::new("park"), &VethEnd::new("park-peer"), 1)?;
    Ok(netlink.ifindex("park")?)
}
