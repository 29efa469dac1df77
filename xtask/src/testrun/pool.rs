//! Runs jobs several at a time, and shows what each printed in one piece.
//!
//! Never waits for what a job left running: a daemon that a test forgot holds its output open.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::jobs::{Job, Kind, Stage};
use super::tally::{Follower, Tally};

/// How often a run that is silent says what it is doing.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How many jobs of the background run at once: cargo lets one build; a script can go beside it.
const BACKGROUND_SLOTS: usize = 2;
/// How long the output of a job that has ended may still come.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// What runs a program when CPUs have nothing else to do.
const WHEN_IDLE: &[&str] = &["chrt", "--idle", "0"];
/// What runs a program after those of no lower priority.
const POLITELY: &[&str] = &["nice", "--adjustment=10"];

/// What came of all jobs.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// Names of the checks that failed.
    pub(super) failed_checks: Vec<String>,
}

/// What came of one.
struct Report {
    name: String,
    kind: Kind,
    seconds: f64,
    ended_well: bool,
    how: String,
    tally: Tally,
    /// What is worth showing.
    lines: Vec<String>,
}

enum Event {
    Begun(String),
    /// A test of a job has its verdict.
    Test(String),
    Ended(Report),
    /// A job cannot be run at all.
    Failed(anyhow::Error),
}

/// Runs the jobs, `slots` at a time; shows what they print on `out`.
pub(super) fn run(jobs: Vec<Job>, slots: usize, out: &mut impl Write) -> Result<Outcome> {
    let (events, received) = mpsc::channel();
    let job_count = jobs.len();
    thread::scope(|scope| {
        scope.spawn(move || run_stages(jobs, slots, &events));
        follow(&received, job_count, out)
    })
}

/// One stage after the other; the background is a part of the third.
fn run_stages(jobs: Vec<Job>, slots: usize, events: &Sender<Event>) {
    let mut stages: [VecDeque<Job>; 5] = Default::default();
    for job in jobs {
        let index = match job.stage {
            Stage::Alone => 0,
            Stage::Campaigns => 1,
            Stage::Beside => 2,
            Stage::Machines => 3,
            Stage::Background => 4,
        };
        stages[index].push_back(job);
    }
    let [alone, campaigns, beside, machines, background] = stages;
    drain(alone, 1, events);
    drain(campaigns, 1, events);
    thread::scope(|scope| {
        scope.spawn(|| drain(background, BACKGROUND_SLOTS, events));
        drain(beside, slots, events);
    });
    drain(machines, 1, events);
}

fn drain(jobs: VecDeque<Job>, slots: usize, events: &Sender<Event>) {
    let queue = Mutex::new(jobs);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..slots {
            scope.spawn(|| {
                while let Some(job) = next() {
                    let event = run_one(job, events).map_or_else(Event::Failed, Event::Ended);
                    // Nobody listens only if the run is over.
                    drop(events.send(event));
                }
            });
        }
    });
}

