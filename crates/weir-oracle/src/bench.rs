//! What the generator and the firewall are measured against: `bpf/bench.bpf.c`.
//!
//! A sender that redirects one fixed frame, a receiver that counts and drops, and a router that
//! asks the kernel for each packet's way: the least that can be done. Nothing but benchmarks uses
//! them.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use libbpf_rs::MapHandle;

use weir_bpf::attach::{self, AttachError, Link};
use weir_bpf::map::{self, MapError, WORD_BYTES};
use weir_bpf::object::{LoadError, Loaded};
use weir_bpf::run;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));
const OBJECT_NAME: &str = "bench";

/// Sends one frame over and over.
#[derive(Debug)]
pub struct FixedSender {
    program: OwnedFd,
    output: MapHandle,
    _parked: Link,
}

impl FixedSender {
    /// Loads the program and attaches it to an idle interface of the calling thread's network
    /// namespace: see [`weir_bpf::generator::GeneratorProgram::park`].
    ///
    /// # Errors
    /// [`LoadError`] without privileges; [`AttachError`], as text, if the interface takes none.
    pub fn load(ifindex_park: u32) -> Result<Self, FixedError> {
        let object = Loaded::load(OBJECT_NAME, OBJECT)?;
        let program = object.program("weir_bench_fixed")?;
        let parked = attach::native(program.as_fd(), ifindex_park)?;
        let output = object.map("weir_output", size_of::<u32>())?;
        Ok(Self { program, output, _parked: parked })
    }

    /// Sends to an interface of the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// [`MapError`] if there is no such interface.
    pub fn connect(&self, ifindex: u32) -> Result<(), MapError> {
        map::write(&self.output, 0, &ifindex.to_ne_bytes())
    }

    /// Sends `frame` `repeat` times in batches of `batch`, on the calling CPU.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn run(&self, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
        match run::live(self.program.as_fd(), frame, repeat, batch) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }
}

/// Why the fixed sender could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum FixedError {
    /// The program could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The program could not be attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

/// Counts and drops everything that arrives.
#[derive(Debug)]
pub struct DropCounter {
    program: OwnedFd,
    dropped: MapHandle,
}

impl DropCounter {
    /// Loads the program; it is attached nowhere.
    ///
    /// # Errors
    /// [`LoadError`] without privileges or kernel support.
    pub fn load() -> Result<Self, LoadError> {
        let object = Loaded::load(OBJECT_NAME, OBJECT)?;
        Ok(Self {
            program: object.program("weir_bench_drop")?,
            dropped: object.map("weir_dropped", WORD_BYTES)?,
        })
    }

    /// Attaches the program, in native mode, until the link is dropped.
    ///
    /// # Errors
    /// [`AttachError`] if the interface has no native XDP or has a program already.
    pub fn attach(&self, ifindex: u32) -> Result<Link, AttachError> {
        attach::native(self.program.as_fd(), ifindex)
    }

    /// Packets that have arrived since the program was loaded.
    ///
    /// # Errors
    /// [`MapError`] if the counters cannot be read.
    pub fn packets(&self) -> Result<u64, MapError> {
        Ok(map::read_per_cpu(&self.dropped)?.iter().flatten().sum())
    }
}

/// Routes IPv4 by the kernel's table, and does nothing else.
#[derive(Debug)]
pub struct Router {
    program: OwnedFd,
}

impl Router {
    /// Loads the program; it is attached nowhere.
    ///
    /// # Errors
    /// [`LoadError`] without privileges or kernel support.
    pub fn load() -> Result<Self, LoadError> {
        let object = Loaded::load(OBJECT_NAME, OBJECT)?;
        Ok(Self { program: object.program("weir_bench_route")? })
    }

    /// Attaches the program, in native mode, until the link is dropped. What it redirects is only
    /// taken by interfaces that are ready for it: see [`weir_bpf::attach`] and `weir_net::xdp`.
    ///
    /// # Errors
    /// [`AttachError`] if the interface has no native XDP or has a program already.
    pub fn attach(&self, ifindex: u32) -> Result<Link, AttachError> {
        attach::native(self.program.as_fd(), ifindex)
    }
}
