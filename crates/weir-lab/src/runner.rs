//! The one loop that runs trials: it asks a schedule which trial is next, runs it, writes it down,
//! and tells the schedule what was measured.
//!
//! A [`Schedule`] decides: a campaign goes through its plan, a bisection and a rate search follow
//! what was measured so far. Everything else is here, once: the trial and its verdict, the store,
//! calibrations, what was rejected, the request to stop, the events.
//!
//! Each finished trial is written before the schedule is asked for the next one, so an interruption
//! loses at most the one that was running. A finished trial is never repeated and never judged
//! again: one that a schedule asks for and that stands in the store is read back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::dut;
use crate::event::{Event, Observer};
use crate::model::{Plan, TestbedSpec, TrialTimes};
use crate::store::{Store, StoreError};
use crate::testbed::Testbed;
use crate::trial::{self, Outcome, Trial, Turns};
use weir_machine::cancel::Cancel;
use weir_results::matrix::Series;
use weir_results::record::{
    Check, Sample, TRIAL_SCHEMA, Times, TrialRecord, TrialResult, Verdict, VerdictKind,
};
use weir_results::traffic::Traffic;
use weir_results::unit::Unit;
use weir_results::verdict::{self, Evidence, Path};
use weir_wire::units::whole_ns;

mod error;
mod look;

pub use error::RunError;

/// What a frame takes on the line beside its bytes: FCS, preamble and gap.
const FRAME_OVERHEAD_BYTES: u8 = 24;

/// What decides which trial runs next.
pub trait Schedule {
    /// Tells the observer where things stand. Called once, before anything else.
    ///
    /// # Errors
    /// When what is there allows no decision.
    fn begin(&mut self, observer: &mut dyn Observer) -> Result<(), RunError>;

    /// What is next. `paths` are the calibrations there are by now.
    ///
    /// # Errors
    /// When the store cannot be read or written, or what was measured allows no decision.
    fn next(&mut self, paths: &Paths, observer: &mut dyn Observer) -> Result<Step, RunError>;

    /// Takes in the trial that was asked for last; its record is in the store.
    ///
    /// # Errors
    /// As [`Schedule::next`].
    fn record(
        &mut self,
        trial: &(TrialRecord, Vec<Sample>),
        observer: &mut dyn Observer,
    ) -> Result<(), RunError>;
}

/// What a schedule asks for.
#[derive(Debug)]
pub enum Step {
    /// What the path carries without a DUT. It is among the [`Paths`] afterwards.
    Calibrate {
        /// A series that needs it: with its traffic, on its testbed.
        series: Box<Series>,
        /// Trials that are still to run, this one included, where that can be told.
        left: Option<usize>,
    },
    /// What is measured next; it is written down before the schedule is asked again.
    Trial(Box<Request>),
    /// Nothing: the end.
    Done,
}

/// A trial that a schedule asks for.
#[derive(Debug)]
pub struct Request {
    /// Its name: in events and logs.
    pub(crate) name: String,
    /// Its directory in the store.
    pub(crate) dir: PathBuf,
    /// What tells it from every other: the id of its cell, or of its place in a search.
    pub(crate) id: String,
    /// What its record calls the series.
    pub(crate) series_name: String,
    /// Its number among those of its series.
    pub(crate) iteration: u32,
    /// What is measured.
    pub(crate) series: Series,
    /// With what.
    pub(crate) traffic: Traffic,
    /// How long.
    pub(crate) times: TrialTimes,
    /// A burst of so many packets instead of a measurement of some length.
    pub(crate) packet_limit: Option<u64>,
    /// A profile of the DUT is taken meanwhile.
    pub(crate) profile: bool,
    /// If something else disturbs it, it is not kept in its place: it will be asked for again.
    pub(crate) is_repeatable: bool,
    /// Trials that are still to run, this one included, where that can be told.
    pub(crate) left: Option<usize>,
}

