//! What `weir gen` prints: before the start, each second, at the end.
//!
//! It computes nothing but rates from counts. With `--json` standard output has one object a line,
//! and text goes to standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use weir_bpf::generator::GeneratorCounters;
use weir_bpf::histogram::Histogram;
use weir_gen::backend::{GeneratorReport, ThreadReport};
use weir_http::figures::Times;
use weir_results::number::{self, counted, delay_ns};
use weir_wire::ethernet::FCS_BYTES;
use weir_wire::stream::StreamFrames;
use weir_wire::traffic::Traffic;
use weir_wire::units::{Rate, format_count};

use super::plan::{Content, Plan};
use crate::cli::traffic::{BackendName, RateArg};
use crate::{exit, progress};

/// One second of a run.
#[derive(Debug, Serialize)]
pub(super) struct Second {
    kind: &'static str,
    t_ns: u64,
    offered_packets: u64,
    offered_pps: f64,
    accepted_packets: Option<u64>,
    accepted_pps: Option<f64>,
    stalls: u64,
}

/// The end of a run.
#[derive(Debug, Serialize)]
pub(super) struct RunResult {
    kind: &'static str,
    backend: &'static str,
    interface: Option<String>,
    ended_by: &'static str,
    /// `None` for a replay, whose flows are not looked at.
    flow_count: Option<u128>,
    streams: Vec<StreamOutcome>,
    replay: Option<ReplayOutcome>,
    size_bytes_min: usize,
    size_bytes_max: usize,
    mean_size_bytes: f64,
    mean_size_with_fcs_bytes: f64,
    requested: String,
    requested_pps: Option<f64>,
    ramp_ns: u64,
    duration_ns: u64,
    offered_packets: u64,
    offered_bytes: u64,
    offered_pps: f64,
    accepted_packets: Option<u64>,
    accepted_counter: Option<&'static str>,
    /// What the device counted, if others sent over it at the same time.
    shared_device_packets: Option<u64>,
    achieved_pps: f64,
    achieved_percent: Option<f64>,
    achieved_bps: f64,
    stalls: Option<u64>,
    stall_lost_ns: Option<u64>,
    gap_max_ns: Option<u64>,
    gap_ns: Option<Distribution>,
    threads: Vec<ThreadResult>,
}

/// One stream of a run.
#[derive(Debug, Serialize)]
struct StreamOutcome {
    stream: u8,
    name: String,
    flow_count: u64,
    offered_packets: u64,
}

/// The file of a replay.
#[derive(Debug, Serialize)]
struct ReplayOutcome {
    file: String,
    packets: u64,
    bytes: u64,
    duration_ns: u64,
    /// How often it was to be sent; 0 is without end.
    loops: u64,
}

/// Times, nanoseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Distribution {
    count: u64,
    min: Option<u64>,
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    p99_9: Option<u64>,
    max: Option<u64>,
    /// Lowest and highest value of a bucket, and how many times it has.
    buckets: Vec<(u64, u64, u64)>,
}

impl Distribution {
    /// That of a histogram with something in it.
    pub(crate) fn new(histogram: &Histogram) -> Option<Self> {
        let quantile = |per_mille| histogram.quantile(per_mille);
        (histogram.count() > 0).then(|| Self {
            count: histogram.count(),
            min: histogram.min(),
            p50: quantile(500),
            p90: quantile(900),
            p99: quantile(990),
            p99_9: quantile(999),
            max: histogram.max(),
            buckets: histogram.buckets().collect(),
        })
    }

    /// That of times of requests, if there are some.
    pub(crate) fn of_times(times: &Times) -> Option<Self> {
        Some(Self {
            count: times.count(),
            min: Some(times.min_ns()?),
            p50: times.quantile_ns(0.5),
            p90: times.quantile_ns(0.9),
            p99: times.quantile_ns(0.99),
            p99_9: times.quantile_ns(0.999),
            max: times.max_ns(),
            buckets: times.buckets().collect(),
        })
    }

    /// Lowest and highest value of each bucket, in their order, and how many times it has.
    pub(crate) fn buckets(&self) -> &[(u64, u64, u64)] {
        &self.buckets
    }

