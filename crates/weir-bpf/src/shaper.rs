//! The shaper: `bpf/shaper.bpf.c`, a device under test whose capacity is known.
//!
//! It is for tests of the rate search: no command uses it. It sends what arrives at one interface
//! out of another, in one direction, and drops what is above its rate. All packets must arrive on
//! one receive queue.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::MapHandle;

use crate::attach::{self, AttachError, Link};
use crate::generator::Interval;
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{LoadError, Loaded};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shaper.bpf.o"));
const OBJECT_NAME: &str = "shaper";

const BUCKET_WORDS: usize = 7;

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
            buckets: object.map("weir_buckets", BUCKET_WORDS * WORD_BYTES)?,
            out: object.map("weir_out", size_of::<u32>())?,
        })
    }

    /// Lets one packet pass in each interval, and packets of `depth_ns` more at once after a pause.
    /// Counters begin anew.
    ///
    /// # Errors
    /// [`MapError`] if the kernel refuses.
    pub fn shape(&self, interval: Interval, depth_ns: u64) -> Result<(), MapError> {
        let words: [u64; BUCKET_WORDS] =
            [interval.whole_ns, interval.fraction.into(), depth_ns, 0, 0, 0, 0];
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

    /// The counters since the rate was set. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<ShaperCounters, MapError> {
        let words = map::read(&self.buckets, 0)?;
        let &[_, _, _, _, _, passed_packets, dropped_packets] = words.as_slice() else {
            unreachable!("the map's value size was checked when it was loaded");
        };
        Ok(ShaperCounters { passed_packets, dropped_packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    const XDP_DROP: u32 = 1;
    const HOUR_NS: u64 = 3_600_000_000_000;

    /// How many of fifteen packets in a row are not dropped.
    fn passed(program: &ShaperProgram) -> usize {
        let mut output = vec![0; 2048];
        let verdicts = (0..15).map(|_| {
            let result = sys::test_run_once(program.program.as_fd(), &[0; 60], &mut output);
            result.expect("the program runs").0
        });
        verdicts.filter(|&verdict| verdict != XDP_DROP).count()
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    fn what_is_above_the_rate_is_dropped() {
        let program = match ShaperProgram::load() {
            Ok(program) => program,
            Err(error) if error.is_permission() => {
                eprintln!("skipped: loading BPF programs needs root");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(passed(&program), 0, "no rate is set");
        // One packet an hour, and nine hours at once: the test is over before the next one is due.
        let hour = Interval { whole_ns: HOUR_NS, fraction: 0 };
        program.shape(hour, 9 * HOUR_NS).expect("shaped");
        assert_eq!(passed(&program), 10);
        let counters = program.counters().expect("readable");
        assert_eq!(counters, ShaperCounters { passed_packets: 10, dropped_packets: 5 });
        // A nanosecond is over before the next packet comes.
        program.shape(Interval { whole_ns: 1, fraction: 0 }, 0).expect("shaped");
        assert_eq!(passed(&program), 15);
    }
}
