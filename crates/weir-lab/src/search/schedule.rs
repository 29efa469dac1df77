//! The schedule of searches: calibrate, then item by item, test by test, trial by trial.
//!
//! What has no result in the store is searched. Trials that stand there are asked for as if they
//! did not, in their order: the search decides from their records as it did, so that nothing but
//! the trial that was running is lost by an interruption.

use std::collections::VecDeque;
use std::time::Duration;

use weir_stats::search::{Measured, Standing};
use weir_wire::units::whole_ns;

use super::SAMPLES_MIN;
use super::item::{Item, items};
use super::kept;
use super::test::{Ask, Known, Loads, Measuring};
use crate::event::{Event, Observer};
use crate::identity;
use crate::model::{Plan, TrialTimes};
use crate::runner::{self, Paths, Request, RunError, Schedule, Step};
use crate::store::Store;
use weir_results::counters::Place;
use weir_results::record::{Sample, TrialRecord, VerdictKind};
use weir_results::search::record::{ItemResult, RESULT_SCHEMA};
use weir_results::search::{Judged, Terms, Test};
use weir_results::verdict;

/// Searches about to run.
pub struct Searches<'a> {
    plan: &'a Plan,
    terms: &'a Terms,
    store: &'a Store,
    /// What is searched.
    items: usize,
    /// What has no result yet, and its turn has not come.
    pending: VecDeque<Item>,
    /// Those that are to be done, and how many of them have begun.
    progress: (usize, usize),
    current: Option<Current>,
}

/// The item that is searched.
struct Current {
    item: Item,
    known: Known,
    loads: Loads,
    /// What is found by now.
    result: ItemResult,
    /// What is still to be found out.
    tests: VecDeque<Test>,
    /// What is being found out.
    test: Option<Measuring>,
    /// The trial that was asked for last.
    asked: Option<Asked>,
    /// It was disturbed, and is asked for again.
    again: Option<Asked>,
}

/// A trial that was asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    test: Test,
    /// Its number among those of its test.
    number: u32,
    ask: Ask,
    /// How often it was disturbed and repeated since the searches began or were resumed.
    repeated: u32,
}

impl<'a> Searches<'a> {
    /// What a store lacks.
    ///
    /// # Errors
    /// When the specification cannot be searched, or the store holds something that was taken
    /// under other conditions or cannot be read.
    pub fn new(plan: &'a Plan, terms: &'a Terms, store: &'a Store) -> Result<Self, RunError> {
        let items = items(plan, terms).map_err(|error| RunError::Unsuited(error.into()))?;
        let count = items.len();
        let mut pending = VecDeque::new();
        for item in items {
            if kept::result(store, &item)?.is_none() {
                kept::check_unfinished(store, &item, terms)?;
                pending.push_back(item);
            }
        }
        let progress = (pending.len(), 0);
        Ok(Self { plan, terms, store, items: count, pending, progress, current: None })
    }

    /// What is known of an item's path; `None` before it is calibrated, where it can be.
    fn known(&self, item: &Item, paths: &Paths) -> Option<Known> {
        let traffic = &item.series.traffic;
        let calibrated = paths.of_traffic(traffic);
        if self.plan.testbed.has_direct_path() && calibrated.is_none() {
            return None;
        }
        Some(Known {
            path_pps: runner::path_of(self.plan, traffic, paths).rate_pps(),
            generator_pps: calibrated.map(|calibrated| calibrated.offered_pps),
        })
    }

