//! Sends a stream with XDP live frames, from threads pinned to CPUs.
//!
//! One loaded program serves any number of runs, one after another, with other rates, limits and
//! first sequence numbers: a probe, a warm-up, a trial. Each run has a thread for each CPU, which
//! asks the kernel for packets in chunks of some milliseconds until it is told to stop or the limit
//! is reached. The threads may be in any network namespace: the output device is held by the
//! program.
//!
//! A generator reports what it *offered*, which is what it handed to the device. It never claims
//! that a packet was accepted, let alone delivered: the device and the receiver count those.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bpf::generator::{CATCH_UP_NS, GeneratorConfig, GeneratorCounters, GeneratorProgram};
use weir_net::private::PrivateNetns;
use weir_net::{Netlink, NetlinkError, VethEnd};

use crate::backend::{Backend, GeneratorReport, RunOptions, ThreadReport};
use crate::error::GeneratorError;
use crate::pacing::{self, Schedule};
use crate::stream::Stream;
use crate::workers::{Work, Workers, check_cpus};

/// Packets that a thread asks for in one call: at most about 20 ms, so that a stop takes effect
/// soon, and much longer than the 15 µs that a call costs.
const CHUNK_PACKETS: u32 = 1 << 16;

/// The same while the rate rises, which it does from call to call.
const CHUNK_PACKETS_RAMP: u32 = 1 << 13;

/// The step in which the rate rises looks this far ahead: about half of what a call takes.
const RAMP_AHEAD: Duration = Duration::from_micros(500);

/// Packets asked for between two flushes of the output device, at full speed: all of them are sent,
/// and a veth's ring has room for 256.
const BATCH_MAX_RATE: u32 = 64;

/// The same for a paced run, which declines most of what it is asked for. A flush wakes the
/// receiving CPU, which takes some microseconds in a virtual machine, and a batch of this size
/// about 17 µs.
const BATCH_PACED: u32 = 256;

/// What one thread of a run works on.
#[derive(Debug, Clone, Copy)]
struct Job {
    cpu: u32,
    size_bytes: u16,
    schedule: Option<Schedule>,
    thread_count: u32,
    end_sequence: Option<u64>,
}

/// The generator: program loaded, output connected, ready to run.
#[derive(Debug)]
pub struct LiveGenerator {
    program: Arc<GeneratorProgram>,
    stream: Stream,
    cpus: Vec<u32>,
    running: Option<(RunOptions, Workers)>,
    /// Where the program is parked, if the generator made the place itself.
    _park: Option<PrivateNetns>,
}

impl LiveGenerator {
    /// Loads the program, connects it to `ifindex_out` and parks it on `ifindex_park`, both in the
    /// calling thread's network namespace. `ifindex_park` must take native XDP (a veth does) and
    /// carry no traffic; see [`GeneratorProgram::park`] for why. A thread sends from each of
    /// `cpus`.
    ///
    /// # Errors
    /// [`GeneratorError`] if the stream cannot be sent, or without privileges, kernel or driver
    /// support.
    pub fn new(
        stream: &Stream,
        ifindex_out: u32,
        ifindex_park: u32,
        cpus: &[u32],
    ) -> Result<Self, GeneratorError> {
        let mut program = connected(stream, ifindex_out, cpus)?;
        program.park(ifindex_park)?;
        Ok(Self::ready(program, stream, cpus, None))
    }

    /// As [`LiveGenerator::new`], but parks the program on a veth pair of its own, in a network
    /// namespace without a name: nothing of it is seen, and nothing can stay behind.
    ///
    /// # Errors
    /// As [`LiveGenerator::new`].
    pub fn with_own_park(
        stream: &Stream,
        ifindex_out: u32,
        cpus: &[u32],
    ) -> Result<Self, GeneratorError> {
        let mut program = connected(stream, ifindex_out, cpus)?;
        let park = PrivateNetns::create()?;
        park.run(|| {
            let ifindex = park_link()?;
            program.park(ifindex)?;
            Ok::<_, GeneratorError>(())
        })??;
        Ok(Self::ready(program, stream, cpus, Some(park)))
    }

    fn ready(
        program: GeneratorProgram,
        stream: &Stream,
        cpus: &[u32],
        park: Option<PrivateNetns>,
    ) -> Self {
        Self {
            program: Arc::new(program),
            stream: *stream,
            cpus: cpus.to_vec(),
            running: None,
            _park: park,
        }
    }

    /// The frame that the kernel makes for packet number `sequence`, without sending it. No run may
    /// be going on.
    ///
    /// # Errors
    /// [`GeneratorError`] if a run is going on or the kernel refuses.
    pub fn frame(&self, sequence: u64) -> Result<Vec<u8>, GeneratorError> {
        if self.running.is_some() {
            return Err(GeneratorError::State("running: stop it first"));
        }
        let config = GeneratorConfig {
            stream: self.stream.frames_of(sequence, self.cpus.len())?,
            first_sequence: sequence,
            end_sequence: None,
            sequence_step: self.cpus.len() as u64,
            interval: None,
            catch_up_ns: CATCH_UP_NS,
            timestamps: false,
        };
        Ok(self.program.single_frame(&config)?)
    }

