//! `make bench-gen`: the generator and the sink against their floors, in one run on one veth pair.
//!
//! Prints a table and writes `bench/gen.json` in cargo's target directory; docs/bench.md says how
//! to read them, and benches/support/command.rs how it ends.

#[path = "../support/command.rs"]
mod command;
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

/// Measures the generator and the sink against their floors.
#[derive(Debug, Parser)]
#[command(name = "bench-gen")]
struct Arguments {
    /// Number of rounds: samples of every figure, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=101))]
    repeats: u32,
    /// How long each sender is measured in each round.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    sample: Duration,
    /// For how long rates are held in each round.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    rate_sample: Duration,
    /// Only these rows, by their names in the JSON, and what they are compared with.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// End with 1 if a floor is missed or could not be judged.
    #[arg(long)]
    strict: bool,
    /// What `cargo bench` gives every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Slices of a sample: a fifth of a second each, unless another length of samples is asked for.
const SLICES: u32 = 5;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    command::main("gen", arguments.strict, |cancel, say| -> suite::Result<Report> {
        let settings = Settings {
            sample: arguments.sample,
            slices: SLICES,
            rate_sample: arguments.rate_sample,
            repeats: arguments.repeats,
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
