//! The receiving end: the sink program on an interface, and its counters with the time of reading.
//!
//! It counts packets with weir's signature, which end there, and foreign ones, which go on into the
//! stack. It never samples by itself: the caller decides when.

use std::io;

use weir_bpf::attach::{AttachError, Link};
use weir_bpf::map::MapError;
use weir_bpf::object::LoadError;
use weir_bpf::sink::{QueueCounters, SinkCounters, SinkProgram};

use crate::clock;

/// Why a receiver could not be set up or read.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// The sink program could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The sink program could not be attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The counters could not be read.
    #[error(transparent)]
    Counters(#[from] MapError),
    /// The clock could not be read.
    #[error("cannot read the monotonic clock: {0}")]
    Clock(#[from] io::Error),
}

/// The counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// `CLOCK_MONOTONIC` half-way through reading, nanoseconds.
    pub t_ns: u64,
    /// Counters by receive queue, since the receiver was attached.
    pub counters: SinkCounters,
}

impl Snapshot {
    /// The sum over all queues.
    #[must_use]
    pub fn total(&self) -> QueueCounters {
        self.counters.total()
    }
}

/// A sink on an interface; dropping it detaches the program.
#[derive(Debug)]
pub struct Receiver {
    program: SinkProgram,
    link: Link,
}

impl Receiver {
    /// Loads the sink and attaches it to an interface of the calling thread's network namespace.
    /// From then on the receiver can be used from any thread in any namespace.
    ///
    /// # Errors
    /// [`ReceiverError`] without privileges, without native XDP, or if a program is there already.
    pub fn attach(ifindex: u32) -> Result<Self, ReceiverError> {
        let program = SinkProgram::load()?;
        let link = program.attach(ifindex)?;
        Ok(Self { program, link })
    }

    pub(crate) const fn program(&self) -> &SinkProgram {
        &self.program
    }

    /// Index of the interface, in the namespace in which the receiver was attached.
    #[must_use]
    pub const fn ifindex(&self) -> u32 {
        self.link.ifindex()
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// [`ReceiverError`] if the kernel refuses, which it does not while the process may use BPF.
    pub fn snapshot(&self) -> Result<Snapshot, ReceiverError> {
        let before_ns = clock::monotonic_ns()?;
        let counters = self.program.counters()?;
        let t_ns = before_ns.midpoint(clock::monotonic_ns()?);
        Ok(Snapshot { t_ns, counters })
    }
}
