//! Very many connections of `weir http` at a time, which have nothing to do: whether all of them
//! are there, how long it takes to open them, and what each costs in user space.

use std::fs;
use std::io::Seek as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_machine::cancel::Cancel;
use weir_net::address::Prefix;

use super::bed::{Bed, SERVER_DIRECT};
use super::requests::{Serving, children};
use super::{Result, Settings, wait};

/// Where they come from; the server's way back leads there.
const SOURCES: &str = "198.18.0.0/16";
/// How long they are held.
const HOLD: &str = "--duration=3s";
/// Connections of a worker, with the descriptors that it may have here.
const OF_WORKER_MAX: u64 = 16_000;
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(20);

/// What was found.
pub(super) struct Held {
    /// Connections that were open at a time, without an error, of those asked for.
    pub(super) good_ratio: f64,
    pub(super) opening_s: f64,
    pub(super) connection_bytes: f64,
}

/// Holds the settings' connections.
pub(super) fn hold(bed: &Bed, settings: &Settings, cancel: &Cancel) -> Result<Held> {
    let server: Prefix = SERVER_DIRECT.parse()?;
    let address = SocketAddr::new(server.address(), 80);
    let count = settings.held_connections;
    bed.lead_back(SOURCES)?;
    let workers = count.div_ceil(OF_WORKER_MAX);
    let serving = Serving::start_with(bed, settings, address, workers.max(2))?;
    let few = run(bed, settings, cancel, (address, workers, workers))?;
    let many = run(bed, settings, cancel, (address, count, workers))?;
    drop(serving);
    let more = count.saturating_sub(workers).max(1) as f64;
    let number = |pointer: &str| many.result.pointer(pointer).and_then(Value::as_u64);
    let open = number("/connections_open_max").ok_or("the result has no open connections")?;
    let sum = |pointer: &str| -> u64 {
        let all = many.result.pointer(pointer).and_then(Value::as_object);
        all.into_iter().flat_map(|all| all.values()).filter_map(Value::as_u64).sum()
    };
    let errors = sum("/counts/failures") + sum("/counts/not_opened");
    let opening_ns = number("/opening_ns").ok_or("the result has no time of opening")?;
    Ok(Held {
        good_ratio: open.saturating_sub(errors) as f64 / count as f64,
        opening_s: opening_ns as f64 / 1e9,
        connection_bytes: many.anonymous_bytes.saturating_sub(few.anonymous_bytes) as f64 / more,
    })
}

/// One run of the client.
struct Run {
    result: Value,
    /// The most that its workers had of memory that no file is behind, all together.
    anonymous_bytes: u64,
}

fn run(
    bed: &Bed,
    settings: &Settings,
    cancel: &Cancel,
    (address, count, workers): (SocketAddr, u64, u64),
) -> Result<Run> {
    let url = format!("http://{address}/b/1");
    let (count, workers) = (format!("--connections={count}"), format!("--workers={workers}"));
    let words = ["http", "--json", &url, &count, &workers, "--source", SOURCES, HOLD];
    let more = ["--connect-rate=15k", "--rate=1", "--keepalive=1000", "--close=rst"];
    let mut result = tempfile::tempfile()?;
    let start = || -> std::io::Result<Child> {
        let mut command = Command::new(&settings.weir);
        command.args(words).args(more).stdin(Stdio::null());
        // A result with every bucket of its histograms is longer than a pipe.
        command.stdout(result.try_clone()?).stderr(Stdio::piped()).spawn()
    };
    let mut child = bed.client.run(start)??;
    let watched = watch(&mut child, cancel);
    if watched.is_err() {
        drop(child.kill());
    }
    let output = child.wait_with_output()?;
    let anonymous_bytes = watched?;
    result.rewind()?;
    let result = serde_json::from_reader(result)
        .map_err(|_| format!("weir http: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(Run { result, anonymous_bytes })
}

/// Looks at the workers' memory until the client has ended.
fn watch(child: &mut Child, cancel: &Cancel) -> Result<u64> {
    let (begin, mut most) = (Instant::now(), 0);
    while child.try_wait()?.is_none() {
        // Those that end meanwhile have none.
        let workers = children(child.id()).unwrap_or_default();
        most = workers.iter().filter_map(|worker| anonymous_bytes(worker)).sum::<u64>().max(most);
        if begin.elapsed() > PATIENCE {
            return Err("weir http does not end".into());
        }
        wait(LOOK, cancel)?;
    }
    Ok(most)
}

/// `RssAnon` of a process (proc_pid_status(5)).
fn anonymous_bytes(process: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}
