//! The run of searches: calibrate, then item by item, test by test, trial by trial.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use weir_gen::units::Rate;
use weir_stats::search::{Measured, Standing};

use super::item::Item;
use super::record::ItemResult;
use super::store::{SearchStore, SearchStoreError};
use super::wanted::Wanted;
use crate::campaign::{self, About};
use crate::cancel::Cancel;
use crate::dut;
use crate::event::{Event, Observer};
use crate::identity;
use crate::model::{Plan, Series, Test, Traffic, TrialTimes};
use crate::record::{Place, Sample, TrialRecord, VerdictKind};
use crate::store::StoreError;
use crate::testbed::Testbed;
use crate::trial::{self, Outcome, Trial, TrialError};
use crate::verdict::{self, Path};

mod bench;

/// Samples of a trial that is shorter than it could be.
const SAMPLES_MIN: u32 = 5;

/// Why searches stopped before their end.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is none of searches.
    #[error(transparent)]
    SearchStore(#[from] SearchStoreError),
    /// A trial could not be run.
    #[error("{name}: {source}")]
    Trial {
        /// Its name.
        name: String,
        /// The cause.
        source: TrialError,
    },
    /// Nothing can be searched without a calibration.
    #[error(
        "the calibration of traffic `{traffic}` is invalid: {reason}; nothing can be judged \
         without it: run `weir doctor`, quieten the machine, and try again"
    )]
    Calibration {
        /// The traffic.
        traffic: String,
        /// Why.
        reason: String,
    },
    /// There are no loads to try.
    #[error("{name}: {reason}")]
    Loads {
        /// The item.
        name: String,
        /// Why.
        reason: String,
    },
    /// A trial in the store is not the one that the search did.
    #[error(
        "{name} in the store is not the trial that the search asks for there: it was taken by \
         another version or under other conditions; use another --out"
    )]
    OtherTrial {
        /// Its name.
        name: String,
    },
    /// Somebody asked to stop.
    #[error("stopped by signal {signal}; finished trials are kept")]
    Cancelled {
        /// The signal.
        signal: i32,
    },
}

/// Something that happened.
#[derive(Debug)]
pub enum SearchEvent<'a> {
    /// Searches begin or go on.
    Started {
        /// Items.
        items: usize,
        /// Those that are done already.
        done: usize,
    },
    /// An item begins.
    ItemStarted {
        /// Position among the items that are to do, from 1.
        position: usize,
        /// Those.
        to_do: usize,
        /// Its name.
        name: &'a str,
    },
    /// A trial is in the store.
    TrialFinished {
        /// Its name.
        name: &'a str,
        /// Its record.
        record: &'a TrialRecord,
        /// It stood there already: an earlier run had done it.
        replayed: bool,
    },
    /// An item is done.
    ItemFinished(&'a ItemResult),
    /// What happens inside a trial.
    Inside(&'a Event<'a>),
}

/// Somebody who watches searches.
pub trait SearchObserver {
    /// Called for every event, on the thread of the searches.
    fn event(&mut self, event: &SearchEvent<'_>);
}

/// Nobody.
impl SearchObserver for crate::event::Silent {
    fn event(&mut self, _event: &SearchEvent<'_>) {}
}

/// Passes on what happens inside a trial.
struct Inside<'a>(&'a mut dyn SearchObserver);

impl Observer for Inside<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.0.event(&SearchEvent::Inside(event));
    }
}

/// What is asked of a trial.
#[derive(Debug, Clone, Copy)]
struct Ask {
    rate: Rate,
    duration_s: f64,
    latency_s: Option<f64>,
    packets: Option<u64>,
}

/// What the path does without a DUT.
#[derive(Debug, Clone, Copy)]
struct Calibrated {
    /// It delivers this.
    delivered_pps: f64,
    /// The generator offers this.
    offered_pps: f64,
}

