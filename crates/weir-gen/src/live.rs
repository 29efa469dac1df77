//! Sends a stream with XDP live frames, from a thread pinned to a CPU.
//!
//! One loaded program serves any number of runs, one after another, with other rates, limits and
//! first sequence numbers: a probe, a warm-up, a trial. Each run has a thread of its own, which
//! asks the kernel for packets in chunks of some milliseconds until it is told to stop or the limit
//! is reached. The thread may be in any network namespace: the output device is held by the
//! program.
//!
//! A generator reports what it *offered*, which is what it handed to the device. It never claims
//! that a packet was accepted, let alone delivered: the device and the receiver count those.
//!
//! Threads: the state of every lane carries its first sequence number and step, by which n threads
//! share a stream (thread t sends numbers t, t + n, …, so that every frame is the same as with one
//! thread, but for the thread number in its signature). [`LiveGenerator`] drives one thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use weir_bpf::attach::AttachError;
use weir_bpf::generator::{
    CATCH_UP_NS, ConfigError, GeneratorConfig, GeneratorCounters, GeneratorProgram,
};
use weir_bpf::map::MapError;
use weir_bpf::object::LoadError;
use weir_wire::frame::UdpStream;

use crate::pacing;
use crate::stream::{self, Stream, StreamError};
use crate::units::Rate;

/// Packets that a thread asks for in one call: at most about 20 ms, so that a stop takes effect
/// soon, and much longer than the 15 µs that a call costs.
const CHUNK_PACKETS: u32 = 1 << 16;

/// Packets asked for between two flushes of the output device, at full speed: all of them are sent,
/// and a veth's ring has room for 256.
const BATCH_MAX_RATE: u32 = 64;

/// The same for a paced run, which declines most of what it is asked for. A flush wakes the
/// receiving CPU, which takes some microseconds in a virtual machine, and a batch of this size
/// about 17 µs.
const BATCH_PACED: u32 = 256;

/// Why a generator could not be set up, or a run failed.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The stream cannot be sent.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The generator program could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The program could not be attached to the parking interface.
    #[error("cannot keep the generator ready: {0}")]
    Park(#[from] AttachError),
    /// The output interface was refused.
    #[error(
        "cannot send to the interface with index {ifindex}: {source}; it must exist in this \
         network namespace, and its driver must transmit XDP frames"
    )]
    Output {
        /// Index of the interface.
        ifindex: u32,
        /// What the kernel returned.
        source: MapError,
    },
    /// The lane was refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Counters could not be read.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Not exactly one CPU was given.
    #[error("the generator runs one thread, but was given {0} CPUs: give it one")]
    CpuCount(usize),
    /// The thread could not be started or pinned.
    #[error("cannot run a thread on CPU {cpu}: {source}; is it online and allowed here?")]
    Thread {
        /// Number of the CPU.
        cpu: u32,
        /// What the system returned.
        source: io::Error,
    },
    /// A run was started while another one was going on, or stopped while none was.
    #[error("the generator is {0}")]
    State(&'static str),
    /// The kernel ended a run.
    #[error("sending live frames failed: {0}; `weir doctor` says whether the kernel supports them")]
    Run(io::Error),
    /// The program could not hand packets over.
    #[error(
        "{0} packets were not sent, because their output interface is gone or was never connected"
    )]
    Refused(u64),
    /// The sending thread panicked.
    #[error("the generator's thread ended abnormally")]
    Panicked,
}

/// One run: how fast, how much, from where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunOptions {
    /// Rate; it replaces the stream's.
    pub rate: Rate,
    /// Exact number of packets after which the run ends by itself; `None` sends until stopped.
    pub packet_limit: Option<u64>,
    /// Sequence number of the first packet: 0 to start over, [`LiveGenerator::next_sequence`] to go
    /// on where the last run ended. It also determines the first flow.
    pub first_sequence: u64,
}

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneratorReport {
    /// The rate that was asked for.
    pub requested: Rate,
    /// Sequence number of the first packet.
    pub first_sequence: u64,
    /// Sequence number that the next packet would have had.
    pub next_sequence: u64,
    /// From the first call into the kernel to the return of the last one.
    pub duration: Duration,
    /// What was offered, and how well the schedule was kept.
    pub counters: GeneratorCounters,
}

