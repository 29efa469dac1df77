//! New flows come to one firewall, and their states to the other one.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use weir_machine::cancel::Cancel;

use super::bed::Bed;
use super::boxes::{FIRST, Process, SECOND, status};
use super::{Result, Settings, wait, wait_until};

/// How often is looked how far behind the second firewall is.
const LOOK: Duration = Duration::from_millis(20);
/// Room for states of flows that were not asked for.
const SPARE_STATES: u64 = 100_000;

/// What was found while new flows came.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) rate_pps: f64,
    pub(super) lag_ms: f64,
    pub(super) kept_share: f64,
}

/// Both firewalls, in step.
struct Pair {
    bed: Bed,
    _serving: Process,
    sending: Process,
    _reflecting: Process,
}

/// Both firewalls in step, with room for so many states.
fn pair(settings: &Settings, cancel: &Cancel, count: u64) -> Result<Pair> {
    let bed = Bed::new(settings, count + SPARE_STATES)?;
    let (reflecting, serving) = (bed.reflect()?, bed.serve(SECOND)?);
    let sending = bed.send(FIRST)?;
    wait_until("a session", cancel, || Ok(status(bed.netns(SECOND))?.incoming.bulk_count > 0))?;
    Ok(Pair { bed, _serving: serving, sending, _reflecting: reflecting })
}

/// Whether the second firewall has all that the first one has to send.
pub(super) fn is_in_step(bed: &Bed) -> Result<bool> {
    let out = status(bed.netns(FIRST))?.out;
    let has_bulk = out.is_live && out.bulk_count > 0 && out.bulk_percent.is_none();
    Ok(has_bulk && out.unacknowledged_count == 0 && out.waiting_count == 0)
}

/// What comes in a time.
pub(super) fn count_in(time: Duration, rate_pps: u32) -> u64 {
    let time_ms = time.as_secs() * 1000 + u64::from(time.subsec_millis());
    u64::from(rate_pps) * time_ms / 1000
}

/// New flows for the time of a sample.
pub(super) fn new_flows(settings: &Settings, cancel: &Cancel) -> Result<Found> {
    let count = count_in(settings.sample, settings.new_flows_pps);
    let pair = pair(settings, cancel, count)?;
    let mut generating = pair.bed.generate(count, settings.new_flows_pps)?;
    wait_until("a flow", cancel, || Ok(pair.bed.states(FIRST)? > 0))?;
    let begin = Instant::now();
    let mut lags_ms = Vec::new();
    while !generating.has_ended()? {
        lags_ms.push(status(pair.bed.netns(FIRST))?.out.lag_ms);
        wait(LOOK, cancel)?;
    }
    let took = begin.elapsed();
    // From here on it is known to the sender what has come so far.
    pair.bed.drain()?;
    wait_until("both in step", cancel, || is_in_step(&pair.bed))?;
    let [first, second] = [FIRST, SECOND].map(|which| pair.bed.states(which));
    let (first, second) = (first? as f64, second? as f64);
    Ok(Found {
        rate_pps: first / took.as_secs_f64(),
        lag_ms: percentile_99(lags_ms)?,
        kept_share: (second / first).min(first / second),
    })
}

/// What 99 of 100 lags do not pass; less than 1 ms is not seen.
pub(super) fn percentile_99(mut lags_ms: Vec<u64>) -> Result<f64> {
    lags_ms.sort_unstable();
    let lag_ms = lags_ms.get(lags_ms.len() * 99 / 100).ok_or("nobody has looked")?;
    Ok((*lag_ms as f64).max(1.0))
}

/// New flows while the process that carries states does not run: how long it takes from when it
/// runs again until both have the same states.
pub(super) fn after_a_pause(settings: &Settings, cancel: &Cancel) -> Result<Duration> {
    let count = count_in(settings.pause, settings.new_flows_pps);
    let pair = pair(settings, cancel, count)?;
    pair.sending.signal(Signal::SIGSTOP)?;
    let mut generating = pair.bed.generate(count, settings.new_flows_pps)?;
    wait_until("the last flow", cancel, || generating.has_ended())?;
    pair.sending.signal(Signal::SIGCONT)?;
    let begin = Instant::now();
    wait_until("both in step", cancel, || {
        Ok(is_in_step(&pair.bed)? && pair.bed.states(SECOND)? >= pair.bed.states(FIRST)?)
    })?;
    let took = begin.elapsed();
    if pair.bed.listing(FIRST)? != pair.bed.listing(SECOND)? {
        return Err("both firewalls have as many states, and not the same".into());
    }
    Ok(took)
}
