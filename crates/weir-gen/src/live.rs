//! Sends traffic with XDP live frames, from threads pinned to CPUs.
//!
//! One loaded program serves any number of runs, one after another, with other rates, limits and
//! first sequence numbers: a probe, a warm-up, a trial. Each run has a thread for each CPU, which
//! asks the kernel for packets in chunks of some milliseconds until it is told to stop or the limit
//! is reached. The threads may be in any network namespace: the output device is held by the
//! program.
//!
//! A generator reports what it *offered*, which is what it handed to the device. It never claims
//! that a packet was accepted, let alone delivered: the device and the receiver count those.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bpf::generator::{CATCH_UP_NS, GeneratorCounters, GeneratorProgram, ThreadConfig};
use weir_net::private::PrivateNetns;
use weir_net::{Netlink, NetlinkError, VethEnd};

use crate::backend::{BATCH_FRAMES, Backend, GeneratorReport, Part, RunOptions, ThreadReport};
use crate::error::GeneratorError;
use crate::pacing::{self, Schedule};
use crate::window::Window;
use crate::workers::{Work, Workers, check_cpus};
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

/// Packets that a thread asks for in one call: at most about 20 ms, so that a stop takes effect
/// soon, and much longer than the 15 µs that a call costs.
pub(crate) const CHUNK_PACKETS: u32 = 1 << 16;

/// The same while the rate rises, which it does from call to call.
const CHUNK_PACKETS_RAMP: u32 = 1 << 13;

/// The step in which the rate rises looks this far ahead: about half of what a call takes.
const RAMP_AHEAD: Duration = Duration::from_micros(500);

/// Packets asked for between two flushes of the output device in a paced run, which declines most
/// of what it is asked for. A flush wakes the receiving CPU, which takes some microseconds in a
/// virtual machine, and a batch of this size about 17 µs. At full speed, where all of them are
/// sent, it is [`BATCH_FRAMES`], because a veth's ring has room for 256.
pub(crate) const BATCH_PACED: u32 = 256;

/// What one thread of a run works on.
#[derive(Debug, Clone, Copy)]
struct Job {
    cpu: u32,
    schedule: Option<Schedule>,
    is_windowed: bool,
    part: Part,
}

/// The generator: program loaded, output connected, ready to run.
#[derive(Debug)]
pub struct LiveGenerator {
    program: Arc<GeneratorProgram>,
    cpus: Vec<u32>,
    running: Option<(RunOptions, Vec<Part>, Workers)>,
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
        traffic: &Traffic,
        ifindex_out: u32,
        ifindex_park: u32,
        cpus: &[u32],
    ) -> Result<Self, GeneratorError> {
        let mut program = connected(traffic, ifindex_out, cpus)?;
        program.park(ifindex_park)?;
        Ok(Self::ready(program, cpus, None))
    }

    /// As [`LiveGenerator::new`], but parks the program on a veth pair of its own, in a network
    /// namespace without a name: nothing of it is seen, and nothing can stay behind.
    ///
    /// # Errors
    /// As [`LiveGenerator::new`].
    pub fn with_private_park(
        traffic: &Traffic,
        ifindex_out: u32,
        cpus: &[u32],
    ) -> Result<Self, GeneratorError> {
        let mut program = connected(traffic, ifindex_out, cpus)?;
        let park = PrivateNetns::create()?;
        park.run(|| {
            let ifindex = park_link()?;
            program.park(ifindex)?;
            Ok::<_, GeneratorError>(())
        })??;
        Ok(Self::ready(program, cpus, Some(park)))
    }

    fn ready(program: GeneratorProgram, cpus: &[u32], park: Option<PrivateNetns>) -> Self {
        Self { program: Arc::new(program), cpus: cpus.to_vec(), running: None, _park: park }
    }

    fn thread_count(&self) -> u16 {
        self.program.set().thread_count()
    }

    /// The frame that the kernel makes for packet number `sequence`, all streams counted, without
    /// sending it or stamping it. No run may be going on.
    ///
    /// # Errors
    /// [`GeneratorError`] if a run is going on or the kernel refuses.
    pub fn frame(&self, sequence: u64) -> Result<Vec<u8>, GeneratorError> {
        if self.running.is_some() {
            return Err(GeneratorError::State("running: stop it first"));
        }
        let options = RunOptions {
            rate: Rate::Max,
            ramp: Duration::ZERO,
            packet_limit: None,
            first_sequence: sequence,
            timestamps: false,
        };
        let part = options.part(0, self.thread_count());
        Ok(self.program.single_frame(&thread_config(&part, None, false))?)
    }

    /// Configures the worker at `index` and says what it has to do.
    fn job(
        &self,
        index: usize,
        options: &RunOptions,
        window: Option<&Window>,
    ) -> Result<Job, GeneratorError> {
        let cpu = self.cpus[index];
        let schedule = options.thread_schedule(self.thread_count().into())?;
        let part = options.part(index, self.thread_count());
        let config = thread_config(&part, schedule, options.timestamps);
        match window {
            None => self.program.configure(cpu, &config)?,
            Some(window) => {
                let sinks: Vec<_> = window.receivers.iter().map(|each| each.program()).collect();
                self.program.configure_within(cpu, &config, window.packets, &sinks)?;
            }
        }
        Ok(Job { cpu, schedule, is_windowed: window.is_some(), part })
    }
}

