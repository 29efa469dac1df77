//! `weir fw check` of large rulesets, from its start to its end: how long it took, and how much
//! memory it had.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;
use weir_machine::cancel::Cancel;

use super::{Result, Samples, Settings, rows, ruleset};

/// How often the command is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Measures the rows of both rulesets, once a round.
pub(super) fn measure(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
    samples: &mut Samples,
) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("weir-bench-rules-").tempdir()?;
    let place = |name: &str| dir.path().join(name);
    fs::write(place("facts"), ruleset::FACTS)?;
    fs::write(place(ruleset::TABLE_FILE), ruleset::table(settings.scaled(1_000_000)))?;
    let rule_count = settings.scaled(10_000);
    let kinds = [
        ("written", ruleset::written(rule_count, true), rows::WRITTEN_TIME, rows::WRITTEN_MEMORY),
        ("lists", ruleset::lists(rule_count), rows::LISTS_TIME, rows::LISTS_MEMORY),
    ];
    let chosen = kinds.iter().filter(|(.., time, memory)| settings.wants(&[*time, *memory]));
    for (name, text, ..) in chosen.clone() {
        fs::write(place(name), text)?;
    }
    for round in 1..=settings.repeats {
        for (name, _, time, memory) in chosen.clone() {
            let file = place(name);
            let taken = run(&settings.weir, &file, &place("facts"), rule_count, cancel)?;
            let Taken { time_s, memory_mib } = taken;
            let count = settings.repeats;
            say(&format!("{name}, {round} of {count}: {time_s:.2} s, {memory_mib:.1} MiB"));
            samples.entry(time).or_default().push(time_s);
            samples.entry(memory).or_default().push(memory_mib);
        }
    }
    Ok(())
}

/// What a command took.
struct Taken {
    /// Seconds from its start to its end, without those in which it waited for its CPU.
    time_s: f64,
    /// The highest resident size that was seen, MiB.
    memory_mib: f64,
}

/// Checks a file, which is to have no error and no warning of something that is missing.
fn run(weir: &Path, file: &Path, facts: &Path, rule_count: u32, cancel: &Cancel) -> Result<Taken> {
    let answer = file.with_extension("json");
    let began = Instant::now();
    let mut child = Command::new(weir)
        .args(["fw", "check", "--dialect", "openbsd", "--json", "--facts"])
        .args([facts, file])
        .stdin(Stdio::null())
        .stdout(fs::File::create(&answer)?)
        .stderr(Stdio::null())
        .spawn()?;
    let path = format!("/proc/{}/status", child.id());
    let (mut memory_kib, mut waited) = (0, Duration::ZERO);
    let status = loop {
        // Of a process that has ended, nothing of this is left.
        let status = fs::read_to_string(&path).unwrap_or_default();
        memory_kib = memory_kib.max(peak_resident_kib(&status).unwrap_or(0));
        waited = waited.max(super::waited(&format!("/proc/{}", child.id())));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(LOOK_EVERY);
    };
    let time_s = began.elapsed().saturating_sub(waited).as_secs_f64();
    if cancel.signal().is_some() || !status.success() {
        return Err(format!("`weir fw check {}` ended with {status}", file.display()).into());
    }
    // A figure of a command that did something else would be worth nothing.
    let answer: Value = serde_json::from_slice(&fs::read(&answer)?)?;
    let found = &answer["files"][0];
    let codes = found["diagnostics"].as_array().ok_or("the answer has no diagnostics")?;
    if codes.iter().any(|finding| finding["code"] == "file-missing") {
        return Err("the table's file was not read".into());
    }
    if found["rule_count"].as_u64().is_none_or(|count| count < u64::from(rule_count)) {
        return Err(format!("{} rules instead of {rule_count}", found["rule_count"]).into());
    }
    Ok(Taken { time_s, memory_mib: f64::from(memory_kib) / 1024.0 })
}

/// `VmHWM` of proc_pid_status(5), KiB. A process that has ended has none.
fn peak_resident_kib(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
