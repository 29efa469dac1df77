//! What `weir http` prints: before the start, each second, at the end.
//!
//! It computes nothing but rates from counts. With `--json` standard output has one object a line,
//! and text goes to standard error.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use weir_http::figures::{Counts, Failures};
use weir_http::pacing::Arrivals;
use weir_http::verdict::{self, Evidence, Kind, THRESHOLDS, Verdict};
use weir_load::client::config::{Close, Load, WorkerConfig};
use weir_load::client::manager::{Measured, PoolMeasured, Progress};
use weir_results::number::{bps, counted, delay_ns};
use weir_stats::Threshold;
use weir_wire::units::{format_count, format_duration};

use self::steps::StepResult;
use super::plan::{Plan, PoolPlan};
use crate::exit;
use crate::receive::Screen;
use crate::traffic::show::{Distribution, line, nanoseconds, say, show_total};

mod steps;

/// Wide enough for the longest name.
const NAME_WIDTH: usize = 14;

/// Says what will be done.
pub(super) fn start(plan: &Plan) {
    for pool in &plan.pools {
        say(&intention(pool, plan.duration));
    }
}

fn intention(plan: &PoolPlan, duration: Duration) -> String {
    let config = &plan.pool.config;
    let load = match config.load {
        Load::Open(pace) => {
            let how = match pace.arrivals {
                Arrivals::Constant => "evenly",
                Arrivals::Poisson => "as independent users send them",
            };
            format!("{} requests/s, {how}", rate(pace.rate_per_s))
        }
        Load::Closed => "closed loop".to_owned(),
    };
    let ends = match (config.keepalive, config.close) {
        (None, Close::Fin) => String::new(),
        (None, Close::Rst) => "; connections end with a RST".to_owned(),
        (Some(most), close) => {
            let how = if close == Close::Rst { "a RST" } else { "a FIN" };
            format!("; {how} after {}", counted(most, "request"))
        }
    };
    let name = plan.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    let address = config.server.ip().to_string();
    let at = if plan.url.contains(&address) { String::new() } else { format!(" ({address})") };
    format!(
        "{name}{}{at}: {}, {load}, for {}; {}{ends}",
        plan.url,
        counted(config.connections, "connection"),
        format_duration(duration),
        counted(plan.pool.workers.into(), "worker"),
    )
}

/// Where a run stands.
#[derive(Debug, Serialize)]
struct Second<'a> {
    kind: &'static str,
    t_ns: u64,
    /// `opening` connections, or `running`.
    phase: &'static str,
    answered_rps: f64,
    failed_rps: f64,
    received_bytes_per_s: f64,
    counts: &'a Counts,
    latency_ns: Option<Distribution>,
}

/// Where a run stands, each second: a line, or on a terminal a block in the place of the last one.
pub(super) struct Lines {
    json: bool,
    screen: Screen,
    connections: u64,
    last: (Duration, Counts),
}

impl Lines {
    pub(super) fn new(json: bool, connections: u64) -> Self {
        let screen = Screen::new(json);
        Self { json, screen, connections, last: (Duration::ZERO, Counts::default()) }
    }

    /// Whether it is shown in place, which nobody need ask for.
    pub(super) fn is_in_place(&self) -> bool {
        self.screen.is_terminal()
    }

