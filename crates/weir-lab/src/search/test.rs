//! The tests of one item: throughput, loss-rate curve, latency, back-to-back frames.

use std::collections::VecDeque;

use weir_stats::search::burst::{self, BackToBack, buffer_time};
use weir_stats::search::curve::{self, LossCurve};
use weir_stats::search::latency::{self, Point};
use weir_stats::search::mlr::{self, GoalResult, Search};
use weir_stats::search::{Budget, Measured, Purpose, Reading, Stopped, rounded_load};
use weir_wire::units::Rate;

use super::SAMPLES_MIN;
use super::item::Item;
use crate::runner::RunError;
use weir_results::record::{self, Delays, TrialRecord};
use weir_results::search::Terms;
use weir_results::search::Test;
use weir_results::search::record::{
    Bounds, BurstRecord, Cost, CurvePoint, CurveRecord, GoalRecord, ItemResult, LatencyPoint,
    LatencyRecord, MeanDelays, PathStep, StepOutcome,
};
use weir_results::verdict;

/// The lowest load as a share of the highest, where the specification names none.
pub(super) const MIN_LOAD_SHARE: f64 = 1e-3;

/// How long the longest burst takes at the generator's rate (RFC 9004), seconds.
pub(super) const BURST_MAX_S: f64 = 2.0;

/// What is asked of a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) rate: Rate,
    /// What the rate has to be for the trial to say anything; 0 where it is as fast as it goes.
    pub(super) load_pps: f64,
    pub(super) duration_s: f64,
    pub(super) latency_s: Option<f64>,
    pub(super) packets: Option<u64>,
    /// Its result is not used.
    pub(super) is_warmup: bool,
}

/// What is known of the path of an item without the DUT.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// It carries this, as calibrated, or by the stated rate of its links.
    pub(super) path_pps: Option<f64>,
    /// The generator offers this, where that could be measured.
    pub(super) generator_pps: Option<f64>,
}

/// The loads of an item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loads {
    pub(super) min_pps: f64,
    pub(super) max_pps: f64,
    /// The specification's `max_load` is what limits it.
    max_is_given: bool,
}

impl Loads {
    /// Nothing above what the path carries is tried: what is lost there is not the DUT's.
    pub(super) fn of(terms: &Terms, item: &Item, known: Known) -> Result<Self, RunError> {
        let path_pps = known.path_pps.unwrap_or(f64::INFINITY);
        let given = terms.max_load_pps.filter(|&pps| pps < path_pps);
        let max_pps = given.unwrap_or(path_pps);
        let min_pps = terms.min_load_pps.unwrap_or(max_pps * MIN_LOAD_SHARE);
        if !(max_pps > 0.0 && max_pps.is_finite() && min_pps <= max_pps) {
            let unit = item.series.traffic.kind.unit().title().to_lowercase();
            let reason = format!(
                "loads would go from {min_pps:.0} to {max_pps:.0} {unit}: the path carries \
                 {path_pps:.0} without the DUT; lower `min_load`"
            );
            return Err(RunError::Loads { name: item.name.clone(), reason });
        }
        Ok(Self { min_pps, max_pps, max_is_given: given.is_some() })
    }
}

/// A test that is being done.
pub(super) struct Measuring {
    machine: Machine,
    /// What it has cost so far.
    cost: Cost,
    /// The trial that was asked for last.
    asked: Option<Ask>,
}

/// What decides which trial of a test is next.
enum Machine {
    Throughput {
        search: Box<Search>,
        link_bound_pps: f64,
        max_is_given: bool,
        path: Vec<PathStep>,
        /// What a packet cost at each load, by trial.
        costs: Vec<(Ask, record::Cost)>,
    },
    LossCurve(LossCurve),
    /// Absent: no goal has a lower bound, so there is no load to measure at.
    Latency(Option<Latencies>),
    Bursts {
        search: BackToBack,
        packets_max: u64,
        burst_pps: f64,
    },
}

