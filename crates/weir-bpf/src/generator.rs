//! The live-frame generator: `bpf/gen.bpf.c`, its lanes, its output device and its counters.
//!
//! A *lane* is what one CPU sends. The program finds its lane by the CPU it runs on, so that the
//! thread that calls [`GeneratorProgram::run`] must be pinned to the CPU it has configured. Lanes
//! share nothing but the program and the output device.
//!
//! The kernel builds and transmits the frames (`BPF_PROG_TEST_RUN` with
//! `BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18; see Documentation/bpf/bpf_prog_run.rst). A frame that
//! the output device refuses is lost without a word: [`GeneratorCounters`] say what was *offered*
//! to the device, the device's own counters what it accepted.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::MapHandle;
use weir_wire::frame::UdpStream;

use crate::attach::{self, AttachError, Link};
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{LoadError, Loaded};
use crate::sys;

mod counters;
mod lane;
#[cfg(test)]
mod tests;

pub use counters::GeneratorCounters;

/// Smallest frame: headers and signature, bytes without FCS.
pub const SIZE_BYTES_MIN: u16 = 60;

/// Largest frame that the kernel takes on machines with pages of 4 KiB, bytes without FCS.
pub const SIZE_BYTES_MAX: u16 = 3408;

/// Largest batch that the kernel takes.
pub const BATCH_MAX: u32 = 256;

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

/// What one lane sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorConfig {
    /// Headers, flows, size, and the stream and thread numbers of the signature. Unlike
    /// [`UdpStream::build`], sizes up to [`SIZE_BYTES_MAX`] are sent.
    pub stream: UdpStream,
    /// Sequence number of the first packet; it also determines its flow.
    pub first_sequence: u64,
    /// First sequence number that is not sent any more; `None` is no limit.
    pub end_sequence: Option<u64>,
    /// What is added to the sequence number from packet to packet: the number of threads that
    /// share the stream, of which each then starts at another of the first numbers.
    pub sequence_step: u64,
    /// Time between two packets; `None` is as fast as possible.
    pub interval: Option<Interval>,
    /// How much delay a paced lane makes up for, nanoseconds: see [`CATCH_UP_NS`].
    pub catch_up_ns: u64,
    /// Whether packets carry the time at which they were made. It costs a clock read per packet.
    pub timestamps: bool,
}

/// Why a lane could not be configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The frame size is not one that can be sent.
    #[error(
        "frames of {0} bytes cannot be sent: live frames have {SIZE_BYTES_MIN} to \
         {SIZE_BYTES_MAX} bytes, without FCS"
    )]
    Size(u16),
    /// The step is zero, with which every packet would have the same number.
    #[error("the sequence step is zero: it must be the number of threads")]
    Step,
    /// The lane could not be written.
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

/// The generator program, loaded.
///
/// It belongs to no namespace; [`connect`](Self::connect) and [`park`](Self::park) take interface
/// indices of the calling thread's namespace, and hold on to the devices themselves. Dropping it
/// ends everything.
#[derive(Debug)]
pub struct GeneratorProgram {
    program: OwnedFd,
    lanes: MapHandle,
    counters: MapHandle,
    output: MapHandle,
    parked: Option<Link>,
}