    pub(super) fn show(&mut self, now: &Progress) -> anyhow::Result<()> {
        if self.is_in_place() {
            let last = std::mem::replace(&mut self.last, (now.elapsed, now.counts));
            let block = block(now, &last, self.connections);
            return self.screen.in_place(&block);
        }
        let Progress { elapsed, counts, .. } = now;
        let (then, before) = self.last;
        self.last = (*elapsed, *counts);
        let time = elapsed.saturating_sub(then);
        let since =
            |of: fn(&Counts) -> u64| per_second(of(counts).saturating_sub(of(&before)), time);
        let answered_rps = since(|counts| counts.answered);
        let failed_rps = since(|counts| counts.failures.sum());
        let received_bytes_per_s = since(|counts| counts.received_bytes);
        let latency_ns = Distribution::of_times(&now.latency);
        let mut text = format!("{:>6.1} s  ", elapsed.as_secs_f64());
        let open = format_count(counts.open);
        if now.is_running {
            let received = bps(received_bytes_per_s * 8.0);
            let answered = rate(answered_rps);
            let _ = write!(text, "{answered}/s answered, {received} received, {open} open");
        } else {
            let _ = write!(text, "opening: {open} of {} open", format_count(self.connections));
        }
        if let Some(handshakes) = handshakes(counts) {
            let _ = write!(text, ", handshakes: {handshakes}");
        }
        for (_, words, count) in counts.failures.named().filter(|(_, _, count)| *count > 0) {
            let _ = write!(text, ", {} {words}", format_count(count));
        }
        for (share, name) in [(0.5, "p50"), (0.99, "p99")] {
            if let Some(time_ns) = now.latency.quantile_ns(share) {
                let _ = write!(text, ", {name} {}", delay_ns(time_ns));
            }
        }
        say(&text);
        if !self.json {
            return Ok(());
        }
        let phase = if now.is_running { "running" } else { "opening" };
        let (kind, t_ns) = ("second", nanoseconds(*elapsed));
        line(&Second {
            kind,
            t_ns,
            phase,
            answered_rps,
            failed_rps,
            received_bytes_per_s,
            counts,
            latency_ns,
        })
        .context(exit::NO_OUTPUT)
    }
}

/// The live view: what was done in this second, and what has gone wrong so far.
fn block(now: &Progress, (then, before): &(Duration, Counts), connections: u64) -> String {
    let counts = &now.counts;
    let time = now.elapsed.saturating_sub(*then);
    let since = |of: fn(&Counts) -> u64| per_second(of(counts).saturating_sub(of(before)), time);
    let phase = if now.is_running { "sending" } else { "opening connections" };
    let mut text = format!("{:.0} s, {phase}\n", now.elapsed.as_secs_f64());
    let mut row = |name: &str, what: String| {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  {name:<NAME_WIDTH$}{what}");
    };
    let (open, opened) = (format_count(counts.open), rate(since(|counts| counts.established)));
    row("connections", format!("{open} open of {}, {opened}/s new", format_count(connections)));
    let (due, answered) = (rate(since(|counts| counts.due)), rate(since(|counts| counts.answered)));
    row("requests", format!("{due}/s due, {answered}/s answered; {}", requests(counts)));
    let [received, sent] =
        [since(|counts| counts.received_bytes), since(|counts| counts.sent_bytes)]
            .map(|bytes_per_s| bps(bytes_per_s * 8.0));
    row("bytes", format!("{received} received, {sent} sent"));
    let quantiles = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "max")];
    let times = quantiles.map(|(share, name)| {
        let time_ns = now.latency.quantile_ns(share);
        format!("{name} {}", time_ns.map_or_else(|| "-".to_owned(), delay_ns))
    });
    row("latency", times.join(", "));
    if let Some(handshakes) = handshakes(counts) {
        row("handshakes", handshakes);
    }
    let failed = failures(&counts.failures);
    row("failed", if failed.is_empty() { "none".to_owned() } else { failed.join(", ") });
    let not_opened = failures(&counts.not_opened);
    if !not_opened.is_empty() {
        row("not opened", not_opened.join(", "));
    }
    text
}

/// What the client's network namespace counted meanwhile, whoever it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Network {
    /// Connections that a listening socket had no room for.
    pub(super) listen_overflows: u64,
    /// SYNs that were sent again.
    pub(super) syn_retransmits: u64,
}

impl Network {
    /// What was counted since.
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            listen_overflows: self.listen_overflows.saturating_sub(before.listen_overflows),
            syn_retransmits: self.syn_retransmits.saturating_sub(before.syn_retransmits),
        }
    }
}

/// One worker.
#[derive(Debug, Serialize)]
struct WorkerResult {
    busy_ratio: f64,
    /// The share of the run for which it slept past the moment at which it was to wake.
    still_ratio: f64,
    cpu_time_ns: u64,
    answered: u64,
}

