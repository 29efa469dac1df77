//! What became of requests over a run: its seconds, or longer steps where those would be too many.
//!
//! It keeps a bounded number of steps, however long the run is: when they are all used, two become
//! one.

use weir_http::figures::{Counts, Times};

/// Steps that are kept at most.
const STEPS_MAX: usize = 24;
/// How long a step is at first.
const STEP_NS: u64 = 1_000_000_000;

/// One step of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Good answers.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    pub received_bytes: u64,
    /// Latencies of the good answers.
    pub latency: Times,
}

impl Step {
    fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.received_bytes += other.received_bytes;
        self.latency.add(&other.latency);
    }
}

/// The steps of a run, from its first request's time on.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    width_ns: u64,
    steps: Vec<Step>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width_ns: STEP_NS, steps: Vec::new() }
    }
}

impl Timeline {
    /// Adds what a worker has counted from one time of the run to another: its counts at both, and
    /// the latencies between. It belongs to the step in which the middle of that time is.
    pub(super) fn add(
        &mut self,
        (from_ns, to_ns): (u64, u64),
        (before, now): (&Counts, &Counts),
        latency: &Times,
    ) {
        let middle_ns = from_ns.midpoint(to_ns);
        while middle_ns / self.width_ns >= STEPS_MAX as u64 {
            self.halve();
        }
        let place = usize::try_from(middle_ns / self.width_ns).unwrap_or(STEPS_MAX - 1);
        if self.steps.len() <= place {
            self.steps.resize_with(place + 1, Step::default);
        }
        let step = &mut self.steps[place];
        step.answered += now.answered.saturating_sub(before.answered);
        step.failed += now.failures.sum().saturating_sub(before.failures.sum());
        step.received_bytes += now.received_bytes.saturating_sub(before.received_bytes);
        step.latency.add(latency);
    }

    /// Half as many steps, twice as long.
    fn halve(&mut self) {
        self.width_ns *= 2;
        let mut halved: Vec<Step> = Vec::with_capacity(STEPS_MAX);
        for (place, step) in self.steps.drain(..).enumerate() {
            match halved.last_mut() {
                Some(last) if place % 2 == 1 => last.add(&step),
                _ => halved.push(step),
            }
        }
        self.steps = halved;
    }

    /// Each step of a run that took so long: when it begins and how long it is, nanoseconds.
    pub fn steps(&self, run_ns: u64) -> impl Iterator<Item = (u64, u64, &Step)> {
        self.steps.iter().zip(0..).filter_map(move |(step, place)| {
            let from_ns = self.width_ns * place;
            let duration_ns = run_ns.saturating_sub(from_ns).min(self.width_ns);
            (duration_ns > 0).then_some((from_ns, duration_ns, step))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that answers as many requests in each quarter of a second as it has answered
    /// quarters.
    fn timeline(quarters: u64) -> Timeline {
        let mut timeline = Timeline::default();
        let mut before = Counts::default();
        for quarter in 0..quarters {
            let now = Counts { answered: before.answered + quarter, ..before };
            let mut latency = Times::default();
            (0..quarter).for_each(|_| latency.record(1000 * (quarter + 1)));
            // It says so a moment late.
            let at = |quarter: u64| quarter * STEP_NS / 4 + 20_000;
            timeline.add((at(quarter), at(quarter + 1)), (&before, &now), &latency);
            before = now;
        }
        timeline
    }

    #[test]
    fn each_second_has_what_was_answered_in_it() {
        let timeline = timeline(10);
        let steps: Vec<_> = timeline.steps(2_500_000_000).collect();
        let answered: Vec<u64> = steps.iter().map(|(_, _, step)| step.answered).collect();
        assert_eq!(answered, [1 + 2 + 3, 4 + 5 + 6 + 7, 8 + 9]);
        assert!(steps.iter().all(|(_, _, step)| step.latency.count() == step.answered));
        let times: Vec<_> = steps.iter().map(|(from, duration, _)| (*from, *duration)).collect();
        assert_eq!(times, [(0, STEP_NS), (STEP_NS, STEP_NS), (2 * STEP_NS, STEP_NS / 2)]);
    }

    #[test]
    fn a_long_run_has_longer_steps_and_loses_nothing() {
        let quarters = 4 * 100;
        let timeline = timeline(quarters);
        let steps: Vec<_> = timeline.steps(100 * STEP_NS).collect();
        assert_eq!(steps.len(), 13, "100 s in steps of 8");
        assert_eq!((steps[0].1, steps[12].1), (8 * STEP_NS, 4 * STEP_NS));
        let all: u64 = steps.iter().map(|(_, _, step)| step.answered).sum();
        assert_eq!(all, (0..quarters).sum::<u64>());
        assert_eq!(steps[0].2.answered, (0..32).sum::<u64>());
        assert_eq!(steps.iter().map(|(_, _, step)| step.latency.count()).sum::<u64>(), all);
    }
}
