//! The verdict on a trial: what limited its figure, or why the figure is void.
//!
//! All thresholds stand in one table, [`THRESHOLDS`], which the code below reads and every report
//! prints. The rules are tried in the order of [`judge`]; the first that holds decides. Nothing
//! here changes a number.

use weir_stats::Threshold;

use crate::counters::Place;
use crate::machine_use::{CpuUse, Distance, MachineUse, NEAR_NS};
use crate::number;
use crate::record::{Check, Drop, Ledger, TrialResult, Verdict, VerdictKind};
use crate::unit::Unit;

const RESIDUAL_MAX: Threshold = Threshold::new(
    "residual_max",
    0.001,
    "of offered",
    "more packets than this that no counter explains make a trial invalid",
);
/// Up to which loss all that was offered counts as forwarded.
pub(crate) const LOSS_FREE_MAX: Threshold = Threshold::new(
    "loss_free_max",
    0.001,
    "of offered",
    "a loss up to this counts as none: the DUT forwarded what was offered",
);
const DUT_BOUND_MAX: Threshold = Threshold::new(
    "dut_bound_max",
    0.90,
    "of calibrated",
    "a DUT that loses packets is dut-bound; above this share of what the path delivers \
     without a DUT the reason says that the path is close",
);
/// From which share of the path on its figure is the path's.
pub const LINK_BOUND_MIN: Threshold = Threshold::new(
    "link_bound_min",
    0.99,
    "of calibrated",
    "at maximum rate, delivering at least this much of what the path delivers without a \
     DUT is link-bound; where the path's line rate is stated instead, at any rate",
);
/// Also of imported runs.
pub const OVERLOADED_MAX: Threshold = Threshold::new(
    "overloaded_max",
    0.001,
    "of offered",
    "a DUT that is alive and delivers at most this much is overloaded",
);
/// From which share on the losses are of one place.
pub const PLACE_SHARE_MIN: Threshold = Threshold::new(
    "place_share_min",
    0.50,
    "of lost",
    "a loss is located where at least this share of the lost packets was counted",
);
const RATE_KEPT_MIN: Threshold = Threshold::new(
    "rate_kept_min",
    0.99,
    "of requested",
    "a generator that offers less than this of a requested rate did not keep it; a DUT that \
     delivers at least this much of what such a generator offers is not the limit",
);
const TREND_MAX: Threshold = Threshold::new(
    "trend_max",
    0.50,
    "of median",
    "a trend over the trial (Theil–Sen) above this makes it unstable",
);
const JUMP_MAX: Threshold = Threshold::new(
    "jump_max",
    0.50,
    "of median",
    "a shift of the level inside the trial above this makes it unstable",
);

/// Of imported runs, which have no ledger.
pub const IMPORTED_GENERATOR_BOUND_MIN: Threshold = Threshold::new(
    "imported_generator_bound_min",
    0.99,
    "of offered",
    "an imported run that received at least this much of what was sent is \
     generator-bound",
);

/// On links of real machines.
pub const STRAY_MAX: Threshold = Threshold::new(
    "stray_max",
    0.001,
    "of offered",
    "on links between machines, this many frames more at a counting point than at the one \
     before it are residual (ARP, spanning tree), and no negative loss",
);
/// On links of real machines.
pub const OPINION_MAX: Threshold = Threshold::new(
    "opinion_max",
    0.001,
    "of offered",
    "a switch whose count differs by more than this from that of the machine beside it \
     makes a trial invalid",
);

const FOREIGN_MAX: Threshold = Threshold::new(
    "foreign_max",
    0.05,
    "of a CPU's time",
    "more than this of a CPU of the trial for anything that is neither the lab's nor the \
     DUT's makes it disturbed",
);
const MEMORY_PRESSURE_MAX: Threshold = Threshold::new(
    "memory_pressure_max",
    0.05,
    "of the time",
    "a machine whose tasks wait for memory in more than this makes a trial disturbed",
);