/// The JSON object of a run: that of its only pool, or of all.
#[derive(Debug, Serialize)]
pub(super) struct RunResult {
    kind: &'static str,
    ended_by: &'static str,
    opening_ns: u64,
    #[serde(flatten)]
    what: What,
    network: Network,
    thresholds: Vec<Threshold>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum What {
    One(Box<PoolResult>),
    Pools { pools: Vec<PoolResult> },
}

impl RunResult {
    pub(super) fn new(plan: &Plan, measured: &Measured, network: Network) -> Self {
        let all = plan.pools.iter().zip(&measured.pools);
        let mut all: Vec<PoolResult> =
            all.map(|(plan, measured)| PoolResult::new(plan, measured, network)).collect();
        let what = match all.pop_if(|pool| pool.name.is_none()) {
            Some(only) => What::One(Box::new(only)),
            None => What::Pools { pools: all },
        };
        Self {
            kind: "result",
            ended_by: if measured.is_stopped { "signal" } else { "duration" },
            opening_ns: nanoseconds(measured.opening),
            what,
            network,
            thresholds: THRESHOLDS.into(),
        }
    }

    fn pools(&self) -> &[PoolResult] {
        match &self.what {
            What::One(pool) => std::slice::from_ref(pool.as_ref()),
            What::Pools { pools } => pools,
        }
    }

    /// Whether a pool has measured nothing.
    pub(super) fn is_void(&self) -> bool {
        self.pools().iter().any(|pool| pool.verdict.kind == Kind::Invalid)
    }

    pub(super) fn show(&self, json: bool) -> anyhow::Result<()> {
        show_total(self, &self.text(), json)
    }

    fn text(&self) -> String {
        let mut text: String = self.pools().iter().map(PoolResult::text).collect();
        if self.network.syn_retransmits > 0 {
            let count = counted(self.network.syn_retransmits, "SYN");
            let _ =
                writeln!(text, "{:<NAME_WIDTH$}  {count} sent again in this namespace", "network");
        }
        text.extend(self.pools().iter().map(PoolResult::tables));
        text
    }
}

/// What one pool came to.
#[derive(Debug, Serialize)]
struct PoolResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    url: String,
    server: SocketAddr,
    load: Load,
    connections: u64,
    /// The most that each worker had open at a time, added up.
    connections_open_max: u64,
    duration_ns: u64,
    /// Of all that was due; `None` in a closed loop.
    requested_rps: Option<f64>,
    /// Good answers until the end of the run; `counts` has those behind it, too.
    answered_rps: f64,
    /// Until the end of the run.
    received_bytes_per_s: f64,
    counts: Counts,
    latency_ns: Option<Distribution>,
    service_ns: Option<Distribution>,
    /// `None` in a closed loop, where nothing is due before it is sent.
    lag_ns: Option<Distribution>,
    connect_ns: Option<Distribution>,
    /// `None` without TLS.
    handshake_ns: Option<Distribution>,
    /// What was wrong with TLS when it failed first.
    tls_failure: Option<String>,
    /// Until the end of the run.
    timeline: Vec<StepResult>,
    workers: Vec<WorkerResult>,
    verdict: Verdict,
}

