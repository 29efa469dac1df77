//! Equivalence: that nothing was found is no proof that nothing is there.
//!
//! Two one-sided tests (Schuirmann, *Journal of Pharmacokinetics and Biopharmaceutics* 15, 1987)
//! turn the burden of proof round: the hypothesis is that the means differ by the *margin* or more,
//! and equivalence is claimed when it is rejected on both sides. One side alone is
//! *non-inferiority*: "no loss of 1 % or more". The margin is chosen before looking at the values;
//! without one, there is no claim of "no difference".
//!
//! Margins are relative, and the tests are those of a ratio ([`Welch`]; Sasabuchi, *Biometrika* 67,
//! 1980; Hauschke et al., *Biometrical Journal* 41, 1999).

#[cfg(test)]
use crate::interval::Level;
use crate::welch::Welch;

/// The tests of equivalence, each with its p-value; at most α proves it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equivalence {
    /// The margin: a share of the baseline's mean, above 0 and below 1.
    pub margin_ratio: f64,
    /// p-value of a loss of the margin or more: small values prove that there is no such loss.
    pub p_loss: f64,
    /// p-value of a gain of the margin or more: small values prove that there is no such gain.
    pub p_gain: f64,
}

impl Equivalence {
    /// Tests two means against a margin; `None` unless it is above 0 and below 1.
    #[must_use]
    pub fn of(welch: &Welch, margin_ratio: f64) -> Option<Self> {
        (margin_ratio > 0.0 && margin_ratio < 1.0).then(|| Self {
            margin_ratio,
            p_loss: welch.p_at_most(1.0 - margin_ratio),
            p_gain: welch.p_at_least(1.0 + margin_ratio),
        })
    }

    /// p-value of the hypothesis that they are not equivalent: the larger of both.
    #[must_use]
    pub const fn p_value(&self) -> f64 {
        self.p_loss.max(self.p_gain)
    }

    /// Whether a difference of the margin or more is excluded in both directions.
    #[cfg(test)]
    pub(crate) fn is_equivalent(&self, level: Level) -> bool {
        self.p_value() <= level.alpha()
    }

    /// Whether a loss of the margin or more is excluded.
    #[cfg(test)]
    pub(crate) fn is_not_worse(&self, level: Level) -> bool {
        self.p_loss <= level.alpha()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Source, share};
    use proptest::prelude::*;

    fn tests(source: &mut Source, ratio: f64, margin: f64) -> Equivalence {
        let (baseline, other) =
            (source.normals(6, 100.0, 0.8), source.normals(6, ratio * 100.0, 0.8));
        Equivalence::of(&Welch::of(&baseline, &other).unwrap(), margin).unwrap()
    }

    #[test]
    fn at_the_margin_it_errs_as_often_as_stated() {
        for ratio in [0.98, 1.02] {
            let mut source = Source::new(1);
            let claimed = share(4000, || tests(&mut source, ratio, 0.02).is_equivalent(Level::P95));
            assert!((0.035..0.06).contains(&claimed), "{ratio}: {claimed}");
        }
        let mut source = Source::new(2);
        let claimed = share(4000, || tests(&mut source, 0.98, 0.02).is_not_worse(Level::P95));
        assert!((0.04..0.06).contains(&claimed), "{claimed}");
    }

    #[test]
    fn what_is_the_same_is_found_to_be() {
        let mut source = Source::new(3);
        let claimed = share(500, || tests(&mut source, 1.0, 0.02).is_equivalent(Level::P95));
        assert!(claimed > 0.9, "{claimed}");
        // A gain is no loss, and no equivalence.
        let gain = tests(&mut source, 1.1, 0.02);
        assert!(gain.is_not_worse(Level::P95) && !gain.is_equivalent(Level::P95));
    }

    #[test]
    fn few_noisy_values_prove_nothing() {
        let welch = Welch::of(&[90.0, 100.0, 110.0], &[91.0, 100.0, 109.0]).unwrap();
        assert!(welch.p_value() > 0.9, "nothing is found");
        assert!(!Equivalence::of(&welch, 0.01).unwrap().is_not_worse(Level::P95));
        for margin in [0.0, -0.1, 1.0, f64::NAN] {
            assert_eq!(Equivalence::of(&welch, margin), None);
        }
    }

    proptest! {
        /// Schuirmann: equivalent at α exactly if the interval of level 1 − 2α lies in the margins.
        #[test]
        fn it_is_the_interval_of_twice_alpha(
            baseline in prop::collection::vec(95.0_f64..105.0, 3..12),
            other in prop::collection::vec(95.0_f64..105.0, 3..12),
        ) {
            let welch = Welch::of(&baseline, &other).unwrap();
            let tests = Equivalence::of(&welch, 0.05).unwrap();
            prop_assume!((tests.p_value() - 0.05).abs() > 1e-6);
            let interval = welch.ratio_interval(Level::from_percent(90.0).unwrap());
            let within = interval.low > 0.95 && interval.high < 1.05;
            prop_assert_eq!(tests.is_equivalent(Level::P95), within);
        }
    }
}
