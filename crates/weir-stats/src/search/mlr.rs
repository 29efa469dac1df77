//! Multiple Loss Ratio search (RFC 9971): for several goals at once, the highest load that is still
//! forwarded well enough, and the lowest that is not.
//!
//! What a load is, and what is reported, is the RFC's. Which load comes next is not, and is done
//! here as follows. The search begins at the highest load, goes on at the rate that the device
//! forwarded there, moves away from a bound in steps that double until the bound on the other side
//! is found, and then halves the interval, evenly on a logarithmic scale. Goals take their turns,
//! the smallest loss ratio first, and each goal in the stages of [`Goal::phases`]; what was
//! measured for one counts for all.
//!
//! Trials of one goal may move the bounds of another, where goals differ in more than their loss
//! ratio; then that goal has its turn again, a few times.
//!
//! A load that could not be offered in [`ATTEMPTS_MAX`] trials in a row becomes the ceiling:
//! nothing is tried at it or above it from then on.

use super::classify::{Class, Criterion, Trial};
use super::goal::{Goal, GoalError, Phase};
use super::{ATTEMPTS_MAX, Budget, Measured, Purpose, Reading, Request, Stopped, rounded_load};

#[cfg(test)]
mod tests;

/// The first step away from a bound, in widths of the stage.
const STEP_FIRST: f64 = 1.0;

/// The smallest share of a load that a step leaves of it.
const STEP_KEEPS_MIN: f64 = 0.25;

/// Two loads closer than this are the same: no width is that small.
const SAME_LOAD: f64 = 1e-9;

/// How often the goals have their turns again.
const ROUNDS_AGAIN: u32 = 3;

/// How much below a load that could not be offered the ceiling lies at least, as a share of it;
/// each further time twice as much, so that a sender that keeps no rate at all is soon found out.
const CEILING_BELOW: f64 = 0.005;

/// A search to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Goals; they are searched in the order of their loss ratios.
    pub goals: Vec<Goal>,
    /// The lowest load to be tried, packets per second, above 0.
    pub min_load_pps: f64,
    /// The highest.
    pub max_load_pps: f64,
    /// Length of a trial before the first one, whose result is not used, seconds.
    pub warmup_s: Option<f64>,
    /// What it may cost.
    pub budget: Budget,
}

/// Why a search cannot be begun.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A goal is none.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// There is none.
    #[error("a search needs a goal")]
    NoGoal,
    /// There are no loads to try.
    #[error(
        "loads must go from above 0 to a finite value, not from {min_load_pps} to {max_load_pps}"
    )]
    Loads {
        /// The lowest.
        min_load_pps: f64,
        /// The highest.
        max_load_pps: f64,
    },
}

/// What was found for a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalResult {
    pub goal: Goal,
    /// The relevant lower bound: the highest load below every upper bound that is forwarded well
    /// enough, packets per second.
    pub lower_pps: Option<f64>,
    /// The relevant upper bound: the lowest load that is not.
    pub upper_pps: Option<f64>,
    /// What arrives at the relevant lower bound, packets per second (RFC 9971, appendix B).
    pub conditional_throughput_pps: Option<f64>,
    /// What that is worth.
    pub ending: Ending,
    /// The lower bound of the closest coarse stage that has one: all there is to say if the search
    /// was stopped before the goal itself had a bound.
    pub indicated_pps: Option<f64>,
}

/// How the search for a goal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Both bounds stand, as close as the goal asks.
    Regular,
    /// The highest load is forwarded well enough: the device can do it, and perhaps more.
    MaxLoadPasses,
    /// The testbed could not offer more than the lower bound, or thereabouts: the device can do it,
    /// and perhaps more.
    TestbedLimited,
    /// The lowest load is not forwarded well enough: there is no such rate.
    MinLoadFails,
    /// The search ended before.
    Stopped(Stopped),
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    Trial(Request),
    /// Nothing: the results stand.
    Done,
}

#[derive(Debug, Clone)]
struct Load {
    load_pps: f64,
    trials: Vec<Trial>,
}

/// The bounds according to a criterion.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bounds {
    lower: Option<f64>,
    upper: Option<f64>,
}

/// Steps that double, away from a bound.
#[derive(Debug, Clone, Copy, Default)]
struct Gallop {
    /// The bound that the last step was made from.
    from: Option<(Side, f64)>,
    steps: u32,
    /// The other side is found: only halving is left.
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Lower,
    Upper,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    config: Config,
    /// By load.
    loads: Vec<Load>,
    /// The stages of all goals, in the order in which they are searched.
    stages: Vec<Phase>,
    stage: usize,
    /// Stages that ended at a load that is known already once it is rounded.
    rounded_off: Vec<Phase>,
    /// The load whose class is being found.
    current: Option<f64>,
    /// The bounds of the stage before.
    hint: Bounds,
    gallop: Gallop,
    /// The highest load that is still tried.
    ceiling_pps: f64,
    /// How often it was lowered.
    ceiling_drops: i32,
    pending: Option<Request>,
    failures: u32,
    best_offer_pps: f64,
    trials: u32,
    elapsed_s: f64,
    stopped: Option<Stopped>,
}