    /// The next item, if there is one.
    fn begin_item(
        &mut self,
        paths: &Paths,
        observer: &mut dyn Observer,
    ) -> Result<Option<Step>, RunError> {
        let Some(item) = self.pending.pop_front() else {
            return Ok(Some(Step::Done));
        };
        let Some(known) = self.known(&item, paths) else {
            // Cannot be: all were calibrated before the first item began.
            let series = Box::new(item.series.clone());
            self.pending.push_front(item);
            return Ok(Some(Step::Calibrate { series, left: None }));
        };
        let (to_do, begun) = &mut self.progress;
        *begun += 1;
        observer.event(&Event::ItemStarted { position: *begun, to_do: *to_do, name: &item.name });
        let loads = Loads::of(self.terms, &item, known)?;
        let result = ItemResult {
            schema: RESULT_SCHEMA,
            item_id: item.id.clone(),
            name: item.name.clone(),
            repeat: item.repeat,
            dut: item.series.dut.name.clone(),
            sweep: item.series.sweep.clone(),
            traffic: item.series.traffic.name.clone(),
            unit: item.series.traffic.kind.unit(),
            frames: item.frames(),
            calibrated_pps: known.path_pps,
            generator_pps: known.generator_pps,
            min_load_pps: loads.min_pps,
            max_load_pps: loads.max_pps,
            goals: Vec::new(),
            path: Vec::new(),
            loss_curve: None,
            latency: None,
            back_to_back: None,
            costs: Vec::new(),
            repeated_trials: 0,
        };
        let tests = self.terms.tests.iter().copied().collect();
        let (test, asked, again) = (None, None, None);
        self.current = Some(Current { item, known, loads, result, tests, test, asked, again });
        Ok(None)
    }
}

impl Current {
    /// What is asked next; `None` when the item is done.
    fn ask(&mut self, plan: &Plan, terms: &Terms) -> Result<Option<Asked>, RunError> {
        if let Some(again) = self.again.take() {
            return Ok(Some(again));
        }
        loop {
            if let Some(test) = &mut self.test {
                if let Some(ask) = test.next() {
                    let (test, number) = (test.test(), test.number());
                    return Ok(Some(Asked { test, number, ask, repeated: 0 }));
                }
            } else if let Some(test) = self.tests.pop_front() {
                let (item, result) = (&self.item, &self.result);
                let sample_s = plan.trial.sample.as_secs_f64();
                let about = (self.known, self.loads, sample_s);
                self.test = Some(Measuring::new(test, terms, item, about, result)?);
                continue;
            } else {
                return Ok(None);
            }
            if let Some(test) = self.test.take() {
                test.finish(&mut self.result);
            }
        }
    }

    /// The trial that was asked for.
    fn request(&self, plan: &Plan, store: &Store, asked: Asked) -> Request {
        let Asked { test, number, ask, repeated } = asked;
        let item = &self.item;
        let times = times(&plan.trial, ask);
        Request {
            name: format!("{}/{}/{number}", item.name, test.name()),
            dir: kept::trial_dir(store, &item.name, test, number),
            id: identity::trial_id(
                &item.id,
                test.name(),
                number,
                &ask.rate.to_string(),
                whole_ns(times.duration),
                times.latency.map(whole_ns),
                ask.packets,
            ),
            series_name: item.name.clone(),
            iteration: number,
            series: item.series.clone(),
            traffic: item.traffic_at(ask.rate),
            times,
            packet_limit: ask.packets,
            profile: false,
            is_repeatable: repeated < plan.retries,
            left: None,
        }
    }
}

