//! `xtask test`: lint, then every test, with one line at the end that counts them.
//! `xtask test-labs` runs the tests of real machines alone, counted alike.
//!
//! A test that cannot run here prints a line that begins with `skipped: ` and returns; cargo would
//! count it as passed, this module counts it as skipped and says why. Ignored tests are skipped
//! too. libtest keeps the output of passing tests to itself, so it is asked to show it, and what
//! is shown beyond the `skipped: ` lines is left out again.

#[cfg(test)]
mod tests;

use std::io::{BufRead as _, BufReader, Write};
use std::process::Stdio;

use anyhow::{Context as _, Result};

use crate::{lint, steps};

const SKIPPED: &str = "skipped: ";

/// What the test binaries reported.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// `test: reason`, one for each test that said so.
    skips: Vec<String>,
    /// The same of those that libtest was told to ignore.
    ignores: Vec<String>,
}

impl Tally {
    /// The last line of a run. A skipped test passed in cargo's eyes only.
    fn last_line(&self) -> String {
        let passed = self.passed.saturating_sub(self.skips.len());
        let skipped = self.ignored + self.skips.len();
        match skipped {
            0 => format!("{passed} passed, {} failed", self.failed),
            _ => format!("{passed} passed, {} failed, {skipped} skipped", self.failed),
        }
    }
}

/// Follows the output of `cargo test -- --show-output`, line by line.
#[derive(Debug, Default)]
struct Follower {
    tally: Tally,
    /// Between `successes:` and the verdict of the same binary.
    in_successes: bool,
    /// The test whose output is being shown.
    test: String,
}

impl Follower {
    /// Takes a line; true if it is worth showing.
    fn line(&mut self, line: &str) -> bool {
        if let Some(verdict) = line.strip_prefix("test result: ") {
            self.in_successes = false;
            self.test.clear();
            self.add_verdict(verdict);
            return true;
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        self.tally.ignores.extend(ignored_test(line));
        if let Some(name) = shown_test(line) {
            name.clone_into(&mut self.test);
        }
        if let Some(reason) = line.strip_prefix(SKIPPED) {
            self.add_skip(reason);
        }
        !self.in_successes
    }

    /// `ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
    fn add_verdict(&mut self, verdict: &str) {
        let numbers = verdict.split_once(". ").map_or(verdict, |(_, numbers)| numbers);
        for part in numbers.split(';') {
            let mut words = part.split_whitespace();
            let (Some(count), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(count) = count.parse::<usize>() else {
                continue;
            };
            match what {
                "passed" => self.tally.passed += count,
                "failed" => self.tally.failed += count,
                "ignored" => self.tally.ignored += count,
                _ => {}
            }
        }
    }

    /// Only the first line of a passing test counts; one that failed after it is a failure.
    fn add_skip(&mut self, reason: &str) {
        if !self.in_successes {
            return;
        }
        let first =
            !self.tally.skips.iter().any(|skip| {
                skip.strip_prefix(&self.test).is_some_and(|rest| rest.starts_with(": "))
            });
        if first {
            self.tally.skips.push(format!("{}: {reason}", self.test));
        }
    }
}

/// `---- module::test stdout ----`.
fn shown_test(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// `test module::test ... ignored, reason` as `module::test: reason`.
fn ignored_test(line: &str) -> Option<String> {
    let (test, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    Some(format!("{test}: {}", reason.strip_prefix(", ").unwrap_or("ignored")))
}

/// What is run for `xtask test`, and for `xtask test-labs`.
const ALL: [&str; 6] = ["test", "--workspace", "--locked", "--no-fail-fast", "--", "--show-output"];
const LABS: [&str; 8] =
    ["test", "--locked", "--package", "weir", "--test", "labs", "--", "--show-output"];

/// Runs lint and all tests; true if everything passed.
pub(crate) fn run() -> Result<bool> {
    let lint_failures = lint::run_steps()?;
    let (tally, cargo_passed) = run_tests(&ALL)?;
    conclude(&mut std::io::stdout(), tally, cargo_passed, &lint_failures)
}

/// Runs the tests of real machines; true if everything passed.
pub(crate) fn run_labs() -> Result<bool> {
    let (tally, cargo_passed) = run_tests(&LABS)?;
    conclude(&mut std::io::stdout(), tally, cargo_passed, &[])
}

/// Says what was skipped, and counts; true if everything passed.
fn conclude(
    out: &mut impl Write,
    mut tally: Tally,
    cargo_passed: bool,
    lint_failures: &[&str],
) -> Result<bool> {
    for skip in tally.skips.iter().chain(&tally.ignores) {
        writeln!(out, "{SKIPPED}{skip}")?;
    }
    if !cargo_passed && tally.failed == 0 {
        // Did not build, or a test binary died before its verdict: no line counted it.
        writeln!(out, "cargo test failed without a failed test: see above; counted as one")?;
        tally.failed += 1;
    }
    if !lint_failures.is_empty() {
        let names = lint_failures.join(", ");
        writeln!(out, "lint failed: {names}; each is counted as one")?;
        tally.failed += lint_failures.len();
    }
    writeln!(out, "{}", tally.last_line())?;
    Ok(tally.failed == 0)
}

/// Runs `cargo test` and shows its output as it comes.
fn run_tests(arguments: &[&str]) -> Result<(Tally, bool)> {
    steps::say(&format!("==> test: cargo {}", arguments.join(" ")))?;
    let mut child = steps::cargo()
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo test")?;
    let output = child.stdout.take().context("cargo test has no standard output")?;
    let mut follower = Follower::default();
    let mut stdout = std::io::stdout();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read what cargo test prints")?;
        let line = String::from_utf8_lossy(&line);
        if follower.line(&line) {
            writeln!(stdout, "{line}")?;
        }
    }
    let status = child.wait().context("cannot wait for cargo test")?;
    Ok((follower.tally, status.success()))
}
