//! What `weir sink` shows: the JSON object, a line, and a block of text. All three say the same.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use weir_bpf::histogram::Histogram;
use weir_bpf::sink::QueueCounters;
use weir_gen::observer::{Observed, StreamResult};
use weir_results::number::{bps, counted, pps};
use weir_wire::units::format_count;

/// The JSON object. Counts and distributions are since the start, rates are of the last interval,
/// or of the whole time in the total. Sizes are without FCS.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    kind: &'static str,
    duration_ns: u64,
    rate_pps: f64,
    rate_bps: f64,
    packets: u64,
    bytes: u64,
    foreign_packets: u64,
    untracked_packets: u64,
    elsewhere_packets: u64,
    unstamped_packets: u64,
    measured_packets: u64,
    ahead_packets: u64,
    queues: Vec<Queue>,
    streams: Vec<Stream>,
    latency_ns: Option<Distribution>,
    gap_ns: Option<Distribution>,
    reordering_extent_packets: Option<Distribution>,
}

#[derive(Debug, Serialize)]
struct Queue {
    queue: usize,
    rate_pps: f64,
    packets: u64,
    bytes: u64,
    foreign_packets: u64,
}

#[derive(Debug, Serialize)]
struct Stream {
    stream: u8,
    thread_count: u16,
    packets: u64,
    bytes: u64,
    expected_packets: Option<u64>,
    lost_packets: u64,
    surplus_packets: u64,
    duplicated_packets: u64,
    reordered_packets: u64,
    too_late_packets: u64,
    extent_max_packets: u64,
    flows_seen: Option<u64>,
    flow_count: Option<u64>,
}

/// Smallest, largest and mean value are exact, the quantiles within 1/64.
#[derive(Debug, Serialize)]
struct Distribution {
    count: u64,
    min: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
    mean: f64,
}

impl Distribution {
    fn new(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            count: histogram.count(),
            min: histogram.min()?,
            p50: histogram.quantile(500)?,
            p90: histogram.quantile(900)?,
            p99: histogram.quantile(990)?,
            p99_9: histogram.quantile(999)?,
            max: histogram.max()?,
            mean: histogram.mean()?,
        })
    }
}

impl Stream {
    fn new(result: &StreamResult) -> Self {
        Self {
            stream: result.stream,
            thread_count: result.thread_count,
            packets: result.packets,
            bytes: result.bytes,
            expected_packets: result.expected_packets,
            lost_packets: result.lost,
            surplus_packets: result.surplus,
            duplicated_packets: result.duplicated,
            reordered_packets: result.reordered,
            too_late_packets: result.too_late,
            extent_max_packets: result.extent_max,
            flows_seen: result.flows_seen,
            flow_count: result.flow_count,
        }
    }
}

impl Report {
    /// What was seen up to `now`; rates are since `last`. Queues that the interface does not have
    /// are left out.
    pub(super) fn new(
        kind: &'static str,
        first: &Observed,
        last: &Observed,
        now: &Observed,
        queue_count: usize,
    ) -> Self {
        let elapsed = Duration::from_nanos(now.t_ns - last.t_ns).as_secs_f64().max(1e-9);
        let rate = |now: u64, last: u64| (now - last) as f64 / elapsed;
        let (total, before) = (now.counters.total(), last.counters.total());
        let empty = QueueCounters::default();
        let pairs = now.counters.queues.iter().zip(&last.counters.queues).enumerate();
        let queues = pairs
            .filter(|(queue, (now, _))| *queue < queue_count || **now != empty)
            .map(|(queue, (now, last))| Queue {
                queue,
                rate_pps: rate(now.packets, last.packets),
                packets: now.packets,
                bytes: now.bytes,
                foreign_packets: now.foreign_packets,
            })
            .collect();
        let seen = &now.observations;
        Self {
            kind,
            duration_ns: now.t_ns - first.t_ns,
            rate_pps: rate(total.packets, before.packets),
            rate_bps: 8.0 * rate(total.bytes, before.bytes),
            packets: total.packets,
            bytes: total.bytes,
            foreign_packets: total.foreign_packets,
            untracked_packets: seen.untracked_packets,
            elsewhere_packets: seen.elsewhere_packets,
            unstamped_packets: seen.unstamped_packets,
            measured_packets: seen.measured_packets,
            ahead_packets: seen.ahead_packets,
            queues,
            streams: now.streams.iter().map(Stream::new).collect(),
            latency_ns: Distribution::new(&seen.latency_ns),
            gap_ns: Distribution::new(&seen.gap_ns),
            reordering_extent_packets: Distribution::new(&seen.extent),
        }
    }

