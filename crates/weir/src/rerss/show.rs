//! What is shown: lines, a table of CPUs, JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use serde::Serialize;
use weir_bpf::map::MapError;
use weir_bpf::rerss::{PROGRAM_NAME, QueueCounts, Rerss, RerssCounts};
use weir_results::number::{count, pps};
use weir_wire::rss::Settings;
use weir_wire::rss::inner::End;

/// Whether a program of this name, which the kernel may have cut, is this command's.
pub(super) fn is_ours(name: &str) -> bool {
    name == PROGRAM_NAME
}

/// A reading of all counters.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    at: Instant,
    is_on: bool,
    counts: RerssCounts,
    bucket_packets: Vec<u64>,
}

impl Seen {
    pub(super) fn new(rerss: &Rerss) -> Result<Self, MapError> {
        Ok(Self {
            at: Instant::now(),
            is_on: rerss.is_on(),
            counts: rerss.counts()?,
            bucket_packets: rerss.buckets()?,
        })
    }
}

/// The JSON object. Counts cover the time since the start, the rates an interval.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    kind: &'static str,
    interface: String,
    duration_ns: u64,
    is_on: bool,
    rate_pps: f64,
    dropped_pps: f64,
    received_packets: u64,
    passed_packets: u64,
    local_packets: u64,
    sent_packets: u64,
    dropped_packets: u64,
    failed_packets: u64,
    drained_packets: u64,
    unhashed_packets: u64,
    unplaced_packets: u64,
    fragments: Fragments,
    unread_packets: BTreeMap<&'static str, u64>,
    cpus: Vec<Cpu>,
    bucket_packets: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Fragments {
    first_packets: u64,
    followed_packets: u64,
    early_packets: u64,
}

#[derive(Debug, Serialize)]
struct Cpu {
    cpu: u16,
    bucket_count: usize,
    sent_packets: u64,
    queued_packets: u64,
    dropped_packets: u64,
    taken_packets: u64,
    failed_packets: u64,
    /// Taken in the interval.
    rate_pps: f64,
}

#[expect(clippy::cast_precision_loss, reason = "rates need no more than 53 bits")]
fn rate_pps(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

impl Report {
    /// Counts since `begin`, rates since `last`.
    pub(super) fn new(
        kind: &'static str,
        interface: &str,
        settings: &Settings,
        begin: &Seen,
        last: &Seen,
        now: &Seen,
    ) -> Self {
        let seconds = now.at.duration_since(last.at).as_secs_f64().max(1e-9);
        let counts = &now.counts;
        let all = |seen: &Seen, value: fn(&QueueCounts) -> u64| -> u64 {
            seen.counts.queues.values().map(value).sum()
        };
        let lost = |seen: &Seen| {
            all(seen, |queue| queue.dropped_packets + queue.failed_packets)
                + seen.counts.drained_packets
        };
        let cpu = |(cpu, queue): (&u16, &QueueCounts)| Cpu {
            cpu: *cpu,
            bucket_count: settings.table.queues().iter().filter(|of| *of == cpu).count(),
            sent_packets: queue.sent_packets,
            queued_packets: queue.queued_packets,
            dropped_packets: queue.dropped_packets,
            taken_packets: queue.taken_packets,
            failed_packets: queue.failed_packets,
            rate_pps: rate_pps(last.counts.queues[cpu].taken_packets, queue.taken_packets, seconds),
        };
        Self {
            kind,
            interface: interface.to_owned(),
            duration_ns: u64::try_from(now.at.duration_since(begin.at).as_nanos())
                .unwrap_or(u64::MAX),
            is_on: now.is_on,
            rate_pps: rate_pps(last.counts.received_packets, counts.received_packets, seconds),
            dropped_pps: rate_pps(lost(last), lost(now), seconds),
            received_packets: counts.received_packets,
            passed_packets: counts.passed_packets,
            local_packets: counts.local_packets,
            sent_packets: all(now, |queue| queue.sent_packets),
            dropped_packets: all(now, |queue| queue.dropped_packets),
            failed_packets: all(now, |queue| queue.failed_packets),
            drained_packets: counts.drained_packets,
            unhashed_packets: counts.unhashed_packets,
            unplaced_packets: counts.unplaced_packets,
            fragments: Fragments {
                first_packets: counts.first_packets,
                followed_packets: counts.followed_packets,
                early_packets: counts.early_packets,
            },
            unread_packets: End::UNREAD
                .iter()
                .map(|end| end.name())
                .zip(counts.unread_packets)
                .collect(),
            cpus: counts.queues.iter().map(cpu).collect(),
            bucket_packets: now.bucket_packets.clone(),
        }
    }

    /// Received in the interval, packets per second.
    pub(super) fn rate_pps(&self) -> f64 {
        self.rate_pps
    }

    /// The rates of the interval, on one line.
    pub(super) fn line(&self) -> String {
        let seconds = std::time::Duration::from_nanos(self.duration_ns).as_secs_f64();
        let state = if self.is_on { "on" } else { "off" };
        let mut text = format!("{seconds:.0} s  {state}  {} received", pps(self.rate_pps));
        for cpu in &self.cpus {
            // Writing to a string cannot fail.
            let _ = write!(text, ", {} by CPU {}", pps(cpu.rate_pps), cpu.cpu);
        }
        let _ = write!(text, ", {} lost", pps(self.dropped_pps));
        text
    }

    /// The same, and all counts since the start.
    pub(super) fn block(&self) -> String {
        let mut text = self.line() + "\n";
        let mut row = |what: &str, value: u64| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {what:<46} {:>16}", count(value));
        };
        row("received", self.received_packets);
        row("passed while it was off", self.passed_packets);
        row("on their CPU already", self.local_packets);
        for cpu in &self.cpus {
            let what = format!("handed to CPU {} ({} buckets)", cpu.cpu, cpu.bucket_count);
            row(&what, cpu.sent_packets);
            if cpu.dropped_packets > 0 {
                row("  dropped: its queue was full", cpu.dropped_packets);
            }
        }
        let others = [
            ("dropped: no memory", self.failed_packets),
            ("drained: dropped while buckets moved", self.drained_packets),
            ("without an IP header, on their CPU", self.unhashed_packets),
            ("for a CPU without a queue, on their CPU", self.unplaced_packets),
            ("first fragments", self.fragments.first_packets),
            ("later fragments that followed them", self.fragments.followed_packets),
            ("later fragments without one, by addresses", self.fragments.early_packets),
        ];
        let unread = End::UNREAD
            .map(|end| (format!("not read to the end: {end}"), self.unread_packets[end.name()]));
        let others = others.map(|(what, value)| (what.to_owned(), value));
        for (what, value) in others.into_iter().chain(unread).filter(|(_, value)| *value > 0) {
            row(&what, value);
        }
        text
    }
}
