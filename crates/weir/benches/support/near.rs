//! Waits until two CPUs share a cache.
//!
//! A virtual machine's CPUs are moved about by its host. What one of them hands to the other costs
//! up to twice as much while they are far apart: a figure that is taken then compares with none
//! that is taken while they are near.

use std::cell::Cell;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::environment::distance::{NEAR_NS, between};
use weir_net::CpuList;

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// Two CPUs, and how long a sample waits for them.
#[derive(Debug)]
pub(crate) struct Near {
    cpus: [usize; 2],
    patience: Duration,
    far_count: Cell<u32>,
}

impl Near {
    /// The first two CPUs, which every benchmark takes; one alone is near itself.
    pub(crate) fn new(patience: Duration) -> Self {
        let online = weir_net::cpu::online();
        let online: Vec<usize> = online.iter().flat_map(CpuList::iter).take(2).collect();
        let cpus = <[usize; 2]>::try_from(online).unwrap_or_default();
        Self { cpus, patience, far_count: Cell::new(0) }
    }

    /// Takes a sample while the CPUs are near: again if they were moved meanwhile, and as it is if
    /// they are far apart for too long, which is counted.
    pub(crate) fn sample<T, E: From<&'static str>>(
        &self,
        cancel: &Cancel,
        mut sample: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let deadline = Instant::now() + self.patience;
        loop {
            let was_near = self.wait(cancel, deadline)?;
            let found = sample()?;
            if was_near && self.is_near() {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                self.far_count.set(self.far_count.get() + 1);
                return Ok(found);
            }
        }
    }

    /// Samples that were taken while they were far apart, so far.
    pub(crate) fn far_count(&self) -> u32 {
        self.far_count.get()
    }

    fn is_near(&self) -> bool {
        let [one, other] = self.cpus;
        one == other || between(one, other).is_some_and(|distance_ns| distance_ns <= NEAR_NS)
    }

    /// Waits until they are; false if they are not in time.
    fn wait(&self, cancel: &Cancel, deadline: Instant) -> Result<bool, &'static str> {
        loop {
            if self.is_near() {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            if !cancel.sleep(LOOK) {
                return Err("interrupted");
            }
        }
    }
}

/// What a result says of them.
pub(crate) fn note(far_count: u32) -> String {
    match far_count {
        0 => String::new(),
        count => format!(
            "{count} samples were taken while the two CPUs were far apart: they compare with none \
             that were not\n"
        ),
    }
}