const NEVER_IDLE_MIN: Threshold = Threshold::new(
    "never_idle_min",
    0.99,
    "of a CPU's time",
    "a CPU that was busy for this much is never idle: what was stolen from it and how its \
     frequency changed can be believed, and are judged",
);
const STOLEN_MAX: Threshold = Threshold::new(
    "stolen_max",
    0.10,
    "of a CPU's time",
    "more than this that the hypervisor took of a CPU that was never idle makes a trial \
     disturbed",
);
const FREQUENCY_FALL_MAX: Threshold = Threshold::new(
    "frequency_fall_max",
    0.10,
    "of the highest",
    "a CPU that was never idle and whose frequency fell by more than this during a trial \
     makes it disturbed",
);

const DISTANCE_MAX: Threshold = Threshold::new(
    "distance_max",
    1.5,
    "of the shortest",
    "CPUs that share no cache (a cache line takes 70 ns and more) are too far from each other \
     where their distance was shorter by more than this; with --wait, that makes a trial disturbed",
);

/// Every threshold of weir's own trials, for code, reports and documentation.
pub const THRESHOLDS: [Threshold; 19] = [
    RESIDUAL_MAX,
    FOREIGN_MAX,
    MEMORY_PRESSURE_MAX,
    NEVER_IDLE_MIN,
    STOLEN_MAX,
    FREQUENCY_FALL_MAX,
    DISTANCE_MAX,
    LOSS_FREE_MAX,
    DUT_BOUND_MAX,
    RING_IDLE_MIN,
    CLOSED_IDLE_MIN,
    LINK_BOUND_MIN,
    OVERLOADED_MAX,
    PLACE_SHARE_MIN,
    RATE_KEPT_MIN,
    TREND_MAX,
    JUMP_MAX,
    STRAY_MAX,
    OPINION_MAX,
];

const RING_IDLE_MIN: Threshold = Threshold::new(
    "ring_idle_min",
    0.10,
    "of a CPU's time",
    "a DUT whose busiest CPU would have been idle for at least this with all packets that it \
     lost, most of them before it had received them, is ring-bound: bursts overran a ring",
);

const CLOSED_IDLE_MIN: Threshold = Threshold::new(
    "closed_idle_min",
    0.10,
    "of a CPU's time",
    "a DUT whose busiest CPU was idle for at least this is not what limits a closed loop of \
     requests",
);

/// The counting points that come before the DUT's first one.
const BEFORE_DUT: [&str; 2] = ["offered", "accepted"];

/// What a verdict is reached from.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The figure of the trial.
    pub result: &'a TrialResult,
    /// Where its packets went.
    pub ledger: &'a Ledger,
    /// What was checked.
    pub checks: &'a [Check],
    /// What is known of the path without the DUT.
    pub path: Path,
    /// What its machines did meanwhile, by name; the DUT's, or the one that carries all, has none.
    pub machines: &'a [(&'a str, &'a MachineUse)],
    /// What the figure counts.
    pub unit: Unit,
}

/// What is known of the path without the DUT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Path {
    /// Nothing yet: this trial is its calibration, without a DUT.
    Calibration,
    /// Packets per second that it delivered without the DUT.
    Calibrated(f64),
    /// Packets per second that its slowest link carries; the DUT cannot be left out.
    LineRate(f64),
    /// Nothing: the DUT cannot be left out, and no rate of the links is stated.
    Unknown,
}

impl Path {
    /// Packets per second that the path can deliver, if they are known.
    #[must_use]
    pub fn rate_pps(self) -> Option<f64> {
        match self {
            Self::Calibrated(rate_pps) | Self::LineRate(rate_pps) => {
                Some(rate_pps).filter(|rate_pps| *rate_pps > 0.0)
            }
            Self::Calibration | Self::Unknown => None,
        }
    }

    /// What a share is of, in words.
    fn whole(self) -> &'static str {
        match self {
            Self::LineRate(_) => "of the line rate",
            _ => "of what the path delivers without the DUT",
        }
    }
}

/// Reaches the verdict.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    void(evidence)
        .or_else(|| Some(verdict(VerdictKind::Disturbed, disturbance(evidence.machines)?)))
        .or_else(|| overloaded(evidence))
        .or_else(|| unstable(evidence))
        .unwrap_or_else(|| limit(evidence))
}