fn thread_config(part: &Part, schedule: Option<Schedule>, timestamps: bool) -> ThreadConfig {
    ThreadConfig {
        thread: part.share.thread(),
        first_nth: part.first_nth,
        end_nth: part.end_nth,
        interval: schedule.map(|schedule| pacing::interval(schedule.rate_pps, 1)),
        catch_up_ns: CATCH_UP_NS,
        timestamps,
    }
}

impl LiveGenerator {
    fn run(&mut self, options: RunOptions, window: Option<&Window>) -> Result<(), GeneratorError> {
        if self.running.is_some() {
            return Err(GeneratorError::State("running already: stop it first"));
        }
        options.schedule()?;
        self.program.clear_counters()?;
        let jobs: Vec<Job> = (0..self.cpus.len())
            .map(|index| self.job(index, &options, window))
            .collect::<Result<_, _>>()?;
        let parts = jobs.iter().map(|job| job.part).collect();
        let cpus: Vec<Option<u32>> = self.cpus.iter().copied().map(Some).collect();
        let program = Arc::clone(&self.program);
        let work: Work = Arc::new(move |index, stop| jobs[index].run(&program, stop));
        self.running = Some((options, parts, Workers::start(&cpus, &work)?));
        Ok(())
    }
}

impl Backend for LiveGenerator {
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError> {
        self.run(options, None)
    }

    fn start_within(&mut self, options: RunOptions, window: &Window) -> Result<(), GeneratorError> {
        if options.schedule()?.is_some() || self.cpus.len() > 1 {
            return Err(GeneratorError::State("paced, or has several threads: it has no window"));
        }
        self.run(options, Some(window))
    }

    fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, _, workers)| workers.is_running())
    }

    fn counters(&self) -> Result<GeneratorCounters, GeneratorError> {
        Ok(self.program.counters()?)
    }

    fn stop(&mut self) -> Result<GeneratorReport, GeneratorError> {
        if let Some((_, _, workers)) = &self.running {
            workers.stop();
        }
        self.wait()
    }

    fn wait(&mut self) -> Result<GeneratorReport, GeneratorError> {
        let Some((options, parts, workers)) = self.running.take() else {
            return Err(GeneratorError::State("not running: start it first"));
        };
        let duration = workers.wait()?;
        let threads: Result<Vec<ThreadReport>, GeneratorError> = self
            .cpus
            .iter()
            .zip(&parts)
            .map(|(&cpu, part)| {
                Ok(ThreadReport {
                    cpu: Some(cpu),
                    next_sequence: part.sequence(self.program.next_nth(cpu)?),
                    counters: self.program.thread_counters(cpu)?,
                })
            })
            .collect();
        let gaps_ns = self.program.gaps_ns()?;
        Ok(GeneratorReport::merge(&options, duration, threads?, gaps_ns))
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
    traffic: &Traffic,
    ifindex_out: u32,
    cpus: &[u32],
) -> Result<GeneratorProgram, GeneratorError> {
    check_cpus(cpus)?;
    let program = GeneratorProgram::load(traffic.set(cpus.len())?)?;
    program
        .connect(ifindex_out)
        .map_err(|source| GeneratorError::Output { ifindex: ifindex_out, source })?;
    Ok(program)
}

/// Makes the pair on which a program is parked, and returns the index of one end.
pub(crate) fn park_link() -> Result<u32, NetlinkError> {
    let netlink = Netlink::open()?;
    netlink.create_veth(&VethEnd::new("park"), &VethEnd::new("park-peer"), 1)?;
    netlink.ifindex("park")
}

/// Each call takes one of 65,534 numbers of memory (`xdp_reg_mem_model()`), which a worker of the
/// kernel gives back a second later, if it gets the CPU: until then there may be none, after many
/// short calls. That is waited for, so often and for so long.
const NUMBERS_WAIT: Duration = Duration::from_millis(20);
const NUMBERS_PATIENCE: Duration = Duration::from_secs(10);

impl Job {
    /// Sends until stopped or done.
    fn run(&self, program: &GeneratorProgram, stop: &AtomicBool) -> Result<(), GeneratorError> {
        let batch = if self.schedule.is_some() { BATCH_PACED } else { BATCH_FRAMES };
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
            self.send(program, chunk, batch)?;
        }
        Ok(())
    }

    fn send(
        &self,
        program: &GeneratorProgram,
        packets: u32,
        batch: u32,
    ) -> Result<(), GeneratorError> {
        let begin = Instant::now();
        loop {
            match program.run(packets, batch) {
                Err(error)
                    if error.kind() == ErrorKind::StorageFull
                        && begin.elapsed() < NUMBERS_PATIENCE =>
                {
                    std::thread::sleep(NUMBERS_WAIT);
                }
                result => break result.map_err(GeneratorError::Run)?,
            }
        }
        let refused_packets = program.thread_counters(self.cpu)?.refused_packets;
        if refused_packets > 0 {
            return Err(GeneratorError::Refused(refused_packets));
        }
        Ok(())
    }

    /// How many packets to ask for next; `None` when the limit is reached.
    fn chunk(&self, program: &GeneratorProgram) -> Result<Option<u32>, GeneratorError> {
        let Some(end_nth) = self.part.end_nth else {
            return Ok(Some(CHUNK_PACKETS));
        };
        let left = end_nth.saturating_sub(program.next_nth(self.cpu)?);
        if left == 0 {
            return Ok(None);
        }
        if self.schedule.is_some() || self.is_windowed {
            // Most of what is asked for is declined as early; the limit is kept by the program.
            return Ok(Some(CHUNK_PACKETS));
        }
        Ok(Some(u32::try_from(left).map_or(CHUNK_PACKETS, |left| left.min(CHUNK_PACKETS))))
    }
}
