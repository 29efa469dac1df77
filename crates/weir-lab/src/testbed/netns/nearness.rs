//! The distance from the generator's CPU to the DUT's, which changes where a host moves the CPUs of
//! a virtual machine, and waiting until it is short.
//!
//! It waits only in a run that was to wait for a quiet host; otherwise it looks, and no more. Where
//! it has waited in vain, it does not wait again before it has seen the CPUs near each other.

use std::cell::Cell;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::environment::distance::between;
use weir_results::machine_use::NEAR_NS;

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// How long a trial waits at most: no state that it has made is to end meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// A look at the distance between two CPUs, ns; `None` if it cannot be told.
type Look = fn(usize, usize) -> Option<f64>;

/// The distance from a generator's CPU to a DUT's.
#[derive(Debug)]
pub(super) struct Nearness {
    cpus: [usize; 2],
    waits: bool,
    patience: Duration,
    look: Look,
    /// The shortest so far.
    nearest_ns: Cell<f64>,
    /// It has waited in vain.
    gave_up: Cell<bool>,
}

impl Nearness {
    pub(super) fn new(cpus: [usize; 2], waits: bool) -> Self {
        let nearest_ns = Cell::new(f64::INFINITY);
        Self { cpus, waits, patience: PATIENCE, look: between, nearest_ns, gave_up: false.into() }
    }

    /// The distance now, ns; `None` if they are one CPU, or others have them.
    pub(super) fn look(&self) -> Option<f64> {
        let [one, other] = self.cpus;
        let distance_ns = (self.look)(one, other)?;
        self.nearest_ns.set(self.nearest_ns.get().min(distance_ns));
        Some(distance_ns)
    }

    /// The shortest so far, ns, of a run that waits.
    pub(super) fn nearest_ns(&self) -> Option<f64> {
        let nearest_ns = self.nearest_ns.get();
        (self.waits && nearest_ns.is_finite()).then_some(nearest_ns)
    }

    /// Waits until they are near, if it is to, or until its patience or the run ends. A distance
    /// that cannot be told is not waited for.
    pub(super) fn wait(&self, cancel: &Cancel) {
        if !self.waits {
            return;
        }
        let deadline = Instant::now() + self.patience;
        while self.look().is_some_and(|distance_ns| distance_ns > NEAR_NS) {
            if self.gave_up.get() || Instant::now() >= deadline {
                self.gave_up.set(true);
                return;
            }
            if !cancel.sleep(LOOK) {
                return;
            }
        }
        self.gave_up.set(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn waits(look: Look) -> Nearness {
        Nearness { look, patience: LOOK * 3, ..Nearness::new([0, 1], true) }
    }

    fn took(nearness: &Nearness) -> Duration {
        let begin = Instant::now();
        nearness.wait(&Cancel::default());
        begin.elapsed()
    }

    #[test]
    fn it_waits_for_cpus_that_come_near() {
        static LOOKS: AtomicU32 = AtomicU32::new(0);
        let nearness = waits(|_, _| {
            Some(if LOOKS.fetch_add(1, Ordering::Relaxed) < 2 { 165.0 } else { 27.0 })
        });
        assert!(took(&nearness) >= LOOK * 2);
        assert_eq!((nearness.nearest_ns(), nearness.gave_up.get()), (Some(27.0), false));
    }

    #[test]
    fn what_was_waited_for_in_vain_is_not_waited_for_again() {
        let nearness = waits(|_, _| Some(165.0));
        assert!(took(&nearness) >= LOOK * 3);
        assert!(took(&nearness) < LOOK && nearness.gave_up.get());
        assert_eq!(nearness.nearest_ns(), Some(165.0));
    }

    #[test]
    fn nobody_waits_for_what_cannot_be_told_or_was_not_asked_for() {
        assert!(took(&waits(|_, _| None)) < LOOK);
        let looks = Nearness { waits: false, ..waits(|_, _| Some(165.0)) };
        assert!(took(&looks) < LOOK);
        assert_eq!((looks.look(), looks.nearest_ns()), (Some(165.0), None));
    }
}
