//! What `make bench-sync` measures; the tests run the same, tiny.
//!
//! Two firewalls in namespaces, the second one without traffic until it takes over. The first one
//! has its states from a stream that is made up here, from flows that a generator sends and a
//! reflector answers, or from connections of a client.

mod bed;
mod boxes;
mod bulk;
mod follow;
mod load;
pub(crate) mod rows;
pub(crate) mod show;
mod takeover;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_net::cpu;

pub(crate) use crate::limits::{Row, RowSpec, Samples};
use crate::near::Near;
pub(crate) use crate::support::report::Machine;
use rows::{
    BULK, BULK_COST, BULK_FORWARDED, BULK_RATE, CATCH_UP, COST, COST_CONTROL, DEATH, DEATH_KEPT,
    FLOOD_CHANGES, FLOOD_LAG, FLOOD_RATE, HANDOVER, HANDOVER_KEPT, NEW_KEPT, NEW_LAG, NEW_RATE,
    UNDISTURBED, UNDISTURBED_KEPT,
};
use takeover::Why;

/// What a step of the benchmark returns.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How long a sample waits for CPUs that share a cache.
    pub(crate) patience: Duration,
    /// Number of rounds.
    pub(crate) repeats: u32,
    /// How long new flows come in each round.
    pub(crate) sample: Duration,
    /// States of a bulk.
    pub(crate) state_count: u32,
    /// New flows per second.
    pub(crate) new_flows_pps: u32,
    /// For how long the process that carries states is stopped.
    pub(crate) pause: Duration,
    /// Flows that are known.
    pub(crate) known_count: u32,
    /// Packets of these per second while all their states are sent.
    pub(crate) bulk_load_pps: u32,
    /// New flows per second of a flood.
    pub(crate) flood_pps: u32,
    /// Connections that end meanwhile.
    pub(crate) connection_count: u32,
    /// How long known flows, and a flood, are sent.
    pub(crate) load: Duration,
    /// Connections that go over to the second firewall.
    pub(crate) transfer_count: u32,
    /// What is measured: [`rows::ROWS`], or some of them.
    pub(crate) rows: Vec<&'static RowSpec>,
    /// The binary that is the firewall.
    pub(crate) weir: PathBuf,
}

impl Settings {
    fn wants(&self, names: &[&str]) -> bool {
        self.rows.iter().any(|row| names.contains(&row.name))
    }
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What it ran on.
    pub(crate) machine: Machine,
    /// In the order of the settings'.
    pub(crate) rows: Vec<Row>,
    /// Samples that were taken while the first two CPUs were far apart.
    pub(crate) far_count: u32,
}

/// Measures everything, row after row in each round; `say` is told how far it is.
pub(crate) fn run(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let machine = Machine::read();
    let mut samples = Samples::new();
    let near = Near::new(cpu::first_two()?, settings.patience);
    for round in 1..=settings.repeats {
        say(&format!("round {round} of {}", settings.repeats));
        let mut add = |name: &'static str, value: f64| {
            say(&format!("  {name}: {value:.3}"));
            samples.entry(name).or_default().push(value);
        };
        if settings.wants(&[BULK, BULK_RATE]) {
            let took = near.sample(cancel, || bulk::send(settings, cancel))?;
            add(BULK, took.as_secs_f64());
            add(BULK_RATE, f64::from(settings.state_count) / took.as_secs_f64());
        }
        if settings.wants(&[NEW_RATE, NEW_LAG, NEW_KEPT]) {
            let found = near.sample(cancel, || follow::new_flows(settings, cancel))?;
            add(NEW_RATE, found.rate_pps);
            add(NEW_LAG, found.lag_ms);
            add(NEW_KEPT, found.kept_share);
        }
        if settings.wants(&[CATCH_UP]) {
            add(CATCH_UP, follow::after_a_pause(settings, cancel)?.as_secs_f64());
        }
        if settings.wants(&[COST, COST_CONTROL, BULK_COST, BULK_FORWARDED]) {
            let load::Costs { synchronised, alone: [before, after], bulk, paced } =
                near.sample(cancel, || load::costs(settings, cancel))?;
            add(COST, synchronised.cost_ns * 2.0 / (before.cost_ns + after.cost_ns));
            add(COST_CONTROL, after.cost_ns / before.cost_ns);
            add(BULK_COST, bulk.cost_ns / paced.cost_ns);
            add(BULK_FORWARDED, bulk.passed_pps / paced.passed_pps);
        }
        if settings.wants(&[FLOOD_RATE, FLOOD_LAG, FLOOD_CHANGES]) {
            let found = near.sample(cancel, || load::flood(settings, cancel))?;
            add(FLOOD_RATE, found.rate_share);
            add(FLOOD_LAG, found.lag_ms);
            add(FLOOD_CHANGES, found.changes_share);
        }
        for (why, pause, kept) in [
            (Why::Never, UNDISTURBED, UNDISTURBED_KEPT),
            (Why::Plan, HANDOVER, HANDOVER_KEPT),
            (Why::Death, DEATH, DEATH_KEPT),
        ] {
            if settings.wants(&[pause, kept]) {
                let found = takeover::run(settings, cancel, why)?;
                add(pause, found.pause.as_secs_f64() * 1e3);
                add(kept, found.kept_share);
            }
        }
    }
    let rows = settings.rows.iter().map(|&spec| Row::new(spec, &samples)).collect();
    Ok(Outcome { machine, rows, far_count: near.far_count() })
}

/// How long something may take that takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

fn wait(time: Duration, cancel: &Cancel) -> Result<()> {
    if cancel.sleep(time) { Ok(()) } else { Err("interrupted".into()) }
}

/// Looks every few milliseconds whether something is so.
fn wait_until(what: &str, cancel: &Cancel, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > end {
            return Err(format!("{what}: not within {} s", PATIENCE.as_secs()).into());
        }
        wait(Duration::from_millis(10), cancel)?;
    }
    Ok(())
}
