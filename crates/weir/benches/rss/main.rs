//! `make bench-rss`: the hash of receive side scaling, queues that are predicted, echo servers, and
//! packets that are handed to CPUs by what they carry.
//!
//! Prints a table and writes `bench/rss.json` in cargo's target directory; docs/bench.md says how
//! to read them, and benches/support/command.rs how it ends.

#[path = "../support/closing.rs"]
mod closing;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/limits.rs"]
mod limits;
#[path = "../support/near.rs"]
mod near;
#[path = "../support/report.rs"]
mod report;
#[path = "../support/schedstat.rs"]
mod schedstat;
mod suite;
mod support {
    pub(crate) use super::report;
}

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use command::Report;
use suite::{Settings, rows, show};
use weir_wire::units::parse_duration;

/// Measures the hash of receive side scaling, queues that are predicted, echo servers, and tunnels.
#[derive(Debug, Parser)]
#[command(name = "bench-rss")]
struct Arguments {
    /// Number of rounds: samples of every figure, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=101))]
    repeats: u32,
    /// How long each way to hash, and each offered rate, is measured in each round.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    sample: Duration,
    /// How long a sample waits for CPUs that share a cache, where a host moves those of a virtual
    /// machine.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    patience: Duration,
    /// Only these rows, by their names in the JSON.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// End with 1 if a limit is missed or could not be judged.
    #[arg(long)]
    strict: bool,
    /// What `cargo bench` gives every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    command::main("rss", arguments.strict, |cancel, say| -> suite::Result<Report> {
        let settings = Settings {
            patience: arguments.patience,
            repeats: arguments.repeats,
            sample: arguments.sample,
            rows: rows::selected(&arguments.only)?,
            flow_count: 10_000,
        };
        let outcome = suite::run(&settings, cancel, say)?;
        Ok(Report {
            table: show::table(&outcome),
            json: show::json(&outcome),
            holds: outcome.rows.iter().all(suite::Row::holds),
        })
    })
}
