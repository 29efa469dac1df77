//! Requests over HTTP by `weir http`, by wrk and by oha, in turn, against the same `weir http
//! serve`, per second of the client's CPU time.
//!
//! Starting takes each of them some time that has nothing to do with requests. So each runs for a
//! while and for three times as long, and what counts is what the longer run had more.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;
use weir_machine::cancel::Cancel;
use weir_net::address::Prefix;

use super::bed::{Bed, SERVER_DIRECT};
use super::{Result, Settings};

/// wrk knows whole seconds.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) connections: u32,
    /// Each request has a connection.
    pub(super) closes: bool,
}

/// Another client.
#[derive(Debug, Clone, Copy)]
pub(super) enum Client {
    Wrk,
    Oha,
}

impl Client {
    fn is_there(self) -> bool {
        let program = match self {
            Self::Wrk => "wrk",
            Self::Oha => "oha",
        };
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    }
}

/// Rows of requests: that of weir, and of other clients with that of weir against them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub(super) weir: &'static str,
    pub(super) others: &'static [(Client, &'static str, &'static str)],
}

/// Requests per second of CPU time, by weir and by the others; `None` for those that are not there.
pub(super) fn rates(
    bed: &Bed,
    settings: &Settings,
    cancel: &Cancel,
    (case, clients): (Case, impl Iterator<Item = Client>),
) -> Result<(f64, Vec<Option<f64>>)> {
    let server: Prefix = SERVER_DIRECT.parse()?;
    let address = SocketAddr::new(server.address(), 80);
    let _serving = Serving::start(bed, settings, address)?;
    let weir = marginal(cancel, |time| by_weir(bed, settings, address, case, time))?;
    let others = clients.map(|client| {
        let run = |time| match client {
            Client::Wrk => by_wrk(bed, address, case, time),
            Client::Oha => by_oha(bed, address, case, time),
        };
        client.is_there().then(|| marginal(cancel, run)).transpose()
    });
    Ok((weir, others.collect::<Result<_>>()?))
}

fn marginal(cancel: &Cancel, run: impl Fn(Duration) -> Result<u64>) -> Result<f64> {
    marginal_of(cancel, children_time, run)
}

/// What the longer run had more, per second of CPU time that it had more.
pub(super) fn marginal_of(
    cancel: &Cancel,
    cpu_time: impl Fn() -> Result<Duration>,
    run: impl Fn(Duration) -> Result<u64>,
) -> Result<f64> {
    let mut ran = Vec::new();
    for time in [SHORT, LONG] {
        if cancel.signal().is_some() {
            return Err("interrupted".into());
        }
        let before = cpu_time()?;
        let requests = run(time)?;
        ran.push((requests as f64, (cpu_time()? - before).as_secs_f64()));
    }
    let rate = (ran[1].0 - ran[0].0) / (ran[1].1 - ran[0].1);
    if rate.is_finite() && rate > 0.0 {
        return Ok(rate);
    }
    Err(format!("the longer run has no more requests, or took no more time: {ran:?}").into())
}

/// CPU time of all processes that this one has started and that have ended.
fn children_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let of = |time: nix::sys::time::TimeVal| -> Result<Duration> {
        let (seconds, microseconds) = (time.tv_sec().try_into()?, time.tv_usec().try_into()?);
        Ok(Duration::new(seconds, 0) + Duration::from_micros(microseconds))
    };
    Ok(of(usage.user_time())? + of(usage.system_time())?)
}