/// Latency at shares of the first goal's lower bound that there is.
struct Latencies {
    record: LatencyRecord,
    points: VecDeque<Point>,
    /// The share that was asked for last.
    share: f64,
    budget: Budget,
    trial_s: f64,
    /// Just long enough to see that the rate is kept.
    duration_s: f64,
}

impl Measuring {
    /// Begins a test of an item. `sample_s` is the distance of samples.
    pub(super) fn new(
        test: Test,
        terms: &Terms,
        item: &Item,
        (known, loads, sample_s): (Known, Loads, f64),
        result: &ItemResult,
    ) -> Result<Self, RunError> {
        let machine = match test {
            Test::Throughput => throughput(terms, item, known, loads)?,
            Test::LossCurve => loss_curve(terms, item, loads)?,
            Test::Latency => Machine::Latency(Latencies::new(terms, sample_s, result)),
            Test::BackToBack => bursts(terms, item, known)?,
        };
        let cost = Cost { test, trials: 0, not_offered_trials: 0, void_trials: 0, elapsed_s: 0.0 };
        Ok(Self { machine, cost, asked: None })
    }

    /// Which test it is.
    pub(super) fn test(&self) -> Test {
        self.cost.test
    }

    /// The number of the next trial.
    pub(super) fn number(&self) -> u32 {
        self.cost.trials + 1
    }

    /// What is asked of the next trial; `None` when the test is done.
    pub(super) fn next(&mut self) -> Option<Ask> {
        let plain = |load_pps: f64, duration_s| Ask {
            rate: Rate::Pps(load_pps),
            load_pps,
            duration_s,
            latency_s: None,
            packets: None,
            is_warmup: false,
        };
        let ask = match &mut self.machine {
            Machine::Throughput { search, .. } => match search.next_step() {
                mlr::Step::Trial(request) => Ask {
                    is_warmup: request.purpose == Purpose::Warmup,
                    ..plain(request.load_pps, request.duration_s)
                },
                mlr::Step::Done => return None,
            },
            Machine::LossCurve(curve) => {
                let request = curve.next_trial()?;
                plain(request.load_pps, request.duration_s)
            }
            Machine::Latency(latencies) => {
                let latencies = latencies.as_mut()?;
                let load_pps = latencies.next(&self.cost)?;
                Ask { latency_s: Some(latencies.trial_s), ..plain(load_pps, latencies.duration_s) }
            }
            Machine::Bursts { search, burst_pps, .. } => {
                let packets = search.next_burst()?;
                #[expect(clippy::cast_precision_loss, reason = "bursts stay far below 2^53")]
                let duration_s = (packets as f64 / *burst_pps).max(1e-6);
                Ask { rate: Rate::Max, packets: Some(packets), ..plain(0.0, duration_s) }
            }
        };
        self.asked = Some(ask);
        Some(ask)
    }

    /// Takes in the trial that was asked for last.
    pub(super) fn feed(&mut self, measured: &Measured, record: &TrialRecord) {
        let Some(ask) = self.asked.take() else { return };
        self.cost.trials += 1;
        self.cost.elapsed_s += measured.elapsed_s;
        let reading = measured.reading(ask.load_pps);
        match reading {
            Reading::Loss(_) => {}
            Reading::NotOffered => self.cost.not_offered_trials += 1,
            Reading::Void => self.cost.void_trials += 1,
        }
        match &mut self.machine {
            Machine::Throughput { search, path, costs, .. } => {
                search.feed(measured);
                let overrun = verdict::overrun(&record.ledger, record.machine.as_ref());
                path.push(path_step(search, ask, reading, overrun.is_some()));
                let counts = matches!(reading, Reading::Loss(_)) && !ask.is_warmup;
                costs.extend(record.cost.filter(|_| counts).map(|cost| (ask, cost)));
            }
            Machine::LossCurve(curve) => curve.feed(measured),
            Machine::Latency(latencies) => {
                if let Some(latencies) = latencies {
                    latencies.feed(reading, record);
                }
            }
            Machine::Bursts { search, .. } => search.feed(measured),
        }
    }

