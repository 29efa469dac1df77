//! `make bench-rules`: the pf.conf language and the evaluator against their limits.
//!
//! Prints a table and writes `bench/rules.json` in cargo's target directory; docs/bench.md says how
//! to read them. It ends with 0 if everything could be done, whether limits were kept or not; with
//! `--strict`, a limit that was passed makes it end with 1. 2 means that it could not run, 130 or
//! 143 that it was interrupted; its files are gone in any case.

mod suite;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use suite::{Outcome, Settings, rows, show};
use weir_gen::units::parse_duration;
use weir_lab::cancel::Cancel;

/// Measures the pf.conf language and the evaluator against their limits.
#[derive(Debug, Parser)]
#[command(name = "bench-rules")]
struct Arguments {
    /// Number of rounds: samples of every figure, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=101))]
    repeats: u32,
    /// How long the evaluator is measured in each round.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    sample: Duration,
    /// Only these rows, by their names in the JSON.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// End with 1 if a limit is passed or could not be judged.
    #[arg(long)]
    strict: bool,
    /// What `cargo bench` gives every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "bench-rules: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> suite::Result<u8> {
    let cancel = listen()?;
    let settings = Settings {
        repeats: arguments.repeats,
        sample: arguments.sample,
        rows: rows::selected(&arguments.only)?,
        weir: PathBuf::from(env!("CARGO_BIN_EXE_weir")),
        divisor: 1,
    };
    let mut say = |line: &str| {
        // Progress that nobody can read is no reason to stop.
        let _ = writeln!(io::stderr(), "{line}");
    };
    let outcome = suite::run(&settings, &cancel, &mut say);
    if let Some(signal) = cancel.signal() {
        return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    let outcome = outcome?;
    io::stdout().write_all(show::table(&outcome).as_bytes())?;
    let file = write_json(&outcome)?;
    writeln!(io::stdout(), "\nwritten to {}", file.display())?;
    Ok(u8::from(arguments.strict && !outcome.rows.iter().all(suite::Row::holds)))
}

/// SIGINT and SIGTERM ask the run to stop, which then removes its files.
fn listen() -> io::Result<Cancel> {
    let cancel = Cancel::default();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let shared = cancel.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            shared.request(signal);
        }
    })?;
    Ok(cancel)
}

fn write_json(outcome: &Outcome) -> io::Result<PathBuf> {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    };
    let directory = target.join("bench");
    std::fs::create_dir_all(&directory)?;
    let file = directory.canonicalize()?.join("rules.json");
    std::fs::write(&file, show::json(outcome))?;
    Ok(file)
}