/// The output of a command at the client, which has to end well.
fn at_client(bed: &Bed, program: &str, words: &[String]) -> Result<Output> {
    let output = bed.client.run(|| Command::new(program).args(words).output())??;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Good answers to `weir http` in that time.
pub(super) fn by_weir(
    bed: &Bed,
    settings: &Settings,
    address: SocketAddr,
    case: Case,
    time: Duration,
) -> Result<u64> {
    let mut words: Vec<String> = ["http", "--json", "--workers", "1"].map(str::to_owned).into();
    words.push(format!("http://{address}/b/128"));
    words.push(format!("--connections={}", case.connections));
    words.push(format!("--duration={}s", time.as_secs()));
    words.push(format!("--cpus={}", bed.cpus[0]));
    if case.closes {
        words.push("--close=fin".to_owned());
    }
    let output = at_client(bed, &settings.weir.to_string_lossy(), &words)?;
    let result: Value = serde_json::from_slice(&output.stdout)?;
    if result["counts"]["failures"].as_object().is_none_or(|all| all.values().any(|one| one != 0)) {
        return Err(format!("weir http: {}", result["counts"]).into());
    }
    Ok(result["counts"]["answered"].as_u64().ok_or("the result has no answers")?)
}

fn by_wrk(bed: &Bed, address: SocketAddr, case: Case, time: Duration) -> Result<u64> {
    let cpu = bed.cpus[0].to_string();
    let mut words: Vec<String> = ["-c", &cpu, "wrk", "-t1"].map(str::to_owned).into();
    words.push(format!("-c{}", case.connections));
    words.push(format!("-d{}s", time.as_secs()));
    if case.closes {
        words.extend(["-H", "Connection: close"].map(str::to_owned));
    }
    words.push(format!("http://{address}/b/128"));
    let output = at_client(bed, "taskset", &words)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = |line: &str| line.trim().split_once(" requests in ")?.0.parse::<u64>().ok();
    let count = text.lines().find_map(count);
    count.filter(|count| *count > 0).ok_or_else(|| format!("wrk: {text}").into())
}

fn by_oha(bed: &Bed, address: SocketAddr, case: Case, time: Duration) -> Result<u64> {
    let cpu = bed.cpus[0].to_string();
    let words = ["-c", &cpu, "oha", "--no-tui", "--output-format", "json"];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.push(format!("-c{}", case.connections));
    words.push(format!("-z{}s", time.as_secs()));
    if case.closes {
        words.push("--disable-keepalive".to_owned());
    }
    words.push(format!("http://{address}/b/128"));
    let output = at_client(bed, "taskset", &words)?;
    let result: Value = serde_json::from_slice(&output.stdout)?;
    let count = result["statusCodeDistribution"]["200"].as_u64();
    count.ok_or_else(|| format!("oha: no answer of status 200 in {result}").into())
}

/// The server, which ends when this is dropped.
pub(super) struct Serving(Child);

impl Serving {
    /// `weir http serve` with one worker.
    pub(super) fn start(bed: &Bed, settings: &Settings, address: SocketAddr) -> Result<Self> {
        Self::start_with(bed, settings, address, 1)
    }

    /// The same with several.
    pub(super) fn start_with(
        bed: &Bed,
        settings: &Settings,
        address: SocketAddr,
        workers: u64,
    ) -> Result<Self> {
        let (listen, cpu) = (address.to_string(), bed.cpus[1].to_string());
        let workers = workers.to_string();
        let words = ["http", "serve", "--workers", &workers, "--listen", &listen, "--pin", &cpu];
        let mut command = Command::new(&settings.weir);
        command.args(words);
        Self::spawn(bed, command, address)
    }

    /// Any server that stays in the foreground.
    pub(super) fn spawn(bed: &Bed, mut command: Command, address: SocketAddr) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let serving = Self(bed.server.run(|| command.spawn())??);
        let deadline = Instant::now() + PATIENCE;
        while bed.client.run(|| TcpStream::connect_timeout(&address, PATIENCE))?.is_err() {
            if Instant::now() > deadline {
                return Err("the server does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(serving)
    }

    /// CPU time of it and of the processes that it has started, each of which has one thread.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        let ns = |process: &str| -> Result<u64> {
            let text = std::fs::read_to_string(format!("/proc/{process}/schedstat"))?;
            Ok(text.split(' ').next().unwrap_or_default().parse()?)
        };
        let this = self.0.id().to_string();
        let mut all_ns = ns(&this)?;
        for child in children(self.0.id())? {
            all_ns += ns(&child)?;
        }
        Ok(Duration::from_nanos(all_ns))
    }
}

/// The processes that a process has started, by number.
pub(super) fn children(process: u32) -> Result<Vec<String>> {
    let mut all = Vec::new();
    // Each thread has those that it started.
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("children"))?;
        all.extend(text.split_ascii_whitespace().map(str::to_owned));
    }
    Ok(all)
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Its workers end with it.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