impl Search {
    /// Begins a search.
    ///
    /// # Errors
    /// [`ConfigError`] if there is nothing to search.
    pub fn new(mut config: Config) -> Result<Self, ConfigError> {
        let Config { min_load_pps, max_load_pps, .. } = config;
        let (min_load_pps, max_load_pps) = (rounded_load(min_load_pps), rounded_load(max_load_pps));
        (config.min_load_pps, config.max_load_pps) = (min_load_pps, max_load_pps);
        if !(min_load_pps > 0.0 && min_load_pps <= max_load_pps && max_load_pps.is_finite()) {
            return Err(ConfigError::Loads { min_load_pps, max_load_pps });
        }
        if config.goals.is_empty() {
            return Err(ConfigError::NoGoal);
        }
        for goal in &config.goals {
            goal.check()?;
        }
        config.goals.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let mut stages: Vec<Phase> = config.goals.iter().flat_map(Goal::phases).collect();
        // Longer trials of one goal may move the bounds of another that had ended.
        let last = config.goals.iter().filter_map(|goal| goal.phases().last().copied());
        let last: Vec<Phase> = last.collect();
        for _ in 0..ROUNDS_AGAIN {
            stages.extend(&last);
        }
        Ok(Self {
            loads: Vec::new(),
            stages,
            stage: 0,
            rounded_off: Vec::new(),
            current: None,
            hint: Bounds::default(),
            gallop: Gallop::default(),
            ceiling_pps: max_load_pps,
            ceiling_drops: 0,
            pending: None,
            failures: 0,
            best_offer_pps: 0.0,
            trials: 0,
            elapsed_s: 0.0,
            stopped: None,
            config,
        })
    }

    /// The next trial. Asked again before [`Search::feed`], it says the same.
    pub fn next_step(&mut self) -> Step {
        if let Some(request) = self.pending {
            return Step::Trial(request);
        }
        if self.stopped.is_some() {
            return Step::Done;
        }
        if let Some(duration_s) = self.config.warmup_s.filter(|_| self.trials == 0) {
            let load_pps = self.config.max_load_pps;
            return self.ask(Request { load_pps, duration_s, purpose: Purpose::Warmup });
        }
        let Some(load_pps) = self.choose() else { return Step::Done };
        self.stopped = self.config.budget.exceeded(self.trials, self.elapsed_s);
        if self.stopped.is_some() {
            return Step::Done;
        }
        let duration_s = self.stages[self.stage].criterion.trial_s;
        self.ask(Request { load_pps, duration_s, purpose: Purpose::Search })
    }

    fn ask(&mut self, request: Request) -> Step {
        self.pending = Some(request);
        Step::Trial(request)
    }

    /// Takes the result of the trial that was asked for.
    ///
    /// # Panics
    /// If none was.
    pub fn feed(&mut self, measured: &Measured) {
        let request = self.pending.take().expect("a result belongs to a trial that was asked for");
        self.trials += 1;
        self.elapsed_s += measured.elapsed_s.max(0.0);
        if request.purpose == Purpose::Warmup {
            return;
        }
        match measured.reading(request.load_pps) {
            Reading::Loss(loss_ratio) => {
                self.failures = 0;
                self.best_offer_pps = 0.0;
                let trial = Trial { duration_s: request.duration_s, loss_ratio };
                self.load_mut(request.load_pps).trials.push(trial);
            }
            Reading::NotOffered => {
                self.failures += 1;
                self.best_offer_pps = self.best_offer_pps.max(measured.offered_pps);
                if self.failures >= ATTEMPTS_MAX {
                    self.lower_ceiling(request.load_pps);
                }
            }
            Reading::Void => {
                self.failures += 1;
                if self.failures >= ATTEMPTS_MAX {
                    self.stopped = Some(Stopped::Void);
                }
            }
        }
    }

    /// Trials so far, of whatever outcome.
    #[must_use]
    pub fn trials(&self) -> u32 {
        self.trials
    }

    /// What is known of every goal so far, in the order of their loss ratios.
    #[must_use]
    pub fn results(&self) -> Vec<GoalResult> {
        self.config.goals.iter().map(|goal| self.result(goal)).collect()
    }

