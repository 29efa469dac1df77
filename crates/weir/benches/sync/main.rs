//! `make bench-sync`: a second firewall is kept in step, by `weir fw sync`.
//!
//! Prints a table and writes `bench/sync.json` in cargo's target directory; docs/bench.md says how
//! to read them, and benches/support/command.rs how it ends.

#[path = "../support/chrt.rs"]
mod chrt;
#[path = "../support/closing.rs"]
mod closing;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/keepalived.rs"]
mod keepalived;
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

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use command::Report;
use suite::{Settings, rows, show};
use weir_wire::units::parse_duration;

/// Measures how a second firewall is kept in step.
#[derive(Debug, Parser)]
#[command(name = "bench-sync")]
struct Arguments {
    /// Number of rounds: samples of every figure, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=101))]
    repeats: u32,
    /// How long new flows come in each round.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    sample: Duration,
    /// How long a sample waits for CPUs that share a cache, where a host moves those of a virtual
    /// machine.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    patience: Duration,
    /// Only these rows, by their names in the JSON.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Another weir to be measured, instead of the one that was just built.
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
    /// End with 1 if a limit is missed or could not be judged.
    #[arg(long)]
    strict: bool,
    /// What `cargo bench` gives every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    command::main("sync", arguments.strict, |cancel, say| -> suite::Result<Report> {
        let weir = arguments.weir.clone();
        let settings = Settings {
            patience: arguments.patience,
            repeats: arguments.repeats,
            sample: arguments.sample,
            state_count: rows::BULK_STATES,
            new_flows_pps: rows::NEW_FLOWS_PPS,
            pause: rows::PAUSE,
            known_count: rows::KNOWN_FLOWS,
            bulk_load_pps: rows::BULK_LOAD_PPS,
            flood_pps: rows::FLOOD_PPS,
            connection_count: rows::CONNECTIONS,
            load: rows::LOAD,
            transfer_count: rows::TRANSFERS,
            rows: rows::selected(&arguments.only)?,
            weir: weir.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_weir"))),
        };
        let outcome = suite::run(&settings, cancel, say)?;
        Ok(Report {
            table: show::table(&outcome),
            json: show::json(&outcome),
            holds: outcome.rows.iter().all(suite::Row::holds),
        })
    })
}
