//! Sends traffic through packet sockets (packet(7)), for devices without XDP: slower than
//! [`crate::live`] by an order of magnitude, the same frames.
//!
//! Each thread makes its frames one by one and hands them over in batches of one system call. A
//! device without room makes it wait and try again; what the device took is what is *offered*. On a
//! device without a queue (a veth) even that may be dropped behind the call: the device counts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bpf::generator::GeneratorCounters;
use weir_bpf::packet::PacketSocket;
use weir_wire::stream::StreamSet;

use crate::backend::{Backend, GeneratorReport, Part, RunOptions};
use crate::clock;
use crate::error::GeneratorError;
use crate::pacing::Pacer;
use crate::stream::Traffic;
use crate::user_space::{Progress, Runs, ThreadProgress};
use crate::workers::{Work, check_cpus};

/// Frames in one system call.
const BATCH: u64 = 64;

/// A sleep is late by about this much, so that it is spun for the last of it.
const SLEEP_LATE: Duration = Duration::from_micros(80);

/// The longest sleep, after which a thread looks whether it has to stop.
const SLEEP_MAX: Duration = Duration::from_millis(10);

/// The generator: sockets open, ready to run.
#[derive(Debug)]
pub struct PacketGenerator {
    set: Arc<StreamSet>,
    cpus: Vec<u32>,
    sockets: Arc<Vec<PacketSocket>>,
    runs: Runs,
}

impl PacketGenerator {
    /// Opens a socket for each of `cpus` on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`GeneratorError`] if the traffic cannot be sent, or without privileges.
    pub fn new(traffic: &Traffic, ifindex_out: u32, cpus: &[u32]) -> Result<Self, GeneratorError> {
        check_cpus(cpus)?;
        let set = traffic.set(cpus.len())?;
        let open = |_| {
            PacketSocket::open(ifindex_out)
                .map_err(|source| GeneratorError::Socket { ifindex: ifindex_out, source })
        };
        let sockets: Result<Vec<PacketSocket>, _> = cpus.iter().map(open).collect();
        Ok(Self {
            set: Arc::new(set),
            cpus: cpus.to_vec(),
            sockets: Arc::new(sockets?),
            runs: Runs::default(),
        })
    }
}

impl Backend for PacketGenerator {
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError> {
        self.runs.check_idle()?;
        let thread_count = self.cpus.len();
        let schedule = options.thread_schedule(u32::try_from(thread_count).unwrap_or(u32::MAX))?;
        let progress = Progress::new(thread_count, &options);
        let (set, sockets, shared) =
            (Arc::clone(&self.set), Arc::clone(&self.sockets), progress.clone());
        let work: Work = Arc::new(move |index, stop| {
            let part = options.part(index, set.thread_count());
            let (socket, progress) = (&sockets[index], &shared);
            let stamped = options.timestamps;
            let sender = Sender { set: &set, socket, part, stamped, progress, index };
            sender.run(schedule.map(Pacer::new), stop)
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
    set: &'a StreamSet,
    socket: &'a PacketSocket,
    part: Part,
    stamped: bool,
    progress: &'a Progress,
    index: usize,
}

impl Sender<'_> {
    /// Sends until stopped or done.
    fn run(&self, mut pacer: Option<Pacer>, stop: &AtomicBool) -> Result<(), GeneratorError> {
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
            nth = self.send(nth, count, stop)?;
        }
        Ok(())
    }

    /// Sends `count` frames from number `nth` on, or fewer if asked to stop while the device is
    /// full. Returns the number behind the last one.
    fn send(&self, nth: u64, count: u64, stop: &AtomicBool) -> Result<u64, GeneratorError> {
        // What the clock says when the batch is made is when it is sent, a full device aside.
        let stamp_ns = if self.stamped { clock::monotonic_ns() } else { 0 };
        let frame = |nth| {
            let (stream, sequence) = self.set.pick_of(&self.part.share, nth);
            self.set.streams()[stream].build_stamped(sequence, stamp_ns)
        };
        let frames: Vec<Vec<u8>> = (nth..nth + count).map(frame).collect();
        let mut rest = frames.as_slice();
        let mut next = nth;
        while !rest.is_empty() && !stop.load(Ordering::Relaxed) {
            let sent = self.socket.send(rest).map_err(GeneratorError::Send)?;
            if sent == 0 {
                std::thread::yield_now();
                continue;
            }
            let (taken, left) = rest.split_at(sent);
            rest = left;
            next += sent as u64;
            let mut progress = self.progress.thread(self.index);
            progress.next_sequence = self.part.sequence(next);
            progress.counters.offered_packets += sent as u64;
            progress.counters.offered_bytes += taken.iter().map(|f| f.len() as u64).sum::<u64>();
        }
        Ok(next)
    }
}

/// Waits for about that long: sleeps for most of it, spins for the rest.
fn wait(time: Duration) {
    match time.checked_sub(SLEEP_LATE) {
        Some(sleep) => std::thread::sleep(sleep.min(SLEEP_MAX)),
        None => std::hint::spin_loop(),
    }
}
