//! What the kernel's workers still have to do after something large is gone.
//!
//! A network namespace with millions of tracked connections is deleted in an instant and taken
//! apart afterwards, by kernel workers on any CPU, for seconds. Whoever measures next waits for
//! them here. Nothing is changed, and nothing judged.

use std::path::Path;
use std::time::Duration;

use super::files::Files;
use super::tasks;
use crate::cancel::Cancel;

/// At most one part in so many of a CPU is at rest.
const AT_REST: u32 = 50;
/// They pause between tables: they rest if they did for so many steps.
const STEPS_AT_REST: u32 = 4;

/// Waits in steps until the workers rest, for `patience` at most. Returns whether they do.
pub fn wait(step: Duration, patience: Duration, cancel: &Cancel) -> bool {
    wait_for(step, patience, cancel, || {
        let files = Files::from(Path::new(super::MACHINE));
        tasks::run_time_by_name(&files, tasks::WORKER)
    })
}

fn wait_for(
    step: Duration,
    patience: Duration,
    cancel: &Cancel,
    run_time: impl Fn() -> Duration,
) -> bool {
    let deadline = cancel.now() + patience;
    let (mut before, mut rested) = (run_time(), 0);
    while cancel.sleep(step) {
        let now = run_time();
        // A worker that has ended takes its time with it: the sum may fall.
        rested = if now.saturating_sub(before) <= step / AT_REST { rested + 1 } else { 0 };
        if rested == STEPS_AT_REST {
            return true;
        }
        if cancel.now() >= deadline {
            return false;
        }
        before = now;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    /// Workers that are busy for so many steps: whether the wait ended well, and after how many.
    fn steps_until_rest(busy: u32, patience: Duration) -> (bool, u32) {
        let cancel = Cancel::simulated();
        let start = cancel.now();
        let readings = Cell::new(0);
        let is_at_rest = wait_for(STEP, patience, &cancel, || {
            let reading = readings.get();
            readings.set(reading + 1);
            Duration::from_millis(40) * reading.min(busy)
        });
        let waited = cancel.now() - start;
        (is_at_rest, u32::try_from(waited.as_millis() / STEP.as_millis()).unwrap())
    }

    #[test]
    fn the_wait_ends_when_the_workers_rest_or_patience_does() {
        assert_eq!(steps_until_rest(0, Duration::from_secs(1)), (true, STEPS_AT_REST));
        assert_eq!(steps_until_rest(7, Duration::from_secs(1)), (true, 7 + STEPS_AT_REST));
        assert_eq!(steps_until_rest(u32::MAX, Duration::from_secs(1)), (false, 20));
    }

    #[test]
    fn a_request_to_stop_ends_the_wait() {
        let cancel = Cancel::simulated();
        cancel.request(2);
        assert!(!wait_for(STEP, Duration::from_secs(1), &cancel, || Duration::ZERO));
    }
}