/// Runs a job to its end.
fn run_one(job: Job, events: &Sender<Event>) -> Result<Report> {
    let Job { name, kind, stage, command } = job;
    drop(events.send(Event::Begun(name.clone())));
    let begun = Instant::now();
    // Both outputs by one pipe, so that lines keep their order.
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let mut command = nice(command, stage);
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone().context("cannot share a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    // It holds the pipe open.
    drop(command);
    let (lines, said) = mpsc::channel();
    // Not joined: whoever a test left running would hold it up.
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let (mut follower, mut shown) = (Follower::default(), Vec::new());
    let mut ended = None;
    loop {
        match said.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                if line.starts_with("test ") && line.contains(" ... ") {
                    drop(events.send(Event::Test(name.clone())));
                }
                if kind != Kind::Tests || follower.line(&line) {
                    shown.push(line);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && child.try_wait().context("cannot ask for a job")?.is_some() {
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|at| at.elapsed() > LAST_WORDS) {
            break;
        }
    }
    let status = child.wait().context("cannot wait for a job")?;
    Ok(Report {
        name,
        kind,
        seconds: begun.elapsed().as_secs_f64(),
        ended_well: status.success(),
        how: status.to_string(),
        tally: follower.tally,
        lines: shown,
    })
}

/// The command with the priority of its stage.
fn nice(command: Command, stage: Stage) -> Command {
    let words = match stage {
        Stage::Alone | Stage::Campaigns | Stage::Machines => return command,
        Stage::Beside => POLITELY,
        Stage::Background => WHEN_IDLE,
    };
    let mut nice = Command::new(words[0]);
    nice.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

/// Shows what happens until all jobs have ended.
fn follow(events: &Receiver<Event>, job_count: usize, out: &mut impl Write) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut running: Vec<(String, Instant, usize)> = Vec::new();
    let mut ended_count = 0;
    while ended_count < job_count {
        match events.recv_timeout(HEARTBEAT) {
            Ok(Event::Begun(name)) => running.push((name, Instant::now(), 0)),
            Ok(Event::Test(name)) => {
                for (_, _, count) in running.iter_mut().filter(|(other, _, _)| *other == name) {
                    *count += 1;
                }
            }
            Ok(Event::Ended(report)) => {
                ended_count += 1;
                running.retain(|(name, _, _)| *name != report.name);
                show(&report, ended_count, job_count, out)?;
                count(report, &mut outcome);
            }
            Ok(Event::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => {
                let each = running.iter().map(|(name, since, count)| {
                    format!("{name} ({count} tests, {} s)", since.elapsed().as_secs())
                });
                let each: Vec<_> = each.collect();
                writeln!(out, "... still running: {}", each.join(", "))?;
            }
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("a worker died"),
        }
    }
    Ok(outcome)
}

fn show(report: &Report, number: usize, count: usize, out: &mut impl Write) -> Result<()> {
    let Report { name, seconds, .. } = report;
    writeln!(out, "==> [{number}/{count}] {name}: {seconds:.1} s")?;
    // Of a check or a script that ended well, nothing needs to be read.
    if report.kind == Kind::Tests || !report.ended_well {
        for line in report.lines.iter().filter(|line| !line.is_empty()) {
            writeln!(out, "{line}")?;
        }
    }
    if !report.ended_well {
        writeln!(out, "==> {name} failed ({})", report.how)?;
    }
    Ok(out.flush()?)
}

fn count(report: Report, outcome: &mut Outcome) {
    let Report { name, kind, ended_well, tally, lines, .. } = report;
    match kind {
        Kind::Tests => {
            // It died before its verdict, or has none.
            let is_silent = !ended_well && !tally.has_failures();
            outcome.tally.add(tally);
            if is_silent {
                outcome.tally.add(Tally::one_failed());
            }
        }
        Kind::Script => outcome.tally.add(Tally::of_script(&name, ended_well, &lines)),
        Kind::Check if ended_well => {}
        Kind::Check => outcome.failed_checks.push(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, kind: Kind, stage: Stage, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("WORD", "said");
        Job { name: name.to_owned(), kind, stage, command }
    }

    fn run_all(jobs: Vec<Job>) -> (Outcome, String) {
        let mut out = Vec::new();
        let outcome = run(jobs, 3, &mut out).unwrap();
        (outcome, String::from_utf8(out).unwrap())
    }

    const OK: &str = "echo 'test a ... ok'; echo 'test result: ok. 1 passed; 0 failed'";

    #[test]
    fn what_a_job_prints_stays_together() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        // Each waits for the other one in the middle of what it says.
        let script = |mine: &str, other: &str| {
            format!(
                "echo {mine} $WORD one; touch {0}; while ! test -e {1}; do sleep 0.01; done; \
                     echo {mine} two >&2; {OK}",
                at(mine),
                at(other)
            )
        };
        let (outcome, text) = run_all(vec![
            job("x", Kind::Tests, Stage::Beside, &script("x", "y")),
            job("y", Kind::Tests, Stage::Beside, &script("y", "x")),
        ]);
        assert!(text.contains("x said one\nx two\ntest a ... ok\n"), "{text}");
        assert!(text.contains("y said one\ny two\ntest a ... ok\n"), "{text}");
        assert_eq!(outcome.tally.count(), 2);
    }

    #[test]
    fn every_kind_of_failure_counts() {
        let (outcome, text) = run_all(vec![
            job("died", Kind::Tests, Stage::Beside, "echo running 3 tests; kill -9 $$"),
            job("found", Kind::Check, Stage::Background, "echo what is wrong; exit 1"),
            job("fine", Kind::Check, Stage::Background, "echo a word too many"),
            job("script", Kind::Script, Stage::Background, "exit 3"),
            job("good", Kind::Tests, Stage::Campaigns, OK),
        ]);
        assert_eq!(outcome.failed_checks, ["found"]);
        assert_eq!(outcome.tally.count(), 3);
        assert!(
            text.contains("died failed (signal: 9") && text.contains("what is wrong"),
            "{text}"
        );
        assert!(!text.contains("a word too many"), "{text}");
    }

    #[test]
    fn stages_follow_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let script = |word: &str| format!("echo {word} >>{}; {OK}", log.display());
        run_all(vec![
            job("c", Kind::Tests, Stage::Beside, &script("beside")),
            job("b", Kind::Tests, Stage::Campaigns, &script("campaign")),
            job("a1", Kind::Tests, Stage::Alone, &script("alone")),
            job("a2", Kind::Tests, Stage::Alone, &script("alone")),
        ]);
        let text = std::fs::read_to_string(log).unwrap();
        assert_eq!(text, "alone\nalone\ncampaign\nbeside\n");
    }

    #[test]
    fn a_process_left_behind_does_not_hold_the_run_up() {
        let begun = Instant::now();
        let script = format!("sleep 60 & echo pid $!; {OK}");
        let (outcome, text) = run_all(vec![job("x", Kind::Tests, Stage::Beside, &script)]);
        assert!(begun.elapsed() < Duration::from_secs(50), "it was waited for");
        assert_eq!(outcome.tally.count(), 1);
        let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
        drop(Command::new("kill").arg(pid).status());
    }
}
