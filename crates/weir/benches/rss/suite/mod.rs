//! What `make bench-rss` measures; the tests run the same, tiny.
//!
//! Hashes are computed on one CPU. Flows are sent over a veth pair in a namespace of its own, which
//! goes with the process; to echo servers, over one between two namespaces, which are written down
//! before they are made, and so are those of a router between a generator and a sink.

mod echo;
mod hash;
mod rerss;
pub(crate) mod rows;
pub(crate) mod show;
mod spread;

use std::error::Error;
use std::time::Duration;

use weir_machine::cancel::Cancel;
use weir_net::cpu::{self, CpuList};

pub(crate) use crate::limits::{Row, RowSpec, Samples};
use crate::near::Near;
pub(crate) use crate::support::report::Machine;

/// What a step of the benchmark returns.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How long a sample waits for CPUs that share a cache.
    pub(crate) patience: Duration,
    /// Number of rounds.
    pub(crate) repeats: u32,
    /// How long each way to hash is measured in each round, at least.
    pub(crate) sample: Duration,
    /// What is measured: [`rows::ROWS`], or some of them.
    pub(crate) rows: Vec<&'static RowSpec>,
    /// Flows that are sent for each table.
    pub(crate) flow_count: u32,
}

impl Settings {
    fn wants(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.name == name)
    }
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What it ran on.
    pub(crate) machine: Machine,
    /// How hashes of many flows are computed here.
    pub(crate) method: weir_bpf::toeplitz::Method,
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
    // Before this thread is pinned: then it may use one alone.
    let cpus = cpu::first_two()?;
    // The last one has fewer interrupts.
    let last = CpuList::new(cpu::online()?.iter().last()).ok_or("there is no CPU")?;
    cpu::pin_current_thread(&last)?;
    let hashes = hash::Hashes::new();
    let wants_flows = [rows::PLACED_V4, rows::PLACED_V6].iter().any(|name| settings.wants(name));
    let bed = if wants_flows { Some(spread::Bed::new()?) } else { None };
    let wants_echo = rows::ECHO.iter().any(|name| settings.wants(name));
    let servers = if wants_echo { Some(echo::Echo::new(cpus)?) } else { None };
    let wants_router = rows::ROUTER.iter().any(|name| settings.wants(name));
    let router = if wants_router { Some(rerss::Bed::new(cpus)?) } else { None };
    let mut samples = Samples::new();
    let near = Near::new(cpus, settings.patience);
    for round in 1..=settings.repeats {
        say(&format!("round {round} of {}", settings.repeats));
        hashes.measure(settings, cancel, &mut samples)?;
        if let Some(bed) = &bed {
            bed.measure(settings, cancel, &mut samples)?;
        }
        if let Some(servers) = &servers {
            servers.measure(settings, (&near, cancel), &mut samples)?;
        }
        rerss::measure_inner(settings, &mut samples)?;
        if let Some(router) = &router {
            router.measure(settings, (&near, cancel), &mut samples)?;
        }
    }
    let rows = settings.rows.iter().map(|&spec| Row::new(spec, &samples)).collect();
    Ok(Outcome { machine, method: weir_bpf::toeplitz::method(), rows, far_count: near.far_count() })
}

/// Where samples are taken, and how it is ended.
type Place<'a> = (&'a Near, &'a Cancel);

/// Adds a round's figure to its row.
fn add(samples: &mut Samples, name: &'static str, value: f64) {
    samples.entry(name).or_default().push(value);
}

fn check(cancel: &Cancel) -> Result<()> {
    if cancel.signal().is_some() { Err("interrupted".into()) } else { Ok(()) }
}
