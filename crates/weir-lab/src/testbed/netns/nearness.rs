//! How far the DUT's CPU is from the generator's, which changes where a host moves the CPUs of a
//! virtual machine, and waiting until it is as near as it was.
//!
//! It waits only in a run that was to wait for a quiet host; otherwise it looks, and no more. A
//! machine whose two CPUs share no cache is waited for once.

use std::cell::Cell;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::environment::distance::{NEAR_NS, between};
use weir_results::verdict::DISTANCE_MAX;

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// How long a trial waits at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// The shortest way between a generator's CPU and a DUT's, as far as it was seen.
#[derive(Debug)]
pub(super) struct Nearness {
    cpus: [usize; 2],
    waits: bool,
    nearest_ns: Cell<f64>,
    /// Both were waited for in vain: they are as near as they ever are.
    is_far: Cell<bool>,
}

impl Nearness {
    pub(super) fn new(cpus: [usize; 2], waits: bool) -> Self {
        Self { cpus, waits, nearest_ns: Cell::new(f64::INFINITY), is_far: Cell::new(false) }
    }

    /// How far they are from each other now, ns; `None` if they are one, or others have them.
    pub(super) fn look(&self) -> Option<f64> {
        let [one, other] = self.cpus;
        let distance_ns = between(one, other)?;
        self.nearest_ns.set(self.nearest_ns.get().min(distance_ns));
        Some(distance_ns)
    }

    /// The shortest so far, ns, of a run that waits.
    pub(super) fn nearest_ns(&self) -> Option<f64> {
        let nearest_ns = self.nearest_ns.get();
        (self.waits && nearest_ns.is_finite()).then_some(nearest_ns)
    }

    /// Waits until they are near, if it is to, or until its patience or the run ends.
    pub(super) fn wait(&self, cancel: &Cancel) {
        let deadline = Instant::now() + PATIENCE;
        while self.waits && self.cpus[0] != self.cpus[1] && !self.is_near() {
            if Instant::now() >= deadline {
                self.is_far.set(self.nearest_ns.get() > NEAR_NS);
                return;
            }
            if !cancel.sleep(LOOK) {
                return;
            }
        }
    }

    fn is_near(&self) -> bool {
        let is_usual = |distance_ns: f64| {
            distance_ns <= self.nearest_ns.get() * DISTANCE_MAX.value
                && (distance_ns <= NEAR_NS || self.is_far.get())
        };
        self.look().is_some_and(is_usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_waits_has_a_shortest_way() {
        let cancel = Cancel::default();
        let online: Vec<usize> = weir_net::cpu::online().unwrap().iter().collect();
        let alone = Nearness::new([online[0]; 2], true);
        alone.wait(&cancel);
        assert_eq!((alone.look(), alone.nearest_ns()), (None, None));
        let [one, other, ..] = online[..] else { return };
        let looks = Nearness::new([one, other], false);
        looks.wait(&cancel);
        let seen = (0..50).find_map(|_| looks.look()).expect("the CPUs are free now and then");
        assert!(seen > 0.0 && looks.nearest_ns().is_none());
        let waits = Nearness::new([one, other], true);
        waits.nearest_ns.set(1e9);
        waits.is_far.set(true);
        waits.wait(&cancel);
        assert!(waits.nearest_ns().is_some_and(|nearest_ns| nearest_ns < 1e9));
    }
}
