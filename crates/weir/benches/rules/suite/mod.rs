//! What `make bench-rules` measures; the tests run the same, tiny.
//!
//! One CPU for all. What the command reads is made beforehand, in a directory that is removed at
//! the end.

mod check;
mod evaluate;
pub(crate) mod rows;
pub(crate) mod ruleset;
pub(crate) mod show;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use weir_machine::cancel::Cancel;
use weir_net::cpu::{self, CpuList};

pub(crate) use crate::limits::{Row, RowSpec, Samples};
pub(crate) use crate::support::report::Machine;

/// What a step of the benchmark returns.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Number of rounds.
    pub(crate) repeats: u32,
    /// How long the evaluator is measured in each round, at least.
    pub(crate) sample: Duration,
    /// What is measured: [`rows::ROWS`], or some of them.
    pub(crate) rows: Vec<&'static RowSpec>,
    /// The binary.
    pub(crate) weir: PathBuf,
    /// What the numbers in the rows' names are divided by, for what is checked.
    pub(crate) divisor: u32,
}

impl Settings {
    fn wants(&self, names: &[&str]) -> bool {
        self.rows.iter().any(|row| names.contains(&row.name))
    }

    fn scaled(&self, count: u32) -> u32 {
        count / self.divisor
    }
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
    // Commands inherit the CPU of the thread that starts them. The last one has fewer interrupts.
    let last = cpu::online()?.iter().last();
    let cpus = CpuList::new(last).ok_or("there is no CPU")?;
    cpu::pin_current_thread(&cpus)?;
    let mut samples = Samples::new();
    check::measure(settings, cancel, say, &mut samples)?;
    evaluate::measure(settings, cancel, say, &mut samples)?;
    let rows = settings.rows.iter().map(|&spec| Row::new(spec, &samples)).collect();
    Ok(Outcome { machine, rows })
}

/// How long the only thread of a process, or one thread, has waited for its CPU so far: the second
/// number of its `schedstat` (Documentation/scheduler/sched-stats.rst). That time is other
/// programs'. A kernel that does not count it says 0, and figures are then per wall clock.
fn waited(process: &str) -> Duration {
    let text = std::fs::read_to_string(format!("{process}/schedstat")).unwrap_or_default();
    let waited_ns = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(waited_ns.unwrap_or(0))
}