/// A trial that never got as far as measuring.
#[must_use]
pub fn invalid(reason: impl Into<String>) -> Verdict {
    Verdict { kind: VerdictKind::Invalid, reason: reason.into() }
}

fn verdict(kind: VerdictKind, reason: String) -> Verdict {
    Verdict { kind, reason }
}

/// What voids the figure.
fn void(e: &Evidence<'_>) -> Option<Verdict> {
    if let Some(fault) = e.ledger.faults.first() {
        return Some(invalid(fault.clone()));
    }
    if let Some(check) = e.checks.iter().find(|c| !c.passed) {
        return Some(invalid(format!("check `{}` failed: {}", check.name, check.detail)));
    }
    if e.ledger.points.first().is_none_or(|p| p.packets == 0) {
        return Some(invalid(format!("the generator offered no {}", e.unit.things())));
    }
    if e.ledger.residual_ratio > RESIDUAL_MAX.value {
        return Some(invalid(format!(
            "{} {} ({}) are not explained by any counter; at most {} may be",
            e.ledger.residual_packets,
            e.unit.things(),
            number::share(e.ledger.residual_ratio),
            number::percent(RESIDUAL_MAX.value),
        )));
    }
    if e.result.sample_count == 0 {
        return Some(invalid("not a single sample was taken"));
    }
    None
}

/// What else the machines did, in words, if that was too much for a figure; see
/// [`Evidence::machines`].
#[must_use]
pub fn disturbance(machines: &[(&str, &MachineUse)]) -> Option<String> {
    let reasons = [foreign, stolen, slowed, moved, out_of_memory].into_iter();
    let mut all =
        reasons.flat_map(|reason| machines.iter().map(move |(name, m)| (reason(m), name)));
    let (reason, name) = all.find_map(|(reason, name)| Some((reason?, name)))?;
    Some(if name.is_empty() { reason } else { format!("machine {name}: {reason}") })
}

/// The CPUs that were never idle. Of others, a hypervisor may count as stolen what nobody asked
/// for, and a frequency is that of a pause.
fn never_idle(machine: &MachineUse) -> impl Iterator<Item = (usize, &CpuUse)> {
    let cpus = machine.cpus.iter().map(|(cpu, used)| (*cpu, used));
    cpus.filter(|(_, used)| used.busy_ratio >= NEVER_IDLE_MIN.value)
}

/// The CPU that the hypervisor took most of, if that was too much.
fn stolen(machine: &MachineUse) -> Option<String> {
    let ratios = never_idle(machine).map(|(cpu, used)| (cpu, used.stolen_ratio));
    let (cpu, ratio) = ratios.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (ratio > STOLEN_MAX.value).then(|| {
        format!(
            "the hypervisor took {} of CPU {cpu}, which was never idle; at most {} may be stolen",
            number::share(ratio),
            number::percent(STOLEN_MAX.value)
        )
    })
}

/// The CPU whose frequency fell most, if that was too much.
fn slowed(machine: &MachineUse) -> Option<String> {
    let fall = |(cpu, used): (usize, &CpuUse)| {
        let span = used.frequency_khz.filter(|span| span.max > 0.0)?;
        Some((cpu, 1.0 - span.min / span.max))
    };
    let (cpu, ratio) = never_idle(machine).filter_map(fall).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (ratio > FREQUENCY_FALL_MAX.value).then(|| {
        format!(
            "the frequency of CPU {cpu}, which was never idle, fell by {} during the trial; at \
             most {} is steady",
            number::share(ratio),
            number::percent(FREQUENCY_FALL_MAX.value)
        )
    })
}

/// How far the DUT's CPU was from the generator's, if that was too much.
fn moved(machine: &MachineUse) -> Option<String> {
    let Distance { ns, nearest_ns } = machine.distance?;
    let nearest_ns = nearest_ns?;
    is_far(ns.max, nearest_ns).then(|| {
        format!(
            "the DUT's CPU was too far from the generator's: a cache line took {:.0} ns, and \
             {nearest_ns:.0} ns at another time; at most {} of that is near",
            ns.max,
            number::percent(DISTANCE_MAX.value)
        )
    })
}

