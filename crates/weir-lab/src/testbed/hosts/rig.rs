//! The machines of a campaign while one trial runs on them.
//!
//! Programs are started anew for each run of the generators; the receiver runs from the loading of
//! the traffic to the teardown. Counts come as lines over SSH: their moments are those of their
//! arrival here, and a receiver's own clock is compared with nothing but itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::host::Host;
use weir_machine::ssh::profile::Profiler;
use weir_machine::ssh::system::{activity, missed};
use weir_machine::switch;
use weir_results::counters::Counters;
use weir_results::dut::System;
use weir_results::record::{Check, Ledger};
use weir_results::traffic::Traffic;
use weir_wire::units::{Rate, whole_ns};

use super::activity::Activities;
use super::connections::Connections;
use super::feed::{self, Arrived, Feed};
use super::line::{self, Ask};
use super::lines::Count;
use super::pair::Pair;
use super::parts::Parts;
use super::program::{Program, StopLine, labels, stop_line};
use super::requests::Requests;
use crate::model::DriverKind;
use crate::testbed::{Accounting, Burst, Machines, Observed, Reading, Rig, TestbedError, Traces};

mod accounting;

/// How long a program may take until it shows its first count: pkt-gen waits for its link.
const FIRST_COUNT_PATIENCE: Duration = Duration::from_secs(30);
/// How long an answering line may take beside the distance of the lines.
const LINE_PATIENCE: Duration = Duration::from_secs(5);
/// How much later than another a line may come, and how much faster than another a clock may go.
const CLOCK_SLACK: Duration = Duration::from_secs(1);
const CLOCK_RATIO_MAX: f64 = 0.1;
/// Counters that the generators' programs give, and the receiver's.
const GENERATOR: &str = "generator";
const RECEIVER: &str = "receiver";

/// One trial's programs.
pub(super) struct HostsRig {
    parts: Rc<Parts>,
    /// What the generators are called.
    labels: Vec<String>,
    sample: Duration,
    cancel: Cancel,
    traffic: Option<Traffic>,
    /// Client and server in the place of generators and receiver, where the traffic is not of
    /// packets.
    pair: RefCell<Option<Box<dyn Pair>>>,
    receiver: RefCell<Option<Program>>,
    generators: RefCell<Vec<Program>>,
    /// Lines of the user's that stop generators, for the end of the trial.
    stop_lines: Vec<StopLine>,
    /// The run under way has a limit of packets.
    is_limited: bool,
    /// What each generator sent in runs that are over: packets, and those its device accepted.
    before: Vec<(u64, Option<u64>)>,
    /// The last run: what was sent before it, and what its programs say.
    last_base: u64,
    last_feeds: Vec<(Instant, Feed)>,
    runs: Cell<u32>,
    /// The machines during the last run that had no limit; absent before it.
    activities: Option<Activities>,
    profiler: RefCell<Option<Profiler>>,
    /// Artefacts of the profile, once it is over.
    profile: RefCell<Vec<(String, Vec<u8>)>>,
}

impl HostsRig {
    /// A rig on machines that answered.
    pub(super) fn new(parts: Rc<Parts>, sample: Duration, cancel: Cancel) -> Self {
        let before = vec![(0, Some(0)); parts.generators.len()];
        let labels = labels(&parts.generators);
        Self {
            parts,
            labels,
            sample,
            cancel,
            traffic: None,
            pair: RefCell::new(None),
            receiver: RefCell::new(None),
            generators: RefCell::new(Vec::new()),
            stop_lines: Vec::new(),
            is_limited: false,
            before,
            last_base: 0,
            last_feeds: Vec::new(),
            runs: Cell::new(0),
            activities: None,
            profiler: RefCell::new(None),
            profile: RefCell::default(),
        }
    }

    /// Makes it take a profile of the DUT while it measures.
    pub(super) fn profile(&mut self) -> Result<(), TestbedError> {
        let profiler = Profiler::new(self.parts.spec.dut.system, None);
        let profiler = profiler.map_err(|why| {
            TestbedError::voids_trial(format!("no profile of DUT {}: {why}", self.dut_name()))
        })?;
        *self.profiler.get_mut() = Some(profiler);
        Ok(())
    }

    fn dut_name(&self) -> &str {
        &self.parts.spec.dut.remote.name
    }