impl Request {
    /// One iteration of a series, as the plan has it.
    pub(crate) fn cell(plan: &Plan, store: &Store, cell: &crate::model::Cell) -> Self {
        let series = plan.series[cell.series_index].clone();
        Self {
            name: format!("{}/{}", series.name, cell.iteration),
            dir: store.cell_dir(&series.name, cell.iteration),
            id: cell.id.clone(),
            series_name: series.name.clone(),
            iteration: cell.iteration,
            traffic: series.traffic.clone(),
            series,
            times: plan.trial,
            packet_limit: None,
            profile: false,
            is_repeatable: false,
            left: None,
        }
    }

    /// One more run of a series, with a profile of its DUT, which counts nowhere; `None` where none
    /// is asked for, or where the store has it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn profile(
        plan: &Plan,
        store: &Store,
        series_index: usize,
    ) -> Result<Option<Self>, StoreError> {
        let series = &plan.series[series_index];
        let id = format!("profile of {}", series.id);
        let dir = store.root().join("profiles").join(&series.name);
        if !plan.testbed.profile() || store.holds(&dir, &id)? {
            return Ok(None);
        }
        let cell = crate::model::Cell { series_index, iteration: 0, id };
        let name = format!("profile/{}", series.name);
        Ok(Some(Self { name, dir, profile: true, ..Self::cell(plan, store, &cell) }))
    }
}

/// What the path of a traffic carries without a DUT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibrated {
    /// It delivers this.
    pub delivered_pps: f64,
    /// The generator offers this.
    pub offered_pps: f64,
}

impl From<&TrialResult> for Calibrated {
    fn from(result: &TrialResult) -> Self {
        Self { delivered_pps: result.rate_pps, offered_pps: result.offered_pps }
    }
}

/// The calibrations there are, by the ids of their traffics.
#[derive(Debug, Clone, Default)]
pub struct Paths(BTreeMap<String, Calibrated>);

impl Paths {
    /// Those in a store.
    fn of(store: &Store) -> Result<Self, StoreError> {
        let mut paths = Self::default();
        for (record, _) in &store.read_calibrations()?.trials {
            paths.add(record);
        }
        Ok(paths)
    }

    fn add(&mut self, record: &TrialRecord) {
        self.0.insert(record.traffic.id.clone(), Calibrated::from(&record.result));
    }

    /// That of a traffic.
    #[must_use]
    pub(crate) fn of_traffic(&self, traffic: &Traffic) -> Option<Calibrated> {
        self.0.get(&traffic.id).copied()
    }
}

/// What is needed to run anything.
pub struct Runner<'a> {
    /// The specification's plan.
    pub plan: &'a Plan,
    /// Where results go.
    pub store: &'a Store,
    /// Where trials run.
    pub testbed: &'a dyn Testbed,
    /// Request to stop.
    pub cancel: &'a Cancel,
    /// Who is told.
    pub observer: &'a mut dyn Observer,
    /// How long it may wait for a quiet host before its first trial; zero: it begins at once.
    pub wait: Duration,
}

