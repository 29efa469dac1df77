//! The tests of one item: throughput, loss-rate curve, latency, back-to-back frames.

use weir_gen::units::Rate;
use weir_stats::search::burst::{self, BackToBack, buffer_time};
use weir_stats::search::curve::{self, LossCurve};
use weir_stats::search::goal::Goal;
use weir_stats::search::mlr::{Config, Search, Step};
use weir_stats::search::{Budget, Measured, Reading, latency, rounded_load};

use super::{Ask, Calibrated, Run, SAMPLES_MIN, SearchError, measured};
use crate::model::Test;
use crate::record::Delays;
use crate::search::item::Item;
use crate::search::record::{
    BurstRecord, Cost, CurvePoint, CurveRecord, GoalRecord, ItemResult, LatencyPoint,
    LatencyRecord, MeanDelays, RESULT_SCHEMA,
};
use crate::verdict;

/// The lowest load as a share of the highest, where the specification names none.
const MIN_LOAD_SHARE: f64 = 1e-3;

/// How long the longest burst takes at the generator's rate (RFC 9004), seconds.
const BURST_MAX_S: f64 = 2.0;

/// Counts what a test costs.
struct Meter(Cost);

impl Meter {
    fn new(test: Test) -> Self {
        Self(Cost { test, trials: 0, not_offered_trials: 0, void_trials: 0, elapsed_s: 0.0 })
    }

    /// The number of the next trial.
    fn number(&self) -> u32 {
        self.0.trials + 1
    }

    fn count(&mut self, measured: &Measured, load_pps: f64) {
        self.0.trials += 1;
        self.0.elapsed_s += measured.elapsed_s;
        match measured.reading(load_pps) {
            Reading::Loss(_) => {}
            Reading::NotOffered => self.0.not_offered_trials += 1,
            Reading::Void => self.0.void_trials += 1,
        }
    }
}

/// The loads of an item.
#[derive(Debug, Clone, Copy)]
struct Loads {
    min_pps: f64,
    max_pps: f64,
    /// The specification's `max_load` is what limits it.
    max_is_given: bool,
}