/// Whether two CPUs at a distance (ns) share no cache, and were seen nearer to each other.
pub(crate) fn is_far(distance_ns: f64, nearest_ns: f64) -> bool {
    distance_ns > NEAR_NS && distance_ns > nearest_ns * DISTANCE_MAX.value
}

/// The CPU that had the most of anything else, if that was too much.
fn foreign(machine: &MachineUse) -> Option<String> {
    let uses = machine.cpus.iter().filter_map(|(cpu, used)| Some((*cpu, used.foreign_ratio?)));
    let above = uses.filter(|(_, ratio)| *ratio > FOREIGN_MAX.value);
    let (cpu, ratio) = above.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut names: Vec<String> = Vec::new();
    for task in machine.foreign.iter().filter(|task| task.cpu == cpu) {
        names.push(format!(
            "{} (process {}) {}",
            task.name,
            task.process,
            number::share(task.ratio)
        ));
    }
    for seen in machine.foreign_interrupts.iter().filter(|seen| seen.cpu == cpu) {
        names.push(format!("{} {}", seen.name, number::share(seen.ratio)));
    }
    let who = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    Some(format!(
        "{} of CPU {cpu} went to something else{who}; at most {} may",
        number::share(ratio),
        number::percent(FOREIGN_MAX.value)
    ))
}

fn out_of_memory(machine: &MachineUse) -> Option<String> {
    let ratio = machine.pressure?.memory_ratio;
    (ratio > MEMORY_PRESSURE_MAX.value).then(|| {
        format!(
            "tasks waited for memory in {} of the time; at most {} is undisturbed",
            number::share(ratio),
            number::percent(MEMORY_PRESSURE_MAX.value)
        )
    })
}

fn overloaded(e: &Evidence<'_>) -> Option<Verdict> {
    let offered = e.ledger.points.first()?.packets;
    let delivered = e.ledger.points.last()?.packets;
    let share = share(delivered, offered);
    let place = located(e.ledger);
    (e.path != Path::Calibration && share <= OVERLOADED_MAX.value && place == Some(Place::Dut))
        .then(|| {
            verdict(
                VerdictKind::Overloaded,
                format!(
                    "the DUT answered before and after, and delivered {} of what was offered",
                    number::share(share)
                ),
            )
        })
}

fn unstable(e: &Evidence<'_>) -> Option<Verdict> {
    let r = e.result;
    let over = |ratio: Option<f64>, bound: f64| ratio.filter(|r| r.abs() > bound);
    let (what, seen, bound) = if let Some(seen) = over(r.trend_ratio, TREND_MAX.value) {
        ("trend", seen, TREND_MAX.value)
    } else if let Some(seen) = over(r.jump_ratio, JUMP_MAX.value) {
        ("jump", seen, JUMP_MAX.value)
    } else if r.rate_pps <= 0.0 && r.rate_pps_max > 0.0 {
        return Some(verdict(
            VerdictKind::Unstable,
            "in most of the samples nothing was delivered, in some of them something was".into(),
        ));
    } else {
        return None;
    };
    Some(verdict(
        VerdictKind::Unstable,
        format!(
            "the samples {what} by {} of their median inside the trial; at most {} is stable",
            number::share(seen),
            number::percent(bound)
        ),
    ))
}