    /// Writes down what was found.
    pub(super) fn finish(self, result: &mut ItemResult) {
        match self.machine {
            Machine::Throughput { search, link_bound_pps, max_is_given, path, costs } => {
                let record = |goal| GoalRecord {
                    cost: final_cost(&goal, &costs),
                    ..GoalRecord::new(&goal, link_bound_pps, max_is_given, &path)
                };
                result.goals = search.results().into_iter().map(record).collect();
                result.path = path;
            }
            Machine::LossCurve(curve) => {
                result.loss_curve = Some(CurveRecord {
                    points: curve.points().iter().map(CurvePoint::from).collect(),
                    is_lossless_below: curve.is_lossless_below(),
                    stopped: curve.stopped().map(reason),
                });
            }
            Machine::Latency(latencies) => result.latency = latencies.map(Latencies::finish),
            Machine::Bursts { search, packets_max, burst_pps } => {
                result.back_to_back = Some(burst_record(&search, (packets_max, burst_pps), result));
            }
        }
        result.costs.push(self.cost);
    }
}

fn budget(terms: &Terms) -> Budget {
    Budget { time_max_s: terms.time_max_s, trials_max: terms.trials_max }
}

fn reason(stopped: Stopped) -> String {
    stopped.reason().to_owned()
}

fn unsuited(item: &Item) -> impl Fn(String) -> RunError {
    let name = item.name.clone();
    move |reason| RunError::Loads { name: name.clone(), reason }
}

fn throughput(terms: &Terms, item: &Item, known: Known, loads: Loads) -> Result<Machine, RunError> {
    let config = mlr::Config {
        goals: terms.goals.clone(),
        min_load_pps: loads.min_pps,
        max_load_pps: loads.max_pps,
        warmup_s: terms.warmup_s,
        budget: budget(terms),
    };
    let search = Search::new(config).map_err(|error| unsuited(item)(error.to_string()))?;
    Ok(Machine::Throughput {
        search: Box::new(search),
        link_bound_pps: known.path_pps.unwrap_or(f64::INFINITY) * verdict::LINK_BOUND_MIN.value,
        max_is_given: loads.max_is_given,
        path: Vec::new(),
        costs: Vec::new(),
    })
}

/// What a trial said, and what is known after it.
fn path_step(search: &Search, ask: Ask, reading: Reading, is_overrun: bool) -> PathStep {
    let outcome = match reading {
        _ if ask.is_warmup => StepOutcome::WarmUp,
        Reading::Loss(loss_ratio) => StepOutcome::LossRatio(loss_ratio),
        Reading::NotOffered => StepOutcome::NotOffered,
        Reading::Void => StepOutcome::Void,
    };
    let bounds = |goal: GoalResult| Bounds { lower_pps: goal.lower_pps, upper_pps: goal.upper_pps };
    PathStep {
        load_pps: ask.load_pps,
        duration_s: ask.duration_s,
        outcome,
        bounds: search.results().into_iter().map(bounds).collect(),
        is_overrun,
    }
}

/// What a packet cost in the full trials at a goal's lower bound.
fn final_cost(result: &GoalResult, costs: &[(Ask, record::Cost)]) -> Option<record::Cost> {
    let lower_pps = result.lower_pps?;
    let is_final = |ask: &Ask| {
        ask.load_pps.total_cmp(&lower_pps).is_eq() && ask.duration_s >= result.goal.final_trial_s
    };
    let costs: Vec<record::Cost> =
        costs.iter().filter(|(ask, _)| is_final(ask)).map(|(_, cost)| *cost).collect();
    record::Cost::together(&costs)
}

fn loss_curve(terms: &Terms, item: &Item, loads: Loads) -> Result<Machine, RunError> {
    let config = curve::Config {
        max_load_pps: loads.max_pps,
        step_ratio: terms.curve_step_ratio,
        trial_s: terms.curve_trial_s,
        budget: budget(terms),
    };
    let curve = LossCurve::new(config).map_err(|error| unsuited(item)(error.to_string()))?;
    Ok(Machine::LossCurve(curve))
}

