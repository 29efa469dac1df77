//! The reflector: `bpf/reflect.bpf.c`, which sends IP packets back to where they came from.
//!
//! The program belongs to no namespace; [`ReflectProgram::attach`] takes an interface index of the
//! calling thread's namespace. It reports what it handed back to the device; whether the device
//! sent it, only the device's own counters say.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::MapHandle;

use crate::attach::{self, AttachError, Link, Mode};
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{LoadError, Loaded};
use crate::words::reflect_counters;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/reflect.bpf.o"));
const OBJECT_NAME: &str = "reflect";

/// What the reflector did, summed over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReflectCounters {
    /// Packets handed back to the device.
    pub reflected_packets: u64,
    /// Bytes of those, without FCS.
    pub reflected_bytes: u64,
    /// All other packets; they go on into the network stack.
    pub passed_packets: u64,
}

/// The reflector program, loaded.
#[derive(Debug)]
pub struct ReflectProgram {
    program: OwnedFd,
    counters: MapHandle,
}

impl ReflectProgram {
    /// Loads the program; it is attached nowhere.
    ///
    /// # Errors
    /// [`LoadError`] without privileges or kernel support.
    pub fn load() -> Result<Self, LoadError> {
        let object = Loaded::load(OBJECT_NAME, OBJECT)?;
        Ok(Self {
            program: object.program("weir_reflect")?,
            counters: object.map("weir_counters", reflect_counters::WORDS * WORD_BYTES)?,
        })
    }

    /// Attaches the program until the link is dropped.
    ///
    /// # Errors
    /// [`AttachError`] if the driver does not take it, or has a program already.
    pub fn attach(&self, ifindex: u32, mode: Mode) -> Result<Link, AttachError> {
        attach::in_mode(self.program.as_fd(), ifindex, mode)
    }

    /// The counters since the program was loaded. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<ReflectCounters, MapError> {
        let mut total = ReflectCounters::default();
        for words in map::read_per_cpu(&self.counters)? {
            total.reflected_packets += words[reflect_counters::REFLECTED_PACKETS];
            total.reflected_bytes += words[reflect_counters::REFLECTED_BYTES];
            total.passed_packets += words[reflect_counters::PASSED_PACKETS];
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests;