    /// The quantiles for people.
    pub(crate) fn words(&self) -> String {
        let quantiles = [
            ("min", self.min),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p99_9),
            ("max", self.max),
        ];
        quantiles.map(|(name, ns)| format!("{name} {}", delay_ns(ns.unwrap_or(0)))).join(", ")
    }
}

#[derive(Debug, Serialize)]
struct ThreadResult {
    cpu: Option<u32>,
    offered_packets: u64,
    stalls: Option<u64>,
    gap_max_ns: Option<u64>,
}

/// Where the output goes.
pub(super) struct Show {
    json: bool,
    bar: Option<ProgressBar>,
    last: (Duration, u64, Option<u64>),
}

impl Show {
    pub(super) fn new(json: bool) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        Self { json, bar, last: (Duration::ZERO, 0, None) }
    }

    /// What will be sent.
    pub(super) fn start(&self, plan: &Plan) {
        for note in &plan.notes {
            progress::warn(note);
        }
        let place = match (&plan.backend, &plan.path) {
            (BackendName::Pcap(file), _) => format!("into {}", file.display()),
            (_, Some(path)) => format!("to {} ({})", path.link.name, path.driver),
            (_, None) => String::new(),
        };
        let threads = counted(plan.thread_count.into(), "thread");
        let (what, streams) = match &plan.content {
            Content::Streams(traffic, names) => (
                match traffic.flow_count() {
                    1 => "1 flow".to_owned(),
                    count => format!("{} flows", format_count_wide(count)),
                },
                streams(traffic, names),
            ),
            Content::Replay(recording) => (recording.describe(), Vec::new()),
        };
        let (sizes, rate) = (sizes(&plan.content), plan.requested);
        say(&format!("{what}, {sizes}, rate {rate}, {threads}, {place}"));
        for stream in streams {
            say(&stream);
        }
    }

    /// What happened since the last call.
    pub(super) fn second(
        &mut self,
        elapsed: Duration,
        counters: &GeneratorCounters,
        accepted: Option<u64>,
    ) -> io::Result<()> {
        let (then, offered_then, accepted_then) = self.last;
        let seconds = elapsed.saturating_sub(then).as_secs_f64();
        let pps = |now: u64, then: u64| {
            if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 }
        };
        let second = Second {
            kind: "second",
            t_ns: nanoseconds(elapsed),
            offered_packets: counters.offered_packets,
            offered_pps: pps(counters.offered_packets, offered_then),
            accepted_packets: accepted,
            accepted_pps: accepted.map(|now| pps(now, accepted_then.unwrap_or(0))),
            stalls: counters.stalls,
        };
        self.last = (elapsed, counters.offered_packets, accepted);
        let mut text = format!(
            "{:>6.1} s  {} packets offered, {}",
            elapsed.as_secs_f64(),
            format_count(second.offered_packets),
            number::pps(second.offered_pps)
        );
        if let Some(accepted_pps) = second.accepted_pps {
            text += &format!(", {} accepted", number::pps(accepted_pps));
        }
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None => say(&text),
        }
        if self.json { line(&second) } else { Ok(()) }
    }

    /// The totals.
    pub(super) fn end(&self, result: &RunResult) -> io::Result<()> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let text = summary(result);
        if self.json {
            say(&text);
            return line(result);
        }
        writeln!(anstream::stdout(), "{text}")
    }
}