/// What limited a figure that stands.
fn limit(e: &Evidence<'_>) -> Verdict {
    let things = e.unit.things();
    let loss = e.ledger.loss_ratio();
    let rate = e.result.rate_pps;
    let ratio = e.path.rate_pps().map(|path| rate / path);
    // A line rate bounds what is offered, too; a calibration at a rate says nothing of the path.
    let is_line = matches!(e.path, Path::LineRate(_));
    let at_line = ratio.is_some_and(|r| r >= LINK_BOUND_MIN.value)
        && (is_line || e.result.requested_pps.is_none());
    if loss <= LOSS_FREE_MAX.value {
        return match ratio.filter(|_| !at_line && is_closed_loop(e)) {
            Some(ratio) => closed_loop(e, ratio),
            None => loss_free(e, loss, ratio.filter(|_| at_line)),
        };
    }
    if !keeps_rate(e.result) && loss <= 1.0 - RATE_KEPT_MIN.value {
        return verdict(
            VerdictKind::GeneratorBound,
            format!("{} of the {things} were lost{}", number::share(loss), rate_not_kept(e)),
        );
    }
    match (located(e.ledger), ratio) {
        (Some(Place::Sink), _) => verdict(
            VerdictKind::SinkBound,
            format!("{} of the {things} were lost, most of them at the sink", number::share(loss)),
        ),
        (Some(Place::Generator), _) => verdict(
            VerdictKind::GeneratorBound,
            format!(
                "{} of the {things} were lost {}",
                number::share(loss),
                match e.unit {
                    Unit::Pps | Unit::Bps => "before they left the generator",
                    Unit::Cps | Unit::Connections | Unit::Rps => "most of them at the generator",
                }
            ),
        ),
        (_, Some(r)) if at_line => verdict(
            VerdictKind::LinkBound,
            format!("delivered {} {}", number::share(r), e.path.whole()),
        ),
        (Some(Place::Dut), None) if e.path == Path::Calibration => {
            invalid("a loss in the DUT, in a run that has no DUT")
        }
        (Some(Place::Dut), _) => match overrun(e.ledger, dut_machine(e)) {
            Some(overrun) => {
                verdict(VerdictKind::RingBound, ring_bound_reason(&overrun, (loss, things)))
            }
            None => verdict(VerdictKind::DutBound, dut_bound_reason(e, loss, ratio)),
        },
        (None, _) => invalid(format!(
            "{} of the {things} were lost, and no place lost {} of them",
            number::share(loss),
            number::percent(PLACE_SHARE_MIN.value)
        )),
    }
}

/// Whether nothing was offered before what came before it had its answer.
fn is_closed_loop(e: &Evidence<'_>) -> bool {
    e.unit == Unit::Rps && e.result.requested_pps.is_none()
}

/// The verdict on a closed loop that lost nothing, which has its next requests as soon as there are
/// answers: the DUT limits it if it had no time left, or else those who ask and answer, or how many
/// of them there are.
fn closed_loop(e: &Evidence<'_>, ratio: f64) -> Verdict {
    let answered = format!(
        "each connection had its next request as soon as it had its answer, and {} {} came",
        number::share(ratio),
        e.path.whole()
    );
    let idle_ratio = dut_machine(e).and_then(MachineUse::dut_busy_ratio).map(|busy| 1.0 - busy);
    match idle_ratio.filter(|idle_ratio| *idle_ratio >= CLOSED_IDLE_MIN.value) {
        Some(idle_ratio) => verdict(
            VerdictKind::GeneratorBound,
            format!(
                "{answered}; the DUT's busiest CPU was idle for {} of the time: with more \
                 connections, or more CPUs for client and server, more may be possible",
                number::share(idle_ratio)
            ),
        ),
        None => verdict(VerdictKind::DutBound, answered),
    }
}

/// The verdict on a trial that lost nothing: the offer limited it, or the path did.
fn loss_free(e: &Evidence<'_>, loss: f64, of_line: Option<f64>) -> Verdict {
    match of_line {
        Some(r) if matches!(e.path, Path::LineRate(_)) => verdict(
            VerdictKind::LinkBound,
            format!("lost nothing, and delivered {} of the line rate", number::share(r)),
        ),
        Some(r) => verdict(
            VerdictKind::LinkBound,
            format!(
                "offered as fast as the generator can, and delivered {} of what the path \
                 delivers without the DUT",
                number::share(r)
            ),
        ),
        None => verdict(
            VerdictKind::GeneratorBound,
            format!(
                "all that was offered was delivered (loss {}): more may be possible{}{}",
                number::share(loss),
                rate_not_kept(e),
                unknown_path(e.path),
            ),
        ),
    }
}

/// Whether the generator kept the rate that was asked for, if one was.
fn keeps_rate(r: &TrialResult) -> bool {
    r.requested_pps.is_none_or(|asked| r.offered_pps >= asked * RATE_KEPT_MIN.value)
}

