//! What it costs the first firewall to keep the second one in step: CPU time for each packet of
//! flows that are known, and what it lets through of a flood.

use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;

use super::bed::{Bed, Flows};
use super::boxes::{FIRST, Process, SECOND, status};
use super::bulk::fill;
use super::follow::{count_in, is_in_step, percentile_99};
use super::{Result, Settings, wait, wait_until};
use crate::chrt;
use crate::schedstat::run_time_ns;

/// How often is looked how far behind the second firewall is.
const LOOK: Duration = Duration::from_millis(20);
/// From the first packet until a rate is steady.
const SETTLE: Duration = Duration::from_millis(500);
/// What a packet has that changes nothing of a connection, and one end's last one.
const GOES_ON: &str = ".";
const ENDS: &str = "F.";
/// As fast as the generator can.
const FASTEST: &str = "max";
/// Of the thread that forwards, and of the generator (sched(7)).
const PRIORITY: u8 = 1;
/// Room for states of flows that were not asked for.
const SPARE_STATES: u64 = 100_000;

/// What packets of known flows cost the thread that handles them, and how many came through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// CPU time for each packet, ns.
    pub(super) cost_ns: f64,
    pub(super) passed_pps: f64,
}

/// The same with and without synchronisation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// The second firewall has all states.
    pub(super) synchronised: Cost,
    /// It gets none, before and after that.
    pub(super) alone: [Cost; 2],
    /// It gets all, and, before that, none, with packets at a rate.
    pub(super) bulk: Cost,
    pub(super) paced: Cost,
}

/// Packets of flows that are known, with and without synchronisation.
///
/// The first firewall's thread goes before the processes on its CPU, as softirqs do, and the
/// generator has the other CPU, but for a twentieth.
pub(super) fn costs(settings: &Settings, cancel: &Cancel) -> Result<Costs> {
    let count = settings.known_count;
    let bed = Bed::new(settings, u64::from(count) + SPARE_STATES)?;
    fill(&bed, Flows::Datagrams.states(count), cancel)?;
    let thread = bed.thread()?;
    chrt::raise(thread, PRIORITY)?;
    let (_sink, _serving) = (bed.sink()?, bed.serve(SECOND)?);
    // The first packet of each tells more than those that follow.
    let (first, all) =
        (generate(&bed, settings, cancel, FASTEST)?, bed.received()? + u64::from(count));
    wait_until("packets of all flows", cancel, || Ok(bed.received()? > all))?;
    drop(first);
    let steady = |rate: &str| {
        let _generating = generate(&bed, settings, cancel, rate)?;
        cost(&bed, thread, cancel, || wait(settings.load, cancel))
    };
    let rate = format!("{}pps", settings.bulk_load_pps);
    let (before, paced) = (steady(FASTEST)?, steady(&rate)?);
    let generating = generate(&bed, settings, cancel, &rate)?;
    let sending = bed.send(FIRST)?;
    wait_until("a bulk", cancel, || Ok(status(bed.netns(FIRST))?.out.is_live))?;
    let bulk = cost(&bed, thread, cancel, || {
        let is_sent = || Ok(status(bed.netns(FIRST))?.out.bulk_count > 0);
        wait_until("the end of a bulk", cancel, is_sent)
    })?;
    drop(generating);
    wait_until("both in step", cancel, || is_in_step(&bed))?;
    let synchronised = steady(FASTEST)?;
    drop(sending);
    wait_until("the end of a session", cancel, || Ok(!status(bed.netns(FIRST))?.out.is_live))?;
    Ok(Costs { synchronised, alone: [before, steady(FASTEST)?], bulk, paced })
}

/// Sends packets of all known flows at a rate.
fn generate(bed: &Bed, settings: &Settings, cancel: &Cancel, rate: &str) -> Result<Process> {
    let generating = bed.generate_all(Flows::Datagrams, settings.known_count, rate)?;
    let start = bed.received()?;
    wait_until("a packet", cancel, || Ok(bed.received()? > start))?;
    let (priority, process) = (PRIORITY.to_string(), generating.number()?.to_string());
    chrt::chrt(&["--all-tasks", "--fifo", "--pid", &priority, &process])?;
    wait(SETTLE, cancel)?;
    Ok(generating)
}