    fn result(&self, goal: &Goal) -> GoalResult {
        let criterion = goal.criterion();
        let Bounds { lower, upper } = self.bounds(&criterion);
        let conditional_throughput_pps = lower.and_then(|load_pps| {
            let trials = self.trials_at(load_pps);
            criterion.conditional_throughput_pps(load_pps, trials)
        });
        let stages = goal.phases();
        let indicated_pps =
            stages.iter().rev().find_map(|phase| self.bounds(&phase.criterion).lower);
        GoalResult {
            goal: *goal,
            lower_pps: lower,
            upper_pps: upper,
            conditional_throughput_pps,
            ending: self.ending(goal, lower, upper),
            indicated_pps,
        }
    }

    fn ending(&self, goal: &Goal, lower: Option<f64>, upper: Option<f64>) -> Ending {
        let is_capped = self.ceiling_pps < self.config.max_load_pps;
        match (lower, upper) {
            (Some(lower), Some(upper)) if is_within(lower, upper, goal.width_ratio) => {
                Ending::Regular
            }
            (None, Some(upper)) if is_same(upper, self.config.min_load_pps) => Ending::MinLoadFails,
            (Some(lower), None) if is_same(lower, self.config.max_load_pps) => {
                Ending::MaxLoadPasses
            }
            (Some(lower), _) if is_capped && at_least(lower, self.ceiling_pps) => {
                Ending::TestbedLimited
            }
            _ => match self.stopped {
                Some(stopped) => Ending::Stopped(stopped),
                // Not even the lowest load could be offered; or the search is not at its end.
                None if is_capped => Ending::TestbedLimited,
                None if goal.phases().last().is_some_and(|it| self.rounded_off.contains(it)) => {
                    Ending::Stopped(Stopped::Resolution)
                }
                None => Ending::Stopped(Stopped::Unsettled),
            },
        }
    }

    fn trials_at(&self, load_pps: f64) -> &[Trial] {
        match self.place(load_pps) {
            Ok(index) => &self.loads[index].trials,
            Err(_) => &[],
        }
    }

    fn load_mut(&mut self, load_pps: f64) -> &mut Load {
        let index = self.place(load_pps).unwrap_or_else(|index| {
            self.loads.insert(index, Load { load_pps, trials: Vec::new() });
            index
        });
        &mut self.loads[index]
    }

    fn place(&self, load_pps: f64) -> Result<usize, usize> {
        self.loads.binary_search_by(|load| load.load_pps.total_cmp(&load_pps))
    }

    /// The relevant bounds: the lowest load that is an upper bound, and the highest below it that
    /// is a lower one.
    fn bounds(&self, criterion: &Criterion) -> Bounds {
        let mut bounds = Bounds::default();
        for load in &self.loads {
            match criterion.class(&load.trials) {
                Class::Lower => bounds.lower = Some(load.load_pps),
                Class::Upper => {
                    bounds.upper = Some(load.load_pps);
                    break;
                }
                Class::Undecided => {}
            }
        }
        bounds
    }

    /// The load of the next trial; `None` when all goals are reached.
    fn choose(&mut self) -> Option<f64> {
        while let Some(&phase) = self.stages.get(self.stage) {
            if let Some(current) = self.current.filter(|&load| at_least(self.ceiling_pps, load))
                && phase.criterion.class(self.trials_at(current)) == Class::Undecided
            {
                return Some(current);
            }
            let bounds = self.bounds(&phase.criterion);
            let candidate = self.candidate(bounds, &phase);
            let candidate = candidate.map(rounded_load);
            match candidate
                .filter(|&load| phase.criterion.class(self.trials_at(load)) == Class::Undecided)
            {
                Some(load) => {
                    self.current = Some(load);
                    return Some(load);
                }
                None => {
                    // Its last turn counts: bounds may have moved since the one before.
                    self.rounded_off.retain(|earlier| *earlier != phase);
                    if candidate.is_some() {
                        self.rounded_off.push(phase);
                    }
                    self.stage += 1;
                    self.hint = bounds;
                    self.gallop = Gallop::default();
                    self.current = None;
                }
            }
        }
        None
    }