impl RunResult {
    pub(super) fn new(
        plan: &Plan,
        report: &GeneratorReport,
        accepted: Option<(u64, &'static str)>,
        ended_by: &'static str,
    ) -> Self {
        let counters = &report.counters;
        let paced = plan.requested != RateArg::Rate(Rate::Max)
            && !matches!(plan.backend, BackendName::Pcap(_));
        let seconds = report.duration.as_secs_f64();
        // The device counts what others send too. More than was offered cannot be of this run; what
        // of it was lost cannot be known then.
        let shared = accepted.map(|(packets, _)| packets);
        let shared = shared.filter(|packets| *packets > counters.offered_packets);
        let accepted = accepted.map(|(n, counter)| (n.min(counters.offered_packets), counter));
        let achieved = accepted.map_or(counters.offered_packets, |(packets, _)| packets);
        let achieved_pps = if seconds > 0.0 { achieved as f64 / seconds } else { 0.0 };
        // What was refused was refused before the start, so that there is a schedule or none.
        let schedule = plan.options.schedule().ok().flatten();
        let due = match &plan.content {
            Content::Streams(..) => schedule.map(|s| s.packets_by(report.duration)),
            Content::Replay(recording) => recording.due(&plan.options, report.duration),
        };
        let mean_bytes = plan.content.mean_bytes();
        let sent_mean_bytes = match counters.offered_packets {
            0 => mean_bytes,
            packets => counters.offered_bytes as f64 / packets as f64,
        };
        let (size_bytes_min, size_bytes_max) = plan.content.size_bytes_range();
        Self {
            kind: "result",
            backend: match plan.backend {
                BackendName::Live => "live",
                BackendName::Packet => "packet",
                BackendName::Pcap(_) => "pcap",
            },
            interface: plan.path.as_ref().map(|path| path.link.name.clone()),
            ended_by,
            flow_count: flow_count(&plan.content),
            streams: outcomes(plan, report),
            replay: replayed(&plan.content),
            size_bytes_min,
            size_bytes_max,
            mean_size_bytes: mean_bytes,
            mean_size_with_fcs_bytes: mean_bytes + f64::from(FCS_BYTES),
            requested: plan.requested.to_string(),
            requested_pps: schedule.map(|schedule| schedule.rate_pps),
            ramp_ns: nanoseconds(plan.options.ramp),
            duration_ns: nanoseconds(report.duration),
            offered_packets: counters.offered_packets,
            offered_bytes: counters.offered_bytes,
            offered_pps: report.offered_pps(),
            accepted_packets: accepted.map(|(packets, _)| packets),
            accepted_counter: accepted.map(|(_, counter)| counter),
            shared_device_packets: shared,
            achieved_pps,
            achieved_percent: due
                .filter(|due| paced && *due >= 1.0)
                .map(|due| 100.0 * achieved as f64 / due),
            achieved_bps: achieved_pps * 8.0 * sent_mean_bytes,
            stalls: paced.then_some(counters.stalls),
            stall_lost_ns: paced.then_some(counters.stall_lost_ns),
            gap_max_ns: paced.then_some(counters.gap_max_ns),
            gap_ns: Distribution::new(&report.gaps_ns),
            threads: threads(report, paced),
        }
    }
}

/// What each thread of a run did.
fn threads(report: &GeneratorReport, paced: bool) -> Vec<ThreadResult> {
    let of = |thread: &ThreadReport| ThreadResult {
        cpu: thread.cpu,
        offered_packets: thread.counters.offered_packets,
        stalls: paced.then_some(thread.counters.stalls),
        gap_max_ns: paced.then_some(thread.counters.gap_max_ns),
    };
    report.threads.iter().map(of).collect()
}

/// What each stream of a run offered.
fn outcomes(plan: &Plan, report: &GeneratorReport) -> Vec<StreamOutcome> {
    // The plan has a backend for that many threads, so that there is such a set.
    let Content::Streams(traffic, names) = &plan.content else { return Vec::new() };
    let Ok(set) = traffic.set(plan.thread_count.into()) else { return Vec::new() };
    let streams = set.streams().iter().zip(names).enumerate();
    streams
        .map(|(index, (stream, name))| StreamOutcome {
            stream: stream.spec().stream,
            name: name.clone(),
            flow_count: stream.flows().flow_count(),
            offered_packets: report.packets_of(&set, index),
        })
        .collect()
}

fn flow_count(content: &Content) -> Option<u128> {
    match content {
        Content::Streams(traffic, _) => Some(traffic.flow_count()),
        Content::Replay(_) => None,
    }
}

fn replayed(content: &Content) -> Option<ReplayOutcome> {
    let Content::Replay(recording) = content else { return None };
    Some(ReplayOutcome {
        file: recording.file.display().to_string(),
        packets: recording.replay.packet_count(),
        bytes: recording.replay.byte_count(),
        duration_ns: nanoseconds(recording.replay.duration()),
        loops: recording.loops,
    })
}

/// A line for each of several streams.
fn streams(traffic: &Traffic, names: &[String]) -> Vec<String> {
    let streams = traffic.whole().streams();
    let weights = traffic.streams().iter().map(|(_, weight)| *weight);
    let described = streams.iter().zip(names).zip(weights).filter(|_| streams.len() > 1);
    let line = |((stream, name), weight): ((&StreamFrames, &String), u32)| {
        let spec = stream.spec();
        let flows = counted(stream.flows().flow_count(), "flow");
        format!(
            "  {name}: weight {weight}, {} from {} to {}, {flows}, {} bytes",
            spec.protocol, spec.src, spec.dst, spec.sizes
        )
    };
    described.map(line).collect()
}

/// The frame sizes, without FCS and with it.
fn sizes(content: &Content) -> String {
    let mean_bytes = content.mean_bytes();
    let with_fcs = mean_bytes + f64::from(FCS_BYTES);
    match content.size_bytes_range() {
        (min_bytes, max_bytes) if min_bytes == max_bytes => {
            format!("{min_bytes} bytes ({with_fcs} with FCS)")
        }
        (min_bytes, max_bytes) => format!(
            "{min_bytes} to {max_bytes} bytes, {mean_bytes:.1} on average ({with_fcs:.1} with FCS)"
        ),
    }
}

/// Several streams may have more flows than 64 bits count.
fn format_count_wide(count: u128) -> String {
    u64::try_from(count).map_or_else(|_| count.to_string(), format_count)
}

fn summary(result: &RunResult) -> String {
    let duration = Duration::from_nanos(result.duration_ns);
    let mut text = format!(
        "requested  {}\noffered    {} packets in {:.3} s, {}",
        result.requested,
        format_count(result.offered_packets),
        duration.as_secs_f64(),
        number::pps(result.offered_pps)
    );
    if let (Some(accepted), Some(counter)) = (result.accepted_packets, result.accepted_counter) {
        text += &format!("\naccepted   {} packets ({counter})", format_count(accepted));
        if let Some(packets) = result.shared_device_packets {
            text += &format!(
                "; the interface sent {} in all: others use it, so that a loss may be hidden",
                format_count(packets)
            );
        }
        if let Some(refused) = result.offered_packets.checked_sub(accepted).filter(|n| *n > 0) {
            text += &format!("; the device refused {}", format_count(refused));
        }
    }
    text += &format!(
        "\nachieved   {}, {} of frames without FCS",
        number::pps(result.achieved_pps),
        number::bps(result.achieved_bps)
    );
    if let Some(percent) = result.achieved_percent {
        text += &format!(", {percent:.2} % of what was requested");
    }
    if let (Some(stalls), Some(gap_ns)) = (result.stalls, result.gap_max_ns) {
        text += &format!(
            "\nstalls     {stalls}, which lost {}; longest gap {}",
            delay_ns(result.stall_lost_ns.unwrap_or(0)),
            delay_ns(gap_ns)
        );
    }
    if let Some(gaps) = &result.gap_ns {
        text += &format!("\ngaps       {}", gaps.words());
    }
    for stream in result.streams.iter().filter(|_| result.streams.len() > 1) {
        text += &format!("\n  {:<8} {} packets", stream.name, format_count(stream.offered_packets));
    }
    for thread in result.threads.iter().filter(|_| result.threads.len() > 1) {
        let cpu = thread.cpu.map_or_else(String::new, |cpu| format!("CPU {cpu}"));
        text += &format!("\n  {cpu:<8} {} packets", format_count(thread.offered_packets));
    }
    text
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn line(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    out.flush()
}

/// What a run comes to, on standard output: as text, or as an object with the text beside it on
/// standard error.
pub(crate) fn show_total(total: &impl Serialize, text: &str, json: bool) -> anyhow::Result<()> {
    if json {
        say(text.trim_end());
        return line(total).context(exit::NO_OUTPUT);
    }
    exit::put(text)
}

pub(crate) fn say(text: &str) {
    // A closed standard error must not end a run.
    drop(writeln!(anstream::stderr(), "{text}"));
}