    /// Whether all that is sent carries weir's signature; else the receiver counts the rest, too.
    fn is_signed(&self) -> bool {
        let ours = |kind| kind == DriverKind::Weir;
        self.parts.spec.generators.iter().all(|end| ours(end.driver.kind))
    }

    /// Packets of the traffic among what the receiver counted.
    fn received(&self, count: Count) -> u64 {
        if self.is_signed() { count.packets } else { count.packets + count.foreign }
    }

    fn reading_at(&self, arrived: Arrived, start: Instant) -> Reading {
        let rx_packets = self.received(arrived.count);
        let t_ns = arrived
            .count
            .t_ns
            .unwrap_or_else(|| whole_ns(arrived.at.saturating_duration_since(start)));
        let mean_bytes = self.traffic.as_ref().map_or(0.0, |t| t.streams.mean_bytes());
        let feeds = self.last_feeds.iter();
        let running: u64 = feeds.map(|(start, feed)| feed.packets_at(*start, arrived.at)).sum();
        Reading {
            t_ns,
            rx_packets,
            rx_bytes: match arrived.count.bytes {
                Some(bytes) if self.is_signed() => bytes,
                _ => product(rx_packets, mean_bytes),
            },
            tx_packets: self.last_base + running,
        }
    }

    /// Waits for a line of the receiver's that was written after now.
    fn await_receiver(&self) -> Result<(), TestbedError> {
        let mut receiver = self.receiver.borrow_mut();
        let Some(receiver) = receiver.as_mut() else {
            return Ok(());
        };
        if receiver.has_ended()? {
            return Err(receiver.died());
        }
        if let Some(why) = receiver.feed.unusable() {
            let who = self.parts.receiver.name();
            return Err(TestbedError::voids_trial(format!("receiver {who}: {why}")));
        }
        let asked = feed::asked_now();
        let deadline = asked + 2 * self.sample + LINE_PATIENCE;
        let came = receiver.feed.wait(deadline, |last| last.is_some_and(|last| last.at >= asked));
        // A command may print only what is new: its last line stands then.
        let must = self.parts.spec.receiver.driver.kind != DriverKind::Command;
        if came || !must {
            return Ok(());
        }
        if receiver.has_ended()? {
            return Err(receiver.died());
        }
        Err(TestbedError::voids_trial(format!(
            "receiver {}: no line for {:?}: the program has stalled, or the connection has; \
             see the artefacts of this trial",
            self.parts.receiver.name(),
            deadline.saturating_duration_since(asked)
        )))
    }

    /// The rate and the packets of the generator at `index`.
    fn share(&self, burst: Burst, index: usize) -> (Rate, Option<u64>) {
        let count = self.parts.generators.len();
        #[expect(clippy::cast_precision_loss, reason = "a few generators")]
        let rate = match burst.rate {
            Rate::Pps(rate_pps) => Rate::Pps(rate_pps / count as f64),
            other => other,
        };
        let (count, index) = (count as u64, index as u64);
        let packets = burst.packet_limit.map(|all| all / count + u64::from(index < all % count));
        (rate, packets)
    }

    fn start_receiver(&self, traffic: &Traffic) -> Result<(), TestbedError> {
        let (host, end) = (&self.parts.receiver, &self.parts.spec.receiver);
        let line = line::receiver(end, &traffic.name, self.sample);
        let stop = stop_line(end, &traffic.name, self.sample);
        let name = (host.name(), self.runs.get());
        let mut program = Program::start(host, (RECEIVER, end), name, line, stop)?;
        if end.driver.kind == DriverKind::Command {
            // It need not print before packets come; but it has to live.
            let settled = Instant::now() + Duration::from_secs(1);
            program.feed.wait(settled, |last| last.is_some());
            if program.has_ended()? {
                return Err(program.died());
            }
        } else {
            let what = "showed no count";
            program.wait(FIRST_COUNT_PATIENCE, &self.cancel, what, |last| last.is_some())?;
        }
        *self.receiver.borrow_mut() = Some(program);
        Ok(())
    }

    /// The machines have been looked at for the length of a run that has no limit.
    fn end_activities(&mut self) {
        if let Some(activities) = self.activities.as_mut().filter(|_| !self.is_limited) {
            activities.end(&self.parts);
        }
    }

