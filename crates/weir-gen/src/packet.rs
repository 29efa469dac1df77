//! Sends a stream through packet sockets (packet(7)), for devices without XDP: slower than
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
use weir_wire::frame::UdpStream;

use crate::backend::{Backend, GeneratorReport, RunOptions};
use crate::error::GeneratorError;
use crate::pacing::Pacer;
use crate::stream::Stream;
use crate::user_space::{self, Progress};
use crate::workers::{Work, Workers, check_cpus};

/// The name of the backend.
pub const NAME: &str = "packet";

/// Frames in one system call.
const BATCH: u64 = 64;

/// A sleep is late by about this much, so that it is spun for the last of it.
const SLEEP_LATE: Duration = Duration::from_micros(80);

/// The longest sleep, after which a thread looks whether it has to stop.
const SLEEP_MAX: Duration = Duration::from_millis(10);

/// The generator: sockets open, ready to run.
#[derive(Debug)]
pub struct PacketGenerator {
    stream: Stream,
    cpus: Vec<Option<u32>>,
    sockets: Arc<Vec<PacketSocket>>,
    progress: Progress,
    running: Option<(RunOptions, Workers)>,
}

impl PacketGenerator {
    /// Opens a socket for each of `cpus` on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`GeneratorError`] if the stream cannot be sent, or without privileges.
    pub fn new(stream: &Stream, ifindex_out: u32, cpus: &[u32]) -> Result<Self, GeneratorError> {
        check_cpus(cpus)?;
        user_space::check(stream, NAME)?;
        let open = |_| {
            PacketSocket::open(ifindex_out)
                .map_err(|source| GeneratorError::Socket { ifindex: ifindex_out, source })
        };
        let sockets: Result<Vec<PacketSocket>, _> = cpus.iter().map(open).collect();
        Ok(Self {
            stream: *stream,
            cpus: cpus.iter().copied().map(Some).collect(),
            sockets: Arc::new(sockets?),
            progress: Progress::default(),
            running: None,
        })
    }
}

impl Backend for PacketGenerator {
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError> {
        if self.running.is_some() {
            return Err(GeneratorError::State("running already: stop it first"));
        }
        let thread_count = self.cpus.len();
        let schedule = options.thread_schedule(u32::try_from(thread_count).unwrap_or(u32::MAX))?;
        let progress = Progress::new(thread_count, &options);
        self.progress = progress.clone();
        let (stream, sockets) = (self.stream, Arc::clone(&self.sockets));
        let work: Work = Arc::new(move |index, stop| {
            let first_sequence = options.first_sequence.saturating_add(index as u64);
            let sender = Sender {
                frames: stream.frames_of(first_sequence, thread_count)?,
                socket: &sockets[index],
                step: thread_count as u64,
                end_sequence: options.end_sequence().unwrap_or(u64::MAX),
                progress: &progress,
                index,
            };
            sender.run(schedule.map(Pacer::new), stop)
        });
        self.running = Some((options, Workers::start(&self.cpus, &work)?));
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, workers)| workers.is_running())
    }

    fn counters(&self) -> Result<GeneratorCounters, GeneratorError> {
        Ok(self.progress.counters())
    }

    fn stop(&mut self) -> Result<GeneratorReport, GeneratorError> {
        if let Some((_, workers)) = &self.running {
            workers.stop();
        }
        self.wait()
    }

    fn wait(&mut self) -> Result<GeneratorReport, GeneratorError> {
        let Some((options, workers)) = self.running.take() else {
            return Err(GeneratorError::State("not running: start it first"));
        };
        let duration = workers.wait()?;
        Ok(self.progress.report(&options, duration, &self.cpus))
    }
}

impl Drop for PacketGenerator {
    fn drop(&mut self) {
        if self.running.is_some() {
            // Nobody is left to be told how the run went.
            let _ = self.stop();
        }
    }
}

/// What one thread of a run works with.
struct Sender<'a> {
    frames: UdpStream,
    socket: &'a PacketSocket,
    step: u64,
    end_sequence: u64,
    progress: &'a Progress,
    index: usize,
}

impl Sender<'_> {
    /// Sends until stopped or done.
    fn run(&self, mut pacer: Option<Pacer>, stop: &AtomicBool) -> Result<(), GeneratorError> {
        let begin = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let next_sequence = self.progress.thread(self.index).next_sequence;
            let left = self.end_sequence.saturating_sub(next_sequence).div_ceil(self.step);
            if left == 0 {
                break;
            }
            let mut count = left.min(BATCH);
            if let Some(pacer) = &mut pacer {
                let mut progress = self.progress.thread(self.index);
                let now = begin.elapsed();
                count = pacer.take(now, count, &mut progress.counters);
                drop(progress);
                if count == 0 {
                    wait(pacer.due().saturating_sub(now));
                    continue;
                }
            }
            self.send(next_sequence, count, stop)?;
        }
        Ok(())
    }

    /// Sends `count` frames from `first` on, or fewer if asked to stop while the device is full.
    fn send(&self, first: u64, count: u64, stop: &AtomicBool) -> Result<(), GeneratorError> {
        let frames: Vec<Vec<u8>> =
            (0..count).map(|index| self.frames.build(first + index * self.step)).collect();
        let mut rest = frames.as_slice();
        while !rest.is_empty() && !stop.load(Ordering::Relaxed) {
            let sent = self.socket.send(rest).map_err(GeneratorError::Send)?;
            if sent == 0 {
                std::thread::yield_now();
                continue;
            }
            rest = &rest[sent..];
            let mut progress = self.progress.thread(self.index);
            progress.next_sequence += sent as u64 * self.step;
            progress.counters.offered_packets += sent as u64;
            progress.counters.offered_bytes += sent as u64 * u64::from(self.frames.size_bytes);
        }
        Ok(())
    }
}

/// Waits for about that long: sleeps for most of it, spins for the rest.
fn wait(time: Duration) {
    match time.checked_sub(SLEEP_LATE) {
        Some(sleep) => std::thread::sleep(sleep.min(SLEEP_MAX)),
        None => std::hint::spin_loop(),
    }
}
