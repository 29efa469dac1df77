//! Waits until two CPUs share a cache.
//!
//! A virtual machine's CPUs are moved about by its host. What one of them hands to the other costs
//! up to twice as much while they are far apart: a figure that is taken then compares with none
//! that is taken while they are near.

use std::cell::Cell;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::environment::distance::between;
use weir_results::machine_use::NEAR_NS;

/// Pause between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// Looks until the distance counts as unknown: something else may have a CPU for a moment.
const LOOKS_MAX: u32 = 5;

/// A look at the distance between two CPUs, ns; `None` if it cannot be told.
pub(crate) type Look = fn(usize, usize) -> Option<f64>;

/// Two CPUs, and how long a sample waits for them.
#[derive(Debug)]
pub(crate) struct Near {
    cpus: [usize; 2],
    patience: Duration,
    /// Another one in tests.
    pub(crate) look: Look,
    far_count: Cell<u32>,
}

impl Near {
    pub(crate) fn new(cpus: [usize; 2], patience: Duration) -> Self {
        Self { cpus, patience, look: between, far_count: Cell::new(0) }
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
            self.wait(cancel, deadline)?;
            let found = sample()?;
            if !self.is_far() {
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

    /// Whether they are known to be far apart.
    fn is_far(&self) -> bool {
        let [one, other] = self.cpus;
        let distance_ns = || (self.look)(one, other);
        let seen = (0..LOOKS_MAX).find_map(|_| distance_ns());
        one != other && seen.is_some_and(|distance_ns| distance_ns > NEAR_NS)
    }

    fn wait(&self, cancel: &Cancel, deadline: Instant) -> Result<(), &'static str> {
        while self.is_far() && Instant::now() < deadline {
            if !cancel.sleep(LOOK) {
                return Err("interrupted");
            }
        }
        Ok(())
    }
}

/// What a result says of samples that were taken while the CPUs were far apart.
pub(crate) fn note(far_count: u32) -> String {
    match far_count {
        0 => String::new(),
        1 => "1 sample was taken while the CPUs were far apart: do not compare it with others\n"
            .to_owned(),
        count => format!(
            "{count} samples were taken while the CPUs were far apart: do not compare them with \
             others\n"
        ),
    }
}
