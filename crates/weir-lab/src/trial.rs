//! One trial: fresh testbed, fresh DUT, probe, warm-up, measurement, drain, and only then the
//! counters.
//!
//! The order follows RFC 2544 section 23 (stop, wait, then count) and what bench labs learned:
//! counters that are read under load perturb the figure and give phantom losses. The ledger
//! covers the whole run of the generator, warm-up included, because only there do the packets
//! stand still at both ends; the figure comes from the samples of the measurement alone. Latency
//! has a run of its own after that, which is in neither of the two. A trial never repeats a failed
//! step to get a better number.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::host::{Host, HostError};
use weir_results::accounting::{Accounted, DutLosses};
use weir_results::counters::Counters;
use weir_results::machine_use::MachineUse;
use weir_results::record::{Check, Cost, Direction, Latency, Ledger, Phase, Sample, TrialResult};
use weir_results::samples;
use weir_results::toggle::Window;
use weir_results::traffic::Traffic;
use weir_wire::units::{Rate, whole_ns};

use crate::dut::{DutDriver, DutError};
use crate::event::{Event, Observer};
use crate::model::TrialTimes;
use crate::testbed::{
    Accounting, Burst, Machines, Reading, Rig, Scope, Testbed, TestbedError, Topology, Traces,
};

mod direction;
mod figure;
mod held;
mod latency;
mod prime;
pub(crate) mod toggle;

pub use toggle::Turns;

pub(crate) use prime::walked;

/// Packets of a connectivity probe, and their rate.
const PROBE_PACKETS: u64 = 10;
const PROBE_RATE_PPS: f64 = 1_000.0;
/// How long a probe's packets may be under way.
const PROBE_PATIENCE: Duration = Duration::from_millis(50);
/// No more packets than these are sent by the probes of one generator until their patience is over.
pub(crate) const PROBES_MAX: u64 = 2_000;
/// From so many flows on, what has filled a DUT's table has left the kernel something to clear
/// away.
const SETTLED_FLOWS_MIN: u64 = 50_000;
/// What a probe takes that gets through.
pub(crate) const PROBE_TIME: Duration = PROBE_PATIENCE.saturating_add(Duration::from_millis(10));
/// The rate that a burst as fast as it goes has at the least.
const BURST_RATE_PPS_MIN: f64 = 10_000.0;

#[expect(clippy::cast_precision_loss, reason = "flow counts stay far below 2^53")]
fn packets(count: u64) -> f64 {
    count as f64
}

/// What a trial has brought.
#[derive(Debug)]
pub struct Outcome {
    /// Samples of the measurement.
    pub samples: Vec<Sample>,
    /// The figure.
    pub result: TrialResult,
    /// Latency, if it was measured.
    pub latency: Option<Latency>,
    /// CPU time per packet, if it is known.
    pub cost: Option<Cost>,
    /// What was counted with either setting, where the DUT has a toggle.
    pub windows: Vec<Window>,
    /// Where the packets went.
    pub ledger: Ledger,
    /// What went each way, of a traffic with several generators.
    pub directions: Vec<Direction>,
    /// What was checked.
    pub checks: Vec<Check>,
    /// Differences of all counters over the run.
    pub counters: Counters,
    /// What the DUT told of its sizes after the measurement.
    pub levels: BTreeMap<String, u64>,
    /// What the machine did meanwhile, where the testbed looks at it.
    pub machine: Option<MachineUse>,
    /// The same of other machines, by their names.
    pub machines: BTreeMap<String, MachineUse>,
    /// Settings that differ from a fresh DUT: name → (fresh, used).
    pub sysctls_changed: BTreeMap<String, (String, String)>,
    /// Duration of each phase.
    pub phases: Vec<Phase>,
    /// Files to keep.
    pub artefacts: Vec<(String, Vec<u8>)>,
    /// Commands that ran on hosts.
    pub host_log: String,
    /// The DUT never got as far as being measured: why.
    pub not_measured: Option<String>,
}

/// Why a trial could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Somebody asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// The testbed failed: no trial can run.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The DUT's configuration is at fault.
    #[error(transparent)]
    Dut(DutError),
    /// The DUT's host failed.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl From<DutError> for TrialError {
    fn from(error: DutError) -> Self {
        match error {
            DutError::Cancelled => Self::Cancelled,
            other => Self::Dut(other),
        }
    }
}