impl Run<'_> {
    /// Does all tests of an item.
    pub(super) fn search(
        &mut self,
        item: &Item,
        calibrated: Calibrated,
    ) -> Result<ItemResult, SearchError> {
        let loads = self.loads(item, calibrated)?;
        let mut result = ItemResult {
            schema: RESULT_SCHEMA,
            item_id: item.id.clone(),
            name: item.name.clone(),
            dut: item.series.dut.name.clone(),
            sweep: item.series.sweep.clone(),
            traffic: item.series.traffic.name.clone(),
            frames: item.frames(),
            calibrated_pps: calibrated.delivered_pps,
            generator_pps: calibrated.offered_pps,
            min_load_pps: loads.min_pps,
            max_load_pps: loads.max_pps,
            goals: Vec::new(),
            loss_curve: None,
            latency: None,
            back_to_back: None,
            costs: Vec::new(),
        };
        for &test in &self.wanted.tests.clone() {
            let mut meter = Meter::new(test);
            match test {
                Test::Throughput => {
                    result.goals = self.throughput(item, calibrated, loads, &mut meter)?;
                }
                Test::LossCurve => {
                    let curve = self.loss_curve(item, calibrated, loads, &mut meter)?;
                    result.loss_curve = Some(curve);
                }
                Test::Latency => {
                    result.latency = self.latencies(item, calibrated, &result, &mut meter)?;
                }
                Test::BackToBack => {
                    let bursts = self.bursts(item, calibrated, &result, &mut meter)?;
                    result.back_to_back = Some(bursts);
                }
            }
            result.costs.push(meter.0);
        }
        Ok(result)
    }

    /// Nothing above what the path carries is tried: what is lost there is not the DUT's.
    fn loads(&self, item: &Item, calibrated: Calibrated) -> Result<Loads, SearchError> {
        let path_pps = calibrated.delivered_pps;
        let given = self.wanted.max_load_pps.filter(|&pps| pps < path_pps);
        let max_pps = given.unwrap_or(path_pps);
        let min_pps = self.wanted.min_load_pps.unwrap_or(max_pps * MIN_LOAD_SHARE);
        if !(max_pps > 0.0 && min_pps <= max_pps) {
            let reason = format!(
                "loads would go from {min_pps:.0} to {max_pps:.0} packets per second: the path \
                 carries {path_pps:.0} without the DUT; lower `min_load`"
            );
            return Err(SearchError::Loads { name: item.name.clone(), reason });
        }
        Ok(Loads { min_pps, max_pps, max_is_given: given.is_some() })
    }

    fn budget(&self) -> Budget {
        Budget { time_max_s: self.wanted.time_max_s, trials_max: self.wanted.trials_max }
    }

    fn throughput(
        &mut self,
        item: &Item,
        calibrated: Calibrated,
        loads: Loads,
        meter: &mut Meter,
    ) -> Result<Vec<GoalRecord>, SearchError> {
        let config = Config {
            goals: self.wanted.goals.iter().map(|&goal| Goal::from(goal)).collect(),
            min_load_pps: loads.min_pps,
            max_load_pps: loads.max_pps,
            warmup_s: self.wanted.warmup_s,
            budget: self.budget(),
        };
        let mut search = Search::new(config).map_err(|error| SearchError::Loads {
            name: item.name.clone(),
            reason: error.to_string(),
        })?;
        while let Step::Trial(request) = search.next_step() {
            let ask = Ask {
                rate: Rate::Pps(request.load_pps),
                duration_s: request.duration_s,
                latency_s: None,
                packets: None,
            };
            let trial = self.trial(item, Test::Throughput, meter.number(), ask, calibrated)?;
            let measured = measured(&trial.0, &trial.1);
            meter.count(&measured, request.load_pps);
            search.feed(&measured);
        }
        let link_bound_pps = calibrated.delivered_pps * verdict::LINK_BOUND_MIN.value;
        let record = |result| GoalRecord::new(&result, link_bound_pps, loads.max_is_given);
        Ok(search.results().into_iter().map(record).collect())
    }

    fn loss_curve(
        &mut self,
        item: &Item,
        calibrated: Calibrated,
        loads: Loads,
        meter: &mut Meter,
    ) -> Result<CurveRecord, SearchError> {
        let config = curve::Config {
            max_load_pps: loads.max_pps,
            step_ratio: self.wanted.curve_step_ratio,
            trial_s: self.wanted.curve_trial_s,
            budget: self.budget(),
        };
        let mut curve = LossCurve::new(config).map_err(|error| SearchError::Loads {
            name: item.name.clone(),
            reason: error.to_string(),
        })?;
        while let Some(request) = curve.next_trial() {
            let ask = Ask {
                rate: Rate::Pps(request.load_pps),
                duration_s: request.duration_s,
                latency_s: None,
                packets: None,
            };
            let trial = self.trial(item, Test::LossCurve, meter.number(), ask, calibrated)?;
            let measured = measured(&trial.0, &trial.1);
            meter.count(&measured, request.load_pps);
            curve.feed(&measured);
        }
        Ok(CurveRecord {
            points: curve.points().iter().map(CurvePoint::from).collect(),
            is_lossless_below: curve.is_lossless_below(),
            stopped: curve.stopped().map(|stopped| stopped.reason().to_owned()),
        })
    }

    /// Latency at shares of the first goal's lower bound that there is; `None` without any.
    fn latencies(
        &mut self,
        item: &Item,
        calibrated: Calibrated,
        result: &ItemResult,
        meter: &mut Meter,
    ) -> Result<Option<LatencyRecord>, SearchError> {
        let found = result.goals.iter().find_map(|goal| Some((goal, goal.lower_pps?)));
        let Some((goal, throughput_pps)) = found else { return Ok(None) };
        let points = latency::points(throughput_pps, self.wanted.latency_repeats);
        let mut shares: Vec<LatencyPoint> = latency::SHARES
            .iter()
            .map(|&share| LatencyPoint {
                load_ratio: share,
                load_pps: rounded_load(throughput_pps * share),
                mean: None,
                trials: 0,
                repeats: Vec::new(),
            })
            .collect();
        let mut stopped = None;
        for point in points {
            stopped = self.budget().exceeded(meter.0.trials, meter.0.elapsed_s);
            if stopped.is_some() {
                break;
            }
            let ask = Ask {
                rate: Rate::Pps(point.load_pps),
                // Just long enough to see that the rate is kept.
                duration_s: self.plan.trial.sample.as_secs_f64() * f64::from(SAMPLES_MIN),
                latency_s: Some(self.wanted.latency_trial_s),
                packets: None,
            };
            let trial = self.trial(item, Test::Latency, meter.number(), ask, calibrated)?;
            let measured = measured(&trial.0, &trial.1);
            meter.count(&measured, point.load_pps);
            let Some(at) = shares.iter_mut().find(|at| is_share(at, point.share)) else { continue };
            at.trials += 1;
            // Delays at another load than this, or of a void trial, are not the DUT's here.
            let counts = matches!(measured.reading(point.load_pps), Reading::Loss(_));
            at.repeats.extend(trial.0.latency.filter(|_| counts).map(|latency| latency.delays));
        }
        for at in &mut shares {
            at.mean = mean(&at.repeats);
        }
        let stopped = stopped.map(|stopped| stopped.reason().to_owned());
        Ok(Some(LatencyRecord { of: goal.name.clone(), throughput_pps, points: shares, stopped }))
    }

    fn bursts(
        &mut self,
        item: &Item,
        calibrated: Calibrated,
        result: &ItemResult,
        meter: &mut Meter,
    ) -> Result<BurstRecord, SearchError> {
        let burst_pps = calibrated.offered_pps;
        let packets_max = match self.wanted.burst_packets_max {
            Some(packets_max) => packets_max,
            None => whole(burst_pps * BURST_MAX_S),
        };
        let config = burst::Config {
            packets_max,
            width_ratio: self.wanted.burst_width_ratio,
            repeats: self.wanted.burst_repeats,
            budget: self.budget(),
        };
        let mut search = BackToBack::new(config).map_err(|error| SearchError::Loads {
            name: item.name.clone(),
            reason: error.to_string(),
        })?;
        while let Some(packets) = search.next_burst() {
            #[expect(clippy::cast_precision_loss, reason = "bursts stay far below 2^53")]
            let duration_s = (packets as f64 / burst_pps).max(1e-6);
            let ask = Ask { rate: Rate::Max, duration_s, latency_s: None, packets: Some(packets) };
            let trial = self.trial(item, Test::BackToBack, meter.number(), ask, calibrated)?;
            let measured = measured(&trial.0, &trial.1);
            meter.count(&measured, 0.0);
            search.feed(&measured);
        }
        let bursts = search.bursts();
        // RFC 9004 corrects by the throughput without loss; a partial-drop rate is none.
        let ndr = result.goals.iter().find(|goal| goal.goal.loss_ratio == 0.0);
        let throughput_pps = ndr.and_then(|goal| goal.lower_pps).unwrap_or(0.0);
        let buffer =
            bursts.and_then(|bursts| buffer_time(bursts.mean_packets, burst_pps, throughput_pps));
        Ok(BurstRecord {
            packets_max,
            burst_pps,
            lengths_packets: search.lengths().to_vec(),
            mean_packets: bursts.map(|bursts| bursts.mean_packets),
            stddev_packets: bursts.and_then(|bursts| bursts.stddev_packets),
            is_lower_bound: bursts.is_some_and(|bursts| bursts.is_at_most),
            implied_buffer_s: buffer.map(|buffer| buffer.implied_s),
            corrected_buffer_s: buffer.map(|buffer| buffer.corrected_s),
            stopped: search.stopped().map(|stopped| stopped.reason().to_owned()),
        })
    }
}

/// Whether a point is the one at a share of the throughput.
fn is_share(at: &LatencyPoint, share: f64) -> bool {
    at.load_ratio.total_cmp(&share).is_eq()
}

/// Means over the repetitions; `None` without one.
fn mean(repeats: &[Delays]) -> Option<MeanDelays> {
    let of = |figure: fn(&Delays) -> u64| {
        let values: Vec<u64> = repeats.iter().map(figure).collect();
        latency::mean_ns(&values)
    };
    Some(MeanDelays {
        min_ns: of(|delays| delays.min_ns)?,
        p50_ns: of(|delays| delays.p50_ns)?,
        p90_ns: of(|delays| delays.p90_ns)?,
        p99_ns: of(|delays| delays.p99_ns)?,
        max_ns: of(|delays| delays.max_ns)?,
    })
}

/// A number of packets, at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point saturates"
)]
fn whole(packets: f64) -> u64 {
    packets.max(1.0).round() as u64
}
