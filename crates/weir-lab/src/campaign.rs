//! The run of a campaign: calibrate, then every cell that the store does not hold yet.
//!
//! Each finished trial is written before the next one begins, so an interruption loses at most
//! the one that was running. A finished trial is never repeated and never judged again: a
//! campaign that is resumed only adds. With `iterations = "auto"` a cell is left out when its
//! series has been measured often enough by the time its turn comes ([`History`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use weir_stats::stopping::Decision;

use crate::cancel::Cancel;
use crate::dut;
use crate::event::{Event, Observer};
use crate::model::{Cell, Plan, Series, TestbedSpec, Traffic};
use crate::plan::view::duration_of;
use crate::record::{Check, TRIAL_SCHEMA, Times, TrialRecord, Verdict, VerdictKind};
use crate::store::{Store, StoreError};
use crate::testbed::Testbed;
use crate::trial::{self, Outcome, Trial, TrialError};
use crate::verdict::{self, Evidence, Path};

/// What a frame takes on the line beside its bytes: FCS, preamble and gap.
const FRAME_OVERHEAD_BYTES: u8 = 24;

mod history;

pub use history::History;

/// Why a campaign stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A trial could not be run.
    #[error("{name}: {source}")]
    Trial {
        /// Its name.
        name: String,
        /// The cause.
        source: TrialError,
    },
    /// Nothing can be judged without a calibration.
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
    /// Somebody asked to stop.
    #[error("stopped by signal {signal}; finished iterations are kept")]
    Cancelled {
        /// The signal.
        signal: i32,
    },
}

/// A campaign about to run.
pub struct Run<'a> {
    /// What to run.
    pub plan: &'a Plan,
    /// Where results go.
    pub store: &'a Store,
    /// Where trials run.
    pub testbed: &'a dyn Testbed,
    /// Request to stop.
    pub cancel: &'a Cancel,
    /// Who is told.
    pub observer: &'a mut dyn Observer,
}