    /// Ends all generators; returns the first error, after all were ended.
    fn stop_generators(&mut self) -> Result<(), TestbedError> {
        let mut first = Ok(());
        let mut running = std::mem::take(self.generators.get_mut());
        let ended = end_all(&mut running, self.is_limited);
        let indices = self.running_indices(running.len());
        for (index, (program, ended)) in indices.into_iter().zip(running.iter_mut().zip(ended)) {
            match ended.and_then(|()| program.total(self.parts.total_patience)) {
                Ok(count) => {
                    let count = count.unwrap_or_default();
                    let (sent, accepted) = &mut self.before[index];
                    *sent += count.packets;
                    *accepted = accepted.zip(count.accepted).map(|(a, b)| a + b);
                }
                Err(error) => {
                    // What it had sent until then is counted, so that a sum never goes back.
                    let last = program.feed.last().map_or(0, |last| last.count.packets);
                    self.before[index].0 += last;
                    drop(program.end());
                    first = first.and(Err(error));
                }
            }
        }
        self.keep_stop_lines(&running);
        first
    }

    /// Keeps the lines that are still to be run, each once.
    fn keep_stop_lines(&mut self, programs: &[Program]) {
        for line in programs.iter().filter_map(Program::stop_line) {
            if !self.stop_lines.iter().any(|kept| kept.is_same(line)) {
                self.stop_lines.push(line.clone());
            }
        }
    }

    /// Limited runs may leave out the last generators; those that run are the first ones.
    fn running_indices(&self, running: usize) -> Vec<usize> {
        (0..running.min(self.parts.generators.len())).collect()
    }

    /// The receiver's interface, if its machine counts what it missed: a source of counters, the
    /// system, and the interface.
    fn receiving(&self) -> Option<(String, System, String)> {
        let system = self.parts.receiver.system().ok()?;
        let interface = &self.parts.spec.receiver.interface;
        let name = interface.strip_prefix("netmap:").unwrap_or(interface);
        let source = format!("receiver {} {name}", self.parts.receiver.name());
        Some((source, system, name.to_owned()))
    }

    /// What the receiver's interface missed. A machine that does not tell is no reason to stop:
    /// its interface may be one that only its program knows.
    fn missed(&self) -> Option<(String, BTreeMap<String, u64>)> {
        let (source, system, name) = self.receiving()?;
        let counted = missed(self.parts.receiver.as_ref(), system, &name).ok()?;
        Some((source, counted))
    }

    /// What the receiver's interface missed, and what DUT and switches count.
    fn far_counters(&self) -> Result<Counters, TestbedError> {
        let mut counters: Counters = self.missed().into_iter().collect();
        let device = self.parts.device.counters();
        counters.extend(device.map_err(|error| match error.is_passing() {
            true => TestbedError::voids_trial(format!("{}: {error}", error.says_of_dut())),
            false => TestbedError::new(error),
        })?);
        for switch in &self.parts.spec.switches {
            let read = switch::read(switch, self.parts.manager.as_ref()).map_err(|error| {
                TestbedError::voids_trial(format!("switch {}: {error}", switch.name))
            })?;
            counters.insert(switch_source(&switch.name), read);
        }
        Ok(counters)
    }

    fn knows_accepted(&self) -> bool {
        self.before.iter().all(|(_, accepted)| accepted.is_some())
    }
}

/// The source of a switch's counters.
fn switch_source(name: &str) -> String {
    format!("switch {name}")
}

impl Rig for HostsRig {
    fn dut_host(&self) -> Option<&dyn Host> {
        Some(self.parts.device.host())
    }

    fn load(&mut self, traffic: &Traffic) -> Result<(), TestbedError> {
        let (parts, sample, cancel) = (&self.parts, self.sample, &self.cancel);
        if let Some(http) = traffic.http() {
            let pair = Requests::start(parts, (traffic, http), sample, cancel)?;
            *self.pair.get_mut() = Some(Box::new(pair));
            return Ok(());
        }
        if let Some(connect) = traffic.connect() {
            let pair = Connections::start(parts, (traffic, connect), sample, cancel)?;
            *self.pair.get_mut() = Some(Box::new(pair));
            return Ok(());
        }
        for (host, end) in self.parts.generators.iter().zip(&self.parts.spec.generators) {
            if let Some((name, text)) = line::description(end, traffic) {
                host.write_file(name, &text).map_err(|error| {
                    let who = host.name();
                    TestbedError::voids_trial(format!("generator {who}: {}", error.what))
                })?;
            }
        }
        self.traffic = Some(traffic.clone());
        if self.receiver.borrow().is_none() {
            self.start_receiver(traffic)?;
        }
        Ok(())
    }

