//! An archive as bench-lab.sh leaves it, of any size, and how long its import takes.
//!
//! Each series has five runs, with a log of the receiver and one of the generator each, an `.info`
//! and the medians: twelve files. Half of the series have lines of the old pkt-gen, half of the new
//! one; a log has a hundred samples, as most of those that are published.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use weir_machine::cancel::Cancel;

use super::command::{self, Taken};
use super::rows::{IMPORT_MEMORY, IMPORT_TIME};
use super::{Result, Samples, Settings};

/// What the rows' names promise.
const FILE_COUNT: f64 = 50_000.0;

/// Runs of a series.
pub(super) const RUN_COUNT: u32 = 5;

/// Files of a series.
const FILES_PER_SERIES: f64 = 12.0;

/// Samples of a log.
const SAMPLE_COUNT: u32 = 100;

/// Series of a folder of results.
const SERIES_PER_FOLDER: u32 = 14;

/// Makes an archive and imports it, once a round.
pub(super) fn measure(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
    samples: &mut Samples,
) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("weir-bench-stats-").tempdir()?;
    let source = dir.path().join("archive");
    let series_count = super::scaled(FILE_COUNT * settings.scale / FILES_PER_SERIES);
    say(&format!("making an archive of {} files", f64::from(series_count) * FILES_PER_SERIES));
    make(&source, series_count, cancel)?;
    for round in 1..=settings.repeats {
        let store = dir.path().join(format!("store-{round}"));
        let paths = [source.to_string_lossy(), store.to_string_lossy()];
        let arguments = ["lab", "import", &paths[0], "--out", &paths[1], "--json"];
        let Taken { time_s, memory_mib } = command::run(&settings.weir, &arguments, cancel)?;
        say(&format!("import {round} of {}: {time_s:.2} s, {memory_mib:.1} MiB", settings.repeats));
        samples.entry(IMPORT_TIME).or_default().push(time_s);
        samples.entry(IMPORT_MEMORY).or_default().push(memory_mib);
        fs::remove_dir_all(&store)?;
    }
    Ok(())
}

/// Makes an archive of so many series.
pub(crate) fn make(root: &Path, series_count: u32, cancel: &Cancel) -> Result<()> {
    for series in 0..series_count {
        if cancel.signal().is_some() {
            return Err("interrupted".into());
        }
        let folder = root.join(format!("results/r{:06}", series / SERIES_PER_FOLDER));
        let raw = folder.join("RAW");
        fs::create_dir_all(&raw)?;
        let name = format!("{}Kstates-32KBhash.inet4", series % SERIES_PER_FOLDER + 1);
        let (configuration, traffic) = name.split_once('.').unwrap_or((&name, ""));
        let info = format!(
            "IMAGE=\"\"\nCFG=\"{configuration}\"\nPKTGEN=\"{traffic}\"\nUNAME=\"FreeBSD box \
             14.0-RELEASE FreeBSD 14.0-RELEASE amd64\""
        );
        fs::write(raw.join(format!("bench.{name}.info")), info)?;
        let is_old = series % 2 == 0;
        let mut medians = String::new();
        for run in 1..=RUN_COUNT {
            let base = 400_000 + series % 1000 * 100 + run;
            fs::write(raw.join(format!("bench.{name}.{run}.receiver")), log(is_old, base, "rx"))?;
            fs::write(
                raw.join(format!("bench.{name}.{run}.sender")),
                log(is_old, 1_488_000, "tx"),
            )?;
            // Writing to a String cannot fail.
            let _ = writeln!(medians, "{}", median(base));
        }
        fs::write(folder.join(format!("{name}.pps")), medians)?;
    }
    Ok(())
}

/// The rate of a sample: it goes up and down around `base`.
fn rate(base: u32, sample: u32) -> u32 {
    base + sample * 37 % 101
}

/// The median of a log's samples that count: all but the first six and the last nine.
fn median(base: u32) -> f64 {
    let mut rates: Vec<u32> = (6..SAMPLE_COUNT - 9).map(|sample| rate(base, sample)).collect();
    rates.sort_unstable();
    f64::from(rates[rates.len() / 2])
}

/// A log: nine opening lines, the samples, the end of pkt-gen's.
fn log(is_old: bool, base: u32, function: &str) -> String {
    let mut text = format!(
        "CMD: pkt-gen -N -f {function} -i igb2 -n 300000000 -l 60 -s 198.18.10.1:2001-198.18.10.20 \
         -d 198.19.10.1:2001-198.19.10.100 -w 4\n"
    );
    for line in 0..8 {
        let _ = writeln!(text, "845.105{line:03} main [1753] interface is igb2");
    }
    for sample in 0..SAMPLE_COUNT {
        let (second, rate) = (100 + sample, rate(base, sample));
        let _ = match is_old {
            true => writeln!(
                text,
                "{second}.417140 main_thread [1550] {rate} pps ({rate} pkts in 1001895 usec)"
            ),
            false => writeln!(
                text,
                "{second}.417140 main_thread [2786] {rate} pps ({rate} pkts {} bps in 1000869 \
                 usec) 473.81 avg_batch 0 min_space",
                rate * 480
            ),
        };
    }
    text.push_str("Terminated\n");
    text
}
