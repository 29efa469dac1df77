//! What is run, and in which order: the test binaries, and the checks that need a build.
//!
//! The machine is idle most of the time while end-to-end tests wait, so several run at once. What
//! measures has it to itself: first the binaries that take no turns (`ALONE`), then the campaigns
//! of the end-to-end tests; the rest waits for them, and the machines for the rest. Beside both go
//! the checks, on CPUs that would be idle otherwise. The tests of `weir/e2e` also take turns one by
//! one (`tests/e2e/turns.rs`), so that whatever is started beside them is right, and this is about
//! time alone.

use std::process::Command;

use anyhow::Result;

use super::executables::Executable;
use crate::{steps, workspace};

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// `cargo xtask ci`: everything, and the documentation.
    Documented,
    /// `cargo xtask test`: everything.
    All,
    /// `cargo xtask check`: without machines, and with short random runs.
    Quick,
    /// `cargo xtask test-labs`: the machines alone.
    Labs,
}

/// How what a job prints is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// By the verdicts of libtest.
    Tests,
    /// As one test, by its exit code.
    Script,
    /// As a check, by its exit code.
    Check,
}

/// When a job runs; those of one stage run at once, as far as there are CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Before all others, one at a time.
    Alone,
    /// What takes turns to measure.
    Campaigns,
    /// Everything else.
    Beside,
    /// After all other tests, one at a time: machines judge traffic by its steadiness, too.
    Machines,
    /// Next to `Beside`, when CPUs are idle; machines do not stand it.
    Background,
}

/// A command whose output is kept together.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) stage: Stage,
    pub(super) command: Command,
}

/// Packages whose tests measure and take no turns.
const ALONE: &[&str] = &["weir-gen", "weir-lab"];
/// Modules of the end-to-end tests that have the machine to themselves: they measure.
const CAMPAIGNS: &[&str] = &[
    "adaptive::",
    "bad_input::",
    "bench::",
    "bisect::",
    "campaign::",
    "connect::lab::",
    "disturbance::",
    "echo::lab::",
    "http_client::lab::",
    "interrupt::",
    "queues::",
    "replay::",
    "search::",
    "stores::",
];
/// The machines of the end-to-end tests.
const LABS: &str = "labs::";
/// What boots, logs in or measures there; the rest of them is quick.
const MACHINES: &[&str] = &[
    "labs::bench_lab::",
    "labs::cards::",
    "labs::faults::",
    "labs::hosts::",
    "labs::kills::",
    "labs::left::",
    "labs::machines::",
    "labs::peers::",
    "labs::pxe::",
    "labs::qemu::",
    "labs::queues::",
    "labs::shapers::",
];
/// How many of them start at once: all. They mostly wait, and limit by themselves what does not
/// (`tests/e2e/labs/slots.rs`).
const LAB_THREADS: &str = "128";
/// The package whose unit tests mostly wait, for programs that stand for machines.
const WAITING: &str = "weir-lab";
/// How many of them run at once: they also judge what they see by its time.
const WAITING_THREADS: &str = "4";
/// How many of the end-to-end tests that measure nothing run at once, at the least: they mostly
/// wait, for daemons that start, for clients and for timeouts.
const OTHER_THREADS: usize = 4;
/// The end-to-end tests.
pub(super) const E2E: (&str, &str) = ("weir", "e2e");
const FRESH: &str = "scripts/fresh.sh";
/// What `make check` has set up: nothing for machines.
const QUICK_PHASES: &[&str] = &["build", "run", "test", "bench"];

