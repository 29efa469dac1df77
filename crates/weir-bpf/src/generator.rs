//! The live-frame generator: `bpf/gen.bpf.c`, its threads, its output device and its counters.
//!
//! The program is loaded for one set of streams, and sends what [`StreamSet`] says, byte for byte.
//! It finds what to do by the CPU it runs on, so that the thread that calls
//! [`GeneratorProgram::run`] must be pinned to the CPU it has configured. Threads share nothing but
//! the program and the output device.
//!
//! The kernel builds and transmits the frames (`BPF_PROG_TEST_RUN` with
//! `BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18; see Documentation/bpf/bpf_prog_run.rst). A frame that
//! the output device refuses is lost without a word: [`GeneratorCounters`] say what was *offered*
//! to the device, the device's own counters what it accepted.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{MapCore as _, MapHandle, OpenObject};
use weir_wire::stream::StreamSet;
use weir_wire::walk::Share;

use crate::attach::{self, AttachError, Link};
use crate::histogram::Histogram;
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{LoadError, Loaded};
use crate::sink::SinkProgram;
use crate::{sys, words};

mod counters;
mod features;
pub(crate) mod lane;
#[cfg(test)]
mod tests;
pub(crate) mod thread;

pub use counters::GeneratorCounters;

/// Largest frame that the kernel takes on machines with pages of 4 KiB, bytes without FCS.
pub const SIZE_BYTES_MAX: u16 = words::FRAME_BYTES_MAX;

/// How much of its schedule a late generator makes up for, nanoseconds.
///
/// A virtual machine stalls for some milliseconds now and then; a generator that gave those packets
/// up would miss its rate by some percent. It makes up for them at no more than twice the rate.
pub const CATCH_UP_NS: u64 = 10_000_000;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gen.bpf.o"));
const OBJECT_NAME: &str = "gen";

/// What frames start as; the program writes every byte of them.
static TEMPLATE: [u8; SIZE_BYTES_MAX as usize] = [0; SIZE_BYTES_MAX as usize];

/// Time between two packets: whole nanoseconds and 2^-32 parts of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Whole nanoseconds.
    pub whole_ns: u64,
    /// What is left, in units of 2^-32 ns.
    pub fraction: u32,
}

/// What one thread sends of the set, and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadConfig {
    /// Number of the thread among those that share the streams, from 0.
    pub thread: u8,
    /// The first packet, counted from 0 over all packets of this thread; see
    /// [`StreamSet::pick_of`].
    pub first_nth: u64,
    /// The first packet, counted in the same way, that is not sent any more; `None` is no limit.
    pub end_nth: Option<u64>,
    /// Time between two packets; `None` is as fast as possible.
    pub interval: Option<Interval>,
    /// How much delay a paced thread makes up for, nanoseconds: see [`CATCH_UP_NS`].
    pub catch_up_ns: u64,
    /// Whether packets carry the time at which they were made. A thread that is not paced reads
    /// the clock once for 64 packets that leave together.
    pub timestamps: bool,
}