/// Searches about to run.
pub struct Run<'a> {
    /// Where the items come from.
    pub plan: &'a Plan,
    /// What is asked for.
    pub wanted: &'a Wanted,
    /// What is searched.
    pub items: &'a [Item],
    /// Where results go.
    pub store: &'a SearchStore,
    /// Where trials run.
    pub testbed: &'a dyn Testbed,
    /// Request to stop.
    pub cancel: &'a Cancel,
    /// Who is told.
    pub observer: &'a mut dyn SearchObserver,
}

impl Run<'_> {
    /// Searches all that has no result yet.
    ///
    /// # Errors
    /// When it was stopped, the store fails, the testbed fails, or a DUT's configuration is at
    /// fault.
    pub fn run(&mut self) -> Result<(), SearchError> {
        let mut pending = Vec::new();
        for item in self.items {
            if self.store.result(&item.name, &item.id)?.is_none() {
                pending.push(item);
            }
        }
        let done = self.items.len() - pending.len();
        self.observer.event(&SearchEvent::Started { items: self.items.len(), done });
        for warning in self.testbed.warnings() {
            self.observer.event(&SearchEvent::Inside(&Event::Warning(warning)));
        }
        let mut calibrated: BTreeMap<String, Calibrated> = BTreeMap::new();
        for item in &pending {
            let traffic = &item.series.traffic;
            if !calibrated.contains_key(&traffic.id) {
                let found = self.calibration(traffic)?;
                calibrated.insert(traffic.id.clone(), found);
            }
        }
        let to_do = pending.len();
        for (index, item) in pending.into_iter().enumerate() {
            let name = &item.name;
            self.observer.event(&SearchEvent::ItemStarted { position: index + 1, to_do, name });
            let result = self.search(item, calibrated[&item.series.traffic.id])?;
            self.store.keep_result(&result)?;
            self.observer.event(&SearchEvent::ItemFinished(&result));
        }
        Ok(())
    }

    /// Results of the items that are done, in their order.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn results(&self) -> Result<Vec<ItemResult>, StoreError> {
        let results = self.items.iter().map(|item| self.store.result(&item.name, &item.id));
        results.filter_map(Result::transpose).collect()
    }

    /// What the path does without a DUT: from the store, or measured now.
    fn calibration(&mut self, traffic: &Traffic) -> Result<Calibrated, SearchError> {
        let files = self.store.files();
        let dir = files.calibration_dir(&traffic.name);
        let record = if files.holds(&dir, &traffic.id)? {
            files.read_trial(&dir)?.0
        } else {
            self.calibrate(traffic)?
        };
        let result = record.result;
        Ok(Calibrated { delivered_pps: result.rate_pps, offered_pps: result.offered_pps })
    }

    fn calibrate(&mut self, traffic: &Traffic) -> Result<TrialRecord, SearchError> {
        let name = format!("calibration/{}", traffic.name);
        let started = Timestamp::now();
        let outcome = self.outcome(&name, traffic, None, self.plan.trial, None)?;
        let verdict = campaign::judge(&outcome, Path::Calibration);
        let rejected = verdict.kind == VerdictKind::Invalid;
        let reason = verdict.reason.clone();
        let about = About {
            cell_id: traffic.id.clone(),
            series_id: traffic.id.clone(),
            series: name.clone(),
            iteration: 0,
            traffic: traffic.clone(),
            series_of: None,
        };
        let record = campaign::record(&self.plan.trial, started, about, &outcome, verdict);
        let files = self.store.files();
        let dir = if rejected {
            campaign::rejected_dir(files, &traffic.name)
        } else {
            files.calibration_dir(&traffic.name)
        };
        files.write_trial(&dir, &record, &outcome.samples, &outcome.artefacts)?;
        self.told(&name, &record, false);
        if rejected {
            return Err(SearchError::Calibration { traffic: traffic.name.clone(), reason });
        }
        Ok(record)
    }

    fn told(&mut self, name: &str, record: &TrialRecord, replayed: bool) {
        self.observer.event(&SearchEvent::TrialFinished { name, record, replayed });
    }

    /// One trial of an item: from the store if it stands there, or run now.
    fn trial(
        &mut self,
        item: &Item,
        test: Test,
        number: u32,
        ask: Ask,
        calibrated: Calibrated,
    ) -> Result<(TrialRecord, Vec<Sample>), SearchError> {
        let name = format!("{}/{}/{number}", item.name, test.name());
        let times = times(&self.plan.trial, ask);
        let cell_id = identity::trial_id(
            &item.id,
            test.name(),
            number,
            &ask.rate.to_string(),
            trial::nanos(times.duration),
            times.latency.map(trial::nanos),
            ask.packets,
        );
        let dir = self.store.trial_dir(&item.name, test, number);
        if dir.join("trial.json").is_file() {
            let (record, samples) = self.store.files().read_trial(&dir)?;
            if record.cell_id != cell_id {
                return Err(SearchError::OtherTrial { name });
            }
            self.told(&name, &record, true);
            return Ok((record, samples));
        }
        if let Some(signal) = self.cancel.signal() {
            return Err(SearchError::Cancelled { signal });
        }
        let traffic = item.traffic_at(ask.rate);
        let started = Timestamp::now();
        let outcome = self.outcome(&name, &traffic, Some(&item.series), times, ask.packets)?;
        let verdict = campaign::judge(&outcome, Path::Calibrated(calibrated.delivered_pps));
        let about = About {
            cell_id,
            series_id: item.series.id.clone(),
            series: item.name.clone(),
            iteration: number,
            traffic,
            series_of: Some(item.series.clone()),
        };
        let record = campaign::record(&times, started, about, &outcome, verdict);
        let files = self.store.files();
        files.write_trial(&dir, &record, &outcome.samples, &outcome.artefacts)?;
        files.append_host_log(&campaign::with_name(&name, &outcome.host_log))?;
        self.told(&name, &record, false);
        Ok((record, outcome.samples))
    }

    fn outcome(
        &mut self,
        name: &str,
        traffic: &Traffic,
        series: Option<&Series>,
        times: TrialTimes,
        packet_limit: Option<u64>,
    ) -> Result<Outcome, SearchError> {
        if let Some(signal) = self.cancel.signal() {
            return Err(SearchError::Cancelled { signal });
        }
        let result = trial::run(Trial {
            testbed: self.testbed,
            dut: series.map(|s| dut::driver(&s.dut)),
            traffic,
            times,
            packet_limit,
            cancel: self.cancel,
            observer: &mut Inside(self.observer),
        });
        if let Err(failed) = &result {
            let log = campaign::with_name(name, &failed.traces.host_log);
            self.store.files().append_host_log(&log)?;
        }
        match (result, self.cancel.signal()) {
            (Ok(outcome), signal) if signal.is_none() || outcome.not_measured.is_none() => {
                Ok(outcome)
            }
            (_, Some(signal)) => Err(SearchError::Cancelled { signal }),
            (Ok(outcome), None) => Ok(outcome),
            (Err(failed), None) => {
                Err(SearchError::Trial { name: name.to_owned(), source: failed.error })
            }
        }
    }
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
    let packets = |point: Option<&crate::record::Point>| point.map_or(0, |point| point.packets);
    let located = ledger.main_place().filter(|&(_, share)| share >= verdict::PLACE_SHARE_MIN.value);
    let standing = match located {
        _ if record.verdict.kind == VerdictKind::Invalid => Standing::Void,
        Some((Place::Generator | Place::Sink, _)) => Standing::TestbedLimited,
        Some((Place::Dut, _)) | None => Standing::Good,
    };
    let elapsed_ns: u64 = record.times.phases.iter().map(|phase| phase.duration_ns).sum();
    Measured {
        offered_packets: packets(ledger.points.first()),
        delivered_packets: packets(ledger.points.last()),
        offered_pps: offered_pps(record, samples),
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