    fn start(&mut self, burst: Burst) -> Result<(), TestbedError> {
        self.is_limited = burst.packet_limit.is_some();
        if let Some(pair) = self.pair.get_mut() {
            pair.begin(&burst)?;
            if !self.is_limited {
                self.activities = Some(Activities::begin(&self.parts));
            }
            return Ok(());
        }
        let traffic = self.traffic.clone();
        let traffic = traffic.ok_or_else(|| TestbedError::new("no traffic is loaded"))?;
        self.runs.set(self.runs.get() + 1);
        self.last_base = self.before.iter().map(|(sent, _)| sent).sum();
        self.last_feeds.clear();
        if !self.is_limited {
            self.activities = Some(Activities::begin(&self.parts));
        }
        for index in 0..self.parts.generators.len() {
            let (host, end) = (&self.parts.generators[index], &self.parts.spec.generators[index]);
            let (rate, count) = self.share(burst, index);
            if count == Some(0) {
                continue;
            }
            let ask = Ask { traffic: &traffic, rate, count, sample: self.sample };
            let file = line::description(end, &traffic).map_or("", |(name, _)| name);
            let line = line::generator(end, ask, file);
            let stop = stop_line(end, &traffic.name, self.sample);
            let name = (self.labels[index].as_str(), self.runs.get());
            let started = Program::start(host, (GENERATOR, end), name, line, stop);
            match started {
                Ok(program) => {
                    self.last_feeds.push((program.started, program.feed.clone()));
                    self.generators.get_mut().push(program);
                }
                Err(error) => {
                    drop(self.stop_generators());
                    return Err(error);
                }
            }
        }
        if self.is_limited {
            return Ok(());
        }
        // The run begins when packets do, not when a program is started.
        let cancel = self.cancel.clone();
        let live = self.parts.spec.generators.iter().map(Program::is_live);
        let mut begun = Ok(());
        for (program, _) in self.generators.get_mut().iter_mut().zip(live).filter(|(_, l)| *l) {
            let sends = |last: Option<Arrived>| last.is_some_and(|last| last.count.packets > 0);
            begun = begun
                .and_then(|()| program.wait(FIRST_COUNT_PATIENCE, &cancel, "sent nothing", sends));
        }
        if begun.is_err() {
            drop(self.stop_generators());
        }
        begun
    }

    fn finished(&self) -> bool {
        if let Some(pair) = self.pair.borrow_mut().as_mut() {
            return pair.finished();
        }
        // One that cannot be asked is told when it is stopped.
        self.generators.borrow_mut().iter_mut().all(|program| program.has_ended().unwrap_or(true))
    }

    fn stop(&mut self) -> Result<(), TestbedError> {
        if let Some(pair) = self.pair.get_mut() {
            let ended = pair.end_client();
            self.end_activities();
            let pair = self.pair.get_mut().as_mut();
            return ended.and_then(|()| pair.map_or(Ok(()), |pair| pair.account()));
        }
        let stopped = self.stop_generators();
        self.end_activities();
        stopped
    }

    fn reading(&self) -> Result<Reading, TestbedError> {
        if let Some(pair) = self.pair.borrow().as_ref() {
            return Ok(pair.reading());
        }
        if self.generators.borrow().is_empty() {
            self.await_receiver()?;
        }
        let mut receiver = self.receiver.borrow_mut();
        let Some(receiver) = receiver.as_mut() else {
            return Err(TestbedError::new("no traffic is loaded"));
        };
        if receiver.has_ended()? {
            return Err(receiver.died());
        }
        let first = Arrived { at: receiver.started, count: Count::default() };
        let last = receiver.feed.last().unwrap_or(first);
        Ok(self.reading_at(last, receiver.started))
    }

