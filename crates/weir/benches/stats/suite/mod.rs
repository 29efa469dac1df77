//! What `make bench-stats` measures; the tests run the same, tiny.
//!
//! Every figure is of the command itself: the time from its start to its end, and the highest
//! resident size on the way. The command has two CPUs. What it reads is made beforehand, in a
//! directory that is removed at the end.

pub(crate) mod archive;
pub(crate) mod campaign;
mod command;
mod compare;
pub(crate) mod rows;
pub(crate) mod show;

use std::error::Error;
use std::path::PathBuf;

use weir_machine::cancel::Cancel;
use weir_net::cpu::{self, CpuList};

pub(crate) use crate::limits::{Row, RowSpec, Samples};
pub(crate) use crate::support::report::Machine;

/// What a step of the benchmark returns.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// CPUs that a command has.
const CPU_COUNT: usize = 2;

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Number of rounds.
    pub(crate) repeats: u32,
    /// What is measured: [`rows::ROWS`], or some of them.
    pub(crate) rows: Vec<&'static RowSpec>,
    /// The binary.
    pub(crate) weir: PathBuf,
    /// Size of what is read, as a share of what the rows' names say.
    pub(crate) scale: f64,
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
    // Commands inherit the CPUs of the thread that starts them.
    let cpus = CpuList::new(cpu::online()?.iter().take(CPU_COUNT)).ok_or("there is no CPU")?;
    cpu::pin_current_thread(&cpus)?;
    let mut samples = Samples::new();
    let wants = |names: &[&str]| settings.rows.iter().any(|row| names.contains(&row.name));
    if wants(&[rows::IMPORT_TIME, rows::IMPORT_MEMORY]) {
        archive::measure(settings, cancel, say, &mut samples)?;
    }
    if wants(&[rows::REPORT_TIME]) {
        campaign::measure(settings, cancel, say, &mut samples)?;
    }
    if wants(&[rows::COMPARE_TIME]) {
        compare::measure(settings, cancel, say, &mut samples)?;
    }
    let rows = settings.rows.iter().map(|&spec| Row::new(spec, &samples)).collect();
    Ok(Outcome { machine, rows })
}

/// A number of some thousands at most, 1 at least.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of some thousands"
)]
fn scaled(count: f64) -> u32 {
    count.ceil().max(1.0) as u32
}