    /// Configures the lane of thread number `index` and says what the thread has to do.
    fn lane(&self, index: usize, options: &RunOptions) -> Result<Job, GeneratorError> {
        let cpu = self.cpus[index];
        let thread_count = u32::try_from(self.cpus.len()).unwrap_or(u32::MAX);
        let schedule = options.thread_schedule(thread_count)?;
        let first_sequence = options.first_sequence.saturating_add(index as u64);
        let end_sequence = options.end_sequence();
        let config = GeneratorConfig {
            stream: self.stream.frames_of(first_sequence, self.cpus.len())?,
            first_sequence,
            end_sequence,
            sequence_step: u64::from(thread_count),
            interval: schedule.map(|schedule| pacing::interval(schedule.rate_pps, 1)),
            catch_up_ns: CATCH_UP_NS,
            timestamps: false,
        };
        self.program.configure(cpu, &config)?;
        let size_bytes = self.stream.size_bytes;
        Ok(Job { cpu, size_bytes, schedule, thread_count, end_sequence })
    }
}

impl Backend for LiveGenerator {
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError> {
        if self.running.is_some() {
            return Err(GeneratorError::State("running already: stop it first"));
        }
        options.schedule()?;
        self.program.clear_counters()?;
        let jobs: Vec<Job> = (0..self.cpus.len())
            .map(|index| self.lane(index, &options))
            .collect::<Result<_, _>>()?;
        let cpus: Vec<Option<u32>> = self.cpus.iter().copied().map(Some).collect();
        let program = Arc::clone(&self.program);
        let work: Work = Arc::new(move |index, stop| jobs[index].run(&program, stop));
        self.running = Some((options, Workers::start(&cpus, &work)?));
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, workers)| workers.is_running())
    }

    fn counters(&self) -> Result<GeneratorCounters, GeneratorError> {
        Ok(self.program.counters()?)
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
        let threads: Result<Vec<ThreadReport>, GeneratorError> = self
            .cpus
            .iter()
            .map(|&cpu| {
                Ok(ThreadReport {
                    cpu: Some(cpu),
                    next_sequence: self.program.next_sequence(cpu)?,
                    counters: self.program.lane_counters(cpu)?,
                })
            })
            .collect();
        Ok(GeneratorReport::merge(&options, duration, threads?))
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

/// The program, loaded and connected to the output.
fn connected(
    stream: &Stream,
    ifindex_out: u32,
    cpus: &[u32],
) -> Result<GeneratorProgram, GeneratorError> {
    check_cpus(cpus)?;
    stream.check()?;
    let program = GeneratorProgram::load()?;
    program
        .connect(ifindex_out)
        .map_err(|source| GeneratorError::Output { ifindex: ifindex_out, source })?;
    Ok(program)
}

/// Makes the pair on which a program is parked, and returns the index of one end.
fn park_link() -> Result<u32, NetlinkError> {
    let netlink = Netlink::open()?;
    netlink.create_veth(&VethEnd::new("park"), &VethEnd::new("park-peer"), 1)?;
    netlink.ifindex("park")
}

impl Job {
    /// Sends until stopped or done.
    fn run(&self, program: &GeneratorProgram, stop: &AtomicBool) -> Result<(), GeneratorError> {
        let batch = if self.schedule.is_some() { BATCH_PACED } else { BATCH_MAX_RATE };
        let begin = Instant::now();
        let mut ramp = self.schedule.filter(|schedule| !schedule.ramp.is_zero());
        while !stop.load(Ordering::Relaxed) {
            let Some(chunk) = self.chunk(program)? else { break };
            let chunk = match ramp {
                None => chunk,
                Some(schedule) => {
                    let ahead = begin.elapsed() + RAMP_AHEAD;
                    let interval = pacing::interval(schedule.rate_pps_at(ahead), 1);
                    program.set_interval(self.cpu, interval)?;
                    ramp = ramp.filter(|schedule| ahead < schedule.ramp);
                    chunk.min(CHUNK_PACKETS_RAMP)
                }
            };
            program.run(self.size_bytes, chunk, batch).map_err(GeneratorError::Run)?;
            let refused_packets = program.lane_counters(self.cpu)?.refused_packets;
            if refused_packets > 0 {
                return Err(GeneratorError::Refused(refused_packets));
            }
        }
        Ok(())
    }

    /// How many packets to ask for next; `None` when the limit is reached.
    fn chunk(&self, program: &GeneratorProgram) -> Result<Option<u32>, GeneratorError> {
        let Some(end_sequence) = self.end_sequence else {
            return Ok(Some(CHUNK_PACKETS));
        };
        let left = end_sequence.saturating_sub(program.next_sequence(self.cpu)?);
        if left == 0 {
            return Ok(None);
        }
        if self.schedule.is_some() {
            // Most of what is asked for is declined as early; the limit is kept by the program.
            return Ok(Some(CHUNK_PACKETS));
        }
        let left = left.div_ceil(u64::from(self.thread_count));
        Ok(Some(u32::try_from(left).map_or(CHUNK_PACKETS, |left| left.min(CHUNK_PACKETS))))
    }
}
