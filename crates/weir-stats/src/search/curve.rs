//! The loss-rate curve of RFC 2544 section 26.3: the share of packets that is lost at loads from
//! the maximum downwards, in steps of at most a tenth of it, until two loads in a row lose nothing.

use super::{ATTEMPTS_MAX, Budget, Measured, Purpose, Reading, Request, Stopped, rounded_load};

/// The largest step, as a share of the maximum (RFC 2544 section 26.3).
pub const STEP_RATIO_MAX: f64 = 0.1;

/// The smallest step, as a share of the maximum: a curve of a thousand loads.
pub const STEP_RATIO_MIN: f64 = 1e-3;

/// Loads in a row without loss that end the curve.
const LOSSLESS_COUNT: u32 = 2;

/// A curve to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// The maximum, packets per second.
    pub max_load_pps: f64,
    /// The step, [`STEP_RATIO_MIN`] to [`STEP_RATIO_MAX`] of the maximum.
    pub step_ratio: f64,
    /// Length of a trial, seconds.
    pub trial_s: f64,
    /// What it may cost.
    pub budget: Budget,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The load, as a share of the maximum.
    pub share: f64,
    /// The load, packets per second.
    pub load_pps: f64,
    /// The share that was lost; `None` where the load could not be offered, or every trial was
    /// void.
    pub loss_ratio: Option<f64>,
}

/// Why a curve cannot be begun.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "a loss-rate curve needs a maximum above 0, trials of some length, and steps of {min} % to \
     {max} % of the maximum (RFC 2544 section 26.3)",
    min = STEP_RATIO_MIN * 100.0,
    max = STEP_RATIO_MAX * 100.0
)]
pub struct ConfigError;

/// A curve under way.
#[derive(Debug, Clone)]
pub struct LossCurve {
    config: Config,
    points: Vec<Point>,
    pending: Option<Request>,
    failures: u32,
    lossless: u32,
    trials: u32,
    elapsed_s: f64,
    stopped: Option<Stopped>,
}