/// A trial that could not be run to its end, and what it left.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failed {
    /// Why.
    #[source]
    pub error: TrialError,
    /// The commands that ran until then, with what they said.
    pub traces: Box<Traces>,
}

/// Everything a trial needs.
pub struct Trial<'a> {
    /// Where it runs.
    pub testbed: &'a dyn Testbed,
    /// What is measured; absent: the calibration.
    pub dut: Option<Box<dyn DutDriver>>,
    /// Its two settings, where it has a toggle.
    pub turns: Option<Turns<'a>>,
    /// With what.
    pub traffic: &'a Traffic,
    /// How long.
    pub times: TrialTimes,
    /// A burst of so many packets instead of a measurement of some length.
    pub packet_limit: Option<u64>,
    /// Request to stop.
    pub cancel: &'a Cancel,
    /// Who is told.
    pub observer: &'a mut dyn Observer,
}

/// How long a trial waits for what should have happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How long a DUT may take until a probe gets through it.
    pub probe: Duration,
    /// How much longer than its packets take a burst may last; a generator may need some time to
    /// begin.
    pub burst: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { probe: Duration::from_secs(5), burst: Duration::from_secs(30) }
    }
}

/// Runs a trial. The testbed is taken down again whatever happens.
///
/// # Errors
/// When it was cancelled, or when its testbed or the DUT's configuration does not work. A DUT
/// that does not get ready or does not forward is an outcome, not an error.
pub fn run(trial: Trial<'_>) -> Result<Outcome, Failed> {
    run_within(trial, Patience::default())
}

/// The same with other times to wait.
pub(crate) fn run_within(trial: Trial<'_>, patience: Patience) -> Result<Outcome, Failed> {
    let mut traces = Traces::default();
    match run_with(trial, patience, &mut traces) {
        Ok(mut outcome) => {
            outcome.artefacts.append(&mut traces.artefacts);
            Ok(Outcome { host_log: traces.host_log, ..outcome })
        }
        Err(error) => Err(Failed { error, traces: Box::new(traces) }),
    }
}

fn run_with(
    trial: Trial<'_>,
    patience: Patience,
    traces: &mut Traces,
) -> Result<Outcome, TrialError> {
    let mut runner = Runner::new(trial, patience);
    let topology = if runner.trial.dut.is_some() { Topology::Dut } else { Topology::Direct };
    runner.phase("build");
    let mut rig = match runner.trial.testbed.build(topology) {
        Ok(rig) => rig,
        Err(error) => {
            *traces = runner.trial.testbed.take_traces();
            let mut outcome = runner.survive(error.into())?;
            outcome.phases = runner.end_phases();
            return Ok(outcome);
        }
    };
    let ran = runner.run_on(rig.as_mut());
    runner.phase("teardown");
    *traces = rig.take_traces();
    let down = rig.teardown();
    // What the machines were told last.
    traces.append(runner.trial.testbed.take_traces());
    let awake = runner.trial.testbed.awake();
    let mut outcome = match ran {
        Ok(outcome) => outcome,
        Err(error) => runner.survive(error)?,
    };
    if let Err(error) = down {
        let survived = runner.survive(error.into())?;
        outcome.checks.extend(survived.not_measured.map(|detail| Check {
            name: "teardown".to_owned(),
            passed: false,
            detail,
        }));
    }
    if let (Some(why), Some(check)) = (&mut outcome.not_measured, &awake)
        && !check.passed
    {
        *why = format!("{}; {why}", check.detail);
    }
    outcome.checks.extend(awake);
    outcome.phases = runner.end_phases();
    Ok(outcome)
}

struct Runner<'a> {
    trial: Trial<'a>,
    patience: Patience,
    phases: Vec<(&'static str, Instant)>,
    checks: Vec<Check>,
    /// Packets of all probes.
    probe_packets: u64,
}

impl<'a> Runner<'a> {
    fn new(trial: Trial<'a>, patience: Patience) -> Self {
        Self { trial, patience, phases: Vec::new(), checks: Vec::new(), probe_packets: 0 }
    }

    fn phase(&mut self, name: &'static str) {
        self.phases.push((name, self.trial.cancel.now()));
        self.trial.observer.event(&Event::Phase { name });
    }

