//! The fault element: `bpf/fault.bpf.c`, which drops, duplicates or delays chosen packets.
//!
//! It is for tests of receivers: no command uses it. It sends what arrives at one interface out of
//! another, in one direction, and does to the packets of chosen sequence numbers what was chosen,
//! exactly, whatever the timing. All packets must arrive on one receive queue. It tells packets
//! apart by their sequence numbers alone, so that only one stream may pass it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use weir_bpf::attach::{self, AttachError, Link};
use weir_bpf::map::{self, MapError, WORD_BYTES};
use weir_bpf::object::{LoadError, Loaded};
use weir_wire::tcp::Flags;

use crate::types::{HELD_COUNT_MAX, action, fault, fault_counters};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fault.bpf.o"));
const OBJECT_NAME: &str = "fault";

/// In the key of a TCP segment (`WEIR_FAULT_SEGMENT`).
const SEGMENT: u64 = 1 << 63;

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is lost.
    Drop,
    /// It leaves twice.
    Duplicate,
    /// It leaves right after the packet with this sequence number, which must come after it, in a
    /// frame of the same size. After the next one: the two change places.
    DelayUntil(u64),
}

/// What the fault element did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Packets that were received and handed on, once or twice.
    pub forwarded_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that were handed on twice.
    pub duplicated_packets: u64,
    /// Packets that were held back.
    pub held_packets: u64,
    /// Packets, of those, that left later.
    pub released_packets: u64,
    /// Packets to which what was chosen could not be done: a fault of the test.
    pub refused_packets: u64,
}

/// Why a fault could not be chosen.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// A packet has a part in one fault only.
    #[error("packet {0} is already part of another fault")]
    Chosen(u64),
    /// A packet waits for one that has gone before it.
    #[error("packet {0} cannot leave after packet {1}, which comes before it")]
    Backwards(u64, u64),
    /// There is no room.
    #[error("no more than {HELD_COUNT_MAX} packets can be delayed")]
    Full,
    /// The kernel refused.
    #[error("cannot choose packet {sequence}: {source}")]
    Map {
        /// Its sequence number.
        sequence: u64,
        /// What the kernel returned.
        source: libbpf_rs::Error,
    },
}

/// The fault element, loaded.
#[derive(Debug)]
pub struct FaultProgram {
    program: OwnedFd,
    out: OwnedFd,
    faults: MapHandle,
    counters: MapHandle,
    once: MapHandle,
    twice: MapHandle,
    held_count: u64,
}

impl FaultProgram {
    /// Loads the program: nothing is chosen, it is attached nowhere.
    ///
    /// # Errors
    /// [`LoadError`] without privileges or kernel support.
    pub fn load() -> Result<Self, LoadError> {
        let object = Loaded::load(OBJECT_NAME, OBJECT)?;
        Ok(Self {
            program: object.program("weir_fault")?,
            out: object.program("weir_fault_out")?,
            faults: object.map("weir_faults", fault::WORDS * WORD_BYTES)?,
            counters: object.map("weir_counters", fault_counters::WORDS * WORD_BYTES)?,
            once: object.map("weir_once", WORD_BYTES)?,
            twice: object.map("weir_twice", WORD_BYTES)?,
            held_count: 0,
        })
    }

    /// Sends to an interface of the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// [`MapError`] if there is no such interface or its driver cannot transmit XDP frames.
    pub fn connect(&self, ifindex: u32) -> Result<(), MapError> {
        let mut entry = ifindex.to_ne_bytes().to_vec();
        entry.extend(self.out.as_raw_fd().to_ne_bytes());
        map::write(&self.once, 0, &entry)?;
        map::write(&self.twice, 0, &entry)?;
        map::write(&self.twice, 1, &entry)
    }

    /// Takes what arrives at an interface of the calling thread's network namespace, in native
    /// mode, until the link is dropped.
    ///
    /// # Errors
    /// [`AttachError`] if the interface has no native XDP or has a program already.
    pub fn attach(&self, ifindex: u32) -> Result<Link, AttachError> {
        attach::native(self.program.as_fd(), ifindex)
    }

    /// Chooses TCP segments without weir's signature that are lost: all with these flags, from one
    /// port to the other.
    ///
    /// # Errors
    /// [`FaultError`] if they have a part in another fault.
    pub fn drop_segments(
        &mut self,
        flags: Flags,
        src_port: u16,
        dst_port: u16,
    ) -> Result<(), FaultError> {
        let ports = u64::from(src_port) << 16 | u64::from(dst_port);
        self.put(SEGMENT | u64::from(flags.0) << 32 | ports, action::DROP, 0)
    }

    /// Chooses what happens to the packet with this sequence number.
    ///
    /// # Errors
    /// [`FaultError`] if it has a part in another fault, or there is no room for more.
    pub fn choose(&mut self, sequence: u64, fault: Fault) -> Result<(), FaultError> {
        match fault {
            Fault::Drop => self.put(sequence, action::DROP, 0),
            Fault::Duplicate => self.put(sequence, action::DUPLICATE, 0),
            Fault::DelayUntil(other) => {
                if other <= sequence {
                    return Err(FaultError::Backwards(sequence, other));
                }
                if self.held_count == HELD_COUNT_MAX {
                    return Err(FaultError::Full);
                }
                self.put(other, action::RELEASE, self.held_count)?;
                if let Err(error) = self.put(sequence, action::HOLD, self.held_count) {
                    self.faults
                        .delete(&other.to_ne_bytes())
                        .map_err(|source| FaultError::Map { sequence: other, source })?;
                    return Err(error);
                }
                self.held_count += 1;
                Ok(())
            }
        }
    }

    fn put(&self, sequence: u64, action: u64, slot: u64) -> Result<(), FaultError> {
        let mut words = [0; fault::WORDS];
        (words[fault::ACTION], words[fault::SLOT]) = (action, slot);
        let value: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let put = self.faults.update(&sequence.to_ne_bytes(), &value, MapFlags::NO_EXIST);
        put.map_err(|source| match source.kind() {
            libbpf_rs::ErrorKind::AlreadyExists => FaultError::Chosen(sequence),
            _ => FaultError::Map { sequence, source },
        })
    }

    /// The counters since the program was loaded. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<FaultCounters, MapError> {
        let mut total = FaultCounters::default();
        for words in map::read_per_cpu(&self.counters)? {
            total.forwarded_packets += words[fault_counters::FORWARDED_PACKETS];
            total.dropped_packets += words[fault_counters::DROPPED_PACKETS];
            total.duplicated_packets += words[fault_counters::DUPLICATED_PACKETS];
            total.held_packets += words[fault_counters::HELD_PACKETS];
            total.released_packets += words[fault_counters::RELEASED_PACKETS];
            total.refused_packets += words[fault_counters::REFUSED_PACKETS];
        }
        Ok(total)
    }
}
