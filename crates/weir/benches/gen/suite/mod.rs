//! What `make bench-gen` measures; the tests run the same, tiny.
//!
//! All figures come from a veth pair between two namespaces, in rounds: each
//! round takes one sample of everything, most of them in slices in turns, so that what else the
//! machine does hits all of them, and the median over the rounds counts. There are two regimes
//! ([`bed::Regime`]): one CPU sends and receives, or the receiver has a CPU of its own.

mod bed;
mod rounds;
pub(crate) mod rows;
mod senders;
pub(crate) mod show;
mod taken;
mod trafgen;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use weir_machine::cancel::Cancel;

pub(crate) use crate::support::report::Machine;
pub(crate) use crate::support::rows::{AllSeries, Row, RowSpec};

/// What a step of the benchmark returns.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How long each sender is measured in each round.
    pub(crate) sample: Duration,
    /// In how many slices: senders take turns slice by slice.
    pub(crate) slices: u32,
    /// For how long a rate is held in each round.
    pub(crate) rate_sample: Duration,
    /// Number of rounds.
    pub(crate) repeats: u32,
    /// What is measured: [`rows::ROWS`], or some of them.
    pub(crate) rows: Vec<&'static RowSpec>,
    /// The binary whose memory is measured.
    pub(crate) weir: PathBuf,
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What it ran on.
    pub(crate) machine: Machine,
    /// In the order of the settings'.
    pub(crate) rows: Vec<Row>,
}

/// Measures everything; `say` is told how far it is.
pub(crate) fn run(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let machine = Machine::read();
    let series = rounds::run(settings, cancel, say)?;
    let rows = settings.rows.iter().map(|&spec| Row::new(spec, &series)).collect();
    Ok(Outcome { machine, rows })
}
