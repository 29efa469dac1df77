//! What a search looks for: the goals of RFC 9971, and what standards and projects set for them.

use serde::{Deserialize, Serialize};

use super::classify::Criterion;
use crate::number;

/// The least share by which two loads differ that are told apart.
pub(crate) const WIDTH_RATIO_MIN: f64 = 1e-4;

/// One goal of a search (RFC 9971, "Search Goal").
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// The loss that a good trial does not exceed, 0 to below 1.
    pub loss_ratio: f64,
    /// The share of trial time, 0 to below 1, that may exceed it.
    pub exceed_ratio: f64,
    /// Length of a full trial, seconds.
    pub final_trial_s: f64,
    /// How much trial time decides about a load, seconds.
    pub duration_sum_s: f64,
    /// How close the bounds are in the end, as a share of the upper one, 0 to below 1.
    pub width_ratio: f64,
    /// Length of the trials that the search begins with, seconds; absent: all trials are full. A
    /// load that shorter trials call bad is bad; none is good without full ones.
    pub initial_trial_s: Option<f64>,
}

/// Sets of a goal's durations and its exceed ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// The FD.io CSIT project: many short trials, of which half may be bad.
    Csit,
    /// RFC 2544 section 24: one trial of a minute, and not one bad one.
    Rfc2544,
    /// ETSI GS NFV-TST 009: a bad trial of a minute is forgiven if a second one is good.
    Tst009,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 3] = [Self::Csit, Self::Rfc2544, Self::Tst009];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Csit => "csit",
            Self::Rfc2544 => "rfc2544",
            Self::Tst009 => "tst009",
        }
    }

    /// The preset of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// The goal with that loss ratio, with bounds 0.5 % apart.
    #[must_use]
    pub fn goal(self, loss_ratio: f64) -> Goal {
        let (final_trial_s, duration_sum_s, exceed_ratio, initial_trial_s) = match self {
            Self::Csit => (1.0, 21.0, 0.5, Some(1.0)),
            Self::Rfc2544 => (60.0, 60.0, 0.0, None),
            Self::Tst009 => (60.0, 120.0, 0.5, None),
        };
        Goal {
            loss_ratio,
            exceed_ratio,
            final_trial_s,
            duration_sum_s,
            width_ratio: 0.005,
            initial_trial_s,
        }
    }

    /// The loss ratios that it is used with.
    #[must_use]
    pub fn loss_ratios(self) -> &'static [f64] {
        match self {
            Self::Csit => &[0.0, 0.005],
            Self::Rfc2544 | Self::Tst009 => &[0.0],
        }
    }
}

/// What is wrong with a goal, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GoalError(String);

/// A stage of the search for a goal: bounds as close as this, decided by this.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// What decides about a load.
    pub criterion: Criterion,
    /// How close the bounds are to be, as a share of the upper one.
    pub width_ratio: f64,
}