fn bursts(terms: &Terms, item: &Item, known: Known) -> Result<Machine, RunError> {
    let unknown = || unsuited(item)("the rate of the generator is not known".to_owned());
    let burst_pps = known.generator_pps.ok_or_else(unknown)?;
    let packets_max = terms.burst_packets_max.unwrap_or_else(|| whole(burst_pps * BURST_MAX_S));
    let config = burst::Config {
        packets_max,
        width_ratio: terms.burst_width_ratio,
        repeats: terms.burst_repeats,
        budget: budget(terms),
    };
    let search = BackToBack::new(config).map_err(|error| unsuited(item)(error.to_string()))?;
    Ok(Machine::Bursts { search, packets_max, burst_pps })
}

fn burst_record(
    search: &BackToBack,
    (packets_max, burst_pps): (u64, f64),
    result: &ItemResult,
) -> BurstRecord {
    let bursts = search.bursts();
    // RFC 9004 corrects by the throughput without loss; a partial-drop rate is none.
    let ndr = result.goals.iter().find(|goal| goal.goal.loss_ratio == 0.0);
    let throughput_pps = ndr.and_then(|goal| goal.lower_pps).unwrap_or(0.0);
    let buffer =
        bursts.and_then(|bursts| buffer_time(bursts.mean_packets, burst_pps, throughput_pps));
    BurstRecord {
        packets_max,
        burst_pps,
        lengths_packets: search.lengths().to_vec(),
        mean_packets: bursts.map(|bursts| bursts.mean_packets),
        stddev_packets: bursts.and_then(|bursts| bursts.stddev_packets),
        is_lower_bound: bursts.is_some_and(|bursts| bursts.is_at_most),
        implied_buffer_s: buffer.map(|buffer| buffer.implied_s),
        corrected_buffer_s: buffer.map(|buffer| buffer.corrected_s),
        stopped: search.stopped().map(reason),
    }
}

impl Latencies {
    fn new(terms: &Terms, sample_s: f64, result: &ItemResult) -> Option<Self> {
        let (goal, throughput_pps) =
            result.goals.iter().find_map(|goal| Some((goal, goal.lower_pps?)))?;
        let shares = latency::SHARES.iter().map(|&share| LatencyPoint {
            load_ratio: share,
            load_pps: rounded_load(throughput_pps * share),
            mean: None,
            trials: 0,
            repeats: Vec::new(),
        });
        let (of, points, stopped) = (goal.name.clone(), shares.collect(), None);
        Some(Self {
            record: LatencyRecord { of, throughput_pps, points, stopped },
            points: latency::points(throughput_pps, terms.latency_repeats).into(),
            share: 0.0,
            budget: budget(terms),
            trial_s: terms.latency_trial_s,
            duration_s: sample_s * f64::from(SAMPLES_MIN),
        })
    }

    /// The next load.
    fn next(&mut self, cost: &Cost) -> Option<f64> {
        let point = self.points.front()?;
        let stopped = self.budget.exceeded(cost.trials, cost.elapsed_s);
        if stopped.is_some() {
            self.record.stopped = stopped.map(reason);
            return None;
        }
        let Point { share, load_pps, .. } = *point;
        self.points.pop_front();
        self.share = share;
        Some(load_pps)
    }

    fn feed(&mut self, reading: Reading, record: &TrialRecord) {
        let share = self.share;
        let Some(at) = self.record.points.iter_mut().find(|at| is_share(at, share)) else {
            return;
        };
        at.trials += 1;
        // Delays at another load than this, or of a void trial, are not the DUT's here.
        let counts = matches!(reading, Reading::Loss(_));
        at.repeats.extend(record.latency.filter(|_| counts).map(|latency| latency.delays));
    }

    fn finish(mut self) -> LatencyRecord {
        for at in &mut self.record.points {
            at.mean = mean(&at.repeats);
        }
        self.record
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
        p999_ns: of(|delays| delays.p999_ns),
        max_ns: of(|delays| delays.max_ns)?,
    })
}

/// A number of packets, at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point saturates"
)]
pub(super) fn whole(packets: f64) -> u64 {
    packets.max(1.0).round() as u64
}