/// What packets cost from now until something has ended.
fn cost(
    bed: &Bed,
    thread: i32,
    cancel: &Cancel,
    ended: impl FnOnce() -> Result<()>,
) -> Result<Cost> {
    let (begin, time_ns) = (Instant::now(), run_time_ns(thread)?);
    let (packets, passed) = (bed.received()?, bed.passed()?);
    ended()?;
    wait_until("more packets", cancel, || Ok(bed.received()? > packets && bed.passed()? > passed))?;
    let time_ns = run_time_ns(thread)? - time_ns;
    let (packets, passed) = (bed.received()? - packets, bed.passed()? - passed);
    Ok(Cost {
        cost_ns: time_ns.max(1) as f64 / packets as f64,
        passed_pps: passed as f64 / begin.elapsed().as_secs_f64(),
    })
}

/// What was found in a flood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flooded {
    /// What the first firewall has let through, of what it does without synchronisation.
    pub(super) rate_share: f64,
    /// How far the second firewall was behind.
    pub(super) lag_ms: f64,
    /// Connections that have ended there, of those that have at the first one.
    pub(super) changes_share: f64,
}

/// A flood of flows that nobody answers, beside connections that end.
pub(super) fn flood(settings: &Settings, cancel: &Cancel) -> Result<Flooded> {
    let count = settings.connection_count;
    let flood = count_in(settings.load, settings.flood_pps);
    let bed = Bed::new(settings, flood + u64::from(count) + SPARE_STATES)?;
    fill(&bed, Flows::Connections.states(count), cancel)?;
    bed.thread()?;
    let (_sink, _serving) = (bed.sink()?, bed.serve(SECOND)?);
    // The first one has the table grow. Connections have packets in each, whose generator takes its
    // part of a CPU.
    let mut alone_pps = 0.0;
    for _ in 0..2 {
        let mut using = bed.use_connections(count, settings.load, GOES_ON)?;
        alone_pps = let_through(&bed, settings, cancel, &mut Vec::new())?;
        wait_until("the last packet", cancel, || using.has_ended())?;
        bed.forget_flood()?;
    }
    let _sending = bed.send(FIRST)?;
    wait_until("both in step", cancel, || is_in_step(&bed))?;
    let mut ending = bed.use_connections(count, settings.load, ENDS)?;
    let mut lags_ms = Vec::new();
    let synchronised_pps = let_through(&bed, settings, cancel, &mut lags_ms)?;
    wait_until("the last end", cancel, || ending.has_ended())?;
    bed.drain()?;
    bed.forget_flood()?;
    let [first, second] = [FIRST, SECOND].map(|which| bed.closing(which));
    let (first, second) = (first? as f64, second? as f64);
    Ok(Flooded {
        rate_share: synchronised_pps / alone_pps,
        lag_ms: percentile_99(lags_ms)?,
        changes_share: (second / first).min(first / second),
    })
}

/// Packets of a flood that come through in a second; how far the second firewall is behind.
fn let_through(
    bed: &Bed,
    settings: &Settings,
    cancel: &Cancel,
    lags_ms: &mut Vec<u64>,
) -> Result<f64> {
    let start = bed.passed()?;
    let mut generating: Process = bed.flood(settings.flood_pps, settings.load)?;
    wait_until("a packet", cancel, || Ok(bed.passed()? > start))?;
    let (packets, begin) = (bed.passed()?, Instant::now());
    while !generating.has_ended()? {
        lags_ms.push(status(bed.netns(FIRST))?.out.lag_ms);
        wait(LOOK, cancel)?;
    }
    let passed = bed.passed()? - packets;
    Ok(passed.max(1) as f64 / begin.elapsed().as_secs_f64())
}
