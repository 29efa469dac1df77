//! The renderer against Debian's `ministat`, which is the version of 2015.
//!
//! Six hundred random datasets of every size and kind of number: the whole output must be equal,
//! names, plot, vitals and test. And the computed quantiles against the table in that program.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_stats::ministat::dataset::{self, Layout};
use weir_stats::ministat::{EvenMedian, Options, Set, Version, render};
use weir_stats::shuffle::SplitMix64;
use weir_stats::student_t::{Confidence, ministat_t};

const MINISTAT: &str = "/usr/bin/ministat";

/// Rounds of up to seven datasets; together more than 600 datasets.
const ROUNDS: usize = 250;

/// A directory that goes away with the test, also when it fails.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("weir-ministat-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says so in the form that the test driver counts.
#[expect(clippy::print_stderr, reason = "the test driver reads a test's captured output")]
fn skipped() {
    eprintln!("skipped: Debian's {MINISTAT} is not installed");
}

/// True if Debian's version is installed.
fn installed() -> bool {
    if Path::new(MINISTAT).exists() && Path::new("/etc/debian_version").exists() {
        return true;
    }
    skipped();
    false
}

fn below(random: &mut SplitMix64, bound: u64) -> usize {
    usize::try_from(random.below(bound)).unwrap()
}

/// A value as text: small whole numbers (stacks and overlaps), fractions, hardly different ones
/// (whose variance by sums is noise), negative ones, powers.
fn value(random: &mut SplitMix64, kind: usize, base: f64) -> String {
    let number = |random: &mut SplitMix64, bound: u64| random.below(bound) as f64;
    match kind {
        0 => format!("{}", base + number(random, 10)),
        1 => format!("{}", base + number(random, 6000) / 8.0),
        2 => format!("{}", 1e6 + 0.1 * number(random, 2)),
        3 => format!("{}", number(random, 2000) - 1000.0),
        4 => format!("{:e}", (number(random, 1000) + 1.0) * 10_f64.powf(number(random, 6))),
        _ => format!("{:.3}", base + number(random, 1_000_000) / 997.0),
    }
}

/// A dataset's text: 3 to 40 values, and now and then what a reader has to pass over.
fn text(random: &mut SplitMix64, kind: usize) -> String {
    let base = 20.0 + random.below(100) as f64;
    let mut text = String::new();
    for _ in 0..3 + random.below(38) {
        let noise = ["", "", "", "# comment 7\n", "\n", " \t\n", "#1\n"][below(random, 7)];
        let before = ["", "", " ", "\t  "][below(random, 4)];
        let after = ["", "", " ", "\r", " 8 9", "\t# 8"][below(random, 6)];
        text.push_str(&format!("{noise}{before}{}{after}\n", value(random, kind, base)));
    }
    text
}

fn random_options(random: &mut SplitMix64) -> Options {
    Options {
        confidence: Confidence::ALL[below(random, 6)],
        width: 2 + below(random, 110),
        separate_bars: random.below(2) == 1,
        plot: random.below(8) > 0,
        vitals_only: random.below(8) == 0,
        quiet: false,
        version: Version::Of2015,
        even_median: EvenMedian::Upper,
    }
}

fn command(options: &Options) -> Command {
    let mut command = Command::new(MINISTAT);
    command.arg("-c").arg(options.confidence.percent().to_string());
    command.arg("-w").arg(options.width.to_string());
    let flags = [(options.separate_bars, "-s"), (!options.plot, "-A"), (options.vitals_only, "-n")];
    for (_, flag) in flags.into_iter().filter(|(is_given, _)| *is_given) {
        command.arg(flag);
    }
    command
}

#[test]
fn whole_output_agrees_with_debian() {
    if !installed() {
        return;
    }
    let scratch = Scratch::new();
    let mut random = SplitMix64::new(1);
    let layout = Layout { version: Version::Of2015, ..Layout::default() };
    let mut count = 0;
    for round in 0..ROUNDS {
        let kind = below(&mut random, 6);
        let texts: Vec<String> = (0..=random.below(7)).map(|_| text(&mut random, kind)).collect();
        count += texts.len();
        let names: Vec<String> = (0..texts.len())
            .map(|index| scratch.0.join(format!("{index}.pps")).to_str().unwrap().to_owned())
            .collect();
        for (name, text) in names.iter().zip(&texts) {
            std::fs::write(name, text).unwrap();
        }
        let values: Vec<Vec<f64>> = names
            .iter()
            .zip(&texts)
            .map(|(name, text)| dataset::read(text.as_bytes(), name, &layout).unwrap())
            .collect();
        let sets: Vec<Set<'_>> =
            names.iter().zip(&values).map(|(name, values)| Set { name, values }).collect();
        let options = random_options(&mut random);
        let mut command = command(&options);
        let output = command.args(&names).output().unwrap();
        let theirs = String::from_utf8(output.stdout).unwrap();
        let ours = render(&sets, &options).unwrap();
        assert_eq!(ours, theirs, "round {round}: {command:?} on {texts:?}");
    }
    assert!(count >= 600, "{count} datasets are too few");
}

/// The program holds its table of quantiles as 101 rows of six numbers, the first row for
/// infinitely many degrees of freedom. Ours are computed, and must be the same bytes.
#[test]
fn quantiles_are_those_of_the_program() {
    if !installed() {
        return;
    }
    let program = std::fs::read(MINISTAT).unwrap();
    let table: Vec<u8> = (0..=100)
        .flat_map(|df| Confidence::ALL.map(|level| ministat_t(level, df).to_ne_bytes()))
        .flatten()
        .collect();
    assert_eq!(table.len(), 101 * 6 * 8);
    let found = program.windows(table.len()).any(|window| window == table);
    assert!(found, "the program does not hold the table that is computed here");
}