impl PoolResult {
    fn new(plan: &PoolPlan, measured: &PoolMeasured, network: Network) -> Self {
        let WorkerConfig { connections, load, think_ns, .. } = plan.pool.config;
        let figures = &measured.figures;
        let rate_rps = match load {
            Load::Open(_) => Some(per_second(figures.counts.due, measured.run)),
            Load::Closed => None,
        };
        let busy_ratio = measured.busy_ratios().fold(0.0, f64::max);
        let verdict = verdict::judge(&Evidence {
            figures,
            rate_rps,
            answered_in_time: measured.answered_in_time(),
            service_in_time_ns: measured.service_in_time_ns(),
            think_ns,
            busy_ratio,
            still_ratio: measured.still_ratios().fold(0.0, f64::max),
            listen_overflows: network.listen_overflows,
        });
        let ratios = measured.busy_ratios().zip(measured.still_ratios());
        let workers = measured.workers.iter().zip(ratios);
        let workers = workers.map(|(worker, (busy_ratio, still_ratio))| WorkerResult {
            busy_ratio,
            still_ratio,
            cpu_time_ns: worker.ran_ns,
            answered: worker.figures.counts.answered,
        });
        Self {
            name: plan.name.clone(),
            url: plan.url.clone(),
            server: plan.pool.config.server,
            load,
            connections,
            connections_open_max: measured.open_max(),
            duration_ns: nanoseconds(measured.run),
            requested_rps: rate_rps,
            answered_rps: per_second(measured.answered_in_time(), measured.run),
            received_bytes_per_s: per_second(measured.received_in_time_bytes(), measured.run),
            counts: figures.counts,
            latency_ns: Distribution::of_times(&figures.latency),
            service_ns: Distribution::of_times(&figures.service),
            lag_ns: Distribution::of_times(&figures.lag),
            connect_ns: Distribution::of_times(&figures.connect),
            handshake_ns: Distribution::of_times(&figures.handshake),
            tls_failure: measured.tls_failure().map(str::to_owned),
            timeline: steps::timeline(measured),
            workers: workers.collect(),
            verdict,
        }
    }

    fn text(&self) -> String {
        let asked = self.requested_rps.map(|rate_rps| format!(", requested {}", rate(rate_rps)));
        let name = self.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let mut text = format!(
            "{name}{} requests/s answered for {:.3} s{}; {} received\n",
            rate(self.answered_rps),
            Duration::from_nanos(self.duration_ns).as_secs_f64(),
            asked.unwrap_or_default(),
            bps(self.received_bytes_per_s * 8.0),
        );
        let mut row = |name: &str, what: &str| {
            let _ = writeln!(text, "{name:<NAME_WIDTH$}  {what}");
        };
        let counts = &self.counts;
        row("verdict", &format!("{}: {}", self.verdict.kind.name(), self.verdict.reason));
        row("requests", &requests(counts));
        for what in failures(&counts.failures) {
            row("failed", &what);
        }
        row("connections", &self.connections(counts));
        for what in failures(&counts.not_opened) {
            row("not opened", &what);
        }
        if let Some(handshakes) = handshakes(counts) {
            row("handshakes", &handshakes);
        }
        if let Some(why) = &self.tls_failure {
            row("TLS failed", why);
        }
        for (name, times) in [
            ("latency", &self.latency_ns),
            ("service time", &self.service_ns),
            ("send lag", &self.lag_ns),
            ("connect", &self.connect_ns),
            ("handshake", &self.handshake_ns),
        ] {
            if let Some(times) = times {
                row(name, &times.words());
            }
        }
        let busiest = self.workers.iter().map(|worker| worker.busy_ratio).fold(0.0, f64::max);
        let workers = counted(self.workers.len() as u64, "worker");
        let busy = format!("{workers}; the busiest ran or waited {:.0} %", busiest * 100.0);
        row("client", &(busy + " of the time"));
        text
    }

    /// Timeline and histogram, behind their pool's name.
    fn tables(&self) -> String {
        let timeline = steps::timeline_table(&self.timeline);
        let latency = self.latency_ns.as_ref().map(steps::latency_table);
        let name = self.name.as_ref().map(|name| format!("\n{name}\n"));
        let tables: String = timeline.into_iter().chain(latency).collect();
        if tables.is_empty() { tables } else { name.unwrap_or_default() + &tables }
    }

    fn connections(&self, counts: &Counts) -> String {
        let mut text = format!(
            "at most {} open at a time{}, {} asked for; {} established in all",
            format_count(self.connections_open_max),
            if self.workers.len() > 1 { " (the workers' most, added up)" } else { "" },
            format_count(self.connections),
            format_count(counts.established),
        );
        if counts.closed_idle > 0 {
            let closed = format_count(counts.closed_idle);
            let _ = write!(text, ", {closed} closed by the server while idle");
        }
        text
    }
}