/// Why the program could not be loaded for a set of streams.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorLoadError {
    /// A frame is larger than can be sent.
    #[error(
        "frames of {0} bytes cannot be sent: live frames have at most {SIZE_BYTES_MAX} bytes, \
         without FCS, because the kernel makes each from a single page; packet sockets (`--backend \
         packet`) send what the interface's MTU allows"
    )]
    Size(u16),
    /// The kernel refuses the program.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The streams' order or sizes could not be written.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// Why a thread could not be configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The machine has no such CPU.
    #[error("there is no CPU {cpu}: this machine has at most {count}")]
    Cpu {
        /// Number of the CPU.
        cpu: u32,
        /// How many CPUs there may be.
        count: u32,
    },
    /// A window sees fewer sinks.
    #[error("a window is by what arrives at up to {max} sinks, not {0}", max = words::ROOM_SINKS)]
    Sinks(u32),
    /// The streams are not shared by so many threads.
    #[error(transparent)]
    Thread(#[from] weir_wire::walk::ShareError),
    /// It could not be written.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// Why a single frame could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The configuration was refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel did not run the program.
    #[error("cannot run the generator program once: {0}")]
    Run(#[from] io::Error),
}

/// The generator program, loaded for a set of streams.
///
/// It belongs to no namespace; [`connect`](Self::connect) and [`park`](Self::park) take interface
/// indices of the calling thread's namespace, and hold on to the devices themselves. Dropping it
/// ends everything.
#[derive(Debug)]
pub struct GeneratorProgram {
    set: StreamSet,
    program: OwnedFd,
    threads: MapHandle,
    lanes: MapHandle,
    gaps: MapHandle,
    output: MapHandle,
    room: MapHandle,
    arrivals: MapHandle,
    parked: Option<Link>,
}

impl GeneratorProgram {
    /// Loads the program: no thread is configured, nothing is connected.
    ///
    /// # Errors
    /// [`GeneratorLoadError`] if a frame is too large, or without privileges or kernel support.
    pub fn load(set: StreamSet) -> Result<Self, GeneratorLoadError> {
        let (_, size_bytes_max) = set.size_bytes_range();
        if size_bytes_max > SIZE_BYTES_MAX {
            return Err(GeneratorLoadError::Size(size_bytes_max));
        }
        let object = Loaded::load_prepared(OBJECT_NAME, OBJECT, |object| prepare(object, &set))?;
        let order = object.map("weir_order", WORD_BYTES)?;
        for (place, stream) in (0..).zip(set.order()) {
            map::write(&order, place, &(stream as u64).to_ne_bytes())?;
        }
        let cycles = object.map("weir_cycle_sizes", WORD_BYTES)?;
        for (place, size_bytes) in (0..).zip(set.streams().iter().flat_map(lane::cycle)) {
            map::write(&cycles, place, &u64::from(*size_bytes).to_ne_bytes())?;
        }
        Ok(Self {
            program: object.program(features::program(&set))?,
            threads: object.map("weir_threads", words::thread::WORDS * WORD_BYTES)?,
            lanes: object.map("weir_lanes", words::lane::WORDS * WORD_BYTES)?,
            gaps: object.map("weir_gaps", words::histogram::WORDS * WORD_BYTES)?,
            output: object.map("weir_output", size_of::<u32>())?,
            room: object.map("weir_room", words::room::WORDS * WORD_BYTES)?,
            arrivals: object.map("weir_arrivals", size_of::<u32>())?,
            set,
            parked: None,
        })
    }

    /// The streams for which the program was loaded.
    #[must_use]
    pub const fn set(&self) -> &StreamSet {
        &self.set
    }

    /// Sends to an interface of the calling thread's network namespace from now on.
    ///
    /// The device is looked up now: the threads that run the program may be in any namespace.
    ///
    /// # Errors
    /// [`MapError`] if there is no such interface or its driver cannot transmit XDP frames.
    pub fn connect(&self, ifindex: u32) -> Result<(), MapError> {
        map::write(&self.output, 0, &ifindex.to_ne_bytes())
    }

    /// Attaches the program to an interface that carries no traffic, for as long as `self` lives.
    ///
    /// The kernel calls XDP programs through a dispatcher whose code it rewrites when the first
    /// user of a program comes and when the last one goes, which takes a call of [`run`](Self::run)
    /// from some microseconds to some tens of milliseconds. A program that is attached somewhere
    /// stays in the dispatcher. What arrives at the interface is passed on.
    ///
    /// # Errors
    /// [`AttachError`] if the interface has no native XDP or has a program already.
    pub fn park(&mut self, ifindex: u32) -> Result<(), AttachError> {
        self.parked = Some(attach::native(self.program.as_fd(), ifindex)?);
        Ok(())
    }

    /// Says what the given CPU sends, and sets its counters to zero. Its thread must not be inside
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// [`ConfigError`] if the set has no such thread, or the machine no such CPU.
    pub fn configure(&self, cpu: u32, config: &ThreadConfig) -> Result<(), ConfigError> {
        let words = self.thread_words(cpu, config)?;
        Ok(write_words(&self.threads, cpu, &words)?)
    }

    /// What the given CPU's thread is to get; the lanes of several streams are written.
    fn thread_words(&self, cpu: u32, config: &ThreadConfig) -> Result<Vec<u64>, ConfigError> {
        let (share, count) =
            (Share::new(config.thread, self.set.thread_count())?, self.threads.max_entries());
        if cpu >= count {
            return Err(ConfigError::Cpu { cpu, count });
        }
        let mut lanes = Vec::with_capacity(self.set.streams().len());
        let (plain, mut cycle_base) = (features::is_plain(&self.set), 0);
        for (index, stream) in self.set.streams().iter().enumerate() {
            let sequence = share.sequence(self.set.turns_before(index, config.first_nth));
            lanes.push(lane::encode(stream, sequence, cycle_base, plain));
            cycle_base += lane::cycle(stream).len() as u64;
        }
        let period = self.set.order().len() as u64;
        let only = if let [lane] = lanes.as_slice() { Some(lane.as_slice()) } else { None };
        if only.is_none() {
            for (index, lane) in (cpu * self.stream_count()..).zip(&lanes) {
                write_words(&self.lanes, index, lane)?;
            }
        }
        Ok(thread::encode(config, config.first_nth % period, only))
    }

    /// As [`configure`](Self::configure), for the only thread, which then has no more packets under
    /// way than a window allows: those that were sent and are not counted by a sink yet, nor given
    /// up because nothing has arrived for 50 ms.
    ///
    /// # Errors
    /// As [`configure`](Self::configure), or [`ConfigError::Sinks`].
    pub fn configure_within(
        &self,
        cpu: u32,
        config: &ThreadConfig,
        window_packets: u32,
        sinks: &[&SinkProgram],
    ) -> Result<(), ConfigError> {
        let sink_count = u32::try_from(sinks.len()).unwrap_or(u32::MAX);
        if sink_count > words::ROOM_SINKS {
            return Err(ConfigError::Sinks(sink_count));
        }
        for (index, sink) in (0..).zip(sinks) {
            map::write(&self.arrivals, index, &sink.counters_fd().to_ne_bytes())?;
        }
        for index in sink_count..words::ROOM_SINKS {
            // There may be none.
            let _ = self.arrivals.delete(&index.to_ne_bytes());
        }
        let mut words = self.thread_words(cpu, config)?;
        let room = thread::open_window(&mut words, window_packets, self.threads.max_entries());
        write_words(&self.room, 0, &room)?;
        Ok(write_words(&self.threads, cpu, &words)?)
    }

    /// At most 256: the numbers of streams in the signature differ.
    fn stream_count(&self) -> u32 {
        u32::try_from(self.set.streams().len()).unwrap_or(u32::MAX)
    }

    /// Takes a CPU's thread away: packets asked for there are refused and counted.
    ///
    /// # Errors
    /// [`MapError`] if there is no such CPU.
    pub fn disable(&self, cpu: u32) -> Result<(), MapError> {
        map::write(&self.threads, cpu, &[0; words::thread::WORDS * WORD_BYTES])
    }

    /// The next packet of a CPU's thread, counted from 0 over all its packets.
    ///
    /// # Errors
    /// [`MapError`] if there is no such CPU.
    pub fn next_nth(&self, cpu: u32) -> Result<u64, MapError> {
        Ok(map::read(&self.threads, cpu)?[words::thread::NTH])
    }

    /// Changes the pace of a CPU's thread, which must have been configured with an interval and
    /// must not be inside [`run`](Self::run). A packet that was due later than the new interval
    /// allows is due then.
    ///
    /// # Errors
    /// [`MapError`] if there is no such CPU.
    pub fn set_interval(&self, cpu: u32, interval: Interval) -> Result<(), MapError> {
        let mut words = map::read(&self.threads, cpu)?;
        thread::set_interval(&mut words, interval);
        write_words(&self.threads, cpu, &words)
    }

    /// Runs the calling CPU's thread: the program is asked for `repeat` packets, and may decline
    /// any of them (not due yet, beyond the limit). `batch` is the number of frames between two
    /// flushes, at most 256; 0 is the kernel's default, 64.
    ///
    /// A signal ends the call early; that is no error, for the counters hold what was done.
    ///
    /// # Errors
    /// What the kernel returned: `EPERM` without privileges, `EINVAL` without live frames, `E2BIG`
    /// for a bad batch.
    pub fn run(&self, repeat: u32, batch: u32) -> io::Result<()> {
        match sys::test_run_live(self.program.as_fd(), self.template(), repeat, batch) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    /// What pages start as.
    fn template(&self) -> &'static [u8] {
        let (_, size_bytes_max) = self.set.size_bytes_range();
        // Checked when the program was loaded.
        TEMPLATE.get(..usize::from(size_bytes_max)).unwrap_or(&TEMPLATE)
    }

    /// Counters of all threads since they were configured or cleared.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<GeneratorCounters, MapError> {
        let mut total = GeneratorCounters::default();
        for cpu in 0..self.threads.max_entries() {
            total.add(&self.thread_counters(cpu)?);
        }
        Ok(total)
    }

    /// Counters of one CPU's thread since it was configured or cleared.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read, or there is no such CPU.
    pub fn thread_counters(&self, cpu: u32) -> Result<GeneratorCounters, MapError> {
        let (min_bytes, max_bytes) = self.set.size_bytes_range();
        let size_bytes = (min_bytes == max_bytes).then_some(max_bytes);
        Ok(thread::counters(&map::read(&self.threads, cpu)?, size_bytes))
    }

    /// Times between two packets of each paced thread, nanoseconds, all threads together.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn gaps_ns(&self) -> Result<Histogram, MapError> {
        let mut gaps = Histogram::default();
        for words in map::read_per_cpu(&self.gaps)? {
            gaps.add_words(&words);
        }
        Ok(gaps)
    }

    /// Sets all counters to zero, and the gaps too. No thread may be inside [`run`](Self::run).
    ///
    /// # Errors
    /// [`MapError`] if they cannot be written.
    pub fn clear_counters(&self) -> Result<(), MapError> {
        for cpu in 0..self.threads.max_entries() {
            let mut words = map::read(&self.threads, cpu)?;
            thread::clear_counters(&mut words);
            write_words(&self.threads, cpu, &words)?;
        }
        map::clear_per_cpu(&self.gaps)
    }

    /// The frame that the program makes for the first packet of a thread, out of a page full of
    /// garbage, without sending it. No device is needed.
    ///
    /// All threads are overwritten, then disabled, because the calling thread may be on any CPU.
    ///
    /// # Errors
    /// [`FrameError`] if the configuration or the kernel refuses.
    pub fn single_frame(&self, config: &ThreadConfig) -> Result<Vec<u8>, FrameError> {
        const GARBAGE: u8 = 0xa5;
        let cpu_count = self.threads.max_entries();
        for cpu in 0..cpu_count {
            self.configure(cpu, config)?;
        }
        let mut output = vec![0; usize::from(SIZE_BYTES_MAX)];
        let page = vec![GARBAGE; self.template().len()];
        let result = sys::test_run_once(self.program.as_fd(), &page, &mut output);
        for cpu in 0..cpu_count {
            self.disable(cpu).map_err(ConfigError::from)?;
        }
        let (_verdict, output_size) = result?;
        output.truncate(output_size);
        Ok(output)
    }
}

