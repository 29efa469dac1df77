//! Sends traffic through packet sockets (packet(7)), for devices without XDP: slower than
//! [`crate::live`] by an order of magnitude, the same frames.
//!
//! Each thread makes its frames in a ring that it shares with the kernel, and hands them over in
//! batches of one system call. A device without room makes it wait and try again; what the device
//! took is what is *offered*. On a device without a queue (a veth) even that may be dropped behind
//! the call: the device counts it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_bpf::generator::GeneratorCounters;
use weir_bpf::packet::{FRAME_BYTES_MAX, PacketError, PacketRing, Path};
use weir_net::Netlink;

use crate::backend::{BATCH_FRAMES, Backend, GeneratorReport, Part, RunOptions};
use crate::clock;
use crate::error::GeneratorError;
use crate::frames::Frames;
use crate::pacing::Pacer;
use crate::preflight::frame_bytes_max;
use crate::replay::{Replay, ReplayTiming};
use crate::user_space::{Progress, Runs, ThreadProgress};
use crate::workers::{Work, check_cpus};
use weir_wire::traffic::Traffic;

/// Frames in one system call.
const BATCH: u64 = BATCH_FRAMES as u64;

/// A sleep is late by about this much, so that it is spun for the last of it.
const SLEEP_LATE: Duration = Duration::from_micros(80);

/// The longest sleep, after which a thread looks whether it has to stop.
const SLEEP_MAX: Duration = Duration::from_millis(10);

/// How long a thread waits for a full device before it looks whether it has to stop.
const FULL_WAIT: Duration = Duration::from_millis(1);

/// The generator: sockets open, ready to run.
#[derive(Debug)]
pub struct PacketGenerator {
    frames: Arc<Frames>,
    cpus: Vec<u32>,
    /// One for each thread, which holds it while it runs.
    rings: Arc<Vec<Mutex<PacketRing>>>,
    runs: Runs,
}

impl PacketGenerator {
    /// Opens a socket for each of `cpus` on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`GeneratorError`] if the traffic cannot be sent, or without privileges.
    pub fn new(traffic: &Traffic, ifindex_out: u32, cpus: &[u32]) -> Result<Self, GeneratorError> {
        Self::by_path(traffic, ifindex_out, cpus, Path::Direct)
    }

    /// As [`PacketGenerator::new`], through what is attached to the interface's egress side and
    /// through its queueing discipline: for an interface whose queues are chosen there.
    ///
    /// # Errors
    /// As [`PacketGenerator::new`].
    pub fn through_stack(
        traffic: &Traffic,
        ifindex_out: u32,
        cpus: &[u32],
    ) -> Result<Self, GeneratorError> {
        Self::by_path(traffic, ifindex_out, cpus, Path::Stack)
    }

    fn by_path(
        traffic: &Traffic,
        ifindex_out: u32,
        cpus: &[u32],
        path: Path,
    ) -> Result<Self, GeneratorError> {
        check_cpus(cpus)?;
        Self::with(Frames::Streams(traffic.set(cpus.len())?), ifindex_out, cpus, path)
    }

    /// Opens a socket for a replay, which is sent from `cpu`: several threads would lose the order.
    ///
    /// # Errors
    /// [`GeneratorError`] if a frame is too large, or without privileges.
    pub fn replay(
        replay: Arc<Replay>,
        timing: ReplayTiming,
        ifindex_out: u32,
        cpu: u32,
    ) -> Result<Self, GeneratorError> {
        Self::with(Frames::Replay(replay, timing), ifindex_out, &[cpu], Path::Direct)
    }

    fn with(
        frames: Frames,
        ifindex: u32,
        cpus: &[u32],
        path: Path,
    ) -> Result<Self, GeneratorError> {
        let size_bytes = frames.size_bytes_max();
        check_size(ifindex, size_bytes)?;
        let open = |_| {
            let ring = PacketRing::open(ifindex, size_bytes, path);
            ring.map(Mutex::new).map_err(|source| GeneratorError::Socket { ifindex, source })
        };
        let rings: Result<Vec<_>, _> = cpus.iter().map(open).collect();
        Ok(Self {
            frames: Arc::new(frames),
            cpus: cpus.to_vec(),
            rings: Arc::new(rings?),
            runs: Runs::default(),
        })
    }
}

/// Refuses frames that the interface does not take: the kernel leaves that to the device.
fn check_size(ifindex: u32, size_bytes: usize) -> Result<(), GeneratorError> {
    let looked = Netlink::open().and_then(|netlink| netlink.links());
    let links = looked.map_err(|source| GeneratorError::Interface { ifindex, source })?;
    let mtu = links.iter().find(|link| link.ifindex == ifindex).map(|link| link.mtu);
    // An interface that is not there is refused where the socket is opened.
    let by_mtu = mtu.map_or(FRAME_BYTES_MAX, |mtu| frame_bytes_max(mtu, true) as usize);
    let size_bytes_max = by_mtu.min(FRAME_BYTES_MAX);
    if size_bytes > size_bytes_max {
        return Err(GeneratorError::FrameSize { ifindex, size_bytes, size_bytes_max });
    }
    Ok(())
}