    fn end_phases(self) -> Vec<Phase> {
        let now = self.trial.cancel.now();
        let ends = self.phases.iter().skip(1).map(|&(_, t)| t).chain([now]);
        self.phases
            .iter()
            .zip(ends)
            .map(|(&(name, start), end)| Phase {
                name: name.to_owned(),
                duration_ns: whole_ns(end.saturating_duration_since(start)),
            })
            .collect()
    }

    /// An outcome of a trial that failed, if the testbed outlives that: it is void, and says why.
    fn survive(&mut self, error: TrialError) -> Result<Outcome, TrialError> {
        let void = self.trial.testbed.outlives_failures()
            && match &error {
                TrialError::Cancelled => false,
                TrialError::Testbed(error) => error.scope == Scope::Trial,
                TrialError::Host(source) | TrialError::Dut(DutError::Host { source, .. }) => {
                    source.is_passing()
                }
                TrialError::Dut(_) => false,
            };
        if !void {
            return Err(error);
        }
        let why = match &error {
            TrialError::Host(source) | TrialError::Dut(DutError::Host { source, .. }) => {
                format!("{}: {error}", source.says_of_dut())
            }
            _ => error.to_string(),
        };
        let mut outcome = figure::not_measured(why);
        outcome.checks = std::mem::take(&mut self.checks);
        Ok(outcome)
    }

    fn run_on(&mut self, rig: &mut dyn Rig) -> Result<Outcome, TrialError> {
        let mut dut = self.trial.dut.take();
        let boots = dut.as_ref().is_some_and(|dut| dut.configured_by_boot());
        let fresh = match rig.dut_host() {
            Some(host) => {
                if !boots {
                    self.boot(host)?;
                }
                host.sysctls()?
            }
            None => BTreeMap::new(),
        };
        let measured = match self.configure(rig, dut.as_deref_mut()) {
            Ok(None) => self.measure(rig, dut.as_deref_mut()),
            Ok(Some(not_measured)) => Ok(not_measured),
            Err(error) => Err(error),
        };
        let changed = match rig.dut_host() {
            Some(host) if measured.is_ok() => changed(&fresh, &host.sysctls()?),
            _ => BTreeMap::new(),
        };
        if let (Some(dut), Some(host)) = (&mut dut, rig.dut_host()) {
            let stopped = dut.stop(host);
            if measured.is_ok() {
                stopped?;
            }
        }
        let mut outcome = measured?;
        outcome.checks = std::mem::take(&mut self.checks);
        outcome.sysctls_changed = changed;
        Ok(outcome)
    }

    /// Starts the DUT's machine afresh, on testbeds where it is not made anew.
    fn boot(&mut self, host: &dyn Host) -> Result<(), HostError> {
        // Elsewhere the machine was made for this trial.
        if self.trial.testbed.outlives_failures() {
            self.phase("boot");
        }
        host.fresh()
    }

