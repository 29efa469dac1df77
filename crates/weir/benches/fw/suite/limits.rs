//! Memory of `weir fw`, how long it takes to start, to list its states, and to end some of them.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_machine::host::{Command, Program};
use weir_machine::ssh;

use super::bed::{Bed, Sink, Stand};
use super::boxes::{self, Box as Device, Rules, pf};
use super::memory::Group;
use super::rows::{self, MANY, MOST};
use super::{AllSeries, Result, Settings, flows};

/// How long a listing may take before it is given up.
const LISTING_PATIENCE: Duration = Duration::from_secs(300);

/// A ruleset without any limit of its own.
const DEFAULT_RULES: &str = "pass all keep state\n";

/// What is measured of a firewall with room for ten million states.
const MOST_SERIES: [&str; 6] = [
    rows::MEMORY_10M,
    rows::MEMORY_REST_10M,
    rows::START_10M,
    rows::DUMP_10M,
    rows::SWEEP_10M,
    rows::KILL_10M,
];
/// Of those, what is measured when it is full.
const FULL_SERIES: [&str; 4] = [rows::MEMORY_10M, rows::DUMP_10M, rows::SWEEP_10M, rows::KILL_10M];
/// The thread of `weir fw` that ends states whose time is over.
const SWEEPER: &str = "sweeper";
/// So many times all states are looked at while that is measured.
const SWEEP_COUNT: u32 = 2;
/// How long one time takes, by the ruleset (`set timeout interval`).
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// One sample of every series that is wanted.
pub(crate) fn round(
    settings: &Settings,
    bed: &Bed,
    say: &mut dyn FnMut(&str),
    all: &mut AllSeries,
) -> Result<()> {
    let mut add = |name: &'static str, value: f64| {
        say(&format!("  {name}: {value:.2}"));
        all.entry(name).or_default().samples.push(value);
    };
    if settings.wants(rows::MEMORY_REST) {
        let bytes = at_rest(settings, bed).map_err(named(rows::MEMORY_REST))?;
        add(rows::MEMORY_REST, bytes as f64 / f64::from(1 << 20));
    }
    if settings.wants(rows::MEMORY_NAT_5M) {
        let bytes = translated(settings, bed).map_err(named(rows::MEMORY_NAT_5M))?;
        add(rows::MEMORY_NAT_5M, bytes);
    }
    if MOST_SERIES.iter().any(|series| settings.wants(series)) {
        full(settings, bed, &mut add).map_err(named("10m"))?;
    }
    Ok(())
}

fn named(what: &str) -> impl Fn(super::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

/// What a firewall takes that has no state yet, bytes.
fn at_rest(settings: &Settings, bed: &Bed) -> Result<u64> {
    let (group, _stand) = stand(settings, bed, DEFAULT_RULES)?;
    group.bytes()
}

/// The firewall in a group, which comes first so that it goes last: it has to be empty then.
fn stand<'a>(settings: &Settings, bed: &'a Bed, rules: &str) -> Result<(Group, Stand<'a>)> {
    let group = Group::new(&settings.weir)?;
    let in_group = Settings { weir: group.program().to_owned(), ..settings.clone() };
    let dut = boxes::weir(&in_group, rules);
    let stand = bed.stand(Device::Weir(Rules::Stateful), &dut, Sink::Woken)?;
    Ok((group, stand))
}

/// What a firewall that translates takes for each flow when it is full, bytes.
fn translated(settings: &Settings, bed: &Bed) -> Result<f64> {
    let flow_count = settings.scaled(MANY);
    let (group, mut stand) = stand(settings, bed, &pf(Rules::Translated, flow_count))?;
    stand.load(&flows::walk(flow_count)?)?;
    stand.fill(flow_count)?;
    Ok(group.bytes()? as f64 / stand.states()? as f64)
}