/// Where the requests went; what is zero is left out.
fn requests(counts: &Counts) -> String {
    let mut text =
        format!("{} due: {} answered", format_count(counts.due), format_count(counts.answered));
    for (count, what) in [
        (counts.failures.sum(), "failed"),
        (counts.aborted, "reset on purpose"),
        (counts.unsent, "never sent for want of a free connection"),
        (counts.unfinished, "unfinished at the end"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {} {what}", format_count(count));
        }
    }
    if counts.retried > 0 {
        let _ = write!(text, "; {} sent twice", format_count(counts.retried));
    }
    text
}

/// How TLS was agreed on; `None` if it never was.
fn handshakes(counts: &Counts) -> Option<String> {
    let (full, resumed) = (counts.handshakes_full, counts.handshakes_resumed);
    (full + resumed > 0)
        .then(|| format!("{} full, {} resumed", format_count(full), format_count(resumed)))
}

fn failures(failures: &Failures) -> Vec<String> {
    let named = failures.named().filter(|(_, _, count)| *count > 0);
    named.map(|(_, words, count)| format!("{} {words}", format_count(count))).collect()
}

fn per_second(count: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// A rate per second, whole from 100 on.
fn rate(per_second: f64) -> String {
    if per_second < 100.0 {
        return format!("{per_second:.1}");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a conversion from floating point saturates, and rates are not negative"
    )]
    let whole = per_second.round() as u64;
    format_count(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_http::figures::Failure;

    #[test]
    fn the_live_view_has_this_second_and_all_failures() {
        let before =
            Counts { due: 100, answered: 100, open: 7, established: 7, ..Counts::default() };
        let mut counts = Counts { due: 301, answered: 300, open: 8, established: 9, ..before };
        counts.received_bytes = 250_000;
        let mut latency = weir_http::figures::Times::default();
        latency.record(1_500_000);
        let now = |counts: Counts| Progress {
            elapsed: Duration::from_secs(4),
            is_running: true,
            counts,
            latency: latency.clone(),
        };
        let last = (Duration::from_secs(2), before);
        let text = block(&now(counts), &last, 8);
        for part in [
            "4 s, sending",
            "8 open of 8, 1.0/s new",
            "101/s due, 100/s answered; 301 due: 300 answered",
            "1.000 Mbit/s received",
            "p50 1.5",
            "failed        none",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        counts.failures.add(Failure::Timeout);
        counts.not_opened.add(Failure::Refused);
        let text = block(&now(counts), &last, 8);
        assert!(text.contains("1 no whole answer in time") && text.contains("1 refused"), "{text}");
    }

    #[test]
    fn every_place_of_a_request_is_named() {
        let mut counts = Counts { due: 1_003, answered: 1_000, ..Counts::default() };
        assert_eq!(requests(&counts), "1,003 due: 1,000 answered");
        counts.failures.add(Failure::Reset);
        counts.unsent = 1;
        counts.unfinished = 1;
        counts.retried = 4;
        assert_eq!(
            requests(&counts),
            "1,003 due: 1,000 answered, 1 failed, 1 never sent for want of a free connection, 1 \
             unfinished at the end; 4 sent twice"
        );
        assert_eq!(failures(&counts.failures), ["1 reset by the other end"]);
    }

    #[test]
    fn handshakes_are_named_where_there_are_some() {
        let mut counts = Counts { established: 5, ..Counts::default() };
        assert_eq!(handshakes(&counts), None);
        (counts.handshakes_full, counts.handshakes_resumed) = (1, 1_004);
        assert_eq!(handshakes(&counts).as_deref(), Some("1 full, 1,004 resumed"));
    }

    #[test]
    fn small_rates_have_a_fraction() {
        assert_eq!([0.5, 99.96, 100.0, 12_345.6].map(rate), ["0.5", "100.0", "100", "12,346"]);
    }
}
