//! What the commands of all benchmarks do: signals, progress, the table, the file, the exit code.
//!
//! A benchmark ends with 0 if everything could be done, whether floors were met or not; with
//! `--strict`, a floor that was missed, or not measured, makes it end with 1. 2 means that it could
//! not run, 130 or 143 that it was interrupted. What it made is gone in any case.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_machine::cancel::Cancel;

/// What a benchmark hands over.
#[derive(Debug)]
pub(crate) struct Report {
    /// For people.
    pub(crate) table: String,
    /// For `bench/NAME.json` in cargo's target directory.
    pub(crate) json: String,
    /// Whether no floor was missed or could not be judged.
    pub(crate) holds: bool,
}

/// Runs the benchmark `name`: `measure` is given what asks it to stop, and whom to tell how far it
/// is.
pub(crate) fn main<E: Display>(
    name: &str,
    is_strict: bool,
    measure: impl FnOnce(&Cancel, &mut dyn FnMut(&str)) -> Result<Report, E>,
) -> ExitCode {
    let cancel = match listen() {
        Ok(cancel) => cancel,
        Err(error) => return fail(name, &error),
    };
    let mut say = |line: &str| {
        // Progress that nobody can read is no reason to stop.
        let _ = writeln!(io::stderr(), "{line}");
    };
    let measured = measure(&cancel, &mut say);
    if let Some(signal) = cancel.signal() {
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    match measured {
        Ok(report) => match show(name, &report) {
            Ok(()) => ExitCode::from(u8::from(is_strict && !report.holds)),
            Err(error) => fail(name, &error),
        },
        Err(error) => fail(name, &error),
    }
}

fn fail(name: &str, error: &dyn Display) -> ExitCode {
    let _ = writeln!(io::stderr(), "bench-{name}: {error}");
    ExitCode::from(2)
}

fn show(name: &str, report: &Report) -> io::Result<()> {
    io::stdout().write_all(report.table.as_bytes())?;
    let file = write_json(name, &report.json)?;
    writeln!(io::stdout(), "\nwritten to {}", file.display())
}

/// SIGINT and SIGTERM ask the run to stop, which then removes what it made.
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

fn write_json(name: &str, json: &str) -> io::Result<PathBuf> {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    };
    let directory = target.join("bench");
    std::fs::create_dir_all(&directory)?;
    let file = directory.canonicalize()?.join(format!("{name}.json"));
    std::fs::write(&file, json)?;
    Ok(file)
}