impl GeneratorReport {
    /// Packets per second that were offered, over the whole run; zero if it took no time.
    #[must_use]
    pub fn offered_pps(&self) -> f64 {
        let seconds = self.duration.as_secs_f64();
        if seconds > 0.0 { self.counters.offered_packets as f64 / seconds } else { 0.0 }
    }
}

/// What one run's thread works on.
struct Job {
    program: Arc<GeneratorProgram>,
    stop: Arc<AtomicBool>,
    cpu: u32,
    size_bytes: u16,
    paced: bool,
    end_sequence: Option<u64>,
}

/// A run that is going on, or has ended by its limit and was not collected yet.
#[derive(Debug)]
struct Running {
    options: RunOptions,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Duration, LiveError>>,
}

/// The generator: program loaded, output connected, ready to run.
#[derive(Debug)]
pub struct LiveGenerator {
    program: Arc<GeneratorProgram>,
    frames: UdpStream,
    cpu: u32,
    running: Option<Running>,
}

impl LiveGenerator {
    /// Loads the program, connects it to `ifindex_out` and parks it on `ifindex_park`, both in the
    /// calling thread's network namespace. `ifindex_park` must take native XDP (a veth does) and
    /// carry no traffic; see [`GeneratorProgram::park`] for why. `cpus` is the one CPU to send
    /// from.
    ///
    /// # Errors
    /// [`LiveError`] if the stream cannot be sent, or without privileges, kernel or driver support.
    pub fn new(
        stream: &Stream,
        ifindex_out: u32,
        ifindex_park: u32,
        cpus: &[u32],
    ) -> Result<Self, LiveError> {
        let &[cpu] = cpus else {
            return Err(LiveError::CpuCount(cpus.len()));
        };
        stream.check()?;
        let frames = stream.frames(0)?;
        let mut program = GeneratorProgram::load()?;
        program
            .connect(ifindex_out)
            .map_err(|source| LiveError::Output { ifindex: ifindex_out, source })?;
        program.park(ifindex_park)?;
        Ok(Self { program: Arc::new(program), frames, cpu, running: None })
    }

    /// Starts a run, and returns when its thread is on its CPU and about to send.
    ///
    /// # Errors
    /// [`LiveError`] if a run is going on, the rate cannot be honoured, or the thread cannot be
    /// pinned.
    pub fn start(&mut self, options: RunOptions) -> Result<(), LiveError> {
        if self.running.is_some() {
            return Err(LiveError::State("running already: stop it first"));
        }
        let config = self.config(&options)?;
        self.program.clear_counters()?;
        self.program.configure(self.cpu, &config)?;

        let stop = Arc::new(AtomicBool::new(false));
        let job = Job {
            program: Arc::clone(&self.program),
            stop: Arc::clone(&stop),
            cpu: self.cpu,
            size_bytes: self.frames.size_bytes,
            paced: config.interval.is_some(),
            end_sequence: config.end_sequence,
        };
        let (ready_sender, ready) = mpsc::channel();
        let failed = |source| LiveError::Thread { cpu: self.cpu, source };
        let thread = std::thread::Builder::new()
            .name(format!("weir-gen/{}", self.cpu))
            .spawn(move || {
                pin(job.cpu)?;
                // The receiver waits for this; if it is gone, so is the generator.
                let _ = ready_sender.send(());
                job.run()
            })
            .map_err(failed)?;
        if ready.recv().is_err() {
            // The thread ended before it was ready: it could not be pinned.
            thread.join().map_err(|_| LiveError::Panicked)??;
            return Err(LiveError::Panicked);
        }
        self.running = Some(Running { options, stop, thread });
        Ok(())
    }

