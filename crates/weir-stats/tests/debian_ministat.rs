//! The renderer against Debian's `ministat`, where both versions must agree.
//!
//! Debian carries the version of 2015, in which an even median is the upper middle value and the
//! relative error leaves the error of the reference's mean out. With odd counts, and that one
//! line replaced by the old formula, the whole output must be equal: names, plot, vitals, test.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_stats::ministat::{Options, Set, compare, render};
use weir_stats::number::g;
use weir_stats::shuffle::SplitMix64;
use weir_stats::student_t::Confidence;

const MINISTAT: &str = "/usr/bin/ministat";

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

/// True if Debian's version is installed; FreeBSD's own would agree in more than is tested here.
fn installed() -> bool {
    if Path::new(MINISTAT).exists() && Path::new("/etc/debian_version").exists() {
        return true;
    }
    skipped();
    false
}

/// Up to seven sets of odd size around nearby levels; small integers make stacks and overlaps.
fn random_sets(random: &mut SplitMix64) -> Vec<Vec<f64>> {
    let number = |random: &mut SplitMix64, bound: u64| random.below(bound) as f64;
    let spread = [10, 60, 5000][usize::try_from(random.below(3)).unwrap()];
    (0..=random.below(7))
        .map(|_| {
            let base = 20.0 + number(random, 2 * spread);
            (0..=2 * random.below(12) + 2)
                .map(|_| base + number(random, spread))
                .collect::<Vec<f64>>()
        })
        .map(|mut values| {
            if values.len().is_multiple_of(2) {
                values.pop();
            }
            values
        })
        .collect()
}

/// Our output, with the relative error as of 2015: the half width over the reference's mean.
fn as_of_2015(sets: &[Set<'_>], options: &Options) -> String {
    let mut text = render(sets, options).unwrap();
    for set in &sets[1..] {
        let comparison = compare(sets[0].values, set.values, options.confidence).unwrap();
        let mean = sets[0].values.iter().sum::<f64>() / sets[0].values.len() as f64;
        let line = |half: f64| format!("\t{}% +/- {}%\n", g(comparison.percent), g(half));
        let new = line(comparison.percent_half_width);
        // The first occurrence is this set's, or an equal set's before it: equal either way.
        text = text.replacen(&new, &line(comparison.half_width * 100.0 / mean), 1);
    }
    text
}

#[test]
fn whole_output_agrees_with_debian() {
    if !installed() {
        return;
    }
    let scratch = Scratch::new();
    let mut random = SplitMix64::new(1);
    for round in 0..150 {
        let values = random_sets(&mut random);
        let names: Vec<String> = (0..values.len())
            .map(|index| scratch.0.join(format!("{index}.pps")).to_str().unwrap().to_owned())
            .collect();
        for (name, values) in names.iter().zip(&values) {
            let lines: String = values.iter().map(|value| format!("{value}\n")).collect();
            std::fs::write(name, lines).unwrap();
        }
        let sets: Vec<Set<'_>> =
            names.iter().zip(&values).map(|(name, values)| Set { name, values }).collect();
        let levels = Confidence::ALL;
        let options = Options {
            confidence: levels[usize::try_from(random.below(6)).unwrap()],
            width: usize::try_from(20 + random.below(80)).unwrap(),
            separate_bars: random.below(2) == 1,
            plot: random.below(8) > 0,
            vitals_only: random.below(8) == 0,
            quiet: false,
        };
        let mut command = Command::new(MINISTAT);
        command.arg("-c").arg(options.confidence.percent().to_string());
        command.arg("-w").arg(options.width.to_string());
        for (wanted, flag) in
            [(options.separate_bars, "-s"), (!options.plot, "-A"), (options.vitals_only, "-n")]
        {
            if wanted {
                command.arg(flag);
            }
        }
        let output = command.args(&names).output().unwrap();
        let theirs = String::from_utf8(output.stdout).unwrap();
        let ours = as_of_2015(&sets, &options);
        assert_eq!(ours, theirs, "round {round}: {command:?} on {values:?}");
    }
}