impl Runner<'_> {
    /// Runs what the schedule asks for, to its end.
    ///
    /// # Errors
    /// When it was stopped, the store fails, the testbed fails, or a DUT's configuration is at
    /// fault. A DUT that does not get ready gives an `invalid` trial, and the run goes on.
    pub fn run(&mut self, schedule: &mut dyn Schedule) -> Result<(), RunError> {
        schedule.begin(self.observer)?;
        for warning in self.testbed.warnings() {
            self.observer.event(&Event::Warning(warning));
        }
        let mut paths = Paths::of(self.store)?;
        let mut begun = 0;
        loop {
            match schedule.next(&paths, self.observer)? {
                Step::Done if begun > 0 => return self.look_after(),
                Step::Done => return Ok(()),
                Step::Calibrate { series, left } => {
                    self.prepare(&series.traffic.name, &series)?;
                    paths.add(&self.calibration(series.traffic, (&mut begun, left))?);
                }
                Step::Trial(request) => {
                    let trial = match self.kept(&request)? {
                        Some(trial) => trial,
                        None => self.measure(*request, &paths, &mut begun)?,
                    };
                    schedule.record(&trial, self.observer)?;
                }
            }
        }
    }

    /// Makes the next rig the one of a series.
    fn prepare(&mut self, name: &str, series: &Series) -> Result<(), RunError> {
        let prepared = self.testbed.prepare(series, self.plan.testbed_of(&series.id));
        prepared.map_err(|error| RunError::Trial { name: name.to_owned(), source: error.into() })
    }

    /// The trial that is asked for, if the store has it.
    fn kept(
        &mut self,
        request: &Request,
    ) -> Result<Option<(TrialRecord, Vec<Sample>)>, StoreError> {
        if !self.store.holds(&request.dir, &request.id)? {
            return Ok(None);
        }
        let trial = self.store.read_trial(&request.dir)?;
        let (name, record) = (request.name.as_str(), &trial.0);
        self.observer.event(&Event::TrialFinished { name, record, kept: true });
        Ok(Some(trial))
    }

    /// Runs a trial and puts it into the store.
    fn measure(
        &mut self,
        request: Request,
        paths: &Paths,
        begun: &mut usize,
    ) -> Result<(TrialRecord, Vec<Sample>), RunError> {
        self.begin(&request.name, (begun, request.left))?;
        let started = Timestamp::now();
        if request.profile {
            self.testbed.profile_next();
        }
        self.prepare(&request.name, &request.series)?;
        let what = What {
            dut: Some(&request.series),
            traffic: &request.traffic,
            times: request.times,
            packet_limit: request.packet_limit,
            seed: self.plan.campaign.seed.wrapping_add(request.iteration.into()),
        };
        let outcome = self.outcome(&request.name, &what)?;
        let path = path_of(self.plan, &request.traffic, paths);
        let verdict = judge(&outcome, path, request.traffic.kind.unit());
        let has_failed = |check: &Check| check.name == "profile" && !check.passed;
        let is_void = verdict.kind.is_void() || outcome.checks.iter().any(has_failed);
        let is_disturbed = verdict.kind == VerdictKind::Disturbed;
        // A profile that failed is tried again when the run is resumed.
        let dir = if request.profile && is_void {
            rejected_dir(self.store, &format!("profile.{}", request.series_name))
        } else if request.is_repeatable && is_disturbed {
            rejected_dir(self.store, &request.series_name)
        } else {
            request.dir
        };
        let about = About {
            cell_id: request.id,
            series_id: request.series.id.clone(),
            series: request.series_name,
            iteration: request.iteration,
            traffic: request.traffic,
            series_of: Some(request.series),
        };
        let record = record(&request.times, started, about, &outcome, verdict);
        self.keep(&request.name, &dir, &record, &outcome)?;
        Ok((record, outcome.samples))
    }

    /// The calibration of a traffic: from the store, or measured now.
    fn calibration(
        &mut self,
        traffic: Traffic,
        (begun, left): (&mut usize, Option<usize>),
    ) -> Result<TrialRecord, RunError> {
        let dir = self.store.calibration_dir(&traffic.name);
        if self.store.holds(&dir, &traffic.id)? {
            return Ok(self.store.read_trial(&dir)?.0);
        }
        let name = format!("calibration/{}", traffic.name);
        let mut retries = self.plan.retries;
        let (record, outcome) = loop {
            let (record, outcome) = self.calibrate(&name, &traffic, (begun, left))?;
            let is_usable = is_usable(&record);
            let is_disturbed = record.verdict.kind == VerdictKind::Disturbed;
            if is_usable && (!is_disturbed || retries == 0) {
                break (record, outcome);
            }
            // On record, but out of the way of the next attempt.
            self.keep(&name, &rejected_dir(self.store, &traffic.name), &record, &outcome)?;
            if retries == 0 {
                let (attempts, reason) = (self.plan.retries + 1, record.verdict.reason);
                return Err(RunError::Calibration { traffic: traffic.name, attempts, reason });
            }
            retries -= 1;
        };
        let Verdict { kind, reason } = &record.verdict;
        if matches!(kind, VerdictKind::Unstable | VerdictKind::Disturbed) {
            self.observer.event(&Event::Warning(format!(
                "{name}: {reason}; verdicts that rely on it are no more certain"
            )));
        }
        self.keep(&name, &dir, &record, &outcome)?;
        Ok(record)
    }

    /// Measures what the path of a traffic carries without a DUT.
    fn calibrate(
        &mut self,
        name: &str,
        traffic: &Traffic,
        (begun, left): (&mut usize, Option<usize>),
    ) -> Result<(TrialRecord, Outcome), RunError> {
        self.begin(name, (begun, left))?;
        let started = Timestamp::now();
        let times = self.plan.trial;
        let what = What { dut: None, traffic, times, packet_limit: None, seed: 0 };
        let outcome = self.outcome(name, &what)?;
        let verdict = judge(&outcome, Path::Calibration, traffic.kind.unit());
        let about = About {
            cell_id: traffic.id.clone(),
            series_id: traffic.id.clone(),
            series: name.to_owned(),
            iteration: 0,
            series_of: None,
            traffic: traffic.clone(),
        };
        let record = record(&times, started, about, &outcome, verdict);
        Ok((record, outcome))
    }

    /// A trial begins, unless somebody has asked to stop.
    fn begin(
        &mut self,
        name: &str,
        (begun, left): (&mut usize, Option<usize>),
    ) -> Result<(), RunError> {
        if let Some(signal) = self.cancel.signal() {
            return Err(RunError::Cancelled { signal });
        }
        if *begun == 0 {
            self.look_before()?;
        }
        let to_run = left.map(|left| *begun + left);
        *begun += 1;
        self.observer.event(&Event::TrialStarted { position: *begun, to_run, name });
        Ok(())
    }

    fn outcome(&mut self, name: &str, what: &What<'_>) -> Result<Outcome, RunError> {
        let result = trial::run(Trial {
            testbed: self.testbed,
            dut: what.dut.map(|series| dut::driver(&series.dut)),
            turns: what.turns(),
            traffic: what.traffic,
            times: what.times,
            packet_limit: what.packet_limit,
            cancel: self.cancel,
            observer: self.observer,
        });
        // What is kept as a trial has its commands with it.
        let log = match &result {
            Err(failed) => &failed.traces.host_log,
            Ok(outcome) if outcome.not_measured.is_some() && self.cancel.signal().is_some() => {
                &outcome.host_log
            }
            Ok(_) => "",
        };
        self.store.append_host_log(&with_name(name, log))?;
        match (result, self.cancel.signal()) {
            // A trial that went on to its end is finished, whatever was asked meanwhile.
            (Ok(outcome), signal) if signal.is_none() || outcome.not_measured.is_none() => {
                Ok(outcome)
            }
            (_, Some(signal)) => Err(RunError::Cancelled { signal }),
            (Ok(outcome), None) => Ok(outcome),
            (Err(failed), None) => {
                Err(RunError::Trial { name: name.to_owned(), source: failed.error })
            }
        }
    }

    /// Puts a finished trial into the store.
    fn keep(
        &mut self,
        name: &str,
        dir: &std::path::Path,
        record: &TrialRecord,
        outcome: &Outcome,
    ) -> Result<(), StoreError> {
        self.store.write_trial(dir, record, &outcome.samples, &outcome.artefacts)?;
        self.store.append_host_log(&with_name(name, &outcome.host_log))?;
        self.observer.event(&Event::TrialFinished { name, record, kept: false });
        Ok(())
    }
}

