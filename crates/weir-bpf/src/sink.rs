//! The sink: `bpf/sink.bpf.c`, which counts and ends packets with weir's signature.
//!
//! [`SinkProgram`] counts and does nothing else. [`SinkObserver`] is the full mode: it follows each
//! sender's sequence numbers, marks flows, and measures latency.
//!
//! The program belongs to no namespace; [`SinkProgram::attach`] takes an interface index of the
//! calling thread's namespace. Counters keep counting over several attachments.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use libbpf_rs::{MapHandle, OpenObject};

use crate::attach::{self, AttachError, Link, Mode};
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{self, LoadError, Loaded};
use crate::words::{SINK_QUEUE_COUNT, sink_counters, sink_queue};

mod observe;
#[cfg(test)]
mod tests;

pub use observe::{
    Arrival, FLOW_COUNT_MAX, Observations, ObserveError, SENDER_COUNT_MAX, SenderCounters,
    SinkObserver, StreamFlows,
};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sink.bpf.o"));
const OBJECT_NAME: &str = "sink";

/// What arrived on one receive queue, summed over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets with weir's signature; they end here.
    pub packets: u64,
    /// Bytes of those, without FCS.
    pub bytes: u64,
    /// All other packets; they go on into the network stack.
    pub foreign_packets: u64,
    /// Bytes of those, without FCS.
    pub foreign_bytes: u64,
}

impl QueueCounters {
    /// Adds another queue's counters.
    pub const fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.foreign_packets += other.foreign_packets;
        self.foreign_bytes += other.foreign_bytes;
    }
}

/// What arrived, by receive queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SinkCounters {
    /// One for each queue, whether the interface has it or not; those beyond the last one are
    /// counted with it.
    pub queues: Vec<QueueCounters>,
}

impl SinkCounters {
    /// The sum over all queues.
    #[must_use]
    pub fn total(&self) -> QueueCounters {
        let mut total = QueueCounters::default();
        for queue in &self.queues {
            total.add(queue);
        }
        total
    }
}

/// The sink program, loaded.
#[derive(Debug)]
pub struct SinkProgram {
    program: OwnedFd,
    counters: MapHandle,
}

impl SinkProgram {
    /// Loads the program; it is attached nowhere.
    ///
    /// # Errors
    /// [`LoadError`] without privileges or kernel support.
    pub fn load() -> Result<Self, LoadError> {
        Self::from_object(&Loaded::load_prepared(OBJECT_NAME, OBJECT, bare)?)
    }

    fn from_object(object: &Loaded) -> Result<Self, LoadError> {
        Ok(Self {
            program: object.program("weir_sink")?,
            counters: object.map("weir_counters", sink_counters::WORDS * WORD_BYTES)?,
        })
    }

    /// Attaches the program, in native mode, until the link is dropped.
    ///
    /// # Errors
    /// [`AttachError`] if the interface has no native XDP or has a program already.
    pub fn attach(&self, ifindex: u32) -> Result<Link, AttachError> {
        attach::native(self.program.as_fd(), ifindex)
    }

    /// What another program's map of maps names the counters by.
    pub(crate) fn counters_fd(&self) -> i32 {
        self.counters.as_fd().as_raw_fd()
    }

    /// As [`SinkProgram::attach`], in generic mode: behind any driver, and several times slower.
    ///
    /// # Errors
    /// [`AttachError`] if the interface has a program already.
    pub fn attach_generic(&self, ifindex: u32) -> Result<Link, AttachError> {
        attach::in_mode(self.program.as_fd(), ifindex, Mode::Generic)
    }

    /// The counters since the program was loaded. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<SinkCounters, MapError> {
        let mut queues = vec![QueueCounters::default(); SINK_QUEUE_COUNT];
        for words in map::read_per_cpu(&self.counters)? {
            let counts = words[sink_counters::QUEUE..].chunks_exact(sink_queue::WORDS);
            for (queue, words) in queues.iter_mut().zip(counts) {
                queue.add(&QueueCounters {
                    packets: words[sink_queue::PACKETS],
                    bytes: words[sink_queue::BYTES],
                    foreign_packets: words[sink_queue::FOREIGN_PACKETS],
                    foreign_bytes: words[sink_queue::FOREIGN_BYTES],
                });
            }
        }
        Ok(SinkCounters { queues })
    }
}

/// The bare mode does not touch the maps of the full one: none is larger than it must be.
fn bare(object: &mut OpenObject) -> libbpf_rs::Result<()> {
    observe::MAPS.iter().try_for_each(|map| object::resize(object, map, 1))
}