    /// Gets DUT and traffic ready. Returns an outcome if it cannot be measured.
    fn configure(
        &mut self,
        rig: &mut dyn Rig,
        mut dut: Option<&mut (dyn DutDriver + 'static)>,
    ) -> Result<Option<Outcome>, TrialError> {
        self.phase("configure");
        if let Some(dut) = &mut dut {
            let host = host_of(rig)?;
            dut.prepare(host)?;
            if dut.configured_by_boot() {
                self.boot(host)?;
            }
            let ready = dut.start(host).and_then(|()| dut.ready(host, self.trial.cancel));
            match ready {
                Err(error @ DutError::NotReady { .. }) => {
                    return Ok(Some(figure::not_measured(error.to_string())));
                }
                other => other?,
            }
        }
        rig.load(self.trial.traffic)?;
        self.phase("probe");
        let before = all_counters(rig, dut.as_deref())?;
        if !self.probe(rig, "probe-before")? {
            let after = all_counters(rig, dut.as_deref())?;
            let accounting = rig.accounting();
            let found = account(&accounting, dut.as_deref(), &before, &after)?;
            let advice = rig.advice(&found.ledger);
            let mut outcome = figure::no_probe(found.ledger, found.run);
            if let (Some(why), Some(advice)) = (&mut outcome.not_measured, advice) {
                *why = format!("{why}; {advice}");
            }
            return Ok(Some(outcome));
        }
        // Making states is what connections are for, and requests come over some.
        let is_primed = self.trial.traffic.kind.is_packets();
        if let Some(dut) = dut.filter(|d| is_primed && d.keeps_flows()) {
            self.phase("prime");
            self.prime(rig, dut)?;
            let flow_count: u64 = walked(self.trial.traffic).iter().map(|(_, count)| count).sum();
            if flow_count >= SETTLED_FLOWS_MIN {
                rig.settle();
            }
        }
        Ok(None)
    }

    /// Sends a few packets from each generator, one after the other, until some arrive. Returns
    /// whether they did. The first is that of the traffic's own direction: what comes back may need
    /// the states that it makes.
    fn probe(&mut self, rig: &mut dyn Rig, name: &str) -> Result<bool, TrialError> {
        let ports: Vec<u16> = self.trial.traffic.each_sender().iter().map(|s| s.port).collect();
        let mut details = Vec::new();
        let mut passed = true;
        for (sender, port) in ports.iter().enumerate() {
            let (arrived, sent) = self.probe_from(rig, sender)?;
            let of = if ports.len() > 1 { format!(" to dut{port}") } else { String::new() };
            let things = self.trial.traffic.kind.unit().things();
            details.push(format!(
                "{arrived} of the last {PROBE_PACKETS} {things} arrived, {sent} sent{of}"
            ));
            passed = arrived > 0;
            if !passed {
                break;
            }
        }
        self.checks.push(Check { name: name.to_owned(), passed, detail: details.join("; ") });
        Ok(passed)
    }

    /// Probes from one generator: how many of the last packets arrived, and how many were sent.
    fn probe_from(&mut self, rig: &mut dyn Rig, sender: usize) -> Result<(u64, u64), TrialError> {
        let deadline = self.trial.cancel.now() + self.patience.probe;
        let burst = Burst::new(Rate::Pps(PROBE_RATE_PPS), Some(PROBE_PACKETS));
        let mut sent = 0;
        let arrived = loop {
            let before = rig.reading()?.rx_packets;
            self.send(rig, Burst { sender: Some(sender), ..burst }, PROBE_PACKETS)?;
            sent += PROBE_PACKETS;
            self.pause(PROBE_PATIENCE)?;
            let arrived = rig.reading()?.rx_packets - before;
            if arrived > 0 || self.trial.cancel.now() >= deadline {
                break arrived;
            }
        };
        self.probe_packets += sent;
        Ok((arrived, sent))
    }

    /// Sends a limited burst and waits for its end, which comes late where a generator sends slower
    /// than it was asked to, and never where it does not stop after its packets.
    fn send(&mut self, rig: &mut dyn Rig, burst: Burst, packets: u64) -> Result<(), TrialError> {
        let rate_pps = match burst.rate {
            Rate::Pps(rate_pps) => rate_pps.max(1.0),
            _ => BURST_RATE_PPS_MIN,
        };
        let time = Duration::from_secs_f64(self::packets(packets) / rate_pps) * 2;
        let time = time + self.patience.burst;
        let deadline = self.trial.cancel.now() + time;
        rig.start(Burst { packet_limit: Some(packets), ..burst })?;
        let waited = loop {
            if rig.finished() {
                break Ok(());
            }
            if self.trial.cancel.now() >= deadline {
                drop(rig.stop());
                return Err(TestbedError::voids_trial(format!(
                    "the generator is still sending {} after it was asked to send {packets} \
                     packets: its command must end by itself after `${{count}}` packets; look at \
                     it by hand, and correct `start` in the specification",
                    weir_wire::units::format_duration(time)
                ))
                .into());
            }
            if let Err(cancelled) = self.pause(Duration::from_millis(2)) {
                break Err(cancelled);
            }
        };
        rig.stop()?;
        waited
    }

    fn measure(
        &mut self,
        rig: &mut dyn Rig,
        mut dut: Option<&mut (dyn DutDriver + 'static)>,
    ) -> Result<Outcome, TrialError> {
        rig.wait_for_host();
        let held = self.trial.traffic.connect().and_then(|connect| connect.count);
        let known_before = held.map(|_| held::known(rig, dut.as_deref())).transpose()?.flatten();
        let before = all_counters(rig, dut.as_deref())?;
        let (mut readings, windows) = self.run_measured(rig, dut.as_deref_mut(), held)?;
        self.phase("drain");
        self.pause(self.trial.times.drain)?;
        if held.is_some() {
            readings.push(rig.readings()?);
        }
        let after = all_counters(rig, dut.as_deref())?;
        let accounting = rig.accounting();
        let Accounted { ledger, run: counters, directions: ledgers } =
            account(&accounting, dut.as_deref(), &before, &after)?;
        let mut levels = BTreeMap::new();
        if let Some(dut) = &mut dut {
            self.checks.extend(dut.took_effect(host_of(rig)?, &counters)?);
            levels = dut.levels(host_of(rig)?)?;
        }
        self.checks.extend(rig.checks()?);
        self.checks.extend(accounting.checks(&ledger, &counters));
        let Machines { dut: machine, others: machines, dut_time } = rig.machines();
        let cost = dut_time.and_then(|time| Cost::of(time, &ledger));
        let windows: Vec<Window> = windows.into_iter().map(|(window, _)| window).collect();
        let cost = if windows.is_empty() { cost } else { toggle::cost_of_off(&windows, cost) };
        let traffic = self.trial.traffic;
        let totals: Vec<Reading> = readings.iter().map(|each| Reading::total(each)).collect();
        let samples = samples::of(&totals);
        let result = match held {
            Some(count) => TrialResult::held(&samples, count),
            None => TrialResult::of(&samples, direction::requested_by_all_pps(traffic)),
        };
        if dut.as_ref().is_some_and(|dut| dut.is_taken_over()) {
            levels.extend(self.pause_of_takeover(rig, &ledger, result.offered_pps)?);
        }
        let rules = &accounting.directions;
        let mut directions = direction::figures(rules, ledgers, &readings, traffic);
        let latency = self.latency(rig, result.rate_pps, &mut directions)?;
        match held {
            // A DUT that holds all it can has no room for those of a probe.
            Some(_) => self.check_held(&ledger, known_before, held::known(rig, dut.as_deref())?),
            None => {
                self.probe(rig, "probe-after")?;
            }
        }
        Ok(Outcome {
            samples,
            result,
            latency,
            cost,
            windows,
            ledger,
            directions,
            checks: Vec::new(),
            counters,
            levels,
            machine,
            machines,
            sysctls_changed: BTreeMap::new(),
            phases: Vec::new(),
            artefacts: direction::files(rules, &readings),
            host_log: String::new(),
            not_measured: None,
        })
    }

    /// How long nothing came through. Packets that were lost tell it that were sent at a constant
    /// rate (RFC 6201: the frame-loss method); of connections and requests nothing need be lost,
    /// and their client has timed them.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "minutes at most")]
    fn pause_of_takeover(
        &self,
        rig: &mut dyn Rig,
        ledger: &Ledger,
        offered_pps: f64,
    ) -> Result<Option<(String, u64)>, TrialError> {
        if !self.trial.traffic.kind.is_packets() {
            let delays = rig.observed()?.delays;
            // A client that was late itself has timed nothing.
            let is_timed = delays.sample_count > 0;
            return Ok(is_timed.then(|| ("pause_us".to_owned(), delays.max_ns / 1000)));
        }
        let lost = packets(ledger.lost_packets());
        let outage_us = (lost / offered_pps * 1e6) as u64;
        Ok((offered_pps > 0.0).then(|| ("outage_us".to_owned(), outage_us)))
    }

    /// The generator's run: readings of it, and what was measured of a toggle's windows.
    fn run_measured(
        &mut self,
        rig: &mut dyn Rig,
        dut: Option<&mut (dyn DutDriver + 'static)>,
        held: Option<u64>,
    ) -> Result<(Vec<Vec<Reading>>, Vec<toggle::Measured>), TrialError> {
        if let Some(packets) = self.trial.packet_limit {
            self.phase("measure");
            let first = rig.readings()?;
            self.send(rig, Burst::of(self.trial.traffic), packets)?;
            return Ok((vec![first, rig.readings()?], Vec::new()));
        }
        if self.trial.turns.is_some() {
            let windows = self.take_turns(rig)?;
            let readings = toggle::readings_of_off(&windows).into_iter();
            return Ok((readings.map(|reading| vec![reading]).collect(), windows));
        }
        let readings = match held {
            Some(count) => self.open(rig, count)?,
            None => self.run_for_its_time(rig, dut)?,
        };
        Ok((readings, Vec::new()))
    }

    /// The generator's run, with its warm-up.
    fn run_for_its_time(
        &mut self,
        rig: &mut dyn Rig,
        dut: Option<&mut (dyn DutDriver + 'static)>,
    ) -> Result<Vec<Vec<Reading>>, TrialError> {
        self.phase("warmup");
        rig.start(Burst::of(self.trial.traffic))?;
        let sampled = self.pause(self.trial.times.warmup).and_then(|()| {
            self.phase("measure");
            let duration = self.trial.times.duration;
            rig.measuring(duration)?;
            if let (Some(dut), Some(host)) = (dut, rig.dut_host()) {
                dut.measuring(host, duration)?;
            }
            self.sample(rig)
        });
        let end = self.trial.cancel.now();
        rig.stop()?;
        let (readings, from) = sampled?;
        let recorded = rig.recorded(from, end);
        Ok(recorded.map_or(readings, |all| all.into_iter().map(|reading| vec![reading]).collect()))
    }

    /// Takes readings at a fixed distance over the length of the measurement. A moment that was
    /// missed, because this process did not get a CPU, is left out, not caught up with: its
    /// neighbours would be too close for a rate.
    fn sample(&mut self, rig: &dyn Rig) -> Result<(Vec<Vec<Reading>>, Instant), TrialError> {
        let times = self.trial.times;
        let count = times.duration.as_nanos() / times.sample.as_nanos().max(1);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let cancel = self.trial.cancel;
        let start = cancel.now();
        let mut readings = vec![rig.readings()?];
        let mut index = 1;
        while index <= count {
            if !cancel.sleep_until(start + times.sample * index) {
                return Err(TrialError::Cancelled);
            }
            self.add_reading(&mut readings, rig.readings()?);
            let passed = (cancel.now() - start).as_nanos() / times.sample.as_nanos().max(1);
            index = u32::try_from(passed).unwrap_or(u32::MAX).max(index).saturating_add(1);
        }
        Ok((readings, start))
    }

    /// Adds what the counters say now, and shows what they have grown by since the last time.
    fn add_reading(&mut self, readings: &mut Vec<Vec<Reading>>, now: Vec<Reading>) {
        if let Some(last) = readings.last() {
            let (last, now) = (Reading::total(last), Reading::total(&now));
            let unit = self.trial.traffic.kind.unit();
            self.trial.observer.event(&figure::live((&last, &now), unit));
        }
        readings.push(now);
    }

    fn pause(&self, duration: Duration) -> Result<(), TrialError> {
        if self.trial.cancel.sleep(duration) { Ok(()) } else { Err(TrialError::Cancelled) }
    }
}

fn host_of(rig: &dyn Rig) -> Result<&dyn Host, TestbedError> {
    rig.dut_host().ok_or_else(|| TestbedError::new("it was built without a DUT's host"))
}

/// Counters of the testbed and the DUT.
fn all_counters(rig: &dyn Rig, dut: Option<&dyn DutDriver>) -> Result<Counters, TrialError> {
    let mut counters = rig.counters()?;
    if let (Some(dut), Some(host)) = (dut, rig.dut_host()) {
        counters.extend(dut.counters(host)?);
    }
    Ok(counters)
}

/// What the run of the generator between two readings of all counters has brought.
fn account(
    accounting: &Accounting,
    dut: Option<&dyn DutDriver>,
    before: &Counters,
    after: &Counters,
) -> Result<Accounted, TestbedError> {
    let losses = dut.map(|dut| DutLosses {
        drops: dut.drops(),
        names_drops_of: dut.names_drops_of(),
        is_opaque: dut.is_opaque(),
    });
    accounting.account(losses.as_ref(), before, after).map_err(TestbedError::new)
}

/// Settings whose value is not that of a fresh DUT.
fn changed(
    fresh: &BTreeMap<String, String>,
    used: &BTreeMap<String, String>,
) -> BTreeMap<String, (String, String)> {
    used.iter()
        .filter_map(|(name, value)| {
            let before = fresh.get(name).map_or("(absent)", String::as_str);
            (before != value).then(|| (name.clone(), (before.to_owned(), value.clone())))
        })
        .collect()
}