/// Whether a calibration says what the path carries: it is valid, and something came through.
fn is_usable(calibration: &TrialRecord) -> bool {
    calibration.verdict.kind != VerdictKind::Invalid && calibration.result.rate_pps > 0.0
}

/// What a trial measures.
struct What<'a> {
    /// Absent: nothing, for the calibration.
    dut: Option<&'a Series>,
    traffic: &'a Traffic,
    times: TrialTimes,
    packet_limit: Option<u64>,
    /// Seed of the order of a toggle's settings.
    seed: u64,
}

impl<'a> What<'a> {
    /// The settings of a DUT with a toggle.
    fn turns(&self) -> Option<Turns<'a>> {
        let dut = &self.dut?.dut;
        Some(Turns { dut: &dut.name, toggle: dut.toggle.as_ref()?, seed: self.seed })
    }
}

/// Where the next rejected calibration of a traffic goes, the next disturbed trial of a series, or
/// the next profile that failed.
fn rejected_dir(store: &Store, traffic: &str) -> PathBuf {
    let folder = store.root().join("rejected").join(traffic);
    (1_u32..)
        .map(|attempt| folder.join(attempt.to_string()))
        .find(|dir| !dir.exists())
        .unwrap_or(folder)
}

/// What a record says of its cell, beside the outcome.
struct About {
    cell_id: String,
    series_id: String,
    series: String,
    iteration: u32,
    traffic: Traffic,
    series_of: Option<Series>,
}

