//! `make bench-fw`: `weir fw` against a minimal XDP router, the kernel and nftables, and against
//! limits of memory and time.
//!
//! Prints a table and writes `bench/fw.json` in cargo's target directory; docs/bench.md says how
//! to read them, and benches/support/command.rs how it ends.

#[path = "../support/chrt.rs"]
mod chrt;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/near.rs"]
mod near;
mod suite;
#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use command::Report;
use suite::{Settings, rows, show};
use weir_wire::units::parse_duration;

/// Longer than a firewall takes for what it leaves until after its start.
const SETTLE: Duration = Duration::from_secs(3);

/// Measures weir's firewall against other routers and firewalls, and against limits.
#[derive(Debug, Parser)]
#[command(name = "bench-fw")]
struct Arguments {
    /// Number of rounds: samples of every figure, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=101))]
    repeats: u32,
    /// How long each device under test is measured in each round.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    sample: Duration,
    /// How long a sample waits for CPUs that share a cache, where a host moves those of a virtual
    /// machine.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    patience: Duration,
    /// Only these rows, by their names in the JSON, and what they are compared with.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Another weir to be measured, instead of the one that was just built.
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
    /// A weir of before: rows that compare 128 and 4,900 flows with it.
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// End with 1 if a floor is missed or could not be judged.
    #[arg(long)]
    strict: bool,
    /// What `cargo bench` gives every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    command::main("fw", arguments.strict, |cancel, say| -> suite::Result<Report> {
        let weir = arguments.weir.clone();
        let settings = Settings {
            sample: arguments.sample,
            settle: SETTLE,
            patience: arguments.patience,
            repeats: arguments.repeats,
            rows: rows::selected(&arguments.only, arguments.before.is_some())?,
            before: arguments.before.clone(),
            weir: weir.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_weir"))),
            divisor: 1,
        };
        let outcome = suite::run(&settings, cancel, say)?;
        Ok(Report {
            table: show::table(&outcome),
            json: show::json(&outcome),
            holds: outcome.rows.iter().all(suite::Row::holds),
        })
    })
}
