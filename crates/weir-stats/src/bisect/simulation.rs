//! Simulated boxes: how often the answer is right, and how many measurements it takes.

use super::{Candidate, Settings, Step, assess};
use crate::shuffle::SplitMix64;

/// A simulated list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Simulated {
    pub(super) count: usize,
    /// Share by which the figure falls at the change (negative: it rises).
    pub(super) loss: f64,
    /// Deviation of a measurement, as a share.
    pub(super) noise: f64,
    /// Share of measurements that are bad boots, and what such a boot loses.
    pub(super) bad_boots: (f64, f64),
}

/// How a run ended: the place of the change, the answer, the measurements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) truth: usize,
    pub(super) step: Step,
    pub(super) measurements: usize,
}

fn uniform(random: &mut SplitMix64) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

fn normal(random: &mut SplitMix64) -> f64 {
    let (a, b) = (uniform(random), uniform(random));
    (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
}

impl Simulated {
    fn measure(&self, is_bad: bool, random: &mut SplitMix64) -> f64 {
        let level = if is_bad { 1e6 * (1.0 - self.loss) } else { 1e6 };
        let boot = if uniform(random) < self.bad_boots.0 { 1.0 - self.bad_boots.1 } else { 1.0 };
        level * boot * (1.0 + self.noise * normal(random))
    }

    pub(super) fn run(&self, seed: u64, settings: &Settings) -> Run {
        let mut random = SplitMix64::new(seed);
        let truth = 1 + usize::try_from(random.below(self.count as u64 - 1)).unwrap();
        let mut values = vec![Vec::new(); self.count];
        loop {
            let list: Vec<Candidate<'_>> =
                values.iter().map(|v| Candidate { values: v, skipped: false }).collect();
            match assess(&list, settings).unwrap().step {
                Step::Measure(index) => {
                    values[index].push(self.measure(index >= truth, &mut random));
                }
                step => {
                    let measurements = values.iter().map(Vec::len).sum();
                    return Run { truth, step, measurements };
                }
            }
        }
    }

    /// Seeded runs.
    pub(super) fn runs(&self, count: u64, settings: &Settings) -> Vec<Run> {
        (0..count).map(|seed| self.run(seed, settings)).collect()
    }
}

pub(super) fn is_right(run: &Run) -> bool {
    run.step == Step::Found { first: run.truth, last: run.truth }
}

/// How many of the runs gave the right place, another place, no change, and no answer; and the
/// median of the measurements.
fn tally(runs: &[Run]) -> (usize, usize, usize, usize, usize) {
    let mut counts = (0, 0, 0, 0, 0);
    for run in runs {
        match run.step {
            _ if is_right(run) => counts.0 += 1,
            Step::Found { .. } => counts.1 += 1,
            Step::NoChange => counts.2 += 1,
            Step::Undecided | Step::Measure(_) => counts.3 += 1,
        }
    }
    let mut measurements: Vec<usize> = runs.iter().map(|run| run.measurements).collect();
    measurements.sort_unstable();
    counts.4 = measurements[measurements.len() / 2];
    counts
}

const NONE: (f64, f64) = (0.0, 0.0);

/// Right in 95 % of the runs at least, in a median of measurements up to `most`.
#[track_caller]
#[expect(clippy::print_stdout, reason = "the figures are shown by --nocapture")]
fn assert_right(simulated: Simulated, runs: u64, most: usize) {
    let (right, wrong, none, undecided, median) =
        tally(&simulated.runs(runs, &Settings::default()));
    println!(
        "{simulated:?}: right {right}, another {wrong}, no change {none}, undecided {undecided} \
         of {runs}; median {median} measurements"
    );
    assert!(right as f64 >= 0.95 * runs as f64, "right in {right} of {runs}");
    assert!(median <= most, "a median of {median} measurements");
}

#[test]
fn two_per_cent_in_three_per_cent_of_noise_among_16() {
    assert_right(Simulated { count: 16, loss: 0.02, noise: 0.03, bad_boots: NONE }, 400, 220);
}

#[test]
fn two_per_cent_in_three_per_cent_of_noise_among_64() {
    assert_right(Simulated { count: 64, loss: 0.02, noise: 0.03, bad_boots: NONE }, 250, 270);
}

#[test]
fn bad_boots_do_not_derail_it() {
    let bad_boots = (0.05, 0.2);
    assert_right(Simulated { count: 16, loss: 0.02, noise: 0.03, bad_boots }, 200, 250);
    assert_right(Simulated { count: 16, loss: 0.02, noise: 0.005, bad_boots }, 300, 20);
    assert_right(Simulated { count: 16, loss: 0.5, noise: 0.03, bad_boots }, 300, 16);
}

/// Much noise must not pass for "nothing changes".
#[test]
fn a_large_change_in_large_noise() {
    assert_right(Simulated { count: 16, loss: 0.5, noise: 0.2, bad_boots: NONE }, 300, 60);
    assert_right(Simulated { count: 16, loss: 0.1, noise: 0.1, bad_boots: NONE }, 300, 140);
}

#[test]
fn an_improvement_is_found_as_well() {
    assert_right(Simulated { count: 16, loss: -0.02, noise: 0.03, bad_boots: NONE }, 300, 220);
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are shown by --nocapture")]
fn a_list_without_a_change_raises_an_alarm_in_five_per_cent_at_most() {
    for bad_boots in [NONE, (0.05, 0.2)] {
        let simulated = Simulated { count: 16, loss: 0.0, noise: 0.03, bad_boots };
        let runs = 300;
        // Whatever place it names is wrong; there is none, but a truth is drawn all the same.
        let (right, wrong, none, undecided, median) =
            tally(&simulated.runs(runs, &Settings::default()));
        println!(
            "{simulated:?}: alarms {}, no change {none}, undecided {undecided} of {runs}; \
             median {median} measurements",
            right + wrong
        );
        assert!((right + wrong) as f64 <= 0.05 * runs as f64, "{} alarms", right + wrong);
        assert!(none as f64 >= 0.9 * runs as f64, "{none} of {runs}");
    }
}