    fn recorded(&self, from: Instant, to: Instant) -> Option<Vec<Reading>> {
        if let Some(pair) = self.pair.borrow().as_ref() {
            return pair.recorded(from, to);
        }
        let receiver = self.receiver.borrow();
        let receiver = receiver.as_ref()?;
        let counts = receiver.feed.between(from, to);
        Some(counts.into_iter().map(|count| self.reading_at(count, receiver.started)).collect())
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        if let Some(pair) = self.pair.borrow().as_ref() {
            let mut counters = pair.counters()?;
            counters.extend(self.far_counters()?);
            return Ok(counters);
        }
        self.await_receiver()?;
        let mut counters = Counters::new();
        let sent = self.before.iter().map(|(sent, _)| sent).sum();
        let mut all = BTreeMap::from([("offered_packets".to_owned(), sent)]);
        if self.knows_accepted() {
            let accepted = self.before.iter().filter_map(|(_, accepted)| *accepted).sum();
            all.insert("accepted_packets".to_owned(), accepted);
        }
        if self.before.len() > 1 {
            for (label, (sent, _)) in self.labels.iter().zip(&self.before) {
                all.insert(format!("{label} offered_packets"), *sent);
            }
        }
        counters.insert(GENERATOR.to_owned(), all);
        let receiver = self.receiver.borrow();
        let last = receiver.as_ref().and_then(|receiver| receiver.feed.last());
        let last = last.map(|last| last.count).unwrap_or_default();
        let seen = [("packets", self.received(last)), ("foreign_packets", last.foreign)];
        let seen = seen.map(|(name, value)| (name.to_owned(), value)).into();
        counters.insert(RECEIVER.to_owned(), seen);
        counters.extend(self.far_counters()?);
        Ok(counters)
    }

    fn accounting(&self) -> Accounting {
        match self.pair.borrow().as_ref() {
            Some(pair) => pair.accounting(),
            None => self.account_now(),
        }
    }

    fn take_traces(&self) -> Traces {
        let mut traces = self.parts.take_traces();
        traces.artefacts.retain(|(name, _)| name != activity::LOG);
        traces.artefacts.append(&mut self.profile.borrow_mut());
        traces
    }

    fn measuring(&mut self, duration: Duration) -> Result<(), TestbedError> {
        let Some(profiler) = self.profiler.get_mut() else {
            return Ok(());
        };
        let started = profiler.start(self.parts.device.host(), duration);
        started.map_err(|error| TestbedError::voids_trial(format!("no profile: {error}")))
    }

    fn observe(&mut self) -> Result<(), TestbedError> {
        if self.pair.get_mut().is_some() {
            // A client times by its clock alone.
            return Ok(());
        }
        Err(TestbedError::new("no latency is measured between hosts: they share no clock"))
    }

    fn observed(&mut self) -> Result<Observed, TestbedError> {
        if let Some(pair) = self.pair.get_mut() {
            return pair.observed();
        }
        self.observe().map(|()| Observed::default())
    }

    fn checks(&self) -> Result<Vec<Check>, TestbedError> {
        let mut checks = match self.pair.borrow().as_ref() {
            Some(pair) => pair.checks(),
            None => self.receiver_checks(),
        };
        checks.extend(self.activities.as_ref().and_then(|all| all.check(self.dut_name())));
        checks.extend(self.profile_check());
        Ok(checks)
    }

    fn machines(&self) -> Machines {
        self.activities.as_ref().map(Activities::machines).unwrap_or_default()
    }

    fn advice(&self, ledger: &Ledger) -> Option<String> {
        if let Some(pair) = self.pair.borrow().as_ref() {
            return Some(pair.advice());
        }
        let last = ledger.points.iter().rev().find(|point| point.packets > 0)?;
        let spec = &self.parts.spec;
        let (receiver, dut) = (&spec.receiver, &spec.dut);
        Some(match last.name.as_str() {
            "offered" | "accepted" => format!(
                "DUT {} counted none of them: look at the cable, and whether `next_hop_mac` is \
                 the address of its interface there",
                dut.remote.name
            ),
            "dut_received" => format!(
                "DUT {} forwarded none of them: look at its routes, its neighbours and its rules",
                dut.remote.name
            ),
            _ => format!(
                "receiver {} shows zero packets: look at its interface {}, its cable, and what \
                 address the DUT sends to",
                receiver.remote.name, receiver.interface
            ),
        })
    }