impl GeneratorProgram {
    /// Loads the program: no lane is configured, nothing is connected.
    ///
    /// # Errors
    /// [`LoadError`] without privileges or kernel support.
    pub fn load() -> Result<Self, LoadError> {
        let object = Loaded::load(OBJECT_NAME, OBJECT)?;
        Ok(Self {
            program: object.program("weir_gen")?,
            lanes: object.map("weir_lanes", lane::WORDS * WORD_BYTES)?,
            counters: object.map("weir_counters", counters::WORDS * WORD_BYTES)?,
            output: object.map("weir_output", size_of::<u32>())?,
            parked: None,
        })
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

    /// Says what the given CPU sends. Its thread must not be inside [`run`](Self::run).
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration cannot be honoured or there is no such lane.
    pub fn configure(&self, cpu: u32, config: &GeneratorConfig) -> Result<(), ConfigError> {
        Ok(map::write(&self.lanes, cpu, &lane::encode(config)?)?)
    }

    /// Takes a CPU's lane away: packets asked for there are refused and counted.
    ///
    /// # Errors
    /// [`MapError`] if there is no such lane.
    pub fn disable(&self, cpu: u32) -> Result<(), MapError> {
        map::write(&self.lanes, cpu, &[0; lane::WORDS * WORD_BYTES])
    }

    /// Sequence number of the next packet of a CPU's lane.
    ///
    /// # Errors
    /// [`MapError`] if there is no such lane.
    pub fn next_sequence(&self, cpu: u32) -> Result<u64, MapError> {
        Ok(map::read(&self.lanes, cpu)?[lane::SEQUENCE_WORD])
    }

    /// Changes the pace of a CPU's lane, which must have been configured with an interval; its
    /// thread must not be inside [`run`](Self::run). A packet that was due later than the new
    /// interval allows is due then.
    ///
    /// # Errors
    /// [`MapError`] if there is no such lane.
    pub fn set_interval(&self, cpu: u32, interval: Interval) -> Result<(), MapError> {
        let mut words = map::read(&self.lanes, cpu)?;
        lane::set_interval(&mut words, interval);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        map::write(&self.lanes, cpu, &bytes)
    }

    /// Runs the calling CPU's lane: the program is asked for `repeat` packets, and may decline any
    /// of them (not due yet, beyond the limit). `size_bytes` must be what the lane was configured
    /// with. `batch` is the number of frames between two flushes, at most [`BATCH_MAX`]; 0 is the
    /// kernel's default, 64.
    ///
    /// A signal ends the call early; that is no error, for the counters hold what was done.
    ///
    /// # Errors
    /// What the kernel returned: `EPERM` without privileges, `EINVAL` without live frames or for a
    /// bad size, `E2BIG` for a bad batch.
    pub fn run(&self, size_bytes: u16, repeat: u32, batch: u32) -> io::Result<()> {
        let template = TEMPLATE
            .get(..usize::from(size_bytes))
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        match sys::test_run_live(self.program.as_fd(), template, repeat, batch) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    /// Counters of all lanes since they were last cleared.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<GeneratorCounters, MapError> {
        Ok(GeneratorCounters::sum(&map::read_per_cpu(&self.counters)?))
    }

    /// Counters of one CPU's lane since they were last cleared.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read, or there is no such CPU.
    pub fn lane_counters(&self, cpu: u32) -> Result<GeneratorCounters, MapError> {
        let cpus = map::read_per_cpu(&self.counters)?;
        let words = cpus.get(cpu as usize).cloned();
        let absent = || MapError::Absent { map: "weir_counters".into(), index: cpu };
        Ok(GeneratorCounters::sum(&[words.ok_or_else(absent)?]))
    }

    /// Sets all counters to zero. No thread may be inside [`run`](Self::run).
    ///
    /// # Errors
    /// [`MapError`] if they cannot be written.
    pub fn clear_counters(&self) -> Result<(), MapError> {
        map::clear_per_cpu(&self.counters)
    }

    /// The frame that the program makes for the configuration's first packet, out of a page full of
    /// garbage, without sending it. No device is needed.
    ///
    /// All lanes are overwritten, then disabled, because the calling thread may be on any CPU; the
    /// frame is counted as offered, or as refused if nothing is connected.
    ///
    /// # Errors
    /// [`FrameError`] if the configuration or the kernel refuses.
    pub fn single_frame(&self, config: &GeneratorConfig) -> Result<Vec<u8>, FrameError> {
        const GARBAGE: u8 = 0xa5;
        let cpu_count = libbpf_rs::num_possible_cpus()
            .ok()
            .and_then(|count| u32::try_from(count).ok())
            .ok_or_else(|| io::Error::other("the number of CPUs is not known"))?;
        for cpu in 0..cpu_count {
            self.configure(cpu, config)?;
        }
        let size = usize::from(config.stream.size_bytes);
        let mut output = vec![0; usize::from(SIZE_BYTES_MAX)];
        let page = vec![GARBAGE; size];
        let result = sys::test_run_once(self.program.as_fd(), &page, &mut output);
        for cpu in 0..cpu_count {
            self.disable(cpu).map_err(ConfigError::from)?;
        }
        let (_verdict, output_size) = result?;
        output.truncate(output_size);
        Ok(output)
    }
}