impl Backend for PacketGenerator {
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError> {
        self.runs.check_idle()?;
        let thread_count = self.cpus.len();
        let timetable = self.frames.timetable(&options)?;
        let progress = Progress::new(thread_count, &options);
        let (frames, rings, shared) =
            (Arc::clone(&self.frames), Arc::clone(&self.rings), progress.clone());
        let work: Work = Arc::new(move |index, stop| {
            let part = options.part(index, frames.thread_count());
            let stamped = options.timestamps;
            let sender = Sender { frames: &frames, part, stamped, progress: &shared, index };
            // A thread that panicked may have left frames there; they are taken back.
            let mut ring = rings[index].lock().unwrap_or_else(PoisonError::into_inner);
            ring.clear();
            sender.run(&mut ring, timetable.clone().map(Pacer::new), stop)
        });
        let cpus = self.cpus.iter().copied().map(Some).collect();
        self.runs.start(options, cpus, progress, &work)
    }

    fn is_running(&self) -> bool {
        self.runs.is_running()
    }

    fn counters(&self) -> Result<GeneratorCounters, GeneratorError> {
        Ok(self.runs.counters())
    }

    fn stop(&mut self) -> Result<GeneratorReport, GeneratorError> {
        self.runs.stop()
    }

    fn wait(&mut self) -> Result<GeneratorReport, GeneratorError> {
        self.runs.wait()
    }
}

/// What one thread of a run works with.
struct Sender<'a> {
    frames: &'a Frames,
    part: Part,
    stamped: bool,
    progress: &'a Progress,
    index: usize,
}

impl Sender<'_> {
    /// Sends until stopped or done.
    fn run(
        &self,
        ring: &mut PacketRing,
        mut pacer: Option<Pacer>,
        stop: &AtomicBool,
    ) -> Result<(), GeneratorError> {
        let begin = Instant::now();
        let mut nth = self.part.first_nth;
        while !stop.load(Ordering::Relaxed) {
            let left = self.part.end_nth.unwrap_or(u64::MAX).saturating_sub(nth);
            if left == 0 {
                break;
            }
            let mut count = left.min(BATCH);
            if let Some(pacer) = &mut pacer {
                let mut progress = self.progress.thread(self.index);
                let ThreadProgress { counters, gaps_ns, .. } = &mut *progress;
                let now = begin.elapsed();
                count = pacer.take(now, count, counters, gaps_ns);
                drop(progress);
                if count == 0 {
                    wait(pacer.due().saturating_sub(now));
                    continue;
                }
            }
            nth = self.send(ring, nth, count, stop)?;
        }
        Ok(())
    }

    /// Sends `count` frames from number `nth` on, or fewer if asked to stop while the device is
    /// full. Returns the number behind the last one.
    fn send(
        &self,
        ring: &mut PacketRing,
        nth: u64,
        count: u64,
        stop: &AtomicBool,
    ) -> Result<u64, GeneratorError> {
        // What the clock says when the batch is made is when it is sent, a full device aside.
        let stamp_ns =
            if self.stamped { clock::monotonic_ns().map_err(GeneratorError::Clock)? } else { 0 };
        let (mut made, mut next, end) = (nth, nth, nth + count);
        while next < end && !stop.load(Ordering::Relaxed) {
            while made < end {
                let frame = self.frames.of_share(&self.part.share, made);
                let Some(room) = ring.frame(frame.size_bytes()) else { break };
                frame.write(stamp_ns, room);
                ring.push(frame.size_bytes());
                made += 1;
            }
            let ((packets, bytes), failed) = match ring.flush() {
                Ok(taken) => (taken, None),
                Err((taken, error)) => (taken, Some(error)),
            };
            next += packets;
            let mut progress = self.progress.thread(self.index);
            progress.next_sequence = self.part.sequence(next);
            progress.counters.offered_packets += packets;
            progress.counters.offered_bytes += bytes;
            drop(progress);
            match failed {
                None if packets > 0 => {}
                None => {
                    ring.wait(FULL_WAIT).map_err(GeneratorError::Send)?;
                    std::thread::yield_now();
                }
                Some(error) => {
                    ring.clear();
                    return Err(sending_failed(error));
                }
            }
        }
        ring.clear();
        Ok(next)
    }
}

fn sending_failed(error: PacketError) -> GeneratorError {
    match error {
        PacketError::System(source) => GeneratorError::Send(source),
        PacketError::Frame { size_bytes, source } => {
            GeneratorError::SendFrame { size_bytes, source }
        }
    }
}

/// Waits for about that long: sleeps for most of it, spins for the rest.
fn wait(time: Duration) {
    match time.checked_sub(SLEEP_LATE) {
        Some(sleep) => std::thread::sleep(sleep.min(SLEEP_MAX)),
        None => std::hint::spin_loop(),
    }
}