impl Schedule for Searches<'_> {
    fn begin(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let (items, done) = (self.items, self.items - self.pending.len());
        observer.event(&Event::SearchStarted { items, done });
        Ok(())
    }

    fn next(&mut self, paths: &Paths, observer: &mut dyn Observer) -> Result<Step, RunError> {
        let is_unknown = |item: &&Item| self.known(item, paths).is_none();
        if let Some(item) = self.pending.iter().find(is_unknown) {
            let series = Box::new(item.series.clone());
            return Ok(Step::Calibrate { series, left: None });
        }
        loop {
            let Some(current) = &mut self.current else {
                match self.begin_item(paths, observer)? {
                    Some(step) => return Ok(step),
                    None => continue,
                }
            };
            if let Some(asked) = current.ask(self.plan, self.terms)? {
                let request = current.request(self.plan, self.store, asked);
                current.asked = Some(asked);
                return Ok(Step::Trial(Box::new(request)));
            }
            current.result.repeated_trials = kept::repeated_trials(self.store, &current.item);
            kept::keep_result(self.store, &current.result)?;
            observer.event(&Event::ItemFinished(&current.result));
            self.current = None;
        }
    }

    fn record(
        &mut self,
        (record, samples): &(TrialRecord, Vec<Sample>),
        _: &mut dyn Observer,
    ) -> Result<(), RunError> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let Some(Asked { test, number, ask, repeated }) = current.asked.take() else {
            return Ok(());
        };
        // One that was disturbed and put aside is not in its place.
        let dir = kept::trial_dir(self.store, &current.item.name, test, number);
        if record.verdict.kind == VerdictKind::Disturbed
            && !self.store.holds(&dir, &record.cell_id)?
        {
            current.again = Some(Asked { test, number, ask, repeated: repeated + 1 });
            return Ok(());
        }
        if let Some(test) = &mut current.test {
            test.feed(&measured(record, samples), record);
        }
        Ok(())
    }
}

/// Results of the items that are done, in their order, and of how many items there are.
///
/// # Errors
/// When the specification cannot be searched, or one cannot be read.
pub fn results(
    plan: &Plan,
    terms: &Terms,
    store: &Store,
) -> Result<(Vec<(Item, ItemResult)>, usize), RunError> {
    let items = items(plan, terms).map_err(|error| RunError::Unsuited(error.into()))?;
    let count = items.len();
    let mut results = Vec::new();
    for item in items {
        if let Some(result) = kept::result(store, &item)? {
            results.push((item, result));
        }
    }
    Ok((results, count))
}

/// Times of a trial: no warm-up, and samples that divide it evenly.
fn times(plan: &TrialTimes, ask: Ask) -> TrialTimes {
    let duration = Duration::from_secs_f64(ask.duration_s);
    let fits = duration.as_nanos() / plan.sample.as_nanos().max(1);
    let samples = u32::try_from(fits).unwrap_or(u32::MAX).max(SAMPLES_MIN);
    TrialTimes {
        warmup: Duration::ZERO,
        duration,
        drain: plan.drain,
        sample: duration / samples,
        latency: ask.latency_s.map(Duration::from_secs_f64),
    }
}

/// What a trial says to a search. All of it comes from what is in the store.
fn measured(record: &TrialRecord, samples: &[Sample]) -> Measured {
    let ledger = &record.ledger;
    let Judged { offered_packets, delivered_packets, least_offered_ratio } = Judged::of(record);
    let located = ledger.main_place().filter(|&(_, share)| share >= verdict::PLACE_SHARE_MIN.value);
    let standing = match located {
        _ if record.verdict.kind.is_void() => Standing::Void,
        Some((Place::Generator | Place::Sink, _)) => Standing::TestbedLimited,
        Some((Place::Dut, _)) | None => Standing::Good,
    };
    let elapsed_ns: u64 = record.times.phases.iter().map(|phase| phase.duration_ns).sum();
    Measured {
        offered_packets,
        delivered_packets,
        offered_pps: offered_pps(record, samples) * least_offered_ratio,
        elapsed_s: Duration::from_nanos(elapsed_ns).as_secs_f64(),
        standing,
    }
}

/// The rate at which packets were offered. The first sample begins before the first packet, so it
/// is left out where there are others.
#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53")]
fn offered_pps(record: &TrialRecord, samples: &[Sample]) -> f64 {
    let (Some(first), Some(last)) = (samples.get(1), samples.last()) else {
        return record.result.offered_pps;
    };
    let span_ns = last.t_ns.saturating_sub(first.t_ns);
    if span_ns == 0 {
        return record.result.offered_pps;
    }
    last.tx_packets.saturating_sub(first.tx_packets) as f64 * 1e9 / span_ns as f64
}