impl Run<'_> {
    /// Runs all that is missing.
    ///
    /// # Errors
    /// When it was stopped, the store fails, the testbed fails, or a DUT's configuration is at
    /// fault. A DUT that does not get ready gives an `invalid` cell, and the campaign goes on.
    pub fn run(&mut self) -> Result<(), CampaignError> {
        let cells = pending_cells(self.plan, self.store)?;
        let finished = self.store.read_cells()?.trials;
        let mut history = History::of(self.plan, finished.iter().map(|(record, _)| record));
        let most = history.to_run_max(&cells);
        let traffics = self.pending_traffics(most > 0)?;
        let to_run = traffics.len() + most;
        let done = self.plan.cells.len() - cells.len();
        self.observer.event(&Event::Started {
            to_run,
            to_run_min: traffics.len() + history.planned_cells() - done,
            done,
            planned: done + most,
            estimate: duration_of(self.plan, to_run),
        });
        for warning in self.testbed.warnings() {
            self.observer.event(&Event::Warning(warning));
        }
        let mut position = 0;
        for traffic in traffics {
            self.go_on()?;
            position += 1;
            self.calibrate(traffic, position, to_run)?;
        }
        let calibrated = self.calibrations()?;
        for (index, cell) in cells.iter().enumerate() {
            if !history.is_open(cell) {
                continue;
            }
            self.go_on()?;
            let to_run = position + history.to_run_max(&cells[index..]);
            position += 1;
            let record = self.run_cell(cell.clone(), &calibrated, position, to_run)?;
            history.add(cell.series_index, &record);
            self.tell_stop(&history, cell, &record);
        }
        self.profiles(position)
    }

    /// One run more of each series, with a profile of its DUT, where they are asked for. It is kept
    /// apart, and counts nowhere.
    fn profiles(&mut self, position: usize) -> Result<(), CampaignError> {
        let used: BTreeSet<usize> = self.plan.cells.iter().map(|cell| cell.series_index).collect();
        let mut wanted = Vec::new();
        for index in used.into_iter().filter(|_| self.plan.testbed.profile()) {
            let series = &self.plan.series[index];
            let dir = self.store.root().join("profiles").join(&series.name);
            if !self.store.holds(&dir, &profile_id(series))? {
                wanted.push(index);
            }
        }
        let to_run = position + wanted.len();
        for (done, index) in wanted.into_iter().enumerate() {
            self.go_on()?;
            let series = self.plan.series[index].clone();
            let name = format!("profile/{}", series.name);
            let position = position + done + 1;
            self.observer.event(&Event::TrialStarted { position, to_run, name: &name });
            let started = Timestamp::now();
            self.testbed.profile_next();
            let outcome = self.trial(&name, &series.traffic, Some(&series))?;
            let verdict = judge(&outcome, path_of(self.plan, &series, &BTreeMap::new()));
            let has_failed = |check: &Check| check.name == "profile" && !check.passed;
            let is_void =
                verdict.kind == VerdictKind::Invalid || outcome.checks.iter().any(has_failed);
            // One without a profile is tried again when the campaign goes on.
            let dir = match is_void {
                false => self.store.root().join("profiles").join(&series.name),
                true => rejected_dir(self.store, &format!("profile.{}", series.name)),
            };
            let about = About {
                cell_id: profile_id(&series),
                series_id: series.id.clone(),
                series: series.name.clone(),
                iteration: 0,
                traffic: series.traffic.clone(),
                series_of: Some(series),
            };
            self.keep(&name, &dir, started, about, &outcome, verdict)?;
        }
        Ok(())
    }

    /// Says it if the cell was its series' last.
    fn tell_stop(&mut self, history: &History<'_>, cell: &Cell, record: &TrialRecord) {
        let Some(auto) = self.plan.campaign.auto else {
            return;
        };
        match history.decision(cell.series_index) {
            None | Some(Decision::Continue) => {}
            Some(Decision::NarrowEnough) => self.observer.event(&Event::SeriesStopped {
                series: &record.series,
                iterations: record.iteration,
                half_width_percent: auto.half_width_percent(),
            }),
            Some(Decision::MaxReached) => self.observer.event(&Event::Warning(format!(
                "{}: after {} iterations its interval is still wider than ±{} %; the report says \
                 how wide",
                record.series,
                record.iteration,
                auto.half_width_percent()
            ))),
        }
    }

    /// Fails if somebody has asked to stop.
    fn go_on(&self) -> Result<(), CampaignError> {
        match self.cancel.signal() {
            Some(signal) => Err(CampaignError::Cancelled { signal }),
            None => Ok(()),
        }
    }

    /// Calibrations that the pending cells need and the store does not hold.
    fn pending_traffics(&self, any_cell: bool) -> Result<Vec<Traffic>, StoreError> {
        let mut pending = Vec::new();
        for traffic in self.plan.calibrations().into_iter().filter(|_| any_cell) {
            if !self.store.holds(&self.store.calibration_dir(&traffic.name), &traffic.id)? {
                pending.push(traffic.clone());
            }
        }
        Ok(pending)
    }

    /// Calibrated packets per second by the traffic's id.
    fn calibrations(&self) -> Result<BTreeMap<String, f64>, StoreError> {
        let all = self.store.read_calibrations()?;
        Ok(all.trials.into_iter().map(|(r, _)| (r.traffic.id, r.result.rate_pps)).collect())
    }

    fn calibrate(
        &mut self,
        traffic: Traffic,
        position: usize,
        to_run: usize,
    ) -> Result<(), CampaignError> {
        let name = format!("calibration/{}", traffic.name);
        self.observer.event(&Event::TrialStarted { position, to_run, name: &name });
        let started = Timestamp::now();
        let outcome = self.trial(&name, &traffic, None)?;
        let verdict = judge(&outcome, Path::Calibration);
        let mut dir = self.store.calibration_dir(&traffic.name);
        let rejected = verdict.kind == VerdictKind::Invalid;
        let error = CampaignError::Calibration {
            traffic: traffic.name.clone(),
            reason: verdict.reason.clone(),
        };
        if rejected {
            // On record, but out of the way of the next attempt.
            dir = rejected_dir(self.store, &traffic.name);
        } else if verdict.kind == VerdictKind::Unstable {
            self.observer.event(&Event::Warning(format!(
                "{name}: {}; verdicts that refer to it are as good as that",
                verdict.reason
            )));
        }
        let about = About {
            cell_id: traffic.id.clone(),
            series_id: traffic.id.clone(),
            series: name.clone(),
            iteration: 0,
            series_of: None,
            traffic,
        };
        self.keep(&name, &dir, started, about, &outcome, verdict)?;
        if rejected { Err(error) } else { Ok(()) }
    }

    fn run_cell(
        &mut self,
        cell: Cell,
        calibrated: &BTreeMap<String, f64>,
        position: usize,
        to_run: usize,
    ) -> Result<TrialRecord, CampaignError> {
        let series = self.plan.series[cell.series_index].clone();
        let name = format!("{}/{}", series.name, cell.iteration);
        self.observer.event(&Event::TrialStarted { position, to_run, name: &name });
        let started = Timestamp::now();
        let outcome = self.trial(&name, &series.traffic, Some(&series))?;
        let verdict = judge(&outcome, path_of(self.plan, &series, calibrated));
        let dir = self.store.cell_dir(&series.name, cell.iteration);
        let about = About {
            cell_id: cell.id,
            series_id: series.id.clone(),
            series: series.name.clone(),
            iteration: cell.iteration,
            traffic: series.traffic.clone(),
            series_of: Some(series),
        };
        self.keep(&name, &dir, started, about, &outcome, verdict)
    }

    fn trial(
        &mut self,
        name: &str,
        traffic: &Traffic,
        series: Option<&Series>,
    ) -> Result<Outcome, CampaignError> {
        if let Some(series) = series {
            self.testbed.next(series);
        }
        let result = trial::run(Trial {
            testbed: self.testbed,
            dut: series.map(|s| dut::driver(&s.dut)),
            traffic,
            times: self.plan.trial,
            packet_limit: None,
            cancel: self.cancel,
            observer: self.observer,
        });
        // What is kept as a cell has its commands with it.
        let log = match &result {
            Err(failed) => &failed.traces.host_log,
            Ok(outcome) if outcome.not_measured.is_some() && self.cancel.signal().is_some() => {
                &outcome.host_log
            }
            Ok(_) => "",
        };
        if !log.is_empty() {
            self.store.append_host_log(&with_name(name, log))?;
        }
        match (result, self.cancel.signal()) {
            // A trial that went on to its end is finished, whatever was asked meanwhile.
            (Ok(outcome), signal) if signal.is_none() || outcome.not_measured.is_none() => {
                Ok(outcome)
            }
            (_, Some(signal)) => Err(CampaignError::Cancelled { signal }),
            (Ok(outcome), None) => Ok(outcome),
            (Err(failed), None) => {
                Err(CampaignError::Trial { name: name.to_owned(), source: failed.error })
            }
        }
    }

    /// Puts a finished trial into the store.
    fn keep(
        &mut self,
        name: &str,
        dir: &std::path::Path,
        started: Timestamp,
        about: About,
        outcome: &Outcome,
        verdict: Verdict,
    ) -> Result<TrialRecord, CampaignError> {
        let record = record(&self.plan.trial, started, about, outcome, verdict);
        self.store.write_trial(dir, &record, &outcome.samples, &outcome.artefacts)?;
        self.store.append_host_log(&with_name(name, &outcome.host_log))?;
        self.observer.event(&Event::TrialFinished { name, record: &record });
        Ok(record)
    }
}