impl LossCurve {
    /// Begins a curve.
    ///
    /// # Errors
    /// [`ConfigError`] if there are no such steps.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let Config { max_load_pps, step_ratio, trial_s, .. } = config;
        let is_positive = |value: f64| value > 0.0 && value.is_finite();
        let is_step = (STEP_RATIO_MIN..=STEP_RATIO_MAX + 1e-12).contains(&step_ratio);
        if !(is_positive(max_load_pps) && is_positive(trial_s) && is_step) {
            return Err(ConfigError);
        }
        Ok(Self {
            config,
            points: Vec::new(),
            pending: None,
            failures: 0,
            lossless: 0,
            trials: 0,
            elapsed_s: 0.0,
            stopped: None,
        })
    }

    /// The share of the maximum that comes next.
    fn share(&self) -> f64 {
        let steps = u32::try_from(self.points.len()).unwrap_or(u32::MAX);
        1.0 - f64::from(steps) * self.config.step_ratio
    }

    /// The next trial; `None` at the end. Asked again before [`LossCurve::feed`], it says the same.
    pub fn next_trial(&mut self) -> Option<Request> {
        // The lowest load is one step above nothing, or what is left of a last, smaller step.
        let is_over = self.lossless >= LOSSLESS_COUNT || self.share() < 1e-6;
        if self.pending.is_none() && !is_over && self.stopped.is_none() {
            self.stopped = self.config.budget.exceeded(self.trials, self.elapsed_s);
            self.pending = self.stopped.is_none().then(|| Request {
                load_pps: rounded_load(self.config.max_load_pps * self.share()),
                duration_s: self.config.trial_s,
                purpose: Purpose::Search,
            });
        }
        self.pending
    }

    /// Takes the result of the trial that was asked for.
    ///
    /// # Panics
    /// If none was.
    pub fn feed(&mut self, measured: &Measured) {
        let request = self.pending.take().expect("a result belongs to a trial that was asked for");
        self.trials += 1;
        self.elapsed_s += measured.elapsed_s.max(0.0);
        let loss_ratio = match measured.reading(request.load_pps) {
            Reading::Loss(loss_ratio) => Some(loss_ratio),
            Reading::NotOffered | Reading::Void => {
                self.failures += 1;
                if self.failures < ATTEMPTS_MAX {
                    return;
                }
                None
            }
        };
        self.failures = 0;
        self.lossless = if loss_ratio == Some(0.0) { self.lossless + 1 } else { 0 };
        let (share, load_pps) = (self.share(), request.load_pps);
        self.points.push(Point { share, load_pps, loss_ratio });
    }

    /// The points, from the maximum downwards.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whether the curve reached two loads in a row without loss.
    #[must_use]
    pub fn is_lossless_below(&self) -> bool {
        self.lossless >= LOSSLESS_COUNT
    }

    /// Why it ended before its end, if it did.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::simulated::Simulated;
    use super::*;

    const CONFIG: Config = Config {
        max_load_pps: 1e6,
        step_ratio: 0.1,
        trial_s: 1.0,
        budget: Budget { time_max_s: 1e6, trials_max: 10_000 },
    };

    fn run(config: Config, device: &mut Simulated) -> (LossCurve, usize) {
        let mut curve = LossCurve::new(config).expect("a curve");
        let mut trials = 0;
        while let Some(request) = curve.next_trial() {
            assert_eq!(curve.next_trial(), Some(request), "asked twice");
            trials += 1;
            assert!(trials < 20_000, "it does not end");
            curve.feed(&device.trial(request.load_pps, request.duration_s));
        }
        (curve, trials)
    }

    #[test]
    fn the_curve_ends_at_two_loads_without_loss() {
        let (curve, _) = run(CONFIG, &mut Simulated::new(650_000.0));
        let shares: Vec<f64> = curve.points().iter().map(|p| (p.share * 10.0).round()).collect();
        assert_eq!(shares, [10.0, 9.0, 8.0, 7.0, 6.0, 5.0]);
        for point in curve.points() {
            let expected = (1.0 - 650_000.0 / point.load_pps).max(0.0);
            let loss = point.loss_ratio.expect("it was offered");
            assert!((loss - expected).abs() < 1e-5, "{point:?}");
        }
        assert!(curve.is_lossless_below() && curve.stopped().is_none());
    }

    #[test]
    fn a_loss_floor_makes_it_go_down_to_the_last_step() {
        let mut device = Simulated { loss_floor: 1e-3, ..Simulated::new(650_000.0) };
        let (curve, _) = run(CONFIG, &mut device);
        assert_eq!(curve.points().len(), 10);
        assert!((curve.points()[9].share - 0.1).abs() < 1e-9);
        assert!(!curve.is_lossless_below());
    }

    #[test]
    fn loads_that_cannot_be_offered_have_no_loss() {
        let mut device = Simulated { sender_pps: 820_000.0, ..Simulated::new(650_000.0) };
        let (curve, trials) = run(CONFIG, &mut device);
        let known: Vec<bool> = curve.points().iter().map(|p| p.loss_ratio.is_some()).collect();
        assert_eq!(known, [false, false, true, true, true, true]);
        assert_eq!(trials, 6 + 2 * 2, "each of them was tried three times");
    }

    #[test]
    fn what_is_no_curve_is_refused_and_a_budget_ends_one() {
        for bad in [
            Config { step_ratio: 0.2, ..CONFIG },
            Config { step_ratio: 0.0, ..CONFIG },
            Config { max_load_pps: 0.0, ..CONFIG },
            Config { trial_s: f64::NAN, ..CONFIG },
        ] {
            let error = LossCurve::new(bad).expect_err("no curve").to_string();
            assert!(error.contains("steps of 0.1 % to 10 % of the maximum"), "{error}");
        }
        let budget = Budget { time_max_s: 1e6, trials_max: 3 };
        let (curve, trials) = run(Config { budget, ..CONFIG }, &mut Simulated::new(1e5));
        assert_eq!((trials, curve.stopped()), (3, Some(Stopped::Trials)));
    }

    proptest! {
        #[test]
        fn it_always_ends(
            step_ratio in 0.005_f64..0.1,
            capacity in 1e3_f64..2e6,
            voids in 0.0_f64..1.1,
        ) {
            let mut device = Simulated { voids, ..Simulated::new(capacity) };
            let (curve, trials) = run(Config { step_ratio, ..CONFIG }, &mut device);
            let steps = u32::try_from(trials).expect("few");
            prop_assert!(f64::from(steps) <= 3.0 * (1.0 / step_ratio).ceil() + 3.0);
            prop_assert!(curve.points().windows(2).all(|p| p[0].load_pps > p[1].load_pps));
        }
    }
}
