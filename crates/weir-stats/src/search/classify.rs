//! What the trials at one load say about it: RFC 9971, appendices A and B.
//!
//! All implementations of the RFC come to the same class for the same trials; which loads are tried
//! is each one's own affair. Durations are the intended ones, which the RFC leaves to whoever
//! measures.

/// The finished trials at one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Intended length, seconds.
    pub duration_s: f64,
    /// The share of the packets that was lost.
    pub loss_ratio: f64,
}

/// What decides about a load: a goal, or a coarse stage on the way to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Criterion {
    /// The loss that a good trial does not exceed.
    pub loss_ratio: f64,
    /// The share of trial time, below 1, that may exceed it.
    pub exceed_ratio: f64,
    /// Length of a full trial, seconds.
    pub trial_s: f64,
    /// Full trials of this length together always decide, seconds.
    pub duration_sum_s: f64,
}

/// What a load is, according to a criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It is forwarded well enough: even if all trials to come were bad, they would not change it.
    Lower,
    /// It is not: even good trials alone could not change it.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Sums of trial time, seconds.
#[derive(Debug, Default)]
struct Sums {
    good_long: f64,
    bad_long: f64,
    good_short: f64,
    bad_short: f64,
}

impl Criterion {
    /// Whether a trial counts as a full one.
    fn is_long(&self, trial: &Trial) -> bool {
        // Lengths of stages are computed, and must not be short by a rounding error.
        trial.duration_s >= self.trial_s * (1.0 - 1e-9)
    }

    fn sums(&self, trials: &[Trial]) -> Sums {
        let mut sums = Sums::default();
        for trial in trials {
            let is_good = trial.loss_ratio <= self.loss_ratio;
            *match (self.is_long(trial), is_good) {
                (true, true) => &mut sums.good_long,
                (true, false) => &mut sums.bad_long,
                (false, true) => &mut sums.good_short,
                (false, false) => &mut sums.bad_short,
            } += trial.duration_s;
        }
        sums
    }

    /// What a load with these trials is (RFC 9971, appendix A).
    ///
    /// Good short trials never make a load a lower bound. Bad short ones count as bad, less what
    /// the good short ones make up for.
    #[must_use]
    pub fn class(&self, trials: &[Trial]) -> Class {
        let sums = self.sums(trials);
        let balance = sums.good_short * self.exceed_ratio / (1.0 - self.exceed_ratio);
        let bad = sums.bad_long + (sums.bad_short - balance).max(0.0);
        let whole = (sums.good_long + bad).max(self.duration_sum_s);
        let allowed = whole * self.exceed_ratio;
        // Sums of many lengths must not decide by their rounding errors.
        let tolerance = whole * 1e-12;
        let even_if_good = bad <= allowed + tolerance;
        let even_if_bad = whole - sums.good_long <= allowed + tolerance;
        match (even_if_good, even_if_bad) {
            (true, true) => Class::Lower,
            (false, _) => Class::Upper,
            (true, false) => Class::Undecided,
        }
    }

