//! The count: what libtest prints, line by line, and what scripts say.
//!
//! A test that cannot run here prints a line that begins with `skipped: ` and returns; libtest
//! counts it as passed, this counts it as skipped and says why. Ignored tests are skipped too.
//! libtest keeps the output of passing tests to itself, so it is asked to show it, and what is
//! shown beyond the `skipped: ` lines is left out again.

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;

use std::io::{self, Write};

const SKIPPED: &str = "skipped: ";

/// What the test binaries reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// `test: reason`, one for each test that said so.
    skips: Vec<String>,
    /// The same of those that libtest was told to ignore.
    ignores: Vec<String>,
}

impl Tally {
    /// A script that is a test: counted by whether it ended well, and by what it says.
    pub(super) fn of_script(name: &str, ended_well: bool, lines: &[String]) -> Self {
        if !ended_well {
            return Self { failed: 1, ..Self::default() };
        }
        let reason = lines.iter().find_map(|line| line.strip_prefix(SKIPPED));
        let skips = reason.map(|reason| format!("{name}: {reason}")).into_iter().collect();
        Self { passed: 1, skips, ..Self::default() }
    }

    /// What died, or did not build: counted as one.
    pub(super) fn one_failed() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    /// Adds what another binary reported.
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.skips.extend(other.skips);
        self.ignores.extend(other.ignores);
    }

    pub(super) fn has_failures(&self) -> bool {
        self.failed > 0
    }

    /// Tests that have a verdict.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.passed + self.failed + self.ignored
    }

    /// Says what was skipped, and counts; true if everything passed.
    pub(super) fn conclude(
        mut self,
        out: &mut impl Write,
        lint_failures: &[String],
    ) -> io::Result<bool> {
        for skip in self.skips.iter().chain(&self.ignores) {
            writeln!(out, "{SKIPPED}{skip}")?;
        }
        if !lint_failures.is_empty() {
            let names = lint_failures.join(", ");
            writeln!(out, "lint failed: {names}; each is counted as one")?;
            self.failed += lint_failures.len();
        }
        writeln!(out, "{}", self.last_line())?;
        Ok(self.failed == 0)
    }

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

/// Follows what a test binary prints with `--show-output`, line by line.
#[derive(Debug, Default)]
pub(super) struct Follower {
    pub(super) tally: Tally,
    /// Between `successes:` and the verdict of the same binary.
    in_successes: bool,
    /// The test whose output is being shown.
    test: String,
}

impl Follower {
    /// Takes a line; true if it is worth showing.
    pub(super) fn line(&mut self, line: &str) -> bool {
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
