//! `make bench-http`: connections over TCP, without sockets and with them, and through firewalls.
//!
//! Prints a table and writes `bench/http.json` in cargo's target directory; docs/bench.md says how
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

/// Measures connections over TCP, without sockets and with them, and through firewalls.
#[derive(Debug, Parser)]
#[command(name = "bench-http")]
struct Arguments {
    /// Number of rounds: samples of every figure, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=101))]
    repeats: u32,
    /// How long each way to connect is measured in each round.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
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

/// Connections of which the ledger is compared with the firewall's own count.
const LEDGER_CONNECTIONS: u64 = 20_000;
/// Connections that are held at a time.
const HELD_CONNECTIONS: u64 = 250_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    command::main("http", arguments.strict, |cancel, say| -> suite::Result<Report> {
        let settings = Settings {
            patience: arguments.patience,
            repeats: arguments.repeats,
            sample: arguments.sample,
            ledger_connections: LEDGER_CONNECTIONS,
            held_connections: HELD_CONNECTIONS,
            rows: rows::selected(&arguments.only)?,
            weir: PathBuf::from(env!("CARGO_BIN_EXE_weir")),
        };
        let outcome = suite::run(&settings, cancel, say)?;
        Ok(Report {
            table: show::table(&outcome),
            json: show::json(&outcome),
            holds: outcome.rows.iter().all(suite::Row::holds),
        })
    })
}