impl Goal {
    /// `NDR`, or `PDR 0.5 %`.
    #[must_use]
    pub fn name(&self) -> String {
        if self.loss_ratio == 0.0 {
            "NDR".to_owned()
        } else {
            format!("PDR {} %", number::percent(self.loss_ratio))
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`GoalError`] says which value is none.
    pub fn check(&self) -> Result<(), GoalError> {
        let error = |text: &str| Err(GoalError(text.to_owned()));
        let is_share = |value: f64| (0.0..1.0).contains(&value);
        if !is_share(self.loss_ratio) {
            return error("the loss ratio must be from 0 % to below 100 %");
        }
        if !is_share(self.exceed_ratio) {
            return error("the exceed ratio must be from 0 % to below 100 %");
        }
        if !(WIDTH_RATIO_MIN..1.0).contains(&self.width_ratio) {
            return error("the width must be from 0.01 % to below 100 %");
        }
        let is_time = |value: f64| value.is_finite() && value > 0.0;
        if !is_time(self.final_trial_s) || !is_time(self.duration_sum_s) {
            return error("a trial must take some time");
        }
        if self.duration_sum_s < self.final_trial_s {
            return error("the duration sum must not be less than the length of a full trial");
        }
        match self.initial_trial_s {
            Some(initial_s) if !is_time(initial_s) || initial_s > self.final_trial_s => {
                error("the first trials must take some time, and not more than a full one")
            }
            _ => Ok(()),
        }
    }

    /// What decides about a load in the end.
    #[must_use]
    pub fn criterion(&self) -> Criterion {
        Criterion {
            loss_ratio: self.loss_ratio,
            exceed_ratio: self.exceed_ratio,
            trial_s: self.final_trial_s,
            duration_sum_s: self.duration_sum_s,
        }
    }

    /// The stages of its search, the last one being the goal itself. With an initial trial length,
    /// up to two coarse stages with less trial time come before it: each has twice the width of the
    /// next one, and lengths between the first and the last in geometric steps.
    #[must_use]
    pub fn phases(&self) -> Vec<Phase> {
        let last = Phase { criterion: self.criterion(), width_ratio: self.width_ratio };
        let Some(initial_s) = self.initial_trial_s else { return vec![last] };
        let whole = self.duration_sum_s / initial_s;
        let coarse_count = match whole {
            whole if whole > 4.0 => 2,
            whole if whole > 1.0 => 1,
            _ => 0,
        };
        let mut phases: Vec<Phase> = (0..coarse_count)
            .map(|index| {
                let share = f64::from(index) / f64::from(coarse_count);
                let between = |last: f64| initial_s * (last / initial_s).powf(share);
                let width = self.width_ratio * 2_f64.powi(coarse_count - index);
                Phase {
                    criterion: Criterion {
                        trial_s: between(self.final_trial_s),
                        duration_sum_s: between(self.duration_sum_s),
                        ..self.criterion()
                    },
                    width_ratio: width.min(0.5),
                }
            })
            .collect();
        phases.push(last);
        phases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_what_they_are_published_as() {
        for preset in Preset::ALL {
            assert_eq!(Preset::named(preset.name()), Some(preset));
            for loss_ratio in preset.loss_ratios() {
                preset.goal(*loss_ratio).check().expect("a goal");
            }
        }
        assert_eq!(Preset::named("cist"), None);
        let csit = Preset::Csit.goal(0.005);
        assert_eq!((csit.final_trial_s, csit.duration_sum_s), (1.0, 21.0));
        assert_eq!((csit.exceed_ratio, csit.width_ratio), (0.5, 0.005));
        let plain = Preset::Rfc2544.goal(0.0);
        assert_eq!((plain.final_trial_s, plain.duration_sum_s), (60.0, 60.0));
        assert_eq!((plain.exceed_ratio, plain.loss_ratio), (0.0, 0.0));
        let tst009 = Preset::Tst009.goal(0.0);
        assert_eq!((tst009.final_trial_s, tst009.duration_sum_s), (60.0, 120.0));
        assert_eq!(tst009.exceed_ratio, 0.5);
    }

    #[test]
    fn coarse_stages_come_first_and_take_less_time() {
        let phases = Preset::Csit.goal(0.0).phases();
        assert_eq!(phases.len(), 3);
        let sums: Vec<f64> = phases.iter().map(|p| p.criterion.duration_sum_s).collect();
        assert_eq!((sums[0], sums[2]), (1.0, 21.0));
        assert!((sums[1] - 21_f64.sqrt()).abs() < 1e-12);
        let widths: Vec<f64> = phases.iter().map(|p| p.width_ratio).collect();
        assert_eq!(widths, [0.02, 0.01, 0.005]);
        assert_eq!(Preset::Rfc2544.goal(0.0).phases().len(), 1);
        let short = Goal { initial_trial_s: Some(30.0), ..Preset::Rfc2544.goal(0.0) };
        let trials: Vec<f64> = short.phases().iter().map(|p| p.criterion.trial_s).collect();
        assert_eq!(trials, [30.0, 60.0]);
    }

    #[test]
    fn what_is_no_goal_is_refused() {
        let good = Preset::Csit.goal(0.0);
        for bad in [
            Goal { loss_ratio: 1.0, ..good },
            Goal { loss_ratio: f64::NAN, ..good },
            Goal { exceed_ratio: 1.0, ..good },
            Goal { width_ratio: 0.0, ..good },
            Goal { duration_sum_s: 0.5, ..good },
            Goal { final_trial_s: 0.0, ..good },
            Goal { initial_trial_s: Some(2.0), ..good },
        ] {
            bad.check().expect_err(&format!("{bad:?}"));
        }
    }
}