    /// True while packets are being sent: after [`start`](Self::start), until the limit is reached,
    /// the kernel refuses, or [`stop`](Self::stop) returns.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.thread.is_finished())
    }

    /// Counters of the present run, or of the last one. They may be read while it sends.
    ///
    /// # Errors
    /// [`LiveError::Map`] if they cannot be read.
    pub fn counters(&self) -> Result<GeneratorCounters, LiveError> {
        Ok(self.program.counters()?)
    }

    /// Sequence number of the next packet.
    ///
    /// # Errors
    /// [`LiveError::Map`] if it cannot be read.
    pub fn next_sequence(&self) -> Result<u64, LiveError> {
        Ok(self.program.next_sequence(self.cpu)?)
    }

    /// Ends the run, waits for its thread, and says what was done.
    ///
    /// # Errors
    /// [`LiveError`] if no run was started, or if sending failed.
    pub fn stop(&mut self) -> Result<GeneratorReport, LiveError> {
        if let Some(running) = &self.running {
            running.stop.store(true, Ordering::Relaxed);
        }
        self.wait()
    }

    /// Waits until a run with a packet limit ends by itself, and says what was done.
    ///
    /// # Errors
    /// [`LiveError`] if no run was started, or if sending failed.
    pub fn wait(&mut self) -> Result<GeneratorReport, LiveError> {
        let Some(Running { options, thread, .. }) = self.running.take() else {
            return Err(LiveError::State("not running: start it first"));
        };
        let duration = thread.join().map_err(|_| LiveError::Panicked)??;
        Ok(GeneratorReport {
            requested: options.rate,
            first_sequence: options.first_sequence,
            next_sequence: self.next_sequence()?,
            duration,
            counters: self.counters()?,
        })
    }

    fn config(&self, options: &RunOptions) -> Result<GeneratorConfig, LiveError> {
        const THREAD_COUNT: u32 = 1;
        let interval =
            stream::rate_pps(options.rate)?.map(|rate| pacing::interval(rate, THREAD_COUNT));
        Ok(GeneratorConfig {
            stream: self.frames,
            first_sequence: options.first_sequence,
            end_sequence: options
                .packet_limit
                .map(|limit| options.first_sequence.saturating_add(limit)),
            sequence_step: u64::from(THREAD_COUNT),
            interval,
            catch_up_ns: CATCH_UP_NS,
            timestamps: false,
        })
    }
}

impl Drop for LiveGenerator {
    fn drop(&mut self) {
        if self.running.is_some() {
            // Nobody is left to be told how the run went.
            let _ = self.stop();
        }
    }
}

impl Job {
    /// Sends until stopped or done, and returns how long that took.
    fn run(&self) -> Result<Duration, LiveError> {
        let batch = if self.paced { BATCH_PACED } else { BATCH_MAX_RATE };
        let begin = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            let Some(chunk) = self.chunk()? else { break };
            self.program.run(self.size_bytes, chunk, batch).map_err(LiveError::Run)?;
            let refused_packets = self.program.counters()?.refused_packets;
            if refused_packets > 0 {
                return Err(LiveError::Refused(refused_packets));
            }
        }
        Ok(begin.elapsed())
    }

    /// How many packets to ask for next; `None` when the limit is reached.
    fn chunk(&self) -> Result<Option<u32>, LiveError> {
        let Some(end_sequence) = self.end_sequence else {
            return Ok(Some(CHUNK_PACKETS));
        };
        let left = end_sequence.saturating_sub(self.program.next_sequence(self.cpu)?);
        if left == 0 {
            return Ok(None);
        }
        if self.paced {
            // Most of what is asked for is declined as early; the limit is kept by the program.
            return Ok(Some(CHUNK_PACKETS));
        }
        Ok(Some(u32::try_from(left).map_or(CHUNK_PACKETS, |left| left.min(CHUNK_PACKETS))))
    }
}

/// Binds the calling thread to one CPU: test runs execute on the CPU of their caller.
fn pin(cpu: u32) -> Result<(), LiveError> {
    let failed = |source: nix::Error| LiveError::Thread { cpu, source: source.into() };
    let mut set = CpuSet::new();
    set.set(cpu as usize).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(failed)
}