pub(crate) fn write_words(map: &MapHandle, index: u32, words: &[u64]) -> Result<(), MapError> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    map::write(map, index, &bytes)
}

/// Sets the constants of the set, its program, and the sizes of its maps.
fn prepare(object: &mut OpenObject, set: &StreamSet) -> libbpf_rs::Result<()> {
    let cpu_count = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
    let stream_count = u32::try_from(set.streams().len()).unwrap_or(u32::MAX);
    let order = u32::try_from(set.order().len()).unwrap_or(u32::MAX);
    let cycles: usize = set.streams().iter().map(|stream| lane::cycle(stream).len()).sum();
    let entries = [
        ("weir_threads", cpu_count),
        ("weir_lanes", if stream_count == 1 { 1 } else { cpu_count.saturating_mul(stream_count) }),
        ("weir_order", order),
        ("weir_cycle_sizes", u32::try_from(cycles).unwrap_or(u32::MAX).max(1)),
    ];
    for mut program in object.progs_mut() {
        let is_selected = program.name() == features::program(set);
        program.set_autoload(is_selected);
    }
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, count)) = entries.iter().find(|(other, _)| *other == name) {
            map.set_max_entries(*count)?;
        }
        if name.ends_with(features::SECTION) {
            map.set_initial_value(&features::encode(set))?;
        }
    }
    Ok(())
}