    /// The conditional throughput of a load with these trials, packets per second (RFC 9971,
    /// appendix B): the rate at which it is forwarded, by the trial at the quantile that the exceed
    /// ratio asks for. `None` without a full trial.
    #[must_use]
    pub fn conditional_throughput_pps(&self, load_pps: f64, trials: &[Trial]) -> Option<f64> {
        let mut long: Vec<&Trial> = trials.iter().filter(|trial| self.is_long(trial)).collect();
        long.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let done_s: f64 = long.iter().map(|trial| trial.duration_s).sum();
        let whole_s = done_s.max(self.duration_sum_s);
        let mut remaining_s = whole_s * (1.0 - self.exceed_ratio);
        let mut loss_ratio = long.first()?.loss_ratio;
        for trial in long {
            if remaining_s <= whole_s * 1e-12 {
                break;
            }
            loss_ratio = trial.loss_ratio;
            remaining_s -= trial.duration_s;
        }
        if remaining_s > whole_s * 1e-12 {
            // The trials to come are taken to lose everything.
            loss_ratio = 1.0;
        }
        Some(load_pps * (1.0 - loss_ratio.min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CSIT: Criterion =
        Criterion { loss_ratio: 0.0, exceed_ratio: 0.5, trial_s: 1.0, duration_sum_s: 21.0 };
    const PLAIN: Criterion =
        Criterion { loss_ratio: 0.0, exceed_ratio: 0.0, trial_s: 60.0, duration_sum_s: 60.0 };
    const TST009: Criterion = Criterion { duration_sum_s: 120.0, exceed_ratio: 0.5, ..PLAIN };

    fn trials(groups: &[(usize, f64, f64)]) -> Vec<Trial> {
        let one = |&(count, duration_s, loss_ratio): &(usize, f64, f64)| {
            std::iter::repeat_n(Trial { duration_s, loss_ratio }, count)
        };
        groups.iter().flat_map(one).collect()
    }

    #[test]
    fn half_of_the_trial_time_decides_for_csit() {
        assert_eq!(CSIT.class(&[]), Class::Undecided);
        assert_eq!(CSIT.class(&trials(&[(10, 1.0, 0.0)])), Class::Undecided);
        assert_eq!(CSIT.class(&trials(&[(11, 1.0, 0.0)])), Class::Lower);
        assert_eq!(CSIT.class(&trials(&[(10, 1.0, 0.1)])), Class::Undecided);
        assert_eq!(CSIT.class(&trials(&[(11, 1.0, 0.1)])), Class::Upper);
        assert_eq!(CSIT.class(&trials(&[(10, 1.0, 0.1), (11, 1.0, 0.0)])), Class::Lower);
        assert_eq!(CSIT.class(&trials(&[(11, 1.0, 0.1), (10, 1.0, 0.0)])), Class::Upper);
    }

    #[test]
    fn one_trial_decides_for_rfc_2544_and_two_for_tst009() {
        assert_eq!(PLAIN.class(&trials(&[(1, 60.0, 0.0)])), Class::Lower);
        assert_eq!(PLAIN.class(&trials(&[(1, 60.0, 1e-9)])), Class::Upper);
        assert_eq!(PLAIN.class(&trials(&[(1, 60.0, 0.0), (1, 60.0, 0.1)])), Class::Upper);
        assert_eq!(TST009.class(&trials(&[(1, 60.0, 0.0)])), Class::Lower);
        assert_eq!(TST009.class(&trials(&[(1, 60.0, 0.1)])), Class::Undecided);
        assert_eq!(TST009.class(&trials(&[(1, 60.0, 0.1), (1, 60.0, 0.0)])), Class::Lower);
        assert_eq!(TST009.class(&trials(&[(2, 60.0, 0.1)])), Class::Upper);
    }

    #[test]
    fn short_trials_can_condemn_a_load_and_never_acquit_it() {
        // "False good": any number of good short trials decides nothing.
        assert_eq!(PLAIN.class(&trials(&[(500, 1.0, 0.0)])), Class::Undecided);
        // "True bad": a bad short one is enough where nothing may be bad.
        assert_eq!(PLAIN.class(&trials(&[(1, 1.0, 0.1)])), Class::Upper);
        // "Balanced": with half of the time, good and bad short ones cancel out.
        assert_eq!(TST009.class(&trials(&[(70, 1.0, 0.1), (70, 1.0, 0.0)])), Class::Undecided);
        assert_eq!(TST009.class(&trials(&[(61, 1.0, 0.1)])), Class::Upper);
        assert_eq!(TST009.class(&trials(&[(61, 1.0, 0.1), (10, 1.0, 0.0)])), Class::Undecided);
    }

    #[test]
    fn conditional_throughput_is_the_median_for_csit() {
        // 11 of 21 good, none of the others: the 11th best is the last that counts.
        let eleven = trials(&[(11, 1.0, 0.0)]);
        assert_eq!(CSIT.conditional_throughput_pps(1e6, &eleven), Some(1e6));
        let mixed = trials(&[(10, 1.0, 0.0), (1, 1.0, 0.25), (10, 1.0, 0.5)]);
        assert_eq!(CSIT.conditional_throughput_pps(1e6, &mixed), Some(0.75e6));
        // Too few: what is missing is taken to be lost.
        let few = trials(&[(10, 1.0, 0.0)]);
        assert_eq!(CSIT.conditional_throughput_pps(1e6, &few), Some(0.0));
        assert_eq!(CSIT.conditional_throughput_pps(1e6, &trials(&[(9, 0.5, 0.0)])), None);
        // Without an exceed ratio the worst trial counts.
        let worst = trials(&[(1, 60.0, 0.0), (1, 60.0, 0.1)]);
        assert_eq!(PLAIN.conditional_throughput_pps(1e6, &worst), Some(0.9e6));
    }

    prop_compose! {
        fn any_criterion()(
            loss_ratio in prop::sample::select(vec![0.0, 0.005, 0.1]),
            exceed_ratio in 0.0_f64..0.95,
            trial_s in 0.5_f64..60.0,
            whole in 1.0_f64..30.0,
        ) -> Criterion {
            Criterion { loss_ratio, exceed_ratio, trial_s, duration_sum_s: trial_s * whole }
        }
    }

    prop_compose! {
        fn any_trials()(
            all in prop::collection::vec((0.01_f64..3.0, 0.0_f64..0.02), 0..60)
        ) -> Vec<(f64, f64)> { all }
    }

    fn scaled(all: &[(f64, f64)], criterion: &Criterion) -> Vec<Trial> {
        let trial = |&(length, loss): &(f64, f64)| Trial {
            duration_s: length * criterion.trial_s,
            loss_ratio: if loss < 0.01 { 0.0 } else { loss },
        };
        all.iter().map(trial).collect()
    }

    proptest! {
        #[test]
        fn enough_full_trials_always_decide(c in any_criterion(), all in any_trials()) {
            let trials = scaled(&all, &c);
            let long_s: f64 =
                trials.iter().filter(|t| c.is_long(t)).map(|t| t.duration_s).sum();
            if long_s >= c.duration_sum_s {
                prop_assert_ne!(c.class(&trials), Class::Undecided);
            }
        }

        #[test]
        fn a_decision_stands_as_long_as_the_sum_is_not_exceeded(
            c in any_criterion(), all in any_trials(), good: bool
        ) {
            // What "even if all to come were bad" and "were good" mean, by trying it.
            let mut trials = scaled(&all, &c);
            trials.retain(|t| c.is_long(t));
            let before = c.class(&trials);
            let done_s: f64 = trials.iter().map(|t| t.duration_s).sum();
            let missing_s = c.duration_sum_s - done_s;
            if before != Class::Undecided && missing_s >= c.trial_s {
                let loss_ratio = if good { 0.0 } else { 1.0 };
                trials.push(Trial { duration_s: missing_s, loss_ratio });
                prop_assert_eq!(c.class(&trials), before);
            }
        }

        #[test]
        fn a_lower_bound_forwards_at_least_what_its_goal_allows(
            c in any_criterion(), all in any_trials()
        ) {
            let mut trials = scaled(&all, &c);
            trials.retain(|t| c.is_long(t));
            if c.class(&trials) == Class::Lower {
                let pps = c.conditional_throughput_pps(1e6, &trials).expect("full trials");
                prop_assert!(pps >= 1e6 * (1.0 - c.loss_ratio) - 1e-3, "{pps}");
            }
        }
    }
}