/// Cells of the plan that the store does not hold, in the plan's order.
///
/// # Errors
/// When the store holds one that was taken under other conditions, or cannot be read.
pub fn pending_cells(plan: &Plan, store: &Store) -> Result<Vec<Cell>, StoreError> {
    let mut pending = Vec::new();
    for cell in &plan.cells {
        let dir = store.cell_dir(&plan.series[cell.series_index].name, cell.iteration);
        if !store.holds(&dir, &cell.id)? {
            pending.push(cell.clone());
        }
    }
    Ok(pending)
}

/// How many of these cells are still to run at the most, as far as the store tells.
///
/// # Errors
/// When the store cannot be read.
pub fn to_run_max(plan: &Plan, store: &Store, cells: &[Cell]) -> Result<usize, StoreError> {
    let finished = store.read_cells()?.trials;
    let history = History::of(plan, finished.iter().map(|(record, _)| record));
    Ok(history.to_run_max(cells))
}

/// What the run with a profile of a series is told apart by.
fn profile_id(series: &Series) -> String {
    format!("profile of {}", series.id)
}

/// Where the next rejected calibration of a traffic goes, or the next profile that failed.
pub(crate) fn rejected_dir(store: &Store, traffic: &str) -> PathBuf {
    let folder = store.root().join("rejected").join(traffic);
    (1_u32..)
        .map(|attempt| folder.join(attempt.to_string()))
        .find(|dir| !dir.exists())
        .unwrap_or(folder)
}

