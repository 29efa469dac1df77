//! What `make bench-fw` measures; the tests run the same, tiny.
//!
//! Every device under test forwards between two veth pairs, alone on its CPU: generator and sink
//! share the other. In each round every device has its turn, freshly set up, next to those that it
//! is compared with, and the median over the rounds counts. Memory, start and listing are of the
//! command `weir fw` itself.

mod bed;
mod boxes;
mod flows;
mod limits;
mod memory;
mod priority;
mod rates;
pub(crate) mod rows;
pub(crate) mod show;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;

pub(crate) use crate::support::report::Machine;
pub(crate) use crate::support::rows::{AllSeries, Row, RowSpec};

/// What a step of the benchmark returns.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// What stops a step.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How long each device is measured in each round.
    pub(crate) sample: Duration,
    /// From the start of a device until it is measured, at the least.
    pub(crate) settle: Duration,
    /// How long a sample waits for CPUs that share a cache.
    pub(crate) patience: Duration,
    /// Number of rounds.
    pub(crate) repeats: u32,
    /// What is measured: [`rows::ROWS`], or some of them.
    pub(crate) rows: Vec<&'static RowSpec>,
    /// The command whose `fw` is measured.
    pub(crate) weir: PathBuf,
    /// Another one, that it is compared with.
    pub(crate) before: Option<PathBuf>,
    /// What the numbers of flows and states in the rows' names are divided by, for what is checked.
    pub(crate) divisor: u64,
}

impl Settings {
    /// Whether a row needs the series.
    fn wants(&self, series: &str) -> bool {
        self.rows.iter().any(|row| row.series == series)
    }

    /// A number of states, divided as it is to be.
    fn scaled(&self, count: u64) -> u64 {
        (count / self.divisor).max(1)
    }
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What it ran on.
    pub(crate) machine: Machine,
    /// In the order of the settings'.
    pub(crate) rows: Vec<Row>,
    /// Samples that were taken while generator and device were far apart.
    pub(crate) far_count: u32,
}

/// Measures everything; `say` is told how far it is.
pub(crate) fn run(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let machine = Machine::read();
    let bed = bed::Bed::new(settings, cancel)?;
    let mut series = AllSeries::new();
    let begin = Instant::now();
    for round in 1..=settings.repeats {
        let passed = begin.elapsed().as_secs();
        say(&format!("round {round} of {} after {passed} s", settings.repeats));
        rates::round(settings, &bed, say, &mut series)?;
        limits::round(settings, &bed, say, &mut series)?;
    }
    let rows = settings.rows.iter().map(|&spec| Row::new(spec, &series)).collect();
    Ok(Outcome { machine, rows, far_count: bed.far_count() })
}