/// What is known of the path of a traffic without the DUT.
pub(crate) fn path_of(plan: &Plan, traffic: &Traffic, paths: &Paths) -> Path {
    match &plan.testbed {
        TestbedSpec::Hosts(hosts) => match hosts.link_rate_bps {
            Some(link_bps) => Path::LineRate(line_rate_pps(link_bps, traffic)),
            None => Path::Unknown,
        },
        TestbedSpec::Netns(_) | TestbedSpec::Qemu(_) => paths
            .of_traffic(traffic)
            .map_or(Path::Unknown, |path| Path::Calibrated(path.delivered_pps)),
    }
}

/// Packets per second of a traffic that a link carries, with FCS, preamble and gap (RFC 2544).
fn line_rate_pps(link_bps: u64, traffic: &Traffic) -> f64 {
    let on_the_line = traffic.streams.mean_bytes() + f64::from(FRAME_OVERHEAD_BYTES);
    #[expect(clippy::cast_precision_loss, reason = "rates of links stay far below 2^53")]
    let link_bps = link_bps as f64;
    link_bps / 8.0 / on_the_line
}

pub(crate) fn judge(outcome: &Outcome, path: Path, unit: Unit) -> Verdict {
    match &outcome.not_measured {
        Some(why) => verdict::invalid(why.clone()),
        None => {
            let first = outcome.machine.iter().map(|machine| ("", machine));
            let others = outcome.machines.iter().map(|(name, machine)| (name.as_str(), machine));
            verdict::judge(&Evidence {
                result: &outcome.result,
                ledger: &outcome.ledger,
                checks: &outcome.checks,
                path,
                machines: &first.chain(others).collect::<Vec<_>>(),
                unit,
            })
        }
    }
}

fn record(
    times: &TrialTimes,
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
            warmup_ns: whole_ns(times.warmup),
            duration_ns: whole_ns(times.duration),
            measured_ns: outcome.samples.last().map_or(0, |s| s.t_ns),
            drain_ns: whole_ns(times.drain),
            sample_ns: whole_ns(times.sample),
            phases: outcome.phases.clone(),
        },
        result: outcome.result,
        latency: outcome.latency,
        cost: outcome.cost,
        windows: outcome.windows.clone(),
        ledger: outcome.ledger.clone(),
        directions: outcome.directions.clone(),
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
fn with_name(name: &str, log: &str) -> String {
    log.lines().map(|line| format!("{name}\t{line}\n")).collect()
}