/// Start, memory and listing of a firewall that is filled to its limit.
fn full(settings: &Settings, bed: &Bed, add: &mut dyn FnMut(&'static str, f64)) -> Result<()> {
    let flow_count = settings.scaled(MOST);
    let (group, mut stand) = stand(settings, bed, &pf(Rules::Stateful, flow_count))?;
    if settings.wants(rows::START_10M) {
        add(rows::START_10M, stand.started().as_secs_f64());
    }
    if settings.wants(rows::MEMORY_REST_10M) {
        add(rows::MEMORY_REST_10M, group.bytes()? as f64 / f64::from(1 << 20));
    }
    if !FULL_SERIES.iter().any(|series| settings.wants(series)) {
        return Ok(());
    }
    stand.load(&flows::walk(flow_count)?)?;
    stand.fill(flow_count)?;
    let states = stand.states()?;
    if settings.wants(rows::MEMORY_10M) {
        add(rows::MEMORY_10M, group.bytes()? as f64 / states as f64);
    }
    if settings.wants(rows::DUMP_10M) {
        add(rows::DUMP_10M, listing(settings, &stand, states)?.as_secs_f64());
    }
    if settings.wants(rows::SWEEP_10M) {
        add(rows::SWEEP_10M, sweeping(settings, bed, &stand)? * 100.0);
    }
    if settings.wants(rows::KILL_10M) {
        add(rows::KILL_10M, killing(settings, &stand, states)?.as_secs_f64());
    }
    Ok(())
}

/// The share of a CPU that expiry takes while nothing else happens.
fn sweeping(settings: &Settings, bed: &Bed, stand: &Stand<'_>) -> Result<f64> {
    let weir = ssh::quote(&settings.weir.display().to_string());
    let (_, status) = command(stand, &format!("exec {weir} fw status --json"), "weir fw status")?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    let pid = status["pid"].as_u64().ok_or("`weir fw status` does not say its process")?;
    let task = fs::read_dir(format!("/proc/{pid}/task"))?
        .filter_map(|task| Some(task.ok()?.path()))
        .find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|n| n.trim() == SWEEPER))
        .ok_or("`weir fw` has no thread that ends states")?;
    let ran_ns = || -> Result<f64> {
        let text = fs::read_to_string(task.join("schedstat"))?;
        Ok(text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?)
    };
    let (before_ns, begin) = (ran_ns()?, Instant::now());
    // Tiny runs have tiny tables.
    bed.wait(SWEEP_INTERVAL * SWEEP_COUNT / settings.divisor.min(100) as u32)?;
    Ok((ran_ns()? - before_ns) / begin.elapsed().as_nanos() as f64)
}

/// How long it takes to end the states of one source.
fn killing(settings: &Settings, stand: &Stand<'_>, states: u64) -> Result<Duration> {
    let weir = ssh::quote(&settings.weir.display().to_string());
    let line = format!("exec {weir} pfctl -k {}", flows::SOURCE);
    let (took, _) = command(stand, &line, "weir pfctl -k")?;
    let left = stand.states()?;
    if left >= states {
        return Err(format!("`weir pfctl -k` ended none of {states} states").into());
    }
    Ok(took)
}

/// Runs a line of the shell where the device is; gives how long it took, and what it printed.
fn command(stand: &Stand<'_>, line: &str, name: &str) -> Result<(Duration, String)> {
    let begin = Instant::now();
    let output = stand.host()?.run(&Command {
        program: Program::Shell(line),
        stdin: "",
        timeout: LISTING_PATIENCE,
        cancellable: true,
    })?;
    let took = begin.elapsed();
    if !output.success() {
        return Err(format!("`{name}` failed: {}", output.said()).into());
    }
    Ok((took, output.stdout))
}

/// How long it takes to write all states into a file, one a line.
fn listing(settings: &Settings, stand: &Stand<'_>, states: u64) -> Result<Duration> {
    let file = tempfile::Builder::new().prefix("weirbench").tempfile()?;
    let weir = ssh::quote(&settings.weir.display().to_string());
    let line = format!("exec {weir} pfctl -ss >{}", ssh::quote(&file.path().display().to_string()));
    let (took, _) = command(stand, &line, "weir pfctl -ss")?;
    let listed = lines(file.path())?;
    // What hosts say when their interfaces come up has ended by now.
    let states = states.min(stand.states()?);
    if listed < states {
        return Err(format!("`weir pfctl -ss` lists {listed} of {states} states").into());
    }
    Ok(took)
}

fn lines(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0; 1 << 20];
    let mut count = 0;
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(count),
            read => count += chunk[..read].iter().filter(|&&byte| byte == b'\n').count() as u64,
        }
    }
}