    fn teardown(mut self: Box<Self>) -> Result<(), TestbedError> {
        let pair = self.pair.get_mut().take();
        let mut result = pair.map_or(Ok(()), |pair| pair.teardown());
        let mut generators = std::mem::take(self.generators.get_mut());
        result = generators.iter_mut().map(Program::end).fold(result, Result::and);
        self.keep_stop_lines(&generators);
        let receiver: Vec<Program> = self.receiver.get_mut().take().into_iter().collect();
        for mut program in receiver {
            result = result.and(program.end());
            self.keep_stop_lines(&[program]);
        }
        // Nothing of this trial runs any more that they could name.
        self.stop_lines.iter().map(StopLine::run).fold(result, Result::and)
    }
}

/// Ends programs: all are looked at before any is told, and those that take a signal have ended
/// before the line of another may name them.
fn end_all(programs: &mut [Program], is_limited: bool) -> Vec<Result<(), TestbedError>> {
    let over: Vec<_> = programs.iter_mut().map(|program| program.is_over(is_limited)).collect();
    let mut ended: Vec<Result<(), TestbedError>> = Vec::new();
    let mut waiting = Vec::new();
    for (program, over) in programs.iter().zip(over) {
        waiting.push(matches!(over, Ok(false)).then(|| program.takes_signal()));
        ended.push(over.map(drop));
    }
    for takes_signal in [true, false] {
        for tell in [true, false] {
            for (index, program) in programs.iter_mut().enumerate() {
                if waiting[index] == Some(takes_signal) && ended[index].is_ok() {
                    ended[index] = if tell { program.ask_to_end() } else { program.await_end() };
                }
            }
        }
    }
    ended
}

impl HostsRig {
    /// What arrived at the receiver, and by which clock.
    fn receiver_checks(&self) -> Vec<Check> {
        let receiver = self.receiver.borrow();
        let last = receiver.as_ref().and_then(|receiver| receiver.feed.last());
        let last = last.map(|last| last.count).unwrap_or_default();
        let signed = self.is_signed();
        let detail = match (signed, last.foreign) {
            (true, foreign) => format!("{foreign} foreign packets beside the traffic"),
            (false, _) => "all packets are counted: they carry no signature".to_owned(),
        };
        let mut checks = vec![Check { name: "receiver".to_owned(), passed: true, detail }];
        if self.received(last) == 0 {
            let detail = format!(
                "receiver {} shows zero packets: look at its interface {}, its cable, and what \
                 the DUT sends there",
                self.parts.receiver.name(),
                self.parts.spec.receiver.interface
            );
            checks[0] = Check { name: "receiver".to_owned(), passed: false, detail };
        }
        checks.extend(self.clock_check());
        checks
    }

    /// Takes the profile, if there is one.
    fn profile_check(&self) -> Option<Check> {
        let mut profiler = self.profiler.borrow_mut();
        let profiler = profiler.as_mut()?;
        let title = format!("{} under load", self.dut_name());
        let collected = profiler.collect(self.parts.device.host(), &title);
        let (passed, detail) = match collected {
            Ok(files) => {
                let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
                *self.profile.borrow_mut() = files;
                (true, format!("in artefacts: {}", names.join(", ")))
            }
            Err(error) => (false, error.to_string()),
        };
        Some(Check { name: "profile".to_owned(), passed, detail })
    }

    /// Whether the receiver's clock went as fast as this machine's, by which its lines came.
    fn clock_check(&self) -> Option<Check> {
        let (there, here) = self.receiver.borrow().as_ref()?.feed.span()?;
        let passed = there.abs_diff(here) <= CLOCK_SLACK + here.mul_f64(CLOCK_RATIO_MAX);
        let name = self.parts.receiver.name();
        let detail = match passed {
            true => format!("the clock of {name} ran as fast as this machine's"),
            false => format!(
                "the clock of receiver {name} jumped: {:.1} s went by there while {:.1} s did \
                 here; check what sets it (`ntpd`, a virtual machine that was suspended)",
                there.as_secs_f64(),
                here.as_secs_f64()
            ),
        };
        Some(Check { name: "receiver-clock".to_owned(), passed, detail })
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts stay far below 2^53"
)]
fn product(packets: u64, mean_bytes: f64) -> u64 {
    (packets as f64 * mean_bytes).round() as u64
}