    /// One line, for a log.
    pub(super) fn line(&self) -> String {
        let sum = |value: fn(&Stream) -> u64| format_count(self.streams.iter().map(value).sum());
        let mut line = format!(
            "{:>5.0} s  {:>10}  {} packets, {} lost, {} reordered, {} duplicated, {} foreign",
            Duration::from_nanos(self.duration_ns).as_secs_f64(),
            pps(self.rate_pps),
            format_count(self.packets),
            sum(|stream| stream.lost_packets),
            sum(|stream| stream.reordered_packets),
            sum(|stream| stream.duplicated_packets),
            format_count(self.foreign_packets),
        );
        if let Some(latency) = &self.latency_ns {
            let (p50, p99) = (microseconds(latency.p50), microseconds(latency.p99));
            // Writing to a string cannot fail.
            let _ = write!(line, ", latency {p50} (p99 {p99}) µs");
        }
        line
    }

    /// Several lines, each ended.
    pub(super) fn block(&self) -> String {
        let mut lines = vec![format!(
            "{:.1} s  {}  {}  {} packets  {} bytes  {} foreign",
            Duration::from_nanos(self.duration_ns).as_secs_f64(),
            pps(self.rate_pps),
            bps(self.rate_bps),
            format_count(self.packets),
            format_count(self.bytes),
            format_count(self.foreign_packets),
        )];
        for queue in &self.queues {
            lines.push(format!(
                "queue {:<3} {:>10}  {} packets  {} foreign",
                queue.queue,
                pps(queue.rate_pps),
                format_count(queue.packets),
                format_count(queue.foreign_packets),
            ));
        }
        lines.extend(self.streams.iter().map(Stream::text));
        lines.extend(self.remarks());
        lines.push(format!(
            "times are of {} of {} packets",
            format_count(self.measured_packets),
            format_count(self.packets),
        ));
        let distributions =
            [("latency µs", &self.latency_ns), ("between arrivals µs", &self.gap_ns)];
        for (name, distribution) in distributions {
            lines.extend(distribution.as_ref().map(|d| d.text(name, microseconds)));
        }
        let extent = self.reordering_extent_packets.as_ref();
        lines.extend(extent.map(|d| d.text("reordering extent", format_count)));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// What limits the other figures.
    fn remarks(&self) -> Vec<String> {
        let too_late: u64 = self.streams.iter().map(|stream| stream.too_late_packets).sum();
        let surplus: u64 = self.streams.iter().map(|stream| stream.surplus_packets).sum();
        [
            (
                too_late,
                "came too late to be judged, and count as lost; \
                 a generator that started over looks like this: restart the sink",
            ),
            (
                surplus,
                "are more than the stream's threads can have sent: \
                 the number of threads is wrong, and so is the loss (give --expect)",
            ),
            (self.untracked_packets, "come from senders beyond the first 64, and are not tracked"),
            (
                self.elsewhere_packets,
                "came on queues that were added while the sink ran, and are not tracked: restart \
                 the sink",
            ),
            (self.unstamped_packets, "carry no send time, and have no latency"),
            (self.ahead_packets, "were stamped by another host's clock, and have no latency"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} packets {what}", format_count(count)))
        .collect()
    }
}

impl Stream {
    fn text(&self) -> String {
        let mut text = format!(
            "stream {} ({} thread{})  {} packets",
            self.stream,
            self.thread_count,
            if self.thread_count == 1 { "" } else { "s" },
            format_count(self.packets),
        );
        if let Some(expected) = self.expected_packets {
            let _ = write!(text, " of {}", format_count(expected));
        }
        let _ = write!(
            text,
            "  {} lost  {} reordered  {} duplicated",
            format_count(self.lost_packets),
            format_count(self.reordered_packets),
            format_count(self.duplicated_packets),
        );
        if let (Some(seen), Some(count)) = (self.flows_seen, self.flow_count) {
            let _ = write!(text, "  {} of {}", format_count(seen), counted(count, "flow"));
        }
        text
    }
}

impl Distribution {
    fn text(&self, name: &str, unit: fn(u64) -> String) -> String {
        format!(
            "{name:<20} min {}  p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
            unit(self.min),
            unit(self.p50),
            unit(self.p90),
            unit(self.p99),
            unit(self.p99_9),
            unit(self.max),
        )
    }
}

fn microseconds(value_ns: u64) -> String {
    format!("{:.1}", value_ns as f64 / 1e3)
}
