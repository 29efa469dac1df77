//! A fixed piece of work in an XDP program: the time that a CPU takes for it says how fast it is at
//! the moment. No packet is sent, and nothing is measured here.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use crate::object::{LoadError, Loaded};
use crate::sys;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/yardstick.bpf.o"));
const OBJECT_NAME: &str = "yardstick";

/// What a pass may look at: the smallest frame.
const FRAME: [u8; 60] = [0; 60];

/// The loaded program.
#[derive(Debug)]
pub struct Yardstick {
    program: OwnedFd,
}

impl Yardstick {
    /// Loads it.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn load() -> Result<Self, LoadError> {
        let program = Loaded::load(OBJECT_NAME, OBJECT)?.program("weir_yardstick")?;
        Ok(Self { program })
    }

    /// Does the work `count` times, on the CPU that the calling thread is on: the mean time of a
    /// pass in nanoseconds, by the kernel's clock around the passes. The call itself takes some ten
    /// milliseconds more, while the kernel makes the program known to its XDP dispatcher.
    ///
    /// # Errors
    /// What the kernel returned: above all that a signal came in between.
    pub fn run(&self, count: u32) -> io::Result<u32> {
        self.passes(count).map(|(_, pass_ns)| pass_ns)
    }

    /// The verdict of the last pass, and the time of one.
    fn passes(&self, count: u32) -> io::Result<(u32, u32)> {
        let mut frame = FRAME;
        let (verdict, _, pass_ns) =
            sys::test_run_from(self.program.as_fd(), None, &FRAME, &mut frame, count)?;
        Ok((verdict, pass_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_always_the_same() {
        const XDP_DROP: u32 = 1;
        const XDP_PASS: u32 = 2;
        let yardstick = Yardstick::load().unwrap();
        // As 4,096 steps of it come out anywhere.
        let mut word: u64 = 88_172_645_463_325_252;
        for _ in 0..4096 {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
        }
        let expected = if word & 1 == 1 { XDP_DROP } else { XDP_PASS };
        let (verdict, pass_ns) = yardstick.passes(3).unwrap();
        assert_eq!(verdict, expected);
        assert!(pass_ns > 0);
    }
}