/// Says so if the generator did not keep the rate that was asked for.
fn rate_not_kept(e: &Evidence<'_>) -> String {
    match e.result.requested_pps {
        Some(asked) if !keeps_rate(e.result) => format!(
            "; the generator did not keep its rate: asked {}, offered {}",
            e.unit.written(asked),
            e.unit.written(e.result.offered_pps)
        ),
        _ => String::new(),
    }
}

/// Says so if nothing is known of what the path could do.
fn unknown_path(path: Path) -> &'static str {
    match path {
        Path::Unknown => "; no rate of the links is stated, so they may be the limit",
        _ => "",
    }
}

/// A ring of the DUT that overran although the DUT had time to empty it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overrun<'a> {
    /// The counter that has most of what was lost so.
    counter: &'a str,
    /// In which part of the time the busiest CPU of the DUT was idle.
    idle_ratio: f64,
}

/// Whether most of what was lost was lost so. `machine` is the one that the DUT is on.
#[must_use]
pub fn overrun<'a>(ledger: &'a Ledger, machine: Option<&MachineUse>) -> Option<Overrun<'a>> {
    let busy_ratio = machine?.dut_busy_ratio()?;
    // What it would have been busy for with all that was offered.
    let needed_ratio = busy_ratio / (1.0 - ledger.loss_ratio());
    // What the DUT has not received was lost on the way into it.
    let is_ring = |d: &&Drop| d.place == Place::Dut && BEFORE_DUT.contains(&d.after.as_str());
    let rings = || ledger.drops.iter().filter(is_ring);
    let in_rings: u64 = rings().map(|drop| drop.packets).sum();
    let lost: u64 = ledger.drops.iter().map(|drop| drop.packets).sum();
    let most = rings().max_by_key(|drop| drop.packets)?;
    let is_most = in_rings > 0 && share(in_rings, lost) >= PLACE_SHARE_MIN.value;
    (is_most && needed_ratio <= 1.0 - RING_IDLE_MIN.value)
        .then_some(Overrun { counter: &most.name, idle_ratio: 1.0 - busy_ratio })
}

/// The machine that the DUT is on.
fn dut_machine<'a>(e: &Evidence<'a>) -> Option<&'a MachineUse> {
    e.machines.iter().find(|(name, _)| name.is_empty()).map(|(_, machine)| *machine)
}

fn ring_bound_reason(overrun: &Overrun<'_>, (loss, things): (f64, &str)) -> String {
    format!(
        "the DUT lost {} of the {things}, most of them as `{}`, although its busiest CPU was idle \
         for {} of the time, long enough for all of them: they came, or were fetched, in bursts \
         that the ring does not hold",
        number::share(loss),
        overrun.counter,
        number::share(overrun.idle_ratio)
    )
}

fn dut_bound_reason(e: &Evidence<'_>, loss: f64, ratio: Option<f64>) -> String {
    let drop = e.ledger.drops.iter().filter(|d| d.place == Place::Dut).max_by_key(|d| d.packets);
    let most = drop.map_or_else(String::new, |d| format!(", most of them as `{}`", d.name));
    let margin = match ratio {
        Some(ratio) if ratio > DUT_BOUND_MAX.value => format!(
            "; that is above {} of it, so the path is close to being the limit",
            number::percent(DUT_BOUND_MAX.value)
        ),
        _ => String::new(),
    };
    let delivered = match (ratio, e.path) {
        (Some(ratio), Path::LineRate(_)) => {
            format!("; it delivered {} of the line rate", number::share(ratio))
        }
        (Some(ratio), _) => {
            format!("; it delivered {} of what the path delivers without it", number::share(ratio))
        }
        (None, path) => unknown_path(path).to_owned(),
    };
    format!(
        "the DUT lost {} of the {}{most}{delivered}{margin}{}",
        number::share(loss),
        e.unit.things(),
        rate_not_kept(e)
    )
}

/// The place that lost at least the required share.
fn located(ledger: &Ledger) -> Option<Place> {
    ledger.main_place().filter(|&(_, share)| share >= PLACE_SHARE_MIN.value).map(|(place, _)| place)
}

#[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests;
