//! The shaper: `bpf/shaper.bpf.c`, a device under test whose capacity is known.
//!
//! It is for tests of the rate search: no command uses it. It sends what arrives at one interface
//! out of another, in one direction, and drops what is above its rate. All packets must arrive on
//! one receive queue.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::MapHandle;

use weir_bpf::attach::{self, AttachError, Link};
use weir_bpf::generator::Interval;
use weir_bpf::map::{self, MapError, WORD_BYTES};
use weir_bpf::object::{LoadError, Loaded};
use weir_bpf::run;

use crate::types::bucket;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shaper.bpf.o"));
const OBJECT_NAME: &str = "shaper";

/// What the shaper did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShaperCounters {
    /// Packets that were handed on.
    pub passed_packets: u64,
    /// Packets that were above the rate, and dropped.
    pub dropped_packets: u64,
}

/// The shaper, loaded.
#[derive(Debug)]
pub struct ShaperProgram {
    program: OwnedFd,
    buckets: MapHandle,
    out: MapHandle,
}

impl ShaperProgram {
    /// Loads the program: nothing passes it, it is attached nowhere.
    ///
    /// # Errors
    /// [`LoadError`] without privileges or kernel support.
    pub fn load() -> Result<Self, LoadError> {
        let object = Loaded::load(OBJECT_NAME, OBJECT)?;
        Ok(Self {
            program: object.program("weir_shaper")?,
            buckets: object.map("weir_buckets", bucket::WORDS * WORD_BYTES)?,
            out: object.map("weir_out", size_of::<u32>())?,
        })
    }

    /// Lets one packet pass in each interval, and packets of `depth_ns` more at once after a pause.
    /// Counters begin anew.
    ///
    /// # Errors
    /// [`MapError`] if the kernel refuses.
    pub fn shape(&self, interval: Interval, depth_ns: u64) -> Result<(), MapError> {
        let mut words = [0; bucket::WORDS];
        words[bucket::INTERVAL_NS] = interval.whole_ns;
        words[bucket::INTERVAL_FRACTION] = interval.fraction.into();
        words[bucket::DEPTH_NS] = depth_ns;
        let value: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        map::write(&self.buckets, 0, &value)
    }

    /// Sends to an interface of the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// [`MapError`] if there is no such interface or its driver cannot transmit XDP frames.
    pub fn connect(&self, ifindex: u32) -> Result<(), MapError> {
        map::write(&self.out, 0, &ifindex.to_ne_bytes())
    }

    /// Takes what arrives at an interface of the calling thread's network namespace, in native
    /// mode, until the link is dropped.
    ///
    /// # Errors
    /// [`AttachError`] if the interface has no native XDP or has a program already.
    pub fn attach(&self, ifindex: u32) -> Result<Link, AttachError> {
        attach::native(self.program.as_fd(), ifindex)
    }

    /// Runs the program once on a frame that never arrived anywhere; the verdict.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn run_once(&self, frame: &[u8]) -> io::Result<u32> {
        let mut output = vec![0; 2048];
        run::once(self.program.as_fd(), frame, &mut output).map(|(verdict, _)| verdict)
    }

    /// The counters since the rate was set. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<ShaperCounters, MapError> {
        let words = map::read(&self.buckets, 0)?;
        Ok(ShaperCounters {
            passed_packets: words[bucket::PASSED_PACKETS],
            dropped_packets: words[bucket::DROPPED_PACKETS],
        })
    }
}