/// Everything that is to be run, each stage in the order in which it begins.
pub(super) fn all(scope: Scope, executables: &[Executable]) -> Result<Vec<Job>> {
    let runner = Runner::from_environment(scope)?;
    let mut jobs = Vec::new();
    for executable in executables {
        if (executable.package.as_str(), executable.target.as_str()) == E2E {
            jobs.extend(end_to_end(scope, &runner, executable));
        } else {
            let is_alone = ALONE.contains(&executable.package.as_str());
            let stage = if is_alone { Stage::Alone } else { Stage::Beside };
            let mut job = runner.job(executable, &executable.name(), stage, &[]);
            if executable.package == WAITING {
                job.command.env("RUST_TEST_THREADS", WAITING_THREADS);
            }
            jobs.push(job);
        }
    }
    if scope != Scope::Labs {
        jobs.extend(checks(scope));
    }
    // The end-to-end tests are the longest; then the larger the binary, the longer it runs.
    let size = |job: &Job| {
        let executable = executables.iter().find(|executable| executable.name() == job.name);
        let metadata = executable.and_then(|executable| executable.path.metadata().ok());
        metadata.map_or(u64::MAX, |metadata| metadata.len())
    };
    jobs.sort_by_key(|job| (job.stage, std::cmp::Reverse(size(job))));
    Ok(jobs)
}

