//! About how long the searches of a plan take: how many trials each of them has, as
//! [`weir_stats::search::expected`] finds out, and what a trial takes beside its traffic. Repeats
//! of disturbed trials, and of loads that could not be offered, come on top.

use std::time::Duration;

use weir_results::search::{Terms, Test};
use weir_stats::search::expected::{self, Effort};
use weir_stats::search::{Budget, burst, curve, latency, mlr};

use super::SAMPLES_MIN;
use super::item::{Item, ItemError, items};
use super::test::{BURST_MAX_S, MIN_LOAD_SHARE, whole};
use crate::model::Plan;
use crate::plan::estimate::Estimate;

/// The rate of a path of which nobody knows it yet: what counts are the ratios of loads.
const PATH_PPS: f64 = 5e6;

/// What the searches of a plan cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    pub item_count: usize,
    /// Of all of them.
    pub trial_count: u32,
    pub duration: Duration,
}

/// That of all items.
///
/// # Errors
/// [`ItemError`] where the plan cannot be searched.
pub fn expected(plan: &Plan, terms: &Terms) -> Result<Expected, ItemError> {
    let items = items(plan, terms)?;
    let tests = terms.tests.iter();
    let efforts: Vec<(Effort, Duration)> = tests.map(|test| effort(*test, plan, terms)).collect();
    let trial_count = efforts.iter().map(|(effort, _)| effort.trials).sum::<u32>();
    let traffic: Duration = efforts
        .iter()
        .map(|(effort, more)| {
            Duration::from_secs_f64(effort.traffic_s) + (*more + plan.trial.drain) * effort.trials
        })
        .sum();
    let of_item = |item: &Item| {
        let Estimate { boots, setup, priming, .. } = Estimate::trial(plan, &item.series);
        (boots + setup + priming) * trial_count + traffic
    };
    let calibrations = Estimate::of(plan, std::iter::empty()).calibrations;
    let sizes = u32::try_from(terms.sizes.len()).unwrap_or(u32::MAX);
    let trials = calibrations * sizes + items.iter().map(of_item).sum::<Duration>();
    let item_count = items.len();
    let all = u32::try_from(item_count).unwrap_or(u32::MAX).saturating_mul(trial_count);
    let duration = trials + Estimate::run(plan, trials);
    Ok(Expected { item_count, trial_count: all, duration })
}

/// What a test of an item costs, and what each of its trials takes besides.
fn effort(test: Test, plan: &Plan, terms: &Terms) -> (Effort, Duration) {
    let max_load_pps = terms.max_load_pps.unwrap_or(PATH_PPS);
    let budget = Budget { time_max_s: terms.time_max_s, trials_max: terms.trials_max };
    let effort = match test {
        Test::Throughput => {
            let lowest_pps = max_load_pps * MIN_LOAD_SHARE;
            expected::bounds(mlr::Config {
                goals: terms.goals.clone(),
                min_load_pps: terms.min_load_pps.unwrap_or(lowest_pps).min(max_load_pps),
                max_load_pps,
                warmup_s: terms.warmup_s,
                budget,
            })
            .ok()
        }
        Test::LossCurve => expected::loss_curve(curve::Config {
            max_load_pps,
            step_ratio: terms.curve_step_ratio,
            trial_s: terms.curve_trial_s,
            budget,
        })
        .ok(),
        Test::Latency => {
            let trials = u32::try_from(latency::SHARES.len()).unwrap_or(1) * terms.latency_repeats;
            // Just long enough to see that the rate is kept.
            let rate_s = plan.trial.sample.as_secs_f64() * f64::from(SAMPLES_MIN);
            let traffic_s = f64::from(trials) * (terms.latency_trial_s + rate_s);
            return (Effort { trials, traffic_s }, plan.trial.drain);
        }
        Test::BackToBack => {
            let packets_max = terms.burst_packets_max.unwrap_or(whole(PATH_PPS * BURST_MAX_S));
            let (width_ratio, repeats) = (terms.burst_width_ratio, terms.burst_repeats);
            let config = burst::Config { packets_max, width_ratio, repeats, budget };
            expected::bursts(config, PATH_PPS).ok()
        }
    };
    // What cannot be begun is refused when it is.
    (effort.unwrap_or_default(), Duration::ZERO)
}