    /// The load to be tried with these bounds; `None` when the stage is at its end.
    fn candidate(&mut self, bounds: Bounds, phase: &Phase) -> Option<f64> {
        let (low, high) = (self.config.min_load_pps, self.ceiling_pps);
        if high < low {
            return None;
        }
        match bounds {
            Bounds { lower: None, upper: None } => {
                Some(self.hint.lower.or(self.hint.upper).unwrap_or(high).clamp(low, high))
            }
            Bounds { lower: Some(lower), upper: None } => {
                let hint = self.hint.upper.filter(|&hint| hint > lower);
                let step = || self.gallop.step(Side::Lower, lower, phase.width_ratio);
                let next = hint.map_or_else(step, |hint| (hint, self.gallop));
                self.gallop = next.1;
                (!at_least(lower, high)).then(|| next.0.min(high))
            }
            Bounds { lower: None, upper: Some(upper) } => {
                if at_least(low, upper) {
                    return None;
                }
                let hint = self.hint.lower.filter(|&hint| hint < upper);
                let guess = hint.or_else(|| self.forwarded(upper, phase));
                let step = || self.gallop.step(Side::Upper, upper, phase.width_ratio);
                let next = guess.map_or_else(step, |guess| (guess, self.gallop));
                self.gallop = next.1;
                Some(next.0.clamp(low, high.min(upper)))
            }
            Bounds { lower: Some(lower), upper: Some(upper) } => {
                if is_within(lower, upper, phase.width_ratio) || at_least(lower, high) {
                    return None;
                }
                let inside = self.inside(lower, upper, phase.width_ratio).min(high);
                (inside > lower && inside < upper).then_some(inside)
            }
        }
    }

    /// The rate that the device forwarded when it was offered too much, as a load that just about
    /// keeps the loss ratio: a guess for the first load after the highest one.
    fn forwarded(&self, upper: f64, phase: &Phase) -> Option<f64> {
        if self.gallop.steps > 0 || self.loads.len() > 1 {
            return None;
        }
        let losses = self.trials_at(upper).iter().map(|trial| trial.loss_ratio.min(1.0));
        let loss = losses.fold(1.0, f64::min);
        let guess = upper * (1.0 - loss) / (1.0 - phase.criterion.loss_ratio);
        (guess >= self.config.min_load_pps && guess < upper * (1.0 - SAME_LOAD)).then_some(guess)
    }

    /// A load between two bounds.
    fn inside(&mut self, lower: f64, upper: f64, width_ratio: f64) -> f64 {
        let middle = (lower * upper).sqrt();
        match self.gallop.from {
            // The bound did not move, so the other one did.
            Some((Side::Lower, from)) if is_same(from, lower) => self.gallop.is_over = true,
            Some((Side::Upper, from)) if is_same(from, upper) => self.gallop.is_over = true,
            _ => {}
        }
        if self.gallop.is_over {
            return middle;
        }
        let side = match (self.gallop.from, self.current) {
            (Some((side, _)), _) => side,
            (None, Some(current)) if is_same(current, upper) => Side::Upper,
            (None, _) => Side::Lower,
        };
        let from = if side == Side::Lower { lower } else { upper };
        let (load, gallop) = self.gallop.step(side, from, width_ratio);
        let is_past = match side {
            Side::Lower => load >= middle,
            Side::Upper => load <= middle,
        };
        self.gallop = gallop;
        self.gallop.is_over = is_past;
        if is_past { middle } else { load }
    }

    /// Nothing at this load or above is tried any more, because it cannot be offered.
    fn lower_ceiling(&mut self, load_pps: f64) {
        let below = (CEILING_BELOW * 2_f64.powi(self.ceiling_drops)).min(1.0 - STEP_KEEPS_MIN);
        let below = self.best_offer_pps.min(load_pps) * (1.0 - below);
        self.ceiling_drops += 1;
        // What was forwarded before stands, and so does the load that it was forwarded at.
        let criterion = self.stages.get(self.stage).map(|phase| phase.criterion);
        let lower = criterion.and_then(|criterion| self.bounds(&criterion).lower);
        let kept = lower.filter(|&lower| lower < load_pps).unwrap_or(0.0);
        self.ceiling_pps = self.ceiling_pps.min(rounded_load(below.max(kept)));
        self.failures = 0;
        self.best_offer_pps = 0.0;
        self.current = None;
    }
}

impl Gallop {
    /// The load one step away from a bound, and the steps with this one.
    fn step(self, side: Side, from: f64, width_ratio: f64) -> (f64, Self) {
        let widths = STEP_FIRST * 2_f64.powi(i32::try_from(self.steps).unwrap_or(i32::MAX));
        let keeps = (1.0 - width_ratio * widths).max(STEP_KEEPS_MIN);
        let load = match side {
            Side::Lower => from / keeps,
            Side::Upper => from * keeps,
        };
        (load, Self { from: Some((side, from)), steps: self.steps + 1, is_over: self.is_over })
    }
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= a.abs().max(b.abs()) * SAME_LOAD
}

fn at_least(a: f64, b: f64) -> bool {
    a > b || is_same(a, b)
}

fn is_within(lower: f64, upper: f64, width_ratio: f64) -> bool {
    upper - lower <= upper * width_ratio * (1.0 + 1e-9)
}