/// The end-to-end tests in parts that run beside each other.
fn end_to_end(scope: Scope, runner: &Runner, executable: &Executable) -> Vec<Job> {
    let skip = |names: &[&'static str]| -> Vec<&'static str> {
        names.iter().flat_map(|name| ["--skip", name]).collect()
    };
    let part = |what: &str, stage, arguments: &[&str]| {
        runner.job(executable, &format!("{} ({what})", executable.name()), stage, arguments)
    };
    let labs = |arguments: &[&str]| {
        let mut job = part("labs", Stage::Machines, &[&[LABS], arguments].concat());
        job.command.env("RUST_TEST_THREADS", LAB_THREADS);
        job
    };
    if scope == Scope::Labs {
        return vec![labs(&[])];
    }
    let campaigns = [CAMPAIGNS, &skip(&[LABS])].concat();
    let others = || {
        let mut job = part("others", Stage::Beside, &[skip(CAMPAIGNS), skip(&[LABS])].concat());
        let cpu_count = std::thread::available_parallelism().map_or(1, usize::from);
        job.command.env("RUST_TEST_THREADS", cpu_count.max(OTHER_THREADS).to_string());
        job
    };
    let machines = if scope == Scope::Quick { skip(MACHINES) } else { Vec::new() };
    vec![labs(&machines), part("campaigns", Stage::Campaigns, &campaigns), others()]
}

/// Checks that need a build, and the script that is a test.
fn checks(scope: Scope) -> Vec<Job> {
    let cargo = |name: &str, kind, arguments: &[&str]| {
        let mut command = steps::cargo();
        command.args(arguments);
        Job { name: name.to_owned(), kind, stage: Stage::Background, command }
    };
    let mut fresh = Command::new(workspace::root().join(FRESH));
    fresh.current_dir(workspace::root());
    if scope == Scope::Quick {
        fresh.args(QUICK_PHASES);
    }
    let mut jobs = vec![
        cargo("clippy", Kind::Check, crate::lint::CLIPPY),
        cargo(
            "doc tests",
            Kind::Tests,
            &["test", "--workspace", "--doc", "--locked", "--quiet", "--", "--show-output"],
        ),
        Job {
            name: FRESH.to_owned(),
            kind: Kind::Script,
            stage: Stage::Background,
            command: fresh,
        },
    ];
    if scope == Scope::Documented {
        let mut doc = cargo("doc", Kind::Check, crate::lint::DOC);
        doc.command.env("RUSTDOCFLAGS", steps::RUSTDOC_FLAGS);
        jobs.push(doc);
    }
    jobs
}

/// How test binaries are run: through cargo's runner for this platform, if one is set.
struct Runner {
    words: Vec<String>,
    is_quick: bool,
}

impl Runner {
    fn from_environment(scope: Scope) -> Result<Self> {
        let host = steps::host()?.to_uppercase().replace('-', "_");
        let runner = std::env::var(format!("CARGO_TARGET_{host}_RUNNER")).unwrap_or_default();
        let words = runner.split_whitespace().map(str::to_owned).collect();
        Ok(Self { words, is_quick: scope == Scope::Quick })
    }

    fn job(&self, executable: &Executable, name: &str, stage: Stage, arguments: &[&str]) -> Job {
        let path = executable.path.to_string_lossy();
        let mut words = self.words.iter().map(String::as_str).chain([&*path]);
        let program = words.next().unwrap_or_default().to_owned();
        let mut command = Command::new(program);
        command.args(words).args(arguments).arg("--show-output");
        // As cargo runs them.
        command.current_dir(&executable.directory);
        command.env("CARGO_MANIFEST_DIR", &executable.directory);
        command.env("CARGO_PKG_NAME", &executable.package);
        if self.is_quick {
            command.env("WEIR_QUICK", "1");
        }
        Job { name: name.to_owned(), kind: Kind::Tests, stage, command }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn executable(package: &str, target: &str) -> Executable {
        Executable {
            package: package.to_owned(),
            target: target.to_owned(),
            is_unit: target != "e2e" && target != "all",
            path: PathBuf::from("/none"),
            directory: PathBuf::from("/"),
        }
    }

    /// The names of the jobs of a stage, with their arguments.
    fn planned(scope: Scope, stage: Stage) -> Vec<String> {
        let executables =
            [executable("weir", "weir"), executable("weir", "e2e"), executable("weir-gen", "all")];
        let jobs = all(scope, &executables).unwrap().into_iter();
        let text = |job: Job| {
            let words = job.command.get_args().map(|word| word.to_string_lossy().into_owned());
            format!("{}: {}", job.name, words.collect::<Vec<_>>().join(" "))
        };
        jobs.filter(|job| job.stage == stage).map(text).collect()
    }

    #[test]
    fn every_end_to_end_test_is_in_one_part() {
        let beside = planned(Scope::All, Stage::Beside).join("\n");
        let campaigns = planned(Scope::All, Stage::Campaigns).join("\n");
        let machines = planned(Scope::All, Stage::Machines).join("\n");
        assert!(machines.contains(" labs:: --show-output"), "{machines}");
        for name in CAMPAIGNS {
            assert!(beside.contains(&format!("--skip {name}")), "{beside}");
            assert!(campaigns.contains(&format!(" {name}")), "{campaigns}");
        }
        for part in [&beside, &campaigns] {
            assert!(part.contains("--skip labs::"), "{part}");
        }
        assert!(planned(Scope::All, Stage::Alone)[0].starts_with("weir-gen/all: "));
    }

    #[test]
    fn a_quick_run_leaves_machines_out_and_nothing_else() {
        let machines = planned(Scope::Quick, Stage::Machines).join("\n");
        assert!(machines.contains("--skip labs::qemu::"), "{machines}");
        assert_eq!(planned(Scope::Quick, Stage::Beside), planned(Scope::All, Stage::Beside));
        for stage in [Stage::Alone, Stage::Campaigns] {
            assert_eq!(planned(Scope::Quick, stage), planned(Scope::All, stage));
        }
        // Nor does it install what machines need.
        let checks = planned(Scope::All, Stage::Background);
        let phases = format!("{FRESH}: {}", QUICK_PHASES.join(" "));
        let quick = checks.iter().map(|job| job.replace(&format!("{FRESH}: "), &phases));
        assert!(checks.contains(&format!("{FRESH}: ")), "{checks:?}");
        assert_eq!(planned(Scope::Quick, Stage::Background), quick.collect::<Vec<_>>());
        let documented = planned(Scope::Documented, Stage::Background);
        assert_eq!(documented.len(), planned(Scope::All, Stage::Background).len() + 1);
    }

    #[test]
    fn the_labs_alone_are_the_labs_alone() {
        let executables = [executable("weir", "e2e")];
        let jobs = all(Scope::Labs, &executables).unwrap();
        assert_eq!(jobs.len(), 1);
        assert!(jobs[0].command.get_args().any(|word| word == "labs::"));
    }
}
