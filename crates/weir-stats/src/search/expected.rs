//! What a search costs about, before anything is known of the device: the search itself is run
//! against a formula.
//!
//! The formula is that of a router in software: at a fifth of the path's rate it begins to lose
//! more than it forwards, and up to there the loss grows with the fourth power of the load, from
//! nothing to a hundredth. Trials that have to be repeated are not among those that it costs.

use super::burst::{self, BackToBack};
use super::curve::{self, LossCurve};
use super::mlr::{self, Search, Step};
use super::{Measured, Standing};

/// What the device forwards, as a share of the path's rate.
const CAPACITY_SHARE: f64 = 0.2;
/// What it loses when all that it can forward is offered.
const LOSS_AT_CAPACITY: f64 = 0.01;
/// Nobody sees a smaller loss in trials of a second.
const LOSS_SEEN_MIN: f64 = 1e-6;
/// The longest burst of which it loses nothing, as a share of the longest.
const BURST_SHARE: f64 = 0.1;

/// What a test costs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Effort {
    pub trials: u32,
    /// Traffic of all of them, seconds.
    pub traffic_s: f64,
}

impl Effort {
    fn add(&mut self, duration_s: f64) {
        self.trials += 1;
        self.traffic_s += duration_s;
    }
}

/// That of a search for bounds.
///
/// # Errors
/// As [`Search::new`].
pub fn bounds(config: mlr::Config) -> Result<Effort, mlr::ConfigError> {
    let max_pps = config.max_load_pps;
    let (mut search, mut effort) = (Search::new(config)?, Effort::default());
    while let Step::Trial(request) = search.next_step() {
        effort.add(request.duration_s);
        search.feed(&trial(request.load_pps, request.duration_s, max_pps));
    }
    Ok(effort)
}

/// That of a loss-rate curve.
///
/// # Errors
/// As [`LossCurve::new`].
pub fn loss_curve(config: curve::Config) -> Result<Effort, curve::ConfigError> {
    let (mut curve, mut effort) = (LossCurve::new(config)?, Effort::default());
    while let Some(request) = curve.next_trial() {
        effort.add(request.duration_s);
        curve.feed(&trial(request.load_pps, request.duration_s, config.max_load_pps));
    }
    Ok(effort)
}

/// That of back-to-back frames at a rate.
///
/// # Errors
/// As [`BackToBack::new`].
#[expect(clippy::cast_precision_loss, reason = "bursts stay far below 2^53")]
pub fn bursts(config: burst::Config, burst_pps: f64) -> Result<Effort, burst::ConfigError> {
    let (mut search, mut effort) = (BackToBack::new(config)?, Effort::default());
    while let Some(packets) = search.next_burst() {
        let duration_s = packets as f64 / burst_pps;
        effort.add(duration_s);
        let is_lost = packets as f64 > config.packets_max as f64 * BURST_SHARE;
        search.feed(&measured(packets, packets - u64::from(is_lost), duration_s));
    }
    Ok(effort)
}

/// What a trial brings at a load, behind a path that carries so much.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and far below 2^53"
)]
fn trial(load_pps: f64, duration_s: f64, path_pps: f64) -> Measured {
    let of_capacity = load_pps / (path_pps * CAPACITY_SHARE);
    let over = 1.0 - 1.0 / of_capacity.max(1.0);
    let loss = LOSS_AT_CAPACITY * of_capacity.min(1.0).powi(4) + over * (1.0 - LOSS_AT_CAPACITY);
    let offered = load_pps * duration_s;
    let lost = if loss < LOSS_SEEN_MIN { 0.0 } else { (offered * loss).ceil() };
    measured(offered.round() as u64, (offered.round() - lost).max(0.0) as u64, duration_s)
}

#[expect(clippy::cast_precision_loss, reason = "packets of a trial stay far below 2^53")]
fn measured(offered: u64, delivered: u64, duration_s: f64) -> Measured {
    Measured {
        offered_packets: offered,
        delivered_packets: delivered,
        offered_pps: offered as f64 / duration_s,
        elapsed_s: duration_s,
        standing: Standing::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Budget;
    use crate::search::goal::Preset;

    const BUDGET: Budget = Budget { time_max_s: 1e6, trials_max: 5_000 };

    fn of_goals(losses: &[f64], width_ratio: f64) -> Effort {
        let goal = |&loss: &f64| crate::search::goal::Goal {
            duration_sum_s: 5.0,
            width_ratio,
            ..Preset::Csit.goal(loss)
        };
        let config = mlr::Config {
            goals: losses.iter().map(goal).collect(),
            min_load_pps: 5_000.0,
            max_load_pps: 5e6,
            warmup_s: Some(1.0),
            budget: BUDGET,
        };
        bounds(config).unwrap()
    }

    #[test]
    fn closer_bounds_and_more_goals_cost_more() {
        let one = of_goals(&[0.001], 0.05);
        let (two, close) = (of_goals(&[0.001, 0.01], 0.05), of_goals(&[0.001], 0.005));
        assert!(one.trials > 10 && two.trials > one.trials && close.trials > one.trials);
        // The search of labs/search, which took 45 and 39 trials that said something.
        assert!((25..=60).contains(&two.trials), "{two:?}");
        assert!((two.traffic_s - f64::from(two.trials)).abs() < 1e-6, "{two:?}");
    }

    #[test]
    fn a_curve_and_bursts_have_their_steps() {
        let (step_ratio, trial_s) = (0.1, 2.0);
        let config = curve::Config { max_load_pps: 1e6, step_ratio, trial_s, budget: BUDGET };
        let curve = loss_curve(config).unwrap();
        assert!((9..=10).contains(&curve.trials), "{curve:?}");
        assert_eq!(curve.traffic_s, f64::from(curve.trials) * 2.0);
        let (packets_max, width_ratio) = (1_000_000, 0.01);
        let config = burst::Config { packets_max, width_ratio, repeats: 2, budget: BUDGET };
        let bursts = bursts(config, 1e6).unwrap();
        assert!(
            bursts.trials >= 2 * 8 && bursts.traffic_s < f64::from(bursts.trials),
            "{bursts:?}"
        );
    }
}