/// What a record says of its cell, beside the outcome.
pub(crate) struct About {
    pub(crate) cell_id: String,
    pub(crate) series_id: String,
    pub(crate) series: String,
    pub(crate) iteration: u32,
    pub(crate) traffic: Traffic,
    pub(crate) series_of: Option<Series>,
}

/// What is known of the path of a series without its DUT.
fn path_of(plan: &Plan, series: &Series, calibrated: &BTreeMap<String, f64>) -> Path {
    match &plan.testbed {
        TestbedSpec::Hosts(hosts) => match hosts.link_rate_bps {
            Some(link_bps) => Path::LineRate(line_rate_pps(link_bps, &series.traffic)),
            None => Path::Unknown,
        },
        TestbedSpec::Netns(_) | TestbedSpec::Qemu(_) => {
            calibrated.get(&series.traffic.id).map_or(Path::Unknown, |rate| Path::Calibrated(*rate))
        }
    }
}

/// Packets per second of a traffic that a link carries, with FCS, preamble and gap (RFC 2544).
fn line_rate_pps(link_bps: u64, traffic: &Traffic) -> f64 {
    let on_the_line = traffic.streams.mean_bytes() + f64::from(FRAME_OVERHEAD_BYTES);
    #[expect(clippy::cast_precision_loss, reason = "rates of links stay far below 2^53")]
    let link_bps = link_bps as f64;
    link_bps / 8.0 / on_the_line
}

pub(crate) fn judge(outcome: &Outcome, path: Path) -> Verdict {
    match &outcome.not_measured {
        Some(why) => verdict::invalid(why.clone()),
        None => verdict::judge(&Evidence {
            result: &outcome.result,
            ledger: &outcome.ledger,
            checks: &outcome.checks,
            path,
        }),
    }
}

pub(crate) fn record(
    times: &crate::model::TrialTimes,
    started: Timestamp,
    about: About,
    outcome: &Outcome,
    verdict: Verdict,
) -> TrialRecord {
    let (image, dut, sweep) = match about.series_of {
        Some(series) => (series.image, Some(series.dut), series.sweep),
        None => (None, None, Vec::new()),
    };
    TrialRecord {
        schema: TRIAL_SCHEMA,
        cell_id: about.cell_id,
        series_id: about.series_id,
        series: about.series,
        iteration: about.iteration,
        image,
        dut,
        sweep,
        traffic: about.traffic,
        times: Times {
            started_utc: started.to_string(),
            finished_utc: Timestamp::now().to_string(),
            warmup_ns: trial::nanos(times.warmup),
            duration_ns: trial::nanos(times.duration),
            measured_ns: outcome.samples.last().map_or(0, |s| s.t_ns),
            drain_ns: trial::nanos(times.drain),
            sample_ns: trial::nanos(times.sample),
            phases: outcome.phases.clone(),
        },
        result: outcome.result,
        latency: outcome.latency,
        ledger: outcome.ledger.clone(),
        verdict,
        checks: outcome.checks.clone(),
        counters: outcome.counters.clone(),
        levels: outcome.levels.clone(),
        machine: outcome.machine.clone(),
        machines: outcome.machines.clone(),
        sysctls_changed: outcome.sysctls_changed.clone(),
    }
}

/// Lines of a host's log, each with the trial it belongs to.
pub(crate) fn with_name(name: &str, log: &str) -> String {
    log.lines().map(|line| format!("{name}\t{line}\n")).collect()
}
