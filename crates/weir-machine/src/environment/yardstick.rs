//! The yardstick: a fixed piece of work on one CPU, and who else was on the machine meanwhile.
//!
//! An XDP program that stays in the first cache and a walk through memory that misses every cache
//! take turns for short stretches. How long a stretch takes, in time of the day, says how fast the
//! machine is for the programs that it is to be measured with; how much stretches differ says what
//! to expect of figures. Nothing is judged here, and no packet is sent.

use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weir_bpf::yardstick::Yardstick as Program;
use weir_net::CpuList;
use weir_net::cpu::pin_current_thread;
use weir_results::yardstick::{Pace, Yardstick};

use super::interrupts::InterruptWatch;
use super::machine::{Counted, machine_use};
use super::tasks::Parts;
use crate::cancel::Cancel;

/// Passes of the XDP program in a stretch: a few milliseconds.
const PASSES: u32 = 256;
/// Steps in memory in a stretch: a few milliseconds.
const STEPS: u32 = 32_768;
/// Memory that is walked through: more than the caches of one core, and of most machines.
const MEMORY_BYTES: usize = 64 << 20;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// 32-bit words of a cache line.
const LINE_WORDS: usize = LINE_BYTES / size_of::<u32>();

/// Why there is no reading.
#[derive(Debug, thiserror::Error)]
#[error("cannot take the yardstick of CPU {cpu}: {reason}")]
pub struct YardstickError {
    cpu: usize,
    reason: String,
}

/// Does the work on a CPU for about so long; what else ran is told of all of `cpus`. `None` if it
/// was asked to stop.
///
/// # Errors
/// When the program cannot be loaded or run, or the CPU may not be used.
pub fn measure(
    cpu: usize,
    cpus: &CpuList,
    duration: Duration,
    cancel: &Cancel,
) -> Result<Option<Yardstick>, YardstickError> {
    let failed = |reason: String| YardstickError { cpu, reason };
    let program = Program::load().map_err(|error| failed(error.to_string()))?;
    let mut walk = Walk::new();
    let work = || -> Result<Option<Yardstick>, String> {
        let only = CpuList::new([cpu]).ok_or("no CPU")?;
        pin_current_thread(&only).map_err(|error| error.to_string())?;
        let interrupts = InterruptWatch::start();
        let before = Counted::take();
        let started = Instant::now();
        let (mut xdp, mut memory) = (Vec::new(), Vec::new());
        while started.elapsed() < duration || xdp.is_empty() {
            if cancel.signal().is_some() {
                return Ok(None);
            }
            xdp.push(program.run(PASSES).map_err(|error| error.to_string())?.into());
            let began = Instant::now();
            walk.go(STEPS);
            memory.push(began.elapsed().as_secs_f64() * 1e9 / f64::from(STEPS));
        }
        let duration = started.elapsed();
        let counted = Counted::take();
        let interrupted = interrupts.and_then(InterruptWatch::stop);
        let after = Counted { interrupted, ..counted };
        let this = std::process::id().cast_signed();
        let parts = Parts { processes: vec![this], ..Parts::default() };
        let all: Vec<usize> = cpus.iter().collect();
        let pace = |times_ns: &[f64]| Pace::of(times_ns).ok_or("no stretch");
        Ok(Some(Yardstick {
            time_utc: Timestamp::now().to_string(),
            cpu,
            duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
            xdp: pace(&xdp)?,
            memory: pace(&memory)?,
            machine: machine_use(&before, &after, &[], (&all, Some(&parts))),
        }))
    };
    // A thread of its own: its CPU stays pinned.
    let result = thread::scope(|scope| scope.spawn(work).join());
    result.unwrap_or_else(|_| Err("its thread ended".to_owned())).map_err(failed)
}

/// A walk through memory in which every step depends on the one before: one circle through all
/// lines, in no order that a CPU could guess.
struct Walk {
    /// The number of the next line, in the first word of each line.
    next: Vec<u32>,
    line: u32,
}

impl Walk {
    fn new() -> Self {
        let lines = MEMORY_BYTES / LINE_BYTES;
        let mut next = vec![0_u32; lines * LINE_WORDS];
        let mut order: Vec<u32> = (0..u32::try_from(lines).unwrap_or(u32::MAX)).collect();
        // Sattolo 1986: a random permutation of one circle. Always the same one.
        let mut word: u64 = 88_172_645_463_325_252;
        for index in (1..lines).rev() {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            order.swap(index, usize::try_from(word % index as u64).unwrap_or(0));
        }
        for (line, to) in order.into_iter().enumerate() {
            next[line * LINE_WORDS] = to;
        }
        Self { next, line: 0 }
    }

    /// So many steps.
    fn go(&mut self, steps: u32) {
        for _ in 0..steps {
            self.line = self.next[self.line as usize * LINE_WORDS];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_comes_to_every_line_before_it_returns() {
        let mut walk = Walk::new();
        let lines = walk.next.len() / LINE_WORDS;
        let mut steps = 0;
        loop {
            walk.go(1);
            steps += 1;
            if walk.line == 0 {
                break;
            }
        }
        assert_eq!(steps, lines);
    }

    #[test]
    fn the_work_is_timed_and_ends_when_it_is_asked_to() {
        let cpus = weir_net::cpu::online().unwrap();
        let cancel = Cancel::default();
        let duration = Duration::from_millis(20);
        let reading =
            measure(cpus.first(), &cpus, duration, &cancel).unwrap().expect("nobody asked to stop");
        assert_eq!(reading.cpu, cpus.first());
        assert!(reading.xdp.median_ns > 0.0 && reading.memory.median_ns > 0.0, "{reading:?}");
        assert_eq!(reading.xdp.count, reading.memory.count);
        assert_eq!(reading.machine.cpus.len(), cpus.count());
        cancel.request(15);
        assert_eq!(measure(cpus.first(), &cpus, duration, &cancel).unwrap(), None);
    }
}
